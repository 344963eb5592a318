//! The process's `malloc` under `LD_PRELOAD`, Ruby's own otherwise, and each thread's cache.
//! Nothing here collects.

use std::ffi::c_void;
use std::ptr::{null_mut, NonNull};

use super::ThreadCache;
use crate::heap_profile;
use crate::knobs::KNOBS;
use crate::libc_malloc;
use crate::statics::shared;

extern "C" {
    fn ashlar_thread_cache_set(cache: *mut c_void);
}

/// The calling thread's cache, made at its first use. Its memory comes from
/// the payload side itself, so that no `malloc` is needed.
#[cold]
#[inline(never)]
fn new_cache() -> Option<&'static mut ThreadCache> {
    let mut first = shared()?.thread_cache();
    let place = first.allocate_aligned(size_of::<ThreadCache>(), align_of::<ThreadCache>());
    let place = place.ok()?.cast::<ThreadCache>();
    // SAFETY: the place is wide enough, aligned, and this thread's alone; what
    // `first` keeps moves with it.
    unsafe {
        place.write(first);
        ashlar_thread_cache_set(place.as_ptr().cast());
        crate::fork::register_cache(place);
        Some(&mut *place.as_ptr())
    }
}

/// What the calling thread allocates with. `None` before the heap exists and when
/// not even a cache can be had.
///
/// # Safety
/// `cache` is the calling thread's, or null: then it gets one.
#[inline(always)]
unsafe fn cache_here(cache: *mut ThreadCache) -> Option<&'static mut ThreadCache> {
    // SAFETY: a thread's cache is used by that thread alone.
    match unsafe { cache.as_mut() } {
        Some(cache) => Some(cache),
        None => new_cache(),
    }
}

fn raw(outcome: Option<NonNull<u8>>) -> *mut c_void {
    outcome.map_or(null_mut(), |payload| payload.as_ptr().cast())
}

/// # Safety
/// `cache` is the calling thread's, or null.
#[no_mangle]
pub(super) unsafe extern "C" fn ashlar_malloc_payload(
    cache: *mut ThreadCache,
    size: usize,
) -> *mut c_void {
    // SAFETY: the caller's contract.
    let cache = unsafe { cache_here(cache) };
    raw(cache.and_then(|cache| cache.allocate(size).ok()))
}

/// # Safety
/// `cache` is the calling thread's, or null.
#[no_mangle]
pub(super) unsafe extern "C" fn ashlar_calloc_payload(
    cache: *mut ThreadCache,
    size: usize,
) -> *mut c_void {
    // SAFETY: the caller's contract.
    let cache = unsafe { cache_here(cache) };
    raw(cache.and_then(|cache| cache.allocate_zeroed(size).ok()))
}

/// `malloc` for Ruby's own core, when this library is not the process's allocator: a payload,
/// unless `xmalloc` has none, either. It never collects.
///
/// # Safety
/// `cache` is the calling thread's, or null.
#[no_mangle]
unsafe extern "C" fn ashlar_redirected_malloc(cache: *mut ThreadCache, size: usize) -> *mut c_void {
    // SAFETY: the cache is the calling thread's, or null.
    let payload = || unsafe { ashlar_malloc_payload(cache, size) };
    payload_unless_from_libc(payload).unwrap_or_else(|| libc_malloc::malloc(size))
}

/// `calloc` for Ruby's own core, as [`ashlar_redirected_malloc`] is its `malloc`.
///
/// # Safety
/// `cache` is the calling thread's, or null.
#[no_mangle]
unsafe extern "C" fn ashlar_redirected_calloc(cache: *mut ThreadCache, size: usize) -> *mut c_void {
    // SAFETY: the cache is the calling thread's, or null.
    let payload = || unsafe { ashlar_calloc_payload(cache, size) };
    payload_unless_from_libc(payload).unwrap_or_else(|| libc_malloc::calloc(size))
}

/// What `allocate` gives, unless payloads come from libc or there is none.
#[inline(always)]
fn payload_unless_from_libc(allocate: impl FnOnce() -> *mut c_void) -> Option<*mut c_void> {
    if KNOBS.xmalloc_is_from_libc() {
        return None;
    }
    Some(allocate()).filter(|payload| !payload.is_null())
}

/// # Safety
/// `cache` is the calling thread's, or null.
#[no_mangle]
unsafe extern "C" fn ashlar_aligned_payload(
    cache: *mut ThreadCache,
    size: usize,
    align: usize,
) -> *mut c_void {
    // SAFETY: the caller's contract.
    let cache = unsafe { cache_here(cache) };
    raw(cache.and_then(|cache| cache.allocate_aligned(size, align).ok()))
}

/// # Safety
/// `cache` is the calling thread's, or null; `payload` is null, or memory that the
/// process allocated and does not use any more unless null comes back.
#[no_mangle]
pub(super) unsafe extern "C" fn ashlar_realloc_payload(
    cache: *mut ThreadCache,
    payload: *mut u8,
    size: usize,
) -> *mut c_void {
    // SAFETY: the caller's contract: the cache is this thread's, and the payload is of
    // the process, on the heap or from libc.
    unsafe {
        let Some(old) = NonNull::new(payload) else {
            return ashlar_malloc_payload(cache, size);
        };
        heap_profile::while_resized(payload as usize, || {
            if !is_in_heap(payload.cast()) {
                return libc_malloc::realloc(payload.cast(), size);
            }
            raw(cache_here(cache).and_then(|cache| cache.reallocate(old, size).ok()))
        })
    }
}

/// # Safety
/// `cache` is the calling thread's, or null; `payload` is memory that the process
/// allocated and does not use any more.
#[no_mangle]
pub(super) unsafe extern "C" fn ashlar_free_payload(cache: *mut ThreadCache, payload: NonNull<u8>) {
    note_end(payload);
    // SAFETY: the caller's contract.
    unsafe { free_payload(cache, payload) };
}

/// A payload is about to be given back: if it is a sample of the heap profile, that ends.
#[inline(always)]
pub(super) fn note_end(payload: NonNull<u8>) {
    if KNOBS.samples_payloads() {
        heap_profile::payload_freed(payload.as_ptr() as usize);
    }
}

/// [`ashlar_free_payload`] while no payload is a sample.
///
/// # Safety
/// As that has it.
#[inline(always)]
pub(super) unsafe fn free_payload(cache: *mut ThreadCache, payload: NonNull<u8>) {
    // SAFETY: the caller's contract.
    unsafe {
        if !is_in_heap(payload.as_ptr().cast()) {
            return libc_malloc::free(payload.as_ptr().cast());
        }
        if let Some(cache) = cache_here(cache) {
            cache.free(payload);
        }
    }
}

/// # Safety
/// `payload` is memory that the process allocated.
#[no_mangle]
unsafe extern "C" fn ashlar_usable_payload(payload: *mut c_void) -> usize {
    let ours = shared().and_then(|shared| shared.space.usable_bytes(payload as usize));
    // SAFETY: memory that is not ours is libc's.
    ours.unwrap_or_else(|| unsafe { libc_malloc::usable_size(payload) })
}

#[inline(always)]
pub(super) fn is_in_heap(memory: *const c_void) -> bool {
    shared().is_some_and(|shared| shared.space.region.block_at(memory as usize).is_some())
}

/// Whether `memory` is in the heap.
#[no_mangle]
extern "C" fn ashlar_is_payload(memory: *const c_void) -> bool {
    is_in_heap(memory)
}

/// A thread ends: its free pieces go back to everybody.
///
/// # Safety
/// The cache is the ending thread's.
#[no_mangle]
unsafe extern "C" fn ashlar_flush_payload_cache(cache: NonNull<ThreadCache>) {
    crate::fork::forget_cache(cache);
    // SAFETY: the thread does not use its cache any more, which is a payload.
    unsafe {
        let mut rest = cache.read();
        rest.free(cache.cast());
        rest.flush();
    }
}
