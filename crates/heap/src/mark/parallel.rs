//! Marking by several threads at once, with the program stopped.
//!
//! Every worker has a few thousand grey cells of its own and traces the latest
//! first. What does not fit, and some of the rest when others have nothing to do,
//! goes on a pile from which every worker takes:
//!
//! ```text
//! collecting thread ⇄ ┌───────────┐ ⇄ helper
//!         ↑           │   pile    │ ⇄ helper
//!         └───────────┤ set aside │ ← cells that only the VM can trace
//!                     └───────────┘
//! ```
//!
//! Helpers trace what takes no more than reading memory
//! ([`TraceCommon`](crate::vm::TraceCommon)); whatever else they find is set aside
//! for the collecting thread, so no code of the VM runs on them.
//!
//! Cells are marked by plain loads and stores. Two workers that find a white cell
//! at the same time both trace it, which does no harm, as both store the same
//! state: here it depends on nothing but the state that the cell had
//! ([`CellState::found_by_several`]). (Exchanges would keep the processor from
//! waiting for several cells at once: they made marking a quarter slower.) So
//!
//! * cells are counted afterwards, in the table of states;
//! * that a cell is old because an old one refers to it, which depends on more, is
//!   settled afterwards by one thread, for the old cells that were seen to refer
//!   to a young one;
//! * a cell that is to be remembered, once, is marked by an exchange.

use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::allowance::Allowance;
use super::coming::Coming;
use super::helpers::THREADS_MAX;
use super::marker::Marker;
use super::tracer::Trace;
use crate::heap::Heap;
use crate::layout::cell_state::CellState;
use crate::layout::region::{Cell, States};
use crate::os::WordStack;
use crate::vm::{TraceCommon, Vm};

/// When several threads mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParallelMarking {
    /// Threads that mark, the collecting one included, 1 to
    /// [`THREADS_MAX`](super::helpers::THREADS_MAX).
    pub threads: usize,
    /// So many cells are marked by one thread before the others are called,
    /// unless the latest collection has found as many.
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

impl<V: Vm> Heap<'_, V> {
    /// When several threads mark.
    pub fn parallel_marking(&self) -> ParallelMarking {
        self.parallel.get()
    }

    /// Chooses when several threads mark. Helpers that exist go on to wait for
    /// work, even if fewer are wanted.
    pub fn set_parallel_marking(&self, parallel: ParallelMarking) {
        self.parallel.set(ParallelMarking {
            threads: parallel.threads.clamp(1, THREADS_MAX),
            ..parallel
        });
    }

    /// Traces what is grey with several threads when there is much to do in a
    /// full collection; afterwards nothing is grey but what did not fit on the
    /// stacks. The program must not run again before marking is over, so what is
    /// traced here is traced for good. While pins are being found one thread
    /// marks: what pins says so at any moment.
    pub(crate) fn trace_together(&self) {
        let ParallelMarking { threads, cells_min } = self.parallel.get();
        if threads < 2 || !self.is_marking_fully() || self.finds_pins() {
            return;
        }
        if self.with_marker(|marker| marker.has_no_grey()) {
            return;
        }
        let is_short = self.stats().marked_cells < cells_min;
        if is_short && self.trace_grey(&mut Allowance::cells(cells_min)) {
            return;
        }
        let pile = self.with_marker(Pile::take_from);
        let (states, common) = (self.states(), self.vm.common());
        let job = || help(&pile, states, common);
        self.shared()
            .helpers
            .share(threads - 1, &job, || self.lead(&pile));
        let counts = self.count_marked_cells();
        self.with_marker(|marker| {
            let threads = pile.give_back(marker);
            marker.threads = marker.threads.max(threads);
            (marker.marked_cells, marker.old_cells) = counts;
            marker.regard_parents();
        });
    }

    /// Counts marked cells, and those of them that are old.
    fn count_marked_cells(&self) -> (usize, usize) {
        /// The lowest bit of each of eight states.
        const ONES: u64 = u64::from_ne_bytes([1; 8]);
        const MARKED: u32 = CellState::MARKED.trailing_zeros();
        const OLD: u32 = CellState::OLD.trailing_zeros();
        let (mut marked, mut old) = (0, 0);
        for (block, _) in self.space().cell_blocks() {
            for word in self.region().state_words_of(block) {
                let word = word.load(Relaxed);
                let marked_here = word >> MARKED & ONES;
                marked += marked_here.count_ones() as usize;
                old += (marked_here & word >> OLD).count_ones() as usize;
            }
        }
        (marked, old)
    }

    /// The collecting thread's part of a marking.
    fn lead(&self, pile: &Pile) {
        let mut own = self.with_marker(|marker| std::mem::take(&mut marker.own));
        let mut worker = Worker::collecting(pile, self.states(), &mut own);
        let leader = Leader::new(self, &raw mut worker);
        loop {
            while let Some(cell) = leader.worker().pop() {
                leader.trace(cell);
                if leader.worker().traced(cell) && pile.has_set_aside() {
                    leader.trace_set_aside();
                }
            }
            match leader.worker().supply() {
                Supply::Grey => {}
                Supply::Aside => leader.trace_set_aside(),
                Supply::Over => break,
            }
        }
        drop(leader);
        drop(worker);
        self.with_marker(|marker| marker.own = own);
    }

    /// Marks `cell` while several threads do, as a reference of the cell that the
    /// collecting thread is tracing.
    #[cold]
    #[inline(never)]
    pub(crate) fn mark_together(&self, worker: *mut Worker<'static>, cell: Cell, is_old: bool) {
        // SAFETY: the marker has the worker while the collecting thread, which
        // this is, leads; it has no reference into it while it traces a cell.
        unsafe { SharedTracer::of(worker, is_old) }.mark(cell);
    }

    /// Makes a marked cell grey while several threads mark.
    pub(crate) fn push_together(&self, worker: *mut Worker<'static>, cell: Cell) {
        // SAFETY: as in `mark_together`.
        unsafe { (*worker).push(cell) };
    }
}

/// The collecting thread among the workers: marks may come back through the VM,
/// so it reaches its worker by the pointer that the marker has.
struct Leader<'heap, 'shared, 'worker, V: Vm> {
    heap: &'heap Heap<'shared, V>,
    worker: *mut Worker<'worker>,
}

impl<'heap, 'shared, 'worker, V: Vm> Leader<'heap, 'shared, 'worker, V> {
    fn new(heap: &'heap Heap<'shared, V>, worker: *mut Worker<'worker>) -> Self {
        heap.with_marker(|marker| marker.worker = worker.cast());
        Self { heap, worker }
    }

    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "the leader owns the worker")]
    fn worker(&self) -> &mut Worker<'worker> {
        // SAFETY: the worker outlives its leader, and every reference to it is
        // used up before the next one is made, or a cell traced.
        unsafe { &mut *self.worker }
    }

    #[inline(always)]
    fn trace(&self, cell: Cell) {
        let is_old = self.heap.states().get(cell).is_old();
        self.heap.with_marker(|marker| {
            marker.parent_is_old = is_old;
            marker.parent = cell.address();
        });
        // SAFETY: as in `worker`; while a cell is being traced only tracers use it.
        let tracer = unsafe { SharedTracer::of(self.worker, is_old) };
        self.heap.vm.trace_cell(self.heap, cell, &tracer);
    }

    fn trace_set_aside(&self) {
        for cell in self.worker().take_set_aside() {
            self.trace(cell);
            self.worker().traced(cell);
        }
    }
}

impl<V: Vm> Drop for Leader<'_, '_, '_, V> {
    fn drop(&mut self) {
        self.heap.with_marker(|marker| marker.worker = null_mut());
    }
}

/// Grey cells of a worker's own.
const OWN_CELLS: usize = 2048;
/// Cells that a worker takes from the pile at most, and that the pile should have.
const BATCH_CELLS: usize = 256;
/// Own cells of which half is worth giving away, while the others have work and
/// while one has none.
const SHARED_CELLS_MIN: usize = 64;
const SHARED_CELLS_MIN_WHILE_WAITED_FOR: usize = 8;
/// Cells traced between two looks at the pile.
const CELLS_PER_LOOK: u32 = 32;
/// Cells that are set aside, or remembered, before the pile gets them.
const NOTED_CELLS: usize = 64;

/// Places for a worker's own grey cells. Those of the collecting thread, whose
/// stack may be short, are the marker's.
pub(crate) fn own_cells() -> Box<[usize]> {
    vec![0; OWN_CELLS].into_boxed_slice()
}

/// What all workers share. Every one looks at it now and then, so it has cache
/// lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Pile {
    stacks: Mutex<Stacks>,
    /// There are cells to take, or marking is over.
    changed: Condvar,
    // What the stacks held a moment ago, to be looked at without the lock.
    grey_cells: AtomicUsize,
    aside_cells: AtomicUsize,
    waiting: AtomicUsize,
}

/// Marking is over when all who work wait, and both stacks are empty. This is
/// known for certain, because
///
/// * a worker that waits has no grey cell: none of its own, and none that it has
///   set aside or is tracing;
/// * it stops waiting only by taking cells, or with marking over;
/// * only who works and does not wait adds to the stacks;
/// * all this changes with the lock held.
///
/// So at that moment no cell is grey anywhere and nobody could make one grey. Who
/// comes later finds it over.
#[derive(Debug)]
struct Stacks {
    grey: WordStack,
    /// Grey cells that only the collecting thread can trace.
    aside: WordStack,
    remembered: WordStack,
    working: usize,
    waiting: usize,
    /// Each of those has been called since it began to wait, and will look.
    called: bool,
    over: bool,
    /// Some grey cells are on no stack.
    overflowed: bool,
    remembered_overflowed: bool,
    /// Old cells that refer to young ones.
    parents: WordStack,
    /// Workers that have traced anything.
    threads: usize,
}

impl Pile {
    /// A pile of what `marker` has. Until [`Pile::give_back`] the marker can
    /// neither push nor remember.
    pub(crate) fn take_from(marker: &mut Marker) -> Self {
        marker.stop_fetching();
        let stacks = Stacks {
            grey: std::mem::take(&mut marker.grey),
            aside: std::mem::take(&mut marker.aside),
            remembered: std::mem::take(&mut marker.remembered),
            working: 0,
            waiting: 0,
            called: false,
            over: false,
            overflowed: false,
            remembered_overflowed: false,
            parents: std::mem::take(&mut marker.parents),
            threads: 0,
        };
        Self {
            grey_cells: AtomicUsize::new(stacks.grey.len()),
            aside_cells: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            changed: Condvar::new(),
            stacks: Mutex::new(stacks),
        }
    }

    /// Gives `marker` its stacks when all workers have left. Says how many there
    /// were.
    pub(crate) fn give_back(self, marker: &mut Marker) -> usize {
        let stacks = self.stacks.into_inner();
        let stacks = stacks.unwrap_or_else(PoisonError::into_inner);
        debug_assert!(stacks.working == 0);
        marker.grey = stacks.grey;
        marker.aside = stacks.aside;
        marker.remembered = stacks.remembered;
        marker.parents = stacks.parents;
        marker.overflowed |= stacks.overflowed;
        marker.remembered_overflowed |= stacks.remembered_overflowed;
        stacks.threads
    }

    fn lock(&self) -> MutexGuard<'_, Stacks> {
        self.stacks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether cells wait for the collecting thread.
    #[inline(always)]
    pub(crate) fn has_set_aside(&self) -> bool {
        self.aside_cells.load(Relaxed) > 0
    }

    /// Shows the numbers to those who have not got the lock.
    fn show(&self, stacks: &Stacks) {
        self.grey_cells.store(stacks.grey.len(), Relaxed);
        self.aside_cells.store(stacks.aside.len(), Relaxed);
        self.waiting.store(stacks.waiting, Relaxed);
    }

    /// There is more on the stacks than before, or marking is over.
    fn call(&self, stacks: &mut Stacks) {
        self.show(stacks);
        if stacks.waiting > 0 && !stacks.called {
            stacks.called = true;
            self.changed.notify_all();
        }
    }
}

impl Stacks {
    fn push(&mut self, words: &[usize]) {
        for &word in words {
            self.overflowed |= self.grey.push(word).is_err();
        }
    }

    fn set_aside(&mut self, words: &[usize]) {
        for &word in words {
            self.overflowed |= self.aside.push(word).is_err();
        }
    }

    fn remember(&mut self, words: &[usize]) {
        for &word in words {
            self.remembered_overflowed |= self.remembered.push(word).is_err();
        }
    }

    /// Without room for them every marked cell is traced again.
    fn note_parents(&mut self, words: &[usize]) {
        for &word in words {
            self.overflowed |= self.parents.push(word).is_err();
        }
    }
}

/// What a worker that has nothing left gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Supply {
    /// Grey cells of its own.
    Grey,
    /// There are cells that only the collecting thread, which this is, can trace.
    Aside,
    /// Nothing: marking is over.
    Over,
}

/// One thread's part of a marking, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Worker<'a> {
    pile: &'a Pile,
    states: States<'a>,
    is_collecting_thread: bool,
    own: &'a mut [usize],
    own_count: usize,
    coming: Coming,
    aside: Noted,
    remembered: Noted,
    parents: Noted,
    /// The cell being traced is old and refers to a young one.
    has_young_child: bool,
    has_traced: bool,
    until_look: u32,
}

/// A few cells.
#[derive(Debug)]
struct Noted {
    words: [usize; NOTED_CELLS],
    count: usize,
}

impl Noted {
    const fn new() -> Self {
        Self {
            words: [0; NOTED_CELLS],
            count: 0,
        }
    }

    /// Adds a cell; false when that was the last place.
    fn add(&mut self, cell: Cell) -> bool {
        self.words[self.count] = cell.address();
        self.count += 1;
        self.count < NOTED_CELLS
    }

    fn take(&mut self) -> &[usize] {
        &self.words[..std::mem::take(&mut self.count)]
    }
}

impl<'a> Worker<'a> {
    /// The part of the collecting thread, which ends the marking when it leaves.
    pub(crate) fn collecting(pile: &'a Pile, states: States<'a>, own: &'a mut [usize]) -> Self {
        pile.lock().working += 1;
        Self::new(pile, states, own, true)
    }

    /// The part of a helper; `None` when marking is over.
    fn helping(pile: &'a Pile, states: States<'a>, own: &'a mut [usize]) -> Option<Self> {
        let mut stacks = pile.lock();
        if stacks.over {
            return None;
        }
        stacks.working += 1;
        drop(stacks);
        Some(Self::new(pile, states, own, false))
    }

    fn new(
        pile: &'a Pile,
        states: States<'a>,
        own: &'a mut [usize],
        is_collecting_thread: bool,
    ) -> Self {
        Self {
            pile,
            states,
            is_collecting_thread,
            own,
            own_count: 0,
            coming: Coming::new(),
            aside: Noted::new(),
            remembered: Noted::new(),
            parents: Noted::new(),
            has_young_child: false,
            has_traced: false,
            until_look: CELLS_PER_LOOK,
        }
    }

    /// The next cell to trace, of its own.
    #[inline(always)]
    fn pop(&mut self) -> Option<Cell> {
        let word = self.coming.next(|| {
            self.own_count = self.own_count.checked_sub(1)?;
            Some(self.own[self.own_count])
        })?;
        // SAFETY: only cells are pushed.
        Some(unsafe { Cell::from_address(word) })
    }

    #[inline(always)]
    fn push(&mut self, cell: Cell) {
        if self.own_count == self.own.len() {
            self.give(self.own_count / 4 * 3);
        }
        self.own[self.own_count] = cell.address();
        self.own_count += 1;
    }

    /// Puts the `count` oldest cells on the pile: the most hangs on them, mostly.
    #[cold]
    #[inline(never)]
    fn give(&mut self, count: usize) {
        let mut stacks = self.pile.lock();
        stacks.push(&self.own[..count]);
        self.pile.call(&mut stacks);
        drop(stacks);
        self.own.copy_within(count..self.own_count, 0);
        self.own_count -= count;
    }

    /// `cell` has been traced; true at every so many, when it is time to look
    /// at the pile.
    #[inline(always)]
    fn traced(&mut self, cell: Cell) -> bool {
        if self.has_young_child {
            self.note_parent(cell);
        }
        self.until_look -= 1;
        self.until_look == 0 && self.look()
    }

    #[cold]
    #[inline(never)]
    fn note_parent(&mut self, cell: Cell) {
        self.has_young_child = false;
        if !self.parents.add(cell) {
            self.pile.lock().note_parents(self.parents.take());
        }
    }

    /// Gives cells away when the pile has few.
    #[cold]
    #[inline(never)]
    fn look(&mut self) -> bool {
        self.until_look = CELLS_PER_LOOK;
        self.has_traced = true;
        let on_pile = self.pile.grey_cells.load(Relaxed);
        let worth = if on_pile == 0 && self.pile.waiting.load(Relaxed) > 0 {
            SHARED_CELLS_MIN_WHILE_WAITED_FOR
        } else {
            SHARED_CELLS_MIN
        };
        if self.own_count >= worth && on_pile < BATCH_CELLS {
            self.give(self.own_count / 2);
        }
        true
    }

    /// Leaves `cell` to the collecting thread.
    fn set_aside(&mut self, cell: Cell) {
        if !self.aside.add(cell) {
            let mut stacks = self.pile.lock();
            stacks.set_aside(self.aside.take());
            self.pile.call(&mut stacks);
        }
    }

    #[cold]
    fn remember(&mut self, cell: Cell) {
        if !self.remembered.add(cell) {
            self.pile.lock().remember(self.remembered.take());
        }
    }

    /// Waits for cells when it has none of its own.
    pub(crate) fn supply(&mut self) -> Supply {
        debug_assert!(self.own_count == 0 && self.coming.is_empty());
        let mut stacks = self.pile.lock();
        if self.aside.count > 0 {
            stacks.set_aside(self.aside.take());
            self.pile.call(&mut stacks);
        }
        stacks.waiting += 1;
        let supply = loop {
            if stacks.over {
                break Supply::Over;
            }
            if self.is_collecting_thread && !stacks.aside.is_empty() {
                break Supply::Aside;
            }
            if !stacks.grey.is_empty() {
                self.take_grey(&mut stacks);
                break Supply::Grey;
            }
            if stacks.waiting == stacks.working && stacks.aside.is_empty() {
                stacks.over = true;
                self.pile.call(&mut stacks);
                break Supply::Over;
            }
            stacks.called = false;
            self.pile.show(&stacks);
            let waited = self.pile.changed.wait(stacks);
            stacks = waited.unwrap_or_else(PoisonError::into_inner);
        };
        stacks.waiting -= 1;
        self.pile.show(&stacks);
        supply
    }

    /// Takes its share of the pile.
    fn take_grey(&mut self, stacks: &mut Stacks) {
        let share = stacks.grey.len().div_ceil(stacks.working);
        while self.own_count < share.min(BATCH_CELLS) {
            let Some(word) = stacks.grey.pop() else {
                return;
            };
            self.own[self.own_count] = word;
            self.own_count += 1;
        }
    }

    /// Takes some of the cells that are set aside.
    pub(crate) fn take_set_aside(&mut self) -> impl Iterator<Item = Cell> {
        let mut words = [0; NOTED_CELLS];
        let mut count = 0;
        let mut stacks = self.pile.lock();
        while count < NOTED_CELLS {
            let Some(word) = stacks.aside.pop() else {
                break;
            };
            words[count] = word;
            count += 1;
        }
        self.pile.show(&stacks);
        drop(stacks);
        self.has_traced = true;
        // SAFETY: only cells are set aside.
        let cell = |word| unsafe { Cell::from_address(word) };
        words.into_iter().take(count).map(cell)
    }

    /// Traces whatever is grey and can be traced here, until marking is over.
    fn help(&mut self, common: impl TraceCommon) {
        loop {
            while let Some(cell) = self.pop() {
                let tracer = SharedTracer::new(self, cell);
                if !common.trace_cell(cell, &tracer) {
                    self.set_aside(cell);
                }
                self.traced(cell);
            }
            if self.supply() == Supply::Over {
                return;
            }
        }
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        let mut stacks = self.pile.lock();
        stacks.working -= 1;
        stacks.remember(self.remembered.take());
        stacks.note_parents(self.parents.take());
        stacks.threads += usize::from(self.has_traced);
        if self.is_collecting_thread {
            // It is already, unless tracing has panicked.
            stacks.over = true;
            self.pile.changed.notify_all();
        }
    }
}

/// What a helper does in one marking.
pub(crate) fn help(pile: &Pile, states: States<'_>, common: impl TraceCommon) {
    let mut own = [0; OWN_CELLS];
    let worker = Worker::helping(pile, states, &mut own);
    if let Some(mut worker) = worker {
        worker.help(common);
    }
}

/// Marks cells on behalf of one worker.
#[derive(Debug)]
pub struct SharedTracer<'worker> {
    states: States<'worker>,
    /// Of this thread alone.
    worker: *mut Worker<'worker>,
    parent_is_old: bool,
    worker_lives: PhantomData<&'worker Pile>,
}

impl<'worker> SharedTracer<'worker> {
    /// A tracer for the references of `parent`.
    #[inline(always)]
    pub(crate) fn new(worker: &mut Worker<'worker>, parent: Cell) -> Self {
        let parent_is_old = worker.states.get(parent).is_old();
        // SAFETY: the worker is borrowed now, and is used through the tracer
        // alone until the cell has been traced.
        unsafe { Self::of(worker, parent_is_old) }
    }

    /// A tracer for references of a cell that is old, or not.
    ///
    /// # Safety
    /// `worker` must be valid, and nobody else may use it while the tracer marks.
    #[inline(always)]
    pub(crate) unsafe fn of(worker: *mut Worker<'worker>, parent_is_old: bool) -> Self {
        Self {
            // SAFETY: the caller's contract.
            states: unsafe { (*worker).states },
            worker,
            parent_is_old,
            worker_lives: PhantomData,
        }
    }
}

impl SharedTracer<'_> {
    /// Notes when an old cell refers to one that is young, as far as is known.
    #[inline(always)]
    fn regard_age(&self, child: CellState) {
        if self.parent_is_old && !child.is_old() {
            // SAFETY: as in `mark`.
            unsafe { (*self.worker).has_young_child = true };
        }
    }

    /// Marks a cell that is to be remembered; false when another worker has.
    #[cold]
    fn remember(&self, cell: Cell, state: CellState, found: CellState) -> bool {
        let entry = self.states.entry_of(cell);
        let exchanged = entry.compare_exchange(state.0, found.0, Relaxed, Relaxed);
        if exchanged.is_ok() {
            // SAFETY: as in `mark`.
            unsafe { (*self.worker).remember(cell) };
        }
        exchanged.is_ok()
    }
}

impl Trace for SharedTracer<'_> {
    #[inline(always)]
    fn mark(&self, cell: Cell) {
        let state = self.states.get(cell);
        debug_assert!(state.is_live(), "marking a free cell at {cell:?}");
        if state.is_marked() {
            self.regard_age(state);
            return;
        }
        let found = state.found_by_several();
        if found.is_remembered() && !self.remember(cell, state, found) {
            return;
        }
        self.states.set(cell, found);
        self.regard_age(found);
        // SAFETY: only this thread has the worker, and no reference into it is
        // held across this call.
        unsafe { (*self.worker).push(cell) };
    }

    #[inline(always)]
    fn pin(&self, cell: Cell) {
        self.mark(cell);
    }

    /// What pins is found by one thread.
    #[inline(always)]
    fn finds_pins(&self) -> bool {
        false
    }
}
