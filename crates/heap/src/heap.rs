//! The heap: owns everything, and is the one place that orders the phases.

mod reading;

use std::cell::{Cell as StdCell, RefCell, UnsafeCell};
use std::ptr::NonNull;
use std::sync::MutexGuard;

use crate::allocate::blocks::{Blocks, Stock};
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
use crate::mark::marker::Marker;
use crate::mark::tracer::Tracer;
use crate::os::Refused;
use crate::pace::{Measure, Pace, PaceOptions, Scope};
use crate::payload::pool::Pool;
use crate::payload::Payloads;
use crate::stats::Stats;
use crate::stress::Stress;
use crate::vm::Vm;

/// The parts of a heap that every thread may use at any time.
#[derive(Debug)]
pub struct Shared {
    /// The address range and its tables.
    pub region: Region,
    /// The stock of empty blocks.
    pub blocks: Blocks,
    /// The payload side.
    pub payloads: Payloads,
}

impl Shared {
    /// Reserves a heap of at most `bytes`.
    pub fn reserve(bytes: usize) -> Result<Self, Refused> {
        Ok(Self {
            region: Region::reserve(bytes)?,
            blocks: Blocks::new(),
            payloads: Payloads::new(),
        })
    }
}

/// Holds the locks of a [`Shared`]: nothing is in the middle of a change.
#[derive(Debug)]
pub struct Frozen<'a> {
    _pool: MutexGuard<'a, Pool>,
    _stock: MutexGuard<'a, Stock>,
}

impl Shared {
    /// Waits until no thread is changing anything, and keeps it so: what a fork
    /// needs.
    pub fn freeze(&self) -> Frozen<'_> {
        Frozen {
            _pool: self.payloads.lock(),
            _stock: self.blocks.lock(),
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
    states: States,
    marker: UnsafeCell<Marker>,
    collector: RefCell<Collector>,
    stress: StdCell<Stress>,
    /// Cells are moving: references may be to where they were.
    moving: StdCell<bool>,
    /// Walks that hold addresses of cells: nothing moves meanwhile.
    walks: StdCell<usize>,
}

/// What the collector remembers between its phases.
struct Collector {
    lists: BlockLists,
    pace: Pace,
    stats: Stats,
    caches: Vec<NonNull<AllocationCache>>,
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
    /// Blocks to sweep ahead whenever a block is needed.
    sweep_ahead_blocks: usize,
    stress_countdown: usize,
    /// The latest collection was full and its sweeping is not over.
    release_after_sweep: bool,
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
    /// A heap for `vm` over shared parts that no other heap uses.
    pub fn new(vm: V, shared: &'shared Shared, pace: PaceOptions) -> Result<Self, Refused> {
        let cells_max = shared.region.reserved_blocks() * (BLOCK_BYTES / STATE_GRANULE_BYTES);
        Ok(Self {
            vm,
            shared,
            states: shared.region.states(),
            marker: UnsafeCell::new(Marker::new(cells_max)?),
            collector: RefCell::new(Collector::new(pace)),
            stress: StdCell::new(Stress::default()),
            moving: StdCell::new(false),
            walks: StdCell::new(0),
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
        &self.shared.region
    }

    /// The cell states.
    #[inline(always)]
    pub fn states(&self) -> States {
        self.states
    }

    // ── Allocation ──────────────────────────────────────────────────────────

    /// Allocates a cell of at least `size_bytes` in state `state`
    /// ([`CellState::NEW`] or [`CellState::NEW_UNPROTECTED`]). Its contents are
    /// unspecified.
    #[inline(always)]
    pub fn allocate(
        &self,
        cache: &mut AllocationCache,
        size_bytes: usize,
        state: CellState,
        urgency: Urgency,
    ) -> Allocation {
        let Some(width) = WidthIndex::for_size(size_bytes) else {
            return Allocation::TooLarge;
        };
        match cache.bump(self.states, width, state) {
            Some(cell) => Allocation::Allocated(cell),
            None => self.allocate_slowly(cache, width, state, urgency),
        }
    }

    #[cold]
    #[inline(never)]
    fn allocate_slowly(
        &self,
        cache: &mut AllocationCache,
        width: WidthIndex,
        state: CellState,
        urgency: Urgency,
    ) -> Allocation {
        if urgency == Urgency::MayCollect && (self.collection_is_due() || self.stress_is_due()) {
            return Allocation::NeedsCollection;
        }
        let cells_at_most = match self.stress.get().collect_every {
            0 => usize::MAX,
            _ => 1,
        };
        loop {
            if let Some(bytes) = cache.next_run(self.region(), width, cells_at_most) {
                self.collector.borrow_mut().fresh_cell_bytes += bytes;
                if let Some(cell) = cache.bump(self.states, width, state) {
                    return Allocation::Allocated(cell);
                }
            }
            cache.retire(self.region(), width);
            match self.find_block(width) {
                Some(block) => cache.adopt(self.region(), width, block),
                None => return Allocation::OutOfMemory,
            }
        }
    }

    /// The program is about to be told that memory is out: it may have the last
    /// of it for that. A full collection that finds room takes this back.
    pub fn open_reserve(&self) {
        self.shared.blocks.open_reserve();
    }

    /// A block of this width with free runs: one that has some already, one
    /// that has some once it is swept, or an empty one.
    fn find_block(&self, width: WidthIndex) -> Option<BlockIndex> {
        self.sweep_ahead();
        let available = self
            .collector
            .borrow_mut()
            .lists
            .pop_available(self.region(), width);
        if available.is_some() {
            return available;
        }
        loop {
            let unswept = self
                .collector
                .borrow_mut()
                .lists
                .pop_unswept(self.region(), width);
            let Some(block) = unswept else { break };
            self.sweep_and_count(block, width);
            if self.region().block(block).free() != 0 {
                return Some(block);
            }
        }
        self.take_block(width)
    }

    /// An empty block from the stock, one free run.
    pub(crate) fn take_block(&self, width: WidthIndex) -> Option<BlockIndex> {
        let block = self.shared.blocks.take(self.region(), Kind::Cells(width))?;
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

    /// Makes an allocation cache. It is the caller's until
    /// [`Heap::drop_cache`]; the heap retires it at every collection.
    pub fn new_cache(&self) -> NonNull<AllocationCache> {
        let cache = NonNull::from(Box::leak(Box::new(AllocationCache::new())));
        self.collector.borrow_mut().caches.push(cache);
        cache
    }

    /// Ends a cache.
    ///
    /// # Safety
    /// The cache must come from [`Heap::new_cache`] of this heap and must not
    /// be used any more.
    pub unsafe fn drop_cache(&self, cache: NonNull<AllocationCache>) {
        self.collector.borrow_mut().caches.retain(|c| *c != cache);
        // SAFETY: the cache was leaked from a box, and nobody else has it.
        let mut cache = unsafe { Box::from_raw(cache.as_ptr()) };
        self.retire_cache(&mut cache);
        let mut collector = self.collector.borrow_mut();
        for width in WidthIndex::all() {
            collector.allocated_by_retired[width.index()] += cache.allocated_cells(width);
        }
    }

    fn retire_cache(&self, cache: &mut AllocationCache) {
        for width in WidthIndex::all() {
            let Some(block) = cache.retire(self.region(), width) else {
                continue;
            };
            if self.region().block(block).free() != 0 {
                let lists = &mut self.collector.borrow_mut().lists;
                lists.push_available(self.region(), width, block);
            }
        }
    }

    // ── Collection ──────────────────────────────────────────────────────────

    /// Collects: allocate → mark → sweep → compact, in this order. The VM must
    /// be stopped. Says which scope it had.
    pub fn collect(&self, request: Request) -> Scope {
        let request = self.stressed(request);
        self.finish_sweep();
        self.retire_caches();
        let scope = self.start(request);
        let may_move = scope == Scope::Full && self.walks.get() == 0;
        let compact = request.compact.filter(|_| may_move);
        self.with_marker(|marker| marker.finding_pins = compact.is_some());
        self.mark_everything(scope);
        self.start_sweep(scope);
        self.verify_if_wanted();
        if request.sweep_now || compact.is_some() {
            self.finish_sweep();
        }
        if let Some(evacuation) = compact {
            self.compact(evacuation);
            self.verify_if_wanted();
        }
        scope
    }

    /// Whether pacing wants a collection.
    #[inline]
    pub fn collection_is_due(&self) -> bool {
        let collector = self.collector.borrow();
        collector.pace.is_due(collector.fresh_bytes(self.shared))
    }

    /// Whether the next collection is a full one if nobody asks for a scope.
    /// Not known, and therefore false, while dead cells are unswept.
    pub fn next_is_full(&self) -> bool {
        let measure = self.measure();
        let mut pace = self.pace();
        !self.is_sweeping() && pace.start(measure, None) == Scope::Full
    }

    /// Bytes in use, and those of them that are fresh.
    pub fn measure(&self) -> Measure {
        let cell_bytes = self.live_cell_bytes();
        let stats = self.collector.borrow().stats;
        Measure {
            used_bytes: cell_bytes
                + self.shared.payloads.in_use_bytes()
                + self.shared.payloads.elsewhere_bytes(),
            fresh_bytes: self.fresh_bytes(),
            cell_bytes,
            kept_cells: stats.marked_cells,
            old_cells: stats.old_cells,
        }
    }

    /// Whether a collection is running.
    pub fn is_collecting(&self) -> bool {
        self.with_marker(|marker| marker.collecting)
    }

    fn retire_caches(&self) {
        let caches = self.collector.borrow().caches.clone();
        for mut cache in caches {
            // SAFETY: caches live until `drop_cache`, and the VM is stopped, so
            // nobody allocates from them now.
            self.retire_cache(unsafe { cache.as_mut() });
        }
    }

    fn start(&self, request: Request) -> Scope {
        let measure = self.measure();
        let overflowed = self.with_marker(|marker| {
            marker.collecting = true;
            marker.remembered_overflowed()
        });
        let mut collector = self.collector.borrow_mut();
        let asked = if overflowed {
            Some(Scope::Full)
        } else {
            request.scope
        };
        let scope = collector.pace.start(measure, asked);
        collector.fresh_cell_bytes = 0;
        self.shared.payloads.take_fresh_bytes();
        match scope {
            Scope::Minor => collector.stats.minor_collections += 1,
            Scope::Full => collector.stats.full_collections += 1,
        }
        scope
    }

    fn mark_everything(&self, scope: Scope) {
        if scope == Scope::Full {
            self.clear_marks();
        }
        self.with_marker(|marker| {
            if scope == Scope::Full {
                marker.old_cells = 0;
            }
            // Old cells are marked already.
            marker.marked_cells = marker.old_cells;
        });
        self.vm.trace_roots(self, &self.tracer(false));
        if scope == Scope::Minor {
            self.trace_remembered();
        }
        self.trace_grey();
        while self.vm.marking_done(self, &self.tracer(false)) {
            self.trace_grey();
        }
        self.with_marker(Marker::finish);
    }

    /// Makes every cell white. Old cells stay old: they are marked again when
    /// they are found, or freed.
    fn clear_marks(&self) {
        const KEPT: u64 = u64::from_ne_bytes(
            [!(CellState::MARKED | CellState::REMEMBERED | CellState::PINNED); 8],
        );
        for index in 0..self.shared.blocks.used_limit() {
            let block = BlockIndex(index as u32);
            if self.region().kind_byte(block).width().is_none() {
                continue;
            }
            for word in self.region().state_words_of(block) {
                let states = word.load(std::sync::atomic::Ordering::Relaxed);
                word.store(states & KEPT, std::sync::atomic::Ordering::Relaxed);
            }
        }
        self.with_marker(Marker::forget_remembered);
    }

    /// Traces the remembered set. What its cells refer to becomes old, so they
    /// need not be remembered any longer, but for unprotected ones.
    fn trace_remembered(&self) {
        let count = self.with_marker(|marker| marker.remembered_cells().len());
        for index in 0..count {
            let word = self.with_marker(|marker| marker.remembered_cells()[index]);
            // SAFETY: only cells are remembered, and old cells are not freed
            // between full collections.
            self.trace(unsafe { Cell::from_address(word) });
        }
        self.trace_grey();
        let mut visited = 0;
        self.with_marker(|marker| {
            marker.retain_remembered(|cell| {
                visited += 1;
                let state = self.region().state(cell);
                if visited > count || state.is_unprotected() {
                    return true;
                }
                let forgotten = state.without(CellState::REMEMBERED);
                self.region().set_state(cell, forgotten);
                false
            });
        });
    }

    fn trace_grey(&self) {
        loop {
            while let Some(cell) = self.with_marker(Marker::pop) {
                self.trace(cell);
            }
            if !self.with_marker(Marker::take_overflowed) {
                return;
            }
            // Some grey cells are on no stack: trace every marked cell again.
            self.for_each_cell_unswept(|cell, _| {
                if self.region().state(cell).is_marked() {
                    self.trace(cell);
                }
            });
        }
    }

    #[inline(always)]
    fn trace(&self, cell: Cell) {
        let is_old = self.region().state(cell).is_old();
        self.with_marker(|marker| {
            marker.parent_is_old = is_old;
            marker.parent = cell.address();
        });
        self.vm.trace_cell(self, cell, &self.tracer(is_old));
    }

    #[inline(always)]
    fn tracer(&self, parent_is_old: bool) -> Tracer<'_> {
        // SAFETY: the marker lives as long as the heap, and only the collecting
        // thread traces.
        unsafe { Tracer::new(self.region(), self.marker.get(), parent_is_old) }
    }

    /// Marks `cell` as a reference of the cell that is being traced: for VMs
    /// whose own tracing functions call back.
    #[inline(always)]
    pub fn mark(&self, cell: Cell) {
        let parent_is_old = self.with_marker(|marker| marker.parent_is_old);
        self.tracer(parent_is_old).mark(cell);
    }

    /// Marks `cell`, which must not move in this collection: the reference
    /// cannot be rewritten.
    #[inline(always)]
    pub fn pin(&self, cell: Cell) {
        self.mark(cell);
        if self.finds_pins() {
            let pinned = self.region().state(cell).with(CellState::PINNED);
            self.region().set_state(cell, pinned);
        }
    }

    /// Whether this collection moves cells, so that it matters what is pinned.
    #[inline(always)]
    pub fn finds_pins(&self) -> bool {
        self.with_marker(|marker| marker.finding_pins)
    }

    /// Marks what `word` refers to if it is the address of a live cell, which
    /// does not move; any word may be passed.
    #[inline(always)]
    pub fn mark_conservatively(&self, word: usize) {
        if let Some(cell) = self.region().cell_at(word) {
            self.pin(cell);
        }
    }

    fn start_sweep(&self, scope: Scope) {
        let used_limit = self.shared.blocks.used_limit();
        let (marked_cells, old_cells) =
            self.with_marker(|marker| (marker.marked_cells, marker.old_cells));
        let mut collector = self.collector.borrow_mut();
        collector
            .lists
            .rebuild(self.region(), used_limit, scope == Scope::Full);
        collector.stats.marked_cells = marked_cells;
        collector.stats.old_cells = old_cells;
        // Sweeping is over when half the budget has been allocated.
        let refills = collector.pace.budget_bytes() / BLOCK_BYTES / 2;
        collector.sweep_ahead_blocks = collector.lists.unswept_blocks().div_ceil(refills.max(1));
        collector.release_after_sweep = scope == Scope::Full;
    }

    fn sweep_ahead(&self) {
        let blocks = self.collector.borrow().sweep_ahead_blocks;
        for _ in 0..blocks {
            if !self.sweep_any() {
                break;
            }
        }
    }

    /// Sweeps everything that is unswept.
    pub fn finish_sweep(&self) {
        while self.sweep_any() {}
    }

    /// Whether dead cells may still be around.
    pub fn is_sweeping(&self) -> bool {
        self.collector.borrow().lists.unswept_blocks() > 0
    }

    fn sweep_any(&self) -> bool {
        let next = self
            .collector
            .borrow_mut()
            .lists
            .pop_any_unswept(self.region());
        let Some((width, block)) = next else {
            self.release_idle_blocks();
            return false;
        };
        if self.sweep_and_count(block, width) == 0 {
            self.give_block(block, width);
        } else if self.region().block(block).free() != 0 {
            let lists = &mut self.collector.borrow_mut().lists;
            lists.push_available(self.region(), width, block);
        }
        true
    }

    pub(crate) fn give_block(&self, block: BlockIndex, width: WidthIndex) {
        self.shared.blocks.give(self.region(), block, 1);
        self.collector.borrow_mut().blocks_given[width.index()] += 1;
    }

    fn sweep_and_count(&self, block: BlockIndex, width: WidthIndex) -> usize {
        let swept = self.sweep_block(block, width);
        let mut collector = self.collector.borrow_mut();
        collector.freed[width.index()] += swept.freed_cells as u64;
        collector.stats.freed_cells += swept.freed_cells as u64;
        swept.live_cells
    }

    /// Gives pages back, slowly, once a full collection has been swept.
    fn release_idle_blocks(&self) {
        if !std::mem::take(&mut self.collector.borrow_mut().release_after_sweep) {
            return;
        }
        self.shared.blocks.close_reserve(self.region());
        let released = self.shared.blocks.release_idle(self.region(), false);
        self.collector.borrow_mut().stats.blocks_released += released;
    }

    /// Gives the pages of all empty blocks back to the system now.
    pub fn release_empty_blocks(&self) {
        let released = self.shared.blocks.release_idle(self.region(), true);
        self.collector.borrow_mut().stats.blocks_released += released;
    }

    /// Makes every live cell old, after sweeping what is unswept: for a program
    /// that says it has finished starting up.
    pub fn promote_everything(&self) {
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

    /// Runs `work`, which moves cells; payloads it frees count as swept.
    pub(crate) fn while_moving(&self, work: impl FnOnce()) {
        self.with_marker(|marker| marker.collecting = true);
        self.moving.set(true);
        self.payloads_sweeping(true);
        work();
        self.payloads_sweeping(false);
        self.moving.set(false);
        self.with_marker(|marker| marker.collecting = false);
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
        let used_limit = self.shared.blocks.used_limit();
        let mut collector = self.collector.borrow_mut();
        collector.lists.rebuild_swept(self.region(), used_limit);
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
        for index in 0..self.shared.blocks.used_limit() {
            let block = BlockIndex(index as u32);
            if let Some(width) = self.region().kind_byte(block).width() {
                self.poison_free_cells(block, width);
            }
        }
    }

    fn stress_is_due(&self) -> bool {
        let every = self.stress.get().collect_every;
        if every == 0 {
            return false;
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

    pub(crate) fn check_lists(&self) -> Result<(), String> {
        self.collector
            .borrow()
            .lists
            .verify(self.region(), self.shared.blocks.used_limit())
    }
}

impl Collector {
    fn new(pace: PaceOptions) -> Self {
        Self {
            lists: BlockLists::default(),
            pace: Pace::new(pace),
            stats: Stats::default(),
            caches: Vec::new(),
            allocated_by_retired: [0; WIDTH_COUNT],
            freed: [0; WIDTH_COUNT],
            moves: Moves::default(),
            blocks_taken: [0; WIDTH_COUNT],
            blocks_given: [0; WIDTH_COUNT],
            fresh_cell_bytes: 0,
            sweep_ahead_blocks: 0,
            stress_countdown: 0,
            release_after_sweep: false,
        }
    }

    #[inline(always)]
    fn fresh_bytes(&self, shared: &Shared) -> usize {
        self.fresh_cell_bytes + shared.payloads.fresh_bytes()
    }
}
