//! Fork: helper threads are ended before it, locks are held across it, and the child
//! gives up what belonged to threads that it does not have. All that a fork changes is here:
//!
//! | what a process has one of | in a child |
//! | --- | --- |
//! | helper threads | ended before the fork, started anew when needed |
//! | block allocator, payload pool, the tables' memory, list of caches, redirecting | locked across the fork |
//! | the heap profile: target, start, image, recorder | locked across the fork; begun anew ([`heap_profile::begin_in_child`]) |
//! | caches of other threads | their free pieces are given back |
//! | jobs that another thread was running, and who runs them | forgotten: this thread runs the rest |
//! | walks of other threads | ended, so that cells move again |
//! | CPU time of the process, which begins anew | those who compare it with an earlier one notice (`nursery_floor.rs`), or ask for it before and after a work in which nobody forks |
//! | collecting, moving, sweeping, the tracer, the length of a pause | as they are: Ruby forks with the VM lock and all Ractors stopped, in the middle of none of them. A child of another fork, without the VM lock, may have them in the middle for ever; it is for `exec` alone, and never collects |
//! | options, knobs, pacing, counters of collections | as they are |

use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ashlar_heap::{Frozen, Stopped};
use ashlar_wordmap::memory::SharedHeap;

use crate::heap_profile;
use crate::lock::held;
use crate::payloads::ThreadCache;
use crate::ruby_calls::Value;
use crate::statics::shared;
use crate::walk::end_walks_of_others;

/// Most caches that a child takes over; the pieces in further ones are lost to it.
const CACHES_MAX: usize = 4096;

struct Caches {
    all: [Option<NonNull<ThreadCache>>; CACHES_MAX],
    count: usize,
}

// SAFETY: the caches are only looked at in a forked child, where their threads
// do not exist.
unsafe impl Send for Caches {}

static CACHES: Mutex<Caches> = Mutex::new(Caches {
    all: [None; CACHES_MAX],
    count: 0,
});

fn caches() -> MutexGuard<'static, Caches> {
    CACHES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread got its cache.
pub(crate) fn register_cache(cache: NonNull<ThreadCache>) {
    let mut caches = caches();
    let count = caches.count;
    if count < CACHES_MAX {
        caches.all[count] = Some(cache);
        caches.count += 1;
    }
}

/// A thread gives up its cache.
pub(crate) fn forget_cache(cache: NonNull<ThreadCache>) {
    let mut caches = caches();
    let count = caches.count;
    if let Some(index) = caches.all[..count].iter().position(|c| *c == Some(cache)) {
        caches.all[index] = caches.all[count - 1];
        caches.count -= 1;
    }
}

/// What is locked while a fork is under way.
struct Held {
    _heap: Option<Frozen<'static>>,
    _caches: MutexGuard<'static, Caches>,
    _helpers: Option<Stopped<'static>>,
    _profile: heap_profile::Held,
}

/// The locks of the thread that forks.
struct HeldByForker(RefCell<Option<Held>>);

// SAFETY: several threads may fork at the same time, but this is used by the one that
// holds the locks that are in it: filled when all are taken, emptied before one is
// given back.
unsafe impl Sync for HeldByForker {}

static HELD: HeldByForker = HeldByForker(RefCell::new(None));

/// Before a fork: nothing may be in the middle of a change.
#[no_mangle]
extern "C" fn ashlar_before_fork() {
    // First of all: a marking that they share in may need the other locks.
    let helpers = shared().map(|shared| shared.stop_helpers());
    let caches = caches();
    let held = Held {
        _helpers: helpers,
        _heap: shared().map(|shared| shared.freeze()),
        _caches: caches,
        _profile: heap_profile::lock_for_fork(),
    };
    // The nodes of the collector's tables.
    SharedHeap.heap().lock_for_fork();
    *HELD.0.borrow_mut() = Some(held);
}

extern "C" {
    fn ashlar_current_thread_cache() -> *mut c_void;
}

/// After a fork, in the parent and in the child.
#[no_mangle]
extern "C" fn ashlar_after_fork(in_child: bool) {
    // Taken out first: another thread may fork as soon as the locks are free.
    let held = HELD.0.borrow_mut().take();
    // SAFETY: this thread, or the one it is the copy of, locked it before the fork.
    unsafe { SharedHeap.heap().unlock_after_fork() };
    drop(held);
    if in_child {
        heap_profile::begin_in_child();
        take_over_caches();
    }
}

/// A child of Ruby's own making begins, with `thread` and no other; `runner` is the place
/// of the one that runs jobs. What [`ashlar_after_fork`] did has been done.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_begin_child(objspace: *mut c_void, thread: Value, runner: *mut Value) {
    // SAFETY: the shim holds the VM lock, and passes the place of a value of its own.
    let (collector, runner) = unsafe { (held(objspace), &mut *runner) };
    end_walks_of_others(collector, thread);
    heap_profile::note_numbers_in_child(collector);
    if *runner != 0 && *runner != thread {
        *runner = 0;
        let ruby = &collector.heap.vm;
        let mut finalizers = ruby.finalizers.borrow_mut();
        finalizers.forget_running();
        if finalizers.waiting_jobs() > 0 {
            ruby.trigger_jobs();
        }
    }
}

/// Gives the pieces in the caches of the parent's other threads back to the heap.
fn take_over_caches() {
    // SAFETY: asks for this thread's own cache.
    let mine = NonNull::new(unsafe { ashlar_current_thread_cache() }.cast());
    let mut caches = caches();
    for index in 0..caches.count {
        let Some(mut cache) = caches.all[index].filter(|cache| Some(*cache) != mine) else {
            continue;
        };
        // SAFETY: its thread does not exist in this process. It may have been
        // stopped in the middle of a push or pop: its lists are whole at every
        // step, at worst a count is off by one and one piece is lost.
        unsafe { cache.as_mut().flush() };
    }
    caches.all[0] = mine;
    caches.count = usize::from(mine.is_some());
}
