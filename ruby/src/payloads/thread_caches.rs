//! The payload caches of all threads, and the shared one of threads that have no cache of
//! their own.
//!
//! A thread gets its cache with its first payload, and gives it up when it ends: the C
//! library then calls the function that `shim/payload.c` has registered. After that the
//! library goes on freeing what it has kept for the thread, and functions that the program
//! has registered in the same way may still run. A thread in that state gets no second
//! cache, because nobody would take it away again: it uses the shared one, as does a thread
//! whose end nobody would report.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ashlar_heap::Arena;

use crate::fork::locks;
use crate::inlined::CODE_ARENA;
use crate::statics::shared;

/// A thread's payload cache of the process's one heap.
type ThreadCache = ashlar_heap::ThreadCache<'static>;

/// The cache of the calling thread, or null if it has none yet. A pointer, because a collection
/// that the thread does meanwhile frees payloads into the same cache.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct OwnCache(*mut c_void);

extern "C" {
    // shim/payload.c
    fn ashlar_thread_cache_state() -> CacheState;
    fn ashlar_thread_cache_set(cache: *mut c_void) -> bool;
    fn ashlar_current_thread_cache() -> OwnCache;
}

/// What a thread without a cache must do: `enum ashlar_cache_state`.
#[allow(dead_code)] // The shim makes them.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) enum CacheState {
    /// Get a cache.
    AtFirstUse,
    /// Use the shared one: the thread ends, or nobody would report its end.
    Never,
    /// Unlock the locks, which the thread holds because it forks, and use the shared one.
    Locked,
}

/// A thread's cache, itself a payload, in the list of all caches. The shim knows it by the
/// address of `cache`.
#[repr(C)]
struct Listed {
    cache: ThreadCache,
    previous: Option<NonNull<Listed>>,
    next: Option<NonNull<Listed>>,
}

/// The list, and the cache of threads that are not in it.
pub(crate) struct ThreadCaches {
    first: Option<NonNull<Listed>>,
    /// The caches of threads that a forked child does not have, until they give back what they have. Only their
    /// links to the next one count.
    of_parent: Option<NonNull<Listed>>,
    /// Made at its first use.
    shared: Option<ThreadCache>,
    /// For the inline caches and call caches of code: its blocks have nothing else. Made at its
    /// first use.
    for_code: Option<ThreadCache>,
}

// SAFETY: the links of the list are used with the lock held. Each cache in it is used by
// its thread alone, until that thread ends, or does not exist in a forked child.
unsafe impl Send for ThreadCaches {}

static ALL: Mutex<ThreadCaches> = Mutex::new(ThreadCaches {
    first: None,
    of_parent: None,
    shared: None,
    for_code: None,
});

/// Locks the list: no thread gets a cache or gives it up, and nobody uses the shared one.
pub(crate) fn lock() -> MutexGuard<'static, ThreadCaches> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OwnCache {
    #[inline(always)]
    pub(crate) fn now() -> Self {
        // SAFETY: asks the calling thread.
        unsafe { ashlar_current_thread_cache() }
    }

    /// Runs `work`, which neither collects nor calls Ruby, with the cache, if the thread has one.
    #[inline(always)]
    pub(super) fn with_own<R>(self, work: impl FnOnce(&mut ThreadCache) -> R) -> Option<R> {
        // SAFETY: a thread's cache is used by that thread alone, and `work` does not come here
        // again.
        unsafe { self.0.cast::<ThreadCache>().as_mut() }.map(work)
    }

    /// Runs `work`, as above, with the cache or with the shared one. `None` before the heap exists.
    #[inline(always)]
    pub(super) fn with<R>(self, work: impl FnOnce(&mut ThreadCache) -> R) -> Option<R> {
        match self.0.is_null() {
            false => self.with_own(work),
            true => with_new(work),
        }
    }
}

#[cold]
#[inline(never)]
fn with_new<R>(work: impl FnOnce(&mut ThreadCache) -> R) -> Option<R> {
    // The caller may have asked before a collection, which has made one to free what is dead.
    let made_since = OwnCache::now();
    if !made_since.0.is_null() {
        return made_since.with_own(work);
    }
    // SAFETY: asks the calling thread.
    match unsafe { ashlar_thread_cache_state() } {
        CacheState::AtFirstUse => match new() {
            Some(cache) => Some(work(cache)),
            None => with_shared(work),
        },
        CacheState::Never => with_shared(work),
        CacheState::Locked => locks::unlocked(|| with_shared(work)),
    }
}

/// Runs `work`, which takes locks that a forking thread holds, and allocates nothing.
pub(crate) fn with_locks_free<R>(work: impl FnOnce() -> R) -> R {
    match is_forking() {
        true => locks::unlocked(work),
        false => work(),
    }
}

/// Whether the calling thread holds all locks because it forks: it runs a function of the
/// program that is called at a fork.
pub(crate) fn is_forking() -> bool {
    // SAFETY: asks the calling thread.
    matches!(unsafe { ashlar_thread_cache_state() }, CacheState::Locked)
}

/// Allocates `size` zeroed bytes that lie in one block with inline caches and call caches of code alone.
pub(super) fn allocate_for_code(size: usize) -> Option<NonNull<u8>> {
    with_locks_free(|| {
        let arena = Arena::of_thread(CODE_ARENA);
        made(&mut lock().for_code, arena)?
            .allocate_zeroed(size)
            .ok()
    })
}

/// The cache at this place, which its first use makes in this arena. `None` before the heap exists.
fn made(place: &mut Option<ThreadCache>, arena: Arena) -> Option<&mut ThreadCache> {
    if place.is_none() {
        *place = Some(shared()?.thread_cache_in(arena));
    }
    place.as_mut()
}

fn with_shared<R>(work: impl FnOnce(&mut ThreadCache) -> R) -> Option<R> {
    lock().shared().map(work)
}

/// Makes a cache for the calling thread; `None` when the thread cannot have one.
fn new() -> Option<&'static mut ThreadCache> {
    let listed = lock().add()?;
    // SAFETY: this thread alone has the cache; it does not use the links.
    unsafe {
        // Not under the lock: the call may ask for memory, and gets it from this cache.
        if !ashlar_thread_cache_set(listed.as_ptr().cast()) {
            lock().remove(listed);
            return None;
        }
        Some(&mut (*listed.as_ptr()).cache)
    }
}

/// The calling thread ends: gives back what its cache has, and the cache itself.
///
/// # Safety
/// The cache is the calling thread's, which does not use it again.
#[no_mangle]
unsafe extern "C" fn ashlar_give_up_thread_cache(cache: NonNull<c_void>) {
    // SAFETY: the caller's contract; the shim has it from `new`.
    unsafe { lock().remove(cache.cast()) };
}

impl ThreadCaches {
    /// The shared cache. `None` before the heap exists.
    fn shared(&mut self) -> Option<&mut ThreadCache> {
        made(&mut self.shared, Arena::default())
    }

    /// Adds an empty cache to the list. Its memory is a payload, so that no `malloc` is
    /// needed.
    fn add(&mut self) -> Option<NonNull<Listed>> {
        let cache = shared()?.thread_cache();
        let place = self
            .shared()?
            .allocate_aligned(size_of::<Listed>(), align_of::<Listed>());
        let place = place.ok()?.cast::<Listed>();
        let next = self.first.replace(place);
        // SAFETY: the place is wide enough, aligned, and nobody else's; the caches in the
        // list exist, and their links are only used with the lock held.
        unsafe {
            place.write(Listed {
                cache,
                previous: None,
                next,
            });
            if let Some(next) = next {
                (*next.as_ptr()).previous = Some(place);
            }
        }
        Some(place)
    }

    /// Removes a cache from the list and gives back what it has, and its own memory.
    ///
    /// # Safety
    /// The cache is in the list, and no thread uses it any more.
    unsafe fn remove(&mut self, listed: NonNull<Listed>) {
        // SAFETY: the caller's contract, and as in `add`.
        unsafe {
            let this = listed.as_ptr();
            match (*this).previous {
                Some(previous) => (*previous.as_ptr()).next = (*this).next,
                None => self.first = (*this).next,
            }
            if let Some(next) = (*this).next {
                (*next.as_ptr()).previous = (*this).previous;
            }
            self.give_back(listed);
        }
    }

    /// Gives back what a cache has that is in no list, and its own memory.
    ///
    /// # Safety
    /// No thread uses it any more.
    unsafe fn give_back(&mut self, listed: NonNull<Listed>) {
        // SAFETY: the caller's contract. Nobody has the payload any more when it is freed.
        unsafe {
            (*listed.as_ptr()).cache.flush();
            if let Some(shared) = self.shared() {
                shared.free(listed.cast());
            }
        }
    }

    /// Gives back what the calling thread's cache has, and what the caches of no thread have.
    pub(crate) fn flush_own_and_shared(&mut self) {
        OwnCache::now().with_own(ThreadCache::flush);
        for cache in [&mut self.shared, &mut self.for_code].into_iter().flatten() {
            cache.flush();
        }
    }

    /// Takes the caches of the parent's other threads out of the list, in a forked child, which has one
    /// thread. They have what they had until [`ThreadCaches::give_back_those_of_parent`].
    pub(crate) fn keep_own_in_child(&mut self) {
        let mine = NonNull::new(OwnCache::now().0.cast::<Listed>());
        let mut listed = self.first.take();
        while let Some(this) = listed {
            let list = match Some(this) == mine {
                true => &mut self.first,
                false => &mut self.of_parent,
            };
            // SAFETY: the cache was in the list, and its links are used with the lock held.
            unsafe {
                listed = (*this.as_ptr()).next;
                (*this.as_ptr()).previous = None;
                (*this.as_ptr()).next = list.replace(this);
            }
        }
    }

    /// Gives back what the parent's other threads had. A heap, if there is one, has inherited its blocks before
    /// ([`ashlar_heap::Heap::inherit`]), so that the pieces are noted beside the pages that they lie in.
    pub(crate) fn give_back_those_of_parent(&mut self) {
        while let Some(this) = self.of_parent {
            // SAFETY: the cache is in this list alone. Its thread does not exist in this process;
            // wherever the fork stopped that thread, its lists are whole (`FreeLists`), and
            // at worst some pieces are lost.
            unsafe {
                self.of_parent = (*this.as_ptr()).next;
                self.give_back(this);
            }
        }
    }
}
