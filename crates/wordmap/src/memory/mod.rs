//! The memory of nodes.
//!
//! [`NodeSource`] is what a map needs of its memory; [`NodeHeap`] is the source made for
//! it: small nodes in size classes of 8 bytes, larger ones as runs of 24-byte units
//! that merge again when freed. [`SharedHeap`] is the one heap of the process, which
//! maps use by default.

mod lock;
mod node_heap;
mod runs;
mod slab;
mod source;
mod system;

pub use node_heap::{HasHeap, NodeHeap, NodeHeapUse, SharedHeap};
pub use source::{GlobalPages, NodeSource, PageSource};
pub use system::SystemPages;
