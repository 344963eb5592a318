//! Small nodes: chunks cut into slots of one size.
//!
//! * **M1** A chunk of slot size `s` is in the list of its class exactly when
//!   it has a free slot: one on its free list, or room behind its bump offset.
//! * **M2** `live` counts the slots handed out.

use core::ptr;

/// Bytes of a chunk, and its alignment: the chunk of a node is found by masking.
pub(super) const CHUNK_BYTES: usize = 128 << 10;

/// The largest node that gets a slot; one class for each multiple of 8.
pub(super) const SLOT_BYTES_MAX: usize = 512;
pub(super) const CLASSES: usize = SLOT_BYTES_MAX / 8 + 1;

/// Where the slots of a chunk begin.
pub(super) const HEADER_BYTES: usize = 64;

/// The first bytes of every chunk.
#[repr(C)]
pub(super) struct Chunk {
    /// Bytes of a slot; 0 for a chunk of runs.
    pub(super) slot_bytes: u32,
    /// Index of the shard that owns the chunk.
    pub(super) shard: u32,
    /// Slots or units handed out.
    pub(super) live: u32,
    /// Offset of the first slot never handed out.
    pub(super) bump: u32,
    /// Slots that came back, linked through their first word.
    free: *mut u8,
    pub(super) next: *mut Chunk,
    previous: *mut Chunk,
}

const _: () = assert!(core::mem::size_of::<Chunk>() <= HEADER_BYTES);

impl Chunk {
    /// The chunk a node lies in.
    #[inline(always)]
    pub(super) fn of(node: *mut u8) -> *mut Chunk {
        node.map_addr(|a| a & !(CHUNK_BYTES - 1)).cast()
    }
}

/// The chunks of each class that have a free slot.
pub(super) struct Slabs {
    open: [*mut Chunk; CLASSES],
}

impl Slabs {
    pub(super) const fn new() -> Slabs {
        Slabs {
            open: [ptr::null_mut(); CLASSES],
        }
    }

    /// A slot, when a chunk of the class has one.
    #[inline(always)]
    pub(super) fn allocate(&mut self, bytes: usize) -> *mut u8 {
        let chunk = self.open[bytes / 8];
        if chunk.is_null() {
            return ptr::null_mut();
        }
        // SAFETY: M1: an open chunk is live and has a slot, on its free list or
        // behind its bump offset; the heap's lock makes us its only user.
        unsafe {
            let c = chunk;
            (*c).live += 1;
            let slot = (*c).free;
            if slot.is_null() {
                let slot = chunk.cast::<u8>().add((*c).bump as usize);
                (*c).bump += (*c).slot_bytes;
                if ((*c).bump + (*c).slot_bytes) as usize > CHUNK_BYTES {
                    self.unlink(chunk);
                }
                return slot;
            }
            (*c).free = *slot.cast::<*mut u8>();
            if (*c).free.is_null() && ((*c).bump + (*c).slot_bytes) as usize > CHUNK_BYTES {
                self.unlink(chunk);
            }
            slot
        }
    }

    /// Makes a fresh chunk serve the class of `bytes`.
    ///
    /// # Safety
    /// `chunk` must be an unused chunk of [`CHUNK_BYTES`].
    pub(super) unsafe fn adopt(&mut self, chunk: *mut Chunk, bytes: usize, shard: u32) {
        // SAFETY: the caller hands over the chunk.
        unsafe {
            chunk.write(Chunk {
                slot_bytes: bytes as u32,
                shard,
                live: 0,
                bump: HEADER_BYTES as u32,
                free: ptr::null_mut(),
                next: ptr::null_mut(),
                previous: ptr::null_mut(),
            });
        }
        self.link(chunk);
    }

    /// Takes a slot back. Returns true when the chunk is now empty and no
    /// longer listed: it is the caller's then.
    ///
    /// # Safety
    /// `slot` must be a live slot of `chunk`, and `chunk` one of this shard.
    #[inline(always)]
    pub(super) unsafe fn release(&mut self, chunk: *mut Chunk, slot: *mut u8) -> bool {
        // SAFETY: the caller's duty; the slot's first word is ours now.
        unsafe {
            let c = chunk;
            let was_full =
                (*c).free.is_null() && ((*c).bump + (*c).slot_bytes) as usize > CHUNK_BYTES;
            slot.cast::<*mut u8>().write((*c).free);
            (*c).free = slot;
            (*c).live -= 1;
            if was_full {
                self.link(chunk);
            }
            if (*c).live == 0 {
                self.unlink(chunk);
                return true;
            }
            false
        }
    }

    fn link(&mut self, chunk: *mut Chunk) {
        // SAFETY: listed chunks and `chunk` are live and ours under the lock.
        unsafe {
            let head = &mut self.open[(*chunk).slot_bytes as usize / 8];
            (*chunk).next = *head;
            (*chunk).previous = ptr::null_mut();
            if !head.is_null() {
                (**head).previous = chunk;
            }
            *head = chunk;
        }
    }

    fn unlink(&mut self, chunk: *mut Chunk) {
        // SAFETY: as `link`; `chunk` is listed.
        unsafe {
            let (next, previous) = ((*chunk).next, (*chunk).previous);
            if previous.is_null() {
                self.open[(*chunk).slot_bytes as usize / 8] = next;
            } else {
                (*previous).next = next;
            }
            if !next.is_null() {
                (*next).previous = previous;
            }
            (*chunk).next = ptr::null_mut();
            (*chunk).previous = ptr::null_mut();
        }
    }
}
