//! The write barrier: called after a reference has been stored.

use crate::heap::Heap;
use crate::layout::cell_state::CellState;
use crate::layout::region::Cell;
use crate::vm::Vm;

impl<V: Vm> Heap<'_, V> {
    /// `parent` now refers to `child`. Keeps invariant 5: an old cell that
    /// refers to a young one is remembered.
    #[inline(always)]
    pub fn write_barrier(&self, parent: Cell, child: Cell) {
        if self.needs_barrier(parent, child) {
            self.write_barrier_all(parent);
        }
    }

    /// Whether [`Heap::write_barrier`] would do anything. This part may be
    /// called without the VM's lock.
    #[inline(always)]
    pub fn needs_barrier(&self, parent: Cell, child: Cell) -> bool {
        let state = self.states().get(parent);
        let old_and_forgotten =
            state.0 & (CellState::OLD | CellState::REMEMBERED) == CellState::OLD;
        old_and_forgotten && !self.states().get(child).is_old()
    }

    /// Any number of references may have been stored into `parent`.
    #[inline]
    pub fn write_barrier_all(&self, parent: Cell) {
        self.remember_if_old(parent);
    }

    /// `cell` will be written to without a barrier from now on, for good.
    pub fn unprotect(&self, cell: Cell) {
        let state = self.region().state(cell).with(CellState::UNPROTECTED);
        self.region().set_state(cell, state);
        self.remember_if_old(cell);
    }

    pub(crate) fn remember_if_old(&self, cell: Cell) {
        let state = self.region().state(cell);
        if state.is_old() && !state.is_remembered() {
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
