//! Collections: when one is due, what it is to be, and how long the program waits.

use std::time::{Duration, Instant};

use ashlar_heap::{Evacuation, Progress, Request, Scope, WorkBudget};

use crate::error;
use crate::heap::Heap;
use crate::thread::Thread;

/// What wants memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Cells,
    /// New cells alone would make the sweeper run too late.
    Payloads,
}

/// How long the program has waited for collections and slices of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pauses {
    pub(crate) count: u64,
    pub(crate) total: Duration,
    pub(crate) longest: Duration,
}

/// What [`Heap::collect_if_due`] does.
enum Plan {
    AtOnce(Request),
    Slice(WorkBudget),
}

impl Heap {
    /// Runs `work`, which collects, on a thread of the program, and counts its time.
    ///
    /// # Safety
    /// The thread is the calling one and holds the program's lock.
    unsafe fn pause<R>(&self, thread: *mut Thread, work: impl FnOnce() -> R) -> R {
        assert!(
            !self.heap.is_collecting(),
            "a callback of the collector must not allocate or collect"
        );
        self.vm().current.set(thread);
        let start = Instant::now();
        // SAFETY: the caller's contract.
        let result = unsafe { Thread::stopped(thread, work) };
        let length = start.elapsed();
        if let Some(wrong) = self.vm().take_wrong_layout() {
            panic!("{wrong}");
        }
        let pauses = self.pauses.get();
        self.pauses.set(Pauses {
            count: pauses.count + 1,
            total: pauses.total + length,
            longest: pauses.longest.max(length),
        });
        result
    }

    fn plan(&self, cause: Cause) -> Plan {
        let options = self.options().heap;
        let stress = options.stress;
        let is_short_of_room = self.heap.pace().is_short_of_room();
        let at_once = Plan::AtOnce(Request {
            scope: None,
            sweep_now: cause == Cause::Payloads || is_short_of_room,
            compact: None,
        });
        match options.slice() {
            _ if stress.move_everything => at_once,
            _ if stress.slice_cells > 0 => Plan::Slice(WorkBudget::cells(stress.slice_cells)),
            Some(time) if stress.collect_every == 0 && !is_short_of_room => {
                Plan::Slice(WorkBudget::time(time))
            }
            _ => at_once,
        }
    }

    /// A collection, or a slice of one, that pacing asked for.
    ///
    /// # Safety
    /// The thread is the calling one and holds the program's lock.
    pub(crate) unsafe fn collect_if_due(&self, thread: *mut Thread, cause: Cause) {
        let work = || {
            // The program may have been faster than the collector.
            self.heap.note_resident();
            match self.plan(cause) {
                Plan::AtOnce(request) => {
                    self.heap.collect(request);
                }
                Plan::Slice(mut work) => self.slice(&mut work, cause),
            }
        };
        // SAFETY: the caller's contract.
        unsafe { self.pause(thread, work) };
    }

    fn slice(&self, work: &mut WorkBudget, cause: Cause) {
        if !self.heap.is_marking() {
            let is_swept = self.heap.sweep_slice(work);
            let is_wanted =
                self.heap.collection_is_due() || self.options().heap.stress.slice_cells > 0;
            if !is_swept || !is_wanted {
                return;
            }
        }
        let progress = self.heap.advance(None, work);
        if matches!(progress, Progress::Marked(_)) && cause == Cause::Payloads {
            self.heap.sweep_in_slices();
        }
    }

    /// Everything that is dead is freed, because memory is out.
    ///
    /// # Safety
    /// The thread is the calling one and holds the program's lock.
    pub(crate) unsafe fn last_resort(&self, thread: *mut Thread) {
        let request = Request {
            scope: Some(Scope::Full),
            sweep_now: true,
            compact: None,
        };
        // SAFETY: the caller's contract.
        unsafe { self.pause(thread, || self.heap.collect(request)) };
    }

    /// Runs `work`, which may sweep, outside any call that a thread made.
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
    unsafe { heap.pause(thread, || heap.heap.collect(request)) };
}

#[no_mangle]
unsafe extern "C" fn ashlar_step(thread: *mut Thread, microseconds: u32) -> u32 {
    // SAFETY: the program passes the calling thread, which holds the lock.
    let heap = unsafe { Thread::heap(thread) };
    let mut work = match heap.options().has_barriers {
        true => WorkBudget::time(Duration::from_micros(microseconds.max(STEP_US_MIN).into())),
        false => WorkBudget::unlimited(),
    };
    // SAFETY: as above.
    match unsafe { heap.pause(thread, || heap.heap.advance(None, &mut work)) } {
        Progress::Sweeping => 0,
        Progress::Marking => 1,
        Progress::Marked(_) => 2,
    }
}

#[no_mangle]
unsafe extern "C" fn ashlar_poll(thread: *mut Thread) {
    // SAFETY: the program passes the calling thread, which holds the lock.
    let heap = unsafe { Thread::heap(thread) };
    if heap.heap.collection_is_due() && !heap.is_disabled() {
        // SAFETY: as above.
        unsafe { heap.collect_if_due(thread, Cause::Payloads) };
    }
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
