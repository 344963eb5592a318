//! When the next slice of a collection is due, and what it may do.

use super::slice_schedule::{Experience, SliceSchedule};
use super::{CollectorState, Heap};
use crate::pace::Scope;
use crate::shared::Shared;
use crate::vm::Vm;
use crate::work_budget::WorkBudget;

/// The slices of the latest collection, those of its sweep included.
#[derive(Debug, Default)]
pub(super) struct Slices {
    schedule: SliceSchedule,
    /// Fresh bytes at which the next slice is due; 0 while nothing is done in slices.
    pub(super) next_bytes: usize,
    /// Fresh bytes at the latest slice.
    latest_bytes: usize,
    /// Slices free dead cells, too, so that not only allocations do.
    sweeps: bool,
    /// What the latest marking in slices has taken, of a major collection and of a full one.
    /// Minor collections differ too much from each other.
    latest_major: Option<Experience>,
    latest_full: Option<Experience>,
}

impl Slices {
    /// Begins a marking: about `cells` while the program is handed `planned_bytes`.
    pub(super) fn begin(&mut self, scope: Scope, planned_bytes: usize, cells: usize) {
        let latest = self.latest(scope).and_then(|latest| *latest);
        self.schedule = SliceSchedule::new(planned_bytes, cells, latest);
        (self.next_bytes, self.latest_bytes) = (0, 0);
        self.sweeps = false;
    }

    /// Notes that what was marked is dropped: this marking is no example for others.
    pub(super) fn begin_anew(&mut self) {
        self.schedule.tells_nothing();
    }

    /// Ends the marking.
    pub(super) fn end(&mut self, scope: Scope) {
        (self.next_bytes, self.latest_bytes) = (0, 0);
        let experience = self.schedule.experience();
        if let (Some(latest), Some(_)) = (self.latest(scope), experience) {
            *latest = experience;
        }
    }

    fn latest(&mut self, scope: Scope) -> Option<&mut Option<Experience>> {
        match scope {
            Scope::Minor => None,
            Scope::Major => Some(&mut self.latest_major),
            Scope::Full => Some(&mut self.latest_full),
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
            collector.pace.nursery_bytes().max(slices.next_bytes)
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

    /// Frees dead cells, as many as `work` allows. Returns whether none is left.
    pub fn sweep_slice(&self, work: &mut WorkBudget) -> bool {
        if self.is_sweeping() {
            work.lengthen_to(1 + self.lengthening());
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

    /// Whether the program has been handed so much since marking began that even slices of the
    /// greatest length are too short.
    pub(super) fn is_outrun(&self) -> bool {
        let collector = self.collector.borrow();
        let handed_bytes = collector.fresh_bytes(self.shared);
        collector.slices.schedule.is_outrun(handed_bytes)
    }

    /// How many times its usual length is added to the next slice.
    pub(super) fn lengthening(&self) -> usize {
        self.collector.borrow().lengthening(self.shared)
    }
}

impl CollectorState<'_> {
    /// Notes another slice, after which the collection has marked `marked_cells` in all.
    pub(super) fn note_slice(&mut self, marked_cells: usize, shared: &Shared) {
        let length = 1 + self.lengthening(shared);
        self.slices.schedule.note_slice(length, marked_cells);
    }

    fn lengthening(&self, shared: &Shared) -> usize {
        let fresh_bytes = self.fresh_bytes(shared);
        let interval_bytes = fresh_bytes.saturating_sub(self.slices.latest_bytes);
        self.slices
            .schedule
            .lengthening(fresh_bytes, interval_bytes)
    }

    /// Lets the program run until it has been handed the bytes of another interval.
    pub(super) fn plan_next_slice(&mut self, shared: &Shared) {
        let fresh_bytes = self.fresh_bytes(shared);
        let interval_bytes = self.slices.schedule.interval_bytes(fresh_bytes);
        self.slices.next_bytes = fresh_bytes + interval_bytes;
        self.slices.latest_bytes = fresh_bytes;
    }
}
