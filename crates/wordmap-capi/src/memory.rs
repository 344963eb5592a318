//! The memory of nodes: one heap for all arrays of the process, over pages from the system or
//! from functions that the program has set.

use ashlar_wordmap::memory::{PageSource, SystemPages};
use ashlar_wordmap::shared_heap;
use std::ffi::{c_char, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

type TakePages = unsafe extern "C" fn(bytes: usize, alignment: usize) -> *mut c_void;
type GivePages = unsafe extern "C" fn(pages: *mut c_void, bytes: usize);

static TAKE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static GIVE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Chunks mapped from the system, or from the functions that the program has set.
pub(crate) struct Pages;

// SAFETY: fresh mappings belong to nobody else; a program that sets functions promises the same.
unsafe impl PageSource for Pages {
    fn allocate_chunk(&self, bytes: usize) -> Option<NonNull<u8>> {
        let take = TAKE.load(Ordering::Acquire);
        if take.is_null() {
            return SystemPages.allocate_chunk(bytes);
        }
        // SAFETY: only `ashlar_wordmap_set_pages` stores here, and only functions of this type.
        let chunk = unsafe { std::mem::transmute::<*mut c_void, TakePages>(take)(bytes, bytes) };
        NonNull::new(chunk.cast())
    }

    fn allocate_region(&self, bytes: usize, chunks: usize) -> Option<NonNull<u8>> {
        // A program's functions are only called for single chunks, as their interface says.
        let is_system = TAKE.load(Ordering::Acquire).is_null();
        is_system
            .then(|| SystemPages.allocate_region(bytes, chunks))
            .flatten()
    }

    unsafe fn release_chunk(&self, chunk: NonNull<u8>, bytes: usize) {
        let give = GIVE.load(Ordering::Acquire);
        // SAFETY: the chunk came from the system, or from the program's own function.
        unsafe {
            if give.is_null() {
                SystemPages.release_chunk(chunk, bytes);
            } else {
                std::mem::transmute::<*mut c_void, GivePages>(give)(chunk.as_ptr().cast(), bytes);
            }
        }
    }

    unsafe fn release_chunks(&self, chunks: &mut [NonNull<u8>], bytes: usize) {
        // SAFETY: the caller's contract: chunks from the system, or from the program's own
        // function.
        unsafe {
            if GIVE.load(Ordering::Acquire).is_null() {
                return SystemPages.release_chunks(chunks, bytes);
            }
            for chunk in chunks {
                self.release_chunk(*chunk, bytes);
            }
        }
    }

    unsafe fn bring_in(&self, chunk: NonNull<u8>, bytes: usize) {
        if TAKE.load(Ordering::Acquire).is_null() {
            // SAFETY: the caller's contract: a chunk from the system.
            unsafe { SystemPages.bring_in(chunk, bytes) };
        }
    }
}

shared_heap!(
    /// The heap of this library; takes no room in an array.
    pub(crate) Shared, Pages, Pages
);

/// Sets the functions that chunks of pages come from and go to. See `ashlar_wordmap.h`.
///
/// # Safety
/// Both must be functions of the declared types, or both null; no array may exist yet.
#[no_mangle]
pub unsafe extern "C" fn ashlar_wordmap_set_pages(
    take: Option<TakePages>,
    give: Option<GivePages>,
) {
    Shared.heap().trim();
    let address = |f: Option<*mut c_void>| f.unwrap_or(std::ptr::null_mut());
    TAKE.store(address(take.map(|f| f as *mut c_void)), Ordering::Release);
    GIVE.store(address(give.map(|f| f as *mut c_void)), Ordering::Release);
}

/// The bytes that all arrays of the process have taken from the system for their nodes.
#[no_mangle]
pub extern "C" fn ashlar_wordmap_heap_bytes() -> u64 {
    Shared.heap().reserved_bytes() as u64
}

extern "C" fn before_fork() {
    Shared.heap().lock_for_fork();
}

extern "C" fn after_fork() {
    // SAFETY: `before_fork` ran in this thread, or in the thread that this one is a copy of.
    unsafe { Shared.heap().unlock_after_fork() };
}

extern "C" fn at_load() {
    // SAFETY: handlers of the right type. If the call fails, a fork works as it would without
    // handlers: correctly while no other thread is inside the heap.
    unsafe {
        libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork));
    }
}

#[used]
#[cfg_attr(target_os = "linux", link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

/// Allocates `words` words; returns 0 when there is no memory.
#[no_mangle]
pub extern "C" fn JudyMalloc(words: usize) -> usize {
    match words.checked_mul(8) {
        // SAFETY: calls plain `malloc`.
        Some(bytes) => unsafe { libc::malloc(bytes) as usize },
        None => 0,
    }
}

/// Frees memory of [`JudyMalloc`].
///
/// # Safety
/// `memory` must come from [`JudyMalloc`] or be null.
#[no_mangle]
pub unsafe extern "C" fn JudyFree(memory: *mut c_void, _words: usize) {
    // SAFETY: the memory comes from `malloc`, or is null.
    unsafe { libc::free(memory) };
}

/// Like [`JudyMalloc`]: there is no other kind of memory here.
#[no_mangle]
pub extern "C" fn JudyMallocVirtual(words: usize) -> usize {
    JudyMalloc(words)
}

/// Frees memory of [`JudyMallocVirtual`].
///
/// # Safety
/// As [`JudyFree`].
#[no_mangle]
pub unsafe extern "C" fn JudyFreeVirtual(memory: *mut c_void, words: usize) {
    // SAFETY: the memory comes from `JudyMalloc`, or is null.
    unsafe { JudyFree(memory, words) };
}

/// A C string that never changes.
#[repr(transparent)]
pub struct Text(*const c_char);

// SAFETY: the string is a constant.
unsafe impl Sync for Text {}

/// The sizes of nodes, for programs that print them.
#[no_mangle]
pub static Judy1MallocSizes: Text =
    Text(c"Judy1MallocSizes = 1..64 words in steps of 1, then in steps of 4".as_ptr());

/// As [`Judy1MallocSizes`].
#[no_mangle]
pub static JudyLMallocSizes: Text =
    Text(c"JudyLMallocSizes = 1..64 words in steps of 1, then in steps of 4".as_ptr());
