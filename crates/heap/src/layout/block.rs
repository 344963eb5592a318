//! The descriptor of a block.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::parts::Parts;

/// Number of a block: its distance from the region's start in blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockIndex(pub(crate) u32);

impl BlockIndex {
    /// The number itself.
    #[inline(always)]
    pub fn get(self) -> usize {
        self.0 as usize
    }

    /// The `count`-th block after this one.
    pub(crate) fn after(self, count: usize) -> Self {
        Self(self.0 + count as u32)
    }
}

/// What the heap knows about one block, one cache line in a side table.
///
/// Fields are atomic because payload blocks are used by every thread; cell
/// blocks belong to whoever holds the VM's lock, payload fields to whoever
/// holds the payload lock, so relaxed accesses are enough.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Block {
    /// Next block of the list this one is in.
    pub(crate) next: Link,
    /// Blocks in a [`ListedBlocks`](crate::allocate::lists::ListedBlocks): previous block of the
    /// list.
    pub(crate) previous: Link,
    /// Cell blocks: address of the first free run (see `allocate::run`), 0 none.
    /// Payload blocks: address of the first free piece, 0 none.
    pub(crate) free: AtomicUsize,
    /// Cell blocks: live cells when last swept.
    /// Payload blocks: pieces in use (also those in a thread's cache).
    pub(crate) used: Number,
    /// Payload blocks: pieces from here on were never handed out.
    pub(crate) untouched: Number,
    /// Spans: blocks in the span.
    pub(crate) span_blocks: Number,
    /// Spans: pages that were asked for; the rest of the last block is address
    /// space that nobody touches.
    pub(crate) span_pages: Number,
    /// Cell blocks: [`Block::changing_parts`].
    changing_parts: AtomicU64,
    /// Last blocks of spans: bytes at the beginning of the block that are the end of a span
    /// behind which another span may begin; 0 when there is no such end.
    pub(crate) overhang: Number,
    /// Spans: the offset in the first block at which the span begins, in bytes.
    pub(crate) span_start: Number,
    flags: AtomicU16,
}

/// A number below 2^32.
#[derive(Debug, Default)]
pub(crate) struct Number(AtomicU32);

impl Number {
    #[inline(always)]
    pub(crate) fn get(&self) -> usize {
        self.0.load(Relaxed) as usize
    }

    pub(crate) fn set(&self, number: usize) {
        self.0.store(number as u32, Relaxed);
    }
}

/// A block or none, as the block's number plus one or 0.
#[derive(Debug, Default)]
pub(crate) struct Link(AtomicU32);

impl Link {
    pub(crate) fn get(&self) -> Option<BlockIndex> {
        self.0.load(Relaxed).checked_sub(1).map(BlockIndex)
    }

    pub(crate) fn set(&self, block: Option<BlockIndex>) {
        self.0.store(block.map_or(0, |b| b.0 + 1), Relaxed);
    }
}

/// Cell block: dead cells have not been freed since the latest collection.
pub(crate) const NEEDS_SWEEP: u16 = 1;
/// Cell block: may hold cells that are not old.
pub(crate) const HAS_YOUNG: u16 = 1 << 1;
/// Cell block: a cursor allocates from it.
pub(crate) const OWNED: u16 = 1 << 2;
/// Payload block: in its class's list of blocks with free pieces. Last block of a span: in the
/// list of blocks in which another span may begin.
pub(crate) const LISTED: u16 = 1 << 3;
/// Any block: its pages have been written since the system last provided them.
pub(crate) const DIRTY: u16 = 1 << 4;

/// Cell block: the compaction in progress empties it.
pub(crate) const EMPTYING: u16 = 1 << 5;
/// Cell block: cells have moved away in the compaction in progress.
pub(crate) const LEFT: u16 = 1 << 6;

/// Last block of a span: the pages behind its overhang were written by a span that is gone.
pub(crate) const REST_DIRTY: u16 = 1 << 7;
/// Cell block: a forked child has it from its parent, and writes to no free memory in it
/// (`heap::inherited`).
pub(crate) const INHERITED: u16 = 1 << 8;

const _: () = assert!(size_of::<Block>() == 64);

impl Block {
    #[inline(always)]
    pub(crate) fn free(&self) -> usize {
        self.free.load(Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set_free(&self, address: usize) {
        self.free.store(address, Relaxed);
    }

    #[inline(always)]
    pub(crate) fn has(&self, flags: u16) -> bool {
        self.flags.load(Relaxed) & flags != 0
    }

    pub(crate) fn add(&self, flags: u16) {
        self.flags.store(self.flags.load(Relaxed) | flags, Relaxed);
    }

    pub(crate) fn remove(&self, flags: u16) {
        self.flags.store(self.flags.load(Relaxed) & !flags, Relaxed);
    }

    /// Cell blocks: the parts where a minor collection may free something.
    ///
    /// Invariant 18: in a block that needs no sweeping, a cell that is free or not old
    /// belongs to one of these parts.
    pub(crate) fn changing_parts(&self) -> Parts {
        Parts(self.changing_parts.load(Relaxed))
    }

    /// Cell blocks: makes every part one where a minor collection may free something.
    pub(crate) fn set_all_changing(&self) {
        self.changing_parts.store(Parts::ALL.0, Relaxed);
    }

    /// Cell blocks: notes where the free runs begin, how many cells are live, which parts have
    /// young cells, and which have free ones.
    pub(crate) fn set_contents(
        &self,
        first_run: usize,
        live_cells: usize,
        young: Parts,
        free: Parts,
    ) {
        self.set_free(first_run);
        self.used.set(live_cells);
        self.changing_parts.store(young.0 | free.0, Relaxed);
        self.remove(HAS_YOUNG);
        if young != Parts::NONE {
            self.add(HAS_YOUNG);
        }
    }

    /// Forgets everything but whether the pages are dirty.
    pub(crate) fn reset(&self) {
        self.next.set(None);
        self.previous.set(None);
        self.set_free(0);
        for number in [
            &self.used,
            &self.untouched,
            &self.span_blocks,
            &self.span_pages,
            &self.overhang,
            &self.span_start,
        ] {
            number.set(0);
        }
        self.set_all_changing();
        self.flags.store(self.flags.load(Relaxed) & DIRTY, Relaxed);
    }
}
