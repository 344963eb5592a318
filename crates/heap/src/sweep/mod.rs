//! Unmarked → free runs, one block at a time.

pub(crate) mod free_cells;
pub(crate) mod pacer;

use crate::allocate::run::Run;
use crate::layout::block::{BlockIndex, NEEDS_SWEEP};
use crate::layout::cell_state::CellState;
use crate::layout::parts::Parts;
use crate::layout::region::{Cell, Region};
use crate::layout::width::WidthIndex;
use crate::space::Space;
use free_cells::free_cell;

/// What sweeping one block found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Swept {
    /// Cells that live on.
    pub(crate) live_cells: usize,
    /// Cells that were freed.
    pub(crate) freed_cells: usize,
}

/// Frees the dead cells of a block, each after `release` has freed what it owns,
/// and makes the block's free runs anew. A young survivor loses its mark, so that
/// the next collection has to find it again, and ages; an old one keeps it.
///
/// Only the parts that may have changed are looked at (invariant 18): in a large heap the
/// cells that a minor collection frees lie between many more old ones.
/// With `poison` the freed cells are filled with it.
#[inline(always)]
pub(crate) fn sweep_block(
    space: &Space,
    index: BlockIndex,
    width: WidthIndex,
    poison: bool,
    mut release: impl FnMut(Cell),
) -> Swept {
    let region = &space.region;
    let states = region.states();
    let mut swept = Swept::default();
    let mut young = Parts::NONE;
    let block = region.block(index);
    let start = region.address_of(index);
    let mut runs = RunBuilder::new(region, index);
    let all_cells = space.cells_of(index);
    let mut free_cells = 0;
    for numbers in block.changing_parts().cells(width) {
        let cells = all_cells.numbered(numbers);
        let end = cells.end();
        for cell in cells {
            let state = states.get(cell);
            if state.is_marked() {
                if !state.is_old() {
                    young.add(cell.address() - start);
                }
                runs.end_at(cell.address());
                continue;
            }
            if state.is_live() {
                release(cell);
                free_cell(region, cell, width, poison);
                swept.freed_cells += 1;
            }
            free_cells += 1;
            runs.continue_at(cell.address());
        }
        // What follows is old.
        runs.end_at(end);
    }
    // While it frees, the VM may ask whether another cell is garbage, and takes one without
    // a mark for that: survivors lose theirs last.
    young.age(region.state_words_of(index));
    swept.live_cells = width.cells_per_block() - free_cells;
    block.remove(NEEDS_SWEEP);
    block.set_contents(runs.first, swept.live_cells, young, runs.parts);
    swept
}

/// Makes free memory of the cells that others moved out of, and the free runs of
/// the block anew. Returns how many cells live there.
pub(crate) fn rebuild_runs(
    space: &Space,
    index: BlockIndex,
    width: WidthIndex,
    poison: bool,
) -> usize {
    let region = &space.region;
    let mut runs = RunBuilder::new(region, index);
    let (mut live_cells, mut young) = (0, Parts::NONE);
    let start = region.address_of(index);
    let cells = space.cells_of(index);
    let end = cells.end();
    for cell in cells {
        let state = region.state(cell);
        if state.is_live() {
            live_cells += 1;
            if !state.is_old() {
                young.add(cell.address() - start);
            }
            runs.end_at(cell.address());
            continue;
        }
        if state != CellState::FREE {
            free_cell(region, cell, width, poison);
        }
        runs.continue_at(cell.address());
    }
    runs.end_at(end);
    let block = region.block(index);
    block.set_contents(runs.first, live_cells, young, runs.parts);
    live_cells
}

/// Strings the free runs of one block together, in address order, and notes the parts
/// where they are.
struct RunBuilder<'region> {
    region: &'region Region,
    /// Address of the block.
    start: usize,
    parts: Parts,
    first: usize,
    previous: usize,
    current: usize,
}

impl<'region> RunBuilder<'region> {
    fn new(region: &'region Region, block: BlockIndex) -> Self {
        Self {
            region,
            start: region.address_of(block),
            parts: Parts::NONE,
            first: 0,
            previous: 0,
            current: 0,
        }
    }

    /// The cell at `address` is free.
    #[inline(always)]
    fn continue_at(&mut self, address: usize) {
        if self.current == 0 {
            self.current = address;
        }
    }

    /// The run, when there is one, ends before `address`.
    #[inline(always)]
    fn end_at(&mut self, address: usize) {
        if self.current != 0 {
            self.end_run_at(address);
        }
    }

    #[inline(never)]
    fn end_run_at(&mut self, address: usize) {
        let run = Run {
            start: self.current,
            end: address,
            next: 0,
        };
        self.parts
            .add_range(run.start - self.start..run.end - self.start);
        run.write(self.region);
        if self.previous == 0 {
            self.first = run.start;
        } else {
            let previous = Run::read(self.region, self.previous);
            Run {
                next: run.start,
                ..previous
            }
            .write(self.region);
        }
        self.previous = run.start;
        self.current = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::kind::Kind;

    const MIB: usize = 1 << 20;

    /// A block of cells, of which the `n`-th has the `n`-th of these states, and so on from
    /// the beginning again.
    fn block_of(space: &Space, width: WidthIndex, states: &[CellState]) -> BlockIndex {
        let block = space.take_block(Kind::Cells(width)).unwrap();
        for (cell, &state) in space.cells_of(block).zip(states.iter().cycle()) {
            space.region.set_state(cell, state);
        }
        block
    }

    #[test]
    fn a_vm_that_frees_sees_the_other_survivors_of_the_block_marked() {
        let space = Space::reserve(16 * MIB, 4096).unwrap();
        let width = WidthIndex::NARROWEST;
        let survivor = CellState::NEW.with(CellState::MARKED);
        let block = block_of(&space, width, &[survivor, CellState::NEW]);
        let survivors = || space.cells_of(block).step_by(2);
        let mut released = 0;
        sweep_block(&space, block, width, false, |_| {
            released += 1;
            // The interpreter is too slow for all of them, each time.
            for cell in survivors().step_by(61) {
                assert_eq!(space.region.state(cell), survivor);
            }
        });
        assert_eq!(released, width.cells_per_block() / 2);
        for cell in survivors() {
            assert_eq!(space.region.state(cell).age(), 1);
            assert!(!space.region.state(cell).is_marked());
        }
    }
}
