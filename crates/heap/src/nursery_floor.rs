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
        // What marking takes for a byte is in inverse proportion to the nursery.
        let too_much = marking_ns as f64 / allowed.max(1.0);
        if too_much > 1.0 {
            let wanted = (budget_bytes as f64 * too_much) as usize;
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

    /// What the nursery of 1 MiB becomes when marking takes so many percent of the time in
    /// each of these groups of collections.
    fn nurseries(percents: &[u64]) -> Vec<usize> {
        let (mut floor, mut now) = (NurseryFloor::default(), CpuTimes::default());
        let mut note = |&percent: &u64| {
            for _ in 0..COLLECTIONS_PER_DECISION {
                now.marking_ns += percent * 10_000;
                now.process_ns += 1_000_000;
                floor.note(now, 25, floor.bytes().max(MIB));
            }
            floor.bytes()
        };
        percents.iter().map(&mut note).collect()
    }

    #[test]
    fn the_nursery_grows_as_far_as_marking_takes_more_than_it_may_and_shrinks_when_it_takes_little()
    {
        // 40 to 60 is twice what 25 to 75 is.
        assert_eq!(nurseries(&[40, 25, 40]), [2 * MIB, 2 * MIB, 4 * MIB]);
        assert_eq!(
            nurseries(&[40, 10, 8, 8]),
            [2 * MIB, 2 * MIB, 2 * MIB, 2 * MIB]
        );
        assert_eq!(nurseries(&[40, 5, 5]), [2 * MIB, MIB, MIB / 2]);
        assert_eq!(nurseries(&[5, 5]), [0, 0]);
    }

    #[test]
    fn there_is_a_bound_to_its_growth() {
        assert_eq!(nurseries(&[99, 99]), [BYTES_MAX, BYTES_MAX]);
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
