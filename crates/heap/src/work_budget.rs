//! How much of a collection may be done at one stop of the program. (What the program
//! may be handed between two collections is another budget: of bytes, in
//! [`pace`](crate::pace).)

use std::time::{Duration, Instant};

/// What one stop may spend: so many cells, so much time, or anything.
#[derive(Clone, Copy, Debug)]
pub struct WorkBudget {
    /// Cells until the limit is looked at.
    left: usize,
    limit: Limit,
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    None,
    Cells { all: usize },
    Time { until: Instant, all: Duration },
}

/// Cells between two looks at the clock: it costs about as much as one cell.
const CELLS_PER_LOOK: usize = 64;
/// Cells before the first look. On a busy machine other programs use up a slice's
/// time; so many cells are marked all the same, or allocation would get ahead.
const CELLS_MIN: usize = 4096;

impl WorkBudget {
    /// A budget without a limit.
    pub fn unlimited() -> Self {
        Self {
            left: usize::MAX,
            limit: Limit::None,
        }
    }

    /// So many cells.
    pub fn cells(all: usize) -> Self {
        Self {
            left: all,
            limit: Limit::Cells { all },
        }
    }

    /// So much time, from now on.
    pub fn time(all: Duration) -> Self {
        Self {
            left: CELLS_MIN,
            limit: Limit::Time {
                until: Instant::now() + all,
                all,
            },
        }
    }

    /// Whether there is a limit.
    pub fn is_limited(&self) -> bool {
        !matches!(self.limit, Limit::None)
    }

    /// Takes the work of `cells` cells off; false when nothing is left.
    #[inline(always)]
    pub fn spend(&mut self, cells: usize) -> bool {
        match self.left.checked_sub(cells) {
            Some(left) if left != 0 => {
                self.left = left;
                true
            }
            _ => self.look(),
        }
    }

    /// [`WorkBudget::spend`] for a step that takes as long as so many cells: the clock
    /// is looked at after each, however little has been done.
    pub(crate) fn spend_step(&mut self, cells: usize) -> bool {
        if let Limit::Time { until, .. } = self.limit {
            if Instant::now() >= until {
                self.left = 0;
                return false;
            }
        }
        self.spend(cells)
    }

    #[cold]
    fn look(&mut self) -> bool {
        self.left = match self.limit {
            Limit::None => usize::MAX,
            Limit::Cells { .. } => 0,
            Limit::Time { until, .. } if Instant::now() < until => CELLS_PER_LOOK,
            Limit::Time { .. } => 0,
        };
        self.left != 0
    }

    /// Whether at least half is left.
    pub(crate) fn is_mostly_left(&self) -> bool {
        match self.limit {
            Limit::None => true,
            Limit::Cells { all } => self.left >= all.div_ceil(2),
            Limit::Time { until, all } => Instant::now() + all / 2 <= until,
        }
    }

    /// Doubles the whole budget, `times` times.
    pub(crate) fn double(&mut self, times: u32) {
        self.lengthen((1 << times.min(16)) - 1);
    }

    /// Adds the whole budget, `times` times.
    pub(crate) fn lengthen(&mut self, times: usize) {
        match &mut self.limit {
            Limit::None => {}
            Limit::Cells { all } => {
                self.left = self.left.saturating_add(*all * times);
                *all += *all * times;
            }
            Limit::Time { until, all } => {
                self.left = CELLS_MIN * (1 + times);
                *until += *all * times as u32;
                *all += *all * times as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_of_cells_ends_after_so_many() {
        let mut budget = WorkBudget::cells(3);
        assert!(budget.spend(1) && budget.is_mostly_left());
        assert!(budget.spend(1) && !budget.is_mostly_left());
        assert!(!budget.spend(1));
        assert!(!budget.spend(1));
    }

    #[test]
    fn a_budget_of_no_time_ends_after_the_least_that_is_done() {
        let mut budget = WorkBudget::time(Duration::ZERO);
        assert!((1..CELLS_MIN).all(|_| budget.spend(1)));
        assert!(!budget.spend(1));
        assert!(WorkBudget::unlimited().spend(usize::MAX));
    }

    #[test]
    fn long_steps_end_with_the_time() {
        let mut budget = WorkBudget::time(Duration::ZERO);
        assert!(budget.spend(1), "a few cells come first");
        assert!(!budget.spend_step(1));
        assert!(!budget.spend(1), "and nothing after the end");
        assert!(WorkBudget::time(Duration::from_secs(60)).spend_step(CELLS_MIN));
        assert!(!WorkBudget::cells(1).spend_step(1));
    }

    #[test]
    fn doubling_makes_room_for_what_did_not_fit() {
        let mut budget = WorkBudget::cells(4);
        budget.double(2);
        assert!(budget.spend(15));
        assert!(!budget.spend(1));
    }
}
