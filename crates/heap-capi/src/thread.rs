//! A thread of the program: what it allocates cells and payloads from, and where its
//! stack is.

use std::cell::{Cell as StdCell, UnsafeCell};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut, NonNull};

use ashlar_heap::driver::Wanted;
use ashlar_heap::{os, Allocation, AllocationCache, Arena, CellState, ThreadCache, Urgency};
use ashlar_heap::{ARENA_COUNT, WIDTH_COUNT, WIDTH_MAX_BYTES, WIDTH_MIN_BYTES};

use crate::error;
use crate::heap::ProgramHeap;
use crate::roots::Frame;
use crate::tracer::{cell_of, pointer, Inside};

/// `ashlar_thread`. The inline part of `ashlar.h` uses the first fields
/// (`layout.rs`).
///
/// Whoever has a reference to one is that thread: the heap has only pointers to the others.
#[repr(C)]
pub(crate) struct Thread {
    /// Where the inline part takes cells from: this thread's cache, or [`NO_CELLS`].
    pub(crate) cells: StdCell<*mut c_void>,
    pub(crate) stage: *const u8,
    pub(crate) states: *mut u8,
    pub(crate) frames: StdCell<*const Frame>,
    /// The state of new cells.
    pub(crate) new_state: u8,
    heap: *const ProgramHeap,
    /// Made when the thread allocates its first cell.
    cache: StdCell<Option<NonNull<AllocationCache<'static>>>>,
    payloads: UnsafeCell<ThreadCache<'static>>,
    /// Where `payloads` allocates from.
    arena: Arena,
    /// Where its stack is scanned to; 0 when it is not.
    pub(crate) stack_base: StdCell<usize>,
    /// Where its stack ends now, while it is stopped; 0 while it runs.
    pub(crate) stack_now: StdCell<usize>,
}

/// Cursors that are used up: as long as the part of an allocation cache that the inline part
/// reads.
static NO_CELLS: [usize; 1 + 4 * WIDTH_COUNT] = [0; 1 + 4 * WIDTH_COUNT];

fn no_cells() -> *mut c_void {
    (&raw const NO_CELLS).cast_mut().cast()
}

impl Thread {
    /// A thread that is on no list of its heap.
    pub(crate) fn new(heap: &ProgramHeap) -> Self {
        Self::new_in(heap, Arena::default())
    }

    fn new_in(heap: &ProgramHeap, arena: Arena) -> Self {
        Self {
            cells: StdCell::new(no_cells()),
            stage: heap.heap.stage_byte(),
            states: heap.heap.region().tables().biased_states,
            frames: StdCell::new(std::ptr::null()),
            new_state: heap.new_state().bits(),
            heap,
            cache: StdCell::new(None),
            payloads: UnsafeCell::new(heap.heap.shared().thread_cache_in(arena)),
            arena,
            stack_base: StdCell::new(0),
            stack_now: StdCell::new(0),
        }
    }

    pub(crate) fn heap(&self) -> &ProgramHeap {
        // SAFETY: a heap outlives its threads.
        unsafe { &*self.heap }
    }

    /// Runs `work` with the thread's payloads, which must not collect or call the program.
    #[inline(always)]
    pub(crate) fn with_payloads<R>(&self, work: impl FnOnce(&mut ThreadCache<'static>) -> R) -> R {
        // SAFETY: only the calling thread has this cache, and `work` neither gives it to anybody nor
        // comes here again.
        work(unsafe { &mut *self.payloads.get() })
    }

    /// Runs `work`, during which the calling thread's stack may be scanned: its registers
    /// are on it.
    #[inline(never)]
    pub(crate) fn stopped<R>(&self, work: impl FnOnce() -> R) -> R {
        if self.stack_base.get() == 0 {
            return work();
        }
        let mut registers = MaybeUninit::<libc::ucontext_t>::zeroed();
        // SAFETY: there is room for it.
        unsafe { libc::getcontext(registers.as_mut_ptr()) };
        let outer = self.stack_now.get();
        note_stack_end(&self.stack_now);
        let result = work();
        self.stack_now.set(outer);
        std::hint::black_box(&mut registers);
        result
    }

    /// `None` when there is no memory for it.
    fn allocation_cache(&self, heap: &ProgramHeap) -> Option<NonNull<AllocationCache<'static>>> {
        if self.cache.get().is_none() {
            let cache = heap.heap.try_new_cache().ok()?;
            self.cache.set(Some(cache));
            self.cells.set(cache.as_ptr().cast());
        }
        self.cache.get()
    }

    /// Keeps the thread's cells from the inline part.
    ///
    /// # Safety
    /// The thread is on the list of its heap, and stopped.
    pub(crate) unsafe fn hide_cells(thread: *const Self) {
        // SAFETY: the thread lives, and is not allocating cells.
        unsafe { (*thread).cells.set(no_cells()) };
    }

    /// Undoes [`Thread::hide_cells`].
    ///
    /// # Safety
    /// As for [`Thread::hide_cells`].
    pub(crate) unsafe fn show_cells(thread: *const Self) {
        // SAFETY: the thread lives, and is not allocating cells.
        unsafe {
            if let Some(cache) = (*thread).cache.get() {
                (*thread).cells.set(cache.as_ptr().cast());
            }
        }
    }

    /// Gives up what the thread allocates from.
    ///
    /// # Safety
    /// The thread ends, and the caller holds the program's lock.
    pub(crate) unsafe fn give_up(&self) {
        self.with_payloads(ThreadCache::flush);
        if let Some(cache) = self.cache.take() {
            // SAFETY: the thread ends, and the program's lock is held.
            unsafe { self.heap().heap.drop_cache(cache) };
        }
    }
}

/// Not inlined: its frame lies beyond the caller's.
#[inline(never)]
fn note_stack_end(end: &StdCell<usize>) {
    let here = 0usize;
    end.set(std::hint::black_box(&raw const here) as usize);
}

/// The arena that the fewest of these threads have: they may run at the same time.
fn free_arena(threads: &[*const Thread]) -> Arena {
    let mut counts = [0; ARENA_COUNT];
    for &thread in threads {
        // SAFETY: threads are taken off the list before they end, and this field never changes.
        counts[unsafe { (*thread).arena.number() }] += 1;
    }
    let fewest = (0..ARENA_COUNT).min_by_key(|&number| counts[number]);
    fewest.map_or_else(Arena::default, Arena::of_thread)
}

#[no_mangle]
extern "C" fn ashlar_thread_new(heap: &ProgramHeap) -> *const Thread {
    let mut threads = heap.vm().threads();
    let thread = Thread::new_in(heap, free_arena(&threads));
    let (Ok(()), Ok(thread)) = (threads.try_reserve(1), os::boxed(thread)) else {
        error::note("memory is out: no thread");
        return null();
    };
    let thread = Box::into_raw(thread);
    threads.push(thread);
    thread
}

#[no_mangle]
extern "C" fn ashlar_thread_free(thread: Option<Box<Thread>>) {
    if let Some(thread) = thread {
        let own = |other: &*const Thread| std::ptr::eq(*other, &*thread);
        thread.heap().vm().threads().retain(|other| !own(other));
        // SAFETY: the thread ends, and the program holds its lock.
        unsafe { thread.give_up() };
    }
}

#[no_mangle]
extern "C" fn ashlar_thread_scan_stack(thread: &Thread, base: *const c_void) {
    thread.stack_base.set(base as usize);
}

#[no_mangle]
unsafe extern "C" fn ashlar_unlocked(
    thread: &Thread,
    work: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> *mut c_void {
    // SAFETY: the program's own function.
    thread.stopped(|| unsafe { work(argument) })
}

#[no_mangle]
extern "C" fn ashlar_new_slowly(thread: &Thread, bytes: usize) -> *mut c_void {
    allocate(thread, bytes, thread.heap().new_state())
}

#[no_mangle]
extern "C" fn ashlar_new_without_barrier(thread: &Thread, bytes: usize) -> *mut c_void {
    allocate(thread, bytes, CellState::NEW_UNPROTECTED)
}

fn allocate(thread: &Thread, bytes: usize, state: CellState) -> *mut c_void {
    let heap = thread.heap();
    heap.assert_at_rest();
    let Some(cache) = thread.allocation_cache(heap) else {
        return no_memory_for(bytes);
    };
    heap.vm().current.set(thread);
    // SAFETY: the cache is this thread's, which holds the program's lock.
    let outcome = unsafe {
        match heap.is_disabled() {
            true => heap
                .heap
                .allocate(&mut *cache.as_ptr(), bytes, state, Urgency::MustAllocate),
            false => heap.driver(thread).allocate(
                cache.as_ptr(),
                bytes,
                state,
                Urgency::MayCollect,
                Wanted::default,
            ),
        }
    };
    match outcome {
        Allocation::Allocated(cell) => {
            // SAFETY: the cell is fresh; it has `bytes`, and as every cell `WIDTH_MIN_BYTES`.
            unsafe { pointer(cell).write_bytes(0, bytes.max(WIDTH_MIN_BYTES)) };
            pointer(cell)
        }
        Allocation::TooLarge => {
            error::note(format_args!(
                "{bytes} bytes do not fit into a cell (at most {WIDTH_MAX_BYTES}): let the cell own a \
             payload (ashlar_payload_new)"
            ));
            null_mut()
        }
        _ => no_memory_for(bytes),
    }
}

fn no_memory_for(cell_bytes: usize) -> *mut c_void {
    error::note(format_args!("memory is out: no cell of {cell_bytes} bytes"));
    null_mut()
}

#[no_mangle]
unsafe extern "C" fn ashlar_unprotect(thread: &Thread, cell: *mut c_void) {
    // SAFETY: the program passes a cell.
    unsafe { thread.heap().heap.unprotect(cell_of(cell)) };
}

#[no_mangle]
unsafe extern "C" fn ashlar_barrier_slowly(
    thread: &Thread,
    parent: *mut c_void,
    child: *mut c_void,
) {
    let heap = &thread.heap().heap;
    if let Some(child) = Inside::of(heap.region()).reference(child as usize) {
        // SAFETY: the program passes a cell as the parent; the child is one, too.
        unsafe { heap.write_barrier(cell_of(parent), child) };
    }
}

#[no_mangle]
unsafe extern "C" fn ashlar_barrier_all_slowly(thread: &Thread, parent: *mut c_void) {
    // SAFETY: the program passes a cell.
    unsafe { thread.heap().heap.write_barrier_all(cell_of(parent)) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::heap_of_leaves;
    use crate::refusing_allocator::while_memory_is_refused;

    #[test]
    fn where_memory_is_refused_there_is_a_line_in_the_place_of_a_thread_or_a_cell() {
        let heap = heap_of_leaves();
        // So that the list of threads has room.
        // SAFETY: threads come from boxes, and this one is not used again.
        let free = |thread: *const Thread| unsafe {
            ashlar_thread_free(Some(Box::from_raw(thread.cast_mut())));
        };
        free(ashlar_thread_new(&heap));
        while_memory_is_refused(|| assert!(ashlar_thread_new(&heap).is_null()));
        assert_eq!(error::latest(), "memory is out: no thread");

        // SAFETY: the thread lives until it is freed below.
        let thread = unsafe { &*ashlar_thread_new(&heap) };
        while_memory_is_refused(|| assert!(ashlar_new_slowly(thread, 40).is_null()));
        assert_eq!(error::latest(), "memory is out: no cell of 40 bytes");
        assert!(!ashlar_new_slowly(thread, 40).is_null());
        while_memory_is_refused(|| assert!(ashlar_new_slowly(thread, 1025).is_null()));
        assert!(error::latest().starts_with("1025 bytes do not fit into a cell"));
        free(thread);
    }
}
