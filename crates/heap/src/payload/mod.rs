//! Payloads: memory that objects own, served to `malloc`, `calloc`, `realloc`
//! and `free` from the same region as the cells.
//!
//! ```text
//! thread cache (no lock) ⇄ pool of pieces by size class (one lock) ⇄ blocks
//!                          spans of whole blocks, for larger payloads ⇄ blocks
//! ```
//!
//! A payload's size is found from its address alone. Any thread may allocate
//! and free; a payload may be freed by another thread than allocated it.

pub mod class;
pub(crate) mod pool;
mod span;
pub mod thread_cache;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::Mutex;

use crate::allocate::blocks::Blocks;
use crate::layout::kind::Kind;
use crate::layout::region::Region;
use crate::layout::BLOCK_BYTES;
use class::{ClassIndex, CLASS_MAX_BYTES, PAYLOAD_ALIGN};
use pool::Pool;
use thread_cache::ThreadCache;

/// The payload side of a heap.
#[derive(Debug)]
pub struct Payloads {
    pool: Mutex<Pool>,
    /// Bytes of payloads in use, as the size classes round them; pieces in a
    /// thread's cache count as in use.
    in_use_bytes: AtomicUsize,
    /// Bytes handed out since the collector last looked, never credited for
    /// frees by the sweeper: that would hide fresh allocation behind garbage.
    fresh_bytes: AtomicUsize,
    /// Bytes that cells own outside the heap, as the VM reports them.
    elsewhere_bytes: AtomicUsize,
    /// The sweeper is freeing what dead cells owned.
    sweeping: AtomicBool,
}

/// What was asked for cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

impl Payloads {
    pub(crate) fn new() -> Self {
        Self {
            pool: Mutex::new(Pool::default()),
            in_use_bytes: AtomicUsize::new(0),
            fresh_bytes: AtomicUsize::new(0),
            elsewhere_bytes: AtomicUsize::new(0),
            sweeping: AtomicBool::new(false),
        }
    }

    /// Allocates at least `size` bytes (at least one), aligned to 16.
    #[inline(always)]
    pub fn allocate(
        &self,
        region: &Region,
        blocks: &Blocks,
        cache: &mut ThreadCache,
        size: usize,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        match ClassIndex::for_size(size.max(1)) {
            Some(class) => match cache.pop(region, class) {
                Some(piece) => Ok(piece),
                None => self.refill(region, blocks, cache, class),
            },
            None => self.allocate_span(region, blocks, size),
        }
    }

    /// Takes a piece of at least `size` bytes from the thread's cache, if there
    /// is one: the part of [`Payloads::allocate`] that never waits.
    #[inline(always)]
    pub fn allocate_from_cache(
        &self,
        region: &Region,
        cache: &mut ThreadCache,
        size: usize,
    ) -> Option<NonNull<u8>> {
        cache.pop(region, ClassIndex::for_size(size.max(1))?)
    }

    /// Allocates at least `size` zeroed bytes.
    pub fn allocate_zeroed(
        &self,
        region: &Region,
        blocks: &Blocks,
        cache: &mut ThreadCache,
        size: usize,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        if size > CLASS_MAX_BYTES {
            return self.allocate_zeroed_span(region, blocks, size);
        }
        let piece = self.allocate(region, blocks, cache, size)?;
        // SAFETY: the piece has at least `size` bytes and nobody else has it.
        unsafe { piece.as_ptr().write_bytes(0, size) };
        Ok(piece)
    }

    /// Allocates at least `size` bytes aligned to `align`, a power of two of at
    /// most a block.
    pub fn allocate_aligned(
        &self,
        region: &Region,
        blocks: &Blocks,
        cache: &mut ThreadCache,
        size: usize,
        align: usize,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        if align <= PAYLOAD_ALIGN {
            return self.allocate(region, blocks, cache, size);
        }
        if align > BLOCK_BYTES {
            return Err(OutOfMemory);
        }
        // Pieces start at multiples of their size, spans at blocks.
        let size = match ClassIndex::for_size(size.max(align)) {
            Some(class) => class.aligned_to(align).bytes(),
            None => size.max(align),
        };
        self.allocate(region, blocks, cache, size)
    }

    /// Takes a payload back.
    ///
    /// # Safety
    /// `payload` must come from this heap and nobody may use it any more.
    #[inline(always)]
    pub unsafe fn free(
        &self,
        region: &Region,
        blocks: &Blocks,
        cache: &mut ThreadCache,
        payload: NonNull<u8>,
    ) {
        let address = payload.as_ptr() as usize;
        let Some(block) = region.block_at(address) else {
            return not_a_payload(address);
        };
        match region.kind_byte(block).class() {
            Some(class) => {
                if cache.push(payload, class) {
                    self.flush_half(region, blocks, cache, class);
                }
            }
            None => self.free_span(region, blocks, address),
        }
    }

    /// Changes the size of a payload, keeping its contents up to the smaller
    /// size; in place where that is possible.
    ///
    /// # Safety
    /// As for [`Payloads::free`], unless an error comes back: then the payload
    /// is as it was.
    pub unsafe fn reallocate(
        &self,
        region: &Region,
        blocks: &Blocks,
        cache: &mut ThreadCache,
        payload: NonNull<u8>,
        size: usize,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        let address = payload.as_ptr() as usize;
        let old_bytes = self.usable_bytes(region, address).unwrap_or(0);
        // A payload that fits and fills more than half stays where it is.
        if size <= old_bytes && size > old_bytes / 2 {
            return Ok(payload);
        }
        if old_bytes > CLASS_MAX_BYTES && size > CLASS_MAX_BYTES {
            return self.resize_span(region, blocks, address, size);
        }
        let fresh = self.allocate(region, blocks, cache, size)?;
        // SAFETY: two different payloads, both at least this long; the old one
        // is not used after this (caller's contract).
        unsafe {
            std::ptr::copy_nonoverlapping(payload.as_ptr(), fresh.as_ptr(), size.min(old_bytes));
            self.free(region, blocks, cache, payload);
        }
        Ok(fresh)
    }

    /// The bytes a payload can hold, or `None` when `address` is not in a
    /// payload block of this heap: then the memory is somebody else's.
    #[inline(always)]
    pub fn usable_bytes(&self, region: &Region, address: usize) -> Option<usize> {
        let block = region.block_at(address)?;
        let kind = region.kind_byte(block);
        if let Some(class) = kind.class() {
            return Some(class.bytes());
        }
        (kind.kind() == Kind::Span).then(|| region.block(block).span_blocks() * BLOCK_BYTES)
    }

    /// Gives every piece of a thread's cache back to the pool.
    pub fn flush(&self, region: &Region, blocks: &Blocks, cache: &mut ThreadCache) {
        for class in ClassIndex::all() {
            self.give_back(region, blocks, cache, class, 0);
        }
    }

    /// Bytes in use, as the size classes round them.
    pub fn in_use_bytes(&self) -> usize {
        self.in_use_bytes.load(Relaxed)
    }

    /// Bytes handed out since [`Payloads::take_fresh_bytes`].
    #[inline(always)]
    pub fn fresh_bytes(&self) -> usize {
        self.fresh_bytes.load(Relaxed)
    }

    /// Bytes that cells own outside the heap.
    pub fn elsewhere_bytes(&self) -> usize {
        self.elsewhere_bytes.load(Relaxed)
    }

    /// Counts memory that cells own outside the heap: `difference` bytes more,
    /// or fewer when it is negative. It paces collections like payloads do.
    pub fn note_elsewhere(&self, difference: isize) {
        let bytes = difference.unsigned_abs();
        if difference >= 0 {
            self.elsewhere_bytes.fetch_add(bytes, Relaxed);
            self.fresh_bytes.fetch_add(bytes, Relaxed);
            return;
        }
        // What is freed may never have been reported.
        let less = |all: usize| Some(all.saturating_sub(bytes));
        let _ = self.elsewhere_bytes.fetch_update(Relaxed, Relaxed, less);
        self.credit_fresh(bytes);
    }

    /// Whether the sweeper is freeing what dead cells owned.
    pub fn is_sweeping(&self) -> bool {
        self.sweeping.load(Relaxed)
    }

    /// Reads and resets the bytes handed out.
    pub(crate) fn take_fresh_bytes(&self) -> usize {
        self.fresh_bytes.swap(0, Relaxed)
    }

    /// Says whether frees come from the sweeper from now on.
    pub(crate) fn set_sweeping(&self, sweeping: bool) {
        self.sweeping.store(sweeping, Relaxed);
    }

    /// Holds the lock of the pool while `during` runs: nothing can be in the
    /// middle of a change then, which is what a fork needs.
    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, Pool> {
        self.pool
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn charge(&self, bytes: usize) {
        self.in_use_bytes.fetch_add(bytes, Relaxed);
        self.fresh_bytes.fetch_add(bytes, Relaxed);
    }

    fn credit(&self, bytes: usize) {
        self.in_use_bytes.fetch_sub(bytes, Relaxed);
    }

    /// Credits an explicit free against what was handed out.
    fn credit_fresh(&self, bytes: usize) {
        if self.sweeping.load(Relaxed) {
            return;
        }
        let fresh = self.fresh_bytes.load(Relaxed);
        self.fresh_bytes.store(fresh.saturating_sub(bytes), Relaxed);
    }

    #[cold]
    #[inline(never)]
    fn refill(
        &self,
        region: &Region,
        blocks: &Blocks,
        cache: &mut ThreadCache,
        class: ClassIndex,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        let mut pool = self.lock();
        let taken = pool.take(region, blocks, cache, class);
        drop(pool);
        self.charge(taken * class.bytes());
        cache.pop(region, class).ok_or(OutOfMemory)
    }

    #[cold]
    #[inline(never)]
    fn flush_half(
        &self,
        region: &Region,
        blocks: &Blocks,
        cache: &mut ThreadCache,
        class: ClassIndex,
    ) {
        self.give_back(region, blocks, cache, class, cache.limit(class) / 2);
    }

    fn give_back(
        &self,
        region: &Region,
        blocks: &Blocks,
        cache: &mut ThreadCache,
        class: ClassIndex,
        keep: usize,
    ) {
        let mut pool = self.lock();
        let mut given = 0;
        while cache.len(class) > keep {
            let Some(piece) = cache.pop(region, class) else {
                break;
            };
            pool.give(region, blocks, piece, class);
            given += 1;
        }
        drop(pool);
        self.credit(given * class.bytes());
        self.credit_fresh(given * class.bytes());
    }
}

#[cold]
#[inline(never)]
fn not_a_payload(address: usize) {
    panic!("{address:#x} is not a payload of this heap")
}
