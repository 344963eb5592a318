//! Roots → grey → mark bits.
//!
//! A cell is white while it is unmarked, grey while it is on the mark stack and
//! black afterwards. A [`worker`] marks: one alone, or several at a [`pile`] with the program
//! stopped to the end. Alone it may mark in slices between which the program runs; the write
//! barrier then makes grey what is stored into a black cell, and a remark looks at the roots,
//! and at cells without a barrier, once more.
//! Generations are sticky mark bits: an old cell stays marked from one major or full
//! collection to the next, so a minor collection neither visits nor frees it; and a
//! settled one stays so from one full collection to the next ([`sets`]).

mod alone;
mod cell_tracer;
mod deferred;
mod grey;
pub(crate) mod marker;
pub(crate) mod marking;
pub(crate) mod pile;
pub(crate) mod pool;
mod rescan;
mod rewritten;
mod sets;
pub(crate) mod trace;
pub(crate) mod tracer;
pub(crate) mod weak;
pub(crate) mod worker;

/// How a collection marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// In slices, between which the program runs.
    InSlices,
    /// With the program stopped from the beginning to the end.
    AtOnce,
    /// As [`Mode::AtOnce`], for a compaction: marking also finds which cells must not move.
    FindingPins,
}
