//! What the VM says will last, such as loaded code: it is no garbage, so its growth brings
//! no major collection.

use super::measure::Measure;

/// Survivors become old at once while more than one of this many fresh bytes lasts.
const FRESH_BYTES_PER_LASTING_BYTE: usize = 8;

/// Lasting bytes at earlier collections.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Loading {
    at_latest_bytes: usize,
    at_major_bytes: usize,
    at_full_bytes: usize,
    /// What has come since the latest major or full collection.
    pub(super) since_major_bytes: usize,
    /// What has come since the latest full collection.
    pub(super) since_full_bytes: usize,
    /// Much of what was handed out since the latest collection lasts.
    pub(super) survivors_last: bool,
}

impl Loading {
    /// A collection starts.
    pub(super) fn note(&mut self, measure: &Measure) {
        let lasting_bytes = measure.lasting_bytes;
        let fresh_lasting_bytes = lasting_bytes.saturating_sub(self.at_latest_bytes);
        self.since_major_bytes = lasting_bytes.saturating_sub(self.at_major_bytes);
        self.since_full_bytes = self.since_full_now_bytes(measure);
        self.survivors_last =
            fresh_lasting_bytes > measure.fresh_bytes / FRESH_BYTES_PER_LASTING_BYTE;
        self.at_latest_bytes = lasting_bytes;
    }

    /// What has come since the latest full collection, now.
    pub(super) fn since_full_now_bytes(&self, measure: &Measure) -> usize {
        measure.lasting_bytes.saturating_sub(self.at_full_bytes)
    }

    /// What the latest major or full collection left is known now.
    pub(super) fn note_left(&mut self, measure: &Measure, is_full: bool) {
        self.at_major_bytes = measure.lasting_bytes;
        if is_full {
            self.at_full_bytes = measure.lasting_bytes;
        }
    }
}
