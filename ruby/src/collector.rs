//! The collector of a process: everything that the VM lock guards.

use std::cell::Cell as StdCell;

use ashlar_heap::os::{cpu_time_ns, cpu_time_since_ns};
use ashlar_heap::{Evacuation, Heap};

use crate::binary_forms::BinaryForms;
use crate::collect::{Latest, Phase, Trimming};
use crate::knobs::KNOBS;
use crate::message;
use crate::object_model::Ruby;
use crate::options::Options;
use crate::profiler::Profiler;
use crate::ruby_calls::RubyCalls;
use crate::walk::Walks;

/// The heap, and what is known about its collections.
///
/// Ruby's functions are called while the collector is in use, and call back into it: no
/// borrow of a part of it may last while Ruby is called.
pub(crate) struct Collector {
    pub(crate) heap: Heap<'static, Ruby>,
    pub(crate) profiler: Profiler,
    pub(crate) latest: StdCell<Latest>,
    /// What the environment or `GC.config` asked for.
    pub(crate) options: StdCell<Options>,
    /// Whether the warning that live data does not fit into the limit has been printed.
    warned_of_limit: StdCell<bool>,
    /// Whether Ruby runs the hooks of one of the collector's events.
    runs_hooks: StdCell<bool>,
    pub(crate) trimming: Trimming,
    pub(crate) walks: Walks,
    pub(crate) binary_forms: BinaryForms,
}

impl Collector {
    pub(crate) fn new(heap: Heap<'static, Ruby>, options: Options) -> Self {
        heap.set_stress(options.heap.stress);
        let collector = Self {
            heap,
            profiler: Profiler::default(),
            latest: StdCell::default(),
            options: StdCell::new(options),
            warned_of_limit: StdCell::new(false),
            runs_hooks: StdCell::new(false),
            trimming: Trimming::new(),
            walks: Walks::default(),
            binary_forms: BinaryForms::default(),
        };
        collector.apply(options);
        collector
    }

    /// Applies all options but stress, refusals and those of the profile.
    pub(crate) fn apply(&self, options: Options) {
        self.options.set(options);
        options.of_heap().apply(&self.heap);
    }

    pub(crate) fn calls(&self) -> &RubyCalls {
        &self.heap.vm().calls
    }

    /// Stops the other Ractors until this one gives the VM lock back. While it waits for
    /// them to stop, they may take the lock, but none of them collects.
    pub(crate) fn stop_ractors(&self) {
        // SAFETY: the VM lock is held, as everywhere here.
        unsafe { (self.calls().vm_barrier)() };
    }

    /// Catches up after another Ractor has marked while this one waited for the VM lock
    /// in an `xmalloc`, which may come between a write barrier and the store.
    #[cold]
    pub(crate) fn catch_up_before_store(&self) {
        self.stop_ractors();
        // SAFETY: this thread's registers and stack are roots.
        unsafe { (self.calls().save_machine_context)() };
        self.heap.after_others_collected_before_store();
    }

    /// Runs `work`, and counts its time if the program or the profiler measures time.
    pub(crate) fn timed<R>(&self, phase: Phase, work: impl FnOnce() -> R) -> R {
        let measures_time = KNOBS.measures_time.is_on();
        if !measures_time && !self.profiler.is_on() {
            return work();
        }
        let start_ns = cpu_time_ns();
        let result = work();
        let spent_ns = cpu_time_since_ns(start_ns);
        self.profiler.add(phase, spent_ns);
        if measures_time {
            self.heap.vm().clocks.add(phase, spent_ns);
        }
        result
    }

    /// Fires an event of the collector in Ruby. Its hooks may call the collector, so nothing is borrowed here. But they
    /// begin no collection: an allocation that has swept may have a cell that nobody has filled yet.
    pub(crate) fn fire(&self, event: u32) {
        let runs_others = self.runs_hooks.replace(true);
        // SAFETY: the VM lock is held; Ruby ignores events that nobody wants, and all events inside a hook.
        unsafe { (self.calls().event_hook)(0, event) };
        self.runs_hooks.set(runs_others);
    }

    pub(crate) fn runs_hooks(&self) -> bool {
        self.runs_hooks.get()
    }

    /// What every full collection moves, also one that was not asked to be full.
    pub(crate) fn auto_compaction(&self) -> Option<Evacuation> {
        KNOBS.auto_compact.is_on().then_some(Evacuation::Sparse)
    }

    /// Applies the stress options; `every_allocation`, for `GC.stress`, makes every
    /// allocation collect.
    pub(crate) fn apply_stress(&self, every_allocation: bool) {
        let mut stress = self.options.get().heap.stress;
        if every_allocation {
            stress.collect_every = 1;
        }
        if stress != self.heap.stress() {
            // So that the other Ractors do not allocate while their caches are retired.
            self.stop_ractors();
            self.heap.set_stress(stress);
        }
    }

    /// Tells `xmalloc` at how many fresh bytes a collection, or a slice of one, is due.
    pub(crate) fn set_payloads_due(&self) {
        let fresh_bytes = self.heap.shared().payloads().fresh_bytes();
        let room_bytes = self.heap.room_below_limit_bytes().unwrap_or(usize::MAX);
        KNOBS.set_payloads_due(
            fresh_bytes.saturating_add(self.heap.bytes_until_due()),
            fresh_bytes.saturating_add(room_bytes),
        );
    }

    /// This process has just been forked: what its parent was told, and had room for, is not its own.
    pub(crate) fn begin_in_child(&self) {
        self.forget_limit_warning();
        self.set_payloads_due();
    }

    /// There is another limit, or another process: what was warned of is not known to be so.
    pub(crate) fn forget_limit_warning(&self) {
        self.warned_of_limit.set(false);
    }

    /// Warns once that live data does not fit into the memory limit.
    pub(crate) fn warn_when_over_limit(&self) {
        let pace = self.heap.pace();
        let Some(limit_bytes) = pace.options().memory_limit_bytes else {
            return;
        };
        if pace.is_over_limit() && !self.warned_of_limit.replace(true) {
            let resident_bytes = self.heap.own_resident_or_used_bytes();
            message::print(format_args!(
                "memory_limit={} MiB: live data does not fit, {} MiB are in use after a full \
                 collection; the program goes on beyond the limit",
                limit_bytes >> 20,
                resident_bytes >> 20
            ));
        }
    }
}
