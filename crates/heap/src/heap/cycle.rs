//! One collection, from its beginning to the end of marking: at once, or in
//! slices between which the program runs.
//!
//! ```text
//! idle → (full: clearing →) marking → idle, and sweeping begins
//! ```
//!
//! A marking ends at a *last stop*: the roots, the cells without a barrier, and
//! those written to without saying what, are traced with the program stopped,
//! and nothing is grey then. When that finds more than a slice may do, the
//! program goes on, marking too, and another last stop is tried later. New cells
//! are white: what their first references are is never told to a barrier.

use std::sync::atomic::Ordering::Relaxed;

use super::{Heap, Request};
use crate::layout::block::BlockIndex;
use crate::layout::cell_state::CellState;
use crate::layout::region::Cell;
use crate::mark::allowance::Allowance;
use crate::mark::deferred::{Part, REFERENCES_AT_ONCE};
use crate::mark::marker::Marker;
use crate::mark::schedule::Schedule;
use crate::mark::tracer::{Trace, Tracer};
use crate::pace::Scope;
use crate::vm::Vm;

/// What a collection is doing while the program runs.
///
/// Invariants (the verifier asserts the same numbers):
///
/// 11. While marking, a black cell refers to marked cells only. Black is a
///     marked cell that is neither grey, nor remembered and untraced, nor to be
///     traced again at the last stop.
/// 12. While clearing, no cell of a block that has been cleared is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// No marking is going on. Invariants 1 to 5 hold.
    Idle,
    /// A full collection takes the marks of the previous ones off; a minor one
    /// does not stop here. Nothing is marked in the meantime, and the remembered
    /// set is of no use any more: invariants 2 to 5 do not hold.
    Clearing,
    /// Cells are being marked. In a full collection invariants 2 to 5 hold for
    /// marked cells, 5 only for black ones.
    Marking,
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

/// The collection in progress.
#[derive(Debug, Default)]
pub(super) struct Cycle {
    scope: Option<Scope>,
    /// Blocks below this one have no marks of earlier collections any more.
    cleared_blocks: usize,
    /// Clearing ends here: later blocks have new cells only.
    blocks_to_clear: usize,
    /// Last stops that found too much.
    failed_stops: u32,
    /// Fresh bytes at which the next slice is due, 0 while nothing is done in
    /// slices.
    next_slice_bytes: usize,
    schedule: Schedule,
    /// Cells marked at the beginning: the old ones, in a minor collection.
    marked_before: usize,
    /// Dead cells are freed in slices, too, and not only as far as new ones need
    /// their place.
    sweeps_in_slices: bool,
    /// The program ran between the beginning and the end of marking.
    was_in_slices: bool,
}

impl Cycle {
    /// Whether the latest marking kept what may have died while it went on.
    pub(super) fn was_in_slices(&self) -> bool {
        self.was_in_slices
    }
}

impl<V: Vm> Heap<'_, V> {
    /// Collects at once: allocate → mark → sweep → compact, in this order. The VM
    /// must be stopped. Says which scope it had. A collection in progress is finished
    /// before.
    pub fn collect(&self, request: Request) -> Scope {
        let request = self.stressed(request);
        self.finish_marking();
        self.finish_sweep();
        let mut allowance = Allowance::unlimited();
        let scope = self.begin(request.scope, &allowance);
        let compact = request.compact.filter(|_| self.may_move(scope));
        self.with_marker(|marker| marker.finding_pins = compact.is_some());
        self.mark_within(&mut allowance);
        if request.sweep_now || compact.is_some() {
            self.finish_sweep();
        }
        if let Some(evacuation) = compact {
            self.compact(evacuation);
            self.verify_if_wanted();
        }
        scope
    }

    /// Does the next part of a collection, as much as `allowance` allows, and
    /// begins one when there is none: it frees what the previous one left,
    /// then marks. `scope` is for a collection that begins. The VM must be
    /// stopped.
    ///
    /// A collection that is done within its first allowance is the same as
    /// [`Heap::collect`].
    pub fn advance(&self, scope: Option<Scope>, allowance: &mut Allowance) -> Progress {
        if !self.is_marking() {
            if !self.sweep_slice(allowance) {
                return Progress::Sweeping;
            }
            self.begin(scope, allowance);
        } else {
            allowance.lengthen(self.lateness());
        }
        match self.mark_within(allowance) {
            Some(scope) => Progress::Marked(scope),
            None => {
                self.verify_if_wanted();
                Progress::Marking
            }
        }
    }

    /// Runs `work`, a collection or a slice of one, at a moment when the program
    /// may have told the barrier of a reference that it has not stored yet.
    ///
    /// What the barrier did depends on what the cell was that the reference goes
    /// into, and `work` may change that: it may become black, or old. So what is to
    /// be stored, which a root knows, is marked before; and what a pinning root
    /// refers to is remembered if it grows old now.
    pub fn between_barrier_and_store<R>(&self, work: impl FnOnce() -> R) -> R {
        self.with_marker(|marker| marker.notes_pinned_roots = true);
        if self.phase() == Phase::Marking {
            self.shade_roots();
        }
        let result = work();
        self.with_marker(|marker| marker.notes_pinned_roots = false);
        while let Some(cell) = self.with_marker(Marker::pop_pinned_root) {
            self.remember_if_old(cell);
        }
        result
    }

    fn shade_roots(&self) {
        self.set_collecting(true);
        self.trace_roots();
        self.set_collecting(false);
    }

    /// Has slices free what the collection found dead, without waiting for new
    /// cells to need the place: for a heap that is filled with payloads.
    pub fn sweep_in_slices(&self) {
        if self.is_sweeping() {
            self.collector.borrow_mut().cycle.sweeps_in_slices = true;
            self.rest_after_slice();
        }
    }

    /// Frees dead cells, as many as `allowance` allows; whether none is left.
    pub fn sweep_slice(&self, allowance: &mut Allowance) -> bool {
        if self.is_sweeping() {
            allowance.lengthen(self.lateness());
        }
        if self.sweep_within(allowance) {
            let cycle = &mut self.collector.borrow_mut().cycle;
            cycle.sweeps_in_slices = false;
            cycle.next_slice_bytes = 0;
            return true;
        }
        self.rest_after_slice();
        false
    }

    fn lateness(&self) -> usize {
        let collector = self.collector.borrow();
        let handed_bytes = collector.fresh_bytes(self.shared);
        collector.cycle.schedule.lateness(handed_bytes)
    }

    /// Finishes the marking that is going on, if one is. Afterwards the heap is
    /// as after [`Heap::collect`]. Says which scope the collection had.
    pub fn finish_marking(&self) -> Option<Scope> {
        self.mark_within(&mut Allowance::unlimited())
    }

    /// Drops what the marking that is going on has found, for a program that is
    /// about to end: finishing it would be in vain. It begins anew, as a full one,
    /// if the program goes on long enough after all.
    pub fn restart_marking(&self) {
        if !self.is_marking() {
            return;
        }
        self.with_marker(Marker::restart);
        let used_limit = self.shared.space.blocks.used_limit();
        let mut collector = self.collector.borrow_mut();
        if collector.cycle.scope == Some(Scope::Minor) {
            collector.stats.minor_collections -= 1;
            collector.stats.full_collections += 1;
        }
        let cycle = &mut collector.cycle;
        cycle.scope = Some(Scope::Full);
        cycle.marked_before = 0;
        cycle.failed_stops = 0;
        cycle.cleared_blocks = 0;
        cycle.blocks_to_clear = used_limit;
        drop(collector);
        self.set_phase(Phase::Clearing);
    }

    /// Whether a collection has begun whose marking is not over; the program
    /// may be running in the meantime.
    #[inline]
    pub fn is_marking(&self) -> bool {
        self.phase() != Phase::Idle
    }

    /// Whether the collector is marking, or moving cells, at this moment.
    pub fn is_collecting(&self) -> bool {
        self.shared.collecting.load(Relaxed)
    }

    /// What the collection in progress is doing.
    #[inline(always)]
    pub fn phase(&self) -> Phase {
        match self.phase.load(Relaxed) {
            0 => Phase::Idle,
            1 => Phase::Clearing,
            _ => Phase::Marking,
        }
    }

    fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Relaxed);
    }

    /// Whether pacing wants a collection, or the next slice of one.
    #[inline]
    pub fn collection_is_due(&self) -> bool {
        self.bytes_until_due() == 0
    }

    /// Bytes that the program may be handed until [`Heap::collection_is_due`].
    pub fn bytes_until_due(&self) -> usize {
        let collector = self.collector.borrow();
        let cycle = &collector.cycle;
        let sweeps = cycle.sweeps_in_slices && collector.lists.unswept_blocks() > 0;
        let due_bytes = if self.is_marking() || sweeps {
            cycle.next_slice_bytes
        } else {
            collector.pace.budget_bytes().max(cycle.next_slice_bytes)
        };
        due_bytes.saturating_sub(collector.fresh_bytes(self.shared))
    }

    /// Lets the program run until it has been handed another slice's worth of
    /// bytes.
    fn rest_after_slice(&self) {
        // While clearing, the previous collection's are counted still.
        let marked_cells = match self.phase() {
            Phase::Marking => self.with_marker(|marker| marker.marked_cells),
            Phase::Idle | Phase::Clearing => 0,
        };
        let mut collector = self.collector.borrow_mut();
        let fresh_bytes = collector.fresh_bytes(self.shared);
        let cycle = &mut collector.cycle;
        if cycle.scope.is_some() {
            let marked_now = marked_cells.saturating_sub(cycle.marked_before);
            cycle.schedule.note_slice(marked_now);
        }
        cycle.next_slice_bytes = fresh_bytes + cycle.schedule.interval_bytes(fresh_bytes);
        cycle.was_in_slices |= cycle.scope.is_some();
    }

    // ── Beginning ───────────────────────────────────────────────────────────

    /// Not inlined, for the same reason as [`Heap::compact`].
    #[inline(never)]
    fn begin(&self, asked: Option<Scope>, allowance: &Allowance) -> Scope {
        let measure = self.measure_residence();
        let (overflowed, old_cells) = self.with_marker(|marker| {
            marker.in_slices = allowance.is_limited();
            marker.threads = 1;
            (marker.remembered_overflowed(), marker.old_cells)
        });
        let mut collector = self.collector.borrow_mut();
        let asked = if overflowed { Some(Scope::Full) } else { asked };
        let scope = collector.pace.start(measure, asked);
        collector.fresh_cell_bytes = 0;
        self.shared.payloads.take_fresh_bytes();
        let (planned_bytes, cells) = collector.pace.marking_plan(scope, measure);
        collector.cycle = Cycle {
            scope: Some(scope),
            blocks_to_clear: match scope {
                Scope::Minor => 0,
                Scope::Full => self.shared.space.blocks.used_limit(),
            },
            schedule: Schedule::new(planned_bytes, cells),
            marked_before: match scope {
                Scope::Minor => old_cells,
                Scope::Full => 0,
            },
            ..Cycle::default()
        };
        match scope {
            Scope::Minor => collector.stats.minor_collections += 1,
            Scope::Full => collector.stats.full_collections += 1,
        }
        drop(collector);
        self.set_phase(Phase::Clearing);
        scope
    }

    /// Makes every cell white. Old cells stay old: they are marked again when
    /// they are found, or freed. False when `allowance` is used up before.
    fn clear_marks(&self, allowance: &mut Allowance) -> bool {
        /// A block takes about as long as so many cells take to be marked.
        const CELLS_PER_BLOCK: usize = 8;
        let (mut next, end) = {
            let cycle = &self.collector.borrow().cycle;
            (cycle.cleared_blocks, cycle.blocks_to_clear)
        };
        let mut goes_on = true;
        while next < end && goes_on {
            self.clear_marks_of(BlockIndex(next as u32));
            next += 1;
            goes_on = allowance.spend(CELLS_PER_BLOCK);
        }
        self.collector.borrow_mut().cycle.cleared_blocks = next;
        next == end
    }

    fn clear_marks_of(&self, block: BlockIndex) {
        const KEPT: u64 = u64::from_ne_bytes(
            [!(CellState::MARKED | CellState::REMEMBERED | CellState::PINNED); 8],
        );
        if self.region().kind_byte(block).width().is_none() {
            return;
        }
        for word in self.region().state_words_of(block) {
            word.store(word.load(Relaxed) & KEPT, Relaxed);
        }
    }

    fn begin_marking(&self, scope: Scope) {
        self.with_marker(|marker| match scope {
            Scope::Minor => {
                // Old cells are marked already.
                marker.marked_cells = marker.old_cells;
                marker.take_remembered();
            }
            Scope::Full => {
                marker.old_cells = 0;
                marker.marked_cells = 0;
                marker.forget_remembered();
            }
        });
        self.set_phase(Phase::Marking);
        self.trace_from_roots();
    }

    // ── Marking ─────────────────────────────────────────────────────────────

    /// Marks as much as `allowance` allows; the scope when that was all.
    fn mark_within(&self, allowance: &mut Allowance) -> Option<Scope> {
        let scope = self.collector.borrow().cycle.scope?;
        self.set_collecting(true);
        let is_over = self.mark_phases(scope, allowance);
        self.set_collecting(false);
        self.with_marker(Marker::leave_last_stop);
        if is_over {
            self.start_sweep(scope);
            self.verify_if_wanted();
            return Some(scope);
        }
        self.rest_after_slice();
        None
    }

    fn mark_phases(&self, scope: Scope, allowance: &mut Allowance) -> bool {
        if self.phase() == Phase::Clearing {
            if !self.clear_marks(allowance) {
                return false;
            }
            self.begin_marking(scope);
        }
        if !self.with_marker(|marker| marker.is_last_stop) {
            // What earlier slices left, before the roots are traced again.
            if !self.trace_grey(allowance) || !allowance.is_mostly_left() {
                return false;
            }
            self.begin_last_stop(allowance);
        }
        if !self.trace_grey(allowance) {
            return false;
        }
        self.end_marking();
        true
    }

    fn trace_from_roots(&self) {
        self.with_marker(|marker| marker.is_last_stop = true);
        self.trace_roots();
    }

    fn trace_roots(&self) {
        self.with_marker(|marker| {
            marker.parent = 0;
            marker.parent_is_old = false;
        });
        self.vm.trace_roots(self, &self.tracer(false));
    }

    /// The program is stopped, and will not run again before marking is over
    /// unless more is found than `allowance` allows. That grows from one try to
    /// the next, so that there is a last one.
    fn begin_last_stop(&self, allowance: &mut Allowance) {
        let failed_stops = {
            let cycle = &mut self.collector.borrow_mut().cycle;
            cycle.failed_stops += 1;
            cycle.failed_stops - 1
        };
        allowance.double(failed_stops);
        self.trace_from_roots();
        while let Some(cell) = self.with_marker(Marker::pop_dirty) {
            self.trace(cell);
        }
        if self.with_marker(|marker| marker.revisits_all()) {
            return self.trace_marked_cells();
        }
        self.with_marker(|marker| marker.is_revisiting = true);
        for index in 0..self.with_marker(|marker| marker.revisited().len()) {
            let word = self.with_marker(|marker| marker.revisited()[index]);
            // SAFETY: only cells are revisited, and nothing is freed before
            // marking is over.
            self.trace_again(unsafe { Cell::from_address(word) });
        }
        self.with_marker(|marker| marker.is_revisiting = false);
    }

    fn end_marking(&self) {
        loop {
            self.with_marker(|marker| marker.parent = 0);
            self.vm.marking_done(self, &self.tracer(false));
            if self.with_marker(|marker| marker.is_done()) {
                break;
            }
            self.trace_grey(&mut Allowance::unlimited());
        }
        debug_assert!(self.with_marker(|marker| marker.deferred.is_empty()));
        self.with_marker(Marker::finish);
        let mut collector = self.collector.borrow_mut();
        let handed_bytes = collector.fresh_bytes(self.shared);
        if let Some(scope) = collector.cycle.scope.take() {
            collector.pace.note_marked(scope, handed_bytes);
        }
        collector.cycle.next_slice_bytes = 0;
        // What the program was handed in the meantime has been judged with the
        // rest: it is kept or dead, and fresh no more.
        collector.fresh_cell_bytes = 0;
        self.shared.payloads.take_fresh_bytes();
        drop(collector);
        self.set_phase(Phase::Idle);
        self.retire_caches();
    }

    /// Traces until nothing is grey; false when `allowance` is used up before.
    pub(crate) fn trace_grey(&self, allowance: &mut Allowance) -> bool {
        if !allowance.is_limited() {
            self.trace_together();
        }
        loop {
            while let Some(cell) = self.with_marker(Marker::pop) {
                self.trace(cell);
                if !allowance.spend(1) {
                    return false;
                }
            }
            if let Some((cell, part)) = self.with_marker(Marker::pop_deferred) {
                self.trace_part(cell, part);
                if !allowance.spend(REFERENCES_AT_ONCE) {
                    return false;
                }
            } else if let Some(cell) = self.with_marker(Marker::pop_remembered) {
                self.trace_remembered(cell);
                if !allowance.spend(1) {
                    return false;
                }
            } else if self.with_marker(Marker::take_overflowed) {
                // Some grey cells are on no stack.
                self.trace_marked_cells();
            } else {
                return true;
            }
        }
    }

    /// Marks a few of the references of a cell that has very many; all of them
    /// when what is left cannot be noted.
    fn trace_part(&self, cell: Cell, part: Part) {
        self.with_marker(|marker| marker.parent = 0);
        // The cell may have grown old since.
        let tracer = self.tracer(self.region().state(cell).is_old());
        match part {
            Part::Kept(mut count) => loop {
                count = self.mark_kept(count, &tracer);
                let deferred = |marker: &mut Marker| marker.deferred.put_back(cell, count);
                if count == 0 || self.with_marker(deferred).is_ok() {
                    return;
                }
            },
            Part::Below(mut end) => loop {
                end = self.vm.trace_below(cell, end, &tracer);
                let deferred = |marker: &mut Marker| marker.deferred.continue_at(cell, end);
                if end == 0 || self.with_marker(deferred).is_ok() {
                    return;
                }
            },
        }
    }

    /// Marks the next of `count` words that were handed over; how many are left.
    fn mark_kept(&self, count: usize, tracer: &Tracer<'_>) -> usize {
        let now = count.min(REFERENCES_AT_ONCE);
        for _ in 0..now {
            let word = self.with_marker(|marker| marker.deferred.pop_kept());
            if let Some(child) = word.and_then(|word| self.vm.reference(word)) {
                tracer.mark(child);
            }
        }
        count - now
    }

    fn trace_marked_cells(&self) {
        self.for_each_cell_unswept(|cell, _| {
            if self.region().state(cell).is_marked() {
                self.trace(cell);
            }
        });
    }

    /// Traces a remembered cell. What it refers to becomes old, so it need not
    /// be remembered any longer, unless it is unprotected.
    fn trace_remembered(&self, cell: Cell) {
        let state = self.region().state(cell);
        if state.is_unprotected() {
            self.with_marker(|marker| marker.remember(cell));
        } else {
            let forgotten = state.without(CellState::REMEMBERED);
            self.region().set_state(cell, forgotten);
        }
        self.trace(cell);
    }

    #[inline(always)]
    fn trace(&self, cell: Cell) {
        let state = self.region().state(cell);
        self.with_marker(|marker| {
            if state.is_unprotected() && marker.in_slices {
                marker.revisit(cell);
            }
        });
        self.trace_again(cell);
    }

    #[inline(always)]
    fn trace_again(&self, cell: Cell) {
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

    /// Makes a cell grey that the program has stored into a black one.
    pub(crate) fn shade(&self, cell: Cell) {
        self.tracer(false).mark(cell);
    }

    /// Marks `cell` as a reference of the cell that is being traced: for VMs
    /// whose own tracing functions call back.
    #[inline(always)]
    pub fn mark(&self, cell: Cell) {
        let (parent_is_old, worker) =
            self.with_marker(|marker| (marker.parent_is_old, marker.worker));
        if !worker.is_null() {
            return self.mark_together(worker, cell, parent_is_old);
        }
        self.tracer(parent_is_old).mark(cell);
    }

    /// Marks `cell`, which must not move in this collection: the reference
    /// cannot be rewritten.
    #[inline(always)]
    pub fn pin(&self, cell: Cell) {
        if self.with_marker(|marker| marker.notes_pinned_roots && marker.parent == 0) {
            self.note_pinned_root(cell);
        }
        self.mark(cell);
        if self.finds_pins() {
            let pinned = self.region().state(cell).with(CellState::PINNED);
            self.region().set_state(cell, pinned);
        }
    }

    #[cold]
    fn note_pinned_root(&self, cell: Cell) {
        if !self.region().state(cell).is_old() {
            self.with_marker(|marker| marker.note_pinned_root(cell));
        }
    }

    /// Whether this collection moves cells, so that it matters what is pinned.
    #[inline(always)]
    pub fn finds_pins(&self) -> bool {
        self.with_marker(|marker| marker.finding_pins)
    }

    /// Marks what `word` refers to if it is the address of a live cell, which
    /// does not move; any word may be passed. Says which cell that is.
    #[inline(always)]
    pub fn mark_conservatively(&self, word: usize) -> Option<Cell> {
        let cell = self.region().cell_at(word)?;
        self.pin(cell);
        Some(cell)
    }

    /// Makes a marked cell grey once more, in every collection and at every last
    /// stop in which the VM's roots say so: for a cell that the program is changing,
    /// for a while, without telling the write barrier.
    #[cold]
    pub fn trace_anew(&self, cell: Cell) {
        debug_assert!(self.region().state(cell).is_marked());
        match self.with_marker(|marker| marker.worker) {
            worker if worker.is_null() => self.with_marker(|marker| marker.push(cell)),
            worker => self.push_together(worker, cell),
        }
    }

    /// Blocks that clearing has done, for the verifier.
    pub(crate) fn cleared_blocks(&self) -> usize {
        self.collector.borrow().cycle.cleared_blocks
    }

    /// Whether the collection in progress is a full one.
    pub(crate) fn is_marking_fully(&self) -> bool {
        self.is_marking() && self.collector.borrow().cycle.scope == Some(Scope::Full)
    }
}
