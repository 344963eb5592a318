//! What to move. The choice of blocks is pure arithmetic on how full they are.

use super::Evacuation;
use crate::layout::block::{BlockIndex, EMPTYING};
use crate::layout::cell_state::CellState;
use crate::layout::region::Cell;
use crate::layout::width::{WidthIndex, WIDTH_COUNT};
use crate::space::Space;
use crate::vm::Moving;

/// What a compaction is going to move.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Cells that want another width. The others that move are those in blocks
    /// flagged [`EMPTYING`].
    pub(super) changing: Vec<(Cell, WidthIndex)>,
    /// Blocks that cells may move into, by width, the lowest first, and behind
    /// them the one that is drained.
    pub(super) destinations: [Vec<BlockIndex>; WIDTH_COUNT],
    /// At most one block of each width, whose cells move as far as there is room in other blocks:
    /// so free cells lie together, in few and long runs.
    pub(super) drained: [Option<BlockIndex>; WIDTH_COUNT],
    emptying_blocks: usize,
}

/// How full a block is, without the cells that are going to change their width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Occupancy {
    block: BlockIndex,
    staying_cells: usize,
    free_cells: usize,
    /// Cells that must not move: with any of these, the block cannot be emptied.
    pinned_cells: usize,
}

impl Plan {
    /// Looks at every live cell, and pins those that the VM does not let move.
    pub(crate) fn make(space: &Space, vm: &impl Moving, evacuation: Evacuation) -> Self {
        let mut plan = Self {
            changing: Vec::new(),
            destinations: std::array::from_fn(|_| Vec::new()),
            drained: [None; WIDTH_COUNT],
            emptying_blocks: 0,
        };
        let mut arriving_cells = [0; WIDTH_COUNT];
        let mut occupancy: [Vec<Occupancy>; WIDTH_COUNT] = std::array::from_fn(|_| Vec::new());
        for (block, width) in space.cell_blocks() {
            let found = plan.look_at(space, vm, block, width, &mut arriving_cells);
            // Without memory to remember the block, it stays as it is.
            let blocks = &mut occupancy[width.index()];
            if blocks.try_reserve(1).is_ok() {
                blocks.push(found);
            }
        }
        for width in WidthIndex::all() {
            let blocks = &mut occupancy[width.index()];
            let emptied = match evacuation {
                Evacuation::Sparse => choose(blocks, arriving_cells[width.index()]),
                Evacuation::Everything => blocks.len(),
            };
            plan.empty(space, width, blocks, emptied);
        }
        plan
    }

    pub(crate) fn moves_nothing(&self) -> bool {
        let drains = self.drained.iter().any(Option::is_some);
        self.changing.is_empty() && self.emptying_blocks == 0 && !drains
    }

    fn look_at(
        &mut self,
        space: &Space,
        vm: &impl Moving,
        block: BlockIndex,
        width: WidthIndex,
        arriving_cells: &mut [usize; WIDTH_COUNT],
    ) -> Occupancy {
        let mut found = Occupancy {
            block,
            staying_cells: 0,
            free_cells: 0,
            pinned_cells: 0,
        };
        for cell in space.cells_of(block) {
            let state = space.region.state_of(cell);
            if !state.is_live() {
                found.free_cells += 1;
                continue;
            }
            match wanted_width(space, vm, cell, width) {
                Some(wanted) if wanted != width && self.changing.try_reserve(1).is_ok() => {
                    self.changing.push((cell, wanted));
                    arriving_cells[wanted.index()] += 1;
                }
                wanted => {
                    found.staying_cells += 1;
                    found.pinned_cells += usize::from(wanted.is_none());
                }
            }
        }
        found
    }

    /// Flags the first `emptied` blocks; the others are destinations.
    fn empty(
        &mut self,
        space: &Space,
        width: WidthIndex,
        blocks: &mut [Occupancy],
        emptied: usize,
    ) {
        let (emptied, kept) = blocks.split_at_mut(emptied);
        for found in emptied {
            space.region.block(found.block).add(EMPTYING);
            self.emptying_blocks += usize::from(found.staying_cells > 0);
        }
        let drained = choose_drained(kept);
        kept.sort_unstable_by_key(|found| (Some(found.block) == drained, found.block));
        let with_room = kept.iter().filter(|found| found.free_cells > 0);
        let destinations = &mut self.destinations[width.index()];
        if destinations.try_reserve(kept.len()).is_ok() {
            destinations.extend(with_room.map(|found| found.block));
        }
        self.drained[width.index()] = drained;
    }
}

/// The width that a cell would move to, which may be its own; `None` when it must not move.
fn wanted_width(
    space: &Space,
    vm: &impl Moving,
    cell: Cell,
    width: WidthIndex,
) -> Option<WidthIndex> {
    let state = space.region.state_of(cell);
    if state.is_pinned() {
        return None;
    }
    // SAFETY: `look_at` has found it live.
    let wanted = unsafe { vm.wanted_width(cell, width) };
    if wanted.is_none() {
        space.region.set_state(cell, state.with(CellState::PINNED));
    }
    wanted
}

/// Puts the blocks of one width that are worth emptying first, and returns how many they are: the
/// sparsest, as long as what is in them fits in the free cells of the others, beside what arrives
/// from other widths. Of equally full blocks the highest come first.
fn choose(blocks: &mut [Occupancy], arriving_cells: usize) -> usize {
    blocks.sort_unstable_by_key(|found| {
        let from_the_end = std::cmp::Reverse(found.block);
        (found.pinned_cells > 0, found.staying_cells, from_the_end)
    });
    let mut free_cells: usize = blocks.iter().map(|found| found.free_cells).sum();
    let mut moving_cells = arriving_cells;
    for (index, found) in blocks.iter().enumerate() {
        let left_cells = free_cells - found.free_cells;
        if found.pinned_cells > 0 || moving_cells + found.staying_cells > left_cells {
            return index;
        }
        free_cells = left_cells;
        moving_cells += found.staying_cells;
    }
    blocks.len()
}

/// The sparsest of the blocks that [`choose`] leaves, in its order, that has cells that may move;
/// `None` when the other blocks have no room for any of them.
fn choose_drained(kept: &[Occupancy]) -> Option<BlockIndex> {
    let movable = |found: &&Occupancy| found.staying_cells > found.pinned_cells;
    let drained = kept.iter().find(movable)?;
    let others = kept.iter().filter(|found| found.block != drained.block);
    let has_room = others.map(|found| found.free_cells).sum::<usize>() > 0;
    has_room.then_some(drained.block)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of 100 cells, given how many cells of each stay, and how many of these are pinned.
    fn blocks(found: &[(usize, usize)]) -> Vec<Occupancy> {
        let block = |(index, &(staying_cells, pinned_cells)): (usize, &(usize, usize))| Occupancy {
            block: BlockIndex(index as u32),
            staying_cells,
            free_cells: 100 - staying_cells,
            pinned_cells,
        };
        found.iter().enumerate().map(block).collect()
    }

    fn emptied(found: &[(usize, usize)], arriving_cells: usize) -> Vec<u32> {
        let mut blocks = blocks(found);
        let count = choose(&mut blocks, arriving_cells);
        blocks[..count].iter().map(|found| found.block.0).collect()
    }

    #[test]
    fn the_sparsest_blocks_go_as_long_as_the_others_have_room() {
        let found = [(90, 0), (10, 0), (50, 0), (20, 0)];
        assert_eq!(emptied(&found, 0), [1, 3]);
        assert_eq!(emptied(&found, 40), [1]);
        assert_eq!(emptied(&found, 300), [0; 0]);
    }

    #[test]
    fn of_equally_full_blocks_the_highest_go() {
        assert_eq!(emptied(&[(50, 0); 4], 0), [3, 2]);
    }

    #[test]
    fn a_block_with_a_pinned_cell_is_never_emptied() {
        let found = [(1, 1), (60, 0), (70, 0), (2, 1)];
        assert_eq!(emptied(&found, 0), [1, 2]);
    }

    #[test]
    fn the_last_block_has_nowhere_to_go() {
        assert_eq!(emptied(&[(1, 0)], 0), [0; 0]);
        assert_eq!(emptied(&[(0, 0)], 0), [0]);
    }

    #[test]
    fn the_sparsest_block_left_is_drained_into_the_others() {
        let drained = |found: &[(usize, usize)]| {
            let mut blocks = blocks(found);
            let count = choose(&mut blocks, 0);
            choose_drained(&blocks[count..]).map(|block| block.0)
        };
        assert_eq!(drained(&[(95, 0), (90, 0), (97, 0)]), Some(1));
        assert_eq!(
            drained(&[(3, 3), (90, 2)]),
            Some(1),
            "nothing in the first may move"
        );
        assert_eq!(drained(&[(100, 0), (90, 0)]), None, "no room elsewhere");
        assert_eq!(drained(&[(50, 1)]), None);
    }
}
