//! The block allocator: empty blocks, shared by cells of all widths and by payloads.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::free_runs::{FreeRuns, Index};
use super::policy::Policy;
use crate::layout::block::{BlockIndex, DIRTY, REST_DIRTY};
use crate::layout::kind::{Kind, KindByte};
use crate::layout::region::Region;
use crate::space::Space;

/// Full collections an empty block sees before its pages go back.
const IDLE_COLLECTIONS_BEFORE_RELEASE: u16 = 2;

/// Empty blocks, found through the kind table.
///
/// Invariants:
/// 8. Blocks from `used_limit` on are empty and were never handed out; the
///    blocks in use, and the empty ones that hold memory, are counted.
/// 9. No run of `n` empty blocks begins below `floors[n]`.
#[derive(Debug)]
pub struct Blocks(Mutex<BlockAllocator>);

/// Runs of up to this many blocks have a floor of their own; longer ones share
/// the last.
const FLOORS: usize = 16;

/// What has been needed of empty blocks since [`Blocks::take_need`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Need {
    /// The fewest that held memory at any time: nothing needed them.
    pub(crate) unused: usize,
    /// Blocks that were taken and held none.
    pub(crate) fresh: usize,
}

#[derive(Debug, Default)]
pub(crate) struct BlockAllocator {
    pub(super) used_limit: usize,
    floors: [usize; FLOORS + 1],
    in_use: usize,
    /// Empty blocks that hold memory of the system.
    held: usize,
    /// What the nursery needs of empty blocks.
    need: Need,
    /// Memory has run out: the blocks kept for that case may be taken.
    reserve_is_open: bool,
    policy: Policy,
    /// The runs of empty blocks, while the policy has an order.
    free_runs: FreeRuns,
    /// Where the next fit is looked for first.
    next_fit: usize,
    /// The first block of the list of those in which a span may begin behind the end of another.
    pub(super) open: Option<BlockIndex>,
}

/// Blocks kept back until memory has run out: to tell a program of that takes memory,
/// too.
const RESERVE_BLOCKS: usize = 16;

/// How many blocks are in which condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// Holding cells or payloads.
    pub in_use: usize,
    /// Handed out before and empty now.
    pub empty: usize,
    /// Of those, with memory that has not gone back to the system.
    pub held: usize,
}

/// What looking at empty blocks has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Released {
    /// Blocks whose pages went back.
    pub(crate) blocks: usize,
    /// Where to go on, when there was no time for all.
    pub(crate) next: Option<usize>,
}

impl Blocks {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(BlockAllocator::default()))
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
        }
    }

    /// What has been needed since this was asked before.
    pub(crate) fn take_need(&self) -> Need {
        let mut allocator = self.lock();
        let next = Need {
            unused: allocator.held,
            fresh: 0,
        };
        std::mem::replace(&mut allocator.need, next)
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
    /// So many empty blocks are in use from now on, and so many of them held memory.
    fn note_taken(&mut self, blocks: usize, held: usize) {
        self.in_use += blocks;
        self.held -= held;
        self.need.unused = self.need.unused.min(self.held);
        self.need.fresh += blocks - held;
    }

    /// The memory of so many has gone back. Nothing needed it.
    fn note_released(&mut self, blocks: usize) {
        self.held -= blocks;
        self.need.unused = self.need.unused.saturating_sub(blocks);
    }
}

/// The block allocator while it is locked, and the region whose blocks it counts.
pub(super) struct LockedAllocator<'a> {
    pub(super) region: &'a Region,
    pub(super) allocator: MutexGuard<'a, BlockAllocator>,
}

impl Space {
    pub(super) fn lock_allocator(&self) -> LockedAllocator<'_> {
        LockedAllocator {
            region: &self.region,
            allocator: self.blocks.lock(),
        }
    }

    /// How places for payloads of several blocks are chosen.
    pub fn policy(&self) -> Policy {
        self.blocks.lock().policy
    }

    /// Chooses how places for payloads of several blocks are found from now on.
    pub fn set_policy(&self, policy: Policy) {
        let mut locked = self.lock_allocator();
        locked.allocator.policy = policy;
        locked.allocator.free_runs = FreeRuns::default();
        let (region, used_limit) = (locked.region, locked.allocator.used_limit);
        let Some(mut index) = locked.index() else {
            return;
        };
        let mut run = 0;
        for block in 0..=used_limit {
            if block < used_limit && is_empty(region, block) {
                run += 1;
                continue;
            }
            if run > 0 {
                index.add(BlockIndex((block - run) as u32), run);
            }
            run = 0;
        }
    }

    /// Takes one block, the lowest empty one, for `kind`.
    pub(crate) fn take_block(&self, kind: Kind) -> Option<BlockIndex> {
        let mut locked = self.lock_allocator();
        if !locked.has_room(1) {
            return None;
        }
        let first = match locked.find_run(1) {
            Some(block) => block,
            None => locked.extend(1)?,
        };
        locked.leave_free_runs(first, 1);
        let LockedAllocator {
            region,
            mut allocator,
        } = locked;
        let block = region.block(first);
        allocator.note_taken(1, usize::from(block.has(DIRTY)));
        block.reset();
        block.add(DIRTY);
        region.set_kind(first, kind);
        Some(first)
    }

    /// Takes `count` neighbouring blocks. They are marked as the rest of a
    /// span; the caller names the first one.
    pub(crate) fn take_span(&self, count: usize) -> Option<BlockIndex> {
        self.lock_allocator().take_run(count)
    }

    /// Takes the `count` blocks from `first` on if all are empty.
    pub(crate) fn extend_span(&self, first: BlockIndex, count: usize) -> bool {
        let mut locked = self.lock_allocator();
        let end = first.get() + count;
        if end > self.region.reserved_blocks() || !locked.has_room(count) {
            return false;
        }
        let known = end.min(locked.allocator.used_limit);
        if !(first.get()..known).all(|block| is_empty(&self.region, block)) {
            return false;
        }
        if end > locked.allocator.used_limit {
            if self.region.commit(end).is_err() {
                return false;
            }
            locked.use_up_to(end);
        }
        locked.leave_free_runs(first, count);
        locked.occupy(first, count);
        true
    }

    /// Keeps the last blocks back again if there is enough room without them.
    pub(crate) fn close_reserve(&self) {
        let mut allocator = self.blocks.lock();
        let free_blocks = self.region.reserved_blocks() - allocator.in_use;
        if free_blocks > 2 * RESERVE_BLOCKS {
            allocator.reserve_is_open = false;
        }
    }

    /// Takes back `count` blocks from `first` on.
    pub(crate) fn give_blocks(&self, first: BlockIndex, count: usize) {
        self.lock_allocator().give(first, count);
    }

    /// Where the blocks end of which the lowest `count` are empty and hold memory.
    pub(crate) fn behind_held_blocks(&self, count: usize) -> usize {
        let used_limit = self.blocks.used_limit();
        let is_held = |&block: &usize| {
            let holds = self.region.block(BlockIndex(block as u32)).has(DIRTY);
            is_empty(&self.region, block) && holds
        };
        let mut held = (0..used_limit).filter(is_held);
        held.nth(count).unwrap_or(used_limit)
    }

    /// Looks at the empty blocks from `from` on, once after every major or full collection,
    /// as long as `goes_on` says after each; gives back the pages of those that have
    /// stayed empty for a while, so that memory returns to the system slowly.
    /// `all_at_once` is for a program that asked for it.
    pub(crate) fn release_idle_blocks(
        &self,
        from: usize,
        all_at_once: bool,
        mut goes_on: impl FnMut() -> bool,
    ) -> Released {
        let LockedAllocator {
            region,
            mut allocator,
        } = self.lock_allocator();
        let mut released = Released::default();
        for index in from..allocator.used_limit {
            let block_index = BlockIndex(index as u32);
            let block = region.block(block_index);
            let gone = match region.kind_byte(block_index) {
                KindByte::SPAN_REST if block.has(REST_DIRTY) => region.release_rest(block_index),
                KindByte::EMPTY if block.has(DIRTY) => {
                    let idle = block.idle_collections().saturating_add(1);
                    block.set_idle_collections(idle);
                    if !all_at_once && idle <= IDLE_COLLECTIONS_BEFORE_RELEASE {
                        continue;
                    }
                    let gone = region.release(block_index, 1);
                    released.blocks += usize::from(gone.is_ok());
                    gone
                }
                _ => continue,
            };
            if gone.is_err() {
                // It would refuse the others, too; the next collection asks again.
                break;
            }
            if !goes_on() {
                released.next = Some(index + 1);
                break;
            }
        }
        allocator.note_released(released.blocks);
        released
    }

    /// Gives back the pages of some of the `surplus` highest empty blocks that hold memory,
    /// which are the last to be taken: up to `blocks` of them, the end of the longest run. How
    /// many; none when the system refuses.
    pub(crate) fn release_highest_run(&self, surplus: usize, blocks: usize) -> usize {
        let mut locked = self.lock_allocator();
        let Some(run) = locked.longest_run_of_highest(surplus, blocks) else {
            return 0;
        };
        let count = run.end - run.start;
        let is_held = |&block: &usize| self.region.block(BlockIndex(block as u32)).has(DIRTY);
        let held = run.clone().filter(is_held).count();
        if self
            .region
            .release(BlockIndex(run.start as u32), count)
            .is_err()
        {
            return 0;
        }
        locked.allocator.note_released(held);
        held
    }

    /// Asserts invariants 8, 9, 15 and 19.
    pub(crate) fn verify_blocks(&self) -> Result<(), String> {
        self.lock_allocator().verify_free_runs()?;
        self.lock_allocator().verify_shared()?;
        let LockedAllocator { region, allocator } = self.lock_allocator();
        let mut in_use = 0;
        let mut held = 0;
        let mut run = 0;
        for block in 0..region.committed_blocks() {
            let empty = is_empty(region, block);
            in_use += usize::from(!empty);
            held += usize::from(empty && region.block(BlockIndex(block as u32)).has(DIRTY));
            if block >= allocator.used_limit && !empty {
                return Err(format!("invariant 8: block {block} is beyond the limit"));
            }
            run = if empty { run + 1 } else { 0 };
            for length in 1..=run.min(FLOORS) {
                let first = block + 1 - length;
                if block < allocator.used_limit && first < allocator.floors[length] {
                    return Err(format!(
                        "invariant 9: blocks {first} to {block} are empty, below the floor"
                    ));
                }
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
}

impl LockedAllocator<'_> {
    /// Asserts invariant 15.
    fn verify_free_runs(&mut self) -> Result<(), String> {
        let (region, used_limit) = (self.region, self.allocator.used_limit);
        let Some(index) = self.index() else {
            return Ok(());
        };
        let (mut listed_blocks, mut broken, mut before) = (0, None, None);
        index.each(&mut |first| {
            let blocks = index.length(first);
            let (start, end) = (first.get(), first.get() + blocks);
            let is_whole = blocks > 0
                && end <= used_limit
                && (start..end).all(|block| is_empty(region, block))
                && (start == 0 || !is_empty(region, start - 1))
                && (end == used_limit || !is_empty(region, end))
                && index.ending_with(BlockIndex(end as u32 - 1)) == first;
            let key = (index.order.rank(blocks), first);
            if !is_whole || before.is_some_and(|before| before >= key) {
                broken = broken.or(Some(first));
            }
            before = Some(key);
            listed_blocks += blocks;
        });
        let empty_blocks = (0..used_limit)
            .filter(|&block| is_empty(region, block))
            .count();
        match broken {
            Some(first) => Err(format!("invariant 15: the run at block {}", first.get())),
            None if listed_blocks != empty_blocks => Err(format!(
                "invariant 15: {empty_blocks} empty blocks, {listed_blocks} in the index"
            )),
            None => Ok(()),
        }
    }

    /// Among the `surplus` highest empty blocks that hold memory, the longest run of empty ones.
    /// It ends with one that holds memory and begins with one, and `blocks` of it do at most.
    fn longest_run_of_highest(&self, surplus: usize, blocks: usize) -> Option<Range<usize>> {
        let (mut longest, mut longest_held) = (None, 0);
        let (mut seen, mut held) = (0, 0);
        let mut run = 0..0;
        for block in (self.allocator.floors[1]..self.allocator.used_limit).rev() {
            if seen == surplus || longest_held == blocks {
                break;
            }
            if !is_empty(self.region, block) {
                held = 0;
                continue;
            }
            if !self.region.block(BlockIndex(block as u32)).has(DIRTY) {
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

    /// Takes `count` neighbouring blocks as [`Space::take_span`] does.
    pub(super) fn take_run(&mut self, count: usize) -> Option<BlockIndex> {
        let first = match self.find_run_by_policy(count) {
            Some(first) => first,
            None if self.has_room(count) => self.extend(count)?,
            None => return None,
        };
        self.take_found(first, count)
    }

    /// Takes `count` blocks, which are the beginning of an empty run.
    pub(super) fn take_found(&mut self, first: BlockIndex, count: usize) -> Option<BlockIndex> {
        if !self.has_room(count) {
            return None;
        }
        self.leave_free_runs(first, count);
        self.occupy(first, count);
        Some(first)
    }

    /// Takes back `count` blocks from `first` on.
    pub(super) fn give(&mut self, first: BlockIndex, count: usize) {
        let Self { region, allocator } = self;
        for index in 0..count {
            let block = first.after(index);
            region.block(block).reset();
            region.set_kind(block, Kind::Empty);
            allocator.held += usize::from(region.block(block).has(DIRTY));
        }
        allocator.in_use -= count;
        for (length, floor) in allocator.floors.iter_mut().enumerate().skip(1) {
            *floor = (*floor).min(first.get().saturating_sub(length - 1));
        }
        self.join_free_runs(first, count);
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

    /// The lowest run of `count` empty blocks: lowest first keeps the heap
    /// dense, and pages that were used before are used again.
    fn find_run(&mut self, count: usize) -> Option<BlockIndex> {
        let Self { region, allocator } = self;
        let length = count.min(FLOORS);
        let from = allocator.floors[1..=length].iter().copied().max()?;
        let mut run = 0;
        let mut floor = None;
        for block in from..allocator.used_limit {
            run = if is_empty(region, block) { run + 1 } else { 0 };
            if run == length && floor.is_none() {
                floor = Some(block + 1 - length);
            }
            if run == count {
                allocator.floors[length] = floor.unwrap_or(from);
                return Some(BlockIndex((block + 1 - count) as u32));
            }
        }
        allocator.floors[length] =
            floor.unwrap_or(allocator.used_limit - run.min(allocator.used_limit - from));
        None
    }

    /// `count` blocks, as many as necessary of them beyond everything used so
    /// far.
    fn extend(&mut self, count: usize) -> Option<BlockIndex> {
        let Self { region, allocator } = &mut *self;
        let mut first = allocator.used_limit;
        while first > allocator.floors[1] && is_empty(region, first - 1) {
            first -= 1;
        }
        let end = first.checked_add(count)?;
        if end > region.reserved_blocks() {
            return None;
        }
        region.commit(end).ok()?;
        self.use_up_to(end);
        Some(BlockIndex(first as u32))
    }

    /// Blocks below `end` may be handed out; those that were not before are an empty run,
    /// or make the last one longer.
    pub(super) fn use_up_to(&mut self, end: usize) {
        let old = self.allocator.used_limit;
        if end <= old {
            return;
        }
        self.allocator.used_limit = end;
        self.join_free_runs(BlockIndex(old as u32), end - old);
    }

    /// The index of empty runs, when the policy has one.
    fn index(&mut self) -> Option<Index<'_>> {
        Some(Index {
            order: self.allocator.policy.order()?,
            region: self.region,
            root: &mut self.allocator.free_runs,
        })
    }

    /// The first `count` blocks of an empty run are about to be taken. With an index they
    /// always are a run's first ones: what lies before them is in use.
    pub(super) fn leave_free_runs(&mut self, first: BlockIndex, count: usize) {
        let Some(mut index) = self.index() else {
            return;
        };
        let length = index.remove(first);
        if length > count {
            index.add(first.after(count), length - count);
        }
    }

    /// These blocks have become empty: a run of their own, or part of those beside them.
    fn join_free_runs(&mut self, first: BlockIndex, count: usize) {
        let (region, used_limit) = (self.region, self.allocator.used_limit);
        let Some(mut index) = self.index() else {
            return;
        };
        let (mut start, mut length) = (first, count);
        let end = first.get() + count;
        if end < used_limit && is_empty(region, end) {
            length += index.remove(first.after(count));
        }
        if first.get() > 0 && is_empty(region, first.get() - 1) {
            start = index.ending_with(BlockIndex(first.0 - 1));
            length += index.remove(start);
        }
        index.add(start, length);
    }

    pub(super) fn find_run_by_policy(&mut self, count: usize) -> Option<BlockIndex> {
        match self.allocator.policy {
            Policy::FirstFit => self.find_run(count),
            Policy::NextFit => self.find_next_run(count),
            Policy::BestFit | Policy::SegregatedFit => self.index()?.find(count),
        }
    }

    /// The first `count` empty blocks behind those found last, or else from the beginning.
    fn find_next_run(&mut self, count: usize) -> Option<BlockIndex> {
        let Self { region, allocator } = self;
        let (from, end) = (allocator.next_fit, allocator.used_limit);
        for (from, end) in [(from, end), (0, end.min(from + count))] {
            let mut run = 0;
            for block in from..end {
                run = if is_empty(region, block) { run + 1 } else { 0 };
                if run == count {
                    allocator.next_fit = block + 1;
                    return Some(BlockIndex((block + 1 - count) as u32));
                }
            }
        }
        None
    }

    pub(super) fn occupy(&mut self, first: BlockIndex, count: usize) {
        let mut held = 0;
        for index in 0..count {
            let block = first.after(index);
            held += usize::from(self.region.block(block).has(DIRTY));
            self.region.block(block).reset();
            self.region.set_kind(block, Kind::SpanRest);
        }
        self.allocator.note_taken(count, held);
    }
}

pub(super) fn is_empty(region: &Region, block: usize) -> bool {
    region.kind_byte(BlockIndex(block as u32)) == KindByte::EMPTY
}
