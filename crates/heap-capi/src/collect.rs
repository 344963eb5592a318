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
    thread: &'a Thread,
}

impl World for Program<'_> {
    fn stopped(&self, work: impl FnOnce()) {
        self.heap.assert_at_rest();
        let vm = self.heap.vm();
        vm.current.set(self.thread);
        let pauses = self.heap.heap.pauses();
        pauses.during(|| vm.without_cells(|| self.thread.stopped(work)));
        if let Some(wrong) = vm.take_wrong_layout() {
            panic!("{wrong}");
        }
    }

    fn sweeping<R>(&self, work: impl FnOnce() -> R) -> R {
        let heap = &self.heap.heap;
        match heap.is_sweeping() {
            true => heap.pauses().during(work),
            false => work(),
        }
    }

    fn may_collect(&self) -> bool {
        !self.heap.is_disabled()
    }
}

impl ProgramHeap {
    /// What collects for `thread`.
    pub(crate) fn driver<'a>(&'a self, thread: &'a Thread) -> Driver<'a, 'static, Vm, Program<'a>> {
        let (heap, world) = (&self.heap, Program { heap: self, thread });
        Driver { heap, world }
    }

    /// Collects before a payload of `bytes` is handed out, if that is due.
    #[inline]
    pub(crate) fn collect_before_payload(&self, thread: &Thread, bytes: usize) {
        let is_large = bytes >= LARGE_PAYLOAD_BYTES;
        if (is_large || self.heap.collection_is_due()) && !self.is_disabled() {
            self.collect_for_payload(thread, bytes);
        }
    }

    #[cold]
    #[inline(never)]
    fn collect_for_payload(&self, thread: &Thread, bytes: usize) {
        let driver = self.driver(thread);
        if bytes >= LARGE_PAYLOAD_BYTES {
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
        let own = Thread::new(self);
        self.vm().current.set(&own);
        work();
        self.vm().current.set(outer);
        // SAFETY: the thread is this function's.
        unsafe { own.give_up() };
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
extern "C" fn ashlar_collect(thread: &Thread, what: u32) {
    let heap = thread.heap();
    let request = Request {
        scope: match what {
            MINOR => Some(Scope::Minor),
            FULL | COMPACT => Some(Scope::Full),
            _ => None,
        },
        sweep_now: matches!(what, FULL | COMPACT),
        compact: (what == COMPACT && heap.vm().moves()).then_some(Evacuation::Sparse),
        settle_all: false,
    };
    heap.driver(thread).collect(request);
}

#[no_mangle]
extern "C" fn ashlar_step(thread: &Thread, microseconds: u32) -> u32 {
    let heap = thread.heap();
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
extern "C" fn ashlar_poll(thread: &Thread) {
    thread.heap().collect_before_payload(thread, 0);
}

#[no_mangle]
extern "C" fn ashlar_verify(thread: &Thread) -> bool {
    let heap = thread.heap();
    heap.vm().current.set(thread);
    let verified = thread.stopped(|| heap.heap.verify());
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
