//! Looking at the heap: its cells and its counters. Nothing here changes a cell, except
//! that some walks sweep what is unswept first.

use super::Heap;
use crate::layout::block::NEEDS_SWEEP;
use crate::layout::region::Cell;
use crate::layout::width::{WidthIndex, WIDTH_COUNT};
use crate::space::{BlockUse, CellRange};
use crate::stats::{Stats, Usage, WidthUsage};
use crate::vm::Vm;

impl<V: Vm> Heap<'_, V> {
    /// Whether `cell` is dead although it has not been freed yet, or free.
    ///
    /// # Panics
    /// When it is a cell of another heap.
    #[inline]
    pub fn is_garbage(&self, cell: Cell) -> bool {
        let state = self.region().state(cell);
        let block = self.region().block(self.region().block_of(cell));
        !state.is_live() || (block.has(NEEDS_SWEEP) && !state.is_marked())
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
                if self.region().state_of(cell).is_live() {
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
            self.space().for_each_range_of(block, width, &mut visit);
        }
    }

    /// Calls `visit` with what each block is used for, or each run of blocks with one
    /// use, in address order and without gaps, after sweeping what is unswept. `visit`
    /// must not allocate cells or collect. Other threads may take and free payloads
    /// meanwhile; each block is described as it is when the walk comes to it.
    pub fn for_each_block_use(&self, visit: impl FnMut(BlockUse)) {
        self.finish_sweep();
        self.space().for_each_use(visit);
    }

    /// The first live cell behind `address`, in address order, for which `is_wanted` returns
    /// true. Garbage that is not swept yet counts as live.
    pub fn next_cell(&self, address: usize, is_wanted: impl Fn(Cell) -> bool) -> Option<Cell> {
        self.space().next_cell(address, is_wanted)
    }

    /// Totals so far.
    pub fn stats(&self) -> Stats {
        self.state.borrow().counts.stats()
    }

    /// Collections that have begun so far, of whatever scope. Cheaper than all of [`Heap::stats`].
    pub fn collections(&self) -> usize {
        self.state.borrow().counts.totals.collections()
    }

    /// Blocks that hold cells.
    pub(crate) fn cell_blocks(&self) -> usize {
        let stats = self.stats();
        stats.blocks_taken - stats.blocks_given
    }

    /// Old cells that are traced in every collection, counted by a walk over
    /// the remembered set.
    pub fn remembered_unprotected_cells(&self) -> usize {
        let is_unprotected = |&&cell: &&Cell| self.region().state_of(cell).is_unprotected();
        let marker = self.marker();
        let remembered = marker.remembered.cells().iter();
        remembered.filter(is_unprotected).count()
    }

    /// Cells allocated so far, by width.
    pub fn allocated_cells(&self) -> [u64; WIDTH_COUNT] {
        self.width_usage().map(|width| width.allocated_cells)
    }

    /// What is in the heap, width by width.
    pub fn width_usage(&self) -> [WidthUsage; WIDTH_COUNT] {
        self.state.borrow().width_usage()
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
}
