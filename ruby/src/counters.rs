//! What is counted for Ruby in addition to what any heap counts.

use ashlar_heap::counters::Counter;
use ashlar_heap::{counters, Heap, WIDTHS};

use crate::object_model::Ruby;

/// The width of an object that asks for no more: a header and three words.
pub(crate) const BASE_BYTES: usize = 40;

const _: () = assert!(WIDTHS[1] as usize == BASE_BYTES);

/// A counter of the heap of a Ruby.
pub(crate) type C = Counter<Ruby>;

counters! { pub(crate) Ruby, Kept, |heap|
    COLLECTOR_NS "ns" "CPU time of the process in the collector" = heap.vm().clocks.total_ns();
    MARK_NS "ns" "CPU time of the collector spent marking" = heap.vm().clocks.mark_ns.get();
    SWEEP_NS "ns" "CPU time of the collector spent sweeping" = heap.vm().clocks.sweep_ns.get();
    ALLOCATED_PAGES "blocks"
        "blocks that hold cells; from Ruby 4.0 on, empty ones that have memory as well"
        = C::CELL_BLOCKS.value(heap) + from_ruby_4_0(C::SPARE_BLOCKS.value(heap));
    TAKEN_PAGES "blocks"
        "blocks that cells took so far; from Ruby 4.0 on, also those that became empty and had memory"
        = C::TAKEN_BLOCKS.value(heap)
            + from_ruby_4_0(C::SPARE_BLOCKS.value(heap) + C::PAST_SPARE_BLOCKS.value(heap));
    GIVEN_PAGES "blocks"
        "blocks that cells gave back so far; from Ruby 4.0 on, also those that were empty and had memory"
        = C::GIVEN_BLOCKS.value(heap) + from_ruby_4_0(C::PAST_SPARE_BLOCKS.value(heap));
    FINAL_CELLS "cells" "0: a cell is freed before its finalizer runs" = 0u64;
    READ_BARRIER_FAULTS "faults" "0: there is no read barrier" = 0u64;
    WAITING_FINALIZERS "finalizers" "finalizers of dead objects that have not run yet"
        = heap.vm().finalizers.borrow().waiting_jobs();
}

counters! { pub(crate) Ruby, Summed, |heap|
    ALLOCATABLE_CELLS "cells"
        "cells of 40 bytes that further blocks may have before the next collection is due"
        = allocatable_cells(heap);
}

/// What is counted of empty blocks: Ruby counts those that have memory as allocated pages from 4.0
/// on.
fn from_ruby_4_0(blocks: u64) -> u64 {
    match cfg!(ruby = "4.0") {
        true => blocks,
        false => 0,
    }
}

/// How many cells of the base width fit into the blocks that may be taken before the
/// next collection is due.
pub(crate) fn allocatable_cells(heap: &Heap<'_, Ruby>) -> usize {
    heap.bytes_for_new_blocks() / BASE_BYTES
}
