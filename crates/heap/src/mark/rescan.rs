//! Black cells that are traced once more, because the barrier does not say what they refer
//! to by now: by the remark, or before marking goes on.

use crate::layout::region::Cell;
use crate::os::Refused;
use crate::stack::Stack;

/// What is traced again at every remark, and what at the next one only.
#[derive(Debug)]
pub(crate) struct Rescans {
    /// Cells without a barrier, or with weak references: traced again at every remark.
    always: Stack<Cell>,
    /// Cells that the program stored into without saying what: traced again at the next remark.
    written: Stack<Cell>,
    /// Some of those: a cell that is stored into again and again is mostly noted once.
    lately: [Cell; LATELY],
    /// One of the two stacks had no room: every marked cell is traced again.
    overflowed: bool,
}

const LATELY: usize = 256;

impl Rescans {
    pub(super) fn new(cells: usize) -> Result<Self, Refused> {
        Ok(Self {
            always: Stack::new(cells)?,
            written: Stack::new(cells)?,
            lately: [Cell::NONE; LATELY],
            overflowed: false,
        })
    }

    pub(super) fn limit(&mut self, cells: usize) {
        self.always.limit(cells);
        self.written.limit(cells);
    }

    /// Has every remark trace `cell` again.
    #[inline]
    pub(super) fn add(&mut self, cell: Cell) {
        if self.always.as_slice().last() == Some(&cell) {
            return;
        }
        if self.always.push(cell).is_err() {
            self.overflowed = true;
        }
    }

    fn lately(&mut self, cell: Cell) -> &mut Cell {
        &mut self.lately[(cell.address() >> 5) % LATELY]
    }

    /// Has the next remark trace `cell` again, into which the program has stored without saying
    /// what.
    pub(crate) fn add_written(&mut self, cell: Cell) {
        if *self.lately(cell) == cell {
            return;
        }
        match self.written.push(cell) {
            Ok(()) => *self.lately(cell) = cell,
            Err(Refused) => self.overflowed = true,
        }
    }

    /// Whether every marked cell is to be traced again.
    pub(super) fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    /// The cells to trace again at every remark.
    pub(super) fn always(&self) -> &[Cell] {
        self.always.as_slice()
    }

    /// Takes one cell that was written to since it was traced.
    pub(super) fn pop_written(&mut self) -> Option<Cell> {
        let cell = self.written.pop()?;
        if *self.lately(cell) == cell {
            *self.lately(cell) = Cell::NONE;
        }
        Some(cell)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Cell> + '_ {
        let (always, written) = (self.always.as_slice(), self.written.as_slice());
        always.iter().chain(written).copied()
    }

    pub(super) fn clear(&mut self) {
        self.always.clear_and_release();
        self.written.clear_and_release();
        self.lately = [Cell::NONE; LATELY];
        self.overflowed = false;
    }
}

/// Probably more cells than are being compiled at once; the mark stack takes the others.
const ANEW_MAX: usize = 64;

/// Marked cells that are traced once more before marking goes on.
///
/// Each waits here once, however often it is asked for: the stack of a thread that
/// compiles shows some cells dozens of times, and each takes long to trace.
#[derive(Debug)]
pub(super) struct Anew {
    cells: [Cell; ANEW_MAX],
    count: usize,
}

impl Anew {
    pub(super) const fn new() -> Self {
        Self {
            cells: [Cell::NONE; ANEW_MAX],
            count: 0,
        }
    }

    /// Has `cell` be traced once more, if there is room for it.
    pub(super) fn add(&mut self, cell: Cell) -> Result<(), Refused> {
        if self.cells().contains(&cell) {
            return Ok(());
        }
        *self.cells.get_mut(self.count).ok_or(Refused)? = cell;
        self.count += 1;
        Ok(())
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<Cell> {
        self.count = self.count.checked_sub(1)?;
        Some(self.cells[self.count])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn cells(&self) -> &[Cell] {
        &self.cells[..self.count]
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(number: usize) -> Cell {
        // SAFETY: never read.
        unsafe { Cell::from_address(number * 64) }
    }

    #[test]
    fn a_cell_that_waits_is_not_added_again_and_one_that_was_taken_is() {
        let mut anew = Anew::new();
        for number in [1, 2, 1, 2, 2] {
            anew.add(cell(number)).unwrap();
        }
        assert_eq!(anew.cells(), [cell(1), cell(2)]);
        assert_eq!(anew.pop(), Some(cell(2)));
        anew.add(cell(2)).unwrap();
        assert_eq!(
            [anew.pop(), anew.pop(), anew.pop()],
            [Some(cell(2)), Some(cell(1)), None]
        );
        assert!(anew.is_empty());
    }

    #[test]
    fn more_than_there_is_room_for_are_refused() {
        let mut anew = Anew::new();
        for number in 1..=ANEW_MAX {
            anew.add(cell(number)).unwrap();
        }
        assert_eq!(anew.add(cell(ANEW_MAX + 1)), Err(Refused));
        assert_eq!(anew.add(cell(1)), Ok(()));
        assert_eq!(anew.cells().len(), ANEW_MAX);
    }
}
