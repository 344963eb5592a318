//! What marks the references of one cell.

use crate::layout::region::Cell;

/// Marks what one cell refers to, on whatever thread traces it.
///
/// There is one only inside a collection: nothing can be marked outside.
pub trait Trace {
    /// The same, for a function that is not inlined: as long as nobody else has the
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

    /// Hands over words of the cell being traced, to be marked a few at a time as
    /// far as they are references, which
    /// [`TraceCommon::reference`](crate::mark::trace_common::TraceCommon::reference) says. False when
    /// the cell is to be traced as any other.
    #[inline(always)]
    fn mark_later(&mut self, words: &[usize]) -> bool {
        let _ = words;
        false
    }

    /// Has the many references of the cell being traced marked a few at a time by
    /// [`TraceCommon::trace_below`](crate::mark::trace_common::TraceCommon::trace_below), from the one
    /// before `end` on downwards: for a cell within which references never move
    /// upwards. False when the cell is to be traced as any other.
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
