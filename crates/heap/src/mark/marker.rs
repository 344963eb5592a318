//! The mark stack and the remembered set.

use crate::layout::region::Cell;
use crate::os::{Refused, WordStack};

/// What marking works with.
#[derive(Debug)]
pub(crate) struct Marker {
    grey: WordStack,
    /// Cells that did not fit on the stack: they are marked but not traced, so
    /// the heap has to be walked for them.
    overflowed: bool,
    /// The remembered set: old cells that may refer to young ones.
    remembered: WordStack,
    /// A cell could not be remembered: the next collection must be full.
    remembered_overflowed: bool,
    /// Pairs of words: a cell, and the address of a weak reference it holds.
    weak: WordStack,
    /// Cells marked now, those that stayed so since earlier collections
    /// included.
    pub(crate) marked_cells: usize,
    /// Of those, old ones.
    pub(crate) old_cells: usize,
    pub(crate) collecting: bool,
    /// Cells that must not move are being told apart from those that may.
    pub(crate) finding_pins: bool,
    /// Whether the cell being traced is old, for marks that arrive through the
    /// VM instead of a tracer.
    pub(crate) parent_is_old: bool,
    /// The cell being traced, 0 while roots are.
    pub(crate) parent: usize,
}

impl Marker {
    /// A marker for a heap of at most `cells` cells.
    pub(crate) fn new(cells: usize) -> Result<Self, Refused> {
        Ok(Self {
            grey: WordStack::new(cells)?,
            overflowed: false,
            remembered: WordStack::new(cells)?,
            remembered_overflowed: false,
            weak: WordStack::new(cells)?,
            marked_cells: 0,
            old_cells: 0,
            collecting: false,
            finding_pins: false,
            parent_is_old: false,
            parent: 0,
        })
    }

    /// Lets the mark stack and the remembered set grow to `cells` at most.
    pub(crate) fn limit(&mut self, cells: usize) {
        self.grey.limit(cells);
        self.remembered.limit(cells);
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, cell: Cell) {
        if self.grey.push(cell.address()).is_err() {
            self.overflowed = true;
        }
    }

    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Cell> {
        // SAFETY: only cells are pushed.
        self.grey
            .pop()
            .map(|word| unsafe { Cell::from_address(word) })
    }

    /// Whether cells were dropped for want of memory since the last call.
    pub(crate) fn take_overflowed(&mut self) -> bool {
        std::mem::take(&mut self.overflowed)
    }

    pub(crate) fn remember(&mut self, cell: Cell) {
        if self.remembered.push(cell.address()).is_err() {
            self.remembered_overflowed = true;
        }
    }

    pub(crate) fn remembered_overflowed(&self) -> bool {
        self.remembered_overflowed
    }

    pub(crate) fn remembered_cells(&self) -> &[usize] {
        self.remembered.as_slice()
    }

    /// Keeps the remembered cells that `keep` wants.
    pub(crate) fn retain_remembered(&mut self, mut keep: impl FnMut(Cell) -> bool) {
        let mut kept = 0;
        for index in 0..self.remembered.len() {
            let word = self.remembered.as_slice()[index];
            // SAFETY: only cells are remembered.
            if keep(unsafe { Cell::from_address(word) }) {
                self.remembered.set(kept, word);
                kept += 1;
            }
        }
        self.remembered.truncate(kept);
    }

    /// Rewrites the addresses of remembered cells.
    pub(crate) fn update_remembered(&mut self, location: impl Fn(usize) -> usize) {
        for index in 0..self.remembered.len() {
            let word = self.remembered.as_slice()[index];
            self.remembered.set(index, location(word));
        }
    }

    pub(crate) fn forget_remembered(&mut self) {
        self.remembered.clear_and_release();
        self.remembered_overflowed = false;
    }

    /// Notes the weak reference at `reference`, held by the cell being traced.
    /// False when there is no memory to note it.
    pub(crate) fn push_weak(&mut self, reference: usize) -> bool {
        self.weak.push(self.parent).is_ok() && self.weak.push(reference).is_ok()
    }

    /// Takes one weak reference: who holds it (0 for nobody) and where it is.
    pub(crate) fn pop_weak(&mut self) -> Option<(usize, usize)> {
        let reference = self.weak.pop()?;
        Some((self.weak.pop()?, reference))
    }

    pub(crate) fn weak_references(&self) -> usize {
        self.weak.len() / 2
    }

    /// Forgets what only one collection needs.
    pub(crate) fn finish(&mut self) {
        self.grey.clear_and_release();
        self.weak.clear_and_release();
        self.parent = 0;
        self.parent_is_old = false;
        self.collecting = false;
        self.finding_pins = false;
    }
}
