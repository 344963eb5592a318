//! How the slices of one marking are spread over what the program allocates.

use std::cmp::max;

/// The plan of one marking in slices.
///
/// It is to be over when the program has been handed `planned_bytes`. What a
/// slice marks is known only by doing it, and differs by a factor of ten between
/// heaps, so the interval to the next one follows from what is left of both. A
/// program that outruns even the shortest interval makes slices longer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SliceSchedule {
    planned_bytes: usize,
    /// Cells that there are to mark, as far as is known at the beginning.
    cells: usize,
    /// Slices that marked something, and what they marked.
    slices: usize,
    marked_cells: usize,
}

/// What a slice of a millisecond is expected to mark before one was done.
const CELLS_PER_SLICE: usize = 20_000;
/// Least bytes between two slices, so that the program gets on.
const INTERVAL_BYTES_MIN: usize = 64 << 10;
/// Most bytes between two slices, so that a collection ends.
const INTERVAL_BYTES_MAX: usize = 1 << 20;
/// At least one cell in so many is taken to be unmarked.
const LEFT_PART_MIN: usize = 16;
/// Slices grow by this factor at most.
const LENGTH_MAX: usize = 8;

impl SliceSchedule {
    /// A marking of about `cells` while the program is handed `planned_bytes`.
    pub(crate) fn new(planned_bytes: usize, cells: usize) -> Self {
        Self {
            planned_bytes,
            cells,
            ..Self::default()
        }
    }

    /// A slice has been done, after which so many cells are marked by this
    /// collection.
    pub(crate) fn note_slice(&mut self, marked_cells: usize) {
        if marked_cells > self.marked_cells {
            self.slices += 1;
            self.marked_cells = marked_cells;
        }
    }

    /// Bytes that the program may be handed before the next slice, when it has
    /// been handed `handed_bytes` since the beginning.
    pub(crate) fn interval_bytes(&self, handed_bytes: usize) -> usize {
        let cells_left = max(
            self.cells.saturating_sub(self.marked_cells),
            self.cells / LEFT_PART_MIN,
        );
        let cells_per_slice = match self.slices {
            0 => CELLS_PER_SLICE,
            slices => max(self.marked_cells / slices, 1),
        };
        let slices_left = cells_left / cells_per_slice + 1;
        let bytes_left = self.planned_bytes.saturating_sub(handed_bytes);
        (bytes_left / slices_left).clamp(INTERVAL_BYTES_MIN, INTERVAL_BYTES_MAX)
    }

    /// How many times its usual length is added to a slice: once for each time that the
    /// program has been handed twice the planned bytes.
    pub(crate) fn lateness(&self, handed_bytes: usize) -> usize {
        let tolerated_bytes = max(2 * self.planned_bytes, INTERVAL_BYTES_MAX);
        (handed_bytes / tolerated_bytes).min(LENGTH_MAX - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn slices_are_spread_over_what_is_planned() {
        let schedule = SliceSchedule::new(10 * MIB, 40 * CELLS_PER_SLICE);
        assert_eq!(schedule.interval_bytes(0), 10 * MIB / 41);
    }

    #[test]
    fn slices_that_mark_little_come_more_often() {
        let mut schedule = SliceSchedule::new(10 * MIB, 400_000);
        schedule.note_slice(10_000);
        let slow = schedule.interval_bytes(MIB);
        let mut schedule = SliceSchedule::new(10 * MIB, 400_000);
        schedule.note_slice(40_000);
        let fast = schedule.interval_bytes(MIB);
        assert!(3 * slow < fast, "{slow} {fast}");
    }

    #[test]
    fn a_program_always_gets_on_and_a_marking_too() {
        let mut schedule = SliceSchedule::new(MIB, 1 << 30);
        assert_eq!(schedule.interval_bytes(0), INTERVAL_BYTES_MIN);
        assert_eq!(schedule.interval_bytes(100 * MIB), INTERVAL_BYTES_MIN);
        schedule = SliceSchedule::new(1 << 30, 1);
        schedule.note_slice(1);
        assert_eq!(schedule.interval_bytes(0), INTERVAL_BYTES_MAX);
    }

    #[test]
    fn slices_grow_only_when_twice_the_plan_is_exceeded() {
        let schedule = SliceSchedule::new(10 * MIB, 1);
        assert_eq!(schedule.lateness(20 * MIB - 1), 0);
        assert_eq!(schedule.lateness(20 * MIB), 1);
        assert_eq!(schedule.lateness(1 << 40), LENGTH_MAX - 1);
    }
}
