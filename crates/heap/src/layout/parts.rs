//! The parts of a block of cells: where a minor collection may free something.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::cell_state::{eight_aged_once_more, CellState};
use super::width::WidthIndex;
use super::{BLOCK_SHIFT, STATE_SHIFT};

/// A block has as many parts as a word has bits.
const PARTS_PER_BLOCK: u32 = u64::BITS;
/// Log2 of a part's bytes.
const PART_SHIFT: u32 = BLOCK_SHIFT - PARTS_PER_BLOCK.trailing_zeros();
/// Words of states of a part, eight states each.
const WORDS_PER_PART: usize = 1 << (PART_SHIFT - STATE_SHIFT - 3);

/// Some parts of a block, a bit each. A cell belongs to the part in which it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Parts(pub(crate) u64);

impl Parts {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const ALL: Self = Self(u64::MAX);

    /// Whether these include the part in which the byte at `offset` lies.
    pub(crate) fn has(self, offset: usize) -> bool {
        self.0 >> (offset >> PART_SHIFT) & 1 != 0
    }

    /// Adds the part of the cell at `offset`.
    #[inline(always)]
    pub(crate) fn add(&mut self, offset: usize) {
        self.0 |= 1 << (offset >> PART_SHIFT);
    }

    /// Adds the part of the cell at `offset` if the cell is young; `state` is its state.
    #[inline(always)]
    pub(crate) fn add_if_young(&mut self, offset: usize, state: CellState) {
        if !state.is_old() {
            self.add(offset);
        }
    }

    /// Adds every part in which some of these bytes lie. The range must not be empty.
    #[inline(always)]
    pub(crate) fn add_range(&mut self, offsets: Range<usize>) {
        let first = offsets.start >> PART_SHIFT;
        let last = (offsets.end - 1) >> PART_SHIFT;
        self.0 |= u64::MAX << first & u64::MAX >> (PARTS_PER_BLOCK as usize - 1 - last);
    }

    /// Ages the marked young cells in these parts of a block, and clears their marks.
    /// `states_of_block` are the states of all cells in the block.
    #[inline(always)]
    pub(crate) fn age(self, states_of_block: &[AtomicU64]) {
        let mut left = self.0;
        while left != 0 {
            let part = left.trailing_zeros() as usize;
            left &= left - 1;
            for word in &states_of_block[part * WORDS_PER_PART..][..WORDS_PER_PART] {
                let eight = word.load(Relaxed);
                let aged = eight_aged_once_more(eight);
                if aged != eight {
                    word.store(aged, Relaxed);
                }
            }
        }
    }

    /// The cells of this width that belong to these parts, as ranges of cell numbers, lowest
    /// first; no two ranges touch.
    #[inline(always)]
    pub(crate) fn cells(self, width: WidthIndex) -> CellRanges {
        CellRanges { left: self, width }
    }
}

/// The iterator of [`Parts::cells`].
#[derive(Debug)]
pub(crate) struct CellRanges {
    left: Parts,
    width: WidthIndex,
}

impl Iterator for CellRanges {
    type Item = Range<usize>;

    #[inline(always)]
    fn next(&mut self) -> Option<Range<usize>> {
        let left = self.left.0;
        if left == 0 {
            return None;
        }
        let first = left.trailing_zeros();
        let parts = (left >> first).trailing_ones();
        // The carry clears the bits of the lowest range and no others.
        self.left = Parts(left & left.wrapping_add(1 << first));
        let cell_at = |part: u32| ((part as usize) << PART_SHIFT).div_ceil(self.width.bytes());
        let end = cell_at(first + parts).min(self.width.cells_per_block());
        Some(cell_at(first).min(end)..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::cell_state::CellState;
    use crate::layout::BLOCK_BYTES;

    /// Parts of every shape: none, all, one, all but one, and some.
    fn examples() -> Vec<Parts> {
        let mut examples = vec![Parts::NONE, Parts::ALL, Parts(0x8421_0ff0_c000_0103)];
        // The interpreter is too slow for all of them.
        let step = if cfg!(miri) { 21 } else { 1 };
        for bit in (0..PARTS_PER_BLOCK).step_by(step) {
            examples.extend([Parts(1 << bit), Parts(!(1 << bit))]);
        }
        examples
    }

    #[test]
    fn the_cells_of_some_parts_are_those_that_begin_there() {
        for (parts, width) in examples()
            .into_iter()
            .flat_map(|parts| WidthIndex::all().map(move |width| (parts, width)))
        {
            let found: Vec<usize> = parts.cells(width).flatten().collect();
            let expected: Vec<usize> = (0..width.cells_per_block())
                .filter(|cell| parts.has(cell * width.bytes()))
                .collect();
            assert_eq!(found, expected, "{parts:?} {width:?}");
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
                for part in 0..PARTS_PER_BLOCK as usize {
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

    #[test]
    fn a_cell_is_in_the_part_where_it_begins() {
        let mut parts = Parts::NONE;
        parts.add(1023);
        parts.add(BLOCK_BYTES - 1);
        assert_eq!(parts, Parts(1 | 1 << 63));
    }

    #[test]
    fn marked_young_cells_of_the_parts_age_and_lose_their_marks_and_no_others() {
        let byte = |index: usize| (index * 167 + index / 256 * 13) as u8;
        let count = PARTS_PER_BLOCK as usize * WORDS_PER_PART * 8;
        let before: Vec<_> = (0..count).map(|index| CellState(byte(index))).collect();
        let words: Vec<_> = before
            .chunks_exact(8)
            .map(|eight| u64::from_le_bytes(std::array::from_fn(|index| eight[index].0)).into())
            .collect();
        let parts = Parts(0x8421_0ff0_c000_0103);
        parts.age(&words);
        let after = words
            .iter()
            .flat_map(|word| word.load(Relaxed).to_le_bytes());
        for ((index, before), after) in before.into_iter().enumerate().zip(after.map(CellState)) {
            let is_young_survivor = before.is_marked() && !before.is_old();
            if !is_young_survivor || !parts.has(index << STATE_SHIFT) {
                assert_eq!(after, before);
                continue;
            }
            let ages = CellState::AGE_LOW | CellState::AGE_HIGH;
            let unaged = before.without(CellState::MARKED | ages);
            assert_eq!(after.without(ages), unaged, "{before:?}");
            assert_eq!(after.age(), 2.min(before.age() + 1), "{before:?}");
        }
    }
}
