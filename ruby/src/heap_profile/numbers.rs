//! Live numbers: what `ashlar top` shows.

use std::time::{Duration, Instant};

/// Taken at most this often, because many are sums over the widths.
const INTERVAL: Duration = Duration::from_millis(50);

/// How many there are.
pub(super) const NUMBERS: usize = 26;

pub(super) type Numbers = [u64; NUMBERS];

/// When numbers are due again.
pub(super) struct Meter {
    next: Instant,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self {
            next: Instant::now(),
        }
    }

    /// Whether it is time for numbers; then it is not again for a while.
    pub(super) fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = now >= self.next;
        if is_due {
            self.next = now + INTERVAL;
        }
        is_due
    }
}
