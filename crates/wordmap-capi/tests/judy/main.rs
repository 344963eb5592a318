//! Tests of the C interface that share a process. They use the crate's files themselves, as a drop-in for libJudy has nothing
//! for Rust, and compile them once for all.
#![allow(
    non_snake_case,
    dead_code,
    unreachable_pub,
    unused_imports,
    unused_macros
)]

#[path = "../../src/array.rs"]
mod array;
#[path = "../../src/error.rs"]
mod error;
#[path = "../../src/judy1.rs"]
mod judy1;
#[path = "../../src/judyl.rs"]
mod judyl;
#[path = "../../src/judysl.rs"]
mod judysl;
#[path = "../../src/keyed_hash.rs"]
mod keyed_hash;
#[path = "../../src/memory.rs"]
mod memory;

mod counts;
mod hashes;
mod long_texts;
