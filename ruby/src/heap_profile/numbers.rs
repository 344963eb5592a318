//! Live numbers: what `ashlar top` shows.

use std::time::{Duration, Instant};

use ashlar_heap::{Heap, Vm, BLOCK_BYTES, WIDTHS};

use crate::collect::Clocks;

/// How many there are.
pub(super) const NUMBERS: usize = 26;

/// Taken at most this often, because they are a sum over the widths.
const INTERVAL: Duration = Duration::from_millis(50);

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Numbers {
    live_bytes: u64,
    cell_bytes: u64,
    payload_bytes: u64,
    external_bytes: u64,
    cell_block_bytes: u64,
    spare_bytes: u64,
    hole_bytes: u64,
    live_cells: u64,
    allocated_objects: u64,
    allocated_bytes: u64,
    minor_collections: u64,
    /// All that are not minor, full ones among them.
    major_collections: u64,
    collecting_ns: u64,
    marking_ns: u64,
    sweeping_ns: u64,
    pause_count: u64,
    pause_total_ns: u64,
    pause_max_ns: u64,
    pause_median_ns: u64,
    pause_percentile_99_ns: u64,
    memory_limit_bytes: u64,
    budget_bytes: u64,
    fresh_bytes: u64,
    old_cells: u64,
    payload_block_bytes: u64,
    full_collections: u64,
}

const _: () = assert!(size_of::<Numbers>() == NUMBERS * size_of::<u64>());

/// When numbers are due again.
pub(super) struct Meter {
    next: Instant,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self {
            next: Instant::now(),
        }
    }

    /// Whether it is time for numbers; then it is not again for a while.
    pub(super) fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = now >= self.next;
        if is_due {
            self.next = now + INTERVAL;
        }
        is_due
    }
}

impl Numbers {
    /// The numbers now. All Ractors are stopped.
    pub(super) fn of(heap: &Heap<'_, impl Vm>, clocks: &Clocks) -> Self {
        let (usage, stats) = (heap.usage(), heap.stats());
        let (pace, measure) = (heap.pace(), heap.measure());
        let payloads = heap.shared().payloads();
        let pauses = heap.pauses().summary();
        let allocated = heap.allocated_cells();
        let block_bytes = |blocks: usize| (blocks * BLOCK_BYTES) as u64;
        let allocated_cell_bytes: u64 = (allocated.iter().zip(WIDTHS))
            .map(|(cells, width)| cells * u64::from(width))
            .sum();
        let cell_block_bytes = block_bytes(usage.cell_blocks);
        let cell_bytes = usage.cell_bytes as u64;
        let in_use = heap.space().blocks().counts().in_use;
        Self {
            live_bytes: measure.used_bytes as u64,
            cell_bytes,
            payload_bytes: usage.payload_bytes as u64,
            external_bytes: payloads.elsewhere_bytes() as u64,
            cell_block_bytes,
            spare_bytes: block_bytes(usage.held_blocks),
            hole_bytes: cell_block_bytes.saturating_sub(cell_bytes),
            live_cells: usage.live_cells as u64,
            allocated_objects: allocated.iter().sum(),
            allocated_bytes: allocated_cell_bytes + payloads.handed_out_bytes() as u64,
            minor_collections: stats.minor_collections as u64,
            major_collections: (stats.major_collections + stats.full_collections) as u64,
            collecting_ns: clocks.total_ns(),
            marking_ns: clocks.mark_ns.get(),
            sweeping_ns: clocks.sweep_ns.get(),
            pause_count: pauses.count,
            pause_total_ns: pauses.total_ns,
            pause_max_ns: pauses.max_ns,
            pause_median_ns: pauses.median_ns,
            pause_percentile_99_ns: pauses.percentile_99_ns,
            memory_limit_bytes: pace.options().memory_limit_bytes.unwrap_or(0) as u64,
            budget_bytes: pace.budget_bytes() as u64,
            fresh_bytes: measure.fresh_bytes as u64,
            old_cells: stats.old_cells as u64,
            payload_block_bytes: block_bytes(in_use.saturating_sub(usage.cell_blocks)),
            full_collections: stats.full_collections as u64,
        }
    }
}
