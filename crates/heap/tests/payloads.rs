//! The payload side as `malloc` and its relatives see it: several threads, any sizes, payloads
//! freed by other threads than allocated them.

#[allow(missing_docs, unreachable_pub)]
mod cases;
#[cfg(not(miri))]
#[allow(dead_code, missing_docs, unreachable_pub)]
mod process;
#[allow(dead_code, unreachable_pub)]
#[path = "../examples/toy_vm.rs"]
mod toy_vm;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::mpsc;

use ashlar_heap::{
    for_tests::Kind,
    for_tests::{CLASS_COUNT, CLASS_MAX_BYTES},
    os::Refused,
    Arena, Heap, OutOfMemory, PaceOptions, Policy, Resized, Shared, ThreadCache, ARENA_COUNT,
    BLOCK_BYTES,
};
use proptest::prelude::*;
use toy_vm::ToyVm;

const MIB: usize = 1 << 20;

/// One thread's door to the payloads of a heap.
struct Door<'shared> {
    shared: &'shared Shared,
    cache: ThreadCache<'shared>,
}

impl<'shared> Door<'shared> {
    fn new(shared: &'shared Shared) -> Self {
        Self::new_in(shared, Arena::default())
    }

    fn new_in(shared: &'shared Shared, arena: Arena) -> Self {
        Self {
            shared,
            cache: shared.thread_cache_in(arena),
        }
    }

    fn usable_bytes(&self, payload: NonNull<u8>) -> usize {
        let usable = self.shared.space().usable_bytes(payload.as_ptr() as usize);
        usable.expect("a payload of this heap")
    }

    /// Payloads of `size` bytes.
    fn pieces(&mut self, count: usize, size: usize) -> Vec<NonNull<u8>> {
        (0..count).map(|_| self.allocate(size).unwrap()).collect()
    }

    /// A new payload, and what is written to it.
    fn written(&mut self, bytes: usize, seed: u8) -> Written {
        Written::new(self.allocate(bytes).unwrap(), bytes, seed)
    }

    /// Frees a payload that nobody uses any more.
    fn give_back(&mut self, payload: NonNull<u8>) {
        // SAFETY: the tests use no payload after this.
        unsafe { self.free(payload) };
    }

    /// Reallocates a payload, whose old place nobody uses any more if it moves.
    fn resized(&mut self, payload: NonNull<u8>, bytes: usize) -> Fresh {
        // SAFETY: the payload is the test's.
        unsafe { self.reallocate(payload, bytes) }
    }
}

impl<'shared> Deref for Door<'shared> {
    type Target = ThreadCache<'shared>;

    fn deref(&self) -> &Self::Target {
        &self.cache
    }
}

impl DerefMut for Door<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.cache
    }
}

impl Drop for Door<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

type Fresh = Result<NonNull<u8>, OutOfMemory>;

/// A payload and what was written to it.
#[derive(Debug)]
struct Written {
    payload: NonNull<u8>,
    bytes: usize,
    seed: u8,
}

// SAFETY: a payload may be used and freed by any thread.
unsafe impl Send for Written {}

impl Written {
    fn new(payload: NonNull<u8>, bytes: usize, seed: u8) -> Self {
        let written = Self {
            payload,
            bytes,
            seed,
        };
        for index in written.sample() {
            // SAFETY: the payload is ours and this long.
            unsafe { payload.as_ptr().add(index).write(written.byte(index)) };
        }
        written
    }

    /// Asserts that the first `bytes_max` bytes at `payload` are what was written.
    fn check(&self, payload: NonNull<u8>, bytes_max: usize) {
        for index in self.sample().filter(|index| *index < bytes_max) {
            // SAFETY: the payload is ours and this long.
            let found = unsafe { payload.as_ptr().add(index).read() };
            assert_eq!(found, self.byte(index), "byte {index} of {self:?}");
        }
    }

    fn byte(&self, index: usize) -> u8 {
        self.seed ^ (index as u8) ^ (index >> 8) as u8 ^ (index >> 16) as u8
    }

    /// The indexes that are written and checked: all of a small payload, the edges and some of
    /// the middle of a large one.
    fn sample(&self) -> impl Iterator<Item = usize> {
        const EDGE: usize = 128;
        let (edge, bytes) = (self.bytes.min(EDGE), self.bytes);
        let last = bytes.saturating_sub(EDGE).max(edge);
        (0..edge)
            .chain((edge..last).step_by(509))
            .chain(last..bytes)
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Of this size, as in the next three.
    Allocate(usize),
    AllocateZeroed(usize),
    /// Aligned to 2 to the power of the second number.
    AllocateAligned(usize, u8),
    /// Of one of the thread's payloads, by its number.
    Reallocate(u16, usize),
    Free(u16),
    /// Hands a payload to the next thread, which frees it.
    HandOver(u16),
    Flush,
}

/// Sizes a little above whole blocks: spans of these sizes share blocks.
fn overhanging() -> impl Strategy<Value = usize> {
    (1..=3usize, 1..=200usize).prop_map(|(blocks, more)| blocks * BLOCK_BYTES + more)
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        6 => 0..512usize,
        4 => 0..8192usize,
        3 => 0..=CLASS_MAX_BYTES,
        2 => CLASS_MAX_BYTES - 64..4 * BLOCK_BYTES,
        2 => overhanging(),
        1 => 0..MIB,
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => size().prop_map(Op::Allocate),
        2 => size().prop_map(Op::AllocateZeroed),
        2 => (size(), 0..=18u8).prop_map(|(size, shift)| Op::AllocateAligned(size, shift)),
        5 => (any::<u16>(), size()).prop_map(|(which, size)| Op::Reallocate(which, size)),
        5 => any::<u16>().prop_map(Op::Free),
        2 => any::<u16>().prop_map(Op::HandOver),
        1 => Just(Op::Flush),
    ]
}

/// Does what one thread does: it frees what it is sent, and everything it still has at the end.
fn work(
    shared: &Shared,
    ops: &[Op],
    seed: u8,
    to_next: mpsc::Sender<Written>,
    from_previous: mpsc::Receiver<Written>,
) {
    // Two of three threads share an arena.
    let mut door = Door::new_in(shared, Arena::of_thread(usize::from(seed / 85).div_ceil(2)));
    let mut mine: Vec<Written> = Vec::new();
    for (number, op) in ops.iter().enumerate() {
        step(&mut door, &mut mine, *op, seed ^ number as u8, &to_next);
        for sent in from_previous.try_iter() {
            free(&mut door, sent);
        }
    }
    drop(to_next);
    for sent in from_previous.iter().chain(mine) {
        free(&mut door, sent);
    }
}

fn step(
    door: &mut Door<'_>,
    mine: &mut Vec<Written>,
    op: Op,
    seed: u8,
    to_next: &mpsc::Sender<Written>,
) {
    let mut keep = |door: &Door<'_>, fresh: Fresh, size: usize, align: usize| {
        let Ok(payload) = fresh else { return };
        assert_eq!(payload.as_ptr() as usize % align, 0);
        assert!(door.usable_bytes(payload) >= size.max(1));
        mine.push(Written::new(payload, size, seed));
    };
    match op {
        Op::Allocate(size) => {
            let fresh = door.allocate(size);
            keep(door, fresh, size, 16);
        }
        Op::AllocateZeroed(size) => {
            let fresh = door.allocate_zeroed(size);
            if let Ok(payload) = fresh {
                assert!(is_zero(payload, size));
            }
            keep(door, fresh, size, 16);
        }
        Op::AllocateAligned(size, shift) => {
            let fresh = door.allocate_aligned(size, 1 << shift);
            keep(door, fresh, size, 1 << shift);
        }
        Op::Reallocate(which, size) => {
            if let Some(old) = take(mine, which) {
                mine.push(reallocate(door, old, size, seed));
            }
        }
        Op::Free(which) => {
            if let Some(old) = take(mine, which) {
                free(door, old);
            }
        }
        Op::HandOver(which) => {
            if let Some(old) = take(mine, which) {
                to_next.send(old).expect("the next thread listens");
            }
        }
        Op::Flush => door.flush(),
    }
}

fn take(mine: &mut Vec<Written>, which: u16) -> Option<Written> {
    (!mine.is_empty()).then(|| mine.swap_remove(which as usize % mine.len()))
}

fn reallocate(door: &mut Door<'_>, old: Written, size: usize, seed: u8) -> Written {
    match door.resized(old.payload, size) {
        Ok(payload) => {
            old.check(payload, size);
            assert!(door.usable_bytes(payload) >= size.max(1));
            Written::new(payload, size, seed)
        }
        Err(OutOfMemory) => old,
    }
}

fn free(door: &mut Door<'_>, old: Written) {
    old.check(old.payload, usize::MAX);
    door.give_back(old.payload);
}

fn is_zero(payload: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the payload is ours and this long.
    let bytes = unsafe { std::slice::from_raw_parts(payload.as_ptr(), bytes) };
    bytes.iter().all(|byte| *byte == 0)
}

/// Asserts that no payload is in use. At most one block per class of each arena stays with the
/// pool.
fn assert_nothing_in_use(shared: &Shared) {
    assert_eq!(shared.payloads().in_use_bytes(), 0);
    let in_use = shared.space().blocks().counts().in_use;
    assert!(
        in_use <= ARENA_COUNT * CLASS_COUNT,
        "{in_use} blocks are still in use"
    );
}

const LENGTH: usize = if cfg!(miri) { 40 } else { 400 };

proptest! {
    #![proptest_config(cases::config(60, "tests/regressions/payloads.txt"))]

    /// What is written to a payload stays there until it is freed, whoever
    /// frees it; everything can be given back.
    #[test]
    fn payloads_keep_their_contents_on_all_threads(
        programs in prop::collection::vec(prop::collection::vec(op(), 1..LENGTH), 1..=3)
    ) {
        let shared = Shared::reserve(64 * MIB).unwrap();
        let (senders, mut receivers): (Vec<_>, Vec<_>) =
            programs.iter().map(|_| mpsc::channel()).unzip();
        receivers.rotate_left(1);
        std::thread::scope(|scope| {
            let doors = senders.into_iter().zip(receivers);
            for (number, (ops, (sender, receiver))) in programs.iter().zip(doors).enumerate() {
                let shared = &shared;
                let seed = 85 * number as u8;
                scope.spawn(move || work(shared, ops, seed, sender, receiver));
            }
        });
        assert_nothing_in_use(&shared);
    }

    /// Whatever the policy, and when it changes: contents stay, and the index of empty runs
    /// is whole.
    #[test]
    fn every_policy_keeps_its_index_of_empty_runs(
        program in prop::collection::vec((0..40usize, span_op()), 1..LENGTH)
    ) {
        let shared = Shared::reserve(64 * MIB).unwrap();
        let heap = Heap::new(ToyVm::new(&shared), &shared, PaceOptions::default()).unwrap();
        let mut door = Door::new(&shared);
        let mut mine = Vec::new();
        let (to_nobody, _receiver) = mpsc::channel();
        for (number, (choice, op)) in program.into_iter().enumerate() {
            if let Some((_, policy)) = Policy::NAMES.get(choice) {
                shared.space().set_policy(*policy);
            }
            step(&mut door, &mut mine, op, number as u8, &to_nobody);
            prop_assert_eq!(heap.verify(), Ok(()));
        }
        mine.into_iter().for_each(|old| free(&mut door, old));
        door.flush();
        prop_assert_eq!(heap.verify(), Ok(()));
        assert_nothing_in_use(&shared);
    }
}

/// Where each policy places three blocks, and then two blocks twice, the first two freed in
/// between; in blocks from the first hole on. The holes have 4, 2 and 3 blocks.
#[test]
fn policies_choose_different_holes() {
    for (policy, places) in [
        (Policy::FirstFit, [0, 5, 5]),
        (Policy::NextFit, [0, 5, 8]),
        (Policy::BestFit, [8, 5, 5]),
        (Policy::SegregatedFit, [8, 5, 5]),
    ] {
        let shared = Shared::reserve(64 * MIB).unwrap();
        let mut door = Door::new(&shared);
        let spans = [4, 1, 2, 1, 3, 1].map(|blocks| door.allocate(blocks * BLOCK_BYTES).unwrap());
        shared.space().set_policy(policy);
        for hole in [0, 2, 4] {
            door.give_back(spans[hole]);
        }
        let mut place = |blocks| {
            let span = door.allocate(blocks * BLOCK_BYTES).unwrap();
            let offset = span.as_ptr() as usize - spans[0].as_ptr() as usize;
            (span, offset / BLOCK_BYTES)
        };
        let (_, three) = place(3);
        let (first, two) = place(2);
        // SAFETY: the span is ours.
        unsafe { shared.thread_cache().free(first) };
        let (_, two_again) = place(2);
        assert_eq!([three, two, two_again], places, "{}", policy.name());
        assert_eq!(shared.space().policy(), policy);
    }
}

fn span_op() -> impl Strategy<Value = Op> {
    let size = || {
        prop_oneof![
            0..20 * BLOCK_BYTES,
            0..3 * BLOCK_BYTES,
            0..CLASS_MAX_BYTES,
            overhanging(),
            overhanging()
        ]
    };
    prop_oneof![
        6 => size().prop_map(Op::Allocate),
        1 => (size(), 10..=19u8).prop_map(|(size, shift)| Op::AllocateAligned(size, shift)),
        4 => (any::<u16>(), size()).prop_map(|(which, size)| Op::Reallocate(which, size)),
        6 => any::<u16>().prop_map(Op::Free),
        1 => Just(Op::Flush),
    ]
}

#[test]
fn payloads_in_use_never_overlap() {
    let shared = Shared::reserve(64 * MIB).unwrap();
    let mut door = Door::new(&shared);
    let mut extents: BTreeMap<usize, (usize, NonNull<u8>)> = BTreeMap::new();
    let mut number = 1usize;
    for round in 0..if cfg!(miri) { 300 } else { 20_000 } {
        number = number.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(99);
        let size = (number >> 40)
            % if round % 16 == 0 {
                3 * BLOCK_BYTES
            } else {
                700
            };
        let payload = door.allocate(size).unwrap();
        let start = payload.as_ptr() as usize;
        let end = start + door.usable_bytes(payload);
        if let Some((other, (other_end, _))) = extents.range(..end).next_back() {
            assert!(*other_end <= start, "{start:#x} overlaps {other:#x}");
        }
        extents.insert(start, (end, payload));
        if extents.len() > 200 {
            let (_, (_, victim)) = match number % 3 {
                0 => extents.pop_first().unwrap(),
                1 => extents.pop_last().unwrap(),
                _ => {
                    let key = *extents.range(start..).next().unwrap().0;
                    (key, extents.remove(&key).unwrap())
                }
            };
            door.give_back(victim);
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "too many payloads for the interpreter")]
fn a_block_whose_pieces_are_all_free_serves_another_size_class() {
    let shared = Shared::reserve(16 * MIB).unwrap();
    let mut door = Door::new(&shared);
    let fill = |door: &mut Door<'_>, size: usize| -> Vec<NonNull<u8>> {
        std::iter::from_fn(|| door.allocate(size).ok()).collect()
    };
    let mut counts = Vec::new();
    // The region is filled three times over; it has 256 blocks, and keeps
    // 16 for when memory is out.
    for size in [1024, 4096, 1024] {
        let pieces = fill(&mut door, size);
        counts.push(pieces.len());
        for piece in pieces {
            door.give_back(piece);
        }
        door.flush();
    }
    assert_eq!(counts[0], 240 * 64);
    // One empty block stays with the pool of each class used before.
    assert_eq!(counts[1], 239 * 16);
    assert_eq!(counts[2], 239 * 64);
    assert_nothing_in_use(&shared);
}

/// What one thread frees another gets, as its own and nobody else's. What is kept for this holds
/// no block once empty blocks go back.
#[test]
fn rows_that_one_thread_gives_back_serve_another_and_hold_no_block_when_empty_ones_go_back() {
    const PIECES: usize = 4096;
    for size in [16, 40, 1024] {
        let shared = Shared::reserve(64 * MIB).unwrap();
        let heap = Heap::new(ToyVm::new(&shared), &shared, PaceOptions::default()).unwrap();
        let (mut one, mut other) = (Door::new(&shared), Door::new(&shared));
        let kept = other.allocate(size).unwrap();
        for _ in 0..3 {
            let pieces = one.pieces(PIECES, size);
            let in_use = shared.space().blocks().counts().in_use;
            // In an order that spreads the pieces of a row over many blocks.
            for index in 0..PIECES {
                let piece = pieces[index * 67 % PIECES];
                one.give_back(piece);
            }
            let mut again = other.pieces(PIECES / 2, size);
            assert!(shared.space().blocks().counts().in_use <= in_use, "{size}");
            again.sort();
            assert!(again.windows(2).all(|pair| pair[0] < pair[1]), "{size}");
            assert!(again.binary_search(&kept).is_err());
            for index in 0..again.len() {
                other.give_back(again[index * 67 % again.len()]);
            }
        }
        heap.release_empty_blocks();
        // Blocks of what the two caches keep, 8 KiB each, the block of `kept`, and the class's
        // last one.
        let in_use = shared.space().blocks().counts().in_use;
        assert!(in_use <= 18, "{size}: {in_use} blocks");
        other.give_back(kept);
        one.flush();
        other.flush();
        heap.verify().unwrap();
        assert_nothing_in_use(&shared);
    }
}

/// No block has pieces of both, whoever frees them.
#[test]
fn threads_of_two_arenas_have_pieces_of_different_blocks() {
    const PIECES: usize = 3000;
    let shared = Shared::reserve(64 * MIB).unwrap();
    let mut doors = [0, 1].map(|number| Door::new_in(&shared, Arena::of_thread(number)));
    let mut blocks = [BTreeSet::new(), BTreeSet::new()];
    let mut pieces = [Vec::new(), Vec::new()];
    for _ in 0..4 {
        for _ in 0..PIECES {
            for number in [0, 1] {
                let piece = doors[number].allocate(48).unwrap();
                blocks[number].insert(piece.as_ptr() as usize / BLOCK_BYTES);
                pieces[number].push(piece);
            }
        }
        assert!(blocks[0].is_disjoint(&blocks[1]));
        // Each thread frees the pieces that the other has.
        pieces.swap(0, 1);
        for number in [0, 1] {
            for piece in pieces[number].drain(..) {
                doors[number].give_back(piece);
            }
        }
    }
    // Pieces that came back were used again: otherwise there would be four times as many blocks.
    let blocks_once = (PIECES * 48).div_ceil(BLOCK_BYTES);
    assert!(
        blocks.iter().all(|blocks| blocks.len() <= blocks_once + 1),
        "{blocks:?}"
    );
    drop(doors);
    assert_nothing_in_use(&shared);
}

/// A piece that a cache cannot keep without waiting stays the caller's, and is in no list.
#[test]
fn a_cache_keeps_pieces_at_once_until_a_row_is_full_and_nothing_else() {
    let shared = Shared::reserve(64 * MIB).unwrap();
    for number in 0..ARENA_COUNT {
        let mut door = Door::new_in(&shared, Arena::of_thread(number));
        let mut other = Door::new_in(&shared, Arena::of_thread(number + 1));
        for size in [16, 48, CLASS_MAX_BYTES] {
            let pieces = other.pieces(64, size);
            // SAFETY: nobody uses them any more.
            let kept = pieces
                .iter()
                .map(|piece| unsafe { door.free_at_once(piece.as_ptr()) })
                .collect::<Vec<_>>();
            let row = kept.iter().filter(|kept| **kept).count();
            assert_eq!(row, (4096 / size).clamp(1, 32), "pieces of {size} bytes");
            assert!(kept[..row].iter().all(|kept| *kept));
            for piece in &pieces[row..] {
                door.give_back(*piece);
            }
        }
        let span = door.allocate(CLASS_MAX_BYTES + 1).unwrap();
        let mut elsewhere = 0_u64;
        let nobodys = [
            std::ptr::null_mut(),
            (&raw mut elsewhere).cast(),
            span.as_ptr(),
        ];
        for _ in 0..300 {
            for address in nobodys {
                // SAFETY: nobody uses the span any more; the others are in no heap.
                assert!(unsafe { !door.free_at_once(address) });
            }
        }
        assert_eq!(elsewhere, 0);
        door.give_back(span);
    }
    assert_nothing_in_use(&shared);
}

#[test]
fn what_is_freed_in_any_arena_is_allocated_again() {
    let shared = Shared::reserve(64 * MIB).unwrap();
    for number in 0..ARENA_COUNT {
        let mut door = Door::new_in(&shared, Arena::of_thread(number));
        let pieces = door.pieces(4000, 48);
        for &piece in pieces.iter().step_by(2) {
            door.give_back(piece);
        }
        let blocks = shared.space().blocks().counts().in_use;
        let again = door.pieces(2000, 48);
        assert_eq!(
            shared.space().blocks().counts().in_use,
            blocks,
            "arena {number}"
        );
        for &piece in again.iter().chain(pieces.iter().skip(1).step_by(2)) {
            door.give_back(piece);
        }
    }
    assert_nothing_in_use(&shared);
}

#[test]
fn memory_of_a_large_payload_reads_as_zero_when_it_is_asked_for_zeroed_again() {
    for blocks in if cfg!(miri) {
        vec![1]
    } else {
        vec![1, 3, 9, 70]
    } {
        let shared = Shared::reserve(16 * MIB).unwrap();
        let mut door = Door::new(&shared);
        let size = blocks * BLOCK_BYTES;
        let dirty = door.allocate(size).unwrap();
        // SAFETY: the payload is ours and this long.
        unsafe {
            dirty.as_ptr().write_bytes(0xA5, size);
            door.free(dirty);
        }
        let zeroed = door.allocate_zeroed(size).unwrap();
        assert_eq!(zeroed, dirty, "the same blocks are used again");
        assert!(is_zero(zeroed, size), "{blocks} blocks");
    }
}

#[test]
#[cfg_attr(miri, ignore = "too many bytes for the interpreter")]
fn what_a_span_leaves_behind_by_moving_or_shrinking_reads_as_zero_when_asked_for_zeroed() {
    let shared = Shared::reserve(16 * MIB).unwrap();
    let mut door = Door::new(&shared);
    let span = door.allocate(12 * BLOCK_BYTES).unwrap();
    let wall = door.allocate(BLOCK_BYTES).unwrap();
    // SAFETY: the payloads are ours and this long, and not used after.
    unsafe {
        span.as_ptr().write_bytes(0xA5, 12 * BLOCK_BYTES);
        let moved = door.reallocate(span, 20 * BLOCK_BYTES).unwrap();
        assert_ne!(moved, span);
        let reused = door.allocate_zeroed(12 * BLOCK_BYTES).unwrap();
        assert!(is_zero(reused, 12 * BLOCK_BYTES), "left behind by moving");
        moved.as_ptr().write_bytes(0xA5, 20 * BLOCK_BYTES);
        let shrunk = door.reallocate(moved, BLOCK_BYTES + 1).unwrap();
        assert_eq!(shrunk, moved);
        let rest = door.allocate_zeroed(18 * BLOCK_BYTES).unwrap();
        assert!(is_zero(rest, 18 * BLOCK_BYTES), "left behind by shrinking");
        for payload in [wall, reused, shrunk, rest] {
            door.free(payload);
        }
    }
    door.flush();
    assert_nothing_in_use(&shared);
}

#[test]
fn pieces_that_nobody_has_had_yet_come_in_the_order_of_their_addresses() {
    let shared = Shared::reserve(64 * MIB).unwrap();
    let mut door = Door::new(&shared);
    let pieces = door.pieces(1000, 48);
    let is_next = |pair: &&[NonNull<u8>]| pair[1].as_ptr() == pair[0].as_ptr().wrapping_add(48);
    let ascents = pieces.windows(2).filter(is_next);
    assert_eq!(ascents.count(), 999);
}

#[test]
fn a_span_that_shrinks_gives_back_what_it_does_not_need() {
    let shared = Shared::reserve(64 * MIB).unwrap();
    let mut door = Door::new(&shared);
    let span = door.allocate(10 * BLOCK_BYTES).unwrap();
    // SAFETY: the span is ours, and so is what it becomes.
    unsafe {
        span.write_bytes(7, 10 * BLOCK_BYTES);
        let in_use_bytes = shared.payloads().in_use_bytes();
        assert_eq!(door.resize(span, 9 * BLOCK_BYTES), Ok(Resized::InPlace));
        assert_eq!(door.usable_bytes(span), 9 * BLOCK_BYTES);
        assert_eq!(shared.payloads().in_use_bytes(), in_use_bytes - BLOCK_BYTES);
        let behind = door.allocate(BLOCK_BYTES).unwrap();
        assert_eq!(behind.as_ptr(), span.as_ptr().add(9 * BLOCK_BYTES));
        assert!(!door.resize_in_place(span, 10 * BLOCK_BYTES));
        assert_eq!(shared.payloads().moved(), 0);
        let Ok(Resized::Moved(moved)) = door.resize(span, 10 * BLOCK_BYTES) else {
            panic!("there is no room behind it");
        };
        assert_eq!(moved.add(9 * BLOCK_BYTES - 1).read(), 7);
        assert_eq!(shared.payloads().moved(), 1);
        door.free(moved);
        door.free(behind);
    }
}

#[test]
#[cfg_attr(miri, ignore = "too many bytes for the interpreter")]
fn what_shrinks_stays_where_it_is_when_there_is_no_memory_for_a_smaller_piece() {
    let shared = Shared::reserve(16 * MIB).unwrap();
    let mut door = Door::new(&shared);
    let span = door.written(MIB, 5);
    let mut pieces = Vec::new();
    while let Ok(piece) = door.allocate(32 << 10) {
        pieces.push(piece);
    }
    let piece = pieces[0];
    // SAFETY: both are ours; a piece has its bytes whatever was asked for.
    unsafe {
        piece.write_bytes(6, 100);
        assert_eq!(door.resize(piece, 100), Ok(Resized::InPlace));
        assert_eq!(piece.add(99).read(), 6);
        assert_eq!(door.resize(span.payload, 1000), Ok(Resized::InPlace));
    }
    span.check(span.payload, 1000);
    // The span has given back what it does not need.
    let block = door.allocate(BLOCK_BYTES).unwrap();
    for payload in pieces.into_iter().chain([block, span.payload]) {
        door.give_back(payload);
    }
    drop(door);
    assert_nothing_in_use(&shared);
}

#[test]
fn a_span_grows_where_it_is_when_the_blocks_behind_it_are_empty() {
    let shared = Shared::reserve(16 * MIB).unwrap();
    let mut door = Door::new(&shared);
    let written = door.written(2 * BLOCK_BYTES, 7);
    let span = written.payload;
    for blocks in 3..30 {
        let grown = door.resized(span, blocks * BLOCK_BYTES).unwrap();
        assert_eq!(grown, span);
        assert_eq!(door.usable_bytes(grown), blocks * BLOCK_BYTES);
    }
    written.check(span, usize::MAX);
    assert_eq!(shared.payloads().in_use_bytes(), 29 * BLOCK_BYTES);
}

#[test]
#[cfg_attr(miri, ignore = "too many bytes for the interpreter")]
fn a_span_that_cannot_grow_moves_with_its_contents_however_large_it_is() {
    // Below and above the size from which the old place goes back to the system at once.
    for blocks in [2, 16, 17, 40, 64, 75] {
        let shared = Shared::reserve(32 * MIB).unwrap();
        let mut door = Door::new(&shared);
        let written = door.written(blocks * BLOCK_BYTES, 9);
        let mut span = written.payload;
        for step in 1..4 {
            let wall = door.allocate(BLOCK_BYTES).unwrap();
            let moved = door.resized(span, (blocks + step) * BLOCK_BYTES).unwrap();
            written.check(moved, usize::MAX);
            span = moved;
            door.give_back(wall);
        }
        let bytes = door.usable_bytes(span);
        assert_eq!(shared.payloads().in_use_bytes(), bytes);
        // The old place is whole again: the region can be filled completely.
        door.give_back(span);
        let all = door.allocate(31 * MIB);
        assert!(all.is_ok(), "{blocks} blocks");
    }
}

#[test]
#[cfg_attr(miri, ignore = "too many bytes for the interpreter")]
fn a_span_that_finds_no_place_to_grow_stays_as_it_was() {
    let shared = Shared::reserve(16 * MIB).unwrap();
    let mut door = Door::new(&shared);
    let written = door.written(6 * MIB, 5);
    let span = written.payload;
    let wall = door.allocate(BLOCK_BYTES).unwrap();
    let before = (shared.payloads().in_use_bytes(), shared.payloads().moved());
    let grown = door.resized(span, 10 * MIB);
    assert_eq!(grown, Err(OutOfMemory));
    written.check(span, usize::MAX);
    let after = (shared.payloads().in_use_bytes(), shared.payloads().moved());
    assert_eq!(after, before);
    door.give_back(span);
    door.give_back(wall);
    assert_nothing_in_use(&shared);
}

/// Mappings of this process that begin in the heap's region.
#[cfg(not(miri))]
fn mappings_of(shared: &Shared) -> usize {
    let region = &shared.space().region();
    let addresses = region.start()..region.start() + region.reserved_blocks() * BLOCK_BYTES;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let starts = maps.lines().filter_map(|line| line.split('-').next());
    let starts = starts.map(|start| usize::from_str_radix(start, 16).unwrap());
    starts.filter(|start| addresses.contains(start)).count()
}

#[test]
#[cfg(not(miri))]
fn spans_that_move_however_often_add_no_mappings() {
    let shared = Shared::reserve(256 * MIB).unwrap();
    let mut door = Door::new(&shared);
    let all = door.allocate(240 * MIB).unwrap();
    door.give_back(all);
    let before = mappings_of(&shared);
    for _ in 0..5 {
        let mut spans = [3; 4].map(|seed| door.written(MIB, seed));
        for steps in 5..40 {
            for written in &mut spans {
                let moved = door.resized(written.payload, steps * MIB / 4);
                written.payload = moved.unwrap();
            }
        }
        for written in spans {
            written.check(written.payload, usize::MAX);
            door.give_back(written.payload);
        }
    }
    assert!(shared.payloads().moved() > 100, "they move");
    assert_eq!(mappings_of(&shared), before);
}

/// Runs in a process of its own, which no other test's memory is part of.
#[test]
#[cfg(not(miri))]
#[cfg_attr(
    thread_sanitizer,
    ignore = "what the sanitizer notes of each byte is memory, too"
)]
fn a_large_span_that_moves_never_lies_twice_in_memory() {
    const ALONE: &str = "ASHLAR_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let test = std::env::current_exe().unwrap();
        let name = "a_large_span_that_moves_never_lies_twice_in_memory";
        let mut alone = std::process::Command::new(test);
        let status = alone.args(["--exact", name]).env(ALONE, "1").status();
        assert!(status.unwrap().success());
        return;
    }
    let bytes = 64 * MIB;
    let shared = Shared::reserve(256 * MIB).unwrap();
    let mut door = Door::new(&shared);
    let span = door.allocate(bytes).unwrap();
    // SAFETY: the payload is ours and this long.
    unsafe { span.as_ptr().write_bytes(7, bytes) };
    let _wall = door.allocate(BLOCK_BYTES).unwrap();
    // The most memory that this process has occupied so far.
    let peak_resident_bytes = || process::status_bytes("VmHWM:");
    let before = peak_resident_bytes();
    let moved = door.resized(span, bytes + BLOCK_BYTES).unwrap();
    assert_ne!(moved, span);
    let more = peak_resident_bytes() - before;
    assert!(more < 8 * MIB, "{more} bytes more");
}

#[test]
fn a_span_finds_room_that_is_partly_used_already_at_the_end_of_the_heap() {
    let shared = Shared::reserve(16 * MIB).unwrap();
    let mut door = Door::new(&shared);
    let half = door.allocate(8 * MIB).unwrap();
    door.give_back(half);
    let three_quarters = door.allocate(12 * MIB).expect("the whole region is free");
    door.give_back(three_quarters);
    assert_nothing_in_use(&shared);
}

#[test]
fn an_aligned_large_payload_takes_no_more_blocks_than_it_needs() {
    let shared = Shared::reserve(16 * MIB).unwrap();
    let mut door = Door::new(&shared);
    let payload = door.allocate_aligned(5 * BLOCK_BYTES, 4096).unwrap();
    assert_eq!(payload.as_ptr() as usize % 4096, 0);
    assert_eq!(door.usable_bytes(payload), 5 * BLOCK_BYTES);
}

#[test]
fn impossible_requests_are_refused_and_change_nothing() {
    let shared = Shared::reserve(16 * MIB).unwrap();
    let mut door = Door::new(&shared);
    let written = door.written(100_000, 3);
    let kept = written.payload;
    let before = shared.payloads().in_use_bytes();
    for size in [
        17 * MIB,
        1 << 40,
        usize::MAX / 2,
        usize::MAX - 15,
        usize::MAX,
    ] {
        assert_eq!(door.allocate(size), Err(OutOfMemory));
        assert_eq!(door.allocate_zeroed(size), Err(OutOfMemory));
        assert_eq!(door.allocate_aligned(size, 64), Err(OutOfMemory));
        assert_eq!(door.resized(kept, size), Err(OutOfMemory));
    }
    assert_eq!(door.allocate_aligned(1, 1 << 40), Err(OutOfMemory));
    written.check(kept, usize::MAX);
    assert_eq!(shared.payloads().in_use_bytes(), before);
}

#[test]
fn the_size_of_a_payload_is_known_from_its_address_and_other_memory_is_nobodys() {
    let shared = Shared::reserve(16 * MIB).unwrap();
    let mut door = Door::new(&shared);
    let (small, span) = (door.allocate(33).unwrap(), door.allocate(100_000).unwrap());
    assert_eq!(door.usable_bytes(small), 48);
    assert_eq!(door.usable_bytes(span), 2 * BLOCK_BYTES);
    let on_the_stack = 0u64;
    let foreign = [&raw const on_the_stack as usize, 0, usize::MAX];
    for address in foreign {
        let usable = shared.space().usable_bytes(address);
        assert_eq!(usable, None);
    }
    let region = shared.space().region();
    let block = region.block_at(span.as_ptr() as usize).unwrap();
    assert_eq!(region.kind(block), Kind::Span);
}

#[test]
fn a_payload_can_be_aligned_to_more_than_a_block() {
    let shared = Shared::reserve(256 * MIB).unwrap();
    let mut door = Door::new(&shared);
    let mut payloads = Vec::new();
    for align in [2 * BLOCK_BYTES, 4 * MIB, 16 * MIB] {
        for size in [0, 1, 100_000, 3 * BLOCK_BYTES] {
            let payload = door.allocate_aligned(size, align).unwrap();
            assert_eq!(payload.as_ptr() as usize % align, 0);
            let usable = size.max(1).next_multiple_of(BLOCK_BYTES);
            assert_eq!(door.usable_bytes(payload), usable);
            payloads.push(Written::new(payload, size, payloads.len() as u8));
        }
    }
    // No more blocks are in use than the payloads need.
    let blocks: usize = payloads
        .iter()
        .map(|written| written.bytes.max(1).div_ceil(BLOCK_BYTES))
        .sum();
    assert_eq!(shared.space().blocks().counts().in_use, blocks);
    for written in payloads {
        free(&mut door, written);
    }
    assert_eq!(shared.space().blocks().counts().in_use, 0);
    for align in [1 << 40, 1 << 63] {
        for size in [1, usize::MAX - 4 * BLOCK_BYTES, usize::MAX] {
            assert_eq!(door.allocate_aligned(size, align), Err(OutOfMemory));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "the interpreter has no locked memory")]
fn memory_that_the_system_does_not_take_back_is_cleared_for_calloc() {
    let shared = Shared::reserve(64 * MIB).unwrap();
    let mut door = Door::new(&shared);
    let payload = door.allocate(5 * MIB).unwrap();
    // SAFETY: the payload is ours and this long; a page of it may be locked.
    unsafe {
        payload.as_ptr().write_bytes(0xA5, 5 * MIB);
        assert_eq!(libc::mlock(payload.as_ptr().cast(), 1), 0, "ulimit -l is 0");
        door.free(payload);
    }
    let again = door.allocate_zeroed(5 * MIB).unwrap();
    assert_eq!(again, payload, "the lowest blocks come first");
    assert!(is_zero(again, 5 * MIB));
}

/// A block that still has memory counts as held, so that the system is asked to take it again.
#[test]
#[cfg_attr(miri, ignore = "the interpreter has no locked memory")]
#[cfg_attr(
    any(thread_sanitizer, address_sanitizer),
    ignore = "a sanitizer's mlock locks nothing"
)]
fn a_block_that_the_system_does_not_take_back_goes_on_holding_memory() {
    let shared = Shared::reserve(16 * MIB).unwrap();
    let mut door = Door::new(&shared);
    let payload = door.allocate(BLOCK_BYTES).unwrap();
    // SAFETY: the payload is ours and may be locked.
    unsafe {
        payload.as_ptr().write_bytes(0xA5, BLOCK_BYTES);
        assert_eq!(libc::mlock(payload.as_ptr().cast(), 1), 0, "ulimit -l is 0");
        door.free(payload);
    }
    let heap = Heap::new(ToyVm::new(&shared), &shared, PaceOptions::default()).unwrap();
    heap.release_empty_blocks();
    assert_eq!(shared.space().blocks().counts().held, 1);
    heap.verify().unwrap();
    // SAFETY: the address stays mapped as long as the region.
    unsafe { libc::munlock(payload.as_ptr().cast(), 1) };
    heap.release_empty_blocks();
    assert_eq!(shared.space().blocks().counts().held, 0);
    heap.verify().unwrap();
}

#[test]
fn a_heap_lives_in_pages_of_the_size_of_a_block() {
    let shared = Shared::reserve_in_pages(48 * MIB, BLOCK_BYTES).unwrap();
    let mut door = Door::new(&shared);
    // Beyond what is committed in one step.
    let payloads: Vec<_> = (0..30).map(|seed| door.written(MIB, seed)).collect();
    assert!(shared.space().region().committed_blocks() > 256);
    assert_eq!(shared.payloads().in_use_bytes(), 30 * MIB);
    for written in payloads {
        free(&mut door, written);
    }
    let small = door.allocate(33_000).unwrap();
    assert_eq!(
        shared.payloads().in_use_bytes(),
        BLOCK_BYTES,
        "a whole page"
    );
    door.give_back(small);
    let too_large = Shared::reserve_in_pages(48 * MIB, 2 * BLOCK_BYTES);
    assert_eq!(too_large.err(), Some(Refused));
}

/// Another thread, which only knows an address, sees none of a span's size until it
/// sees all of it. Miri's model of weak memory shows what a processor may do.
#[test]
fn a_span_is_seen_whole_or_not_at_all() {
    const SPAN_BYTES: usize = 3 * BLOCK_BYTES;
    let shared = Shared::reserve(16 * MIB).unwrap();
    let spans = if cfg!(miri) { 5 } else { 60 };
    let first = {
        let mut door = Door::new(&shared);
        let payload = door.allocate(SPAN_BYTES).unwrap();
        door.give_back(payload);
        payload.as_ptr() as usize
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut door = Door::new(&shared);
            for _ in 0..spans {
                door.allocate(SPAN_BYTES).unwrap();
            }
        });
        for span in 0..spans {
            loop {
                match shared.space().usable_bytes(first + span * SPAN_BYTES) {
                    None => std::thread::yield_now(),
                    Some(bytes) => break assert_eq!(bytes, SPAN_BYTES),
                }
            }
        }
    });
}

/// Fresh bytes pace collections: without a collection they are the bytes handed out and not given
/// back.
#[test]
fn no_byte_is_lost_when_threads_are_handed_some_and_give_some_back_at_the_same_time() {
    const SPAN_BYTES: usize = 16 * BLOCK_BYTES;
    let rounds: isize = if cfg!(miri) { 200 } else { 10_000_000 };
    let shared = Shared::reserve(64 * MIB).unwrap();
    let mut door = Door::new(&shared);
    // Large enough that what is handed out never falls to 0, which it may not fall below.
    let kept = door.allocate(SPAN_BYTES).unwrap();
    shared.payloads().note_elsewhere(rounds);
    let begin = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            begin.wait();
            (0..rounds).for_each(|_| shared.payloads().note_elsewhere(-1));
        });
        begin.wait();
        (0..rounds).for_each(|_| shared.payloads().note_elsewhere(1));
    });
    assert_eq!(shared.payloads().elsewhere_bytes(), rounds as usize);
    assert_eq!(
        shared.payloads().fresh_bytes(),
        SPAN_BYTES + rounds as usize
    );
    door.give_back(kept);
}

#[test]
fn pieces_that_threads_take_and_give_back_at_the_same_time_are_counted_exactly() {
    const SPAN_BYTES: usize = 16 * BLOCK_BYTES;
    let rounds = if cfg!(miri) { 2 } else { 30_000 };
    let shared = Shared::reserve(64 * MIB).unwrap();
    let mut door = Door::new(&shared);
    let kept = door.allocate(SPAN_BYTES).unwrap();
    let work = || {
        let mut door = Door::new(&shared);
        for _ in 0..rounds {
            let pieces = door.pieces(200, 48);
            pieces.into_iter().for_each(|piece| door.give_back(piece));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    assert_eq!(shared.payloads().in_use_bytes(), SPAN_BYTES);
    assert_eq!(shared.payloads().fresh_bytes(), SPAN_BYTES);
    door.give_back(kept);
    door.flush();
    assert_nothing_in_use(&shared);
}

/// A piece that one thread wrote to and freed, others allocate and write to, whether its row
/// was full or its thread has ended: the pool's lock alone orders that. Miri finds two threads
/// that use a piece at once.
#[test]
fn what_a_thread_wrote_before_it_freed_a_piece_is_over_when_another_gets_it() {
    const SIZE: usize = 1024;
    let rounds = if cfg!(miri) { 3 } else { 200 };
    let shared = Shared::reserve(16 * MIB).unwrap();
    std::thread::scope(|scope| {
        let (give, take) = std::sync::mpsc::channel::<usize>();
        let begin = |seed: u8, give: std::sync::mpsc::Sender<usize>| {
            let shared = &shared;
            scope.spawn(move || {
                for _ in 0..rounds {
                    let mut door = Door::new(shared);
                    let pieces = door.pieces(12, SIZE);
                    for (index, &piece) in pieces.iter().enumerate() {
                        // SAFETY: the piece is ours; half of the pieces become somebody else's
                        // afterwards.
                        unsafe { piece.as_ptr().write_bytes(seed, SIZE) };
                        if index % 2 == 0 {
                            give.send(piece.as_ptr() as usize).unwrap();
                        } else {
                            door.give_back(piece);
                        }
                    }
                }
            });
        };
        begin(1, give.clone());
        begin(2, give);
        let mut door = Door::new(&shared);
        for address in take {
            let piece = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(address)).unwrap();
            // SAFETY: the thread that had the piece has sent it here.
            unsafe {
                let seed = piece.read();
                assert!(matches!(seed, 1 | 2));
                assert_eq!(piece.add(SIZE - 1).read(), seed);
                piece.as_ptr().write_bytes(3, SIZE);
                door.free(piece);
            }
        }
    });
    assert_nothing_in_use(&shared);
}

/// How a VM uses a buffer of 64 KiB that nobody writes to: a zero at its beginning, one behind
/// its end.
#[test]
#[cfg(not(miri))]
fn of_a_buffer_that_is_a_little_longer_than_blocks_one_page_is_resident() {
    const BUFFERS: usize = 400;
    for whole_blocks in [1, 3, 8] {
        let shared = Shared::reserve(512 * MIB).unwrap();
        let heap = Heap::new(ToyVm::new(&shared), &shared, PaceOptions::default()).unwrap();
        let mut door = Door::new(&shared);
        let bytes = whole_blocks * BLOCK_BYTES + 1;
        let buffers: Vec<_> = (0..BUFFERS)
            .map(|_| {
                let buffer = door.allocate(bytes).unwrap();
                // SAFETY: the buffer is ours and this long.
                unsafe {
                    buffer.write(0);
                    buffer.add(bytes - 1).write(0);
                }
                buffer
            })
            .collect();
        let blocks = shared.space().blocks().counts().in_use;
        assert!(blocks <= BUFFERS * whole_blocks + 4, "{blocks} blocks");
        let pages = process::resident_pages(heap.region().start(), blocks * BLOCK_BYTES);
        assert!(pages <= BUFFERS + 4, "{pages} pages");
        heap.verify().unwrap();
        for buffer in buffers {
            door.give_back(buffer);
        }
        heap.verify().unwrap();
        assert_nothing_in_use(&shared);
    }
}

#[test]
fn buffers_that_share_blocks_and_are_replaced_in_any_order_stay_together() {
    for page_bytes in [4 << 10, 16 << 10, BLOCK_BYTES] {
        replace_buffers_that_share_blocks(page_bytes);
    }
}

fn replace_buffers_that_share_blocks(page_bytes: usize) {
    const BUFFERS: usize = 60;
    let shared = Shared::reserve_in_pages(64 * MIB, page_bytes).unwrap();
    let heap = Heap::new(ToyVm::new(&shared), &shared, PaceOptions::default()).unwrap();
    let mut door = Door::new(&shared);
    let mut number = 1usize;
    let mut buffers = Vec::new();
    for round in 0..if cfg!(miri) { 100 } else { 10_000 } {
        buffers.push(door.written(BLOCK_BYTES + 1, round as u8));
        while buffers.len() > BUFFERS * (round / 100 % 2) {
            number = number.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(99);
            let old = buffers.swap_remove((number >> 33) % buffers.len());
            free(&mut door, old);
            if round / 100 % 2 == 0 && buffers.len() % 4 == 3 {
                break;
            }
        }
        if round % 100 == 0 {
            heap.verify().unwrap();
        }
        if round % 1000 == 500 {
            // What is left of shared blocks goes back, too.
            heap.release_empty_blocks();
        }
    }
    let blocks = shared.space().blocks().used_limit();
    assert!(blocks < 2 * BUFFERS, "{blocks} blocks were used");
    buffers.into_iter().for_each(|old| free(&mut door, old));
    heap.verify().unwrap();
    assert_nothing_in_use(&shared);
}

#[test]
fn a_buffer_that_cannot_grow_where_it_is_leaves_its_last_block_to_others() {
    const BYTES: usize = 2 * BLOCK_BYTES + 100;
    let shared = Shared::reserve(64 * MIB).unwrap();
    let heap = Heap::new(ToyVm::new(&shared), &shared, PaceOptions::default()).unwrap();
    let mut door = Door::new(&shared);
    let first = door.allocate(BYTES).unwrap();
    let second = door.allocate(BYTES).unwrap();
    // SAFETY: the payload is ours.
    assert!(!unsafe { door.resize_in_place(second, 5 * BLOCK_BYTES) });
    heap.verify().unwrap();
    let third = door.allocate(BYTES).unwrap();
    assert_eq!(shared.space().blocks().counts().in_use, 7);
    for payload in [first, second, third] {
        door.give_back(payload);
    }
    assert_nothing_in_use(&shared);
}

/// The buffer would grow to where its neighbour begins.
#[test]
fn a_buffer_that_shares_a_block_grows_and_shrinks_and_leaves_its_neighbours_alone() {
    const BYTES: usize = 2 * BLOCK_BYTES + 100;
    for (victim, new_bytes) in [0, 1, 2].into_iter().flat_map(|victim| {
        let sizes = [
            1,
            40_000,
            BLOCK_BYTES,
            BYTES - 90,
            BYTES,
            BYTES + 12,
            BYTES + 13,
        ];
        let larger = [3 * BLOCK_BYTES, 3 * BLOCK_BYTES + 1, 70 * BLOCK_BYTES + 7];
        sizes
            .into_iter()
            .chain(larger)
            .map(move |bytes| (victim, bytes))
    }) {
        let shared = Shared::reserve(64 * MIB).unwrap();
        let heap = Heap::new(ToyVm::new(&shared), &shared, PaceOptions::default()).unwrap();
        let mut door = Door::new(&shared);
        let mut buffers: Vec<_> = (0..3).map(|seed| door.written(BYTES, seed)).collect();
        assert_eq!(shared.space().blocks().counts().in_use, 7);
        let old = buffers.remove(victim);
        let moved = door.resized(old.payload, new_bytes).unwrap();
        old.check(moved, new_bytes.min(BYTES));
        heap.verify().unwrap();
        buffers.push(Written::new(moved, new_bytes, 3));
        // What is allocated now lies beside all of these buffers.
        buffers.extend((4..8).map(|seed| door.written(BYTES, seed)));
        heap.verify().unwrap();
        for buffer in buffers {
            buffer.check(buffer.payload, usize::MAX);
            free(&mut door, buffer);
            heap.verify().unwrap();
        }
        door.flush();
        assert_nothing_in_use(&shared);
    }
}

/// What a span leaves of a block that its neighbour keeps goes back to the system, and only that.
#[test]
#[cfg(not(miri))]
fn what_a_buffer_leaves_in_a_block_that_it_shared_goes_back_to_the_system() {
    let shared = Shared::reserve(64 * MIB).unwrap();
    let heap = Heap::new(ToyVm::new(&shared), &shared, PaceOptions::default()).unwrap();
    let mut door = Door::new(&shared);
    let bytes = BLOCK_BYTES + 1;
    let mut buffers: Vec<_> = (0..20)
        .map(|seed| {
            let payload = door.allocate(bytes).unwrap();
            // SAFETY: the payload is ours and this long.
            unsafe { payload.write_bytes(9, bytes) };
            Written::new(payload, bytes, seed)
        })
        .collect();
    for index in (0..10).rev() {
        free(&mut door, buffers.remove(2 * index + 1));
    }
    let pages = || process::resident_pages(heap.region().start(), 21 * BLOCK_BYTES);
    let page_bytes = ashlar_heap::os::page_bytes();
    assert!(pages() * page_bytes > 20 * BLOCK_BYTES);
    heap.release_empty_blocks();
    assert!(pages() * page_bytes < 12 * BLOCK_BYTES, "{} pages", pages());
    heap.verify().unwrap();
    buffers.extend((90..100).map(|seed| door.written(bytes, seed)));
    assert_eq!(shared.space().blocks().counts().in_use, 21);
    for buffer in buffers {
        buffer.check(buffer.payload, usize::MAX);
        free(&mut door, buffer);
    }
}
