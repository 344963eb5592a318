//! Collections: when one is due, what it is to be, and how long the program waits.

use std::time::Duration;

use ashlar_heap::driver::{Cause, Driver, Wanted, World, LARGE_PAYLOAD_BYTES};
use ashlar_heap::{Evacuation, Progress, Request, Scope, WorkBudget};

use crate::error;
use crate::heap::ProgramHeap;
use crate::thread::Thread;
use crate::vm::Vm;

/// The program, while a thread of it collects.
pub(crate) struct Program<'a> {
    heap: &'a ProgramHeap,
    /// The calling thread, which holds the program's lock.
    thread: *mut Thread,
}

impl World for Program<'_> {
    fn stopped(&self, work: impl FnOnce()) {
        assert!(
            !self.heap.heap.is_collecting(),
            "a callback of the collector must not allocate or collect"
        );
        self.heap.vm().current.set(self.thread);
        let pauses = self.heap.heap.pauses();
        // SAFETY: whoever made this has promised that the thread is the calling one and holds the
        // program's lock.
        pauses.during(|| unsafe { Thread::stopped(self.thread, work) });
        if let Some(wrong) = self.heap.vm().take_wrong_layout() {
            panic!("{wrong}");
        }
    }
}

impl ProgramHeap {
    /// What collects for `thread`.
    ///
    /// # Safety
    /// The thread is the calling one and holds the program's lock.
    pub(crate) unsafe fn driver(
        &self,
        thread: *mut Thread,
    ) -> Driver<'_, 'static, Vm, Program<'_>> {
        let (heap, world) = (&self.heap, Program { heap: self, thread });
        Driver { heap, world }
    }

    /// Collects before a payload of `bytes` is handed out, if that is due.
    ///
    /// # Safety
    /// The thread is the calling one and holds the program's lock.
    #[inline]
    pub(crate) unsafe fn collect_before_payload(&self, thread: *mut Thread, bytes: usize) {
        let is_large = bytes >= LARGE_PAYLOAD_BYTES;
        if (is_large || self.heap.collection_is_due()) && !self.is_disabled() {
            // SAFETY: the thread is the calling one, and holds the program's lock.
            unsafe { self.collect_for_payload(thread, bytes) };
        }
    }

    /// # Safety
    /// The thread is the calling one and holds the program's lock.
    #[cold]
    #[inline(never)]
    unsafe fn collect_for_payload(&self, thread: *mut Thread, bytes: usize) {
        // SAFETY: the thread is the calling one, and holds the program's lock.
        let driver = unsafe { self.driver(thread) };
        if bytes >= LARGE_PAYLOAD_BYTES && !self.heap.has_room_for(bytes) {
            driver.make_room(bytes, None);
        }
        if self.heap.collection_is_due() {
            driver.collect_due(Wanted {
                cause: Cause::Payloads,
                ..Wanted::default()
            });
        }
    }

    /// Runs `work`, which may sweep, for a call without a thread: dead cells are released on a
    /// thread of its own.
    pub(crate) fn with_some_thread(&self, work: impl FnOnce()) {
        let outer = self.vm().current.get();
        let mut own = Thread::new(self);
        self.vm().current.set(&raw mut own);
        work();
        self.vm().current.set(outer);
        // SAFETY: the thread is this function's.
        unsafe { Thread::give_up(&raw mut own) };
    }
}

/// The least that a step may take: a shorter one would do little but begin and end, and
/// might never get to the end of marking.
const STEP_US_MIN: u32 = 100;

/// `ashlar_what`.
const MINOR: u32 = 1;
const FULL: u32 = 2;
const COMPACT: u32 = 3;

#[no_mangle]
unsafe extern "C" fn ashlar_collect(thread: *mut Thread, what: u32) {
    // SAFETY: the program passes the calling thread, which holds the lock.
    let heap = unsafe { Thread::heap(thread) };
    let request = Request {
        scope: match what {
            MINOR => Some(Scope::Minor),
            FULL | COMPACT => Some(Scope::Full),
            _ => None,
        },
        sweep_now: matches!(what, FULL | COMPACT),
        compact: (what == COMPACT && heap.vm().moves()).then_some(Evacuation::Sparse),
    };
    // SAFETY: as above.
    unsafe { heap.driver(thread) }.collect(request);
}

#[no_mangle]
unsafe extern "C" fn ashlar_step(thread: *mut Thread, microseconds: u32) -> u32 {
    // SAFETY: the program passes the calling thread, which holds the lock.
    let heap = unsafe { Thread::heap(thread) };
    let mut work = match heap.options().has_barriers {
        true => WorkBudget::time(Duration::from_micros(microseconds.max(STEP_US_MIN).into())),
        false => WorkBudget::unlimited(),
    };
    let mut progress = Progress::Sweeping;
    let world = Program { heap, thread };
    world.stopped(|| progress = heap.heap.advance(None, &mut work));
    match progress {
        Progress::Sweeping => 0,
        Progress::Marking => 1,
        Progress::Marked(_) => 2,
    }
}

#[no_mangle]
unsafe extern "C" fn ashlar_poll(thread: *mut Thread) {
    // SAFETY: the program passes the calling thread, which holds the lock.
    unsafe { Thread::heap(thread).collect_before_payload(thread, 0) };
}

#[no_mangle]
unsafe extern "C" fn ashlar_verify(thread: *mut Thread) -> bool {
    // SAFETY: the program passes the calling thread, which holds the lock.
    let heap = unsafe { Thread::heap(thread) };
    heap.vm().current.set(thread);
    // SAFETY: as above.
    let verified = unsafe { Thread::stopped(thread, || heap.heap.verify()) };
    let wrong_layout = heap.vm().take_wrong_layout();
    // A wrong layout is the reason for what follows from it.
    match wrong_layout.map_or(verified, Err) {
        Ok(()) => true,
        Err(broken) => {
            error::note(broken);
            false
        }
    }
}
