//! Tests that a program may limit the memory of its arrays by what they have. In a process of its
//! own, whose pages come from functions.
#![allow(
    non_snake_case,
    dead_code,
    unreachable_pub,
    unused_imports,
    unused_macros
)]

#[path = "../src/array.rs"]
mod array;
#[path = "../src/error.rs"]
mod error;
#[path = "../src/judyl.rs"]
mod judyl;
#[path = "../src/memory.rs"]
mod memory;

use judyl::{JudyLFreeArray, JudyLIns};
use std::ffi::c_void;
use std::ptr::null_mut;

const LIMIT_BYTES: u64 = 40 * 65536;

unsafe extern "C" fn take(bytes: usize, alignment: usize) -> *mut c_void {
    if memory::ashlar_wordmap_heap_bytes() + bytes as u64 > LIMIT_BYTES {
        return null_mut();
    }
    // SAFETY: chunks are powers of two, aligned to themselves.
    unsafe { libc::aligned_alloc(alignment, bytes) }
}

unsafe extern "C" fn give(pages: *mut c_void, _bytes: usize) {
    assert!(memory::ashlar_wordmap_heap_bytes() < LIMIT_BYTES);
    // SAFETY: the chunk came from `take`.
    unsafe { libc::free(pages) };
}

#[test]
fn functions_that_pages_come_from_may_ask_what_arrays_have() {
    // SAFETY: no array has been made; the root is null or an array.
    unsafe {
        // Ends the process if they wait for each other.
        libc::alarm(60);
        memory::ashlar_wordmap_set_pages(Some(take), Some(give));
        let mut root = null_mut();
        let mut count = 0;
        while JudyLIns(&mut root, count << 20, null_mut()) as usize != usize::MAX {
            count += 1;
        }
        assert!(count > 10_000, "{count}");
        assert_eq!(memory::ashlar_wordmap_heap_bytes(), LIMIT_BYTES);
        JudyLFreeArray(&mut root, null_mut());
        assert!(memory::ashlar_wordmap_heap_bytes() < LIMIT_BYTES);
        libc::alarm(0);
    }
}
