//! The worker: what a thread marks with, alone or as one of several.
//!
//! How a cell is marked is written once, for every [`Sink`]. A thread that marks alone changes a
//! state by a load and a store. One of several changes it by an exchange, so that each change is
//! made by one thread, which also counts it and makes the cell grey. The compiler makes one
//! function of each, so a thread that is alone pays nothing for others.

use super::cell_tracer::CellTracer;
use super::deferred::Deferred;
use super::grey::{GreyStack, Lookahead};
use super::trace::TraceCommon;
use super::Mode;
use crate::layout::cell_state::{Ageing, CellState, Wants};
use crate::layout::region::{Cell, States};
use crate::os::Refused;

/// What one thread marks with, and what it counts.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(super) grey: GreyStack,
    pub(super) lookahead: Lookahead,
    pub(crate) counts: MarkCounts,
    pub(super) ageing: Ageing,
    /// The settled cell being traced refers to one that is not settled. False while no cell is
    /// traced.
    pub(super) has_unsettled_child: bool,
}

/// What has been marked.
///
/// The fields are in this order because marking an old cell changes two counts: a compiler
/// changes neighbours with wide registers, in twice as many instructions.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct MarkCounts {
    /// Old cells marked now, those that stayed so since earlier collections included.
    pub(crate) old_cells: usize,
    /// Threads that have marked.
    pub(crate) threads: usize,
    /// Young cells marked now. Of one of several threads the count may wrap below 0: it made
    /// cells old that another thread had marked.
    pub(crate) young_cells: usize,
    /// Old cells marked now that are settled.
    pub(crate) settled_cells: usize,
}

impl MarkCounts {
    /// All cells marked now.
    pub(crate) fn marked_cells(&self) -> usize {
        self.young_cells + self.old_cells
    }

    /// Adds what another thread has marked at the same time.
    pub(super) fn add(&mut self, other: Self) {
        self.old_cells += other.old_cells;
        self.young_cells = self.young_cells.wrapping_add(other.young_cells);
        self.settled_cells += other.settled_cells;
    }
}

impl Worker {
    /// A worker with room for `cells` grey cells.
    pub(super) fn new(cells: usize) -> Result<Self, Refused> {
        Ok(Self {
            grey: GreyStack::new(cells)?,
            lookahead: Lookahead::new(),
            counts: MarkCounts::default(),
            ageing: Ageing::SLOW,
            has_unsettled_child: false,
        })
    }
}

/// Where a worker puts what it finds, and how it changes states.
///
/// A function that is not inlined takes a sink by value, as [`Sink::lent`] gives it: as long as
/// nobody has the sink's address, its fields stay in registers.
pub(super) trait Sink: Sized {
    /// Other threads mark at the same time.
    const IS_SHARED: bool;

    /// The same sink, lent for a while.
    fn lent(&mut self) -> impl Sink;

    fn parts(&mut self) -> (&mut Worker, States<'_>);

    /// Changes the state of a cell. Returns false when another thread has changed it meanwhile.
    fn exchange(&self, cell: Cell, before: CellState, after: CellState) -> bool;

    /// Adds these bits to the state of a cell. Returns the state before.
    fn add_bits(&self, cell: Cell, bits: u8) -> CellState;

    /// Makes a cell grey for which the worker has no room.
    fn push_to_full(self, cell: Cell);

    /// Puts a cell whose state says that it is remembered into the remembered set.
    fn remember(self, cell: Cell);

    /// Puts a cell on the boundary if it belongs there and is not there yet.
    fn add_to_boundary(self, cell: Cell);

    /// Where parts of cells with very many references wait.
    fn deferred(&mut self) -> Option<&mut Deferred>;

    /// Marks what the cell that is being traced refers to.
    #[inline(always)]
    fn mark(&mut self, cell: Cell, wants: Wants) {
        let (_, states) = self.parts();
        let state = states.get(cell);
        debug_assert!(state.is_live(), "marking a free cell at {cell:?}");
        if !state.is_all_of(wants) && !self.mark_and_compare(cell, state, wants) {
            self.parts().0.has_unsettled_child = true;
        }
    }

    /// Marks what the references that wait refer to: their states have been fetched meanwhile.
    /// Returns false when no reference waits.
    ///
    /// Cold: it is called once for many references, and registers are for the code that finds
    /// them.
    #[cold]
    #[inline(never)]
    fn mark_waiting(mut self) -> bool {
        let count = self.parts().0.lookahead.take_all();
        for index in 0..count {
            let (worker, states) = self.parts();
            let (child, wants) = worker.lookahead.child_at(index);
            let state = states.get(child);
            debug_assert!(state.is_live(), "marking a free cell at {child:?}");
            if !state.is_all_of(wants) && !self.mark_and_compare(child, state, wants) {
                let parent = self.parts().0.lookahead.parent_at(index);
                self.lent().add_to_boundary(parent);
            }
        }
        count > 0
    }

    /// Marks `cell`, which lacks something that a parent wants of it. Returns false when the
    /// parent is settled and the cell is not.
    #[inline(always)]
    fn mark_and_compare(&mut self, cell: Cell, state: CellState, wants: Wants) -> bool {
        if state.is_unprotected() {
            return self.lent().mark_unprotected(cell, state, wants);
        }
        if state.is_old() {
            if state.is_marked() {
                return false;
            }
            let found = state.old_and_found();
            if !self.exchange(cell, state, found) {
                return self.lent().mark_again(cell, wants);
            }
            let counts = &mut self.parts().0.counts;
            counts.old_cells += 1;
            counts.settled_cells += found.settled_if_old();
            self.push(cell);
            return found.is_all_of(wants);
        }
        if !wants.old() && !state.grows_old(self.parts().0.ageing) {
            if !self.mark_young(cell, state) {
                return self.lent().mark_again(cell, wants);
            }
            return true;
        }
        if !self.grow_old(cell, state) {
            return self.lent().mark_again(cell, wants);
        }
        !wants.settled()
    }

    /// [`Sink::mark_and_compare`] once more, because another thread has changed the state of
    /// `cell`.
    #[cold]
    #[inline(never)]
    fn mark_again(mut self, cell: Cell, wants: Wants) -> bool {
        let state = self.parts().1.get(cell);
        state.is_all_of(wants) || self.mark_and_compare(cell, state, wants)
    }

    /// Marks a white cell that stays young. Returns false when another thread has changed its
    /// state.
    #[inline(always)]
    fn mark_young(&mut self, cell: Cell, state: CellState) -> bool {
        let is_mine = self.exchange(cell, state, state.with(CellState::MARKED));
        if is_mine {
            let counts = &mut self.parts().0.counts;
            counts.young_cells = counts.young_cells.wrapping_add(1);
            self.push(cell);
        }
        is_mine
    }

    /// Makes a cell old, and grey even if it was black, because what it refers to becomes old
    /// with it (invariant 5). Returns false when another thread has changed its state.
    #[inline(always)]
    fn grow_old(&mut self, cell: Cell, state: CellState) -> bool {
        let is_mine = self.exchange(cell, state, state.old_and_found());
        if is_mine {
            let counts = &mut self.parts().0.counts;
            counts.old_cells += 1;
            let was_counted = usize::from(state.is_marked());
            counts.young_cells = counts.young_cells.wrapping_sub(was_counted);
            self.push(cell);
        }
        is_mine
    }

    /// [`Sink::mark_and_compare`] for a cell without a barrier, which never settles. It is
    /// remembered as long as it is old (invariant 4).
    #[inline(never)]
    fn mark_unprotected(mut self, cell: Cell, state: CellState, wants: Wants) -> bool {
        let is_old = state.is_old();
        if is_old && state.is_marked() {
            return false;
        }
        if !is_old && !wants.old() {
            return self.mark_young(cell, state) || self.mark_again(cell, wants);
        }
        if !self.grow_old(cell, state) {
            return self.mark_again(cell, wants);
        }
        self.remember_if_not(cell, state);
        !wants.settled()
    }

    /// Remembers an old cell, unless it is remembered; `state` is what it was before.
    fn remember_if_not(&mut self, cell: Cell, state: CellState) {
        let is_new = |before: CellState| !before.is_remembered();
        if is_new(state) && is_new(self.add_bits(cell, CellState::REMEMBERED)) {
            self.lent().remember(cell);
        }
    }

    /// Notes that a cell has no barrier from now on. Returns the state that it had.
    fn unprotect(&mut self, cell: Cell) -> CellState {
        let state = self.add_bits(cell, CellState::UNPROTECTED);
        if state.is_marked() {
            self.lent().add_to_boundary(cell);
            if state.is_old() {
                self.remember_if_not(cell, state);
            }
        }
        state
    }

    #[inline(always)]
    fn push(&mut self, cell: Cell) {
        if self.parts().0.grey.push(cell).is_err() {
            self.lent().push_to_full(cell);
        }
    }

    /// The next cell to trace. When there is none, references may wait in the lookahead.
    #[inline(always)]
    fn pop<const AHEAD: bool>(&mut self) -> Option<Cell> {
        let (worker, states) = self.parts();
        worker.grey.pop::<AHEAD>(states)
    }

    /// A tracer for a cell that `wants` this of what it refers to.
    #[inline(always)]
    fn tracer<const AHEAD: bool>(
        &mut self,
        mode: Mode,
        parent: Cell,
        wants: Wants,
    ) -> CellTracer<impl Sink, AHEAD> {
        CellTracer {
            sink: self.lent(),
            mode,
            parent,
            wants,
        }
    }

    /// Marks what a cell refers to that `wants` this of it. Returns false when only the VM can.
    #[inline(always)]
    fn trace<const AHEAD: bool>(
        &mut self,
        common: impl TraceCommon,
        mode: Mode,
        cell: Cell,
        wants: Wants,
    ) -> bool {
        let mut tracer = self.tracer::<AHEAD>(mode, cell, wants);
        // SAFETY: what is marked is a live cell.
        unsafe { common.trace_cell(cell, &mut tracer) }
    }

    /// Ends the tracing of a cell that `wants` this of what it refers to. A settled cell gets
    /// onto the boundary when it refers to one that is not settled.
    #[inline(always)]
    fn end_cell(&mut self, cell: Cell, wants: Wants) {
        if wants.settled() && std::mem::take(&mut self.parts().0.has_unsettled_child) {
            self.lent().add_to_boundary(cell);
        }
    }
}
