//! Marking by several threads at once, with the program stopped.
//!
//! Every worker has a few thousand grey cells of its own and traces the latest
//! first. What does not fit, and some of the rest when others have nothing to do,
//! goes on a pile from which every worker takes:
//!
//! ```text
//! collecting thread ⇄ ┌───────────┐ ⇄ helper
//!         ↑           │   pile    │ ⇄ helper
//!         └───────────┤ set aside │ ← cells that only the VM can trace
//!                     └───────────┘
//! ```
//!
//! Helpers trace what takes no more than reading memory
//! ([`TraceCommon`](crate::mark::trace_common::TraceCommon)); whatever else they find is set aside
//! for the collecting thread, so no code of the VM runs on them.
//!
//! Cells are marked by plain loads and stores. Two workers that find a white cell
//! at the same time both trace it, which does no harm, as both store the same
//! state: here it depends on nothing but the state that the cell had
//! ([`CellState::found_by_several`](crate::layout::cell_state::CellState)). (Exchanges
//! would keep the processor from waiting for several cells at once: they made marking
//! a fifth slower.) So
//!
//! * cells are counted afterwards, in the table of states;
//! * that an old cell makes what it refers to old depends on more than the child's
//!   state: workers note the old cells that refer to young ones, and the settled ones that
//!   refer to those that are not, and one thread traces
//!   those again afterwards;
//! * a cell that is to be remembered, which must happen once, is marked by an exchange.

mod few;
mod lead;
mod pile;
mod shared_tracer;
mod worker;

use crate::layout::region::Cell;
use crate::mark::pool::{ThreadPool, THREADS_MAX};
use crate::os::Refused;
use crate::stack::Stack;

pub(super) use worker::Member;
use worker::Worker;

/// When several threads mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParallelMarking {
    /// Threads that mark, the collecting one included, 1 to
    /// [`THREADS_MAX`](super::pool::THREADS_MAX).
    pub threads: usize,
    /// So many cells are marked by one thread before the others are called,
    /// unless the latest collection has found as many.
    pub cells_min: usize,
}

impl Default for ParallelMarking {
    fn default() -> Self {
        Self {
            threads: 1,
            cells_min: 100_000,
        }
    }
}

impl ParallelMarking {
    /// The same, with as many threads as there can be.
    pub(crate) fn within_bounds(self) -> Self {
        Self {
            threads: self.threads.clamp(1, THREADS_MAX),
            ..self
        }
    }
}

/// The threads of one marking.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Team<'a> {
    pool: &'a ThreadPool,
    wanted_helpers: usize,
    /// So many cells are marked before they are called.
    cells_alone: usize,
}

impl<'a> Team<'a> {
    /// The threads that a marking may have after one that found `latest_cells`;
    /// `None` when it is one thread's.
    pub(crate) fn of(
        pool: &'a ThreadPool,
        parallel: ParallelMarking,
        latest_cells: usize,
    ) -> Option<Self> {
        let is_short = latest_cells < parallel.cells_min;
        (parallel.threads > 1).then_some(Self {
            pool,
            wanted_helpers: parallel.threads - 1,
            cells_alone: if is_short { parallel.cells_min } else { 0 },
        })
    }
}

/// What the marker has for markings by several threads.
#[derive(Debug)]
pub(super) struct SharedMarking {
    /// Grey cells for the collecting thread alone.
    aside: Stack<Cell>,
    /// Old cells that were seen to refer to young ones, and settled ones that were seen to
    /// refer to unsettled ones.
    pub(super) parents: Stack<Cell>,
    /// Cells that become unprotected once no other thread changes states.
    pub(super) unprotected: Stack<Cell>,
    /// The collecting thread's.
    worker: Option<Box<Worker>>,
}

impl SharedMarking {
    pub(super) fn new(cells: usize) -> Result<Self, Refused> {
        Ok(Self {
            aside: Stack::new(cells)?,
            parents: Stack::new(cells)?,
            unprotected: Stack::new(cells)?,
            worker: Some(Worker::boxed()),
        })
    }

    pub(super) fn limit(&mut self, cells: usize) {
        self.aside.limit(cells);
        self.parents.limit(cells);
    }

    pub(super) fn clear(&mut self) {
        self.aside.clear_and_release();
        self.parents.clear_and_release();
    }

    /// Notes a cell that the VM's own code has made unprotected while several threads
    /// mark. Its state changes when they have left: one of them may be about to store
    /// it.
    pub(super) fn unprotect_later(&mut self, cell: Cell) -> Result<(), Refused> {
        self.unprotected.push(cell)
    }
}
