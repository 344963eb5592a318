//! Blocks of cells that a forked child has from its parent.
//!
//! A child shares the pages of these blocks with its parent and the parent's other children,
//! until one of them writes to a page. So a child allocates nothing into these blocks, and notes
//! only in the side tables which cells die there. A block in which nothing lives goes back to the
//! block allocator like any other. Blocks of pieces are treated in the same way
//! (`payload::inherited`).
//!
//! A block is taken over, and becomes like the others, when no other process has any of its
//! pages, because the parent has ended, say. Each major or full collection asks the system about
//! some of the blocks. Where the system does not answer, a block of cells is taken over when less
//! than half of it lives. Those of one width or class are taken over when there is no memory for
//! another block of it, and all blocks of cells before cells move. A memory limit is no reason: a
//! hole in a page that is shared takes as much memory as a page of a new block.
//!
//! Invariant 20: an inherited block of cells has no free run, and no cache owns it. An inherited
//! block of pieces has a piece in use, and the pool counts these blocks.

use std::ops::Range;

use super::state::Inherited;
use super::Heap;
use crate::layout::block::{BlockIndex, INHERITED, NEEDS_SWEEP, OWNED};
use crate::layout::cell_state::CellState;
use crate::layout::width::WidthIndex;
use crate::layout::BLOCK_BYTES;
use crate::os::PageMap;
use crate::sweep::free_cells::{free_cell, poison_cell};
use crate::sweep::rebuild_runs;
use crate::vm::Vm;

/// The most blocks that a collection asks about. Each takes about 2 microseconds.
const ASKED_BLOCKS: usize = 256;

impl<V: Vm> Heap<'_, V> {
    /// Makes all that the heap holds inherited: this process has just been forked, and the VM is
    /// stopped. Caches of payloads are to be flushed afterwards
    /// ([`ThreadCache::flush`](crate::ThreadCache::flush)).
    pub fn inherit(&self) {
        self.leave_caches();
        self.leave_shared_pages();
        self.begin_in_child();
        let mut state = self.state.borrow_mut();
        state.sweep.lists.forget_available();
        state.inherited = Inherited::default();
        self.shared.payloads.inherit(self.space());
        for (index, _) in self.space().cell_blocks() {
            let block = self.region().block(index);
            debug_assert!(!block.has(OWNED));
            block.set_free(0);
            block.add(INHERITED);
            state.inherited.blocks += 1;
        }
    }

    /// Forgets what held for the parent alone: this process has just been forked, and its CPU time
    /// begins at 0. For a child that goes on in its parent's blocks; [`Heap::inherit`] does this, too.
    pub fn begin_in_child(&self) {
        let mut state = self.state.borrow_mut();
        let fresh_bytes = state.pacing.fresh_bytes();
        state.pacing.pace.begin_in_child(fresh_bytes);
        state.pacing.forked.begin_in_child();
        state.sweep.moves.begin_in_child();
    }

    /// Blocks of cells that this process has from its parent and has not taken over.
    pub fn inherited_blocks(&self) -> usize {
        self.state.borrow().inherited.blocks
    }

    /// Takes over some of the blocks that no other process shares. Each block of cells is about
    /// to be swept whole, which builds its free runs.
    pub(super) fn take_over_unshared_blocks(&self) {
        if !self.shared.payloads.inherits() {
            return;
        }
        let asked = self.blocks_to_ask_for();
        let pages = PageMap::open();
        for (index, width) in self.space().cell_blocks_from(asked.start) {
            if index.get() >= asked.end {
                break;
            }
            if self.region().block(index).has(INHERITED)
                && !self.has_shared_cells(pages.as_ref(), index, width)
            {
                self.disinherit(index);
                self.clean(index, width);
            }
        }
        let mut pool = self.shared.payloads.lock();
        pool.take_over(self.space(), asked, |index| {
            self.is_shared(pages.as_ref(), index) == Some(false)
        });
    }

    /// The numbers of the blocks that this collection asks about.
    fn blocks_to_ask_for(&self) -> Range<usize> {
        let used_limit = self.space().blocks.used_limit();
        let inherited = &mut self.state.borrow_mut().inherited;
        let asked = inherited.next..used_limit.min(inherited.next + ASKED_BLOCKS);
        inherited.next = if asked.end < used_limit { asked.end } else { 0 };
        asked
    }

    /// Takes over all blocks of the `wanted` width, or of all widths: for when cells move or
    /// memory is out.
    pub(super) fn take_over_blocks(&self, wanted: Option<WidthIndex>) {
        if self.inherited_blocks() == 0 {
            return;
        }
        for (index, width) in self.space().cell_blocks() {
            let block = self.region().block(index);
            if !block.has(INHERITED) || wanted.is_some_and(|wanted| wanted != width) {
                continue;
            }
            self.disinherit(index);
            self.clean(index, width);
            if block.has(NEEDS_SWEEP) {
                continue;
            }
            rebuild_runs(self.space(), index, width, self.stress().poison);
            self.list_if_available(index, width);
        }
    }

    /// Removes the block from those that are inherited, if it is one.
    pub(super) fn disinherit(&self, index: BlockIndex) {
        let block = self.region().block(index);
        if block.has(INHERITED) {
            block.remove(INHERITED);
            self.state.borrow_mut().inherited.blocks -= 1;
        }
    }

    /// Whether another process may also have some page of the block; `None` where the system does
    /// not say.
    fn is_shared(&self, pages: Option<&PageMap>, index: BlockIndex) -> Option<bool> {
        pages?.is_shared(self.region().address_of(index), BLOCK_BYTES)
    }

    /// As `is_shared`, for a block of cells. Where the system does not say, returns whether at
    /// least half of the cells live.
    fn has_shared_cells(
        &self,
        pages: Option<&PageMap>,
        index: BlockIndex,
        width: WidthIndex,
    ) -> bool {
        self.is_shared(pages, index).unwrap_or_else(|| {
            let states = self.states();
            let is_marked = |&cell: &_| states.get(cell).is_marked();
            let marked_cells = self.space().cells_of(index).filter(is_marked).count();
            2 * marked_cells >= width.cells_per_block()
        })
    }

    /// Makes the free cells of a block what free cells are elsewhere (`sweep::free_cells`).
    fn clean(&self, index: BlockIndex, width: WidthIndex) {
        let (region, states) = (self.region(), self.states());
        for cell in self.space().cells_of(index) {
            if states.get(cell) == CellState::FREE {
                free_cell(region, states, cell);
                if self.stress().poison {
                    poison_cell(region, cell, width);
                }
            }
        }
    }
}
