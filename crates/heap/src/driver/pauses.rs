//! How long the program waits for the collector, and how long it may.

use std::cell::{Cell as StdCell, RefCell};
use std::time::{Duration, Instant};

/// The lengths of all pauses so far. A pause is a stretch of work of the
/// collector that the program waits for: a collection, a slice of one, or the
/// sweeping that an allocation has to do.
#[derive(Debug, Default)]
pub struct Pauses {
    slice_time: StdCell<Option<Duration>>,
    /// The program waits already: a stretch inside another is not counted.
    is_within: StdCell<bool>,
    lengths: RefCell<Histogram>,
}

impl Pauses {
    /// The time that one slice of a collection may take; `None`, as at first, when collections
    /// are done at once.
    pub fn slice_time(&self) -> Option<Duration> {
        self.slice_time.get()
    }

    /// Changes [`Pauses::slice_time`].
    pub fn set_slice_time(&self, slice_time: Option<Duration>) {
        self.slice_time.set(slice_time);
    }

    /// At most how long allocations sweep while the program is handed 64 KiB: a part of a slice,
    /// because a slice may follow at once. When that time is used up, allocations take empty
    /// blocks, although unswept ones may have room.
    pub(crate) fn sweep_time_max(&self) -> Option<Duration> {
        self.slice_time().map(|slice_time| slice_time / 4)
    }

    /// Whether the program waits at this moment: [`Pauses::during`] runs.
    #[inline]
    pub fn is_within(&self) -> bool {
        self.is_within.get()
    }

    /// Runs `work`, which the program waits for.
    #[inline]
    pub fn during<R>(&self, work: impl FnOnce() -> R) -> R {
        if self.is_within.replace(true) {
            return work();
        }
        let start = Instant::now();
        let result = work();
        let spent_ns = start.elapsed().as_nanos() as u64;
        self.lengths.borrow_mut().add(spent_ns);
        self.is_within.set(false);
        result
    }

    /// The figures of all pauses so far.
    pub fn summary(&self) -> PauseSummary {
        let lengths = self.lengths.borrow();
        PauseSummary {
            count: lengths.count,
            total_ns: lengths.total_ns,
            median_ns: lengths.percentile(50.0),
            percentile_99_ns: lengths.percentile(99.0),
            max_ns: lengths.max_ns,
        }
    }
}

/// Figures of all pauses so far. Percentiles are at most a sixteenth too high.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseSummary {
    /// How many there were.
    pub count: u64,
    /// Their lengths added up.
    pub total_ns: u64,
    /// The length that half of them do not exceed.
    pub median_ns: u64,
    /// The length that 99 % of them do not exceed.
    pub percentile_99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Sixteen buckets for each power of two.
const BUCKETS_PER_DOUBLING: usize = 16;
const BUCKETS: usize = 61 * BUCKETS_PER_DOUBLING;

/// Counts of lengths, by size.
#[derive(Debug)]
struct Histogram {
    counts: [u64; BUCKETS],
    count: u64,
    total_ns: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: [0; BUCKETS],
            count: 0,
            total_ns: 0,
            max_ns: 0,
        }
    }
}

/// The bucket of a length. The first sixteen hold one length each.
fn bucket(length_ns: u64) -> usize {
    let doublings = (length_ns | 0xF).ilog2() as usize - 3;
    let step = (length_ns >> doublings.saturating_sub(1)) as usize % BUCKETS_PER_DOUBLING;
    doublings * BUCKETS_PER_DOUBLING + step
}

/// The longest length in a bucket.
fn longest_ns(bucket: usize) -> u64 {
    let (doublings, step) = (bucket / BUCKETS_PER_DOUBLING, bucket % BUCKETS_PER_DOUBLING);
    if doublings == 0 {
        return step as u64;
    }
    let next = (BUCKETS_PER_DOUBLING + step + 1) as u128;
    u64::try_from((next << (doublings - 1)) - 1).unwrap_or(u64::MAX)
}

impl Histogram {
    fn add(&mut self, length_ns: u64) {
        self.counts[bucket(length_ns)] += 1;
        self.count += 1;
        self.total_ns += length_ns;
        self.max_ns = self.max_ns.max(length_ns);
    }

    /// The length that `percent` of all do not exceed.
    fn percentile(&self, percent: f64) -> u64 {
        let wanted = (self.count as f64 * percent / 100.0).ceil() as u64;
        let mut seen = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && count > 0 {
                return longest_ns(bucket).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_in_a_bucket_that_is_at_most_a_sixteenth_longer() {
        for length_ns in (0..5000).chain([1 << 20, (1 << 40) + 12_345, u64::MAX]) {
            let longest = longest_ns(bucket(length_ns));
            assert!(longest >= length_ns, "{length_ns}: {longest}");
            assert!(
                longest - length_ns <= length_ns / 16,
                "{length_ns}: {longest}"
            );
        }
    }

    #[test]
    fn percentiles_are_lengths_that_occurred() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile(99.0), 0);
        for length_ns in 1..=10 {
            histogram.add(length_ns);
        }
        assert_eq!(histogram.percentile(50.0), 5);
        assert_eq!(histogram.percentile(99.0), 10);
        histogram.add(1_000_000);
        assert_eq!(histogram.percentile(50.0), 6);
        assert_eq!(histogram.percentile(100.0), 1_000_000);
    }

    #[test]
    fn only_the_outermost_of_several_pauses_counts() {
        let pauses = Pauses::default();
        pauses.during(|| pauses.during(|| ()));
        pauses.during(|| ());
        assert_eq!(pauses.summary().count, 2);
    }
}
