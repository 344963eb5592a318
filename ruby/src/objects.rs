//! Allocating objects, and how wide they are.

use std::ffi::c_void;

use ashlar_heap::allocate::cursor::AllocationCache;
use ashlar_heap::heap::{Allocation, Urgency};
use ashlar_heap::layout::cell_state::CellState;
use ashlar_heap::layout::region::Cell;
use ashlar_heap::layout::width::WidthIndex;

use crate::collect::{self, Reason};
use crate::layout;
use crate::objspace::{from_ruby, shared, Objspace};
use crate::ruby_calls::Value;

/// The five words Ruby hands over with a new object.
struct Contents {
    flags: Value,
    klass: Value,
    v1: Value,
    v2: Value,
    v3: Value,
}

impl Contents {
    /// Fills a fresh cell. The narrowest cells have room for four words only.
    #[inline(always)]
    fn write(self, cell: Cell, width: WidthIndex) -> Value {
        let words = cell.address() as *mut Value;
        // SAFETY: the cell is fresh and has at least four words, and all but
        // the narrowest have five.
        unsafe {
            words.write(self.flags);
            words.add(1).write(self.klass);
            words.add(2).write(self.v1);
            words.add(3).write(self.v2);
            if width != WidthIndex::NARROWEST {
                words.add(4).write(self.v3);
            }
        }
        cell.address()
    }
}

/// Types that never need more than four words unless they ask for more. All
/// others may be turned into a form of five words in place.
const FOUR_WORD_TYPES: u32 = 1 << layout::T_OBJECT
    | 1 << layout::T_FLOAT
    | 1 << layout::T_STRUCT
    | 1 << layout::T_RATIONAL
    | 1 << layout::T_COMPLEX;

/// The bytes that an object needs whatever Ruby asks for.
#[inline(always)]
fn bytes_min(flags: Value) -> usize {
    let four_words = FOUR_WORD_TYPES >> (flags & layout::T_MASK) & 1 == 1;
    if four_words {
        32
    } else {
        40
    }
}

/// Allocates an object; 0 when memory is out.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_new_object(
    objspace: *mut c_void,
    cache: *mut AllocationCache,
    klass: Value,
    flags: Value,
    v1: Value,
    v2: Value,
    v3: Value,
    wb_protected: bool,
    size: usize,
) -> Value {
    // SAFETY: Ruby passes its object space and the calling Ractor's cache.
    let (objspace, cache) = unsafe { (from_ruby(objspace), &mut *cache) };
    let state = if wb_protected {
        CellState::NEW
    } else {
        CellState::NEW_UNPROTECTED
    };
    let contents = Contents {
        flags,
        klass,
        v1,
        v2,
        v3,
    };
    let size = size
        .max(bytes_min(flags))
        .max(objspace.object_bytes_min.get());
    let Some(width) = WidthIndex::for_size(size) else {
        return 0;
    };
    if let Some(cell) = cache.bump(objspace.heap.region(), width, state) {
        return contents.write(cell, width);
    }
    match allocate_slowly(objspace, cache, size, state) {
        Some(cell) => contents.write(cell, width),
        None => 0,
    }
}

#[cold]
#[inline(never)]
fn allocate_slowly(
    objspace: &'static Objspace,
    cache: *mut AllocationCache,
    size: usize,
    state: CellState,
) -> Option<Cell> {
    collect::with_vm_lock(objspace, || {
        let mut urgency = if objspace.disabled.get() {
            Urgency::MustAllocate
        } else {
            Urgency::MayCollect
        };
        loop {
            let outcome = objspace.timing.sweeping(objspace, || {
                // SAFETY: this thread holds the lock and owns the cache; the
                // reference ends before a collection retires the cache.
                let cache = unsafe { &mut *cache };
                objspace.heap.allocate(cache, size, state, urgency)
            });
            match outcome {
                Allocation::Allocated(cell) => return Some(cell),
                Allocation::NeedsCollection => {
                    let stressed = objspace.heap.stress().collect_every > 0;
                    let reason = if stressed {
                        Reason::Stress
                    } else {
                        Reason::NewObject
                    };
                    collect::paced(objspace, reason);
                    urgency = Urgency::MustAllocate;
                }
                Allocation::OutOfMemory if collect::last_resort(objspace) => {}
                Allocation::OutOfMemory | Allocation::TooLarge => return None,
            }
        }
    })
}

/// Bytes that an object's cell has.
///
/// # Safety
/// `object` must be an object in the heap.
#[no_mangle]
unsafe extern "C" fn ashlar_object_width(object: Value) -> usize {
    match shared() {
        // SAFETY: the caller's contract.
        Some(shared) => shared
            .region
            .width_of(unsafe { Cell::from_address(object) })
            .bytes(),
        None => 0,
    }
}

/// Which width serves `size`.
#[no_mangle]
extern "C" fn ashlar_width_index(size: usize) -> usize {
    WidthIndex::for_size(size).map_or(0, WidthIndex::index)
}

/// A cell's state bits; 0 for any word that is no live cell.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_cell_state(objspace: *mut c_void, word: Value) -> u32 {
    // SAFETY: Ruby passes its object space.
    let region = unsafe { from_ruby(objspace) }.heap.region();
    region
        .cell_at(word)
        .map_or(0, |cell| u32::from(region.state(cell).bits()))
}

/// Whether a word that once was an object is one no more.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_is_garbage(objspace: *mut c_void, word: Value) -> bool {
    // SAFETY: Ruby passes its object space.
    let heap = &unsafe { from_ruby(objspace) }.heap;
    match heap.region().cell_at(word) {
        Some(cell) => heap.is_garbage(cell),
        None => true,
    }
}

/// Turns hooks on or off that Ruby's tracing wants.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_set_event_hooks(objspace: *mut c_void, newobj: bool, freeobj: bool) {
    /// Five words: what Ruby assumes every object to have while it traces
    /// allocations.
    const TRACED_OBJECT_BYTES_MIN: usize = 40;
    // SAFETY: Ruby passes its object space.
    let objspace = unsafe { from_ruby(objspace) };
    objspace
        .object_bytes_min
        .set(if newobj { TRACED_OBJECT_BYTES_MIN } else { 0 });
    objspace.heap.vm.traces_frees.set(freeobj);
}
