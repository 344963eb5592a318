//! Allocating cells: from a cache's run, or from the next block with free runs.

use std::alloc::{handle_alloc_error, Layout};
use std::ptr::NonNull;

use super::{Allocation, Heap, Urgency};
use crate::allocate::cursor::AllocationCache;
use crate::allocate::run::Run;
use crate::layout::block::BlockIndex;
use crate::layout::cell_state::CellState;
use crate::layout::kind::Kind;
use crate::layout::width::WidthIndex;
use crate::os::{self, Refused};
use crate::sweep::free_cells::poison_block;
use crate::vm::Vm;
use crate::work_budget::WorkBudget;

/// Bytes of runs that a cache may take from its blocks without asking the heap: with short runs
/// it would ask for every cell or two. A collection comes later by this much at most.
const ALLOWANCE_BYTES: usize = 4 << 10;

impl<'shared, V: Vm> Heap<'shared, V> {
    /// Allocates a cell of at least `size_bytes` in state `state`
    /// ([`CellState::NEW`] or [`CellState::NEW_UNPROTECTED`]). Its contents are
    /// unspecified. The cache must be one of this heap's.
    ///
    /// # Panics
    /// When `state` is another one, or when the cache is another heap's and has no cell left.
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
        state.assert_new();
        let cell = cache.bump(width, state);
        match cell.or_else(|| cache.bump_next_run(width, state)) {
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
        let handed_bytes = cache.take_handed();
        self.state.borrow_mut().count_handed(handed_bytes);
        let bytes_until_due = self.bytes_until_due();
        if urgency == Urgency::MayCollect && (bytes_until_due == 0 || self.stress_is_due()) {
            return Allocation::NeedsCollection;
        }
        let stress = self.stress.get();
        let is_stressed = stress.collect_every != 0 || stress.slice_cells != 0;
        let cells_at_most = match (is_stressed, bytes_until_due) {
            (true, _) => 1,
            // A run may be longer than what may be handed out until the next slice.
            (false, 1..) if self.is_marking() => (bytes_until_due / width.bytes()).max(1),
            (false, _) => usize::MAX,
        };
        loop {
            if let Some(bytes) = cache.next_run(width, cells_at_most) {
                self.state.borrow_mut().hand_out(bytes);
                if !is_stressed {
                    let bytes_left = bytes_until_due.saturating_sub(bytes);
                    cache.allow(bytes_left.min(ALLOWANCE_BYTES));
                }
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

    /// Lets the last blocks be taken, because the program is about to learn that memory is out,
    /// and handling that takes memory. A major or full collection that finds room keeps them back
    /// again.
    pub fn open_reserve(&self) {
        self.shared.open_reserve();
    }

    /// A block of this width with free runs: one that has some already, one
    /// that has some once it is swept, or an empty one.
    fn find_block(&self, width: WidthIndex) -> Option<BlockIndex> {
        self.release_surplus();
        self.move_into_huge_page();
        self.find_used_block(width)
            .or_else(|| self.take_empty_block(width))
            .or_else(|| self.sweep_for(width, &mut WorkBudget::unlimited()))
            .or_else(|| {
                self.take_over_blocks(Some(width));
                self.pop_available(width)
            })
    }

    /// A block that has cells in it, if there is one, or if one is found in the time that is left
    /// for sweeping.
    fn find_used_block(&self, width: WidthIndex) -> Option<BlockIndex> {
        let blocks_due = self.blocks_due();
        if blocks_due == 0 {
            let block = self.pop_available(width);
            if block.is_some() || !self.is_sweeping() {
                return block;
            }
        }
        self.sweep_a_little(|work| {
            self.sweep_ahead(width, blocks_due, work);
            self.pop_available(width)
                .or_else(|| self.sweep_for(width, work))
        })
    }

    /// An empty block from the block allocator, made one free run.
    pub(crate) fn take_empty_block(&self, width: WidthIndex) -> Option<BlockIndex> {
        let block = self.space().lock_blocks().take_one(Kind::Cells(width))?;
        self.state.borrow_mut().counts.of(width).blocks_taken += 1;
        let start = self.region().address_of(block);
        Run {
            start,
            end: start + width.cells_per_block() * width.bytes(),
            next: 0,
        }
        .write(self.region());
        self.region().block(block).set_free(start);
        if self.stress().poison {
            poison_block(self.space(), block, width);
        }
        Some(block)
    }

    pub(super) fn pop_available(&self, width: WidthIndex) -> Option<BlockIndex> {
        self.state.borrow_mut().sweep.lists.pop_available(width)
    }

    /// Makes an allocation cache. It is the caller's until [`Heap::drop_cache`]; the heap retires
    /// it at every collection.
    ///
    /// Whoever makes a reference to the cache promises that, until the last use of the reference,
    /// nobody else uses the cache, and the heap is called only for cells, and to report stores.
    /// This is what it means that a VM is stopped: its threads have no references to caches. A VM
    /// that keeps the pointer, and makes a reference for each call of [`Heap::allocate`], keeps
    /// the promise.
    pub fn new_cache(&self) -> NonNull<AllocationCache<'shared>> {
        let cache = self.try_new_cache();
        cache.unwrap_or_else(|_| handle_alloc_error(Layout::new::<AllocationCache<'_>>()))
    }

    /// [`Heap::new_cache`], or an error when there is no memory.
    pub fn try_new_cache(&self) -> Result<NonNull<AllocationCache<'shared>>, Refused> {
        let cache = os::boxed(AllocationCache::new(self.space()))?;
        let caches = &mut self.state.borrow_mut().caches;
        caches.try_reserve(1).map_err(|_| Refused)?;
        let cache = NonNull::from(Box::leak(cache));
        caches.push(cache);
        Ok(cache)
    }

    /// Ends a cache.
    ///
    /// # Safety
    /// The cache must come from [`Heap::new_cache`] of this heap and must not
    /// be used any more.
    pub unsafe fn drop_cache(&self, cache: NonNull<AllocationCache<'shared>>) {
        self.state.borrow_mut().caches.retain(|c| *c != cache);
        // SAFETY: the cache was leaked from a box, and nobody else has it.
        let mut cache = unsafe { Box::from_raw(cache.as_ptr()) };
        self.retire_cache(&mut cache);
        let counts = &mut self.state.borrow_mut().counts;
        for width in WidthIndex::all() {
            counts.of(width).allocated_by_retired += cache.allocated_cells(width);
        }
    }

    fn retire_cache(&self, cache: &mut AllocationCache<'_>) {
        // Whoever has two caches may have swapped what is in them.
        assert!(cache.is_of(self.space()), "the cache is another heap's");
        let handed_bytes = cache.take_handed();
        self.state.borrow_mut().hand_out(handed_bytes);
        for width in WidthIndex::all() {
            if let Some(block) = cache.retire(width) {
                self.list_if_available(block, width);
            }
        }
    }

    /// Takes the blocks away from all caches, and writes nothing into these blocks.
    pub(super) fn leave_caches(&self) {
        self.each_cache(|heap, cache| {
            let handed_bytes = cache.take_handed();
            heap.state.borrow_mut().hand_out(handed_bytes);
            for width in WidthIndex::all() {
                cache.leave(width);
            }
        });
    }

    pub(super) fn retire_caches(&self) {
        self.each_retired_cache(|_| ());
    }

    /// Retires every cache and shows it to `visit`, which chooses the cells of it that will be
    /// samples.
    ///
    /// # Panics
    /// When `visit` calls the heap.
    pub fn each_retired_cache(&self, mut visit: impl FnMut(&mut AllocationCache<'_>)) {
        self.each_cache(|heap, cache| {
            heap.retire_cache(cache);
            // Whatever else retires caches needs to borrow this, too.
            let _state = heap.state.borrow_mut();
            visit(cache);
        });
    }

    fn each_cache(&self, mut visit: impl FnMut(&Self, &mut AllocationCache<'_>)) {
        // No copy of the list: there may be no memory for one.
        for index in 0.. {
            let cache = self.state.borrow().caches.get(index).copied();
            let Some(mut cache) = cache else { return };
            // SAFETY: caches live until `drop_cache`, and nobody has a reference to one
            // when the heap is asked for anything but cells (`new_cache`).
            visit(self, unsafe { cache.as_mut() });
        }
    }
}
