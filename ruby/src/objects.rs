//! Allocating objects, and how wide they are.

use std::ffi::c_void;

use ashlar_heap::{Allocation, AllocationCache, Cell, CellState, Urgency, WidthIndex};

use crate::collect::Reason;
use crate::collector::Collector;
use crate::heap_profile;
use crate::knobs::KNOBS;
use crate::lock::{Gvl, Objspace};
use crate::ruby_calls::Value;

/// Writes the words that the collector reads of every object into a fresh cell.
#[inline(always)]
fn begin(cell: Cell, klass: Value, flags: Value) -> Value {
    let words = cell.address() as *mut Value;
    // SAFETY: the cell is fresh, and has four words or more.
    unsafe {
        words.write(flags);
        words.add(1).write(klass);
    }
    cell.address()
}

/// The width for an object of this type and size; `None` when no cell is that
/// wide.
#[inline(always)]
pub(crate) fn width_for(flags: Value, size: usize) -> Option<WidthIndex> {
    const FIVE_WORDS: WidthIndex = match WidthIndex::for_size(40) {
        Some(width) => width,
        None => WidthIndex::NARROWEST,
    };
    if size > WidthIndex::NARROWEST.bytes() {
        return WidthIndex::for_size(size);
    }
    Some(if KNOBS.is_narrow_type(flags) {
        WidthIndex::NARROWEST
    } else {
        FIVE_WORDS
    })
}

#[inline(always)]
fn first_state(wb_protected: bool) -> CellState {
    if wb_protected {
        CellState::NEW
    } else {
        CellState::NEW_UNPROTECTED
    }
}

/// Allocates an object where `shim/inlined.h` does not; 0 when there is no memory.
#[no_mangle]
unsafe extern "C" fn ashlar_allocate(
    gvl: Gvl,
    cache: *mut c_void,
    klass: Value,
    flags: Value,
    wb_protected: bool,
    size: usize,
) -> Value {
    let Some(width) = width_for(flags, size) else {
        return 0;
    };
    let cache = cache.cast::<AllocationCache<'static>>();
    let state = first_state(wb_protected);
    // SAFETY: the cache is the calling Ractor's own, and Ruby calls with the GVL.
    if let Some(cell) = unsafe { (*cache).allocate_at_once(width, state) } {
        return begin(cell, klass, flags); // a narrow one
    }
    let allocated = gvl.with_vm_lock(|collector| {
        let cell = allocate_slowly(collector, cache, width, state)?;
        // SAFETY: this thread holds the lock and owns the cache.
        let cache = unsafe { &mut *cache };
        if cache.last_is_sample(width) {
            heap_profile::cell_made(cache, (cell.address(), width), klass, flags);
        }
        Some(cell)
    });
    allocated.map_or(0, |cell| begin(cell, klass, flags))
}

fn allocate_slowly(
    collector: &Collector,
    cache: *mut AllocationCache<'static>,
    width: WidthIndex,
    state: CellState,
) -> Option<Cell> {
    let urgency = if KNOBS.disabled.is_on() {
        Urgency::MustAllocate
    } else {
        Urgency::MayCollect
    };
    let reason = if KNOBS.stress_is_on() {
        Reason::Stress
    } else {
        Reason::NewObject
    };
    if urgency == Urgency::MayCollect && KNOBS.owes_room() {
        collector.make_owed_room();
    }
    let (driver, wanted) = (collector.driver(reason), || collector.wanted(reason));
    // SAFETY: this thread holds the lock and owns the cache.
    match unsafe { driver.allocate(cache, width.bytes(), state, urgency, wanted) } {
        Allocation::Allocated(cell) => Some(cell),
        _ => None,
    }
}

/// The state bits of the cell at `word`; 0 for any word that is no live cell.
#[no_mangle]
extern "C" fn ashlar_cell_state(objspace: &Objspace, word: Value) -> u32 {
    let region = objspace.region();
    region
        .cell_at(word)
        .map_or(0, |cell| u32::from(region.state(cell).bits()))
}

/// Whether `word`, which once was an object, is not a live object any more.
#[no_mangle]
extern "C" fn ashlar_is_garbage(objspace: &Objspace, word: Value) -> bool {
    objspace.is_garbage(word)
}

/// Turns the hooks on or off that Ruby's tracing of allocations and frees needs.
#[no_mangle]
extern "C" fn ashlar_set_event_hooks(gvl: Gvl, newobj: bool, freeobj: bool) {
    KNOBS.trace_allocations(newobj);
    gvl.with_vm_lock(|collector| collector.heap.vm().traces_frees.set(freeobj));
}
