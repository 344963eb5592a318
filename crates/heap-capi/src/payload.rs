//! Payloads: what cells own, or a program wants memory for.

use std::ffi::c_void;
use std::ptr::{null_mut, NonNull};

use ashlar_heap::driver::LARGE_PAYLOAD_BYTES;
use ashlar_heap::OutOfMemory;

use crate::error;
use crate::heap::ProgramHeap;
use crate::thread::Thread;

/// Runs `allocate`, which hands out `bytes`, after a collection if one is due. If memory is out,
/// runs it once more, after a collection that frees everything dead.
fn collecting(thread: &Thread, bytes: usize, allocate: impl Fn() -> *mut c_void) -> *mut c_void {
    let heap = thread.heap();
    heap.collect_before_payload(thread, bytes);
    let payload = allocate();
    if !payload.is_null() || !heap.driver(thread).last_resort() {
        return payload;
    }
    let payload = allocate();
    if payload.is_null() {
        heap.heap.open_reserve();
    }
    payload
}

#[cold]
#[inline(never)]
fn allocate_or_collect(thread: &Thread, bytes: usize) -> *mut c_void {
    collecting(thread, bytes, || malloc_slowly(thread, bytes))
}

fn pointer_or_note(payload: Result<NonNull<u8>, OutOfMemory>, bytes: usize) -> *mut c_void {
    match payload {
        Ok(payload) => payload.as_ptr().cast(),
        Err(OutOfMemory) => {
            error::note(format_args!("memory is out: no payload of {bytes} bytes"));
            null_mut()
        }
    }
}

#[no_mangle]
extern "C" fn ashlar_payload_new(thread: &Thread, bytes: usize) -> *mut c_void {
    match thread.with_payloads(|own| own.allocate_at_once(bytes)) {
        Some(payload) => payload.as_ptr().cast(),
        None => allocate_or_collect(thread, bytes),
    }
}

#[no_mangle]
unsafe extern "C" fn ashlar_payload_resize(
    thread: &Thread,
    payload: Option<NonNull<u8>>,
    bytes: usize,
) -> *mut c_void {
    let Some(old) = payload else {
        return ashlar_payload_new(thread, bytes);
    };
    let more_bytes = match bytes {
        0..LARGE_PAYLOAD_BYTES => bytes, // whatever it grows by is not large
        _ => bytes.saturating_sub(ashlar_payload_bytes(thread.heap(), old.as_ptr().cast())),
    };
    // SAFETY: the program passes a payload.
    collecting(thread, more_bytes, || unsafe {
        ashlar_realloc(thread, payload, bytes)
    })
}

#[no_mangle]
extern "C" fn ashlar_malloc(thread: &Thread, bytes: usize) -> *mut c_void {
    match thread.with_payloads(|own| own.allocate_at_once(bytes)) {
        Some(payload) => payload.as_ptr().cast(),
        None => malloc_slowly(thread, bytes),
    }
}

#[cold]
#[inline(never)]
fn malloc_slowly(thread: &Thread, bytes: usize) -> *mut c_void {
    pointer_or_note(thread.with_payloads(|own| own.allocate(bytes)), bytes)
}

#[no_mangle]
extern "C" fn ashlar_calloc(thread: &Thread, count: usize, bytes: usize) -> *mut c_void {
    let Some(bytes) = count.checked_mul(bytes) else {
        return pointer_or_note(Err(OutOfMemory), usize::MAX);
    };
    pointer_or_note(
        thread.with_payloads(|own| own.allocate_zeroed(bytes)),
        bytes,
    )
}

#[no_mangle]
unsafe extern "C" fn ashlar_realloc(
    thread: &Thread,
    payload: Option<NonNull<u8>>,
    bytes: usize,
) -> *mut c_void {
    let Some(old) = payload else {
        return ashlar_malloc(thread, bytes);
    };
    // SAFETY: the program passes a payload of its heap.
    let resized = thread.with_payloads(|own| unsafe { own.reallocate(old, bytes) });
    pointer_or_note(resized, bytes)
}

#[no_mangle]
unsafe extern "C" fn ashlar_resize_in_place(
    thread: &Thread,
    payload: Option<NonNull<u8>>,
    bytes: usize,
) -> bool {
    // SAFETY: the program passes a payload of its heap.
    let resize =
        |payload| thread.with_payloads(|own| unsafe { own.resize_in_place(payload, bytes) });
    payload.is_some_and(resize)
}

#[no_mangle]
unsafe extern "C" fn ashlar_free(thread: &Thread, payload: *mut u8) {
    // SAFETY: the program passes a payload of its heap that nobody uses any more, or null, which
    // is in no heap.
    unsafe {
        if !thread.with_payloads(|own| own.free_at_once(payload)) {
            free_slowly(thread, payload);
        }
    }
}

/// # Safety
/// `payload` is null, or of the thread's heap and nobody uses it any more.
#[cold]
#[inline(never)]
unsafe fn free_slowly(thread: &Thread, payload: *mut u8) {
    if let Some(payload) = NonNull::new(payload) {
        // SAFETY: nobody uses the payload any more.
        thread.with_payloads(|own| unsafe { own.free(payload) });
    }
}

#[no_mangle]
extern "C" fn ashlar_payload_bytes(heap: &ProgramHeap, address: *const c_void) -> usize {
    let space = heap.heap.space();
    space.usable_bytes(address as usize).unwrap_or(0)
}

#[no_mangle]
extern "C" fn ashlar_note_elsewhere(heap: &ProgramHeap, bytes: isize) {
    heap.heap.shared().payloads().note_elsewhere(bytes);
}
