//! What another process has to know of a heap to read it from outside: where the region and
//! its tables are, and what their bytes mean.
//!
//! A VM keeps an [`Outline`] in memory that can be found without its help. What it says of the
//! region is written once, when that is reserved; tables never move, so a forked child's copy is
//! right as well. A child adds itself to the lineage.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed, Ordering::Release};

use crate::layout::arena::ARENA_COUNT;
use crate::layout::block::Block;
use crate::layout::cell_state::CellState;
use crate::layout::class::{CLASSES, CLASS_COUNT};
use crate::layout::kind::{FIRST_CELLS, FIRST_PAYLOADS, SPAN, SPAN_REST};
use crate::layout::region::Region;
use crate::layout::width::{WIDTHS, WIDTH_COUNT};
use crate::layout::{BLOCK_BYTES, STATE_GRANULE_BYTES};

/// The version of this format. It must be raised by whoever changes what [`Outline`] holds, or
/// the meaning of the bytes that it points to. What is added at its end makes it longer instead.
pub const VERSION: u32 = 1;

/// How many processes a lineage names: the process itself, and those before it.
const LINEAGE: usize = 8;

/// Where a region and its tables are, and what their layout is.
#[derive(Debug)]
#[repr(C)]
pub struct Outline {
    version: u32,
    /// Bytes of this struct.
    bytes: u32,
    /// First address of the region; 0 until it is reserved.
    start: AtomicUsize,
    /// Bytes reserved for blocks.
    reserved_bytes: AtomicUsize,
    /// The tables: a byte for each block, a byte for each granule, a descriptor for each block.
    kinds: AtomicUsize,
    states: AtomicUsize,
    blocks: AtomicUsize,
    layout: [u32; 14],
    /// Bytes of cells of each width.
    widths: [u16; WIDTH_COUNT],
    /// Bytes of pieces of each class.
    classes: [u16; CLASS_COUNT],
    /// The number of this process, then of the one that it was forked from, and so on; 0 behind
    /// the last one. The system forgets who forked whom when that process ends.
    lineage: [AtomicU32; LINEAGE],
}

impl Outline {
    /// The outline of no region yet.
    pub const fn none() -> Self {
        Self {
            version: VERSION,
            bytes: size_of::<Self>() as u32,
            start: AtomicUsize::new(0),
            reserved_bytes: AtomicUsize::new(0),
            kinds: AtomicUsize::new(0),
            states: AtomicUsize::new(0),
            blocks: AtomicUsize::new(0),
            layout: [
                BLOCK_BYTES as u32,
                STATE_GRANULE_BYTES as u32,
                FIRST_CELLS as u32,
                WIDTH_COUNT as u32,
                FIRST_PAYLOADS as u32,
                CLASS_COUNT as u32,
                ARENA_COUNT as u32,
                SPAN as u32,
                SPAN_REST as u32,
                CellState::LIVE as u32,
                CellState::OLD as u32,
                size_of::<Block>() as u32,
                offset_of!(Block, free) as u32,
                offset_of!(Block, untouched) as u32,
            ],
            widths: WIDTHS,
            classes: CLASSES,
            lineage: [const { AtomicU32::new(0) }; LINEAGE],
        }
    }

    /// Says where a region is. The start is stored last: when it is not 0, all else is there.
    pub fn set(&self, region: &Region) {
        let [kinds, states, blocks] = region.table_addresses();
        self.reserved_bytes
            .store(region.reserved_blocks() * BLOCK_BYTES, Release);
        self.kinds.store(kinds, Release);
        self.states.store(states, Release);
        self.blocks.store(blocks, Release);
        self.start.store(region.start(), Release);
    }

    /// Says which process this is. Another one that the lineage begins with has forked it. Called
    /// by the only thread of a process, or by the one that reserves the region. The process's own
    /// number is stored last: until then a reader finds one that is not this process's.
    pub fn set_process(&self, number: u32) {
        let [own, forkers @ ..] = &self.lineage;
        let mut forker = own.load(Relaxed);
        if forker == number {
            return;
        }
        for place in forkers {
            forker = place.swap(forker, Relaxed);
        }
        own.store(number, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::kind::Kind;
    use crate::layout::width::WidthIndex;
    use crate::os;
    use crate::space::Space;

    /// The byte or word at an address of a table.
    fn read<T: Copy>(address: usize) -> T {
        // SAFETY: the tests pass addresses in tables of a region that they hold, of entries of
        // a committed block.
        unsafe { std::ptr::with_exposed_provenance::<T>(address).read() }
    }

    #[test]
    fn what_the_outline_points_to_is_what_the_heap_says_of_a_block_and_a_cell() {
        let space = Space::reserve(1 << 24, os::page_bytes()).unwrap();
        let outline = Outline::none();
        outline.set(&space.region);
        let word = |of: &AtomicUsize| of.load(Relaxed);
        assert_eq!(word(&outline.start), space.region.start());
        assert_eq!(word(&outline.reserved_bytes), 1 << 24);

        let width = WidthIndex::for_size(40).unwrap();
        space
            .lock_blocks()
            .take_one(Kind::Cells(WidthIndex::NARROWEST))
            .unwrap();
        let block = space.lock_blocks().take_one(Kind::Cells(width)).unwrap();
        let kind: u8 = read(word(&outline.kinds) + block.get());
        let index = usize::from(kind) - outline.layout[2] as usize;
        assert_eq!(outline.widths[index], 40);

        let cell = space.cells_of(block).nth(3).unwrap();
        space.region.set_state(cell, CellState::NEW);
        let granule_bytes = outline.layout[1] as usize;
        let offset = cell.address() - word(&outline.start);
        let state: u8 = read(word(&outline.states) + offset / granule_bytes);
        assert_eq!(u32::from(state), outline.layout[9]);

        let descriptor = word(&outline.blocks) + block.get() * outline.layout[11] as usize;
        let entry = space.region.block(block);
        entry.set_free(0x1234_5678);
        entry.used.set(17);
        entry.untouched.set(18);
        let at = |field: usize| descriptor + outline.layout[field] as usize;
        assert_eq!(read::<usize>(at(12)), 0x1234_5678);
        assert_eq!(read::<u32>(at(13)), 18);
        entry.reset();
    }

    #[test]
    fn a_lineage_has_the_latest_processes_nearest_first_and_each_once() {
        let outline = Outline::none();
        let lineage = || outline.lineage.each_ref().map(|place| place.load(Relaxed));
        for number in [10, 11, 11, 12] {
            outline.set_process(number);
        }
        assert_eq!(lineage(), [12, 11, 10, 0, 0, 0, 0, 0]);
        for number in 13..20 {
            outline.set_process(number);
        }
        assert_eq!(lineage(), [19, 18, 17, 16, 15, 14, 13, 12]);
    }
}
