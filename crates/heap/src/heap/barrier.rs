//! The write barrier: called after a reference has been stored.
//!
//! Between collections it remembers old cells that refer to young ones. While
//! the program runs between slices of marking it also makes the stored cell
//! grey: a black cell must not be the only one to know a white cell.
//!
//! What the VM's own code stores while it traces is reported to its
//! [`Tracer`](crate::mark::tracer::Tracer).

use super::{Heap, Stage};
use crate::layout::cell_state::CellState;
use crate::layout::region::Cell;

use crate::mark::Mode;
use crate::vm::Vm;

impl<V: Vm> Heap<'_, V> {
    /// Notes that `parent` now refers to `child`. Keeps invariant 5 (an old cell that refers to a
    /// young one is remembered), invariant 17 (a settled cell that refers to one that is not
    /// settled is on the boundary) and invariant 11.
    ///
    /// # Safety
    /// Both are live cells of this heap.
    #[inline(always)]
    pub unsafe fn write_barrier(&self, parent: Cell, child: Cell) {
        // SAFETY: both are live cells of this heap.
        unsafe {
            if self.needs_barrier(parent, child) {
                self.write_barrier_slowly(parent, child);
            }
        }
    }

    /// Whether [`Heap::write_barrier`] would do anything. This part may be
    /// called without the VM's lock.
    ///
    /// # Safety
    /// Both are live cells of this heap.
    #[inline(always)]
    pub unsafe fn needs_barrier(&self, parent: Cell, child: Cell) -> bool {
        // By far the most frequent stage first.
        if self.collection.is_idle() {
            return self.must_note(parent, child);
        }
        match self.stage() {
            Stage::Idle | Stage::Moving => self.must_note(parent, child),
            // Only settled cells are black, and the remembered set will be forgotten.
            Stage::Clearing => {
                let state = self.states().get(parent);
                state.is_settled() && state.misses(self.states().get(child))
            }
            Stage::Tracing | Stage::Remark => {
                let is_black = self.states().get(parent).is_marked();
                is_black && (self.must_note(parent, child) || !self.states().get(child).is_marked())
            }
        }
    }

    #[inline(always)]
    fn must_note(&self, parent: Cell, child: Cell) -> bool {
        let state = self.states().get(parent);
        state.is_old() && state.misses(self.states().get(child))
    }

    /// Does what [`Heap::write_barrier`] has to do when [`Heap::needs_barrier`].
    ///
    /// # Safety
    /// Both are live cells of this heap.
    #[cold]
    #[inline(never)]
    pub unsafe fn write_barrier_slowly(&self, parent: Cell, child: Cell) {
        let is_black = self.stage().is_tracing() && self.states().get(parent).is_marked();
        if is_black {
            // The child stays young: a cell to which an old one refers for a moment only should
            // not become old.
            self.marker().mark(self.states(), child);
        }
        let child_state = self.states().get(child);
        if !child_state.is_old() {
            self.remember_if_old(parent);
        }
        if !child_state.is_settled() {
            self.add_to_boundary_if_settled(parent);
        }
    }

    /// The write barrier for any number of references that may have been stored into `parent`.
    ///
    /// # Safety
    /// It is a live cell of this heap.
    #[inline]
    pub unsafe fn write_barrier_all(&self, parent: Cell) {
        if !self.stage().is_tracing() {
            self.may_have_been_stored_into(parent);
        } else if self.states().get(parent).is_marked() {
            self.marker().rescans.add_written(parent);
        }
    }

    /// Whether `cell` is written to without a barrier. May be asked without the VM's lock.
    ///
    /// # Safety
    /// It is a live cell of this heap.
    #[inline]
    pub unsafe fn is_unprotected(&self, cell: Cell) -> bool {
        self.states().get(cell).is_unprotected()
    }

    /// Notes that `cell` will be written to without a barrier from now on, for good.
    ///
    /// # Safety
    /// It is a live cell of this heap.
    pub unsafe fn unprotect(&self, cell: Cell) {
        // Old extensions say this at every look at the cell, and each time in vain but the first:
        // since then the cell is traced again whenever that is needed.
        // SAFETY: the caller's contract.
        if unsafe { self.is_unprotected(cell) } {
            return;
        }
        if self.stage() == Stage::Clearing {
            // Marking begins afterwards, and builds the remembered set again.
            let state = self.states().get(cell).with(CellState::UNPROTECTED);
            self.states().set(cell, state);
            return self.add_to_boundary_if_settled(cell);
        }
        let mode = match self.stage() {
            Stage::Tracing => Mode::InSlices,
            _ => Mode::AtOnce,
        };
        self.marker().unprotect(self.states(), cell, mode);
    }

    /// Remembers `cell` if it is old. In a major or full collection only cells that have been
    /// found are remembered: the collection may free the others.
    pub(crate) fn remember_if_old(&self, cell: Cell) {
        let is_kept = match self.stage() {
            Stage::Idle | Stage::Moving => true,
            Stage::Clearing => false,
            Stage::Tracing | Stage::Remark => self.states().get(cell).is_marked(),
        };
        if is_kept {
            let states = self.states();
            self.marker().remembered.add_if_old(states, cell);
        }
    }

    /// Notes that a reference to anything may have been stored into `cell`.
    pub(super) fn may_have_been_stored_into(&self, cell: Cell) {
        self.remember_if_old(cell);
        self.add_to_boundary_if_settled(cell);
    }

    fn add_to_boundary_if_settled(&self, cell: Cell) {
        let states = self.states();
        self.marker().boundary.add_if_settled(states, cell);
    }
}
