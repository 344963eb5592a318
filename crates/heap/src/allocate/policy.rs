//! Where a run of several neighbouring blocks is taken from: the policy, which can be
//! chosen while the heap is used. A single block is always the lowest empty one.

use std::str::FromStr;

/// How a place is chosen for a payload of several blocks, among the runs of empty blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The lowest run that is long enough: the heap stays dense, and pages that were used
    /// before are used again.
    #[default]
    FirstFit,
    /// The next one behind the place found last.
    NextFit,
    /// The shortest run that is long enough, the lowest of several.
    BestFit,
    /// A run of the shortest class of lengths all of which are long enough, the lowest of
    /// several: four classes to a doubling.
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

    /// The names, as a message tells what is allowed.
    pub const ALLOWED: &'static str = "first-fit, next-fit, best-fit or segregated-fit";

    /// Its name.
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.iter().find(|(_, policy)| *policy == self);
        named.map_or("", |(name, _)| name)
    }

    /// By what the index of runs is ordered; `None` when the policy needs no index.
    pub(super) fn order(self) -> Option<Order> {
        match self {
            Self::FirstFit | Self::NextFit => None,
            Self::BestFit => Some(Order::Length),
            Self::SegregatedFit => Some(Order::Class),
        }
    }
}

impl FromStr for Policy {
    type Err = String;

    /// The error says what is allowed.
    fn from_str(name: &str) -> Result<Self, String> {
        let named = Self::NAMES.iter().find(|(known, _)| *known == name);
        named
            .map(|(_, policy)| *policy)
            .ok_or_else(|| format!("must be {}", Self::ALLOWED))
    }
}

/// By what runs are ordered before their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Length,
    Class,
}

impl Order {
    /// Where a run of `blocks` stands.
    pub(super) fn rank(self, blocks: usize) -> usize {
        match self {
            Self::Length => blocks,
            Self::Class => class(blocks),
        }
    }

    /// Every run of this rank or a higher one has `blocks` at least.
    pub(super) fn rank_for(self, blocks: usize) -> usize {
        match self {
            Self::Length => blocks,
            Self::Class if blocks > 1 => class(blocks - 1) + 1,
            Self::Class => 0,
        }
    }
}

/// Lengths 1 to 3, then four classes to a doubling.
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
            let rank = Order::Class.rank_for(blocks);
            for longer in lengths.clone() {
                if class(longer) >= rank {
                    assert!(longer >= blocks, "{longer} for {blocks}");
                }
            }
            // It wastes less than a quarter of the run by looking no further.
            assert!(class(blocks + blocks / 4 + 1) >= rank, "{blocks}");
        }
    }

    #[test]
    fn a_policy_has_a_name_and_other_names_are_refused() {
        for (name, policy) in Policy::NAMES {
            assert_eq!((name.parse(), policy.name()), (Ok(policy), name));
        }
        assert!("worst-fit".parse::<Policy>().is_err());
    }
}
