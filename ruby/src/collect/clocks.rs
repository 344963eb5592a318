//! What collections cost: CPU time of the process, which is what Ruby's own collector
//! counts in.

use std::cell::Cell as StdCell;

/// What the collector spends its time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Mark,
    Sweep,
}

/// CPU time spent so far.
#[derive(Default)]
pub(crate) struct Clocks {
    pub(crate) mark_ns: StdCell<u64>,
    pub(crate) sweep_ns: StdCell<u64>,
}

impl Clocks {
    pub(crate) fn total_ns(&self) -> u64 {
        self.mark_ns.get() + self.sweep_ns.get()
    }

    pub(crate) fn add(&self, phase: Phase, spent_ns: u64) {
        let total_ns = match phase {
            Phase::Mark => &self.mark_ns,
            Phase::Sweep => &self.sweep_ns,
        };
        total_ns.set(total_ns.get() + spent_ns);
    }
}
