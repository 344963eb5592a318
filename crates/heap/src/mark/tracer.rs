//! Marking one cell: the innermost step of a collection.
//!
//! [`Tracer`] does it while one thread marks, as in slices and minor collections;
//! [`SharedTracer`](super::parallel::SharedTracer) while several do.

use std::marker::PhantomData;

use super::marker::Marker;
use crate::layout::cell_state::CellState;
use crate::layout::region::{Cell, Region, States};

/// Marks what one cell, or the roots, refer to.
pub trait Trace {
    /// Marks `cell` and, when it was white, makes it grey.
    fn mark(&self, cell: Cell);

    /// Marks `cell`, which must not move in this collection: the reference
    /// cannot be rewritten.
    fn pin(&self, cell: Cell);

    /// Whether this collection moves cells, so that it matters what is pinned.
    fn finds_pins(&self) -> bool;

    /// Hands over words of the cell being traced, to be marked a few at a time as
    /// far as they are references, which
    /// [`Vm::reference`](crate::vm::Vm::reference) says. False when the cell is to be
    /// traced as any other.
    #[inline]
    fn mark_later(&self, words: &[usize]) -> bool {
        let _ = words;
        false
    }

    /// Has the many references of the cell being traced marked a few at a time by
    /// [`Vm::trace_below`](crate::vm::Vm::trace_below), from the one before `end`
    /// on downwards: for a cell within which references never move upwards. False
    /// when the cell is to be traced as any other.
    #[inline]
    fn trace_later(&self, end: usize) -> bool {
        let _ = end;
        false
    }
}

/// Marks cells on behalf of one tracing step, while no other thread does. It keeps the addresses it needs
/// in registers, where a store to the state table cannot force them to be read
/// again.
#[derive(Debug)]
pub struct Tracer<'heap> {
    states: States<'heap>,
    marker: *mut Marker,
    /// Whether the cell whose references are being marked is old.
    parent_is_old: bool,
    heap: PhantomData<&'heap Region>,
}

impl<'heap> Tracer<'heap> {
    /// A tracer for the references of one cell (or of the roots).
    ///
    /// # Safety
    /// `marker` must stay valid for `'heap`, and only tracers of the collecting
    /// thread may use it.
    #[inline(always)]
    pub(crate) unsafe fn new(
        region: &'heap Region,
        marker: *mut Marker,
        parent_is_old: bool,
    ) -> Self {
        Self {
            states: region.states(),
            marker,
            parent_is_old,
            heap: PhantomData,
        }
    }

    /// Makes `cell` old and grey. What an old cell refers to becomes old with
    /// it (invariant 5); a cell that was black already is traced once more for
    /// that. An unprotected cell is remembered as long as it is old
    /// (invariant 4).
    #[inline]
    fn promote(&self, cell: Cell, state: CellState) {
        let mut bits = CellState::MARKED | CellState::OLD;
        if state.is_unprotected() && !state.is_remembered() {
            bits |= CellState::REMEMBERED;
            // SAFETY: only this thread uses the marker, and no reference into
            // it is held across this call.
            unsafe { (*self.marker).remember(cell) };
        }
        // SAFETY: as above. A cell that is old and marked does not come here.
        unsafe {
            (*self.marker).old_cells += 1;
            (*self.marker).marked_cells += usize::from(!state.is_marked());
        }
        self.states.set(cell, state.with(bits));
        self.push(cell);
    }

    #[inline(always)]
    fn push(&self, cell: Cell) {
        // SAFETY: as in `promote`.
        unsafe { (*self.marker).push(cell) };
    }
}

impl Trace for Tracer<'_> {
    #[inline(always)]
    fn mark(&self, cell: Cell) {
        let state = self.states.get(cell);
        debug_assert!(state.is_live(), "marking a free cell at {cell:?}");
        if state.is_marked() {
            if self.parent_is_old && !state.is_old() {
                self.promote(cell, state);
            }
            return;
        }
        if self.parent_is_old || state.grows_old() || state.is_old() {
            return self.promote(cell, state);
        }
        self.states.set(cell, state.with(CellState::MARKED));
        // SAFETY: as in `promote`.
        unsafe { (*self.marker).marked_cells += 1 };
        self.push(cell);
    }

    #[inline(always)]
    fn pin(&self, cell: Cell) {
        self.mark(cell);
        if self.finds_pins() {
            let pinned = self.states.get(cell).with(CellState::PINNED);
            self.states.set(cell, pinned);
        }
    }

    #[inline(always)]
    fn finds_pins(&self) -> bool {
        // SAFETY: as in `promote`.
        unsafe { (*self.marker).finding_pins }
    }
    fn mark_later(&self, words: &[usize]) -> bool {
        // SAFETY: as in `promote`.
        unsafe { (*self.marker).mark_later(words) }
    }

    fn trace_later(&self, end: usize) -> bool {
        // SAFETY: as in `promote`.
        unsafe { (*self.marker).trace_later(end) }
    }
}
