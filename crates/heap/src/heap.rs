//! The heap: owns everything, and is the one place that orders the phases.

mod allocation;
mod barrier;
mod collect;
mod collection;
mod compaction;
mod counts;
mod forked;
mod huge_pages;
mod inherited;
mod pacing;
mod reading;
mod slice_schedule;
mod slices;
mod state;
mod stress;
mod sweeping;

pub use collection::Stage;

use std::cell::{Cell as StdCell, Ref, RefCell, RefMut};

use crate::allocate::lists::BlockLists;
use crate::compact::Evacuation;
use crate::driver::Pauses;
use crate::layout::region::{Cell, Region, States};
use crate::layout::{BLOCK_BYTES, STATE_GRANULE_BYTES};
use crate::mark::marker::Marker;
use crate::mark::pile::ParallelMarking;
use crate::mark::Mode;
use crate::os::Refused;
use crate::pace::{PaceOptions, Scope};
use crate::shared::Shared;
use crate::space::Space;
use crate::stress::Stress;
use crate::vm::Vm;
use crate::work_budget::WorkBudget;

use collection::Collection;
use state::State;

/// A heap of cells and payloads for one VM.
///
/// Except for [`Shared`], a heap is used by one thread at a time: whoever holds
/// the VM's lock.
pub struct Heap<'shared, V> {
    vm: V,
    shared: &'shared Shared,
    /// A copy of the region's states, one load nearer.
    states: States<'shared>,
    collection: Collection,
    marker: RefCell<Marker>,
    state: RefCell<State<'shared>>,
    stress: StdCell<Stress>,
    /// Allocations until the next collection that a stress switch asks for.
    stress_countdown: StdCell<usize>,
    parallel: StdCell<ParallelMarking>,
    /// Walks that hold addresses of cells: nothing moves meanwhile.
    walks: StdCell<usize>,
    pauses: Pauses,
}

// SAFETY: nothing in a heap belongs to a thread. The caches that it points to are
// boxes whose owners give them up with `drop_cache`.
unsafe impl<V: Send> Send for Heap<'_, V> {}

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
    /// How much of the heap is collected; pacing decides when this is `None`.
    pub scope: Option<Scope>,
    /// Sweep everything before returning.
    pub sweep_now: bool,
    /// Sweep and compact before returning if the collection is a full one.
    pub compact: Option<Evacuation>,
    /// Collect in full, and let all that is found settle that can: the program is expected to keep it.
    pub settle_all: bool,
}

impl Request {
    /// All that is dead is freed before the program goes on.
    pub const EVERYTHING: Self = Self {
        scope: Some(Scope::Full),
        sweep_now: true,
        compact: None,
        settle_all: false,
    };
}

/// How far [`Heap::advance`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The previous collection's dead cells are not all freed yet.
    Sweeping,
    /// Marking goes on.
    Marking,
    /// Everything live is marked: dead cells are freed from now on.
    Marked(Scope),
}

impl<'shared, V: Vm> Heap<'shared, V> {
    /// A heap for `vm` over `shared`, the first and only one that ever uses it.
    ///
    /// # Panics
    /// When a heap has been made of `shared` before.
    pub fn new(vm: V, shared: &'shared Shared, pace: PaceOptions) -> Result<Self, Refused> {
        let cells_max = shared.space.region.reserved_blocks() * (BLOCK_BYTES / STATE_GRANULE_BYTES);
        let marker = Marker::new(cells_max)?;
        shared.claim();
        Ok(Self {
            vm,
            shared,
            states: shared.space.region.states(),
            collection: Collection::none(),
            marker: RefCell::new(marker),
            state: RefCell::new(State::new(shared, pace)),
            stress: StdCell::new(Stress::default()),
            stress_countdown: StdCell::new(0),
            parallel: StdCell::new(ParallelMarking::default()),
            walks: StdCell::new(0),
            pauses: Pauses::default(),
        })
    }

    /// The virtual machine whose objects live here.
    #[inline(always)]
    pub fn vm(&self) -> &V {
        &self.vm
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
    pub(crate) fn states(&self) -> States<'shared> {
        self.states
    }

    /// Collects at once: allocate → mark → sweep → compact, in this order. A collection in
    /// progress is finished before. Returns the scope of the collection.
    pub fn collect(&self, request: Request) -> Scope {
        let request = self.stressed(request);
        self.finish_marking();
        self.finish_sweep();
        let mut compact = request.compact;
        if request.settle_all {
            self.age_everything();
        }
        let asked = request.settle_all.then_some(Scope::Full);
        let asked = asked.or(request.scope).or_else(|| {
            // A collection that moves cells has to find every pin.
            let is_major = compact.is_some() && self.next_scope() == Scope::Major;
            is_major.then_some(Scope::Full)
        });
        let scope = self.begin(asked, |scope| {
            compact = compact.filter(|_| self.may_move(scope));
            match compact {
                Some(_) => Mode::FindingPins,
                None => Mode::AtOnce,
            }
        });
        self.mark_within(&mut WorkBudget::unlimited());
        if request.sweep_now || compact.is_some() {
            self.finish_sweep();
        }
        if let Some(evacuation) = compact {
            self.compact(evacuation);
            self.verify_if_wanted();
        }
        scope
    }

    /// How long the program has waited for the collector, and how long it may.
    #[inline(always)]
    pub fn pauses(&self) -> &Pauses {
        &self.pauses
    }

    /// Chooses when several threads mark. Helpers that exist go on to wait for
    /// work, even if fewer are wanted.
    pub fn set_parallel_marking(&self, parallel: ParallelMarking) {
        self.parallel.set(parallel.within_bounds());
    }

    /// Makes every cell one that the full collection settles which is about to begin. That one builds the
    /// remembered set and the boundary set anew.
    fn age_everything(&self) {
        self.for_each_cell(|cell, _| {
            let state = self.region().state_of(cell);
            self.region().set_state(cell, state.aged_to_settle());
        });
    }

    /// Where the collection in progress is; any thread may ask.
    #[inline(always)]
    pub fn stage(&self) -> Stage {
        self.collection.stage()
    }

    /// Address of the byte that [`Heap::stage`] reads, for code that reads it without a call.
    pub fn stage_byte(&self) -> *const u8 {
        self.collection.stage_byte()
    }

    /// What marking works with. While a marking goes on, the tracer has it: nothing that the VM
    /// may call then borrows it.
    pub(crate) fn marker(&self) -> RefMut<'_, Marker> {
        self.marker.borrow_mut()
    }

    /// The lists of blocks, for a look at them.
    pub(crate) fn lists(&self) -> Ref<'_, BlockLists<'shared>> {
        Ref::map(self.state.borrow(), |state| &state.sweep.lists)
    }
}
