//! Switches that make memory bugs show early, at run time.

/// What free cells are filled with while poisoning is on; their first word is
/// zero, and the next two may hold a free run.
pub(crate) const POISON: usize = 0xDEAD_CE11_DEAD_CE11;

/// Which stress switches are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stress {
    /// Collect each time this many allocations have been made; 0 is off.
    pub collect_every: usize,
    /// Ask for a slice of this many cells at every allocation: a collection is always
    /// going on, and the program changes the heap at every point of it. 0 is off.
    pub slice_cells: usize,
    /// Walk the heap and assert every invariant after each collection, and
    /// after each slice of one.
    pub verify: bool,
    /// Keep free cells filled with a pattern.
    pub poison: bool,
    /// Make every collection a full one that moves everything that may move.
    pub move_everything: bool,
    /// Make each collection major that would be minor, so that cells settle soon and a store
    /// into a settled cell that is not noted shows.
    pub no_minor: bool,
    /// Let no cell settle, as in most collections of a program in which settled cells die.
    pub no_settling: bool,
    /// Have marking look ahead also in a small heap.
    pub look_ahead: bool,
    /// Cells that fit on the mark stack, and into the remembered set, so that
    /// running out of memory for them can be tested; 0 is no limit.
    pub mark_stack_cells_max: usize,
}
