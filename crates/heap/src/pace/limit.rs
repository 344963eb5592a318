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
            self.unused_bytes = limit_bytes.saturating_sub(residence.resident_bytes);
            self.unused_bytes + residence.free_bytes / 2
        });
    }

    /// Whether half of the room that the latest full collection left is used up
    /// by what may be garbage. When live data leaves next to no room, or does
    /// not fit, it has to grow by a part of itself before it is collected
    /// again: otherwise a program would do nothing but collect.
    pub(super) fn is_near(&self, live: usize, kept: usize, nursery_bytes: usize) -> bool {
        let Some(room_bytes) = self.room_bytes else {
            return false;
        };
        if self.fit == Fit::Doubtful {
            return true;
        }
        let garbage_bytes = kept.saturating_sub(live);
        garbage_bytes > (room_bytes / 2).max(live / GROWTH_MIN_PART)
            || (room_bytes < nursery_bytes && garbage_bytes > live / GROWTH_MIN_PART)
    }

    /// The nursery in bytes: the one that is `wanted`, or a smaller one that the room allows.
    pub(super) fn nursery_bytes(&self, wanted: usize, nursery_min_bytes: usize) -> usize {
        match self.room_bytes {
            Some(room_bytes) if self.fit != Fit::Over => wanted
                .min(room_bytes / NURSERIES_PER_ROOM)
                .max(nursery_min_bytes / 4),
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

    pub(super) fn note_after_full(
        &mut self,
        limit_bytes: Option<usize>,
        resident_bytes: usize,
        is_exact: bool,
    ) {
        let is_over = limit_bytes.is_some_and(|limit| resident_bytes > limit);
        self.fit = match (is_over, is_exact || self.fit == Fit::Over) {
            (false, _) => Fit::Fits,
            (true, false) => Fit::Doubtful,
            (true, true) => Fit::Over,
        };
        self.note_resident(limit_bytes, resident_bytes);
    }

    /// This process has just been forked: what did not fit was its parent's.
    pub(super) fn begin_in_child(&mut self) {
        self.fit = Fit::Fits;
    }

    pub(super) fn is_over(&self) -> bool {
        self.fit == Fit::Over
    }
}
