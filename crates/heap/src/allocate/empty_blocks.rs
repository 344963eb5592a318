//! Which blocks are empty: a bit for each, in words of 64, so that a search passes 64 blocks in use,
//! or 64 empty ones, at a step.

use std::ops::Range;

use crate::os::Refused;
use crate::stack::Stack;

/// The blocks that were handed out before and are empty now.
///
/// Invariant:
/// 9. A bit is set exactly when its block is empty and lies below `used_limit`; in the words
///    before `lowest` no bit is set.
#[derive(Debug, Default)]
pub(super) struct EmptyBlocks {
    words: Stack<u64>,
    lowest: usize,
}

const WORD_BLOCKS: usize = u64::BITS as usize;

impl EmptyBlocks {
    /// Room for the bits of `blocks` blocks; there are no bits yet.
    pub(super) fn new(blocks: usize) -> Result<Self, Refused> {
        Ok(Self {
            words: Stack::new(blocks.div_ceil(WORD_BLOCKS))?,
            lowest: 0,
        })
    }

    /// Adds bits for the blocks below `end` that have none yet, not set.
    pub(super) fn cover(&mut self, end: usize) -> Result<(), Refused> {
        while self.words.len() * WORD_BLOCKS < end {
            self.words.push(0)?;
        }
        Ok(())
    }

    /// These blocks have become empty.
    pub(super) fn add(&mut self, blocks: Range<usize>) {
        self.lowest = self.lowest.min(blocks.start / WORD_BLOCKS);
        for (index, bits) in masks(blocks) {
            self.words.as_mut_slice()[index] |= bits;
        }
    }

    /// These blocks are in use from now on.
    pub(super) fn remove(&mut self, blocks: Range<usize>) {
        for (index, bits) in masks(blocks) {
            self.words.as_mut_slice()[index] &= !bits;
        }
        while self.words.as_slice().get(self.lowest) == Some(&0) {
            self.lowest += 1;
        }
    }

    /// No block below this one is empty.
    pub(super) fn lowest(&self) -> usize {
        self.lowest * WORD_BLOCKS
    }

    /// Whether a block is empty.
    pub(super) fn has(&self, block: usize) -> bool {
        let word = self.words.as_slice().get(block / WORD_BLOCKS);
        word.is_some_and(|word| word >> (block % WORD_BLOCKS) & 1 == 1)
    }

    /// The runs of at least `count` empty blocks from the block `from` on, lowest first.
    pub(super) fn runs(
        &self,
        from: usize,
        count: usize,
    ) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut from = from.max(self.lowest());
        std::iter::from_fn(move || {
            let start = self.next_run(from, count)?;
            from = self.next_in_use(start);
            Some(start..from)
        })
    }

    fn words_from(&self, block: usize) -> impl Iterator<Item = (usize, u64)> + '_ {
        let words = self.words.as_slice().iter().enumerate();
        let words = words.map(|(index, &word)| (index * WORD_BLOCKS, word));
        words.skip(block / WORD_BLOCKS)
    }

    /// Where the first run of [`EmptyBlocks::runs`] begins: in the word that is looked at, or in
    /// the words before it.
    fn next_run(&self, from: usize, count: usize) -> Option<usize> {
        let mut wanted = u64::MAX << (from % WORD_BLOCKS);
        let mut before = 0;
        for (first, word) in self.words_from(from) {
            let empty = word & wanted;
            if before > 0 && before + empty.trailing_ones() as usize >= count {
                return Some(first - before);
            }
            let starts = starts_of_runs(empty, count);
            if starts != 0 {
                return Some(first + starts.trailing_zeros() as usize);
            }
            before = match empty {
                u64::MAX => before + WORD_BLOCKS,
                _ => empty.leading_ones() as usize,
            };
            wanted = u64::MAX;
        }
        None
    }

    /// The first block behind the empty block `from` that is not empty.
    fn next_in_use(&self, from: usize) -> usize {
        let mut passed = !(u64::MAX << (from % WORD_BLOCKS));
        for (first, word) in self.words_from(from) {
            let empty = word | passed;
            if empty != u64::MAX {
                return first + empty.trailing_ones() as usize;
            }
            passed = 0;
        }
        self.words.len() * WORD_BLOCKS
    }
}

/// The bits of `bits` at which `count` set bits in a row begin.
fn starts_of_runs(bits: u64, count: usize) -> u64 {
    let (mut starts, mut length) = (bits, 1);
    while length < count && starts != 0 {
        let step = length.min(count - length);
        // Zeros come in behind the last bit, so no bit is left for a run longer than a word.
        starts &= starts.checked_shr(step as u32).unwrap_or(0);
        length += step;
    }
    starts
}

/// The indices of the words that have bits of these blocks, each with a mask of those bits.
fn masks(blocks: Range<usize>) -> impl Iterator<Item = (usize, u64)> {
    let words = blocks.start / WORD_BLOCKS..blocks.end.div_ceil(WORD_BLOCKS);
    words.map(move |index| {
        let before = blocks.start.saturating_sub(index * WORD_BLOCKS);
        let behind = ((index + 1) * WORD_BLOCKS).saturating_sub(blocks.end);
        (index, u64::MAX << before & u64::MAX >> behind)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKS: usize = 300;

    fn none_empty() -> EmptyBlocks {
        let mut empty = EmptyBlocks::new(BLOCKS).unwrap();
        empty.cover(BLOCKS).unwrap();
        empty
    }

    #[test]
    fn what_is_added_and_not_removed_is_found_as_runs() {
        let mut empty = none_empty();
        empty.add(10..200);
        empty.remove(63..65);
        empty.remove(128..129);
        empty.add(299..300);
        let runs = |from, count| empty.runs(from, count).collect::<Vec<_>>();
        assert_eq!(runs(0, 1), [10..63, 65..128, 129..200, 299..300]);
        assert_eq!(runs(64, 1), [65..128, 129..200, 299..300]);
        assert_eq!(runs(130, 1), [130..200, 299..300]);
        assert_eq!(runs(0, 54), [65..128, 129..200]);
        assert_eq!(runs(0, 71).first(), Some(&(129..200)));
        assert_eq!(runs(0, 71).len(), 1);
        assert_eq!(runs(130, 71), []);
        let has = |block| runs(0, 1).iter().any(|run| run.contains(&block));
        assert!((0..2 * BLOCKS).all(|block| empty.has(block) == has(block)));
    }

    #[test]
    fn whole_words_are_runs_too_and_the_end_ends_one() {
        let mut empty = none_empty();
        empty.add(64..320);
        for count in [1, 64, 65, 256] {
            let mut runs = empty.runs(0, count);
            assert_eq!((runs.next(), runs.next()), (Some(64..320), None));
        }
        assert_eq!(empty.runs(0, 257).next(), None);
    }

    #[test]
    fn a_run_is_found_wherever_it_begins_and_however_long_it_is() {
        for start in 0..70 {
            for length in [1, 2, 3, 31, 63, 64, 65, 127, 130] {
                let mut empty = none_empty();
                // Shorter ones before it, and one behind it.
                (0..start.max(1) - 1)
                    .step_by(2)
                    .for_each(|hole| empty.add(hole..hole + 1));
                empty.add(start..start + length);
                empty.add(299..300);
                let found = |count| empty.runs(0, count).find(|run| run.start >= start);
                assert_eq!(found(length), Some(start..start + length));
                assert!(found(length + 1).is_none());
            }
        }
    }

    #[test]
    fn the_lowest_words_are_passed_over_while_they_have_no_empty_block() {
        let mut empty = none_empty();
        empty.add(5..6);
        empty.add(200..210);
        assert_eq!(empty.lowest(), 0);
        empty.remove(5..6);
        assert_eq!(empty.lowest(), 192);
        empty.add(70..71);
        assert_eq!(empty.lowest(), 64);
        empty.remove(70..71);
        empty.remove(200..210);
        assert!(empty.lowest() >= BLOCKS && empty.runs(0, 1).next().is_none());
    }
}
