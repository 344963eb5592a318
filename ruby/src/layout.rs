//! Where Ruby's objects keep what: printed by `shim/layout.c` for the Ruby that
//! the library is built for.
#![allow(dead_code)]

include!(concat!(env!("OUT_DIR"), "/layout.rs"));
