//! Roots → grey → mark bits; the write barrier.
//!
//! A cell is white while it is unmarked, grey while it is on the mark stack and
//! black afterwards. Generations are sticky mark bits: an old cell stays marked
//! from one full collection to the next, so a minor collection neither visits
//! nor frees it.

mod barrier;
pub(crate) mod marker;
pub mod tracer;
mod weak;

pub use weak::WeakCounts;
