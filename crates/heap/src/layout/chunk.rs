//! Chunks: neighbouring blocks that one huge page can hold.
//!
//! The processor translates the addresses of a huge page with one entry instead of 512. But a huge
//! page has all of its memory, so only a chunk whose pages are nearly all there may have one. When a
//! part of it goes back, the kernel keeps the memory of the whole, so the page is split first.

use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{AcqRel, Relaxed},
};

use super::block::{BlockIndex, DIRTY};
use super::kind::KindByte;
use super::region::Region;
use super::BLOCK_BYTES;
use crate::os::{self, Refused, Reservation};

/// Bytes of a chunk, and of a huge page where pages have 4 KiB.
pub(super) const CHUNK_BYTES: usize = 2 << 20;
/// Blocks of a chunk.
pub(crate) const CHUNK_BLOCKS: usize = CHUNK_BYTES / BLOCK_BYTES;
/// Bytes of a page of systems whose huge pages are chunks.
const SMALL_PAGE_BYTES: usize = 4 << 10;
const CHUNK_PAGES: usize = CHUNK_BYTES / SMALL_PAGE_BYTES;
/// How many pages of a chunk may be missing for it to become huge: an eighth.
const MISSING_PAGES_MAX: usize = CHUNK_PAGES / 8;

/// Which chunks were moved into huge pages and have not given a part back since: a byte each.
#[derive(Debug)]
pub(super) struct HugeChunks {
    table: Reservation,
    count: AtomicUsize,
}

impl HugeChunks {
    /// None of the chunks of `blocks` blocks.
    pub(super) fn none_of(blocks: usize, page_bytes: usize) -> Result<Self, Refused> {
        let table = Reservation::with_pages(blocks.div_ceil(CHUNK_BLOCKS), 1, page_bytes)?;
        table.commit(0, table.bytes())?;
        Ok(Self {
            table,
            count: AtomicUsize::new(0),
        })
    }

    /// # Panics
    /// When there is no chunk of this number.
    fn entry(&self, chunk: usize) -> &AtomicBool {
        assert!(chunk < self.table.bytes());
        // SAFETY: the table is committed whole, lives as long as `self`, and holds zeros and what
        // is stored here, which are valid.
        unsafe { &*self.table.start().add(chunk).cast::<AtomicBool>() }
    }

    fn has(&self, chunk: usize) -> bool {
        self.entry(chunk).load(Relaxed)
    }

    /// Returns whether this changed anything.
    fn set(&self, chunk: usize, is_huge: bool) -> bool {
        let changed = self.entry(chunk).swap(is_huge, AcqRel) != is_huge;
        match (changed, is_huge) {
            (true, true) => self.count.fetch_add(1, Relaxed),
            (true, false) => self.count.fetch_sub(1, Relaxed),
            (false, _) => 0,
        };
        changed
    }
}

impl Region {
    /// Whether chunks can be moved into huge pages here.
    pub(crate) fn can_have_huge_chunks(&self) -> bool {
        os::page_bytes() == SMALL_PAGE_BYTES && !self.had_huge_pages()
    }

    /// Chunks that are in huge pages, as far as the heap knows.
    pub(crate) fn huge_chunks(&self) -> usize {
        self.huge_chunks.count.load(Relaxed)
    }

    /// Whether a chunk is not huge yet, and moving it into a huge page takes little memory: all of
    /// its blocks have memory, and at most an eighth of its pages are missing. A page that was only read, or that
    /// another process has, too, is missing.
    pub(crate) fn is_full_chunk(&self, chunk: usize) -> bool {
        let first = chunk * CHUNK_BLOCKS;
        if first + CHUNK_BLOCKS > self.committed_blocks() || self.huge_chunks.has(chunk) {
            return false;
        }
        let has_memory = |block: usize| {
            let block = BlockIndex(block as u32);
            self.kind_byte(block) != KindByte::EMPTY || self.block(block).has(DIRTY)
        };
        if !(first..first + CHUNK_BLOCKS).all(has_memory) {
            return false;
        }
        let mut residence = [0; CHUNK_PAGES];
        let resident = os::resident_pages(self.chunk(chunk), CHUNK_BYTES, &mut residence);
        let is_full = |pages: usize| pages >= CHUNK_PAGES - MISSING_PAGES_MAX;
        // Asking whose the pages are takes longer than asking whether there are some.
        is_full(resident) && {
            let pages = os::PageMap::open();
            let own =
                pages.and_then(|pages| pages.own_pages(self.chunk(chunk).addr(), CHUNK_BYTES));
            own.is_none_or(is_full)
        }
    }

    /// Moves a committed chunk into a huge page. Fails when the system refuses.
    pub(crate) fn move_into_huge_page(&self, chunk: usize) -> Result<(), Refused> {
        debug_assert!((chunk + 1) * CHUNK_BLOCKS <= self.committed_blocks());
        // Noted before and after: another thread may give a part back meanwhile, without a lock.
        self.huge_chunks.set(chunk, true);
        // SAFETY: the chunk is committed.
        let moved = unsafe { os::collapse(self.chunk(chunk), CHUNK_BYTES) };
        self.huge_chunks.set(chunk, moved.is_ok());
        moved
    }

    fn chunk(&self, chunk: usize) -> *mut u8 {
        self.pointer(self.start() + chunk * CHUNK_BYTES)
    }

    /// Gives pages back to the system. They read as zero afterwards. Huge pages of which others
    /// stay are split before.
    ///
    /// # Safety
    /// The range must be committed, begin at a page, and nothing in it may be in use.
    pub(super) unsafe fn release_range(&self, start: usize, bytes: usize) -> Result<(), Refused> {
        let end = start + bytes;
        let mut next = start;
        while next < end {
            let chunk = (next - self.start()) / CHUNK_BYTES;
            let part_end = end.min(self.start() + (chunk + 1) * CHUNK_BYTES);
            let was_huge = self.huge_chunks.set(chunk, false) || self.had_huge_pages();
            if was_huge && part_end - next < CHUNK_BYTES {
                // SAFETY: a committed range (caller's contract).
                unsafe { os::split(self.pointer(next), part_end - next) };
            }
            next = part_end;
        }
        // SAFETY: the caller's contract.
        unsafe { os::release(self.pointer(start), bytes) }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::layout::kind::Kind;
    use crate::layout::width::WidthIndex;

    /// A region of two chunks whose blocks are in use; all pages of the first chunk but `missing` are
    /// there.
    fn region_missing(missing: usize) -> Region {
        let region = Region::reserve(2 * CHUNK_BYTES, os::page_bytes()).unwrap();
        region.commit(2 * CHUNK_BLOCKS).unwrap();
        let width = WidthIndex::all().next().unwrap();
        for block in 0..2 * CHUNK_BLOCKS {
            region.set_kind(BlockIndex(block as u32), Kind::Cells(width));
        }
        for page in missing..CHUNK_PAGES {
            let page = region.pointer(region.start() + page * SMALL_PAGE_BYTES);
            // SAFETY: committed, and this test's alone.
            unsafe { page.write(page.addr() as u8 | 1) };
        }
        region
    }

    /// Whether the kernel gives huge pages to memory that nobody has asked them for. Then a chunk has
    /// all of its pages from the first one on.
    fn always_has_huge_pages() -> bool {
        let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
        setting.is_ok_and(|setting| setting.contains("[always]"))
    }

    fn has_small_pages() -> bool {
        os::page_bytes() == SMALL_PAGE_BYTES
    }

    /// Moves the first chunk; returns whether this system has huge pages to move it into.
    fn moves(region: &Region) -> bool {
        let moved = region.move_into_huge_page(0).is_ok();
        assert_eq!(region.huge_chunks(), usize::from(moved));
        moved
    }

    #[test]
    fn a_chunk_is_full_with_at_most_an_eighth_of_its_pages_missing() {
        if !has_small_pages() {
            return; // Elsewhere a huge page is no chunk.
        }
        assert!(region_missing(CHUNK_PAGES / 8).is_full_chunk(0));
        let region = region_missing(CHUNK_PAGES / 8 + 1);
        assert_eq!(region.is_full_chunk(0), always_has_huge_pages());
        assert!(!region.is_full_chunk(1));
    }

    #[test]
    fn a_chunk_whose_pages_were_only_read_is_not_full() {
        if os::PageMap::open().is_none() || always_has_huge_pages() {
            return; // Then nobody says whose the pages are, or reading brings in a huge page.
        }
        let region = region_missing(CHUNK_PAGES / 8 + 1);
        for page in 0..CHUNK_PAGES {
            let page = region.pointer(region.start() + page * SMALL_PAGE_BYTES);
            // SAFETY: committed, and this test's alone.
            unsafe { page.read_volatile() };
        }
        assert!(!region.is_full_chunk(0));
    }

    #[test]
    fn a_chunk_with_a_block_without_memory_is_not_full() {
        let region = region_missing(0);
        region.set_kind(BlockIndex(3), Kind::Empty);
        assert!(!region.is_full_chunk(0));
        region.block(BlockIndex(3)).add(DIRTY);
        assert_eq!(region.is_full_chunk(0), has_small_pages());
    }

    #[test]
    fn a_chunk_keeps_its_contents_in_a_huge_page_and_is_looked_at_no_more() {
        let region = region_missing(10);
        let moved = moves(&region);
        for page in 0..CHUNK_PAGES {
            let page = region.pointer(region.start() + page * SMALL_PAGE_BYTES);
            let is_missing = page.addr() < region.start() + 10 * SMALL_PAGE_BYTES;
            let expected = if is_missing { 0 } else { page.addr() as u8 | 1 };
            // SAFETY: committed, and this test's alone.
            assert_eq!(unsafe { page.read() }, expected);
        }
        assert_eq!(region.is_full_chunk(0), has_small_pages() && !moved);
    }

    /// Huge pages that the kernel has split so far, of all processes.
    fn split_pages() -> Option<u64> {
        let counts = std::fs::read_to_string("/proc/vmstat").ok()?;
        let mut lines = counts.lines();
        let count = lines.find_map(|line| line.strip_prefix("thp_split_page "))?;
        count.parse().ok()
    }

    #[test]
    fn a_chunk_that_gives_a_part_back_is_split_and_not_huge_any_more() {
        let region = region_missing(0);
        let moved = moves(&region);
        let before = split_pages();
        region.release(BlockIndex(2), 1).unwrap();
        // The count is that of the whole system, so it may grow without a reason, but must grow.
        assert!(!moved || before.is_none() || before < split_pages());
        assert_eq!(region.huge_chunks(), 0);
        let byte_of = |block| {
            let byte = region.pointer(region.address_of(BlockIndex(block)));
            // SAFETY: committed, and this test's alone.
            unsafe { byte.read() }
        };
        assert_eq!(byte_of(2), 0);
        assert_eq!([byte_of(1), byte_of(3)].map(|byte| byte & 1), [1, 1]);
        let mut residence = [0; CHUNK_PAGES];
        let block = region.pointer(region.address_of(BlockIndex(2)));
        // Reading it has brought in at most one page.
        let resident = os::resident_pages(block, BLOCK_BYTES, &mut residence);
        assert!(resident <= 1, "{resident} pages, moved: {moved}");
    }

    #[test]
    fn a_region_that_was_asked_for_huge_pages_has_no_chunks_to_move() {
        let region = region_missing(0);
        assert_eq!(region.can_have_huge_chunks(), has_small_pages());
        region.set_huge_pages(true);
        region.set_huge_pages(false);
        assert!(!region.can_have_huge_chunks());
    }

    #[test]
    fn chunks_that_are_given_back_whole_are_not_huge_any_more() {
        let region = region_missing(0);
        moves(&region);
        region.release(BlockIndex(0), 2 * CHUNK_BLOCKS).unwrap();
        assert_eq!(region.huge_chunks(), 0);
    }
}
