//! Cells with very many references, which are marked a few at a time.
//!
//! A table of a million references takes longer to trace than a slice may last,
//! and the program may change it between two slices. What it stores, the barrier
//! shows; what it moves within the cell, nobody tells. So a VM hands over the
//! references of such a cell as they are now ([`Deferred::keep`]); or, when they
//! only ever move downwards, just says where they end ([`Deferred::continue_at`]),
//! and they are traced from there on downwards.

use crate::layout::region::Cell;
use crate::os::{Refused, WordStack};

/// References marked between two looks at what a slice may still do.
pub(crate) const REFERENCES_AT_ONCE: usize = 64;

/// What is left of the cells that are being marked in parts. On the stack, from
/// the top: whose references they are, with the lowest bit set when they were
/// handed over; how many; and those.
#[derive(Debug)]
pub(crate) struct Deferred(WordStack);

const KEPT: usize = 1;

/// The next references to mark.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// So many that were handed over: [`Deferred::pop_kept`] has them.
    Kept(usize),
    /// Those that the cell has below this index.
    Below(usize),
}

impl Deferred {
    pub(crate) fn new(words: usize) -> Result<Self, Refused> {
        Ok(Self(WordStack::new(words)?))
    }

    pub(crate) fn limit(&mut self, words: usize) {
        self.0.limit(words);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear_and_release();
    }

    /// Takes the references of `cell`. When there is no room none is taken.
    pub(crate) fn keep(&mut self, cell: Cell, references: &[usize]) -> Result<(), Refused> {
        let before = self.0.len();
        self.0.push_all(references)?;
        self.put_back(cell, references.len())
            .inspect_err(|_| self.0.truncate(before))
    }

    /// Notes that the references of `cell` below `end` are to be traced.
    pub(crate) fn continue_at(&mut self, cell: Cell, end: usize) -> Result<(), Refused> {
        self.push_both(end, cell.address())
    }

    /// Takes the next part, of which cell. Of one that is [`Part::Kept`] the
    /// references come next; what is not taken of them is put back with
    /// [`Deferred::put_back`].
    pub(crate) fn pop(&mut self) -> Option<(Cell, Part)> {
        let word = self.0.pop()?;
        let count = self.0.pop()?;
        // SAFETY: only cells are deferred.
        let cell = unsafe { Cell::from_address(word & !KEPT) };
        let is_kept = word & KEPT != 0;
        Some((
            cell,
            if is_kept {
                Part::Kept(count)
            } else {
                Part::Below(count)
            },
        ))
    }

    /// Takes one word that was handed over.
    pub(crate) fn pop_kept(&mut self) -> Option<usize> {
        self.0.pop()
    }

    /// Of the references of `cell` so many are still to be taken. Refused only
    /// when the stack has been limited since.
    pub(crate) fn put_back(&mut self, cell: Cell, count: usize) -> Result<(), Refused> {
        self.push_both(count, cell.address() | KEPT)
    }

    fn push_both(&mut self, count: usize, word: usize) -> Result<(), Refused> {
        let before = self.0.len();
        self.0.push(count)?;
        self.0.push(word).inspect_err(|_| self.0.truncate(before))
    }

    /// Cells of which references are left.
    pub(crate) fn cells(&self) -> impl Iterator<Item = usize> + '_ {
        let words = self.0.as_slice();
        let mut end = words.len();
        std::iter::from_fn(move || {
            let &[.., count, word] = &words[..end] else {
                return None;
            };
            end -= 2 + if word & KEPT != 0 { count } else { 0 };
            Some(word & !KEPT)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(number: usize) -> Cell {
        // SAFETY: never read.
        unsafe { Cell::from_address(number * 64) }
    }

    #[test]
    fn what_is_taken_in_parts_is_all_that_was_handed_over() {
        let mut deferred = Deferred::new(1000).unwrap();
        deferred
            .keep(cell(1), &[10, 11, 12, 13, 14, 15, 16, 17])
            .unwrap();
        deferred.continue_at(cell(2), 7).unwrap();
        assert_eq!(deferred.cells().collect::<Vec<_>>(), [128, 64]);
        let Some((parent, Part::Below(7))) = deferred.pop() else {
            panic!("the last first")
        };
        assert_eq!(parent, cell(2));
        let mut taken = Vec::new();
        while let Some((parent, part)) = deferred.pop() {
            let Part::Kept(count) = part else {
                panic!("{part:?}")
            };
            assert_eq!(parent, cell(1));
            taken.extend((0..count.min(3)).map(|_| deferred.pop_kept().unwrap()));
            if count > 3 {
                deferred.put_back(parent, count - 3).unwrap();
            }
        }
        taken.reverse();
        assert_eq!(taken, [10, 11, 12, 13, 14, 15, 16, 17]);
        assert!(deferred.is_empty());
    }

    #[test]
    fn what_does_not_fit_leaves_nothing_behind() {
        let mut deferred = Deferred::new(1000).unwrap();
        deferred.continue_at(cell(2), 7).unwrap();
        deferred.limit(6);
        assert!(deferred.keep(cell(1), &[10; 10]).is_err());
        assert!(deferred.keep(cell(1), &[10; 3]).is_err());
        assert_eq!(deferred.cells().collect::<Vec<_>>(), [128]);
        deferred.keep(cell(1), &[10; 2]).unwrap();
    }
}
