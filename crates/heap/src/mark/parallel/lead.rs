//! The collecting thread's part of a marking by several.

use std::sync::atomic::Ordering::Relaxed;

use super::pile::{Pile, Stacks};
use super::shared_tracer::SharedTracer;
use super::worker::{help, AtWork, Member, Refill, Worker};
use super::Team;
use crate::layout::cell_state::{those_with, CellState, Wants};
use crate::layout::region::Cell;
use crate::mark::marker::{MarkCounts, Marker};
use crate::mark::marking::Marking;
use crate::mark::trace_common::TraceCommon;
use crate::mark::tracer::Tracer;
use crate::space::Space;
use crate::vm::Vm;
use crate::work_budget::WorkBudget;

impl<V: Vm> Marking<'_, V> {
    /// Traces what is grey with all threads of the team when there is much to do.
    /// Afterwards only those cells are grey that did not fit on the stacks, and those
    /// that are to make others old, or belong on the boundary. The program must not run again before marking is
    /// over, so what is traced here is traced for good.
    pub(in crate::mark) fn trace_together(&mut self) {
        let Some(team) = self.team.filter(|_| !self.tracer.marker.grey.is_empty()) else {
            return;
        };
        let Team {
            pool,
            wanted_helpers,
            cells_alone,
        } = team;
        if cells_alone > 0 && self.trace_grey(&mut WorkBudget::cells(cells_alone)) {
            return;
        }
        let pile = Pile::new(self.tracer.marker.lend_stacks());
        let vm = self.vm;
        let (states, common) = (self.tracer.states, vm.common());
        if self.looks_ahead {
            let task = || help::<true>(&pile, states, common);
            pool.run(wanted_helpers, &task, || self.lead::<true>(&pile));
        } else {
            let task = || help::<false>(&pile, states, common);
            pool.run(wanted_helpers, &task, || self.lead::<false>(&pile));
        }
        let counted = count_marked_cells(self.tracer.space);
        let marker = &mut *self.tracer.marker;
        let threads = marker.take_back(pile.into_stacks());
        marker.counts = MarkCounts {
            threads: marker.counts.threads.max(threads),
            ..counted
        };
        marker.push_parents();
        while let Some(cell) = marker.shared.unprotected.pop() {
            marker.unprotect(states, cell, self.tracer.mode);
        }
    }

    fn lead<const AHEAD: bool>(&mut self, pile: &Pile) {
        let own = self.tracer.marker.shared.worker.take();
        let mut worker = own.unwrap_or_else(Worker::boxed);
        let mut at_work = AtWork::collecting(Member {
            pile,
            states: self.tracer.states,
            worker: &mut worker,
        });
        let member = &mut at_work.member;
        loop {
            while let Some(cell) = member.pop::<AHEAD>() {
                self.trace_as::<AHEAD>(member, cell);
                if member.traced(cell) && pile.has_set_aside() {
                    self.trace_set_aside::<AHEAD>(member);
                }
            }
            match member.refill(true) {
                Refill::Grey => {}
                Refill::Aside => self.trace_set_aside::<AHEAD>(member),
                Refill::Over => break,
            }
        }
        drop(at_work);
        self.tracer.marker.shared.worker = Some(worker);
    }

    #[inline(always)]
    fn trace_as<const AHEAD: bool>(&mut self, member: &mut Member<'_>, cell: Cell) {
        let wants = self.tracer.states.get(cell).wants_of_children();
        let mut tracer = SharedTracer::<AHEAD>::of(member, cell, wants);
        // SAFETY: what is marked is a live cell.
        if !unsafe { self.vm.common().trace_cell(cell, &mut tracer) } {
            self.trace_by_vm_as(member, cell, wants);
        }
    }

    /// A settled cell that the VM traces is on the boundary (`Marking::trace_by_vm`).
    #[inline(never)]
    fn trace_by_vm_as(&mut self, member: &mut Member<'_>, cell: Cell, wants: Wants) {
        member.worker.has_younger_child |= wants.settled();
        let mut tracer = Tracer {
            member: Some(member.reborrow()),
            parent: Some(cell),
            wants,
            ..self.tracer.reborrow()
        };
        // SAFETY: what is marked is a live cell.
        unsafe { self.vm.trace_cell(cell, &mut tracer) };
    }

    fn trace_set_aside<const AHEAD: bool>(&mut self, member: &mut Member<'_>) {
        for cell in member.take_set_aside() {
            self.trace_as::<AHEAD>(member, cell);
            member.traced(cell);
        }
    }
}

impl Marker {
    /// Hands over the stacks that several threads share. Until
    /// [`Marker::take_back`] nothing can be pushed or remembered here.
    fn lend_stacks(&mut self) -> Stacks {
        Stacks {
            grey: self.grey.take(),
            aside: std::mem::take(&mut self.shared.aside),
            remembered: self.remembered.take(),
            parents: std::mem::take(&mut self.shared.parents),
            ..Stacks::default()
        }
    }

    /// Takes the stacks back when all workers have gone. Says how many there were.
    fn take_back(&mut self, stacks: Stacks) -> usize {
        debug_assert!(stacks.working == 0);
        self.grey.put_back(stacks.grey);
        self.remembered.put_back(stacks.remembered);
        self.shared.aside = stacks.aside;
        self.shared.parents = stacks.parents;
        if stacks.overflowed {
            self.grey.note_overflow();
        }
        if stacks.remembered_overflowed {
            self.remembered.note_overflow();
        }
        stacks.threads
    }
}

/// Counts marked cells, and those of them that are old, and settled.
fn count_marked_cells(space: &Space) -> MarkCounts {
    const MARKED: u8 = CellState::MARKED;
    const OLD: u8 = MARKED | CellState::OLD;
    const SETTLED: u8 = MARKED | CellState::SETTLED;
    let mut counts = MarkCounts::default();
    let mut marked_cells = 0;
    for (block, _) in space.cell_blocks() {
        for word in space.region.state_words_of(block) {
            let eight = word.load(Relaxed);
            marked_cells += those_with::<MARKED>(eight).count_ones() as usize;
            counts.old_cells += those_with::<OLD>(eight).count_ones() as usize;
            counts.settled_cells += those_with::<SETTLED>(eight).count_ones() as usize;
        }
    }
    counts.young_cells = marked_cells - counts.old_cells;
    counts
}
