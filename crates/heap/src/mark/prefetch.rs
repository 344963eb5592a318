//! The prefetch queue: grey cells on their way to the processor's cache.
//!
//! The first look at a cell waits for memory, half of the time that marking takes.
//! So the next few cells are fetched ahead, and wait in a ring meanwhile: a cell is
//! traced a few cells after it was taken from the mark stack.

use super::ring::Ring;
use crate::layout::region::{Cell, States};
use crate::prefetch::prefetch;

/// Cells that are fetched ahead.
const PREFETCHED_CELLS: usize = 8;

/// The next cells to trace, first in, first out.
#[derive(Debug)]
pub(super) struct PrefetchQueue(Ring<Cell, PREFETCHED_CELLS>);

impl PrefetchQueue {
    pub(super) const fn new() -> Self {
        Self(Ring::new(Cell::NONE))
    }

    /// The next cell, after having taken as many with `pop` as there is room for. In a
    /// heap so large that marking looks `AHEAD`, their states are fetched, too.
    #[inline(always)]
    pub(super) fn next<const AHEAD: bool>(
        &mut self,
        states: States<'_>,
        mut pop: impl FnMut() -> Option<Cell>,
    ) -> Option<Cell> {
        if let Some(cell) = pop() {
            if let Some(next) = self.fetch::<AHEAD>(states, cell) {
                return Some(next);
            }
            // There was a place left, as at the beginning.
            while let Some(cell) = pop() {
                if let Some(next) = self.fetch::<AHEAD>(states, cell) {
                    return Some(next);
                }
            }
        }
        self.0.take()
    }

    /// Has a cell fetched; the one that has waited longest if all places were taken.
    #[inline(always)]
    fn fetch<const AHEAD: bool>(&mut self, states: States<'_>, cell: Cell) -> Option<Cell> {
        prefetch(cell.address());
        if AHEAD {
            prefetch(states.address_of(cell));
        }
        self.0.exchange(cell)
    }

    /// Whether none is left.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The cells, the next one first.
    pub(super) fn iter(&self) -> impl Iterator<Item = Cell> + '_ {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::region::Region;
    use crate::os::page_bytes;

    fn cell(number: usize) -> Cell {
        // SAFETY: never read.
        unsafe { Cell::from_address(number * 64) }
    }

    fn next(queue: &mut PrefetchQueue, stack: &mut Vec<Cell>) -> Option<Cell> {
        let region = Region::reserve(1, page_bytes()).unwrap();
        queue.next::<true>(region.states(), || stack.pop())
    }

    #[test]
    fn every_cell_comes_once_after_those_that_were_taken_before() {
        let mut stack: Vec<_> = (1..=20).map(cell).collect();
        let mut queue = PrefetchQueue::new();
        let mut order = Vec::new();
        while let Some(next) = next(&mut queue, &mut stack) {
            order.push(next);
            let waiting: Vec<_> = queue.iter().collect();
            assert!(waiting.len() <= PREFETCHED_CELLS && !waiting.contains(&next));
        }
        assert!(queue.is_empty());
        let expected: Vec<_> = (1..=20).rev().map(cell).collect();
        assert_eq!(order, expected);
    }

    #[test]
    fn what_is_pushed_meanwhile_comes_after_what_is_on_its_way() {
        let mut stack: Vec<_> = (1..=3).map(cell).collect();
        let mut queue = PrefetchQueue::new();
        assert_eq!(next(&mut queue, &mut stack), Some(cell(3)));
        stack.push(cell(9));
        let rest = std::iter::from_fn(|| next(&mut queue, &mut stack));
        assert_eq!(rest.collect::<Vec<_>>(), [2, 1, 9].map(cell));
    }
}
