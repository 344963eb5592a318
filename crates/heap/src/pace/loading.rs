//! What the VM says will last, such as loaded code: it is no garbage, so its growth brings
//! no major collection.

use super::measure::Measure;

/// Survivors become old at once while more than one of this many fresh bytes lasts.
const FRESH_BYTES_PER_LASTING_BYTE: usize = 8;

/// Lasting bytes at earlier collections.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Loading {
    at_latest_bytes: usize,
    /// At the latest major or full one.
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

    /// What the latest collection, a major one, left is known now.
    pub(super) fn note_left_by_major(&mut self, measure: &Measure) {
        self.at_major_bytes = measure.lasting_bytes;
    }

    /// What the latest collection, a full one, left is known now.
    pub(super) fn note_left_by_full(&mut self, measure: &Measure) {
        self.at_major_bytes = measure.lasting_bytes;
        self.at_full_bytes = measure.lasting_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::tests::{measure, pace_after_full, MIB, OPTIONS};
    use crate::pace::Scope;
    use Scope::{Full, Minor};

    #[test]
    fn growth_that_lasts_brings_no_major_collection() {
        let mut pace = pace_after_full(OPTIONS, 100 * MIB);
        let mut start_with = |kept, code| {
            let with_code = Measure {
                lasting_bytes: code,
                ..measure(kept, MIB)
            };
            pace.start(with_code, None)
        };
        assert_eq!(start_with(209 * MIB, 10 * MIB), Minor);
        assert_eq!(start_with(210 * MIB, 10 * MIB), Full);
        // What lasted already does not count once more.
        assert_eq!(start_with(110 * MIB, 10 * MIB), Minor);
        assert_eq!(start_with(220 * MIB, 10 * MIB), Full);
    }

    #[test]
    fn what_survives_lasts_while_much_of_what_is_handed_out_does() {
        let with_code = |code| Measure {
            lasting_bytes: code,
            ..measure(100 * MIB, 8 * MIB)
        };
        let mut pace = pace_after_full(OPTIONS, 100 * MIB);
        for (code, lasts) in [(0, false), (MIB, false), (3 * MIB, true), (3 * MIB, false)] {
            pace.start(with_code(code), None);
            assert_eq!(pace.survivors_last(), lasts, "{code}");
        }
    }
}
