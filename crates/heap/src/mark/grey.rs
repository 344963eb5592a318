//! The mark stack: cells that are marked and not traced yet.

use super::prefetch::PrefetchQueue;
use crate::layout::region::{Cell, States};
use crate::os::Refused;
use crate::stack::Stack;

/// Grey cells. The latest comes first, but waits in the prefetch queue meanwhile.
#[derive(Debug)]
pub(super) struct GreyStack {
    cells: Stack<Cell>,
    prefetched: PrefetchQueue,
    /// Cells that did not fit: they are marked but not traced, so the heap has to
    /// be walked for them.
    overflowed: bool,
}

impl GreyStack {
    pub(super) fn new(cells: usize) -> Result<Self, Refused> {
        Ok(Self {
            cells: Stack::new(cells)?,
            prefetched: PrefetchQueue::new(),
            overflowed: false,
        })
    }

    pub(super) fn limit(&mut self, cells: usize) {
        self.cells.limit(cells);
    }

    #[inline(always)]
    pub(super) fn push(&mut self, cell: Cell) {
        if self.cells.push(cell).is_err() {
            self.overflowed = true;
        }
    }

    #[inline(always)]
    pub(super) fn pop<const AHEAD: bool>(&mut self, states: States<'_>) -> Option<Cell> {
        self.prefetched.next::<AHEAD>(states, || self.cells.pop())
    }

    /// Whether no grey cell is here; some may not have fitted.
    pub(super) fn is_empty(&self) -> bool {
        self.cells.is_empty() && self.prefetched.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Cell> + '_ {
        let stacked = self.cells.as_slice().iter().copied();
        self.prefetched.iter().chain(stacked)
    }

    /// Some cells did not fit.
    pub(super) fn note_overflow(&mut self) {
        self.overflowed = true;
    }

    pub(super) fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    /// Whether cells did not fit since the last call.
    pub(super) fn take_overflow(&mut self) -> bool {
        std::mem::take(&mut self.overflowed)
    }

    /// Hands over all cells; until [`GreyStack::put_back`] none can be pushed.
    pub(super) fn take(&mut self) -> Stack<Cell> {
        let prefetched = std::mem::replace(&mut self.prefetched, PrefetchQueue::new());
        for cell in prefetched.iter() {
            self.push(cell);
        }
        std::mem::take(&mut self.cells)
    }

    pub(super) fn put_back(&mut self, cells: Stack<Cell>) {
        self.cells = cells;
    }

    pub(super) fn clear(&mut self) {
        self.cells.clear_and_release();
        self.prefetched = PrefetchQueue::new();
        self.overflowed = false;
    }
}
