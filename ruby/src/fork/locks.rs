//! The locks that a thread has while it forks.

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
        _profile: file::lock_for_fork(),
    };
    // The nodes of the collector's tables.
    TableMemory.heap().lock_for_fork();
    *HELD.others.borrow_mut() = Some(held);
}

pub(super) fn unlock() {
    let held = HELD.others.borrow_mut().take();
    // SAFETY: this thread, or the one it is the copy of, locked it before the fork.
    unsafe { TableMemory.heap().unlock_after_fork() };
    drop(held);
}

/// The fork is over.
pub(super) fn let_others_fork() {
    // Taken out first: another thread may fork as soon as this is free.
    let forking = HELD.forking.borrow_mut().take();
    drop(forking);
}

/// Runs `work` with the locks free, for a function of the program's that is called at a fork
/// while the forking thread has them. When the fork itself comes, they are locked again.
pub(crate) fn unlocked<R>(work: impl FnOnce() -> R) -> R {
    unlock();
    let result = work();
    lock();
    result
}
