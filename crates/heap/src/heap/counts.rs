//! What has happened so far, in all and by width.

use crate::compact::Moves;
use crate::layout::width::{WidthIndex, WIDTH_COUNT};
use crate::stats::{Stats, WidthUsage};

/// Counters of a heap.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// All but what is added up over the widths ([`Counts::stats`]).
    pub(super) totals: Stats,
    by_width: [OfWidth; WIDTH_COUNT],
}

/// What has happened to the blocks and cells of one width.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OfWidth {
    /// Cells allocated by caches that are gone.
    pub(super) allocated_by_retired: u64,
    pub(super) freed_cells: u64,
    /// Cells that compactions moved to this width less those that they moved away.
    gained_cells: i64,
    /// Blocks taken from the block allocator and given back to it.
    pub(super) blocks_taken: usize,
    pub(super) blocks_given: usize,
}

impl OfWidth {
    /// What is in the heap, when caches that exist have allocated `by_caches` cells of this width.
    pub(super) fn usage(&self, width: WidthIndex, by_caches: u64) -> WidthUsage {
        let allocated_cells = self.allocated_by_retired + by_caches;
        // What was freed may have moved here.
        let left_cells = allocated_cells.wrapping_sub(self.freed_cells);
        let live_cells = left_cells.wrapping_add_signed(self.gained_cells) as usize;
        let blocks = self.blocks_taken - self.blocks_given;
        debug_assert!(live_cells <= blocks * width.cells_per_block());
        WidthUsage {
            width_bytes: width.bytes(),
            blocks,
            blocks_taken: self.blocks_taken,
            cells: blocks * width.cells_per_block(),
            live_cells,
            allocated_cells,
            freed_cells: self.freed_cells,
        }
    }
}

impl Counts {
    pub(super) fn of(&mut self, width: WidthIndex) -> &mut OfWidth {
        &mut self.by_width[width.index()]
    }

    pub(super) fn by_width(&self) -> impl Iterator<Item = (WidthIndex, &OfWidth)> {
        WidthIndex::all().zip(&self.by_width)
    }

    pub(super) fn stats(&self) -> Stats {
        let mut stats = self.totals;
        for of in &self.by_width {
            stats.freed_cells += of.freed_cells;
            stats.blocks_taken += of.blocks_taken;
            stats.blocks_given += of.blocks_given;
        }
        stats
    }

    pub(super) fn add_moves(&mut self, moves: &Moves) {
        self.totals.moved_cells += moves.cells;
        for (of, gained_cells) in self.by_width.iter_mut().zip(moves.gained_cells) {
            of.gained_cells += gained_cells;
        }
    }
}
