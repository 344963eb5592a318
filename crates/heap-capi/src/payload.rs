//! Payloads: what cells own, or a program wants memory for.

use std::ffi::c_void;
use std::ptr::{null_mut, NonNull};

use ashlar_heap::OutOfMemory;

use crate::error;
use crate::heap::ProgramHeap;
use crate::thread::Thread;

/// Runs `allocate`, after a collection if one is due. If memory is out, runs it once more, after
/// a collection that frees everything dead.
///
/// # Safety
/// The thread is the calling one and holds the program's lock.
unsafe fn collecting(
    thread: *mut Thread,
    bytes: usize,
    allocate: impl Fn() -> *mut c_void,
) -> *mut c_void {
    // SAFETY: the thread is the calling one, and holds the program's lock.
    let (heap, driver) = unsafe {
        let heap = Thread::heap(thread);
        heap.collect_before_payload(thread, bytes);
        (heap, heap.driver(thread))
    };
    let payload = allocate();
    if !payload.is_null() || heap.is_disabled() || !driver.last_resort() {
        return payload;
    }
    let payload = allocate();
    if payload.is_null() {
        heap.heap.open_reserve();
    }
    payload
}

/// # Safety
/// The thread is the calling one and holds the program's lock.
#[cold]
#[inline(never)]
unsafe fn allocate_or_collect(thread: *mut Thread, bytes: usize) -> *mut c_void {
    // SAFETY: the thread is the calling one, and holds the program's lock.
    unsafe { collecting(thread, bytes, || malloc_slowly(thread, bytes)) }
}

fn pointer_or_note(payload: Result<NonNull<u8>, OutOfMemory>, bytes: usize) -> *mut c_void {
    match payload {
        Ok(payload) => payload.as_ptr().cast(),
        Err(OutOfMemory) => {
            error::note(format!("memory is out: no payload of {bytes} bytes"));
            null_mut()
        }
    }
}

#[no_mangle]
unsafe extern "C" fn ashlar_payload_new(thread: *mut Thread, bytes: usize) -> *mut c_void {
    // SAFETY: the program passes the calling thread, which holds the lock.
    unsafe {
        match Thread::with_payloads(thread, |own| own.allocate_at_once(bytes)) {
            Some(payload) => payload.as_ptr().cast(),
            None => allocate_or_collect(thread, bytes),
        }
    }
}

#[no_mangle]
unsafe extern "C" fn ashlar_payload_resize(
    thread: *mut Thread,
    payload: *mut c_void,
    bytes: usize,
) -> *mut c_void {
    // SAFETY: the program passes the calling thread, which holds the lock, and a payload.
    unsafe {
        if payload.is_null() {
            return ashlar_payload_new(thread, bytes);
        }
        collecting(thread, bytes, || ashlar_realloc(thread, payload, bytes))
    }
}

#[no_mangle]
unsafe extern "C" fn ashlar_malloc(thread: *mut Thread, bytes: usize) -> *mut c_void {
    // SAFETY: the program passes the calling thread.
    match unsafe { Thread::with_payloads(thread, |own| own.allocate_at_once(bytes)) } {
        Some(payload) => payload.as_ptr().cast(),
        // SAFETY: as above.
        None => unsafe { malloc_slowly(thread, bytes) },
    }
}

/// # Safety
/// The thread is the calling one.
#[cold]
#[inline(never)]
unsafe extern "C" fn malloc_slowly(thread: *mut Thread, bytes: usize) -> *mut c_void {
    // SAFETY: the thread is the calling one.
    let payload = unsafe { Thread::with_payloads(thread, |own| own.allocate(bytes)) };
    pointer_or_note(payload, bytes)
}

#[no_mangle]
unsafe extern "C" fn ashlar_calloc(thread: *mut Thread, count: usize, bytes: usize) -> *mut c_void {
    let Some(bytes) = count.checked_mul(bytes) else {
        return pointer_or_note(Err(OutOfMemory), usize::MAX);
    };
    // SAFETY: the program passes the calling thread.
    let payload = unsafe { Thread::with_payloads(thread, |own| own.allocate_zeroed(bytes)) };
    pointer_or_note(payload, bytes)
}

#[no_mangle]
unsafe extern "C" fn ashlar_realloc(
    thread: *mut Thread,
    payload: *mut c_void,
    bytes: usize,
) -> *mut c_void {
    let Some(old) = NonNull::new(payload.cast::<u8>()) else {
        // SAFETY: the program passes the calling thread.
        return unsafe { ashlar_malloc(thread, bytes) };
    };
    // SAFETY: the program passes the calling thread, and a payload of its heap.
    let resized = unsafe { Thread::with_payloads(thread, |own| own.reallocate(old, bytes)) };
    pointer_or_note(resized, bytes)
}

#[no_mangle]
unsafe extern "C" fn ashlar_resize_in_place(
    thread: *mut Thread,
    payload: *mut c_void,
    bytes: usize,
) -> bool {
    let Some(payload) = NonNull::new(payload.cast::<u8>()) else {
        return false;
    };
    // SAFETY: the program passes the calling thread, and a payload of its heap.
    unsafe { Thread::with_payloads(thread, |own| own.resize_in_place(payload, bytes)) }
}

#[no_mangle]
unsafe extern "C" fn ashlar_free(thread: *mut Thread, payload: *mut c_void) {
    // SAFETY: the program passes the calling thread, and a payload of its heap that nobody
    // uses any more, or null, which is in no heap.
    unsafe {
        if !Thread::with_payloads(thread, |own| own.free_at_once(payload.cast())) {
            free_slowly(thread, payload);
        }
    }
}

/// # Safety
/// The thread is the calling one; `payload` is null, or of its heap and nobody uses it any more.
#[cold]
#[inline(never)]
unsafe extern "C" fn free_slowly(thread: *mut Thread, payload: *mut c_void) {
    if let Some(payload) = NonNull::new(payload.cast::<u8>()) {
        // SAFETY: the thread is the calling one, and nobody uses the payload any more.
        unsafe { Thread::with_payloads(thread, |own| own.free(payload)) };
    }
}

#[no_mangle]
unsafe extern "C" fn ashlar_payload_bytes(
    heap: *const ProgramHeap,
    address: *const c_void,
) -> usize {
    // SAFETY: the program passes a heap of its own.
    let space = unsafe { (*heap).heap.space() };
    space.usable_bytes(address as usize).unwrap_or(0)
}

#[no_mangle]
unsafe extern "C" fn ashlar_note_elsewhere(heap: *mut ProgramHeap, bytes: isize) {
    // SAFETY: the program passes a heap of its own.
    unsafe { (*heap).heap.shared().payloads().note_elsewhere(bytes) };
}
