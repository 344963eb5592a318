//! What finds the references of a cell, and what it hands them to.

use crate::layout::region::Cell;

/// Marks what one cell refers to, on whatever thread traces it.
///
/// A tracer exists only inside a collection: nothing can be marked outside.
pub trait Trace {
    /// The same tracer, for a function that is not inlined: as long as nobody else has the
    /// address of a tracer, its fields stay in registers.
    #[inline(always)]
    fn lent(&mut self) -> impl Trace
    where
        Self: Sized,
    {
        self
    }

    /// Marks `cell` and, when it was white, makes it grey.
    fn mark(&mut self, cell: Cell);

    /// Marks `cell`, which must not move in this collection: the reference
    /// cannot be rewritten.
    fn pin(&mut self, cell: Cell);

    /// Whether this collection moves cells, so that it matters what is pinned.
    fn finds_pins(&self) -> bool;

    /// Whether other threads trace at the same time, and perhaps the VM's own code on one
    /// of them.
    #[inline(always)]
    fn is_shared(&self) -> bool {
        false
    }

    /// Hands over words of the cell being traced, to be marked a few at a time. Those that are
    /// references are marked; [`TraceCommon::reference`] says which are. Returns false when the
    /// cell is to be traced like any other.
    #[inline(always)]
    fn mark_later(&mut self, words: &[usize]) -> bool {
        let _ = words;
        false
    }

    /// Has the many references of the cell being traced marked a few at a time by
    /// [`TraceCommon::trace_below`], downwards from the one before `end`: for a cell within which
    /// references never move upwards. Returns false when the cell is to be traced like any other.
    #[inline(always)]
    fn trace_later(&mut self, end: usize) -> bool {
        let _ = end;
        false
    }
}

impl<T: Trace> Trace for &mut T {
    #[inline(always)]
    fn lent(&mut self) -> impl Trace {
        (**self).lent()
    }

    #[inline(always)]
    fn mark(&mut self, cell: Cell) {
        (**self).mark(cell);
    }

    #[inline(always)]
    fn pin(&mut self, cell: Cell) {
        (**self).pin(cell);
    }

    #[inline(always)]
    fn finds_pins(&self) -> bool {
        (**self).finds_pins()
    }

    #[inline(always)]
    fn is_shared(&self) -> bool {
        (**self).is_shared()
    }

    #[inline(always)]
    fn mark_later(&mut self, words: &[usize]) -> bool {
        (**self).mark_later(words)
    }

    #[inline(always)]
    fn trace_later(&mut self, end: usize) -> bool {
        (**self).trace_later(end)
    }
}

/// Traces the cells that any thread can trace: those whose references are found by reading memory
/// that nobody changes while the VM is stopped. Cells that only one thread at a time can trace
/// count among them while no other thread traces ([`Trace::is_shared`]).
///
/// Several threads trace these cells at the same time, also while the collecting thread is in
/// [`Vm::trace_cell`](crate::vm::Vm::trace_cell).
///
/// # Safety
/// As for [`Vm`](crate::vm::Vm).
pub unsafe trait TraceCommon: Copy + Send + Sync {
    /// Marks everything that `cell` refers to. Returns false when the VM has to do so, because
    /// `cell` is none of those cells, or is in a state that only the VM can deal with; then
    /// nothing has been marked.
    ///
    /// # Safety
    /// `cell` is a live cell of the VM's heap.
    unsafe fn trace_cell(self, cell: Cell, tracer: &mut impl Trace) -> bool;

    /// The cell that `word` refers to, a word that was handed over with [`Trace::mark_later`].
    fn reference(self, word: usize) -> Option<Cell>;

    /// Marks some of the references that `cell` has below the index `end`, the highest first.
    /// Returns the index below which the others are; 0 when there are none. Called for cells that
    /// were traced with [`Trace::trace_later`]; the program may have changed them since.
    ///
    /// # Safety
    /// `cell` is a live cell of the VM's heap that was traced with [`Trace::trace_later`], and
    /// `end` is at most the index that was passed then.
    unsafe fn trace_below(self, cell: Cell, end: usize, tracer: &mut impl Trace) -> usize;
}
