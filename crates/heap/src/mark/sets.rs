//! The two sets of old cells with which a collection begins, beside the roots.
//!
//! The *remembered set* has the old cells that may refer to young ones. A minor collection
//! begins with it.
//!
//! The *boundary set* has the settled cells that may refer to what is not settled. A major
//! collection neither traces nor frees what is settled: it begins with the boundary.
//! Tracing finds out which settled cells belong here: once a settled cell is traced, the cells
//! that it refers to are marked and have the age that they keep in this collection. Between
//! collections the write barrier adds the settled cells into which the program stores a reference
//! to a cell that is not settled.
//!
//! A full collection traces everything and builds both sets again.

use crate::layout::cell_state::CellState;
use crate::layout::region::{Cell, States};
use crate::os::Refused;
use crate::stack::Stack;

/// One of the two sets. The remembered set has each cell that is
/// [`REMEMBERED`](CellState::REMEMBERED) once (invariant 3). The boundary set has each cell that is
/// on the boundary (invariant 16). A cell may be there more than once, and cells that are not on
/// the boundary any more may be there, too, until the next major collection.
#[derive(Debug, Default)]
pub(crate) struct CellSet {
    cells: Stack<Cell>,
    /// A cell did not fit: the next collection must be full, which needs no set.
    overflowed: bool,
}

impl CellSet {
    pub(super) fn new(cells: usize) -> Result<Self, Refused> {
        Ok(Self {
            cells: Stack::new(cells)?,
            overflowed: false,
        })
    }

    pub(super) fn limit(&mut self, cells: usize) {
        self.cells.limit(cells);
    }

    /// Adds a cell whose state says already that it is in the set.
    pub(super) fn add(&mut self, cell: Cell) {
        if self.cells.push(cell).is_err() {
            self.overflowed = true;
        }
    }

    /// Adds cells whose states say already that they are in the set.
    pub(super) fn add_all(&mut self, cells: &[Cell]) {
        for &cell in cells {
            self.add(cell);
        }
    }

    /// Adds `cell`, which lives on, to the remembered set if it is old and not there yet.
    pub(crate) fn add_if_old(&mut self, states: States<'_>, cell: Cell) {
        let state = states.get(cell);
        if state.is_old() && !state.is_remembered() {
            self.add_in_state(states, cell, state);
        }
    }

    /// Adds a cell in this state that is not in the remembered set.
    #[cold]
    #[inline(never)]
    fn add_in_state(&mut self, states: States<'_>, cell: Cell, state: CellState) {
        states.set(cell, state.with(CellState::REMEMBERED));
        self.add(cell);
    }

    /// Adds `cell` to the boundary set if it is settled and not on the boundary yet. An unmarked
    /// cell is not added: a full collection has not found it, and may free it.
    #[inline(never)]
    pub(crate) fn add_if_settled(&mut self, states: States<'_>, cell: Cell) {
        let state = states.get(cell);
        if !state.is_settled() || state.is_on_boundary() || !state.is_marked() {
            return;
        }
        states.set(cell, state.with(CellState::BOUNDARY));
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

    pub(crate) fn cells(&self) -> &[Cell] {
        self.cells.as_slice()
    }

    /// Begins a minor collection with the remembered set: every cell is to be traced, and the set
    /// starts empty.
    pub(super) fn begin_minor(&mut self, untraced: &mut Stack<Cell>) {
        debug_assert!(untraced.is_empty());
        std::mem::swap(&mut self.cells, untraced);
    }

    /// Begins a major collection with the boundary set: passes each cell to `trace`, which finds
    /// out whether it still belongs here. Until then the cell is off the boundary, unless it is
    /// unprotected (invariant 17).
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

    /// Puts each cell's new address in the place of its old one.
    pub(crate) fn relocate(&mut self, location: impl Fn(Cell) -> Cell) {
        for cell in self.cells.as_mut_slice() {
            *cell = location(*cell);
        }
    }

    pub(super) fn clear(&mut self) {
        self.cells.clear_and_release();
        self.overflowed = false;
    }
}
