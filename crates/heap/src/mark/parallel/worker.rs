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
    use crate::layout::region::Region;
    use crate::os::page_bytes;

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
}
