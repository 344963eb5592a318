//! When the next slice of a collection is due.

use super::slice_schedule::{Experience, SliceSchedule};
use crate::pace::Scope;

/// The slices of the latest collection, those of its sweep included.
#[derive(Debug, Default)]
pub(super) struct Slices {
    pub(super) schedule: SliceSchedule,
    /// Fresh bytes at which the next slice is due; 0 while nothing is done in slices.
    pub(super) next_bytes: usize,
    /// Fresh bytes at the latest slice.
    latest_bytes: usize,
    /// Slices free dead cells, too, so that not only allocations do.
    pub(super) sweeps: bool,
    /// What the latest marking in slices has taken, of a major collection and of a full one.
    /// Minor collections differ too much from each other.
    latest_major: Option<Experience>,
    latest_full: Option<Experience>,
}

impl Slices {
    /// Begins a marking: about `cells` while the program is handed `planned_bytes`.
    pub(super) fn begin(&mut self, scope: Scope, planned_bytes: usize, cells: usize) {
        let latest = self.latest(scope).and_then(|latest| *latest);
        *self = Self {
            schedule: SliceSchedule::new(planned_bytes, cells, latest),
            latest_major: self.latest_major,
            latest_full: self.latest_full,
            ..Self::default()
        };
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

    /// Notes another slice, after which the collection has marked `marked_cells` in all, and lets
    /// the program run until it has been handed the bytes of another interval.
    pub(super) fn note_slice(&mut self, fresh_bytes: usize, marked_cells: usize) {
        let length = 1 + self.lengthening(fresh_bytes);
        self.schedule.note_slice(length, marked_cells);
        self.plan_next(fresh_bytes);
    }

    /// How many times its usual length is added to the next slice.
    pub(super) fn lengthening(&self, fresh_bytes: usize) -> usize {
        let interval_bytes = fresh_bytes.saturating_sub(self.latest_bytes);
        self.schedule.lengthening(fresh_bytes, interval_bytes)
    }

    /// Lets the program run until it has been handed the bytes of another interval.
    pub(super) fn plan_next(&mut self, fresh_bytes: usize) {
        self.next_bytes = fresh_bytes + self.schedule.interval_bytes(fresh_bytes);
        self.latest_bytes = fresh_bytes;
    }
}
