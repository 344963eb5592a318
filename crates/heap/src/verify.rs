//! Walks the whole heap and asserts the numbered invariants.
//!
//! The walk finds reachable cells with the VM's visitors and a set of its own,
//! so that a mistake in marking cannot hide itself.
//!
//! There are two doors. Tests, and VMs that offer a check to their users, call
//! [`Heap::verify`]. The collector knows [`Heap::verify_if_wanted`] alone, which it
//! calls after each collection and each slice, and which does nothing unless
//! [`Stress::verify`](crate::stress::Stress::verify) is on. Nothing else in this crate
//! depends on this file.

use std::collections::{HashMap, HashSet, TryReserveError};
use std::hash::Hash;

use crate::allocate::lists::{AVAILABLE, UNSWEPT};
use crate::allocate::run::Run;
use crate::heap::{Heap, Stage};
use crate::layout::block::{BlockIndex, INHERITED, NEEDS_SWEEP, OWNED};
use crate::layout::cell_state::CellState;
use crate::layout::region::Cell;
use crate::mark::trace::{Trace, TraceCommon};
use crate::pace::Scope;
use crate::sweep::free_cells::for_each_disturbed;
use crate::vm::{Inspection, Root, Vm};

/// Why a walk ends early.
enum Stop {
    /// An invariant is broken; the text says which and where.
    Broken(String),
    /// There is no memory to go on with.
    OutOfMemory,
}

impl From<String> for Stop {
    fn from(broken: String) -> Self {
        Self::Broken(broken)
    }
}

impl From<TryReserveError> for Stop {
    fn from(_: TryReserveError) -> Self {
        Self::OutOfMemory
    }
}

/// A set that reports when memory is out.
struct Seen<T>(HashSet<T>);

impl<T: Eq + Hash> Seen<T> {
    fn new() -> Self {
        Self(HashSet::new())
    }

    fn has(&self, item: &T) -> bool {
        self.0.contains(item)
    }

    /// Adds the item. Returns whether it is new.
    fn add(&mut self, item: T) -> Result<bool, Stop> {
        self.0.try_reserve(1)?;
        Ok(self.0.insert(item))
    }
}

/// A stack for visitors, which cannot stop when memory is out.
struct Pending<T> {
    items: Vec<T>,
    lacks_some: bool,
}

impl<T> Pending<T> {
    fn new() -> Self {
        Self {
            items: Vec::new(),
            lacks_some: false,
        }
    }

    fn push(&mut self, item: T) {
        self.lacks_some |= self.items.try_reserve(1).is_err();
        if !self.lacks_some {
            self.items.push(item);
        }
    }

    fn all(&mut self) -> Result<&mut Vec<T>, Stop> {
        if self.lacks_some {
            return Err(Stop::OutOfMemory);
        }
        Ok(&mut self.items)
    }

    fn pop(&mut self) -> Result<Option<T>, Stop> {
        Ok(self.all()?.pop())
    }
}

/// Lists what a cell is traced to.
struct Traced(Pending<Cell>);

impl Trace for Traced {
    fn mark(&mut self, cell: Cell) {
        self.0.push(cell);
    }

    fn pin(&mut self, cell: Cell) {
        self.0.push(cell);
    }

    fn finds_pins(&self) -> bool {
        false
    }
}

impl<V: Vm> Heap<'_, V> {
    /// Checks the invariants that hold in the present stage, while the collector is not at work.
    /// Names the first one that is broken. What cannot be checked, because memory is out, is
    /// taken to hold.
    pub fn verify(&self) -> Result<(), String> {
        match self.verify_all() {
            Err(Stop::Broken(broken)) => Err(broken),
            Ok(()) | Err(Stop::OutOfMemory) => Ok(()),
        }
    }

    /// Calls [`Heap::verify`] when the stress switches ask for it.
    ///
    /// # Panics
    /// When an invariant is broken; the message names it.
    pub(crate) fn verify_if_wanted(&self) {
        if self.stress().verify {
            if let Err(broken) = self.verify() {
                panic!("heap verification failed: {broken}");
            }
        }
    }

    fn verify_all(&self) -> Result<(), Stop> {
        self.verify_states()?;
        self.verify_remembered()?;
        self.verify_boundary()?;
        if self.stage() == Stage::Clearing {
            self.verify_cleared()?;
        }
        if let Some(vm) = self.vm().inspection() {
            self.verify_references(vm)?;
        }
        self.verify_parts()?;
        self.verify_runs()?;
        self.verify_poison()?;
        self.space().lock_blocks().verify()?;
        self.shared().payloads.lock().verify(self.space())?;
        self.verify_lists()
    }

    /// Checks what cells refer to.
    fn verify_references(&self, vm: &impl Inspection) -> Result<(), Stop> {
        match self.stage() {
            Stage::Idle | Stage::Moving => self.verify_generations(vm, &Seen::new())?,
            Stage::Clearing => {}
            Stage::Tracing | Stage::Remark => self.verify_black_cells(vm)?,
        }
        self.verify_reachable(vm)
    }

    /// Invariants 1, 2, 4 and 13.
    fn verify_states(&self) -> Result<(), Stop> {
        self.for_each_cell_state(|_, cell, state| {
            let holds = |number: u32, holds| {
                ensure(holds, || {
                    format!("invariant {number}: {cell:?} is {state:?}")
                })
            };
            holds(13, state != CellState::FORWARDED)?;
            holds(1, state == CellState::FREE || state.is_live())?;
            holds(2, state.is_live() || !state.is_old())?;
            if !state.is_old() || self.is_uncertain(state) || self.is_garbage(cell) {
                return Ok(());
            }
            holds(2, state.is_marked())?;
            if self.stage() == Stage::Clearing || !state.is_unprotected() {
                return Ok(());
            }
            holds(4, state.is_remembered())?;
            holds(17, !state.is_settled() || state.is_on_boundary())
        })
    }

    fn scope(&self) -> Option<Scope> {
        self.cycle().map(|cycle| cycle.scope)
    }

    /// Whether the collection in progress does not know yet if an old cell in this state
    /// lives.
    fn is_uncertain(&self, state: CellState) -> bool {
        match (self.stage(), self.scope()) {
            (_, Some(Scope::Major)) if state.is_settled() => false,
            (Stage::Clearing, _) => true,
            (_, Some(Scope::Major | Scope::Full)) => !state.is_marked(),
            _ => false,
        }
    }

    /// Invariant 16.
    fn verify_boundary(&self) -> Result<(), Stop> {
        let marker = self.marker();
        // After an overflow the next collection is full and needs no boundary.
        if marker.boundary.has_overflowed() {
            return Ok(());
        }
        let mut boundary = Seen::new();
        for &cell in marker.boundary.cells() {
            boundary.add(cell)?;
        }
        self.for_each_cell_state(|_, cell, state| {
            let may_be_off = !state.is_on_boundary() || self.is_uncertain(state);
            ensure(
                may_be_off || boundary.has(&cell) || self.is_garbage(cell),
                || format!("invariant 16: {cell:?} is {state:?} and not in the set"),
            )
        })
    }

    /// Invariant 3.
    fn verify_remembered(&self) -> Result<(), Stop> {
        if self.stage() == Stage::Clearing {
            return Ok(());
        }
        let mut times: HashMap<Cell, usize> = HashMap::new();
        let marker = self.marker();
        let remembered = &marker.remembered;
        for &cell in remembered.cells().iter().chain(marker.untraced.as_slice()) {
            times.try_reserve(1)?;
            *times.entry(cell).or_default() += 1;
        }
        for (&cell, &count) in &times {
            let state = self.region().state_of(cell);
            ensure(
                count == 1 && state.is_remembered() && state.is_old(),
                || {
                    format!("invariant 3: {cell:?} is {state:?} and {count} times in the remembered set")
                },
            )?;
        }
        if remembered.has_overflowed() {
            // The next collection is full and needs no remembered set.
            return Ok(());
        }
        self.for_each_cell_state(|_, cell, state| {
            ensure(!state.is_remembered() || times.contains_key(&cell), || {
                format!("invariant 3: {cell:?} is not in the remembered set")
            })
        })
    }

    /// Invariant 12.
    fn verify_cleared(&self) -> Result<(), Stop> {
        let cleared_blocks = self.cycle().map_or(0, |cycle| cycle.cleared_blocks);
        self.for_each_cell_state(|block, cell, state| {
            let stays = self.scope() == Some(Scope::Major) && state.is_settled();
            ensure(
                block.get() >= cleared_blocks || !state.is_marked() || stays,
                || format!("invariant 12: {cell:?} is {state:?}"),
            )
        })
    }

    /// Invariants 11, 5 and 17.
    fn verify_black_cells(&self, vm: &impl Inspection) -> Result<(), Stop> {
        if self.marker().has_overflowed() {
            // After an overflow no list has all grey cells.
            return Ok(());
        }
        let mut grey = Seen::new();
        for cell in self.marker().grey_cells() {
            grey.add(cell)?;
        }
        self.verify_generations(vm, &grey)?;
        self.for_each_cell_state(|_, cell, state| {
            if !state.is_marked() || grey.has(&cell) {
                return Ok(());
            }
            self.verify_children(vm, cell, |child| (!child.is_marked()).then_some(11))
        })
    }

    /// Invariants 5 and 17, for marked cells that are not in `grey`.
    fn verify_generations(&self, vm: &impl Inspection, grey: &Seen<Cell>) -> Result<(), Stop> {
        // After an overflow a cell that belongs in a set may be in none
        // (`mark/marker.rs`), and the next collection is full and needs no set.
        if self.marker().remembered.has_overflowed() {
            return Ok(());
        }
        self.for_each_cell_state(|_, cell, state| {
            if !state.is_old() || self.is_garbage(cell) || !state.is_marked() || grey.has(&cell) {
                return Ok(());
            }
            let off_boundary = state.is_settled() && !state.is_on_boundary();
            self.verify_children(vm, cell, |child| {
                if !state.is_remembered() && !child.is_old() {
                    return Some(5);
                }
                (off_boundary && !child.is_settled()).then_some(17)
            })
        })
    }

    /// Asks `broken` which invariant the state of a cell breaks to which `cell`, a live one,
    /// refers.
    fn verify_children(
        &self,
        vm: &impl Inspection,
        cell: Cell,
        broken: impl Fn(CellState) -> Option<u32>,
    ) -> Result<(), Stop> {
        let state_of = |cell| self.region().state_of(cell);
        let mut found = None;
        let mut visit = |child| {
            if let Some(invariant) = broken(state_of(child)) {
                found = Some((invariant, child));
            }
        };
        // SAFETY: the walks of all callers have found the cell live.
        unsafe { vm.visit_cell(cell, &mut visit) };
        let Some((invariant, child)) = found else {
            return Ok(());
        };
        let (state, child_state) = (state_of(cell), state_of(child));
        Err(Stop::Broken(format!(
            "invariant {invariant}: {cell:?} ({state:?}) refers to {child:?} ({child_state:?})"
        )))
    }

    /// Everything reachable is live and not garbage, and common tracing finds nothing else.
    fn verify_reachable(&self, vm: &impl Inspection) -> Result<(), Stop> {
        let mut seen = Seen::new();
        let mut grey = Pending::new();
        vm.visit_roots(&mut |root| match root {
            Root::Exact(cell) => grey.push((cell, None)),
            // The word may also be left over, and refer to a cell that is dead by now.
            Root::Conservative(word) => {
                let cell = self.region().cell_at(word);
                if let Some(cell) = cell.filter(|cell| !self.is_garbage(*cell)) {
                    grey.push((cell, None));
                }
            }
        });
        while let Some((cell, parent)) = grey.pop()? {
            let is_alive =
                self.region().cell_at(cell.address()).is_some() && !self.is_garbage(cell);
            ensure(is_alive, || {
                let state = self.region().state_of(cell);
                format!("{cell:?} ({state:?}) is reachable from {parent:?} and dead")
            })?;
            if seen.add(cell)? {
                let mut shown = Pending::new();
                // SAFETY: the walk has found the cell live.
                unsafe { vm.visit_cell(cell, &mut |child| shown.push(child)) };
                self.verify_tracing(vm, cell, &mut shown)?;
                while let Some(child) = shown.pop()? {
                    grey.push((child, Some(cell)));
                }
            }
        }
        Ok(())
    }

    /// Checks that common tracing marks nothing of `cell`, a live one, but the cell itself and
    /// what the VM has `shown`: anything else may have been freed.
    fn verify_tracing(
        &self,
        vm: &impl Inspection,
        cell: Cell,
        shown: &mut Pending<Cell>,
    ) -> Result<(), Stop> {
        let mut traced = Traced(Pending::new());
        // SAFETY: the caller says that the cell is live.
        unsafe { self.vm().common().trace_cell(cell, &mut traced) };
        let shown = shown.all()?;
        shown.sort_unstable_by_key(|shown| shown.address());
        while let Some(child) = traced.0.pop()? {
            let place = shown.binary_search_by_key(&child.address(), |shown| shown.address());
            let is_live = || self.region().state_of(child).is_live();
            // SAFETY: the cell is live, and so is the child.
            let holds = place.is_ok()
                || child == cell
                || is_live() && unsafe { vm.marks_besides(cell, child) };
            ensure(holds, || {
                format!("{cell:?} is traced to {child:?}, to which it does not refer")
            })?;
        }
        Ok(())
    }

    /// Invariant 18.
    fn verify_parts(&self) -> Result<(), Stop> {
        self.for_each_cell_state(|index, cell, state| {
            let block = self.region().block(index);
            let offset = cell.address() - self.region().address_of(index);
            ensure(
                block.has(NEEDS_SWEEP) || state.is_old() || block.changing_parts().has(offset),
                || format!("invariant 18: {cell:?} is {state:?}"),
            )
        })
    }

    /// The free runs of a block consist of its free cells, in address order, so that each is in
    /// one run. Also invariant 20.
    fn verify_runs(&self) -> Result<(), Stop> {
        let is_free = |cell| self.region().state_of(cell) == CellState::FREE;
        for (index, width) in self.space().cell_blocks() {
            let block = self.region().block(index);
            if block.has(INHERITED) {
                ensure(block.free() == 0 && !block.has(OWNED), || {
                    format!("invariant 20: {index:?} has a run or an owner")
                })?;
                continue;
            }
            if block.has(NEEDS_SWEEP | OWNED) {
                continue;
            }
            let (mut next, mut past, mut in_runs) = (block.free(), 0, 0);
            while next != 0 {
                let run = Run::read(self.region(), next);
                for address in (run.start..run.end).step_by(width.bytes()) {
                    let inside = self.region().block_at(address) == Some(index);
                    let cell = self.region().cell_in_any_state_at(address);
                    ensure(
                        inside && cell.is_some_and(is_free) && address >= past,
                        || format!("run {run:?}: {address:#x} is not free"),
                    )?;
                    past = address + width.bytes();
                    in_runs += 1;
                }
                next = run.next;
            }
            let free = self
                .space()
                .cells_of(index)
                .filter(|&cell| is_free(cell))
                .count();
            ensure(free == in_runs, || {
                format!("{index:?} has {free} free cells, {in_runs} in its runs")
            })?;
        }
        Ok(())
    }

    /// Invariant 10.
    fn verify_lists(&self) -> Result<(), Stop> {
        let mut listed = HashMap::new();
        self.lists().try_for_each(|block, name| {
            listed.try_reserve(1)?;
            let is_new = listed.insert(block, name).is_none();
            ensure(is_new, || {
                format!("invariant 10: {block:?} is listed twice")
            })
        })?;
        let mut found_blocks = 0;
        for (index, _) in self.space().cell_blocks() {
            let block = self.region().block(index);
            let expected = if block.has(OWNED) {
                None
            } else if block.has(NEEDS_SWEEP) {
                Some(UNSWEPT)
            } else {
                (block.free() != 0).then_some(AVAILABLE)
            };
            let found = listed.get(&index).copied();
            ensure(found == expected, || {
                format!("invariant 10: {index:?} should be in {expected:?}, is in {found:?}")
            })?;
            found_blocks += usize::from(found.is_some());
        }
        let listed_blocks = listed.len();
        ensure(found_blocks == listed_blocks, || {
            format!("invariant 10: {listed_blocks} blocks are listed, {found_blocks} of them have cells")
        })
    }

    /// While poisoning is on, nobody has written to a free cell.
    fn verify_poison(&self) -> Result<(), Stop> {
        let mut disturbed = None;
        self.for_each_disturbed_cell(|cell| disturbed = disturbed.or(Some(cell)));
        let disturbed = disturbed.map(|cell| format!("somebody wrote to {cell:?}, which is free"));
        disturbed.map_or(Ok(()), |broken| Err(Stop::Broken(broken)))
    }

    /// Counts free cells that somebody wrote to, while poisoning is on.
    pub fn disturbed_free_cells(&self) -> usize {
        let mut disturbed = 0;
        self.for_each_disturbed_cell(|_| disturbed += 1);
        disturbed
    }

    fn for_each_disturbed_cell(&self, mut visit: impl FnMut(Cell)) {
        if !self.stress().poison {
            return;
        }
        for (block, width) in self.space().cell_blocks() {
            // Nobody has written poison into an inherited block.
            if !self.region().block(block).has(INHERITED) {
                for_each_disturbed(self.space(), block, width, &mut visit);
            }
        }
    }

    /// Passes every cell to `verify`, free ones, too, with its block and state.
    fn for_each_cell_state(
        &self,
        mut verify: impl FnMut(BlockIndex, Cell, CellState) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.space().cell_blocks().try_for_each(|(block, _)| {
            let mut cells = self.space().cells_of(block);
            cells.try_for_each(|cell| verify(block, cell, self.region().state_of(cell)))
        })
    }
}

fn ensure(holds: bool, broken: impl FnOnce() -> String) -> Result<(), Stop> {
    match holds {
        true => Ok(()),
        false => Err(Stop::Broken(broken())),
    }
}
