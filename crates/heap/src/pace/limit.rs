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

/// What is known of the limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limit {
    fit: Fit,
    /// What may still be handed out, as last measured; `None` without a limit.
    room_bytes: Option<usize>,
    /// Of that room, what the system would still have to give.
    unused_bytes: usize,
    /// What is resident, as measured when the latest collection started.
    resident_bytes: usize,
    /// What was resident after the latest major or full collection under this limit.
    left_resident_bytes: usize,
    /// Bytes that the program was handed from the start of the latest full collection to the
    /// start of the latest collection.
    handed_bytes: usize,
    /// Full collections that only the limit asked for.
    pub(super) collections: usize,
}

/// Whether what the latest full collection left fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fit {
    /// It does, as far as is known.
    #[default]
    Fits,
    /// A full collection in slices left too much: the next one is to be done in one
    /// stop, because only that shows whether live data fits.
    Doubtful,
    /// It does not fit.
    Over,
}

impl Limit {
    /// A collection starts. Half of the free memory counts as room: the rest may have the
    /// wrong widths.
    pub(super) fn note(&mut self, limit_bytes: Option<usize>, measure: &Measure) {
        self.room_bytes = limit_bytes.map(|limit_bytes| {
            let residence = measure.residence.unwrap_or(Residence {
                resident_bytes: measure.used_bytes,
                free_bytes: 0,
            });
            self.resident_bytes = residence.resident_bytes;
            self.unused_bytes = limit_bytes.saturating_sub(residence.resident_bytes);
            self.unused_bytes + residence.free_bytes / 2
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
        let Some(room_bytes) = self.room_bytes else {
            return false;
        };
        if self.fit == Fit::Doubtful {
            return true;
        }
        let growth_min_bytes = live / GROWTH_MIN_PART;
        let garbage_bytes = kept.saturating_sub(live);
        let grown_bytes = self.resident_bytes.saturating_sub(self.left_resident_bytes);
        let is_above = self.fit == Fit::Fits && self.unused_bytes == 0;
        garbage_bytes > (room_bytes / 2).max(growth_min_bytes)
            || (room_bytes < nursery_bytes && garbage_bytes > growth_min_bytes)
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
        match self.room_bytes {
            Some(room_bytes) if self.fit != Fit::Over => {
                wanted.min(room_bytes / NURSERIES_PER_ROOM).max(least)
            }
            _ => wanted,
        }
    }

    pub(super) fn is_short_of_room(&self, limit_bytes: Option<usize>) -> bool {
        let limit_bytes = limit_bytes.unwrap_or(0);
        let is_short = self.room_bytes.is_some_and(|room_bytes| {
            room_bytes < limit_bytes / ROOM_MIN_PART
                || self.unused_bytes < limit_bytes / UNUSED_MIN_PART
        });
        match self.fit {
            Fit::Fits => is_short,
            Fit::Doubtful => true,
            Fit::Over => false,
        }
    }

    pub(super) fn note_resident(&mut self, limit_bytes: Option<usize>, resident_bytes: usize) {
        if let Some(limit_bytes) = limit_bytes {
            self.unused_bytes = limit_bytes.saturating_sub(resident_bytes);
        }
    }

    /// A major or full collection has been swept. The program has been handed `fresh_bytes` since
    /// it was marked, which are not what it left: live data that fits without them fits. But a part
    /// of them may lie in pages that live data keeps resident anyway, so live data that did not fit
    /// has to fit together with them.
    pub(super) fn note_after_full(
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
