//! Settled cells, which only full collections free.

use super::latest::Found;
use super::measure::{Measure, Scope};
use super::rent::Paid;
use super::settling::Settling;

/// What is known of settled cells.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settled {
    /// Bytes that the latest full collection left, once known.
    pub(super) left_bytes: usize,
    /// The fewest bytes that it, or a major collection since, has left.
    least_left_bytes: usize,
    /// Of those that it left, cells.
    pub(super) left_cell_bytes: usize,
    /// Settled cells that it left.
    left_cells: usize,
    paid: Paid,
    /// What major collections have left is worth a full collection, which follows: it may be settled
    /// garbage.
    pub(super) is_suspicious: bool,
    what_passes: WhatPasses,
    settling: Settling,
}

/// What the program was about to drop when it forked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum WhatPasses {
    /// As far as is known, no such thing has settled.
    #[default]
    IsUnsettled,
    /// The collection that starts next is the one before a fork: what it finds alive settles.
    SettlesNext,
    /// It has settled with all else. So the next collection that looks at old cells is full.
    HasSettled,
}

impl WhatPasses {
    /// A collection starts. A full one frees what has passed, but for the one in which it settles.
    fn after_start(self, scope: Scope) -> Self {
        match (scope, self) {
            (Scope::Full, Self::SettlesNext) => Self::HasSettled,
            (Scope::Full, _) => Self::IsUnsettled,
            (Scope::Minor | Scope::Major, _) => self,
        }
    }
}

impl Settled {
    /// Bytes that major collections have left beyond what the latest full one did, but for what
    /// lasts. The latest of them left `left_bytes`.
    pub(super) fn growth_bytes(&self, left_bytes: usize, lasting_bytes: usize) -> usize {
        let base_bytes = self.left_bytes + lasting_bytes;
        left_bytes.saturating_sub(base_bytes)
    }

    /// Of the settled cells, those that a full collection is to find live.
    pub(super) fn live_cells(&self, grown_bytes: usize, measure: &Measure) -> f64 {
        let live_share = self.paid.live_share(grown_bytes, measure.kept_bytes());
        measure.settled_cells as f64 * live_share
    }

    /// `grown_bytes` pay for CPU time towards a full collection that is worth `worth_byte_ns`.
    pub(super) fn pay(&mut self, grown_bytes: usize, process_ns: u64, worth_byte_ns: f64) {
        self.paid.charge(grown_bytes, process_ns);
        let goal_bytes = self.paid.goal_bytes(grown_bytes, worth_byte_ns);
        if goal_bytes.is_some_and(|goal_bytes| grown_bytes >= goal_bytes) {
            self.is_suspicious = true;
        }
    }

    /// Whether a collection that looks at old cells is to look at settled ones, too.
    pub(super) fn may_have_garbage(&self) -> bool {
        self.is_suspicious || self.what_passes == WhatPasses::HasSettled
    }

    /// The collection that starts next is the one before a fork.
    pub(super) fn note_fork_to_come(&mut self) {
        self.what_passes = WhatPasses::SettlesNext;
    }

    /// This process has just been forked. It gains nothing from freeing what its parent had.
    pub(super) fn begin_in_child(&mut self) {
        self.what_passes = WhatPasses::IsUnsettled;
    }

    /// A collection starts, which somebody may have asked for. The latest major or full one has left
    /// `unsettled_cells` old cells that are not settled.
    pub(super) fn note_start(&mut self, scope: Scope, is_asked: bool, unsettled_cells: usize) {
        self.what_passes = self.what_passes.after_start(scope);
        if scope != Scope::Minor {
            self.settling
                .begin(is_asked, self.is_suspicious, unsettled_cells);
        }
    }

    /// Whether cells settle in the major or full collection that has started.
    pub(super) fn lets_settle(&self) -> bool {
        self.settling.is_on()
    }

    /// What a major collection has freed was not settled garbage, and as far as is known the least
    /// that has been left since the latest full one is none either.
    pub(super) fn note_left_by_major(&mut self, left_bytes: usize) {
        self.least_left_bytes = self.least_left_bytes.min(left_bytes);
        self.paid.refund(left_bytes - self.least_left_bytes);
    }

    pub(super) fn note_left_by_full(&mut self, found: &Found, measure: &Measure) {
        let is_suspicious = std::mem::take(&mut self.is_suspicious);
        // Where cells settle, the number of settled ones does not show how many have died.
        match is_suspicious && !self.lets_settle() {
            true => self.note_died(found, measure),
            false => self.paid.settle(0, 0),
        }
        self.left_bytes = measure.kept_bytes();
        self.least_left_bytes = self.left_bytes;
        self.left_cell_bytes = measure.cell_bytes;
        self.left_cells = measure.settled_cells;
    }

    fn note_died(&mut self, found: &Found, measure: &Measure) {
        let dead_cells = found.settled_cells.saturating_sub(measure.settled_cells);
        let new_cells = found.settled_cells.saturating_sub(self.left_cells);
        self.settling
            .note_full(found.settled_cells, new_cells, dead_cells);
        let mean_bytes = measure.kept_bytes() / measure.kept_cells.max(1);
        let grown_bytes = found.settled_growth_bytes;
        let left_bytes = grown_bytes.saturating_sub(dead_cells * mean_bytes);
        self.paid.settle(grown_bytes, left_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::tests::{measure, measure_at, pace_after_full, pace_by_cost, MIB, OPTIONS};
    use crate::pace::Pace;
    use Scope::{Full, Major, Minor};

    /// [`measure`] of a heap that is mostly settled.
    fn settled(kept: usize) -> Measure {
        Measure {
            settled_cells: 90,
            ..measure(kept, MIB)
        }
    }

    #[test]
    fn a_full_collection_follows_a_major_one_that_leaves_too_much() {
        let mut pace = pace_after_full(OPTIONS, 100 * MIB);
        assert_eq!(pace.start(settled(200 * MIB), None), Major);
        assert_eq!(pace.start(settled(126 * MIB), None), Full);
        // The program had grown.
        assert_eq!(pace.start(settled(124 * MIB), None), Minor);
        assert_eq!(pace.start(settled(250 * MIB), None), Major);
    }

    /// As [`measure_at`], when most cells are settled.
    fn settled_at(process_ms: u64, kept_kib: usize) -> Measure {
        Measure {
            settled_cells: 90,
            ..measure_at(process_ms, kept_kib << 10, MIB)
        }
    }

    #[test]
    fn what_a_major_collection_frees_pays_nothing_for_a_full_one() {
        const LIVE_KIB: usize = 100 << 10;
        for (left_kib, scope) in [(2048, Full), (100, Minor)] {
            let mut pace = pace_by_cost();
            // Three major collections leave 2 MiB, this much, and 2 MiB beyond what the full one has left.
            let mut at_ms = 2000;
            for grown_kib in [2048, left_kib, 2048] {
                let kept_kib = LIVE_KIB + grown_kib;
                let major = pace.start(settled_at(at_ms, kept_kib), Some(Major));
                let minor = pace.start(settled_at(at_ms + 10, kept_kib), Some(Minor));
                assert_eq!((major, minor), (Major, Minor));
                at_ms += 1800;
            }
            let next = pace.start(settled_at(at_ms, LIVE_KIB + 2048), None);
            assert_eq!(next, scope, "{left_kib}");
        }
    }

    #[test]
    fn settled_garbage_pays_also_when_the_full_collection_before_has_left_more() {
        const LIVE_KIB: usize = 100 << 10;
        const HELD_KIB: usize = 20 << 10;
        let mut pace = pace_by_cost();
        let held = settled_at(2000, LIVE_KIB + HELD_KIB);
        assert_eq!(pace.start(held, Some(Full)), Full);
        pace.start(settled_at(2010, LIVE_KIB + HELD_KIB), Some(Minor));
        // Each request holds 20 MiB and leaves 256 KiB of garbage that has settled.
        let is_full = |request: &usize| {
            let garbage_kib = 256 * request;
            let at_ms = 2100 + 400 * *request as u64;
            [(0, HELD_KIB), (200, 0)].into_iter().any(|(ms, held_kib)| {
                let kept_kib = LIVE_KIB + held_kib + garbage_kib;
                let scope = pace.start(settled_at(at_ms + ms, kept_kib), None);
                pace.start(settled_at(at_ms + ms + 10, kept_kib), Some(Major));
                pace.start(settled_at(at_ms + ms + 20, kept_kib), Some(Minor));
                scope == Full
            })
        };
        let requests = (0..100).find(is_full);
        assert!(requests.is_some_and(|count| count < 20), "{requests:?}");
    }

    /// [`measure`] of a heap with so many settled cells, and 40 other old ones.
    fn with_settled(settled_cells: usize, kept: usize) -> Measure {
        with_cells(settled_cells, 40, kept)
    }

    /// [`measure`] of a heap with so many settled cells, and so many other old ones.
    fn with_cells(settled_cells: usize, unsettled_cells: usize, kept: usize) -> Measure {
        Measure {
            kept_cells: settled_cells + unsettled_cells,
            old_cells: settled_cells + unsettled_cells,
            settled_cells,
            ..measure(kept, MIB)
        }
    }

    /// A major collection of `pace` leaves too much. The full one after it finds that `dead` of 90 settled
    /// cells have died, and then 60 are settled.
    fn find_dead(pace: &mut Pace, dead: usize) {
        assert_eq!(pace.start(with_settled(90, 200 * MIB), None), Major);
        assert_eq!(pace.start(with_settled(90, 190 * MIB), None), Full);
        assert!(
            !pace.lets_settle(),
            "it is to show what is left of the settled ones"
        );
        pace.start(with_settled(90 - dead, 100 * MIB), None);
        pace.settled.left_cells = 60;
    }

    #[test]
    fn where_settled_cells_die_cells_settle_in_fewer_collections() {
        let mut pace = pace_after_full(OPTIONS, 100 * MIB);
        pace.settled.left_cells = 60;
        // Each collection leaves as much that could settle.
        let expect_settling_in = |pace: &mut Pace, collection: usize| {
            for number in 1..=collection {
                assert_eq!(pace.start(with_settled(60, 200 * MIB), None), Major);
                assert_eq!(
                    pace.lets_settle(),
                    number == collection,
                    "{number} of {collection}"
                );
                assert_eq!(pace.start(with_settled(60, 100 * MIB), None), Minor);
            }
        };
        expect_settling_in(&mut pace, 1);
        // The last time the major collection in `find_dead` is the first of the 16.
        for collection in [2, 4, 8, 16, 15] {
            find_dead(&mut pace, 30);
            expect_settling_in(&mut pace, collection);
        }
        for collection in [7, 3, 1, 1, 1] {
            find_dead(&mut pace, 0);
            expect_settling_in(&mut pace, collection);
        }
    }

    #[test]
    fn where_settled_cells_die_cells_settle_after_a_collection_that_left_few() {
        let mut pace = pace_after_full(OPTIONS, 100 * MIB);
        pace.settled.left_cells = 60;
        find_dead(&mut pace, 30);
        find_dead(&mut pace, 30);
        for (left_cells, lets_settle) in [
            (10, false),
            (100, false),
            (100, false),
            (30, false),
            (0, true),
        ] {
            assert_eq!(pace.start(with_settled(60, 200 * MIB), None), Major);
            assert_eq!(pace.lets_settle(), lets_settle);
            let left = with_cells(60, left_cells, 100 * MIB);
            assert_eq!(pace.start(left, None), Minor);
        }
    }

    #[test]
    fn cells_settle_when_the_program_asks_for_a_collection() {
        let mut pace = pace_after_full(OPTIONS, 100 * MIB);
        find_dead(&mut pace, 30);
        for asked in [Full, Major, Full] {
            pace.start(with_settled(60, 100 * MIB), Some(asked));
            assert!(pace.lets_settle());
        }
        pace.start(with_settled(60, 100 * MIB), None);
        assert_eq!(pace.start(with_settled(60, 200 * MIB), None), Major);
        assert!(!pace.lets_settle());
    }
}
