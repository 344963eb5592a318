//! The parts of a heap that need no lock of the VM: the space, the payloads and the helper
//! threads.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::MutexGuard;

use crate::allocate::blocks::BlockAllocator;
use crate::layout::arena::Arena;
use crate::mark::pool::{Stopped, ThreadPool};
use crate::os::{self, Refused};
use crate::payload::pool::Pool;
use crate::payload::thread_cache::ThreadCache;
use crate::payload::Payloads;
use crate::space::Space;

/// The fewest bytes that [`Shared::reserve_beside`] reserves.
pub const RESERVE_BYTES_MIN: usize = 16 << 20;

/// The parts of a heap that every thread may use at any time.
#[derive(Debug)]
pub struct Shared {
    /// The region and its blocks.
    pub(crate) space: Space,
    /// What is known about all payloads.
    pub(crate) payloads: Payloads,
    /// Threads that help in marking.
    pub(crate) threads: ThreadPool,
    /// A heap has been made of these parts.
    has_heap: AtomicBool,
    /// The collector is marking, or moving cells, at this moment.
    collecting: AtomicBool,
}

impl Shared {
    /// Reserves a heap of at most `bytes`.
    pub fn reserve(bytes: usize) -> Result<Self, Refused> {
        Self::reserve_in_pages(bytes, os::page_bytes())
    }

    /// Reserves enough for any program on this machine. If address space is limited (`ulimit -v`),
    /// reserves half of what the limit leaves beside `elsewhere_bytes`, which the rest of the
    /// program takes: the heap's tables and stacks take nearly as much again as the heap. Where the
    /// system refuses, tries half as much, and so on down to [`RESERVE_BYTES_MIN`].
    pub fn reserve_beside(elsewhere_bytes: usize) -> Result<Self, Refused> {
        const GIB: usize = 1 << 30;
        let memory_bytes = os::physical_memory_bytes().unwrap_or(16 * GIB);
        let wanted = (4 * memory_bytes).clamp(64 * GIB, 4096 * GIB);
        let mut bytes = match os::address_space_limit_bytes() {
            Some(limit) => wanted.min(limit.saturating_sub(elsewhere_bytes) / 2),
            None => wanted,
        };
        while bytes >= RESERVE_BYTES_MIN {
            if let Ok(shared) = Self::reserve(bytes) {
                return Ok(shared);
            }
            bytes /= 2;
        }
        Err(Refused)
    }

    /// [`Shared::reserve`] as on a system with pages of `page_bytes`, a power of two,
    /// at least this one's and at most [`BLOCK_BYTES`](crate::BLOCK_BYTES).
    pub fn reserve_in_pages(bytes: usize, page_bytes: usize) -> Result<Self, Refused> {
        Ok(Self {
            space: Space::reserve(bytes, page_bytes)?,
            payloads: Payloads::default(),
            threads: ThreadPool::default(),
            has_heap: AtomicBool::new(false),
            collecting: AtomicBool::new(false),
        })
    }

    /// The region and its blocks.
    #[inline(always)]
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// What is known about all payloads.
    #[inline(always)]
    pub fn payloads(&self) -> &Payloads {
        &self.payloads
    }

    /// Notes that a heap is made of these parts.
    ///
    /// # Panics
    /// When a heap has been made of them before.
    pub(crate) fn claim(&self) {
        let is_taken = self.has_heap.swap(true, Relaxed);
        assert!(!is_taken, "these shared parts have a heap already");
    }

    /// Runs `work`, during which the collector is at work.
    pub(crate) fn while_collecting<R>(&self, work: impl FnOnce() -> R) -> R {
        self.collecting.store(true, Relaxed);
        let result = work();
        self.collecting.store(false, Relaxed);
        result
    }

    /// # Panics
    /// When the collector is at work already: one of the VM's methods has called the heap,
    /// or has panicked in the middle, and nobody knows what was left undone.
    pub(crate) fn assert_at_rest(&self) {
        assert!(
            !self.is_busy(),
            "the collector is at work: a method of the VM called the heap, or panicked before"
        );
    }

    /// Whether the collector is marking, or moving cells, at this moment.
    pub fn is_collecting(&self) -> bool {
        self.collecting.load(Relaxed)
    }

    /// Whether the collector is at work at this moment: it marks, moves cells, or
    /// frees what dead cells owned.
    pub fn is_busy(&self) -> bool {
        self.is_collecting() || self.payloads.is_sweeping()
    }

    /// Lets the last blocks be taken: [`Heap::open_reserve`](crate::Heap::open_reserve).
    pub fn open_reserve(&self) {
        self.space.blocks.open_reserve();
    }

    /// A thread's door to the payloads of this heap, for threads that take turns: their
    /// payloads lie together.
    pub fn thread_cache(&self) -> ThreadCache<'_> {
        self.thread_cache_in(Arena::default())
    }

    /// A [`Shared::thread_cache`] for threads that run at the same time: threads with different
    /// arenas have no neighbouring payloads, except payloads larger than a block, which may meet
    /// in a block.
    pub fn thread_cache_in(&self, arena: Arena) -> ThreadCache<'_> {
        ThreadCache::new(&self.space, &self.payloads, arena)
    }

    /// Ends the threads that help in marking, which a fork would not copy; they
    /// are started again when they are next needed. Waits for a marking in which they
    /// take part.
    pub fn stop_helpers(&self) -> Stopped<'_> {
        self.threads.stop()
    }

    /// Threads that help in marking, at work or waiting; 0 while a marking or a fork
    /// keeps them.
    pub fn helper_count(&self) -> usize {
        self.threads.count()
    }

    /// Waits until no thread is changing anything, and keeps it so, as a fork
    /// needs. The helpers have to be stopped first, before any lock is taken that
    /// marking may need.
    pub fn freeze<'a>(&'a self, helpers: Stopped<'a>) -> Frozen<'a> {
        Frozen {
            _pool: self.payloads.lock(),
            _allocator: self.space.blocks.lock(),
            _helpers: helpers,
        }
    }
}

/// The locks of a [`Shared`] that a fork holds: nothing is in the middle of a change, and no
/// thread helps. They are released in this order, in the parent and in the child.
#[derive(Debug)]
pub struct Frozen<'a> {
    _pool: MutexGuard<'a, Pool>,
    _allocator: MutexGuard<'a, BlockAllocator>,
    _helpers: Stopped<'a>,
}
