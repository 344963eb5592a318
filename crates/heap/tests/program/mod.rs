//! A program on a toy heap of its own, as tests write it: it allocates, stores and keeps roots.

use std::ptr::NonNull;

use ashlar_heap::{
    Allocation, AllocationCache, Cell, CellState, Heap, PaceOptions, Request, Scope, Shared,
    Stress, Urgency,
};

use crate::toy_vm::{self, Shape, ToyVm};

pub const MIB: usize = 1 << 20;

pub struct Program<'heap> {
    pub heap: &'heap Heap<'heap, ToyVm<'heap>>,
    pub cache: NonNull<AllocationCache<'heap>>,
    /// All objects, in the order in which they were made.
    pub made: Vec<Cell>,
}

pub fn with_program(region_bytes: usize, run: impl FnOnce(&mut Program<'_>)) {
    let shared = Shared::reserve(region_bytes).unwrap();
    let heap = Heap::new(ToyVm::new(&shared), &shared, PaceOptions::default()).unwrap();
    let cache = heap.new_cache();
    run(&mut Program {
        heap: &heap,
        cache,
        made: Vec::new(),
    });
    // SAFETY: nobody uses the cache any more.
    unsafe { heap.drop_cache(cache) };
}

impl Program<'_> {
    pub fn try_tagged(&mut self, tag: usize, shape: Shape, urgency: Urgency) -> Allocation {
        // SAFETY: this program alone uses the cache.
        let cache = unsafe { self.cache.as_mut() };
        let outcome = toy_vm::try_new_object(self.heap, cache, tag, shape, urgency);
        if let Allocation::Allocated(cell) = outcome {
            self.made.push(cell);
        }
        outcome
    }

    pub fn tagged(&mut self, tag: usize, shape: Shape) -> Cell {
        match self.try_tagged(tag, shape, Urgency::MustAllocate) {
            Allocation::Allocated(cell) => cell,
            other => panic!("{other:?}"),
        }
    }

    pub fn root(&self, cell: Cell) {
        self.heap.vm().roots.borrow_mut().push(cell.address());
    }

    pub fn unroot(&self, cell: Cell) {
        let mut roots = self.heap.vm().roots.borrow_mut();
        roots.retain(|&root| root != cell.address());
    }

    pub fn drop_roots(&self) {
        self.heap.vm().roots.borrow_mut().clear();
    }

    /// Puts cells on the machine stack, which a collection finds without being able to rewrite it.
    pub fn push_on_stack(&self, cells: &[Cell]) {
        let mut words = self.heap.vm().ambiguous_roots.borrow_mut();
        words.extend(cells.iter().map(|cell| cell.address()));
    }

    pub fn empty_stack(&self) {
        self.heap.vm().ambiguous_roots.borrow_mut().clear();
    }

    pub fn store(&self, parent: Cell, index: usize, child: Cell) {
        self.store_without_barrier(parent, index, child);
        self.barrier(parent, child);
    }

    pub fn store_without_barrier(&self, parent: Cell, index: usize, child: Cell) {
        // SAFETY: the tests store into live objects only.
        unsafe { toy_vm::store(self.heap, parent, index, Some(child), false) };
    }

    /// Stores that there is no reference.
    pub fn clear(&self, parent: Cell, index: usize) {
        // SAFETY: the tests store into live objects only.
        unsafe { toy_vm::store(self.heap, parent, index, None, false) };
    }

    pub fn load(&self, cell: Cell, index: usize) -> Option<Cell> {
        // SAFETY: the tests read live objects only.
        unsafe { toy_vm::load(cell, index) }
    }

    pub fn barrier(&self, parent: Cell, child: Cell) {
        // SAFETY: live objects of this heap.
        unsafe { self.heap.write_barrier(parent, child) };
    }

    pub fn barrier_all(&self, parent: Cell) {
        // SAFETY: a live object of this heap.
        unsafe { self.heap.write_barrier_all(parent) };
    }

    pub fn unprotect(&self, cell: Cell) {
        // SAFETY: a live object of this heap.
        unsafe { self.heap.unprotect(cell) };
    }

    pub fn state(&self, cell: Cell) -> CellState {
        self.heap.region().state(cell)
    }

    pub fn lives(&self, cell: Cell) -> bool {
        self.heap.region().cell_at(cell.address()).is_some()
    }

    /// Gives the mark stack, and each set of cells, room for so many cells only.
    pub fn limit_marking(&self, cells: usize) {
        self.stress(|stress| stress.mark_stack_cells_max = cells);
    }

    /// Turns stress on as `choose` says, and all other stress off.
    pub fn stress(&self, choose: impl FnOnce(&mut Stress)) {
        let mut stress = Stress::default();
        choose(&mut stress);
        self.heap.set_stress(stress);
    }

    /// Collects, and leaves the sweeping for later. Returns the scope that the collection had.
    pub fn mark(&self, scope: Scope) -> Scope {
        self.heap.collect(Request {
            scope: Some(scope),
            ..Request::default()
        })
    }

    /// Ends the marking that is going on, and sweeps all.
    pub fn finish(&self) -> Option<Scope> {
        let scope = self.heap.finish_marking();
        self.heap.finish_sweep();
        self.heap.verify().unwrap();
        scope
    }
}
