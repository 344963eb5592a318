//! Moving cells: a free cell of the wanted width, a copy, a forwarding address.

use super::plan::Plan;
use crate::allocate::cursor::AllocationCache;
use crate::heap::Heap;
use crate::layout::block::{BlockIndex, EMPTYING, LEFT};
use crate::layout::region::Cell;
use crate::layout::width::{WidthIndex, WIDTH_COUNT};
use crate::vm::Vm;

/// Where the next cells go.
pub(super) struct Mover<'a, 'shared, V> {
    heap: &'a Heap<'shared, V>,
    cursors: AllocationCache<'shared>,
    plan: &'a Plan,
    destinations: [std::slice::Iter<'a, BlockIndex>; WIDTH_COUNT],
    /// By width: the block that cells go into is the drained one, or one that
    /// was empty.
    past_others: [bool; WIDTH_COUNT],
    moves: Moves,
}

/// Cells that came and went, by width.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moves {
    pub(crate) arrived: [u64; WIDTH_COUNT],
    pub(crate) left: [u64; WIDTH_COUNT],
}

impl Moves {
    /// Adds those of another compaction.
    pub(crate) fn add(&mut self, other: &Self) {
        for width in 0..WIDTH_COUNT {
            self.arrived[width] += other.arrived[width];
            self.left[width] += other.left[width];
        }
    }

    /// Cells that moved in all.
    pub(crate) fn cells(&self) -> u64 {
        self.left.iter().sum()
    }
}

impl<'a, 'shared, V: Vm> Mover<'a, 'shared, V> {
    pub(super) fn new(heap: &'a Heap<'shared, V>, plan: &'a Plan) -> Self {
        Self {
            heap,
            cursors: AllocationCache::new(heap.space()),
            plan,
            destinations: std::array::from_fn(|width| plan.destinations[width].iter()),
            past_others: [false; WIDTH_COUNT],
            moves: Moves::default(),
        }
    }

    /// Moves what is planned. What finds no room stays.
    pub(super) fn move_all(&mut self) {
        for &(cell, wanted) in &self.plan.changing {
            let width = self.heap.region().width_of(cell);
            self.move_cell(cell, width, wanted);
        }
        // Blocks taken from here on are not to be emptied.
        for (block, width) in self.heap.space().cell_blocks() {
            if self.heap.region().block(block).has(EMPTYING) {
                self.empty(block, width);
            }
        }
        for width in WidthIndex::all() {
            if let Some(block) = self.plan.drained[width.index()] {
                self.drain(block, width);
            }
        }
    }

    fn empty(&mut self, block: BlockIndex, width: WidthIndex) {
        self.move_cells(block, width, |_| true);
    }

    /// Moves cells while there is room in older blocks than this one.
    fn drain(&mut self, block: BlockIndex, width: WidthIndex) {
        self.move_cells(block, width, |mover| mover.has_room_elsewhere(width));
    }

    fn move_cells(
        &mut self,
        block: BlockIndex,
        width: WidthIndex,
        goes_on: impl Fn(&mut Self) -> bool,
    ) {
        for cell in self.heap.space().cells_of(block) {
            let state = self.heap.region().state(cell);
            if state.is_live() && !state.is_pinned() && goes_on(self) {
                self.move_cell(cell, width, width);
            }
        }
    }

    fn move_cell(&mut self, from: Cell, width: WidthIndex, wanted: WidthIndex) {
        let region = self.heap.region();
        debug_assert!(!region.state(from).is_pinned(), "invariant 14: {from:?}");
        let Some(to) = self.take(wanted, from) else {
            return;
        };
        let bytes = width.bytes().min(wanted.bytes());
        // SAFETY: both cells are at least this wide, and they are different: one
        // is live, the other was free.
        unsafe {
            let (source, target) = (from.address(), to.address());
            std::ptr::copy_nonoverlapping(region.pointer(source), region.pointer(target), bytes);
        }
        self.heap.vm.moved(self.heap, from, to);
        self.heap.forward(from, to);
        region.block(region.block_of(from)).add(LEFT);
        self.moves.left[width.index()] += 1;
        self.moves.arrived[wanted.index()] += 1;
    }

    /// A free cell, in the state of the one that is going to move there.
    fn take(&mut self, width: WidthIndex, from: Cell) -> Option<Cell> {
        let region = self.heap.region();
        loop {
            let state = region.state(from);
            if let Some(cell) = self.cursors.bump(width, state) {
                return Some(cell);
            }
            if self.cursors.next_run(width, usize::MAX).is_none() {
                self.next_block(width)?;
            }
        }
    }

    /// Goes on to the next block of this width with free cells.
    fn next_block(&mut self, width: WidthIndex) -> Option<()> {
        let index = width.index();
        self.cursors.retire(width);
        let next = self.destinations[index].next().copied();
        self.past_others[index] = next.is_none() || next == self.plan.drained[index];
        let block = match next {
            Some(block) => block,
            None => self.heap.take_block(width)?,
        };
        self.cursors.adopt(width, block);
        Some(())
    }

    /// Whether the next cell of this width goes into a block that was used
    /// before and is not to be drained.
    fn has_room_elsewhere(&mut self, width: WidthIndex) -> bool {
        let index = width.index();
        loop {
            if self.past_others[index] {
                return false;
            }
            if self.cursors.has_room(width) {
                return true;
            }
            let next = self.destinations[index].as_slice().first();
            if next.is_none() || next.copied() == self.plan.drained[index] {
                return false;
            }
            if self.next_block(width).is_none() {
                return false;
            }
        }
    }

    /// Gives up the blocks that are not full yet.
    pub(super) fn end(mut self) {
        for width in WidthIndex::all() {
            self.cursors.retire(width);
        }
        self.heap.count_moves(&self.moves);
    }
}
