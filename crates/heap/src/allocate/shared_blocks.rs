//! Spans that share a block: one of two neighbours ends in it, and the other begins in it.
//!
//! A program that wants 64 KiB often asks for a byte more, for the zero at the end of a string.
//! That byte is all that is written behind the 64 KiB, but it would take a block of its own, and
//! a page of memory. So a span that reaches only a little into its last block leaves the rest of
//! that block to another such span, whose own end lies in a further block. Many buffers of one
//! size form a chain; a buffer that nobody writes to has one resident page, in which its
//! neighbour ends.
//!
//! ```text
//! block  q             q + 1         q + 2
//!       |==A==........|=-----B-----.|-=----C-----
//!                      ↑            ↑
//!                 overhang of A  overhang of B: the beginning of a block that is
//!                                another span's from there on
//! ```
//!
//! Invariant:
//! 19. An overhang lies at the beginning of a block, and what begins in that block begins behind
//!     it. A block with an overhang in which nothing begins is in the list of open blocks or has
//!     no room that another span could use.

use std::ops::Range;

use super::blocks::{is_empty, LockedAllocator};
use crate::layout::block::{BlockIndex, DIRTY, LISTED, REST_DIRTY};
use crate::layout::class::PAYLOAD_ALIGN;
use crate::layout::kind::Kind;
use crate::layout::region::Region;
use crate::layout::BLOCK_BYTES;
use crate::space::Space;

/// At most this many bytes of a block, a page on most systems, lie before the span that begins
/// in it: the page in which it begins is in memory anyway.
const SHARED_BYTES: usize = 4 << 10;
/// Spans with more whole blocks share none: a page is next to nothing beside them.
const WHOLE_BLOCKS_MAX: usize = 8;
/// At most this many open blocks are looked at for one span.
const TRIES: usize = 8;

/// A span that reaches a little into the block behind its whole blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overhanging {
    whole_blocks: usize,
    bytes: usize,
}

impl Overhanging {
    /// A span of `size` bytes, if it is such a span.
    pub(crate) fn of(size: usize) -> Option<Self> {
        let whole_blocks = size / BLOCK_BYTES;
        let bytes = (size % BLOCK_BYTES).next_multiple_of(PAYLOAD_ALIGN);
        let is_one = (1..=WHOLE_BLOCKS_MAX).contains(&whole_blocks)
            && (1..=SHARED_BYTES / 2).contains(&bytes);
        is_one.then_some(Self {
            whole_blocks,
            bytes,
        })
    }
}

/// What becomes of a span whose size is to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharedResize {
    /// It shares no block.
    NotShared,
    /// It has the new size.
    Done,
    /// It cannot grow where it is.
    NoRoom,
}

impl Region {
    /// Whether the span that begins in this block may share a block: another may begin in its
    /// last block, or another may end in its first.
    pub(crate) fn span_may_share(&self, first: BlockIndex) -> bool {
        let (block, last) = (self.block(first), self.last_of_span(first));
        block.span_start.get() != 0 || last != first && self.block(last).overhang.get() != 0
    }

    /// The bytes that belong to the span that begins in this block.
    pub(crate) fn span_bytes(&self, first: BlockIndex) -> usize {
        let (block, last) = (self.block(first), self.last_of_span(first));
        let end = match self.block(last).overhang.get() {
            overhang if overhang != 0 && last != first => overhang,
            _ => BLOCK_BYTES,
        };
        (last.get() - first.get()) * BLOCK_BYTES + end - block.span_start.get()
    }

    fn last_of_span(&self, first: BlockIndex) -> BlockIndex {
        first.after(self.block(first).span_blocks.get().max(1) - 1)
    }
}

impl Space {
    /// Takes a span that overhangs its whole blocks. Returns the block in which it begins.
    pub(crate) fn take_overhanging(&self, span: Overhanging) -> Option<BlockIndex> {
        let mut locked = self.lock_blocks();
        let count = span.whole_blocks + 1;
        let run = locked.find_run(locked.allocator.policy, count);
        let first = match locked.find_open(span, run) {
            Some(open) => open,
            None => locked.take_found(run, count)?,
        };
        locked.begin_overhanging(first, span);
        Some(first)
    }

    /// Takes back a span, whether it shares blocks or not.
    pub(crate) fn give_span(&self, first: BlockIndex) {
        let mut locked = self.lock_blocks();
        let region = locked.region;
        let block = region.block(first);
        let mut given = first.get()..first.get() + block.span_blocks.get();
        given.end = locked.end_span(first, given.end);
        if block.overhang.get() != 0 {
            block.span_start.set(0);
            block.span_blocks.set(0);
            region.set_kind(first, Kind::SpanRest);
            block.add(REST_DIRTY);
            given.start += 1;
        }
        locked.give_range(given);
        locked.list_if_open(first);
    }

    /// Changes the size of a span that may share a block.
    pub(crate) fn resize_shared(&self, first: BlockIndex, size: usize) -> SharedResize {
        let mut locked = self.lock_blocks();
        let region = locked.region;
        if !region.span_may_share(first) {
            return SharedResize::NotShared;
        }
        let block = region.block(first);
        let (start, old) = (block.span_start.get(), block.span_blocks.get());
        let last = first.after(old - 1);
        let new = (start + size).div_ceil(BLOCK_BYTES);
        if size <= region.span_bytes(first) {
            if new < old {
                let end = locked.end_span(first, first.get() + old);
                block.span_blocks.set(new);
                locked.give_range(first.get() + new..end);
            }
            return SharedResize::Done;
        }
        if last != first {
            let must_move = new > old && start != 0;
            if must_move || region.kind(last) == Kind::Span {
                return SharedResize::NoRoom;
            }
            // The whole last block belongs to this span from now on.
            locked.end_span(first, first.get() + old);
        }
        match (new <= old, start) {
            (true, _) => SharedResize::Done,
            (false, 0) => SharedResize::NotShared,
            (false, _) => SharedResize::NoRoom,
        }
    }
}

impl LockedAllocator<'_> {
    /// Finds an open block in which the span can begin, and takes the span's further blocks. The
    /// open block lies just before this run of empty blocks or below it, because the lowest blocks
    /// are taken first.
    fn find_open(&mut self, span: Overhanging, run: Option<BlockIndex>) -> Option<BlockIndex> {
        let before = run.and_then(|run| run.0.checked_sub(1)).map(BlockIndex);
        if before.is_some_and(|before| self.is_open(before) && self.begins_in(before, span)) {
            return before;
        }
        let mut next = self.allocator.open.first;
        for _ in 0..TRIES {
            let open = next?;
            next = self.region.block(open).next.get();
            if run.is_none_or(|run| open < run) && self.begins_in(open, span) {
                return Some(open);
            }
        }
        None
    }

    /// Takes the blocks of a span that begins in the block `open`, if there is room for the span,
    /// and returns whether there is. If no span has room, until a block behind becomes empty,
    /// `open` leaves the list.
    fn begins_in(&mut self, open: BlockIndex, span: Overhanging) -> bool {
        let start = self.region.block(open).overhang.get();
        let (last, end) = (open.get() + span.whole_blocks, start + span.bytes);
        let has_any_room = self.has_room_behind(open);
        let has_room = has_any_room
            && end <= SHARED_BYTES
            && last < self.region.reserved_blocks()
            && (open.get() + 1..last).all(|block| self.is_free(block))
            && self.ends_in(last, end);
        if !has_any_room {
            self.unlist(open);
        }
        has_room && self.take_behind(open, last)
    }

    /// Whether any span that begins in the block `open` has room.
    fn has_room_behind(&self, open: BlockIndex) -> bool {
        self.ends_in(open.get() + 1, self.region.block(open).overhang.get() + 1)
    }

    /// Whether a span has room in the block up to the offset `end`.
    fn ends_in(&self, block: usize, end: usize) -> bool {
        self.is_free(block) || self.has_room_before_span(block, end)
    }

    /// Whether the block is empty, or was never handed out.
    fn is_free(&self, block: usize) -> bool {
        block < self.region.reserved_blocks() && is_empty(self.region, block)
    }

    /// Whether a span begins in the block at the offset `end` or behind it, and no span ends in
    /// the block yet.
    fn has_room_before_span(&self, block: usize, end: usize) -> bool {
        if block >= self.allocator.used_limit {
            return false;
        }
        let index = BlockIndex(block as u32);
        let block = self.region.block(index);
        self.region.kind(index) == Kind::Span
            && block.overhang.get() == 0
            && block.span_start.get() >= end
    }

    /// Takes the empty blocks of a span that begins in the block `open` and ends in `last`. Returns
    /// whether they can be had.
    fn take_behind(&mut self, open: BlockIndex, last: usize) -> bool {
        let end = last + usize::from(self.is_free(last));
        end == open.get() + 1 || self.take_these(open.after(1), end)
    }

    /// Writes down a span whose blocks have been taken. The kind of its first block is set last.
    fn begin_overhanging(&mut self, first: BlockIndex, span: Overhanging) {
        let region = self.region;
        let block = region.block(first);
        let start = block.overhang.get();
        if start != 0 {
            self.unlist(first);
        }
        for index in 0..span.whole_blocks {
            region.block(first.after(index)).add(DIRTY);
        }
        let last = first.after(span.whole_blocks);
        region.block(last).add(DIRTY);
        region.block(last).overhang.set(start + span.bytes);
        block.remove(REST_DIRTY);
        block.span_start.set(start);
        block.span_blocks.set(span.whole_blocks + 1);
        region.set_kind(first, Kind::Span);
        self.list_if_open(last);
    }

    /// The span that begins in `first` gives up its overhang in its last block, the one before
    /// `end`. Returns where the blocks end that belong to this span alone.
    fn end_span(&mut self, first: BlockIndex, end: usize) -> usize {
        let last = BlockIndex(end as u32 - 1);
        if last == first {
            return end;
        }
        self.unlist(last);
        let block = self.region.block(last);
        block.overhang.set(0);
        block.remove(REST_DIRTY);
        match self.region.kind(last) {
            Kind::Span => end - 1,
            _ => end,
        }
    }

    fn give_range(&mut self, blocks: Range<usize>) {
        if !blocks.is_empty() {
            self.give(BlockIndex(blocks.start as u32), blocks.len());
        }
    }

    /// Whether a span ends at the beginning of the block, no span begins in it, and one could.
    fn is_open(&self, index: BlockIndex) -> bool {
        let overhang = self.region.block(index).overhang.get();
        overhang != 0
            && overhang + PAYLOAD_ALIGN <= SHARED_BYTES
            && self.region.kind(index) == Kind::SpanRest
    }

    /// Puts a block in the list if another span may begin in it.
    pub(super) fn list_if_open(&mut self, index: BlockIndex) {
        if self.is_open(index) {
            self.allocator.open.add(self.region, index);
        }
    }

    fn unlist(&mut self, index: BlockIndex) {
        self.allocator.open.remove(self.region, index);
    }

    /// Asserts invariant 19.
    pub(super) fn verify_shared(&self) -> Result<(), String> {
        let region = self.region;
        let mut listed = 0;
        for number in 1..self.allocator.used_limit {
            let index = BlockIndex(number as u32);
            let block = region.block(index);
            let overhang = block.overhang.get();
            if overhang == 0 {
                continue;
            }
            let before = region.kind(BlockIndex(number as u32 - 1));
            let is_right = matches!(before, Kind::Span | Kind::SpanRest)
                && match region.kind(index) {
                    Kind::Span => block.span_start.get() >= overhang && !block.has(LISTED),
                    kind => kind == Kind::SpanRest && block.span_start.get() == 0,
                };
            if !is_right || overhang > SHARED_BYTES {
                return Err(format!("invariant 19: the overhang in block {number}"));
            }
            let is_open = region.kind(index) == Kind::SpanRest;
            if is_open && !block.has(LISTED) && self.has_room_behind(index) {
                return Err(format!(
                    "invariant 19: the open block {number} is in no list"
                ));
            }
            listed += usize::from(block.has(LISTED));
        }
        let mut next = self.allocator.open.first;
        while let Some(open) = next {
            if listed == 0 || region.block(open).overhang.get() == 0 {
                return Err(format!("invariant 19: block {} is listed", open.get()));
            }
            listed -= 1;
            next = region.block(open).next.get();
        }
        match listed {
            0 => Ok(()),
            _ => Err(format!("invariant 19: {listed} open blocks are lost")),
        }
    }
}
