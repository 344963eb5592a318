//! Payloads: memory that objects own, served to `malloc`, `calloc`, `realloc`
//! and `free` from the same region as the cells.
//!
//! ```text
//! thread cache (no lock) ⇄ pool of pieces by size class (one lock) ⇄ blocks
//!                          spans of whole blocks, for larger payloads ⇄ blocks
//! ```
//!
//! A payload's size is found from its address alone. Any thread may allocate
//! and free, and free what another thread allocated. The piece then goes back to the arena
//! that it is from (`layout/arena.rs`).

pub(crate) mod free_lists;
mod inherited;
mod notes;
pub(crate) mod pool;
mod span;
mod supply;
pub(crate) mod thread_cache;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::layout::kind::Kind;
use crate::space::Space;
use pool::Pool;

/// What all threads know about the payloads of a heap.
#[derive(Debug, Default)]
pub struct Payloads {
    pool: Mutex<Pool>,
    /// Bytes of pieces in use, as the size classes round them, pieces in a thread's cache
    /// included. Only the thread that has the pool's lock writes this.
    piece_bytes: AtomicUsize,
    /// Bytes of spans in use.
    span_bytes: AtomicUsize,
    /// Bytes handed out since the collector last looked, never credited for
    /// frees by the sweeper: that would hide fresh allocation behind garbage.
    fresh_bytes: AtomicUsize,
    /// Bytes handed out before the collector last looked.
    counted_bytes: AtomicUsize,
    /// Bytes that cells own outside the heap, as the VM reports them.
    elsewhere_bytes: AtomicUsize,
    /// The sweeper is freeing what dead cells owned.
    sweeping: AtomicBool,
    /// This process is a forked child that keeps what it has from its parent apart.
    inherits: AtomicBool,
    /// Payloads that had to move when their size changed, and bytes copied for that.
    moved: AtomicUsize,
    copied_bytes: AtomicUsize,
}

/// What became of a payload whose size was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resized {
    /// It is where it was.
    InPlace,
    /// Its contents are at this address now, and its old place is free: whoever has the old
    /// address needs the new one.
    Moved(NonNull<u8>),
}

/// The memory that was asked for cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

impl Payloads {
    /// Payloads that have moved because their size was changed.
    pub fn moved(&self) -> usize {
        self.moved.load(Relaxed)
    }

    /// Bytes that were copied because payloads moved.
    pub fn copied_bytes(&self) -> usize {
        self.copied_bytes.load(Relaxed)
    }

    fn note_moved(&self, copied_bytes: usize) {
        self.moved.fetch_add(1, Relaxed);
        self.copied_bytes.fetch_add(copied_bytes, Relaxed);
    }

    /// Bytes in use, as the size classes round them; pieces in a thread's cache count as
    /// in use.
    pub fn in_use_bytes(&self) -> usize {
        self.piece_bytes.load(Relaxed) + self.span_bytes.load(Relaxed)
    }

    /// Bytes handed out since a collection last reset the count.
    #[inline(always)]
    pub fn fresh_bytes(&self) -> usize {
        self.fresh_bytes.load(Relaxed)
    }

    /// Bytes handed out so far, less what the program has freed before the next collection.
    pub fn handed_out_bytes(&self) -> usize {
        self.counted_bytes.load(Relaxed) + self.fresh_bytes()
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
        let fresh_bytes = self.fresh_bytes.swap(0, Relaxed);
        self.counted_bytes.fetch_add(fresh_bytes, Relaxed);
        fresh_bytes
    }

    /// Says whether frees come from the sweeper from now on.
    pub(crate) fn set_sweeping(&self, sweeping: bool) {
        self.sweeping.store(sweeping, Relaxed);
    }

    /// Takes the lock of the pool: while it is held no piece is moving between the
    /// pool and a thread's cache.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts pieces that leave the pool, which the caller has locked.
    fn note_taken(&self, _pool: &Pool, bytes: usize) {
        let before = self.piece_bytes.load(Relaxed);
        self.piece_bytes.store(before + bytes, Relaxed);
    }

    /// Counts pieces that are back in the pool, which the caller has locked.
    fn note_given(&self, _pool: &Pool, bytes: usize) {
        let before = self.piece_bytes.load(Relaxed);
        self.piece_bytes.store(before - bytes, Relaxed);
    }

    /// Credits an explicit free against what was handed out. Other threads add to the count at
    /// the same time, so nothing less than a compare-and-exchange keeps what they add.
    fn credit_fresh(&self, bytes: usize) {
        if self.sweeping.load(Relaxed) {
            return;
        }
        let less = |fresh: usize| Some(fresh.saturating_sub(bytes));
        let _ = self.fresh_bytes.fetch_update(Relaxed, Relaxed, less);
    }
}

impl Space {
    /// The bytes that a payload can hold, or `None` when `address` is in no payload
    /// block: then the memory is somebody else's.
    #[inline(always)]
    pub fn usable_bytes(&self, address: usize) -> Option<usize> {
        let block = self.region.block_at(address)?;
        if let Some(class) = self.region.kind_byte(block).class() {
            return Some(class.bytes());
        }
        (self.region.kind(block) == Kind::Span).then(|| self.region.span_bytes(block))
    }
}

#[cold]
#[inline(never)]
fn not_a_payload(address: usize) {
    panic!("{address:#x} is not a payload of this heap")
}
