//! One thread's part of a marking.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::PoisonError;

use super::few::FewCells;
use super::pile::{Pile, Stacks};
use super::shared_tracer::SharedTracer;
use crate::layout::region::{Cell, States};
use crate::mark::lookahead::Lookahead;
use crate::mark::prefetch::PrefetchQueue;
use crate::mark::trace_common::TraceCommon;

/// Grey cells of a worker's own.
const OWN_CELLS: usize = 2048;
/// Cells that a worker takes from the pile at most, and that the pile should have.
const BATCH_CELLS: usize = 256;
/// With this many own cells a worker gives half of them away: while the others have
/// work, and while one has none.
const SHARED_CELLS_MIN: usize = 64;
const SHARED_CELLS_MIN_WHILE_WAITED_FOR: usize = 8;
/// Cells traced between two looks at the pile.
const CELLS_PER_LOOK: u32 = 32;
/// Cells that are set aside, or remembered, before the pile gets them.
const NOTED_CELLS: usize = 64;

/// What a thread has to itself while it marks, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(in crate::mark) struct Worker {
    own: FewCells<OWN_CELLS>,
    prefetched: PrefetchQueue,
    pub(super) lookahead: Lookahead,
    aside: FewCells<NOTED_CELLS>,
    remembered: FewCells<NOTED_CELLS>,
    parents: FewCells<NOTED_CELLS>,
    /// The parent that was noted last while marking looks ahead: each of its children asks
    /// for it, and to trace a table once for each of them would never end.
    latest_parent: Cell,
    /// The cell being traced is old and refers to a young one, or settled and refers to
    /// one that is not.
    pub(super) has_younger_child: bool,
    has_traced: bool,
    until_look: u32,
}

impl Worker {
    pub(super) const fn new() -> Self {
        Self {
            own: FewCells::new(),
            prefetched: PrefetchQueue::new(),
            lookahead: Lookahead::new(),
            aside: FewCells::new(),
            remembered: FewCells::new(),
            parents: FewCells::new(),
            latest_parent: Cell::NONE,
            has_younger_child: false,
            has_traced: false,
            until_look: CELLS_PER_LOOK,
        }
    }

    pub(super) fn boxed() -> Box<Self> {
        Box::new(Self::new())
    }

    /// The next cell to trace, of its own.
    #[inline(always)]
    fn pop<const AHEAD: bool>(&mut self, states: States<'_>) -> Option<Cell> {
        self.prefetched.next::<AHEAD>(states, || self.own.pop())
    }
}

/// What a worker that has nothing left gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refill {
    /// Grey cells of its own.
    Grey,
    /// There are cells that only the collecting thread, which this is, can trace.
    Aside,
    /// Nothing: marking is over.
    Over,
}

/// A worker at a pile.
#[derive(Debug)]
pub(in crate::mark) struct Member<'c> {
    pub(super) pile: &'c Pile,
    pub(super) states: States<'c>,
    pub(super) worker: &'c mut Worker,
}

impl Member<'_> {
    /// The same, for a while.
    #[inline(always)]
    pub(in crate::mark) fn reborrow(&mut self) -> Member<'_> {
        Member {
            pile: self.pile,
            states: self.states,
            worker: self.worker,
        }
    }

    #[inline(always)]
    pub(super) fn pop<const AHEAD: bool>(&mut self) -> Option<Cell> {
        loop {
            let cell = self.worker.pop::<AHEAD>(self.states);
            if cell.is_some() || !AHEAD || !self.mark_waiting() {
                return cell;
            }
        }
    }

    #[inline(always)]
    pub(in crate::mark) fn push(&mut self, cell: Cell) {
        if self.worker.own.is_full() {
            self.give(OWN_CELLS / 4 * 3);
        }
        self.worker.own.push(cell);
    }

    /// Puts the `count` oldest cells on the pile: mostly they lead to more than others.
    #[cold]
    #[inline(never)]
    fn give(&mut self, count: usize) {
        let mut stacks = self.pile.lock();
        stacks.push(self.worker.own.oldest(count));
        self.pile.call(&mut stacks);
        drop(stacks);
        self.worker.own.drop_oldest(count);
    }

    /// `cell` has been traced. True once for every so many cells, when it is time to
    /// look at the pile.
    #[inline(always)]
    pub(super) fn traced(&mut self, cell: Cell) -> bool {
        if self.worker.has_younger_child {
            self.worker.has_younger_child = false;
            self.note_parent(cell);
        }
        self.worker.until_look -= 1;
        self.worker.until_look == 0 && self.look()
    }

    /// Notes a cell that asks once for each child. The references of a cell wait one
    /// after the other, so it is the latest parent until all have been marked.
    #[cold]
    #[inline(never)]
    pub(super) fn note_parent_of_many(&mut self, cell: Cell) {
        if self.worker.latest_parent != cell {
            self.worker.latest_parent = cell;
            self.note_parent(cell);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_parent(&mut self, cell: Cell) {
        self.worker.parents.push(cell);
        if self.worker.parents.is_full() {
            self.pile.lock().note_parents(self.worker.parents.take());
        }
    }

    /// Gives cells away when the pile has few.
    #[cold]
    #[inline(never)]
    fn look(&mut self) -> bool {
        self.worker.until_look = CELLS_PER_LOOK;
        self.worker.has_traced = true;
        let on_pile = self.pile.grey_cells.load(Relaxed);
        let worth = if on_pile == 0 && self.pile.waiting.load(Relaxed) > 0 {
            SHARED_CELLS_MIN_WHILE_WAITED_FOR
        } else {
            SHARED_CELLS_MIN
        };
        let own_cells = self.worker.own.len();
        if own_cells >= worth && on_pile < BATCH_CELLS {
            self.give(own_cells / 2);
        }
        true
    }

    /// Leaves `cell` to the collecting thread.
    fn set_aside(&mut self, cell: Cell) {
        self.worker.aside.push(cell);
        if self.worker.aside.is_full() {
            let mut stacks = self.pile.lock();
            stacks.set_aside(self.worker.aside.take());
            self.pile.call(&mut stacks);
        }
    }

    #[cold]
    pub(super) fn remember(&mut self, cell: Cell) {
        self.worker.remembered.push(cell);
        if self.worker.remembered.is_full() {
            self.pile.lock().remember(self.worker.remembered.take());
        }
    }

    /// Waits for cells when it has none of its own.
    pub(super) fn refill(&mut self, is_collecting_thread: bool) -> Refill {
        let (pile, worker) = (self.pile, &mut *self.worker);
        debug_assert!(worker.own.len() == 0 && worker.prefetched.is_empty());
        debug_assert!(worker.lookahead.is_empty());
        let mut stacks = pile.lock();
        if worker.aside.len() > 0 {
            stacks.set_aside(worker.aside.take());
            pile.call(&mut stacks);
        }
        stacks.waiting += 1;
        let refill = loop {
            if stacks.over {
                break Refill::Over;
            }
            if is_collecting_thread && !stacks.aside.is_empty() {
                break Refill::Aside;
            }
            if !stacks.grey.is_empty() {
                self.take_grey(&mut stacks);
                break Refill::Grey;
            }
            if stacks.waiting == stacks.working && stacks.aside.is_empty() {
                stacks.over = true;
                pile.call(&mut stacks);
                break Refill::Over;
            }
            stacks.called = false;
            pile.show(&stacks);
            let waited = pile.changed.wait(stacks);
            stacks = waited.unwrap_or_else(PoisonError::into_inner);
        };
        stacks.waiting -= 1;
        pile.show(&stacks);
        refill
    }

    /// Takes its share of the pile.
    fn take_grey(&mut self, stacks: &mut Stacks) {
        let share = stacks.grey.len().div_ceil(stacks.working);
        while self.worker.own.len() < share.min(BATCH_CELLS) {
            let Some(cell) = stacks.grey.pop() else {
                return;
            };
            self.worker.own.push(cell);
        }
    }

    /// Takes some of the cells that are set aside.
    pub(super) fn take_set_aside(&mut self) -> impl Iterator<Item = Cell> {
        let mut cells = FewCells::<NOTED_CELLS>::new();
        let mut stacks = self.pile.lock();
        while !cells.is_full() {
            let Some(cell) = stacks.aside.pop() else {
                break;
            };
            cells.push(cell);
        }
        self.pile.show(&stacks);
        drop(stacks);
        self.worker.has_traced = true;
        std::iter::from_fn(move || cells.pop())
    }

    /// Traces whatever is grey and can be traced here, until marking is over.
    fn help<const AHEAD: bool>(&mut self, common: impl TraceCommon) {
        loop {
            while let Some(cell) = self.pop::<AHEAD>() {
                let wants = self.states.get(cell).wants_of_children();
                let mut tracer = SharedTracer::<AHEAD>::of(self, cell, wants);
                // SAFETY: what is marked is a live cell.
                if !unsafe { common.trace_cell(cell, &mut tracer) } {
                    self.set_aside(cell);
                }
                self.traced(cell);
            }
            if self.refill(false) == Refill::Over {
                return;
            }
        }
    }
}

/// A member who is counted among those at work, until this is dropped.
pub(super) struct AtWork<'c> {
    pub(super) member: Member<'c>,
    is_collecting_thread: bool,
}

impl<'c> AtWork<'c> {
    /// The part of the collecting thread, which ends the marking when it leaves.
    pub(super) fn collecting(member: Member<'c>) -> Self {
        member.pile.lock().working += 1;
        Self {
            member,
            is_collecting_thread: true,
        }
    }

    /// The part of a helper; `None` when marking is over.
    fn helping(member: Member<'c>) -> Option<Self> {
        let mut stacks = member.pile.lock();
        if stacks.over {
            return None;
        }
        stacks.working += 1;
        drop(stacks);
        Some(Self {
            member,
            is_collecting_thread: false,
        })
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        let Member { pile, worker, .. } = &mut self.member;
        let mut stacks = pile.lock();
        stacks.working -= 1;
        stacks.remember(worker.remembered.take());
        stacks.note_parents(worker.parents.take());
        worker.latest_parent = Cell::NONE;
        stacks.threads += usize::from(worker.has_traced);
        worker.has_traced = false;
        if self.is_collecting_thread {
            // It is already, unless tracing has panicked.
            stacks.over = true;
            pile.changed.notify_all();
        }
    }
}

/// What a helper does in one marking.
pub(super) fn help<const AHEAD: bool>(pile: &Pile, states: States<'_>, common: impl TraceCommon) {
    let mut worker = Worker::new();
    let member = Member {
        pile,
        states,
        worker: &mut worker,
    };
    if let Some(mut at_work) = AtWork::helping(member) {
        at_work.member.help::<AHEAD>(common);
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::cell_state::CellState;
    use crate::layout::region::Region;
    use crate::mark::pool::ThreadPool;
    use crate::mark::trace::Trace;
    use crate::os::page_bytes;
    use crate::stack::Stack;
    use std::sync::atomic::AtomicUsize;

    /// A table of a million young children is traced once more, not a million times.
    #[test]
    fn a_parent_that_asks_for_each_of_its_children_is_noted_once_in_a_marking() {
        // SAFETY: never read.
        let cell = |number: usize| unsafe { Cell::from_address(number * 64) };
        let region = Region::reserve(1, page_bytes()).unwrap();
        let mut worker = Worker::new();
        for _ in 0..2 {
            let pile = Pile::new(Stacks::default());
            let mut at_work = AtWork::collecting(Member {
                pile: &pile,
                states: region.states(),
                worker: &mut worker,
            });
            for number in [1, 1, 1, 2, 2] {
                at_work.member.note_parent_of_many(cell(number));
            }
            assert_eq!(at_work.member.worker.parents.take(), [cell(1), cell(2)]);
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

    /// States and cells are read and written without any order of their own: the locks of the
    /// pile and of the pool must give all that is needed. Miri's model of weak memory
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
            let (root, mut grey) = (numbered.cell(0), Stack::new(CELLS).unwrap());
            region.set_state(root, CellState::NEW.found_by_several());
            grey.push(root).unwrap();
            let pile = Pile::new(Stacks {
                grey,
                ..Stacks::default()
            });
            let states = region.states();
            let mut worker = Worker::new();
            pool.run(2, &|| help::<false>(&pile, states, numbered), || {
                let mut at_work = AtWork::collecting(Member {
                    pile: &pile,
                    states,
                    worker: &mut worker,
                });
                at_work.member.help::<false>(numbered);
            });
            for (number, times) in traced.iter().enumerate() {
                let state = states.get(numbered.cell(number));
                assert!(state.is_marked() && times.load(Relaxed) > 0, "{number}");
            }
            let left = pile.into_stacks();
            assert!(left.grey.is_empty() && left.working == 0 && !left.overflowed);
        }
    }
}
