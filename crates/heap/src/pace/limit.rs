//! The memory limit: how much room is left below it, and whether live data fits.

use super::measure::{Measure, Residence};

/// Under a memory limit, this many nurseries fit into what is left of it: minor
/// collections may keep much of theirs, and the next decision must come in time.
const NURSERIES_PER_ROOM: usize = 4;
/// However little room there is, live data grows by this part of itself between
/// two full collections.
const GROWTH_MIN_PART: usize = 16;
/// Room is short when it is less than this part of the limit.
const ROOM_MIN_PART: usize = 16;
/// It is also short when less than this part of the limit is memory that the system has not
/// given yet.
const UNUSED_MIN_PART: usize = 8;

/// What is known of the limit. Whether live data fits shows in what a collection left, and room is
/// measured when one starts: each may be known before the other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limit {
    fit: Fit,
    /// `None` without a limit, and until a collection starts under it.
    room: Option<Room>,
    /// What was resident after the latest major or full collection under this limit.
    left_resident_bytes: usize,
    /// Bytes that the program was handed from the start of the latest full collection to the
    /// start of the latest collection.
    handed_bytes: usize,
    /// Full collections that only the limit asked for.
    pub(super) collections: usize,
}

/// What is left below the limit.
#[derive(Clone, Copy, Debug)]
struct Room {
    /// What may still be handed out, as measured when the latest collection started.
    bytes: usize,
    /// What the system would still have to give, as last measured.
    unused_bytes: usize,
    /// What was resident when the latest collection started.
    resident_bytes: usize,
}

/// Whether what the latest major or full collection left fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fit {
    /// It does, as far as is known.
    #[default]
    Fits,
    /// What a collection in slices left is too much: the next one is to be full, and done in one
    /// stop, because only that shows whether live data fits.
    Doubtful,
    /// It does not fit.
    Over,
}

impl Limit {
    /// A collection starts. Half of the free memory counts as room: the rest may have the
    /// wrong widths.
    pub(super) fn note(&mut self, limit_bytes: Option<usize>, measure: &Measure) {
        self.room = limit_bytes.map(|limit_bytes| {
            let residence = measure.residence.unwrap_or(Residence {
                resident_bytes: measure.used_bytes,
                free_bytes: 0,
            });
            let unused_bytes = limit_bytes.saturating_sub(residence.resident_bytes);
            Room {
                bytes: unused_bytes + residence.free_bytes / 2,
                unused_bytes,
                resident_bytes: residence.resident_bytes,
            }
        });
        self.handed_bytes = self.handed_bytes.saturating_add(measure.fresh_bytes);
    }

    /// The collection that has started is a full one.
    pub(super) fn note_full(&mut self) {
        self.handed_bytes = 0;
    }

    /// There is another limit, or none: what was measured says nothing about it.
    pub(super) fn begin_anew(&mut self) {
        *self = Self {
            collections: self.collections,
            handed_bytes: self.handed_bytes,
            ..Self::default()
        };
    }

    /// Whether half of the room that the latest full collection left is used up
    /// by what may be garbage. When live data leaves next to no room, or does
    /// not fit, it has to grow by a part of itself before it is collected
    /// again: otherwise a program would do nothing but collect. Other memory of the process may
    /// also have outgrown the limit: then a full collection shows whether live data still fits.
    pub(super) fn is_near(&self, live: usize, kept: usize, nursery_bytes: usize) -> bool {
        let Some(room) = self.room else {
            return false;
        };
        if self.fit == Fit::Doubtful {
            return true;
        }
        let growth_min_bytes = live / GROWTH_MIN_PART;
        let garbage_bytes = kept.saturating_sub(live);
        let grown_bytes = room.resident_bytes.saturating_sub(self.left_resident_bytes);
        let is_above = self.fit == Fit::Fits && room.unused_bytes == 0;
        garbage_bytes > (room.bytes / 2).max(growth_min_bytes)
            || (room.bytes < nursery_bytes && garbage_bytes > growth_min_bytes)
            || (is_above && grown_bytes > growth_min_bytes)
    }

    /// Whether a full collection may make room for `bytes`, now that the program has been handed
    /// `fresh_bytes` since the latest collection, and a major or full one has left `live`. The
    /// program has to be handed as much in between as is growth ([`Limit::is_near`]).
    pub(super) fn may_gain_room(&self, live: usize, fresh_bytes: usize, bytes: usize) -> bool {
        let handed_bytes = self.handed_bytes.saturating_add(fresh_bytes);
        handed_bytes > 0 && handed_bytes.saturating_add(bytes) > live / GROWTH_MIN_PART
    }

    /// The nursery in bytes: the one that is `wanted`, or a smaller one that the room allows, but
    /// at least `least`.
    pub(super) fn nursery_bytes(&self, wanted: usize, least: usize) -> usize {
        match self.room {
            Some(room) if self.fit != Fit::Over => {
                wanted.min(room.bytes / NURSERIES_PER_ROOM).max(least)
            }
            _ => wanted,
        }
    }

    pub(super) fn is_short_of_room(&self, limit_bytes: Option<usize>) -> bool {
        let limit_bytes = limit_bytes.unwrap_or(0);
        let is_short = self.room.is_some_and(|room| {
            room.bytes < limit_bytes / ROOM_MIN_PART
                || room.unused_bytes < limit_bytes / UNUSED_MIN_PART
        });
        match self.fit {
            Fit::Fits => is_short,
            Fit::Doubtful => true,
            Fit::Over => false,
        }
    }

    pub(super) fn note_resident(&mut self, limit_bytes: Option<usize>, resident_bytes: usize) {
        if let Some((limit_bytes, room)) = limit_bytes.zip(self.room.as_mut()) {
            room.unused_bytes = limit_bytes.saturating_sub(resident_bytes);
        }
    }

    /// A major or full collection has been swept. The program has been handed `fresh_bytes` since
    /// it was marked, which are not what it left: live data that fits without them fits. But a part
    /// of them may lie in pages that live data keeps resident anyway, so live data that did not fit
    /// has to fit together with them.
    pub(super) fn note_after_larger(
        &mut self,
        limit_bytes: Option<usize>,
        resident_bytes: usize,
        fresh_bytes: usize,
        is_exact: bool,
    ) {
        let left_bytes = resident_bytes.saturating_sub(fresh_bytes);
        let judged_bytes = match self.fit {
            Fit::Over => resident_bytes,
            Fit::Fits | Fit::Doubtful => left_bytes,
        };
        let is_over = limit_bytes.is_some_and(|limit| judged_bytes > limit);
        self.left_resident_bytes = left_bytes;
        self.fit = match (is_over, is_exact || self.fit == Fit::Over) {
            (false, _) => Fit::Fits,
            (true, false) => Fit::Doubtful,
            (true, true) => Fit::Over,
        };
        self.note_resident(limit_bytes, resident_bytes);
    }

    /// This process has just been forked: what did not fit was its parent's, and so was what was
    /// resident.
    pub(super) fn begin_in_child(&mut self) {
        self.fit = Fit::Fits;
        self.left_resident_bytes = 0;
    }

    pub(super) fn is_over(&self) -> bool {
        self.fit == Fit::Over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::tests::{measure, pace_after_full, LIMITED, MIB, OPTIONS};
    use crate::pace::{Pace, Scope};
    use Scope::{Full, Minor};

    /// A process with 10 MiB besides its heap, and 10 MiB of free memory in its heap.
    fn resident(kept: usize, fresh: usize) -> Measure {
        Measure {
            residence: Some(Residence {
                resident_bytes: kept + fresh + 20 * MIB,
                free_bytes: 10 * MIB,
            }),
            ..measure(kept, fresh)
        }
    }

    #[test]
    fn near_the_memory_limit_collections_come_sooner_and_are_full() {
        let mut pace = Pace::new(LIMITED);
        pace.start(resident(0, 90 * MIB), Some(Full));
        pace.start(resident(90 * MIB, MIB), None);
        assert_eq!(pace.start(resident(100 * MIB, MIB), None), Minor);
        assert!(pace.nursery_bytes() <= 10 * MIB);
        assert_eq!(pace.limit_collections(), 0);
        assert_eq!(pace.start(resident(115 * MIB, MIB), None), Full);
        assert_eq!(pace.limit_collections(), 1);
    }

    #[test]
    fn without_room_live_data_grows_a_little_between_full_collections() {
        let mut pace = Pace::new(LIMITED);
        pace.start(resident(0, 128 * MIB), Some(Full));
        pace.note_after_larger(148 * MIB, 0, true);
        pace.start(resident(128 * MIB, MIB), None);
        assert!(pace.is_short_of_room());
        assert_eq!(pace.start(resident(130 * MIB, MIB), None), Minor);
        assert_eq!(pace.start(resident(137 * MIB, MIB), None), Full);
    }

    #[test]
    fn a_program_that_outruns_slices_is_short_of_room() {
        let mut pace = pace_after_full(LIMITED, 50 * MIB);
        assert!(!pace.is_short_of_room());
        pace.note_resident(140 * MIB);
        assert!(pace.is_short_of_room());
    }

    #[test]
    fn live_data_that_does_not_fit_is_paced_almost_as_if_there_were_no_limit() {
        let mut pace = Pace::new(LIMITED);
        pace.start(resident(0, 400 * MIB), Some(Full));
        pace.note_after_larger(420 * MIB, 0, false);
        assert!(!pace.is_over_limit() && pace.is_short_of_room());
        pace.note_after_larger(420 * MIB, 0, true);
        assert!(pace.is_over_limit() && !pace.is_short_of_room());
        assert_eq!(pace.start(resident(400 * MIB, MIB), None), Minor);
        assert_eq!(pace.nursery_bytes(), OPTIONS.nursery_max_bytes);
        assert_eq!(pace.start(resident(420 * MIB, MIB), None), Minor);
        assert_eq!(pace.start(resident(430 * MIB, MIB), None), Full);
        pace.note_after_larger(100 * MIB, 0, true);
        assert!(!pace.is_over_limit());
    }

    #[test]
    fn what_the_program_is_handed_after_marking_is_not_what_did_not_fit() {
        let mut pace = pace_after_full(LIMITED, 50 * MIB);
        pace.note_after_larger(200 * MIB, 60 * MIB, true);
        assert!(!pace.is_over_limit());
        pace.note_after_larger(200 * MIB, 40 * MIB, true);
        assert!(pace.is_over_limit());
    }

    #[test]
    fn what_the_program_is_handed_after_marking_does_not_make_live_data_fit() {
        let mut pace = pace_after_full(LIMITED, 150 * MIB);
        pace.note_after_larger(155 * MIB, 0, true);
        // The same live data, and the cells of a nursery between it.
        pace.note_after_larger(155 * MIB, 10 * MIB, false);
        assert!(pace.is_over_limit());
        pace.note_after_larger(149 * MIB, 10 * MIB, false);
        assert!(!pace.is_over_limit());
    }

    /// A process with 80 MiB of live data, and with this much of RSS.
    fn of_80_mib(resident_mib: usize) -> Measure {
        Measure {
            residence: Some(Residence {
                resident_bytes: resident_mib * MIB,
                free_bytes: 0,
            }),
            ..measure(80 * MIB, MIB)
        }
    }

    #[test]
    fn memory_elsewhere_beyond_the_limit_brings_one_full_collection() {
        let mut pace = Pace::new(LIMITED);
        pace.start(measure(0, 80 * MIB), Some(Full));
        pace.note_after_larger(100 * MIB, 0, true);
        assert_eq!(pace.start(of_80_mib(110), None), Minor);
        assert_eq!(pace.start(of_80_mib(151), None), Full);
        pace.note_after_larger(145 * MIB, 0, true);
        // Not again before it has grown by a part of live data.
        assert_eq!(pace.start(of_80_mib(150), None), Minor);
        assert_eq!(pace.start(of_80_mib(151), None), Full);
        pace.note_after_larger(151 * MIB, 0, true);
        for _ in 0..10 {
            assert_eq!(pace.start(of_80_mib(190), None), Minor);
            assert!(pace.nursery_bytes() > 19 * MIB);
        }
    }

    #[test]
    fn a_forked_child_above_the_limit_has_to_show_whether_its_live_data_fits() {
        let mut pace = Pace::new(LIMITED);
        pace.start(measure(0, 80 * MIB), Some(Full));
        pace.note_after_larger(170 * MIB, 0, true);
        pace.begin_in_child(0);
        assert_eq!(pace.start(of_80_mib(60), None), Minor);
        assert_eq!(pace.start(of_80_mib(155), None), Full);
    }

    #[test]
    fn another_limit_has_to_show_whether_live_data_fits() {
        for is_exact in [false, true] {
            let mut pace = pace_after_full(LIMITED, 400 * MIB);
            pace.note_after_larger(420 * MIB, 0, is_exact);
            pace.set_options(OPTIONS);
            assert!(!pace.is_over_limit() && !pace.is_short_of_room());
        }
    }

    #[test]
    fn where_only_minor_collections_are_wanted_the_nursery_keeps_its_least_size() {
        let above = Measure {
            residence: Some(Residence {
                resident_bytes: 160 * MIB,
                free_bytes: 0,
            }),
            ..measure(140 * MIB, MIB)
        };
        let mut pace = pace_after_full(LIMITED, 130 * MIB);
        pace.start(above, None);
        assert_eq!(pace.nursery_bytes(), OPTIONS.nursery_min_bytes / 4);
        pace.start(above, Some(Minor));
        assert_eq!(pace.nursery_bytes(), OPTIONS.nursery_min_bytes);
    }

    #[test]
    fn a_full_collection_may_make_room_once_the_program_has_been_handed_something() {
        let mut pace = pace_after_full(LIMITED, 100 * MIB);
        pace.start(resident(100 * MIB, 0), Some(Full));
        assert!(!pace.may_gain_room(0, usize::MAX));
        // Also when a minor collection has counted it.
        assert!(pace.may_gain_room(MIB, 40 * MIB) && !pace.may_gain_room(MIB, 2 * MIB));
        pace.start(resident(100 * MIB, MIB), Some(Minor));
        assert!(pace.may_gain_room(0, 40 * MIB) && !pace.may_gain_room(0, 2 * MIB));
        pace.start(resident(100 * MIB, 5 * MIB), Some(Minor));
        assert!(pace.may_gain_room(0, 2 * MIB));
    }
}
