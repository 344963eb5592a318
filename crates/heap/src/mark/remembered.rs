//! The remembered set: old cells that may refer to young ones.

use crate::layout::cell_state::CellState;
use crate::layout::region::{Cell, States};
use crate::os::Refused;
use crate::stack::Stack;

/// Each cell that is [`REMEMBERED`](CellState::REMEMBERED), once (invariant 3).
#[derive(Debug, Default)]
pub(crate) struct RememberedSet {
    cells: Stack<Cell>,
    /// Those that the minor collection in progress has still to trace.
    untraced: Stack<Cell>,
    /// A cell did not fit: the next collection must be full, which needs no set.
    overflowed: bool,
}

impl RememberedSet {
    pub(super) fn new(cells: usize) -> Result<Self, Refused> {
        Ok(Self {
            cells: Stack::new(cells)?,
            untraced: Stack::new(cells)?,
            overflowed: false,
        })
    }

    pub(super) fn limit(&mut self, cells: usize) {
        self.cells.limit(cells);
        self.untraced.limit(cells);
    }

    /// Adds a cell whose state is that of a remembered one already.
    pub(super) fn add(&mut self, cell: Cell) {
        if self.cells.push(cell).is_err() {
            self.overflowed = true;
        }
    }

    /// Adds cells that other threads have remembered.
    pub(super) fn add_all(&mut self, cells: &[Cell]) {
        for &cell in cells {
            self.add(cell);
        }
    }

    /// Adds `cell`, which lives on, if it is old and not in the set yet.
    pub(crate) fn add_if_old(&mut self, states: States<'_>, cell: Cell) {
        let state = states.get(cell);
        if state.is_old() && !state.is_remembered() {
            self.add_in_state(states, cell, state);
        }
    }

    /// Adds a cell in this state that is not in the set.
    #[cold]
    #[inline(never)]
    fn add_in_state(&mut self, states: States<'_>, cell: Cell, state: CellState) {
        states.set(cell, state.with(CellState::REMEMBERED));
        self.add(cell);
    }

    /// Notes that a cell that belongs here could not be added, or not even be noted.
    pub(super) fn note_overflow(&mut self) {
        self.overflowed = true;
    }

    /// Whether the next collection must be full.
    pub(crate) fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    /// The cells that are not waiting to be traced.
    pub(crate) fn cells(&self) -> &[Cell] {
        self.cells.as_slice()
    }

    /// Cells that are still to be traced.
    pub(crate) fn untraced(&self) -> &[Cell] {
        self.untraced.as_slice()
    }

    /// Begins a minor collection: every cell is to be traced, and the set starts empty.
    pub(super) fn begin_minor(&mut self) {
        debug_assert!(self.untraced.is_empty());
        std::mem::swap(&mut self.cells, &mut self.untraced);
    }

    /// Takes one cell that is to be traced.
    #[inline]
    pub(super) fn pop_untraced(&mut self) -> Option<Cell> {
        self.untraced.pop()
    }

    /// Puts each cell's new address in the place of its old one.
    pub(crate) fn relocate(&mut self, location: impl Fn(Cell) -> Cell) {
        for cell in self.cells.as_mut_slice() {
            *cell = location(*cell);
        }
    }

    pub(super) fn clear(&mut self) {
        self.cells.clear_and_release();
        self.untraced.clear_and_release();
        self.overflowed = false;
    }
}
