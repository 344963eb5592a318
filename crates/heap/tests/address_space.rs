//! How much of a limited address space a heap takes. The limit holds for the whole process, so
//! this file has a single test.
#![cfg(all(
    target_os = "linux",
    not(miri),
    not(address_sanitizer),
    not(thread_sanitizer)
))]

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

/// Bytes of address space that the process has.
fn taken_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmSize:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<usize>().unwrap() << 10
}

#[test]
fn a_heap_leaves_the_rest_of_the_program_what_was_named_or_is_refused() {
    let before_bytes = taken_bytes();
    for limit_mib in [40, 64, 80, 128, 512, 4096, 65_536] {
        let limit_bytes = before_bytes + limit_mib * MIB;
        let limit = libc::rlimit {
            rlim_cur: limit_bytes as u64,
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: reads the structure it is given.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
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
