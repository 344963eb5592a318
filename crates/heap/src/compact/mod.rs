//! Live cells → fewer blocks, and into the width that suits them: plan → move →
//! update references → settle.
//!
//! ```text
//! plan      which blocks to empty, which cells want another width
//! move      each into a free cell; the old one keeps the forwarding address
//! update    every reference in the heap and in the VM
//! settle    what was left is free memory, whole blocks go to the stock
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

mod forward;
mod mover;
mod plan;

use crate::heap::Heap;
use crate::layout::block::{BlockIndex, EMPTYING, LEFT};
use crate::layout::width::WidthIndex;
use crate::vm::Vm;
use mover::Mover;
pub(crate) use mover::Moves;
use plan::Plan;

/// How much a compaction moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evacuation {
    /// What empties the sparsest blocks, and what wants another width.
    Sparse,
    /// Everything that may move, into blocks that were empty: for tests.
    Everything,
}

impl<V: Vm> Heap<'_, V> {
    /// Compacts, right after a full collection that found the pins and swept.
    ///
    /// Not inlined: its large frame would be on the stack while that is scanned,
    /// and what earlier calls left there would pin cells.
    #[inline(never)]
    pub(crate) fn compact(&self, evacuation: Evacuation) {
        self.count_compaction();
        self.vm.compaction_begins(self);
        let plan = Plan::make(self, evacuation);
        if plan.moves_nothing() {
            return;
        }
        self.while_moving(|| {
            let mut mover = Mover::new(self, &plan);
            mover.move_all();
            mover.end();
            self.update_references();
            self.settle();
        });
    }

    fn update_references(&self) {
        self.for_each_cell_unswept(|cell, width| self.vm.update_cell(self, cell, width));
        self.vm.update_roots(self);
        self.with_marker(|marker| marker.update_remembered(|word| self.location(word)));
    }

    /// Makes free memory of what was left, and the lists of blocks anew.
    fn settle(&self) {
        for (index, width) in self.space().cell_blocks() {
            let block = self.region().block(index);
            if block.has(LEFT) {
                self.settle_block(index, width);
            }
            block.remove(LEFT | EMPTYING);
        }
        self.list_swept_blocks();
    }

    fn settle_block(&self, block: BlockIndex, width: WidthIndex) {
        if self.rebuild_runs(block, width) == 0 {
            self.give_block(block, width);
        }
    }
}
