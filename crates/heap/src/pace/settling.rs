//! In which collections cells settle.

/// How often cells settle. What a long request holds may settle before the request ends. Then it is
/// garbage that only a full collection frees, while a major one would have freed it if it had not
/// settled. So where settled cells die, cells settle in fewer and fewer of the collections that could
/// let them, and in those that come when little is held; where they live on, in more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settling {
    /// Cells settle in one of so many collections, or later. In each one as long as it is 1: then no
    /// settled cells have died.
    interval: u8,
    /// How many collections that pacing has chosen and that looked for no settled garbage there have been
    /// since cells settled in one, or since the interval became longer.
    since: u8,
    unsettled: Unsettled,
    /// They do in the collection that has started.
    is_on: bool,
}

/// How many old cells that are not settled each major or full collection has left, since cells settled
/// in one that pacing chose.
#[derive(Clone, Copy, Debug)]
struct Unsettled {
    latest_cells: usize,
    least_cells: usize,
    most_cells: usize,
    /// There were fewer once than the time before: some had been held, and were dropped.
    have_fallen: bool,
}

impl Unsettled {
    const NONE: Self = Self {
        latest_cells: 0,
        least_cells: usize::MAX,
        most_cells: 0,
        have_fallen: false,
    };

    fn note(&mut self, cells: usize) {
        self.have_fallen |= cells < self.latest_cells;
        self.latest_cells = cells;
        self.least_cells = self.least_cells.min(cells);
        self.most_cells = self.most_cells.max(cells);
    }

    /// Whether little is held beside what stays: few are few more than the least, beside the most.
    fn are_few(&self) -> bool {
        let range_cells = self.most_cells - self.least_cells;
        self.latest_cells <= self.least_cells + range_cells / RANGE_PER_FEW
    }
}

const INTERVAL_MAX: u8 = 16;
/// Cells settle in one of so many collections even if much is held in each.
const LATEST: u8 = 2 * INTERVAL_MAX - 1;
const RANGE_PER_FEW: usize = 4;
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
            unsettled: Unsettled::NONE,
            is_on: true,
        }
    }
}

impl Settling {
    /// A major or full collection starts; the one before has left `unsettled_cells` old cells that are not
    /// settled. In one that pacing has not chosen, cells settle. In one that looks for settled garbage they
    /// do not, so that the settled cells that it leaves are those that live.
    pub(super) fn begin(&mut self, is_asked: bool, is_suspicious: bool, unsettled_cells: usize) {
        self.unsettled.note(unsettled_cells);
        if is_asked || is_suspicious {
            self.is_on = is_asked;
            return;
        }
        self.since += 1;
        let is_time = self.unsettled.are_few() || !self.unsettled.have_fallen;
        let is_late = self.interval == 1 || self.since >= LATEST;
        self.is_on = is_late || self.since >= self.interval && is_time;
        if self.is_on {
            (self.since, self.unsettled) = (0, Unsettled::NONE);
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
        } else if new_cells > few_cells && dead_cells <= many_cells && self.interval > 2 {
            self.interval /= 2;
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
            let mut settling = at_interval(4);
            settling.note_full(25_600, new_cells, dead_cells);
            assert_eq!(settling.interval, interval, "{new_cells} {dead_cells}");
        }
    }

    /// In which of the next collections cells settle, when the collections before these have left so many cells
    /// unsettled.
    fn settles_in(settling: &mut Settling, unsettled_cells: &[usize]) -> Vec<usize> {
        let mut collections = Vec::new();
        for (index, &cells) in unsettled_cells.iter().enumerate() {
            settling.begin(false, false, cells);
            if settling.is_on() {
                collections.push(index);
            }
        }
        collections
    }

    fn at_interval(interval: u8) -> Settling {
        Settling {
            interval,
            ..Settling::default()
        }
    }

    #[test]
    fn where_settled_cells_die_cells_settle_when_little_is_held() {
        let mut settling = at_interval(4);
        // The third collection comes too soon. Few are 100, and a quarter of 400 more.
        let cells = [100, 400, 100, 500, 201, 300, 200, 100];
        assert_eq!(settles_in(&mut settling, &cells), [6]);
        // What the seventh had seen is forgotten: 100 was few then.
        assert_eq!(settles_in(&mut settling, &[90, 80, 85, 82]), [2]);
    }

    #[test]
    fn what_asked_and_suspicious_collections_found_held_counts_and_settles_at_no_other_time() {
        for (is_asked, is_suspicious) in [(true, false), (false, true)] {
            let mut settling = at_interval(2);
            assert_eq!(settles_in(&mut settling, &[100]), []);
            settling.begin(is_asked, is_suspicious, 0);
            assert_eq!(settling.is_on(), is_asked);
            assert_eq!(settles_in(&mut settling, &[90, 26, 25]), [2]);
        }
    }

    #[test]
    fn where_nothing_is_dropped_cells_settle_at_the_interval() {
        let growing: Vec<usize> = (1..=12).map(|number| number * 1000).collect();
        for cells in [growing, vec![1000; 12]] {
            assert_eq!(settles_in(&mut at_interval(4), &cells), [3, 7, 11]);
        }
    }

    #[test]
    fn where_none_have_died_cells_settle_in_every_collection() {
        let mut settling = Settling::default();
        settling.begin(false, true, 100);
        settling.begin(false, true, 10);
        let settled = settles_in(&mut settling, &[50, 9, 1, 100, 90]);
        assert_eq!(settled, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn however_many_die_and_are_held_cells_settle_in_one_of_31_collections() {
        let mut settling = Settling::default();
        for _ in 0..10 {
            settling.begin(false, true, 1000);
            assert!(!settling.is_on());
            settling.note_full(25_600, 1000, 1000);
        }
        assert_eq!(settling.interval, INTERVAL_MAX);
        assert_eq!(settles_in(&mut settling, &[1000; 32]), [15, 31]);
        let mut held = [1000; 62];
        // Less once, and a little less than before in all that follow.
        for start in [0, 31] {
            held[start] = 1;
            held[start + 2] = 999;
        }
        assert_eq!(settles_in(&mut settling, &held), [30, 61]);
    }
}
