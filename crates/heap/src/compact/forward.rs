//! Where a cell has moved to.
//!
//! ```text
//! a cell whose contents moved:  [ Host::FORWARDED_HEADER │ new address │ … ]
//! ```
//! Its state is [`CellState::FORWARDED`]: neither live nor marked, so no other
//! phase takes it for a cell.

use crate::layout::cell_state::CellState;
use crate::layout::region::{Cell, Region};
use crate::layout::BLOCK_BYTES;

/// The address at which the cell that was at `word` is now: `word` itself unless it
/// moved in the compaction that is going on. Any word may be passed.
#[inline(always)]
pub(crate) fn location(region: &Region, word: usize) -> usize {
    let Some(block) = region.block_at(word) else {
        return word;
    };
    // SAFETY: the entry of a word in a committed block exists; what it says of a
    // word that is no cell is only a hint, looked at more closely below.
    let cell = unsafe { Cell::from_address(word) };
    if region.state(cell) != CellState::FORWARDED {
        return word;
    }
    match region.kind_byte(block).width() {
        Some(width) if width.is_cell_start(word & (BLOCK_BYTES - 1)) => {
            let words = region.pointer(word).cast::<usize>();
            // SAFETY: a forwarded cell holds its new address in the second word.
            unsafe { words.add(1).read() }
        }
        _ => word,
    }
}

/// Copies what `from` begins with to `to`, which was free. Both are at least
/// `bytes` wide.
pub(super) fn copy(region: &Region, from: Cell, to: Cell, bytes: usize) {
    let (source, target) = (region.pointer(from.address()), region.pointer(to.address()));
    // SAFETY: both are cells and different: one is live, the other was free.
    unsafe { std::ptr::copy_nonoverlapping(source, target, bytes) };
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
