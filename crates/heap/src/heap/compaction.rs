//! Compacting the heap: when cells may move, and the order of what is done then.

use super::Heap;
use crate::compact::{self, Evacuation, Host, Moves, Plan};
use crate::layout::block::BlockIndex;
use crate::layout::region::Cell;
use crate::layout::width::WidthIndex;
use crate::pace::Scope;
use crate::vm::Vm;

impl<V: Vm> Host for Heap<'_, V> {
    const FORWARDED_HEADER: usize = V::FORWARDED_HEADER;

    fn wanted_width(&self, cell: Cell, width: WidthIndex) -> Option<WidthIndex> {
        self.vm.wanted_width(self, cell, width)
    }

    fn moved(&self, from: Cell, to: Cell) -> bool {
        self.vm.moved(self, from, to)
    }

    fn take_block(&self, width: WidthIndex) -> Option<BlockIndex> {
        self.take_empty_block(width)
    }
}

impl<V: Vm> Heap<'_, V> {
    /// Whether cells are moving: [`Heap::location`] says where they are now.
    pub fn is_moving(&self) -> bool {
        self.moving.get()
    }

    /// Somebody begins to hold addresses of cells, in places that nobody
    /// rewrites or scans: nothing moves until [`Heap::end_walk`].
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
        compact::forward::location(self.region(), word)
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
    /// Not inlined: its large frame would be on the stack while that is scanned,
    /// and what earlier calls left there would pin cells.
    #[inline(never)]
    pub(super) fn compact(&self, evacuation: Evacuation) {
        self.collector.borrow_mut().stats.compactions += 1;
        self.vm.compaction_begins(self);
        let plan = Plan::make(self.space(), self, evacuation);
        if plan.moves_nothing() {
            return;
        }
        self.while_moving(|| {
            self.count_moves(&compact::move_cells(self.space(), &plan, self));
            self.update_references();
            compact::settle(self.space(), self.stress().poison, |block, width| {
                self.give_block(block, width);
            });
            self.collector.borrow_mut().lists.rebuild_swept();
        });
    }

    /// Runs `work`, which moves cells; payloads it frees count as swept.
    fn while_moving(&self, work: impl FnOnce()) {
        self.set_collecting(true);
        self.moving.set(true);
        self.payloads_sweeping(true);
        work();
        self.payloads_sweeping(false);
        self.moving.set(false);
        self.set_collecting(false);
    }

    fn update_references(&self) {
        self.for_each_cell_unswept(|cell, width| self.vm.update_cell(self, cell, width));
        self.vm.update_roots(self);
        self.with_marker(|marker| marker.update_remembered(|word| self.location(word)));
    }

    fn count_moves(&self, moves: &Moves) {
        let mut collector = self.collector.borrow_mut();
        collector.moves.add(moves);
        collector.stats.moved_cells += moves.cells();
    }
}
