//! References that have been found, on their way to being marked.
//!
//! In a large heap the table of states is larger than the processor's cache, so the first
//! look at the state of what a cell refers to waits for memory. Marking then looks a few
//! references ahead: each has the state fetched and waits, while others are found. When as
//! many as can wait have been found, all are marked, in the order in which they were found:
//! by then the states of the latest have been fetched, too.
//! `docs/marking-latency.md` has what that gains.

use crate::layout::cell_state::Wants;
use crate::layout::region::{Cell, States};
use crate::prefetch::prefetch;

/// References that wait at most.
const WAITING_REFERENCES: usize = 32;

/// The latest references. What waits here is not grey: marking is not over, and the program
/// does not run, before all have been marked.
#[derive(Debug)]
pub(super) struct Lookahead {
    children: [Cell; WAITING_REFERENCES],
    parents: [Cell; WAITING_REFERENCES],
    /// What the parents wanted when they were traced.
    wants: [Wants; WAITING_REFERENCES],
    /// How many wait: fewer than can, but for the moment after `push`.
    count: usize,
}

impl Lookahead {
    pub(super) const fn new() -> Self {
        Self {
            children: [Cell::NONE; WAITING_REFERENCES],
            parents: [Cell::NONE; WAITING_REFERENCES],
            wants: [Wants::MARKED; WAITING_REFERENCES],
            count: 0,
        }
    }

    /// Has a reference wait. True when no more can: then all have to be marked.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        states: States<'_>,
        parent: Cell,
        child: Cell,
        wants: Wants,
    ) -> bool {
        prefetch(states.address_of(child));
        let index = self.count % WAITING_REFERENCES;
        self.children[index] = child;
        self.parents[index] = parent;
        self.wants[index] = wants;
        self.count = index + 1;
        self.count == WAITING_REFERENCES
    }

    /// How many wait. None does afterwards; they can be read until another one waits.
    #[inline(always)]
    pub(super) fn take_all(&mut self) -> usize {
        std::mem::take(&mut self.count)
    }

    /// The cell that the `index`-th refers to, and what is wanted of it.
    #[inline(always)]
    pub(super) fn child_at(&self, index: usize) -> (Cell, Wants) {
        let index = index % WAITING_REFERENCES;
        (self.children[index], self.wants[index])
    }

    /// The cell that the `index`-th is in.
    #[inline(always)]
    pub(super) fn parent_at(&self, index: usize) -> Cell {
        self.parents[index % WAITING_REFERENCES]
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}
