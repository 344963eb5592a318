//! Where a run of several neighbouring blocks is taken from: the policy, which can be
//! chosen while the heap is used. A single block is always the lowest empty one.

use std::ops::Range;

use super::empty_blocks::EmptyBlocks;

/// How a place is chosen for a payload of several blocks, among the runs of empty blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The lowest run that is long enough: the heap stays dense, and pages that were used
    /// before are used again.
    #[default]
    FirstFit,
    /// The next run that is long enough behind the one found last.
    NextFit,
    /// The shortest run that is long enough, the lowest of several.
    BestFit,
    /// The lowest run of the shortest class whose lengths are all long enough. There are four
    /// classes of lengths to a doubling.
    SegregatedFit,
}

impl Policy {
    /// All of them, with the names by which options choose them.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("first-fit", Self::FirstFit),
        ("next-fit", Self::NextFit),
        ("best-fit", Self::BestFit),
        ("segregated-fit", Self::SegregatedFit),
    ];

    /// The names, as an error message lists them.
    pub const ALLOWED: &'static str = "first-fit, next-fit, best-fit or segregated-fit";

    /// The policy of this name.
    pub fn named(name: &str) -> Option<Self> {
        let named = Self::NAMES.iter().find(|(known, _)| *known == name);
        named.map(|(_, policy)| *policy)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.iter().find(|(_, policy)| *policy == self);
        named.map_or("", |(name, _)| name)
    }

    /// The first of `count` neighbouring empty blocks, if there are any. The run found last ends
    /// at `last_end`.
    pub(super) fn find(self, empty: &EmptyBlocks, count: usize, last_end: usize) -> Option<usize> {
        let mut runs = empty.runs(0, count);
        let run = match self {
            Self::FirstFit => runs.next(),
            Self::NextFit => empty.runs(last_end, count).next().or_else(|| runs.next()),
            Self::BestFit => least(runs, count, Range::len),
            Self::SegregatedFit => {
                let runs = runs.filter(|run| class(run.len()) >= class_for(count));
                least(runs, class_for(count), |run| class(run.len()))
            }
        };
        run.map(|run| run.start)
    }
}

/// The first of the runs with the least size. No run may have less than `size_min`.
fn least(
    runs: impl Iterator<Item = Range<usize>>,
    size_min: usize,
    size: impl Fn(&Range<usize>) -> usize,
) -> Option<Range<usize>> {
    let mut best = None;
    for run in runs {
        let found = size(&run);
        if best.as_ref().is_none_or(|&(least, _)| found < least) {
            best = Some((found, run));
        }
        if found == size_min {
            break;
        }
    }
    best.map(|(_, run)| run)
}

/// The least class such that every run of it or of a higher class has at least `count` blocks.
fn class_for(count: usize) -> usize {
    match count {
        0 | 1 => 0,
        _ => class(count - 1) + 1,
    }
}

/// The class of a run: one class for each length up to 3 blocks, then four to a doubling.
fn class(blocks: usize) -> usize {
    if blocks < 4 {
        return blocks;
    }
    let doubling = blocks.ilog2() as usize;
    4 * (doubling - 1) + (blocks >> (doubling - 2)) % 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_ascend_and_a_long_enough_class_is_found_for_every_length() {
        let lengths = (1..5000).step_by(if cfg!(miri) { 61 } else { 1 });
        for blocks in lengths.clone() {
            assert!((class(blocks)..=class(blocks) + 1).contains(&class(blocks + 1)));
            let least = class_for(blocks);
            for longer in lengths.clone() {
                if class(longer) >= least {
                    assert!(longer >= blocks, "{longer} for {blocks}");
                }
            }
            // A run that is a quarter longer, and a block, is always long enough by its class.
            assert!(class(blocks + blocks / 4 + 1) >= least, "{blocks}");
        }
    }

    #[test]
    fn each_policy_finds_its_place_and_none_where_there_is_none() {
        let mut empty = EmptyBlocks::new(200).unwrap();
        empty.cover(200).unwrap();
        // Runs of 16, 3, 10, 9 and 8 blocks, of the classes 12, 3, 9, 8 and 8.
        for run in [10..26, 50..53, 60..70, 90..99, 120..128] {
            empty.add(run);
        }
        for (policy, found) in [
            (Policy::FirstFit, [10, 10, 10]),
            (Policy::NextFit, [120, 10, 10]),
            (Policy::BestFit, [120, 90, 60]),
            (Policy::SegregatedFit, [90, 60, 60]),
        ] {
            let find = |count| policy.find(&empty, count, 100);
            assert_eq!([8, 9, 10].map(find), found.map(Some), "{policy:?}");
            assert_eq!(find(17), None, "{policy:?}");
        }
        // From the middle of a run on, only the rest of the run counts.
        assert_eq!(Policy::NextFit.find(&empty, 4, 64), Some(64));
        assert_eq!(Policy::NextFit.find(&empty, 9, 64), Some(90));
    }

    #[test]
    fn a_policy_has_a_name_and_other_names_are_refused() {
        for (name, policy) in Policy::NAMES {
            assert_eq!((Policy::named(name), policy.name()), (Some(policy), name));
        }
        assert_eq!(Policy::named("worst-fit"), None);
    }
}
