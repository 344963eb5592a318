//! Compacting the heap: when cells may move, and the order of what is done then.

use super::{Heap, Stage};
use crate::compact::forward::Forwarding;
use crate::compact::{self, Evacuation, Plan};
use crate::layout::region::Cell;
use crate::pace::Scope;
use crate::vm::{Moving, Vm};

impl<V: Vm> Heap<'_, V> {
    /// Whether cells are moving: [`Heap::location`] says where they are now.
    pub fn is_moving(&self) -> bool {
        self.stage() == Stage::Moving
    }

    /// Notes that somebody begins to hold addresses of cells, in places that nobody rewrites or
    /// scans: nothing moves until [`Heap::end_walk`].
    pub fn begin_walk(&self) {
        self.walks.set(self.walks.get() + 1);
    }

    /// Ends what [`Heap::begin_walk`] began.
    pub fn end_walk(&self) {
        self.walks.set(self.walks.get() - 1);
    }

    /// The address at which the cell that was at `word` is now: `word` itself
    /// unless it moved in the compaction that is going on. Any word may be
    /// passed.
    #[inline(always)]
    pub fn location(&self, word: usize) -> usize {
        Forwarding::new(self.region()).location(word)
    }

    /// Whether the cell that was at `word` has moved in the compaction that is
    /// going on. Any word may be passed.
    pub fn has_moved(&self, word: usize) -> bool {
        self.location(word) != word
    }

    pub(super) fn may_move(&self, scope: Scope) -> bool {
        scope == Scope::Full && self.walks.get() == 0
    }

    /// Compacts, right after a full collection that found the pins and swept.
    ///
    /// Not inlined: its large frame would be on the stack while the stack is scanned, and what
    /// earlier calls left there would pin cells.
    #[inline(never)]
    pub(super) fn compact(&self, evacuation: Evacuation) {
        let Some(vm) = self.vm.moving() else { return };
        self.state.borrow_mut().counts.totals.compactions += 1;
        self.take_over_blocks(None);
        vm.compaction_begins();
        let plan = Plan::make(self.space(), vm, evacuation);
        if plan.moves_nothing() {
            return;
        }
        self.shared.assert_at_rest();
        self.collection.enter(Stage::Moving, None);
        // Payloads that are freed from here on count as swept.
        self.shared.payloads.set_sweeping(true);
        self.shared.while_collecting(|| {
            let take_block = |width| self.take_empty_block(width);
            let moves = compact::move_cells(self.space(), &plan, vm, take_block);
            self.state.borrow_mut().counts.add_moves(&moves);
            self.update_references(vm);
            compact::settle(self.space(), self.stress().poison, |block, width| {
                self.give_block(block, width);
            });
            self.state.borrow_mut().sweep.lists.sort(|_| false);
        });
        self.shared.payloads.set_sweeping(false);
        self.collection.enter(Stage::Idle, None);
    }

    fn update_references(&self, vm: &impl Moving) {
        let now = Forwarding::new(self.region());
        vm.updating_begins();
        // SAFETY: the walk shows live cells.
        self.for_each_cell_unswept(|cell, width| unsafe { vm.update_cell(cell, width, now) });
        vm.update_roots(now);
        // SAFETY: a cell moves to a cell.
        let location = |cell: Cell| unsafe { Cell::from_address(self.location(cell.address())) };
        let mut marker = self.marker();
        marker.remembered.relocate(location);
        marker.boundary.relocate(location);
    }
}
