//! What Ruby calls about walks.

use std::mem::MaybeUninit;

use ashlar_heap::{CellRange, WidthIndex};

use super::{marked_count, Snapshot};
use crate::collector::Collector;
use crate::lock::{Gvl, Objspace};
use crate::object_model::Object;
use crate::ruby_calls::Value;

/// Begins a walk of a Ruby thread over all cells, in the form that `shim/ashlar_ruby.h`
/// describes. Returns false when there is no memory for the snapshot.
#[no_mangle]
extern "C" fn ashlar_begin_walk(
    gvl: Gvl,
    thread: Value,
    place: &mut MaybeUninit<Snapshot>,
) -> bool {
    let begun = gvl.with_vm_lock(|collector| {
        let words = snapshot(collector)?;
        collector.walks.begin(&collector.heap, thread, words)
    });
    begun.map(|begun| place.write(begun)).is_some()
}

/// Returns the words of a snapshot, or `None` when there is no memory for them.
fn snapshot(collector: &Collector) -> Option<Vec<Value>> {
    let heap = &collector.heap;
    // So that the other Ractors do not allocate while the cells are counted.
    collector.stop_ractors();
    collector.finish_sweep();
    let mut needed = 0;
    heap.for_each_range(|range| {
        needed += match range {
            CellRange::Live(_) => 1,
            CellRange::Free { .. } => 2,
        }
    });
    let mut words = Vec::new();
    words.try_reserve_exact(needed).ok()?;
    heap.for_each_range(|range| match range {
        CellRange::Live(cell) => words.push(cell.address()),
        CellRange::Free { start, end, width } => {
            show_as_free(collector, start, end, width);
            words.extend([start | 1, end]);
        }
    });
    Some(words)
}

/// Makes Ruby see an object of no type in each of these free cells. Only words that must
/// change are written, because a forked child may share the pages.
fn show_as_free(collector: &Collector, start: usize, end: usize, width: WidthIndex) {
    for cell in (start..end).step_by(width.bytes()) {
        let flags = collector.heap.region().pointer(cell).cast::<usize>();
        // SAFETY: the cell is free, and nobody allocates now; what a free run keeps in its
        // first cell is behind the first word, which is 0.
        unsafe {
            if flags.read() != 0 {
                flags.write(0);
            }
        }
    }
}

/// Returns the next live object after `object`, in address order, whose type has its bit set
/// in `types`; 0 after the last one. An `object` of 0 asks for the first. Only for walks
/// during which nothing is collected.
#[no_mangle]
extern "C" fn ashlar_next_object(objspace: &Objspace, object: Value, types: u32) -> Value {
    let is_wanted = |cell| types >> Object::new(cell).kind() & 1 != 0;
    let next = objspace.next_cell(object, is_wanted);
    next.map_or(0, |cell| cell.address())
}

/// Ends a walk, if it has not ended yet. The collector also calls this, while it frees the
/// object that stands for a walk.
#[no_mangle]
extern "C" fn ashlar_end_walk(gvl: Gvl, ended: usize) {
    gvl.with_vm_lock(|collector| {
        collector
            .walks
            .end(&collector.heap, |number, _| number == ended);
    });
}

/// As [`marked_count`], for the shim.
#[no_mangle]
extern "C" fn ashlar_marked_count(gvl: Gvl) -> usize {
    gvl.with_vm_lock(|collector| marked_count(&collector.heap))
}
