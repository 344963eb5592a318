//! Roots → grey → mark bits; the write barrier.
//!
//! A cell is white while it is unmarked, grey while it is on the mark stack and
//! black afterwards. Marking may be done in slices between which the program runs
//! ([`allowance`], [`schedule`]); the barrier then makes grey what is stored into a
//! black cell, and a last stop looks at the roots, and at cells without a barrier,
//! once more. With the program stopped to the end it may be done by several threads
//! ([`parallel`]). Generations are sticky mark bits: an old cell stays marked from
//! one full collection to the next, so a minor collection neither visits nor frees
//! it.

pub mod allowance;
mod barrier;
mod coming;
pub(crate) mod deferred;
pub mod helpers;
pub(crate) mod marker;
pub mod parallel;
pub(crate) mod schedule;
pub mod tracer;
mod weak;

pub use weak::WeakCounts;
