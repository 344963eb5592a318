//! The allocator of everybody else in the process: libc's, or one that is
//! preloaded. Found by name in the process's own search order, because this
//! library has functions of the same names.

use std::ffi::{c_void, CStr};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use crate::objspace::shared;

/// A function of the process's allocator, null while it is unknown.
pub(crate) struct Found(AtomicPtr<c_void>);

impl Found {
    pub(crate) const fn nothing() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    pub(crate) fn address(&self) -> *mut c_void {
        self.0.load(Relaxed)
    }

    pub(crate) fn find(&self, name: &CStr) {
        // SAFETY: looking a symbol up has no effect.
        let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        self.0.store(address, Relaxed);
    }
}

pub(crate) static MALLOC: Found = Found::nothing();
pub(crate) static CALLOC: Found = Found::nothing();
pub(crate) static REALLOC: Found = Found::nothing();
pub(crate) static FREE: Found = Found::nothing();
pub(crate) static USABLE_SIZE: Found = Found::nothing();

/// Looks the functions up; called once, when Ruby starts.
pub(crate) fn find() {
    MALLOC.find(c"malloc");
    CALLOC.find(c"calloc");
    REALLOC.find(c"realloc");
    FREE.find(c"free");
    USABLE_SIZE.find(c"malloc_usable_size");
}

/// Whether this library itself serves the process (it is preloaded).
pub(crate) fn is_this_library() -> bool {
    extern "C" {
        #[link_name = "ashlar_own_free"]
        fn own_free() -> *mut c_void;
    }
    // SAFETY: only asks for an address.
    FREE.address() == unsafe { own_free() }
}

/// # Safety
/// `memory` comes from the process's allocator and is not used any more.
/// Memory of unknown origin is leaked: that is the only safe thing to do.
pub(crate) unsafe fn free(memory: *mut c_void) {
    let address = FREE.address();
    if !address.is_null() && !is_this_library() {
        // SAFETY: the symbol `free` has this type.
        let free: unsafe extern "C" fn(*mut c_void) = unsafe { std::mem::transmute(address) };
        // SAFETY: the caller's contract.
        unsafe { free(memory) };
    }
}

/// # Safety
/// As for [`free`], unless null comes back.
pub(crate) unsafe fn realloc(memory: *mut c_void, size: usize) -> *mut c_void {
    let address = REALLOC.address();
    if address.is_null() || is_this_library() {
        return null_mut();
    }
    // SAFETY: the symbol `realloc` has this type.
    let realloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void =
        unsafe { std::mem::transmute(address) };
    // SAFETY: the caller's contract.
    unsafe { realloc(memory, size) }
}

/// # Safety
/// `memory` comes from the process's allocator.
pub(crate) unsafe fn usable_size(memory: *mut c_void) -> usize {
    let address = USABLE_SIZE.address();
    if address.is_null() || is_this_library() {
        return 0;
    }
    // SAFETY: the symbol `malloc_usable_size` has this type.
    let usable_size: unsafe extern "C" fn(*mut c_void) -> usize =
        unsafe { std::mem::transmute(address) };
    // SAFETY: the caller's contract.
    unsafe { usable_size(memory) }
}

/// Counts a change in what Ruby has from here, so that it paces collections.
fn note(difference: isize) {
    if let Some(shared) = shared() {
        shared.payloads.note_elsewhere(difference);
    }
}

/// `malloc` that counts.
pub(crate) fn counted_malloc(size: usize) -> *mut c_void {
    // SAFETY: the symbol `malloc` has this type, and was found at start-up.
    let memory = unsafe {
        let malloc: unsafe extern "C" fn(usize) -> *mut c_void =
            std::mem::transmute(MALLOC.address());
        malloc(size)
    };
    count_fresh(memory)
}

/// `calloc` that counts.
pub(crate) fn counted_calloc(size: usize) -> *mut c_void {
    // SAFETY: the symbol `calloc` has this type, and was found at start-up.
    let memory = unsafe {
        let calloc: unsafe extern "C" fn(usize, usize) -> *mut c_void =
            std::mem::transmute(CALLOC.address());
        calloc(1, size)
    };
    count_fresh(memory)
}

fn count_fresh(memory: *mut c_void) -> *mut c_void {
    if !memory.is_null() {
        // SAFETY: just allocated there.
        note(unsafe { usable_size(memory) } as isize);
    }
    memory
}

/// `realloc` that counts.
///
/// # Safety
/// As for [`realloc`].
pub(crate) unsafe fn counted_realloc(memory: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the caller's contract.
    unsafe {
        let old_bytes = usable_size(memory) as isize;
        let fresh = realloc(memory, size);
        if !fresh.is_null() {
            note(usable_size(fresh) as isize - old_bytes);
        }
        fresh
    }
}

/// `free` that counts.
///
/// # Safety
/// As for [`free`].
pub(crate) unsafe fn counted_free(memory: *mut c_void) {
    // SAFETY: the caller's contract.
    unsafe {
        note(-(usable_size(memory) as isize));
        free(memory);
    }
}
