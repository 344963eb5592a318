//! Collections as the program meets them: Ractors stopped, events fired, time counted.

use std::cell::Cell as StdCell;

use ashlar_heap::driver::{Driver, World};
use ashlar_heap::os::cpu_time_ns;
use ashlar_heap::Scope;

use super::clocks::Phase;
use super::record::Reason;
use super::trim;
use crate::collector::Collector;
use crate::heap_profile;
use crate::knobs::KNOBS;
use crate::object_model::Ruby;

impl Collector {
    /// What collects, for this reason.
    pub(crate) fn driver(&self, reason: Reason) -> Driver<'_, 'static, Ruby, Program<'_>> {
        let world = Program {
            collector: self,
            reason,
            jobs_before: StdCell::default(),
        };
        let heap = &self.heap;
        Driver { heap, world }
    }

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
        self.heap.pauses().during(|| {
            self.fire(events.gc_enter);
            work();
            self.set_payload_budget();
            self.fire(events.gc_exit);
        });
    }

    /// Runs `work`, which may sweep, and counts its time if there was anything
    /// to sweep.
    #[inline]
    pub(super) fn sweeping<R>(&self, work: impl FnOnce() -> R) -> R {
        if !self.heap.is_sweeping() {
            return work();
        }
        // Objects are freed with all Ractors stopped.
        self.stop_ractors();
        let pauses = self.heap.pauses();
        let result = pauses.during(|| self.timed(Phase::Sweep, work));
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

/// A Ruby program, while it is collected for this reason.
pub(crate) struct Program<'a> {
    collector: &'a Collector,
    reason: Reason,
    /// Jobs ever queued before the latest marking, and so before this collection freed anything.
    jobs_before: StdCell<usize>,
}

impl World for Program<'_> {
    fn stopped(&self, work: impl FnOnce()) {
        self.collector.stopped(work);
    }

    fn begins(&self, asked: Option<Scope>) {
        let collector = self.collector;
        collector.fire(collector.heap.vm().events.gc_start);
        collector.note_begun(self.reason, asked);
        collector.profile.begin(collector, cpu_time_ns);
    }

    fn marking<R>(&self, work: impl FnOnce() -> R) -> R {
        let collector = self.collector;
        KNOBS.count_marking();
        self.jobs_before.set(collector.jobs_so_far());
        collector.timed(Phase::Mark, || {
            if self.reason.may_come_before_a_store() {
                collector.heap.between_barrier_and_store(work)
            } else {
                work()
            }
        })
    }

    fn marked(&self, scope: Scope, sweep_now: bool) {
        let collector = self.collector;
        collector.note_marked(scope, sweep_now, self.jobs_before.get());
        heap_profile::count_collection();
        let collection = collector.latest_collection();
        collector.profile.describe(collector, collection);
        heap_profile::note_numbers(collector, false);
        trim::after_loading(collector);
        collector.fire(collector.heap.vm().events.gc_end_mark);
    }

    #[inline]
    fn sweeping<R>(&self, work: impl FnOnce() -> R) -> R {
        self.collector.sweeping(work)
    }

    fn swept(&self) {
        self.collector.swept();
    }
}
