//! An allocator that refuses memory when a test says so.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;

thread_local! {
    static REFUSES: Cell<bool> = const { Cell::new(false) };
}

struct Refusing;

// SAFETY: what it does not refuse, it leaves to the system's.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if REFUSES.get() {
            return null_mut();
        }
        // SAFETY: the layout is not empty, as the trait demands.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the memory came from `System`, with this layout.
        unsafe { System.dealloc(pointer, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

/// Runs `work`, to which this thread's memory is refused.
pub(crate) fn while_memory_is_refused<R>(work: impl FnOnce() -> R) -> R {
    REFUSES.set(true);
    let result = work();
    REFUSES.set(false);
    result
}
