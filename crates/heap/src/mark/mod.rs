//! Roots → grey → mark bits; the write barrier.
//!
//! A cell is white while it is unmarked, grey while it is on the mark stack and
//! black afterwards. Marking may be done in slices between which the program runs
//! ([`allowance`], [`schedule`]); the barrier then makes grey what is stored into a
//! black cell, and a last stop looks at the roots, and at cells without a barrier,
//! once more. Generations are sticky mark bits: an old cell stays marked from one
//! full collection to the next, so a minor collection neither visits nor frees it.

pub mod allowance;
mod barrier;
pub(crate) mod marker;
pub(crate) mod schedule;
pub mod tracer;
mod weak;

pub use weak::WeakCounts;
