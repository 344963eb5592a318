//! Roots → grey → mark bits.
//!
//! A cell is white while it is unmarked, grey while it is on the mark stack and
//! black afterwards. Marking may be done in slices between which the program runs
//! ([`slices`]); the write barrier then makes grey what is stored into a black cell,
//! and a remark looks at the roots, and at cells without a barrier, once more. With
//! the program stopped to the end it may be done by several threads ([`parallel`]).
//! Generations are sticky mark bits: an old cell stays marked from one major or full
//! collection to the next, so a minor collection neither visits nor frees it; and a
//! settled one stays so from one full collection to the next ([`boundary`]).

mod anew;
pub(crate) mod boundary;
mod deferred;
mod grey;
mod lookahead;
pub(crate) mod marker;
pub(crate) mod marking;
pub(crate) mod mode;
pub(crate) mod parallel;
pub(crate) mod pending_store;
pub(crate) mod pool;
mod prefetch;
mod references;
mod remembered;
mod rescan;
mod rewritten;
mod ring;
pub(crate) mod slices;
pub(crate) mod trace;
pub(crate) mod trace_common;
pub(crate) mod tracer;
pub(crate) mod weak;
