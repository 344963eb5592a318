//! Blocks of cells that a forked child has from its parent.
//!
//! A child shares the pages of these blocks with its parent and the parent's other children,
//! until one of them writes to a page. So a child allocates nothing into them, and notes in
//! the side tables alone which cells die there. A block in which nothing lives goes back to
//! the block allocator like any other. Blocks of pieces are treated alike
//! (`payload::inherited`).
//!
//! A block is taken over, and becomes like the others, when no other process has any of its
//! pages: the parent has ended, say. Each major or full collection asks for some of the blocks.
//! Where the system does not tell, a block of cells is taken over when less than half of it
//! lives. All blocks are taken over when memory is short, and those of cells before cells move.
//!
//! Invariant 20: an inherited block has no free run, and no cache owns it.

use std::ops::Range;

use super::Heap;
use crate::layout::block::{BlockIndex, INHERITED, NEEDS_SWEEP, OWNED};
use crate::layout::cell_state::CellState;
use crate::layout::width::WidthIndex;
use crate::layout::BLOCK_BYTES;
use crate::os::PageMap;
use crate::sweep::free_cells::{free_cell, poison_cell};
use crate::sweep::rebuild_runs;
use crate::vm::Vm;

/// So many blocks are asked for in a collection at most. Each takes about 2 microseconds.
const ASKED_BLOCKS: usize = 256;

/// What the collector remembers of inherited blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inherited {
    /// Blocks of cells that are flagged.
    blocks: usize,
    /// Where asking goes on.
    next: usize,
}

impl<V: Vm> Heap<'_, V> {
    /// This process has just been forked, and the VM is stopped: what the heap holds is
    /// inherited. Caches of payloads are flushed after this
    /// ([`ThreadCache::flush`](crate::ThreadCache::flush)).
    pub fn inherit(&self) {
        self.leave_caches();
        let mut collector = self.collector.borrow_mut();
        collector.lists.forget_available();
        collector.inherited = Inherited::default();
        self.shared.payloads.inherit(self.space());
        for (index, _) in self.space().cell_blocks() {
            let block = self.region().block(index);
            debug_assert!(!block.has(OWNED));
            block.set_free(0);
            block.add(INHERITED);
            collector.inherited.blocks += 1;
        }
    }

    /// Blocks of cells that this process has from its parent and has not taken over.
    pub fn inherited_blocks(&self) -> usize {
        self.collector.borrow().inherited.blocks
    }

    /// Takes over some of the blocks that no other process shares. Each block of cells is
    /// about to be swept whole, which makes its runs.
    pub(super) fn take_over_unshared_blocks(&self) {
        if !self.shared.payloads.inherits() {
            return;
        }
        let all = self.is_out_of_limit();
        let asked = self.blocks_to_ask_for(all);
        let pages = PageMap::open();
        for (index, width) in self.space().cell_blocks_from(asked.start) {
            if index.get() >= asked.end {
                break;
            }
            if self.region().block(index).has(INHERITED)
                && (all || !self.has_shared_cells(pages.as_ref(), index, width))
            {
                self.disinherit(index);
                self.clean(index, width);
            }
        }
        self.shared
            .payloads
            .take_over(self.space(), asked, |index| {
                all || self.is_shared(pages.as_ref(), index) == Some(false)
            });
    }

    /// The numbers of the blocks that this collection asks for.
    fn blocks_to_ask_for(&self, all: bool) -> Range<usize> {
        let used_limit = self.space().blocks.used_limit();
        if all {
            return 0..used_limit;
        }
        let inherited = &mut self.collector.borrow_mut().inherited;
        let asked = inherited.next..used_limit.min(inherited.next + ASKED_BLOCKS);
        inherited.next = if asked.end < used_limit { asked.end } else { 0 };
        asked
    }

    /// Takes over all blocks of this width, or of all: for when cells move or memory is out.
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

    /// The block is none of those that are inherited any more.
    pub(super) fn disinherit(&self, index: BlockIndex) {
        let block = self.region().block(index);
        if block.has(INHERITED) {
            block.remove(INHERITED);
            self.collector.borrow_mut().inherited.blocks -= 1;
        }
    }

    /// Whether another process may have some page of the block, too, where the system tells.
    fn is_shared(&self, pages: Option<&PageMap>, index: BlockIndex) -> Option<bool> {
        pages?.is_shared(self.region().address_of(index), BLOCK_BYTES)
    }

    /// The same of a block of cells; where the system does not tell, whether half of it lives.
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
