//! `xmalloc` and its relatives: Ruby's payloads, which count towards the next
//! collection.
//!
//! Any thread allocates. Atomics say whether a collection is due. Only a thread that has the
//! GVL, and then the VM lock, may collect; with the lock it checks again, because another
//! Ractor may have collected while it waited.

use std::ffi::c_void;
use std::ptr::null_mut;

use ashlar_heap::driver::LARGE_PAYLOAD_BYTES;
use ashlar_heap::Shared;

use super::process_malloc::{
    ashlar_calloc_payload, ashlar_malloc_payload, ashlar_realloc_payload, ashlar_usable_payload,
    is_counted_elsewhere,
};
use super::thread_caches::OwnCache;
use crate::collect::Reason;
use crate::collector::Collector;
use crate::heap_profile::{self, samples};
use crate::knobs::KNOBS;
use crate::libc_malloc;
use crate::lock::Gvl;
use crate::statics::{is_busy, made_shared};

/// Collects when payloads have used up the nursery and the calling thread may collect; before
/// that, makes room for a large payload that would not fit below the memory limit. Does
/// nothing where Ruby allows no collection.
#[inline]
fn collect_if_due_for(size: usize, allowed: bool) {
    if !allowed {
        return;
    }
    if is_too_large(size) {
        make_room(size);
    }
    if is_due() || KNOBS.next_xmalloc_looks() {
        collect_here();
    }
}

/// As [`collect_if_due_for`], before a payload gets another size. Extensions may resize what an
/// object owns while that object is half changed, because Ruby's own collector collects then
/// under stress alone. So a collection that is due, and the room that a memory limit asks for,
/// wait for the next new payload or cell.
#[inline]
fn notice_due_for(payload: *mut u8, size: usize, allowed: bool) {
    if !allowed {
        return;
    }
    if KNOBS.xmalloc_is_stressed() {
        return collect_here();
    }
    let more_bytes = growth_of_large(payload, size);
    if is_too_large(more_bytes) {
        KNOBS.owe_room(more_bytes);
    } else if is_due() {
        KNOBS.let_next_xmalloc_look();
    }
}

/// By how much a payload that is to be large grows.
#[inline]
fn growth_of_large(payload: *mut u8, size: usize) -> usize {
    if size < LARGE_PAYLOAD_BYTES {
        return 0;
    }
    // SAFETY: the payload is the caller's.
    size.saturating_sub(unsafe { ashlar_usable_payload(payload.cast()) })
}

/// Whether this much memory is to have room made for it before it is handed out.
#[inline]
fn is_too_large(bytes: usize) -> bool {
    bytes >= LARGE_PAYLOAD_BYTES && exceeds_room(bytes)
}

#[inline]
fn is_due() -> bool {
    made_shared()
        .is_some_and(|shared| shared.payloads().fresh_bytes() >= KNOBS.payloads_due_bytes())
}

fn exceeds_room(size: usize) -> bool {
    let fresh_bytes = made_shared().map_or(0, |shared| shared.payloads().fresh_bytes());
    fresh_bytes.saturating_add(size) > KNOBS.room_bytes()
}

#[cold]
#[inline(never)]
fn collect_here() {
    with_collector(|collector| {
        if !may_collect() {
            return;
        }
        KNOBS.note_look();
        collector.make_owed_room();
        if !is_due() {
            return;
        }
        let reason = if KNOBS.xmalloc_is_stressed() {
            Reason::Stress
        } else {
            Reason::Malloc
        };
        collector
            .driver(reason)
            .collect_due(collector.wanted(reason));
    });
}

#[cold]
#[inline(never)]
fn make_room(size: usize) {
    with_collector(|collector| {
        if may_collect() && exceeds_room(size) && KNOBS.full_marking_allowed.is_on() {
            let driver = collector.driver(Reason::Malloc);
            driver.make_room(size, collector.auto_compaction());
            collector.set_payloads_due();
        }
    });
}

/// Runs `work`, which may collect, if the calling thread may use the collector, `GC.disable`
/// is not in force and no collection runs; otherwise returns `None`.
fn with_collector<R>(work: impl FnOnce(&Collector) -> R) -> Option<R> {
    if !may_collect() {
        return None;
    }
    Gvl::of_this_thread().map(|gvl| gvl.with_vm_lock_in_malloc(work))
}

fn may_collect() -> bool {
    !KNOBS.disabled.is_on() && !is_busy()
}

/// Frees everything dead, when there is no memory, if the calling thread may collect. Returns
/// the thread's GVL if it did.
fn collect_as_last_resort() -> Option<Gvl> {
    if !may_collect() {
        return None;
    }
    let gvl = Gvl::of_this_thread()?;
    gvl.with_vm_lock_in_malloc(|collector| collector.driver(Reason::Malloc).last_resort())
        .then_some(gvl)
}

/// Runs `allocate`, and once more after a collection if it fails and Ruby allows one.
#[inline]
fn allocate_or_collect(allowed: bool, allocate: impl Fn() -> *mut c_void) -> *mut c_void {
    let payload = allocate();
    if !payload.is_null() || !allowed {
        return payload;
    }
    if let Some(shared) = made_shared().filter(|shared| is_at_work_here(shared)) {
        return allocate_or_end(shared, allocate);
    }
    let Some(gvl) = collect_as_last_resort() else {
        return null_mut();
    };
    let payload = allocate();
    if payload.is_null() {
        gvl.with_vm_lock_in_malloc(|collector| collector.heap.open_reserve());
    }
    payload
}

/// Whether the calling thread is the one on which the collector is at work. All others with a GVL
/// stand still then; threads without one go on.
#[cold]
fn is_at_work_here(shared: &Shared) -> bool {
    shared.is_busy() && Gvl::of_this_thread().is_some()
}

/// Memory is out while the collector marks, frees what dead objects own, or moves objects and
/// Ruby moves the entries of its tables. NoMemoryError would jump out of the collection and leave
/// it half done. So the last blocks are taken, and when they are used up the process ends.
#[cold]
fn allocate_or_end(shared: &Shared, allocate: impl Fn() -> *mut c_void) -> *mut c_void {
    const LINE: &str =
        "ashlar: there is no memory left to go on with a collection; the process ends\n";
    shared.open_reserve();
    let payload = allocate();
    if payload.is_null() {
        // SAFETY: both may be called at any time; the line has this many bytes.
        unsafe {
            libc::write(libc::STDERR_FILENO, LINE.as_ptr().cast(), LINE.len());
            libc::_exit(libc::EXIT_FAILURE);
        }
    }
    payload
}

#[no_mangle]
pub(crate) extern "C" fn ashlar_xmalloc(
    cache: OwnCache,
    size: usize,
    may_collect: bool,
) -> *mut c_void {
    heap_profile::with_payload(size, || {
        if KNOBS.xmalloc_is_from_cache() {
            if let Some(Some(piece)) = cache.with_own(|cache| cache.allocate_at_once(size)) {
                return piece.as_ptr().cast();
            }
        }
        xmalloc_slowly(cache, size, may_collect)
    })
}

#[cold]
#[inline(never)]
fn xmalloc_slowly(cache: OwnCache, size: usize, may_collect: bool) -> *mut c_void {
    collect_if_due_for(size, may_collect);
    allocate_or_collect(may_collect, || {
        if KNOBS.xmalloc_is_from_libc() {
            libc_malloc::counted(libc_malloc::malloc(size.max(1)))
        } else {
            ashlar_malloc_payload(cache, size)
        }
    })
}

#[no_mangle]
extern "C" fn ashlar_xcalloc(cache: OwnCache, size: usize, may_collect: bool) -> *mut c_void {
    let allocate = || {
        if KNOBS.xmalloc_is_from_libc() {
            libc_malloc::counted(libc_malloc::calloc(size.max(1)))
        } else {
            ashlar_calloc_payload(cache, size)
        }
    };
    collect_if_due_for(size, may_collect);
    heap_profile::with_payload(size, || allocate_or_collect(may_collect, allocate))
}

/// # Safety
/// As `shim/ashlar_ruby.h` says. A size of 0 gives a payload that can be freed.
#[no_mangle]
pub(crate) unsafe extern "C" fn ashlar_xrealloc(
    cache: OwnCache,
    payload: *mut u8,
    size: usize,
    may_collect: bool,
) -> *mut c_void {
    if payload.is_null() {
        return ashlar_xmalloc(cache, size, may_collect);
    }
    notice_due_for(payload, size, may_collect);
    let is_counted = is_counted_elsewhere(payload.cast());
    // SAFETY: the payload is Ruby's, which does not use it any more unless null is returned.
    let allocate = || unsafe {
        if is_counted {
            samples::while_resized(payload as usize, || {
                libc_malloc::counted_realloc(payload.cast(), size.max(1))
            })
        } else {
            ashlar_realloc_payload(cache, payload, size.max(1))
        }
    };
    heap_profile::with_payload(size, || allocate_or_collect(may_collect, allocate))
}

/// Counts memory that objects own outside the heap. It never collects, and takes no lock:
/// extensions call it in the middle of a change, also from their own allocators.
#[no_mangle]
extern "C" fn ashlar_adjust_memory(difference: isize) {
    let Some(shared) = made_shared() else { return };
    shared.payloads().note_elsewhere(difference);
    if difference > 0 && is_due() {
        KNOBS.let_next_xmalloc_look();
    }
}
