//! Each system call is refused once, and each with all that follow: what a program does is right
//! all the same, or it learns that memory is out.
//!
//! A refusal holds for the whole process, so the tests here take turns.
#![cfg(not(miri))]

#[allow(missing_docs, unreachable_pub)]
mod model;
#[allow(dead_code, missing_docs, unreachable_pub)]
mod process;
#[allow(unreachable_pub)]
#[path = "../examples/toy_vm.rs"]
mod toy_vm;

use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ashlar_heap::os::Reservation;
use ashlar_heap::refusals::{self, Refusal, SystemCall};
use ashlar_heap::{
    AllocationCache, Cell, Evacuation, Heap, PaceOptions, ParallelMarking, Progress, Request,
    Scope, Shared, WorkBudget,
};
use model::op::Op;
use toy_vm::{load, new_object, payload, set_payload, store, ToyVm};

fn my_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Every sort of call, and all of them together.
fn every_sort() -> impl Iterator<Item = Option<SystemCall>> {
    SystemCall::ALL.map(Some).into_iter().chain([None])
}

/// Calls `run` with a refusal of each call of each of these sorts, in turn, until nothing is
/// refused any more. Of many calls the first ones are refused, then fewer and fewer; with
/// `ASHLAR_TEST_CASES`, which is for longer runs, each of them is.
fn refuse_each(sorts: impl IntoIterator<Item = Option<SystemCall>>, run: impl Fn(Refusal) -> u64) {
    let is_long = std::env::var_os("ASHLAR_TEST_CASES").is_some();
    let sorts = sorts.into_iter();
    for (call, all_after) in sorts.flat_map(|call| [(call, false), (call, true)]) {
        let mut first = 1;
        let refusal = |first| Refusal {
            call,
            first,
            all_after,
        };
        while run(refusal(first)) > 0 {
            first += if is_long { 1 } else { 1 + first / 2 };
        }
    }
}

/// A program of `operations` operations, always the same for a seed.
fn program(seed: u64, operations: usize) -> Vec<Op> {
    let mut state = seed;
    let mut next = || {
        // The multiplier and the increment are those of Knuth's MMIX.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut op = || Op::decode(next() as u8, next() as u8, next() as u16, next() as u16);
    (0..operations).map(|_| op()).collect()
}

#[test]
fn whichever_call_is_refused_a_heap_and_a_map_agree() {
    let _turn = my_turn();
    for (seed, threads) in [(0, 1), (1, 3)] {
        let ops = program(seed, 100);
        let parallel = ParallelMarking {
            threads,
            cells_min: 0,
        };
        refuse_each(every_sort(), |refusal| {
            model::run_refused(refusal, 64 << 20, parallel, &ops)
        });
    }
}

// ── A heap whose stacks grow ─────────────────────────────────────────────────

/// References of a branch: each refers to as many leaves.
const LEAVES: usize = 3;
/// More than the first step of a stack of cells has room for.
const BRANCHES: usize = 40_000;

/// A list of branches, and the program's account of them.
struct Grown<'heap> {
    heap: &'heap Heap<'heap, ToyVm<'heap>>,
    cache: NonNull<AllocationCache<'heap>>,
    /// How many branches there are, all of them roots; each has all of its leaves.
    branches: usize,
}

impl Grown<'_> {
    /// Makes roots of branches until all are there or memory is out.
    fn grow(&mut self) {
        // SAFETY: the cache is this heap's, and no other thread uses it.
        let new = |references| unsafe { new_object(self.heap, self.cache, references, true) };
        while self.branches < BRANCHES {
            let Some(branch) = new(LEAVES) else {
                return;
            };
            let root = self.heap.vm().roots.borrow().len();
            self.heap.vm().roots.borrow_mut().push(branch.address());
            for index in 0..LEAVES {
                let Some(leaf) = new(0) else {
                    self.heap.vm().roots.borrow_mut().truncate(root);
                    return;
                };
                let branch = self.root(root);
                // SAFETY: both are live.
                unsafe { store(self.heap, branch, index, Some(leaf), true) };
            }
            self.branches += 1;
        }
    }

    fn root(&self, index: usize) -> Cell {
        // SAFETY: roots are cells of this heap.
        unsafe { Cell::from_address(self.heap.vm().roots.borrow()[index]) }
    }

    /// Gives the first branch larger and larger payloads, as far as there is memory, and then
    /// a small one. What fits is kept.
    fn grow_payload(&self) {
        let mut written = 0;
        for bytes in [10 << 10, 200 << 10, 6 << 20, 40 << 20, 12 << 20, 100] {
            // SAFETY: the branch is live, and its payload has as many bytes as were asked for.
            unsafe {
                if !set_payload(self.heap, self.root(0), bytes) {
                    continue;
                }
                let start = payload(self.root(0)) as *mut u8;
                for at in (0..written.min(bytes)).step_by(1 << 10) {
                    assert_eq!(
                        start.add(at).read(),
                        (at >> 10) as u8,
                        "byte {at} of {bytes}"
                    );
                }
                for at in (0..bytes).step_by(1 << 10) {
                    start.add(at).write((at >> 10) as u8);
                }
            }
            written = bytes;
        }
    }

    /// Asserts that memory that is handed out as zeros is zeros, whoever had it before.
    fn use_zeros(&self) {
        const BYTES: usize = 5 << 20;
        let mut cache = self.heap.vm().payload_cache.borrow_mut();
        for _ in 0..2 {
            let Ok(zeros) = cache.allocate_zeroed(BYTES) else {
                return;
            };
            // SAFETY: `BYTES` bytes are the program's, until it frees them.
            unsafe {
                let bytes = std::slice::from_raw_parts_mut(zeros.as_ptr(), BYTES);
                assert!(bytes.iter().all(|&byte| byte == 0), "no zeros");
                bytes.fill(7);
                cache.free(zeros);
            }
        }
    }

    /// Makes small nurseries of garbage: blocks that none of them needs go back.
    fn run_on(&self) {
        for _ in 0..10 {
            for _ in 0..1_000 {
                // SAFETY: the cache is this heap's, and no other thread uses it.
                if unsafe { new_object(self.heap, self.cache, 0, true) }.is_none() {
                    break;
                }
            }
            self.heap.collect(Request {
                scope: Some(Scope::Minor),
                ..Request::EVERYTHING
            });
        }
    }

    /// Asserts that every branch has its leaves, and that the heap is whole.
    fn check(&self) {
        self.heap.verify().expect("every invariant holds");
        assert_eq!(self.heap.vm().roots.borrow().len(), self.branches);
        for index in 0..self.branches {
            let branch = self.root(index);
            assert!(!self.heap.is_garbage(branch));
            for leaf in 0..LEAVES {
                // SAFETY: the branch is live and has `LEAVES` references.
                let leaf = unsafe { load(branch, leaf) }.expect("a leaf");
                assert!(!self.heap.is_garbage(leaf), "a leaf of branch {index}");
            }
        }
    }

    fn collect(&self, scope: Scope, compact: Option<Evacuation>) {
        self.heap.collect(Request {
            scope: Some(scope),
            sweep_now: true,
            compact,
            settle_all: false,
        });
        self.check();
    }

    fn collect_in_slices(&self, scope: Scope) {
        for _ in 0..1_000 {
            let mut work = WorkBudget::cells(5_000);
            if let Progress::Marked(_) = self.heap.advance(Some(scope), &mut work) {
                return self.check();
            }
        }
        panic!("slices without end");
    }
}

/// Grows, collects in every way, shrinks; returns how many calls were refused.
fn grow_and_shrink(refusal: Refusal, threads: usize) -> u64 {
    refusals::refuse(Some(refusal));
    let Ok(shared) = Shared::reserve(1 << 30) else {
        return model::refused_heap();
    };
    let Ok(heap) = Heap::new(ToyVm::new(&shared), &shared, PaceOptions::default()) else {
        return model::refused_heap();
    };
    heap.set_parallel_marking(ParallelMarking {
        threads,
        cells_min: 0,
    });
    let cache = heap.new_cache();
    let mut grown = Grown {
        heap: &heap,
        cache,
        branches: 0,
    };
    grown.grow();
    if grown.branches > 0 {
        grown.grow_payload();
    }
    grown.use_zeros();
    grown.collect(Scope::Full, None);
    grown.collect_in_slices(Scope::Full);
    grown.grow();
    grown.collect(Scope::Minor, None);
    grown.branches /= 3;
    heap.vm().roots.borrow_mut().truncate(grown.branches);
    grown.collect(Scope::Full, Some(Evacuation::Everything));
    grown.run_on();
    grown.use_zeros();
    grown.collect_in_slices(Scope::Minor);
    grown.collect(Scope::Major, None);
    heap.release_empty_blocks();
    grown.check();
    let refused_calls = refusals::refused_calls();

    // From now on there is memory again.
    refusals::refuse(None);
    grown.grow();
    assert_eq!(grown.branches, BRANCHES);
    grown.grow_payload();
    grown.collect(Scope::Full, Some(Evacuation::Sparse));
    assert_eq!(heap.usage().live_cells, BRANCHES * (1 + LEAVES));
    heap.vm().roots.borrow_mut().clear();
    grown.branches = 0;
    grown.collect(Scope::Full, None);
    assert_eq!(heap.usage().live_cells, 0);
    // SAFETY: nobody uses the cache any more.
    unsafe { heap.drop_cache(cache) };
    refused_calls
}

#[test]
fn whichever_call_is_refused_a_heap_that_grows_and_shrinks_loses_nothing() {
    let _turn = my_turn();
    refuse_each(every_sort(), |refusal| grow_and_shrink(refusal, 1));
}

#[test]
fn nor_does_one_that_several_threads_mark() {
    let _turn = my_turn();
    let sorts = [Some(SystemCall::Thread), Some(SystemCall::Mprotect)];
    refuse_each(sorts, |refusal| grow_and_shrink(refusal, 3));
}

// ── What is not taken back ───────────────────────────────────────────────────

#[test]
fn address_space_that_the_system_does_not_take_back_holds_no_memory() {
    let _turn = my_turn();
    const BYTES: usize = 8 << 20;
    let reservation = Reservation::new(BYTES, 1 << 16).unwrap();
    reservation.commit(0, BYTES).unwrap();
    let start = reservation.start();
    // SAFETY: committed, and used by this test alone.
    unsafe { start.write_bytes(7, BYTES) };
    let resident_pages = || process::resident_pages(start as usize, BYTES);
    assert!(resident_pages() > 0);
    refusals::refuse("munmap:1".parse().ok());
    drop(reservation);
    let refused_calls = refusals::refused_calls();
    refusals::refuse(None);
    assert_eq!(refused_calls, 1);
    assert_eq!(resident_pages(), 0);
    // SAFETY: the range is nobody's.
    unsafe { libc::munmap(start.cast(), BYTES) };
}
