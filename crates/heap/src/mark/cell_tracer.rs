//! What marks the references of one cell for a worker.

use super::deferred::{Deferred, Rest};
use super::trace::Trace;
use super::worker::Sink;
use super::Mode;
use crate::layout::cell_state::{CellState, Wants};
use crate::layout::region::Cell;
use crate::os::Refused;

/// The innermost step of a collection.
///
/// Nothing keeps its address, so its fields stay in registers: a store to the state
/// table does not force them to be read again.
#[derive(Debug)]
pub(super) struct CellTracer<S, const AHEAD: bool> {
    pub(super) sink: S,
    pub(super) mode: Mode,
    pub(super) parent: Cell,
    pub(super) wants: Wants,
}

impl<S: Sink, const AHEAD: bool> Trace for CellTracer<S, AHEAD> {
    #[inline(always)]
    fn lent(&mut self) -> impl Trace {
        let (mode, parent, wants) = (self.mode, self.parent, self.wants);
        self.sink.tracer::<AHEAD>(mode, parent, wants)
    }

    #[inline(always)]
    fn mark(&mut self, cell: Cell) {
        if !AHEAD {
            return self.sink.mark(cell, self.wants);
        }
        let (worker, states) = self.sink.parts();
        if worker.lookahead.push(states, self.parent, cell, self.wants) {
            self.sink.lent().mark_waiting();
        }
    }

    #[inline(always)]
    fn pin(&mut self, cell: Cell) {
        self.mark(cell);
        if self.finds_pins() {
            self.sink.add_bits(cell, CellState::PINNED);
        }
    }

    #[inline(always)]
    fn finds_pins(&self) -> bool {
        self.mode == Mode::FindingPins
    }

    #[inline(always)]
    fn is_shared(&self) -> bool {
        S::IS_SHARED
    }

    #[inline(always)]
    fn mark_later(&mut self, words: &[usize]) -> bool {
        let parent = self.parent;
        self.put_off(|deferred| deferred.keep(parent, words))
    }

    #[inline(always)]
    fn trace_later(&mut self, end: usize) -> bool {
        let parent = self.parent;
        self.put_off(|deferred| deferred.put_back(parent, Rest::Below(end)))
    }
}

impl<S: Sink, const AHEAD: bool> CellTracer<S, AHEAD> {
    /// Leaves the references of the cell for later, if the program runs between slices and there
    /// is room to `note` them; returns whether it does.
    #[inline(always)]
    fn put_off(&mut self, note: impl FnOnce(&mut Deferred) -> Result<(), Refused>) -> bool {
        self.mode == Mode::InSlices
            && self
                .sink
                .deferred()
                .is_some_and(|deferred| note(deferred).is_ok())
    }
}
