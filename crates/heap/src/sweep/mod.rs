//! Unmarked → free runs, block by block; whole blocks → the shared stock.

pub(crate) mod schedule;

use crate::allocate::run::Run;
use crate::heap::Heap;
use crate::layout::block::{BlockIndex, HAS_YOUNG, NEEDS_SWEEP};
use crate::layout::cell_state::CellState;
use crate::layout::region::Cell;
use crate::layout::width::WidthIndex;
use crate::stress::POISON;
use crate::vm::Vm;

/// What sweeping one block found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Swept {
    /// Cells that live on.
    pub(crate) live_cells: usize,
    /// Cells that were freed.
    pub(crate) freed_cells: usize,
}

/// Strings the free runs of one block together, in address order.
struct RunBuilder {
    first: usize,
    previous: usize,
    current: usize,
}

impl<V: Vm> Heap<'_, V> {
    /// Frees the dead cells of a block and makes its free runs anew. A young
    /// survivor loses its mark, so that the next collection has to find it
    /// again, and ages; an old one keeps it.
    pub(crate) fn sweep_block(&self, index: BlockIndex, width: WidthIndex) -> Swept {
        let block = self.region().block(index);
        let mut swept = Swept::default();
        let mut has_young = false;
        let mut runs = RunBuilder::new();
        let cells = self.space().cells_of(index);
        let end = cells.end();
        self.payloads_sweeping(true);
        for cell in cells {
            let address = cell.address();
            let state = self.region().state(cell);
            if state.is_marked() {
                swept.live_cells += 1;
                if !state.is_old() {
                    has_young = true;
                    let aged = state.aged_once_more().without(CellState::MARKED);
                    self.region().set_state(cell, aged);
                }
                runs.end_at(self, address);
                continue;
            }
            if state.is_live() {
                self.vm.release(self, cell, width);
                self.free_cell(cell, width);
                swept.freed_cells += 1;
            }
            runs.continue_at(address);
        }
        self.payloads_sweeping(false);
        runs.end_at(self, end);
        block.set_free(runs.first);
        block.set_used(swept.live_cells);
        block.remove(NEEDS_SWEEP | HAS_YOUNG);
        if has_young {
            block.add(HAS_YOUNG);
        }
        swept
    }

    /// Makes free memory of the cells that were left, and the free runs of the
    /// block anew. Returns how many cells live there.
    pub(crate) fn rebuild_runs(&self, index: BlockIndex, width: WidthIndex) -> usize {
        let block = self.region().block(index);
        let cells = self.space().cells_of(index);
        let end = cells.end();
        let mut runs = RunBuilder::new();
        let (mut live_cells, mut has_young) = (0, false);
        for cell in cells {
            let address = cell.address();
            let state = self.region().state(cell);
            if state.is_live() {
                live_cells += 1;
                has_young |= !state.is_old();
                runs.end_at(self, address);
                continue;
            }
            if state != CellState::FREE {
                self.free_cell(cell, width);
            }
            runs.continue_at(address);
        }
        runs.end_at(self, end);
        block.set_free(runs.first);
        block.set_used(live_cells);
        block.remove(HAS_YOUNG);
        if has_young {
            block.add(HAS_YOUNG);
        }
        live_cells
    }

    fn free_cell(&self, cell: Cell, width: WidthIndex) {
        self.region().set_state(cell, CellState::FREE);
        self.fill_free_cell(cell, width, 1);
    }

    /// Zeroes the first word of a free cell; with poisoning on, fills it from
    /// word `from` on.
    fn fill_free_cell(&self, cell: Cell, width: WidthIndex, from: usize) {
        let words = self.region().pointer(cell.address()).cast::<usize>();
        // SAFETY: the cell is free, and the loop stays inside it.
        unsafe {
            words.write(0);
            if self.stress().poison {
                for word in from..width.bytes() / 8 {
                    words.add(word).write(POISON);
                }
            }
        }
    }

    /// Poisons the free cells of a block, but for the words that runs need.
    pub(crate) fn poison_free_cells(&self, block: BlockIndex, width: WidthIndex) {
        for cell in self.space().cells_of(block) {
            if self.region().state(cell) == CellState::FREE {
                self.fill_free_cell(cell, width, 3);
            }
        }
    }
}

impl RunBuilder {
    fn new() -> Self {
        Self {
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
    fn end_at<V: Vm>(&mut self, heap: &Heap<'_, V>, address: usize) {
        if self.current == 0 {
            return;
        }
        let run = Run {
            start: self.current,
            end: address,
            next: 0,
        };
        run.write(heap.region());
        if self.previous == 0 {
            self.first = run.start;
        } else {
            let previous = Run::read(heap.region(), self.previous);
            Run {
                next: run.start,
                ..previous
            }
            .write(heap.region());
        }
        self.previous = run.start;
        self.current = 0;
    }
}
