//! What pacing learns when a collection starts: what the latest one left, and what garbage has cost since.

use super::latest::{Found, Latest};
use super::measure::Measure;
use super::Pace;

impl Pace {
    /// What has become known since the latest collection started.
    pub(super) fn learn(&mut self, measure: &Measure) {
        // What it left is known now, as after a minor one.
        let latest = std::mem::replace(&mut self.latest, Latest::Minor);
        match &latest {
            Latest::Minor => {}
            Latest::Major(found) => self.note_left_by_major(found, measure),
            Latest::Full(found) => self.note_left_by_full(found, measure),
        }
        self.loading.note(measure);
        self.interval_ns = self.rent.note(latest.scope(), measure);
        self.pay(measure);
        self.limit.note(self.options.memory_limit_bytes, measure);
    }

    fn note_left_by_major(&mut self, found: &Found, measure: &Measure) {
        let lasting_bytes = self.loading.since_major_bytes;
        self.old.note_left(found, measure, lasting_bytes);
        self.loading.note_left_by_major(measure);
        let left_bytes = measure.kept_bytes();
        self.settled.note_left_by_major(left_bytes);
        if self.trade().is_none() {
            let base_bytes = self.settled.left_bytes.max(self.options.heap_min_bytes);
            let may_leave_bytes = base_bytes.saturating_add(self.settled_garbage_bytes());
            self.settled.is_suspicious |= left_bytes > may_leave_bytes;
        }
    }

    fn note_left_by_full(&mut self, found: &Found, measure: &Measure) {
        let lasting_bytes = self.loading.since_major_bytes;
        self.old.note_left(found, measure, lasting_bytes);
        self.loading.note_left_by_full(measure);
        self.settled.note_left_by_full(found, measure);
    }

    /// Garbage pays for the CPU time since the latest collection started.
    fn pay(&mut self, measure: &Measure) {
        let old_growth_bytes = self.old_growth_bytes(measure);
        let settled_growth_bytes = self.settled_growth_bytes();
        let Some(trade) = self.rent.trade(&self.options) else {
            return;
        };
        let unsettled_cells = self.old.live_unsettled_cells(old_growth_bytes, measure);
        let settled_cells = self.settled.live_cells(settled_growth_bytes, measure);
        let major_worth = trade.major_worth(unsettled_cells);
        let full_worth = trade.full_worth(unsettled_cells, settled_cells);
        self.old
            .pay(old_growth_bytes, self.interval_ns, major_worth);
        self.settled
            .pay(settled_growth_bytes, self.interval_ns, full_worth);
    }
}
