//! Marking by the collecting thread alone.

use super::deferred::Deferred;
use super::marker::Marker;
use super::worker::{Sink, Worker};
use super::Mode;
use crate::layout::cell_state::{CellState, Wants};
use crate::layout::region::{Cell, States};

/// The only thread that marks.
#[derive(Debug)]
pub(super) struct Alone<'c> {
    pub(super) states: States<'c>,
    pub(super) marker: &'c mut Marker,
}

impl Sink for Alone<'_> {
    const IS_SHARED: bool = false;

    #[inline(always)]
    fn lent(&mut self) -> impl Sink {
        Alone {
            states: self.states,
            marker: self.marker,
        }
    }

    #[inline(always)]
    fn parts(&mut self) -> (&mut Worker, States<'_>) {
        (&mut self.marker.worker, self.states)
    }

    #[inline(always)]
    fn exchange(&self, cell: Cell, _: CellState, after: CellState) -> bool {
        self.states.set(cell, after);
        true
    }

    #[inline(always)]
    fn add_bits(&self, cell: Cell, bits: u8) -> CellState {
        let before = self.states.get(cell);
        self.states.set(cell, before.with(bits));
        before
    }

    #[inline(always)]
    fn push_to_full(self, _: Cell) {
        self.marker.worker.grey.note_overflow();
    }

    fn remember(self, cell: Cell) {
        self.marker.remembered.add(cell);
    }

    #[inline(always)]
    fn add_to_boundary(self, cell: Cell) {
        self.marker.boundary.add_if_settled(self.states, cell);
    }

    #[inline(always)]
    fn deferred(&mut self) -> Option<&mut Deferred> {
        Some(&mut self.marker.deferred)
    }
}

impl Marker {
    /// Marks a cell to which the program, while it runs, has stored a reference. The cell stays as
    /// young as it is.
    #[inline(always)]
    pub(crate) fn mark(&mut self, states: States<'_>, cell: Cell) {
        Alone {
            states,
            marker: self,
        }
        .mark(cell, Wants::MARKED);
    }

    /// Notes that a cell has no barrier from now on.
    pub(crate) fn unprotect(&mut self, states: States<'_>, cell: Cell, mode: Mode) {
        let state = Alone {
            states,
            marker: self,
        }
        .unprotect(cell);
        if state.is_marked() && mode == Mode::InSlices {
            self.rescans.add(cell);
        }
    }
}
