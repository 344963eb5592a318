//! Stores that a barrier has been told of and that have not happened yet.
//!
//! What the barrier did depends on what the cell was that the reference goes into,
//! and a collection in between may make that cell old; or it was old, the barrier has
//! remembered it, and the collection traces it, without the reference, and forgets it.
//! The program still has it on its stack, which is a root: so what roots refer to is
//! noted, and remembered afterwards if it is old.

use crate::layout::region::Cell;
use crate::os::Refused;
use crate::stack::Stack;

/// Cells that roots refer to and that are to be remembered if they are old, while a
/// store may be pending.
#[derive(Debug)]
pub(super) struct PendingStore {
    noted: Stack<Cell>,
    may_be: bool,
}

impl PendingStore {
    pub(super) fn new(cells: usize) -> Result<Self, Refused> {
        Ok(Self {
            noted: Stack::new(cells)?,
            may_be: false,
        })
    }

    pub(super) fn limit(&mut self, cells: usize) {
        self.noted.limit(cells);
    }

    /// Whether what roots refer to is to be noted.
    #[inline(always)]
    pub(super) fn may_be(&self) -> bool {
        self.may_be
    }

    pub(super) fn set(&mut self, may_be: bool) {
        self.may_be = may_be;
    }

    /// A root refers to this cell.
    pub(super) fn note(&mut self, cell: Cell) -> Result<(), Refused> {
        self.noted.push(cell)
    }

    pub(super) fn pop(&mut self) -> Option<Cell> {
        self.noted.pop()
    }
}
