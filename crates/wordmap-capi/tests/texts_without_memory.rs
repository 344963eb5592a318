//! Tests that an insertion into a JudySL array changes nothing when there is no memory for it,
//! whichever part of the memory is missing. In a process of its own, whose memory is refused.
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
#[path = "../src/judysl.rs"]
mod judysl;
#[path = "../src/memory.rs"]
mod memory;

use judysl::{JudySLFreeArray, JudySLGet, JudySLIns};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::thread::LocalKey;

thread_local! {
    /// Blocks that this thread gets before the next one is refused; negative: none is.
    static BLOCKS: Cell<i64> = const { Cell::new(-1) };
    /// The same for chunks of pages, of which nodes are made.
    static CHUNKS: Cell<i64> = const { Cell::new(-1) };
}

extern "C" {
    fn __libc_malloc(bytes: usize) -> *mut c_void;
    fn aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void;
    fn free(block: *mut c_void);
}

fn is_refused(left: &'static LocalKey<Cell<i64>>) -> bool {
    let before = left.get();
    left.set((before - 1).max(-1));
    before == 0
}

/// In the place of the system's, for the whole process.
#[no_mangle]
extern "C" fn malloc(bytes: usize) -> *mut c_void {
    if is_refused(&BLOCKS) {
        return null_mut();
    }
    // SAFETY: the system's own function.
    unsafe { __libc_malloc(bytes) }
}

unsafe extern "C" fn take(bytes: usize, alignment: usize) -> *mut c_void {
    if is_refused(&CHUNKS) {
        // All that follow are refused, too.
        CHUNKS.set(0);
        return null_mut();
    }
    // SAFETY: chunks are powers of two, aligned to themselves.
    unsafe { aligned_alloc(alignment, bytes) }
}

unsafe extern "C" fn give(pages: *mut c_void, _bytes: usize) {
    // SAFETY: the chunk came from `take`.
    unsafe { free(pages) };
}

fn text(length: usize, end: &str) -> Vec<u8> {
    let mut text = vec![b'a'; length];
    text.extend(end.bytes());
    text.push(0);
    text
}

unsafe fn value_of(root: *mut c_void, text: &[u8]) -> Option<usize> {
    // SAFETY: the root is an array or null, and the text ends with 0.
    unsafe {
        let slot = JudySLGet(root, text.as_ptr(), null_mut());
        (!slot.is_null()).then(|| *slot as usize)
    }
}

/// Inserts a text beside one that is alone, with what is refused as it is set now. Returns whether
/// there was memory. The address of the other's value stays the same if there was none.
unsafe fn insert_beside(root: &mut *mut c_void, old: &[u8], new: &[u8]) -> bool {
    // SAFETY: the root is an array, and the texts end with 0.
    unsafe {
        let old_slot = JudySLGet(*root, old.as_ptr(), null_mut());
        let slot = JudySLIns(root, new.as_ptr(), null_mut());
        BLOCKS.set(-1);
        CHUNKS.set(-1);
        let is_done = slot as usize != usize::MAX;
        assert!(is_done || JudySLGet(*root, old.as_ptr(), null_mut()) == old_slot);
        assert_eq!(value_of(*root, old), Some(7));
        assert_eq!(value_of(*root, new), is_done.then_some(0));
        is_done
    }
}

#[test]
fn a_text_for_which_there_is_no_memory_changes_nothing() {
    // SAFETY: no array has been made; the roots are null or arrays, and the texts end with 0.
    unsafe {
        memory::ashlar_wordmap_set_pages(Some(take), Some(give));
        for length in [0, 5, 8, 13, 800, 80_003, 800_000] {
            let (old, new) = (
                text(length, "b is long enough"),
                text(length, "c is long enough"),
            );
            // How often the insertion fails before there are enough of those that `left` counts.
            let refusals = |left: &'static LocalKey<Cell<i64>>| {
                let fails = |&count: &i64| {
                    // Gives back what the heap has left.
                    memory::ashlar_wordmap_set_pages(Some(take), Some(give));
                    let mut root = null_mut();
                    *JudySLIns(&mut root, old.as_ptr(), null_mut()) = 7 as *mut c_void;
                    left.set(count);
                    let is_done = insert_beside(&mut root, &old, &new);
                    JudySLFreeArray(&mut root, null_mut());
                    !is_done
                };
                (0..).take_while(fails).count()
            };
            // The tail of the new text; where the old one is put further down, its tail, too.
            assert_eq!(
                refusals(&BLOCKS),
                if length < 8 { 1 } else { 2 },
                "{length}"
            );
            let refused_chunks = refusals(&CHUNKS);
            assert!(length < 80_000 || refused_chunks > 0, "{length}");
        }
    }
}
