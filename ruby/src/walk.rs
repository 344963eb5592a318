//! Walking the heap on behalf of Ruby, whose visitors may allocate and raise:
//! they get a snapshot.
//!
//! Nothing moves while a walk goes on. It ends when the visitor is through, raises or
//! breaks out; when the fiber that it goes on in is given up and collected, because the
//! object that stands for the walk dies then (`struct walk` in `shim/gc_impl.c`); and in a
//! forked child, when it went on in a thread that the child does not have.

use std::cell::{Cell as StdCell, RefCell};
use std::ffi::c_void;

use ashlar_heap::{CellRange, WidthIndex};

use crate::collector::Collector;
use crate::lock::Gvl;
use crate::object_model::Object;
use crate::process::unlocked;
use crate::ruby_calls::Value;

/// One that goes on.
struct Walk {
    number: usize,
    /// The Ruby thread, which stays where it is as all objects do meanwhile.
    thread: Value,
    /// The cells as they were when it began, which the shim reads.
    _words: Box<[Value]>,
}

/// All that go on. Numbers begin at 1 and are not used again.
#[derive(Default)]
pub(crate) struct Walks {
    latest: StdCell<usize>,
    all: RefCell<Vec<Walk>>,
}

/// A walk as the shim sees it: `struct ashlar_snapshot`.
#[repr(C)]
pub(crate) struct Snapshot {
    number: usize,
    words: *const Value,
    count: usize,
}

/// Begins a walk of a Ruby thread over all cells, in the form that `shim/ashlar_ruby.h`
/// describes; false when there is no memory for the snapshot.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_begin_walk(
    objspace: *mut c_void,
    thread: Value,
    place: *mut Snapshot,
) -> bool {
    // SAFETY: Ruby calls with the GVL.
    let begun = unsafe { Gvl::of_caller(objspace) }.with_vm_lock(|collector| {
        let words = snapshot(collector)?;
        begin_walk(collector, thread, words)
    });
    let has_begun = begun.is_some();
    if let Some(begun) = begun {
        // SAFETY: the shim passes a place for it.
        unsafe { place.write(begun) };
    }
    has_begun
}

fn begin_walk(collector: &Collector, thread: Value, words: Vec<Value>) -> Option<Snapshot> {
    let walks = &collector.walks;
    let words = words.into_boxed_slice();
    let mut all = walks.all.borrow_mut();
    all.try_reserve(1).ok()?;
    let number = walks.latest.get() + 1;
    walks.latest.set(number);
    let begun = Snapshot {
        number,
        words: words.as_ptr(),
        count: words.len(),
    };
    all.push(Walk {
        number,
        thread,
        _words: words,
    });
    collector.heap.begin_walk();
    Some(begun)
}

/// Ends those walks that `is_over` says yes of.
fn end_walks(collector: &Collector, is_over: impl Fn(&Walk) -> bool) {
    collector.walks.all.borrow_mut().retain(|walk| {
        let is_over = is_over(walk);
        if is_over {
            collector.heap.end_walk();
        }
        !is_over
    });
}

/// In a forked child, which has `thread` alone: the walks of the others will not be ended
/// by anybody.
pub(crate) fn end_walks_of_others(collector: &Collector, thread: Value) {
    end_walks(collector, |walk| walk.thread != thread);
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
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
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
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_end_walk(objspace: *mut c_void, number: usize) {
    // SAFETY: Ruby calls with the GVL.
    unsafe { Gvl::of_caller(objspace) }
        .with_vm_lock(|collector| end_walks(collector, |walk| walk.number == number));
}

/// Whether `word` is a live object now.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_is_live(objspace: *mut c_void, word: Value) -> bool {
    // SAFETY: Ruby passes its object space.
    let heap = unsafe { unlocked(objspace) };
    heap.region()
        .cell_at(word)
        .is_some_and(|cell| !heap.is_garbage(cell))
}
