//! In which collections cells settle.

/// How often cells settle. What a long request holds may settle before the request ends. Then it is
/// garbage that only a full collection frees, while a major one would have freed it if it had not
/// settled. So where settled cells die, cells settle in fewer and fewer of the collections that could
/// let them; where they live on, in more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settling {
    /// Cells settle in one of so many collections.
    interval: u8,
    /// In how many of the next ones they do not.
    ahead: u8,
    /// They do in the collection that has started.
    is_on: bool,
}

const INTERVAL_MAX: u8 = 16;
/// Settled cells die in a program if more of them have died than this part of those that have settled since
/// the latest full collection, and than this part of all.
const DEAD_PER_NEW: usize = 4;
const DEAD_PER_SETTLED: usize = 256;

impl Default for Settling {
    fn default() -> Self {
        Self {
            interval: 1,
            ahead: 0,
            is_on: true,
        }
    }
}

impl Settling {
    /// A major or full collection starts. Where one is asked for, cells settle. Where it looks for
    /// settled garbage they do not, so that the settled cells that it leaves are those that live.
    pub(super) fn begin(&mut self, is_asked: bool, is_suspicious: bool) {
        self.is_on = is_asked || !is_suspicious && self.ahead == 0;
        if is_asked || is_suspicious {
            return;
        }
        self.ahead = match self.ahead {
            0 => self.interval - 1,
            ahead => ahead - 1,
        };
    }

    /// Whether cells settle in the collection that has started.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// A full collection in which no cell settled has found that `dead_cells` of `settled_cells` have died.
    /// `new_cells` have settled since the full collection before. Returns the dead ones per new one,
    /// at most 1.
    pub(super) fn note_full(
        &mut self,
        settled_cells: usize,
        new_cells: usize,
        dead_cells: usize,
    ) -> f64 {
        let many_cells = (new_cells / DEAD_PER_NEW).max(settled_cells / DEAD_PER_SETTLED);
        if dead_cells > many_cells {
            self.interval = (2 * self.interval).min(INTERVAL_MAX);
            self.ahead = self.interval - 1;
        } else {
            self.interval = (self.interval / 2).max(1);
            self.ahead = self.ahead.min(self.interval - 1);
        }
        (dead_cells as f64 / new_cells.max(1) as f64).min(1.0)
    }
}
