//! What marks the references of one cell, and what finds them.

use super::deferred::Deferred;
use super::marker::Marker;
use super::pending_store::Noting;
use super::pile::Member;
use super::weak::WeakCounts;
use super::worker::{Alone, Sink, Worker};
use super::Mode;
use crate::layout::cell_state::{CellState, Wants};
use crate::layout::region::{Cell, States};
use crate::os::Refused;
use crate::pace::Scope;
use crate::space::Space;

/// Marks what one cell refers to, on whatever thread traces it.
///
/// There is one only inside a collection: nothing can be marked outside.
pub trait Trace {
    /// The same, for a function that is not inlined: as long as nobody else has the
    /// address of a tracer, its fields stay in registers.
    #[inline(always)]
    fn lent(&mut self) -> impl Trace
    where
        Self: Sized,
    {
        self
    }

    /// Marks `cell` and, when it was white, makes it grey.
    fn mark(&mut self, cell: Cell);

    /// Marks `cell`, which must not move in this collection: the reference
    /// cannot be rewritten.
    fn pin(&mut self, cell: Cell);

    /// Whether this collection moves cells, so that it matters what is pinned.
    fn finds_pins(&self) -> bool;

    /// Whether other threads trace at the same time, and perhaps the VM's own code on one
    /// of them.
    #[inline(always)]
    fn is_shared(&self) -> bool {
        false
    }

    /// Hands over words of the cell being traced, to be marked a few at a time as
    /// far as they are references, which
    /// [`TraceCommon::reference`] says. False when
    /// the cell is to be traced as any other.
    #[inline(always)]
    fn mark_later(&mut self, words: &[usize]) -> bool {
        let _ = words;
        false
    }

    /// Has the many references of the cell being traced marked a few at a time by
    /// [`TraceCommon::trace_below`], from the one
    /// before `end` on downwards: for a cell within which references never move
    /// upwards. False when the cell is to be traced as any other.
    #[inline(always)]
    fn trace_later(&mut self, end: usize) -> bool {
        let _ = end;
        false
    }
}

impl<T: Trace> Trace for &mut T {
    #[inline(always)]
    fn lent(&mut self) -> impl Trace {
        (**self).lent()
    }

    #[inline(always)]
    fn mark(&mut self, cell: Cell) {
        (**self).mark(cell);
    }

    #[inline(always)]
    fn pin(&mut self, cell: Cell) {
        (**self).pin(cell);
    }

    #[inline(always)]
    fn finds_pins(&self) -> bool {
        (**self).finds_pins()
    }

    #[inline(always)]
    fn is_shared(&self) -> bool {
        (**self).is_shared()
    }

    #[inline(always)]
    fn mark_later(&mut self, words: &[usize]) -> bool {
        (**self).mark_later(words)
    }

    #[inline(always)]
    fn trace_later(&mut self, end: usize) -> bool {
        (**self).trace_later(end)
    }
}

/// Traces the cells that any thread can trace: those whose references are found
/// by reading memory that nobody changes while the VM is stopped. Cells that only one
/// thread at a time can trace are among them while no other traces
/// ([`Trace::is_shared`]).
///
/// Several threads do so at the same time while the collecting one is in
/// [`Vm::trace_cell`](crate::vm::Vm::trace_cell).
///
/// # Safety
/// As for [`Vm`](crate::vm::Vm).
pub unsafe trait TraceCommon: Copy + Send + Sync {
    /// Marks everything that `cell` refers to. False when the VM has to do so, because it is
    /// none of those cells, or is in a state that only the VM can deal with; then nothing
    /// has been marked.
    ///
    /// # Safety
    /// `cell` is a live cell of the VM's heap.
    unsafe fn trace_cell(self, cell: Cell, tracer: &mut impl Trace) -> bool;

    /// What `word` refers to, which was handed over with [`Trace::mark_later`].
    fn reference(self, word: usize) -> Option<Cell>;

    /// Marks some of the references that `cell` has below the index `end`, the highest
    /// first. Returns the index below which the others are, 0 when there are none. For
    /// cells that were traced with [`Trace::trace_later`]; the program may have changed
    /// them since.
    ///
    /// # Safety
    /// `cell` is a live cell of the VM's heap, which was traced so, and `end` no more than it
    /// has said.
    unsafe fn trace_below(self, cell: Cell, end: usize, tracer: &mut impl Trace) -> usize;
}

/// Marks the references of one cell for a worker: the innermost step of a collection.
///
/// Nothing keeps its address, so its fields stay in registers: a store to the state
/// table does not force them to be read again.
#[derive(Debug)]
pub(super) struct CellTracer<S, const AHEAD: bool> {
    pub(super) sink: S,
    pub(super) mode: Mode,
    pub(super) parent: Cell,
    pub(super) wants: Wants,
}

impl<S: Sink, const AHEAD: bool> Trace for CellTracer<S, AHEAD> {
    #[inline(always)]
    fn lent(&mut self) -> impl Trace {
        let (mode, parent, wants) = (self.mode, self.parent, self.wants);
        self.sink.tracer::<AHEAD>(mode, parent, wants)
    }

    #[inline(always)]
    fn mark(&mut self, cell: Cell) {
        if !AHEAD {
            return self.sink.mark(cell, self.wants);
        }
        let (worker, states) = self.sink.parts();
        if worker.lookahead.push(states, self.parent, cell, self.wants) {
            self.sink.lent().mark_waiting();
        }
    }

    #[inline(always)]
    fn pin(&mut self, cell: Cell) {
        self.mark(cell);
        if self.finds_pins() {
            self.sink.add_bits(cell, CellState::PINNED);
        }
    }

    #[inline(always)]
    fn finds_pins(&self) -> bool {
        self.mode == Mode::FindingPins
    }

    #[inline(always)]
    fn is_shared(&self) -> bool {
        S::IS_SHARED
    }

    #[inline(always)]
    fn mark_later(&mut self, words: &[usize]) -> bool {
        let parent = self.parent;
        self.put_off(|deferred| deferred.keep(parent, words))
    }

    #[inline(always)]
    fn trace_later(&mut self, end: usize) -> bool {
        let parent = self.parent;
        self.put_off(|deferred| deferred.continue_at(parent, end))
    }
}

impl<S: Sink, const AHEAD: bool> CellTracer<S, AHEAD> {
    /// Leaves the references for later, if the program runs meanwhile and there is room to
    /// note them. They may turn out not to be settled.
    #[inline(always)]
    fn put_off(&mut self, note: impl FnOnce(&mut Deferred) -> Result<(), Refused>) -> bool {
        let is_noted = self.mode == Mode::InSlices
            && self
                .sink
                .deferred()
                .is_some_and(|deferred| note(deferred).is_ok());
        if is_noted {
            self.sink.parts().0.has_unsettled_child = self.wants.settled();
        }
        is_noted
    }
}

/// Marks on behalf of the VM's own code: what roots refer to, or a cell that only
/// the VM can trace. The collecting thread alone has one.
#[derive(Debug)]
pub struct Tracer<'c> {
    pub(super) states: States<'c>,
    pub(super) space: &'c Space,
    pub(super) marker: &'c mut Marker,
    /// The collecting thread's part while several threads mark.
    pub(super) member: Option<Member<'c>>,
    /// `None` while roots are traced.
    pub(super) parent: Option<Cell>,
    pub(super) wants: Wants,
    pub(super) mode: Mode,
    /// The remark has begun: unless it finds too much, the program does not run before
    /// marking is over.
    pub(super) is_remark: bool,
    /// The remark traces the parent once more, as every remark does.
    pub(super) is_rescan: bool,
    /// Nothing is marked: roots are noted (`pending_store.rs`), between collections.
    pub(super) only_notes: bool,
}

impl Trace for Tracer<'_> {
    #[inline(always)]
    fn mark(&mut self, cell: Cell) {
        // Most are: classes, and what everything else refers to.
        if !self.states.get(cell).is_all_of(self.wants) {
            self.mark_or_promote(cell);
        }
    }

    #[inline(always)]
    fn pin(&mut self, cell: Cell) {
        self.note_root(cell);
        self.mark(cell);
        if self.finds_pins() {
            let state = self.states.get(cell).with(CellState::PINNED);
            self.states.set(cell, state);
        }
    }

    #[inline(always)]
    fn finds_pins(&self) -> bool {
        self.mode == Mode::FindingPins
    }
}

impl<'c> Tracer<'c> {
    pub(super) fn new(space: &'c Space, marker: &'c mut Marker, mode: Mode) -> Self {
        Self {
            states: space.region.states(),
            space,
            marker,
            member: None,
            parent: None,
            wants: Wants::MARKED,
            mode,
            is_remark: false,
            is_rescan: false,
            only_notes: false,
        }
    }

    /// The same, for a while.
    pub(super) fn reborrow(&mut self) -> Tracer<'_> {
        Tracer {
            marker: self.marker,
            member: self.member.as_mut().map(Member::reborrow),
            ..*self
        }
    }

    /// Turns to what the roots refer to.
    pub(super) fn of_roots(&mut self) -> &mut Self {
        self.parent = None;
        self.wants = Wants::MARKED;
        self
    }

    #[inline(always)]
    pub(super) fn alone(&mut self) -> Alone<'_> {
        Alone {
            states: self.states,
            marker: self.marker,
        }
    }

    /// What marks here.
    pub(super) fn worker(&mut self) -> &mut Worker {
        match &mut self.member {
            None => &mut self.marker.worker,
            Some(member) => member.parts().0,
        }
    }

    /// What a root pins may be stored into before the program tells of it again. Another
    /// root may show it first, and change it.
    #[inline(always)]
    fn note_root(&mut self, cell: Cell) {
        if self.parent.is_none() && self.marker.pending_store.noting() != Noting::Nothing {
            self.marker.note_root(self.states, cell);
        }
    }

    #[inline(never)]
    fn mark_or_promote(&mut self, cell: Cell) {
        self.note_root(cell);
        if self.only_notes {
            return;
        }
        let wants = self.wants;
        match &mut self.member {
            None => self.alone().mark(cell, wants),
            Some(member) => member.mark(cell, wants),
        }
    }

    /// Marks what `word` refers to if it is the address of a live cell, which
    /// does not move; any word may be passed. Says which cell that is.
    #[inline(always)]
    pub fn mark_conservatively(&mut self, word: usize) -> Option<Cell> {
        let cell = self.space.region.cell_at(word)?;
        self.pin(cell);
        Some(cell)
    }

    /// Makes a marked cell grey once more. For a cell that the program changes for a
    /// while without telling the write barrier: the VM calls this each time that it
    /// finds the cell among its roots.
    #[cold]
    pub fn trace_anew(&mut self, cell: Cell) {
        if self.only_notes {
            return;
        }
        debug_assert!(self.states.get(cell).is_marked());
        match &mut self.member {
            None => self.marker.trace_anew(cell),
            Some(member) => member.push(cell),
        }
    }

    /// The write barrier for the VM's own code while it traces: any number of references
    /// may have been stored into `cell`.
    #[cold]
    pub fn write_barrier_all(&mut self, cell: Cell) {
        if self.states.get(cell).is_marked() {
            self.trace_anew(cell);
        }
    }

    /// As [`Heap::unprotect`](crate::heap::Heap::unprotect), for the VM's own code
    /// while it traces.
    #[cold]
    pub fn unprotect(&mut self, cell: Cell) {
        // Said again whenever the cell is looked at, as old extensions do.
        if self.states.get(cell).is_unprotected() {
            return;
        }
        match &mut self.member {
            None => self.marker.unprotect(self.states, cell, self.mode),
            // The program does not run before marking is over.
            Some(member) => {
                member.unprotect(cell);
            }
        }
    }

    /// Notes a weak reference of the cell being traced: once marking is over,
    /// the word at `reference` is handed to the sink of
    /// [`MarkingEnd::clear_weak_references`] if what it refers to has died.
    ///
    /// When there is no memory to note it, the reference is treated as strong
    /// in this collection.
    ///
    /// # Safety
    /// `reference` points at the address of a cell and stays valid until the
    /// end of this collection, or until the program runs.
    pub unsafe fn mark_weak(&mut self, reference: *mut usize) {
        // Noted before the program runs again, it may be gone by the end: so its
        // holder is traced again then.
        if self.mode == Mode::InSlices && !self.is_rescan {
            if let Some(parent) = self.parent {
                self.marker.rescans.add(parent);
            }
        }
        if self.is_remark && self.marker.weak.note(self.parent, reference).is_err() {
            // SAFETY: the caller passes the address of a reference to a cell.
            let target = unsafe { Cell::from_address(reference.read()) };
            self.mark(target);
        }
    }
}

/// The end of marking: everything reachable is marked, and nothing has been freed.
#[derive(Debug)]
pub struct MarkingEnd<'c> {
    pub(super) tracer: Tracer<'c>,
    pub(super) scope: Scope,
}

impl<'c> MarkingEnd<'c> {
    /// Marks what is to be kept although nothing that lives refers to it.
    pub fn tracer(&mut self) -> &mut Tracer<'c> {
        &mut self.tracer
    }

    /// What was marked.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Whether a cell that is alive survives minor collections without being traced.
    pub fn is_old(&self, cell: Cell) -> bool {
        self.tracer.states.get(cell).is_old()
    }

    /// Whether `cell`, which the program has had since it was last swept, has died.
    pub fn is_dead(&self, cell: Cell) -> bool {
        !self.tracer.states.get(cell).is_marked()
    }

    /// Goes through the weak references noted in this collection and calls
    /// `clear` with those whose cell has died; it must put a word there that is
    /// not the address of a cell. Returns how many there were and how many of
    /// them live on.
    pub fn clear_weak_references(&mut self, clear: impl FnMut(*mut usize)) -> WeakCounts {
        let Tracer { space, marker, .. } = &mut self.tracer;
        let Marker {
            weak, remembered, ..
        } = &mut **marker;
        let states = space.region.states();
        weak.clear_dead(space, clear, |holder| remembered.add_if_old(states, holder))
    }
}
