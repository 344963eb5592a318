//! Blocks that are taken from a space and given back, and whose pages go back to the system.

use super::blocks::{LockedAllocator, Released};
use super::policy::Policy;
use crate::layout::block::{BlockIndex, DIRTY, REST_DIRTY};
use crate::layout::kind::KindByte;
use crate::space::Space;

impl Space {
    /// The block allocator, for as long as the caller keeps what this returns.
    pub(crate) fn lock_blocks(&self) -> LockedAllocator<'_> {
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
        self.blocks.lock().policy = policy;
    }

    /// The number of the first block that is empty and holds memory, not counting the `count`
    /// lowest such blocks; the end of the used blocks when there is none.
    pub(crate) fn behind_held_blocks(&self, count: usize) -> usize {
        let locked = self.lock_blocks();
        let behind = locked.held().nth(count);
        behind.unwrap_or(locked.allocator.used_limit)
    }

    /// Gives back the pages in which nothing lies behind the ends of spans, from the block `from`
    /// on, and those of empty blocks if `with_empty`. Stops when `goes_on`, called after each block
    /// whose pages went back, returns false.
    pub(crate) fn release_pages(
        &self,
        from: usize,
        with_empty: bool,
        mut goes_on: impl FnMut() -> bool,
    ) -> Released {
        let LockedAllocator {
            region,
            mut allocator,
        } = self.lock_blocks();
        let mut released = Released::default();
        for index in from..allocator.used_limit {
            let block_index = BlockIndex(index as u32);
            let block = region.block(block_index);
            let gone = match region.kind_byte(block_index) {
                KindByte::SPAN_REST if block.has(REST_DIRTY) => region.release_rest(block_index),
                KindByte::EMPTY if with_empty && block.has(DIRTY) => {
                    let gone = region.release(block_index, 1);
                    released.blocks += usize::from(gone.is_ok());
                    gone
                }
                _ => continue,
            };
            if gone.is_err() {
                // The system would refuse the others, too; the next collection asks again.
                break;
            }
            if !goes_on() {
                released.next = Some(index + 1);
                break;
            }
        }
        allocator.note_released(released.blocks);
        allocator.need.gone += released.blocks;
        released
    }

    /// Gives back the pages of the `surplus` highest empty blocks that hold memory, at most
    /// `together` of them with one call. Stops when `goes_on`, called with how many have gone back
    /// with a call, returns false, or when the system refuses. Returns how many have gone back.
    pub(crate) fn release_highest(
        &self,
        surplus: usize,
        together: usize,
        mut goes_on: impl FnMut(usize) -> bool,
    ) -> usize {
        let mut locked = self.lock_blocks();
        let mut released = 0;
        let mut end = locked.allocator.used_limit;
        while released < surplus {
            let blocks = together.min(surplus - released);
            let Some(run) = locked.highest_held_run(end, blocks) else {
                break;
            };
            let first = BlockIndex(run.start as u32);
            if self.region.release(first, run.len()).is_err() {
                break;
            }
            locked.allocator.note_released(run.len());
            released += run.len();
            end = run.start;
            if !goes_on(run.len()) {
                break;
            }
        }
        released
    }

    /// Gives back the pages of some of the `surplus` highest empty blocks that hold memory,
    /// which are the last to be taken: up to `blocks` of them, from a long run. Returns how
    /// many; 0 when the system refuses.
    pub(crate) fn release_highest_run(&self, surplus: usize, blocks: usize) -> usize {
        let mut locked = self.lock_blocks();
        let Some(run) = locked.long_run_of_highest(surplus, blocks) else {
            return 0;
        };
        let count = run.end - run.start;
        let held = run.clone().filter(|&block| locked.is_dirty(block)).count();
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::kind::Kind;
    use crate::layout::width::WidthIndex;
    use crate::layout::BLOCK_BYTES;
    use crate::os;

    const BLOCKS: usize = 4096;

    /// A space whose first `BLOCKS` blocks were all in use; those for which `stays` is true still are.
    fn space_where(stays: impl Fn(usize) -> bool) -> Space {
        let space = Space::reserve(2 * BLOCKS * BLOCK_BYTES, os::page_bytes()).unwrap();
        let mut locked = space.lock_blocks();
        let kind = Kind::Cells(WidthIndex::all().next().unwrap());
        for _ in 0..BLOCKS {
            locked.take_one(kind).unwrap();
        }
        for block in (0..BLOCKS).filter(|&block| !stays(block)) {
            locked.give(BlockIndex(block as u32), 1);
        }
        drop(locked);
        space
    }

    #[test]
    fn surplus_goes_back_from_the_top_and_a_long_run_far_below_waits() {
        // Every second block is empty, and 16 neighbours in the lower half.
        let space = space_where(|block| block % 2 == 0 && !(600..616).contains(&block));
        let mut surplus = space.blocks.counts().held;
        let mut calls = 0;
        loop {
            let released = space.release_highest_run(surplus, 16);
            surplus -= released;
            calls += 1;
            if released > 1 {
                break;
            }
        }
        // Those above the 1,024 blocks that have the run went back one by one.
        assert_eq!(calls, (BLOCKS - 1024) / 2 + 1);
    }

    #[test]
    fn all_surplus_goes_back_also_what_becomes_empty_meanwhile() {
        let space = space_where(|block| block % 2 == 0);
        for _ in 0..BLOCKS / 4 {
            assert_eq!(space.release_highest_run(BLOCKS, 16), 1);
        }
        space.lock_blocks().give(BlockIndex(BLOCKS as u32 - 2), 1);
        for _ in 0..BLOCKS / 4 + 1 {
            assert_eq!(space.release_highest_run(BLOCKS, 16), 1);
        }
        assert_eq!(space.release_highest_run(BLOCKS, 16), 0);
        assert_eq!(space.blocks.counts().held, 0);
    }

    #[test]
    fn a_nursery_begins_at_the_top_again() {
        let space = space_where(|block| block % 2 == 0);
        for _ in 0..BLOCKS / 4 {
            space.release_highest_run(BLOCKS, 16);
        }
        space.lock_blocks().give(BlockIndex(BLOCKS as u32 - 2), 1);
        space.blocks.take_need();
        space.release_highest_run(1, 16);
        assert!(!space.lock_blocks().is_dirty(BLOCKS - 2));
    }
}
