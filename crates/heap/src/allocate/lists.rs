//! Lists of blocks, linked through their descriptors: which cell blocks to allocate from next, by
//! width, and lists that a block may leave at any time.

use crate::layout::block::{Block, BlockIndex, HAS_YOUNG, LISTED, NEEDS_SWEEP};
use crate::layout::region::Region;
use crate::layout::width::{WidthIndex, WIDTH_COUNT};
use crate::space::Space;

/// A list of blocks that are flagged [`LISTED`], the latest first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ListedBlocks {
    pub(crate) first: Option<BlockIndex>,
}

impl ListedBlocks {
    /// Puts a block in front, unless it is in the list.
    pub(crate) fn add(&mut self, region: &Region, index: BlockIndex) {
        let block = region.block(index);
        if block.has(LISTED) {
            return;
        }
        block.add(LISTED);
        block.previous.set(None);
        block.next.set(self.first);
        if let Some(next) = self.first.replace(index) {
            region.block(next).previous.set(Some(index));
        }
    }

    /// Takes a block out, if it is in the list.
    pub(crate) fn remove(&mut self, region: &Region, index: BlockIndex) {
        let block = region.block(index);
        if !block.has(LISTED) {
            return;
        }
        block.remove(LISTED);
        let (previous, next) = (block.previous.get(), block.next.get());
        match previous {
            Some(previous) => region.block(previous).next.set(next),
            None => self.first = next,
        }
        if let Some(next) = next {
            region.block(next).previous.set(previous);
        }
        block.next.set(None);
        block.previous.set(None);
    }
}

/// A list of cell blocks in the order in which they were added.
#[derive(Clone, Copy, Debug, Default)]
struct BlockList {
    first: Option<BlockIndex>,
    last: Option<BlockIndex>,
}

impl BlockList {
    fn push(&mut self, space: &Space, block: BlockIndex) {
        space.region.block(block).next.set(None);
        match self.last {
            Some(last) => space.region.block(last).next.set(Some(block)),
            None => self.first = Some(block),
        }
        self.last = Some(block);
    }

    fn pop(&mut self, space: &Space) -> Option<BlockIndex> {
        let block = self.first?;
        self.first = space.region.block(block).next.get();
        if self.first.is_none() {
            self.last = None;
        }
        Some(block)
    }
}

/// The names of the lists.
pub(crate) const UNSWEPT: &str = "unswept";
pub(crate) const AVAILABLE: &str = "available";

/// The lists of all widths.
///
/// Invariant 10: a cell block that no cache owns is in `unswept` exactly when
/// it needs sweeping, and otherwise in `available` exactly when it has a free
/// run. An inherited block (`heap::inherited`) has no free run.
#[derive(Debug)]
pub(crate) struct BlockLists<'space> {
    space: &'space Space,
    unswept: [BlockList; WIDTH_COUNT],
    available: [BlockList; WIDTH_COUNT],
    unswept_blocks: usize,
}

impl<'space> BlockLists<'space> {
    /// No blocks at all.
    pub(crate) fn new(space: &'space Space) -> Self {
        Self {
            space,
            unswept: [BlockList::default(); WIDTH_COUNT],
            available: [BlockList::default(); WIDTH_COUNT],
            unswept_blocks: 0,
        }
    }

    /// The next block of this width with free runs.
    pub(crate) fn pop_available(&mut self, width: WidthIndex) -> Option<BlockIndex> {
        self.available[width.index()].pop(self.space)
    }

    /// Whether there is a block of this width with free runs.
    pub(crate) fn has_available(&self, width: WidthIndex) -> bool {
        self.available[width.index()].first.is_some()
    }

    /// Lists a block that needs no sweeping if it has a free run. Returns whether it has one.
    pub(crate) fn list_if_available(&mut self, block: BlockIndex, width: WidthIndex) -> bool {
        let has_run = self.space.region.block(block).free() != 0;
        if has_run {
            self.available[width.index()].push(self.space, block);
        }
        has_run
    }

    /// Forgets the blocks with free runs.
    pub(crate) fn forget_available(&mut self) {
        self.available = [BlockList::default(); WIDTH_COUNT];
    }

    /// The next block of this width that needs sweeping.
    pub(crate) fn pop_unswept(&mut self, width: WidthIndex) -> Option<BlockIndex> {
        let block = self.unswept[width.index()].pop(self.space)?;
        self.unswept_blocks -= 1;
        Some(block)
    }

    /// The next block of any width that needs sweeping.
    pub(crate) fn pop_any_unswept(&mut self) -> Option<(WidthIndex, BlockIndex)> {
        if self.unswept_blocks == 0 {
            return None;
        }
        WidthIndex::all().find_map(|width| Some((width, self.pop_unswept(width)?)))
    }

    /// Blocks that need sweeping.
    pub(crate) fn unswept_blocks(&self) -> usize {
        self.unswept_blocks
    }

    /// Sorts all cell blocks into lists after a collection: those that may hold
    /// dead cells need sweeping, the others are as they were.
    pub(crate) fn rebuild(&mut self, full: bool) {
        self.sort(|block| {
            let needs_sweep = full || block.has(HAS_YOUNG);
            if needs_sweep {
                block.add(NEEDS_SWEEP);
            }
            if full {
                block.set_all_changing();
            }
            needs_sweep
        });
    }

    /// Sorts all cell blocks into lists.
    pub(crate) fn sort(&mut self, needs_sweep: impl Fn(&Block) -> bool) {
        *self = Self::new(self.space);
        for (index, width) in self.space.cell_blocks() {
            let block = self.space.region.block(index);
            if needs_sweep(block) {
                self.unswept[width.index()].push(self.space, index);
                self.unswept_blocks += 1;
            } else {
                self.list_if_available(index, width);
            }
        }
    }

    /// Calls `visit` with every listed block and the name of its list, until `visit`
    /// fails.
    pub(crate) fn try_for_each<E>(
        &self,
        mut visit: impl FnMut(BlockIndex, &'static str) -> Result<(), E>,
    ) -> Result<(), E> {
        for (name, lists) in [(UNSWEPT, &self.unswept), (AVAILABLE, &self.available)] {
            for list in lists {
                let mut next = list.first;
                while let Some(block) = next {
                    visit(block, name)?;
                    next = self.space.region.block(block).next.get();
                }
            }
        }
        Ok(())
    }
}
