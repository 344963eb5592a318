//! References that have been found, on their way to being marked.
//!
//! In a large heap the table of states is larger than the processor's cache, so the first
//! look at the state of what a cell refers to waits for memory. Marking then looks a few
//! references ahead: each has the state fetched and waits its turn, while others are found.
//! `docs/marking-latency.md` has what that gains.

use super::ring::Ring;
use crate::layout::cell_state::Wants;
use crate::layout::region::{Cell, States};
use crate::prefetch::prefetch;

/// References that wait.
const WAITING_REFERENCES: usize = 16;

/// A reference that has been found, and not marked yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    pub(super) parent: Cell,
    pub(super) child: Cell,
    /// What the parent wanted when it was traced.
    pub(super) wants: Wants,
}

impl Reference {
    /// What fills places where none waits.
    const NONE: Self = Self {
        parent: Cell::NONE,
        child: Cell::NONE,
        wants: Wants::MARKED,
    };
}

/// The latest references, first in, first out. What waits here is not grey: marking is not
/// over, and the program does not run, before all have been taken.
#[derive(Debug)]
pub(super) struct Lookahead(Ring<Reference, WAITING_REFERENCES>);

impl Lookahead {
    pub(super) const fn new() -> Self {
        Self(Ring::new(Reference::NONE))
    }

    /// Puts one in, and takes out the oldest if as many as can wait were there.
    #[inline(always)]
    pub(super) fn exchange(
        &mut self,
        states: States<'_>,
        reference: Reference,
    ) -> Option<Reference> {
        prefetch(states.address_of(reference.child));
        self.0.exchange(reference)
    }

    /// Takes out the oldest.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<Reference> {
        self.0.take()
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
