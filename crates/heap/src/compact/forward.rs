//! Where a cell has moved to.
//!
//! ```text
//! a cell whose contents moved:  [ V::FORWARDED_HEADER │ new address │ … ]
//! ```
//! Its state is [`CellState::FORWARDED`]: neither live nor marked, so no other
//! phase takes it for a cell.

use crate::heap::Heap;
use crate::layout::cell_state::CellState;
use crate::layout::region::Cell;
use crate::vm::Vm;

impl<V: Vm> Heap<'_, V> {
    /// The address at which the cell that was at `word` is now: `word` itself
    /// unless it moved in the compaction that is going on. Any word may be
    /// passed.
    #[inline(always)]
    pub fn location(&self, word: usize) -> usize {
        let Some(block) = self.region().block_at(word) else {
            return word;
        };
        // Reading the state of a word that is no cell is harmless: the entry
        // exists, and what it says is only a hint.
        // SAFETY: as above; a forwarded state is looked at more closely below.
        let cell = unsafe { Cell::from_address(word) };
        if self.states().get(cell) != CellState::FORWARDED {
            return word;
        }
        match self.region().kind_byte(block).width() {
            Some(width) if width.is_cell_start(word & (crate::layout::BLOCK_BYTES - 1)) => {
                self.forwarding_address(cell)
            }
            _ => word,
        }
    }

    /// Where `cell` is now.
    pub(super) fn cell_location(&self, cell: Cell) -> Cell {
        // SAFETY: a cell moves to a cell.
        unsafe { Cell::from_address(self.location(cell.address())) }
    }

    /// Whether the cell that was at `word` has moved in the compaction that is
    /// going on. Any word may be passed.
    pub fn has_moved(&self, word: usize) -> bool {
        self.location(word) != word
    }

    fn forwarding_address(&self, cell: Cell) -> usize {
        let words = self.region().pointer(cell.address()).cast::<usize>();
        // SAFETY: a forwarded cell holds its new address in the second word.
        unsafe { words.add(1).read() }
    }

    /// Leaves the new address behind in a cell whose contents have moved.
    pub(super) fn forward(&self, from: Cell, to: Cell) {
        let words = self.region().pointer(from.address()).cast::<usize>();
        // SAFETY: the contents have been copied; a cell has at least four words.
        unsafe {
            words.write(V::FORWARDED_HEADER);
            words.add(1).write(to.address());
        }
        self.region().set_state(from, CellState::FORWARDED);
    }
}
