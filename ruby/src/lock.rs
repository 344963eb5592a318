//! Which threads may use what, expressed as types.
//!
//! | the calling thread has | what says so | what it may use |
//! | --- | --- | --- |
//! | nothing | | [`crate::knobs`], payloads, [`Objspace`] |
//! | the GVL of its Ractor | [`Gvl`] | its own allocation cache, and the VM lock |
//! | the VM lock | [`Gvl::with_vm_lock`], [`Held`] | the [`Collector`] |
//!
//! In a function that Ruby calls, each of them is the parameter `objspace` of
//! `shim/ashlar_ruby.h`, which says what the caller holds.
//!
//! The VM lock is Ruby's. While there is one Ractor it is free of charge and does
//! nothing: the GVL excludes everybody else. With several, each has a GVL of its own
//! and the lock excludes the other Ractors. While a Ractor waits for the lock, it may be
//! stopped for a collection by another one.

use std::ffi::c_uint;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ashlar_heap::{Cell, Region};

use crate::collector::Collector;
use crate::knobs::KNOBS;
use crate::payloads::thread_caches;
use crate::ruby_calls::RubyCalls;
use crate::statics;

/// What Ruby calls an object space: the collector, which is used with the VM lock held. The
/// functions of this type are what a thread may ask without that lock: all that is read here is
/// atomic or never changes, and values that must agree change only while all Ractors are stopped.
pub(crate) struct Objspace(Collector);

// SAFETY: like a mutex, the VM lock lets one thread at a time use the collector, and makes
// visible what the previous holder wrote: `Gvl` and `Held` give the only references to it. These
// are shared references, because the lock is recursive: the collector may be used on any thread,
// but not on two at once.
unsafe impl Sync for Objspace {}

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Collector>();
};

/// Whether the main Ractor has its allocation cache.
static STARTED: AtomicBool = AtomicBool::new(false);

/// Notes that Ruby has its first Ractor.
pub(crate) fn note_start() {
    STARTED.store(true, Relaxed);
}

/// Whether Ruby has a Ractor, and with it the VM lock.
pub(crate) fn has_started() -> bool {
    STARTED.load(Relaxed)
}

/// The object space, once Ruby has started.
#[inline(always)]
pub(crate) fn objspace() -> Option<&'static Objspace> {
    // SAFETY: the address is that of an object space, which is never freed.
    unsafe { statics::objspace().cast::<Objspace>().as_ref() }
}

impl Objspace {
    pub(crate) fn new(collector: Collector) -> Box<Self> {
        Box::new(Self(collector))
    }

    /// Makes this the object space of the process.
    pub(crate) fn begin(self: Box<Self>) -> *mut Self {
        let objspace = Box::into_raw(self);
        statics::set_objspace(objspace.cast());
        objspace
    }

    pub(crate) fn calls(&self) -> &RubyCalls {
        self.0.calls()
    }

    #[inline(always)]
    pub(crate) fn region(&self) -> &Region {
        self.0.heap.region()
    }

    /// [`ashlar_heap::Heap::stage_byte`].
    pub(crate) fn stage_byte(&self) -> *const u8 {
        self.0.heap.stage_byte()
    }

    /// [`ashlar_heap::Heap::needs_barrier`].
    ///
    /// # Safety
    /// Both must be live cells of this heap.
    #[inline(always)]
    pub(crate) unsafe fn needs_barrier(&self, parent: Cell, child: Cell) -> bool {
        // SAFETY: both are live cells of this heap.
        unsafe { self.0.heap.needs_barrier(parent, child) }
    }

    /// Whether the object has no write barrier.
    ///
    /// # Safety
    /// It must be a live cell of this heap.
    #[inline(always)]
    pub(crate) unsafe fn is_unprotected(&self, cell: Cell) -> bool {
        // SAFETY: a live cell of this heap.
        unsafe { self.0.heap.is_unprotected(cell) }
    }

    /// Whether `word`, which once was an object, is not a live object any more. Blocks are swept
    /// with all Ractors stopped.
    pub(crate) fn is_garbage(&self, word: usize) -> bool {
        let heap = &self.0.heap;
        let cell = heap.region().cell_at(word);
        cell.is_none_or(|cell| heap.is_garbage(cell))
    }

    /// [`ashlar_heap::Heap::location`]; cells move with all Ractors stopped.
    pub(crate) fn location(&self, word: usize) -> usize {
        self.0.heap.location(word)
    }

    /// [`ashlar_heap::Heap::has_moved`].
    pub(crate) fn has_moved(&self, word: usize) -> bool {
        self.0.heap.has_moved(word)
    }

    /// [`ashlar_heap::Heap::next_cell`].
    pub(crate) fn next_cell(
        &self,
        address: usize,
        is_wanted: impl Fn(Cell) -> bool,
    ) -> Option<Cell> {
        self.0.heap.next_cell(address, is_wanted)
    }
}

/// Proof that the calling thread holds the GVL of its Ractor.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Gvl {
    objspace: &'static Objspace,
    /// Makes the type neither `Send` nor `Sync`: another thread may not hold the GVL.
    of_this_thread: PhantomData<*const ()>,
}

impl Gvl {
    /// The GVL of the calling thread; `None` when it does not hold one, or Ruby has not
    /// started. Also `None` for a thread that holds all other locks because it forks: with
    /// the GVL, it would collect and take those locks a second time.
    pub(crate) fn of_this_thread() -> Option<Self> {
        let objspace = objspace()?;
        if thread_caches::is_forking() {
            return None;
        }
        // SAFETY: may be asked by any thread.
        let has_gvl = unsafe { (objspace.calls().thread_has_gvl)() } != 0;
        has_gvl.then_some(Self {
            objspace,
            of_this_thread: PhantomData,
        })
    }

    #[inline(always)]
    pub(crate) fn objspace(self) -> &'static Objspace {
        self.objspace
    }

    /// Runs `work` with the VM lock. Ruby gives the lock away while it waits for the
    /// other Ractors to stop, so they may use the collector while `work` is in
    /// [`Collector::stop_ractors`].
    #[inline]
    pub(crate) fn with_vm_lock<R>(self, work: impl FnOnce(&Collector) -> R) -> R {
        let calls = self.objspace.calls();
        self.between(calls.vm_lock, calls.vm_unlock, work)
    }

    /// Runs `work` with the VM lock, without letting another Ractor collect while
    /// this one waits for it: for write barriers, which come after the store. A
    /// collection between the two would miss what has been stored.
    #[inline]
    pub(crate) fn with_vm_lock_no_collection<R>(self, work: impl FnOnce(&Collector) -> R) -> R {
        let calls = self.objspace.calls();
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
            let result = work(&self.objspace.0);
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
        if has_started() {
            return self.with_vm_lock(work);
        }
        work(&self.objspace.0)
    }
}

/// Proof that the calling thread holds the VM lock as long as this lives: the shim has taken it,
/// or Ruby calls back from inside a collection.
#[repr(transparent)]
pub(crate) struct Held(Gvl);

impl Deref for Held {
    type Target = Collector;

    #[inline(always)]
    fn deref(&self) -> &Collector {
        &self.0.objspace.0
    }
}
