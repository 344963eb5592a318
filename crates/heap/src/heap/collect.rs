//! One collection, from its beginning to the end of marking: at once, or in
//! slices between which the program runs.

use std::sync::atomic::Ordering::Relaxed;

use super::collection::{Cycle, Stage};
use super::slice_schedule::LENGTH_MAX;
use super::state::State;
use super::{Heap, Progress};
use crate::layout::block::BlockIndex;
use crate::layout::cell_state::{those_with, Ageing, CellState};
use crate::layout::BLOCK_BYTES;
use crate::mark::marker::{Marker, Noting};
use crate::mark::marking::Marking;
use crate::mark::pile::Team;
use crate::mark::Mode;
use crate::pace::Scope;
use crate::vm::Vm;
use crate::work_budget::WorkBudget;

/// Marking looks ahead from this many blocks of cells on: the states of 64 MiB take 2 MiB, and
/// waiting for them takes longer than looking ahead does. The states of payloads are never looked
/// at.
const LOOKAHEAD_BLOCKS: usize = 1024;

impl<V: Vm> Heap<'_, V> {
    /// Does the next part of a collection, as much as `work` allows. When no collection is in
    /// progress, begins one: frees what the previous one left, then marks. `scope` is for a
    /// collection that begins.
    ///
    /// A collection that is done within its first budget is the same as
    /// [`Heap::collect`].
    ///
    /// A call takes at most eight times `work`, not counting what a remark does in one piece. But
    /// when the program has outrun marking, the call does all that is left of the marking.
    pub fn advance(&self, scope: Option<Scope>, work: &mut WorkBudget) -> Progress {
        if !self.is_marking() {
            if !self.sweep_slice(work) {
                return Progress::Sweeping;
            }
            let mode = match work.is_limited() {
                true => Mode::InSlices,
                false => Mode::AtOnce,
            };
            self.begin(scope, |_| mode);
        } else {
            let pacing = &self.state.borrow().pacing;
            let fresh_bytes = pacing.fresh_bytes();
            match pacing.slices.schedule.is_outrun(fresh_bytes) {
                true => *work = WorkBudget::unlimited(),
                false => work.lengthen_to(1 + pacing.slices.lengthening(fresh_bytes)),
            }
        }
        match self.mark_within(work) {
            Some(scope) => Progress::Marked(scope),
            None => {
                self.verify_if_wanted();
                Progress::Marking
            }
        }
    }

    /// Finishes the marking in progress, if there is one. Afterwards the heap is as after
    /// [`Heap::collect`]. Returns the scope of the collection.
    pub fn finish_marking(&self) -> Option<Scope> {
        self.mark_within(&mut WorkBudget::unlimited())
    }

    /// Drops what the marking in progress has found, for a program that is about to end:
    /// finishing it would be in vain. If the program goes on long enough after all, the marking
    /// begins again, as a full one.
    pub fn restart_marking(&self) {
        if let Some(cycle) = self.cycle() {
            self.restart_as_full(&mut self.marker(), cycle);
        }
    }

    /// Begins the collection again, as a full one.
    fn restart_as_full(&self, marker: &mut Marker, cycle: Cycle) {
        // Borrowed first: where that panics, no cell has lost its place among the grey ones.
        let State { pacing, counts, .. } = &mut *self.state.borrow_mut();
        marker.restart();
        *counts.totals.collections_of(cycle.scope) -= 1;
        *counts.totals.collections_of(Scope::Full) += 1;
        pacing.pace.note_restart_as_full();
        // This marking is no example for others.
        pacing.slices.schedule.tells_nothing();
        let full = Cycle {
            scope: Scope::Full,
            marked_before: 0,
            later_remarks: 0,
            cleared_blocks: 0,
            blocks: self.space().blocks.used_limit(),
            ..cycle
        };
        self.collection.enter(Stage::Clearing, Some(full));
    }

    /// Runs `work`, a collection or a slice of one, at a moment when the program may have called
    /// the barrier for a reference that it has not stored yet.
    ///
    /// The barrier did what the state of the parent asked for, and `work` may change that state:
    /// the parent may become black, or old, or leave the remembered set. So the roots are traced
    /// before `work`, which marks the cell that is to be stored. And a parent that a root refers
    /// to is remembered afterwards if it became old now, or was remembered before.
    pub fn between_barrier_and_store<R>(&self, work: impl FnOnce() -> R) -> R {
        self.marker().noting = Noting::WhatMayChange;
        if let Some(cycle) = self.cycle().filter(|_| self.stage().is_tracing()) {
            self.shared
                .while_collecting(|| self.marking(&mut self.marker(), &cycle).trace_roots());
        }
        let result = work();
        self.remember_noted_roots();
        result
    }

    /// Does what [`Heap::between_barrier_and_store`] does, when another thread has collected
    /// while the calling one waited. The VM's roots must include the calling thread's stack now,
    /// and the other threads must be stopped.
    pub fn after_others_collected_before_store(&self) {
        self.marker().noting = Noting::Everything;
        self.shared.while_collecting(|| {
            let mut marker = self.marker();
            // While marks are cleared, settled cells alone are black.
            match self.cycle().filter(|_| self.stage().is_tracing()) {
                Some(cycle) => self.marking(&mut marker, &cycle).trace_roots(),
                None => {
                    let (vm, mode) = (&self.vm, Mode::AtOnce);
                    Marking::new(vm, self.space(), &mut marker, mode, None).note_roots();
                }
            }
        });
        self.remember_noted_roots();
    }

    fn remember_noted_roots(&self) {
        self.marker().noting = Noting::Nothing;
        self.remember_noted();
    }

    fn remember_noted(&self) {
        loop {
            let noted = self.marker().noted.pop();
            let Some(cell) = noted else { return };
            // A white cell will be traced; or it is dead, because the marking has begun again.
            if self.states().get(cell).is_marked() {
                self.may_have_been_stored_into(cell);
            }
        }
    }

    /// Whether a collection has begun whose marking is not over; the program
    /// may be running in the meantime.
    #[inline]
    pub fn is_marking(&self) -> bool {
        self.stage().is_marking()
    }

    /// Whether the collector is marking, or moving cells, at this moment.
    pub fn is_collecting(&self) -> bool {
        self.shared.is_collecting()
    }

    /// The scope of the collection that is marking, if one is.
    pub fn marking_scope(&self) -> Option<Scope> {
        self.cycle().map(|cycle| cycle.scope)
    }

    /// The collection in progress.
    pub(crate) fn cycle(&self) -> Option<Cycle> {
        self.collection.cycle()
    }

    /// Begins a collection of the scope `asked`, or of the one that pacing chooses; `mode` says
    /// how it marks. Returns the scope.
    ///
    /// Not inlined: a large frame would be on the stack while the stack is scanned.
    #[inline(never)]
    pub(super) fn begin(&self, asked: Option<Scope>, mode: impl FnOnce(Scope) -> Mode) -> Scope {
        let measure = self.measure_all();
        let (overflowed, marked) = {
            let marker = self.marker();
            let overflowed = marker.remembered.has_overflowed() || marker.boundary.has_overflowed();
            (overflowed, marker.worker.counts)
        };
        let asked = if overflowed { Some(Scope::Full) } else { asked };
        let mut state = self.state.borrow_mut();
        let State {
            pacing,
            sweep,
            counts,
            ..
        } = &mut *state;
        let mut scope = pacing.pace.start(measure, asked);
        let mut lets_settle = pacing.pace.lets_settle();
        let stress = self.stress();
        if scope == Scope::Minor && asked.is_none() && stress.no_minor {
            (scope, lets_settle) = (Scope::Major, true);
        }
        lets_settle &= !stress.no_settling;
        pacing.count_fresh_anew();
        let need = self.space().blocks.take_need();
        let paid = pacing.pace.pages_paid(BLOCK_BYTES);
        sweep.surplus.note_nursery(need, paid);
        let (planned_bytes, cells) = pacing.pace.marking_plan(scope, measure);
        pacing.slices.begin(scope, planned_bytes, cells);
        *counts.totals.collections_of(scope) += 1;
        drop(state);
        let cycle = Cycle {
            scope,
            mode: mode(scope),
            blocks: match scope {
                Scope::Minor => 0,
                Scope::Major | Scope::Full => self.space().blocks.used_limit(),
            },
            cleared_blocks: 0,
            marked_before: match scope {
                Scope::Minor => marked.old_cells,
                Scope::Major => marked.settled_cells,
                Scope::Full => 0,
            },
            later_remarks: 0,
            has_been_paused: false,
            lets_settle,
        };
        self.note_time_for_huge_pages(measure.costs);
        self.collection.enter(Stage::Clearing, Some(cycle));
        scope
    }

    /// Marks as much as `work` allows. Returns the scope of the collection if marking is over
    /// then.
    pub(super) fn mark_within(&self, work: &mut WorkBudget) -> Option<Scope> {
        self.cycle()?;
        self.shared.assert_at_rest();
        let mark = || {
            let mut marker = self.marker();
            let is_over = self.mark_stages(&mut marker, work);
            match is_over {
                true => marker.end(),
                false => marker.pause(),
            }
            is_over
        };
        let is_over = self.counting_cpu(|| self.shared.while_collecting(mark));
        // The collection may have become a full one.
        let cycle = self.cycle()?;
        if !is_over {
            self.pause(cycle);
            return None;
        }
        self.end_marking(cycle);
        self.remember_noted();
        self.start_sweep(cycle.scope);
        self.verify_if_wanted();
        Some(cycle.scope)
    }

    /// Does what is left of a marking, as far as `work` allows. Returns whether marking is over.
    fn mark_stages(&self, marker: &mut Marker, work: &mut WorkBudget) -> bool {
        let Some(mut cycle) = self.cycle() else {
            return true;
        };
        let mut marking = if self.stage() == Stage::Clearing {
            if !self.clear_marks(&mut cycle, work) {
                return false;
            }
            if cycle.scope == Scope::Major && marker.boundary.has_overflowed() {
                // The program has stored into a settled cell that could not be noted.
                self.restart_as_full(marker, cycle);
                return self.mark_stages(marker, work);
            }
            marker.begin(self.states(), cycle.scope, self.ageing(cycle.scope));
            self.collection.enter(Stage::Remark, Some(cycle));
            let mut marking = self.marking(marker, &cycle);
            marking.begin_first_remark();
            marking
        } else {
            let mut marking = self.marking(marker, &cycle);
            // What earlier slices left, before the roots are traced again.
            if !marking.trace_grey(work) || !work.is_mostly_left() {
                return false;
            }
            // After a remark in vain the next one may take longer.
            let times = 1 << cycle.later_remarks.min(LENGTH_MAX.ilog2());
            work.lengthen_to((work.length() * times).min(LENGTH_MAX));
            cycle.later_remarks += 1;
            self.collection.enter(Stage::Remark, Some(cycle));
            // What a remark begins with is done in one piece, and takes nothing of the budget.
            work.beside(|| marking.begin_remark());
            marking
        };
        if !marking.trace_grey(work) {
            return false;
        }
        marking.end(cycle.scope);
        true
    }

    /// How young cells grow old. In major and full collections, which several threads may mark,
    /// they grow old in one way only.
    fn ageing(&self, scope: Scope) -> Ageing {
        match scope == Scope::Minor && self.pace().survivors_last() {
            true => Ageing::AT_ONCE,
            false => Ageing::SLOW,
        }
    }

    fn marking<'m>(&'m self, marker: &'m mut Marker, cycle: &Cycle) -> Marking<'m, V> {
        // Any reference may pin a cell, so one thread finds all pins.
        let may_share = cycle.scope != Scope::Minor && cycle.mode != Mode::FindingPins;
        let latest_cells = self
            .stats()
            .marked_cells
            .saturating_sub(cycle.marked_before);
        let team = Team::of(&self.shared.threads, self.parallel.get(), latest_cells);
        let team = team.filter(|_| may_share);
        let is_large = self.cell_blocks() >= LOOKAHEAD_BLOCKS;
        let mut marking = Marking::new(&self.vm, self.space(), marker, cycle.mode, team);
        marking.looks_ahead = is_large || self.stress().look_ahead;
        marking
    }

    /// Notes that the program goes on although marking is not over.
    fn pause(&self, mut cycle: Cycle) {
        cycle.has_been_paused = true;
        let (mut stage, mut newly_marked_cells) = (self.stage(), 0);
        // While clearing, the count is still that of the previous collection.
        if stage.is_tracing() {
            let marked_cells = self.marker().worker.counts.marked_cells();
            newly_marked_cells = marked_cells.saturating_sub(cycle.marked_before);
            stage = Stage::Tracing;
        }
        self.collection.enter(stage, Some(cycle));
        let pacing = &mut self.state.borrow_mut().pacing;
        let fresh_bytes = pacing.fresh_bytes();
        pacing.slices.note_slice(fresh_bytes, newly_marked_cells);
    }

    /// Ends a marking: everything live is marked.
    fn end_marking(&self, cycle: Cycle) {
        {
            let pacing = &mut self.state.borrow_mut().pacing;
            let handed_bytes = pacing.fresh_bytes();
            pacing.pace.note_marked(cycle.scope, handed_bytes);
            // Any other may leave garbage: cells that it does not look at, or that died meanwhile.
            pacing.latest_is_exact = cycle.scope == Scope::Full && !cycle.has_been_paused;
            pacing.slices.end(cycle.scope);
        }
        self.collection.enter(Stage::Idle, None);
        self.retire_caches();
        // What the program was handed during the marking has been marked or found
        // dead with the rest: it is not fresh any more.
        self.state.borrow_mut().pacing.count_fresh_anew();
    }

    // ── Clearing ────────────────────────────────────────────────────────────

    /// Makes every cell white, except that a major collection leaves settled ones black. Old
    /// cells stay old: they are marked again when they are found, or freed. Returns false when
    /// `work` is used up before.
    fn clear_marks(&self, cycle: &mut Cycle, work: &mut WorkBudget) -> bool {
        /// Clearing a block takes about as long as marking this many cells.
        const CELLS_PER_BLOCK: usize = 8;
        for index in cycle.cleared_blocks..cycle.blocks {
            self.clear_marks_of(BlockIndex(index as u32), cycle);
            cycle.cleared_blocks = index + 1;
            if !work.spend(CELLS_PER_BLOCK) {
                break;
            }
        }
        self.collection.enter(Stage::Clearing, Some(*cycle));
        cycle.cleared_blocks == cycle.blocks
    }

    fn clear_marks_of(&self, block: BlockIndex, cycle: &Cycle) {
        if self.region().kind_byte(block).width().is_none() {
            return;
        }
        let leaves_settled = cycle.scope == Scope::Major;
        let lets_settle = cycle.lets_settle;
        for word in self.region().state_words_of(block) {
            let eight = word.load(Relaxed);
            let marks_left = match leaves_settled {
                true => marks_of_settled(eight),
                false => 0,
            };
            let ages_gone = match lets_settle {
                true => 0,
                false => ages_of_unsettled(eight),
            };
            let cleared = (eight & CLEARED | eight & marks_left) & !ages_gone;
            if cleared != eight {
                word.store(cleared, Relaxed);
            }
        }
    }
}

/// What clearing leaves of eight states.
const CLEARED: u64 =
    u64::from_ne_bytes([!(CellState::MARKED | CellState::REMEMBERED | CellState::PINNED); 8]);

/// The bit `MARKED` of those of eight states that are settled.
fn marks_of_settled(eight: u64) -> u64 {
    those_with::<{ CellState::SETTLED }>(eight) << CellState::MARKED.trailing_zeros()
}

/// The bit `AGE_LOW` of those of eight states that are old and not settled. Without it a cell that
/// is found once more does not settle.
fn ages_of_unsettled(eight: u64) -> u64 {
    let settled = those_with::<{ CellState::SETTLED }>(eight);
    (those_with::<{ CellState::OLD }>(eight) & !settled) << CellState::AGE_LOW.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_states_that_are_not_settled_lose_their_age_and_no_others_do() {
        for bits in 0..=u8::MAX {
            let expected = match CellState(bits).is_old() && !CellState(bits).is_settled() {
                true => CellState::AGE_LOW,
                false => 0,
            };
            let found =
                ages_of_unsettled(u64::from_le_bytes([bits, !bits, bits, 0, 0, 0, 0, bits]));
            let [first, _, third, zero, .., last] = found.to_le_bytes();
            assert_eq!(
                [first, third, zero, last],
                [expected, expected, 0, expected],
                "{bits:#x}"
            );
        }
    }

    #[test]
    fn settled_states_keep_their_marks_and_no_others_do() {
        for bits in 0..=u8::MAX {
            let others = !bits;
            let states = [bits, others, 0, bits, bits, others, 255, bits];
            let expected = states.map(|bits| match CellState(bits).is_settled() {
                true => CellState::MARKED,
                false => 0,
            });
            let found = marks_of_settled(u64::from_le_bytes(states));
            assert_eq!(found.to_le_bytes(), expected, "{bits:#x}");
        }
    }
}
