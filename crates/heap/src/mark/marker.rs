//! What marking works with, from one collection to the next.

use super::deferred::Deferred;
use super::pile::{Own, Stacks};
use super::rescan::{Anew, Rescans};
use super::rewritten::Rewritten;
use super::sets::CellSet;
use super::weak::WeakReferences;
use super::worker::{MarkCounts, Worker};
use crate::layout::cell_state::Ageing;
use crate::layout::region::{Cell, States};
use crate::os::Refused;
use crate::pace::Scope;
use crate::stack::Stack;

/// The stacks and sets of marking, and what it counts.
#[derive(Debug)]
pub(crate) struct Marker {
    pub(crate) worker: Worker,
    /// What the collecting thread has to itself as one of several; `None` while it works with
    /// that. Made with the heap, so that a collection for want of memory needs none for it.
    pub(super) own: Option<Box<Own>>,
    pub(super) deferred: Deferred,
    pub(super) anew: Anew,
    pub(crate) remembered: CellSet,
    /// Remembered cells that the minor collection in progress has still to trace.
    pub(crate) untraced: Stack<Cell>,
    pub(super) rewritten: Rewritten,
    pub(crate) boundary: CellSet,
    pub(crate) rescans: Rescans,
    pub(super) weak: WeakReferences,
    /// Which of the cells that roots refer to are noted.
    pub(crate) noting: Noting,
    /// Cells that are to be remembered if they are old once marking is over.
    pub(crate) noted: Stack<Cell>,
    /// Grey cells that helpers leave to the collecting thread; empty between markings.
    aside: Stack<Cell>,
    /// The latest marking is, or was, that of a major collection.
    is_major: bool,
}

/// Which of the cells that roots refer to are noted, because stores are pending: a barrier was
/// called for them, and they have not happened yet.
///
/// What the barrier did depends on the state of the cell that the reference is stored into. A
/// collection in between may make that cell old. Or the cell was old, and the barrier has
/// remembered it; then the collection traces it, without the reference, and forgets it. The
/// program still has the cell on its stack, which is a root: so what roots refer to is noted, and
/// remembered afterwards if it is old. So are cells that change without a barrier
/// ([`Tracer::note_changing`](super::tracer::Tracer::note_changing)). What there is no room to
/// note counts as an overflow of the remembered set, so that the next collection is a full one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noting {
    /// None: no store is pending.
    Nothing,
    /// Those that the marking about to begin may make old, or take out of the remembered set.
    WhatMayChange,
    /// All: marking may have changed any of them already.
    Everything,
}

impl Marker {
    /// A marker for a heap of at most `cells` cells. Address space may be scarce, so only the
    /// mark stack could hold every cell.
    pub(crate) fn new(cells: usize) -> Result<Self, Refused> {
        let noted = cells / 64;
        Ok(Self {
            worker: Worker::new(cells)?,
            own: Some(Box::new(Own::new()?)),
            deferred: Deferred::new(noted, cells / 2)?,
            anew: Anew::new(),
            remembered: CellSet::new(cells / 2)?,
            untraced: Stack::new(cells / 2)?,
            rewritten: Rewritten::new()?,
            boundary: CellSet::new(cells / 4)?,
            rescans: Rescans::new(noted)?,
            weak: WeakReferences::new(cells / 4)?,
            noting: Noting::Nothing,
            noted: Stack::new(noted)?,
            aside: Stack::new(noted)?,
            is_major: false,
        })
    }

    /// Limits each of the stacks and sets to `cells` entries, except weak references and
    /// rewritten cells.
    pub(crate) fn limit(&mut self, cells: usize) {
        self.worker.grey.limit(cells);
        self.deferred.limit(cells);
        self.remembered.limit(cells);
        self.untraced.limit(cells);
        self.boundary.limit(cells);
        self.rescans.limit(cells);
        self.noted.limit(cells);
        self.aside.limit(cells);
    }

    /// Begins marking. In a minor collection old cells are marked already, and remembered ones
    /// are to be traced; in a major one settled cells are marked already, and those on the
    /// boundary are to be traced. All other live cells are to be found, and young ones grow old
    /// as `ageing` says.
    pub(crate) fn begin(&mut self, states: States<'_>, scope: Scope, ageing: Ageing) {
        self.is_major = scope == Scope::Major;
        let Worker { grey, counts, .. } = &mut self.worker;
        counts.young_cells = 0;
        if scope != Scope::Minor {
            // The stack that the latest minor collection has emptied.
            self.untraced.clear_and_release();
        }
        match scope {
            Scope::Minor => self.remembered.begin_minor(&mut self.untraced),
            Scope::Major => {
                counts.old_cells = counts.settled_cells;
                self.remembered.clear();
                let remembered = &mut self.remembered;
                self.boundary.begin_major(states, |cell| {
                    grey.push_or_note(cell);
                    if states.get(cell).is_unprotected() {
                        remembered.add_if_old(states, cell);
                    }
                });
            }
            Scope::Full => {
                *counts = MarkCounts::default();
                self.remembered.clear();
                self.boundary.clear();
            }
        }
        counts.threads = 1;
        self.worker.ageing = ageing;
    }

    /// Forgets what was found, so that marking can begin again, as a full one.
    pub(crate) fn restart(&mut self) {
        self.end();
        self.remembered.clear();
        self.untraced.clear_and_release();
    }

    /// Forgets what only one collection needs.
    pub(crate) fn end(&mut self) {
        self.worker.grey.clear();
        self.deferred.clear();
        self.anew.clear();
        self.rescans.clear();
        self.weak.clear();
        self.aside.clear_and_release();
    }

    /// Notes that the program goes on although marking is not over.
    pub(crate) fn pause(&mut self) {
        self.weak.forget();
    }

    /// Whether nothing is grey.
    pub(crate) fn is_done(&self) -> bool {
        let grey = &self.worker.grey;
        let has_grey = !grey.is_empty() || grey.has_overflowed();
        !has_grey && self.deferred.is_empty() && self.anew.is_empty()
    }

    /// Notes a cell that a root refers to, if it may have to be remembered once marking is over.
    /// Without room for the note the next collection is a full one, which needs no remembered
    /// set.
    #[cold]
    pub(super) fn note_root(&mut self, states: States<'_>, cell: Cell) {
        let state = states.get(cell);
        // A major collection takes settled cells off the boundary, and empties the remembered
        // set, before it looks at any root.
        let may_be_forgotten = state.is_remembered() || self.is_major && state.is_settled();
        let stays_as_it_is = state.is_old() && state.is_marked() && !may_be_forgotten;
        if stays_as_it_is && self.noting == Noting::WhatMayChange {
            return;
        }
        self.note_changing(cell);
    }

    /// Notes `cell`, to be remembered once marking is over if it is old then.
    pub(super) fn note_changing(&mut self, cell: Cell) {
        if self.noted.push(cell).is_err() {
            self.remembered.note_overflow();
        }
    }

    /// Makes a marked cell grey once more. Asking again before it is traced changes nothing, as
    /// long as there is room in `anew`.
    pub(super) fn make_grey_again(&mut self, cell: Cell) {
        if self.anew.add(cell).is_err() {
            self.worker.grey.push_or_note(cell);
        }
    }

    /// Hands over what several threads share. Until [`Marker::take_back`] no cell can become grey
    /// here, be remembered, or get onto the boundary.
    pub(super) fn lend(&mut self) -> Stacks {
        Stacks {
            grey: self.worker.grey.take(),
            aside: std::mem::take(&mut self.aside),
            remembered: std::mem::take(&mut self.remembered),
            boundary: std::mem::take(&mut self.boundary),
            ..Stacks::default()
        }
    }

    /// Takes the stacks back when all workers have gone, with what the workers have counted.
    pub(super) fn take_back(&mut self, stacks: Stacks) {
        self.worker.grey = stacks.grey;
        self.aside = stacks.aside;
        // A note without room has been told to what stood here meanwhile.
        let has_overflowed = self.remembered.has_overflowed();
        self.remembered = stacks.remembered;
        if has_overflowed {
            self.remembered.note_overflow();
        }
        self.boundary = stacks.boundary;
        let counts = &mut self.worker.counts;
        counts.add(stacks.counts);
        counts.threads = counts.threads.max(stacks.counts.threads);
    }

    /// All grey cells: on the mark stack, marked in parts, remembered and untraced, or to
    /// be traced again, now or by the remark. They may refer to white cells.
    pub(crate) fn grey_cells(&self) -> impl Iterator<Item = Cell> + '_ {
        let untraced = self.untraced.as_slice().iter().copied();
        let stacked = self.worker.grey.iter().chain(self.deferred.iter());
        let anew = self.anew.cells().iter().copied();
        stacked
            .chain(untraced)
            .chain(anew)
            .chain(self.rescans.iter())
    }

    /// Whether some grey cells may be on no stack.
    pub(crate) fn has_overflowed(&self) -> bool {
        self.worker.grey.has_overflowed() || self.rescans.has_overflowed()
    }
}
