//! The lock of a shard: one byte, held for some tens of instructions.

use core::hint;
use core::sync::atomic::{AtomicBool, Ordering};

/// Held by one thread at a time.
///
/// An exchange waits until all stores before it are done and lets no load after it begin,
/// which takes longer than most work that is done under these locks. While the process has one
/// thread, taking a lock is a load and a store instead: no thread can come between them.
pub(super) struct Lock {
    held: AtomicBool,
}

impl Lock {
    pub(super) const fn new() -> Lock {
        Lock {
            held: AtomicBool::new(false),
        }
    }

    #[inline(always)]
    pub(super) fn take(&self) {
        if is_only_thread() && !self.held.load(Ordering::Acquire) {
            // A thread that is started before the lock is free again finds it held.
            self.held.store(true, Ordering::Relaxed);
            return;
        }
        while self.held.swap(true, Ordering::Acquire) {
            self.wait();
        }
    }

    /// Releases the lock, which this thread holds.
    #[inline(always)]
    pub(super) fn free(&self) {
        self.held.store(false, Ordering::Release);
    }

    #[cold]
    fn wait(&self) {
        while self.held.load(Ordering::Relaxed) {
            hint::spin_loop();
        }
    }
}

/// Whether this is the process's only thread, as far as the C library says so: glibc does from
/// 2.32 on, and takes it back before a second thread begins.
#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    target_arch = "x86_64",
    not(miri)
))]
#[inline(always)]
fn is_only_thread() -> bool {
    let says_so: *const u8;
    // SAFETY: reads a word that the program's loader has filled with the address of the C
    // library's byte, or 0 if there is none.
    unsafe {
        core::arch::asm!(
            ".weak __libc_single_threaded",
            "mov {0}, qword ptr [rip + __libc_single_threaded@GOTPCREL]",
            out(reg) says_so,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    // SAFETY: the C library's byte exists as long as the program, and is written only while
    // there is one thread.
    !says_so.is_null() && unsafe { *says_so } != 0
}

#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    target_arch = "x86_64",
    not(miri)
)))]
#[inline(always)]
fn is_only_thread() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::UnsafeCell;
    use std::sync::Arc;
    use std::thread;

    struct Counter {
        lock: Lock,
        count: UnsafeCell<u64>,
    }

    // SAFETY: only the holder of the lock touches the count.
    unsafe impl Sync for Counter {}

    #[test]
    fn one_thread_at_a_time_holds_a_lock() {
        const TIMES: u64 = if cfg!(miri) { 50 } else { 100_000 };
        let counter = Arc::new(Counter {
            lock: Lock::new(),
            count: UnsafeCell::new(0),
        });
        let count = |counter: &Counter| {
            for _ in 0..TIMES {
                counter.lock.take();
                // SAFETY: this thread holds the lock.
                unsafe { *counter.count.get() += 1 };
                counter.lock.free();
            }
        };
        let threads: [_; 4] = core::array::from_fn(|_| {
            let counter = Arc::clone(&counter);
            thread::spawn(move || count(&counter))
        });
        for thread in threads {
            thread.join().unwrap();
        }
        // SAFETY: the other threads are done.
        assert_eq!(unsafe { *counter.count.get() }, 4 * TIMES);
    }

    /// The second thread may begin while the first, which was the only one, holds the lock.
    #[test]
    fn a_thread_started_under_a_lock_waits_for_it() {
        static LOCK: Lock = Lock::new();
        static IS_FREE: AtomicBool = AtomicBool::new(false);
        LOCK.take();
        let other = thread::spawn(|| {
            LOCK.take();
            let was_free = IS_FREE.load(Ordering::Relaxed);
            LOCK.free();
            was_free
        });
        thread::sleep(core::time::Duration::from_millis(if cfg!(miri) {
            0
        } else {
            20
        }));
        IS_FREE.store(true, Ordering::Relaxed);
        LOCK.free();
        assert!(other.join().unwrap(), "two held the lock at once");
    }
}
