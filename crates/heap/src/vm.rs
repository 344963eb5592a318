//! What a virtual machine supplies to have its objects collected.

use crate::heap::Heap;
use crate::layout::region::Cell;
use crate::layout::width::WidthIndex;
use crate::mark::tracer::Tracer;

/// The virtual machine's side of the heap.
///
/// Every method is called with the VM stopped, except [`Vm::release`], which
/// runs on the allocating thread while it holds the VM's lock. None may
/// allocate cells; all may free payloads.
pub trait Vm: Sized {
    /// Marks everything the program can reach without going through a cell.
    fn trace_roots(&self, heap: &Heap<'_, Self>, tracer: &Tracer<'_>);

    /// Marks everything that `cell` refers to.
    fn trace_cell(&self, heap: &Heap<'_, Self>, cell: Cell, tracer: &Tracer<'_>);

    /// Called once per collection, when everything reachable is marked and
    /// nothing has been freed: the place for weak references and finalizers.
    /// It may mark more; marking then goes on until nothing is left, and this
    /// is called again only when `true` was returned.
    fn marking_done(&self, heap: &Heap<'_, Self>, tracer: &Tracer<'_>) -> bool {
        let _ = (heap, tracer);
        false
    }

    /// Shows everything that [`Vm::trace_roots`] marks to `visit`, without
    /// marking: for the verifier, outside collections.
    fn visit_roots(&self, heap: &Heap<'_, Self>, visit: &mut dyn FnMut(Cell));

    /// Shows everything that [`Vm::trace_cell`] marks to `visit`, without
    /// marking: for the verifier, outside collections.
    fn visit_cell(&self, heap: &Heap<'_, Self>, cell: Cell, visit: &mut dyn FnMut(Cell));

    /// Frees whatever `cell` owns; the cell itself is reused afterwards.
    fn release(&self, heap: &Heap<'_, Self>, cell: Cell, width: WidthIndex);
}
