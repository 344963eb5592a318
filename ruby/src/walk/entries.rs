//! What Ruby calls about walks.

use std::ffi::c_void;

use ashlar_heap::{CellRange, WidthIndex};

use super::Snapshot;
use crate::collector::Collector;
use crate::lock::Gvl;
use crate::object_model::Object;
use crate::objspace::unlocked;
use crate::ruby_calls::Value;

/// Begins a walk of a Ruby thread over all cells, in the form that `shim/ashlar_ruby.h`
/// describes; false when there is no memory for the snapshot.
#[no_mangle]
unsafe extern "C" fn ashlar_begin_walk(
    objspace: *mut c_void,
    thread: Value,
    place: *mut Snapshot,
) -> bool {
    // SAFETY: Ruby calls with the GVL.
    let begun = unsafe { Gvl::of_caller(objspace) }.with_vm_lock(|collector| {
        let words = snapshot(collector)?;
        collector.walks.begin(&collector.heap, thread, words)
    });
    let has_begun = begun.is_some();
    if let Some(begun) = begun {
        // SAFETY: the shim passes a place for it.
        unsafe { place.write(begun) };
    }
    has_begun
}

/// `None` when there is no memory for it.
fn snapshot(collector: &Collector) -> Option<Vec<Value>> {
    let heap = &collector.heap;
    // The other Ractors do not allocate while the cells are counted.
    collector.stop_ractors();
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

/// Makes Ruby see an object of no type in each of these free cells. Only what
/// has to change is written, for the sake of pages that a child shares.
fn show_as_free(collector: &Collector, start: usize, end: usize, width: WidthIndex) {
    for cell in (start..end).step_by(width.bytes()) {
        let flags = collector.heap.region().pointer(cell).cast::<usize>();
        // SAFETY: the cell is free, and nobody allocates now; what a free run
        // keeps in its first cell stands behind the first word, which is 0.
        unsafe {
            if flags.read() != 0 {
                flags.write(0);
            }
        }
    }
}

/// The live object after `object` in address order that has one of these types, a bit each
/// by number; 0 after the last, and 0 asks for the first. For walks during which nothing is
/// collected.
#[no_mangle]
unsafe extern "C" fn ashlar_next_object(objspace: *mut c_void, object: Value, types: u32) -> Value {
    // SAFETY: Ruby passes its object space.
    let heap = unsafe { unlocked(objspace) };
    let is_wanted = |cell| types >> Object::new(cell).kind() & 1 != 0;
    heap.next_cell(object, is_wanted)
        .map_or(0, |cell| cell.address())
}

/// Ends a walk, unless that has been done. The collector calls it as well, while it frees
/// the object that stands for a walk.
#[no_mangle]
unsafe extern "C" fn ashlar_end_walk(objspace: *mut c_void, number: usize) {
    // SAFETY: Ruby calls with the GVL.
    unsafe { Gvl::of_caller(objspace) }
        .with_vm_lock(|collector| collector.walks.end(&collector.heap, number));
}

/// Collections whose marking is over. While there are no more of them, what was free when all
/// was swept is free or a cell of the same width.
#[no_mangle]
unsafe extern "C" fn ashlar_marked_count(objspace: *mut c_void) -> usize {
    // SAFETY: Ruby calls with the GVL.
    unsafe { Gvl::of_caller(objspace) }.with_vm_lock(|collector| {
        let heap = &collector.heap;
        heap.stats().collections() - usize::from(heap.is_marking())
    })
}

/// Whether `word` is a live object now.
#[no_mangle]
unsafe extern "C" fn ashlar_is_live(objspace: *mut c_void, word: Value) -> bool {
    // SAFETY: Ruby passes its object space.
    let heap = unsafe { unlocked(objspace) };
    heap.region()
        .cell_at(word)
        .is_some_and(|cell| !heap.is_garbage(cell))
}
