//! A collection as Ruby sees it.
//!
//! * [`wanted`]: which scope Ruby asks for.
//! * [`run`]: how the heap's driver stops the program, fires events and counts time.
//! * [`trim`] gives back what loading code has left in libc's allocator.
//! * [`record`] says afterwards what the collection was.
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
