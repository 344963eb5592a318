//! What the user chooses.

/// What the user chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaceOptions {
    /// Memory that garbage may take before a major collection, in percent of live bytes.
    /// `None`: as much as it is worth ([`PaceOptions::exchange_rate_thousandths`]).
    pub space_overhead_percent: Option<usize>,
    /// The percent of the process's memory that one percent of its CPU time is worth, in
    /// thousandths: at 2500 the heap takes 2.5 % more memory where that saves 1 % of the
    /// CPU time, and no more where it saves less.
    pub exchange_rate_thousandths: usize,
    /// With a fixed space overhead, a heap with fewer live bytes is treated as if it had
    /// this many.
    pub heap_min_bytes: usize,
    /// A heap with fewer bytes in use than this is not collected.
    pub heap_init_bytes: usize,
    /// However small the space overhead, old bytes may grow by this many between
    /// two collections that are not minor.
    pub growth_min_bytes: usize,
    /// However large the space overhead, old bytes may not grow by more than this: at 0
    /// every collection is a full one.
    pub growth_max_bytes: usize,
    /// Old cells without a write barrier, which every minor collection traces
    /// again, may be this many millionths of all old cells.
    pub rescans_max_millionths: Option<usize>,
    /// A minor collection comes after at least this many fresh bytes.
    pub nursery_min_bytes: usize,
    /// A minor collection comes after at most this many fresh bytes.
    pub nursery_max_bytes: usize,
    /// Collect more often so that the process's resident memory stays below this.
    pub memory_limit_bytes: Option<usize>,
}

impl Default for PaceOptions {
    fn default() -> Self {
        Self {
            space_overhead_percent: Some(40),
            exchange_rate_thousandths: 2500,
            heap_min_bytes: 4 << 20,
            heap_init_bytes: 0,
            growth_min_bytes: 0,
            growth_max_bytes: usize::MAX,
            rescans_max_millionths: None,
            nursery_min_bytes: 1 << 20,
            nursery_max_bytes: 32 << 20,
            memory_limit_bytes: None,
        }
    }
}

impl PaceOptions {
    /// Bytes to hand out before the next collection, when `kept_bytes` are in use and
    /// everything but these options asks for `wanted`.
    pub(super) fn nursery_bytes(&self, wanted: usize, kept_bytes: usize) -> usize {
        let nursery = wanted.clamp(self.nursery_min_bytes, self.nursery_max_bytes);
        let init_bytes = match self.memory_limit_bytes {
            Some(limit_bytes) => self.heap_init_bytes.min(limit_bytes / 2),
            None => self.heap_init_bytes,
        };
        nursery.max(init_bytes.saturating_sub(kept_bytes))
    }

    /// Whether the collector weighs its CPU time against memory.
    pub(crate) fn weighs_cpu_time(&self) -> bool {
        self.space_overhead_percent.is_none()
    }

    pub(super) fn exchange_rate(&self) -> f64 {
        self.exchange_rate_thousandths as f64 / 1e3
    }
}
