//! Small nodes: pages cut into slots of one size.
//!
//! A page is 16 KiB, and a chunk has four, so that a class that needs little memory takes
//! little.
//!
//! Bits in the page's header say which slots are free, so a slot is handed out and
//! released without reading its memory. A slot can be released by any address in it: no
//! node has to be read to free it.
//!
//! * **M1** A page is in the list of its class exactly when it has a free slot.
//! * **M2** `live` counts the slots of a page that are handed out; their bits are clear,
//!   and those of its other slots are set. A page with none handed out is free: its bit is
//!   set in its chunk, and nothing else is known about the page.
//! * **M3** A chunk of pages is in the list of chunks exactly when it has a free page and
//!   one in use.

use core::num::NonZeroU64;
use core::ptr::{self, NonNull};

/// Bytes of a chunk, and its alignment: the chunk of a node is found by masking.
pub(super) const CHUNK_BYTES: usize = 64 << 10;
const PAGE_BYTES: usize = 16 << 10;
const PAGES: usize = CHUNK_BYTES / PAGE_BYTES;
const ALL_FREE: u32 = (1 << PAGES) - 1;

/// The largest node that gets a slot; one class for each multiple of 8.
pub(super) const SLOT_BYTES_MAX: usize = 512;
pub(super) const CLASSES: usize = SLOT_BYTES_MAX / 8 + 1;

/// The bytes reserved for a chunk's header.
pub(super) const HEADER_BYTES: usize = 64;

/// The first bytes of every chunk.
#[repr(C)]
pub(super) struct Chunk {
    /// Bytes from the heap's first shard to the one that owns the chunk.
    pub(super) shard: u32,
    /// Whether the chunk is cut into pages; else it holds runs.
    pub(super) has_pages: bool,
    /// The number of units of runs that are handed out.
    pub(super) live: u32,
    free_pages: u32,
    pub(super) next: *mut Chunk,
    previous: *mut Chunk,
}

/// The last bytes of every page, at the same place in a chunk's first page and in the
/// others. Before them are the bits of its slots, with their first word last. The slots
/// begin where the page does; in the first page, after the chunk's header.
#[repr(C)]
struct Page {
    /// The size of a slot in words.
    slot_words: u16,
    /// The number of slots.
    slots: u16,
    /// 1 / `slot_words`, in units of 2^-[`RECIPROCAL_SHIFT`], rounded up.
    reciprocal: u32,
    /// The offset of slot 0 in the page.
    first_slot: u32,
    // A word for each field, so that no load reads what two stores have just written.
    live: u32,
    /// The index of a word of bits that is not 0, if there is one.
    free_word: u32,
    next: *mut Page,
    previous: *mut Page,
}

/// Few enough bits that a product with an offset in words fits into 64 bits, and enough
/// that rounding does not reach the next slot.
const RECIPROCAL_SHIFT: u32 = 20;

const _: () = assert!(size_of::<Chunk>() <= HEADER_BYTES && size_of::<Page>() % 8 == 0);
// An offset times the error of a reciprocal, which is less than the words of a slot, stays
// below one slot's share.
const _: () = assert!((PAGE_BYTES / 8) * (SLOT_BYTES_MAX / 8) <= 1 << RECIPROCAL_SHIFT);
const _: () = assert!(PAGE_BYTES / SLOT_BYTES_MAX > 3);

impl Chunk {
    /// The chunk that contains a node.
    #[inline(always)]
    pub(super) fn of(node: *mut u8) -> *mut Chunk {
        node.map_addr(|a| a & !(CHUNK_BYTES - 1)).cast()
    }

    /// [`Chunk::shard`] of the chunk that contains a node.
    ///
    /// # Safety
    /// `node` must be an address in a live node.
    #[inline(always)]
    pub(super) unsafe fn shard_of(node: NonNull<u8>) -> u32 {
        // SAFETY: a live node is in a chunk. While nodes of the chunk live, only counters
        // in other fields of its header are written.
        unsafe { *ptr::addr_of!((*Chunk::of(node.as_ptr())).shard) }
    }
}

impl Page {
    /// The page that contains a slot.
    #[inline(always)]
    fn of(slot: *mut u8) -> *mut Page {
        let last = slot.map_addr(|a| a | (PAGE_BYTES - 1));
        last.wrapping_sub(size_of::<Page>() - 1).cast()
    }

    #[inline(always)]
    fn start(page: *mut Page) -> *mut u8 {
        page.cast::<u8>().map_addr(|a| a & !(PAGE_BYTES - 1))
    }

    /// Initializes a page at `page` that serves slots of `bytes`, all of them free.
    ///
    /// # Safety
    /// The page must be unused memory of the caller, in a chunk.
    unsafe fn open(page: *mut Page, bytes: usize) {
        let is_first = Page::start(page).addr() % CHUNK_BYTES == 0;
        let first_slot = if is_first { HEADER_BYTES } else { 0 };
        let room = PAGE_BYTES - first_slot - size_of::<Page>();
        let words = (room / bytes).div_ceil(64);
        let slots = (room - 8 * words) / bytes;
        let slot_words = bytes / 8;
        // SAFETY: the caller's contract: header, bits and slots are in the page.
        unsafe {
            page.write(Page {
                slot_words: slot_words as u16,
                slots: slots as u16,
                live: 0,
                free_word: 0,
                first_slot: first_slot as u32,
                reciprocal: (1u32 << RECIPROCAL_SHIFT).div_ceil(slot_words as u32),
                next: ptr::null_mut(),
                previous: ptr::null_mut(),
            });
            for w in 0..words {
                let left = slots.saturating_sub(64 * w);
                let ones = if left < 64 { (1 << left) - 1 } else { u64::MAX };
                Page::bits(page, w).write(ones);
            }
        }
    }

    /// The address of word `w` of the bits.
    #[inline(always)]
    fn bits(page: *mut Page, w: usize) -> *mut u64 {
        page.cast::<u64>().wrapping_sub(w + 1)
    }

    /// The number of words of bits.
    ///
    /// # Safety
    /// `page` must be live and of the locked shard.
    unsafe fn words(page: *mut Page) -> usize {
        // SAFETY: the page is live, and its shard locked.
        usize::from(unsafe { (*page).slots }).div_ceil(64)
    }
}

/// A slot of a page, by the position of its bit.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    page: *mut Page,
    word: usize,
    bit: u64,
}

impl Slot {
    /// The slot that contains the address `inside`. Reads nothing that changes while the
    /// slot is live, so the shard need not be locked.
    ///
    /// # Safety
    /// The slot must be live.
    #[inline(always)]
    pub(super) unsafe fn around(inside: *mut u8) -> Slot {
        let page = Page::of(inside);
        // SAFETY: the caller's contract: the page of a live slot is live.
        let slot = unsafe {
            let offset = inside.addr() % PAGE_BYTES - (*page).first_slot as usize;
            (offset / 8 * (*page).reciprocal as usize) >> RECIPROCAL_SHIFT
        };
        Slot {
            page,
            word: slot / 64,
            bit: 1 << (slot % 64),
        }
    }

    /// # Safety
    /// The slot must be live.
    #[inline(always)]
    pub(super) unsafe fn bytes(self) -> usize {
        // SAFETY: the caller's contract: the page of a live slot is live.
        8 * usize::from(unsafe { (*self.page).slot_words })
    }
}

/// The pages of each class that have a free slot, and the chunks that have a free page.
pub(super) struct Slabs {
    open: [*mut Page; CLASSES],
    chunks: *mut Chunk,
    /// The number of pages that serve a class.
    pages: usize,
}

impl Slabs {
    pub(super) const fn new() -> Slabs {
        Slabs {
            open: [ptr::null_mut(); CLASSES],
            chunks: ptr::null_mut(),
            pages: 0,
        }
    }

    /// How many pages have slots handed out.
    #[inline(always)]
    pub(super) fn pages(&self) -> usize {
        self.pages
    }

    /// Returns a slot if an open page of the class has one, otherwise null.
    #[inline(always)]
    pub(super) fn allocate(&mut self, bytes: usize) -> *mut u8 {
        let page = self.open[bytes / 8];
        if page.is_null() {
            return ptr::null_mut();
        }
        // SAFETY: M1, M2: an open page is live and has a free slot, whose bit is set; the
        // heap's lock makes us its only user.
        unsafe {
            (*page).live += 1;
            let w = (*page).free_word as usize;
            let bits = Page::bits(page, w);
            let free = NonZeroU64::new_unchecked(*bits);
            let slot = 64 * w + free.trailing_zeros() as usize;
            *bits = free.get() & (free.get() - 1);
            if *bits == 0 {
                self.leave_word(page);
            }
            let offset = 8 * slot * usize::from((*page).slot_words);
            Page::start(page).add((*page).first_slot as usize + offset)
        }
    }

    /// Chooses another word with a set bit, after a word has lost its last one.
    ///
    /// # Safety
    /// `page` must be in the list of a class of this shard.
    #[inline(never)]
    unsafe fn leave_word(&mut self, page: *mut Page) {
        // SAFETY: the caller's contract; a page has this many words of bits.
        unsafe {
            let words = Page::words(page);
            match (0..words).find(|w| *Page::bits(page, *w) != 0) {
                Some(w) => (*page).free_word = w as u32,
                None => self.unlink(page),
            }
        }
    }

    /// Makes a free page serve the class of `bytes`; returns false when there is none.
    pub(super) fn open_page(&mut self, bytes: usize) -> bool {
        let chunk = self.chunks;
        if chunk.is_null() {
            return false;
        }
        // SAFETY: M3: a listed chunk is live and has a free page; the page is ours.
        unsafe {
            let index = (*chunk).free_pages.trailing_zeros();
            (*chunk).free_pages &= (*chunk).free_pages - 1;
            if (*chunk).free_pages == 0 {
                self.unlink_chunk(chunk);
            }
            let start = chunk.cast::<u8>().add(index as usize * PAGE_BYTES);
            let page = Page::of(start);
            Page::open(page, bytes);
            self.link(page);
        }
        self.pages += 1;
        true
    }

    /// Adds a fresh chunk to cut pages from.
    ///
    /// # Safety
    /// `chunk` must be an unused chunk of [`CHUNK_BYTES`].
    pub(super) unsafe fn adopt(&mut self, chunk: *mut Chunk, shard: u32) {
        // SAFETY: the caller hands over the chunk.
        unsafe {
            chunk.write(Chunk {
                shard,
                has_pages: true,
                live: 0,
                free_pages: ALL_FREE,
                next: ptr::null_mut(),
                previous: ptr::null_mut(),
            });
        }
        self.link_chunk(chunk);
    }

    /// Releases a slot; returns whether its page must be [settled](Slabs::settle).
    ///
    /// # Safety
    /// The slot must be a live one of this shard.
    #[inline(always)]
    pub(super) unsafe fn release(&mut self, slot: Slot) -> bool {
        let Slot { page, word, bit } = slot;
        // SAFETY: the caller's contract: the page of a live slot is live, and has the
        // slot's bit.
        unsafe {
            let bits = Page::bits(page, word);
            debug_assert!(*bits & bit == 0, "a slot comes back twice");
            *bits |= bit;
            (*page).free_word = word as u32;
            let live = (*page).live - 1;
            (*page).live = live;
            // One test for both ends: a page has more than two slots.
            let is_amid = live.wrapping_sub(1) < u32::from((*page).slots) - 2;
            !is_amid
        }
    }

    /// Lists the page that contains the address `inside` if it was full until a slot was
    /// released, or closes it if it has become empty. Returns true when its chunk is now
    /// empty and no longer listed: then the chunk is the caller's.
    ///
    /// # Safety
    /// The page must be one of this shard in which a slot has just been released.
    pub(super) unsafe fn settle(&mut self, inside: *mut u8) -> bool {
        let page = Page::of(inside);
        // SAFETY: the page is this shard's, and one of its slots is free now.
        unsafe {
            if (*page).live + 1 == u32::from((*page).slots) {
                self.link(page);
            }
            (*page).live == 0 && self.close_page(Chunk::of(inside), page)
        }
    }

    /// Gives an empty page back to its chunk; returns true when the chunk is now empty,
    /// too.
    fn close_page(&mut self, chunk: *mut Chunk, page: *mut Page) -> bool {
        self.unlink(page);
        self.pages -= 1;
        // SAFETY: the page lies in `chunk`, which is live and ours under the lock.
        unsafe {
            if (*chunk).free_pages == 0 {
                self.link_chunk(chunk);
            }
            let index = (page.addr() - chunk.addr()) / PAGE_BYTES;
            (*chunk).free_pages |= 1 << index;
            if (*chunk).free_pages == ALL_FREE {
                self.unlink_chunk(chunk);
                return true;
            }
        }
        false
    }

    fn link(&mut self, page: *mut Page) {
        // SAFETY: listed pages and `page` are live and ours under the lock.
        unsafe {
            let head = &mut self.open[usize::from((*page).slot_words)];
            (*page).next = *head;
            (*page).previous = ptr::null_mut();
            if !head.is_null() {
                (**head).previous = page;
            }
            *head = page;
        }
    }

    fn unlink(&mut self, page: *mut Page) {
        // SAFETY: `page` is a listed page; these are live and ours under the lock.
        unsafe {
            let (next, previous) = ((*page).next, (*page).previous);
            if previous.is_null() {
                self.open[usize::from((*page).slot_words)] = next;
            } else {
                (*previous).next = next;
            }
            if !next.is_null() {
                (*next).previous = previous;
            }
        }
    }

    fn link_chunk(&mut self, chunk: *mut Chunk) {
        // SAFETY: listed chunks and `chunk` are live and ours under the lock.
        unsafe {
            (*chunk).next = self.chunks;
            (*chunk).previous = ptr::null_mut();
            if !self.chunks.is_null() {
                (*self.chunks).previous = chunk;
            }
        }
        self.chunks = chunk;
    }

    fn unlink_chunk(&mut self, chunk: *mut Chunk) {
        // SAFETY: `chunk` is a listed chunk; these are live and ours under the lock.
        unsafe {
            let (next, previous) = ((*chunk).next, (*chunk).previous);
            if previous.is_null() {
                self.chunks = next;
            } else {
                (*previous).next = next;
            }
            if !next.is_null() {
                (*next).previous = previous;
            }
        }
    }
}
