//! How a collection marks: what it may leave for later, and what it has to find out.

/// How a collection marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// In slices, between which the program runs.
    InSlices,
    /// With the program stopped from the beginning to the end.
    AtOnce,
    /// The same, for a compaction: cells that must not move are told apart from
    /// those that may.
    FindingPins,
}
