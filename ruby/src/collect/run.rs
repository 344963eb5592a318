//! Collections as the program meets them: Ractors stopped, events fired, time counted.

use std::cell::Cell as StdCell;

use ashlar_heap::driver::{Driver, World};
use ashlar_heap::os::cpu_time_ns;
use ashlar_heap::Scope;

use super::clocks::Phase;
use super::record::{Collection, Latest, Reason};
use crate::collector::Collector;
use crate::heap_profile::{self, samples};
use crate::knobs::KNOBS;
use crate::object_model::Ruby;

impl Collector {
    /// The driver that runs collections for this reason.
    pub(crate) fn driver(&self, reason: Reason) -> Driver<'_, 'static, Ruby, Program<'_>> {
        let world = Program {
            collector: self,
            reason,
            jobs_before: StdCell::default(),
        };
        let heap = &self.heap;
        Driver { heap, world }
    }

    /// Makes room for what payloads have grown by when they were resized.
    pub(crate) fn make_owed_room(&self) {
        let bytes = KNOBS.take_owed_room();
        if bytes > 0 && KNOBS.full_marking_allowed.is_on() {
            let driver = self.driver(Reason::Malloc);
            driver.make_room_for_handed(bytes, self.auto_compaction());
            self.set_payloads_due();
        }
    }

    /// Runs `work` with the program stopped and its stack saved; does nothing while the
    /// collector is at work or a hook of its events runs.
    pub(super) fn stopped(&self, work: impl FnOnce()) {
        if self.heap.is_collecting() || self.runs_hooks() {
            return;
        }
        self.stop_ractors();
        // The stack is saved here, because the frames between here and the marking may contain
        // words that earlier calls have left, and those words would keep garbage alive.
        // SAFETY: this thread's registers and stack are roots.
        unsafe { (self.calls().save_machine_context)() };
        self.paused(|| {
            work();
            self.set_payloads_due();
        });
    }

    /// Runs `work`, which the program waits for. Ruby hears when it begins and ends, unless it is a part of such work.
    #[inline]
    fn paused<R>(&self, work: impl FnOnce() -> R) -> R {
        let pauses = self.heap.pauses();
        if pauses.is_within() {
            return work();
        }
        let events = self.heap.vm().events;
        pauses.during(|| {
            self.fire(events.gc_enter);
            let result = work();
            self.fire(events.gc_exit);
            result
        })
    }

    /// Returns the latest collection as it is now.
    pub(super) fn latest_collection(&self) -> Collection {
        let latest = self.latest.get();
        latest.collection(self.jobs_so_far(), || self.scope_so_far(latest.asked))
    }

    /// Returns the scope of the collection in progress, of which `asked` was asked for. The heap decides it after
    /// GC_START has been fired.
    fn scope_so_far(&self, asked: Option<Scope>) -> Scope {
        let known = self.heap.marking_scope().or(asked);
        known.unwrap_or_else(|| self.heap.next_scope())
    }

    /// Returns how many finalizer jobs were ever queued.
    fn jobs_so_far(&self) -> usize {
        self.heap.vm().finalizers.borrow().jobs_so_far()
    }

    /// Runs `work`, which may sweep. Stops the Ractors and counts the time if there is anything
    /// to sweep.
    #[inline]
    pub(super) fn sweeping<R>(&self, work: impl FnOnce() -> R) -> R {
        if !self.heap.is_sweeping() {
            return work();
        }
        // Objects are freed with all Ractors stopped.
        self.stop_ractors();
        self.paused(|| {
            let result = self.timed(Phase::Sweep, work);
            if !self.heap.is_sweeping() {
                self.swept();
            }
            result
        })
    }

    /// Frees what waits to be swept.
    pub(crate) fn finish_sweep(&self) {
        self.sweeping(|| self.heap.finish_sweep());
    }

    /// Ruby's table of what methods were called from C keeps the classes of the objects. The calls fill it again.
    fn forget_called_methods(&self) {
        // SAFETY: the caller has the VM lock, and Ruby empties the table at any time itself.
        unsafe { (self.calls().forget_called_methods)() }
    }

    fn swept(&self) {
        self.warn_when_over_limit();
        self.profiler.describe(&self.heap, self.latest_collection());
        samples::swept();
        let asked_for = self.latest.get().reason == Reason::Method;
        heap_profile::note_numbers(self, asked_for);
        self.fire(self.heap.vm().events.gc_end_sweep);
    }
}

/// A Ruby program during a collection for this reason.
pub(crate) struct Program<'a> {
    collector: &'a Collector,
    reason: Reason,
    /// Finalizer jobs ever queued before the latest marking, and so before this collection freed
    /// anything.
    jobs_before: StdCell<usize>,
}

impl World for Program<'_> {
    fn stopped(&self, work: impl FnOnce()) {
        self.collector.stopped(work);
    }

    fn has_other_threads(&self) -> bool {
        // SAFETY: may be asked at any time.
        unsafe { (self.collector.calls().multi_ractor)() }
    }

    /// Ruby disables the collector where objects must not be looked at.
    fn may_collect(&self) -> bool {
        !KNOBS.disabled.is_on()
    }

    fn begins(&self, asked: Option<Scope>) {
        let collector = self.collector;
        if matches!(asked, Some(Scope::Major | Scope::Full)) {
            collector.forget_called_methods();
        }
        collector.latest.set(Latest::begin(self.reason, asked));
        collector.fire(collector.heap.vm().events.gc_start);
        collector.profiler.begin(&collector.heap, cpu_time_ns);
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
        if scope != Scope::Minor {
            collector.forget_called_methods();
        }
        let weak = collector.heap.vm().weak.get();
        let jobs_before = self.jobs_before.get();
        let latest = collector.latest.get();
        collector
            .latest
            .set(latest.marked(scope, sweep_now, weak, jobs_before));
        heap_profile::count_collection();
        let collection = collector.latest_collection();
        collector.profiler.describe(&collector.heap, collection);
        heap_profile::note_numbers(collector, false);
        let trimming = &collector.trimming;
        if trimming.is_due(collector.heap.vm().loaded_files()) {
            collector.timed(Phase::Sweep, || trimming.trim(&collector.heap));
        }
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
