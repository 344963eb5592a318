//! Switches that make memory bugs show early, at run time.

/// What a freed cell is filled with when poisoning is on (its first word stays
/// zero).
pub const POISON: usize = 0xDEAD_CE11_DEAD_CE11;

/// Which stress is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stress {
    /// Collect at every so many allocations; 0 is off.
    pub collect_every: usize,
    /// Walk the heap and assert every invariant after each collection.
    pub verify: bool,
    /// Fill freed cells with [`POISON`].
    pub poison: bool,
}
