//! Unmarked → free runs, one block at a time.

pub(crate) mod free_cells;
pub(crate) mod pacer;

use crate::allocate::run::Run;
use crate::layout::block::{BlockIndex, NEEDS_SWEEP};
use crate::layout::cell_state::CellState;
use crate::layout::parts::{numbers_of, Granules, PartStates, Parts};
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
    let block = region.block(index);
    let states = region.state_words_of(index);
    let mut runs = RunBuilder::new(region, index, width);
    let mut freed_cells = 0;
    let mut young = Parts::NONE;
    for part in block.changing_parts().numbers() {
        let states = PartStates::of(states, part);
        let marked = states.with::<{ CellState::MARKED }>();
        for granule in numbers_of(states.with::<{ CellState::LIVE }>() & !marked) {
            let cell = runs.cell_in(part, granule);
            release(cell);
            free_cell(region, cell, width, poison);
            freed_cells += 1;
        }
        if marked & !states.with::<{ CellState::OLD }>() != 0 {
            young.add_part(part);
        }
        runs.add_part(part, marked);
    }
    // While it frees, the VM may ask whether another cell is garbage, and takes one without
    // a mark for that: survivors lose theirs last.
    for part in young.numbers() {
        PartStates::of(states, part).age_young();
    }
    block.remove(NEEDS_SWEEP);
    Swept {
        live_cells: runs.finish(young),
        freed_cells,
    }
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
    let states = region.state_words_of(index);
    let mut runs = RunBuilder::new(region, index, width);
    let mut young = Parts::NONE;
    for part in Parts::ALL.numbers() {
        let states = PartStates::of(states, part);
        let live = states.with::<{ CellState::LIVE }>();
        for granule in numbers_of(states.with::<{ CellState::FORWARDED.0 }>() & !live) {
            free_cell(region, runs.cell_in(part, granule), width, poison);
        }
        if live & !states.with::<{ CellState::OLD }>() != 0 {
            young.add_part(part);
        }
        runs.add_part(part, live);
    }
    runs.finish(young)
}

/// Strings the free runs of one block together, in address order, and notes the parts
/// where they are.
struct RunBuilder<'region> {
    region: &'region Region,
    block: BlockIndex,
    width: WidthIndex,
    /// Address of the block.
    start: usize,
    /// Parts below this one have been added, or hold old cells only.
    next_part: usize,
    free_cells: usize,
    changing: Parts,
    first: usize,
    previous: usize,
    /// Where the run begins that has no end yet; 0 for none.
    current: usize,
}

impl<'region> RunBuilder<'region> {
    fn new(region: &'region Region, block: BlockIndex, width: WidthIndex) -> Self {
        Self {
            region,
            block,
            width,
            start: region.address_of(block),
            next_part: 0,
            free_cells: 0,
            changing: Parts::NONE,
            first: 0,
            previous: 0,
            current: 0,
        }
    }

    /// The cell that begins in a granule of a part.
    #[inline(always)]
    fn cell_in(&self, part: usize, granule: usize) -> Cell {
        let address = self.start + self.width.cell_start_in(part, granule);
        // SAFETY: a cell of the block's width starts there.
        unsafe { Cell::from_address(address) }
    }

    /// Of the cells that begin in this part, those in the granules `kept` live on. What lies
    /// between it and the part added before is old.
    #[inline(always)]
    fn add_part(&mut self, part: usize, kept: Granules) {
        if part != self.next_part {
            self.end_before_next_part();
        }
        self.next_part = part + 1;
        let free = self.width.starts_in(part) & !kept;
        self.free_cells += free.count_ones() as usize;
        // A free cell begins a run, and a kept one ends it.
        let mut ahead = Granules::MAX;
        loop {
            let wanted = if self.current == 0 { free } else { kept } & ahead;
            if wanted == 0 {
                return;
            }
            let granule = wanted.trailing_zeros() as usize;
            ahead = Granules::MAX << granule;
            let address = self.cell_in(part, granule).address();
            match self.current {
                0 => self.current = address,
                _ => self.end_run_at(address),
            }
        }
    }

    #[inline(always)]
    fn end_before_next_part(&mut self) {
        if self.current != 0 {
            self.end_run_at(self.start + self.width.first_start_from(self.next_part));
        }
    }

    #[inline(never)]
    fn end_run_at(&mut self, address: usize) {
        let run = Run {
            start: self.current,
            end: address,
            next: 0,
        };
        self.changing
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

    /// Notes in the block what was found; its young cells are in these parts. Returns how
    /// many cells live.
    fn finish(mut self, young: Parts) -> usize {
        self.end_before_next_part();
        let live_cells = self.width.cells_per_block() - self.free_cells;
        let has_young = young != Parts::NONE;
        let changing = self.changing.and(young);
        let block = self.region.block(self.block);
        block.set_contents(self.first, live_cells, has_young, changing);
        live_cells
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
