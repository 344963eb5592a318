//! Live cells → fewer blocks, and into the width that suits them: plan → move →
//! update references → settle.
//!
//! ```text
//! plan      which blocks to empty, which cells want another width
//! move      each into a free cell; the old one keeps the forwarding address
//! update    every reference in the heap and in the VM
//! settle    what was left is free memory, whole blocks go to the block allocator
//! ```
//!
//! Everything dead has been freed before, so no stale reference is followed on
//! the way. The VM is stopped from the beginning of the marking to the end.
//!
//! Invariants:
//! 13. Outside a compaction no cell is forwarded; inside one, a forwarded cell
//!     is not handed out again before every reference has been rewritten. So
//!     the location of a location is itself.
//! 14. A pinned cell does not move.

pub(crate) mod forward;
mod mover;
mod plan;

use crate::layout::block::{BlockIndex, EMPTYING, LEFT};
use crate::layout::width::WidthIndex;
use crate::space::Space;
use crate::sweep::rebuild_runs;
pub(crate) use mover::{move_cells, Moves};
pub(crate) use plan::Plan;

/// How much a compaction moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evacuation {
    /// What empties the sparsest blocks, and what wants another width.
    Sparse,
    /// Everything that may move, into blocks that were empty: for tests.
    Everything,
}

/// Frees the cells that were left, and calls `emptied` with the blocks in which nothing lives any
/// more.
pub(crate) fn settle(space: &Space, poison: bool, mut emptied: impl FnMut(BlockIndex, WidthIndex)) {
    for (index, width) in space.cell_blocks() {
        let block = space.region.block(index);
        let is_left = block.has(LEFT);
        // Once the block is given back, another thread may have it.
        block.remove(LEFT | EMPTYING);
        if is_left && rebuild_runs(space, index, width, poison) == 0 {
            emptied(index, width);
        }
    }
}
