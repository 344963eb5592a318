//! The stock of empty blocks, shared by cells of all widths and by payloads.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::layout::block::{BlockIndex, DIRTY};
use crate::layout::kind::{Kind, KindByte};
use crate::layout::region::Region;

/// Full collections an empty block sees before its pages go back.
const IDLE_COLLECTIONS_BEFORE_RELEASE: u16 = 2;

/// Empty blocks, found through the kind table.
///
/// Invariants:
/// 8. Blocks from `used_limit` on are empty and were never handed out.
/// 9. No block below `lowest_empty` is empty.
#[derive(Debug)]
pub struct Blocks(Mutex<Stock>);

#[derive(Debug, Default)]
pub(crate) struct Stock {
    used_limit: usize,
    lowest_empty: usize,
    span_hint: usize,
    in_use: usize,
}

/// How many blocks are in which condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// Holding cells or payloads.
    pub in_use: usize,
    /// Handed out before and empty now.
    pub empty: usize,
}

impl Blocks {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Stock::default()))
    }

    /// Takes one block, the lowest empty one, for `kind`.
    pub(crate) fn take(&self, region: &Region, kind: Kind) -> Option<BlockIndex> {
        let mut stock = self.lock();
        let first = match stock.first_empty(region) {
            Some(block) => block,
            None => stock.extend(region, 1)?,
        };
        stock.lowest_empty = first.get() + 1;
        stock.in_use += 1;
        let block = region.block(first);
        block.reset();
        block.add(DIRTY);
        region.set_kind(first, kind);
        Some(first)
    }

    /// Takes `count` neighbouring blocks. They are marked as the rest of a
    /// span; the caller names the first one.
    pub(crate) fn take_span(&self, region: &Region, count: usize) -> Option<BlockIndex> {
        let mut stock = self.lock();
        let first = match stock.find_run(region, count) {
            Some(first) => first,
            None => stock.extend(region, count)?,
        };
        stock.span_hint = first.get() + count;
        stock.occupy(region, first, count);
        Some(first)
    }

    /// Takes the `count` blocks from `first` on if all are empty.
    pub(crate) fn extend_span(&self, region: &Region, first: BlockIndex, count: usize) -> bool {
        let mut stock = self.lock();
        let end = first.get() + count;
        if end > region.reserved_blocks() {
            return false;
        }
        let known = end.min(stock.used_limit);
        if !(first.get()..known).all(|block| is_empty(region, block)) {
            return false;
        }
        if end > stock.used_limit {
            if region.commit(end).is_err() {
                return false;
            }
            stock.used_limit = end;
        }
        stock.occupy(region, first, count);
        true
    }

    /// Takes back `count` blocks from `first` on.
    pub(crate) fn give(&self, region: &Region, first: BlockIndex, count: usize) {
        let mut stock = self.lock();
        for block in first.get()..first.get() + count {
            let block = BlockIndex(block as u32);
            region.block(block).reset();
            region.set_kind(block, Kind::Empty);
        }
        stock.in_use -= count;
        stock.lowest_empty = stock.lowest_empty.min(first.get());
    }

    /// Called after a full collection: gives back the pages of blocks that have
    /// stayed empty for a while, so that memory returns to the system slowly.
    /// `all_at_once` is for a program that asked for it.
    pub(crate) fn release_idle(&self, region: &Region, all_at_once: bool) -> usize {
        let stock = self.lock();
        let mut released = 0;
        for index in stock.lowest_empty..stock.used_limit {
            let index = BlockIndex(index as u32);
            let block = region.block(index);
            if region.kind_byte(index) != KindByte::EMPTY || !block.has(DIRTY) {
                continue;
            }
            let idle = block.idle_collections() + 1;
            block.set_idle_collections(idle);
            if all_at_once || idle > IDLE_COLLECTIONS_BEFORE_RELEASE {
                region.release(index, 1);
                block.remove(DIRTY);
                released += 1;
            }
        }
        released
    }

    /// Counts blocks by condition.
    pub fn counts(&self) -> BlockCounts {
        let stock = self.lock();
        BlockCounts {
            in_use: stock.in_use,
            empty: stock.used_limit - stock.in_use,
        }
    }

    /// Blocks that were ever handed out: walks over the heap end here.
    pub fn used_limit(&self) -> usize {
        self.lock().used_limit
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Stock> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asserts invariants 8 and 9.
    pub(crate) fn verify(&self, region: &Region) -> Result<(), String> {
        let stock = self.lock();
        let mut in_use = 0;
        for block in 0..region.committed_blocks() {
            let empty = is_empty(region, block);
            in_use += usize::from(!empty);
            if block >= stock.used_limit && !empty {
                return Err(format!("invariant 8: block {block} is beyond the limit"));
            }
            if block < stock.lowest_empty && empty {
                return Err(format!("invariant 9: block {block} is empty"));
            }
        }
        if in_use != stock.in_use {
            return Err(format!(
                "invariant 8: {in_use} blocks in use, {} counted",
                stock.in_use
            ));
        }
        Ok(())
    }
}

impl Stock {
    fn first_empty(&self, region: &Region) -> Option<BlockIndex> {
        (self.lowest_empty..self.used_limit)
            .find(|&block| is_empty(region, block))
            .map(|block| BlockIndex(block as u32))
    }

    fn find_run(&self, region: &Region, count: usize) -> Option<BlockIndex> {
        let hint = self
            .span_hint
            .clamp(self.lowest_empty, self.used_limit.max(self.lowest_empty));
        self.find_run_in(region, hint, self.used_limit, count)
            .or_else(|| self.find_run_in(region, self.lowest_empty, self.used_limit, count))
    }

    fn find_run_in(
        &self,
        region: &Region,
        from: usize,
        to: usize,
        count: usize,
    ) -> Option<BlockIndex> {
        let mut length = 0;
        for block in from..to {
            length = if is_empty(region, block) {
                length + 1
            } else {
                0
            };
            if length == count {
                return Some(BlockIndex((block + 1 - count) as u32));
            }
        }
        None
    }

    /// `count` blocks, as many as necessary of them beyond everything used so
    /// far.
    fn extend(&mut self, region: &Region, count: usize) -> Option<BlockIndex> {
        let mut first = self.used_limit;
        while first > self.lowest_empty && is_empty(region, first - 1) {
            first -= 1;
        }
        let end = first.checked_add(count)?;
        if end > region.reserved_blocks() {
            return None;
        }
        region.commit(end).ok()?;
        self.used_limit = self.used_limit.max(end);
        Some(BlockIndex(first as u32))
    }

    fn occupy(&mut self, region: &Region, first: BlockIndex, count: usize) {
        for index in 0..count {
            let block = first.after(index);
            region.block(block).reset();
            region.set_kind(block, Kind::SpanRest);
        }
        self.in_use += count;
        while self.lowest_empty < self.used_limit && !is_empty(region, self.lowest_empty) {
            self.lowest_empty += 1;
        }
    }
}

fn is_empty(region: &Region, block: usize) -> bool {
    region.kind_byte(BlockIndex(block as u32)) == KindByte::EMPTY
}
