//! Finalizers: functions that are called with a cell after it has died.

use std::ffi::c_void;

use ashlar_heap::{Cell, MarkingEnd, Scope, Trace};

use crate::error;
use crate::heap::ProgramHeap;
use crate::thread::Thread;
use crate::tracer::{cell_of, pointer, Tracer};

type Finalize = unsafe extern "C" fn(&Thread, *mut c_void, *mut c_void);

#[derive(Clone, Copy, Debug)]
struct Finalizer {
    cell: Cell,
    finalize: Finalize,
    argument: *mut c_void,
}

/// The finalizers of a heap, in lists.
#[derive(Debug, Default)]
pub(crate) struct FinalizerLists {
    /// Of cells that any collection may find dead.
    young: Vec<Finalizer>,
    /// Of cells that were old at the end of a marking: no minor one finds them dead.
    old: Vec<Finalizer>,
    /// Of cells that have died; the latest runs first.
    due: Vec<Finalizer>,
    /// Finalizers that are running, the latest last. Threads that give the program's lock up
    /// meanwhile may end their finalizers in any order, so each has a number.
    running: Vec<(usize, Finalizer)>,
    /// How many have begun to run.
    begun: usize,
}

impl FinalizerLists {
    fn add(&mut self, finalizer: Finalizer) -> bool {
        // Room for all finalizers in every list: so no list grows while the program is stopped,
        // and each finalizer that is due can run.
        let lists = [&mut self.young, &mut self.old, &mut self.due];
        let count = lists.iter().map(|list| list.len()).sum::<usize>() + self.running.len() + 1;
        let has_room = lists.into_iter().all(|list| reserve(list, count));
        if has_room && reserve(&mut self.running, count) {
            self.young.push(finalizer);
            return true;
        }
        false
    }

    /// The next finalizer to run, and its number for [`FinalizerLists::end`].
    fn begin(&mut self) -> Option<(usize, Finalizer)> {
        let finalizer = self.due.pop()?;
        self.begun += 1;
        let begun = (self.begun, finalizer);
        // `add` has made room.
        self.running.push(begun);
        Some(begun)
    }

    /// Notes that the finalizer with this number has run.
    fn end(&mut self, number: usize) {
        self.running.retain(|&(running, _)| running != number);
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

    /// Finds the finalizers whose cells have died, when everything reachable is marked: they are
    /// due, and their cells are kept for them.
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
        // Marked after all have been looked at: that a dead cell refers to another is no reason
        // to put the other's finalizer off.
        for finalizer in due {
            end.tracer().mark(finalizer.cell);
        }
    }

    /// Marks, or updates, the cells of finalizers that are due. Those of running ones stay where
    /// they are: their functions have the addresses.
    pub(crate) fn trace(&mut self, tracer: &mut Tracer<'_, '_>) {
        for finalizer in &mut self.due {
            // SAFETY: where a cell is now, there is a cell.
            finalizer.cell = unsafe { Cell::from_address(tracer.mark(finalizer.cell)) };
        }
        for (_, finalizer) in &self.running {
            tracer.pin(finalizer.cell);
        }
    }

    /// Updates the cells of all other finalizers, which do not keep them, after cells have moved.
    pub(crate) fn follow(&mut self, location: impl Fn(usize) -> usize) {
        for finalizer in self.young.iter_mut().chain(&mut self.old) {
            // SAFETY: where a cell is now, there is a cell.
            finalizer.cell = unsafe { Cell::from_address(location(finalizer.cell.address())) };
        }
    }
}

/// Makes room for `count` items in all. Returns whether there is room.
fn reserve<T>(list: &mut Vec<T>, count: usize) -> bool {
    list.try_reserve(count.saturating_sub(list.len())).is_ok()
}

fn is_due(finalizer: &Finalizer, end: &MarkingEnd<'_>, due: &mut Vec<Finalizer>) -> bool {
    let is_dead = end.is_dead(finalizer.cell);
    if is_dead {
        due.push(*finalizer);
    }
    is_dead
}

#[no_mangle]
pub(crate) unsafe extern "C" fn ashlar_finalizer_add(
    heap: &ProgramHeap,
    cell: *mut c_void,
    finalize: Finalize,
    argument: *mut c_void,
) -> bool {
    let is_added = heap.vm().finalizers.borrow_mut().add(Finalizer {
        // SAFETY: the program passes a cell.
        cell: unsafe { cell_of(cell) },
        finalize,
        argument,
    });
    error::no_memory_unless(is_added, "finalizer")
}

#[no_mangle]
unsafe extern "C" fn ashlar_finalizer_remove(heap: &ProgramHeap, cell: *mut c_void) -> usize {
    // SAFETY: the program passes a cell.
    let cell = unsafe { cell_of(cell) };
    heap.vm().finalizers.borrow_mut().remove(cell)
}

#[no_mangle]
extern "C" fn ashlar_run_finalizers(thread: &Thread) -> usize {
    let vm = thread.heap().vm();
    let mut count = 0;
    loop {
        let next = vm.finalizers.borrow_mut().begin();
        let Some((number, next)) = next else {
            return count;
        };
        count += 1;
        // SAFETY: the program's own function, with what it asked for.
        unsafe { (next.finalize)(thread, pointer(next.cell), next.argument) };
        vm.finalizers.borrow_mut().end(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusing_allocator::while_memory_is_refused;

    extern "C" fn finalize(_: &Thread, _: *mut c_void, _: *mut c_void) {}

    fn finalizer(number: usize) -> Finalizer {
        Finalizer {
            // SAFETY: never looked at.
            cell: unsafe { Cell::from_address(number) },
            finalize,
            argument: std::ptr::null_mut(),
        }
    }

    /// This many finalizers that are due.
    fn due(count: usize) -> FinalizerLists {
        let mut finalizers = FinalizerLists::default();
        for number in 0..count {
            assert!(finalizers.add(finalizer(number)));
        }
        while_memory_is_refused(|| {
            let young = std::mem::take(&mut finalizers.young);
            finalizers.due.extend(&young);
            finalizers.young = young;
            finalizers.young.clear();
        });
        finalizers
    }

    #[test]
    fn what_is_due_runs_although_memory_is_refused_also_inside_each_other() {
        let mut finalizers = due(100);
        let mut ran = Vec::with_capacity(100);
        while_memory_is_refused(|| {
            while let Some((_, finalizer)) = finalizers.begin() {
                ran.push(finalizer.cell.address());
            }
        });
        assert!(ran.iter().rev().copied().eq(0..100), "{ran:?}");
    }

    #[test]
    fn a_refused_one_changes_nothing_and_those_that_run_count() {
        let mut finalizers = due(3);
        let (number, _) = finalizers.begin().unwrap();
        while while_memory_is_refused(|| finalizers.add(finalizer(7))) {}
        assert_eq!(finalizers.due(), 2);
        let added = finalizers.young.len();
        while_memory_is_refused(|| {
            finalizers.end(number);
            while let Some((number, _)) = finalizers.begin() {
                finalizers.end(number);
            }
        });
        assert_eq!((finalizers.young.len(), finalizers.begun), (added, 3));
    }

    #[test]
    fn threads_end_theirs_in_any_order() {
        let mut finalizers = due(3);
        let begun: Vec<_> = std::iter::from_fn(|| finalizers.begin()).collect();
        finalizers.end(begun[1].0);
        let left: Vec<_> = finalizers.running.iter().map(|begun| begun.0).collect();
        assert_eq!(left, [begun[0].0, begun[2].0]);
    }
}
