//! Running collections: the program stopped, Ruby's events fired, the time counted.

use ashlar_heap::os::cpu_time_ns;
use ashlar_heap::{Progress, Request, Scope};

use super::clocks::Phase;
use super::plan::{Plan, Situation, Slice};
use super::record::Reason;
use super::trim;
use crate::collector::Collector;
use crate::heap_profile;
use crate::knobs::KNOBS;

/// A collection, or a slice of one, that pacing asked for.
pub(crate) fn paced(collector: &Collector, reason: Reason) {
    // The program may have been faster than the collector.
    collector.heap.note_resident();
    match Situation::of(collector).plan(reason) {
        Plan::AtOnce(request) => at_once(collector, request, reason),
        Plan::Slice { scope, slice } => {
            collector.stopped(|| run_slice(collector, scope, slice, reason))
        }
    }
}

/// A collection before a payload of `size` that would not fit below the memory
/// limit.
pub(crate) fn make_room(collector: &Collector, size: usize) {
    // A heap that has just been collected is not collected again.
    let is_worth_it = collector.heap.fresh_bytes() > size / 4;
    if !is_worth_it || !collector.has_objects() {
        return;
    }
    let request = Request {
        scope: Some(Scope::Full),
        sweep_now: true,
        compact: collector.auto_compaction(),
    };
    at_once(collector, request, Reason::Malloc);
    let room_bytes = collector.heap.room_below_limit_bytes();
    if room_bytes.is_some_and(|room_bytes| room_bytes < size) {
        collector.heap.release_empty_blocks();
        collector.set_payload_budget();
    }
}

/// When memory is out: a full collection, everything swept. False when that
/// cannot be done now.
pub(crate) fn last_resort(collector: &Collector) -> bool {
    if collector.heap.is_collecting() || !collector.has_objects() {
        return false;
    }
    let request = Request {
        scope: Some(Scope::Full),
        sweep_now: true,
        compact: None,
    };
    at_once(collector, request, Reason::Malloc);
    true
}

/// Collects at once.
pub(crate) fn at_once(collector: &Collector, request: Request, reason: Reason) {
    collector.stopped(|| run(collector, request, reason));
}

impl Collector {
    /// Runs `work` with the program stopped and its stack known, unless the collector is
    /// at work.
    pub(super) fn stopped(&self, work: impl FnOnce()) {
        if self.heap.is_collecting() {
            return;
        }
        self.stop_ractors();
        // Here, because the frames between here and the marking have room for words that
        // calls before them have left, and those would keep garbage.
        // SAFETY: this thread's registers and stack are roots.
        unsafe { (self.calls().save_machine_context)() };
        let events = self.heap.vm().events;
        self.pauses.during(|| {
            self.fire(events.gc_enter);
            work();
            self.set_payload_budget();
            self.fire(events.gc_exit);
        });
    }

    /// Runs `work`, which may sweep, and counts its time if there was anything
    /// to sweep.
    #[inline]
    pub(crate) fn sweeping<R>(&self, work: impl FnOnce() -> R) -> R {
        if !self.heap.is_sweeping() {
            return work();
        }
        // Objects are freed with all Ractors stopped.
        self.stop_ractors();
        let result = self.pauses.during(|| self.timed(Phase::Sweep, work));
        if !self.heap.is_sweeping() {
            self.swept();
        }
        result
    }

    fn swept(&self) {
        self.warn_when_over_limit();
        self.profile.describe(self, self.latest_collection());
        heap_profile::swept();
        let asked_for = self.latest.get().begun.reason == Reason::Method;
        heap_profile::note_numbers(self, asked_for);
        self.fire(self.heap.vm().events.gc_end_sweep);
    }
}

fn run(collector: &Collector, request: Request, reason: Reason) {
    finish(collector, reason);
    begin(collector, request.scope, reason);
    // A compaction sweeps before it is over.
    let jobs_before = collector.jobs_so_far();
    let mut scope = Scope::Full;
    mark(collector, reason, || {
        scope = collector.heap.collect(Request {
            sweep_now: false,
            ..request
        });
        Some(scope)
    });
    marked(collector, scope, request.sweep_now, jobs_before);
    if request.sweep_now || !collector.heap.is_sweeping() {
        collector.timed(Phase::Sweep, || collector.heap.finish_sweep());
        collector.swept();
    }
}

fn run_slice(collector: &Collector, scope: Option<Scope>, slice: Slice, reason: Reason) {
    let heap = &collector.heap;
    let mut work = slice.work_budget();
    if !heap.is_marking() {
        let is_swept = collector.sweeping(|| heap.sweep_slice(&mut work));
        let is_wanted = heap.collection_is_due() || heap.stress().slice_cells > 0;
        if !is_swept || !is_wanted {
            return;
        }
        begin(collector, scope, reason);
    }
    let marked_scope = mark(collector, reason, || match heap.advance(scope, &mut work) {
        Progress::Marked(scope) => Some(scope),
        Progress::Marking | Progress::Sweeping => None,
    });
    if let Some(scope) = marked_scope {
        marked(collector, scope, false, collector.jobs_so_far());
        // When payloads are what fills the heap, new cells alone would sweep too
        // late.
        if collector.latest.get().begun.reason == Reason::Malloc {
            heap.sweep_in_slices();
        }
    }
}

/// Ends the collection in progress, marking and sweeping, for this reason.
pub(super) fn finish(collector: &Collector, reason: Reason) {
    let heap = &collector.heap;
    if heap.is_marking() {
        let jobs_before = collector.jobs_so_far();
        if let Some(scope) = mark(collector, reason, || heap.finish_marking()) {
            marked(collector, scope, false, jobs_before);
        }
    }
    collector.sweeping(|| heap.finish_sweep());
}

fn begin(collector: &Collector, asked: Option<Scope>, reason: Reason) {
    collector.fire(collector.heap.vm().events.gc_start);
    collector.note_begun(reason, asked);
    collector.profile.begin(collector, cpu_time_ns);
}

/// Runs `work`, which marks; the scope when the marking is over. The program is stopped
/// ([`Collector::stopped`]).
fn mark(
    collector: &Collector,
    reason: Reason,
    work: impl FnOnce() -> Option<Scope>,
) -> Option<Scope> {
    KNOBS.count_marking();
    collector.timed(Phase::Mark, || {
        if reason.may_come_before_a_store() {
            collector.heap.between_barrier_and_store(work)
        } else {
            work()
        }
    })
}

/// Marking is over.
fn marked(collector: &Collector, scope: Scope, sweep_now: bool, jobs_before: usize) {
    collector.note_marked(scope, sweep_now, jobs_before);
    heap_profile::count_collection();
    collector
        .profile
        .describe(collector, collector.latest_collection());
    heap_profile::note_numbers(collector, false);
    trim::after_loading(collector);
    collector.fire(collector.heap.vm().events.gc_end_mark);
}
