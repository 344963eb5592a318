//! The block allocator: empty blocks, shared by cells of all widths and by payloads.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::empty_blocks::EmptyBlocks;
use super::lists::ListedBlocks;
use super::policy::Policy;
use crate::layout::block::{BlockIndex, DIRTY};
use crate::layout::kind::{Kind, KindByte};
use crate::layout::region::Region;
use crate::os::Refused;

/// What is known of all blocks together.
///
/// Invariant:
/// 8. Blocks from `used_limit` on are empty and were never handed out; the
///    blocks in use, and the empty ones that hold memory, are counted.
#[derive(Debug)]
pub struct Blocks(Mutex<BlockAllocator>);

/// What has been needed since [`Blocks::take_need`] was last called, and how many blocks hold memory
/// now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Need {
    /// The most blocks that were in use at any time.
    pub(crate) used: usize,
    /// The fewest empty blocks that held memory at any time: nothing needed these.
    pub(crate) unused: usize,
    /// Blocks that have lost their memory, but for those that were released as surplus.
    pub(crate) gone: usize,
    /// Blocks that are in use now.
    pub(crate) in_use: usize,
    /// Empty blocks that hold memory now.
    pub(crate) held: usize,
}

#[derive(Debug, Default)]
pub(crate) struct BlockAllocator {
    pub(super) used_limit: usize,
    empty: EmptyBlocks,
    in_use: usize,
    /// Empty blocks that hold memory of the system.
    held: usize,
    /// How often a block has ceased to be one of those.
    held_before: usize,
    /// What the nursery needs.
    pub(super) need: Need,
    /// Memory has run out: the blocks kept for that case may be taken.
    reserve_is_open: bool,
    pub(super) policy: Policy,
    /// The number of the block behind the run found last, for [`Policy::NextFit`].
    last_end: usize,
    /// Surplus blocks are looked for below this block, until the next nursery.
    surplus_end: Option<usize>,
    /// The open blocks: a span may begin there behind the end of another.
    pub(super) open: ListedBlocks,
}

/// Blocks kept back until memory has run out: reporting that to the program takes memory,
/// too.
const RESERVE_BLOCKS: usize = 16;
/// Among so many blocks the longest run of surplus ones is looked for. A look at one takes about 10
/// nanoseconds.
const LOOKED_AT_BLOCKS: usize = 1024;

/// How many blocks are in which condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// Holding cells or payloads.
    pub in_use: usize,
    /// Handed out before and empty now.
    pub empty: usize,
    /// Empty blocks whose memory has not gone back to the system.
    pub held: usize,
    /// How often such a block has been taken, or its memory has gone back.
    pub held_before: usize,
}

/// What [`Space::release_pages`](crate::space::Space::release_pages) has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Released {
    /// Blocks whose pages went back.
    pub(crate) blocks: usize,
    /// The number of the block to go on with, when there was no time for all of them.
    pub(crate) next: Option<usize>,
}

impl Blocks {
    /// The blocks of a region of `reserved_blocks` blocks, none of them handed out yet.
    pub(crate) fn new(reserved_blocks: usize) -> Result<Self, Refused> {
        Ok(Self(Mutex::new(BlockAllocator {
            empty: EmptyBlocks::new(reserved_blocks)?,
            ..BlockAllocator::default()
        })))
    }

    /// Memory has run out: lets the last blocks be taken.
    pub(crate) fn open_reserve(&self) {
        self.lock().reserve_is_open = true;
    }

    /// Counts blocks by condition.
    pub fn counts(&self) -> BlockCounts {
        let allocator = self.lock();
        BlockCounts {
            in_use: allocator.in_use,
            empty: allocator.used_limit - allocator.in_use,
            held: allocator.held,
            held_before: allocator.held_before,
        }
    }

    /// Takes what has been needed since the previous call.
    pub(crate) fn take_need(&self) -> Need {
        let mut allocator = self.lock();
        let (in_use, held) = (allocator.in_use, allocator.held);
        allocator.surplus_end = None;
        let next = Need {
            used: in_use,
            unused: held,
            ..Need::default()
        };
        Need {
            in_use,
            held,
            ..std::mem::replace(&mut allocator.need, next)
        }
    }

    /// The number of the first block that was never handed out: walks over the heap end
    /// here.
    pub fn used_limit(&self) -> usize {
        self.lock().used_limit
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, BlockAllocator> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BlockAllocator {
    /// Counts `blocks` empty blocks as in use; `held` of them hold memory.
    fn note_taken(&mut self, blocks: usize, held: usize) {
        self.in_use += blocks;
        self.held -= held;
        self.held_before += held;
        self.need.used = self.need.used.max(self.in_use);
        self.need.unused = self.need.unused.min(self.held);
    }

    /// Counts `blocks` empty blocks as without memory: it has gone back, and nothing needed it.
    pub(super) fn note_released(&mut self, blocks: usize) {
        self.held -= blocks;
        self.held_before += blocks;
        self.need.unused = self.need.unused.saturating_sub(blocks);
    }
}

/// The block allocator while it is locked, and the region whose blocks it counts.
pub(crate) struct LockedAllocator<'a> {
    pub(super) region: &'a Region,
    pub(super) allocator: MutexGuard<'a, BlockAllocator>,
}

impl LockedAllocator<'_> {
    /// Asserts invariants 8, 9 and 19.
    pub(crate) fn verify(&self) -> Result<(), String> {
        self.verify_shared()?;
        let Self { region, allocator } = self;
        let (mut in_use, mut held) = (0, 0);
        for block in 0..region.committed_blocks() {
            let is_empty = is_empty(region, block);
            let was_handed_out = block < allocator.used_limit;
            in_use += usize::from(!is_empty);
            held += usize::from(is_empty && self.is_dirty(block));
            if !was_handed_out && !is_empty {
                return Err(format!("invariant 8: block {block} is beyond the limit"));
            }
            let is_noted = allocator.empty.has(block);
            if is_noted != (is_empty && was_handed_out)
                || is_noted && block < allocator.empty.lowest()
            {
                return Err(format!("invariant 9: block {block}"));
            }
        }
        for (what, found, counted) in [
            ("in use", in_use, allocator.in_use),
            ("empty and held", held, allocator.held),
        ] {
            if found != counted {
                return Err(format!(
                    "invariant 8: {found} blocks {what}, {counted} counted"
                ));
            }
        }
        Ok(())
    }

    /// The empty blocks that hold memory, lowest first.
    pub(super) fn held(&self) -> impl Iterator<Item = usize> + '_ {
        let empty = self.allocator.empty.runs(0, 1).flatten();
        empty.filter(|&block| self.is_dirty(block))
    }

    /// Whether a block has pages of the system.
    pub(super) fn is_dirty(&self, block: usize) -> bool {
        self.region.block(BlockIndex(block as u32)).has(DIRTY)
    }

    /// Of the highest run of neighbouring empty blocks that hold memory, below the block `end`, the
    /// last blocks: at most `blocks` of them.
    pub(super) fn highest_held_run(&self, end: usize, blocks: usize) -> Option<Range<usize>> {
        let is_held = |&block: &usize| self.allocator.empty.has(block) && self.is_dirty(block);
        let lowest = self.allocator.empty.lowest();
        let last = (lowest..end).rev().find(is_held)?;
        let count = (lowest..=last)
            .rev()
            .take(blocks)
            .take_while(is_held)
            .count();
        Some(last + 1 - count..last + 1)
    }

    /// A long run among the `surplus` highest empty blocks that hold memory. At most `blocks` blocks of it hold memory, the first
    /// and the last among them. It is the longest of a few blocks only, and the next call goes on there, so that all calls of
    /// a nursery together look at the heap about once.
    pub(super) fn long_run_of_highest(
        &mut self,
        surplus: usize,
        blocks: usize,
    ) -> Option<Range<usize>> {
        let lowest = self.allocator.empty.lowest();
        let used_limit = self.allocator.used_limit;
        let last_end = self.allocator.surplus_end.take();
        // From the top again if there is nothing further down: blocks there may have become empty since.
        for end in last_end.into_iter().chain([used_limit]) {
            let mut end = end.min(used_limit);
            while end > lowest {
                let start = end.saturating_sub(LOOKED_AT_BLOCKS).max(lowest);
                if let Some(run) = self.longest_held_run(start..end, surplus, blocks) {
                    self.allocator.surplus_end = Some(end);
                    return Some(run);
                }
                end = start;
            }
        }
        None
    }

    /// The longest run of empty blocks among the `surplus` highest ones of `range` that hold memory.
    fn longest_held_run(
        &self,
        range: Range<usize>,
        surplus: usize,
        blocks: usize,
    ) -> Option<Range<usize>> {
        let (mut longest, mut longest_held) = (None, 0);
        let (mut seen, mut held) = (0, 0);
        let mut run = 0..0;
        for block in range.rev() {
            if seen == surplus || longest_held == blocks {
                break;
            }
            if !self.allocator.empty.has(block) {
                held = 0;
                continue;
            }
            if !self.is_dirty(block) {
                continue;
            }
            seen += 1;
            held += 1;
            if held == 1 {
                run.end = block + 1;
            }
            run.start = block;
            if held > longest_held {
                (longest, longest_held) = (Some(run.clone()), held);
            }
        }
        longest
    }

    /// Takes one block, the lowest empty one, for `kind`.
    pub(crate) fn take_one(&mut self, kind: Kind) -> Option<BlockIndex> {
        if !self.has_room(1) {
            return None;
        }
        let first = match self.find_run(Policy::FirstFit, 1) {
            Some(first) => first,
            None => self.extend(1)?,
        };
        self.occupy(first, 1, kind);
        self.region.block(first).add(DIRTY);
        Some(first)
    }

    /// Takes `count` neighbouring blocks. They are marked as the rest of a span; the caller sets the
    /// kind of the first one.
    pub(crate) fn take_run(&mut self, count: usize) -> Option<BlockIndex> {
        let run = self.find_run(self.allocator.policy, count);
        self.take_found(run, count)
    }

    /// Takes the first `count` blocks of `run`, which has at least as many empty blocks. Without a
    /// run, takes blocks at the end of everything used so far.
    pub(super) fn take_found(
        &mut self,
        run: Option<BlockIndex>,
        count: usize,
    ) -> Option<BlockIndex> {
        if !self.has_room(count) {
            return None;
        }
        let first = match run {
            Some(first) => first,
            None => self.extend(count)?,
        };
        self.occupy(first, count, Kind::SpanRest);
        Some(first)
    }

    /// Takes the blocks from `first` to `end` if all are empty or were never handed out. Returns
    /// whether it has taken them.
    pub(crate) fn take_these(&mut self, first: BlockIndex, end: usize) -> bool {
        let count = end - first.get();
        let are_free = end <= self.region.reserved_blocks()
            && (first.get()..end.min(self.allocator.used_limit))
                .all(|block| self.allocator.empty.has(block));
        if !are_free || !self.has_room(count) || self.use_up_to(end).is_err() {
            return false;
        }
        self.occupy(first, count, Kind::SpanRest);
        true
    }

    /// Takes back `count` blocks from `first` on.
    pub(crate) fn give(&mut self, first: BlockIndex, count: usize) {
        let Self { region, allocator } = self;
        for index in 0..count {
            let block = first.after(index);
            region.block(block).reset();
            region.set_kind(block, Kind::Empty);
            let is_held = region.block(block).has(DIRTY);
            allocator.held += usize::from(is_held);
            allocator.need.gone += usize::from(!is_held);
        }
        allocator.in_use -= count;
        allocator.empty.add(first.get()..first.get() + count);
        if first.get() > 0 {
            self.list_if_open(BlockIndex(first.0 - 1));
        }
    }

    /// Whether `count` more blocks may be in use.
    pub(super) fn has_room(&self, count: usize) -> bool {
        let kept_back = if self.allocator.reserve_is_open {
            0
        } else {
            RESERVE_BLOCKS
        };
        self.allocator.in_use + count + kept_back <= self.region.reserved_blocks()
    }

    /// Keeps the last blocks back again if there is enough room without them.
    pub(crate) fn close_reserve(&mut self) {
        let free_blocks = self.region.reserved_blocks() - self.allocator.in_use;
        if free_blocks > 2 * RESERVE_BLOCKS {
            self.allocator.reserve_is_open = false;
        }
    }

    /// The first of `count` neighbouring empty blocks, as the policy chooses them.
    pub(super) fn find_run(&mut self, policy: Policy, count: usize) -> Option<BlockIndex> {
        let allocator = &mut self.allocator;
        let first = policy.find(&allocator.empty, count, allocator.last_end)?;
        if policy == Policy::NextFit {
            allocator.last_end = first + count;
        }
        Some(BlockIndex(first as u32))
    }

    /// The first of `count` blocks at the end of everything used so far: the empty ones there,
    /// and as many new ones as necessary.
    fn extend(&mut self, count: usize) -> Option<BlockIndex> {
        let mut first = self.allocator.used_limit;
        while first > 0 && self.allocator.empty.has(first - 1) {
            first -= 1;
        }
        self.use_up_to(first.checked_add(count)?).ok()?;
        Some(BlockIndex(first as u32))
    }

    /// Commits the blocks below `end`, so that they may be handed out.
    fn use_up_to(&mut self, end: usize) -> Result<(), Refused> {
        let Self { region, allocator } = self;
        let old = allocator.used_limit;
        if end > region.reserved_blocks() {
            return Err(Refused);
        }
        if end > old {
            region.commit(end)?;
            allocator.empty.cover(end)?;
            allocator.empty.add(old..end);
            allocator.used_limit = end;
        }
        Ok(())
    }

    /// Puts `count` empty blocks from `first` on into use, for `kind`.
    fn occupy(&mut self, first: BlockIndex, count: usize, kind: Kind) {
        let mut held = 0;
        for index in 0..count {
            let block = first.after(index);
            held += usize::from(self.region.block(block).has(DIRTY));
            self.region.block(block).reset();
            self.region.set_kind(block, kind);
        }
        self.allocator
            .empty
            .remove(first.get()..first.get() + count);
        self.allocator.note_taken(count, held);
    }
}

pub(super) fn is_empty(region: &Region, block: usize) -> bool {
    region.kind_byte(BlockIndex(block as u32)) == KindByte::EMPTY
}
