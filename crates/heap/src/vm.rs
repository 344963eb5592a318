//! What a virtual machine supplies to have its objects collected.

use crate::heap::Heap;
use crate::layout::region::Cell;
use crate::layout::width::WidthIndex;
use crate::mark::tracer::{Trace, Tracer};

/// Traces the cells that any thread can trace: those whose references are found
/// by reading memory that nobody changes while the VM is stopped.
///
/// Several threads do so at the same time while the collecting one is in
/// [`Vm::trace_cell`].
pub trait TraceCommon: Copy + Send + Sync {
    /// Marks everything that `cell` refers to. False when it is none of those
    /// cells; then nothing has been marked.
    fn trace_cell(self, cell: Cell, tracer: &impl Trace) -> bool;
}

/// The virtual machine's side of the heap.
///
/// Every method is called with the VM stopped, except [`Vm::release`], which
/// runs on the allocating thread while it holds the VM's lock. None may
/// allocate cells; all may free payloads.
pub trait Vm: Sized {
    /// Marks everything the program can reach without going through a cell.
    fn trace_roots(&self, heap: &Heap<'_, Self>, tracer: &Tracer<'_>);

    /// Marks everything that `cell` refers to. Only the collecting thread calls
    /// this.
    fn trace_cell(&self, heap: &Heap<'_, Self>, cell: Cell, tracer: &impl Trace);

    /// What `word` refers to, which was handed over with [`Trace::mark_later`].
    fn reference(&self, word: usize) -> Option<Cell> {
        let _ = word;
        None
    }

    /// Marks some of what `cell` refers to by its references below the one with
    /// the index `end`, the last ones first. Says below which one the rest is to be
    /// marked, 0 when there is none. For cells that were traced with
    /// [`Trace::trace_later`]; the program may have changed them since.
    fn trace_below(&self, cell: Cell, end: usize, tracer: &impl Trace) -> usize {
        let _ = (cell, end, tracer);
        0
    }

    /// Traces cells without the VM.
    type Common: TraceCommon;

    /// What helps the collecting thread in marking.
    fn common(&self) -> Self::Common;

    /// Called in each collection when everything reachable is marked and
    /// nothing has been freed: the place for weak references and finalizers.
    /// It may mark more; marking then goes on until nothing is left, and this
    /// is called again, until it finds nothing more to mark.
    fn marking_done(&self, heap: &Heap<'_, Self>, tracer: &Tracer<'_>) {
        let _ = (heap, tracer);
    }

    /// Shows everything that [`Vm::trace_roots`] marks to `visit`, without
    /// marking: for the verifier, outside collections.
    fn visit_roots(&self, heap: &Heap<'_, Self>, visit: &mut dyn FnMut(Cell));

    /// Shows everything that [`Vm::trace_cell`] marks to `visit`, without
    /// marking: for the verifier, outside collections.
    fn visit_cell(&self, heap: &Heap<'_, Self>, cell: Cell, visit: &mut dyn FnMut(Cell));

    /// What a cell begins with while it is forwarded, for a VM that looks at the
    /// first word of a stale reference.
    const FORWARDED_HEADER: usize = 0;

    /// Called before a compaction asks what the cells want.
    fn compaction_begins(&self, heap: &Heap<'_, Self>) {
        let _ = heap;
    }

    /// The width that suits `cell`, which has `width`, its own included; `None`
    /// when it must not move. Its contents must fit in the width returned. A VM
    /// that supplies this also supplies the three methods below, and pins with
    /// [`Heap::pin`] what it cannot rewrite.
    fn wanted_width(
        &self,
        heap: &Heap<'_, Self>,
        cell: Cell,
        width: WidthIndex,
    ) -> Option<WidthIndex> {
        let _ = (heap, cell, width);
        None
    }

    /// The contents of `from` have been copied to `to` as far as they fit; both
    /// can be read. The place for tables by address. False when the VM has no memory
    /// for that: then `from` stays where it is, and nothing may have changed.
    fn moved(&self, heap: &Heap<'_, Self>, from: Cell, to: Cell) -> bool {
        let _ = (heap, from, to);
        true
    }

    /// Rewrites everything that `cell` refers to, weak references included, to
    /// its [`Heap::location`]. It may free payloads.
    fn update_cell(&self, heap: &Heap<'_, Self>, cell: Cell, width: WidthIndex) {
        let _ = (heap, cell, width);
    }

    /// Rewrites every reference that is in no cell, but for those that pinned
    /// what they refer to.
    fn update_roots(&self, heap: &Heap<'_, Self>) {
        let _ = heap;
    }

    /// Frees whatever `cell` owns; the cell itself is reused afterwards.
    fn release(&self, heap: &Heap<'_, Self>, cell: Cell, width: WidthIndex);
}
