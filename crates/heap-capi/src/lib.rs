//! The heap for C: what `include/ashlar.h` declares, which is the documentation.
//!
//! A program promises in the header what holds for all functions here, and no other comment says
//! it again: a handle is a heap, the calling thread or a callback's tracer, as its type says; who
//! calls what is marked \[lock\] there holds the program's lock.
//!
//! Thin: a function here converts, calls [`ashlar_heap`] and returns. Each thing that a C program
//! needs beside that has a file: roots that it registers (`roots.rs`), layouts that it declares
//! (`declared.rs`), finalizers, options as text, errors as a line.
//!
//! A panic ends the process, because no frame of C can be unwound.

mod collect;
mod declared;
mod error;
mod finalizers;
mod heap;
mod layout;
mod options;
mod payload;
#[cfg(test)]
mod refusing_allocator;
mod roots;
mod statistics;
mod thread;
mod tracer;
mod vm;
