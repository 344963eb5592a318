//! Counters for `GC.stat` and its relatives, and options that may change while
//! running.

use std::ffi::{c_char, c_void, CString};
use std::ptr::null;

use ashlar_heap::layout::width::WIDTH_COUNT;
use ashlar_heap::pace::PaceOptions;

use crate::collect;
use crate::objspace::from_ruby;
use crate::options::SPACE_OVERHEAD_RANGE;

/// `struct ashlar_statistics`.
#[repr(C)]
pub(crate) struct Statistics {
    count: usize,
    minor_count: usize,
    major_count: usize,
    time_ns: u64,
    mark_time_ns: u64,
    sweep_time_ns: u64,
    allocated_objects: u64,
    freed_objects: u64,
    live_cells: usize,
    free_cells: usize,
    final_cells: usize,
    marked_cells: usize,
    cell_blocks: usize,
    empty_blocks: usize,
    blocks_allocated: usize,
    blocks_freed: usize,
    cell_bytes: usize,
    payload_bytes: usize,
    external_bytes: usize,
    fresh_payload_bytes: usize,
    budget_bytes: usize,
    full_threshold_bytes: usize,
    old_cells: usize,
    remembered_unprotected_cells: usize,
    weak_references: usize,
    retained_weak_references: usize,
    memory_limit_bytes: usize,
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_statistics(objspace: *mut c_void, statistics: *mut Statistics) {
    // SAFETY: Ruby passes its object space.
    let objspace = unsafe { from_ruby(objspace) };
    let heap = &objspace.heap;
    let (stats, usage, pace) = (heap.stats(), heap.usage(), heap.pace());
    let payloads = &heap.shared().payloads;
    let (mark_time_ns, sweep_time_ns) = (
        objspace.timing.mark_ns.get(),
        objspace.timing.sweep_ns.get(),
    );
    let weak = heap.vm.weak.get();
    let filled = Statistics {
        count: stats.minor_collections + stats.full_collections,
        minor_count: stats.minor_collections,
        major_count: stats.full_collections,
        time_ns: mark_time_ns + sweep_time_ns,
        mark_time_ns,
        sweep_time_ns,
        allocated_objects: heap.allocated_cells().iter().sum(),
        freed_objects: heap.freed_cells().iter().sum(),
        live_cells: usage.live_cells,
        free_cells: usage.free_cells,
        final_cells: objspace.finalizers.borrow().waiting_jobs(),
        marked_cells: stats.marked_cells,
        cell_blocks: usage.cell_blocks,
        empty_blocks: usage.empty_blocks,
        blocks_allocated: stats.blocks_taken,
        blocks_freed: stats.blocks_given,
        cell_bytes: usage.cell_bytes,
        payload_bytes: usage.payload_bytes,
        external_bytes: payloads.elsewhere_bytes(),
        fresh_payload_bytes: payloads.fresh_bytes(),
        budget_bytes: pace.budget_bytes(),
        full_threshold_bytes: pace.full_threshold_bytes(),
        old_cells: stats.old_cells,
        remembered_unprotected_cells: stats.remembered_unprotected_cells,
        weak_references: weak.noted,
        retained_weak_references: weak.retained,
        memory_limit_bytes: pace.options().memory_limit_bytes.unwrap_or(0),
    };
    // SAFETY: the shim passes a place for the answer.
    unsafe { statistics.write(filled) };
}

/// `struct ashlar_width_statistics`.
#[repr(C)]
pub(crate) struct WidthStatistics {
    width_bytes: usize,
    blocks: usize,
    cells: usize,
    live_cells: usize,
    allocated_objects: u64,
    freed_objects: u64,
}

/// Number of widths.
#[no_mangle]
extern "C" fn ashlar_width_count() -> usize {
    WIDTH_COUNT
}

/// # Safety
/// As `shim/ashlar_ruby.h` says; `index` is below the number of widths.
#[no_mangle]
unsafe extern "C" fn ashlar_width_statistics(
    objspace: *mut c_void,
    index: usize,
    statistics: *mut WidthStatistics,
) {
    // SAFETY: Ruby passes its object space and a place for the answer.
    unsafe {
        let heap = &from_ruby(objspace).heap;
        let usage = heap.width_usage()[index];
        statistics.write(WidthStatistics {
            width_bytes: usage.width_bytes,
            blocks: usage.blocks,
            cells: usage.cells,
            live_cells: usage.live_cells,
            allocated_objects: heap.allocated_cells()[index],
            freed_objects: heap.freed_cells()[index],
        });
    }
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_space_overhead(objspace: *mut c_void) -> usize {
    // SAFETY: Ruby passes its object space.
    let pace = unsafe { from_ruby(objspace) }.heap.pace();
    pace.options().space_overhead_percent
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_set_space_overhead(objspace: *mut c_void, percent: usize) -> bool {
    if !SPACE_OVERHEAD_RANGE.contains(&percent) {
        return false;
    }
    // SAFETY: Ruby passes its object space.
    let heap = &unsafe { from_ruby(objspace) }.heap;
    heap.set_pace_options(PaceOptions {
        space_overhead_percent: percent,
        ..*heap.pace().options()
    });
    true
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_full_marking_allowed(objspace: *mut c_void) -> bool {
    // SAFETY: Ruby passes its object space.
    unsafe { from_ruby(objspace) }.full_marking_allowed.get()
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_allow_full_marking(objspace: *mut c_void, allowed: bool) {
    // SAFETY: Ruby passes its object space.
    unsafe { from_ruby(objspace) }
        .full_marking_allowed
        .set(allowed);
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_verify(objspace: *mut c_void) -> *const c_char {
    // SAFETY: Ruby passes its object space.
    let objspace = unsafe { from_ruby(objspace) };
    match collect::with_vm_lock(objspace, || objspace.heap.verify()) {
        Ok(()) => null(),
        Err(message) => {
            let mut kept = objspace.verify_message.borrow_mut();
            *kept = CString::new(message).unwrap_or_default();
            kept.as_ptr()
        }
    }
}
