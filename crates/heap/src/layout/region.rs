//! The reserved region and its side tables: address arithmetic.

use std::marker::PhantomData;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicU8, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use super::block::{Block, BlockIndex, DIRTY, REST_DIRTY};
use super::cell_state::CellState;
use super::chunk::{HugeChunks, CHUNK_BLOCKS, CHUNK_BYTES};
use super::kind::{Kind, KindByte};
use super::width::WidthIndex;
use super::{BLOCK_BYTES, BLOCK_SHIFT, STATE_GRANULE_BYTES, STATE_SHIFT};
use crate::os::{Refused, Reservation};

/// Blocks are committed in steps of this many, so that the system is asked
/// once per 16 MiB.
const COMMIT_STEP_BLOCKS: usize = 256;
const _: () = assert!(COMMIT_STEP_BLOCKS % CHUNK_BLOCKS == 0);

/// The address of a cell's first byte. All that it promises is that a cell of some heap began
/// there once; the cell may be dead by now, as the target of a pointer may. A function that
/// relies on more either checks it or makes it the caller's duty.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell(usize);

impl std::fmt::Debug for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl Cell {
    /// No cell: it fills places that hold none yet, and is never looked at.
    pub(crate) const NONE: Self = Self(0);

    /// The cell that begins at `address`.
    ///
    /// # Safety
    /// A cell of some heap has begun at `address`.
    #[inline(always)]
    pub unsafe fn from_address(address: usize) -> Self {
        Self(address)
    }

    /// The address of its first byte.
    #[inline(always)]
    pub fn address(self) -> usize {
        self.0
    }
}

/// The table of cell states, by address: a single word, to be kept in registers
/// by whoever looks at many cells.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct States<'region> {
    /// Where the entry of address 0 would be.
    biased: *const AtomicU8,
    region: PhantomData<&'region Region>,
}

// SAFETY: the table is accessed through atomics only.
unsafe impl Send for States<'_> {}
// SAFETY: the table is accessed through atomics only.
unsafe impl Sync for States<'_> {}

impl<'region> States<'region> {
    #[inline(always)]
    fn entry(self, address: usize) -> *const AtomicU8 {
        self.biased.wrapping_add(address >> STATE_SHIFT)
    }

    /// The entry of a cell, which several threads may change.
    #[inline(always)]
    pub(crate) fn entry_of(self, cell: Cell) -> &'region AtomicU8 {
        // SAFETY: a cell lies in a committed block, whose entries are committed
        // and live as long as the region.
        unsafe { &*self.entry(cell.0) }
    }

    /// Where the entry of a cell is.
    #[inline(always)]
    pub(crate) fn address_of(self, cell: Cell) -> usize {
        self.entry(cell.0).addr()
    }

    /// The state of a cell.
    #[inline(always)]
    pub(crate) fn get(self, cell: Cell) -> CellState {
        CellState(self.entry_of(cell).load(Relaxed))
    }

    #[inline(always)]
    pub(crate) fn set(self, cell: Cell, state: CellState) {
        self.entry_of(cell).store(state.0, Relaxed);
    }
}

/// What blocks hold, by any address: three words, to be kept near by whoever asks often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kinds<'region> {
    /// First address of the region.
    start: usize,
    /// Bytes reserved.
    bytes: usize,
    entries: *const AtomicU8,
    region: PhantomData<&'region Region>,
}

// SAFETY: the table is accessed through atomics only.
unsafe impl Send for Kinds<'_> {}
// SAFETY: the table is accessed through atomics only.
unsafe impl Sync for Kinds<'_> {}

impl Kinds<'_> {
    /// What the block around `address` holds; `None` outside the region.
    #[inline(always)]
    pub(crate) fn at(self, address: usize) -> Option<KindByte> {
        let offset = address.wrapping_sub(self.start);
        if offset >= self.bytes {
            return None;
        }
        // SAFETY: the table is committed whole, with an entry for every block of the region,
        // and lives as long as the region.
        let entry = unsafe { &*self.entries.add(offset >> BLOCK_SHIFT) };
        Some(KindByte(entry.load(Relaxed)))
    }
}

/// Where a region is, and its tables. They never move.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Tables {
    /// First address of the region.
    pub start: usize,
    /// Bytes reserved. A block that is not committed holds no payloads and no cells.
    pub bytes: usize,
    /// A byte for each block, an index into
    /// [`inlined::KIND_BYTES`](crate::inlined::KIND_BYTES).
    pub kinds: *const u8,
    /// The cell states, by address: the state of the cell at `a` is at
    /// `biased_states + (a >> STATE_SHIFT)`.
    pub biased_states: *mut u8,
}

/// The reserved address range, and the tables beside it.
///
/// Block `i` covers `[start + i * 64 KiB, start + (i + 1) * 64 KiB)`. Blocks
/// below `committed_blocks` are readable and writable, and so are their table
/// entries; committing only ever grows.
#[derive(Debug)]
pub struct Region {
    start: usize,
    page_bytes: usize,
    committed_bytes: AtomicUsize,
    has_huge_pages: AtomicBool,
    /// The system has been asked for huge pages at some time.
    had_huge_pages: AtomicBool,
    pub(super) huge_chunks: HugeChunks,
    /// Where the state of address 0 would be.
    biased_states: *const AtomicU8,
    kinds: *mut AtomicU8,
    blocks: *mut Block,
    cells: Reservation,
    state_table: Reservation,
    block_table: Reservation,
    /// Committed whole; held only so that it stays mapped.
    _kind_table: Reservation,
}

// SAFETY: the tables are accessed through atomics only; cells are accessed by
// their owners.
unsafe impl Send for Region {}
// SAFETY: the tables are accessed through atomics only; cells are accessed by
// their owners.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves a region of `bytes` (rounded down to whole commit steps; at
    /// least one) and its tables, in pages of `page_bytes`: a power of two, at least
    /// the system's and at most a block.
    pub fn reserve(bytes: usize, page_bytes: usize) -> Result<Self, Refused> {
        if page_bytes > BLOCK_BYTES {
            return Err(Refused);
        }
        let table = |bytes| Reservation::with_pages(bytes, align_of::<Block>(), page_bytes);
        let steps = (bytes / (BLOCK_BYTES * COMMIT_STEP_BLOCKS)).max(1);
        let blocks = steps * COMMIT_STEP_BLOCKS;
        let cells = Reservation::with_pages(blocks * BLOCK_BYTES, CHUNK_BYTES, page_bytes)?;
        let state_table = table((blocks * BLOCK_BYTES) >> STATE_SHIFT)?;
        let kind_table = table(blocks)?;
        let block_table = table(blocks * size_of::<Block>())?;
        kind_table.commit(0, kind_table.bytes())?;
        Ok(Self {
            start: cells.start().expose_provenance(),
            page_bytes,
            committed_bytes: AtomicUsize::new(0),
            has_huge_pages: AtomicBool::new(false),
            had_huge_pages: AtomicBool::new(false),
            huge_chunks: HugeChunks::none_of(blocks, page_bytes)?,
            biased_states: state_table
                .start()
                .cast::<AtomicU8>()
                .wrapping_sub(cells.start().addr() >> STATE_SHIFT),
            kinds: kind_table.start().cast(),
            blocks: block_table.start().cast(),
            cells,
            state_table,
            block_table,
            _kind_table: kind_table,
        })
    }

    /// First address of the region.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Bytes of a page.
    pub(crate) fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Whether any block may lie in a huge page, or may not be moved into one, because the system
    /// was asked for huge pages before.
    pub(super) fn had_huge_pages(&self) -> bool {
        self.had_huge_pages.load(Relaxed)
    }

    /// Asks the system for huge pages for blocks and the states of their cells, or for no
    /// huge pages from now on. With huge pages, marking a large heap waits less for addresses to
    /// be translated. But a block that is first used takes 2 MiB at once, and where a block goes
    /// back to the system alone, the system may fill the hole later (docs/design/marking-latency.md).
    pub fn set_huge_pages(&self, wanted: bool) {
        if self.has_huge_pages.swap(wanted, Relaxed) != wanted {
            self.had_huge_pages.store(true, Relaxed);
            self.cells.set_huge_pages(wanted);
            self.state_table.set_huge_pages(wanted);
        }
    }

    /// Where its tables are, for code that reads them without a call.
    pub fn tables(&self) -> Tables {
        Tables {
            start: self.start,
            bytes: self.cells.bytes(),
            kinds: self.kinds.cast(),
            biased_states: self.biased_states.cast_mut().cast(),
        }
    }

    /// Where its tables are, for another process: kinds, states and blocks.
    pub(crate) fn table_addresses(&self) -> [usize; 3] {
        [
            self.kinds.expose_provenance(),
            self.state_table.start().expose_provenance(),
            self.blocks.expose_provenance(),
        ]
    }

    /// What blocks hold, without the rest of the region.
    pub(crate) fn kinds(&self) -> Kinds<'_> {
        Kinds {
            start: self.start,
            bytes: self.cells.bytes(),
            entries: self.kinds,
            region: PhantomData,
        }
    }

    /// Blocks that are readable and writable.
    pub fn committed_blocks(&self) -> usize {
        self.committed_bytes.load(Relaxed) >> BLOCK_SHIFT
    }

    /// Blocks reserved in all.
    pub fn reserved_blocks(&self) -> usize {
        self.cells.bytes() >> BLOCK_SHIFT
    }

    /// Makes at least the first `blocks` blocks readable and writable. Only one
    /// thread may call this at a time.
    pub(crate) fn commit(&self, blocks: usize) -> Result<(), Refused> {
        let committed = self.committed_blocks();
        if blocks <= committed {
            return Ok(());
        }
        let target = blocks.next_multiple_of(COMMIT_STEP_BLOCKS);
        if target > self.reserved_blocks() {
            return Err(Refused);
        }
        let added = target - committed;
        let state_bytes_per_block = BLOCK_BYTES >> STATE_SHIFT;
        self.state_table.commit(
            committed * state_bytes_per_block,
            added * state_bytes_per_block,
        )?;
        self.block_table
            .commit(committed * size_of::<Block>(), added * size_of::<Block>())?;
        self.cells
            .commit(committed * BLOCK_BYTES, added * BLOCK_BYTES)?;
        self.committed_bytes.store(target * BLOCK_BYTES, Relaxed);
        Ok(())
    }

    /// The block that `address` lies in, when it is committed.
    #[inline(always)]
    pub fn block_at(&self, address: usize) -> Option<BlockIndex> {
        let offset = address.wrapping_sub(self.start);
        (offset < self.committed_bytes.load(Relaxed))
            .then_some(BlockIndex((offset >> BLOCK_SHIFT) as u32))
    }

    /// The block of a cell of this region.
    #[inline(always)]
    pub fn block_of(&self, cell: Cell) -> BlockIndex {
        BlockIndex((cell.0.wrapping_sub(self.start) >> BLOCK_SHIFT) as u32)
    }

    /// First address of a block.
    #[inline(always)]
    pub fn address_of(&self, block: BlockIndex) -> usize {
        self.start + (block.get() << BLOCK_SHIFT)
    }

    /// A pointer to `address`, which lies in the region.
    #[inline(always)]
    pub fn pointer(&self, address: usize) -> *mut u8 {
        debug_assert!(address.wrapping_sub(self.start) <= self.cells.bytes());
        std::ptr::with_exposed_provenance_mut(address)
    }

    /// The cell states, without the rest of the region.
    #[inline(always)]
    pub(crate) fn states(&self) -> States<'_> {
        States {
            biased: self.biased_states,
            region: PhantomData,
        }
    }

    /// The descriptor of a committed block.
    #[inline(always)]
    pub(crate) fn block(&self, block: BlockIndex) -> &Block {
        debug_assert!(block.get() < self.committed_blocks());
        // SAFETY: a `BlockIndex` comes from `block_at` or a committed range, so
        // its entry is readable; zeroed bytes are a valid `Block`.
        unsafe { &*self.blocks.add(block.get()) }
    }

    /// # Panics
    /// When there is no block of this number.
    #[inline(always)]
    pub(crate) fn assert_has(&self, block: BlockIndex) {
        assert!(
            block.get() < self.reserved_blocks(),
            "{block:?} is another region's"
        );
    }

    /// What a block holds. When it is a span, whatever was written about the span before
    /// its kind was set can be read.
    ///
    /// # Panics
    /// When there is no block of this number.
    pub fn kind(&self, block: BlockIndex) -> Kind {
        self.assert_has(block);
        KindByte(self.kind_entry(block).load(Acquire)).kind()
    }

    #[inline(always)]
    pub(crate) fn kind_byte(&self, block: BlockIndex) -> KindByte {
        KindByte(self.kind_entry(block).load(Relaxed))
    }

    /// Sets what a block holds. Whoever reads the kind with [`Region::kind`] can also read
    /// what was written about the block before.
    pub(crate) fn set_kind(&self, block: BlockIndex, kind: Kind) {
        let entry = self.kind_entry(block);
        entry.store(KindByte::from(kind).0, Release);
    }

    #[inline(always)]
    fn kind_entry(&self, block: BlockIndex) -> &AtomicU8 {
        debug_assert!(block.get() < self.reserved_blocks());
        // SAFETY: the table is committed whole, with an entry for every block.
        unsafe { &*self.kinds.add(block.get()) }
    }

    /// The width of a cell.
    ///
    /// # Panics
    /// When its block holds no cells, or is another region's.
    #[inline(always)]
    pub fn width_of(&self, cell: Cell) -> WidthIndex {
        let kind = self.kinds().at(cell.0);
        let width = kind.and_then(KindByte::width);
        width.unwrap_or_else(|| not_a_cell(cell))
    }

    /// The state of a cell; [`CellState::FREE`] when nothing lives there any more.
    ///
    /// # Panics
    /// When it is a cell of another region.
    #[inline]
    pub fn state(&self, cell: Cell) -> CellState {
        match self.block_at(cell.0) {
            Some(_) => self.state_of(cell),
            None => not_a_cell(cell),
        }
    }

    /// The state of a cell of this region.
    #[inline(always)]
    pub(crate) fn state_of(&self, cell: Cell) -> CellState {
        self.states().get(cell)
    }

    #[inline(always)]
    pub(crate) fn set_state(&self, cell: Cell, state: CellState) {
        self.states().set(cell, state);
    }

    /// The state entries of a block, one per [`STATE_GRANULE_BYTES`].
    #[inline(always)]
    pub(crate) fn states_of(&self, block: BlockIndex) -> &[AtomicU8] {
        debug_assert!(block.get() < self.committed_blocks());
        const ENTRIES: usize = BLOCK_BYTES / STATE_GRANULE_BYTES;
        // SAFETY: the block is committed, and so are its entries.
        unsafe { std::slice::from_raw_parts(self.states().entry(self.address_of(block)), ENTRIES) }
    }

    /// The entries of [`Region::states_of`], eight at a time.
    #[inline(always)]
    pub(crate) fn state_words_of(&self, block: BlockIndex) -> &[AtomicU64] {
        let entries = self.states_of(block);
        // SAFETY: the table is page-aligned and a block has a multiple of eight
        // entries; an atomic word has no invalid values.
        unsafe { std::slice::from_raw_parts(entries.as_ptr().cast(), entries.len() / 8) }
    }

    /// The cell that starts exactly at `word`, when there is one and it is
    /// live. Any word may be passed: this is the test for conservative roots.
    #[inline(always)]
    pub fn cell_at(&self, word: usize) -> Option<Cell> {
        self.cell_in_any_state_at(word)
            .filter(|&cell| self.state_of(cell).is_live())
    }

    /// The live cell that `word` points into, to its start or further in. Any word may be
    /// passed: this is the test for conservative roots of compiled code, which may keep
    /// only the address of a field of a cell.
    #[inline]
    pub fn cell_around(&self, word: usize) -> Option<Cell> {
        let block = self.block_at(word)?;
        let width = self.kind_byte(block).width()?;
        let start = width.cell_start(word & (BLOCK_BYTES - 1))?;
        Some(Cell(self.address_of(block) + start)).filter(|&cell| self.state_of(cell).is_live())
    }

    /// The cell that starts exactly at `word`, when there is one. Any word may be
    /// passed.
    #[inline(always)]
    pub(crate) fn cell_in_any_state_at(&self, word: usize) -> Option<Cell> {
        let block = self.block_at(word)?;
        let width = self.kind_byte(block).width()?;
        let is_start = width.is_cell_start(word & (BLOCK_BYTES - 1));
        is_start.then_some(Cell(word))
    }

    /// Gives back to the system the pages behind a span's end, in its last block, where no other
    /// span begins. Fails when the system refuses.
    pub(crate) fn release_rest(&self, last: BlockIndex) -> Result<(), Refused> {
        let block = self.block(last);
        let end = block.overhang.get().next_multiple_of(self.page_bytes);
        // SAFETY: nothing behind the overhang is in use.
        unsafe { self.release_range(self.address_of(last) + end, BLOCK_BYTES - end) }?;
        block.remove(REST_DIRTY);
        Ok(())
    }

    /// Gives the pages of blocks that hold nothing in use back to the system; the blocks are
    /// not [`DIRTY`] any more. Fails when the system refuses.
    pub(crate) fn release(&self, first: BlockIndex, count: usize) -> Result<(), Refused> {
        // SAFETY: nothing in the blocks is in use: they are empty, or their payload has been
        // freed or copied.
        unsafe { self.release_range(self.address_of(first), count * BLOCK_BYTES) }?;
        for index in 0..count {
            self.block(first.after(index)).remove(DIRTY);
        }
        Ok(())
    }
}

#[cold]
#[inline(never)]
fn not_a_cell(cell: Cell) -> ! {
    panic!("{cell:?} is not the address of a cell")
}
