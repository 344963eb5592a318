//! The mark stack and the remembered set.

use std::ptr::null_mut;

use super::coming::Coming;
use super::deferred::{Deferred, Part};
use super::parallel::{own_cells, Worker};
use crate::layout::region::Cell;
use crate::os::{Refused, WordStack};

/// What marking works with.
#[derive(Debug)]
pub(crate) struct Marker {
    pub(super) grey: WordStack,
    /// Grey cells that are traced before those on the stack.
    coming: Coming,
    /// Cells that did not fit on the stack: they are marked but not traced, so
    /// the heap has to be walked for them.
    pub(super) overflowed: bool,
    /// While several threads mark: grey cells for the collecting one alone.
    pub(super) aside: WordStack,
    /// Old cells that were seen to refer to young ones meanwhile.
    pub(super) parents: WordStack,
    /// Places for its own grey cells meanwhile.
    pub(super) own: Box<[usize]>,
    /// Its part in that, null while one thread marks.
    pub(crate) worker: *mut Worker<'static>,
    /// Threads that have marked in this collection.
    pub(crate) threads: usize,
    /// Of marked cells with very many references those that are still to be marked.
    pub(crate) deferred: Deferred,
    /// The remembered set: old cells that may refer to young ones.
    pub(super) remembered: WordStack,
    /// Those that the minor collection in progress has still to trace.
    remembered_untraced: WordStack,
    /// A cell could not be remembered: the next collection must be full.
    pub(super) remembered_overflowed: bool,
    /// Black cells that the last stop has to trace again: without a barrier, or
    /// with weak references.
    revisited: WordStack,
    /// Black cells that the program has written to without saying what: to be
    /// traced again, too, but only once for all that was written before.
    dirty: DirtyCells,
    /// Young cells that a root pins, if they are to be noted.
    pinned_roots: WordStack,
    pub(crate) notes_pinned_roots: bool,
    /// One of the two had no room: the last stop traces every marked cell again.
    revisits_all: bool,
    /// Whether the program runs between slices of this marking, so that
    /// `revisited` is needed.
    pub(crate) in_slices: bool,
    /// Whether cells are being traced again.
    pub(crate) is_revisiting: bool,
    /// Whether the program has not run since the roots were traced: what is
    /// found now is final, once nothing is grey.
    pub(crate) is_last_stop: bool,
    /// Pairs of words: a cell, and the address of a weak reference it holds.
    weak: WordStack,
    /// Cells marked now, those that stayed so since earlier collections
    /// included.
    pub(crate) marked_cells: usize,
    /// Of those, old ones.
    pub(crate) old_cells: usize,
    /// Cells that must not move are being told apart from those that may.
    pub(crate) finding_pins: bool,
    /// Whether the cell being traced is old, for marks that arrive through the
    /// VM instead of a tracer.
    pub(crate) parent_is_old: bool,
    /// The cell being traced, 0 while roots are.
    pub(crate) parent: usize,
}

impl Marker {
    /// A marker for a heap of at most `cells` cells. Address space may be scarce:
    /// only stacks that must not run full could hold every cell.
    pub(crate) fn new(cells: usize) -> Result<Self, Refused> {
        let noted = cells / 64;
        Ok(Self {
            grey: WordStack::new(cells)?,
            coming: Coming::new(),
            overflowed: false,
            aside: WordStack::new(noted)?,
            parents: WordStack::new(noted)?,
            own: own_cells(),
            worker: null_mut(),
            threads: 1,
            deferred: Deferred::new(cells / 2)?,
            remembered: WordStack::new(cells / 2)?,
            remembered_untraced: WordStack::new(cells / 2)?,
            remembered_overflowed: false,
            revisited: WordStack::new(noted)?,
            dirty: DirtyCells::new(noted)?,
            pinned_roots: WordStack::new(noted)?,
            notes_pinned_roots: false,
            revisits_all: false,
            in_slices: false,
            is_revisiting: false,
            is_last_stop: false,
            weak: WordStack::new(cells)?,
            marked_cells: 0,
            old_cells: 0,
            finding_pins: false,
            parent_is_old: false,
            parent: 0,
        })
    }

    /// Lets the mark stack and the remembered set grow to `cells` at most.
    pub(crate) fn limit(&mut self, cells: usize) {
        self.grey.limit(cells);
        self.deferred.limit(cells);
        self.aside.limit(cells);
        self.parents.limit(cells);
        self.remembered.limit(cells);
        self.remembered_untraced.limit(cells);
        self.revisited.limit(cells);
        self.dirty.cells.limit(cells);
        self.pinned_roots.limit(cells);
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, cell: Cell) {
        if self.grey.push(cell.address()).is_err() {
            self.overflowed = true;
        }
    }

    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Cell> {
        let word = self.coming.next(|| self.grey.pop())?;
        // SAFETY: only cells are pushed.
        Some(unsafe { Cell::from_address(word) })
    }

    /// Whether nothing is grey.
    pub(crate) fn is_done(&self) -> bool {
        self.has_no_grey() && self.deferred.is_empty() && !self.overflowed
    }

    /// Whether the mark stack is empty.
    pub(super) fn has_no_grey(&self) -> bool {
        self.grey.is_empty() && self.coming.is_empty()
    }

    /// Puts what is on its way to the cache back on the stack.
    pub(super) fn stop_fetching(&mut self) {
        let coming = std::mem::replace(&mut self.coming, Coming::new());
        for word in coming.words() {
            if self.grey.push(word).is_err() {
                self.overflowed = true;
            }
        }
    }

    /// Whether cells were dropped for want of memory since the last call.
    pub(crate) fn take_overflowed(&mut self) -> bool {
        std::mem::take(&mut self.overflowed)
    }

    /// Makes the old cells grey that were seen to refer to young ones: those
    /// become old with them (invariant 5).
    pub(super) fn regard_parents(&mut self) {
        while let Some(word) = self.parents.pop() {
            // SAFETY: only cells are noted.
            self.push(unsafe { Cell::from_address(word) });
        }
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

    /// Remembered cells that are still to be traced.
    pub(crate) fn remembered_untraced(&self) -> &[usize] {
        self.remembered_untraced.as_slice()
    }

    /// A minor collection begins: all that is remembered is to be traced, and
    /// the set begins anew.
    pub(crate) fn take_remembered(&mut self) {
        debug_assert!(self.remembered_untraced.is_empty());
        std::mem::swap(&mut self.remembered, &mut self.remembered_untraced);
    }

    /// Takes one remembered cell that is to be traced.
    #[inline]
    pub(crate) fn pop_remembered(&mut self) -> Option<Cell> {
        // SAFETY: only cells are remembered.
        self.remembered_untraced
            .pop()
            .map(|word| unsafe { Cell::from_address(word) })
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
        self.remembered_untraced.clear_and_release();
        self.remembered_overflowed = false;
    }

    /// Has the last stop trace the cell that is being traced again. Without
    /// memory for that, every marked cell is traced again.
    #[inline]
    pub(crate) fn revisit(&mut self, cell: Cell) {
        if self.revisited.as_slice().last() == Some(&cell.address()) {
            return;
        }
        if self.revisited.push(cell.address()).is_err() {
            self.revisits_all = true;
        }
    }

    /// A root pins `cell`. Without room for it the next collection is a full one,
    /// which needs no remembered set.
    pub(crate) fn note_pinned_root(&mut self, cell: Cell) {
        if self.pinned_roots.push(cell.address()).is_err() {
            self.remembered_overflowed = true;
        }
    }

    /// Takes one of those that were noted.
    pub(crate) fn pop_pinned_root(&mut self) -> Option<Cell> {
        // SAFETY: only cells are noted.
        self.pinned_roots
            .pop()
            .map(|word| unsafe { Cell::from_address(word) })
    }

    /// The cells to trace again at the last stop.
    pub(crate) fn revisited(&self) -> &[usize] {
        self.revisited.as_slice()
    }

    /// Something was stored into a marked cell.
    pub(crate) fn note_dirty(&mut self, cell: Cell) {
        if self.dirty.note(cell.address()).is_err() {
            self.revisits_all = true;
        }
    }

    /// Takes one cell that was written to since it was traced.
    pub(crate) fn pop_dirty(&mut self) -> Option<Cell> {
        // SAFETY: only cells are noted.
        self.dirty
            .pop()
            .map(|word| unsafe { Cell::from_address(word) })
    }

    /// Grey cells, all sorts of them: they may refer to white cells.
    pub(crate) fn grey_cells(&self) -> impl Iterator<Item = usize> + '_ {
        let stacks = [
            &self.grey,
            &self.remembered_untraced,
            &self.revisited,
            &self.dirty.cells,
        ];
        let stacked = stacks.into_iter();
        self.coming
            .words()
            .chain(stacked.flat_map(|stack| stack.as_slice().iter().copied()))
            .chain(self.deferred.cells())
    }

    /// Whether some grey cells may be on no stack.
    pub(crate) fn is_overflowed(&self) -> bool {
        self.overflowed || self.revisits_all
    }

    /// Whether the last stop has to trace every marked cell again.
    pub(crate) fn revisits_all(&self) -> bool {
        self.revisits_all
    }

    /// The program goes on although marking is not over: weak references are
    /// noted anew at the next last stop.
    pub(crate) fn leave_last_stop(&mut self) {
        self.is_last_stop = false;
        self.weak.truncate(0);
    }

    /// Notes the weak reference at `reference`, held by the cell being traced.
    /// False when there is no memory to note it.
    ///
    /// A reference noted before the program runs again may be gone by the end:
    /// then its holder is traced again, and this noted anew.
    pub(crate) fn push_weak(&mut self, reference: usize) -> bool {
        if self.in_slices && self.parent != 0 && !self.is_revisiting {
            // SAFETY: the parent is a cell.
            self.revisit(unsafe { Cell::from_address(self.parent) });
        }
        if !self.is_last_stop {
            return true;
        }
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

    /// Forgets what was found, so that marking can begin anew.
    pub(crate) fn restart(&mut self) {
        let in_slices = self.in_slices;
        self.finish();
        self.overflowed = false;
        self.forget_remembered();
        self.in_slices = in_slices;
    }

    /// The cell being traced, if the program runs before marking is over and the
    /// cell has therefore to be traced in parts.
    fn divisible_parent(&self) -> Option<Cell> {
        let is_divisible = self.in_slices && self.parent != 0;
        // SAFETY: the parent is a cell.
        is_divisible.then(|| unsafe { Cell::from_address(self.parent) })
    }

    /// As [`Trace::mark_later`](super::tracer::Trace::mark_later) says.
    pub(super) fn mark_later(&mut self, words: &[usize]) -> bool {
        self.divisible_parent()
            .is_some_and(|parent| self.deferred.keep(parent, words).is_ok())
    }

    /// As [`Trace::trace_later`](super::tracer::Trace::trace_later) says.
    pub(super) fn trace_later(&mut self, end: usize) -> bool {
        self.divisible_parent()
            .is_some_and(|parent| self.deferred.continue_at(parent, end).is_ok())
    }

    /// Takes the next references of a cell that is traced in parts.
    pub(crate) fn pop_deferred(&mut self) -> Option<(Cell, Part)> {
        self.deferred.pop()
    }

    /// Forgets what only one collection needs.
    pub(crate) fn finish(&mut self) {
        self.grey.clear_and_release();
        self.deferred.clear();
        self.coming = Coming::new();
        self.aside.clear_and_release();
        self.parents.clear_and_release();
        self.weak.clear_and_release();
        self.revisited.clear_and_release();
        self.dirty.clear();
        self.revisits_all = false;
        self.in_slices = false;
        self.is_last_stop = false;
        self.parent = 0;
        self.parent_is_old = false;
        self.finding_pins = false;
    }
}

/// Marked cells that were written to without saying what. A program that writes
/// to one cell again and again gets one entry for it, mostly: a table of what
/// was noted lately knows it.
#[derive(Debug)]
struct DirtyCells {
    cells: WordStack,
    lately: [usize; DIRTY_LATELY],
}

const DIRTY_LATELY: usize = 256;

impl DirtyCells {
    fn new(cells: usize) -> Result<Self, Refused> {
        Ok(Self {
            cells: WordStack::new(cells)?,
            lately: [0; DIRTY_LATELY],
        })
    }

    fn note(&mut self, address: usize) -> Result<(), Refused> {
        let place = &mut self.lately[(address >> 5) % DIRTY_LATELY];
        if *place == address {
            return Ok(());
        }
        *place = address;
        self.cells.push(address)
    }

    fn pop(&mut self) -> Option<usize> {
        let address = self.cells.pop()?;
        let place = &mut self.lately[(address >> 5) % DIRTY_LATELY];
        if *place == address {
            *place = 0;
        }
        Some(address)
    }

    fn clear(&mut self) {
        self.cells.clear_and_release();
        self.lately = [0; DIRTY_LATELY];
    }
}
