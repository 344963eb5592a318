//! A variable-width garbage-collected heap: objects of any width and the
//! buffers they own live in one heap, owned by one collector.
//!
//! # Flow
//!
//! ```text
//! allocate → mark → sweep (→ compact) → allocate → …
//! ```
//!
//! `heap.rs` orders the phases, [`driver`] says when and how. A VM implements [`Vm`] and calls
//! [`Heap`]. Here is a whole VM, whose objects are lists: the first word of a cell is the address
//! of the next one, or 0.
//!
//! ```
//! use std::{cell::RefCell, ptr::with_exposed_provenance_mut as pointer};
//! use ashlar_heap::*;
//!
//! struct Lists(RefCell<Vec<Cell>>);
//!
//! // SAFETY: what is marked are cells of the only heap, and all that the program uses.
//! unsafe impl Vm for Lists {
//!     fn trace_roots(&self, tracer: &mut Tracer<'_>) {
//!         self.0.borrow().iter().for_each(|&head| tracer.mark(head));
//!     }
//!     unsafe fn trace_cell(&self, cell: Cell, tracer: &mut Tracer<'_>) {
//!         // SAFETY: every cell begins with 0 or the address of another one.
//!         match unsafe { pointer::<usize>(cell.address()).read() } {
//!             0 => {}
//!             next => tracer.mark(unsafe { Cell::from_address(next) }),
//!         }
//!     }
//!     unsafe fn release(&self, _cell: Cell, _width: WidthIndex) {}
//! }
//!
//! let shared = Shared::reserve(64 << 20).expect("address space");
//! let vm = Lists(RefCell::default());
//! let heap = Heap::new(vm, &shared, PaceOptions::default()).expect("memory");
//! let mut cache = heap.new_cache();
//! for number in 0..100_000 {
//!     // SAFETY: this thread alone uses the cache, in this call.
//!     let mut allocate = |urgency| heap.allocate(unsafe { cache.as_mut() }, 32, CellState::NEW, urgency);
//!     let mut cell = allocate(Urgency::MayCollect);
//!     if cell == Allocation::NeedsCollection {
//!         heap.collect(Request::default());
//!         cell = allocate(Urgency::MustAllocate);
//!     }
//!     let Allocation::Allocated(cell) = cell else { panic!("{cell:?}") };
//!     // Lists of ten; only the latest is kept.
//!     let mut heads = heap.vm().0.borrow_mut();
//!     let next = heads.pop().filter(|_| number % 10 != 0);
//!     // SAFETY: the cell is new, and nobody else has it.
//!     unsafe { pointer::<usize>(cell.address()).write(next.map_or(0, Cell::address)) };
//!     heads.push(cell);
//! }
//! heap.collect(Request::EVERYTHING);
//! assert_eq!(heap.usage().live_cells, 10);
//! ```
//!
//! `examples/toy_vm.rs` does all that a VM may do: its objects own payloads and have weak
//! references, several threads trace them, and they move.
//!
//! # Words
//!
//! * **Cell**: memory for one object. **Width**: the bytes of a cell.
//! * **Block**: 64 KiB, holding cells of one width, or payloads.
//! * **Payload**: memory an object owns, allocated through a [`ThreadCache`].
//! * **Run**: neighbouring free cells. **Cursor**: the run being allocated from.
//! * **Young**, **old**, **settled**: generations by sticky mark bits.
//! * **White**, **grey**, **black**: not marked; marked and still to be traced; marked
//!   and traced.
//! * **Remark**: tracing the roots again with the program stopped, at the end of
//!   marking.
//! * **Unprotected**: a cell that the program writes to without a barrier.
//! * **Remembered set**: old cells that may refer to young ones. **Boundary**: settled
//!   cells that may refer to unsettled ones.
//! * **Pinned**: must not move, because something refers to it that cannot be
//!   rewritten. **Forwarded**: has moved, and says where to.
//!
//! # What is safe
//!
//! A [`Cell`] is an address. A function that takes a cell either checks it or is `unsafe`: then
//! the caller knows that the cell is of this heap and alive. [`Vm`] is an `unsafe` trait: the
//! heap relies on what a VM says its cells refer to. Allocation caches are pointers, and
//! [`Heap::new_cache`] says what a reference to one promises. That is all; nothing else can go
//! wrong in safe code (docs/design/soundness.md).
//!
//! A heap cannot be used by two threads at once:
//!
//! ```compile_fail,E0277
//! fn shared_by_threads<T: Sync>() {}
//! fn of_any_vm<V: ashlar_heap::Vm + Sync>() {
//!     shared_by_threads::<ashlar_heap::Heap<'static, V>>();
//! }
//! ```
//!
//! A VM stays with its heap, and a heap's parts stay together:
//!
//! ```compile_fail,E0616
//! fn change_places<V: ashlar_heap::Vm>(
//!     one: &mut ashlar_heap::Heap<'static, V>,
//!     other: &mut ashlar_heap::Heap<'static, V>,
//! ) {
//!     std::mem::swap(&mut one.vm, &mut other.vm);
//! }
//! ```
//!
//! ```compile_fail,E0616
//! fn change_places(one: &mut ashlar_heap::Shared, other: &mut ashlar_heap::Shared) {
//!     std::mem::swap(&mut one.space, &mut other.space);
//! }
//! ```
//!
//! A VM has to write `unsafe` for its promises, and so does whoever reports a store:
//!
//! ```compile_fail,E0200
//! struct Nothing;
//! impl ashlar_heap::Inspection for Nothing {
//!     fn visit_roots(&self, _: &mut dyn FnMut(ashlar_heap::Root)) {}
//!     unsafe fn visit_cell(&self, _: ashlar_heap::Cell, _: &mut dyn FnMut(ashlar_heap::Cell)) {}
//! }
//! ```
//!
//! ```compile_fail,E0133
//! fn tell<V: ashlar_heap::Vm>(heap: &ashlar_heap::Heap<'_, V>, cell: ashlar_heap::Cell) {
//!     heap.write_barrier(cell, cell);
//! }
//! ```
//!
//! # What to rely on
//!
//! Versions follow semantic versioning: below 1.0 a minor version may change anything
//! public. There are no features: what can be chosen is chosen at run time. Rust 1.85 or
//! newer, 64-bit Linux with glibc; not `no_std`, because the heap reserves, commits and
//! gives back pages of the system.
//!
//! Numbered invariants stand where the data lives; [`Heap::verify`] asserts them.

mod allocate;
mod compact;
pub mod counters;
#[doc(hidden)]
pub mod document;
pub mod driver;
mod heap;
pub mod inlined;
mod layout;
mod mark;
pub mod options;
pub mod os;
pub mod outline;
mod pace;
mod payload;
mod prefetch;
pub mod refusals;
mod shared;
mod space;
mod stack;
mod stats;
mod stress;
mod sweep;
mod verify;
mod vm;
mod work_budget;

pub use allocate::cursor::AllocationCache;
pub use allocate::huge_pages::HugePages;
pub use allocate::policy::Policy;
pub use compact::forward::Forwarding;
pub use compact::Evacuation;
pub use heap::{Allocation, Heap, Progress, Request, Stage, Urgency};
pub use layout::arena::{Arena, ARENA_COUNT};
pub use layout::block::BlockIndex;
pub use layout::cell_state::CellState;
pub use layout::region::{Cell, Region};
pub use layout::width::{WidthIndex, WIDTHS, WIDTH_COUNT, WIDTH_MAX_BYTES, WIDTH_MIN_BYTES};
pub use layout::{BLOCK_BYTES, STATE_GRANULE_BYTES};
pub use mark::pile::ParallelMarking;
pub use mark::pool::{Stopped, THREADS_MAX};
pub use mark::trace::{Trace, TraceCommon};
pub use mark::tracer::{MarkingEnd, Tracer};
pub use mark::weak::WeakCounts;
pub use pace::{Costs, Measure, Pace, PaceOptions, Scope};
pub use payload::thread_cache::ThreadCache;
pub use payload::{OutOfMemory, Payloads, Resized};
pub use shared::{Frozen, Shared, RESERVE_BYTES_MIN};
pub use space::{BlockUse, CellRange, Space};
pub use stats::{Stats, Usage, WidthUsage};
pub use stress::Stress;
pub use vm::{Inspection, Moving, Root, Vm};
pub use work_budget::WorkBudget;

/// What only the tests of this crate use: sizes that a user of a heap need not
/// know.
pub mod for_tests {
    pub use crate::layout::class::{CLASS_COUNT, CLASS_MAX_BYTES};
    pub use crate::layout::kind::Kind;
}

/// The example of the README compiles and holds.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
