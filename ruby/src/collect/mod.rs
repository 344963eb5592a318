//! A collection as Ruby sees it.
//!
//! * [`plan`] decides: which scope, in slices or at once.
//! * [`run`] runs it, with events and clocks.
//! * [`trim`] gives back what loading code has left in libc's allocator.
//! * [`record`] says afterwards what it was.
//! * `entries` is what Ruby calls.

mod clocks;
mod entries;
mod plan;
mod record;
mod run;
mod trim;

pub(crate) use clocks::{Clocks, Phase};
pub(crate) use record::{Collection, Latest, Reason};
pub(crate) use run::{at_once, last_resort, make_room, paced};
pub(crate) use trim::Trimming;
