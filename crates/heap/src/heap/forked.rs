//! How much of its resident memory a forked process has to answer for.
//!
//! A child shares pages with its parent and with other children, so RSS counts them many times.
//! The system reports each process's part (PSS), but looks at all pages to do so. So a child asks
//! again only when its CPU time has doubled, and first when asking takes at most a hundredth of
//! its CPU time. If all of RSS would come near a memory limit, it asks at once, and then as often as
//! asking takes no more than this hundredth: when other processes end, their part becomes the
//! child's, and RSS does not show it. In between, what the child gains is its own. Of what it loses,
//! it has lost the same share as it had of all.

use crate::os;

/// CPU time that asking takes for each resident page: 5 ms for 180 MiB on Linux 6.18.
const ASKING_NS_PER_PAGE: u64 = 100;
/// The child first asks when its CPU time is this many times what asking takes.
const FIRST_AT: u64 = 100;

/// The part of other processes in the memory of this one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Forked {
    /// The process that was looked at last; 0 for none.
    process_id: u32,
    /// This process was forked from one that used this heap.
    is_child: bool,
    /// The CPU time at which it asked last, if it has.
    asked_ns: Option<u64>,
    /// How many of its resident bytes other processes answered for when it asked.
    elsewhere_bytes: usize,
    /// All its resident bytes when it asked.
    asked_resident_bytes: usize,
}

impl Forked {
    /// This process has just been forked.
    pub(super) fn begin_in_child(&mut self) {
        self.is_child = true;
        self.process_id = 0;
    }

    /// How many of the `resident_bytes` count as those of the process with this id, which has taken
    /// `process_ns` of CPU time, and may be near its memory limit. `proportional_bytes` asks the
    /// system for PSS.
    pub(super) fn own_bytes(
        &mut self,
        process_id: u32,
        process_ns: u64,
        resident_bytes: usize,
        may_be_near_limit: bool,
        proportional_bytes: impl FnOnce() -> Option<usize>,
    ) -> usize {
        let asking_ns = (resident_bytes / os::page_bytes()) as u64 * ASKING_NS_PER_PAGE;
        let worth_it_ns = asking_ns * FIRST_AT;
        if self.process_id != process_id {
            self.is_child |= self.process_id != 0;
            self.asked_ns = None;
            self.process_id = process_id;
        }
        let asks_at_ns = match self.asked_ns {
            None if may_be_near_limit => 0,
            None => worth_it_ns,
            Some(asked_ns) if may_be_near_limit => asked_ns + worth_it_ns,
            Some(asked_ns) => worth_it_ns.max(2 * asked_ns),
        };
        if self.is_child && process_ns >= asks_at_ns {
            self.asked_ns = Some(process_ns);
            self.asked_resident_bytes = resident_bytes;
            self.elsewhere_bytes = proportional_bytes()
                .map_or(0, |own_bytes| resident_bytes.saturating_sub(own_bytes));
        }
        self.without_elsewhere(resident_bytes)
    }

    /// The same of the same process, as far as is known.
    pub(super) fn without_elsewhere(&self, resident_bytes: usize) -> usize {
        if resident_bytes >= self.asked_resident_bytes {
            return resident_bytes - self.elsewhere_bytes;
        }
        let asked_bytes = self.asked_resident_bytes as u128;
        let own_bytes = asked_bytes - self.elsewhere_bytes as u128;
        (resident_bytes as u128 * own_bytes / asked_bytes) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;
    const MS: u64 = 1_000_000;

    #[test]
    fn a_process_that_was_not_forked_answers_for_all_and_never_asks() {
        let mut forked = Forked::default();
        for ms in 1..10_000 {
            let own_bytes = forked.own_bytes(7, ms * MS, 180 * MIB, false, || unreachable!());
            assert_eq!(own_bytes, 180 * MIB);
        }
    }

    #[test]
    fn a_child_answers_for_its_part_and_for_what_it_gains_since_it_asked() {
        let mut forked = Forked::default();
        forked.own_bytes(7, 3000 * MS, 100 * MIB, false, || unreachable!());
        let early = forked.own_bytes(8, 50 * MS, 100 * MIB, false, || unreachable!());
        assert_eq!(early, 100 * MIB);
        let asked = forked.own_bytes(8, 300 * MS, 100 * MIB, false, || Some(30 * MIB));
        assert_eq!(asked, 30 * MIB);
        let gained = forked.own_bytes(8, 500 * MS, 110 * MIB, false, || unreachable!());
        assert_eq!(gained, 40 * MIB);
        let asked = forked.own_bytes(8, 600 * MS, 110 * MIB, false, || Some(60 * MIB));
        assert_eq!(asked, 60 * MIB);
    }

    #[test]
    fn a_child_that_loses_more_than_its_part_still_answers_for_some() {
        let mut forked = Forked::default();
        forked.begin_in_child();
        forked.own_bytes(8, 9000 * MS, 1000 * MIB, false, || Some(200 * MIB));
        assert_eq!(forked.without_elsewhere(1000 * MIB), 200 * MIB);
        assert_eq!(forked.without_elsewhere(700 * MIB), 140 * MIB);
        assert_eq!(forked.without_elsewhere(1001 * MIB), 201 * MIB);
        assert_eq!(forked.without_elsewhere(0), 0);
    }

    #[test]
    fn a_child_that_may_be_near_its_memory_limit_asks_at_once_and_then_as_often_as_is_worth_it() {
        let mut forked = Forked::default();
        forked.begin_in_child();
        let asked = forked.own_bytes(8, MS, 100 * MIB, true, || Some(30 * MIB));
        assert_eq!(asked, 30 * MIB);
        let later = forked.own_bytes(8, 200 * MS, 100 * MIB, true, || unreachable!());
        assert_eq!(later, 30 * MIB);
        assert_eq!(forked.without_elsewhere(110 * MIB), 40 * MIB);
        let asked = forked.own_bytes(8, 300 * MS, 100 * MIB, true, || Some(40 * MIB));
        assert_eq!(asked, 40 * MIB);
        let later = forked.own_bytes(8, 550 * MS, 100 * MIB, true, || unreachable!());
        assert_eq!(later, 40 * MIB);
        let alone = forked.own_bytes(8, 560 * MS, 100 * MIB, true, || Some(100 * MIB));
        assert_eq!(alone, 100 * MIB);
    }

    #[test]
    fn a_child_asks_also_if_its_parent_has_never_looked() {
        let mut forked = Forked::default();
        forked.begin_in_child();
        let asked = forked.own_bytes(8, 300 * MS, 100 * MIB, false, || Some(30 * MIB));
        assert_eq!(asked, 30 * MIB);
    }

    #[test]
    fn asking_stays_below_a_hundredth_of_the_cpu_time() {
        for resident_bytes in [20 * MIB, 180 * MIB, 4000 * MIB] {
            let asking_ns = (resident_bytes / os::page_bytes()) as u64 * ASKING_NS_PER_PAGE;
            let mut forked = Forked::default();
            forked.own_bytes(7, MS, resident_bytes, false, || None);
            let mut asked_ns = 0;
            for ms in 1..100_000 {
                forked.own_bytes(8, ms * MS, resident_bytes, false, || {
                    asked_ns += asking_ns;
                    None
                });
                assert!(asked_ns <= ms * MS / 100, "{resident_bytes} after {ms} ms");
            }
        }
    }

    #[test]
    fn where_the_system_does_not_tell_a_child_answers_for_all() {
        let mut forked = Forked::default();
        forked.own_bytes(7, MS, 20 * MIB, false, || None);
        assert_eq!(
            forked.own_bytes(8, 900 * MS, 20 * MIB, false, || None),
            20 * MIB
        );
    }
}
