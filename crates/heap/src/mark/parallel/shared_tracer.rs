//! Marking one cell while other threads mark.

use std::sync::atomic::Ordering::Relaxed;

use super::worker::Member;
use crate::layout::cell_state::CellState;
use crate::layout::region::Cell;
use crate::mark::trace::Trace;

/// Marks the references of one cell on behalf of one worker.
#[derive(Debug)]
pub(in crate::mark) struct SharedTracer<'c> {
    member: Member<'c>,
    parent_is_old: bool,
}

impl<'c> SharedTracer<'c> {
    /// A tracer for the references of a cell that is old, or not.
    #[inline(always)]
    pub(in crate::mark) fn of(member: &'c mut Member<'_>, parent_is_old: bool) -> Self {
        Self {
            member: member.reborrow(),
            parent_is_old,
        }
    }

    /// Notes when an old cell refers to one that is young, as far as is known.
    #[inline(always)]
    fn regard_age(&mut self, child: CellState) {
        if self.parent_is_old && !child.is_old() {
            self.member.worker.has_young_child = true;
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
        SharedTracer::of(&mut self.member, self.parent_is_old)
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
