//! The scope of a collection that nobody has asked for.

use super::latest::Latest;
use super::measure::{Measure, Scope};
use super::Pace;

impl Pace {
    /// The scope of the collection that starts now.
    pub(super) fn decide_scope(&mut self, measure: &Measure) -> Scope {
        let is_outgrown = self.is_outgrown(measure);
        let (live, kept) = (self.old.left_bytes, measure.kept_bytes());
        let is_near_limit = self.limit.is_near(live, kept, self.nursery_bytes);
        match (is_outgrown, is_near_limit) {
            (_, true) => {
                self.limit.collections += usize::from(!is_outgrown);
                Scope::Full
            }
            (true, false) => self.major_or_full(measure),
            (false, false) => Scope::Minor,
        }
    }

    /// Whether a collection has to look at old cells, the memory limit aside.
    fn is_outgrown(&self, measure: &Measure) -> bool {
        let rescans_limit = self.rescans_limit_cells(measure.old_cells);
        self.options.growth_max_bytes == 0
            || self.settled.is_suspicious
            || measure.old_bytes() >= self.major_threshold_bytes()
            || rescans_limit.is_some_and(|limit| measure.rescanned_cells > limit)
    }

    /// Whether a collection that has to look at old cells is major or full.
    fn major_or_full(&self, measure: &Measure) -> Scope {
        // Garbage is not marked, so growth since the latest such collection does not count.
        let live_cells = measure.old_cells.min(self.old.left_cells);
        let would_save_little = measure.settled_cells < live_cells.div_ceil(2).max(1);
        let is_full = would_save_little
            || self.settled.may_have_garbage()
            || self.options.growth_max_bytes == 0;
        match is_full {
            true => Scope::Full,
            false => Scope::Major,
        }
    }

    /// Bytes by which what is old has outgrown what the latest major or full collection left of it.
    pub fn grown_bytes(&self, measure: &Measure) -> usize {
        match self.latest {
            Latest::Minor => self.old.growth_bytes(measure, 0),
            Latest::Major(_) | Latest::Full(_) => 0,
        }
    }

    /// [`Pace::grown_bytes`] at which a collection is major.
    pub fn growth_limit_bytes(&self) -> usize {
        self.major_threshold_bytes()
            .saturating_sub(self.old.left_old_bytes)
    }

    /// Old bytes at which a collection is major. A collection in slices begins earlier, by
    /// what the program was handed while the last one marked, so that the heap ends up as
    /// large as if the collection were done at once.
    pub fn major_threshold_bytes(&self) -> usize {
        let options = &self.options;
        let live = match self.trade() {
            Some(_) => self.old.left_bytes,
            None => self.old.left_bytes.max(options.heap_min_bytes),
        };
        let live_young = self.old.left_bytes - self.old.left_old_bytes;
        let garbage = self.garbage_bytes(live, self.old.left_cell_bytes);
        let growth = garbage.max(options.growth_min_bytes);
        let growth = growth.min(options.growth_max_bytes);
        let ahead = self.old.handed_while_marking_bytes.min(growth / 2);
        (live - live_young)
            .saturating_add(growth - ahead)
            .saturating_add(self.loading.since_major_bytes)
    }

    /// Old cells without a write barrier at which a collection is major; `old_cells`
    /// is how many old ones there are now. `None` without such a limit.
    pub fn rescans_limit_cells(&self, old_cells: usize) -> Option<usize> {
        let millionths = self.options.rescans_max_millionths?;
        let base = match self.latest {
            Latest::Minor => self.old.left_cells,
            Latest::Major(_) | Latest::Full(_) => old_cells,
        };
        Some((base as f64 * (millionths as f64 / 1e6)) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::tests::{measure, pace_after_full, MIB, OPTIONS};
    use crate::pace::PaceOptions;
    use Scope::{Full, Major, Minor};

    #[test]
    fn a_full_collection_comes_when_the_kept_bytes_outgrow_the_overhead() {
        for percent in [100, 20] {
            let options = PaceOptions {
                space_overhead_percent: Some(percent),
                ..OPTIONS
            };
            let mut pace = pace_after_full(options, 100 * MIB);
            let mut start = |mib| pace.start(measure(mib * MIB, MIB), None);
            assert_eq!(start(100 + percent - 1), Minor);
            assert_eq!(start(100 + percent), Full);
        }
    }

    #[test]
    fn young_survivors_do_not_bring_a_full_collection() {
        let mut pace = pace_after_full(OPTIONS, 100 * MIB);
        let half_young = |kept| Measure {
            old_cells: 50,
            ..measure(kept, MIB)
        };
        assert_eq!(pace.start(half_young(300 * MIB), None), Minor);
        assert_eq!(pace.start(half_young(400 * MIB), None), Full);
    }

    #[test]
    fn what_was_young_after_a_full_collection_is_growth_when_it_is_old() {
        let mut pace = Pace::new(OPTIONS);
        pace.start(measure(0, 100 * MIB), Some(Full));
        let half_young = Measure {
            old_cells: 50,
            ..measure(100 * MIB, MIB)
        };
        assert_eq!(pace.start(half_young, None), Minor);
        // 50 MiB were old, and 100 MiB lived.
        assert_eq!(pace.start(measure(149 * MIB, MIB), None), Minor);
        assert_eq!(pace.grown_bytes(&measure(149 * MIB, MIB)), 99 * MIB);
        assert_eq!(pace.growth_limit_bytes(), 100 * MIB);
        assert_eq!(pace.start(measure(150 * MIB, MIB), None), Full);
    }

    #[test]
    fn while_little_is_settled_there_are_no_major_collections() {
        let settled = |settled_cells| Measure {
            settled_cells,
            ..measure(200 * MIB, MIB)
        };
        for (cells, scope) in [(49, Full), (50, Major)] {
            let mut pace = pace_after_full(OPTIONS, 100 * MIB);
            assert_eq!(pace.start(settled(cells), None), scope);
        }
    }

    #[test]
    fn a_small_heap_is_paced_as_the_minimum_heap() {
        let pace = pace_after_full(OPTIONS, MIB);
        assert_eq!(pace.major_threshold_bytes() / MIB, 15);
    }

    #[test]
    fn growth_between_full_collections_has_bounds_of_its_own() {
        let bounded = |growth_min_bytes, growth_max_bytes| PaceOptions {
            growth_min_bytes,
            growth_max_bytes,
            ..OPTIONS
        };
        let threshold = |options| pace_after_full(options, 100 * MIB).major_threshold_bytes();
        assert_eq!(threshold(bounded(300 * MIB, usize::MAX)), 400 * MIB);
        assert_eq!(threshold(bounded(0, 30 * MIB)), 130 * MIB);
        let mut never_minor = pace_after_full(bounded(0, 0), 100 * MIB);
        let shrunk = measure(50 * MIB, MIB);
        assert_eq!(never_minor.start(shrunk, None), Full);
        assert_eq!(never_minor.start(shrunk, None), Full);
    }

    #[test]
    fn too_many_cells_to_trace_again_bring_a_full_collection() {
        let options = PaceOptions {
            rescans_max_millionths: Some(100_000),
            ..OPTIONS
        };
        let mut pace = pace_after_full(options, 100 * MIB);
        let rescanned = |cells| Measure {
            rescanned_cells: cells,
            ..measure(100 * MIB, MIB)
        };
        assert_eq!(pace.rescans_limit_cells(500), Some(10));
        assert_eq!(pace.start(rescanned(10), None), Minor);
        assert_eq!(pace.start(rescanned(11), None), Full);
        assert_eq!(pace.rescans_limit_cells(500), Some(50));
    }

    #[test]
    fn payloads_without_cells_do_not_put_a_full_collection_off() {
        let payloads_only = |kept| Measure {
            cell_bytes: MIB,
            ..measure(kept, MIB)
        };
        let mut pace = Pace::new(OPTIONS);
        pace.start(payloads_only(0), Some(Full));
        pace.start(payloads_only(1000 * MIB), None);
        assert_eq!(pace.major_threshold_bytes() / MIB, 1000 + 16 + 128 - 1);
    }

    #[test]
    fn what_is_asked_for_is_what_happens() {
        let mut pace = pace_after_full(OPTIONS, MIB);
        assert_eq!(pace.start(measure(MIB, 0), Some(Full)), Full);
        let asked = Some(Minor);
        assert_eq!(pace.start(measure(900 * MIB, 0), asked), Minor);
    }
}
