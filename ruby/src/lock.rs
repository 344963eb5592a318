//! Who may use what, as types.
//!
//! | the calling thread has | what says so | what it may use |
//! | --- | --- | --- |
//! | nothing | | [`crate::knobs`], payloads, [`Unlocked`] |
//! | the GVL of its Ractor | [`Gvl`] | its own allocation cache, and the VM lock |
//! | the VM lock | [`Gvl::with_vm_lock`] | the [`Collector`] |
//!
//! The VM lock is Ruby's. While there is one Ractor it is free of charge and does
//! nothing: the GVL excludes everybody else. With several, each has a GVL of its own
//! and the lock excludes the other Ractors. Waiting for it, a Ractor may be stopped
//! for a collection of another one.

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

// SAFETY: as a mutex does, the VM lock lets one thread at a time use what is inside,
// and hands over what that thread wrote: the functions of this module give the only
// references to it. They are shared ones, because the lock is recursive: what is
// inside may be on any thread, not on two at once.
unsafe impl<T: Send> Sync for Locked<T> {}

impl<T> Locked<T> {
    pub(crate) fn new(inside: T) -> Self {
        Self(inside)
    }
}

/// The calling thread holds the GVL of its Ractor.
#[derive(Clone, Copy)]
pub(crate) struct Gvl {
    objspace: &'static Objspace,
    /// It says nothing about other threads.
    of_this_thread: PhantomData<*const ()>,
}

impl Gvl {
    fn new(objspace: &'static Objspace) -> Self {
        Self {
            objspace,
            of_this_thread: PhantomData,
        }
    }

    /// That of a call of Ruby.
    ///
    /// # Safety
    /// `objspace` comes from `ashlar_objspace_new`, and the calling thread holds the
    /// GVL: `shim/ashlar_ruby.h` says which functions are called so.
    #[inline(always)]
    pub(crate) unsafe fn of_caller(objspace: *mut c_void) -> Self {
        // SAFETY: `objspace` is Ruby's, which lives for as long as the process.
        Self::new(unsafe { objspace::from_ruby(objspace) })
    }

    /// The calling thread's, `None` when it has none, or Ruby has not started. A thread that
    /// has all other locks because it forks has none either: with it, it would collect and
    /// want them a second time.
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

    /// Runs `work` with the VM lock for an `xmalloc`, which may come between a write
    /// barrier and the store. If another Ractor has marked while this one waited, that
    /// is made up for first.
    pub(crate) fn with_vm_lock_in_malloc<R>(self, work: impl FnOnce(&Collector) -> R) -> R {
        let markings_before = KNOBS.markings();
        self.with_vm_lock(|collector| {
            if KNOBS.markings() != markings_before {
                collector.catch_up_before_store();
            }
            work(collector)
        })
    }

    /// [`Gvl::with_vm_lock`], also before Ruby has a lock: until its first Ractor has
    /// an allocation cache there is one thread.
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

/// What may be asked of the heap without the VM lock: all that is read here is atomic,
/// and what has to hold together changes only while all Ractors are stopped.
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
    /// Both are live cells of this heap.
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
