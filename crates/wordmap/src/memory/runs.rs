//! Larger nodes: runs of 24-byte units, best fit, merged with their neighbours when they
//! are released. No node has a header: its size is known from the node itself (N4), and
//! only free runs contain links.
//!
//! * **M4** In a chunk's bitmap the first and the last unit of a live run are set, and
//!   those of a free run are clear. Other bits mean nothing.
//! * **M5** No two free runs touch.
//! * **M6** A free run of `u` units is in bin `min(u, BINS - 1)`. Its first three words
//!   are next, previous, `u`; its last word is `u` (in a run of one unit that is the third
//!   word itself, which is why a unit is three words).

use super::slab::{Chunk, CHUNK_BYTES, HEADER_BYTES};
use core::ptr;

const UNIT_BYTES: usize = 24;
const UNITS: usize = CHUNK_BYTES / UNIT_BYTES;
const MAP_BYTES: usize = UNITS.div_ceil(64) * 8;
/// The bitmap follows the chunk's header; the first run follows the bitmap.
const FIRST_UNIT: usize = (HEADER_BYTES + MAP_BYTES).div_ceil(UNIT_BYTES);
const BINS: usize = 192;

/// The largest node that a heap serves, in bytes.
pub(super) const RUN_BYTES_MAX: usize = (BINS - 2) * UNIT_BYTES;

const _: () = assert!(RUN_BYTES_MAX >= 4000 && UNIT_BYTES == core::mem::size_of::<FreeRun>());

#[repr(C)]
struct FreeRun {
    next: *mut FreeRun,
    previous: *mut FreeRun,
    units: usize,
}

/// The free runs of a shard.
pub(super) struct Runs {
    bins: [*mut FreeRun; BINS],
    occupied: [u64; BINS / 64],
    /// The number of runs that are handed out.
    live: usize,
}

fn units_of(bytes: usize) -> usize {
    bytes.div_ceil(UNIT_BYTES)
}

fn unit_at(chunk: *mut Chunk, unit: usize) -> *mut u8 {
    chunk.cast::<u8>().wrapping_add(unit * UNIT_BYTES)
}

fn bit(chunk: *mut Chunk, unit: usize) -> bool {
    // SAFETY: every chunk of runs has its bitmap after its header, and `unit < UNITS`.
    let word = unsafe { *map(chunk).add(unit / 64) };
    word >> (unit % 64) & 1 != 0
}

fn set_bit(chunk: *mut Chunk, unit: usize, on: bool) {
    // SAFETY: every chunk of runs has its bitmap after its header, and `unit < UNITS`;
    // chunks are used under the shard's lock.
    let word = unsafe { &mut *map(chunk).add(unit / 64) };
    if on {
        *word |= 1 << (unit % 64);
    } else {
        *word &= !(1 << (unit % 64));
    }
}

fn map(chunk: *mut Chunk) -> *mut u64 {
    chunk.cast::<u8>().wrapping_add(HEADER_BYTES).cast()
}

fn is_free(chunk: *mut Chunk, unit: usize) -> bool {
    (FIRST_UNIT..UNITS).contains(&unit) && !bit(chunk, unit)
}

impl Runs {
    pub(super) const fn new() -> Runs {
        Runs {
            bins: [ptr::null_mut(); BINS],
            occupied: [0; BINS / 64],
            live: 0,
        }
    }

    /// How many runs are handed out.
    #[inline(always)]
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// Allocates the smallest free run that fits; returns null when there is none.
    pub(super) fn allocate(&mut self, bytes: usize) -> *mut u8 {
        let units = units_of(bytes);
        let Some(bin) = self.first_bin(units) else {
            return ptr::null_mut();
        };
        let run = self.bins[bin];
        // SAFETY: M6: a listed run is live and ours under the lock, and every run
        // of bins from `units` on has at least `units`.
        unsafe {
            let found = (*run).units;
            self.unlink(run);
            let chunk = Chunk::of(run.cast());
            let first = (run.addr() - chunk.addr()) / UNIT_BYTES;
            if found > units {
                self.insert(chunk, first + units, found - units);
            }
            set_bit(chunk, first, true);
            set_bit(chunk, first + units - 1, true);
            (*chunk).live += units as u32;
        }
        self.live += 1;
        run.cast()
    }

    fn first_bin(&self, units: usize) -> Option<usize> {
        for (i, word) in self.occupied.iter().enumerate().skip(units / 64) {
            let shift = if i == units / 64 { units % 64 } else { 0 };
            let word = word >> shift;
            if word != 0 {
                return Some(i * 64 + shift + word.trailing_zeros() as usize);
            }
        }
        None
    }

    /// Makes a fresh chunk into one free run.
    ///
    /// # Safety
    /// `chunk` must be an unused chunk of [`CHUNK_BYTES`].
    pub(super) unsafe fn adopt(&mut self, chunk: *mut Chunk, shard: u32) {
        // SAFETY: the caller hands over the chunk; header and bitmap are at its start.
        unsafe {
            ptr::write_bytes(chunk.cast::<u8>(), 0, HEADER_BYTES + MAP_BYTES);
            (*chunk).shard = shard;
        }
        self.insert(chunk, FIRST_UNIT, UNITS - FIRST_UNIT);
    }

    /// Releases a run. Returns true when its chunk is empty and no longer listed: then the
    /// chunk is the caller's.
    ///
    /// # Safety
    /// `block` must be a live run of `bytes` in a chunk of this shard.
    pub(super) unsafe fn release(&mut self, block: *mut u8, bytes: usize) -> bool {
        self.live -= 1;
        let chunk = Chunk::of(block);
        let mut first = (block.addr() - chunk.addr()) / UNIT_BYTES;
        let mut units = units_of(bytes);
        // SAFETY: the run and the chunk are the caller's; a neighbour that is free by M4
        // has its size where M6 says.
        unsafe {
            (*chunk).live -= units as u32;
            if is_free(chunk, first + units) {
                let after: *mut FreeRun = unit_at(chunk, first + units).cast();
                units += (*after).units;
                self.unlink(after);
            }
            if is_free(chunk, first - 1) {
                let before_units = *unit_at(chunk, first).cast::<usize>().sub(1);
                first -= before_units;
                units += before_units;
                self.unlink(unit_at(chunk, first).cast());
            }
            if (*chunk).live == 0 {
                return true;
            }
        }
        self.insert(chunk, first, units);
        false
    }

    /// Makes a run longer where it is, if the units after it are free.
    ///
    /// # Safety
    /// As [`Runs::release`], with `new_bytes >= old_bytes`.
    pub(super) unsafe fn extend(
        &mut self,
        block: *mut u8,
        old_bytes: usize,
        new_bytes: usize,
    ) -> bool {
        let (old, new) = (units_of(old_bytes), units_of(new_bytes));
        if old == new {
            return true;
        }
        let chunk = Chunk::of(block);
        let first = (block.addr() - chunk.addr()) / UNIT_BYTES;
        if !is_free(chunk, first + old) {
            return false;
        }
        // SAFETY: the neighbour is free by M4, so M6 says where its size is.
        unsafe {
            let after: *mut FreeRun = unit_at(chunk, first + old).cast();
            let found = (*after).units;
            if found < new - old {
                return false;
            }
            self.unlink(after);
            if found > new - old {
                self.insert(chunk, first + new, found - (new - old));
            }
            set_bit(chunk, first + new - 1, true);
            (*chunk).live += (new - old) as u32;
        }
        true
    }

    /// Releases the tail of a run.
    ///
    /// # Safety
    /// As [`Runs::release`], with `new_bytes <= old_bytes` and `new_bytes > 0`.
    pub(super) unsafe fn shrink(&mut self, block: *mut u8, old_bytes: usize, new_bytes: usize) {
        let (old, new) = (units_of(old_bytes), units_of(new_bytes));
        if old > new {
            let chunk = Chunk::of(block);
            let first = (block.addr() - chunk.addr()) / UNIT_BYTES;
            set_bit(chunk, first + new - 1, true);
            self.live += 1;
            // SAFETY: from here on the tail is a run of its own; its chunk stays in use
            // because the head does.
            unsafe {
                self.release(unit_at(chunk, first + new), (old - new) * UNIT_BYTES);
            }
        }
    }

    fn insert(&mut self, chunk: *mut Chunk, first: usize, units: usize) {
        let bin = units.min(BINS - 1);
        let run: *mut FreeRun = unit_at(chunk, first).cast();
        let head = self.bins[bin];
        // SAFETY: the run is free memory of one of our chunks, at least one unit long.
        unsafe {
            run.write(FreeRun {
                next: head,
                previous: ptr::null_mut(),
                units,
            });
            unit_at(chunk, first + units)
                .cast::<usize>()
                .sub(1)
                .write(units);
            if !head.is_null() {
                (*head).previous = run;
            }
        }
        set_bit(chunk, first, false);
        set_bit(chunk, first + units - 1, false);
        self.bins[bin] = run;
        self.occupied[bin / 64] |= 1 << (bin % 64);
    }

    /// # Safety
    /// `run` must be in the list of its bin.
    unsafe fn unlink(&mut self, run: *mut FreeRun) {
        // SAFETY: M6: a listed run and its list neighbours are live free runs.
        unsafe {
            let (next, previous, units) = ((*run).next, (*run).previous, (*run).units);
            let bin = units.min(BINS - 1);
            if previous.is_null() {
                self.bins[bin] = next;
                if next.is_null() {
                    self.occupied[bin / 64] &= !(1 << (bin % 64));
                }
            } else {
                (*previous).next = next;
            }
            if !next.is_null() {
                (*next).previous = previous;
            }
        }
    }
}
