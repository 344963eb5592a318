//! A few cells, in a place of their own.

use crate::layout::region::Cell;

/// At most `N` cells, the latest on top.
#[derive(Debug)]
pub(super) struct FewCells<const N: usize> {
    cells: [Cell; N],
    count: usize,
}

impl<const N: usize> FewCells<N> {
    pub(super) const fn new() -> Self {
        Self {
            cells: [Cell::NONE; N],
            count: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.count == N
    }

    /// Puts a cell on top; there must be room.
    #[inline(always)]
    pub(super) fn push(&mut self, cell: Cell) {
        self.cells[self.count] = cell;
        self.count += 1;
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<Cell> {
        self.count = self.count.checked_sub(1)?;
        Some(self.cells[self.count])
    }

    /// Takes all cells.
    pub(super) fn take(&mut self) -> &[Cell] {
        &self.cells[..std::mem::take(&mut self.count)]
    }

    /// The `count` cells at the bottom.
    pub(super) fn oldest(&self, count: usize) -> &[Cell] {
        &self.cells[..count]
    }

    /// Takes off the `count` cells at the bottom.
    pub(super) fn drop_oldest(&mut self, count: usize) {
        self.cells.copy_within(count..self.count, 0);
        self.count -= count;
    }
}
