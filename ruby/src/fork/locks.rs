//! The locks that a thread holds while it forks.

use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ashlar_heap::Frozen;

use crate::heap_profile::file;
use crate::payloads::thread_caches::{self, ThreadCaches};
use crate::statics::shared;
use crate::table_memory::TableMemory;

/// What is locked while a fork is under way.
struct Held {
    _heap: Option<Frozen<'static>>,
    _caches: MutexGuard<'static, ThreadCaches>,
    _profile: file::HeldProfile,
}

/// Taken before all other locks, and kept until the fork is over. So no second thread that
/// forks gets the other locks while they are free for a moment ([`unlocked`]). If it did, it
/// would hold them and wait for what a function of the program has locked, while that
/// function waits for them.
static FORKING: Mutex<()> = Mutex::new(());

/// The locks that the forking thread holds.
struct HeldByForker {
    forking: RefCell<Option<MutexGuard<'static, ()>>>,
    others: RefCell<Option<Held>>,
}

// SAFETY: several threads may fork at the same time, but only the thread that has locked
// `FORKING` uses this: it fills it after that, and empties it before it unlocks `FORKING`.
unsafe impl Sync for HeldByForker {}

static HELD: HeldByForker = HeldByForker {
    forking: RefCell::new(None),
    others: RefCell::new(None),
};

/// Called before a fork: takes the locks, so that nothing is in the middle of a change.
#[no_mangle]
extern "C" fn ashlar_before_fork() {
    let forking = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
    *HELD.forking.borrow_mut() = Some(forking);
    lock();
}

fn lock() {
    // The helpers first: a marking that they take part in may need the other locks.
    let helpers = shared().map(|shared| (shared, shared.stop_helpers()));
    let mut caches = thread_caches::lock();
    // So that the child finds nothing of the parent's to allocate from.
    caches.flush_own_and_shared();
    let held = Held {
        _heap: helpers.map(|(shared, helpers)| shared.freeze(helpers)),
        _caches: caches,
        _profile: file::lock_for_fork(),
    };
    // The lock of the collector's own tables.
    TableMemory.heap().lock_for_fork();
    *HELD.others.borrow_mut() = Some(held);
}

pub(super) fn unlock() {
    let held = HELD.others.borrow_mut().take();
    // SAFETY: this thread locked it before the fork, or is the copy of the thread that did.
    unsafe { TableMemory.heap().unlock_after_fork() };
    drop(held);
}

/// Lets other threads fork, once this fork is over.
pub(super) fn let_others_fork() {
    // Taken out first: another thread may fork as soon as the lock is free.
    let forking = HELD.forking.borrow_mut().take();
    drop(forking);
}

/// Runs `work` with the locks free, for a function of the program that is called at a fork
/// while the forking thread holds them. The locks are taken again before the fork itself
/// comes.
pub(crate) fn unlocked<R>(work: impl FnOnce() -> R) -> R {
    unlock();
    let result = work();
    lock();
    result
}
