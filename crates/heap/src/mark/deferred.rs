//! Cells with very many references, which are marked a few at a time.
//!
//! A table of a million references takes longer to trace than a slice may last,
//! and the program may change it between two slices. The write barrier notes what the program
//! stores into the table, but nothing notes what the program moves within it. So a VM hands over
//! the references of such a cell as they are now ([`Deferred::keep`]). If they only ever move
//! downwards, it just says where they end ([`Rest::Below`]), and they are traced from
//! there downwards.

use crate::layout::region::Cell;
use crate::os::Refused;
use crate::stack::Stack;

/// References that are marked between two looks at the budget of the slice.
pub(super) const REFERENCES_AT_ONCE: usize = 64;

/// What is left of the cells that are being marked in parts.
#[derive(Debug)]
pub(super) struct Deferred {
    cells: Stack<(Cell, Rest)>,
    /// The words that were handed over, those of the top cell on top.
    words: Stack<usize>,
}

/// What is still to be marked of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// This many of the words that were handed over; [`Deferred::pop_word`] takes them.
    Words(usize),
    /// The references that the cell has below this index.
    Below(usize),
}

impl Deferred {
    pub(super) fn new(cells: usize, words: usize) -> Result<Self, Refused> {
        Ok(Self {
            cells: Stack::new(cells)?,
            words: Stack::new(words)?,
        })
    }

    pub(super) fn limit(&mut self, items: usize) {
        self.cells.limit(items);
        self.words.limit(items);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.cells.clear_and_release();
        self.words.clear_and_release();
    }

    /// Notes the `references` of `cell`, or none of them when there is no room for all.
    pub(super) fn keep(&mut self, cell: Cell, references: &[usize]) -> Result<(), Refused> {
        let before = self.words.len();
        self.words.push_all(references)?;
        self.put_back(cell, Rest::Words(references.len()))
            .inspect_err(|_| self.words.truncate(before))
    }

    /// Takes a cell and what is left of it. The caller puts back what it does not mark now.
    pub(super) fn pop(&mut self) -> Option<(Cell, Rest)> {
        self.cells.pop()
    }

    /// Takes one word that was handed over.
    pub(super) fn pop_word(&mut self) -> Option<usize> {
        self.words.pop()
    }

    /// Notes that `rest` is left of `cell`. For the cell that was taken last this is refused only
    /// when the stack has been limited since.
    pub(super) fn put_back(&mut self, cell: Cell, rest: Rest) -> Result<(), Refused> {
        self.cells.push((cell, rest))
    }

    /// Cells that have references left.
    pub(super) fn iter(&self) -> impl Iterator<Item = Cell> + '_ {
        self.cells.as_slice().iter().map(|&(cell, _)| cell)
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
        let mut deferred = Deferred::new(1000, 1000).unwrap();
        deferred
            .keep(cell(1), &[10, 11, 12, 13, 14, 15, 16, 17])
            .unwrap();
        deferred.put_back(cell(2), Rest::Below(7)).unwrap();
        assert_eq!(deferred.iter().collect::<Vec<_>>(), [cell(1), cell(2)]);
        assert_eq!(deferred.pop(), Some((cell(2), Rest::Below(7))));
        let mut taken = Vec::new();
        while let Some((parent, rest)) = deferred.pop() {
            let Rest::Words(count) = rest else {
                panic!("{rest:?}")
            };
            assert_eq!(parent, cell(1));
            taken.extend((0..count.min(3)).map(|_| deferred.pop_word().unwrap()));
            if count > 3 {
                deferred.put_back(parent, Rest::Words(count - 3)).unwrap();
            }
        }
        taken.reverse();
        assert_eq!(taken, [10, 11, 12, 13, 14, 15, 16, 17]);
        assert!(deferred.is_empty());
    }

    #[test]
    fn what_does_not_fit_leaves_nothing_behind() {
        let mut deferred = Deferred::new(1000, 1000).unwrap();
        deferred.keep(cell(1), &[1, 2]).unwrap();
        deferred.limit(6);
        assert!(deferred.keep(cell(2), &[10; 5]).is_err());
        deferred.cells.limit(1);
        assert!(deferred.keep(cell(2), &[10; 3]).is_err());
        assert!(deferred.put_back(cell(2), Rest::Below(3)).is_err());
        assert_eq!(deferred.pop(), Some((cell(1), Rest::Words(2))));
        let words = [
            deferred.pop_word(),
            deferred.pop_word(),
            deferred.pop_word(),
        ];
        assert_eq!(words, [Some(2), Some(1), None]);
    }
}
