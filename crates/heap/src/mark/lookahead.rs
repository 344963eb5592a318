//! References that have been found, on their way to being marked.
//!
//! In a large heap the table of states is larger than the processor's cache, so the first
//! look at the state of what a cell refers to waits for memory. Marking then looks a few
//! references ahead: each has the state fetched and waits its turn, while others are found.
//! `docs/marking-latency.md` has what that gains.

use crate::layout::cell_state::Wants;
use crate::layout::region::{Cell, States};
use crate::prefetch::prefetch;

/// References that wait.
pub(super) const WAITING_REFERENCES: usize = 16;

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
pub(super) struct Lookahead {
    waiting: [Reference; WAITING_REFERENCES],
    first: usize,
    count: usize,
}

impl Lookahead {
    pub(super) const fn new() -> Self {
        Self {
            waiting: [Reference::NONE; WAITING_REFERENCES],
            first: 0,
            count: 0,
        }
    }

    /// Puts one in, and takes out the oldest if as many as can wait were there.
    #[inline(always)]
    pub(super) fn exchange(
        &mut self,
        states: States<'_>,
        reference: Reference,
    ) -> Option<Reference> {
        prefetch(states.address_of(reference.child));
        if self.count < WAITING_REFERENCES {
            self.waiting[(self.first + self.count) % WAITING_REFERENCES] = reference;
            self.count += 1;
            return None;
        }
        let oldest = std::mem::replace(&mut self.waiting[self.first], reference);
        self.first = (self.first + 1) % WAITING_REFERENCES;
        Some(oldest)
    }

    /// Takes out the oldest.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<Reference> {
        self.count = self.count.checked_sub(1)?;
        let oldest = self.waiting[self.first];
        self.first = (self.first + 1) % WAITING_REFERENCES;
        Some(oldest)
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::region::Region;
    use crate::os::page_bytes;

    #[test]
    fn every_reference_comes_out_once_after_those_that_were_found_before() {
        // SAFETY: never read.
        let cell = |number: usize| unsafe { Cell::from_address(number * 64) };
        let region = Region::reserve(1, page_bytes()).unwrap();
        let mut lookahead = Lookahead::new();
        let mut order = Vec::new();
        // Taken at any moment, also when few wait, or none.
        for (found, take_after) in [
            (40, true),
            (3, true),
            (0, true),
            (WAITING_REFERENCES, false),
        ] {
            for _ in 0..found {
                let number = order.len() + lookahead.count;
                let reference = Reference {
                    parent: cell(2 * number),
                    child: cell(2 * number + 1),
                    wants: Wants::MARKED,
                };
                order.extend(lookahead.exchange(region.states(), reference));
            }
            while take_after && !lookahead.is_empty() {
                order.extend(lookahead.take());
            }
        }
        assert_eq!(lookahead.count, WAITING_REFERENCES);
        order.extend(std::iter::from_fn(|| lookahead.take()));
        assert!(lookahead.is_empty());
        assert_eq!(order.len(), 43 + WAITING_REFERENCES);
        for (number, reference) in order.iter().enumerate() {
            assert_eq!(reference.parent, cell(2 * number));
            assert_eq!(reference.child, cell(2 * number + 1));
        }
    }
}
