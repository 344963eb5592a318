//! Grey cells, which are marked and not traced yet, and what is on its way to be marked.
//!
//! The first look at a cell waits for memory, half of the time that marking takes. So the
//! next few cells of the mark stack are fetched ahead, and wait in the prefetch queue
//! meanwhile: a cell is traced a few cells after it was taken from the mark stack.
//!
//! In a large heap the table of states is larger than the processor's cache, so the first
//! look at the state of what a cell refers to waits for memory, too. Marking then looks a few
//! references ahead: each waits while its state is fetched and others are found. When all places
//! are taken, all references that wait are marked, in the order in which they were found: by then
//! the states of the latest have been fetched, too.
//! `docs/notes/marking-latency.md` has what that gains.

use crate::layout::cell_state::Wants;
use crate::layout::region::{Cell, States};
use crate::os::Refused;
use crate::prefetch::prefetch;
use crate::stack::Stack;

/// The mark stack. The latest cell is taken first, and then waits in the prefetch queue.
#[derive(Debug, Default)]
pub(super) struct GreyStack {
    cells: Stack<Cell>,
    prefetched: PrefetchQueue,
    /// Cells that did not fit: they are marked but not traced, so the heap has to
    /// be walked for them.
    overflowed: bool,
}

impl GreyStack {
    pub(super) fn new(cells: usize) -> Result<Self, Refused> {
        Ok(Self {
            cells: Stack::new(cells)?,
            ..Self::default()
        })
    }

    pub(super) fn limit(&mut self, cells: usize) {
        self.cells.limit(cells);
    }

    #[inline(always)]
    pub(super) fn push(&mut self, cell: Cell) -> Result<(), Refused> {
        self.cells.push(cell)
    }

    #[inline(always)]
    pub(super) fn pop<const AHEAD: bool>(&mut self, states: States<'_>) -> Option<Cell> {
        self.prefetched.next::<AHEAD>(states, || self.cells.pop())
    }

    /// How many cells wait to be fetched.
    pub(super) fn unfetched(&self) -> usize {
        self.cells.len()
    }

    /// Moves the `count` latest cells that are not fetched to `other`.
    pub(super) fn give_latest(&mut self, count: usize, other: &mut Self) {
        for _ in 0..count {
            let Some(cell) = self.cells.pop() else { return };
            other.push_or_note(cell);
        }
    }

    /// The `count` oldest cells, which are not fetched.
    pub(super) fn oldest(&self, count: usize) -> &[Cell] {
        &self.cells.as_slice()[..count]
    }

    /// Drops the `count` oldest cells.
    pub(super) fn drop_oldest(&mut self, count: usize) {
        let left = self.cells.len() - count;
        self.cells.as_mut_slice().copy_within(count.., 0);
        self.cells.truncate(left);
    }

    /// Pushes a cell, or notes that it did not fit.
    #[inline(always)]
    pub(super) fn push_or_note(&mut self, cell: Cell) {
        if self.push(cell).is_err() {
            self.overflowed = true;
        }
    }

    /// Whether no grey cell is here; some may not have fitted.
    pub(super) fn is_empty(&self) -> bool {
        self.cells.is_empty() && self.prefetched.count == 0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Cell> + '_ {
        let stacked = self.cells.as_slice().iter().copied();
        self.prefetched.iter().chain(stacked)
    }

    /// Notes that some cells did not fit.
    pub(super) fn note_overflow(&mut self) {
        self.overflowed = true;
    }

    pub(super) fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    /// Whether cells did not fit since the last call.
    pub(super) fn take_overflow(&mut self) -> bool {
        std::mem::take(&mut self.overflowed)
    }

    /// Hands over all cells, none of them fetched. The stack that is left has no room for any.
    pub(super) fn take(&mut self) -> Self {
        let mut taken = std::mem::take(self);
        for cell in std::mem::take(&mut taken.prefetched).iter() {
            taken.push_or_note(cell);
        }
        taken
    }

    pub(super) fn clear(&mut self) {
        self.cells.clear_and_release();
        self.prefetched = PrefetchQueue::default();
        self.overflowed = false;
    }
}

/// Cells that are fetched ahead: a power of two.
const PREFETCHED_CELLS: usize = 8;

/// The next cells to trace, first in, first out.
#[derive(Debug)]
struct PrefetchQueue {
    places: [Cell; PREFETCHED_CELLS],
    /// How many cells have been taken out; the oldest is at this number modulo the places.
    taken: usize,
    count: usize,
}

impl Default for PrefetchQueue {
    fn default() -> Self {
        Self {
            places: [Cell::NONE; PREFETCHED_CELLS],
            taken: 0,
            count: 0,
        }
    }
}

impl PrefetchQueue {
    /// The next cell, after taking as many with `pop` as there is room for. In a heap so large
    /// that marking looks `AHEAD`, the states of the cells taken are fetched, too.
    #[inline(always)]
    fn next<const AHEAD: bool>(
        &mut self,
        states: States<'_>,
        mut pop: impl FnMut() -> Option<Cell>,
    ) -> Option<Cell> {
        if let Some(cell) = pop() {
            if let Some(next) = self.fetch::<AHEAD>(states, cell) {
                return Some(next);
            }
            // There was a place left, as at the beginning.
            while let Some(cell) = pop() {
                if let Some(next) = self.fetch::<AHEAD>(states, cell) {
                    return Some(next);
                }
            }
        }
        self.take()
    }

    /// Has a cell fetched. Returns the cell that has waited longest if all places were taken.
    #[inline(always)]
    fn fetch<const AHEAD: bool>(&mut self, states: States<'_>, cell: Cell) -> Option<Cell> {
        prefetch(cell.address());
        if AHEAD {
            prefetch(states.address_of(cell));
        }
        self.exchange(cell)
    }

    /// Puts a cell in, and takes out the oldest if no place was left.
    #[inline(always)]
    fn exchange(&mut self, cell: Cell) -> Option<Cell> {
        if self.count < PREFETCHED_CELLS {
            self.fill(cell);
            return None;
        }
        let oldest = std::mem::replace(&mut self.places[self.taken % PREFETCHED_CELLS], cell);
        self.taken = self.taken.wrapping_add(1);
        Some(oldest)
    }

    /// Puts a cell into a free place. Not inlined: marking nearly always finds the queue full.
    #[inline(never)]
    fn fill(&mut self, cell: Cell) {
        self.places[self.taken.wrapping_add(self.count) % PREFETCHED_CELLS] = cell;
        self.count += 1;
    }

    /// Takes out the oldest.
    #[inline(always)]
    fn take(&mut self) -> Option<Cell> {
        self.count = self.count.checked_sub(1)?;
        let oldest = self.places[self.taken % PREFETCHED_CELLS];
        self.taken = self.taken.wrapping_add(1);
        Some(oldest)
    }

    /// The cells, the next one first.
    fn iter(&self) -> impl Iterator<Item = Cell> + '_ {
        let place = |index| self.taken.wrapping_add(index) % PREFETCHED_CELLS;
        (0..self.count).map(move |index| self.places[place(index)])
    }
}

/// The most references that wait.
const WAITING_REFERENCES: usize = 32;

/// References that wait to be marked. The cells that they refer to are not grey yet: all are
/// marked before marking is over, and before the program runs.
#[derive(Debug)]
pub(super) struct Lookahead {
    children: [Cell; WAITING_REFERENCES],
    parents: [Cell; WAITING_REFERENCES],
    /// What the parents wanted when they were traced.
    wants: [Wants; WAITING_REFERENCES],
    /// How many wait: fewer than there are places, except right after a `push` that returned
    /// true.
    count: usize,
}

impl Lookahead {
    pub(super) const fn new() -> Self {
        Self {
            children: [Cell::NONE; WAITING_REFERENCES],
            parents: [Cell::NONE; WAITING_REFERENCES],
            wants: [Wants::MARKED; WAITING_REFERENCES],
            count: 0,
        }
    }

    /// Lets a reference wait. Returns true when no place is left: then all have to be marked.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        states: States<'_>,
        parent: Cell,
        child: Cell,
        wants: Wants,
    ) -> bool {
        prefetch(states.address_of(child));
        let index = self.count % WAITING_REFERENCES;
        self.children[index] = child;
        self.parents[index] = parent;
        self.wants[index] = wants;
        self.count = index + 1;
        self.count == WAITING_REFERENCES
    }

    /// Returns how many wait, and makes that 0. They can be read until the next `push`.
    #[inline(always)]
    pub(super) fn take_all(&mut self) -> usize {
        std::mem::take(&mut self.count)
    }

    /// The cell that the `index`-th reference refers to, and what is wanted of it.
    #[inline(always)]
    pub(super) fn child_at(&self, index: usize) -> (Cell, Wants) {
        let index = index % WAITING_REFERENCES;
        (self.children[index], self.wants[index])
    }

    /// The cell that the `index`-th reference is in.
    #[inline(always)]
    pub(super) fn parent_at(&self, index: usize) -> Cell {
        self.parents[index % WAITING_REFERENCES]
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

    fn cell(number: usize) -> Cell {
        // SAFETY: never read.
        unsafe { Cell::from_address(number * 64) }
    }

    fn next(queue: &mut PrefetchQueue, stack: &mut Vec<Cell>) -> Option<Cell> {
        let region = Region::reserve(1, page_bytes()).unwrap();
        queue.next::<true>(region.states(), || stack.pop())
    }

    #[test]
    fn every_cell_comes_once_after_those_that_were_taken_before() {
        let mut stack: Vec<_> = (1..=20).map(cell).collect();
        let mut queue = PrefetchQueue::default();
        let mut order = Vec::new();
        while let Some(next) = next(&mut queue, &mut stack) {
            order.push(next);
            let waiting: Vec<_> = queue.iter().collect();
            assert!(waiting.len() <= PREFETCHED_CELLS && !waiting.contains(&next));
        }
        assert!(queue.count == 0);
        let expected: Vec<_> = (1..=20).rev().map(cell).collect();
        assert_eq!(order, expected);
    }

    #[test]
    fn every_cell_comes_out_once_also_of_a_queue_that_was_emptied_or_half_filled() {
        let mut queue = PrefetchQueue::default();
        let (mut order, mut put) = (Vec::new(), 0);
        let all_put = |from, to| (from..to).map(|number: usize| cell(number + 1));
        for (more, is_emptied) in [(40, true), (3, true), (0, true), (PREFETCHED_CELLS, false)] {
            for _ in 0..more {
                order.extend(queue.exchange(cell(put + 1)));
                put += 1;
                assert!(queue.iter().eq(all_put(order.len(), put)));
            }
            while is_emptied && queue.count > 0 {
                order.extend(queue.take());
            }
        }
        order.extend(std::iter::from_fn(|| queue.take()));
        assert!(queue.count == 0);
        assert!(order.into_iter().eq(all_put(0, put)));
    }

    #[test]
    fn what_is_pushed_meanwhile_comes_after_what_is_on_its_way() {
        let mut stack: Vec<_> = (1..=3).map(cell).collect();
        let mut queue = PrefetchQueue::default();
        assert_eq!(next(&mut queue, &mut stack), Some(cell(3)));
        stack.push(cell(9));
        let rest = std::iter::from_fn(|| next(&mut queue, &mut stack));
        assert_eq!(rest.collect::<Vec<_>>(), [2, 1, 9].map(cell));
    }
}
