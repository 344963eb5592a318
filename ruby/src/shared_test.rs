//! All threads use what they share at once: payloads, knobs and the collector behind
//! its lock, with a fake Ruby. This is what ThreadSanitizer can see of this crate.
//!
//! Four threads have a GVL, as Ractors have, and two have none. All but one ask for
//! payloads below a memory limit; whichever may collect does so, in slices of 100 µs.

use std::cell::Cell as StdCell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::{null_mut, NonNull};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

use ashlar_heap::{Allocation, CellState, Heap, Urgency};

use crate::collector::Collector;
use crate::knobs::KNOBS;
use crate::layout::T_FLOAT;
use crate::lock::{note_start, Gvl, Objspace};
use crate::object_model::Ruby;
use crate::options::Options;
use crate::payloads::thread_caches::{CacheState, OwnCache};
use crate::payloads::xfree::ashlar_xfree;
use crate::payloads::xmalloc::{ashlar_xmalloc, ashlar_xrealloc};
use crate::ruby_calls::{RubyCalls, RubyEvents, Value};
use crate::statics;

thread_local! {
    static HAS_GVL: StdCell<bool> = const { StdCell::new(false) };
    static CACHE: StdCell<*mut c_void> = const { StdCell::new(null_mut()) };
    static NAME: u8 = const { 0 };
}

// ── What the shim has ───────────────────────────────────────────────────────

#[no_mangle]
extern "C" fn ashlar_current_thread_cache() -> *mut c_void {
    CACHE.get()
}

#[no_mangle]
extern "C" fn ashlar_thread_cache_set(cache: *mut c_void) -> bool {
    CACHE.set(cache);
    true
}

#[no_mangle]
extern "C" fn ashlar_thread_cache_state() -> CacheState {
    CacheState::AtFirstUse
}

/// Functions that must exist here but are never called.
macro_rules! never_called {
    ($($name:ident)*) => { $(#[no_mangle] extern "C" fn $name() { unreachable!() })* };
}

never_called! {
    ashlar_interposed_malloc ashlar_interposed_calloc ashlar_interposed_free
    ashlar_interposed_realloc ashlar_interposed_realloc_of_ruby ashlar_interposed_reallocarray
    ashlar_interposed_usable_size ashlar_own_free
}

// ── A Ruby without objects of its own ───────────────────────────────────────

/// The VM's recursive lock: its owner, and how often that thread has taken it.
static OWNER: AtomicUsize = AtomicUsize::new(0);
static LEVEL: AtomicU32 = AtomicU32::new(0);

fn this_thread() -> usize {
    NAME.with(|name| name as *const u8 as usize)
}

unsafe extern "C" fn vm_lock() -> c_uint {
    assert!(HAS_GVL.get(), "the lock is for threads with a GVL");
    let me = this_thread();
    if OWNER.load(Relaxed) != me {
        while OWNER.compare_exchange(0, me, Acquire, Relaxed).is_err() {
            std::thread::yield_now();
        }
    }
    LEVEL.fetch_add(1, Relaxed) + 1
}

unsafe extern "C" fn vm_unlock(_level: c_uint) {
    if LEVEL.fetch_sub(1, Relaxed) == 1 {
        OWNER.store(0, Release);
    }
}

unsafe extern "C" fn thread_has_gvl() -> c_int {
    c_int::from(HAS_GVL.get())
}

unsafe extern "C" fn nothing() {}
unsafe extern "C" fn mark_roots(_: *mut c_void, _: *mut *const c_char) {}
unsafe extern "C" fn mark_children(_: *mut c_void, _: Value) {}
unsafe extern "C" fn shape_by_id(_: u32) -> *const u8 {
    unreachable!()
}
unsafe extern "C" fn proc_class() -> Value {
    unreachable!()
}
unsafe extern "C" fn of_object(_: Value) {}
unsafe extern "C" fn free_object(_: *mut c_void, _: Value) -> bool {
    true
}
unsafe extern "C" fn event_hook(_: Value, _: u32) {}
unsafe extern "C" fn several() -> bool {
    true
}
unsafe extern "C" fn none() -> usize {
    0
}
unsafe extern "C" fn optimal_size(_: Value) -> usize {
    40
}
unsafe extern "C" fn shape_in_width(_: Value, _: usize) -> u32 {
    0
}
unsafe extern "C" fn set_shape(_: Value, _: u32) {}
unsafe extern "C" fn move_variables(_: Value, _: Value) {}
unsafe extern "C" fn update_vm(_: *mut c_void) {}
unsafe extern "C" fn roots(
    _: unsafe extern "C" fn(*const c_char, Value, *mut c_void),
    _: *mut c_void,
) {
}
unsafe extern "C" fn reachable(
    _: Value,
    _: unsafe extern "C" fn(Value, *mut c_void),
    _: *mut c_void,
) {
}

unsafe extern "C" fn profile_frames(_: c_int, _: c_int, _: *mut Value, _: *mut c_int) -> c_int {
    0
}

const CALLS: RubyCalls = RubyCalls {
    mark_roots,
    mark_children,
    finish_marking: nothing,
    save_machine_context: nothing,
    shape_by_id,
    proc_class,
    free_weak_references: of_object,
    free_object,
    event_hook,
    vm_lock,
    vm_unlock,
    vm_lock_no_barrier: vm_lock,
    vm_unlock_no_barrier: vm_unlock,
    vm_barrier: nothing,
    multi_ractor: several,
    forget_called_methods: nothing,
    loaded_files: none,
    thread_has_gvl,
    optimal_size,
    shape_in_width,
    set_shape,
    move_generic_variables: move_variables,
    begin_updating: nothing,
    update_object: mark_children,
    update_vm,
    prepare_object: of_object,
    trigger_finalizers: nothing,
    profile_frames,
    name_samples_soon: nothing,
    reachable_from_roots: roots,
    reachable_from: reachable,
    memory_of: optimal_size,
};

fn start() {
    let options = Options::from_environment(|name| match name {
        "ASHLAR_MEMORY_LIMIT" => Some("64MiB".to_owned()),
        "ASHLAR_SLICE_US" => Some("100".to_owned()),
        _ => None,
    });
    let options = options.unwrap();
    let shared = statics::shared().unwrap();
    let ruby = Ruby::new(CALLS, RubyEvents::default());
    let heap = Heap::new(ruby, shared, options.heap.pace).unwrap();
    KNOBS.serve_from_heap(true);
    note_start();
    Objspace::new(Collector::new(heap, options)).begin();
}

// ── What the threads do ─────────────────────────────────────────────────────

/// Allocates, enlarges and frees small and large payloads. Each has the thread's own
/// byte at both ends.
fn use_payloads(seed: u8, rounds: usize) {
    let mut kept: Vec<(NonNull<u8>, usize)> = Vec::new();
    for round in 0..rounds {
        let size = match round % 50 {
            // Some do not fit below the limit; only their ends are touched.
            0 if round % 200 == 0 => 48 << 20,
            0 => (256 + round % 2000) << 10,
            n => 16 + n * 150,
        };
        // SAFETY: the cache is this thread's, and what is freed is used no more.
        unsafe {
            let first =
                NonNull::new(ashlar_xmalloc(OwnCache::now(), size, true).cast::<u8>()).unwrap();
            first.write(seed);
            let larger = ashlar_xrealloc(OwnCache::now(), first.as_ptr(), 2 * size, true);
            let larger = NonNull::new(larger.cast::<u8>()).unwrap();
            assert_eq!(larger.read(), seed);
            larger.add(2 * size - 1).write(seed);
            kept.push((larger, 2 * size));
            if kept.len() > 20 {
                let (payload, size) = kept.swap_remove(round % 20);
                assert_eq!((payload.read(), payload.add(size - 1).read()), (seed, seed));
                ashlar_xfree(OwnCache::now(), payload);
            }
        }
    }
    for (payload, _) in kept {
        // SAFETY: the payload was allocated above and is used no more.
        unsafe { ashlar_xfree(OwnCache::now(), payload) };
    }
}

/// Makes cells that die at once, and turns switches meanwhile.
fn use_cells(rounds: usize) {
    let gvl = Gvl::of_this_thread().unwrap();
    let mut cache = gvl.with_vm_lock(|collector| collector.heap.new_cache());
    for round in 0..rounds {
        gvl.with_vm_lock(|collector| {
            for _ in 0..200 {
                // SAFETY: the cache is this thread's, which has the lock.
                let cache = unsafe { cache.as_mut() };
                let urgency = Urgency::MustAllocate;
                match collector.heap.allocate(cache, 40, CellState::NEW, urgency) {
                    // SAFETY: a fresh cell has room for its flags.
                    Allocation::Allocated(cell) => unsafe {
                        (cell.address() as *mut Value).write(T_FLOAT);
                    },
                    outcome => panic!("{outcome:?}"),
                }
            }
        });
        KNOBS.disable(round % 10 == 0);
        KNOBS.trace_allocations(round % 2 == 0);
    }
    KNOBS.disable(false);
    // SAFETY: the cache is not used any more.
    gvl.with_vm_lock(|collector| unsafe { collector.heap.drop_cache(cache) });
}

#[test]
fn threads_with_and_without_a_gvl_share_payloads_below_a_limit_while_some_collect() {
    start();
    HAS_GVL.set(true);
    let gvl = Gvl::of_this_thread().unwrap();
    // Ruby collects at its start, before the program begins; this test does not.
    gvl.with_vm_lock(Collector::set_payloads_due);
    std::thread::scope(|scope| {
        for seed in 0..5 {
            scope.spawn(move || {
                HAS_GVL.set(seed < 3);
                use_payloads(seed, 4_000);
            });
        }
        scope.spawn(|| {
            HAS_GVL.set(true);
            use_cells(400);
        });
    });
    let stats = gvl.with_vm_lock(|collector| collector.heap.stats());
    assert!(stats.collections() > 0);
    assert_eq!(
        gvl.with_vm_lock(|collector| collector.heap.verify()),
        Ok(())
    );
}
