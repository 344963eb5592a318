//! Looking at the heap: its cells, its counters, its pacing. Nothing here changes
//! a cell, but for sweeping what is unswept where a walk needs it.

use super::Heap;
use crate::layout::block::BlockIndex;
use crate::layout::region::Cell;
use crate::layout::width::{WidthIndex, WIDTH_COUNT};
use crate::pace::{Pace, PaceOptions};
use crate::stats::{Stats, Usage, WidthUsage};
use crate::vm::Vm;

/// Neighbouring cells of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellRange {
    /// One that the program has.
    Live(Cell),
    /// As many as there are until the next live one.
    Free {
        /// Address of the first.
        start: usize,
        /// Address just past the last.
        end: usize,
        /// How wide they are.
        width: WidthIndex,
    },
}

impl CellRange {
    fn free(start: usize, end: usize, width: WidthIndex) -> Self {
        Self::Free { start, end, width }
    }
}

impl<V: Vm> Heap<'_, V> {
    /// Whether `cell` is dead although it has not been freed yet, or free.
    #[inline]
    pub fn is_garbage(&self, cell: Cell) -> bool {
        let state = self.region().state(cell);
        let block = self.region().block(self.region().block_of(cell));
        !state.is_live() || (block.has(crate::layout::block::NEEDS_SWEEP) && !state.is_marked())
    }

    /// Calls `visit` with every live cell, in address order, after sweeping
    /// what is unswept. `visit` must not allocate or collect.
    pub fn for_each_cell(&self, visit: impl FnMut(Cell, WidthIndex)) {
        self.finish_sweep();
        self.for_each_cell_unswept(visit);
    }

    pub(crate) fn for_each_cell_unswept(&self, mut visit: impl FnMut(Cell, WidthIndex)) {
        for (block, width) in self.space().cell_blocks() {
            for cell in self.space().cells_of(block) {
                if self.region().state(cell).is_live() {
                    visit(cell, width);
                }
            }
        }
    }

    /// Calls `visit` with every live cell and every run of free ones, in
    /// address order, after sweeping what is unswept. `visit` must not allocate
    /// or collect.
    pub fn for_each_range(&self, mut visit: impl FnMut(CellRange)) {
        self.finish_sweep();
        for (block, width) in self.space().cell_blocks() {
            self.for_each_range_of(block, width, &mut visit);
        }
    }

    fn for_each_range_of(
        &self,
        block: BlockIndex,
        width: WidthIndex,
        visit: &mut impl FnMut(CellRange),
    ) {
        let cells = self.space().cells_of(block);
        let end = cells.end();
        let mut free_start = self.region().address_of(block);
        for cell in cells {
            if !self.region().state(cell).is_live() {
                continue;
            }
            if free_start < cell.address() {
                visit(CellRange::free(free_start, cell.address(), width));
            }
            visit(CellRange::Live(cell));
            free_start = cell.address() + width.bytes();
        }
        if free_start < end {
            visit(CellRange::free(free_start, end, width));
        }
    }

    /// The first live cell behind `address`, in address order; garbage that is
    /// not swept yet counts as live.
    pub fn next_cell(&self, address: usize) -> Option<Cell> {
        let region = self.region();
        let first = region.block_at(address).map_or(0, BlockIndex::get);
        let blocks = self.space().cell_blocks_from(first);
        blocks
            .flat_map(|(block, _)| self.space().cells_of(block).after(address))
            .find(|&cell| region.state(cell).is_live())
    }

    /// Totals so far.
    pub fn stats(&self) -> Stats {
        let collector = self.collector.borrow();
        Stats {
            blocks_taken: collector.blocks_taken.iter().sum(),
            blocks_given: collector.blocks_given.iter().sum(),
            ..collector.stats
        }
    }

    /// Old cells that are traced in every collection, counted by a walk over
    /// the remembered set.
    pub fn remembered_unprotected_cells(&self) -> usize {
        let is_unprotected = |&&word: &&usize| {
            // SAFETY: only cells are remembered.
            let cell = unsafe { Cell::from_address(word) };
            self.region().state(cell).is_unprotected()
        };
        self.with_marker(|marker| {
            let remembered = marker.remembered_cells().iter();
            remembered.filter(is_unprotected).count()
        })
    }

    /// Cells allocated so far, by width.
    pub fn allocated_cells(&self) -> [u64; WIDTH_COUNT] {
        let collector = self.collector.borrow();
        let mut allocated = collector.allocated_by_retired;
        for cache in &collector.caches {
            // SAFETY: caches live until `drop_cache`; the VM's lock is held.
            let cache = unsafe { cache.as_ref() };
            for width in WidthIndex::all() {
                allocated[width.index()] += cache.allocated_cells(width);
            }
        }
        allocated
    }

    /// Cells freed so far, by width.
    pub fn freed_cells(&self) -> [u64; WIDTH_COUNT] {
        self.collector.borrow().freed
    }

    /// What is in the heap, width by width.
    pub fn width_usage(&self) -> [WidthUsage; WIDTH_COUNT] {
        let (allocated, freed) = (self.allocated_cells(), self.freed_cells());
        let collector = self.collector.borrow();
        let moves = &collector.moves;
        let mut usage = [WidthUsage::default(); WIDTH_COUNT];
        for width in WidthIndex::all() {
            let index = width.index();
            let blocks = collector.blocks_taken[index] - collector.blocks_given[index];
            usage[index] = WidthUsage {
                width_bytes: width.bytes(),
                blocks,
                blocks_taken: collector.blocks_taken[index],
                cells: blocks * width.cells_per_block(),
                live_cells: (allocated[index] + moves.arrived[index]
                    - freed[index]
                    - moves.left[index]) as usize,
            };
        }
        usage
    }

    /// What is in the heap now.
    pub fn usage(&self) -> Usage {
        let blocks = self.shared.space.blocks.counts();
        let mut usage = Usage {
            payload_bytes: self.shared.payloads.in_use_bytes(),
            empty_blocks: blocks.empty,
            held_blocks: blocks.held,
            ..Usage::default()
        };
        for width in self.width_usage() {
            usage.live_cells += width.live_cells;
            usage.free_cells += width.cells - width.live_cells;
            usage.cell_blocks += width.blocks;
            usage.cell_bytes += width.live_cells * width.width_bytes;
        }
        usage
    }

    pub(super) fn live_cell_bytes(&self) -> usize {
        let widths = self.width_usage();
        let bytes = widths.map(|width| width.live_cells * width.width_bytes);
        bytes.iter().sum()
    }

    /// Bytes allocated since the latest collection.
    pub fn fresh_bytes(&self) -> usize {
        self.collector.borrow().fresh_bytes(self.shared)
    }

    /// Bytes that further blocks may be taken for before the next collection is
    /// due: what is left of the budget when all free cells have been handed out.
    pub fn bytes_for_new_blocks(&self) -> usize {
        let budget_bytes = self.pace().budget_bytes();
        budget_bytes.saturating_sub(self.bytes_without_new_blocks())
    }

    /// What has been handed out since the latest collection, and what can be
    /// without another block. A run that is allocated from counts as fresh from
    /// its beginning to its end, and its free cells as free.
    fn bytes_without_new_blocks(&self) -> usize {
        let free_bytes = self
            .width_usage()
            .map(|width| (width.cells - width.live_cells) * width.width_bytes);
        let mut unused_bytes = 0;
        let collector = self.collector.borrow();
        for cache in &collector.caches {
            // SAFETY: caches live until `drop_cache`; the VM's lock is held.
            let cache = unsafe { cache.as_ref() };
            unused_bytes += WidthIndex::all()
                .map(|width| cache.unused_bytes(width))
                .sum::<usize>();
        }
        let fresh_bytes = collector.fresh_bytes(self.shared);
        (fresh_bytes + free_bytes.iter().sum::<usize>()).saturating_sub(unused_bytes)
    }

    /// The pacing in force.
    pub fn pace(&self) -> Pace {
        self.collector.borrow().pace
    }

    /// Changes the options of pacing.
    pub fn set_pace_options(&self, options: PaceOptions) {
        self.collector.borrow_mut().pace.set_options(options);
    }

    /// Puts the next collection off until further blocks have been taken for at
    /// least `bytes` ([`Heap::bytes_for_new_blocks`]).
    pub fn put_off_collection(&self, bytes: usize) {
        let budget_bytes = bytes.saturating_add(self.bytes_without_new_blocks());
        self.collector.borrow_mut().pace.put_off(budget_bytes);
    }
}
