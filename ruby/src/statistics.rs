//! Counters for `GC.stat` and its relatives.

use std::ffi::{c_char, c_void};
use std::ptr::null_mut;

use ashlar_heap::{BLOCK_BYTES, STATE_GRANULE_BYTES, WIDTHS, WIDTH_COUNT};

use crate::collector::Collector;
use crate::lock::Gvl;
use crate::message;

/// The width of an object that asks for no more: a header and three words.
const BASE_BYTES: usize = 40;

const _: () = assert!(WIDTHS[1] as usize == BASE_BYTES);

/// `struct ashlar_statistics`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Statistics {
    count: u64,
    minor_count: u64,
    major_count: u64,
    compact_count: u64,
    time_ms: u64,
    mark_time_ms: u64,
    sweep_time_ms: u64,
    allocated_objects: u64,
    freed_objects: u64,
    live_cells: u64,
    free_cells: u64,
    available_cells: u64,
    /// Cells of the base width that further blocks may have.
    allocatable_cells: u64,
    /// Cells that wait for a finalizer: none does, they are reused at once.
    final_cells: u64,
    marked_cells: u64,
    moved_objects: u64,
    read_barrier_faults: u64,
    cell_blocks: u64,
    /// Empty, with memory.
    empty_blocks: u64,
    /// Of cells, or empty with memory.
    cells_or_empty_blocks: u64,
    /// Taken for cells so far, or empty with memory.
    taken_or_empty_blocks: u64,
    /// Of cells, from the parent of this process, which nothing is allocated into.
    inherited_blocks: u64,
    blocks_taken: u64,
    blocks_given: u64,
    blocks_released: u64,
    /// Cells, payloads and external memory.
    live_bytes: u64,
    cell_bytes: u64,
    payload_bytes: u64,
    external_bytes: u64,
    fresh_bytes: u64,
    fresh_payload_bytes: u64,
    budget_bytes: u64,
    grown_bytes: u64,
    growth_limit_bytes: u64,
    full_threshold_bytes: u64,
    old_cells: u64,
    old_cells_limit: u64,
    remembered_unprotected_cells: u64,
    /// 0 when there is none.
    remembered_unprotected_cells_limit: u64,
    memory_limit_bytes: u64,
    limit_collections: u64,
    over_limit: u64,
    resident_bytes: u64,
    waiting_jobs: u64,
    pause_count: u64,
    pause_total_us: u64,
    pause_us_p50: u64,
    pause_us_p99: u64,
    pause_us_max: u64,
    marking_threads: u64,
    settled_cells: u64,
    /// Of those, the ones that major collections trace.
    boundary_cells: u64,
    /// Of `major_count`, those that looked at settled cells, too: full ones.
    complete_count: u64,
}

const NS_PER_MS: u64 = 1_000_000;

// `enum ashlar_count`.
const COLLECTIONS: u32 = 1;
const CELLS: u32 = 2;
const BYTES: u32 = 4;
const REMEMBERED: u32 = 8;
const PAUSES: u32 = 16;
const RESIDENCE: u32 = 32;

const NS_PER_US: u64 = 1000;

impl Collector {
    fn statistics(&self, groups: u32) -> Statistics {
        let mut filled = Statistics::default();
        if groups & (CELLS | BYTES) != 0 {
            // Each Ractor counts the cells that it allocates.
            self.stop_ractors();
        }
        if groups & (COLLECTIONS | BYTES) != 0 {
            self.count_collections(&mut filled);
        }
        if groups & CELLS != 0 {
            self.count_cells(&mut filled);
        }
        if groups & BYTES != 0 {
            self.count_bytes(&mut filled);
        }
        if groups & REMEMBERED != 0 {
            filled.remembered_unprotected_cells = self.heap.remembered_unprotected_cells() as u64;
        }
        if groups & PAUSES != 0 {
            self.count_pauses(&mut filled);
        }
        if groups & RESIDENCE != 0 {
            let resident_bytes = ashlar_heap::os::resident_bytes();
            filled.resident_bytes = resident_bytes.unwrap_or(0) as u64;
        }
        filled
    }

    /// Cells of the base width in the blocks that may be taken before the next
    /// collection is due.
    fn allocatable_cells(&self) -> usize {
        self.heap.bytes_for_new_blocks() / BASE_BYTES
    }

    /// Cells in the heap's blocks, and cells that further blocks may have before the
    /// next collection is due.
    pub(crate) fn cells_at_hand(&self) -> usize {
        let usage = self.heap.usage();
        usage.live_cells + usage.free_cells + self.allocatable_cells()
    }

    /// Puts the next collection off until there are this many cells.
    pub(crate) fn keep_cells_at_hand(&self, cells: usize) {
        let usage = self.heap.usage();
        let missing = cells.saturating_sub(usage.live_cells + usage.free_cells);
        self.heap.put_off_collection(missing * BASE_BYTES);
    }

    fn count_pauses(&self, filled: &mut Statistics) {
        let pauses = self.heap.pauses().summary();
        filled.pause_count = pauses.count;
        filled.pause_total_us = pauses.total_ns / NS_PER_US;
        filled.pause_us_p50 = pauses.median_ns.div_ceil(NS_PER_US);
        filled.pause_us_p99 = pauses.percentile_99_ns.div_ceil(NS_PER_US);
        filled.pause_us_max = pauses.max_ns.div_ceil(NS_PER_US);
    }

    fn count_collections(&self, filled: &mut Statistics) {
        let stats = self.heap.stats();
        filled.time_ms = self.clocks.total_ns() / NS_PER_MS;
        filled.mark_time_ms = self.clocks.mark_ns.get() / NS_PER_MS;
        filled.sweep_time_ms = self.clocks.sweep_ns.get() / NS_PER_MS;
        filled.waiting_jobs = self.heap.vm().finalizers.borrow().waiting_jobs() as u64;
        filled.minor_count = stats.minor_collections as u64;
        filled.major_count = (stats.major_collections + stats.full_collections) as u64;
        filled.count = filled.minor_count + filled.major_count;
        filled.marked_cells = stats.marked_cells as u64;
        filled.compact_count = stats.compactions as u64;
        filled.moved_objects = stats.moved_cells;
        filled.old_cells = stats.old_cells as u64;
        filled.marking_threads = stats.marking_threads as u64;
        filled.settled_cells = stats.settled_cells as u64;
        filled.boundary_cells = stats.boundary_cells as u64;
        filled.complete_count = stats.full_collections as u64;
        filled.blocks_taken = stats.blocks_taken as u64;
        filled.blocks_given = stats.blocks_given as u64;
        filled.blocks_released = stats.blocks_released as u64;
    }

    fn count_cells(&self, filled: &mut Statistics) {
        let usage = self.heap.usage();
        filled.allocated_objects = self.heap.allocated_cells().iter().sum();
        filled.freed_objects = self.heap.freed_cells().iter().sum();
        filled.live_cells = usage.live_cells as u64;
        filled.free_cells = usage.free_cells as u64;
        filled.available_cells = filled.live_cells + filled.free_cells;
        filled.cell_blocks = usage.cell_blocks as u64;
        filled.empty_blocks = usage.held_blocks as u64;
        filled.cells_or_empty_blocks = filled.cell_blocks + filled.empty_blocks;
        filled.taken_or_empty_blocks =
            filled.cells_or_empty_blocks + self.heap.stats().blocks_given as u64;
        filled.inherited_blocks = self.heap.inherited_blocks() as u64;
        filled.cell_bytes = usage.cell_bytes as u64;
        filled.payload_bytes = usage.payload_bytes as u64;
    }

    fn count_bytes(&self, filled: &mut Statistics) {
        let payloads = self.heap.shared().payloads();
        let (pace, measure) = (self.heap.pace(), self.heap.measure());
        let kept_bytes = measure.used_bytes.saturating_sub(measure.fresh_bytes);
        filled.external_bytes = payloads.elsewhere_bytes() as u64;
        filled.live_bytes = measure.used_bytes as u64;
        filled.fresh_bytes = measure.fresh_bytes as u64;
        filled.fresh_payload_bytes = payloads.fresh_bytes() as u64;
        filled.budget_bytes = pace.budget_bytes() as u64;
        filled.allocatable_cells = self.allocatable_cells() as u64;
        filled.grown_bytes = pace.grown_bytes(kept_bytes) as u64;
        filled.growth_limit_bytes = pace.growth_limit_bytes() as u64;
        filled.full_threshold_bytes = pace.major_threshold_bytes() as u64;
        // The limit is one on bytes; in cells it is so many, if their number grows as
        // the bytes do.
        let growth = filled.full_threshold_bytes as f64 / kept_bytes.max(1) as f64;
        let rescans_limit = pace.rescans_limit_cells(filled.old_cells as usize);
        filled.remembered_unprotected_cells_limit = rescans_limit.unwrap_or(0) as u64;
        filled.old_cells_limit = (filled.old_cells as f64 * growth) as u64;
        filled.limit_collections = pace.limit_collections() as u64;
        filled.over_limit = u64::from(pace.is_over_limit());
        filled.memory_limit_bytes = pace.options().memory_limit_bytes.unwrap_or(0) as u64;
    }
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_statistics(
    objspace: *mut c_void,
    groups: u32,
    statistics: *mut Statistics,
) {
    // SAFETY: Ruby calls with the GVL.
    let gvl = unsafe { Gvl::of_caller(objspace) };
    let filled = gvl.with_vm_lock(|collector| collector.statistics(groups));
    // SAFETY: the shim passes a place for the answer.
    unsafe { statistics.write(filled) };
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_collection_count(objspace: *mut c_void) -> usize {
    // SAFETY: Ruby calls with the GVL.
    let stats =
        unsafe { Gvl::of_caller(objspace) }.with_vm_lock(|collector| collector.heap.stats());
    stats.collections()
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_total_time_ns(objspace: *mut c_void) -> u64 {
    // SAFETY: Ruby calls with the GVL.
    unsafe { Gvl::of_caller(objspace) }.with_vm_lock(|collector| collector.clocks.total_ns())
}

/// `struct ashlar_width_statistics`.
#[repr(C)]
pub(crate) struct WidthStatistics {
    width_bytes: u64,
    blocks: u64,
    cells: u64,
    live_cells: u64,
    free_cells: u64,
    blocks_taken: u64,
    allocated_objects: u64,
    freed_objects: u64,
    /// Collections are due by bytes of all widths together, so no width forces
    /// one: 0, and so is the next.
    forced_full_count: u64,
    forced_finish_count: u64,
    /// What waits for its finalizer has left its cell: 0.
    final_cells: u64,
}

/// Number of widths.
#[no_mangle]
extern "C" fn ashlar_width_count() -> usize {
    WIDTH_COUNT
}

/// Fills in all widths.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says; there are places for all widths.
#[no_mangle]
unsafe extern "C" fn ashlar_width_statistics(
    objspace: *mut c_void,
    first: *mut [WidthStatistics; WIDTH_COUNT],
) {
    // SAFETY: Ruby calls with the GVL.
    let filled = unsafe { Gvl::of_caller(objspace) }.with_vm_lock(Collector::width_statistics);
    // SAFETY: the shim passes places for the answer.
    unsafe { first.write(filled) };
}

impl Collector {
    fn width_statistics(&self) -> [WidthStatistics; WIDTH_COUNT] {
        self.stop_ractors();
        let (usage, allocated, freed) = (
            self.heap.width_usage(),
            self.heap.allocated_cells(),
            self.heap.freed_cells(),
        );
        std::array::from_fn(|index| {
            let usage = usage[index];
            WidthStatistics {
                width_bytes: usage.width_bytes as u64,
                blocks: usage.blocks as u64,
                cells: usage.cells as u64,
                live_cells: usage.live_cells as u64,
                free_cells: (usage.cells - usage.live_cells) as u64,
                blocks_taken: usage.blocks_taken as u64,
                allocated_objects: allocated[index],
                freed_objects: freed[index],
                forced_full_count: 0,
                forced_finish_count: 0,
                final_cells: 0,
            }
        })
    }
}

/// `struct ashlar_geometry`.
#[repr(C)]
pub(crate) struct Geometry {
    base_bytes: usize,
    block_bytes: usize,
    block_state_bytes: usize,
    collections_to_old: usize,
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_geometry(geometry: *mut Geometry) {
    let filled = Geometry {
        base_bytes: BASE_BYTES,
        block_bytes: BLOCK_BYTES,
        block_state_bytes: BLOCK_BYTES / STATE_GRANULE_BYTES,
        // The first two collections that find a young cell age it, the third one makes
        // it old.
        collections_to_old: 3,
    };
    // SAFETY: the shim passes a place for the answer.
    unsafe { geometry.write(filled) };
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_verify(objspace: *mut c_void) -> *mut c_char {
    // SAFETY: Ruby calls with the GVL.
    let outcome = unsafe { Gvl::of_caller(objspace) }.with_vm_lock(|collector| {
        collector.stop_ractors();
        collector.heap.verify()
    });
    match outcome {
        Ok(()) => null_mut(),
        Err(text) => message::hand_over(text),
    }
}
