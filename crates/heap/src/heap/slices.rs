//! When the next slice of a collection is due, and what it may do.

use super::{Collector, Heap};
use crate::mark::slices::SliceSchedule;
use crate::shared::Shared;
use crate::vm::Vm;
use crate::work_budget::WorkBudget;

/// The slices of the latest collection, those of its sweep included.
#[derive(Debug, Default)]
pub(super) struct Slices {
    schedule: SliceSchedule,
    /// Fresh bytes at which the next one is due, 0 while nothing is done in slices.
    pub(super) next_bytes: usize,
    /// Slices free dead cells, too, and not only allocations.
    sweeps: bool,
}

impl Slices {
    pub(super) fn new(schedule: SliceSchedule) -> Self {
        Self {
            schedule,
            ..Self::default()
        }
    }
}

impl<V: Vm> Heap<'_, V> {
    /// Whether pacing wants a collection, or the next slice of one.
    #[inline]
    pub fn collection_is_due(&self) -> bool {
        self.bytes_until_due() == 0
    }

    /// Bytes that the program may be handed until [`Heap::collection_is_due`].
    pub fn bytes_until_due(&self) -> usize {
        let collector = self.collector.borrow();
        let slices = &collector.slices;
        let sweeps = slices.sweeps && collector.lists.unswept_blocks() > 0;
        let due_bytes = if self.is_marking() || sweeps {
            slices.next_bytes
        } else {
            collector.pace.budget_bytes().max(slices.next_bytes)
        };
        due_bytes.saturating_sub(collector.fresh_bytes(self.shared))
    }

    /// Has slices free what the collection found dead, without waiting for new
    /// cells to need the place: for a heap that is filled with payloads.
    pub fn sweep_in_slices(&self) {
        if self.is_sweeping() {
            let mut collector = self.collector.borrow_mut();
            collector.slices.sweeps = true;
            collector.plan_next_slice(self.shared);
        }
    }

    /// Frees dead cells, as many as `work` allows; whether none is left.
    pub fn sweep_slice(&self, work: &mut WorkBudget) -> bool {
        if self.is_sweeping() {
            work.lengthen(self.lateness());
        }
        let is_swept = self.sweep_within(work);
        let mut collector = self.collector.borrow_mut();
        if is_swept {
            collector.slices.sweeps = false;
            collector.slices.next_bytes = 0;
        } else {
            collector.plan_next_slice(self.shared);
        }
        is_swept
    }

    /// How many times its usual length is added to the next slice.
    pub(super) fn lateness(&self) -> usize {
        let collector = self.collector.borrow();
        let handed_bytes = collector.fresh_bytes(self.shared);
        collector.slices.schedule.lateness(handed_bytes)
    }
}

impl Collector<'_> {
    /// A slice has marked so many cells since the collection began.
    pub(super) fn note_slice(&mut self, marked_cells: usize) {
        self.slices.schedule.note_slice(marked_cells);
    }

    /// Lets the program run until it has been handed another slice's worth of
    /// bytes.
    pub(super) fn plan_next_slice(&mut self, shared: &Shared) {
        let fresh_bytes = self.fresh_bytes(shared);
        let interval_bytes = self.slices.schedule.interval_bytes(fresh_bytes);
        self.slices.next_bytes = fresh_bytes + interval_bytes;
    }
}
