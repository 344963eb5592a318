//! How old the cells are that one refers to.

use super::trace::Trace;
use crate::layout::region::{Cell, States};

/// References of one cell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) all: u32,
    /// To young cells that no collection has found before.
    pub(super) fresh: u32,
    /// To young ones that one or two have found.
    pub(super) aged: u32,
    /// There are so many that they may be marked in parts; then they have not been counted.
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
