//! The word map behind libJudy's documented C interface.
//!
//! Programs linked against `libJudy.so.1` use this library without being rebuilt: it
//! has the same names, the same soname, and the same meaning of every argument and
//! result. The root word of an array is a [`WordMap`](ashlar_wordmap::WordMap) or a
//! [`WordSet`](ashlar_wordmap::WordSet), which have the layout of a pointer. Values are
//! in the arrays' nodes, so the addresses that are returned are valid until the next
//! insertion or deletion, as documented.
//!
//! There is one file for each of the four kinds of array. `memory.rs` has the memory of
//! nodes, `keyed_hash.rs` the hash of JudyHS, `error.rs` the reporting of failures,
//! `cursor.rs` our own addition (`include/ashlar_wordmap.h`).
#![allow(non_snake_case)]

mod array;
pub mod cursor;
pub mod error;
pub mod judy1;
pub mod judyhs;
pub mod judyl;
pub mod judysl;
mod keyed_hash;
pub mod memory;
