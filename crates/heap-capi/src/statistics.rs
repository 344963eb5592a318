//! Counters, as C reads them.

use std::ffi::c_void;

use ashlar_heap::BLOCK_BYTES;

use crate::heap::Heap;

/// `ashlar_statistics`.
#[repr(C)]
struct Statistics {
    minor_collections: u64,
    full_collections: u64,
    compactions: u64,
    live_cells: u64,
    cell_bytes: u64,
    payload_bytes: u64,
    block_bytes: u64,
    marked_cells: u64,
    old_cells: u64,
    allocated_cells: u64,
    freed_cells: u64,
    moved_cells: u64,
    fresh_bytes: u64,
    due_bytes: u64,
    pauses: u64,
    pause_ns: u64,
    pause_ns_max: u64,
    finalizers_due: u64,
    payload_moves: u64,
    payload_copied_bytes: u64,
}

impl Statistics {
    fn of(heap: &Heap) -> Self {
        let (stats, usage) = (heap.heap.stats(), heap.heap.usage());
        let (blocks, pauses) = (
            heap.heap.space().blocks().counts(),
            heap.heap.pauses().summary(),
        );
        let fresh_bytes = heap.heap.fresh_bytes();
        let payloads = heap.heap.shared().payloads();
        Self {
            minor_collections: stats.minor_collections as u64,
            full_collections: (stats.major_collections + stats.full_collections) as u64,
            compactions: stats.compactions as u64,
            live_cells: usage.live_cells as u64,
            cell_bytes: usage.cell_bytes as u64,
            payload_bytes: usage.payload_bytes as u64,
            block_bytes: ((blocks.in_use + blocks.held) * BLOCK_BYTES) as u64,
            marked_cells: stats.marked_cells as u64,
            old_cells: stats.old_cells as u64,
            allocated_cells: heap.heap.allocated_cells().iter().sum(),
            freed_cells: stats.freed_cells,
            moved_cells: stats.moved_cells,
            fresh_bytes: fresh_bytes as u64,
            due_bytes: (fresh_bytes + heap.heap.bytes_until_due()) as u64,
            pauses: pauses.count,
            pause_ns: pauses.total_ns,
            pause_ns_max: pauses.max_ns,
            finalizers_due: heap.vm().finalizers.borrow().due() as u64,
            payload_moves: payloads.moved() as u64,
            payload_copied_bytes: payloads.copied_bytes() as u64,
        }
    }
}

#[no_mangle]
unsafe extern "C" fn ashlar_statistics_get(heap: *const Heap, into: *mut c_void, bytes: usize) {
    // SAFETY: the program passes a heap of its own.
    let statistics = Statistics::of(unsafe { &*heap });
    let known = bytes.min(size_of::<Statistics>());
    // SAFETY: the program passes room for so many bytes.
    unsafe {
        into.cast::<u8>().write_bytes(0, bytes);
        let from = (&raw const statistics).cast::<u8>();
        from.copy_to_nonoverlapping(into.cast(), known);
    }
}
