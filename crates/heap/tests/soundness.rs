//! What safe code may do with a heap, whatever it does: the functions here are called with wrong
//! arguments, or at a wrong time, and panic or answer. Under Miri (`make miri-heap`) nothing in
//! here is undefined behaviour.

use std::cell::{Cell as StdCell, RefCell};
use std::panic::{catch_unwind, AssertUnwindSafe};

use ashlar_heap::*;

/// A VM without references, whose roots are a list, and which runs what a test puts into it.
#[derive(Default)]
struct Flat {
    roots: RefCell<Vec<Cell>>,
    /// What to do when a cell is traced, or released.
    when_traced: RefCell<Option<Box<dyn Fn()>>>,
    when_released: RefCell<Option<Box<dyn Fn()>>>,
    released: StdCell<usize>,
}

fn call(what: &RefCell<Option<Box<dyn Fn()>>>) {
    if let Some(what) = &*what.borrow() {
        what();
    }
}

// SAFETY: what the tests put among the roots are cells of the same heap.
unsafe impl Vm for Flat {
    fn trace_roots(&self, tracer: &mut Tracer<'_>) {
        self.roots
            .borrow()
            .iter()
            .for_each(|&root| tracer.mark(root));
    }

    unsafe fn trace_cell(&self, _cell: Cell, _tracer: &mut Tracer<'_>) {
        call(&self.when_traced);
    }

    unsafe fn release(&self, _cell: Cell, _width: WidthIndex) {
        self.released.set(self.released.get() + 1);
        call(&self.when_released);
    }
}

const SIZE_BYTES: usize = 16 << 20;

fn heap(shared: &'static Shared) -> Heap<'static, Flat> {
    Heap::new(Flat::default(), shared, PaceOptions::default()).unwrap()
}

fn shared(bytes: usize) -> &'static Shared {
    Box::leak(Box::new(Shared::reserve(bytes).unwrap()))
}

fn cell_of(heap: &Heap<'static, Flat>) -> Cell {
    let mut cache = heap.new_cache();
    // SAFETY: nobody else has the cache, and the reference is used for this call alone.
    let cache = unsafe { cache.as_mut() };
    match heap.allocate(cache, 64, CellState::NEW, Urgency::MustAllocate) {
        Allocation::Allocated(cell) => cell,
        other => panic!("{other:?}"),
    }
}

/// A new reference is made for each call, as the heap makes its own in a collection.
#[test]
fn a_cache_is_used_again_after_a_collection() {
    let heap = heap(shared(SIZE_BYTES));
    let mut cache = heap.new_cache();
    for _ in 0..3 {
        // SAFETY: nobody else has the cache, and the reference is used for this call alone.
        let cache = unsafe { cache.as_mut() };
        let allocated = heap.allocate(cache, 64, CellState::NEW, Urgency::MustAllocate);
        assert!(matches!(allocated, Allocation::Allocated(_)));
        heap.collect(Request::default());
    }
    // SAFETY: nobody uses the cache any more.
    unsafe { heap.drop_cache(cache) };
    heap.finish_sweep();
    assert_eq!((heap.usage().live_cells, heap.vm().released.get()), (0, 3));
}

fn panics<R>(work: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(work)).is_err()
}

#[test]
fn a_cell_of_another_heap_is_no_cell_of_this_one() {
    let (mine, other) = (heap(shared(SIZE_BYTES)), heap(shared(SIZE_BYTES)));
    let cell = cell_of(&other);
    assert!(panics(|| mine.region().state(cell)));
    assert!(panics(|| mine.region().width_of(cell)));
    assert!(panics(|| mine.is_garbage(cell)));
    assert!(!other.is_garbage(cell));
    assert_eq!(other.region().width_of(cell).bytes(), 64);
}

#[test]
fn a_block_of_a_larger_region_is_refused_by_a_smaller_one() {
    let (mine, other) = (heap(shared(SIZE_BYTES)), shared(4 * SIZE_BYTES));
    let mut cache = other.thread_cache();
    let payload = cache.allocate(3 * SIZE_BYTES).unwrap().as_ptr() as usize;
    let last = other
        .space()
        .region()
        .block_at(payload + 3 * SIZE_BYTES - 1)
        .unwrap();
    assert!(panics(|| mine.region().kind(last)));
    assert!(panics(|| mine.space().cells_of(last).count()));
    let width = WidthIndex::NARROWEST;
    assert!(panics(|| mine.space().for_each_range_of(
        last,
        width,
        &mut |_| ()
    )));
}

#[test]
fn no_cell_is_allocated_in_a_state_that_is_not_a_new_ones() {
    let heap = heap(shared(SIZE_BYTES));
    let mut cache = heap.new_cache();
    assert!(panics(|| {
        // SAFETY: nobody else has the cache.
        heap.allocate(
            unsafe { cache.as_mut() },
            64,
            CellState::FREE,
            Urgency::MustAllocate,
        )
    }));
}

#[test]
fn caches_of_two_heaps_that_have_changed_places_are_refused() {
    let (mine, other) = (heap(shared(SIZE_BYTES)), heap(shared(4 * SIZE_BYTES)));
    let (mut own, mut others) = (mine.new_cache(), other.new_cache());
    // SAFETY: nobody else has the caches.
    let (own, others) = unsafe { (own.as_mut(), others.as_mut()) };
    other.allocate(others, 64, CellState::NEW, Urgency::MustAllocate);
    std::mem::swap(own, others);
    assert!(panics(|| mine.collect(Request::default())));
}

#[test]
fn a_heap_whose_vm_has_panicked_while_it_traced_collects_no_more() {
    let heap = heap(shared(SIZE_BYTES));
    let root = cell_of(&heap);
    heap.vm().roots.borrow_mut().push(root);
    *heap.vm().when_traced.borrow_mut() = Some(Box::new(|| panic!("what the VM does")));
    assert!(panics(|| heap.collect(Request::default())));
    *heap.vm().when_traced.borrow_mut() = None;
    assert!(panics(|| heap.collect(Request::default())));
    assert_eq!(heap.vm().released.get(), 0);
}

#[test]
fn a_heap_whose_vm_has_panicked_while_it_released_a_cell_sweeps_no_more() {
    let heap = heap(shared(SIZE_BYTES));
    (0..3).for_each(|_| _ = cell_of(&heap));
    *heap.vm().when_released.borrow_mut() = Some(Box::new(|| panic!("what the VM does")));
    assert!(panics(|| heap.collect(Request::EVERYTHING)));
    *heap.vm().when_released.borrow_mut() = None;
    assert!(panics(|| heap.collect(Request::EVERYTHING)));
    assert_eq!(heap.vm().released.get(), 1);
}

/// Otherwise the block in progress would be swept twice, and its cells handed out twice.
#[test]
fn no_collection_begins_while_a_cell_is_released() {
    let heap: &'static _ = Box::leak(Box::new(heap(shared(SIZE_BYTES))));
    (0..3).for_each(|_| _ = cell_of(heap));
    *heap.vm().when_released.borrow_mut() = Some(Box::new(|| _ = heap.collect(Request::default())));
    assert!(panics(|| heap.collect(Request::EVERYTHING)));
    assert_eq!(heap.vm().released.get(), 1);
}

#[test]
fn nothing_is_asked_of_the_heap_while_a_cache_is_shown() {
    let heap = heap(shared(SIZE_BYTES));
    cell_of(&heap);
    let mut collected = false;
    assert!(panics(|| heap.each_retired_cache(|cache| {
        heap.collect(Request::default());
        collected = true;
        cache.sample_after(WidthIndex::NARROWEST, None);
    })));
    assert!(!collected);
}

#[test]
fn a_reservation_commits_nothing_outside_itself() {
    let reservation = os::Reservation::new(1 << 20, 1 << 16).unwrap();
    assert!(panics(
        || reservation.commit(usize::MAX - (1 << 16) + 1, 1 << 16)
    ));
    assert!(panics(|| reservation.commit(1 << 20, 1)));
    assert!(os::Reservation::new(0, 1 << 16).is_ok());
}
