//! In which collections cells settle.

/// How often cells settle. What a long request holds may settle before the request ends. Then it is
/// garbage that only a full collection frees, while a major one would have freed it if it had not
/// settled. So where settled cells die, cells settle in fewer and fewer of the collections that could
/// let them, and in those that come when little is held; where they live on, in more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settling {
    /// Cells settle in one of so many collections, or of up to twice as many.
    interval: u8,
    /// Collections since cells settled, or since the interval became longer.
    since: u8,
    /// The most cells that could have settled in one of these.
    candidates_max: usize,
    /// They do in the collection that has started.
    is_on: bool,
}

const INTERVAL_MAX: u8 = 16;
/// Little is held if no more than this part of the most cells can settle.
const MOST_PER_FEW: usize = 4;
/// Settled cells die in a program if more of them have died than this part of those that have settled since
/// the latest full collection.
const NEW_PER_DEAD: usize = 4;
/// Fewer than this part of all settled cells show nothing.
const SETTLED_PER_FEW: usize = 256;

impl Default for Settling {
    fn default() -> Self {
        Self {
            interval: 1,
            since: 0,
            candidates_max: 0,
            is_on: true,
        }
    }
}

impl Settling {
    /// A major or full collection starts, in which `candidates` could settle: the cells that the one before
    /// has left old and not settled. In one that pacing has not chosen, cells settle. In one that looks
    /// for settled garbage they do not, so that the settled cells that it leaves are those that live.
    pub(super) fn begin(&mut self, is_asked: bool, is_suspicious: bool, candidates: usize) {
        self.candidates_max = self.candidates_max.max(candidates);
        if is_asked || is_suspicious {
            self.is_on = is_asked;
            return;
        }
        self.since += 1;
        let are_few = candidates <= self.candidates_max / MOST_PER_FEW;
        let is_late = self.since >= 2 * self.interval - 1;
        self.is_on = is_late || self.since >= self.interval && are_few;
        if self.is_on {
            (self.since, self.candidates_max) = (0, 0);
        }
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
                self.since = 0;
            }
        } else if new_cells > few_cells && dead_cells <= many_cells {
            self.interval = (self.interval / 2).max(1);
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

    /// In which of the next collections cells settle; in each of them as many could as `candidates` says.
    fn settles_in(settling: &mut Settling, candidates: &[usize]) -> Vec<usize> {
        let mut collections = Vec::new();
        for (index, &candidates) in candidates.iter().enumerate() {
            settling.begin(false, false, candidates);
            if settling.is_on() {
                collections.push(index);
            }
        }
        collections
    }

    #[test]
    fn where_settled_cells_die_cells_settle_when_few_could() {
        let mut settling = Settling {
            interval: 4,
            ..Settling::default()
        };
        // Few are a quarter of the most since cells settled. The third collection comes too soon.
        let candidates = [100, 400, 100, 500, 126, 125];
        assert_eq!(settles_in(&mut settling, &candidates), [5]);
        // As many each time, so they settle in the seventh.
        assert_eq!(settles_in(&mut settling, &[100; 12]), [6]);
    }

    #[test]
    fn where_none_die_cells_settle_in_every_collection() {
        let settled = settles_in(&mut Settling::default(), &[0, 9, 100, 100, 1000]);
        assert_eq!(settled, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn however_many_die_and_are_held_cells_settle_in_one_of_31_collections() {
        for (candidates, every) in [(0, 16), (1000, 31)] {
            let mut settling = Settling::default();
            for _ in 0..10 {
                settling.begin(false, true, candidates);
                assert!(!settling.is_on());
                settling.note_full(25_600, 1000, 1000);
            }
            assert_eq!(settling.interval, INTERVAL_MAX);
            let settled = settles_in(&mut settling, &[candidates; 10 * INTERVAL_MAX as usize]);
            assert_eq!(settled.len(), 160 / every, "{settled:?}");
        }
    }
}
