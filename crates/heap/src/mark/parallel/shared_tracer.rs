//! Marking one cell while other threads mark.

use std::sync::atomic::Ordering::Relaxed;

use super::worker::Member;
use crate::layout::cell_state::{CellState, Wants};
use crate::layout::region::Cell;
use crate::mark::lookahead::Reference;
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

    /// Marks what a cell refers to that may be another than the one being traced.
    #[inline(always)]
    fn mark_reference(&mut self, reference: Reference) {
        if !self.mark_and_compare(reference.child, reference.wants) {
            self.note_parent_of_many(reference.parent);
        }
    }

    /// Marks the reference that has waited longest; false when none waits.
    #[inline(always)]
    pub(super) fn mark_oldest_waiting(&mut self) -> bool {
        let oldest = self.worker.lookahead.take();
        oldest.is_some_and(|oldest| {
            self.mark_reference(oldest);
            true
        })
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
        let reference = Reference {
            parent: self.parent,
            child: cell,
            wants: self.wants,
        };
        let member = &mut self.member;
        if let Some(oldest) = member.worker.lookahead.exchange(member.states, reference) {
            member.mark_reference(oldest);
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
