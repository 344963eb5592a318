//! Marking, from the roots until nothing is grey: what one stop of the program does
//! of it.

use super::alone::Alone;
use super::cell_tracer::CellTracer;
use super::deferred::{Rest, REFERENCES_AT_ONCE};
use super::marker::Marker;
use super::pile::{Member, Own, Pile, Team};
use super::rewritten::{Counts, References};
use super::trace::{Trace, TraceCommon};
use super::tracer::{MarkingEnd, Tracer};
use super::worker::Sink;
use super::Mode;
use crate::layout::cell_state::{CellState, Wants};
use crate::layout::region::Cell;
use crate::pace::Scope;
use crate::space::Space;
use crate::vm::Vm;
use crate::work_budget::WorkBudget;

/// A marking in progress, with the program stopped.
pub(crate) struct Marking<'a, V> {
    pub(super) vm: &'a V,
    /// What marking works with. The VM's own code borrows it as it is, because building a tracer
    /// for each cell would take longer than tracing some cells.
    pub(super) tracer: Tracer<'a>,
    /// The threads that may mark when no budget limits the work.
    pub(super) team: Option<Team<'a>>,
    /// The table of states is larger than the processor's cache.
    pub(crate) looks_ahead: bool,
}

impl<'a, V: Vm> Marking<'a, V> {
    pub(crate) fn new(
        vm: &'a V,
        space: &'a Space,
        marker: &'a mut Marker,
        mode: Mode,
        team: Option<Team<'a>>,
    ) -> Self {
        let tracer = Tracer::new(space, marker, mode);
        Self {
            vm,
            tracer,
            team,
            looks_ahead: false,
        }
    }

    /// Marks what the roots refer to now. The program may run and change the roots before
    /// marking is over.
    pub(crate) fn trace_roots(&mut self) {
        self.vm.trace_roots(self.tracer.of_roots());
    }

    /// Notes what the roots refer to, and marks nothing: no collection is going on.
    pub(crate) fn note_roots(&mut self) {
        self.tracer.only_notes = true;
        self.trace_roots();
    }

    /// Begins the first remark, with which marking begins: there is nothing to trace again yet.
    /// If the budget lasts, this remark finds everything.
    pub(crate) fn begin_first_remark(&mut self) {
        self.tracer.is_remark = true;
        self.trace_roots();
    }

    /// Traces once more what may refer to white cells although no barrier was called: the roots,
    /// and the cells of [`Rescans`](super::rescan::Rescans). Once nothing is grey after that,
    /// marking is over.
    pub(crate) fn begin_remark(&mut self) {
        self.begin_first_remark();
        while let Some(cell) = self.tracer.marker.rescans.pop_written() {
            self.trace_written::<false>(cell);
        }
        if self.tracer.marker.rescans.has_overflowed() {
            return self.trace_marked_cells();
        }
        self.tracer.is_rescan = true;
        for index in 0..self.tracer.marker.rescans.always().len() {
            let cell = self.tracer.marker.rescans.always()[index];
            let wants = self.tracer.states.get(cell).wants_of_children();
            self.trace_apart::<false>(cell, wants);
        }
        self.tracer.is_rescan = false;
    }

    /// Has the VM do what it does when everything is marked, until doing so marks nothing more.
    pub(crate) fn end(&mut self, scope: Scope) {
        loop {
            let tracer = self.tracer.of_roots().reborrow();
            self.vm.marking_done(&mut MarkingEnd { tracer, scope });
            if self.tracer.marker.is_done() {
                return;
            }
            self.trace_grey(&mut WorkBudget::unlimited());
        }
    }

    /// Traces until nothing is grey. Returns false when `work` is used up before.
    pub(crate) fn trace_grey(&mut self, work: &mut WorkBudget) -> bool {
        if !work.is_limited() {
            self.trace_together();
        }
        match self.looks_ahead {
            false => self.trace_grey_looking::<false>(work),
            true => {
                let is_over = self.trace_grey_looking::<true>(work);
                self.alone().mark_waiting();
                is_over
            }
        }
    }

    /// Traces what is grey with all threads of the team when there is much to do. Afterwards only
    /// cells that did not fit on the stacks are grey. The program must not run again before
    /// marking is over: what several threads trace is not put off and not traced again.
    fn trace_together(&mut self) {
        let has_grey = !self.tracer.marker.worker.grey.is_empty();
        let Some(team) = self.team.filter(|_| has_grey) else {
            return;
        };
        let alone = team.cells_alone;
        if alone > 0 && self.trace_grey(&mut WorkBudget::cells(alone)) {
            return;
        }
        let own = self.tracer.marker.own.take();
        let Some(mut own) = own.or_else(|| Own::new().ok().map(Box::new)) else {
            return;
        };
        own.begin();
        let pile = Pile::new(self.tracer.marker.lend());
        let (vm, looks_ahead) = (self.vm, self.looks_ahead);
        let (states, common) = (self.tracer.states, vm.common());
        let mut by_vm = |member: &mut Member<'_>, cell, wants| {
            let tracer = Tracer {
                member: Some(member.reborrow()),
                ..self.tracer.reborrow()
            };
            Marking { tracer, ..*self }.trace_by_vm(cell, wants);
        };
        let task = || pile.help(states, common, looks_ahead);
        team.pool.run(team.wanted_helpers, &task, || {
            pile.lead(states, &mut own, common, looks_ahead, &mut by_vm);
        });
        self.tracer.marker.take_back(pile.into_stacks());
        self.tracer.marker.own = Some(own);
    }

    #[inline(always)]
    fn alone(&mut self) -> Alone<'_> {
        self.tracer.alone()
    }

    /// As `trace_grey`, by this thread alone; compiled once for small heaps and once for large
    /// ones. When it returns false, references may wait in the lookahead.
    #[inline(never)]
    fn trace_grey_looking<const AHEAD: bool>(&mut self, work: &mut WorkBudget) -> bool {
        loop {
            let mut left = work.take();
            while let Some(cell) = self.alone().pop::<AHEAD>() {
                self.trace::<AHEAD>(cell);
                left -= 1;
                if left == 0 {
                    left = work.take_more();
                    if left == 0 {
                        return false;
                    }
                }
            }
            work.put_back(left);
            if AHEAD && self.alone().mark_waiting() {
                continue;
            }
            match self.trace_other::<AHEAD>() {
                None => return true,
                Some(cells) if work.spend(cells) => {}
                Some(_) => return false,
            }
        }
    }

    /// Traces what is grey and not on the mark stack: a cell, or part of one. Returns how many
    /// cells that counts as, or `None` when nothing was left.
    #[inline(never)]
    fn trace_other<const AHEAD: bool>(&mut self) -> Option<usize> {
        let marker = &mut *self.tracer.marker;
        if let Some((cell, rest)) = marker.deferred.pop() {
            self.trace_part::<AHEAD>(cell, rest);
            return Some(REFERENCES_AT_ONCE);
        }
        if let Some(cell) = marker.anew.pop() {
            self.trace_in_its_state::<AHEAD>(cell);
        } else if let Some(cell) = marker.untraced.pop() {
            self.trace_remembered::<AHEAD>(cell);
        } else if marker.worker.grey.take_overflow() {
            // Some grey cells are on no stack.
            self.trace_marked_cells();
        } else {
            return None;
        }
        Some(1)
    }

    /// Traces a cell that was in the remembered set. The cell stays there when it is unprotected
    /// (invariant 4) or rewritten; otherwise what it refers to becomes old.
    fn trace_remembered<const AHEAD: bool>(&mut self, cell: Cell) {
        let states = self.tracer.states;
        let state = states.get(cell);
        if state.is_unprotected() || self.is_rewritten(cell) {
            self.tracer.marker.remembered.add(cell);
        } else {
            states.set(cell, state.without(CellState::REMEMBERED));
        }
        self.trace_written::<AHEAD>(cell);
    }

    /// Traces a cell into which the program has stored. If the cell is remembered, the next
    /// collection decides what grows old with it.
    fn trace_written<const AHEAD: bool>(&mut self, cell: Cell) {
        let state = self.tracer.states.get(cell);
        self.note_if_unprotected(cell, state);
        let wants = match state.is_remembered() {
            true => Wants::MARKED,
            false => state.wants_of_children(),
        };
        self.trace_apart::<AHEAD>(cell, wants);
    }

    /// Whether the program keeps storing into a remembered cell what it soon replaces.
    fn is_rewritten(&mut self, cell: Cell) -> bool {
        let (states, counts) = (self.tracer.states, Counts::default());
        let mut found = References { states, counts };
        let rewritten = &mut self.tracer.marker.rewritten;
        rewritten.may_be(cell)
            // SAFETY: what is remembered is a live cell.
            && unsafe { self.vm.common().trace_cell(cell, &mut found) }
            && !found.counts.are_many
            && rewritten.is(cell, found.counts)
    }

    #[inline(always)]
    fn trace<const AHEAD: bool>(&mut self, cell: Cell) {
        let state = self.tracer.states.get(cell);
        self.note_if_unprotected(cell, state);
        self.trace_wanting::<AHEAD>(cell, state.wants_of_children());
    }

    /// As `trace`, for callers outside the innermost loop: tracing is too much code to inline
    /// there.
    fn trace_in_its_state<const AHEAD: bool>(&mut self, cell: Cell) {
        let state = self.tracer.states.get(cell);
        self.note_if_unprotected(cell, state);
        self.trace_apart::<AHEAD>(cell, state.wants_of_children());
    }

    #[inline(never)]
    fn trace_apart<const AHEAD: bool>(&mut self, cell: Cell, wants: Wants) {
        self.trace_wanting::<AHEAD>(cell, wants);
    }

    #[inline(always)]
    fn note_if_unprotected(&mut self, cell: Cell, state: CellState) {
        if state.is_unprotected() {
            self.note_unprotected(cell);
        }
    }

    /// The program may write to a cell without a barrier: the remark traces it once more.
    #[cold]
    fn note_unprotected(&mut self, cell: Cell) {
        if self.tracer.mode == Mode::InSlices {
            self.tracer.marker.rescans.add(cell);
        }
    }

    #[inline(always)]
    fn trace_wanting<const AHEAD: bool>(&mut self, cell: Cell, wants: Wants) {
        let (common, mode) = (self.vm.common(), self.tracer.mode);
        if !self.alone().trace::<AHEAD>(common, mode, cell, wants) {
            self.trace_by_vm(cell, wants);
        }
        self.alone().end_cell(cell, wants);
    }

    /// Has the VM trace `cell`. The VM's own code does not mark what is marked and old already,
    /// and it may note weak references: so a settled cell counts as referring to one that is not
    /// settled.
    #[inline(never)]
    fn trace_by_vm(&mut self, cell: Cell, wants: Wants) {
        self.tracer.parent = Some(cell);
        self.tracer.wants = wants;
        self.tracer.worker().has_unsettled_child = wants.settled();
        // SAFETY: what is marked is a live cell.
        unsafe { self.vm.trace_cell(cell, &mut self.tracer) };
    }

    fn trace_marked_cells(&mut self) {
        let space = self.tracer.space;
        for (block, _) in space.cell_blocks() {
            for cell in space.cells_of(block) {
                let state = self.tracer.states.get(cell);
                if state.is_live() && state.is_marked() {
                    self.trace_in_its_state::<false>(cell);
                }
            }
        }
    }

    /// Marks a few of the references of a cell that has very many, or all of them when the rest
    /// cannot be noted.
    fn trace_part<const AHEAD: bool>(&mut self, cell: Cell, mut rest: Rest) {
        // The cell may have grown old since its references were put off.
        let wants = self.tracer.states.get(cell).wants_of_children();
        loop {
            let left = match rest {
                Rest::Words(count) => Rest::Words(self.mark_words::<AHEAD>(cell, wants, count)),
                Rest::Below(end) => Rest::Below(self.trace_below::<AHEAD>(cell, wants, end)),
            };
            let is_over = matches!(left, Rest::Words(0) | Rest::Below(0));
            if is_over || self.tracer.marker.deferred.put_back(cell, left).is_ok() {
                break;
            }
            rest = left;
        }
        self.alone().end_cell(cell, wants);
    }

    /// Marks the next of the `count` words that `parent` has handed over. Returns how many are
    /// left.
    fn mark_words<const AHEAD: bool>(&mut self, parent: Cell, wants: Wants, count: usize) -> usize {
        let common = self.vm.common();
        let now = count.min(REFERENCES_AT_ONCE);
        for _ in 0..now {
            let word = self.tracer.marker.deferred.pop_word();
            if let Some(child) = word.and_then(|word| common.reference(word)) {
                self.cell_tracer::<AHEAD>(parent, wants).mark(child);
            }
        }
        count - now
    }

    /// Marks some of the references that `parent` has below `end`. Returns the end of the rest.
    fn trace_below<const AHEAD: bool>(&mut self, parent: Cell, wants: Wants, end: usize) -> usize {
        let common = self.vm.common();
        let mut tracer = self.cell_tracer::<AHEAD>(parent, wants);
        // SAFETY: the parent is marked, so live; its references were put off with `trace_later`,
        // and `end` is what that call or the latest `trace_below` said.
        unsafe { common.trace_below(parent, end, &mut tracer) }
    }

    #[inline(always)]
    fn cell_tracer<const AHEAD: bool>(&mut self, parent: Cell, wants: Wants) -> impl Trace + '_ {
        let mode = self.tracer.mode;
        CellTracer::<_, AHEAD> {
            sink: self.tracer.alone(),
            mode,
            parent,
            wants,
        }
    }
}
