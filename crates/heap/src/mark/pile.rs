//! Marking by several threads at once, with the program stopped.
//!
//! Every worker has a few thousand grey cells of its own and traces the latest first. What
//! does not fit, and some of the rest when others have nothing to do, goes on a pile from
//! which every worker steals:
//!
//! ```text
//! collecting thread ⇄ ┌───────────┐ ⇄ helper
//!         ↑           │   pile    │ ⇄ helper
//!         └───────────┤ set aside │ ← cells that only the VM can trace
//!                     └───────────┘
//! ```
//!
//! Helpers trace what takes no more than reading memory ([`TraceCommon`]); whatever else they
//! find is set aside for the collecting thread, so no code of the VM runs on them.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::deferred::Deferred;
use super::grey::GreyStack;
use super::pool::{ThreadPool, THREADS_MAX};
use super::sets::CellSet;
use super::trace::TraceCommon;
use super::worker::{MarkCounts, Sink, Worker};
use super::Mode;
use crate::layout::cell_state::{CellState, Wants};
use crate::layout::region::{Cell, States};
use crate::os::Refused;
use crate::stack::Stack;

/// When several threads mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParallelMarking {
    /// Threads that mark, the collecting one included, 1 to [`THREADS_MAX`].
    pub threads: usize,
    /// Cells that one thread marks before the others are called. They are called at once if the
    /// latest collection found as many.
    pub cells_min: usize,
}

impl Default for ParallelMarking {
    fn default() -> Self {
        Self {
            threads: 1,
            cells_min: 100_000,
        }
    }
}

impl ParallelMarking {
    /// The same, with `threads` from 1 to [`THREADS_MAX`].
    pub(crate) fn within_bounds(self) -> Self {
        Self {
            threads: self.threads.clamp(1, THREADS_MAX),
            ..self
        }
    }
}

/// The threads of one marking.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Team<'a> {
    pub(super) pool: &'a ThreadPool,
    pub(super) wanted_helpers: usize,
    /// Cells that the collecting thread marks before it calls the helpers.
    pub(super) cells_alone: usize,
}

impl<'a> Team<'a> {
    /// The threads that a marking may have after one that found `latest_cells`; `None` when only
    /// the collecting thread is to mark.
    pub(crate) fn of(
        pool: &'a ThreadPool,
        parallel: ParallelMarking,
        latest_cells: usize,
    ) -> Option<Self> {
        let is_short = latest_cells < parallel.cells_min;
        (parallel.threads > 1).then_some(Self {
            pool,
            wanted_helpers: parallel.threads - 1,
            cells_alone: if is_short { parallel.cells_min } else { 0 },
        })
    }
}

/// Grey cells of a worker's own.
const OWN_CELLS: usize = 2048;
/// The most cells that a worker steals at once. Workers give cells away while the pile has fewer.
const BATCH_CELLS: usize = 256;
/// With at least this many own cells a worker gives half of them away. The second number holds
/// while the pile is empty and another worker waits, the first otherwise.
const SHARED_CELLS_MIN: usize = 64;
const SHARED_CELLS_MIN_WHILE_WAITED_FOR: usize = 8;
/// Cells traced between two looks at the pile.
const CELLS_PER_LOOK: u32 = 32;
/// How many cells are set aside, or get into a set, before the pile gets them; and how many of
/// those set aside the collecting thread traces before it looks at others.
const NOTED_CELLS: usize = 64;

/// Cells that any worker may take. Every worker looks at the pile now and then, so it has cache
/// lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Pile {
    stacks: Mutex<Stacks>,
    /// There are cells to take, or marking is over.
    changed: Condvar,
    // What the stacks held a moment ago, to be read without the lock.
    grey_cells: AtomicUsize,
    aside_cells: AtomicUsize,
    waiting: AtomicUsize,
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
    pub(super) grey: GreyStack,
    /// Grey cells that only the collecting thread can trace.
    pub(super) aside: Stack<Cell>,
    pub(super) remembered: CellSet,
    pub(super) boundary: CellSet,
    /// What the workers that have left have marked, and how many of these have traced anything.
    pub(super) counts: MarkCounts,
    pub(super) working: usize,
    pub(super) waiting: usize,
    /// Every waiting worker has been called since it began to wait, and will look.
    pub(super) called: bool,
    pub(super) over: bool,
}

impl Pile {
    /// A pile of what is on `stacks`.
    pub(super) fn new(stacks: Stacks) -> Self {
        Self {
            grey_cells: AtomicUsize::new(stacks.grey.unfetched()),
            aside_cells: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            changed: Condvar::new(),
            stacks: Mutex::new(stacks),
        }
    }

    /// What is left when all workers have gone.
    pub(super) fn into_stacks(self) -> Stacks {
        let stacks = self.stacks.into_inner();
        let stacks = stacks.unwrap_or_else(PoisonError::into_inner);
        debug_assert!(stacks.working == 0);
        stacks
    }

    fn lock(&self) -> MutexGuard<'_, Stacks> {
        self.stacks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows the numbers to those who do not hold the lock.
    fn show(&self, stacks: &Stacks) {
        self.grey_cells.store(stacks.grey.unfetched(), Relaxed);
        self.aside_cells.store(stacks.aside.len(), Relaxed);
        self.waiting.store(stacks.waiting, Relaxed);
    }

    /// Wakes those who wait: there is more on the stacks than before, or marking is over.
    fn call(&self, stacks: &mut Stacks) {
        self.show(stacks);
        if stacks.waiting > 0 && !stacks.called {
            stacks.called = true;
            self.changed.notify_all();
        }
    }

    /// What a helper does in one marking: nothing when marking is over, or when memory is out.
    pub(super) fn help(&self, states: States<'_>, common: impl TraceCommon, looks_ahead: bool) {
        // The collecting thread waits for a helper that comes too late, so such a helper asks the
        // system for nothing.
        if self.lock().over {
            return;
        }
        if let Ok(mut own) = Own::new() {
            if let Some(mut at_work) = AtWork::at(self, states, &mut own, false) {
                let set_aside = &mut |member: &mut Member<'_>, cell, _| member.set_aside(cell);
                at_work.member.work_looking(common, looks_ahead, set_aside);
            }
        }
    }

    /// What the collecting thread does: it ends the marking, and traces with `by_vm` what
    /// only the VM can.
    pub(super) fn lead(
        &self,
        states: States<'_>,
        own: &mut Own,
        common: impl TraceCommon,
        looks_ahead: bool,
        by_vm: ByVm<'_>,
    ) {
        if let Some(mut at_work) = AtWork::at(self, states, own, true) {
            at_work.member.work_looking(common, looks_ahead, by_vm);
        }
    }
}

/// Traces a cell that only the VM can trace, given what the cell wants of those that it refers
/// to. On a helper, sets the cell aside.
pub(super) type ByVm<'a> = &'a mut dyn FnMut(&mut Member<'_>, Cell, Wants);

/// What a worker has to itself while it is one of several, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Own {
    worker: Worker,
    aside: Batch,
    remembered: Batch,
    boundary: Batch,
    has_traced: bool,
    until_look: u32,
}

impl Own {
    pub(super) fn new() -> Result<Self, Refused> {
        let mut worker = Worker::new(OWN_CELLS)?;
        worker.grey.limit(OWN_CELLS);
        Ok(Self {
            worker,
            aside: Batch::new(),
            remembered: Batch::new(),
            boundary: Batch::new(),
            has_traced: false,
            until_look: CELLS_PER_LOOK,
        })
    }

    /// Prepares for another marking.
    pub(super) fn begin(&mut self) {
        debug_assert!(self.worker.grey.is_empty());
        self.worker.counts = MarkCounts::default();
        self.has_traced = false;
        self.until_look = CELLS_PER_LOOK;
    }
}

/// A few cells on their way to the pile.
#[derive(Debug)]
struct Batch {
    cells: [Cell; NOTED_CELLS],
    count: usize,
}

impl Batch {
    const fn new() -> Self {
        Self {
            cells: [Cell::NONE; NOTED_CELLS],
            count: 0,
        }
    }

    /// Adds a cell. Returns true when no room is left: then all have to be taken.
    fn push(&mut self, cell: Cell) -> bool {
        self.cells[self.count] = cell;
        self.count += 1;
        self.count == NOTED_CELLS
    }

    fn take(&mut self) -> &[Cell] {
        &self.cells[..std::mem::take(&mut self.count)]
    }
}

/// A worker at a pile.
#[derive(Debug)]
pub(super) struct Member<'c> {
    pile: &'c Pile,
    states: States<'c>,
    own: &'c mut Own,
    is_collecting_thread: bool,
}

impl Sink for Member<'_> {
    const IS_SHARED: bool = true;

    #[inline(always)]
    fn lent(&mut self) -> impl Sink {
        self.reborrow()
    }

    #[inline(always)]
    fn parts(&mut self) -> (&mut Worker, States<'_>) {
        (&mut self.own.worker, self.states)
    }

    #[inline(always)]
    fn exchange(&self, cell: Cell, before: CellState, after: CellState) -> bool {
        let entry = self.states.entry_of(cell);
        let exchanged = entry.compare_exchange(before.0, after.0, Relaxed, Relaxed);
        exchanged.is_ok()
    }

    fn add_bits(&self, cell: Cell, bits: u8) -> CellState {
        CellState(self.states.entry_of(cell).fetch_or(bits, Relaxed))
    }

    /// Puts the oldest cells on the pile: mostly they lead to more than others.
    #[cold]
    #[inline(never)]
    fn push_to_full(mut self, cell: Cell) {
        self.give(OWN_CELLS / 4 * 3);
        self.own.worker.grey.push_or_note(cell);
    }

    #[cold]
    fn remember(self, cell: Cell) {
        if self.own.remembered.push(cell) {
            let mut stacks = self.pile.lock();
            stacks.remembered.add_all(self.own.remembered.take());
        }
    }

    #[cold]
    #[inline(never)]
    fn add_to_boundary(self, cell: Cell) {
        let is_missing = |state: CellState| state.is_settled() && !state.is_on_boundary();
        let state = self.states.get(cell);
        let is_new = is_missing(state)
            && state.is_marked()
            && is_missing(self.add_bits(cell, CellState::BOUNDARY));
        if is_new && self.own.boundary.push(cell) {
            let mut stacks = self.pile.lock();
            stacks.boundary.add_all(self.own.boundary.take());
        }
    }

    /// The program does not run before marking is over, so nothing is put off.
    fn deferred(&mut self) -> Option<&mut Deferred> {
        None
    }
}

impl Member<'_> {
    /// The same member, lent for a while.
    #[inline(always)]
    pub(super) fn reborrow(&mut self) -> Member<'_> {
        Member {
            own: self.own,
            ..*self
        }
    }

    fn work_looking(&mut self, common: impl TraceCommon, looks_ahead: bool, by_vm: ByVm<'_>) {
        match looks_ahead {
            false => self.work::<false>(common, by_vm),
            true => self.work::<true>(common, by_vm),
        }
    }

    /// Traces whatever is grey, until marking is over; what only the VM can trace, with
    /// `by_vm`.
    fn work<const AHEAD: bool>(&mut self, common: impl TraceCommon, by_vm: ByVm<'_>) {
        loop {
            while let Some(cell) = self.pop::<AHEAD>() {
                let wants = self.states.get(cell).wants_of_children();
                if !self.trace::<AHEAD>(common, Mode::AtOnce, cell, wants) {
                    by_vm(self, cell, wants);
                }
                self.end_cell(cell, wants);
                self.own.until_look -= 1;
                if self.own.until_look == 0 {
                    self.look(by_vm);
                }
            }
            if AHEAD && self.lent().mark_waiting() {
                continue;
            }
            if !self.steal() {
                return;
            }
            self.trace_set_aside(by_vm);
        }
    }

    /// Gives cells away when the pile has few, and traces some of those set aside.
    #[cold]
    #[inline(never)]
    fn look(&mut self, by_vm: ByVm<'_>) {
        self.own.until_look = CELLS_PER_LOOK;
        self.own.has_traced = true;
        self.give_if_wanted();
        self.trace_set_aside(by_vm);
    }

    fn give_if_wanted(&mut self) {
        let on_pile = self.pile.grey_cells.load(Relaxed);
        let worth = if on_pile == 0 && self.pile.waiting.load(Relaxed) > 0 {
            SHARED_CELLS_MIN_WHILE_WAITED_FOR
        } else {
            SHARED_CELLS_MIN
        };
        let own_cells = self.own.worker.grey.unfetched();
        if own_cells >= worth && on_pile < BATCH_CELLS {
            self.give(own_cells / 2);
        }
    }

    /// Puts the `count` oldest cells on the pile.
    fn give(&mut self, count: usize) {
        let own = &mut self.own.worker.grey;
        let mut stacks = self.pile.lock();
        for &cell in own.oldest(count) {
            stacks.grey.push_or_note(cell);
        }
        self.pile.call(&mut stacks);
        drop(stacks);
        own.drop_oldest(count);
    }

    /// Leaves `cell` to the collecting thread.
    fn set_aside(&mut self, cell: Cell) {
        if self.own.aside.push(cell) {
            self.give_aside(&mut self.pile.lock());
        }
    }

    fn give_aside(&mut self, stacks: &mut Stacks) {
        for &cell in self.own.aside.take() {
            if stacks.aside.push(cell).is_err() {
                stacks.grey.note_overflow();
            }
        }
        self.pile.call(stacks);
    }

    /// Traces some of the cells that helpers have set aside.
    fn trace_set_aside(&mut self, by_vm: ByVm<'_>) {
        for _ in 0..NOTED_CELLS {
            if !self.is_collecting_thread || self.pile.aside_cells.load(Relaxed) == 0 {
                return;
            }
            let mut stacks = self.pile.lock();
            let Some(cell) = stacks.aside.pop() else {
                return;
            };
            self.pile.show(&stacks);
            drop(stacks);
            self.own.has_traced = true;
            let wants = self.states.get(cell).wants_of_children();
            by_vm(self, cell, wants);
            self.end_cell(cell, wants);
            self.give_if_wanted();
        }
    }

    /// Takes a share of the pile when no own cell is left; waits until the pile has something.
    /// For the collecting thread that may be a cell set aside. Returns false when marking is
    /// over.
    fn steal(&mut self) -> bool {
        let pile = self.pile;
        debug_assert!(self.own.worker.grey.is_empty() && self.own.worker.lookahead.is_empty());
        let mut stacks = pile.lock();
        if self.own.aside.count > 0 {
            self.give_aside(&mut stacks);
        }
        stacks.waiting += 1;
        let has_stolen = loop {
            if stacks.over {
                break false;
            }
            if self.is_collecting_thread && !stacks.aside.is_empty() {
                break true;
            }
            if stacks.grey.unfetched() > 0 {
                let share = stacks.grey.unfetched().div_ceil(stacks.working);
                let own = &mut self.own.worker.grey;
                stacks.grey.give_latest(share.min(BATCH_CELLS), own);
                break true;
            }
            if stacks.waiting == stacks.working && stacks.aside.is_empty() {
                stacks.over = true;
                pile.call(&mut stacks);
                break false;
            }
            stacks.called = false;
            pile.show(&stacks);
            let waited = pile.changed.wait(stacks);
            stacks = waited.unwrap_or_else(PoisonError::into_inner);
        };
        stacks.waiting -= 1;
        pile.show(&stacks);
        has_stolen
    }
}

/// A member that is counted among those at work, until this is dropped.
struct AtWork<'c> {
    member: Member<'c>,
}

impl<'c> AtWork<'c> {
    /// `None` when marking is over.
    fn at(
        pile: &'c Pile,
        states: States<'c>,
        own: &'c mut Own,
        is_collecting_thread: bool,
    ) -> Option<Self> {
        let mut stacks = pile.lock();
        if stacks.over {
            return None;
        }
        stacks.working += 1;
        Some(Self {
            member: Member {
                pile,
                states,
                own,
                is_collecting_thread,
            },
        })
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        let Member {
            pile,
            own,
            is_collecting_thread,
            ..
        } = &mut self.member;
        let mut stacks = pile.lock();
        stacks.working -= 1;
        stacks.remembered.add_all(own.remembered.take());
        stacks.boundary.add_all(own.boundary.take());
        stacks.counts.add(own.worker.counts);
        stacks.counts.threads += usize::from(own.has_traced);
        if own.worker.grey.has_overflowed() {
            stacks.grey.note_overflow();
        }

        if *is_collecting_thread {
            // Marking is over already, unless tracing has panicked.
            stacks.over = true;
            pile.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::region::Region;
    use crate::mark::trace::Trace;
    use crate::os::page_bytes;

    /// Another thread may be faster between a look at a state and the exchange.
    #[test]
    fn who_has_seen_a_state_that_is_not_the_latest_marks_for_what_is_still_wanted() {
        let region = Region::reserve(1, page_bytes()).unwrap();
        region.commit(1).unwrap();
        // SAFETY: the test uses it as a cell.
        let cell = unsafe { Cell::from_address(region.start()) };
        let marked = CellState::NEW.with(CellState::MARKED);
        let old = CellState::NEW.old_and_found();
        let unprotected = CellState::NEW_UNPROTECTED;
        let (wants, wants_old) = (Wants::MARKED, old.wants_of_children());
        let remembered = unprotected.old_and_found().with(CellState::REMEMBERED);
        for (seen, latest, wants, after, counted) in [
            (CellState::NEW, marked, wants, marked, [0, 0]),
            (CellState::NEW, old, wants_old, old, [0, 0]),
            (CellState::NEW, marked, wants_old, old, [-1, 1]),
            (marked, old, wants_old, old, [0, 0]),
            (CellState::NEW, unprotected, wants_old, remembered, [0, 1]),
            (unprotected, remembered, wants_old, remembered, [0, 0]),
        ] {
            let pile = Pile::new(Stacks::default());
            let mut own = Own::new().unwrap();
            let mut at_work = AtWork::at(&pile, region.states(), &mut own, true).unwrap();
            region.set_state(cell, latest);
            assert!(at_work.member.mark_and_compare(cell, seen, wants));
            assert_eq!(region.state_of(cell), after);
            let Own {
                worker, remembered, ..
            } = &mut at_work.member.own;
            let counts = [worker.counts.young_cells, worker.counts.old_cells];
            assert_eq!(counts.map(|count| count as isize), counted);
            let is_new = after != latest;
            assert_eq!(worker.grey.unfetched(), usize::from(is_new));
            let is_remembered = is_new && after.is_remembered();
            assert_eq!(remembered.count, usize::from(is_remembered));
        }
    }

    const CELL_BYTES: usize = 32;
    /// Enough that workers look at the pile, and give cells away.
    const CELLS: usize = if cfg!(miri) { 300 } else { 20_000 };

    /// Cells that refer to two others each, by their numbers.
    #[derive(Clone, Copy)]
    struct Numbered<'a> {
        region: &'a Region,
        /// How often each has been traced.
        traced: &'a [AtomicUsize],
    }

    impl Numbered<'_> {
        fn cell(&self, number: usize) -> Cell {
            // SAFETY: the test uses all multiples of this width in the first blocks as cells.
            unsafe { Cell::from_address(self.region.start() + number * CELL_BYTES) }
        }

        fn words(&self, cell: Cell) -> *mut [usize; 2] {
            self.region.pointer(cell.address()).cast()
        }
    }

    // SAFETY: the words of its cells are numbers of its cells.
    unsafe impl TraceCommon for Numbered<'_> {
        unsafe fn trace_cell(self, cell: Cell, tracer: &mut impl Trace) -> bool {
            let number = (cell.address() - self.region.start()) / CELL_BYTES;
            self.traced[number].fetch_add(1, Relaxed);
            // SAFETY: written before marking began, and not while it goes on.
            for child in unsafe { self.words(cell).read() } {
                tracer.mark(self.cell(child));
            }
            true
        }

        fn reference(self, _: usize) -> Option<Cell> {
            None
        }

        unsafe fn trace_below(self, _: Cell, _: usize, _: &mut impl Trace) -> usize {
            0
        }
    }

    /// Cells are read and written without any order of their own, and states without much: the
    /// locks of the pile and of the pool must give all that is needed. Miri's model of weak memory
    /// shows what a processor may do, and that no two threads use a cell's words at once.
    #[test]
    fn what_was_written_before_several_threads_mark_is_traced_and_their_marks_are_seen_afterwards()
    {
        let blocks = (CELLS * CELL_BYTES).div_ceil(crate::layout::BLOCK_BYTES);
        let region = Region::reserve(1, page_bytes()).unwrap();
        region.commit(blocks).unwrap();
        let pool = ThreadPool::default();
        for _ in 0..2 {
            let traced: Vec<_> = (0..CELLS).map(|_| AtomicUsize::new(0)).collect();
            let numbered = Numbered {
                region: &region,
                traced: &traced,
            };
            for number in 0..CELLS {
                let children = [2 * number + 1, 2 * number + 2].map(|child| child % CELLS);
                // SAFETY: nobody else has the cells.
                unsafe { numbered.words(numbered.cell(number)).write(children) };
                region.set_state(numbered.cell(number), CellState::NEW);
            }
            let (root, mut grey) = (numbered.cell(0), GreyStack::new(CELLS).unwrap());
            let marked = CellState::NEW.with(CellState::MARKED);
            region.set_state(root, marked);
            grey.push_or_note(root);
            let pile = Pile::new(Stacks {
                grey,
                ..Stacks::default()
            });
            let (states, mut own) = (region.states(), Own::new().unwrap());
            pool.run(2, &|| pile.help(states, numbered, false), || {
                pile.lead(
                    states,
                    &mut own,
                    numbered,
                    false,
                    &mut |_, _, _| unreachable!(),
                );
            });
            for (number, times) in traced.iter().enumerate() {
                let state = states.get(numbered.cell(number));
                assert_eq!((state, times.load(Relaxed)), (marked, 1), "{number}");
            }
            let left = pile.into_stacks();
            assert!(left.grey.is_empty() && !left.grey.has_overflowed());
            // Nobody has counted the root.
            assert_eq!(left.counts.marked_cells(), CELLS - 1);
        }
    }
}
