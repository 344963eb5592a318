//! Small nodes: pages cut into slots of one size.
//!
//! A page is 16 KiB, four to a chunk, so that a class of which little is
//! needed costs little.
//!
//! * **M1** A page of slot size `s` is in the list of its class exactly when
//!   it has a free slot: one on its free list, or room behind its bump offset.
//! * **M2** `live` counts the slots of a page handed out. A page with none is
//!   free: its bit is set in its chunk, and nothing else is known about it.
//! * **M3** A chunk of pages is in the list of chunks exactly when it has a
//!   free page and one in use.

use core::ptr;

/// Bytes of a chunk, and its alignment: the chunk of a node is found by masking.
pub(super) const CHUNK_BYTES: usize = 64 << 10;
const PAGE_BYTES: usize = 16 << 10;
const PAGES: usize = CHUNK_BYTES / PAGE_BYTES;
const ALL_FREE: u32 = (1 << PAGES) - 1;

/// The largest node that gets a slot; one class for each multiple of 8.
pub(super) const SLOT_BYTES_MAX: usize = 512;
pub(super) const CLASSES: usize = SLOT_BYTES_MAX / 8 + 1;

/// Room for a chunk's header.
pub(super) const HEADER_BYTES: usize = 64;

/// The first bytes of every chunk.
#[repr(C)]
pub(super) struct Chunk {
    /// Index of the shard that owns the chunk.
    pub(super) shard: u32,
    /// Whether the chunk is cut into pages; else it holds runs.
    pub(super) has_pages: bool,
    /// Units of runs handed out.
    pub(super) live: u32,
    free_pages: u32,
    pub(super) next: *mut Chunk,
    previous: *mut Chunk,
}

/// The first bytes of every page (behind the chunk's, in a chunk's first page).
#[repr(C)]
struct Page {
    slot_bytes: u32,
    live: u32,
    /// Offset in the page of the first slot never handed out.
    bump: u32,
    /// Slots that came back, linked through their first word.
    free: *mut u8,
    next: *mut Page,
    previous: *mut Page,
}

const _: () = assert!(core::mem::size_of::<Chunk>() <= HEADER_BYTES);
const PAGE_HEADER_BYTES: usize = core::mem::size_of::<Page>();

impl Chunk {
    /// The chunk a node lies in.
    #[inline(always)]
    pub(super) fn of(node: *mut u8) -> *mut Chunk {
        node.map_addr(|a| a & !(CHUNK_BYTES - 1)).cast()
    }
}

impl Page {
    /// The page a slot lies in.
    #[inline(always)]
    fn of(slot: *mut u8) -> *mut Page {
        let start = slot.map_addr(|a| a & !(PAGE_BYTES - 1));
        let is_first = start.addr() & (CHUNK_BYTES - 1) == 0;
        start
            .wrapping_add(if is_first { HEADER_BYTES } else { 0 })
            .cast()
    }

    fn start(page: *mut Page) -> *mut u8 {
        page.cast::<u8>().map_addr(|a| a & !(PAGE_BYTES - 1))
    }
}

/// The pages of each class that have a free slot, and the chunks that have a free page.
pub(super) struct Slabs {
    open: [*mut Page; CLASSES],
    chunks: *mut Chunk,
}

impl Slabs {
    pub(super) const fn new() -> Slabs {
        Slabs {
            open: [ptr::null_mut(); CLASSES],
            chunks: ptr::null_mut(),
        }
    }

    /// A slot, when an open page of the class has one.
    #[inline(always)]
    pub(super) fn allocate(&mut self, bytes: usize) -> *mut u8 {
        let page = self.open[bytes / 8];
        if page.is_null() {
            return ptr::null_mut();
        }
        // SAFETY: M1: an open page is live and has a slot, on its free list or
        // behind its bump offset; the heap's lock makes us its only user.
        unsafe {
            (*page).live += 1;
            let mut slot = (*page).free;
            if slot.is_null() {
                slot = Page::start(page).add((*page).bump as usize);
                (*page).bump += (*page).slot_bytes;
            } else {
                (*page).free = *slot.cast::<*mut u8>();
            }
            if is_full(page) {
                self.unlink(page);
            }
            slot
        }
    }

    /// Makes a free page serve the class of `bytes`; false when there is none.
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
            let first = page.addr() - start.addr() + PAGE_HEADER_BYTES;
            page.write(Page {
                slot_bytes: bytes as u32,
                live: 0,
                bump: first as u32,
                free: ptr::null_mut(),
                next: ptr::null_mut(),
                previous: ptr::null_mut(),
            });
            self.link(page);
        }
        true
    }

    /// Takes a fresh chunk to cut pages from.
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

    /// Takes a slot back. Returns true when its chunk is now empty and no
    /// longer listed: it is the caller's then.
    ///
    /// # Safety
    /// `slot` must be a live slot of `chunk`, and `chunk` one of this shard.
    #[inline(always)]
    pub(super) unsafe fn release(&mut self, chunk: *mut Chunk, slot: *mut u8) -> bool {
        let page = Page::of(slot);
        // SAFETY: the caller's duty; the slot's first word is ours now.
        unsafe {
            if is_full(page) {
                self.link(page);
            }
            slot.cast::<*mut u8>().write((*page).free);
            (*page).free = slot;
            (*page).live -= 1;
            (*page).live == 0 && self.close_page(chunk, page)
        }
    }

    /// Gives an empty page back to its chunk; returns true when that is empty too.
    #[cold]
    fn close_page(&mut self, chunk: *mut Chunk, page: *mut Page) -> bool {
        self.unlink(page);
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
            let head = &mut self.open[(*page).slot_bytes as usize / 8];
            (*page).next = *head;
            (*page).previous = ptr::null_mut();
            if !head.is_null() {
                (**head).previous = page;
            }
            *head = page;
        }
    }

    fn unlink(&mut self, page: *mut Page) {
        // SAFETY: listed pages, of which `page` is one, are live and ours under the lock.
        unsafe {
            let (next, previous) = ((*page).next, (*page).previous);
            if previous.is_null() {
                self.open[(*page).slot_bytes as usize / 8] = next;
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
        // SAFETY: listed chunks, of which `chunk` is one, are live and ours under the lock.
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

/// Whether a page has no slot left.
///
/// # Safety
/// `page` must be live and of the locked shard.
#[inline(always)]
unsafe fn is_full(page: *mut Page) -> bool {
    // SAFETY: the caller's duty.
    unsafe { (*page).free.is_null() && ((*page).bump + (*page).slot_bytes) as usize > PAGE_BYTES }
}
