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
    /// which are the last to be taken: up to `blocks` of them, from the longest run. Returns how
    /// many; 0 when the system refuses.
    pub(crate) fn release_highest_run(&self, surplus: usize, blocks: usize) -> usize {
        let mut locked = self.lock_blocks();
        let Some(run) = locked.longest_run_of_highest(surplus, blocks) else {
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
