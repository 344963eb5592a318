//! Moving cells: a free cell of the wanted width, a copy, a forwarding address.

use super::forward::forward;
use super::plan::Plan;
use crate::allocate::cursor::AllocationCache;
use crate::layout::block::{BlockIndex, EMPTYING, LEFT};
use crate::layout::region::Cell;
use crate::layout::width::{WidthIndex, WIDTH_COUNT};
use crate::space::Space;
use crate::vm::Moving;

/// Moves what is planned, also into blocks that `take_block` gives: empty ones, each with one
/// free run. A cell for which there is no room stays.
pub(crate) fn move_cells(
    space: &Space,
    plan: &Plan,
    vm: &impl Moving,
    take_block: impl Fn(WidthIndex) -> Option<BlockIndex>,
) -> Moves {
    let mut mover = Mover {
        space,
        vm,
        take_block,
        cursors: AllocationCache::new(space),
        plan,
        destinations: plan.destinations.each_ref().map(|blocks| blocks.iter()),
        past_others: [false; WIDTH_COUNT],
        moves: Moves::default(),
    };
    mover.move_all();
    // The blocks that are not full yet.
    for width in WidthIndex::all() {
        mover.cursors.retire(width);
    }
    mover.moves
}

/// Where the next cells go.
struct Mover<'a, M, T> {
    space: &'a Space,
    vm: &'a M,
    take_block: T,
    cursors: AllocationCache<'a>,
    plan: &'a Plan,
    destinations: [std::slice::Iter<'a, BlockIndex>; WIDTH_COUNT],
    /// By width: whether the block that cells go into is the drained one, or one that was empty.
    past_others: [bool; WIDTH_COUNT],
    moves: Moves,
}

/// How many cells have moved.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moves {
    pub(crate) cells: u64,
    /// By width: the cells that came less those that went.
    pub(crate) gained_cells: [i64; WIDTH_COUNT],
}

impl<'a, M, T> Mover<'a, M, T>
where
    M: Moving,
    T: Fn(WidthIndex) -> Option<BlockIndex>,
{
    fn move_all(&mut self) {
        for &(cell, wanted) in &self.plan.changing {
            let width = self.space.region.width_of(cell);
            self.move_cell(cell, width, wanted);
        }
        // Blocks taken from here on are not to be emptied.
        for (block, width) in self.space.cell_blocks() {
            if self.space.region.block(block).has(EMPTYING) {
                self.move_cells(block, width, |_| true);
            }
        }
        for width in WidthIndex::all() {
            if let Some(block) = self.plan.drained[width.index()] {
                self.move_cells(block, width, |mover| mover.has_room_elsewhere(width));
            }
        }
    }

    fn move_cells(
        &mut self,
        block: BlockIndex,
        width: WidthIndex,
        goes_on: impl Fn(&mut Self) -> bool,
    ) {
        for cell in self.space.cells_of(block) {
            let state = self.space.region.state_of(cell);
            if state.is_live() && !state.is_pinned() && goes_on(self) {
                self.move_cell(cell, width, width);
            }
        }
    }

    fn move_cell(&mut self, from: Cell, width: WidthIndex, wanted: WidthIndex) {
        let region = &self.space.region;
        debug_assert!(!region.state_of(from).is_pinned(), "invariant 14: {from:?}");
        let Some(to) = self.take(wanted, from) else {
            return;
        };
        let bytes = width.bytes().min(wanted.bytes());
        let (source, target) = (region.pointer(from.address()), region.pointer(to.address()));
        // SAFETY: both are cells, at least this wide and different: one is live, the other was free.
        unsafe { std::ptr::copy_nonoverlapping(source, target, bytes) };
        // One of the two is left behind: `to`, if the VM could not move the cell.
        // SAFETY: both are cells of this heap, and the second is a copy.
        let has_moved = unsafe { self.vm.moved(from, to, width, wanted) };
        let left = if has_moved { from } else { to };
        forward(region, left, to, M::FORWARDED_HEADER);
        region.block(region.block_of(left)).add(LEFT);
        if !has_moved {
            return;
        }
        self.moves.cells += 1;
        self.moves.gained_cells[width.index()] -= 1;
        self.moves.gained_cells[wanted.index()] += 1;
    }

    /// A free cell, in the state of the one that is going to move there.
    fn take(&mut self, width: WidthIndex, from: Cell) -> Option<Cell> {
        let region = &self.space.region;
        loop {
            let state = region.state_of(from);
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
            None => (self.take_block)(width)?,
        };
        self.cursors.adopt(width, block);
        Some(())
    }

    /// Whether the next cell of this width goes into a block that was used
    /// before and is not to be drained.
    fn has_room_elsewhere(&mut self, width: WidthIndex) -> bool {
        let index = width.index();
        while !self.past_others[index] {
            if self.cursors.has_room(width) {
                return true;
            }
            let next = self.destinations[index].as_slice().first();
            let is_drained = next.is_none() || next.copied() == self.plan.drained[index];
            if is_drained || self.next_block(width).is_none() {
                return false;
            }
        }
        false
    }
}
