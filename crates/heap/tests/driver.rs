//! What the driver reports to a VM while it collects, and when it collects.

#[allow(dead_code, unreachable_pub)]
#[path = "../examples/toy_vm.rs"]
mod toy_vm;

use std::cell::{Cell as StdCell, RefCell};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::time::Duration;

use ashlar_heap::driver::{Cause, Driver, Wanted, World};
use ashlar_heap::{
    os, Allocation, AllocationCache, Cell, CellState, Evacuation, Heap, PaceOptions, Request,
    Scope, Shared, Stress, Urgency, BLOCK_BYTES,
};
use toy_vm::{Shape, ToyVm};

const MIB: usize = 1 << 20;

/// A world that notes what the driver reports to it.
struct Noted<'heap> {
    heap: &'heap Heap<'heap, ToyVm<'heap>>,
    reported: RefCell<Vec<&'static str>>,
    has_other_threads: StdCell<bool>,
    /// How often the world was told that something may sweep.
    sweepings: StdCell<usize>,
}

impl Noted<'_> {
    fn note(&self, what: &'static str) {
        self.reported.borrow_mut().push(what);
    }
}

impl World for Noted<'_> {
    fn stopped(&self, work: impl FnOnce()) {
        self.note("stopped");
        self.heap.pauses().during(work);
        self.note("goes on");
    }

    fn has_other_threads(&self) -> bool {
        self.has_other_threads.get()
    }

    fn begins(&self, _asked: Option<Scope>) {
        self.note("begins");
    }

    fn marking<R>(&self, work: impl FnOnce() -> R) -> R {
        self.note("marking");
        work()
    }

    fn marked(&self, _scope: Scope, _sweep_now: bool) {
        self.note("marked");
    }

    fn sweeping<R>(&self, work: impl FnOnce() -> R) -> R {
        self.sweepings.set(self.sweepings.get() + 1);
        let sweeps = self.heap.is_sweeping();
        let result = work();
        if sweeps && !self.heap.is_sweeping() {
            self.swept();
        }
        result
    }

    fn swept(&self) {
        self.note("swept");
    }
}

struct Program<'heap> {
    driver: Driver<'heap, 'heap, ToyVm<'heap>, Noted<'heap>>,
    cache: NonNull<AllocationCache<'heap>>,
}

fn with_program(region_bytes: usize, pace: PaceOptions, run: impl FnOnce(&Program<'_>)) {
    let shared = Shared::reserve(region_bytes).unwrap();
    let heap = Heap::new(ToyVm::new(&shared), &shared, pace).unwrap();
    let world = Noted {
        heap: &heap,
        reported: RefCell::default(),
        has_other_threads: StdCell::default(),
        sweepings: StdCell::default(),
    };
    let (cache, heap) = (heap.new_cache(), &heap);
    let driver = Driver { heap, world };
    run(&Program { driver, cache });
    // SAFETY: nobody uses the cache any more.
    unsafe { heap.drop_cache(cache) };
}

fn with_usual_program(run: impl FnOnce(&Program<'_>)) {
    with_program(16 * MIB, PaceOptions::default(), run);
}

impl Program<'_> {
    fn object(&self) -> Cell {
        let shape = Shape::plain(1);
        // SAFETY: this program alone uses the cache.
        let cache = unsafe { &mut *self.cache.as_ptr() };
        match toy_vm::try_new_object(self.driver.heap, cache, 1, shape, Urgency::MustAllocate) {
            Allocation::Allocated(cell) => cell,
            outcome => panic!("{outcome:?}"),
        }
    }

    /// Makes an object whose payload has been written to, so that it is resident.
    fn object_with_payload(&self, bytes: usize) -> Cell {
        let cell = self.object();
        // SAFETY: the object is live, and the payload has `bytes` bytes.
        unsafe {
            assert!(toy_vm::set_payload(self.driver.heap, cell, bytes));
            let payload: *mut u8 = std::ptr::with_exposed_provenance_mut(toy_vm::payload(cell));
            payload.write_bytes(7, bytes);
        }
        cell
    }

    fn objects(&self, count: usize) {
        (0..count).for_each(|_| _ = self.object());
    }

    fn keep(&self, cell: Cell) {
        self.driver
            .heap
            .vm()
            .roots
            .borrow_mut()
            .push(cell.address());
    }

    /// An object without references in a cell of at least `bytes` from the driver; `None` when memory is out.
    fn allocated(&self, bytes: usize) -> Option<Cell> {
        // SAFETY: this program alone uses the cache, and has no reference to it.
        let outcome = unsafe {
            let (cache, state) = (self.cache.as_ptr(), CellState::NEW);
            let urgency = Urgency::MustAllocate;
            (self.driver).allocate(cache, bytes, state, urgency, Wanted::default)
        };
        let Allocation::Allocated(cell) = outcome else {
            assert_eq!(outcome, Allocation::OutOfMemory);
            return None;
        };
        // SAFETY: the cell is new and has room for an object without references.
        unsafe {
            std::ptr::with_exposed_provenance_mut::<[usize; 3]>(cell.address()).write([1, 0, 0])
        };
        Some(cell)
    }

    /// Allocates cells of 1 KiB until memory is out, and makes roots of them if `kept`. Returns
    /// how many there were.
    fn fill(&self, kept: bool) -> usize {
        (0..)
            .take_while(|&count| {
                assert!(count < 100_000, "memory is never out");
                let Some(cell) = self.allocated(1024) else {
                    return false;
                };
                if kept {
                    self.keep(cell);
                }
                true
            })
            .count()
    }

    /// What was reported to the world since the latest call.
    fn reported(&self) -> String {
        self.driver.world.reported.take().join(", ")
    }

    #[track_caller]
    fn assert_reported(&self, expected: &str) {
        assert_eq!(self.reported(), expected);
    }
}

#[test]
fn a_collection_at_once_reports_how_far_it_is() {
    with_usual_program(|p| {
        p.objects(1000);
        p.driver.collect(Request::EVERYTHING);
        p.assert_reported("stopped, begins, marking, marked, swept, goes on");
        p.objects(1000);
        p.driver.collect(Request::default());
        p.assert_reported("stopped, begins, marking, marked, goes on");
        // What the previous collection left is swept first, and a compaction sweeps itself.
        p.driver.collect(Request {
            compact: Some(Evacuation::Sparse),
            ..Request::EVERYTHING
        });
        p.assert_reported("stopped, swept, begins, marking, marked, swept, goes on");
        assert_eq!(p.driver.heap.pauses().summary().count, 3);
    });
}

#[test]
fn a_collection_in_slices_is_reported_piece_by_piece_and_ended_before_another() {
    with_usual_program(|p| {
        p.driver.heap.set_stress(Stress {
            slice_cells: 50,
            ..Stress::default()
        });
        for _ in 0..200 {
            p.keep(p.object());
        }
        p.driver.collect_due(Wanted::default());
        p.assert_reported("stopped, begins, marking, goes on");
        p.driver.collect_due(Wanted::default());
        p.assert_reported("stopped, marking, goes on");
        p.driver.collect(Request::default());
        p.assert_reported("stopped, marking, marked, swept, begins, marking, marked, goes on");
        p.driver.finish();
        p.assert_reported("stopped, swept, goes on");
    });
}

#[test]
fn where_payloads_fill_the_heap_slices_sweep_without_waiting_for_new_cells() {
    let due_after = |cause| {
        let mut due_bytes = 0;
        with_usual_program(|p| {
            p.driver
                .heap
                .pauses()
                .set_slice_time(Some(Duration::from_secs(60)));
            p.objects(50_000);
            assert!(p.driver.heap.collection_is_due());
            p.driver.collect_due(Wanted {
                cause,
                ..Wanted::default()
            });
            p.assert_reported("stopped, begins, marking, marked, goes on");
            due_bytes = p.driver.heap.bytes_until_due();
        });
        due_bytes
    };
    assert!(2 * due_after(Cause::Payloads) < due_after(Cause::Cells));
}

#[test]
fn a_stop_that_stops_other_threads_sweeps_as_much_as_it_has_time_for() {
    for (has_other_threads, after_marking) in [(false, ""), (true, "swept, ")] {
        with_usual_program(|p| {
            p.driver.world.has_other_threads.set(has_other_threads);
            let pauses = p.driver.heap.pauses();
            pauses.set_slice_time(Some(Duration::from_secs(60)));
            p.objects(50_000);
            p.driver.collect_due(Wanted::default());
            let reported = format!("stopped, begins, marking, marked, {after_marking}goes on");
            p.assert_reported(&reported);
            pauses.set_slice_time(None);
            p.objects(50_000);
            p.driver.collect(Request::default());
            p.reported();
            assert!(p.driver.heap.is_sweeping());
            assert!(p.allocated(32).is_some());
            assert_eq!(p.driver.heap.is_sweeping(), !has_other_threads);
        });
    }
}

#[test]
fn memory_is_out_when_all_that_is_dead_has_been_freed() {
    with_program(2 * MIB, PaceOptions::default(), |p| {
        assert!(!p.driver.last_resort(), "there is no cell yet");
        let kept = p.fill(true);
        p.assert_reported("stopped, begins, marking, marked, swept, goes on");
        assert!(kept > 1000, "{kept}");
        p.driver.heap.vm().roots.borrow_mut().clear();
        let again = p.fill(true);
        assert!(again.abs_diff(kept) < kept / 10, "{again} after {kept}");
        // SAFETY: this program alone uses the cache, and has no reference to it.
        let too_large = unsafe {
            let (cache, urgency) = (p.cache.as_ptr(), Urgency::MayCollect);
            (p.driver).allocate(cache, 1025, CellState::NEW, urgency, Wanted::default)
        };
        assert_eq!(too_large, Allocation::TooLarge);
    });
}

#[test]
fn an_allocation_that_sweeps_tells_the_world_also_when_payloads_have_just_made_it_due() {
    let pace = PaceOptions {
        nursery_min_bytes: 32 * MIB,
        nursery_max_bytes: 32 * MIB,
        ..PaceOptions::default()
    };
    with_program(64 * MIB, pace, |p| {
        let heap = p.driver.heap;
        // So dense that some swept blocks wait to be allocated from.
        for number in 0..400_000 {
            let cell = p.object();
            if number % 20 != 0 {
                p.keep(cell);
            }
        }
        p.driver.collect(Request::default());
        p.reported();
        let mut payloads = heap.shared().thread_cache();
        let mut taken = Vec::new();
        for number in 0.. {
            if !heap.is_sweeping() {
                break;
            }
            if number % 50 == 49 {
                taken.push(payloads.allocate(BLOCK_BYTES).unwrap());
            }
            let before = (heap.unswept_blocks(), p.driver.world.sweepings.get());
            p.allocated(32).unwrap();
            if heap.unswept_blocks() != before.0 {
                assert!(p.driver.world.sweepings.get() > before.1, "{number}");
            }
        }
        assert_eq!(p.reported().matches("swept").count(), 1);
        for payload in taken {
            // SAFETY: the payloads are this test's.
            unsafe { payloads.free(payload) };
        }
        payloads.flush();
    });
}

/// Held by the tests that keep below a memory limit: each counts what the process has resident.
static RESIDENT_BYTES: Mutex<()> = Mutex::new(());

#[test]
#[cfg_attr(miri, ignore = "no memory limit in the interpreter")]
fn large_payloads_that_are_dead_make_room_below_the_memory_limit() {
    const PAYLOAD_BYTES: usize = 16 * MIB;
    // Memory that the other tests of this process take.
    const ELSEWHERE_BYTES: usize = 64 * MIB;
    let _alone = RESIDENT_BYTES.lock();
    let resident_bytes = || os::resident_bytes().unwrap();
    let limit_bytes = resident_bytes() + ELSEWHERE_BYTES + 4 * PAYLOAD_BYTES;
    let pace = PaceOptions {
        memory_limit_bytes: Some(limit_bytes),
        ..PaceOptions::default()
    };
    with_program(1 << 30, pace, |p| {
        let heap = p.driver.heap;
        for _ in 0..40 {
            if !heap.has_room_for(PAYLOAD_BYTES) {
                p.driver.make_room(PAYLOAD_BYTES, None);
            }
            p.object_with_payload(PAYLOAD_BYTES);
            let resident_bytes = resident_bytes();
            assert!(
                resident_bytes <= limit_bytes,
                "{resident_bytes} of {limit_bytes}"
            );
        }
        let collections = heap.stats().full_collections;
        assert!((3..=10).contains(&collections), "{collections}");
        // Another collection at once would gain nothing.
        p.driver.collect(Request::EVERYTHING);
        p.driver.make_room(usize::MAX, None);
        assert_eq!(heap.stats().full_collections, collections + 1);
    });
}

#[test]
#[cfg_attr(miri, ignore = "no memory limit in the interpreter")]
fn room_for_what_a_program_has_been_handed_is_made_once_for_each_part_of_live_data() {
    const LIVE_BYTES: usize = 64 * MIB;
    let _alone = RESIDENT_BYTES.lock();
    let pace = PaceOptions {
        memory_limit_bytes: Some(os::resident_bytes().unwrap() + 2 * LIVE_BYTES),
        ..PaceOptions::default()
    };
    with_program(1 << 30, pace, |p| {
        let heap = p.driver.heap;
        let full_collections = || {
            p.driver.make_room_for_handed(usize::MAX, None);
            heap.stats().full_collections
        };
        let cell = p.object_with_payload(LIVE_BYTES);
        p.keep(cell);
        // The second one notes what the first has left.
        (0..2).for_each(|_| p.driver.collect(Request::EVERYTHING));
        let before = full_collections();
        p.object_with_payload(LIVE_BYTES / 32);
        assert_eq!(full_collections(), before);
        p.object_with_payload(LIVE_BYTES / 16);
        assert_eq!(full_collections(), before + 1);
        assert_eq!(full_collections(), before + 1);
    });
}

#[test]
#[cfg_attr(miri, ignore = "no memory limit in the interpreter")]
fn an_old_payload_that_dies_makes_room_though_nothing_is_fresh() {
    const PAYLOAD_BYTES: usize = 128 * MIB;
    let minor = Request {
        scope: Some(Scope::Minor),
        ..Request::EVERYTHING
    };
    let _alone = RESIDENT_BYTES.lock();
    let limit_bytes = os::resident_bytes().unwrap() + PAYLOAD_BYTES + PAYLOAD_BYTES / 2;
    let pace = PaceOptions {
        memory_limit_bytes: Some(limit_bytes),
        ..PaceOptions::default()
    };
    with_program(1 << 30, pace, |p| {
        let heap = p.driver.heap;
        let cell = p.object_with_payload(PAYLOAD_BYTES);
        p.keep(cell);
        // The payload grows old.
        (0..4).for_each(|_| p.driver.collect(minor));
        heap.vm().roots.borrow_mut().clear();
        p.driver.collect(minor);
        assert!(!heap.has_room_for(PAYLOAD_BYTES) && heap.fresh_bytes() == 0);
        p.driver.make_room(PAYLOAD_BYTES, None);
        assert!(heap.has_room_for(PAYLOAD_BYTES));
    });
}

#[test]
#[cfg_attr(miri, ignore = "no memory limit in the interpreter")]
fn empty_blocks_go_back_at_once_for_a_payload_that_has_no_room_beside_them() {
    const PAYLOAD_BYTES: usize = 32 << 10;
    const GARBAGE_BYTES: usize = 160 * MIB;
    const WANTED_BYTES: usize = 128 * MIB;
    let _alone = RESIDENT_BYTES.lock();
    let pace = PaceOptions {
        // So far away that a full collection by itself keeps what it empties.
        memory_limit_bytes: Some(os::resident_bytes().unwrap() + 256 * MIB),
        nursery_min_bytes: MIB,
        nursery_max_bytes: MIB,
        ..PaceOptions::default()
    };
    with_program(1 << 30, pace, |p| {
        let heap = p.driver.heap;
        for _ in 0..GARBAGE_BYTES / PAYLOAD_BYTES {
            p.object_with_payload(PAYLOAD_BYTES);
        }
        p.driver.collect(Request::EVERYTHING);
        assert!(heap.usage().held_blocks * BLOCK_BYTES >= GARBAGE_BYTES);
        assert!(!heap.has_room_for(WANTED_BYTES));
        // Not a collection of nothing: a third of what is wanted has been handed out since.
        for _ in 0..WANTED_BYTES / 3 / PAYLOAD_BYTES {
            // SAFETY: the object is live.
            assert!(unsafe { toy_vm::set_payload(heap, p.object(), PAYLOAD_BYTES) });
        }
        p.driver.make_room(WANTED_BYTES, None);
        assert!(heap.has_room_for(WANTED_BYTES));
    });
}
