//! Live numbers: what `ashlar top` shows.

use std::time::{Duration, Instant};

/// Numbers are taken at most this often, because many are sums over the widths.
const INTERVAL: Duration = Duration::from_millis(50);

/// How many numbers there are.
pub(super) const NUMBERS: usize = 26;

pub(super) type Numbers = [u64; NUMBERS];

/// Decides when numbers are due again.
pub(super) struct Meter {
    next: Instant,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self {
            next: Instant::now(),
        }
    }

    /// Returns whether it is time for numbers; if so, the next time is an interval
    /// away.
    pub(super) fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = now >= self.next;
        if is_due {
            self.next = now + INTERVAL;
        }
        is_due
    }
}
