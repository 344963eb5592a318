//! The latest collection, from which pacing learns when the next one starts.

use super::measure::Scope;

/// The latest collection. What it left is known when the next one starts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Latest {
    /// Old cells stayed as they were.
    Minor,
    Major(Found),
    Full(Found),
}

/// What there was when a major or full collection started.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// By how much old cells had grown, in bytes.
    pub(super) old_growth_bytes: usize,
    /// By how much what major collections left had grown.
    pub(super) settled_growth_bytes: usize,
    pub(super) settled_cells: usize,
}

impl Latest {
    /// A collection of this scope. Nothing will be learnt from what a minor one has `found`.
    pub(super) fn new(scope: Scope, found: Found) -> Self {
        match scope {
            Scope::Minor => Self::Minor,
            Scope::Major => Self::Major(found),
            Scope::Full => Self::Full(found),
        }
    }

    pub(super) fn scope(&self) -> Scope {
        match self {
            Self::Minor => Scope::Minor,
            Self::Major(_) => Scope::Major,
            Self::Full(_) => Scope::Full,
        }
    }

    /// This collection, which turns out to be a full one. What a minor one has found is not known, so
    /// nothing will be learnt from what it frees.
    pub(super) fn as_full(&self) -> Self {
        match *self {
            Self::Minor => Self::Full(Found::default()),
            Self::Major(found) | Self::Full(found) => Self::Full(found),
        }
    }
}
