//! How a simulated run went, and which of two went better.

use ashlar_heap::Scope;

/// How a run went, from some moment on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) program_ns: f64,
    pub(crate) collecting_ns: f64,
    /// Bytes of the process, multiplied by nanoseconds of CPU time.
    byte_ns: f64,
    pub(crate) collections: usize,
    /// Collections that were not minor.
    pub(crate) larger: usize,
}

impl Outcome {
    /// The process has taken so much CPU time, with so much memory.
    pub(crate) fn spend(&mut self, ns: f64, is_collecting: bool, process_bytes: f64) {
        self.byte_ns += process_bytes * ns;
        match is_collecting {
            true => self.collecting_ns += ns,
            false => self.program_ns += ns,
        }
    }

    pub(crate) fn count(&mut self, scope: Scope) {
        self.collections += 1;
        self.larger += usize::from(scope != Scope::Minor);
    }

    pub(crate) fn cpu_ns(&self) -> f64 {
        self.program_ns + self.collecting_ns
    }

    /// The percent of memory by which this outcome is worse than `other`, as the exchange rate
    /// `k` weighs CPU time and memory: `k ln(CPU) + ln(memory)`.
    pub(crate) fn worse_than(&self, other: &Self, exchange_rate: f64) -> f64 {
        let cpu_ratio = self.cpu_per_work() / other.cpu_per_work();
        let memory_ratio = self.mean_bytes() / other.mean_bytes();
        100.0 * (exchange_rate * cpu_ratio.ln() + memory_ratio.ln())
    }

    fn cpu_per_work(&self) -> f64 {
        self.cpu_ns() / self.program_ns
    }

    pub(crate) fn mean_bytes(&self) -> f64 {
        self.byte_ns / self.cpu_ns()
    }
}
