//! Remembered cells into which the program stores again and again what it soon replaces.
//!
//! Most remembered cells are traced once and forgotten: what they refer to becomes old with
//! them, because it lasts as long as they do. That is wrong for local variables that a block has
//! captured, or for an object that holds the latest answer: each answer would grow old, and only
//! a major collection would free it. Such a *rewritten* cell stays remembered for as long as it
//! refers to young cells, and these age as if nothing old referred to them.
//!
//! The collector guesses which cells are rewritten: a cell that is remembered again and again,
//! with as many references as before, until a collection still finds most of the cells that were
//! fresh at the one before. What lasts, and what is put into a container that grows, is mostly
//! followed by more of the kind, so the guess is not made again for a while.

use super::trace::Trace;
use crate::layout::region::{Cell, States};
use crate::os::Refused;
use crate::stack::Stack;

/// How many cells can be known at once: a program has few that are rewritten.
const PLACES: usize = 512;

/// What is known of cells that were remembered lately. The place of a cell follows from its
/// address, so that one cell may take another's place. An entry may be about a dead cell whose
/// address another cell has now: a wrong guess costs time, or memory until the next major
/// collection.
#[derive(Debug)]
pub(super) struct Rewritten {
    /// Empty until the first is noted, and `PLACES` from then on.
    places: Stack<Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    cell: Cell,
    /// How many references the cell had when it was looked at last; 0 if it never was.
    references: u16,
    /// How many fresh cells it referred to when it was traced last, if it was rewritten then;
    /// otherwise 0.
    fresh: u16,
    /// How many more times the cell is traced before the guess is made again.
    wait: u16,
}

impl Known {
    fn of(cell: Cell) -> Self {
        Self {
            cell,
            references: 0,
            fresh: 0,
            wait: 0,
        }
    }
}

/// The [`Known::wait`] of a cell that was found not to be rewritten: what lasts is mostly
/// followed by more that lasts.
const WAIT: u16 = 16;

impl Rewritten {
    pub(super) fn new() -> Result<Self, Refused> {
        let places = Stack::new(PLACES)?;
        Ok(Self { places })
    }

    fn place(&mut self, cell: Cell) -> Option<&mut Known> {
        while self.places.len() < PLACES {
            self.places.push(Known::of(Cell::NONE)).ok()?;
        }
        let index = (cell.address() >> 5) % PLACES;
        self.places.as_mut_slice().get_mut(index)
    }

    /// Whether a remembered cell that is to be traced may be rewritten.
    pub(super) fn may_be(&mut self, cell: Cell) -> bool {
        let Some(known) = self.place(cell) else {
            return false;
        };
        if known.cell != cell {
            *known = Known::of(cell);
            return false;
        }
        let waits = known.wait > 0;
        known.wait = known.wait.saturating_sub(1);
        !waits
    }

    /// Whether a cell that may be rewritten is, given the counts of its references.
    pub(super) fn is(&mut self, cell: Cell, found: Counts) -> bool {
        let Some(known) = self.place(cell) else {
            return false;
        };
        let all = found.all.min(u16::MAX.into()) as u16;
        let had = std::mem::replace(&mut known.references, all);
        let lasts = known.fresh > 0 && 2 * found.aged > known.fresh.into();
        let is_as_before = had == all && !lasts;
        let is_rewritten = is_as_before && found.fresh + found.aged > 0;
        known.fresh = match is_rewritten {
            true => found.fresh.min(u16::MAX.into()) as u16,
            false => 0,
        };
        known.wait = if had == 0 || is_as_before { 0 } else { WAIT };
        is_rewritten
    }
}

/// References of one cell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) all: u32,
    /// To young cells that no collection has found before.
    pub(super) fresh: u32,
    /// To young ones that one or two have found.
    pub(super) aged: u32,
    /// There are so many that they may be marked in parts; then none of the other counts is
    /// right.
    pub(super) are_many: bool,
}

/// Counts the references of one cell, and marks nothing.
pub(super) struct References<'c> {
    pub(super) states: States<'c>,
    pub(super) counts: Counts,
}

impl Trace for References<'_> {
    #[inline(always)]
    fn mark(&mut self, cell: Cell) {
        self.counts.all += 1;
        match self.states.get(cell).age() {
            0 => self.counts.fresh += 1,
            1 | 2 => self.counts.aged += 1,
            _ => {}
        }
    }

    #[inline(always)]
    fn pin(&mut self, cell: Cell) {
        self.mark(cell);
    }

    #[inline(always)]
    fn finds_pins(&self) -> bool {
        false
    }

    #[inline(always)]
    fn mark_later(&mut self, _words: &[usize]) -> bool {
        self.counts.are_many = true;
        true
    }

    #[inline(always)]
    fn trace_later(&mut self, _end: usize) -> bool {
        self.counts.are_many = true;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(number: usize) -> Cell {
        // SAFETY: nothing looks at what is there.
        unsafe { Cell::from_address(0x10_0000 + 32 * number) }
    }

    /// Whether a cell is rewritten, each time that it is traced with these numbers of references:
    /// all, fresh, aged.
    fn guesses(each: &[(u32, u32, u32)]) -> Vec<bool> {
        let mut rewritten = Rewritten::new().unwrap();
        let guess = |&(all, fresh, aged): &(u32, u32, u32)| {
            let found = Counts {
                all,
                fresh,
                aged,
                are_many: false,
            };
            rewritten.may_be(cell(0)) && rewritten.is(cell(0), found)
        };
        each.iter().map(guess).collect()
    }

    #[test]
    fn a_cell_that_is_given_something_fresh_each_time_is_rewritten() {
        assert_eq!(guesses(&[(4, 1, 0); 5]), [false, false, true, true, true]);
    }

    #[test]
    fn one_that_refers_to_nothing_young_any_more_is_not_and_is_again_afterwards() {
        let each = [(4, 1, 0), (4, 1, 0), (4, 1, 0), (4, 0, 0), (4, 1, 0)];
        assert_eq!(guesses(&each), [false, false, true, false, true]);
    }

    #[test]
    fn one_whose_fresh_cells_are_still_there_is_not_for_a_while() {
        let mut each = vec![(4, 1, 0); 3];
        each.push((4, 1, 1));
        each.resize(4 + usize::from(WAIT) + 1, (4, 1, 0));
        let guesses = guesses(&each);
        assert!(guesses[2] && !guesses[3]);
        let (waiting, again) = guesses[4..].split_at(WAIT.into());
        assert!(!waiting.contains(&true) && again == [true]);
    }

    #[test]
    fn a_few_that_last_among_many_that_do_not_change_nothing() {
        let each = [(9, 4, 0), (9, 4, 0), (9, 4, 0), (9, 4, 2), (9, 4, 2)];
        assert_eq!(guesses(&each), [false, false, true, true, true]);
    }

    #[test]
    fn a_container_that_grows_is_not_rewritten() {
        let each: Vec<_> = (1..20).map(|size| (size, 1, 0)).collect();
        assert!(!guesses(&each).contains(&true));
    }

    #[test]
    fn another_cell_at_the_same_place_is_known_no_better() {
        let mut rewritten = Rewritten::new().unwrap();
        for _ in 0..5 {
            for number in [0, PLACES] {
                assert!(!rewritten.may_be(cell(number)));
            }
        }
    }
}
