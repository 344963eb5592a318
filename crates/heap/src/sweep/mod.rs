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
use free_cells::{free_cell, poison_cell};

/// What sweeping one block found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Swept {
    /// Cells that live on.
    pub(crate) live_cells: usize,
    /// Cells that were freed.
    pub(crate) freed_cells: usize,
}

/// Frees the dead cells of a block and builds the block's free runs. `owns_nothing` says which of
/// the dead cells own nothing; before each other one is freed, `release` frees what it owns. A
/// young survivor loses its mark, so that the next collection has to find it again, and ages; an
/// old one keeps its mark.
///
/// Only the parts that may have changed are looked at (invariant 18): in a large heap the
/// cells that a minor collection frees lie between many more old ones.
///
/// For an `INHERITED` block nothing is written but the side tables.
#[inline(always)]
pub(crate) fn sweep_block<const INHERITED: bool>(
    space: &Space,
    index: BlockIndex,
    width: WidthIndex,
    owns_nothing: impl Fn(Cell) -> bool,
    mut release: impl FnMut(Cell),
) -> Swept {
    let region = &space.region;
    let states = region.states();
    let mut freed_cells = 0;
    let mut young = Parts::NONE;
    let block = region.block(index);
    let start = region.address_of(index);
    let mut runs = RunBuilder::<INHERITED>::new(region, index);
    let all_cells = space.cells_of(index);
    for numbers in block.changing_parts().cells(width) {
        let mut cells = all_cells.numbered(numbers);
        let end = cells.end();
        while let Some(first) = cells.next() {
            let mut state = states.get(first);
            if state.is_marked() {
                young.add_if_young(first.address() - start, state);
                continue;
            }
            // The cells up to the next marked one are free from now on.
            let mut cell = first;
            let run_end = loop {
                if state.is_live() {
                    if !owns_nothing(cell) {
                        release(cell);
                    }
                    match INHERITED {
                        true => states.set(cell, CellState::FREE),
                        false => free_cell(region, states, cell),
                    }
                    freed_cells += 1;
                }
                let Some(next) = cells.next() else {
                    break end;
                };
                cell = next;
                state = states.get(cell);
                if state.is_marked() {
                    young.add_if_young(cell.address() - start, state);
                    break cell.address();
                }
            };
            runs.add(first.address(), run_end);
        }
    }
    // While it frees, the VM may ask whether another cell is garbage, and takes a cell without a
    // mark for garbage: so survivors lose their marks last.
    young.age(region.state_words_of(index));
    let live_cells = width.cells_per_block() - runs.bytes / width.bytes();
    block.remove(NEEDS_SWEEP);
    block.set_contents(runs.first, live_cells, young, runs.parts);
    Swept {
        live_cells,
        freed_cells,
    }
}

/// Frees the cells of a block that others moved out of, and builds the block's free runs again.
/// Returns how many cells live there.
pub(crate) fn rebuild_runs(
    space: &Space,
    index: BlockIndex,
    width: WidthIndex,
    poison: bool,
) -> usize {
    let region = &space.region;
    let states = region.states();
    let mut runs = RunBuilder::<false>::new(region, index);
    let mut young = Parts::NONE;
    let start = region.address_of(index);
    let mut run_start = None;
    let cells = space.cells_of(index);
    let end = cells.end();
    for cell in cells {
        let state = states.get(cell);
        if state.is_live() {
            young.add_if_young(cell.address() - start, state);
            if let Some(run_start) = run_start.take() {
                runs.add(run_start, cell.address());
            }
            continue;
        }
        if state != CellState::FREE {
            free_cell(region, states, cell);
            if poison {
                poison_cell(region, cell, width);
            }
        }
        run_start.get_or_insert(cell.address());
    }
    if let Some(run_start) = run_start {
        runs.add(run_start, end);
    }
    let live_cells = width.cells_per_block() - runs.bytes / width.bytes();
    let block = region.block(index);
    block.set_contents(runs.first, live_cells, young, runs.parts);
    live_cells
}

/// Strings the free runs of one block together, in address order, and notes the parts
/// where they are. Those of an `INHERITED` block are counted and not written.
struct RunBuilder<'region, const INHERITED: bool> {
    region: &'region Region,
    /// Address of the block.
    start: usize,
    parts: Parts,
    /// Address of the first run, 0 for none, and of the latest.
    first: usize,
    latest: usize,
    /// Bytes of all runs.
    bytes: usize,
}

impl<'region, const INHERITED: bool> RunBuilder<'region, INHERITED> {
    fn new(region: &'region Region, block: BlockIndex) -> Self {
        Self {
            region,
            start: region.address_of(block),
            parts: Parts::NONE,
            first: 0,
            latest: 0,
            bytes: 0,
        }
    }

    /// Adds the run of the cells from `start` to `end`, which are free; those beside them are
    /// not.
    #[inline(never)]
    fn add(&mut self, start: usize, end: usize) {
        let run = Run {
            start,
            end,
            next: 0,
        };
        self.parts.add_range(start - self.start..end - self.start);
        self.bytes += end - start;
        if INHERITED {
            return;
        }
        run.write(self.region);
        if self.latest == 0 {
            self.first = start;
        } else {
            Run::write_next(self.region, self.latest, start);
        }
        self.latest = start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::kind::Kind;

    const MIB: usize = 1 << 20;

    /// A block of cells whose states are these, from the beginning again when all have been used.
    fn block_of(space: &Space, width: WidthIndex, states: &[CellState]) -> BlockIndex {
        let block = space.lock_blocks().take_one(Kind::Cells(width)).unwrap();
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
        sweep_block::<false>(
            &space,
            block,
            width,
            |_| false,
            |_| {
                released += 1;
                // The interpreter is too slow for all of them, each time.
                for cell in survivors().step_by(61) {
                    assert_eq!(space.region.state_of(cell), survivor);
                }
            },
        );
        assert_eq!(released, width.cells_per_block() / 2);
        for cell in survivors() {
            assert_eq!(space.region.state_of(cell).age(), 1);
            assert!(!space.region.state_of(cell).is_marked());
        }
    }
}
