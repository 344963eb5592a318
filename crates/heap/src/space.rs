//! The address space of a heap: the region, and which of its blocks are in use.
//!
//! What a block holds is written in the region's tables; which blocks are empty, in the
//! block allocator. One is of no use without the other, so they travel together.

use std::ops::Range;

use crate::allocate::blocks::Blocks;
use crate::layout::block::{BlockIndex, DIRTY};
use crate::layout::kind::Kind;
use crate::layout::region::{Cell, Region};
use crate::layout::width::WidthIndex;
use crate::os::Refused;

/// A live cell, or neighbouring free cells of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellRange {
    /// A cell that the program has.
    Live(Cell),
    /// All free cells up to the next live one.
    Free {
        /// Address of the first one.
        start: usize,
        /// Address just past the last one.
        end: usize,
        /// How wide they are.
        width: WidthIndex,
    },
}

/// What a block is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockUse {
    /// It holds cells.
    Cells(BlockIndex, WidthIndex),
    /// It holds payloads of one size class.
    Payloads {
        /// Bytes of each piece.
        piece_bytes: usize,
        /// Pieces that the program has, or a thread's cache.
        used_pieces: usize,
    },
    /// These blocks are one payload.
    Span {
        /// How many they are.
        blocks: usize,
        /// Bytes of the pages that were asked for.
        bytes: usize,
    },
    /// Nothing.
    Empty {
        /// Its memory has not gone back to the system.
        is_held: bool,
    },
}

/// A region and its block allocator.
#[derive(Debug)]
pub struct Space {
    /// The address range and its tables.
    pub(crate) region: Region,
    /// Which blocks are empty.
    pub(crate) blocks: Blocks,
}

impl Space {
    /// Reserves a space of `bytes` in pages of `page_bytes`: [`Region::reserve`].
    pub fn reserve(bytes: usize, page_bytes: usize) -> Result<Self, Refused> {
        let region = Region::reserve(bytes, page_bytes)?;
        let blocks = Blocks::new(region.reserved_blocks())?;
        Ok(Self { region, blocks })
    }

    /// The address range and its tables.
    #[inline(always)]
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Which blocks are empty.
    #[inline(always)]
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// The blocks that hold cells, lowest first, with the width of their cells.
    /// A block that is taken while the walk goes on may be left out.
    pub fn cell_blocks(&self) -> impl Iterator<Item = (BlockIndex, WidthIndex)> + '_ {
        self.cell_blocks_from(0)
    }

    /// Those of [`Space::cell_blocks`] whose number is at least `first`.
    pub fn cell_blocks_from(
        &self,
        first: usize,
    ) -> impl Iterator<Item = (BlockIndex, WidthIndex)> + '_ {
        (first..self.blocks.used_limit()).filter_map(|index| {
            let block = BlockIndex(index as u32);
            Some((block, self.region.kind_byte(block).width()?))
        })
    }

    /// The cells of a block, lowest first, whether something lives in them or not;
    /// none when the block does not hold cells.
    ///
    /// # Panics
    /// When the region has no block of this number.
    #[inline(always)]
    pub fn cells_of(&self, block: BlockIndex) -> Cells {
        self.region.assert_has(block);
        let start = self.region.address_of(block);
        let (bytes, cells) = match self.region.kind_byte(block).width() {
            Some(width) => (width.bytes(), width.cells_per_block()),
            None => (1, 0),
        };
        Cells {
            next: start,
            end: start + cells * bytes,
            bytes,
        }
    }

    /// Calls `visit` with the live cells of a block and the ranges of free ones
    /// between them, in address order.
    ///
    /// # Panics
    /// When the region has no block of this number.
    pub fn for_each_range_of(
        &self,
        block: BlockIndex,
        width: WidthIndex,
        visit: &mut impl FnMut(CellRange),
    ) {
        let cells = self.cells_of(block);
        let end = cells.end();
        let mut start = self.region.address_of(block);
        for cell in cells.filter(|&cell| self.region.state_of(cell).is_live()) {
            let end = cell.address();
            if start < end {
                visit(CellRange::Free { start, end, width });
            }
            visit(CellRange::Live(cell));
            start = end + width.bytes();
        }
        if start < end {
            visit(CellRange::Free { start, end, width });
        }
    }

    /// Calls `visit` with what every block that was ever handed out is used for, in
    /// address order.
    pub fn for_each_use(&self, mut visit: impl FnMut(BlockUse)) {
        let end = self.blocks.used_limit();
        let mut next = 0;
        while next < end {
            let used_for = self.use_of(BlockIndex(next as u32), end);
            next += match used_for {
                BlockUse::Span { blocks, .. } => blocks,
                _ => 1,
            };
            visit(used_for);
        }
    }

    /// What the block `index` is used for. A span is cut off at the block `end`.
    fn use_of(&self, index: BlockIndex, end: usize) -> BlockUse {
        let block = self.region.block(index);
        match self.region.kind(index) {
            Kind::Cells(width) => BlockUse::Cells(index, width),
            Kind::Payloads(pieces) => BlockUse::Payloads {
                piece_bytes: pieces.class().bytes(),
                used_pieces: block.used.get().min(pieces.class().pieces_per_block()),
            },
            // While another thread frees a span, its further blocks may be met alone.
            Kind::Span | Kind::SpanRest => BlockUse::Span {
                blocks: self.own_blocks(index).clamp(1, end - index.get()),
                bytes: block.span_pages.get() * self.region.page_bytes(),
            },
            Kind::Empty => BlockUse::Empty {
                is_held: block.has(DIRTY),
            },
        }
    }

    /// Blocks of a span, not counting a last block in which another span begins.
    fn own_blocks(&self, first: BlockIndex) -> usize {
        let blocks = self.region.block(first).span_blocks.get();
        let last = first.get() + blocks.max(1) - 1;
        let is_shared = blocks > 1
            && last < self.region.committed_blocks()
            && self.region.kind(BlockIndex(last as u32)) == Kind::Span;
        blocks - usize::from(is_shared)
    }

    /// The first live cell behind `address`, in address order, for which `is_wanted` returns
    /// true; garbage that is not swept yet counts as live.
    pub fn next_cell(&self, address: usize, is_wanted: impl Fn(Cell) -> bool) -> Option<Cell> {
        let states = self.region.states();
        let is_found = |&cell: &Cell| states.get(cell).is_live() && is_wanted(cell);
        let mut first = 0;
        if let Some(block) = self.region.block_at(address) {
            if let Some(cell) = self.cells_of(block).after(address).find(is_found) {
                return Some(cell);
            }
            first = block.get() + 1;
        }
        self.cell_blocks_from(first)
            .find_map(|(block, _)| self.cells_of(block).find(is_found))
    }
}

/// The cells of one block: [`Space::cells_of`].
#[derive(Clone, Debug)]
pub struct Cells {
    /// Address of the next cell.
    next: usize,
    /// Address just past the last one.
    end: usize,
    /// How wide they are.
    bytes: usize,
}

impl Cells {
    /// Address just past the last cell.
    #[inline(always)]
    pub fn end(&self) -> usize {
        self.end
    }

    /// The cells with these numbers, counted from the first.
    #[inline(always)]
    pub(crate) fn numbered(&self, numbers: Range<usize>) -> Self {
        debug_assert!(self.next + numbers.end * self.bytes <= self.end);
        Self {
            next: self.next + numbers.start * self.bytes,
            end: self.next + numbers.end * self.bytes,
            bytes: self.bytes,
        }
    }

    /// The cells that begin behind `address`.
    pub(crate) fn after(mut self, address: usize) -> Self {
        if let Some(offset) = address.checked_sub(self.next) {
            self.next += (offset / self.bytes + 1) * self.bytes;
        }
        self
    }
}

impl Iterator for Cells {
    type Item = Cell;

    #[inline(always)]
    fn next(&mut self) -> Option<Cell> {
        if self.next >= self.end {
            return None;
        }
        // SAFETY: the addresses from the block's first one on, a width apart, are
        // those of its cells.
        let cell = unsafe { Cell::from_address(self.next) };
        self.next += self.bytes;
        Some(cell)
    }
}
