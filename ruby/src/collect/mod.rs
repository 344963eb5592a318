//! A collection as Ruby sees it.
//!
//! * [`wanted`]: which scope Ruby asks for.
//! * [`run`]: what the heap's driver does with the program, with events and clocks.
//! * [`trim`] gives back what loading code has left in libc's allocator.
//! * [`record`] says afterwards what it was.
//! * `entries` is what Ruby calls.

mod clocks;
mod entries;
mod record;
mod run;
mod trim;
mod wanted;

pub(crate) use clocks::{Clocks, Phase};
pub(crate) use record::{Collection, Latest, Reason};
pub(crate) use trim::Trimming;
