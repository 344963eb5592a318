//! What marking works with, from one collection to the next.

use super::anew::Anew;
use super::boundary::BoundarySet;
use super::deferred::Deferred;
use super::grey::GreyStack;
use super::lookahead::Lookahead;
use super::mode::Mode;
use super::parallel::SharedMarking;
use super::pending_store::{Noting, PendingStore};
use super::remembered::RememberedSet;
use super::rescan::Rescans;
use super::rewritten::Rewritten;
use super::weak::WeakReferences;
use crate::layout::cell_state::{Ageing, CellState, Wants};
use crate::layout::region::{Cell, States};
use crate::os::Refused;
use crate::pace::Scope;

/// The stacks and sets of marking, and what it counts.
#[derive(Debug)]
pub(crate) struct Marker {
    pub(super) grey: GreyStack,
    pub(super) deferred: Deferred,
    pub(super) anew: Anew,
    pub(super) lookahead: Lookahead,
    pub(crate) remembered: RememberedSet,
    pub(super) rewritten: Rewritten,
    pub(crate) boundary: BoundarySet,
    pub(super) rescans: Rescans,
    pub(super) weak: WeakReferences,
    pub(super) pending_store: PendingStore,
    pub(super) shared: SharedMarking,
    pub(crate) counts: MarkCounts,
    /// The latest marking is, or was, that of a major collection.
    is_major: bool,
    ageing: Ageing,
    /// The settled cell being traced refers to one that is not. False while none is traced.
    pub(super) has_unsettled_child: bool,
}

/// What a collection has marked.
///
/// In this order, because marking an old cell changes two counts: those of neighbours a
/// compiler changes with wide registers, in twice as many instructions.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct MarkCounts {
    /// Old cells marked now, those that stayed so since earlier collections included.
    pub(crate) old_cells: usize,
    /// Threads that have marked.
    pub(crate) threads: usize,
    /// Young cells marked now.
    pub(crate) young_cells: usize,
    /// Of the old ones, those that are settled.
    pub(crate) settled_cells: usize,
}

impl MarkCounts {
    /// All cells marked now.
    pub(crate) fn marked_cells(&self) -> usize {
        self.young_cells + self.old_cells
    }
}

impl Marker {
    /// A marker for a heap of at most `cells` cells. Address space may be scarce:
    /// only stacks that must not run full could hold every cell.
    pub(crate) fn new(cells: usize) -> Result<Self, Refused> {
        let noted = cells / 64;
        Ok(Self {
            grey: GreyStack::new(cells)?,
            deferred: Deferred::new(noted, cells / 2)?,
            anew: Anew::new(),
            lookahead: Lookahead::new(),
            remembered: RememberedSet::new(cells / 2)?,
            rewritten: Rewritten::new()?,
            boundary: BoundarySet::new(cells / 4)?,
            rescans: Rescans::new(noted)?,
            weak: WeakReferences::new(cells / 4)?,
            pending_store: PendingStore::new(noted)?,
            shared: SharedMarking::new(noted)?,
            counts: MarkCounts::default(),
            is_major: false,
            ageing: Ageing::SLOW,
            has_unsettled_child: false,
        })
    }

    /// Lets the mark stack and the remembered set grow to `cells` at most.
    pub(crate) fn limit(&mut self, cells: usize) {
        self.grey.limit(cells);
        self.deferred.limit(cells);
        self.remembered.limit(cells);
        self.boundary.limit(cells);
        self.rescans.limit(cells);
        self.pending_store.limit(cells);
        self.shared.limit(cells);
    }

    /// Marking begins. In a minor collection old cells are marked already, and
    /// remembered ones are to be traced; in a major one that holds for settled cells and
    /// those on the boundary. What has no mark is found anew, and young cells grow old as
    /// `ageing` says.
    pub(crate) fn begin(&mut self, states: States<'_>, scope: Scope, ageing: Ageing) {
        self.is_major = scope == Scope::Major;
        self.ageing = ageing;
        let counts = &mut self.counts;
        counts.young_cells = 0;
        match scope {
            Scope::Minor => self.remembered.begin_minor(),
            Scope::Major => {
                counts.old_cells = counts.settled_cells;
                self.remembered.clear();
                let (grey, remembered) = (&mut self.grey, &mut self.remembered);
                self.boundary.begin_major(states, |cell| {
                    grey.push(cell);
                    if states.get(cell).is_unprotected() {
                        remembered.add_if_old(states, cell);
                    }
                });
            }
            Scope::Full => {
                *counts = MarkCounts::default();
                self.remembered.clear();
                self.boundary.clear();
            }
        }
        self.counts.threads = 1;
    }

    /// Forgets what was found, so that marking can begin anew, as a full one.
    pub(crate) fn restart(&mut self) {
        self.end();
        self.remembered.clear();
    }

    /// Forgets what only one collection needs.
    pub(crate) fn end(&mut self) {
        self.grey.clear();
        self.deferred.clear();
        self.anew.clear();
        self.rescans.clear();
        self.weak.clear();
        self.shared.clear();
    }

    /// The program goes on although marking is not over.
    pub(crate) fn pause(&mut self) {
        self.weak.forget();
    }

    /// Whether nothing is grey.
    pub(crate) fn is_done(&self) -> bool {
        let has_grey = !self.grey.is_empty() || self.grey.has_overflowed();
        !has_grey && self.deferred.is_empty() && self.anew.is_empty()
    }

    /// The program has stored into this black cell, and has not said what.
    pub(crate) fn rescan_written(&mut self, cell: Cell) {
        self.rescans.add_written(cell);
    }

    /// A marked cell has no barrier from now on.
    pub(crate) fn unprotect(&mut self, states: States<'_>, cell: Cell, mode: Mode) {
        let state = states.get(cell).with(CellState::UNPROTECTED);
        states.set(cell, state);
        if state.is_marked() {
            self.boundary.add_if_settled(states, cell);
            self.remembered.add_if_old(states, cell);
            if mode == Mode::InSlices {
                self.rescans.add(cell);
            }
        }
    }

    /// Says which roots are noted from now on, because a store that a barrier was told
    /// of may not have happened yet.
    pub(crate) fn set_pending_store(&mut self, noting: Noting) {
        self.pending_store.set(noting);
    }

    /// Takes one of the cells that roots refer to and that are to be remembered if they
    /// are old.
    pub(crate) fn pop_noted_root(&mut self) -> Option<Cell> {
        self.pending_store.pop()
    }

    /// Notes a cell that a root refers to. Without room for it the next collection is a
    /// full one, which needs no remembered set.
    #[cold]
    pub(super) fn note_root(&mut self, states: States<'_>, cell: Cell) {
        let state = states.get(cell);
        // A major collection takes settled cells off the boundary, and what is remembered
        // with them, before it looks at any.
        let may_be_forgotten = state.is_remembered() || self.is_major && state.is_settled();
        let stays_as_it_is = state.is_old() && state.is_marked() && !may_be_forgotten;
        if stays_as_it_is && self.pending_store.noting() == Noting::WhatMayChange {
            return;
        }
        if self.pending_store.note(cell).is_err() {
            self.remembered.note_overflow();
        }
    }

    /// Marks what the parent that is being traced refers to, while no other thread marks.
    #[inline(always)]
    pub(crate) fn mark(&mut self, states: States<'_>, cell: Cell, wants: Wants) {
        let state = states.get(cell);
        debug_assert!(state.is_live(), "marking a free cell at {cell:?}");
        if !state.is_all_of(wants) && !self.mark_and_compare(states, cell, state, wants) {
            self.has_unsettled_child = true;
        }
    }

    /// A settled cell has been traced.
    #[inline(always)]
    pub(super) fn end_settled(&mut self, states: States<'_>, cell: Cell) {
        if std::mem::take(&mut self.has_unsettled_child) {
            self.boundary.add_if_settled(states, cell);
        }
    }

    /// Marks what the references that wait refer to: their states have been fetched
    /// meanwhile.
    #[inline(never)]
    pub(super) fn mark_waiting(&mut self, states: States<'_>) {
        for index in 0..self.lookahead.take_all() {
            let (child, wants) = self.lookahead.child_at(index);
            let state = states.get(child);
            debug_assert!(state.is_live(), "marking a free cell at {child:?}");
            if !state.is_all_of(wants) && !self.mark_and_compare(states, child, state, wants) {
                let parent = self.lookahead.parent_at(index);
                self.boundary.add_if_settled(states, parent);
            }
        }
    }

    /// Marks `cell`, of which a parent wants more than it is. False when the parent is
    /// settled and the cell is not.
    #[inline(always)]
    fn mark_and_compare(
        &mut self,
        states: States<'_>,
        cell: Cell,
        state: CellState,
        wants: Wants,
    ) -> bool {
        if state.is_unprotected() {
            return self.mark_unprotected(states, cell, state, wants);
        }
        if state.is_old() {
            if state.is_marked() {
                return false;
            }
            let found = state.old_and_found();
            self.counts.old_cells += 1;
            self.counts.settled_cells += found.settled_if_old();
            states.set(cell, found);
            self.grey.push(cell);
            return found.is_all_of(wants);
        }
        if !wants.old() && !state.grows_old(self.ageing) {
            states.set(cell, state.with(CellState::MARKED));
            self.counts.young_cells += 1;
            self.grey.push(cell);
            return true;
        }
        self.grow_old(states, cell, state);
        !wants.settled()
    }

    /// Makes a cell old, or marks an old one. It is grey afterwards also if it was black, because what it
    /// refers to becomes old with it (invariant 5).
    #[inline(always)]
    fn grow_old(&mut self, states: States<'_>, cell: Cell, state: CellState) {
        self.counts.old_cells += 1;
        self.counts.young_cells -= usize::from(state.is_marked());
        states.set(cell, state.old_and_found());
        self.grey.push(cell);
    }

    /// [`Marker::mark_and_compare`] for a cell without a barrier, which never settles. It is
    /// remembered as long as it is old (invariant 4).
    #[inline(never)]
    fn mark_unprotected(
        &mut self,
        states: States<'_>,
        cell: Cell,
        state: CellState,
        wants: Wants,
    ) -> bool {
        let is_old = state.is_old();
        if is_old && state.is_marked() {
            return false;
        }
        if !is_old && !wants.old() {
            states.set(cell, state.with(CellState::MARKED));
            self.counts.young_cells += 1;
            self.grey.push(cell);
            return true;
        }
        self.grow_old(states, cell, state);
        if !state.is_remembered() {
            states.set(cell, states.get(cell).with(CellState::REMEMBERED));
            self.remembered.add(cell);
        }
        !wants.settled()
    }

    /// Makes a marked cell grey once more, and only once although it may be asked for
    /// again before it is traced.
    pub(super) fn trace_anew(&mut self, cell: Cell) {
        if self.anew.add(cell).is_err() {
            self.grey.push(cell);
        }
    }

    /// Makes grey the cells that several threads saw referring to younger ones: when they
    /// are traced again, young ones become old (invariant 5), and settled cells get onto
    /// the boundary (invariant 17).
    pub(super) fn push_parents(&mut self) {
        while let Some(cell) = self.shared.parents.pop() {
            self.grey.push(cell);
        }
    }

    /// All grey cells: on the mark stack, marked in parts, remembered and untraced, or to
    /// be traced again, now or by the remark. They may refer to white cells.
    pub(crate) fn grey_cells(&self) -> impl Iterator<Item = Cell> + '_ {
        let untraced = self.remembered.untraced().iter().copied();
        let stacked = self.grey.iter().chain(self.deferred.iter());
        let anew = self.anew.cells().iter().copied();
        stacked
            .chain(untraced)
            .chain(anew)
            .chain(self.rescans.iter())
    }

    /// Whether some grey cells may be on no stack.
    pub(crate) fn has_overflowed(&self) -> bool {
        self.grey.has_overflowed() || self.rescans.has_overflowed()
    }
}
