//! Which threads may use what, expressed as types.
//!
//! | the calling thread has | what says so | what it may use |
//! | --- | --- | --- |
//! | nothing | | [`crate::knobs`], payloads, [`Unlocked`] |
//! | the GVL of its Ractor | [`Gvl`] | its own allocation cache, and the VM lock |
//! | the VM lock | [`Gvl::with_vm_lock`] | the [`Collector`] |
//!
//! The VM lock is Ruby's. While there is one Ractor it is free of charge and does
//! nothing: the GVL excludes everybody else. With several, each has a GVL of its own
//! and the lock excludes the other Ractors. While a Ractor waits for the lock, it may be
//! stopped for a collection by another one.

use std::ffi::{c_uint, c_void};
use std::marker::PhantomData;

use ashlar_heap::{Cell, Heap, Region};

use crate::collector::Collector;
use crate::knobs::KNOBS;
use crate::object_model::Ruby;
use crate::objspace::{self, Objspace};
use crate::payloads::thread_caches;

/// What is used with the VM lock held, and only then.
pub(crate) struct Locked<T>(T);

// SAFETY: like a mutex, the VM lock lets one thread at a time use what is inside, and makes
// visible what the previous holder wrote: the functions of this module give the only
// references to it. These are shared references, because the lock is recursive: what is
// inside may be used on any thread, but not on two at once.
unsafe impl<T: Send> Sync for Locked<T> {}

impl<T> Locked<T> {
    pub(crate) fn new(inside: T) -> Self {
        Self(inside)
    }
}

/// Proof that the calling thread holds the GVL of its Ractor.
#[derive(Clone, Copy)]
pub(crate) struct Gvl {
    objspace: &'static Objspace,
    /// Makes the type neither `Send` nor `Sync`: another thread may not hold the GVL.
    of_this_thread: PhantomData<*const ()>,
}

impl Gvl {
    fn new(objspace: &'static Objspace) -> Self {
        Self {
            objspace,
            of_this_thread: PhantomData,
        }
    }

    /// The GVL that a thread holds when Ruby calls.
    ///
    /// # Safety
    /// `objspace` comes from `ashlar_objspace_new`, and the calling thread holds the
    /// GVL: `shim/ashlar_ruby.h` says which functions are called so.
    #[inline(always)]
    pub(crate) unsafe fn of_caller(objspace: *mut c_void) -> Self {
        // SAFETY: `objspace` is Ruby's, which lives for as long as the process.
        Self::new(unsafe { objspace::from_ruby(objspace) })
    }

    /// The GVL of the calling thread; `None` when it does not hold one, or Ruby has not
    /// started. Also `None` for a thread that holds all other locks because it forks: with
    /// the GVL, it would collect and take those locks a second time.
    pub(crate) fn of_this_thread() -> Option<Self> {
        let objspace = objspace::objspace()?;
        if thread_caches::is_forking() {
            return None;
        }
        // SAFETY: may be asked by any thread.
        let has_gvl = unsafe { (objspace.calls.thread_has_gvl)() } != 0;
        has_gvl.then(|| Self::new(objspace))
    }

    /// Runs `work` with the VM lock. Ruby gives the lock away while it waits for the
    /// other Ractors to stop, so they may use the collector while `work` is in
    /// [`Collector::stop_ractors`].
    #[inline]
    pub(crate) fn with_vm_lock<R>(self, work: impl FnOnce(&Collector) -> R) -> R {
        let calls = &self.objspace.calls;
        self.between(calls.vm_lock, calls.vm_unlock, work)
    }

    /// Runs `work` with the VM lock, without letting another Ractor collect while
    /// this one waits for it: for write barriers, which come after the store. A
    /// collection between the two would miss what has been stored.
    #[inline]
    pub(crate) fn with_vm_lock_no_collection<R>(self, work: impl FnOnce(&Collector) -> R) -> R {
        let calls = &self.objspace.calls;
        self.between(calls.vm_lock_no_barrier, calls.vm_unlock_no_barrier, work)
    }

    /// Runs `work` between the two functions of Ruby that take the VM lock and give it
    /// back.
    #[inline(always)]
    fn between<R>(
        self,
        lock: unsafe extern "C" fn() -> c_uint,
        unlock: unsafe extern "C" fn(c_uint),
        work: impl FnOnce(&Collector) -> R,
    ) -> R {
        // SAFETY: this thread has the GVL; the lock is recursive, and given back
        // below, because `work` neither unwinds nor jumps.
        unsafe {
            let level = lock();
            let result = work(&self.objspace.collector.0);
            unlock(level);
            result
        }
    }

    /// Runs `work` with the VM lock for an `xmalloc`, which may come between a write barrier
    /// and the store. If another Ractor has marked while this one waited, the collector
    /// first catches up.
    pub(crate) fn with_vm_lock_in_malloc<R>(self, work: impl FnOnce(&Collector) -> R) -> R {
        let markings_before = KNOBS.markings();
        self.with_vm_lock(|collector| {
            if KNOBS.markings() != markings_before {
                collector.catch_up_before_store();
            }
            work(collector)
        })
    }

    /// Like [`Gvl::with_vm_lock`], but may also be called before Ruby has a lock: there is
    /// only one thread until the first Ractor has an allocation cache.
    pub(crate) fn with_vm_lock_if_there<R>(self, work: impl FnOnce(&Collector) -> R) -> R {
        if objspace::has_started() {
            return self.with_vm_lock(work);
        }
        work(&self.objspace.collector.0)
    }
}

/// The collector, for functions that are called with the VM lock held.
///
/// # Safety
/// `objspace` comes from `ashlar_objspace_new`, and the calling thread holds the VM
/// lock until it has done with the collector: the shim has taken it, or Ruby calls
/// back from inside a collection.
#[inline(always)]
pub(crate) unsafe fn held(objspace: *mut c_void) -> &'static Collector {
    // SAFETY: `objspace` is Ruby's, and this thread has the VM lock.
    unsafe { &objspace::from_ruby(objspace).collector.0 }
}

/// What a thread may ask of the heap without the VM lock: all that is read here is atomic,
/// and values that must agree change only while all Ractors are stopped.
#[derive(Clone, Copy)]
pub(crate) struct Unlocked<'a>(&'a Heap<'static, Ruby>);

impl Locked<Collector> {
    #[inline(always)]
    pub(crate) fn unlocked(&self) -> Unlocked<'_> {
        Unlocked(&self.0.heap)
    }
}

impl<'a> Unlocked<'a> {
    #[inline(always)]
    pub(crate) fn region(self) -> &'a Region {
        self.0.region()
    }

    /// [`Heap::stage_byte`].
    pub(crate) fn stage_byte(self) -> *const u8 {
        self.0.stage_byte()
    }

    /// [`Heap::needs_barrier`].
    ///
    /// # Safety
    /// Both must be live cells of this heap.
    #[inline(always)]
    pub(crate) unsafe fn needs_barrier(self, parent: Cell, child: Cell) -> bool {
        // SAFETY: both are live cells of this heap.
        unsafe { self.0.needs_barrier(parent, child) }
    }

    /// [`Heap::is_garbage`]; blocks are swept with all Ractors stopped.
    pub(crate) fn is_garbage(self, cell: Cell) -> bool {
        self.0.is_garbage(cell)
    }

    /// [`Heap::location`]; cells move with all Ractors stopped.
    pub(crate) fn location(self, word: usize) -> usize {
        self.0.location(word)
    }

    /// [`Heap::has_moved`].
    pub(crate) fn has_moved(self, word: usize) -> bool {
        self.0.has_moved(word)
    }

    /// [`Heap::next_cell`].
    pub(crate) fn next_cell(
        self,
        address: usize,
        is_wanted: impl Fn(Cell) -> bool,
    ) -> Option<Cell> {
        self.0.next_cell(address, is_wanted)
    }
}
