//! Sweeping, a few blocks at a time, and giving back the pages of empty ones.

use std::time::{Duration, Instant};

use super::state::{State, Sweep};
use super::Heap;
use crate::allocate::cursor::AllocationCache;
use crate::layout::block::{BlockIndex, INHERITED};
use crate::layout::width::WidthIndex;
use crate::layout::BLOCK_BYTES;
use crate::pace::Scope;
use crate::sweep::free_cells::poison_cell;
use crate::sweep::{sweep_block, Swept};
use crate::vm::Vm;
use crate::work_budget::WorkBudget;

/// Sweeping a block takes about as long as marking this many cells. The clock is looked at after
/// each block.
const CELLS_PER_SWEPT_BLOCK: usize = 256;
/// Giving back the pages of a block takes about as long as marking this many cells.
const CELLS_PER_RELEASED_BLOCK: usize = 256;
/// The most blocks (1 MiB) that go back with one call.
const RELEASED_TOGETHER_BLOCKS: usize = 16;
/// An allocation that has to sweep goes on until there is room for this many bytes.
const ROOM_BYTES: usize = 8 << 10;

impl<V: Vm> Heap<'_, V> {
    pub(super) fn start_sweep(&self, scope: Scope) {
        if scope != Scope::Minor {
            self.take_over_unshared_blocks();
        }
        let (counts, boundary_cells) = {
            let marker = self.marker();
            (marker.worker.counts, marker.boundary.cells().len())
        };
        let mut state = self.state.borrow_mut();
        let nursery_bytes = state.pacing.pace.nursery_bytes();
        state.sweep.begin(scope, nursery_bytes);
        let stats = &mut state.counts.totals;
        stats.marked_cells = counts.marked_cells();
        stats.old_cells = counts.old_cells;
        stats.settled_cells = counts.settled_cells;
        stats.boundary_cells = boundary_cells;
        if scope != Scope::Minor {
            stats.marking_threads = counts.threads;
        }
    }

    /// Has slices free what the collection found dead, without waiting for new
    /// cells to need the place: for a heap that is filled with payloads.
    pub fn sweep_in_slices(&self) {
        if self.is_sweeping() {
            let pacing = &mut self.state.borrow_mut().pacing;
            pacing.slices.sweeps = true;
            pacing.slices.plan_next(pacing.fresh_bytes());
        }
    }

    /// Frees dead cells, as many as `work` allows. Returns whether none is left.
    pub fn sweep_slice(&self, work: &mut WorkBudget) -> bool {
        if self.is_sweeping() {
            let pacing = &self.state.borrow().pacing;
            work.lengthen_to(1 + pacing.slices.lengthening(pacing.fresh_bytes()));
        }
        let is_swept = self.sweep_within(work);
        let pacing = &mut self.state.borrow_mut().pacing;
        if is_swept {
            pacing.slices.sweeps = false;
            pacing.slices.next_bytes = 0;
        } else {
            pacing.slices.plan_next(pacing.fresh_bytes());
        }
        is_swept
    }

    /// Sweeps as much as `work` allows. Returns whether everything is swept.
    pub fn sweep_within(&self, work: &mut WorkBudget) -> bool {
        while self.sweep_next(None) && work.spend_step(CELLS_PER_SWEPT_BLOCK) {}
        let is_swept = !self.is_sweeping();
        if is_swept {
            self.release_pages(work);
        }
        is_swept
    }

    /// Runs `sweep` with the time that is left for allocations to sweep.
    pub(super) fn sweep_a_little<R>(&self, sweep: impl FnOnce(&mut WorkBudget) -> R) -> R {
        let mut work = match self.sweep_time_left() {
            None => return sweep(&mut WorkBudget::unlimited()),
            Some(Duration::ZERO) => return sweep(&mut WorkBudget::cells(0)),
            Some(time) => WorkBudget::wall_time(time),
        };
        let start = Instant::now();
        let result = sweep(&mut work);
        let pacer = &mut self.state.borrow_mut().sweep.pacer;
        pacer.note_spent(start.elapsed());
        result
    }

    /// Time that allocations may still sweep now; `None` when there is no limit.
    fn sweep_time_left(&self) -> Option<Duration> {
        let time_max = self.pauses.sweep_time_max()?;
        let State { pacing, sweep, .. } = &*self.state.borrow();
        let is_short_of_room = pacing.pace.is_short_of_room();
        (!is_short_of_room).then(|| sweep.pacer.time_left(time_max))
    }

    /// Sweeps blocks of this width until there is room for some cells, because a
    /// block of a dense heap has room for one or two only. Returns a block with free
    /// runs.
    pub(super) fn sweep_for(&self, width: WidthIndex, work: &mut WorkBudget) -> Option<BlockIndex> {
        let mut room_cells = 0;
        while room_cells * width.bytes() < ROOM_BYTES && work.spend_step(CELLS_PER_SWEPT_BLOCK) {
            let unswept = self.state.borrow_mut().sweep.lists.pop_unswept(width);
            let Some(block) = unswept else { break };
            let live_cells = self.sweep_and_count(block, width);
            if self.list_if_available(block, width) {
                room_cells += width.cells_per_block() - live_cells;
            } else if live_cells == 0 {
                self.give_block(block, width);
            }
        }
        self.pop_available(width)
    }

    /// Sweeps up to `blocks` blocks, those of `width` first, as far as `work` allows.
    pub(super) fn sweep_ahead(&self, width: WidthIndex, blocks: usize, work: &mut WorkBudget) {
        for _ in 0..blocks {
            if !work.spend_step(CELLS_PER_SWEPT_BLOCK) || !self.sweep_next(Some(width)) {
                break;
            }
        }
    }

    /// How many blocks an allocation has to sweep now; 0 while there are only a few, or no time
    /// is left.
    pub(super) fn blocks_due(&self) -> usize {
        if self.sweep_time_left() == Some(Duration::ZERO) {
            return 0;
        }
        let Sweep { lists, pacer, .. } = &self.state.borrow().sweep;
        pacer.blocks_due(lists.unswept_blocks())
    }

    /// Whether the next allocation of this width will sweep if it comes before any
    /// other.
    pub fn will_sweep(&self, cache: &AllocationCache, width: WidthIndex) -> bool {
        !cache.has_run(width)
            && self.is_sweeping()
            && (self.blocks_due() > 0 || !self.lists().has_available(width))
    }

    /// Sweeps everything that is unswept.
    pub fn finish_sweep(&self) {
        self.sweep_within(&mut WorkBudget::unlimited());
    }

    /// Whether dead cells may still be around.
    pub fn is_sweeping(&self) -> bool {
        self.unswept_blocks() > 0
    }

    /// How many blocks wait to be swept.
    pub fn unswept_blocks(&self) -> usize {
        self.lists().unswept_blocks()
    }

    /// Sweeps a block, of this width if there is one. Returns whether there was any.
    fn sweep_next(&self, width: Option<WidthIndex>) -> bool {
        let next = self.state.borrow_mut().sweep.next(width);
        let Some((width, block)) = next else {
            return false;
        };
        if self.sweep_and_count(block, width) == 0 {
            self.give_block(block, width);
        } else {
            self.list_if_available(block, width);
        }
        true
    }

    /// Lists a swept block if it has a free run. Returns whether it has one.
    pub(super) fn list_if_available(&self, block: BlockIndex, width: WidthIndex) -> bool {
        let lists = &mut self.state.borrow_mut().sweep.lists;
        lists.list_if_available(block, width)
    }

    pub(crate) fn give_block(&self, block: BlockIndex, width: WidthIndex) {
        self.disinherit(block);
        self.space().lock_blocks().give(block, 1);
        self.state.borrow_mut().counts.of(width).blocks_given += 1;
    }

    fn sweep_and_count(&self, block: BlockIndex, width: WidthIndex) -> usize {
        self.shared.assert_at_rest();
        self.shared.payloads.set_sweeping(true);
        // SAFETY: sweeping asks about dead cells.
        let owns_nothing = || unsafe { self.vm.owns_nothing() };
        let is_inherited = self.region().block(block).has(INHERITED);
        let swept = match (is_inherited, self.stress().poison) {
            (false, false) => {
                sweep_block::<false>(self.space(), block, width, owns_nothing(), |cell| {
                    // SAFETY: sweeping finds each dead cell once.
                    unsafe { self.vm.release(cell, width) }
                })
            }
            (false, true) => self.sweep_and_poison(block, width),
            (true, _) => self.sweep_inherited(block, width),
        };
        self.shared.payloads.set_sweeping(false);
        let counts = &mut self.state.borrow_mut().counts;
        counts.of(width).freed_cells += swept.freed_cells as u64;
        swept.live_cells
    }

    /// Sweeps an inherited block, and writes to nothing but the side tables.
    #[cold]
    fn sweep_inherited(&self, block: BlockIndex, width: WidthIndex) -> Swept {
        // SAFETY: sweeping asks about dead cells, and finds each once.
        unsafe {
            let owns_nothing = self.vm.owns_nothing();
            let release = |cell| self.vm.release(cell, width);
            sweep_block::<true>(self.space(), block, width, owns_nothing, release)
        }
    }

    /// Sweeps a block, and fills the cells that it frees with poison.
    #[cold]
    fn sweep_and_poison(&self, block: BlockIndex, width: WidthIndex) -> Swept {
        // SAFETY: asked about dead cells below.
        let owns_nothing = unsafe { self.vm.owns_nothing() };
        sweep_block::<false>(
            self.space(),
            block,
            width,
            |_| false,
            |cell| {
                if !owns_nothing(cell) {
                    // SAFETY: sweeping finds each dead cell once.
                    unsafe { self.vm.release(cell, width) };
                }
                poison_cell(self.region(), cell, width);
            },
        )
    }

    /// Once a major or full collection has been swept, gives back the pages behind the ends of
    /// spans: as many as `work` allows, and the rest at the next opportunity. Then gives back the
    /// surplus, as much as `work` allows. When the process is out of its memory limit, the pages
    /// of all empty blocks go back at once.
    pub(super) fn release_pages(&self, work: &mut WorkBudget) {
        let from = self.state.borrow_mut().sweep.release_from.take();
        let Some(from) = from else { return };
        self.space().lock_blocks().close_reserve();
        let all_at_once = self.is_out_of_limit();
        let goes_on = || all_at_once || work.spend_step(CELLS_PER_RELEASED_BLOCK);
        let next = self.release_pages_from(from, all_at_once, goes_on);
        self.release_surplus_at_once(work);
        self.state.borrow_mut().sweep.release_from = next;
        if next.is_none() && self.pace().options().memory_limit_bytes.is_some() {
            let resident_bytes = self.own_resident_or_used_bytes();
            let pacing = &mut self.state.borrow_mut().pacing;
            let (fresh_bytes, is_exact) = (pacing.fresh_bytes(), pacing.latest_is_exact);
            pacing
                .pace
                .note_after_larger(resident_bytes, fresh_bytes, is_exact);
        }
    }

    /// Gives the pages of all empty blocks back to the system now.
    pub fn release_empty_blocks(&self) {
        self.release_pages_from(0, true, || true);
    }

    /// As [`Heap::release_empty_blocks`], for all blocks but the lowest, which are taken first:
    /// about `kept_bytes` stay. No pages go back when empty blocks hold less than `worth_bytes`
    /// more than that.
    pub fn release_empty_blocks_beyond(&self, kept_bytes: usize, worth_bytes: usize) {
        self.shared.payloads.lock().give_rows_back(self.space());
        let blocks = &self.space().blocks;
        if blocks.counts().held * BLOCK_BYTES >= kept_bytes.saturating_add(worth_bytes) {
            let from = self.space().behind_held_blocks(kept_bytes / BLOCK_BYTES);
            self.release_pages_from(from, true, || true);
        }
    }

    /// Gives pages back from block `from` on, as
    /// [`Space::release_pages`](crate::space::Space::release_pages) does. Returns the block to go on
    /// from. When `from` is 0, blocks that held nothing but rows of free payloads become empty first.
    fn release_pages_from(
        &self,
        from: usize,
        with_empty: bool,
        goes_on: impl FnMut() -> bool,
    ) -> Option<usize> {
        if from == 0 {
            self.shared.payloads.lock().give_rows_back(self.space());
        }
        let released = self.space().release_pages(from, with_empty, goes_on);
        let State { sweep, counts, .. } = &mut *self.state.borrow_mut();
        counts.totals.blocks_released += released.blocks;
        sweep.surplus.note_gone(released.blocks);
        released.next
    }

    /// Gives back some of the empty blocks that no nursery needs, if it is time: with one system
    /// call, between two blocks that the program allocates from, so that no pause becomes longer.
    #[inline]
    pub(super) fn release_surplus(&self) {
        let due_blocks = self.surplus_blocks();
        if due_blocks > 0 {
            self.release_some_of(due_blocks);
        }
    }

    /// Empty blocks that are to go back now because no nursery needs them.
    #[inline]
    fn surplus_blocks(&self) -> usize {
        self.state.borrow().sweep.surplus.due_blocks()
    }

    /// Gives back all empty blocks that no nursery needs, or as many as `work` allows: the program
    /// may take no block for a while.
    fn release_surplus_at_once(&self, work: &mut WorkBudget) {
        let due_blocks = self.surplus_blocks();
        if due_blocks == 0 {
            return;
        }
        let goes_on = |blocks| work.spend_step(blocks * CELLS_PER_RELEASED_BLOCK);
        let released = self
            .space()
            .release_highest(due_blocks, RELEASED_TOGETHER_BLOCKS, goes_on);
        self.note_released(released);
    }

    #[cold]
    fn release_some_of(&self, due_blocks: usize) {
        let together = due_blocks.min(RELEASED_TOGETHER_BLOCKS);
        let released = self.space().release_highest_run(due_blocks, together);
        self.note_released(released);
    }

    /// `released` blocks of the surplus have gone back; none when the system refuses.
    fn note_released(&self, released: usize) {
        let State { sweep, counts, .. } = &mut *self.state.borrow_mut();
        counts.totals.blocks_released += released;
        match released {
            0 => sweep.surplus.put_off(),
            _ => sweep.surplus.note_gone(released),
        }
    }
}
