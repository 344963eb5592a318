//! The offsets, sizes and constants of Ruby's objects: printed by `shim/layout.c` for
//! the Ruby that the library is built for.
#![allow(dead_code)]

include!(concat!(env!("OUT_DIR"), "/layout.rs"));
