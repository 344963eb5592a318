//! Marking one cell while other threads mark.

use std::sync::atomic::Ordering::Relaxed;

use super::worker::Member;
use crate::layout::cell_state::{CellState, Wants};
use crate::layout::region::Cell;
use crate::mark::trace::Trace;

/// Marks the references of one cell on behalf of one worker.
#[derive(Debug)]
pub(in crate::mark) struct SharedTracer<'c> {
    member: Member<'c>,
    wants: Wants,
}

impl<'c> SharedTracer<'c> {
    /// A tracer for the references of a cell that wants so much of them.
    #[inline(always)]
    pub(in crate::mark) fn of(member: &'c mut Member<'_>, wants: Wants) -> Self {
        Self {
            member: member.reborrow(),
            wants,
        }
    }

    /// Notes when an old cell refers to one that is young, as far as is known, or a
    /// settled one to one that is not settled.
    #[inline(always)]
    fn regard_age(&mut self, child: CellState) {
        if !child.is_all_of(self.wants) {
            self.member.worker.has_younger_child = true;
        }
    }

    /// Marks a cell that is to be remembered; false when another worker has.
    #[cold]
    fn remember(&mut self, cell: Cell, state: CellState, found: CellState) -> bool {
        let entry = self.member.states.entry_of(cell);
        let exchanged = entry.compare_exchange(state.0, found.0, Relaxed, Relaxed);
        if exchanged.is_ok() {
            self.member.remember(cell);
        }
        exchanged.is_ok()
    }
}

impl Trace for SharedTracer<'_> {
    #[inline(always)]
    fn lent(&mut self) -> impl Trace {
        SharedTracer::of(&mut self.member, self.wants)
    }

    #[inline(always)]
    fn mark(&mut self, cell: Cell) {
        let states = self.member.states;
        let state = states.get(cell);
        debug_assert!(state.is_live(), "marking a free cell at {cell:?}");
        if state.is_marked() {
            self.regard_age(state);
            return;
        }
        let found = state.found_by_several();
        if found.is_remembered() && !self.remember(cell, state, found) {
            return;
        }
        states.set(cell, found);
        self.regard_age(found);
        self.member.push(cell);
    }

    #[inline(always)]
    fn pin(&mut self, cell: Cell) {
        self.mark(cell);
    }

    /// What pins is found by one thread.
    #[inline(always)]
    fn finds_pins(&self) -> bool {
        false
    }

    #[inline(always)]
    fn is_shared(&self) -> bool {
        true
    }
}
