//! The word map behind libJudy's documented C interface.
//!
//! Programs linked against `libJudy.so.1` use this library without being
//! rebuilt: same names, same soname, same meaning of every argument and
//! result. The root word of an array is a [`WordMap`](ashlar_wordmap::WordMap)
//! or a [`WordSet`](ashlar_wordmap::WordSet), which have the layout of a
//! pointer. Values lie in the arrays' nodes, so the addresses handed out are
//! good until the next insertion or deletion, as documented.
//!
//! One file for each of the four kinds of array; `memory.rs` is where nodes
//! come from, `keyed_hash.rs` what JudyHS hashes with, `error.rs` what failures
//! look like, `cursor.rs` our own addition (`include/ashlar_wordmap.h`).
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
