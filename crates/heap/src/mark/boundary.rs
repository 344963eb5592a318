//! The boundary set: settled cells that may refer to what is not settled.
//!
//! A major collection neither traces nor frees what is settled: it begins with the roots
//! and with the boundary, as a minor one begins with the roots and the remembered set.
//! Tracing finds out which settled cells belong here: once a settled cell is traced, the cells
//! that it refers to are marked and have the age that they keep in this collection. Between
//! collections the write barrier adds the settled cells into which the program stores a reference
//! to a cell that is not settled.
//!
//! A full collection traces everything and builds the set again.

use crate::layout::cell_state::CellState;
use crate::layout::region::{Cell, States};
use crate::os::Refused;
use crate::stack::Stack;

/// Each cell that is on the boundary (invariant 16). A cell may be here more than once, and cells
/// that are not on the boundary any more may be here, too, until the next major collection.
#[derive(Debug, Default)]
pub(crate) struct BoundarySet {
    cells: Stack<Cell>,
    /// A cell did not fit: the next collection must be full, which needs no set.
    overflowed: bool,
}

impl BoundarySet {
    pub(super) fn new(cells: usize) -> Result<Self, Refused> {
        Ok(Self {
            cells: Stack::new(cells)?,
            overflowed: false,
        })
    }

    pub(super) fn limit(&mut self, cells: usize) {
        self.cells.limit(cells);
    }

    /// Adds `cell` if it is settled and not on the boundary yet. An unmarked cell is not added: a
    /// full collection has not found it, and may free it.
    #[inline(never)]
    pub(crate) fn add_if_settled(&mut self, states: States<'_>, cell: Cell) {
        let state = states.get(cell);
        if !state.is_settled() || state.is_on_boundary() || !state.is_marked() {
            return;
        }
        states.set(cell, state.with(CellState::BOUNDARY));
        self.overflowed |= self.cells.push(cell).is_err();
    }

    /// Adds cells that other threads have put on the boundary.
    pub(super) fn add_all(&mut self, cells: &[Cell]) {
        for &cell in cells {
            self.overflowed |= self.cells.push(cell).is_err();
        }
    }

    /// Begins a major collection: passes each cell to `trace`, which finds out whether it still
    /// belongs here. Until then the cell is off the boundary, unless it is unprotected (invariant
    /// 17).
    pub(super) fn begin_major(&mut self, states: States<'_>, mut trace: impl FnMut(Cell)) {
        let mut staying = 0;
        for index in 0..self.cells.len() {
            let cell = self.cells.as_slice()[index];
            let state = states.get(cell);
            if !state.is_on_boundary() {
                continue;
            }
            trace(cell);
            if state.is_unprotected() {
                self.cells.as_mut_slice()[staying] = cell;
                staying += 1;
            } else {
                states.set(cell, state.without(CellState::BOUNDARY));
            }
        }
        self.cells.truncate(staying);
    }

    /// Forgets all cells: a full collection builds the set again.
    pub(super) fn clear(&mut self) {
        self.cells.clear_and_release();
        self.overflowed = false;
    }

    /// Whether the next collection must be full.
    pub(crate) fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    /// The cells that may be on the boundary.
    pub(crate) fn cells(&self) -> &[Cell] {
        self.cells.as_slice()
    }

    /// Puts each cell's new address in the place of its old one.
    pub(crate) fn relocate(&mut self, location: impl Fn(Cell) -> Cell) {
        for cell in self.cells.as_mut_slice() {
            *cell = location(*cell);
        }
    }
}
