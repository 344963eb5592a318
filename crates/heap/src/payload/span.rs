//! Payloads larger than the size classes: spans of whole blocks.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

use super::supply::Supply;
use super::OutOfMemory;
use crate::allocate::shared_blocks::{Overhanging, SharedResize};
use crate::layout::block::{BlockIndex, DIRTY};
use crate::layout::kind::Kind;
use crate::layout::BLOCK_BYTES;
use crate::os;
use crate::space::Space;

/// A span of at least this many blocks (4 MiB) goes back to the system as soon
/// as it is freed. The pages of a smaller one are worth keeping: fetching them
/// again costs tens of times what reusing them does.
const RELEASE_AT_ONCE_BLOCKS: usize = 64;

/// A span that moves is copied in pieces of this many blocks (1 MiB). If its blocks go back to
/// the system at once, they do so piece by piece, so that the whole span is never in memory twice.
const COPY_BLOCKS: usize = 16;

fn blocks_for(size: usize) -> Result<usize, OutOfMemory> {
    let blocks = size.div_ceil(BLOCK_BYTES);
    u32::try_from(blocks).map_err(|_| OutOfMemory)?;
    Ok(blocks)
}

impl Supply<'_> {
    #[cold]
    #[inline(never)]
    pub(super) fn allocate_span(self, size: usize) -> Result<NonNull<u8>, OutOfMemory> {
        let Some(overhanging) = Overhanging::of(size) else {
            let count = blocks_for(size)?;
            return self.begin_span(self.take_run(count)?, count, size);
        };
        let first = self.space.take_overhanging(overhanging);
        let first = first.ok_or(OutOfMemory)?;
        self.set_span_size(first, size);
        self.payload_at(first)
    }

    /// A span that begins at a multiple of `align`, a power of two of a block or more.
    #[cold]
    pub(super) fn allocate_aligned_span(
        self,
        size: usize,
        align: usize,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        let size = size.max(1);
        let count = blocks_for(size)?;
        // With `align - BLOCK_BYTES` more, one of the first blocks begins at a multiple of `align`.
        let taken = blocks_for((align - BLOCK_BYTES).checked_add(size).ok_or(OutOfMemory)?)?;
        let start = self.take_run(taken)?;
        let address = self.space.region.address_of(start);
        let before = (address.next_multiple_of(align) - address) / BLOCK_BYTES;
        let first = start.after(before);
        if before > 0 {
            self.space.lock_blocks().give(start, before);
        }
        let behind = taken - before - count;
        if behind > 0 {
            self.space.lock_blocks().give(first.after(count), behind);
        }
        self.begin_span(first, count, size)
    }

    #[cold]
    pub(super) fn allocate_zeroed_span(self, size: usize) -> Result<NonNull<u8>, OutOfMemory> {
        let count = blocks_for(size)?;
        let first = self.take_run(count)?;
        for index in 0..count {
            let block = first.after(index);
            if self.space.region.block(block).has(DIRTY) {
                let start = self.space.region.address_of(block);
                // SAFETY: the block belongs to this span, which nobody has yet.
                unsafe { self.space.region.pointer(start).write_bytes(0, BLOCK_BYTES) };
            }
        }
        self.begin_span(first, count, size)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn free_span(self, address: usize) {
        let Some(first) = span_at(self.space, address) else {
            return super::not_a_payload(address);
        };
        self.set_span_size(first, 0);
        let count = self.space.region.block(first).span_blocks.get();
        release_if_large(self.space, first, count);
        self.space.give_span(first);
    }

    /// Changes the size of a span where it is: takes empty blocks behind it, or gives back
    /// blocks that it does not need. False when it cannot grow there; the payload is then as it
    /// was.
    pub(super) fn resize_span_in_place(self, address: usize, size: usize) -> bool {
        let (Some(first), Ok(new)) = (span_at(self.space, address), blocks_for(size.max(1))) else {
            return false;
        };
        match self.space.resize_shared(first, size.max(1)) {
            SharedResize::NotShared => {}
            SharedResize::Done => {
                self.set_span_size(first, size);
                return true;
            }
            SharedResize::NoRoom => return false,
        }
        let old = self.space.region.block(first).span_blocks.get();
        let (end, new_end) = (first.after(old), first.get() + new);
        if new > old && !self.space.lock_blocks().take_these(end, new_end) {
            return false;
        }
        for index in old..new {
            self.space.region.block(first.after(index)).add(DIRTY);
        }
        self.space.region.block(first).span_blocks.set(new);
        self.set_span_size(first, size);
        if new < old {
            release_if_large(self.space, first.after(new), old - new);
            self.space.lock_blocks().give(first.after(new), old - new);
        }
        true
    }

    /// Moves a span to where there is room for `size` bytes, more than it has.
    pub(super) fn move_span(self, address: usize, size: usize) -> Result<NonNull<u8>, OutOfMemory> {
        let from = span_at(self.space, address).ok_or(OutOfMemory)?;
        let region = &self.space.region;
        let (old, new) = (region.block(from).span_blocks.get(), blocks_for(size)?);
        let to = self.take_run(new)?;
        let target = self.payload_at(to)?;
        let bytes = region.span_bytes(from);
        match region.span_may_share(from) {
            // SAFETY: the target's blocks are committed, ours and unused, and hold more than the
            // source, which is the caller's payload; two spans do not overlap.
            true => unsafe {
                let source = region.pointer(address);
                std::ptr::copy_nonoverlapping(source, target.as_ptr(), bytes);
            },
            false => self.copy_blocks(from, to, old),
        }
        self.payloads.note_moved(bytes);
        self.begin_span(to, new, size)?;
        self.set_span_size(from, 0);
        self.space.give_span(from);
        Ok(target)
    }

    /// Copies the `count` blocks of a span that will be freed to the beginning of a span that
    /// nobody has yet. The copied blocks of a large span go back to the system.
    fn copy_blocks(self, from: BlockIndex, to: BlockIndex, count: usize) {
        let region = &self.space.region;
        for start in (0..count).step_by(COPY_BLOCKS) {
            let blocks = (count - start).min(COPY_BLOCKS);
            let (from, to) = (from.after(start), to.after(start));
            let source = region.pointer(region.address_of(from));
            let target = region.pointer(region.address_of(to));
            let is_held = (0..blocks).all(|index| region.block(to.after(index)).has(DIRTY));
            // SAFETY: the target's blocks are committed, ours and unused; the source's are the
            // caller's payload; two spans do not overlap.
            unsafe {
                if !is_held {
                    os::populate(target, blocks * BLOCK_BYTES);
                }
                std::ptr::copy_nonoverlapping(source, target, blocks * BLOCK_BYTES);
            }
            if count >= RELEASE_AT_ONCE_BLOCKS {
                // If the system refuses, the blocks keep their pages.
                let _ = region.release(from, blocks);
            }
        }
    }

    fn take_run(self, count: usize) -> Result<BlockIndex, OutOfMemory> {
        let first = self.space.lock_blocks().take_run(count);
        first.ok_or(OutOfMemory)
    }

    fn payload_at(self, first: BlockIndex) -> Result<NonNull<u8>, OutOfMemory> {
        let region = &self.space.region;
        let address = region.address_of(first) + region.block(first).span_start.get();
        NonNull::new(region.pointer(address)).ok_or(OutOfMemory)
    }

    /// Writes down that `count` blocks from `first` on are one span. The kind of its first
    /// block is set last, so that no other thread sees half a span. Returns the span.
    fn begin_span(
        self,
        first: BlockIndex,
        count: usize,
        size: usize,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        for index in 0..count {
            self.space.region.block(first.after(index)).add(DIRTY);
        }
        self.space.region.block(first).span_blocks.set(count);
        self.set_span_size(first, size);
        self.space.region.set_kind(first, Kind::Span);
        self.payload_at(first)
    }

    /// Notes the size of a span, counted by the pages that were asked for.
    fn set_span_size(self, first: BlockIndex, size: usize) {
        let block = self.space.region.block(first);
        let page_bytes = self.space.region.page_bytes();
        let (old, new) = (block.span_pages.get(), size.div_ceil(page_bytes));
        block.span_pages.set(new);
        let span_bytes = &self.payloads.span_bytes;
        if new >= old {
            let more_bytes = (new - old) * page_bytes;
            span_bytes.fetch_add(more_bytes, Relaxed);
            self.payloads.fresh_bytes.fetch_add(more_bytes, Relaxed);
        } else {
            let fewer_bytes = (old - new) * page_bytes;
            span_bytes.fetch_sub(fewer_bytes, Relaxed);
            self.payloads.credit_fresh(fewer_bytes);
        }
    }
}

fn span_at(space: &Space, address: usize) -> Option<BlockIndex> {
    let region = &space.region;
    let block = region.block_at(address)?;
    let is_start = region.kind(block) == Kind::Span
        && region.address_of(block) + region.block(block).span_start.get() == address;
    is_start.then_some(block)
}

fn release_if_large(space: &Space, first: BlockIndex, count: usize) {
    if count >= RELEASE_AT_ONCE_BLOCKS {
        // If the system refuses, the blocks keep their pages.
        let _ = space.region.release(first, count);
    }
}
