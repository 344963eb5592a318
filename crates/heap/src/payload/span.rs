//! Payloads larger than the size classes: spans of whole blocks.

use std::ptr::NonNull;

use super::{OutOfMemory, Payloads};
use crate::allocate::blocks::Blocks;
use crate::layout::block::{BlockIndex, DIRTY};
use crate::layout::kind::Kind;
use crate::layout::region::Region;
use crate::layout::BLOCK_BYTES;
use crate::os::{self, PAGE_BYTES};

/// A span of at least this many blocks (4 MiB) goes back to the system as soon
/// as it is freed. Below that the pages are worth more kept: fetching them
/// anew costs tens of times what reusing them does.
const RELEASE_AT_ONCE_BLOCKS: usize = 64;

/// Spans of at least this many blocks move by remapping pages instead of
/// copying them.
const REMAP_BLOCKS: usize = 8;

fn blocks_for(size: usize) -> Result<usize, OutOfMemory> {
    let blocks = size.div_ceil(BLOCK_BYTES);
    u32::try_from(blocks).map_err(|_| OutOfMemory)?;
    Ok(blocks)
}

impl Payloads {
    #[cold]
    #[inline(never)]
    pub(super) fn allocate_span(
        &self,
        region: &Region,
        blocks: &Blocks,
        size: usize,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        let count = blocks_for(size)?;
        let first = blocks.take_span(region, count).ok_or(OutOfMemory)?;
        self.begin_span(region, first, count, size);
        NonNull::new(region.pointer(region.address_of(first))).ok_or(OutOfMemory)
    }

    #[cold]
    pub(super) fn allocate_zeroed_span(
        &self,
        region: &Region,
        blocks: &Blocks,
        size: usize,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        let count = blocks_for(size)?;
        let first = blocks.take_span(region, count).ok_or(OutOfMemory)?;
        for index in 0..count {
            let block = first.after(index);
            if region.block(block).has(DIRTY) {
                // SAFETY: the block belongs to this span, which nobody has yet.
                unsafe {
                    region
                        .pointer(region.address_of(block))
                        .write_bytes(0, BLOCK_BYTES);
                }
            }
        }
        self.begin_span(region, first, count, size);
        NonNull::new(region.pointer(region.address_of(first))).ok_or(OutOfMemory)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn free_span(&self, region: &Region, blocks: &Blocks, address: usize) {
        let Some(first) = span_at(region, address) else {
            return super::not_a_payload(address);
        };
        let count = region.block(first).span_blocks();
        self.set_span_size(region, first, 0);
        give_blocks(region, blocks, first, count);
    }

    pub(super) fn resize_span(
        &self,
        region: &Region,
        blocks: &Blocks,
        address: usize,
        size: usize,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        let Some(first) = span_at(region, address) else {
            return Err(OutOfMemory);
        };
        let old = region.block(first).span_blocks();
        let new = blocks_for(size)?;
        if new > old && !blocks.extend_span(region, first.after(old), new - old) {
            return self.move_span(region, blocks, first, size);
        }
        for index in old..new {
            region.block(first.after(index)).add(DIRTY);
        }
        region.block(first).set_span_blocks(new);
        self.set_span_size(region, first, size);
        if new < old {
            give_blocks(region, blocks, first.after(new), old - new);
        }
        NonNull::new(region.pointer(address)).ok_or(OutOfMemory)
    }

    fn move_span(
        &self,
        region: &Region,
        blocks: &Blocks,
        from: BlockIndex,
        size: usize,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        let (old, new) = (region.block(from).span_blocks(), blocks_for(size)?);
        let to = blocks.take_span(region, new).ok_or(OutOfMemory)?;
        let source = region.pointer(region.address_of(from));
        let target = region.pointer(region.address_of(to));
        // SAFETY: the target span is ours and unused, the source is the
        // caller's payload, and the two spans do not overlap.
        let remapped =
            old >= REMAP_BLOCKS && unsafe { os::move_pages(source, target, old * BLOCK_BYTES) };
        if remapped {
            for index in 0..old {
                region.block(from.after(index)).remove(DIRTY);
            }
        } else {
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(source, target, old * BLOCK_BYTES) };
        }
        self.begin_span(region, to, new, size);
        self.free_span(region, blocks, region.address_of(from));
        NonNull::new(target).ok_or(OutOfMemory)
    }

    /// Writes down that `count` blocks from `first` on are one span. Its first
    /// block says so last, so that no other thread sees half a span.
    fn begin_span(&self, region: &Region, first: BlockIndex, count: usize, size: usize) {
        for index in 0..count {
            region.block(first.after(index)).add(DIRTY);
        }
        region.block(first).set_span_blocks(count);
        self.set_span_size(region, first, size);
        region.set_kind(first, Kind::Span);
    }

    /// Counts a span by the pages that were asked for.
    fn set_span_size(&self, region: &Region, first: BlockIndex, size: usize) {
        let block = region.block(first);
        let (old, new) = (block.span_pages(), size.div_ceil(PAGE_BYTES));
        block.set_span_pages(new);
        if new >= old {
            self.charge((new - old) * PAGE_BYTES);
        } else {
            self.credit((old - new) * PAGE_BYTES);
            self.credit_fresh((old - new) * PAGE_BYTES);
        }
    }
}

fn span_at(region: &Region, address: usize) -> Option<BlockIndex> {
    let block = region.block_at(address)?;
    let is_start = region.kind(block) == Kind::Span && region.address_of(block) == address;
    is_start.then_some(block)
}

fn give_blocks(region: &Region, blocks: &Blocks, first: BlockIndex, count: usize) {
    if count >= RELEASE_AT_ONCE_BLOCKS {
        region.release(first, count);
        for index in 0..count {
            region.block(first.after(index)).remove(DIRTY);
        }
    }
    blocks.give(region, first, count);
}
