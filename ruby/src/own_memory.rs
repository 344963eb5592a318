//! The collector's own memory: tables of finalizers, ids and the like.
//!
//! It comes from glibc directly, past this library's own `malloc`: what the
//! collector needs to free memory must not depend on the heap having room.
//!
//! While Ruby starts there is nobody yet who could be told that memory is refused: the
//! process ends with one line.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;

use crate::process;

extern "C" {
    fn __libc_memalign(align: usize, size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_free(memory: *mut c_void);
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_realloc(memory: *mut c_void, size: usize) -> *mut c_void;
}

struct OwnMemory;

#[global_allocator]
static OWN_MEMORY: OwnMemory = OwnMemory;

/// What glibc's malloc aligns to.
const MALLOC_ALIGN: usize = 16;

extern "C" {
    fn ashlar_end_for_want_of_memory() -> !;
}

/// What glibc has given; without anything, and before Ruby has started, the process ends.
#[inline(always)]
fn given(memory: *mut u8) -> *mut u8 {
    if memory.is_null() && !process::has_started() {
        // SAFETY: ends the process.
        unsafe { ashlar_end_for_want_of_memory() }
    }
    memory
}

// SAFETY: glibc's allocator keeps the contract; aligned memory is freed by the
// same function, and over-aligned memory is moved by copying.
unsafe impl GlobalAlloc for OwnMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any size and any power of two may be asked for.
        unsafe {
            given(if layout.align() <= MALLOC_ALIGN {
                __libc_malloc(layout.size()).cast()
            } else {
                __libc_memalign(layout.align(), layout.size()).cast()
            })
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= MALLOC_ALIGN {
            // SAFETY: any size may be asked for.
            return given(unsafe { __libc_calloc(1, layout.size()).cast() });
        }
        // SAFETY: any size and any power of two may be asked for; memory that comes back
        // has this size.
        unsafe {
            let memory = self.alloc(layout);
            if !memory.is_null() {
                memory.write_bytes(0, layout.size());
            }
            memory
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, _layout: Layout) {
        // SAFETY: the memory comes from here.
        unsafe { __libc_free(memory.cast()) };
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the memory comes from here and has the old layout; the new one is
        // valid, because the caller may not ask for another.
        unsafe {
            if layout.align() <= MALLOC_ALIGN {
                return given(__libc_realloc(memory.cast(), size).cast());
            }
            let fresh = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !fresh.is_null() {
                fresh.copy_from_nonoverlapping(memory, size.min(layout.size()));
                self.dealloc(memory, layout);
            }
            fresh
        }
    }
}
