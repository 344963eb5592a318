//! The process's `malloc` under `LD_PRELOAD`, and the `malloc` of Ruby's own core otherwise.
//! Nothing here collects.

use std::ffi::c_void;
use std::ptr::{null_mut, NonNull};

use ashlar_heap::OutOfMemory;

use super::thread_caches::OwnCache;
use crate::heap_profile::samples;
use crate::knobs::KNOBS;
use crate::libc_malloc;
use crate::statics::shared;

/// The payload, if the calling thread's cache has given one; null when there is no memory.
#[inline(always)]
fn address(given: Option<Result<NonNull<u8>, OutOfMemory>>) -> *mut c_void {
    match given {
        Some(Ok(payload)) => payload.as_ptr().cast(),
        _ => null_mut(),
    }
}

#[no_mangle]
pub(super) extern "C" fn ashlar_malloc_payload(cache: OwnCache, size: usize) -> *mut c_void {
    address(cache.with(|cache| cache.allocate(size)))
}

#[no_mangle]
pub(super) extern "C" fn ashlar_calloc_payload(cache: OwnCache, size: usize) -> *mut c_void {
    address(cache.with(|cache| cache.allocate_zeroed(size)))
}

/// `malloc` for Ruby's own core, when this library is not the process's allocator. Returns a
/// payload; memory of libc's if `xmalloc` uses libc, too, or there is no payload. Never
/// collects.
#[no_mangle]
extern "C" fn ashlar_redirected_malloc(cache: OwnCache, size: usize) -> *mut c_void {
    payload_unless_from_libc(|| ashlar_malloc_payload(cache, size))
        .unwrap_or_else(|| libc_malloc::malloc(size))
}

/// `calloc` for Ruby's own core; see [`ashlar_redirected_malloc`].
#[no_mangle]
extern "C" fn ashlar_redirected_calloc(cache: OwnCache, size: usize) -> *mut c_void {
    payload_unless_from_libc(|| ashlar_calloc_payload(cache, size))
        .unwrap_or_else(|| libc_malloc::calloc(size))
}

/// Returns what `allocate` returns; `None` if payloads come from libc, or `allocate` returns
/// null.
#[inline(always)]
fn payload_unless_from_libc(allocate: impl FnOnce() -> *mut c_void) -> Option<*mut c_void> {
    if KNOBS.xmalloc_is_from_libc() {
        return None;
    }
    Some(allocate()).filter(|payload| !payload.is_null())
}

#[no_mangle]
extern "C" fn ashlar_aligned_payload(cache: OwnCache, size: usize, align: usize) -> *mut c_void {
    address(cache.with(|cache| cache.allocate_aligned(size, align)))
}

/// # Safety
/// `payload` is null, or memory that the process has allocated and, unless null is returned, does
/// not use any more.
#[no_mangle]
pub(super) unsafe extern "C" fn ashlar_realloc_payload(
    cache: OwnCache,
    payload: *mut u8,
    size: usize,
) -> *mut c_void {
    let Some(old) = NonNull::new(payload) else {
        return ashlar_malloc_payload(cache, size);
    };
    // SAFETY: the caller's contract: the payload is the process's, on the heap or from libc.
    samples::while_resized(payload as usize, || unsafe {
        if !is_in_heap(payload.cast()) {
            return libc_malloc::realloc(payload.cast(), size);
        }
        address(cache.with(|cache| cache.reallocate(old, size)))
    })
}

/// # Safety
/// `payload` is memory that the process allocated and does not use any more.
#[no_mangle]
pub(super) unsafe extern "C" fn ashlar_free_payload(cache: OwnCache, payload: NonNull<u8>) {
    note_end(payload);
    // SAFETY: nobody uses the payload any more.
    unsafe { free_payload(cache, payload) };
}

/// Called when a payload is about to be freed: ends its sample in the heap profile, if it is
/// one.
#[inline(always)]
pub(super) fn note_end(payload: NonNull<u8>) {
    if KNOBS.samples_payloads() {
        samples::payload_freed(payload.as_ptr() as usize);
    }
}

/// [`ashlar_free_payload`] while no payload is a sample.
///
/// # Safety
/// As for [`ashlar_free_payload`].
#[inline(always)]
pub(super) unsafe fn free_payload(cache: OwnCache, payload: NonNull<u8>) {
    // SAFETY: nobody uses the payload any more.
    unsafe {
        if !is_in_heap(payload.as_ptr().cast()) {
            return libc_malloc::free(payload.as_ptr().cast());
        }
        cache.with(|cache| cache.free(payload));
    }
}

/// # Safety
/// `payload` is memory that the process allocated.
#[no_mangle]
pub(super) unsafe extern "C" fn ashlar_usable_payload(payload: *mut c_void) -> usize {
    let ours = shared().and_then(|shared| shared.space().usable_bytes(payload as usize));
    // SAFETY: memory that is not ours is libc's.
    ours.unwrap_or_else(|| unsafe { libc_malloc::usable_size(payload) })
}

#[inline(always)]
pub(super) fn is_in_heap(memory: *const c_void) -> bool {
    shared().is_some_and(|shared| shared.space().region().block_at(memory as usize).is_some())
}

/// Whether `memory`, which `xrealloc` or `xfree` is given, was counted when it was allocated
/// outside the heap. While payloads come from the heap it is an extension's own, from `malloc`.
pub(super) fn is_counted_elsewhere(memory: *const c_void) -> bool {
    KNOBS.xmalloc_is_from_libc() && !is_in_heap(memory)
}

/// Whether `memory` is in the heap.
#[no_mangle]
extern "C" fn ashlar_is_payload(memory: *const c_void) -> bool {
    is_in_heap(memory)
}
