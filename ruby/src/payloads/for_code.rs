//! Memory for the inline caches and call caches of code.
//!
//! The interpreter writes them when code first runs in a process. Beside all other payloads they would
//! have a forked child copy most pages that code lies on, so they lie in blocks of their own.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::thread_caches;
use crate::heap_profile;
use crate::knobs::KNOBS;

/// The first caches lie among all other payloads. A small program has no more of them, and each size
/// class would have a block that is nearly empty: 0.2 MiB together.
const AMONG_OTHERS_BYTES: usize = 512 << 10;

/// Bytes of caches that lie among all other payloads.
static AMONG_OTHERS: AtomicUsize = AtomicUsize::new(0);

/// Zeroed memory, or null where `xcalloc` must serve: for the first caches, and when there is no
/// memory. Nothing is collected here; the bytes count towards the next collection.
#[no_mangle]
extern "C" fn ashlar_calloc_for_code(size: usize) -> *mut c_void {
    if KNOBS.xmalloc_is_from_libc() || lies_among_others(size) {
        return null_mut();
    }
    heap_profile::with_payload(size, || {
        thread_caches::allocate_for_code(size).map_or(null_mut(), |caches| caches.as_ptr().cast())
    })
}

fn lies_among_others(size: usize) -> bool {
    let is_early = AMONG_OTHERS.load(Relaxed) < AMONG_OTHERS_BYTES;
    if is_early {
        AMONG_OTHERS.fetch_add(size, Relaxed);
    }
    is_early
}
