//! Finds out which objects keep which alive in a dumped Ruby heap.
//!
//! ```text
//! read (a dump) → graph → dominators → retained sizes → report
//!                      ↘ paths from the roots ───────↗
//! ```
//!
//! [`read`] takes the dumps of `GC.config(dump: "file")`, which `docs/reference/heap-dump.md`
//! describes, and of `ObjectSpace.dump_all`, plain or with gzip. [`Graph`] holds the objects
//! in a few arrays, [`Dominators`] says which object keeps which, and [`report`] makes a
//! report of both.
//!
//! # Words
//!
//! * **Node**: an object, a category of roots, or the root of all of them.
//! * **Dominator** of a node: a node that every path from the roots to it goes through. The
//!   nearest one is its **immediate** dominator.
//! * **Retained size** of a node: the bytes that would be freed if the node were gone: its
//!   own and those of all nodes that it dominates.
//! * **Shallow size**: the bytes of its cell and of the payloads that it owns.
//!
//! # Memory
//!
//! The peak is about 68 bytes for each object and 8 for each reference, while dominators are
//! computed. A name costs its bytes and 60 more; classes and code have names.

pub mod blocks;
pub mod dominators;
pub mod graph;
mod interner;
pub mod paths;
pub mod read;
pub mod report;
pub mod retained;
pub mod why;

pub use dominators::Dominators;
pub use graph::{Graph, Node};

/// The examples of the README compile and hold.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
