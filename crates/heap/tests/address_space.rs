//! How much of a limited address space a heap takes. The limit holds for the whole process, so
//! this file has a single test.
#![cfg(all(
    target_os = "linux",
    not(miri),
    not(address_sanitizer),
    not(thread_sanitizer)
))]

#[allow(dead_code, missing_docs, unreachable_pub)]
mod process;
#[allow(dead_code, unreachable_pub)]
#[path = "../examples/toy_vm.rs"]
mod toy_vm;

use ashlar_heap::os::Reservation;
use ashlar_heap::{Heap, PaceOptions, Shared, RESERVE_BYTES_MIN};
use toy_vm::ToyVm;

const MIB: usize = 1 << 20;
const ELSEWHERE_BYTES: usize = 32 * MIB;
/// What a small heap takes beside its blocks and as many bytes for its tables.
const ROUNDING_BYTES: usize = 4 * MIB;

#[test]
fn a_heap_leaves_the_rest_of_the_program_what_was_named_or_is_refused() {
    let before_bytes = process::status_bytes("VmSize:");
    for limit_mib in [40, 64, 80, 128, 512, 4096, 65_536] {
        let limit_bytes = before_bytes + limit_mib * MIB;
        process::limit(libc::RLIMIT_AS, limit_bytes as u64);
        let elsewhere_bytes = before_bytes + ELSEWHERE_BYTES;
        let Ok(shared) = Shared::reserve_beside(elsewhere_bytes) else {
            let left_bytes = limit_bytes - elsewhere_bytes;
            assert!(
                left_bytes < 2 * RESERVE_BYTES_MIN,
                "{limit_mib} MiB are enough"
            );
            continue;
        };
        let heap = Heap::new(ToyVm::new(&shared), &shared, PaceOptions::default()).unwrap();
        let heap_bytes = heap.region().reserved_blocks() * ashlar_heap::BLOCK_BYTES;
        assert!(
            heap_bytes >= (limit_bytes - elsewhere_bytes) / 4,
            "{limit_mib} MiB"
        );
        let elsewhere = Reservation::new(ELSEWHERE_BYTES - ROUNDING_BYTES, MIB);
        assert!(
            elsewhere.is_ok(),
            "{limit_mib} MiB, and a heap of {heap_bytes} bytes"
        );
    }
}
