//! What all workers of a marking share.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::layout::region::Cell;
use crate::stack::Stack;

/// Cells that any worker may take. Every one looks at it now and then, so it has
/// cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(in crate::mark) struct Pile {
    stacks: Mutex<Stacks>,
    /// There are cells to take, or marking is over.
    pub(super) changed: Condvar,
    // What the stacks held a moment ago, to be looked at without the lock.
    pub(super) grey_cells: AtomicUsize,
    aside_cells: AtomicUsize,
    pub(super) waiting: AtomicUsize,
}

/// Marking is over when all who work wait, and both stacks are empty. This is
/// known for certain, because
///
/// * a worker that waits has no grey cell: none of its own, and none that it has
///   set aside or is tracing; and it has marked all references that it found;
/// * it stops waiting only by taking cells, or with marking over;
/// * only who works and does not wait adds to the stacks;
/// * all this changes with the lock held.
///
/// So at that moment no cell is grey anywhere and nobody could make one grey. Who
/// comes later finds it over.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    pub(super) grey: Stack<Cell>,
    /// Grey cells that only the collecting thread can trace.
    pub(super) aside: Stack<Cell>,
    pub(super) remembered: Stack<Cell>,
    pub(super) working: usize,
    pub(super) waiting: usize,
    /// Each of those has been called since it began to wait, and will look.
    pub(super) called: bool,
    pub(super) over: bool,
    /// Some grey cells are on no stack.
    pub(super) overflowed: bool,
    pub(super) remembered_overflowed: bool,
    /// Cells that refer to younger ones.
    pub(super) parents: Stack<Cell>,
    /// Workers that have traced anything.
    pub(super) threads: usize,
}

impl Pile {
    /// A pile of what is on `stacks`.
    pub(super) fn new(stacks: Stacks) -> Self {
        Self {
            grey_cells: AtomicUsize::new(stacks.grey.len()),
            aside_cells: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            changed: Condvar::new(),
            stacks: Mutex::new(stacks),
        }
    }

    /// What is left when all workers have gone.
    pub(super) fn into_stacks(self) -> Stacks {
        let stacks = self.stacks.into_inner();
        stacks.unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Stacks> {
        self.stacks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether cells wait for the collecting thread.
    #[inline(always)]
    pub(super) fn has_set_aside(&self) -> bool {
        self.aside_cells.load(Relaxed) > 0
    }

    /// Shows the numbers to those who have not got the lock.
    pub(super) fn show(&self, stacks: &Stacks) {
        self.grey_cells.store(stacks.grey.len(), Relaxed);
        self.aside_cells.store(stacks.aside.len(), Relaxed);
        self.waiting.store(stacks.waiting, Relaxed);
    }

    /// There is more on the stacks than before, or marking is over.
    pub(super) fn call(&self, stacks: &mut Stacks) {
        self.show(stacks);
        if stacks.waiting > 0 && !stacks.called {
            stacks.called = true;
            self.changed.notify_all();
        }
    }
}

impl Stacks {
    pub(super) fn push(&mut self, cells: &[Cell]) {
        for &cell in cells {
            self.overflowed |= self.grey.push(cell).is_err();
        }
    }

    pub(super) fn set_aside(&mut self, cells: &[Cell]) {
        for &cell in cells {
            self.overflowed |= self.aside.push(cell).is_err();
        }
    }

    pub(super) fn remember(&mut self, cells: &[Cell]) {
        for &cell in cells {
            self.remembered_overflowed |= self.remembered.push(cell).is_err();
        }
    }

    /// Without room for them every marked cell is traced again.
    pub(super) fn note_parents(&mut self, cells: &[Cell]) {
        for &cell in cells {
            self.overflowed |= self.parents.push(cell).is_err();
        }
    }
}
