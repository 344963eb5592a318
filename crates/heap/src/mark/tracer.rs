//! What the VM's own code marks with.

use super::alone::Alone;
use super::marker::{Marker, Noting};
use super::pile::Member;
use super::trace::Trace;
use super::weak::WeakCounts;
use super::worker::{Sink, Worker};
use super::Mode;
use crate::layout::cell_state::{CellState, Wants};
use crate::layout::region::{Cell, States};
use crate::pace::Scope;
use crate::space::Space;

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
    /// The remark has begun: unless it finds too much, the program does not run before marking is
    /// over.
    pub(super) is_remark: bool,
    /// The remark traces the parent once more, as every remark does.
    pub(super) is_rescan: bool,
    /// Nothing is marked: roots are noted ([`Noting`]), between two collections.
    pub(super) only_notes: bool,
}

impl Trace for Tracer<'_> {
    #[inline(always)]
    fn mark(&mut self, cell: Cell) {
        // Most cells have what is wanted: classes, and what everything else refers to.
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

    /// The same tracer, lent for a while.
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

    /// The worker that marks here.
    pub(super) fn worker(&mut self) -> &mut Worker {
        match &mut self.member {
            None => &mut self.marker.worker,
            Some(member) => member.parts().0,
        }
    }

    /// The program may store into a cell that a root pins before it calls the barrier again.
    /// Another root may refer to the same cell, come first, and change its state.
    #[inline(always)]
    fn note_root(&mut self, cell: Cell) {
        if self.parent.is_none() && self.marker.noting != Noting::Nothing {
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

    /// Marks the cell that `word` refers to if it is the address of a live cell; the cell does
    /// not move then. Any word may be passed. Returns the cell.
    #[inline(always)]
    pub fn mark_conservatively(&mut self, word: usize) -> Option<Cell> {
        let cell = self.space.region.cell_at(word)?;
        self.pin(cell);
        Some(cell)
    }

    /// Traces a marked cell once more: one that the program changes for a while without telling
    /// the write barrier. The VM calls this each time that it finds the cell among its roots.
    #[cold]
    pub fn trace_anew(&mut self, cell: Cell) {
        if self.only_notes {
            return;
        }
        self.note_changing(cell);
        self.make_grey_again(cell);
    }

    /// Notes that `cell` changes without the write barrier, perhaps for less time than until the
    /// roots are looked at again. So every remark of this collection traces the cell, and so does
    /// the next collection. The VM calls this when it traces such a cell, which may happen
    /// between two looks at the roots.
    #[cold]
    pub fn note_changing(&mut self, cell: Cell) {
        if self.mode == Mode::InSlices && !self.is_rescan {
            self.marker.rescans.add(cell);
        }
        self.marker.note_changing(cell);
    }

    /// The write barrier for the VM's own code while it traces: any number of references
    /// may have been stored into `cell`.
    #[cold]
    pub fn write_barrier_all(&mut self, cell: Cell) {
        if self.states.get(cell).is_marked() {
            self.make_grey_again(cell);
        }
    }

    fn make_grey_again(&mut self, cell: Cell) {
        debug_assert!(self.states.get(cell).is_marked());
        match &mut self.member {
            None => self.marker.make_grey_again(cell),
            Some(member) => member.push(cell),
        }
    }

    /// As [`Heap::unprotect`](crate::heap::Heap::unprotect), for the VM's own code
    /// while it traces.
    #[cold]
    pub fn unprotect(&mut self, cell: Cell) {
        // Old extensions say this again whenever the cell is looked at.
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
        // A reference that is noted before the program runs again may be gone by the end: so its
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

    /// The scope of the collection that has marked.
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

    /// Goes through the weak references noted in this collection and calls `clear` with those
    /// whose cell has died. `clear` must put a word there that is not the address of a cell.
    /// Returns how many weak references there were, and how many of their cells live on.
    pub fn clear_weak_references(&mut self, clear: impl FnMut(*mut usize)) -> WeakCounts {
        let Tracer { space, marker, .. } = &mut self.tracer;
        let Marker {
            weak, remembered, ..
        } = &mut **marker;
        let states = space.region.states();
        weak.clear_dead(space, clear, |holder| remembered.add_if_old(states, holder))
    }
}
