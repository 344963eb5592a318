//! What is counted, as one table. It has for each counter the unit, what must stand still while
//! the counter is read, a sentence about it, and how it is read.
//!
//! An interface that shows counters is a list of names and counters. A VM adds counters of its
//! own, of the same type. What is read, what is shown and the documents come from these lists.

use crate::heap::Heap;
use crate::layout::width::WIDTHS;
use crate::layout::BLOCK_BYTES;
use crate::os;
use crate::vm::Vm;

/// What has to stand still while a counter is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Nothing: the number is kept up to date.
    Kept,
    /// Threads that allocate cells: each cache counts its own cells.
    Summed,
}

/// A number about a heap.
pub struct Counter<V: Vm> {
    /// What it counts in.
    pub unit: &'static str,
    /// What has to stand still while it is read.
    pub group: Group,
    /// What it is.
    pub about: &'static str,
    /// Reads it.
    pub read: fn(&Heap<'_, V>) -> u64,
    /// How many of what `read` returns make one of `unit`.
    pub per: u64,
}

impl<V: Vm> Counter<V> {
    /// The same counter in a larger unit: one of `unit` is `per` of what `read` returns.
    pub const fn per(self, per: u64, unit: &'static str) -> Self {
        Self { unit, per, ..self }
    }

    /// The number now. Only what this counter needs is looked at.
    #[inline]
    pub fn value(&self, heap: &Heap<'_, V>) -> u64 {
        (self.read)(heap) / self.per
    }
}

/// Declares counters of one group: `NAME "unit" "a sentence" = how it is read;`.
#[macro_export]
macro_rules! counters {
    ($visibility:vis $vm:ty, $group:ident, |$heap:ident|
     $($name:ident $unit:literal $about:literal = $value:expr;)*) => {
        $(
            #[doc = $about]
            #[allow(unused_variables)] // some have the same value in every heap
            $visibility const $name: $crate::counters::Counter<$vm> = $crate::counters::Counter {
                unit: $unit,
                group: $crate::counters::Group::$group,
                about: $about,
                read: |$heap| $value as u64,
                per: 1,
            };
        )*
    };
}

/// What every heap counts.
impl<V: Vm> Counter<V> {
    counters! { pub V, Kept, |heap|
        COLLECTIONS "collections" "collections of every kind" = heap.stats().collections();
        MINOR_COLLECTIONS "collections" "minor collections" = heap.stats().minor_collections;
        MAJOR_OR_FULL_COLLECTIONS "collections"
            "collections that are not minor, full ones among them"
            = heap.stats().major_collections + heap.stats().full_collections;
        MAJOR_COLLECTIONS "collections" "major collections, which do not look at settled cells"
            = heap.stats().major_collections;
        FULL_COLLECTIONS "collections" "full collections, which look at settled cells, too"
            = heap.stats().full_collections;
        LIMIT_COLLECTIONS "collections" "full collections that only the memory limit asked for"
            = heap.pace().limit_collections();
        COMPACTIONS "collections" "collections that compacted" = heap.stats().compactions;
        MOVED_CELLS "cells" "cells that compactions moved" = heap.stats().moved_cells;
        MARKED_CELLS "cells" "cells that the latest collection found live"
            = heap.stats().marked_cells;
        FREED_CELLS "cells" "cells freed so far" = heap.stats().freed_cells;
        OLD_CELLS "cells" "old cells, which minor collections do not free"
            = heap.stats().old_cells;
        SETTLED_CELLS "cells" "settled cells after the latest collection"
            = heap.stats().settled_cells;
        BOUNDARY_CELLS "cells" "about how many settled cells a major collection traces"
            = heap.stats().boundary_cells;
        RESCANNED_CELLS "cells" "old cells without a write barrier: minor collections rescan them"
            = heap.remembered_unprotected_cells();
        RESCANNED_CELLS_LIMIT "cells" "rescanned cells at which a collection is major, 0 for no limit"
            = heap.pace().rescans_limit_cells(heap.stats().old_cells).unwrap_or(0);
        MARKING_THREADS "threads" "threads that marked in the latest major or full collection"
            = heap.stats().marking_threads;
        TAKEN_BLOCKS "blocks" "blocks that cells took from the block allocator"
            = heap.stats().blocks_taken;
        GIVEN_BLOCKS "blocks" "blocks that cells gave back to the block allocator"
            = heap.stats().blocks_given;
        RELEASED_BLOCKS "blocks" "blocks whose memory went back to the system"
            = heap.stats().blocks_released;
        CELL_BLOCKS "blocks" "blocks that hold cells" = heap.cell_blocks();
        CELL_BLOCK_BYTES "bytes" "blocks of cells" = heap.cell_blocks() * BLOCK_BYTES;
        INHERITED_BLOCKS "blocks"
            "blocks of cells that a forked child has from its parent and allocates nothing into"
            = heap.inherited_blocks();
        SPARE_BLOCKS "blocks" "empty blocks that have memory, for cells or payloads"
            = heap.space().blocks().counts().held;
        PAST_SPARE_BLOCKS "blocks" "how often such a block was taken, or its memory went back"
            = heap.space().blocks().counts().held_before;
        SPARE_BYTES "bytes" "empty blocks that have memory"
            = heap.space().blocks().counts().held * BLOCK_BYTES;
        PAYLOAD_BLOCK_BYTES "bytes" "blocks of payloads"
            = heap.space().blocks().counts().in_use.saturating_sub(heap.cell_blocks())
                * BLOCK_BYTES;
        MEMORY_BLOCK_BYTES "bytes" "blocks in use, and empty ones that have memory" = {
            let blocks = heap.space().blocks().counts();
            (blocks.in_use + blocks.held) * BLOCK_BYTES
        };
        PAYLOAD_BYTES "bytes" "payloads in use, as their size classes round them"
            = heap.shared().payloads().in_use_bytes();
        EXTERNAL_BYTES "bytes" "memory elsewhere that objects own"
            = heap.shared().payloads().elsewhere_bytes();
        PAYLOAD_MOVES "payloads" "payloads that moved because their size was changed"
            = heap.shared().payloads().moved();
        COPIED_BYTES "bytes" "copied for payloads that moved"
            = heap.shared().payloads().copied_bytes();
        FRESH_BYTES "bytes" "what was allocated since the latest collection" = heap.fresh_bytes();
        FRESH_PAYLOAD_BYTES "bytes"
            "payloads and memory elsewhere, allocated since the latest collection"
            = heap.shared().payloads().fresh_bytes();
        NURSERY_BYTES "bytes" "what may be allocated between two collections"
            = heap.pace().nursery_bytes();
        DUE_BYTES "bytes" "fresh bytes at which a collection, or a slice of one, is due"
            = heap.fresh_bytes() + heap.bytes_until_due();
        MAJOR_THRESHOLD_BYTES "bytes"
            "old bytes, kept by a collection, at which the next one is major or full"
            = heap.pace().major_threshold_bytes();
        GROWTH_LIMIT_BYTES "bytes" "grown bytes at which a collection is major or full"
            = heap.pace().growth_limit_bytes();
        MEMORY_LIMIT_BYTES "bytes" "the memory limit, 0 when there is none"
            = heap.pace().options().memory_limit_bytes.unwrap_or(0);
        OVER_LIMIT "0 or 1"
            "1 when the latest full collection left more than the limit has room for"
            = heap.pace().is_over_limit();
        RESIDENT_BYTES "bytes" "resident memory of the process, by the kernel"
            = os::resident_bytes().unwrap_or(0);
        PAUSES "pauses" "pauses of the program by the collector" = heap.pauses().summary().count;
        PAUSE_NS "ns" "the lengths of all pauses together" = heap.pauses().summary().total_ns;
        PAUSE_NS_MEDIAN "ns" "the median length of a pause" = heap.pauses().summary().median_ns;
        PAUSE_NS_P99 "ns" "the 99th percentile of the lengths of pauses"
            = heap.pauses().summary().percentile_99_ns;
        PAUSE_NS_MAX "ns" "the length of the longest pause" = heap.pauses().summary().max_ns;
    }

    counters! { pub V, Summed, |heap|
        ALLOCATED_CELLS "cells" "cells allocated so far"
            = heap.allocated_cells().iter().sum::<u64>();
        ALLOCATED_BYTES "bytes" "memory allocated so far" = {
            let widths = WIDTHS.map(u64::from).into_iter().zip(heap.allocated_cells());
            let cell_bytes: u64 = widths.map(|(bytes, cells)| bytes * cells).sum();
            cell_bytes + heap.shared().payloads().handed_out_bytes() as u64
        };
        LIVE_CELLS "cells" "cells in use, and dead ones that are not freed yet"
            = heap.usage().live_cells;
        FREE_CELLS "cells" "cells that can be allocated without another block"
            = heap.usage().free_cells;
        AVAILABLE_CELLS "cells" "cells in the blocks that hold cells: live and free ones"
            = heap.usage().live_cells + heap.usage().free_cells;
        CELL_BYTES "bytes" "live cells" = heap.usage().cell_bytes;
        HOLE_BYTES "bytes" "free space inside blocks of cells"
            = (heap.cell_blocks() * BLOCK_BYTES).saturating_sub(heap.usage().cell_bytes);
        LIVE_BYTES "bytes" "live memory: cells, payloads, and memory elsewhere that objects own"
            = heap.measure().used_bytes;
        GROWN_BYTES "bytes" "old bytes beyond those that the latest major or full collection left"
            = heap.pace().grown_bytes(&heap.measure());
        // The limit is a number of bytes; this is that limit in cells, if they grow as bytes do.
        OLD_CELLS_LIMIT "cells"
            "old cells at which a collection is major, if cells grow as bytes do"
            = heap.stats().old_cells as f64 * heap.pace().major_threshold_bytes() as f64
                / heap.measure().old_bytes().max(1) as f64;
    }
}
