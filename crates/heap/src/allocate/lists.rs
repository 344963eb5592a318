//! Which cell blocks to allocate from next, by width.

use crate::layout::block::{BlockIndex, HAS_YOUNG, NEEDS_SWEEP, OWNED};
use crate::layout::region::Region;
use crate::layout::width::{WidthIndex, WIDTH_COUNT};
use crate::verify::Stop;

/// A list of blocks, linked through their descriptors, in the order in which
/// they were added.
#[derive(Clone, Copy, Debug, Default)]
struct BlockList {
    first: Option<BlockIndex>,
    last: Option<BlockIndex>,
}

impl BlockList {
    fn push(&mut self, region: &Region, block: BlockIndex) {
        region.block(block).set_next(None);
        match self.last {
            Some(last) => region.block(last).set_next(Some(block)),
            None => self.first = Some(block),
        }
        self.last = Some(block);
    }

    fn pop(&mut self, region: &Region) -> Option<BlockIndex> {
        let block = self.first?;
        self.first = region.block(block).next();
        if self.first.is_none() {
            self.last = None;
        }
        Some(block)
    }
}

/// The lists of all widths.
///
/// Invariant 10: a cell block that no cache owns is in `unswept` exactly when
/// it needs sweeping, and otherwise in `available` exactly when it has a free
/// run.
#[derive(Debug, Default)]
pub(crate) struct BlockLists {
    unswept: [BlockList; WIDTH_COUNT],
    available: [BlockList; WIDTH_COUNT],
    unswept_blocks: usize,
}

impl BlockLists {
    /// The next block of this width with free runs.
    pub(crate) fn pop_available(
        &mut self,
        region: &Region,
        width: WidthIndex,
    ) -> Option<BlockIndex> {
        self.available[width.index()].pop(region)
    }

    /// Whether there is such a block.
    pub(crate) fn has_available(&self, width: WidthIndex) -> bool {
        self.available[width.index()].first.is_some()
    }

    pub(crate) fn push_available(&mut self, region: &Region, width: WidthIndex, b: BlockIndex) {
        self.available[width.index()].push(region, b);
    }

    /// The next block of this width that needs sweeping.
    pub(crate) fn pop_unswept(&mut self, region: &Region, width: WidthIndex) -> Option<BlockIndex> {
        let block = self.unswept[width.index()].pop(region)?;
        self.unswept_blocks -= 1;
        Some(block)
    }

    /// The next block of any width that needs sweeping.
    pub(crate) fn pop_any_unswept(&mut self, region: &Region) -> Option<(WidthIndex, BlockIndex)> {
        if self.unswept_blocks == 0 {
            return None;
        }
        WidthIndex::all().find_map(|width| Some((width, self.pop_unswept(region, width)?)))
    }

    /// Blocks that need sweeping.
    pub(crate) fn unswept_blocks(&self) -> usize {
        self.unswept_blocks
    }

    /// Sorts all cell blocks into lists after a collection: those that may hold
    /// dead cells need sweeping, the others are as they were.
    pub(crate) fn rebuild(&mut self, region: &Region, used_limit: usize, full: bool) {
        *self = Self::default();
        for index in 0..used_limit {
            let index = BlockIndex(index as u32);
            let Some(width) = region.kind_byte(index).width() else {
                continue;
            };
            let block = region.block(index);
            if full || block.has(HAS_YOUNG) {
                block.add(NEEDS_SWEEP);
                self.unswept[width.index()].push(region, index);
                self.unswept_blocks += 1;
            } else if block.free() != 0 {
                self.available[width.index()].push(region, index);
            }
        }
    }

    /// Sorts all cell blocks into lists when none needs sweeping.
    pub(crate) fn rebuild_swept(&mut self, region: &Region, used_limit: usize) {
        *self = Self::default();
        for index in 0..used_limit {
            let index = BlockIndex(index as u32);
            let Some(width) = region.kind_byte(index).width() else {
                continue;
            };
            if region.block(index).free() != 0 {
                self.available[width.index()].push(region, index);
            }
        }
    }
}

impl BlockLists {
    /// Asserts invariant 10.
    pub(crate) fn verify(&self, region: &Region, used_limit: usize) -> Result<(), Stop> {
        let mut listed = std::collections::HashMap::new();
        for width in WidthIndex::all() {
            for (name, list) in [
                ("unswept", &self.unswept[width.index()]),
                ("available", &self.available[width.index()]),
            ] {
                let mut next = list.first;
                while let Some(block) = next {
                    listed.try_reserve(1)?;
                    if listed.insert(block, name).is_some() {
                        return Err(format!("invariant 10: {block:?} is listed twice").into());
                    }
                    next = region.block(block).next();
                }
            }
        }
        for index in 0..used_limit {
            let index = BlockIndex(index as u32);
            let block = region.block(index);
            if region.kind_byte(index).width().is_none() || block.has(OWNED) {
                continue;
            }
            let expected = if block.has(NEEDS_SWEEP) {
                Some("unswept")
            } else if block.free() != 0 {
                Some("available")
            } else {
                None
            };
            if listed.get(&index).copied() != expected {
                return Err(format!(
                    "invariant 10: {index:?} should be in {expected:?}, is in {:?}",
                    listed.get(&index)
                )
                .into());
            }
        }
        Ok(())
    }
}
