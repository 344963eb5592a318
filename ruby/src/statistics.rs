//! Counters for `GC.stat` and related methods.

use std::ffi::{c_char, CStr};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

use ashlar_heap::counters::Group;
use ashlar_heap::{WidthUsage, WIDTH_COUNT};

use crate::collector::Collector;
use crate::counters::{
    allocatable_cells, ALLOCATABLE_CELLS, ALLOCATED_PAGES, BASE_BYTES, C, COLLECTOR_NS,
    FINAL_CELLS, GIVEN_PAGES, MARK_NS, READ_BARRIER_FAULTS, SWEEP_NS, TAKEN_PAGES,
    WAITING_FINALIZERS,
};
use crate::lock::Gvl;
use crate::message;

const NS_PER_MS: u64 = 1_000_000;
const NS_PER_US: u64 = 1000;

/// The keys of `GC.stat`: those of Ruby's default collector, then our own.
static KEYS: [(&CStr, C); 53] = [
    (c"count", C::COLLECTIONS),
    (c"time", COLLECTOR_NS.per(NS_PER_MS, "ms")),
    (c"marking_time", MARK_NS.per(NS_PER_MS, "ms")),
    (c"sweeping_time", SWEEP_NS.per(NS_PER_MS, "ms")),
    (c"heap_allocated_pages", ALLOCATED_PAGES),
    (c"heap_empty_pages", C::SPARE_BLOCKS),
    (c"heap_allocatable_slots", ALLOCATABLE_CELLS),
    (c"heap_available_slots", C::AVAILABLE_CELLS),
    (c"heap_live_slots", C::LIVE_CELLS),
    (c"heap_free_slots", C::FREE_CELLS),
    (c"heap_final_slots", FINAL_CELLS),
    (c"heap_marked_slots", C::MARKED_CELLS),
    (c"heap_eden_pages", C::CELL_BLOCKS),
    (c"total_allocated_pages", TAKEN_PAGES),
    (c"total_freed_pages", GIVEN_PAGES),
    (c"total_allocated_objects", C::ALLOCATED_CELLS),
    (c"total_freed_objects", C::FREED_CELLS),
    (c"malloc_increase_bytes", C::FRESH_PAYLOAD_BYTES),
    (c"malloc_increase_bytes_limit", C::NURSERY_BYTES),
    (c"minor_gc_count", C::MINOR_COLLECTIONS),
    (c"major_gc_count", C::MAJOR_OR_FULL_COLLECTIONS),
    (c"compact_count", C::COMPACTIONS),
    (c"read_barrier_faults", READ_BARRIER_FAULTS),
    (c"total_moved_objects", C::MOVED_CELLS),
    (c"remembered_wb_unprotected_objects", C::RESCANNED_CELLS),
    (
        c"remembered_wb_unprotected_objects_limit",
        C::RESCANNED_CELLS_LIMIT,
    ),
    (c"old_objects", C::OLD_CELLS),
    (c"old_objects_limit", C::OLD_CELLS_LIMIT),
    (c"oldmalloc_increase_bytes", C::GROWN_BYTES),
    (c"oldmalloc_increase_bytes_limit", C::GROWTH_LIMIT_BYTES),
    (c"complete_gc_count", C::FULL_COLLECTIONS),
    (c"heap_inherited_pages", C::INHERITED_BLOCKS),
    (c"settled_objects", C::SETTLED_CELLS),
    (c"settled_boundary_objects", C::BOUNDARY_CELLS),
    (c"live_bytes", C::LIVE_BYTES),
    (c"cell_bytes", C::CELL_BYTES),
    (c"payload_bytes", C::PAYLOAD_BYTES),
    (c"external_bytes", C::EXTERNAL_BYTES),
    (c"fresh_bytes", C::FRESH_BYTES),
    (c"nursery_bytes", C::NURSERY_BYTES),
    (c"major_threshold_bytes", C::MAJOR_THRESHOLD_BYTES),
    (c"memory_limit_bytes", C::MEMORY_LIMIT_BYTES),
    (c"memory_limit_collections", C::LIMIT_COLLECTIONS),
    (c"over_memory_limit", C::OVER_LIMIT),
    (c"resident_bytes", C::RESIDENT_BYTES),
    (c"released_pages", C::RELEASED_BLOCKS),
    (c"waiting_finalizers", WAITING_FINALIZERS),
    (c"marking_threads", C::MARKING_THREADS),
    (c"pause_count", C::PAUSES),
    (c"pause_us_total", C::PAUSE_NS.per(NS_PER_US, "µs")),
    (c"pause_us_p50", C::PAUSE_NS_MEDIAN.per(NS_PER_US, "µs")),
    (c"pause_us_p99", C::PAUSE_NS_P99.per(NS_PER_US, "µs")),
    (c"pause_us_max", C::PAUSE_NS_MAX.per(NS_PER_US, "µs")),
];

type WidthKey = (&'static CStr, fn(&WidthUsage) -> u64);

/// The keys of `GC.stat_heap`.
static WIDTH_KEYS: [WidthKey; 11] = [
    (c"slot_size", |width| width.width_bytes as u64),
    (c"heap_eden_pages", |width| width.blocks as u64),
    (c"heap_eden_slots", |width| width.cells as u64),
    (c"total_allocated_pages", |width| width.blocks_taken as u64),
    // Collections are due by bytes of all widths together, so no width forces one.
    (c"force_major_gc_count", |_| 0),
    (c"force_incremental_marking_finish_count", |_| 0),
    (c"total_allocated_objects", |width| width.allocated_cells),
    (c"total_freed_objects", |width| width.freed_cells),
    (c"heap_live_slots", |width| width.live_cells as u64),
    (c"heap_free_slots", |width| {
        (width.cells - width.live_cells) as u64
    }),
    // An object that waits for its finalizer has left its cell.
    (c"heap_final_slots", |_| 0),
];

/// `ASHLAR_KEYS_MAX`.
const KEYS_MAX: usize = 64;

const _: () = assert!(KEYS.len() <= KEYS_MAX && WIDTH_KEYS.len() <= KEYS_MAX);

impl Collector {
    /// How many cells there are in the heap's blocks, and in the further blocks that
    /// may be taken before the next collection is due.
    pub(crate) fn cells_at_hand(&self) -> usize {
        let usage = self.heap.usage();
        usage.live_cells + usage.free_cells + allocatable_cells(&self.heap)
    }

    /// Delays the next collection until there are this many cells.
    pub(crate) fn keep_cells_at_hand(&self, cells: usize) {
        let usage = self.heap.usage();
        let missing = cells.saturating_sub(usage.live_cells + usage.free_cells);
        self.heap.put_off_collection(missing * BASE_BYTES);
    }
}

/// The name of a key of `GC.stat`; null after the last one.
#[no_mangle]
extern "C" fn ashlar_key(index: usize) -> *const c_char {
    KEYS.get(index).map_or(null(), |(name, _)| name.as_ptr())
}

/// The name of a key of `GC.stat_heap`; null after the last one.
#[no_mangle]
extern "C" fn ashlar_width_key(index: usize) -> *const c_char {
    WIDTH_KEYS
        .get(index)
        .map_or(null(), |(name, _)| name.as_ptr())
}

#[no_mangle]
unsafe extern "C" fn ashlar_count(gvl: Gvl, first: usize, count: usize, values: *mut u64) {
    let keys = &KEYS[first..][..count];
    gvl.with_vm_lock(|collector| {
        if keys.iter().any(|(_, key)| key.group == Group::Summed) {
            collector.stop_ractors();
        }
        for (index, (_, key)) in keys.iter().enumerate() {
            // SAFETY: the shim passes places for `count` values.
            unsafe { values.add(index).write(key.value(&collector.heap)) };
        }
    });
}

#[no_mangle]
extern "C" fn ashlar_count_widths(
    gvl: Gvl,
    values: &mut MaybeUninit<[[u64; WIDTH_KEYS.len()]; WIDTH_COUNT]>,
) {
    let widths = gvl.with_vm_lock(|collector| {
        collector.stop_ractors();
        collector.heap.width_usage()
    });
    let values_of = |width| std::array::from_fn(|key| (WIDTH_KEYS[key].1)(&width));
    values.write(widths.map(values_of));
}

#[no_mangle]
extern "C" fn ashlar_collection_count(gvl: Gvl) -> usize {
    let stats = gvl.with_vm_lock(|collector| collector.heap.stats());
    stats.collections()
}

#[no_mangle]
extern "C" fn ashlar_total_time_ns(gvl: Gvl) -> u64 {
    gvl.with_vm_lock(|collector| collector.heap.vm().clocks.total_ns())
}

#[no_mangle]
extern "C" fn ashlar_verify(gvl: Gvl) -> *mut c_char {
    let outcome = gvl.with_vm_lock(|collector| {
        collector.stop_ractors();
        collector.heap.verify()
    });
    match outcome {
        Ok(()) => null_mut(),
        Err(text) => message::hand_over(text),
    }
}

#[cfg(test)]
mod tests {
    use ashlar_heap::document::compare;

    use super::*;

    #[test]
    fn the_document_has_every_key_of_gc_stat() {
        let row = |(name, C { unit, about, .. }): &(&CStr, C)| {
            format!(
                "| {} | {unit} | {about} |\n",
                name.to_str().expect("a word")
            )
        };
        let table: String = KEYS.iter().map(row).collect();
        let begin = "| key | unit | value |\n|---|---|---|\n";
        compare(
            "docs/reference/statistics.md",
            begin,
            "\nThe keys from",
            &table,
        );
    }
}
