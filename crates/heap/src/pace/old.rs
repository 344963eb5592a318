//! Old cells, which major and full collections free.

use super::latest::Found;
use super::measure::Measure;
use super::rent::Paid;

/// What is known of old cells.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Old {
    /// Bytes that the latest major or full collection left, once known.
    pub(super) left_bytes: usize,
    /// Of those, old ones: growth counts from here. Young ones that it left have not grown old yet.
    pub(super) left_old_bytes: usize,
    /// Of the bytes that it left, cells.
    pub(super) left_cell_bytes: usize,
    /// Old cells that it left.
    pub(super) left_cells: usize,
    /// Of those, cells that had not settled.
    pub(super) left_unsettled_cells: usize,
    /// Bytes that the program was handed while that collection marked.
    pub(super) handed_while_marking_bytes: usize,
    paid: Paid,
    /// Growth at which a major collection is worth its cost, as last known.
    pub(super) goal_bytes: usize,
}

impl Old {
    pub(super) fn new(goal_bytes: usize) -> Self {
        Self {
            goal_bytes,
            ..Self::default()
        }
    }

    /// Bytes by which old cells have grown since the latest major or full collection, but for
    /// what lasts. Some of them are garbage.
    pub(super) fn growth_bytes(&self, measure: &Measure, lasting_bytes: usize) -> usize {
        let base_bytes = self.left_old_bytes + lasting_bytes;
        measure.old_bytes().saturating_sub(base_bytes)
    }

    /// Of the cells that a major collection looks at, those that it is to find live.
    pub(super) fn live_unsettled_cells(&self, grown_bytes: usize, measure: &Measure) -> f64 {
        let live_share = self.paid.live_share(grown_bytes, measure.kept_bytes());
        measure.unsettled_cells() as f64 * live_share
    }

    /// `grown_bytes` pay for CPU time towards a major collection that is worth `worth_byte_ns`.
    pub(super) fn pay(&mut self, grown_bytes: usize, process_ns: u64, worth_byte_ns: f64) {
        self.paid.charge(grown_bytes, process_ns);
        if let Some(goal_bytes) = self.paid.goal_bytes(grown_bytes, worth_byte_ns) {
            self.goal_bytes = goal_bytes;
        }
    }

    /// What a major or full collection left is known now.
    pub(super) fn note_left(&mut self, found: &Found, measure: &Measure, lasting_bytes: usize) {
        let left_growth_bytes = self.growth_bytes(measure, lasting_bytes);
        self.paid.settle(found.old_growth_bytes, left_growth_bytes);
        self.left_bytes = measure.kept_bytes();
        self.left_old_bytes = measure.old_bytes();
        self.left_cell_bytes = measure.cell_bytes;
        self.left_cells = measure.old_cells;
        self.left_unsettled_cells = measure.old_cells.saturating_sub(measure.settled_cells);
    }
}
