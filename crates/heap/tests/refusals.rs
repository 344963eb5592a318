//! What the heap does when the system itself refuses memory.
//!
//! The limit holds for the whole process, so this file has a single test: the tests of one file
//! share a process.
#![cfg(all(target_os = "linux", not(miri)))]

#[allow(dead_code, missing_docs, unreachable_pub)]
mod process;
#[allow(dead_code, missing_docs, unreachable_pub)]
mod program;
#[allow(unreachable_pub)]
#[path = "../examples/toy_vm.rs"]
mod toy_vm;

use ashlar_heap::{Cell, ParallelMarking, Request};
use program::{with_program, Program};
use toy_vm::{new_object, set_payload, Shape};

const BRANCHES: usize = 40_000;
const LEAVES: usize = 5;

/// Makes roots of objects that refer to `LEAVES` others each, without
/// collecting.
fn make_branches(p: &mut Program<'_>) {
    for _ in 0..BRANCHES {
        let branch = p.tagged(1, Shape::plain(LEAVES));
        p.root(branch);
        for index in 0..LEAVES {
            let leaf = p.tagged(1, Shape::plain(0));
            p.store(branch, index, leaf);
        }
    }
}

#[test]
fn memory_that_the_system_refuses_is_a_value_and_a_collection_without_any_loses_nothing() {
    with_program(1 << 30, is_refused_memory);
}

fn is_refused_memory(p: &mut Program<'_>) {
    let heap = p.heap;
    heap.vm().roots.borrow_mut().reserve(2 * BRANCHES);
    heap.vm().released.borrow_mut().reserve(1 << 20);
    make_branches(p);
    // SAFETY: this thread alone uses the cache.
    let new = || unsafe { new_object(heap, p.cache, 20, true) };
    let kept = BRANCHES * (LEAVES + 1);

    // There is no memory for the stacks of helpers, either. AddressSanitizer, which needs some
    // for each thread, too, would end the process.
    heap.set_parallel_marking(ParallelMarking {
        threads: if cfg!(address_sanitizer) { 1 } else { 4 },
        cells_min: 0,
    });
    let data_bytes = process::status_bytes("VmData:") as u64;
    process::limit(libc::RLIMIT_DATA, data_bytes);
    // More roots than the mark stack has room for before it grows.
    let full = Request::EVERYTHING;
    heap.collect(full);
    let marked = heap.stats().marked_cells;
    let mut made = 0;
    let list = heap.vm().roots.borrow().len();
    heap.vm().roots.borrow_mut().push(0);
    while let Some(cell) = new() {
        let rest = std::mem::replace(&mut heap.vm().roots.borrow_mut()[list], cell.address());
        if rest != 0 {
            // SAFETY: the rest of the list is live.
            p.store(cell, 0, unsafe { Cell::from_address(rest) });
        }
        made += 1;
    }
    // SAFETY: roots are cells of this heap.
    let holder = unsafe { Cell::from_address(heap.vm().roots.borrow()[0]) };
    // SAFETY: roots are live.
    let payload = unsafe { set_payload(heap, holder, 64 << 20) };
    heap.collect(full);
    let again = heap.stats().marked_cells;
    let helpers = heap.shared().helper_count();
    process::limit(libc::RLIMIT_DATA, libc::RLIM_INFINITY);

    assert_eq!(helpers, 0);
    assert_eq!(marked, kept);
    assert_eq!(again, kept + made);
    assert!(!payload, "the payload was not refused");
    heap.verify().unwrap();
    assert!(new().is_some());
    // SAFETY: roots are live.
    assert!(unsafe { set_payload(heap, holder, 64 << 20) });
    p.drop_roots();
    heap.collect(full);
    assert_eq!(heap.stats().marked_cells, 0);
    heap.verify().unwrap();
}
