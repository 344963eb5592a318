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
/// the latest full collection.
const NEW_PER_DEAD: usize = 4;
/// Fewer than this part of all settled cells show nothing.
const SETTLED_PER_FEW: usize = 256;

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
    /// A major or full collection starts. In one that pacing has not chosen, cells settle. In one that looks
    /// for settled garbage they do not, so that the settled cells that it leaves are those that live.
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
    /// `new_cells` have settled since the full collection before.
    pub(super) fn note_full(&mut self, settled_cells: usize, new_cells: usize, dead_cells: usize) {
        let few_cells = settled_cells / SETTLED_PER_FEW;
        let many_cells = new_cells / NEW_PER_DEAD;
        if dead_cells > many_cells.max(few_cells) {
            if self.interval < INTERVAL_MAX {
                self.interval *= 2;
                self.ahead = self.interval - 1;
            }
        } else if new_cells > few_cells && dead_cells <= many_cells {
            self.interval = (self.interval / 2).max(1);
            self.ahead = self.ahead.min(self.interval - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_settled_lately_and_lives_or_dies_decides_how_often_cells_settle() {
        for (new_cells, dead_cells, interval) in [
            // A quarter of the new ones.
            (4000, 1000, 2),
            (4000, 1001, 8),
            (4000, 0, 2),
            // Old ones die, too.
            (0, 101, 8),
            // Of 25,600 settled cells, 100 show nothing.
            (0, 100, 4),
            (0, 0, 4),
            (100, 0, 4),
            (101, 0, 2),
            (100, 100, 4),
        ] {
            let mut settling = Settling {
                interval: 4,
                ..Settling::default()
            };
            settling.note_full(25_600, new_cells, dead_cells);
            assert_eq!(settling.interval, interval, "{new_cells} {dead_cells}");
        }
    }

    #[test]
    fn however_many_die_cells_settle_in_one_of_sixteen_collections() {
        let mut settling = Settling::default();
        let mut settles = 0;
        for _ in 0..10 * INTERVAL_MAX {
            settling.begin(false, false);
            settles += usize::from(settling.is_on());
            settling.begin(false, true);
            assert!(!settling.is_on());
            settling.note_full(25_600, 1000, 1000);
        }
        assert!((8..=12).contains(&settles), "{settles}");
    }
}
