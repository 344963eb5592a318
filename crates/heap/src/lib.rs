//! A variable-width garbage-collected heap: objects of any width and the
//! buffers they own live in one heap, owned by one collector.
//!
//! # Flow
//!
//! ```text
//! allocate → mark → sweep (→ compact) → allocate → …
//! ```
//!
//! [`heap`] orders the phases. A VM implements [`vm::Vm`] and calls
//! [`heap::Heap`]; `examples/toy_vm.rs` is the smallest one.
//!
//! # Words
//!
//! * **Cell**: memory for one object. **Width**: the bytes of a cell.
//! * **Block**: 64 KiB, holding cells of one width, or payloads.
//! * **Payload**: memory an object owns, allocated through [`payload`].
//! * **Run**: neighbouring free cells. **Cursor**: the run being allocated from.
//! * **Young**, **old**: generations by sticky mark bits ([`mark`]).
//! * **Unprotected**: a cell that the program writes to without a barrier.
//! * **Remembered set**: old cells that may refer to young ones.
//! * **Pinned**: must not move, because something refers to it that cannot be
//!   rewritten. **Forwarded**: has moved, and says where to.
//!
//! Numbered invariants stand where the data lives; [`verify`] asserts them.

pub mod allocate;
pub mod compact;
pub mod heap;
pub mod layout;
pub mod mark;
pub mod os;
pub mod pace;
pub mod payload;
pub mod space;
pub mod stats;
pub mod stress;
mod sweep;
pub mod verify;
pub mod vm;
