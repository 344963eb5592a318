//! `xmalloc` and friends, and the process's `malloc` under `LD_PRELOAD`.

use std::ffi::c_void;
use std::ptr::{null_mut, NonNull};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};

use crate::collect::{self, Reason};
use crate::interpose;
use crate::libc_malloc;
use crate::objspace::{objspace, shared};

/// A thread's cache of payloads of the one heap there is.
pub(crate) type ThreadCache = ashlar_heap::payload::thread_cache::ThreadCache<'static>;

/// How `xmalloc` proceeds; anything but 0 leaves the fast path.
static XMALLOC_MODE: AtomicU8 = AtomicU8::new(FROM_LIBC);
/// Payloads come from the C library.
const FROM_LIBC: u8 = 1;
/// Every allocation collects.
const STRESS: u8 = 2;

/// Fresh payload bytes at which a collection is due. The pacing itself belongs
/// to whoever holds the GVL; this copy is for everybody.
static BUDGET_BYTES: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Fresh payload bytes beyond which the process would outgrow its memory limit.
static ROOM_BYTES: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Objects may have been loaded whose calls of `free` are not redirected yet.
const LOOK_AGAIN: u8 = 4;

/// Has the next `xmalloc` look for newly loaded objects.
pub(crate) fn look_again_soon() {
    set_mode(LOOK_AGAIN, true);
}

/// Says whether `xmalloc` is served from the heap from now on.
pub(crate) fn serve_from_heap(from_heap: bool) {
    set_mode(FROM_LIBC, !from_heap);
}

/// Says whether every `xmalloc` collects from now on.
pub(crate) fn stress(on: bool) {
    set_mode(STRESS, on);
}

fn set_mode(bit: u8, on: bool) {
    if on {
        XMALLOC_MODE.fetch_or(bit, Relaxed);
    } else {
        XMALLOC_MODE.fetch_and(!bit, Relaxed);
    }
}

/// Sets the fresh payload bytes at which a collection is due.
pub(crate) fn set_budget_bytes(bytes: usize) {
    BUDGET_BYTES.store(bytes, Relaxed);
}

/// Sets the fresh payload bytes that fit below the memory limit.
pub(crate) fn set_room_bytes(bytes: usize) {
    ROOM_BYTES.store(bytes, Relaxed);
}

extern "C" {
    fn ashlar_current_thread_cache() -> *mut c_void;
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

// ── Payloads of the process ─────────────────────────────────────────────────

fn raw(outcome: Option<NonNull<u8>>) -> *mut c_void {
    outcome.map_or(null_mut(), |payload| payload.as_ptr().cast())
}

/// # Safety
/// `cache` is the calling thread's, or null.
#[no_mangle]
unsafe extern "C" fn ashlar_malloc_payload(cache: *mut ThreadCache, size: usize) -> *mut c_void {
    // SAFETY: the caller's contract.
    let cache = unsafe { cache_here(cache) };
    raw(cache.and_then(|cache| cache.allocate(size).ok()))
}

/// # Safety
/// `cache` is the calling thread's, or null.
#[no_mangle]
unsafe extern "C" fn ashlar_calloc_payload(cache: *mut ThreadCache, size: usize) -> *mut c_void {
    // SAFETY: the caller's contract.
    let cache = unsafe { cache_here(cache) };
    raw(cache.and_then(|cache| cache.allocate_zeroed(size).ok()))
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
/// `payload` is null, or memory that the process allocated and does not use
/// any more unless null comes back.
#[no_mangle]
unsafe extern "C" fn ashlar_realloc_payload(
    cache: *mut ThreadCache,
    payload: *mut u8,
    size: usize,
) -> *mut c_void {
    // SAFETY: the caller's contract, here and below.
    unsafe {
        let Some(old) = NonNull::new(payload) else {
            return ashlar_malloc_payload(cache, size);
        };
        if !is_in_heap(payload.cast()) {
            return libc_malloc::realloc(payload.cast(), size);
        }
        raw(cache_here(cache).and_then(|cache| cache.reallocate(old, size).ok()))
    }
}

/// # Safety
/// `payload` is memory that the process allocated and does not use any more.
#[no_mangle]
unsafe extern "C" fn ashlar_free_payload(cache: *mut ThreadCache, payload: NonNull<u8>) {
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
fn is_in_heap(memory: *const c_void) -> bool {
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

/// Frees what a dead object owned.
///
/// # Safety
/// Nobody else has the payload.
#[inline(always)]
pub(crate) unsafe fn free_swept(payload: NonNull<u8>) {
    // SAFETY: the caller's contract.
    unsafe { ashlar_xfree(ashlar_current_thread_cache().cast(), payload) };
}

// ── Ruby's payloads ─────────────────────────────────────────────────────────

/// Collects when payloads have used up the budget and the calling thread may,
/// and before a large one that would not fit below the memory limit.
#[inline]
fn collect_if_due_for(size: usize) {
    let fresh_bytes = || shared().map_or(0, |shared| shared.payloads.fresh_bytes());
    if size >= LARGE_BYTES && fresh_bytes().saturating_add(size) > ROOM_BYTES.load(Relaxed) {
        make_room(size);
    }
    collect_if_due();
}

/// Smaller payloads add up to a budget before they are noticed.
const LARGE_BYTES: usize = 256 << 10;

#[cold]
#[inline(never)]
fn make_room(size: usize) {
    if let Some(objspace) = objspace() {
        // What has just been collected is not collected again for more room.
        let is_worth_it = objspace.heap.fresh_bytes() > size / 4;
        if is_worth_it && may_collect(objspace) {
            collect::make_room(objspace, size);
        }
    }
}

/// Collects when payloads have used up the budget and the calling thread may.
#[inline]
pub(crate) fn collect_if_due() {
    let Some(shared) = shared() else { return };
    let stressed = XMALLOC_MODE.load(Relaxed) & STRESS != 0;
    if stressed || shared.payloads.fresh_bytes() >= BUDGET_BYTES.load(Relaxed) {
        collect_here(if stressed {
            Reason::Stress
        } else {
            Reason::Malloc
        });
    }
}

#[cold]
#[inline(never)]
fn collect_here(reason: Reason) -> bool {
    let Some(objspace) = objspace() else {
        return false;
    };
    if !may_collect(objspace) {
        return false;
    }
    collect::paced(objspace, reason);
    true
}

/// Whether the calling thread may collect now.
fn may_collect(objspace: &crate::objspace::Objspace) -> bool {
    // SAFETY: may be asked by any thread.
    let has_lock = unsafe { (objspace.heap.vm.calls.thread_has_gvl)() } != 0;
    has_lock && !objspace.disabled.get() && !is_busy(objspace)
}

fn is_busy(objspace: &crate::objspace::Objspace) -> bool {
    objspace.heap.is_collecting() || objspace.heap.shared().payloads.is_sweeping()
}

/// When memory is out: everything dead goes, if the calling thread may collect.
fn collect_as_last_resort() -> bool {
    let Some(objspace) = objspace() else {
        return false;
    };
    // SAFETY: may be asked by any thread.
    let has_lock = unsafe { (objspace.heap.vm.calls.thread_has_gvl)() } != 0;
    has_lock && !is_busy(objspace) && collect::last_resort(objspace)
}

/// Runs `allocate`, and once more after a collection if it fails.
#[inline]
fn allocate_or_collect(allocate: impl Fn() -> *mut c_void) -> *mut c_void {
    let payload = allocate();
    if !payload.is_null() {
        return payload;
    }
    if !collect_as_last_resort() {
        return null_mut();
    }
    let payload = allocate();
    if payload.is_null() {
        if let Some(objspace) = objspace() {
            objspace.heap.open_reserve();
        }
    }
    payload
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_xmalloc(cache: *mut ThreadCache, size: usize) -> *mut c_void {
    // SAFETY: the cache is the calling thread's.
    if let (Some(cache), 0) = (unsafe { cache.as_mut() }, XMALLOC_MODE.load(Relaxed)) {
        if let Some(piece) = cache.allocate_at_once(size) {
            return piece.as_ptr().cast();
        }
    }
    // SAFETY: as above.
    unsafe { xmalloc_slowly(cache, size) }
}

/// # Safety
/// As for [`ashlar_xmalloc`].
#[cold]
#[inline(never)]
unsafe fn xmalloc_slowly(cache: *mut ThreadCache, size: usize) -> *mut c_void {
    if XMALLOC_MODE.load(Relaxed) & LOOK_AGAIN != 0 {
        set_mode(LOOK_AGAIN, false);
        interpose::look_again();
    }
    collect_if_due_for(size);
    // SAFETY: the caller's contract.
    allocate_or_collect(|| unsafe {
        if XMALLOC_MODE.load(Relaxed) & FROM_LIBC != 0 {
            libc_malloc::counted_malloc(size.max(1))
        } else {
            ashlar_malloc_payload(cache, size)
        }
    })
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_xcalloc(cache: *mut ThreadCache, size: usize) -> *mut c_void {
    collect_if_due_for(size);
    // SAFETY: the caller's contract.
    allocate_or_collect(|| unsafe {
        if XMALLOC_MODE.load(Relaxed) & FROM_LIBC != 0 {
            libc_malloc::counted_calloc(size.max(1))
        } else {
            ashlar_calloc_payload(cache, size)
        }
    })
}

/// # Safety
/// As `shim/ashlar_ruby.h` says. A size of 0 gives a payload that can be freed.
#[no_mangle]
unsafe extern "C" fn ashlar_xrealloc(
    cache: *mut ThreadCache,
    payload: *mut u8,
    size: usize,
) -> *mut c_void {
    // SAFETY: the caller's contract, here and below.
    unsafe {
        if payload.is_null() {
            return ashlar_xmalloc(cache, size);
        }
        collect_if_due_for(size);
        let is_in_heap = is_in_heap(payload.cast());
        allocate_or_collect(|| {
            if is_in_heap {
                ashlar_realloc_payload(cache, payload, size.max(1))
            } else {
                libc_malloc::counted_realloc(payload.cast(), size.max(1))
            }
        })
    }
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_xfree(cache: *mut ThreadCache, payload: NonNull<u8>) {
    // SAFETY: the caller's contract.
    unsafe {
        if XMALLOC_MODE.load(Relaxed) & FROM_LIBC == 0 {
            return ashlar_free_payload(cache, payload);
        }
        if is_in_heap(payload.as_ptr().cast()) {
            ashlar_free_payload(cache, payload);
        } else {
            libc_malloc::counted_free(payload.as_ptr().cast());
        }
    }
}
