//! The parts of a block of cells: where a minor collection may free something, and the
//! states of a part's cells, all at once.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::cell_state::{eight_aged_once_more, those_with};
use super::{BLOCK_SHIFT, STATE_SHIFT};

/// A block has as many parts as a word has bits.
pub(crate) const PARTS_PER_BLOCK: usize = u64::BITS as usize;
/// Log2 of a part's bytes.
pub(crate) const PART_SHIFT: u32 = BLOCK_SHIFT - PARTS_PER_BLOCK.trailing_zeros();
/// Granules of a part, each with a state.
pub(crate) const GRANULES_PER_PART: usize = 1 << (PART_SHIFT - STATE_SHIFT);
const WORDS_PER_PART: usize = GRANULES_PER_PART / size_of::<u64>();

const _: () = assert!(GRANULES_PER_PART == Granules::BITS as usize);

/// Some parts of a block, a bit each. A cell belongs to the part in which it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Parts(pub(crate) u64);

impl Parts {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const ALL: Self = Self(u64::MAX);

    /// Whether the part is among them in which the byte at `offset` lies.
    pub(crate) fn has(self, offset: usize) -> bool {
        self.0 >> (offset >> PART_SHIFT) & 1 != 0
    }

    /// Adds every part in which some of these bytes lie; there is at least one.
    #[inline(always)]
    pub(crate) fn add_range(&mut self, offsets: Range<usize>) {
        let first = offsets.start >> PART_SHIFT;
        let last = (offsets.end - 1) >> PART_SHIFT;
        self.0 |= u64::MAX << first & u64::MAX >> (PARTS_PER_BLOCK - 1 - last);
    }

    /// Adds one of them, by its number.
    #[inline(always)]
    pub(crate) fn add_part(&mut self, part: usize) {
        self.0 |= 1 << part;
    }

    /// These parts and others.
    pub(crate) fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// The numbers of these parts, lowest first.
    #[inline(always)]
    pub(crate) fn numbers(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let part = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (part < PARTS_PER_BLOCK).then_some(part)
        })
    }
}

/// A bit for each granule of one part.
pub(crate) type Granules = u32;

/// The states of one part's granules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartStates<'region>(&'region [AtomicU64; WORDS_PER_PART]);

impl<'region> PartStates<'region> {
    /// Those of the `part`-th part of the block that has these states.
    #[inline(always)]
    pub(crate) fn of(states_of_block: &'region [AtomicU64], part: usize) -> Self {
        let words = states_of_block[part * WORDS_PER_PART..].first_chunk();
        Self(words.expect("a block has as many states as its parts have"))
    }

    /// The granules whose state has all of `BITS`.
    #[inline(always)]
    pub(crate) fn with<const BITS: u8>(self) -> Granules {
        let mut granules = 0;
        for (index, word) in self.0.iter().enumerate() {
            let eight = those_with::<BITS>(u64::from_le(word.load(Relaxed)));
            granules |= (gathered(eight) as Granules) << (8 * index);
        }
        granules
    }

    /// Young cells that a collection has found lose their marks and age.
    #[inline(always)]
    pub(crate) fn age_young(self) {
        for word in self.0 {
            let eight = word.load(Relaxed);
            let aged = eight_aged_once_more(eight);
            if aged != eight {
                word.store(aged, Relaxed);
            }
        }
    }
}

/// The lowest bits of eight bytes, side by side. The factor has a bit 7 above the lowest,
/// one 14 above, and so on: they carry each byte's bit to its place in the highest byte, and
/// no two products meet.
#[inline(always)]
fn gathered(lowest_bits: u64) -> u8 {
    (lowest_bits.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

/// The numbers of these granules, lowest first.
#[inline(always)]
pub(crate) fn numbers_of(granules: Granules) -> impl Iterator<Item = usize> {
    let mut left = granules;
    std::iter::from_fn(move || {
        let granule = left.trailing_zeros() as usize;
        left &= left.wrapping_sub(1);
        (granule < GRANULES_PER_PART).then_some(granule)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::cell_state::CellState;
    use crate::layout::BLOCK_BYTES;

    #[test]
    fn the_numbers_of_parts_and_of_granules_are_those_of_their_bits() {
        for bits in [0, 1, 1 << 63, 0x8421_0ff0_c000_0103, u64::MAX] {
            let expected: Vec<_> = (0..64).filter(|bit| bits >> bit & 1 != 0).collect();
            assert_eq!(Parts(bits).numbers().collect::<Vec<_>>(), expected);
            let expected: Vec<_> = expected.into_iter().filter(|&bit| bit < 32).collect();
            assert_eq!(numbers_of(bits as Granules).collect::<Vec<_>>(), expected);
        }
    }

    /// A block whose states are every byte, and some more than once.
    fn states() -> Vec<AtomicU64> {
        let byte = |index: usize| (index * 167 + index / 256 * 13) as u8;
        let word = |index| u64::from_le_bytes(std::array::from_fn(|at| byte(8 * index + at)));
        (0..PARTS_PER_BLOCK * WORDS_PER_PART)
            .map(|index| AtomicU64::new(word(index)))
            .collect()
    }

    fn state(states: &[AtomicU64], granule: usize) -> CellState {
        CellState(states[granule / 8].load(Relaxed).to_le_bytes()[granule % 8])
    }

    #[test]
    fn the_granules_with_some_bits_are_those_whose_states_have_them() {
        const TWO: u8 = CellState::OLD | CellState::AGED_TWICE;
        let states = states();
        for part in 0..PARTS_PER_BLOCK {
            let of_part = PartStates::of(&states, part);
            let (one, two) = (of_part.with::<{ CellState::LIVE }>(), of_part.with::<TWO>());
            for granule in 0..GRANULES_PER_PART {
                let state = state(&states, part * GRANULES_PER_PART + granule);
                assert_eq!(one >> granule & 1 != 0, state.is_live(), "{state:?}");
                assert_eq!(two >> granule & 1 != 0, state.is_settled(), "{state:?}");
            }
        }
    }

    #[test]
    fn marked_young_cells_age_and_lose_their_marks_and_no_others() {
        let (states, before) = (states(), states());
        for part in 0..PARTS_PER_BLOCK {
            PartStates::of(&states, part).age_young();
        }
        for granule in 0..PARTS_PER_BLOCK * GRANULES_PER_PART {
            let (now, before) = (state(&states, granule), state(&before, granule));
            if before.is_old() || !before.is_marked() {
                assert_eq!(now, before);
                continue;
            }
            let ages = CellState::AGED | CellState::AGED_TWICE;
            let unaged = before.without(CellState::MARKED | ages);
            assert_eq!(now.without(ages), unaged, "{before:?}");
            assert_eq!(now.age(), 2.min(before.age() + 1), "{before:?}");
        }
    }

    #[test]
    fn a_range_has_every_part_that_it_touches() {
        let part_bytes = 1 << PART_SHIFT;
        let step = if cfg!(miri) { 11 } else { 1 } * part_bytes / 2;
        for start in (0..BLOCK_BYTES).step_by(step) {
            for end in [
                start + 1,
                start + part_bytes,
                start + 3 * part_bytes + 1,
                BLOCK_BYTES,
            ] {
                let end = end.min(BLOCK_BYTES);
                let mut parts = Parts::NONE;
                parts.add_range(start..end);
                for part in 0..PARTS_PER_BLOCK {
                    let touched = part * part_bytes < end && start < (part + 1) * part_bytes;
                    assert_eq!(
                        parts.has(part * part_bytes),
                        touched,
                        "{start}..{end} {part}"
                    );
                }
            }
        }
    }
}
