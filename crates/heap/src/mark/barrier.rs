//! The write barrier: called after a reference has been stored.
//!
//! Between collections it remembers old cells that refer to young ones. While
//! the program runs between slices of marking it also makes the stored cell
//! grey: a black cell must not be the only one to know a white cell.

use crate::heap::{Heap, Phase};
use crate::layout::cell_state::CellState;
use crate::layout::region::Cell;
use crate::vm::Vm;

impl<V: Vm> Heap<'_, V> {
    /// `parent` now refers to `child`. Keeps invariant 5, an old cell that
    /// refers to a young one is remembered, and invariant 11.
    #[inline(always)]
    pub fn write_barrier(&self, parent: Cell, child: Cell) {
        if self.needs_barrier(parent, child) {
            self.write_barrier_slowly(parent, child);
        }
    }

    /// Whether [`Heap::write_barrier`] would do anything. This part may be
    /// called without the VM's lock.
    #[inline(always)]
    pub fn needs_barrier(&self, parent: Cell, child: Cell) -> bool {
        let (state, child) = (self.states().get(parent), self.states().get(child));
        let must_remember =
            state.0 & (CellState::OLD | CellState::REMEMBERED) == CellState::OLD && !child.is_old();
        match self.phase() {
            Phase::Idle => must_remember,
            // Nothing is black yet, and what is remembered will be forgotten.
            Phase::Clearing => false,
            Phase::Marking => state.is_marked() && (must_remember || !child.is_marked()),
        }
    }

    /// What is left of [`Heap::write_barrier`] when [`Heap::needs_barrier`].
    #[cold]
    #[inline(never)]
    pub fn write_barrier_slowly(&self, parent: Cell, child: Cell) {
        match self.phase() {
            Phase::Idle => self.remember_if_old(parent),
            Phase::Clearing => {}
            Phase::Marking => {
                if self.states().get(parent).is_marked() {
                    // As young as it is: what an old cell refers to for a moment
                    // only should not grow old.
                    self.shade(child);
                }
                if !self.states().get(child).is_old() {
                    self.remember_if_old(parent);
                }
            }
        }
    }

    /// Any number of references may have been stored into `parent`.
    #[inline]
    pub fn write_barrier_all(&self, parent: Cell) {
        match self.phase() {
            Phase::Idle => self.remember_if_old(parent),
            Phase::Clearing => {}
            Phase::Marking => {
                if self.states().get(parent).is_marked() {
                    self.with_marker(|marker| marker.note_dirty(parent));
                }
            }
        }
    }

    /// `cell` will be written to without a barrier from now on, for good.
    pub fn unprotect(&self, cell: Cell) {
        let state = self.region().state(cell).with(CellState::UNPROTECTED);
        self.region().set_state(cell, state);
        self.remember_if_old(cell);
        if self.phase() == Phase::Marking && state.is_marked() {
            self.with_marker(|marker| marker.revisit(cell));
        }
    }

    /// In a full collection only cells that have been found are remembered: the
    /// others may be freed by it.
    pub(crate) fn remember_if_old(&self, cell: Cell) {
        let state = self.region().state(cell);
        let may_die = self.phase() != Phase::Idle && !state.is_marked();
        let is_clearing = self.phase() == Phase::Clearing;
        if state.is_old() && !state.is_remembered() && !may_die && !is_clearing {
            self.remember(cell, state);
        }
    }

    #[cold]
    #[inline(never)]
    fn remember(&self, cell: Cell, state: CellState) {
        self.region()
            .set_state(cell, state.with(CellState::REMEMBERED));
        self.with_marker(|marker| marker.remember(cell));
    }
}
