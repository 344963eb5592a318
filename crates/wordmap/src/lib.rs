//! An ordered map from 64-bit word to 64-bit word, and a set of words.
//!
//! It is made for what a language runtime keeps by the million: maps of a handful of
//! entries whose keys lie close together. A [`WordMap`] is one word. An empty one owns
//! nothing, and a small one owns exactly one block of memory, which is as long as its
//! entries need. A map stays small and fast when it grows:
//!
//! ```text
//!        WordMap (one word: the root edge)
//!           │
//!     ┌─────▼─────┐   branches tell apart one byte of the key and skip the
//!     │  branch   │   bytes that all keys below have in common
//!     └┬────┬────┬┘
//!      ▼    ▼    ▼
//!     leaf leaf leaf  sorted, up to 192 entries (256 where keys are dense),
//!                     each key stored only as far as it differs
//! ```
//!
//! Vocabulary: an *edge* is a tagged pointer to a node; a *leaf* holds entries; a
//! *branch* holds edges; a key's *suffix* is what remains of the key without the bytes
//! that the keys of its leaf share; a *plane* is a run of equally wide items inside a
//! node. The shapes of nodes are in `node/`, the operations in `tree.rs`, walks in
//! `walk.rs`, and the memory of nodes in [`memory`].
//!
//! Memory comes from a [`memory::NodeSource`]. Running out of it is an error value
//! ([`OutOfMemory`]) in the `try_` methods.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a word map needs 64-bit pointers: an edge is an address and a tag in one word");

mod build;
mod cursor;
mod entry;
mod iter;
mod last_step;
mod map;
pub mod memory;
mod node;
mod path;
mod set;
mod tree;
mod verify;
mod walk;

pub use build::BuildError;
pub use cursor::Cursor;
pub use entry::{Entry, OccupiedEntry, VacantEntry};
pub use iter::{
    IntoIter, Iter, IterMut, Keys, Range, RangeMut, SetIter, SetRange, Values, ValuesMut,
};
pub use last_step::LastStep;
pub use map::WordMap;
pub use set::WordSet;
pub use tree::OutOfMemory;
pub use verify::Broken;

/// The examples of the README compile and hold.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
