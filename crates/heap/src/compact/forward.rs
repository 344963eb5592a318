//! Where a cell has moved to.
//!
//! ```text
//! a cell whose contents moved:  [ Moving::FORWARDED_HEADER │ new address │ … ]
//! ```
//! Its state is [`CellState::FORWARDED`]: neither live nor marked, so no other
//! phase takes it for a cell.

use crate::layout::cell_state::CellState;
use crate::layout::region::{Cell, Region};

/// Where cells are now, while they move.
#[derive(Clone, Copy, Debug)]
pub struct Forwarding<'a> {
    region: &'a Region,
}

impl<'a> Forwarding<'a> {
    #[inline(always)]
    pub(crate) fn new(region: &'a Region) -> Self {
        Self { region }
    }

    /// The address at which the cell that was at `word` is now: `word` itself unless
    /// it moved in this compaction. Any word may be passed.
    #[inline(always)]
    pub fn location(self, word: usize) -> usize {
        let region = self.region;
        match region.cell_in_any_state_at(word) {
            Some(cell) if region.state_of(cell) == CellState::FORWARDED => {
                let words = region.pointer(word).cast::<usize>();
                // SAFETY: a forwarded cell holds its new address in the second word.
                unsafe { words.add(1).read() }
            }
            _ => word,
        }
    }

    /// Whether `cell` is pinned, and has therefore stayed where it was.
    #[inline(always)]
    pub fn is_pinned(self, cell: Cell) -> bool {
        self.region.state_of(cell).is_pinned()
    }
}

/// Leaves the new address behind in a cell whose contents are somewhere else.
pub(super) fn forward(region: &Region, from: Cell, to: Cell, header: usize) {
    let words = region.pointer(from.address()).cast::<usize>();
    // SAFETY: nobody needs the contents here any more; a cell has at least four
    // words.
    unsafe {
        words.write(header);
        words.add(1).write(to.address());
    }
    region.set_state(from, CellState::FORWARDED);
}
