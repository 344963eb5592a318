//! How the slices of one marking are spread over what the program allocates.

use std::cmp::max;

/// The plan of one marking in slices.
///
/// Marking is to be over when the program has been handed `planned_bytes`. What a slice marks
/// differs by a factor of ten between heaps, and within one marking, because code takes long and
/// comes first. So a marking is expected to take as many slices for each cell as the latest
/// marking of the same scope took. Without one, the interval to the next slice follows from what
/// the slices so far have marked. When marking is late, intervals become shorter. A program that
/// outruns even the shortest interval, because it allocates in large pieces, makes slices longer.
///
/// # Why a marking ends
///
/// A slice comes after the program has been handed something, and `planned_bytes` stays what it
/// was. So after finitely many slices either marking is over, or the program has been handed so
/// much that [`SliceSchedule::is_outrun`]: then the rest is marked without a limit while the
/// program stands still, and the rest is a finite number of cells.
///
/// That is rare. When a remark begins, all that the roots referred to at the previous one is
/// marked, so what it finds was allocated since. If a slice marks more than twice what the
/// program can be handed in an interval, each remark finds at most half of what the one before
/// did, and two slices' worth in the end. In the shortest interval a program can be handed 8 KiB,
/// which are 256 cells.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SliceSchedule {
    planned_bytes: usize,
    /// Cells that there are to mark, as far as is known at the beginning.
    cells: usize,
    /// Slices that this marking is expected to take; `None` without an earlier one of its scope.
    expected_slices: Option<usize>,
    /// Stops of the program; a slice that is several times as long counts as that many.
    stops: usize,
    is_exception: bool,
    /// Slices that marked something, and how many cells they marked.
    slices: usize,
    marked_cells: usize,
}

/// What a marking in slices has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Experience {
    cells: usize,
    slices: usize,
}

/// How many cells a slice of a millisecond is expected to mark before one has been done.
const CELLS_PER_SLICE: usize = 20_000;
/// The least bytes between two slices that are not late, so that the program gets on.
const INTERVAL_BYTES_MIN: usize = 64 << 10;
/// The most bytes between two slices, so that a collection ends.
const INTERVAL_BYTES_MAX: usize = 1 << 20;
/// At least one cell in this many is taken to be unmarked.
const LEFT_PART_MIN: usize = 16;
/// For every this many slices that the latest marking suggests, one more is expected.
const UNEXPECTED_PART: usize = 8;
/// Intervals shrink, and slices grow, by this factor at most.
const HASTE_MAX: usize = 8;
/// A slice takes at most this many times the usual length, whatever it is longer for.
///
/// It takes more than that only for what a remark has to do in one piece: trace the roots, and
/// the cells of [`Rescans`](crate::mark::rescan::Rescans).
pub(crate) const LENGTH_MAX: usize = HASTE_MAX;
/// When the program has been handed the tolerated bytes this many times, no haste is enough.
const OUTRUN: usize = 2 * HASTE_MAX;

impl SliceSchedule {
    /// A marking of about `cells` while the program is handed `planned_bytes`. `latest` is what
    /// the latest marking of its scope took.
    pub(crate) fn new(planned_bytes: usize, cells: usize, latest: Option<Experience>) -> Self {
        let expected = |latest: Experience| {
            let slices = latest.slices as u128 * cells as u128 / latest.cells.max(1) as u128;
            slices as usize + slices as usize / UNEXPECTED_PART
        };
        Self {
            planned_bytes,
            cells,
            expected_slices: latest.map(expected),
            ..Self::default()
        }
    }

    /// Notes that a slice has been done, as long as `length` usual ones, after which this
    /// collection has marked `marked_cells` in all.
    pub(crate) fn note_slice(&mut self, length: usize, marked_cells: usize) {
        self.stops += length;
        if marked_cells > self.marked_cells {
            self.slices += 1;
            self.marked_cells = marked_cells;
        }
    }

    /// Notes that no other marking will be like this one.
    pub(crate) fn tells_nothing(&mut self) {
        self.is_exception = true;
    }

    /// What the marking, which is over, has taken; `None` if that was one stop, or if no other
    /// marking will be like this one.
    pub(crate) fn experience(&self) -> Option<Experience> {
        (self.stops > 0 && !self.is_exception).then_some(Experience {
            cells: self.cells,
            slices: self.stops + 1,
        })
    }

    /// Bytes that the program may be handed before the next slice, when it has been handed
    /// `handed_bytes` since the marking began.
    pub(crate) fn interval_bytes(&self, handed_bytes: usize) -> usize {
        let wanted_bytes = match self.expected_slices {
            _ if self.haste(handed_bytes) > 1 => 0,
            Some(expected) if handed_bytes < self.planned_bytes => {
                self.planned_bytes / (expected + 1)
            }
            // There are more slices than expected: they come sooner, but not all at once.
            Some(expected) => self.planned_bytes / (expected + 1) / 2,
            None => {
                let bytes_left = self.planned_bytes.saturating_sub(handed_bytes);
                bytes_left / (self.slices_left_at_this_rate() + 1)
            }
        };
        wanted_bytes.clamp(self.interval_bytes_min(handed_bytes), INTERVAL_BYTES_MAX)
    }

    fn slices_left_at_this_rate(&self) -> usize {
        let cells_left = max(
            self.cells.saturating_sub(self.marked_cells),
            self.cells / LEFT_PART_MIN,
        );
        let cells_per_slice = match self.slices {
            0 => CELLS_PER_SLICE,
            slices => max(self.marked_cells / slices, 1),
        };
        cells_left / cells_per_slice
    }

    /// How many times its usual length is added to a slice, when the program has been handed
    /// `interval_bytes` since the previous one: once for each least interval after the first that
    /// fits into these bytes, and less often than the haste says.
    pub(crate) fn lengthening(&self, handed_bytes: usize, interval_bytes: usize) -> usize {
        let intervals = interval_bytes / self.interval_bytes_min(handed_bytes);
        intervals
            .saturating_sub(1)
            .min(self.haste(handed_bytes) - 1)
    }

    fn interval_bytes_min(&self, handed_bytes: usize) -> usize {
        INTERVAL_BYTES_MIN / self.haste(handed_bytes)
    }

    /// How much faster marking has to be than planned: one more for each time that the program
    /// has been handed the tolerated bytes, which are twice the planned ones, or 1 MiB if that is
    /// more.
    fn haste(&self, handed_bytes: usize) -> usize {
        (1 + self.times_late(handed_bytes)).min(HASTE_MAX)
    }

    /// Whether the program has been handed so much since marking began that even the most haste
    /// was too little.
    pub(crate) fn is_outrun(&self, handed_bytes: usize) -> bool {
        self.times_late(handed_bytes) >= OUTRUN
    }

    fn times_late(&self, handed_bytes: usize) -> usize {
        handed_bytes / max(self.planned_bytes.saturating_mul(2), INTERVAL_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn slices_are_spread_over_what_is_planned() {
        let schedule = SliceSchedule::new(10 * MIB, 40 * CELLS_PER_SLICE, None);
        assert_eq!(schedule.interval_bytes(0), 10 * MIB / 41);
    }

    #[test]
    fn slices_that_mark_little_come_more_often() {
        let mut schedule = SliceSchedule::new(10 * MIB, 400_000, None);
        schedule.note_slice(1, 10_000);
        let slow = schedule.interval_bytes(MIB);
        let mut schedule = SliceSchedule::new(10 * MIB, 400_000, None);
        schedule.note_slice(1, 40_000);
        let fast = schedule.interval_bytes(MIB);
        assert!(3 * slow < fast, "{slow} {fast}");
    }

    #[test]
    fn as_many_slices_are_expected_as_the_latest_marking_took_for_each_cell() {
        let mut schedule = SliceSchedule::new(10 * MIB, 100_000, None);
        assert_eq!(schedule.experience(), None, "it was done in one stop");
        // The first slices mark little: that says nothing about the others.
        for marked_cells in (0..40).map(|slice| slice * slice * 60) {
            schedule.note_slice(1, marked_cells);
        }
        let latest = schedule.experience();
        let mut next = SliceSchedule::new(10 * MIB, 200_000, latest);
        let even_share = 10 * MIB / (82 + 82 / 8 + 1);
        assert_eq!(next.interval_bytes(0), even_share);
        next.note_slice(1, 60);
        assert_eq!(next.interval_bytes(9 * MIB), even_share);
        next.tells_nothing();
        assert_eq!(next.experience(), None);
    }

    #[test]
    fn unexpected_slices_come_sooner_but_not_all_at_once() {
        let latest = Experience {
            cells: 1,
            slices: 16,
        };
        let schedule = SliceSchedule::new(10 * MIB, 1, Some(latest));
        let even_share = 10 * MIB / 19;
        assert_eq!(schedule.interval_bytes(10 * MIB - 1), even_share);
        assert_eq!(schedule.interval_bytes(10 * MIB), even_share / 2);
        assert_eq!(schedule.interval_bytes(20 * MIB - 1), even_share / 2);
        let late = schedule.interval_bytes(20 * MIB);
        assert_eq!(late, INTERVAL_BYTES_MIN / 2);
    }

    #[test]
    fn a_program_always_gets_on_and_a_marking_too() {
        let mut schedule = SliceSchedule::new(MIB, 1 << 30, None);
        assert_eq!(schedule.interval_bytes(0), INTERVAL_BYTES_MIN);
        assert_eq!(
            schedule.interval_bytes(100 * MIB),
            INTERVAL_BYTES_MIN / HASTE_MAX
        );
        schedule = SliceSchedule::new(1 << 30, 1, None);
        schedule.note_slice(1, 1);
        assert_eq!(schedule.interval_bytes(0), INTERVAL_BYTES_MAX);
    }

    #[test]
    fn intervals_shrink_only_when_twice_the_plan_is_exceeded() {
        let schedule = SliceSchedule::new(10 * MIB, 1, None);
        let interval_bytes = |handed_bytes| schedule.interval_bytes(handed_bytes);
        assert_eq!(interval_bytes(20 * MIB - 1), INTERVAL_BYTES_MIN);
        assert_eq!(interval_bytes(20 * MIB), INTERVAL_BYTES_MIN / 2);
        assert_eq!(interval_bytes(1 << 40), INTERVAL_BYTES_MIN / HASTE_MAX);
    }

    #[test]
    fn a_marking_is_outrun_when_the_most_haste_was_too_little() {
        let schedule = SliceSchedule::new(10 * MIB, 1, None);
        assert_eq!(schedule.haste(140 * MIB), HASTE_MAX);
        assert!(!schedule.is_outrun(320 * MIB - 1));
        assert!(schedule.is_outrun(320 * MIB));
        let without_plan = SliceSchedule::new(0, 1, None);
        assert!(!without_plan.is_outrun(16 * MIB - 1) && without_plan.is_outrun(16 * MIB));
        assert!(!SliceSchedule::new(usize::MAX, 1, None).is_outrun(usize::MAX / 2));
    }

    #[test]
    fn slices_grow_when_a_late_program_outruns_the_shortest_interval() {
        let schedule = SliceSchedule::new(10 * MIB, 1, None);
        let late = |interval_bytes| schedule.lengthening(60 * MIB, interval_bytes);
        assert_eq!(late(INTERVAL_BYTES_MIN / 4), 0);
        assert_eq!(late(INTERVAL_BYTES_MIN / 2), 1);
        assert_eq!(late(INTERVAL_BYTES_MIN), 3);
        assert_eq!(late(MIB), 3);
        assert_eq!(schedule.lengthening(20 * MIB - 1, MIB), 0);
    }
}
