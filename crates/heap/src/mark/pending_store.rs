//! Stores that a barrier has been told of and that have not happened yet.
//!
//! What the barrier did depends on what the cell was that the reference goes into,
//! and a collection in between may make that cell old. The program still has it on
//! its stack, which pins it: so what a root pins is noted, and remembered afterwards
//! if it has grown old.

use crate::layout::region::Cell;
use crate::os::Refused;
use crate::stack::Stack;

/// Young cells that roots pin, while a store may be pending.
#[derive(Debug)]
pub(super) struct PendingStore {
    pinned: Stack<Cell>,
    may_be: bool,
}

impl PendingStore {
    pub(super) fn new(cells: usize) -> Result<Self, Refused> {
        Ok(Self {
            pinned: Stack::new(cells)?,
            may_be: false,
        })
    }

    pub(super) fn limit(&mut self, cells: usize) {
        self.pinned.limit(cells);
    }

    /// Whether what roots pin is to be noted.
    #[inline(always)]
    pub(super) fn may_be(&self) -> bool {
        self.may_be
    }

    pub(super) fn set(&mut self, may_be: bool) {
        self.may_be = may_be;
    }

    /// A root pins this young cell.
    pub(super) fn note(&mut self, cell: Cell) -> Result<(), Refused> {
        self.pinned.push(cell)
    }

    pub(super) fn pop(&mut self) -> Option<Cell> {
        self.pinned.pop()
    }
}
