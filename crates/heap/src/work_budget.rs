//! How much of a collection may be done at one stop of the program.

use std::time::{Duration, Instant};

use crate::os;

/// What one stop may spend: a number of cells, a time, or anything.
#[derive(Clone, Copy, Debug)]
pub struct WorkBudget {
    /// Cells until the limit is next looked at.
    left: usize,
    limit: Limit,
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    None,
    Cells { usual: usize, all: usize },
    Time(Timer),
}

/// Cells before the first look at the clock. A cell takes between 5 ns and some
/// microseconds, so the time that these take decides when later looks come.
const CELLS_BEFORE_FIRST_LOOK: usize = 64;
/// The most cells between two looks.
const CELLS_PER_LOOK_MAX: usize = 1024;
/// The least time between two looks, because a look takes 50 ns. The longest is about four
/// times this.
const LOOK_INTERVAL: Duration = Duration::from_micros(10);

impl WorkBudget {
    /// A budget without a limit.
    pub fn unlimited() -> Self {
        Self {
            left: usize::MAX,
            limit: Limit::None,
        }
    }

    /// A budget of `all` cells.
    pub fn cells(all: usize) -> Self {
        Self {
            left: all,
            limit: Limit::Cells { usual: all, all },
        }
    }

    /// A budget of CPU time of this thread, from now on: on a busy machine the time of others
    /// does not count, or allocation would get ahead of marking.
    pub fn time(all: Duration) -> Self {
        Self::timed(Timer::new(all, os::thread_cpu_time()))
    }

    /// A budget of time by the wall clock, which costs less to begin with.
    pub(crate) fn wall_time(all: Duration) -> Self {
        Self::timed(Timer::new(all, None))
    }

    fn timed(timer: Timer) -> Self {
        Self {
            left: CELLS_BEFORE_FIRST_LOOK,
            limit: Limit::Time(timer),
        }
    }

    /// Whether there is a limit.
    pub fn is_limited(&self) -> bool {
        !matches!(self.limit, Limit::None)
    }

    /// Takes the work of `cells` cells off; false when nothing is left.
    #[inline(always)]
    pub fn spend(&mut self, cells: usize) -> bool {
        let (left, is_over) = self.left.overflowing_sub(cells);
        self.left = left;
        if is_over || left == 0 {
            return self.look();
        }
        true
    }

    /// Hands over the cells up to the next look, at least one, so that the caller can count them
    /// in a register of its own. When they are used up, it calls [`WorkBudget::take_more`];
    /// [`WorkBudget::put_back`] takes back what it has not needed.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> usize {
        std::mem::take(&mut self.left).max(1)
    }

    /// More cells, when those that were taken are used up; 0 when nothing is left.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_more(&mut self) -> usize {
        self.look();
        std::mem::take(&mut self.left)
    }

    pub(crate) fn put_back(&mut self, cells: usize) {
        self.left = cells;
    }

    /// [`WorkBudget::spend`] for a step that takes as long as `cells` cells: the clock
    /// is looked at after each step, however little has been done.
    pub(crate) fn spend_step(&mut self, cells: usize) -> bool {
        match self.limit {
            Limit::Time(_) => self.look(),
            _ => self.spend(cells),
        }
    }

    #[cold]
    fn look(&mut self) -> bool {
        self.left = match &mut self.limit {
            Limit::None => usize::MAX,
            Limit::Cells { .. } => 0,
            Limit::Time(timer) => timer.cells_until_next_look(),
        };
        self.left != 0
    }

    /// Whether at least half is left.
    pub(crate) fn is_mostly_left(&self) -> bool {
        match self.limit {
            Limit::None => true,
            Limit::Cells { all, .. } => self.left >= all.div_ceil(2),
            Limit::Time(timer) => timer.left(Instant::now()) >= timer.all / 2,
        }
    }

    /// Makes the budget `times` times as large as it was at first, unless it is that large already.
    pub(crate) fn lengthen_to(&mut self, times: usize) {
        match &mut self.limit {
            Limit::None => {}
            Limit::Cells { usual, all } => {
                let more = usual.saturating_mul(times).saturating_sub(*all);
                self.left = self.left.saturating_add(more);
                *all += more;
            }
            Limit::Time(timer) => {
                let wanted = timer.usual.saturating_mul(times as u32);
                let more = wanted.saturating_sub(timer.all);
                timer.until += more;
                timer.all += more;
                self.left = self.left.max(1);
            }
        }
    }

    /// How many times as large as at first the budget is.
    pub(crate) fn length(&self) -> usize {
        match self.limit {
            Limit::None => 1,
            Limit::Cells { usual, all } => all / usual.max(1),
            Limit::Time(timer) => (timer.all.as_nanos() / timer.usual.as_nanos().max(1)) as usize,
        }
    }

    /// Runs `work`, which has to be done in one piece and takes nothing of the budget.
    pub(crate) fn beside<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let Limit::Time(timer) = &mut self.limit else {
            return work();
        };
        let before = Moment::now(timer.cpu_start.is_some());
        let result = work();
        timer.leave_out(before, Moment::now(timer.cpu_start.is_some()));
        result
    }
}

/// The time by the two clocks.
#[derive(Clone, Copy, Debug)]
struct Moment {
    wall: Instant,
    cpu: Option<Duration>,
}

impl Moment {
    fn now(with_cpu: bool) -> Self {
        Self {
            wall: Instant::now(),
            cpu: with_cpu.then(os::thread_cpu_time).flatten(),
        }
    }
}

/// A time limit. It reads the wall clock, which is cheap. When the time is over by that
/// clock, CPU time decides whether this thread has had all of it.
#[derive(Clone, Copy, Debug)]
struct Timer {
    usual: Duration,
    all: Duration,
    /// CPU time at the beginning; `None` when the wall clock decides.
    cpu_start: Option<Duration>,
    /// The time is not over before this moment.
    until: Instant,
    looked_at: Instant,
    cells_per_look: usize,
}

impl Timer {
    fn new(all: Duration, cpu_start: Option<Duration>) -> Self {
        let now = Instant::now();
        Self {
            usual: all,
            all,
            cpu_start,
            until: now + all,
            looked_at: now,
            cells_per_look: CELLS_BEFORE_FIRST_LOOK,
        }
    }

    /// Cells until the next look at the clock; 0 when the time is over.
    fn cells_until_next_look(&mut self) -> usize {
        let now = Instant::now();
        if now >= self.until {
            let left = self.left(now);
            if left <= LOOK_INTERVAL {
                return 0;
            }
            self.until = now + left;
        }
        let interval = now - self.looked_at;
        if interval < LOOK_INTERVAL {
            self.cells_per_look = (2 * self.cells_per_look).min(CELLS_PER_LOOK_MAX);
        } else if interval > 4 * LOOK_INTERVAL {
            self.cells_per_look = (self.cells_per_look / 2).max(1);
        }
        self.looked_at = now;
        self.cells_per_look
    }

    /// Leaves the time between the two moments out of the count.
    fn leave_out(&mut self, from: Moment, to: Moment) {
        let cpu_spent = from.cpu.zip(to.cpu).map(|(from, to)| to - from);
        if let (Some(start), Some(spent)) = (&mut self.cpu_start, cpu_spent) {
            *start += spent;
        }
        self.until += to.wall - from.wall;
        self.looked_at = to.wall;
    }

    fn left(&self, now: Instant) -> Duration {
        let cpu_spent = self.cpu_start.zip(os::thread_cpu_time());
        match cpu_spent {
            Some((start, now)) => self.all.saturating_sub(now.saturating_sub(start)),
            None => self.until.saturating_duration_since(now),
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
        assert!((1..CELLS_BEFORE_FIRST_LOOK).all(|_| budget.spend(1)));
        assert!(!budget.spend(1));
        assert!(WorkBudget::unlimited().spend(usize::MAX));
    }

    #[test]
    fn long_steps_end_with_the_time() {
        let mut budget = WorkBudget::time(Duration::ZERO);
        assert!(budget.spend(1), "a few cells come first");
        assert!(!budget.spend_step(1));
        assert!(!budget.spend(1), "and nothing after the end");
        assert!(WorkBudget::time(Duration::from_secs(60)).spend_step(usize::MAX));
        assert!(!WorkBudget::cells(1).spend_step(1));
    }

    #[test]
    fn what_other_threads_get_of_the_processor_is_not_spent() {
        let ten = Duration::from_millis(10);
        let (mut of_cpu, mut of_wall) = (WorkBudget::time(ten), WorkBudget::wall_time(ten));
        std::thread::sleep(2 * ten);
        assert!(!of_wall.is_mostly_left() && !of_wall.spend_step(1));
        if os::thread_cpu_time().is_some() {
            assert!(of_cpu.is_mostly_left() && of_cpu.spend_step(1));
        }
        let start = os::thread_cpu_time();
        while of_cpu.spend(1) {}
        let spent = start.zip(os::thread_cpu_time()).map(|(a, b)| b - a);
        assert!(spent.is_none_or(|spent| spent > ten / 2), "{spent:?}");
    }

    #[test]
    #[cfg_attr(
        miri,
        ignore = "the interpreter takes longer for 64 cells than the budget is, and has no clock of CPU time"
    )]
    fn the_clock_is_looked_at_more_often_where_cells_take_long() {
        let mut budget = WorkBudget::time(Duration::from_millis(20));
        let mut spent_cells = 0;
        while budget.spend(1) {
            spent_cells += 1;
            (0..20_000u64).for_each(|step| {
                std::hint::black_box(step);
            });
            std::thread::yield_now();
        }
        let Limit::Time(timer) = budget.limit else {
            panic!("{budget:?}")
        };
        assert!(
            timer.cells_per_look < CELLS_BEFORE_FIRST_LOOK,
            "{spent_cells} {timer:?}"
        );
    }

    #[test]
    fn a_longer_budget_has_so_many_times_what_it_had_at_first_however_often_it_is_asked_for() {
        let mut budget = WorkBudget::cells(4);
        assert!(budget.spend(3));
        budget.lengthen_to(2);
        budget.lengthen_to(4);
        budget.lengthen_to(3);
        assert_eq!(budget.length(), 4);
        assert!(budget.spend(12));
        assert!(!budget.spend(1));
        let mut budget = WorkBudget::time(Duration::from_millis(100));
        budget.lengthen_to(8);
        budget.lengthen_to(8);
        assert_eq!(budget.length(), 8);
        let Limit::Time(timer) = budget.limit else {
            panic!("{budget:?}")
        };
        assert_eq!(timer.all, Duration::from_millis(800));
    }

    #[test]
    fn what_is_done_beside_a_budget_takes_nothing_of_it() {
        let (all, busy) = (Duration::from_secs(60), Duration::from_millis(20));
        for mut budget in [WorkBudget::time(all), WorkBudget::wall_time(all)] {
            let timer = |budget: &WorkBudget| match budget.limit {
                Limit::Time(timer) => timer,
                _ => panic!("{budget:?}"),
            };
            let before = timer(&budget);
            budget.beside(|| {
                let (start, cpu_start) = (Instant::now(), os::thread_cpu_time());
                while start.elapsed() < busy
                    || os::thread_cpu_time() < cpu_start.map(|start| start + busy)
                {
                    std::hint::black_box(());
                }
            });
            let after = timer(&budget);
            assert!(after.until >= before.until + busy);
            if let (Some(before), Some(after)) = (before.cpu_start, after.cpu_start) {
                assert!(after >= before + busy);
            }
        }
    }
}
