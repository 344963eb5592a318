//! The collector's own memory: tables of finalizers, of ids, and so on.
//!
//! The memory comes from glibc directly, not from this library's own `malloc`: what the
//! collector needs to free memory must not depend on the heap having room.
//!
//! While Ruby starts, no caller can handle a refusal of memory yet: the process ends with
//! one line. Later, tables that grow ask whether they may. Work that is rare and takes
//! little memory, such as writing a message, does not ask, and has a spare
//! ([`with_spare`](crate::spare_memory::with_spare)).

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;
use std::ptr::null_mut;

use ashlar_heap::refusals::{is_refused, SystemCall};

use crate::lock;
use crate::spare_memory::SPARE;

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

/// The alignment of memory from glibc's `malloc`, in bytes.
const MALLOC_ALIGN: usize = 16;

extern "C" {
    fn ashlar_end_for_want_of_memory() -> !;
}

/// Returns what glibc has given. If that is null, the process ends before Ruby has
/// started; later the spare may have memory.
#[inline(always)]
fn given(memory: *mut u8, layout: Layout) -> *mut u8 {
    match memory.is_null() {
        true => instead(layout),
        false => memory,
    }
}

#[cold]
fn instead(layout: Layout) -> *mut u8 {
    if !lock::has_started() {
        // SAFETY: ends the process.
        unsafe { ashlar_end_for_want_of_memory() }
    }
    SPARE.take(layout)
}

// SAFETY: glibc's allocator keeps the contract; aligned memory is freed by the
// same function, and over-aligned memory is moved by copying.
unsafe impl GlobalAlloc for OwnMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any size and any power of two may be asked for.
        unsafe {
            let memory = if is_refused(SystemCall::Malloc) {
                null_mut()
            } else if layout.align() <= MALLOC_ALIGN {
                __libc_malloc(layout.size()).cast()
            } else {
                __libc_memalign(layout.align(), layout.size()).cast()
            };
            given(memory, layout)
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= MALLOC_ALIGN && !is_refused(SystemCall::Malloc) {
            // SAFETY: any size may be asked for.
            let memory: *mut u8 = unsafe { __libc_calloc(1, layout.size()).cast() };
            if !memory.is_null() {
                return memory;
            }
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

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if SPARE.has(memory) {
            SPARE.give_back(memory, layout.size());
            return;
        }
        // SAFETY: the memory comes from this allocator, and what is not in the spare is
        // glibc's.
        unsafe { __libc_free(memory.cast()) };
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the memory comes from this allocator and has the old layout; the new
        // layout is valid, because the caller must not ask for another.
        unsafe {
            let is_plain = layout.align() <= MALLOC_ALIGN && !SPARE.has(memory);
            if is_plain && !is_refused(SystemCall::Malloc) {
                let fresh: *mut u8 = __libc_realloc(memory.cast(), size).cast();
                if !fresh.is_null() {
                    return fresh;
                }
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
