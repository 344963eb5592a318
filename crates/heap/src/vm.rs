//! What a virtual machine supplies to have its objects collected: roots, tracing and
//! release. There is a trait for each thing that it may supply besides: tracing by several
//! threads ([`TraceCommon`]), cells that move ([`Moving`]), and showing references to the
//! verifier ([`Inspection`]).

use crate::compact::forward::Forwarding;
use crate::layout::region::Cell;
use crate::layout::width::WidthIndex;
use crate::mark::trace::{Trace, TraceCommon};
use crate::mark::tracer::{MarkingEnd, Tracer};

/// The virtual machine's side of the heap.
///
/// # Safety
/// The heap relies on the VM for what follows, also in [`TraceCommon`], [`Moving`] and
/// [`Inspection`]:
///
/// * The VM passes nothing to a tracer or a visitor but live cells of the heap that asks.
/// * Every cell that the VM goes on to use is found in this way, from the roots, each time the
///   heap asks. While roots and cells are looked at, no other thread changes them. So a VM
///   with several threads stops the others before it calls what may collect.
/// * None of the VM's methods asks the heap for anything but payloads: what a method has to
///   report, it reports to its tracer.
pub unsafe trait Vm: Sized {
    /// Marks everything the program can reach without going through a cell.
    fn trace_roots(&self, tracer: &mut Tracer<'_>);

    /// Marks everything that `cell` refers to. Cells that [`Vm::common`] traces do not
    /// come here. Only the collecting thread calls this.
    ///
    /// # Safety
    /// `cell` is a live cell of this VM's heap.
    unsafe fn trace_cell(&self, cell: Cell, tracer: &mut Tracer<'_>);

    /// Frees whatever `cell` owns; the cell itself is reused afterwards.
    ///
    /// # Safety
    /// `cell` is a cell of this VM's heap that has died, as wide as `width` says, and has not
    /// been released.
    unsafe fn release(&self, cell: Cell, width: WidthIndex);

    /// A function that returns true for a dead cell when the cell's first words show that
    /// [`Vm::release`] has nothing to do. This is called once for each block that is swept.
    ///
    /// # Safety
    /// The function that this returns is called only with cells that could be released.
    unsafe fn owns_nothing(&self) -> impl Fn(Cell) -> bool {
        |_| false
    }

    /// Called in each collection when everything reachable is marked and
    /// nothing has been freed: the place for weak references and finalizers.
    /// It may mark more; marking then goes on until nothing is left, and this
    /// is called again, until it finds nothing more to mark.
    fn marking_done(&self, end: &mut MarkingEnd<'_>) {
        let _ = end;
    }

    /// About how many bytes the program has taken so far that it will hardly give back, such
    /// as its code. Growth by these bytes is no sign of garbage, so it brings no major
    /// collection; and while much of what is handed out lasts, what survives a minor
    /// collection becomes old at once.
    fn lasting_bytes(&self) -> usize {
        0
    }

    /// What traces cells without the VM's own code, for cells that are traced often
    /// and by several threads at once. By default every cell is traced by
    /// [`Vm::trace_cell`].
    fn common(&self) -> impl TraceCommon {
        Absent
    }

    /// What moves cells. By default no cell moves.
    fn moving(&self) -> Option<&impl Moving> {
        None::<&Absent>
    }

    /// What shows references to the verifier. By default only the invariants that need no
    /// references are verified.
    fn inspection(&self) -> Option<&impl Inspection> {
        None::<&Absent>
    }
}

/// A VM whose cells may move. It pins with [`Trace::pin`] what it cannot rewrite.
///
/// # Safety
/// As for [`Vm`]. Every reference that does not pin is rewritten, and a cell that has moved
/// is used only at its new place.
pub unsafe trait Moving {
    /// What a cell begins with while it is forwarded, for a VM that looks at the
    /// first word of a stale reference.
    const FORWARDED_HEADER: usize = 0;

    /// Called before a compaction asks for the first [`Moving::wanted_width`].
    fn compaction_begins(&self) {}

    /// The width that suits `cell`, which may be `width`, the one it has; `None`
    /// when it must not move. Its contents must fit in the width returned.
    ///
    /// # Safety
    /// `cell` is a live cell of this VM's heap.
    unsafe fn wanted_width(&self, cell: Cell, width: WidthIndex) -> Option<WidthIndex>;

    /// Called when the contents of `from`, which has `width`, have been copied to `to`, which
    /// has `new_width`, as far as they fit; both can be read. This is the place to change
    /// tables by address. Returns false when the VM has no memory for that: then `from` stays
    /// where it is, and nothing may have changed.
    ///
    /// # Safety
    /// Both are cells of this VM's heap, and hold the same.
    unsafe fn moved(&self, from: Cell, to: Cell, width: WidthIndex, new_width: WidthIndex) -> bool;

    /// Called when all cells have moved, before anything is rewritten.
    fn updating_begins(&self) {}

    /// Rewrites everything that `cell` refers to, weak references included, to
    /// where it is now. It may free payloads.
    ///
    /// # Safety
    /// `cell` is a live cell of this VM's heap.
    unsafe fn update_cell(&self, cell: Cell, width: WidthIndex, now: Forwarding<'_>);

    /// Rewrites every reference that is in no cell, except those that pinned what they
    /// refer to.
    fn update_roots(&self, now: Forwarding<'_>);
}

/// A VM that shows what its cells and roots refer to without marking: to the verifier,
/// outside collections.
///
/// # Safety
/// As for [`Vm`].
pub unsafe trait Inspection {
    /// Shows everything that [`Vm::trace_roots`] marks to `visit`.
    fn visit_roots(&self, visit: &mut dyn FnMut(Root));

    /// Shows everything that [`Vm::trace_cell`] marks to `visit`.
    ///
    /// # Safety
    /// `cell` is a live cell of this VM's heap.
    unsafe fn visit_cell(&self, cell: Cell, visit: &mut dyn FnMut(Cell));

    /// Whether [`Vm::common`] may mark `child` although [`Inspection::visit_cell`] does not show
    /// it of `cell`: the VM has a weak reference to it, or another cell keeps it alive.
    ///
    /// # Safety
    /// Both are live cells of this VM's heap.
    unsafe fn marks_besides(&self, cell: Cell, child: Cell) -> bool {
        let _ = (cell, child);
        false
    }
}

/// Something that is not in a cell and keeps a cell alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// A reference.
    Exact(Cell),
    /// A word that may be a reference, or be left over from one.
    Conservative(usize),
}

/// Stands for what a VM does not supply.
#[derive(Clone, Copy, Debug)]
struct Absent;

// SAFETY: it traces nothing.
unsafe impl TraceCommon for Absent {
    #[inline(always)]
    unsafe fn trace_cell(self, _cell: Cell, _tracer: &mut impl Trace) -> bool {
        false
    }

    fn reference(self, _word: usize) -> Option<Cell> {
        None
    }

    unsafe fn trace_below(self, _cell: Cell, _end: usize, _tracer: &mut impl Trace) -> usize {
        0
    }
}

// SAFETY: nothing moves.
unsafe impl Moving for Absent {
    unsafe fn wanted_width(&self, _cell: Cell, _width: WidthIndex) -> Option<WidthIndex> {
        None
    }

    unsafe fn moved(
        &self,
        _from: Cell,
        _to: Cell,
        _width: WidthIndex,
        _new_width: WidthIndex,
    ) -> bool {
        false
    }

    unsafe fn update_cell(&self, _cell: Cell, _width: WidthIndex, _now: Forwarding<'_>) {}

    fn update_roots(&self, _now: Forwarding<'_>) {}
}

// SAFETY: nothing is shown.
unsafe impl Inspection for Absent {
    fn visit_roots(&self, _visit: &mut dyn FnMut(Root)) {}

    unsafe fn visit_cell(&self, _cell: Cell, _visit: &mut dyn FnMut(Cell)) {}
}
