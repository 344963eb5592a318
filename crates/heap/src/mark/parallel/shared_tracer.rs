//! Marking one cell while other threads mark.

use std::sync::atomic::Ordering::Relaxed;

use super::worker::Member;
use crate::layout::cell_state::{CellState, Wants};
use crate::layout::region::Cell;
use crate::mark::trace::Trace;

/// Marks the references of one cell on behalf of one worker.
#[derive(Debug)]
pub(in crate::mark) struct SharedTracer<'c, const AHEAD: bool> {
    member: Member<'c>,
    parent: Cell,
    wants: Wants,
}

impl<'c, const AHEAD: bool> SharedTracer<'c, AHEAD> {
    /// A tracer for the references of a cell that wants so much of them.
    #[inline(always)]
    pub(in crate::mark) fn of(member: &'c mut Member<'_>, parent: Cell, wants: Wants) -> Self {
        Self {
            member: member.reborrow(),
            parent,
            wants,
        }
    }
}

impl Member<'_> {
    /// Marks what the cell that is being traced refers to.
    #[inline(always)]
    pub(in crate::mark) fn mark(&mut self, cell: Cell, wants: Wants) {
        if !self.mark_and_compare(cell, wants) {
            self.worker.has_younger_child = true;
        }
    }

    /// Marks what the references that wait refer to; false when there are none.
    #[inline(never)]
    pub(super) fn mark_waiting(&mut self) -> bool {
        let count = self.worker.lookahead.take_all();
        for index in 0..count {
            let (child, wants) = self.worker.lookahead.child_at(index);
            if !self.mark_and_compare(child, wants) {
                let parent = self.worker.lookahead.parent_at(index);
                self.note_parent_of_many(parent);
            }
        }
        count > 0
    }

    /// Marks `cell`. False when an old cell refers to one that is young, as far as is
    /// known, or a settled one to one that is not settled.
    #[inline(always)]
    fn mark_and_compare(&mut self, cell: Cell, wants: Wants) -> bool {
        let state = self.states.get(cell);
        debug_assert!(state.is_live(), "marking a free cell at {cell:?}");
        if state.is_marked() {
            return state.is_all_of(wants);
        }
        let found = state.found_by_several();
        if !found.is_remembered() || self.mark_remembered(cell, state, found) {
            self.states.set(cell, found);
            self.push(cell);
        }
        found.is_all_of(wants)
    }

    /// Marks a cell that is to be remembered; false when another worker has.
    #[cold]
    fn mark_remembered(&mut self, cell: Cell, state: CellState, found: CellState) -> bool {
        let entry = self.states.entry_of(cell);
        let exchanged = entry.compare_exchange(state.0, found.0, Relaxed, Relaxed);
        if exchanged.is_ok() {
            self.remember(cell);
        }
        exchanged.is_ok()
    }
}

impl<const AHEAD: bool> Trace for SharedTracer<'_, AHEAD> {
    #[inline(always)]
    fn lent(&mut self) -> impl Trace {
        SharedTracer::<AHEAD>::of(&mut self.member, self.parent, self.wants)
    }

    #[inline(always)]
    fn mark(&mut self, cell: Cell) {
        if !AHEAD {
            return self.member.mark(cell, self.wants);
        }
        let member = &mut self.member;
        let lookahead = &mut member.worker.lookahead;
        if lookahead.push(member.states, self.parent, cell, self.wants) {
            member.mark_waiting();
        }
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
