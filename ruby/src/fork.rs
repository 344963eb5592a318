//! Fork: helper threads are ended before it, locks are held across it, and the child
//! gives up what belonged to threads that it does not have. All that a fork changes is here:
//!
//! | what a process has one of | in a child |
//! | --- | --- |
//! | helper threads | ended before the fork, started anew when needed |
//! | forking itself | one thread at a time, from the first lock to the last; that one may fork again in the middle |
//! | block allocator, payload pool, the tables' memory, list of caches | locked across the fork |
//! | the heap profile: target, start, image, recorder | locked across the fork; begun anew ([`heap_profile::begin_in_child`]) |
//! | caches of other threads | they are given back, with their free pieces |
//! | jobs that another thread was running, and who runs them | forgotten: this thread runs the rest |
//! | walks of other threads | ended, so that cells move again |
//! | CPU time of the process, which begins anew | those who compare it with an earlier one notice (`pace/rent.rs`), or ask for it before and after a work in which nobody forks |
//! | collecting, moving, sweeping, the tracer, the length of a pause | as they are: Ruby forks with the VM lock and all Ractors stopped, in the middle of none of them. A child of another fork, without the VM lock, may have them in the middle for ever; it is for `exec` alone, and never collects |
//! | free cells and free pieces of the parent's blocks | left alone, because their pages are shared ([`ashlar_heap::Heap::inherit`]); the thread that forks gives back what its cache has before |
//! | options, knobs, pacing, counters of collections | as they are |

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ashlar_heap::Frozen;

use crate::heap_profile;
use crate::lock::held;
use crate::payloads::thread_caches::{self, ThreadCaches};
use crate::ruby_calls::Value;
use crate::statics::shared;
use crate::table_memory::TableMemory;
use crate::walk::end_walks_of_others;

/// What is locked while a fork is under way.
struct Held {
    _heap: Option<Frozen<'static>>,
    _caches: MutexGuard<'static, ThreadCaches>,
    _profile: heap_profile::Held,
}

/// Taken before all other locks, and kept until the fork is over. So no second thread that
/// forks gets the others while they are free for a moment ([`unlocked`]): with them it would
/// wait for what a function of the program's has locked, and that function for the others.
static FORKING: Mutex<()> = Mutex::new(());

/// The locks of the thread that forks.
struct HeldByForker {
    forking: RefCell<Option<MutexGuard<'static, ()>>>,
    others: RefCell<Option<Held>>,
}

// SAFETY: several threads may fork at the same time, but this is used by the one that
// has locked `FORKING`: filled after that, emptied before it is given back.
unsafe impl Sync for HeldByForker {}

static HELD: HeldByForker = HeldByForker {
    forking: RefCell::new(None),
    others: RefCell::new(None),
};

/// Before a fork: nothing may be in the middle of a change.
#[no_mangle]
extern "C" fn ashlar_before_fork() {
    let forking = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
    *HELD.forking.borrow_mut() = Some(forking);
    lock();
}

fn lock() {
    // First of all: a marking that they share in may need the other locks.
    let helpers = shared().map(|shared| (shared, shared.stop_helpers()));
    let mut caches = thread_caches::lock();
    // So the child finds nothing of the parent's to allocate from.
    caches.flush_own();
    let held = Held {
        _heap: helpers.map(|(shared, helpers)| shared.freeze(helpers)),
        _caches: caches,
        _profile: heap_profile::lock_for_fork(),
    };
    // The nodes of the collector's tables.
    TableMemory.heap().lock_for_fork();
    *HELD.others.borrow_mut() = Some(held);
}

/// After a fork, in the parent and in the child.
#[no_mangle]
extern "C" fn ashlar_after_fork(in_child: bool) {
    unlock();
    if in_child {
        forget_what_parent_had();
    }
    // Taken out first: another thread may fork as soon as this is free.
    let forking = HELD.forking.borrow_mut().take();
    drop(forking);
}

/// In the child of a fork in the middle of another one of the same thread, by a function of
/// the program's that is called then. The locks stay with the other one, which may go on here.
#[no_mangle]
extern "C" fn ashlar_after_fork_in_fork() {
    unlocked(forget_what_parent_had);
}

fn forget_what_parent_had() {
    heap_profile::begin_in_child();
    thread_caches::lock().keep_own_in_child();
}

fn unlock() {
    let held = HELD.others.borrow_mut().take();
    // SAFETY: this thread, or the one it is the copy of, locked it before the fork.
    unsafe { TableMemory.heap().unlock_after_fork() };
    drop(held);
}

/// Runs `work` with the locks free, for a function of the program's that is called at a fork
/// while the forking thread has them. When the fork itself comes, they are locked again.
pub(crate) fn unlocked<R>(work: impl FnOnce() -> R) -> R {
    unlock();
    let result = work();
    lock();
    result
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
    collector.heap.inherit();
    thread_caches::lock().flush_own_and_shared();
    heap_profile::note_numbers_in_child(collector);
    if *runner != 0 && *runner != thread {
        *runner = 0;
        let ruby = &collector.heap.vm();
        let mut finalizers = ruby.finalizers.borrow_mut();
        finalizers.forget_running();
        if finalizers.waiting_jobs() > 0 {
            ruby.trigger_jobs();
        }
    }
}
