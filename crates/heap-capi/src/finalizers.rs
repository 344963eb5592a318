//! Finalizers: functions that are called with a cell after it has died.

use std::ffi::c_void;

use ashlar_heap::{Cell, MarkingEnd, Scope};

use crate::heap::Heap;
use crate::thread::Thread;
use crate::tracer::Tracer;

type Finalize = unsafe extern "C" fn(*mut Thread, *mut c_void, *mut c_void);

#[derive(Clone, Copy, Debug)]
struct Finalizer {
    cell: Cell,
    finalize: Finalize,
    argument: *mut c_void,
}

/// The finalizers of a heap.
#[derive(Debug, Default)]
pub(crate) struct Finalizers {
    /// Of cells that any collection may find dead.
    young: Vec<Finalizer>,
    /// Of cells that were old at the end of a marking: no minor one finds them dead.
    old: Vec<Finalizer>,
    /// Of cells that have died, the latest first.
    due: Vec<Finalizer>,
    /// Those that are running, the innermost last.
    running: Vec<Finalizer>,
}

impl Finalizers {
    fn add(&mut self, finalizer: Finalizer) -> bool {
        // Room for it in every list: none grows while the program is stopped.
        let count = self.young.len() + self.old.len() + self.due.len() + 1;
        let has_room = [&mut self.young, &mut self.old, &mut self.due]
            .into_iter()
            .all(|list| list.try_reserve(count - list.len().min(count)).is_ok());
        if has_room {
            self.young.push(finalizer);
        }
        has_room
    }

    fn remove(&mut self, cell: Cell) -> usize {
        let before = self.young.len() + self.old.len();
        self.young.retain(|finalizer| finalizer.cell != cell);
        self.old.retain(|finalizer| finalizer.cell != cell);
        before - self.young.len() - self.old.len()
    }

    /// How many are to be run.
    pub(crate) fn due(&self) -> usize {
        self.due.len()
    }

    /// Everything reachable is marked: those whose cell has died are due, and their cells
    /// are kept for them.
    pub(crate) fn take_dead(&mut self, end: &mut MarkingEnd<'_>) {
        let Self {
            young, old, due, ..
        } = self;
        if end.scope() != Scope::Minor {
            old.retain(|finalizer| !is_due(finalizer, end, due));
        }
        young.retain(|finalizer| {
            if is_due(finalizer, end, due) {
                return false;
            }
            let is_old = end.is_old(finalizer.cell);
            if is_old {
                old.push(*finalizer);
            }
            !is_old
        });
        // Marked after all have been looked at: one that refers to another is no reason
        // to keep the other's finalizer back.
        for finalizer in due {
            end.tracer_marks(finalizer.cell);
        }
    }

    /// Marks, or updates, the cells of those that are due or running.
    pub(crate) fn trace(&mut self, tracer: &mut Tracer<'_, '_>) {
        for finalizer in self.due.iter_mut().chain(&mut self.running) {
            // SAFETY: where a cell is now, there is a cell.
            finalizer.cell = unsafe { Cell::from_address(tracer.mark(finalizer.cell)) };
        }
    }

    /// Cells have moved; those that are waited for are kept by others, if at all.
    pub(crate) fn follow(&mut self, location: impl Fn(usize) -> usize) {
        for finalizer in self.young.iter_mut().chain(&mut self.old) {
            // SAFETY: where a cell is now, there is a cell.
            finalizer.cell = unsafe { Cell::from_address(location(finalizer.cell.address())) };
        }
    }
}

fn is_due(finalizer: &Finalizer, end: &MarkingEnd<'_>, due: &mut Vec<Finalizer>) -> bool {
    let is_dead = end.is_dead(finalizer.cell);
    if is_dead {
        due.push(*finalizer);
    }
    is_dead
}

/// Marking a cell without a callback.
trait Marks {
    fn tracer_marks(&mut self, cell: Cell);
}

impl Marks for MarkingEnd<'_> {
    fn tracer_marks(&mut self, cell: Cell) {
        use ashlar_heap::Trace;
        self.tracer().mark(cell);
    }
}

#[no_mangle]
unsafe extern "C" fn ashlar_finalizer_add(
    heap: *mut Heap,
    cell: *mut c_void,
    finalize: Finalize,
    argument: *mut c_void,
) -> bool {
    // SAFETY: the program passes a heap of its own.
    let mut finalizers = unsafe { &*heap }.vm().finalizers.borrow_mut();
    finalizers.add(Finalizer {
        // SAFETY: the program passes a cell.
        cell: unsafe { Cell::from_address(cell as usize) },
        finalize,
        argument,
    })
}

#[no_mangle]
unsafe extern "C" fn ashlar_finalizer_remove(heap: *mut Heap, cell: *mut c_void) -> usize {
    // SAFETY: the program passes a heap of its own, and a cell.
    let (heap, cell) = unsafe { (&*heap, Cell::from_address(cell as usize)) };
    heap.vm().finalizers.borrow_mut().remove(cell)
}

#[no_mangle]
unsafe extern "C" fn ashlar_run_finalizers(thread: *mut Thread) -> usize {
    // SAFETY: the program passes the calling thread's handle.
    let vm = unsafe { Thread::heap(thread) }.vm();
    let mut count = 0;
    loop {
        let next = {
            let mut finalizers = vm.finalizers.borrow_mut();
            let has_room = finalizers.running.try_reserve(1).is_ok();
            let next = finalizers.due.pop().filter(|_| has_room);
            finalizers.running.extend(next);
            next
        };
        let Some(next) = next else { return count };
        count += 1;
        let cell = std::ptr::with_exposed_provenance_mut(next.cell.address());
        // SAFETY: the program's own function, with what it asked for.
        unsafe { (next.finalize)(thread, cell, next.argument) };
        vm.finalizers.borrow_mut().running.pop();
    }
}
