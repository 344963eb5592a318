//! What a fork asks of pacing: whether to collect before it, and what a child begins with.

use super::latest::Latest;
use super::measure::{Costs, Measure};
use super::Pace;

/// In how many processes garbage that a fork shares takes memory, at least: in the parent, and in a child that copies
/// the pages in which it lies.
const PROCESSES_WITH_GARBAGE: f64 = 2.0;

impl Pace {
    /// The process is about to fork. Decides whether a full collection comes first, which is the next one to
    /// [start](Pace::start) then. A child leaves its parent's garbage where it is, so the garbage lasts as long as
    /// the child. That is taken to be as long as the process has run since garbage was last worth such a
    /// collection, in CPU time.
    pub fn decide_before_fork(&mut self, measure: &Measure) -> bool {
        let grown_bytes = self.grown_before_fork_bytes(measure);
        let price = self.price_before_fork(measure);
        let is_due = match price {
            Some((costs, full_ns)) => self.is_worth_before_fork(grown_bytes, &costs, full_ns),
            None => grown_bytes > self.settled_garbage_bytes(),
        };
        if is_due {
            self.settled.note_fork_to_come();
            if let Some((costs, _)) = price {
                self.at_fork_ns = costs.process_ns;
            }
        }
        is_due
    }

    /// Bytes that the latest full collection has not left, but for what lasts.
    fn grown_before_fork_bytes(&self, measure: &Measure) -> usize {
        match self.latest {
            Latest::Full(_) => measure.fresh_bytes,
            Latest::Minor | Latest::Major(_) => {
                let lasting_bytes = self.loading.since_full_now_bytes(measure);
                let base_bytes = self.settled.left_bytes + lasting_bytes;
                measure.used_bytes.saturating_sub(base_bytes)
            }
        }
    }

    /// What the process has cost, and the CPU time of a full collection in ns. `None` where growth alone decides.
    fn price_before_fork(&self, measure: &Measure) -> Option<(Costs, f64)> {
        let costs = measure.costs.filter(|_| self.options.weighs_cpu_time());
        costs.zip(self.rent.full_ns(measure))
    }

    fn is_worth_before_fork(&self, grown_bytes: usize, costs: &Costs, full_ns: f64) -> bool {
        let since_ns = costs.process_ns.saturating_sub(self.at_fork_ns) as f64;
        let rent = PROCESSES_WITH_GARBAGE * grown_bytes as f64 * since_ns;
        let worth = self.options.exchange_rate() * full_ns * costs.process_bytes as f64;
        rent > worth
    }

    /// This process has just been forked, with `fresh_bytes` of its parent's, and its CPU time begins at 0. What put
    /// off the parent's next collection puts off none of the child's, and what the parent has been handed brings
    /// none about.
    pub fn begin_in_child(&mut self, fresh_bytes: usize) {
        self.at_fork_ns = 0;
        self.rent.begin_in_child();
        self.limit.begin_in_child();
        self.settled.begin_in_child();
        let child_nursery_bytes = fresh_bytes.saturating_add(self.chosen_nursery_bytes);
        self.nursery_bytes = self.nursery_bytes.min(child_nursery_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::tests::{measure, measure_at, pace_after_full, pace_by_cost, MIB, OPTIONS};
    use crate::pace::{PaceOptions, Scope};
    use Scope::{Full, Major, Minor};

    #[test]
    fn a_fork_collects_first_where_that_costs_less_than_the_garbage() {
        // 10 ms of 2,100 are 0.48 %, which is worth 1.19 % of 200 MiB, in two processes.
        for (fresh_kib, is_due) in [(1100, false), (1300, true)] {
            let mut pace = pace_by_cost();
            let before_fork = measure_at(2100, 100 * MIB, fresh_kib << 10);
            assert_eq!(pace.decide_before_fork(&before_fork), is_due, "{fresh_kib}");
        }
    }

    #[test]
    fn a_fork_soon_after_one_that_collected_does_not_collect() {
        let mut pace = pace_by_cost();
        assert!(pace.decide_before_fork(&measure_at(2100, 100 * MIB, 10 * MIB)));
        pace.start(measure_at(2100, 100 * MIB, 10 * MIB), Some(Full));
        assert!(!pace.decide_before_fork(&measure_at(2110, 100 * MIB, 0)));
        // 10 ms of 60 are 17 %, which is worth 83 MiB; of 2,100, they are worth 2.4 MiB.
        assert!(!pace.decide_before_fork(&measure_at(2160, 100 * MIB, 10 * MIB)));
        assert!(pace.decide_before_fork(&measure_at(4200, 100 * MIB, 10 * MIB)));
    }

    #[test]
    fn a_child_that_forks_counts_its_own_time_from_the_beginning() {
        let before_fork = measure_at(2110, 100 * MIB, 10 * MIB);
        for (is_child, is_due) in [(false, false), (true, true)] {
            let mut pace = pace_by_cost();
            assert!(pace.decide_before_fork(&measure_at(2100, 100 * MIB, 10 * MIB)));
            if is_child {
                pace.begin_in_child(0);
            }
            assert_eq!(pace.decide_before_fork(&before_fork), is_due);
        }
    }

    #[test]
    fn a_program_that_forks_often_collects_before_few_forks_if_it_has_had_no_other_collection() {
        let mut pace = Pace::new(PaceOptions {
            space_overhead_percent: None,
            ..OPTIONS
        });
        let mut due_at = Vec::new();
        let (mut collecting_ns, mut fresh_bytes) = (0, 0);
        for fork in 0..100 {
            fresh_bytes += 300 << 10;
            let mut before_fork = measure_at(100 + 10 * fork, 10 * MIB, fresh_bytes);
            before_fork.costs.as_mut().unwrap().collecting_ns = collecting_ns;
            if pace.decide_before_fork(&before_fork) {
                pace.start(before_fork, Some(Full));
                (collecting_ns, fresh_bytes) = (collecting_ns + 5_000_000, 0);
                due_at.push(fork);
            }
        }
        // What a full collection takes is known once the next one starts.
        assert!((3..15).contains(&due_at.len()), "{due_at:?}");
    }

    #[test]
    fn what_puts_off_a_collection_of_the_parent_puts_off_none_of_its_child() {
        let mut pace = pace_by_cost();
        let chosen_bytes = pace.nursery_bytes();
        pace.put_off(100 * MIB);
        assert_eq!(pace.nursery_bytes(), 100 * MIB);
        pace.begin_in_child(0);
        assert_eq!(pace.nursery_bytes(), chosen_bytes);
    }

    #[test]
    fn what_the_parent_was_handed_brings_about_no_collection_of_its_child() {
        let mut pace = pace_by_cost();
        let chosen_bytes = pace.nursery_bytes();
        pace.put_off(100 * MIB);
        pace.begin_in_child(30 * MIB);
        assert_eq!(pace.nursery_bytes(), 30 * MIB + chosen_bytes);
        pace.begin_in_child(200 * MIB);
        assert_eq!(pace.nursery_bytes(), 30 * MIB + chosen_bytes);
    }

    /// The scope of the next collection that looks at old cells, when nearly all of them are settled and they
    /// have grown.
    fn next_larger(pace: &mut Pace) -> Scope {
        let settled = |kept| Measure {
            settled_cells: 99,
            ..measure_at(2200, kept, MIB)
        };
        assert_eq!(pace.start(settled(100 * MIB), None), Minor);
        pace.start(settled(300 * MIB), None)
    }

    /// A fork that collects first.
    fn fork(pace: &mut Pace) {
        let before_fork = measure_at(2100, 100 * MIB, 10 * MIB);
        assert!(pace.decide_before_fork(&before_fork));
        pace.start(before_fork, Some(Full));
    }

    #[test]
    fn what_settled_before_a_fork_is_looked_at_once_by_the_parent_and_never_by_its_child() {
        for (is_child, scopes) in [(false, [Full, Major]), (true, [Major, Major])] {
            let mut pace = pace_by_cost();
            fork(&mut pace);
            if is_child {
                pace.begin_in_child(0);
            }
            for scope in scopes {
                assert_eq!(next_larger(&mut pace), scope, "a child: {is_child}");
            }
        }
    }

    #[test]
    fn what_settled_before_a_fork_is_not_looked_at_again_after_a_full_collection_that_was_asked_for(
    ) {
        for (asked, scope) in [(Minor, Full), (Major, Full), (Full, Major)] {
            let mut pace = pace_by_cost();
            fork(&mut pace);
            pace.start(measure_at(2150, 100 * MIB, MIB), Some(asked));
            assert_eq!(next_larger(&mut pace), scope, "{asked:?}");
        }
    }

    #[test]
    fn a_child_learns_what_its_parents_latest_collection_took_if_that_was_full() {
        // A full one took 10 ms before, and the latest one took 40 ms.
        for (latest, full_ms) in [(Full, 25.0), (Minor, 10.0)] {
            let mut pace = pace_by_cost();
            pace.start(measure_at(3000, 100 * MIB, MIB), Some(latest));
            pace.begin_in_child(0);
            let mut first = measure_at(50, 100 * MIB, MIB);
            first.costs.as_mut().unwrap().collecting_ns = (30 + 40) * 1_000_000;
            pace.start(first, Some(Minor));
            let expected_ns = pace.rent.full_ns(&first).unwrap();
            assert_eq!(expected_ns / 1e6, full_ms, "{latest:?}");
        }
    }

    #[test]
    fn what_lasts_is_no_reason_to_collect_before_a_fork() {
        let mut pace = pace_by_cost();
        let with_code = Measure {
            lasting_bytes: 20 * MIB,
            ..measure_at(2100, 110 * MIB, 10 * MIB)
        };
        assert!(!pace.decide_before_fork(&with_code));
    }

    #[test]
    fn with_a_fixed_overhead_growth_alone_decides_before_a_fork() {
        let mut pace = pace_after_full(OPTIONS, 100 * MIB);
        assert!(!pace.decide_before_fork(&measure(100 * MIB, 24 * MIB)));
        assert!(pace.decide_before_fork(&measure(100 * MIB, 26 * MIB)));
        pace.start(measure(100 * MIB, 26 * MIB), Some(Full));
        assert!(!pace.decide_before_fork(&measure(126 * MIB, 24 * MIB)));
    }
}
