//! Any bytes are a program; the heap must do what the oracle says.
#![no_main]

#[path = "../../crates/heap/tests/model/mod.rs"]
mod model;
#[path = "../../crates/heap/examples/toy_vm.rs"]
mod toy_vm;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| model::run(&model::op::Op::decode_all(bytes)));
