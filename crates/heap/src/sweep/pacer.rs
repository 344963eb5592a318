//! How sweeping is spread over what the program allocates.

use std::time::Duration;

/// The plan of one sweep: `blocks` are swept while the program is handed `planned_bytes`.
///
/// An allocation finds between one cell and a whole block in a block that it sweeps.
/// If allocations were counted, a dense heap would be swept within the first few
/// requests after a collection; counting bytes spreads it evenly.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SweepPacer {
    planned_bytes: usize,
    blocks: usize,
    /// Bytes that the program had been handed at the latest [`SweepPacer::note_handed`].
    handed_bytes: usize,
    /// Time for which allocations have swept since the program had been handed
    /// `interval_start_bytes`.
    spent: Duration,
    interval_start_bytes: usize,
}

/// Allocations sweep for a limited time while the program is handed this many bytes.
const INTERVAL_BYTES: usize = 64 << 10;
/// Blocks that are swept together, because beginning and ending takes as long as
/// sweeping one.
const BLOCKS_TOGETHER: usize = 16;

impl SweepPacer {
    /// A plan to sweep `blocks` while the program is handed `planned_bytes`.
    pub(crate) fn new(planned_bytes: usize, blocks: usize) -> Self {
        Self {
            planned_bytes,
            blocks,
            ..Self::default()
        }
    }

    /// Notes that the program has been handed `handed_bytes`. Allocations call this, once they have
    /// got their cells, and so does what retires a cache. So whether an allocation will sweep does not
    /// change from the question until it has swept: other threads may be handed payloads at any time.
    pub(crate) fn note_handed(&mut self, handed_bytes: usize) {
        self.handed_bytes = handed_bytes;
        // Also when the number is less than before: a collection has begun to count from 0.
        if handed_bytes.wrapping_sub(self.interval_start_bytes) >= INTERVAL_BYTES {
            self.interval_start_bytes = handed_bytes;
            self.spent = Duration::ZERO;
        }
    }

    /// How many of `unswept_blocks` are to be swept now.
    pub(crate) fn blocks_due(&self, unswept_blocks: usize) -> usize {
        let bytes_left = self.planned_bytes.saturating_sub(self.handed_bytes);
        let blocks_left_max =
            self.blocks as u128 * bytes_left as u128 / self.planned_bytes.max(1) as u128;
        let due = unswept_blocks.saturating_sub(blocks_left_max as usize);
        if due < BLOCKS_TOGETHER.min(unswept_blocks) {
            return 0;
        }
        due
    }

    /// Time for which an allocation may sweep now, when all allocations of an interval together may
    /// sweep for `time_max`.
    pub(crate) fn time_left(&self, time_max: Duration) -> Duration {
        time_max.saturating_sub(self.spent)
    }

    /// Notes that an allocation has swept for `time`.
    pub(crate) fn note_spent(&mut self, time: Duration) {
        self.spent += time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(blocks: usize, unswept_blocks: usize, handed_bytes: usize) -> usize {
        let mut pacer = SweepPacer::new(1000, blocks);
        pacer.note_handed(handed_bytes);
        pacer.blocks_due(unswept_blocks)
    }

    #[test]
    fn half_of_the_blocks_are_swept_when_half_of_the_bytes_are_handed_out() {
        let due_of_all = [0, 500, 999, 1000, 5000].map(|bytes| due(60, 60, bytes));
        assert_eq!(due_of_all, [0, 30, 60, 60, 60]);
        assert_eq!(due(60, 30, 500), 0);
        assert_eq!(SweepPacer::default().blocks_due(0), 0);
    }

    #[test]
    fn a_few_blocks_wait_until_there_are_more_or_no_others() {
        assert_eq!(due(50, 50, 300), 0);
        assert_eq!(due(50, 50, 320), 16);
        assert_eq!(due(50, 2, 999), 2);
    }

    #[test]
    fn allocations_share_the_time_of_an_interval() {
        let time_max = Duration::from_micros(250);
        let mut pacer = SweepPacer::new(1 << 20, 30);
        assert_eq!(pacer.time_left(time_max), time_max);
        pacer.note_spent(Duration::from_micros(200));
        pacer.note_handed(INTERVAL_BYTES - 1);
        assert_eq!(pacer.time_left(time_max), Duration::from_micros(50));
        pacer.note_spent(Duration::from_micros(100));
        assert_eq!(pacer.time_left(time_max), Duration::ZERO);
        pacer.note_handed(INTERVAL_BYTES);
        assert_eq!(pacer.time_left(time_max), time_max);
    }
}
