//! Allocating objects, and how wide they are.

use std::ffi::c_void;

use ashlar_heap::allocate::cursor::AllocationCache;
use ashlar_heap::heap::{Allocation, Urgency};
use ashlar_heap::layout::cell_state::CellState;
use ashlar_heap::layout::region::Cell;
use ashlar_heap::layout::width::WidthIndex;

use crate::collect::{self, Reason};
use crate::layout;
use crate::objspace::{from_ruby, objspace, Objspace};
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
/// others may be turned into a form of five words in place, or are written as
/// five words when they are moved to another Ractor.
const FOUR_WORD_TYPES: u32 =
    1 << layout::T_FLOAT | 1 << layout::T_RATIONAL | 1 << layout::T_COMPLEX;

/// The types that may have the narrowest cells: none while allocations are
/// traced, because Ruby then clears what follows an object's first five words.
pub(crate) const fn narrow_types(traced: bool) -> u32 {
    if traced {
        0
    } else {
        FOUR_WORD_TYPES
    }
}

/// The width for an object of this type and size; `None` when no cell is that
/// wide.
#[inline(always)]
pub(crate) fn width_for(objspace: &Objspace, flags: Value, size: usize) -> Option<WidthIndex> {
    const FIVE_WORDS: WidthIndex = match WidthIndex::for_size(40) {
        Some(width) => width,
        None => WidthIndex::NARROWEST,
    };
    let width = WidthIndex::for_size(size)?;
    let is_narrow_type = objspace.narrow_types.get() >> (flags & layout::T_MASK) & 1 == 1;
    if width == WidthIndex::NARROWEST && !is_narrow_type {
        return Some(FIVE_WORDS);
    }
    Some(width)
}

#[inline(always)]
fn first_state(wb_protected: bool) -> CellState {
    if wb_protected {
        CellState::NEW
    } else {
        CellState::NEW_UNPROTECTED
    }
}

extern "C" {
    // shim/gc_impl.c
    fn ashlar_new_object_slowly(
        objspace: *mut c_void,
        cache: *mut c_void,
        klass: Value,
        flags: Value,
        v1: Value,
        v2: Value,
        v3: Value,
        wb_protected: bool,
        size: usize,
    ) -> Value;
}

/// Allocates an object, or raises.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_new_object(
    objspace: *mut c_void,
    cache: *mut c_void,
    klass: Value,
    flags: Value,
    v1: Value,
    v2: Value,
    v3: Value,
    wb_protected: bool,
    size: usize,
) -> Value {
    // SAFETY: Ruby passes its object space and the calling Ractor's cache; the
    // slow path gets the arguments as they came.
    unsafe {
        let this = from_ruby(objspace);
        let cursors = &mut *cache.cast::<AllocationCache<'static>>();
        if let Some(width) = width_for(this, flags, size) {
            let state = first_state(wb_protected);
            if let Some(cell) = cursors.bump(width, state) {
                return Contents {
                    flags,
                    klass,
                    v1,
                    v2,
                    v3,
                }
                .write(cell, width);
            }
        }
        ashlar_new_object_slowly(
            objspace,
            cache,
            klass,
            flags,
            v1,
            v2,
            v3,
            wb_protected,
            size,
        )
    }
}

/// Allocates an object when the cursor's run is used up; 0 when memory is out.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_allocate(
    objspace: *mut c_void,
    cache: *mut c_void,
    klass: Value,
    flags: Value,
    v1: Value,
    v2: Value,
    v3: Value,
    wb_protected: bool,
    size: usize,
) -> Value {
    // SAFETY: as for `ashlar_new_object`.
    let objspace = unsafe { from_ruby(objspace) };
    let Some(width) = width_for(objspace, flags, size) else {
        return 0;
    };
    match allocate_slowly(objspace, cache.cast(), width, first_state(wb_protected)) {
        Some(cell) => Contents {
            flags,
            klass,
            v1,
            v2,
            v3,
        }
        .write(cell, width),
        None => 0,
    }
}

fn allocate_slowly(
    objspace: &'static Objspace,
    cache: *mut AllocationCache<'static>,
    width: WidthIndex,
    state: CellState,
) -> Option<Cell> {
    collect::with_vm_lock(objspace, || {
        let mut urgency = if objspace.disabled.get() {
            Urgency::MustAllocate
        } else {
            Urgency::MayCollect
        };
        let mut is_last_try = false;
        loop {
            // SAFETY: this thread holds the lock and owns the cache; the
            // reference ends before a collection retires the cache.
            let cache = unsafe { &mut *cache };
            // Reading the clock costs as much as filling a short run.
            let sweeps = objspace.heap.will_sweep(cache, width);
            let mut allocate = || objspace.heap.allocate(cache, width.bytes(), state, urgency);
            let outcome = if sweeps {
                objspace.timing.sweeping(objspace, allocate)
            } else {
                allocate()
            };
            match outcome {
                Allocation::Allocated(cell) => return Some(cell),
                Allocation::NeedsCollection => {
                    collect_before_allocating(objspace);
                    urgency = Urgency::MustAllocate;
                }
                Allocation::OutOfMemory if !is_last_try && collect::last_resort(objspace) => {
                    is_last_try = true;
                }
                Allocation::OutOfMemory | Allocation::TooLarge => {
                    objspace.heap.open_reserve();
                    return None;
                }
            }
        }
    })
}

fn collect_before_allocating(objspace: &Objspace) {
    let reason = if objspace.gc_stress_is_on() {
        Reason::Stress
    } else {
        Reason::NewObject
    };
    collect::paced(objspace, reason);
}

/// Bytes that an object's cell has.
///
/// # Safety
/// `object` must be an object in the heap.
#[no_mangle]
unsafe extern "C" fn ashlar_object_width(object: Value) -> usize {
    match objspace() {
        // SAFETY: the caller's contract.
        Some(objspace) => objspace
            .heap
            .region()
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
    // SAFETY: Ruby passes its object space.
    let objspace = unsafe { from_ruby(objspace) };
    objspace.narrow_types.set(narrow_types(newobj));
    objspace.heap.vm.traces_frees.set(freeobj);
}
