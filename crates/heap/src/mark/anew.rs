//! Marked cells that are traced once more before marking goes on.

use crate::layout::region::Cell;

/// More cells than are being compiled at once, or so.
const CAPACITY: usize = 64;

/// Each waits here once, however often it is asked for: the stack of a thread that
/// compiles shows some cells dozens of times, and each takes long to trace.
#[derive(Debug)]
pub(super) struct Anew {
    cells: [Cell; CAPACITY],
    count: usize,
}

/// There is no room for a cell.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Anew {
    pub(super) const fn new() -> Self {
        Self {
            cells: [Cell::NONE; CAPACITY],
            count: 0,
        }
    }

    /// Has `cell` be traced once more.
    pub(super) fn add(&mut self, cell: Cell) -> Result<(), Full> {
        if self.cells().contains(&cell) {
            return Ok(());
        }
        *self.cells.get_mut(self.count).ok_or(Full)? = cell;
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
        for number in 1..=CAPACITY {
            anew.add(cell(number)).unwrap();
        }
        assert_eq!(anew.add(cell(CAPACITY + 1)), Err(Full));
        assert_eq!(anew.add(cell(1)), Ok(()));
        assert_eq!(anew.cells().len(), CAPACITY);
    }
}
