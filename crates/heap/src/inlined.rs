//! What the code of a VM may do without calling the heap, in whatever language it is
//! written: take a cell from a cursor or from the block's next run, take and give back a
//! payload of the thread's cache, find how wide a cell is, and ask whether a store needs
//! the write barrier.
//!
//! This is the layout that such code relies on. The code declares the same layout for itself
//! and compares it with this one, so that it does not compile after a change here. All else is
//! left to the heap's functions, and so is whatever these paths find out of the ordinary: a
//! block or list that is used up, a span, an address outside the region.

use std::mem::offset_of;

use crate::allocate::cursor::{AllocationCache, Cursor};
use crate::allocate::run::{RUN_END_WORD, RUN_NEXT_WORD};
use crate::heap::Stage;
use crate::layout::arena::ARENA_CLASS_COUNT;
use crate::layout::cell_state::CellState;
use crate::layout::class::{CLASSES, CLASS_COUNT, CLASS_MAX_BYTES};
use crate::layout::kind::{FIRST_CELLS, FIRST_PAYLOADS, KIND_COUNT};
use crate::layout::width::{WIDTHS, WIDTH_COUNT};
use crate::layout::{BLOCK_SHIFT, STATE_SHIFT};
use crate::payload::free_lists::FreeLists;
use crate::payload::thread_cache::ThreadCache;

pub use crate::layout::class::CLASS_OF_UNITS;
pub use crate::layout::region::Tables;
pub use crate::layout::width::WIDTH_OF_WORDS;

/// Numbers of the layout, in the order in which a VM compares them with its own.
pub const LAYOUT: [usize; 28] = [
    offset_of!(AllocationCache<'static>, states),
    offset_of!(AllocationCache<'static>, cursors),
    size_of::<Cursor>(),
    offset_of!(Cursor, next),
    offset_of!(Cursor, end),
    WIDTH_COUNT,
    offset_of!(ThreadCache<'static>, lists) + offset_of!(FreeLists, first),
    offset_of!(ThreadCache<'static>, lists) + offset_of!(FreeLists, room),
    size_of::<FreeLists>(),
    KIND_COUNT,
    CLASS_MAX_BYTES,
    FIRST_PAYLOADS as usize,
    BLOCK_SHIFT as usize,
    STATE_SHIFT as usize,
    CellState::LIVE as usize,
    CellState::MARKED as usize,
    CellState::OLD as usize,
    CellState::AGE_LOW as usize,
    CellState::AGE_HIGH as usize,
    CellState::UNPROTECTED as usize,
    CellState::REMEMBERED as usize,
    Stage::Idle as usize,
    offset_of!(Cursor, next_run),
    RUN_NEXT_WORD * size_of::<usize>(),
    RUN_END_WORD * size_of::<usize>(),
    offset_of!(AllocationCache<'static>, bytes_in_runs),
    offset_of!(AllocationCache<'static>, allowance_bytes),
    offset_of!(AllocationCache<'static>, cells_until_sample),
];

/// Bytes of a cell, or of a payload, by its block's byte in [`Tables::kinds`]; 0 for
/// other blocks.
pub const KIND_BYTES: [u16; KIND_COUNT] = {
    let mut table = [0; KIND_COUNT];
    let mut width = 0;
    while width < WIDTH_COUNT {
        table[FIRST_CELLS as usize + width] = WIDTHS[width];
        width += 1;
    }
    let mut index = 0;
    while index < ARENA_CLASS_COUNT {
        table[FIRST_PAYLOADS as usize + index] = CLASSES[index % CLASS_COUNT];
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::class::ClassIndex;
    use crate::layout::kind::{Kind, KindByte};
    use crate::layout::width::WidthIndex;

    #[test]
    fn the_tables_say_what_the_heap_itself_goes_by() {
        for byte in 0..=u8::MAX {
            let kind = KindByte(byte);
            let bytes = kind.width().map(WidthIndex::bytes);
            let bytes = bytes.or(kind.class().map(ClassIndex::bytes)).unwrap_or(0);
            assert_eq!(usize::from(KIND_BYTES[usize::from(byte)]), bytes, "{byte}");
        }
        assert_eq!(KIND_BYTES[usize::from(KindByte::from(Kind::Span).0)], 0);
    }
}
