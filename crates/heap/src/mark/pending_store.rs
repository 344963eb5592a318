//! Stores for which a barrier was called and that have not happened yet, and stores into cells
//! that change without a barrier
//! ([`Tracer::note_changing`](super::tracer::Tracer::note_changing)).
//!
//! What the barrier did depends on the state of the cell that the reference is stored into. A
//! collection in between may make that cell old. Or the cell was old, and the barrier has
//! remembered it; then the collection traces it, without the reference, and forgets it. The
//! program still has the cell on its stack, which is a root: so what roots refer to is noted, and
//! remembered afterwards if it is old. What there is no room to note counts as an overflow of the
//! remembered set, so that the next collection is a full one.

use crate::layout::region::Cell;
use crate::os::Refused;
use crate::stack::Stack;

/// Cells that are to be remembered if they are old.
#[derive(Debug)]
pub(super) struct PendingStore {
    noted: Stack<Cell>,
    noting: Noting,
}

/// Which of the cells that roots refer to are noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noting {
    /// None: no store is pending.
    Nothing,
    /// Those that the marking about to begin may make old, or take out of the remembered set.
    WhatMayChange,
    /// All: marking may have changed any of them already.
    Everything,
}

impl PendingStore {
    pub(super) fn new(cells: usize) -> Result<Self, Refused> {
        Ok(Self {
            noted: Stack::new(cells)?,
            noting: Noting::Nothing,
        })
    }

    pub(super) fn limit(&mut self, cells: usize) {
        self.noted.limit(cells);
    }

    #[inline(always)]
    pub(super) fn noting(&self) -> Noting {
        self.noting
    }

    pub(super) fn set(&mut self, noting: Noting) {
        self.noting = noting;
    }

    /// Notes that something may be stored into this cell for which no barrier will be called.
    pub(super) fn note(&mut self, cell: Cell) -> Result<(), Refused> {
        self.noted.push(cell)
    }

    pub(super) fn pop(&mut self) -> Option<Cell> {
        self.noted.pop()
    }
}
