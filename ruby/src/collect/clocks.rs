//! What collections cost: CPU time of the process, which is what Ruby's own collector
//! counts in.

use std::cell::Cell as StdCell;

use ashlar_heap::os::cpu_time_ns;

use crate::collector::Collector;
use crate::knobs::KNOBS;

/// What the collector spends its time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Mark,
    Sweep,
}

/// CPU time so far.
#[derive(Default)]
pub(crate) struct Clocks {
    pub(crate) mark_ns: StdCell<u64>,
    pub(crate) sweep_ns: StdCell<u64>,
}

impl Clocks {
    pub(crate) fn total_ns(&self) -> u64 {
        self.mark_ns.get() + self.sweep_ns.get()
    }

    fn add(&self, phase: Phase, spent_ns: u64) {
        let total_ns = match phase {
            Phase::Mark => &self.mark_ns,
            Phase::Sweep => &self.sweep_ns,
        };
        total_ns.set(total_ns.get() + spent_ns);
    }
}

impl Collector {
    /// Runs `work` and counts its time, if anybody wants to know.
    pub(super) fn timed<R>(&self, phase: Phase, work: impl FnOnce() -> R) -> R {
        let measures_time = KNOBS.measures_time.is_on();
        if !measures_time && !self.profile.is_on() {
            return work();
        }
        let start_ns = cpu_time_ns();
        let result = work();
        let spent_ns = cpu_time_ns() - start_ns;
        self.profile.add(phase, spent_ns);
        if measures_time {
            self.heap.vm().clocks.add(phase, spent_ns);
        }
        result
    }
}
