//! A nursery that is large enough for marking to take a limited share of the CPU time.
//!
//! A minor collection costs what its roots and its survivors cost, however little has been
//! allocated since the previous one. In a small heap whose bytes are a few large payloads
//! that can be most of the program's time; so the nursery grows until it is not (after
//! Tavakolisomeh and others, "Heap Size Adjustment with CPU Control", MPLR 2023).

/// CPU time so far, of all threads of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Of marking.
    pub marking_ns: u64,
    /// Of everything, marking included.
    pub process_ns: u64,
}

/// A nursery is changed after so many collections, whose share is then known well enough.
const COLLECTIONS_PER_DECISION: u32 = 4;
/// What the nursery grows to at most: what Ruby's own collector lets a program allocate with
/// malloc, at least, between two collections.
const BYTES_MAX: usize = 16 << 20;
/// It shrinks again when marking takes less than this part of what it may take.
const SMALL_PART: f64 = 0.25;

/// In a nursery of this size or more marking may take the whole share; in a smaller one as
/// much less as it is smaller, because little memory makes it larger.
const WHOLE_SHARE_BYTES: f64 = (4 << 20) as f64;

/// The bytes that the program is to be handed between two collections, at least.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NurseryFloor {
    bytes: usize,
    /// At the latest decision.
    before: CpuTimes,
    /// Since then.
    collections: u32,
}

impl NurseryFloor {
    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }

    /// A collection begins, after a nursery of `budget_bytes`; marking may take
    /// `percent_max` of the CPU time, less than 100.
    pub(crate) fn note(&mut self, now: CpuTimes, percent_max: usize, budget_bytes: usize) {
        if now.process_ns < self.before.process_ns {
            // The clock of a forked child begins anew.
            self.before = now;
            self.collections = 0;
            return;
        }
        self.collections += 1;
        if self.collections < COLLECTIONS_PER_DECISION {
            return;
        }
        let marking_ns = now.marking_ns.saturating_sub(self.before.marking_ns);
        let process_ns = now.process_ns.saturating_sub(self.before.process_ns);
        let program_ns = process_ns.saturating_sub(marking_ns);
        let allowed = program_ns as f64 * percent_max as f64 / (100 - percent_max) as f64;
        let allowed = allowed * (budget_bytes as f64 / WHOLE_SHARE_BYTES).min(1.0);
        // What marking takes for a byte is in inverse proportion to the nursery, and what it
        // may take grows with it.
        let too_much = marking_ns as f64 / allowed.max(1.0);
        if too_much > 1.0 {
            let wanted = (budget_bytes as f64 * too_much.sqrt()) as usize;
            self.bytes = wanted.clamp(self.bytes, BYTES_MAX);
        } else if too_much < SMALL_PART {
            self.bytes /= 2;
        }
        self.before = now;
        self.collections = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// What a nursery of so many MiB becomes, in MiB, when marking takes so many percent of
    /// the time in each of these groups of collections, and may take 20.
    fn nurseries(first: usize, percents: &[u64]) -> Vec<usize> {
        let (mut floor, mut now) = (NurseryFloor::default(), CpuTimes::default());
        let mut note = |&percent: &u64| {
            for _ in 0..COLLECTIONS_PER_DECISION {
                now.marking_ns += percent * 10_000;
                now.process_ns += 1_000_000;
                floor.note(now, 20, floor.bytes().max(first * MIB));
            }
            floor.bytes() / MIB
        };
        percents.iter().map(&mut note).collect()
    }

    #[test]
    fn the_nursery_grows_while_marking_takes_more_than_it_may_and_shrinks_when_it_takes_little() {
        // Half of the time is four times as much beside the program's own time as a fifth.
        assert_eq!(nurseries(4, &[50, 20, 50]), [8, 8, 16]);
        assert_eq!(nurseries(4, &[50, 10, 8, 8]), [8; 4]);
        assert_eq!(nurseries(4, &[50, 5, 5]), [8, 4, 2]);
        assert_eq!(nurseries(4, &[5, 5]), [0, 0]);
    }

    #[test]
    fn in_a_small_nursery_marking_may_take_less() {
        assert_eq!(nurseries(1, &[20, 10, 10]), [2, 2, 2]);
        assert_eq!(nurseries(1, &[5, 5]), [0, 0]);
    }

    #[test]
    fn there_is_a_bound_to_its_growth() {
        assert_eq!(nurseries(1, &[99, 99]), [BYTES_MAX / MIB; 2]);
    }

    #[test]
    fn one_collection_decides_nothing() {
        let mut floor = NurseryFloor::default();
        let all = CpuTimes {
            marking_ns: 1_000_000,
            process_ns: 1_000_000,
        };
        floor.note(all, 25, MIB);
        assert_eq!(floor.bytes(), 0);
    }

    #[test]
    fn a_forked_child_whose_clock_begins_anew_keeps_its_nursery() {
        let at = |marking_ms: u64, process_ms: u64| CpuTimes {
            marking_ns: marking_ms * 1_000_000,
            process_ns: process_ms * 1_000_000,
        };
        let mut floor = NurseryFloor::default();
        for collection in 1..=5 {
            floor.note(at(collection, 100 * collection), 25, MIB);
        }
        for collection in 6..=50 {
            floor.note(at(collection, 100 * (collection - 5)), 25, MIB);
            assert_eq!(floor.bytes(), 0, "{collection}");
        }
    }
}
