//! The heap: owns everything, and is the one place that orders the phases.

mod allocation;
mod compaction;
mod cycle;
mod pacing;
mod reading;
mod stress;
mod sweeping;

pub use crate::space::CellRange;

use std::cell::{Cell as StdCell, RefCell, UnsafeCell};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::MutexGuard;
use std::time::Duration;

use crate::allocate::blocks::Stock;
use crate::allocate::cursor::AllocationCache;
use crate::allocate::lists::BlockLists;
use crate::compact::{Evacuation, Moves};
use crate::layout::cell_state::CellState;
use crate::layout::region::{Cell, Region, States};
use crate::layout::width::WIDTH_COUNT;
use crate::layout::{BLOCK_BYTES, STATE_GRANULE_BYTES};
use crate::mark::helpers::{Helpers, Stopped};
use crate::mark::marker::Marker;
use crate::mark::parallel::ParallelMarking;
use crate::os::{self, Refused};
use crate::pace::{Pace, PaceOptions, Scope};
use crate::payload::pool::Pool;
use crate::payload::thread_cache::ThreadCache;
use crate::payload::Payloads;
use crate::space::Space;
use crate::stats::Stats;
use crate::stress::Stress;
use crate::sweep::pacer::SweepPacer;
use crate::vm::Vm;

use cycle::Cycle;
pub use cycle::{Phase, Progress};

/// The parts of a heap that every thread may use at any time.
#[derive(Debug)]
pub struct Shared {
    /// The region and its blocks.
    pub space: Space,
    /// What is known about all payloads.
    pub payloads: Payloads,
    /// Threads that help in marking.
    pub(crate) helpers: Helpers,
    /// Some heap has been made of this.
    has_heap: AtomicBool,
    /// The collector is marking, or moving cells, at this moment.
    collecting: AtomicBool,
}

impl Shared {
    /// Reserves a heap of at most `bytes`.
    pub fn reserve(bytes: usize) -> Result<Self, Refused> {
        Self::reserve_in_pages(bytes, os::page_bytes())
    }

    /// [`Shared::reserve`] as on a system with pages of `page_bytes`, a power of two,
    /// at least this one's and at most [`BLOCK_BYTES`].
    pub fn reserve_in_pages(bytes: usize, page_bytes: usize) -> Result<Self, Refused> {
        Ok(Self {
            space: Space::reserve(bytes, page_bytes)?,
            payloads: Payloads::new(),
            helpers: Helpers::default(),
            has_heap: AtomicBool::new(false),
            collecting: AtomicBool::new(false),
        })
    }

    /// Whether the collector is at work at this moment: it marks, moves cells, or
    /// frees what dead cells owned.
    pub fn is_busy(&self) -> bool {
        self.collecting.load(Relaxed) || self.payloads.is_sweeping()
    }
}

/// Holds the locks of a [`Shared`]: nothing is in the middle of a change.
#[derive(Debug)]
pub struct Frozen<'a> {
    _pool: MutexGuard<'a, Pool>,
    _stock: MutexGuard<'a, Stock>,
}

impl Shared {
    /// A thread's door to the payloads of this heap.
    pub fn thread_cache(&self) -> ThreadCache<'_> {
        ThreadCache::new(&self.space, &self.payloads)
    }

    /// Ends the threads that help in marking, which a fork would not copy; they
    /// are started anew when they are needed next. Waits for a marking that they
    /// share in.
    pub fn stop_helpers(&self) -> Stopped<'_> {
        self.helpers.stop()
    }

    /// Threads that wait to help in marking; 0 while that cannot be told.
    pub fn helper_count(&self) -> usize {
        self.helpers.count()
    }

    /// Waits until no thread is changing anything, and keeps it so: what a fork
    /// needs.
    ///
    /// The helpers are to be stopped before, and before any other lock is taken
    /// that marking may need.
    pub fn freeze(&self) -> Frozen<'_> {
        Frozen {
            _pool: self.payloads.lock(),
            _stock: self.space.blocks.lock(),
        }
    }
}

/// A heap of cells and payloads for one VM.
///
/// Except for [`Shared`], a heap is used by one thread at a time: whoever holds
/// the VM's lock.
pub struct Heap<'shared, V> {
    /// The virtual machine whose objects live here.
    pub vm: V,
    shared: &'shared Shared,
    /// A copy of the region's, one load nearer.
    states: States<'shared>,
    /// A [`Phase`]; the write barrier asks for it without the VM's lock.
    phase: AtomicU8,
    marker: UnsafeCell<Marker>,
    collector: RefCell<Collector<'shared>>,
    stress: StdCell<Stress>,
    pub(crate) parallel: StdCell<ParallelMarking>,
    /// Cells are moving: references may be to where they were.
    moving: StdCell<bool>,
    /// Walks that hold addresses of cells: nothing moves meanwhile.
    walks: StdCell<usize>,
    sweep_time_max: StdCell<Option<Duration>>,
}

// SAFETY: nothing in a heap belongs to a thread. The caches that it points to are
// boxes whose owners give them up with `drop_cache`; the marker's pointers are to
// the stack of a thread that is collecting, while it is.
unsafe impl<V: Send> Send for Heap<'_, V> {}

/// What the collector remembers between its phases.
struct Collector<'shared> {
    lists: BlockLists<'shared>,
    pace: Pace,
    cycle: Cycle,
    stats: Stats,
    caches: Vec<NonNull<AllocationCache<'shared>>>,
    /// Cells allocated by caches that are gone, by width.
    allocated_by_retired: [u64; WIDTH_COUNT],
    /// Cells freed, by width.
    freed: [u64; WIDTH_COUNT],
    /// Cells that compactions moved.
    moves: Moves,
    /// Blocks taken from the stock and given back to it, by width.
    blocks_taken: [usize; WIDTH_COUNT],
    blocks_given: [usize; WIDTH_COUNT],
    fresh_cell_bytes: usize,
    sweep_pacer: SweepPacer,
    stress_countdown: usize,
    /// The latest full collection has not given back idle blocks yet, from this one
    /// on.
    release_from: Option<usize>,
}

/// How an allocation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// Here is the cell.
    Allocated(Cell),
    /// A collection is due first.
    NeedsCollection,
    /// The system refuses memory, or the region is full.
    OutOfMemory,
    /// No width holds this size.
    TooLarge,
}

/// Whether an allocation may be put off for a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Collect first when a collection is due.
    MayCollect,
    /// The VM cannot collect now.
    MustAllocate,
}

/// What kind of collection is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// All of the heap or its young part; pacing decides when nothing is asked.
    pub scope: Option<Scope>,
    /// Sweep everything before returning.
    pub sweep_now: bool,
    /// Sweep and compact before returning if the collection is a full one.
    pub compact: Option<Evacuation>,
}

impl<'shared, V: Vm> Heap<'shared, V> {
    /// A heap for `vm` over `shared`, the first and only one that ever uses it.
    ///
    /// # Panics
    /// When a heap has been made of `shared` before.
    pub fn new(vm: V, shared: &'shared Shared, pace: PaceOptions) -> Result<Self, Refused> {
        let cells_max = shared.space.region.reserved_blocks() * (BLOCK_BYTES / STATE_GRANULE_BYTES);
        let marker = Marker::new(cells_max)?;
        let is_taken = shared.has_heap.swap(true, Relaxed);
        assert!(!is_taken, "these shared parts have a heap already");
        Ok(Self {
            vm,
            shared,
            states: shared.space.region.states(),
            phase: AtomicU8::new(Phase::Idle as u8),
            marker: UnsafeCell::new(marker),
            collector: RefCell::new(Collector::new(&shared.space, pace)),
            stress: StdCell::new(Stress::default()),
            parallel: StdCell::new(ParallelMarking::default()),
            moving: StdCell::new(false),
            walks: StdCell::new(0),
            sweep_time_max: StdCell::new(None),
        })
    }

    /// The parts that every thread may use.
    #[inline(always)]
    pub fn shared(&self) -> &'shared Shared {
        self.shared
    }

    /// The address range and its tables.
    #[inline(always)]
    pub fn region(&self) -> &'shared Region {
        &self.shared.space.region
    }

    /// The region and its blocks.
    #[inline(always)]
    pub fn space(&self) -> &'shared Space {
        &self.shared.space
    }

    /// The cell states.
    #[inline(always)]
    pub fn states(&self) -> States<'shared> {
        self.states
    }

    /// Makes every live cell old, after sweeping what is unswept: for a program
    /// that says it has finished starting up. Finishes what marking is going on.
    pub fn promote_everything(&self) {
        self.finish_marking();
        self.for_each_cell(|cell, _| {
            let state = self.region().state(cell);
            if state.is_old() {
                return;
            }
            self.with_marker(|marker| marker.old_cells += 1);
            let old = state.with(CellState::OLD | CellState::MARKED);
            self.region().set_state(cell, old);
            if old.is_unprotected() {
                self.remember_if_old(cell);
            }
        });
    }

    fn set_collecting(&self, collecting: bool) {
        self.shared.collecting.store(collecting, Relaxed);
    }

    /// Uses the marker for a moment. `with` must not call back into the VM.
    #[inline(always)]
    pub(crate) fn with_marker<R>(&self, with: impl FnOnce(&mut Marker) -> R) -> R {
        // SAFETY: one thread at a time uses the heap, and no reference to the
        // marker outlives `with`, which does not come here again.
        with(unsafe { &mut *self.marker.get() })
    }

    /// Shows the lists of blocks to the verifier.
    pub(crate) fn with_lists<R>(&self, with: impl FnOnce(&BlockLists<'_>) -> R) -> R {
        with(&self.collector.borrow().lists)
    }
}

impl<'shared> Collector<'shared> {
    fn new(space: &'shared Space, pace: PaceOptions) -> Self {
        Self {
            lists: BlockLists::new(space),
            pace: Pace::new(pace),
            cycle: Cycle::default(),
            stats: Stats::default(),
            caches: Vec::new(),
            allocated_by_retired: [0; WIDTH_COUNT],
            freed: [0; WIDTH_COUNT],
            moves: Moves::default(),
            blocks_taken: [0; WIDTH_COUNT],
            blocks_given: [0; WIDTH_COUNT],
            fresh_cell_bytes: 0,
            sweep_pacer: SweepPacer::default(),
            stress_countdown: 0,
            release_from: None,
        }
    }

    /// An allocation has got a run of so many bytes.
    #[inline(always)]
    fn hand_out(&mut self, bytes: usize, shared: &Shared) {
        self.fresh_cell_bytes += bytes;
        let fresh_bytes = self.fresh_bytes(shared);
        self.sweep_pacer.note_handed(fresh_bytes);
    }

    #[inline(always)]
    fn fresh_bytes(&self, shared: &Shared) -> usize {
        self.fresh_cell_bytes + shared.payloads.fresh_bytes()
    }
}
