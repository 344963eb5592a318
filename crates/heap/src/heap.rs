//! The heap: owns everything, and is the one place that orders the phases.

mod cycle;
mod reading;

pub use reading::CellRange;

use std::cell::{Cell as StdCell, RefCell, UnsafeCell};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use crate::allocate::blocks::Stock;
use crate::allocate::cursor::AllocationCache;
use crate::allocate::lists::BlockLists;
use crate::allocate::run::Run;
use crate::compact::{Evacuation, Moves};
use crate::layout::block::BlockIndex;
use crate::layout::cell_state::CellState;
use crate::layout::kind::Kind;
use crate::layout::region::{Cell, Region, States};
use crate::layout::width::{WidthIndex, WIDTH_COUNT};
use crate::layout::{BLOCK_BYTES, STATE_GRANULE_BYTES};
use crate::mark::allowance::Allowance;
use crate::mark::helpers::{Helpers, Stopped};
use crate::mark::marker::Marker;
use crate::mark::parallel::ParallelMarking;
use crate::os::{self, Refused};
use crate::pace::{Measure, Pace, PaceOptions, Residence, Scope};
use crate::payload::pool::Pool;
use crate::payload::thread_cache::ThreadCache;
use crate::payload::Payloads;
use crate::space::Space;
use crate::stats::Stats;
use crate::stress::Stress;
use crate::sweep::schedule::Schedule;
use crate::verify::Stop;
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
        Ok(Self {
            space: Space::reserve(bytes)?,
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
    sweep_schedule: Schedule,
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

/// A block takes about as long to be swept as so many cells to be marked: enough
/// to look at the clock after each.
const CELLS_PER_SWEPT_BLOCK: usize = 256;
/// And giving back the pages of one.
const CELLS_PER_RELEASED_BLOCK: usize = 256;
/// An allocation that has to sweep makes room for about so much.
const ROOM_BYTES: usize = 8 << 10;

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

    // ── Allocation ──────────────────────────────────────────────────────────

    /// Allocates a cell of at least `size_bytes` in state `state`
    /// ([`CellState::NEW`] or [`CellState::NEW_UNPROTECTED`]). Its contents are
    /// unspecified. The cache must be one of this heap's.
    #[inline(always)]
    pub fn allocate(
        &self,
        cache: &mut AllocationCache<'_>,
        size_bytes: usize,
        state: CellState,
        urgency: Urgency,
    ) -> Allocation {
        let Some(width) = WidthIndex::for_size(size_bytes) else {
            return Allocation::TooLarge;
        };
        match cache.bump(width, state) {
            Some(cell) => Allocation::Allocated(cell),
            None => self.allocate_slowly(cache, width, state, urgency),
        }
    }

    #[cold]
    #[inline(never)]
    fn allocate_slowly(
        &self,
        cache: &mut AllocationCache<'_>,
        width: WidthIndex,
        state: CellState,
        urgency: Urgency,
    ) -> Allocation {
        assert!(cache.is_of(self.space()), "the cache is another heap's");
        if urgency == Urgency::MayCollect && (self.collection_is_due() || self.stress_is_due()) {
            return Allocation::NeedsCollection;
        }
        let stress = self.stress.get();
        let cells_at_most = if stress.collect_every == 0 && stress.slice_cells == 0 {
            usize::MAX
        } else {
            1
        };
        loop {
            if let Some(bytes) = cache.next_run(width, cells_at_most) {
                self.collector.borrow_mut().hand_out(bytes, self.shared);
                if let Some(cell) = cache.bump(width, state) {
                    return Allocation::Allocated(cell);
                }
            }
            cache.retire(width);
            match self.find_block(width) {
                Some(block) => cache.adopt(width, block),
                None => return Allocation::OutOfMemory,
            }
        }
    }

    /// The program is about to be told that memory is out: it may have the last
    /// of it for that. A full collection that finds room takes this back.
    pub fn open_reserve(&self) {
        self.shared.space.blocks.open_reserve();
    }

    /// A block of this width with free runs: one that has some already, one
    /// that has some once it is swept, or an empty one.
    fn find_block(&self, width: WidthIndex) -> Option<BlockIndex> {
        self.find_used_block(width)
            .or_else(|| self.take_block(width))
            .or_else(|| self.sweep_for(width, &mut Allowance::unlimited()))
    }

    /// One that has cells in it, within the time that may be spent on sweeping.
    fn find_used_block(&self, width: WidthIndex) -> Option<BlockIndex> {
        let blocks_due = self.blocks_due();
        if blocks_due == 0 {
            let block = self.pop_available(width);
            if block.is_some() || !self.is_sweeping() {
                return block;
            }
        }
        self.sweep_a_little(|allowance| {
            self.sweep_ahead(width, blocks_due, allowance);
            self.pop_available(width)
                .or_else(|| self.sweep_for(width, allowance))
        })
    }

    /// An empty block from the stock, one free run.
    pub(crate) fn take_block(&self, width: WidthIndex) -> Option<BlockIndex> {
        let block = self.space().take_block(Kind::Cells(width))?;
        self.collector.borrow_mut().blocks_taken[width.index()] += 1;
        let start = self.region().address_of(block);
        Run {
            start,
            end: start + width.cells_per_block() * width.bytes(),
            next: 0,
        }
        .write(self.region());
        self.region().block(block).set_free(start);
        if self.stress().poison {
            self.poison_free_cells(block, width);
        }
        Some(block)
    }

    /// Sweeps blocks of this width until there is room for some cells, because a
    /// block of a dense heap has room for one or two; a block with free runs.
    fn sweep_for(&self, width: WidthIndex, allowance: &mut Allowance) -> Option<BlockIndex> {
        let mut room_cells = 0;
        while room_cells * width.bytes() < ROOM_BYTES && allowance.spend(CELLS_PER_SWEPT_BLOCK) {
            let unswept = {
                let lists = &mut self.collector.borrow_mut().lists;
                lists.pop_unswept(width)
            };
            let Some(block) = unswept else { break };
            let live_cells = self.sweep_and_count(block, width);
            if self.region().block(block).free() != 0 {
                let lists = &mut self.collector.borrow_mut().lists;
                lists.push_available(width, block);
                room_cells += width.cells_per_block() - live_cells;
            }
        }
        self.pop_available(width)
    }

    fn pop_available(&self, width: WidthIndex) -> Option<BlockIndex> {
        let lists = &mut self.collector.borrow_mut().lists;
        lists.pop_available(width)
    }

    /// Makes an allocation cache. It is the caller's until
    /// [`Heap::drop_cache`]; the heap retires it at every collection.
    pub fn new_cache(&self) -> NonNull<AllocationCache<'shared>> {
        let cache = NonNull::from(Box::leak(Box::new(AllocationCache::new(self.space()))));
        self.collector.borrow_mut().caches.push(cache);
        cache
    }

    /// Ends a cache.
    ///
    /// # Safety
    /// The cache must come from [`Heap::new_cache`] of this heap and must not
    /// be used any more.
    pub unsafe fn drop_cache(&self, cache: NonNull<AllocationCache<'shared>>) {
        self.collector.borrow_mut().caches.retain(|c| *c != cache);
        // SAFETY: the cache was leaked from a box, and nobody else has it.
        let mut cache = unsafe { Box::from_raw(cache.as_ptr()) };
        self.retire_cache(&mut cache);
        let mut collector = self.collector.borrow_mut();
        for width in WidthIndex::all() {
            collector.allocated_by_retired[width.index()] += cache.allocated_cells(width);
        }
    }

    fn retire_cache(&self, cache: &mut AllocationCache<'_>) {
        for width in WidthIndex::all() {
            let Some(block) = cache.retire(width) else {
                continue;
            };
            if self.region().block(block).free() != 0 {
                let lists = &mut self.collector.borrow_mut().lists;
                lists.push_available(width, block);
            }
        }
    }

    // ── Collection ──────────────────────────────────────────────────────────

    /// Whether the next collection is a full one if nobody asks for a scope.
    /// Not known, and therefore false, while dead cells are unswept.
    pub fn next_is_full(&self) -> bool {
        let measure = self.measure();
        let mut pace = self.pace();
        let known = !self.is_sweeping() && !self.is_marking();
        known && pace.start(measure, None) == Scope::Full
    }

    /// Bytes in use, and those of them that are fresh.
    pub fn measure(&self) -> Measure {
        let cell_bytes = self.live_cell_bytes();
        let stats = self.collector.borrow().stats;
        let counts_rescans = self.pace().options().rescans_max_millionths.is_some();
        Measure {
            used_bytes: cell_bytes
                + self.shared.payloads.in_use_bytes()
                + self.shared.payloads.elsewhere_bytes(),
            fresh_bytes: self.fresh_bytes(),
            cell_bytes,
            kept_cells: stats.marked_cells,
            old_cells: stats.old_cells,
            rescanned_cells: if counts_rescans {
                self.remembered_unprotected_cells()
            } else {
                0
            },
            residence: None,
        }
    }

    /// [`Heap::measure`], and what the system has given when there is a limit.
    fn measure_residence(&self) -> Measure {
        let measure = self.measure();
        let is_limited = self.pace().options().memory_limit_bytes.is_some();
        let resident_bytes = is_limited.then(os::resident_bytes).flatten();
        Measure {
            residence: resident_bytes.map(|resident_bytes| {
                let block_bytes = self.shared.space.blocks.counts().in_use * BLOCK_BYTES;
                let here_bytes = measure.used_bytes - self.shared.payloads.elsewhere_bytes();
                Residence {
                    resident_bytes,
                    free_bytes: block_bytes.saturating_sub(here_bytes),
                }
            }),
            ..measure
        }
    }

    fn retire_caches(&self) {
        // No copy of the list: there may be no memory for one.
        for index in 0.. {
            let cache = self.collector.borrow().caches.get(index).copied();
            let Some(mut cache) = cache else { return };
            // SAFETY: caches live until `drop_cache`, and the VM is stopped, so
            // nobody allocates from them now.
            self.retire_cache(unsafe { cache.as_mut() });
        }
    }

    fn start_sweep(&self, scope: Scope) {
        let (marked_cells, old_cells, threads) =
            self.with_marker(|marker| (marker.marked_cells, marker.old_cells, marker.threads));
        let mut collector = self.collector.borrow_mut();
        collector.lists.rebuild(scope == Scope::Full);
        collector.stats.marked_cells = marked_cells;
        collector.stats.old_cells = old_cells;
        // Early, because what is dead holds memory, but not at once.
        let planned_bytes = collector.pace.budget_bytes() / 16;
        let unswept_blocks = collector.lists.unswept_blocks();
        collector.sweep_schedule = Schedule::new(planned_bytes, unswept_blocks);
        if scope == Scope::Full {
            collector.stats.marking_threads = threads;
            collector.release_from = Some(0);
        }
    }

    /// Sweeps as much as `allowance` allows; whether everything is swept.
    pub fn sweep_within(&self, allowance: &mut Allowance) -> bool {
        while self.sweep_next(None) {
            if !allowance.spend(CELLS_PER_SWEPT_BLOCK) {
                break;
            }
        }
        let is_swept = !self.is_sweeping();
        if is_swept {
            self.release_idle_blocks(allowance);
        }
        is_swept
    }

    /// Limits the time that allocations may sweep for, one or several in short
    /// succession. They take empty blocks then, although there may be room in some
    /// that are not swept yet.
    pub fn set_sweep_time_max(&self, time: Option<Duration>) {
        self.sweep_time_max.set(time);
    }

    /// Runs `sweep` with what is left of the time that allocations may sweep for.
    fn sweep_a_little<R>(&self, sweep: impl FnOnce(&mut Allowance) -> R) -> R {
        let mut allowance = match self.sweep_time_left() {
            None => return sweep(&mut Allowance::unlimited()),
            Some(Duration::ZERO) => return sweep(&mut Allowance::cells(0)),
            Some(time) => Allowance::time(time),
        };
        let start = Instant::now();
        let result = sweep(&mut allowance);
        let schedule = &mut self.collector.borrow_mut().sweep_schedule;
        schedule.note_spent(start.elapsed());
        result
    }

    /// `None` when there is no limit.
    fn sweep_time_left(&self) -> Option<Duration> {
        let time_max = self.sweep_time_max.get()?;
        let collector = self.collector.borrow();
        if collector.pace.is_short_of_room() {
            return None;
        }
        Some(collector.sweep_schedule.time_left(time_max))
    }

    /// Sweeps so many blocks, those of `width` first.
    fn sweep_ahead(&self, width: WidthIndex, blocks: usize, allowance: &mut Allowance) {
        for _ in 0..blocks {
            if !allowance.spend(CELLS_PER_SWEPT_BLOCK) || !self.sweep_next(Some(width)) {
                break;
            }
        }
    }

    /// Blocks that are to be swept now; none while there are only a few, or no
    /// time.
    fn blocks_due(&self) -> usize {
        if self.sweep_time_left() == Some(Duration::ZERO) {
            return 0;
        }
        let collector = self.collector.borrow();
        let unswept_blocks = collector.lists.unswept_blocks();
        collector.sweep_schedule.blocks_due(unswept_blocks)
    }

    /// Whether the next allocation of this width will sweep if it comes before any
    /// other.
    pub fn will_sweep(&self, cache: &AllocationCache, width: WidthIndex) -> bool {
        !cache.has_run(width)
            && self.is_sweeping()
            && (self.blocks_due() > 0 || !self.collector.borrow().lists.has_available(width))
    }

    /// Sweeps everything that is unswept.
    pub fn finish_sweep(&self) {
        while self.sweep_next(None) {}
        self.release_idle_blocks(&mut Allowance::unlimited());
    }

    /// Whether dead cells may still be around.
    pub fn is_sweeping(&self) -> bool {
        self.collector.borrow().lists.unswept_blocks() > 0
    }

    /// Sweeps a block, of this width if there is one; whether there was any.
    fn sweep_next(&self, width: Option<WidthIndex>) -> bool {
        let next = {
            let lists = &mut self.collector.borrow_mut().lists;
            let of_width = width.and_then(|width| Some((width, lists.pop_unswept(width)?)));
            of_width.or_else(|| lists.pop_any_unswept())
        };
        let Some((width, block)) = next else {
            return false;
        };
        if self.sweep_and_count(block, width) == 0 {
            self.give_block(block, width);
        } else if self.region().block(block).free() != 0 {
            let lists = &mut self.collector.borrow_mut().lists;
            lists.push_available(width, block);
        }
        true
    }

    pub(crate) fn give_block(&self, block: BlockIndex, width: WidthIndex) {
        self.space().give_blocks(block, 1);
        self.collector.borrow_mut().blocks_given[width.index()] += 1;
    }

    fn sweep_and_count(&self, block: BlockIndex, width: WidthIndex) -> usize {
        let swept = self.sweep_block(block, width);
        let mut collector = self.collector.borrow_mut();
        collector.freed[width.index()] += swept.freed_cells as u64;
        collector.stats.freed_cells += swept.freed_cells as u64;
        swept.live_cells
    }

    /// Gives pages back, slowly, once a full collection has been swept, as many as
    /// `allowance` allows; the rest at the next opportunity.
    fn release_idle_blocks(&self, allowance: &mut Allowance) {
        let Some(from) = self.collector.borrow_mut().release_from.take() else {
            return;
        };
        self.space().close_reserve();
        let all_at_once = self.is_out_of_limit();
        let goes_on = || all_at_once || allowance.spend(CELLS_PER_RELEASED_BLOCK);
        let released = self.space().release_idle_blocks(from, all_at_once, goes_on);
        let mut collector = self.collector.borrow_mut();
        collector.stats.blocks_released += released.blocks;
        collector.release_from = released.next;
        if released.next.is_none() && collector.pace.options().memory_limit_bytes.is_some() {
            let resident_bytes = os::resident_bytes().unwrap_or(0);
            let exact = !collector.cycle.was_in_slices();
            collector.pace.note_after_full(resident_bytes, exact);
        }
    }

    /// Bytes that the process may take from the system before it outgrows its
    /// memory limit; `None` without a limit, or when live data does not fit.
    pub fn room_below_limit_bytes(&self) -> Option<usize> {
        let pace = self.pace();
        let limit_bytes = pace.options().memory_limit_bytes?;
        let resident_bytes = os::resident_bytes()?;
        (!pace.is_over_limit()).then(|| limit_bytes.saturating_sub(resident_bytes))
    }

    /// Looks at what the process has resident, if there is a limit to it.
    pub fn note_resident(&self) {
        let has_limit = self.pace().options().memory_limit_bytes.is_some();
        if let Some(resident_bytes) = has_limit.then(os::resident_bytes).flatten() {
            self.collector
                .borrow_mut()
                .pace
                .note_resident(resident_bytes);
        }
    }

    /// Whether free memory has to go back at once to stay below the limit.
    fn is_out_of_limit(&self) -> bool {
        let pace = self.pace();
        pace.options().memory_limit_bytes.is_some_and(|limit| {
            let resident_bytes = os::resident_bytes().unwrap_or(0);
            resident_bytes + 2 * pace.budget_bytes() + limit / 8 > limit
        })
    }

    /// Gives the pages of all empty blocks back to the system now.
    pub fn release_empty_blocks(&self) {
        let released = self.space().release_idle_blocks(0, true, || true);
        self.collector.borrow_mut().stats.blocks_released += released.blocks;
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

    // ── Compaction ──────────────────────────────────────────────────────────

    /// Whether cells are moving: [`Heap::location`] says where they are now.
    pub fn is_moving(&self) -> bool {
        self.moving.get()
    }

    /// Somebody begins to hold addresses of cells, in places that nobody
    /// rewrites or scans: nothing moves until [`Heap::end_walk`].
    pub fn begin_walk(&self) {
        self.walks.set(self.walks.get() + 1);
    }

    /// Ends what [`Heap::begin_walk`] began.
    pub fn end_walk(&self) {
        self.walks.set(self.walks.get() - 1);
    }

    fn may_move(&self, scope: Scope) -> bool {
        scope == Scope::Full && self.walks.get() == 0
    }

    /// Runs `work`, which moves cells; payloads it frees count as swept.
    pub(crate) fn while_moving(&self, work: impl FnOnce()) {
        self.set_collecting(true);
        self.moving.set(true);
        self.payloads_sweeping(true);
        work();
        self.payloads_sweeping(false);
        self.moving.set(false);
        self.set_collecting(false);
    }

    pub(crate) fn count_compaction(&self) {
        self.collector.borrow_mut().stats.compactions += 1;
    }

    pub(crate) fn count_moves(&self, moves: &Moves) {
        let mut collector = self.collector.borrow_mut();
        collector.moves.add(moves);
        collector.stats.moved_cells += moves.cells();
    }

    /// Makes the lists of blocks anew when none needs sweeping.
    pub(crate) fn list_swept_blocks(&self) {
        self.collector.borrow_mut().lists.rebuild_swept();
    }

    // ── Stress ──────────────────────────────────────────────────────────────

    /// The stress switches that are on.
    pub fn stress(&self) -> Stress {
        self.stress.get()
    }

    /// Turns stress switches on or off. Caches are retired, so that the next
    /// allocation notices.
    pub fn set_stress(&self, stress: Stress) {
        self.stress.set(stress);
        self.with_marker(|marker| {
            marker.limit(match stress.mark_stack_cells_max {
                0 => usize::MAX,
                cells => cells,
            });
        });
        self.collector.borrow_mut().stress_countdown = stress.collect_every;
        self.retire_caches();
        if stress.poison {
            self.poison_everything_free();
        }
    }

    fn poison_everything_free(&self) {
        for (block, width) in self.space().cell_blocks() {
            self.poison_free_cells(block, width);
        }
    }

    fn stress_is_due(&self) -> bool {
        let Stress {
            collect_every: every,
            slice_cells,
            ..
        } = self.stress.get();
        if every == 0 || slice_cells != 0 {
            return slice_cells != 0;
        }
        let mut collector = self.collector.borrow_mut();
        collector.stress_countdown = collector.stress_countdown.saturating_sub(1);
        if collector.stress_countdown > 0 {
            return false;
        }
        collector.stress_countdown = every;
        true
    }

    /// The request, as moving everything makes it.
    fn stressed(&self, request: Request) -> Request {
        if !self.stress.get().move_everything {
            return request;
        }
        Request {
            scope: Some(Scope::Full),
            compact: Some(Evacuation::Everything),
            ..request
        }
    }

    fn verify_if_wanted(&self) {
        if self.stress.get().verify {
            if let Err(broken) = self.verify() {
                panic!("heap verification failed: {broken}");
            }
        }
    }

    // ── Inside ──────────────────────────────────────────────────────────────

    fn set_collecting(&self, collecting: bool) {
        self.shared.collecting.store(collecting, Relaxed);
    }

    pub(crate) fn payloads_sweeping(&self, sweeping: bool) {
        self.shared.payloads.set_sweeping(sweeping);
    }

    /// Uses the marker for a moment. `with` must not call back into the VM.
    #[inline(always)]
    pub(crate) fn with_marker<R>(&self, with: impl FnOnce(&mut Marker) -> R) -> R {
        // SAFETY: one thread at a time uses the heap, and no reference to the
        // marker outlives `with`, which does not come here again.
        with(unsafe { &mut *self.marker.get() })
    }

    pub(crate) fn check_lists(&self) -> Result<(), Stop> {
        self.collector.borrow().lists.verify()
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
            sweep_schedule: Schedule::default(),
            stress_countdown: 0,
            release_from: None,
        }
    }

    /// An allocation has got a run of so many bytes.
    #[inline(always)]
    fn hand_out(&mut self, bytes: usize, shared: &Shared) {
        self.fresh_cell_bytes += bytes;
        let fresh_bytes = self.fresh_bytes(shared);
        self.sweep_schedule.note_handed(fresh_bytes);
    }

    #[inline(always)]
    fn fresh_bytes(&self, shared: &Shared) -> usize {
        self.fresh_cell_bytes + shared.payloads.fresh_bytes()
    }
}
