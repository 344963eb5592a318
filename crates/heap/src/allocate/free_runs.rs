//! An index of the runs of empty blocks, for policies that choose among them by length: a
//! treap (a search tree that is a heap in pseudo-random priorities, Seidel and Aragon,
//! "Randomized Search Trees", 1996), in which a run is found, added and removed in
//! logarithmic time. It needs no memory: a run's first block descriptor is its node.
//!
//! Invariant:
//! 15. While the policy has an order, the index holds exactly the longest runs of empty
//!     blocks below `used_limit`. The descriptor of a run's first block has its length, the
//!     descriptor of its last one the number of the first.

use super::policy::Order;
use crate::layout::block::BlockIndex;
use crate::layout::region::Region;

/// The root of the index.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FreeRuns(Option<BlockIndex>);

/// The index, the region whose descriptors are its nodes, and its order.
pub(super) struct Index<'a> {
    pub(super) region: &'a Region,
    pub(super) root: &'a mut FreeRuns,
    pub(super) order: Order,
}

/// Where a run stands: by rank, then by address.
type Key = (usize, BlockIndex);

impl Index<'_> {
    /// Adds a run.
    pub(super) fn add(&mut self, first: BlockIndex, blocks: usize) {
        let head = self.region.block(first);
        head.set_span_blocks(blocks);
        head.set_next(None);
        head.set_previous(None);
        let last = self.region.block(first.after(blocks - 1));
        last.set_used(first.get());
        let (low, high) = self.split(self.root.0, self.key(first));
        let with_new = self.merge(low, Some(first));
        self.root.0 = self.merge(with_new, high);
    }

    /// Takes a run out; how long it was.
    pub(super) fn remove(&mut self, first: BlockIndex) -> usize {
        let key = self.key(first);
        let (low, rest) = self.split(self.root.0, key);
        let (_, high) = self.split(rest, (key.0, first.after(1)));
        self.root.0 = self.merge(low, high);
        self.length(first)
    }

    /// The first run, in the order of the index, of `blocks` at least.
    pub(super) fn find(&self, blocks: usize) -> Option<BlockIndex> {
        let rank = self.order.rank_for(blocks);
        let (mut node, mut found) = (self.root.0, None);
        while let Some(run) = node {
            let is_enough = self.key(run).0 >= rank;
            if is_enough {
                found = Some(run);
            }
            node = match is_enough {
                true => self.region.block(run).next(),
                false => self.region.block(run).previous(),
            };
        }
        found
    }

    /// The run that ends with this empty block.
    pub(super) fn ending_with(&self, last: BlockIndex) -> BlockIndex {
        BlockIndex(self.region.block(last).used() as u32)
    }

    /// How long a run is.
    pub(super) fn length(&self, first: BlockIndex) -> usize {
        self.region.block(first).span_blocks()
    }

    /// Calls `visit` with every run, in order, as deep as the tree is.
    pub(super) fn each(&self, visit: &mut impl FnMut(BlockIndex)) {
        self.each_below(self.root.0, visit);
    }

    fn each_below(&self, node: Option<BlockIndex>, visit: &mut impl FnMut(BlockIndex)) {
        let Some(run) = node else { return };
        self.each_below(self.region.block(run).next(), visit);
        visit(run);
        self.each_below(self.region.block(run).previous(), visit);
    }

    fn key(&self, run: BlockIndex) -> Key {
        (self.order.rank(self.length(run)), run)
    }

    /// The runs before `key`, and the others.
    fn split(
        &self,
        node: Option<BlockIndex>,
        key: Key,
    ) -> (Option<BlockIndex>, Option<BlockIndex>) {
        let Some(run) = node else {
            return (None, None);
        };
        let block = self.region.block(run);
        if self.key(run) < key {
            let (low, high) = self.split(block.previous(), key);
            block.set_previous(low);
            (Some(run), high)
        } else {
            let (low, high) = self.split(block.next(), key);
            block.set_next(high);
            (low, Some(run))
        }
    }

    /// One tree of two, of which the first has all that comes before the second.
    fn merge(&self, low: Option<BlockIndex>, high: Option<BlockIndex>) -> Option<BlockIndex> {
        let (Some(first), Some(second)) = (low, high) else {
            return low.or(high);
        };
        if priority(first) > priority(second) {
            let block = self.region.block(first);
            block.set_previous(self.merge(block.previous(), high));
            low
        } else {
            let block = self.region.block(second);
            block.set_next(self.merge(low, block.next()));
            high
        }
    }
}

/// Different for every block, and in no order.
fn priority(run: BlockIndex) -> u32 {
    run.0
        .wrapping_mul(0x9E37_79B1)
        .rotate_left(15)
        .wrapping_mul(0x85EB_CA77)
}
