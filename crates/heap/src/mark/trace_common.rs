//! What traces a cell without the VM's own code.

use super::trace::Trace;
use crate::layout::region::Cell;

/// Traces the cells that any thread can trace: those whose references are found
/// by reading memory that nobody changes while the VM is stopped. Cells that only one
/// thread at a time can trace are among them while no other traces
/// ([`Trace::is_shared`]).
///
/// Several threads do so at the same time while the collecting one is in
/// [`Vm::trace_cell`](crate::vm::Vm::trace_cell).
///
/// # Safety
/// As for [`Vm`](crate::vm::Vm).
pub unsafe trait TraceCommon: Copy + Send + Sync {
    /// Marks everything that `cell` refers to. False when the VM has to do so, because it is
    /// none of those cells, or is in a state that only the VM can deal with; then nothing
    /// has been marked.
    ///
    /// # Safety
    /// `cell` is a live cell of the VM's heap.
    unsafe fn trace_cell(self, cell: Cell, tracer: &mut impl Trace) -> bool;

    /// What `word` refers to, which was handed over with [`Trace::mark_later`].
    fn reference(self, word: usize) -> Option<Cell>;

    /// Marks some of the references that `cell` has below the index `end`, the highest
    /// first. Returns the index below which the others are, 0 when there are none. For
    /// cells that were traced with [`Trace::trace_later`]; the program may have changed
    /// them since.
    ///
    /// # Safety
    /// `cell` is a live cell of the VM's heap, which was traced so, and `end` no more than it
    /// has said.
    unsafe fn trace_below(self, cell: Cell, end: usize, tracer: &mut impl Trace) -> usize;
}
