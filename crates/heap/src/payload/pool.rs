//! Pieces of payload blocks, shared by all threads under one lock.

use std::ptr::NonNull;

use super::class::{ClassIndex, CLASS_COUNT};
use super::thread_cache::ThreadCache;
use crate::allocate::blocks::Blocks;
use crate::layout::block::{BlockIndex, LISTED};
use crate::layout::kind::Kind;
use crate::layout::region::Region;

/// The blocks that have free pieces, a list per class.
///
/// Invariants:
/// 6. A payload block is `LISTED` exactly when it has a free piece.
/// 7. `used` pieces + free pieces + untouched pieces = pieces per block.
#[derive(Debug)]
pub(crate) struct Pool {
    listed: [Option<BlockIndex>; CLASS_COUNT],
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            listed: [None; CLASS_COUNT],
        }
    }
}

impl Pool {
    /// Moves up to half a cache's limit of pieces into the cache (at least one
    /// unless memory is out) and says how many.
    pub(crate) fn take(
        &mut self,
        region: &Region,
        blocks: &Blocks,
        cache: &mut ThreadCache,
        class: ClassIndex,
    ) -> usize {
        let wanted = (cache.limit(class) / 2).max(1);
        let mut taken = 0;
        while taken < wanted {
            let Some(block) = self.listed_block(region, blocks, class, taken == 0) else {
                break;
            };
            while taken < wanted {
                let Some(piece) = take_piece(region, block, class) else {
                    self.unlist(region, block, class);
                    break;
                };
                cache.push(piece, class);
                taken += 1;
            }
            if !has_piece(region, block, class) {
                self.unlist(region, block, class);
            }
        }
        taken
    }

    /// Puts a piece back into its block; an empty block becomes free for any
    /// use, unless it is the last listed one of its class.
    pub(crate) fn give(
        &mut self,
        region: &Region,
        blocks: &Blocks,
        piece: NonNull<u8>,
        class: ClassIndex,
    ) {
        let address = piece.as_ptr() as usize;
        let Some(index) = region.block_at(address) else {
            return;
        };
        let block = region.block(index);
        // SAFETY: the piece is free now and at least 16 bytes long.
        unsafe { piece.as_ptr().cast::<usize>().write(block.free()) };
        block.set_free(address);
        block.set_used(block.used() - 1);
        self.list(region, index, class);
        let is_only = block.next().is_none() && block.previous().is_none();
        if block.used() == 0 && !is_only {
            self.unlist(region, index, class);
            blocks.give(region, index, 1);
        }
    }

    fn listed_block(
        &mut self,
        region: &Region,
        blocks: &Blocks,
        class: ClassIndex,
        may_take_block: bool,
    ) -> Option<BlockIndex> {
        if let Some(block) = self.listed[class.index()] {
            return Some(block);
        }
        if !may_take_block {
            return None;
        }
        let block = blocks.take(region, Kind::Payloads(class))?;
        self.list(region, block, class);
        Some(block)
    }

    fn list(&mut self, region: &Region, index: BlockIndex, class: ClassIndex) {
        let block = region.block(index);
        if block.has(LISTED) {
            return;
        }
        let head = self.listed[class.index()];
        block.add(LISTED);
        block.set_previous(None);
        block.set_next(head);
        if let Some(head) = head {
            region.block(head).set_previous(Some(index));
        }
        self.listed[class.index()] = Some(index);
    }

    fn unlist(&mut self, region: &Region, index: BlockIndex, class: ClassIndex) {
        let block = region.block(index);
        if !block.has(LISTED) {
            return;
        }
        block.remove(LISTED);
        let (previous, next) = (block.previous(), block.next());
        match previous {
            Some(previous) => region.block(previous).set_next(next),
            None => self.listed[class.index()] = next,
        }
        if let Some(next) = next {
            region.block(next).set_previous(previous);
        }
        block.set_next(None);
        block.set_previous(None);
    }
}

fn has_piece(region: &Region, index: BlockIndex, class: ClassIndex) -> bool {
    let block = region.block(index);
    block.free() != 0 || block.untouched() < class.pieces_per_block()
}

fn take_piece(region: &Region, index: BlockIndex, class: ClassIndex) -> Option<NonNull<u8>> {
    let block = region.block(index);
    let address = if block.free() != 0 {
        let address = block.free();
        // SAFETY: a free piece begins with the address of the next.
        block.set_free(unsafe { region.pointer(address).cast::<usize>().read() });
        address
    } else if block.untouched() < class.pieces_per_block() {
        let piece = block.untouched();
        block.set_untouched(piece + 1);
        region.address_of(index) + piece * class.bytes()
    } else {
        return None;
    };
    block.set_used(block.used() + 1);
    NonNull::new(region.pointer(address))
}
