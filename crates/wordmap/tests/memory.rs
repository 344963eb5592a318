//! Nodes come from the source they should, go back to it, and their absence
//! is a value that leaves the map as it was.

use ashlar_wordmap::memory::{GlobalPages, NodeHeap, NodeSource, PageSource, SystemPages};
use ashlar_wordmap::{OutOfMemory, WordMap, WordSet};
use std::alloc::{alloc, dealloc, Layout};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::NonNull;

/// Hands out each block by itself, checks what comes back, and fails on demand.
#[derive(Default)]
struct Strict {
    live: RefCell<HashMap<usize, (usize, usize)>>,
    /// Allocations until the next one fails; negative: none does.
    fuse: Cell<i64>,
    failures: Cell<u64>,
}

// SAFETY: blocks come from the global allocator, one each.
unsafe impl NodeSource for &Strict {
    fn allocate(&self, bytes: usize) -> Option<NonNull<u8>> {
        assert!(bytes % 8 == 0 && bytes > 0 && bytes <= 4000);
        self.fuse.set(self.fuse.get() - 1);
        if self.fuse.get() == 0 {
            self.failures.set(self.failures.get() + 1);
            return None;
        }
        // SAFETY: the layout is not empty.
        let block = unsafe { alloc(Layout::from_size_align(bytes, 8).unwrap()) };
        self.live
            .borrow_mut()
            .insert(block as usize, (bytes, bytes));
        NonNull::new(block)
    }

    unsafe fn release(&self, block: NonNull<u8>, bytes: usize) {
        let (allocated, told) = self
            .live
            .borrow_mut()
            .remove(&(block.as_ptr() as usize))
            .unwrap();
        assert_eq!(told, bytes, "a block goes back with another size");
        // SAFETY: the block was allocated with this layout.
        unsafe {
            dealloc(
                block.as_ptr(),
                Layout::from_size_align(allocated, 8).unwrap(),
            )
        };
    }

    unsafe fn shrink(&self, block: NonNull<u8>, old_bytes: usize, new_bytes: usize) {
        let mut live = self.live.borrow_mut();
        let entry = live.get_mut(&(block.as_ptr() as usize)).unwrap();
        assert_eq!(entry.1, old_bytes);
        assert!(new_bytes <= old_bytes);
        entry.1 = new_bytes;
    }
}

fn scrambled(i: u64) -> u64 {
    let x = i
        .wrapping_add(0x9e37_79b9_7f4a_7c15)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (x ^ (x >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb) ^ x >> 7
}

/// How much of something a test does; a little of it under Miri, which takes a thousand times
/// as long.
fn amount(usual: u64, under_miri: u64) -> u64 {
    if cfg!(miri) {
        under_miri
    } else {
        usual
    }
}

type Family = (&'static str, fn(u64) -> u64);

fn families() -> [Family; 4] {
    [
        ("dense", |i| i),
        ("clustered", |i| {
            (scrambled(i / 16) & 0x1fff_ffff_fff0) + i % 16
        }),
        ("random", scrambled),
        ("crowded", |i| scrambled(i) % 4096),
    ]
}

#[test]
fn every_block_goes_back_with_the_size_it_had() {
    for (name, key) in families() {
        let source = Strict::default();
        let mut map = WordMap::new_in(&source);
        let n = amount(6000, 100);
        for i in 0..n {
            map.insert(key(i), i);
        }
        let asked: usize = source.live.borrow().values().map(|b| b.1).sum();
        assert_eq!(map.memory_used(), asked, "{name}");
        for i in (0..n).step_by(3) {
            map.remove(key(i));
        }
        map.verify().unwrap();
        drop(map);
        assert!(
            source.live.borrow().is_empty(),
            "{name}: blocks left behind"
        );
    }
}

#[test]
fn a_failed_insertion_changes_nothing() {
    for (name, key) in families() {
        let source = Strict::default();
        let mut map = WordMap::new_in(&source);
        let mut model = BTreeMap::new();
        let n = amount(5000, 100);
        for i in 0..n {
            // Fails at the first, second or third allocation of the insertion, if it makes any.
            source.fuse.set((scrambled(i) >> 33) as i64 % 4);
            match map.try_insert(key(i), i) {
                Ok(old) => assert_eq!(old, model.insert(key(i), i)),
                Err(OutOfMemory) => assert!(!map.contains_key(key(i))),
            }
            if i % 64 == 0 {
                map.verify().unwrap();
                assert!(
                    map.iter()
                        .map(|(k, &v)| (k, v))
                        .eq(model.iter().map(|(&k, &v)| (k, v))),
                    "{name}"
                );
            }
        }
        assert!(
            source.failures.get() > amount(100, 1),
            "{name}: the test must fail allocations: {}",
            source.failures.get()
        );
        drop(map);
        assert!(
            source.live.borrow().is_empty(),
            "{name}: blocks left behind"
        );
    }
}

/// As [`a_failed_insertion_changes_nothing`] where a run is to go on behind a full leaf: each of
/// the allocations fails in its turn, with and without a branch above.
#[test]
fn a_run_that_cannot_go_on_stays_as_it_is() {
    for start in [0u64, 3 << 8, 1 << 16] {
        for fuse in 1.. {
            let source = Strict::default();
            let mut map = WordMap::new_in(&source);
            let mut set = WordSet::new_in(&source);
            for i in 0..256 {
                map.insert(start + i, i);
                set.insert(start + i);
            }
            for other in [start + 0x1_0000, start + 0x2_0000] {
                map.insert(other, other);
                set.insert(other);
            }
            // Where the last insertion went is where the run is.
            map.insert(start + 255, 255);
            let failures = source.failures.get();
            let next = start + 256;
            source.fuse.set(fuse);
            let in_map = map.try_insert(next, 1).is_ok();
            source.fuse.set(fuse);
            let in_set = set.try_insert(next).is_ok();
            source.fuse.set(-1);
            assert_eq!(
                (map.contains_key(next), set.contains(next)),
                (in_map, in_set)
            );
            assert_eq!(
                (map.len(), set.len()),
                (258 + usize::from(in_map), 258 + usize::from(in_set))
            );
            map.verify().unwrap();
            set.verify().unwrap();
            let is_done = source.failures.get() == failures;
            drop((map, set));
            assert!(source.live.borrow().is_empty(), "blocks left behind");
            if is_done {
                assert!(fuse > 1, "the test must fail allocations");
                break;
            }
        }
    }
}

#[test]
fn building_without_memory_leaves_nothing_behind() {
    for (name, key) in families() {
        let mut keys: Vec<u64> = (0..amount(4000, 80)).map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        let source = Strict::default();
        let mut loose = WordMap::new_in(&source);
        for &k in &keys {
            loose.insert(k, !k);
        }
        let blocks = source.live.borrow().len();
        for fuse in 1.. {
            let failures = source.failures.get();
            source.fuse.set(fuse);
            let mut map = WordMap::new_in(&source);
            let built = map.try_fill_sorted(keys.iter().map(|&k| (k, k)));
            assert_eq!(built.is_err(), source.failures.get() > failures, "{name}");
            drop(map);
            assert_eq!(
                source.live.borrow().len(),
                blocks,
                "{name}: blocks left behind"
            );
            source.fuse.set(fuse);
            loose.shrink_to_fit();
            source.fuse.set(-1);
            assert!(loose
                .iter()
                .map(|(k, &v)| (k, v))
                .eq(keys.iter().map(|&k| (k, !k))));
            if built.is_ok() {
                assert!(fuse > 1, "{name}: the test must fail allocations");
                break;
            }
            assert_eq!(
                source.live.borrow().len(),
                blocks,
                "{name}: blocks left behind"
            );
        }
        loose.verify().unwrap();
    }
}

/// The function that chooses values may panic at any key.
#[test]
fn a_merge_that_panics_changes_nothing() {
    let n = amount(3000, 60);
    for panics_at in [0, 1, n / 2, n - 1] {
        let source = Strict::default();
        let mut map = WordMap::new_in(&source);
        map.extend((0..n).map(|i| (i * 3, !i)));
        let other: WordMap = (0..n).map(|i| (i * 3, i)).collect();
        let blocks = source.live.borrow().len();
        let bytes = map.memory_used();
        let choose = |key: u64, _, _| {
            if key < panics_at * 3 {
                7
            } else {
                panic!("at {key}")
            }
        };
        let merged = catch_unwind(AssertUnwindSafe(|| map.merge(&other, choose)));
        assert!(merged.is_err());
        assert!(map
            .iter()
            .map(|(k, &v)| (k, v))
            .eq((0..n).map(|i| (i * 3, !i))));
        assert_eq!(
            (source.live.borrow().len(), map.memory_used()),
            (blocks, bytes)
        );
        map.verify().unwrap();
        map.merge(&other, |_, mine, _| mine);
        assert_eq!(map.len(), other.len());
        drop(map);
        assert!(source.live.borrow().is_empty(), "blocks left behind");
    }
}

#[test]
fn removal_from_a_map_needs_no_memory() {
    for (name, key) in families() {
        let source = Strict::default();
        let mut map = WordMap::new_in(&source);
        let mut model = BTreeMap::new();
        let n = amount(20_000, 100);
        for i in 0..n {
            map.insert(key(i), i);
            model.insert(key(i), i);
        }
        for i in 0..n {
            let k = key(scrambled(i) % n);
            source.fuse.set(1 + (i % 2) as i64);
            assert_eq!(map.remove(k), model.remove(&k), "{name}");
            if i % 64 == 0 {
                map.verify().unwrap();
                assert!(
                    map.iter()
                        .map(|(k, &v)| (k, v))
                        .eq(model.iter().map(|(&k, &v)| (k, v))),
                    "{name}"
                );
            }
        }
        assert!(
            source.failures.get() > amount(100, 0),
            "{name}: the test must fail allocations: {}",
            source.failures.get()
        );
        drop(map);
        assert!(
            source.live.borrow().is_empty(),
            "{name}: blocks left behind"
        );
    }
}

/// One less from maps of every small size, wherever it is, with memory for a smaller block
/// and without: the map is the model less the key, and so is what removing the rest leaves.
#[test]
fn small_maps_shrink_to_the_blocks_that_they_grew_through() {
    let sizes = if cfg!(miri) { 1..=4 } else { 1..=33 };
    for (stride, n) in [1, 8, 40]
        .iter()
        .flat_map(|s| sizes.clone().map(move |n| (*s, n)))
    {
        let key = |i: u64| 26_300 + stride * i;
        for at in 0..n {
            for fails in [false, true] {
                let source = Strict::default();
                let mut map = WordMap::new_in(&source);
                let mut model: BTreeMap<u64, u64> = (0..n).map(|i| (key(i), !i)).collect();
                map.extend(model.iter().map(|(&k, &v)| (k, v)));
                let grown = map.memory_used();
                source.fuse.set(i64::from(fails));
                assert_eq!(
                    map.remove(key(at) + stride / 2 + 1),
                    model.remove(&(key(at) + stride / 2 + 1))
                );
                assert_eq!(map.remove(key(at)), model.remove(&key(at)));
                source.fuse.set(-1);
                map.verify().unwrap();
                assert!(map
                    .iter()
                    .map(|(k, &v)| (k, v))
                    .eq(model.iter().map(|(&k, &v)| (k, v))));
                if !fails {
                    let fresh: WordMap = model.iter().map(|(&k, &v)| (k, v)).collect();
                    assert!(map.memory_used() <= grown.max(fresh.memory_used()));
                }
                for i in (0..n).map(|i| key((i + at) % n)) {
                    assert_eq!(map.remove(i), model.remove(&i));
                }
                assert!(map.is_empty() && source.live.borrow().is_empty());
            }
        }
    }
}

#[test]
fn a_set_survives_failing_memory() {
    // Neighbours fill bitmaps, which seldom need another block; the others lists and groups.
    for stride in [1, 0x101, 0x1_0001] {
        let source = Strict::default();
        let mut set = WordSet::new_in(&source);
        let mut model = BTreeSet::new();
        let mut turn = 0;
        let (failures, turns_log2) = (amount(100, 3), amount(14, 6));
        while source.failures.get() <= failures {
            turn += 1;
            assert!(turn < 2_000_000, "the test must fail allocations");
            let k = scrambled(turn) % amount(3000, 150) * stride;
            source.fuse.set((scrambled(turn) >> 40) as i64 % 3);
            // Mostly full and mostly empty by turns, so that leaves come and go.
            let inserting = if turn >> turns_log2 & 1 == 0 { 8 } else { 2 };
            if scrambled(turn) >> 50 & 15 < inserting {
                if let Ok(is_new) = set.try_insert(k) {
                    assert_eq!(is_new, model.insert(k));
                }
            } else if let Ok(was_there) = set.try_remove(k) {
                assert_eq!(was_there, model.remove(&k));
            }
            if turn % 1024 == 0 {
                set.verify().unwrap();
                assert!(set.iter().eq(model.iter().copied()));
            }
        }
        set.verify().unwrap();
        assert!(set.iter().eq(model.iter().copied()));
        drop(set);
        assert!(source.live.borrow().is_empty(), "blocks left behind");
    }
}

/// Blocks of few sizes, so that each size has pages, come and go in any order; those that go
/// are named by any word in them.
#[test]
fn a_heap_hands_out_blocks_that_do_not_overlap() {
    let heap = NodeHeap::new(GlobalPages);
    let sizes = [16, 24, 72, 104, 344, 504, 512, 520, 2088, 4000];
    let turns = amount(200_000, 300);
    let mut live: BTreeMap<usize, (NonNull<u8>, usize)> = BTreeMap::new();
    for turn in 0..turns {
        let random = scrambled(turn);
        // Mostly growing and mostly shrinking by turns.
        let grows = random % 8 < if turn * 8 / turns % 2 == 0 { 6 } else { 2 };
        if grows || live.is_empty() {
            let bytes = sizes[(random >> 8) as usize % sizes.len()];
            let block = heap.allocate(bytes).unwrap();
            let at = block.as_ptr() as usize;
            assert_eq!(at % 8, 0);
            let before = live.range(..at + bytes).next_back();
            assert!(
                before.is_none_or(|(start, (_, bytes))| start + bytes <= at),
                "blocks overlap"
            );
            // SAFETY: the block is ours.
            unsafe { block.as_ptr().write_bytes(0xa5, bytes) };
            live.insert(at, (block, bytes));
        } else {
            let somewhere = live.keys().next().unwrap() + (random >> 20) as usize % (1 << 20);
            let found = live.range(somewhere..).next().or(live.iter().next());
            let (&at, &(block, bytes)) = found.unwrap();
            live.remove(&at);
            // SAFETY: the block is ours, and goes back with the length it has.
            unsafe {
                let inside = block.add((random >> 8) as usize % (bytes / 8) * 8);
                assert_eq!(heap.release_around(inside, || (block, bytes)), bytes);
            }
        }
    }
    for (block, bytes) in live.into_values() {
        // SAFETY: the block is ours, and goes back with the length it has.
        unsafe { heap.release(block, bytes) };
    }
    let usage = heap.usage();
    assert_eq!(
        usage.reserved_bytes, usage.spare_bytes,
        "blocks left behind"
    );
    heap.trim();
}

/// Notes which chunks are out, and how many come back at a time.
#[derive(Default)]
struct Noting {
    out: RefCell<BTreeSet<NonNull<u8>>>,
    brought_in: Cell<usize>,
    batch_max: Cell<usize>,
}

// SAFETY: the global allocator's chunks.
unsafe impl PageSource for &Noting {
    fn allocate_chunk(&self, bytes: usize) -> Option<NonNull<u8>> {
        let chunk = GlobalPages.allocate_chunk(bytes)?;
        assert!(self.out.borrow_mut().insert(chunk));
        Some(chunk)
    }

    unsafe fn release_chunk(&self, chunk: NonNull<u8>, bytes: usize) {
        assert!(self.out.borrow_mut().remove(&chunk), "not a chunk of ours");
        // SAFETY: the chunk is the global allocator's, and was asked for with this size.
        unsafe { GlobalPages.release_chunk(chunk, bytes) };
    }

    unsafe fn release_chunks(&self, chunks: &mut [NonNull<u8>], bytes: usize) {
        self.batch_max.set(self.batch_max.get().max(chunks.len()));
        for chunk in chunks {
            // SAFETY: each chunk comes from this source with this size.
            unsafe { self.release_chunk(*chunk, bytes) };
        }
    }

    unsafe fn bring_in(&self, chunk: NonNull<u8>, bytes: usize) {
        assert!(self.out.borrow().contains(&chunk) && bytes == 65536);
        self.brought_in.set(self.brought_in.get() + 1);
    }
}

/// What is kept empty is an eighth of what is in use at most, or one chunk, at every moment;
/// each chunk goes back once; and those that a large shard takes are brought in.
#[test]
#[cfg_attr(
    miri,
    ignore = "Miri puts each local anywhere, so a thread has no shard of its own"
)]
fn empty_chunks_go_back_together_and_few_are_kept() {
    let pages = Noting::default();
    let heap = NodeHeap::new(&pages);
    let chunks = 200;
    let take = || heap.allocate(4000).unwrap();
    let mut blocks = vec![take()];
    while heap.usage().reserved_bytes <= chunks * 65536 {
        blocks.push(take());
    }
    assert_eq!(pages.brought_in.get(), chunks + 1 - 16);
    for block in blocks {
        // SAFETY: the block is ours, and goes back with the length it has.
        unsafe { heap.release(block, 4000) };
        let usage = heap.usage();
        assert_eq!(pages.out.borrow().len() * 65536, usage.reserved_bytes);
        let in_use = usage.reserved_bytes - usage.spare_bytes;
        assert!(usage.spare_bytes <= (in_use / 8).max(65536) + 65536);
    }
    assert_eq!(pages.batch_max.get(), 16);
    assert_eq!(heap.usage().reserved_bytes, 65536);
    heap.trim();
    assert!(pages.out.borrow().is_empty(), "chunks left behind");
}

/// The nodes of maps that are made and dropped one after another are kept as they are, in the
/// one chunk that would be kept empty; it counts as that, and goes back when asked for.
#[test]
#[cfg_attr(
    miri,
    ignore = "Miri puts each local anywhere, so a thread has no shard of its own"
)]
fn what_is_kept_of_dropped_maps_counts_as_spare() {
    let pages = Noting::default();
    let heap = NodeHeap::new(&pages);
    for turn in 0..3 {
        let mut map = WordMap::new_in(&heap);
        for key in 0..20 {
            map.insert(key * 8, key);
        }
        drop(map);
        assert_eq!(pages.out.borrow().len(), 1);
        if turn > 0 {
            let usage = heap.usage();
            assert_eq!((usage.reserved_bytes, usage.spare_bytes), (65536, 65536));
        }
    }
    heap.trim();
    assert!(pages.out.borrow().is_empty(), "chunks left behind");
}

/// Refuses one chunk, or all from one on.
struct Refusing {
    asked: Cell<u64>,
    refused: std::ops::Range<u64>,
    given: Noting,
}

// SAFETY: chunks of the global allocator.
unsafe impl PageSource for &Refusing {
    fn allocate_chunk(&self, bytes: usize) -> Option<NonNull<u8>> {
        self.asked.set(self.asked.get() + 1);
        match self.refused.contains(&self.asked.get()) {
            true => None,
            false => (&self.given).allocate_chunk(bytes),
        }
    }

    unsafe fn release_chunk(&self, chunk: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's duty: it was asked for here, and so there.
        unsafe { (&self.given).release_chunk(chunk, bytes) };
    }
}

/// Whichever chunk the system refuses, alone or with all after it: insertions without memory
/// say so and change nothing, removals need none, and every chunk goes back once.
#[test]
fn a_map_survives_the_refusal_of_any_chunk() {
    let refuse = |refused: std::ops::Range<u64>| {
        let pages = Refusing {
            asked: Cell::new(0),
            refused: refused.clone(),
            given: Noting::default(),
        };
        let heap = NodeHeap::new(&pages);
        let mut map = WordMap::new_in(&heap);
        let mut model = BTreeMap::new();
        for i in 0..amount(40_000, 400) {
            let key = if i % 3 == 0 { scrambled(i) } else { i };
            match map.try_insert(key, i) {
                Ok(old) => assert_eq!(old, model.insert(key, i)),
                Err(OutOfMemory) => assert_eq!(map.get(key), model.get(&key)),
            }
            if i % 5 == 4 {
                let gone = i - i % 4;
                assert_eq!(map.remove(gone), model.remove(&gone));
            }
        }
        map.verify().unwrap();
        let entries = map.iter().map(|(key, &value)| (key, value));
        assert!(entries.eq(model.iter().map(|(&key, &value)| (key, value))));
        let was_refused = pages.asked.get() >= refused.start;
        if was_refused {
            assert!(model.len() < amount(40_000, 400) as usize);
        }
        drop(map);
        heap.trim();
        assert!(pages.given.out.borrow().is_empty(), "chunks left behind");
        was_refused
    };
    for last in [false, true] {
        let mut first = 1;
        while refuse(first..if last { u64::MAX } else { first + 1 }) {
            first += 1;
        }
        assert!(first > amount(8, 1), "few chunks were asked for");
    }
}

/// Notes which chunks are out, of regions too where it has some.
struct InRegions {
    out: RefCell<BTreeSet<NonNull<u8>>>,
    regions_left: Cell<usize>,
    regions_taken: Cell<usize>,
}

// SAFETY: mappings of the system's.
unsafe impl PageSource for &InRegions {
    fn allocate_chunk(&self, bytes: usize) -> Option<NonNull<u8>> {
        let chunk = SystemPages.allocate_chunk(bytes)?;
        assert!(self.out.borrow_mut().insert(chunk));
        Some(chunk)
    }

    fn allocate_region(&self, bytes: usize, chunks: usize) -> Option<NonNull<u8>> {
        self.regions_left
            .set(self.regions_left.get().checked_sub(1)?);
        self.regions_taken.set(self.regions_taken.get() + 1);
        let region = SystemPages.allocate_region(bytes, chunks)?;
        assert_eq!(region.as_ptr() as usize % (bytes * chunks), 0);
        for i in 0..chunks {
            // SAFETY: a chunk of the region.
            let chunk = unsafe { region.add(i * bytes) };
            assert!(self.out.borrow_mut().insert(chunk));
        }
        Some(region)
    }

    unsafe fn release_chunk(&self, chunk: NonNull<u8>, bytes: usize) {
        assert!(self.out.borrow_mut().remove(&chunk), "not a chunk of ours");
        // SAFETY: the chunk is the system's, and was asked for with this size.
        unsafe { SystemPages.release_chunk(chunk, bytes) };
    }
}

/// A shard takes regions from 32 MiB on and single chunks where none is to be had; every
/// chunk of a region goes back once, those never used too, and what the heap says that it
/// holds is what is out, at every moment.
#[test]
#[cfg_attr(
    any(miri, not(target_os = "linux")),
    ignore = "only Linux's pages come in regions"
)]
fn a_large_shard_takes_regions_and_gives_all_of_them_back() {
    const CHUNK: usize = 65536;
    const REGION: usize = 32 * CHUNK;
    let pages = InRegions {
        out: RefCell::default(),
        regions_left: Cell::new(3),
        regions_taken: Cell::new(0),
    };
    let heap = NodeHeap::new(&pages);
    let is_told = || {
        let usage = heap.usage();
        assert_eq!(pages.out.borrow().len() * CHUNK, usage.reserved_bytes);
        usage
    };
    let mut blocks = Vec::new();
    let mut grow_to = |bytes: usize| {
        while is_told().reserved_bytes < bytes {
            blocks.push(heap.allocate(4000).unwrap());
        }
    };
    grow_to(512 * CHUNK);
    assert_eq!(pages.regions_taken.get(), 0);
    grow_to(513 * CHUNK);
    assert_eq!(pages.regions_taken.get(), 1);
    let usage = is_told();
    assert_eq!(usage.reserved_bytes, 512 * CHUNK + REGION);
    assert_eq!(usage.spare_bytes, REGION - CHUNK);
    // Three regions there are, then chunks by themselves.
    grow_to(512 * CHUNK + 3 * REGION + 5 * CHUNK);
    assert_eq!(pages.regions_taken.get(), 3);
    assert_eq!(is_told().spare_bytes, 0);
    // One more region; most of it is never used.
    pages.regions_left.set(1);
    grow_to(512 * CHUNK + 4 * REGION + 5 * CHUNK);
    assert_eq!(is_told().spare_bytes, REGION - CHUNK);

    for block in blocks {
        // SAFETY: the block is ours, and goes back with the length it has.
        unsafe { heap.release(block, 4000) };
        let usage = is_told();
        let in_use = usage.reserved_bytes - usage.spare_bytes;
        let of_region = if in_use > 400 * CHUNK { REGION } else { 0 };
        assert!(usage.spare_bytes <= (in_use / 8).clamp(CHUNK, 16 * CHUNK) + CHUNK + of_region);
    }
    assert_eq!(is_told().reserved_bytes, CHUNK);
    heap.trim();
    assert!(pages.out.borrow().is_empty(), "chunks left behind");
}

/// What a shard has of a region and never used goes back when asked for.
#[test]
#[cfg_attr(
    any(miri, not(target_os = "linux")),
    ignore = "only Linux's pages come in regions"
)]
fn trimming_gives_back_what_is_left_of_a_region() {
    let pages = InRegions {
        out: RefCell::default(),
        regions_left: Cell::new(1),
        regions_taken: Cell::new(0),
    };
    let heap = NodeHeap::new(&pages);
    let mut blocks = Vec::new();
    while pages.regions_taken.get() == 0 {
        blocks.push(heap.allocate(4000).unwrap());
    }
    assert!(heap.usage().spare_bytes > 0);
    heap.trim();
    let usage = heap.usage();
    assert_eq!(usage.spare_bytes, 0);
    assert_eq!(usage.reserved_bytes, 513 * 65536);
    assert_eq!(pages.out.borrow().len(), 513);
    blocks.push(heap.allocate(4000).unwrap());
    for block in blocks {
        // SAFETY: the block is ours, and goes back with the length it has.
        unsafe { heap.release(block, 4000) };
    }
    heap.trim();
    assert!(pages.out.borrow().is_empty(), "chunks left behind");
}

/// The system takes neighbours in one call: those between them that are in use stay.
#[test]
fn chunks_of_the_system_go_back_in_any_order() {
    const BYTES: usize = 65536;
    let mut chunks: Vec<_> = (0..12)
        .map(|_| SystemPages.allocate_chunk(BYTES).unwrap())
        .collect();
    for (i, chunk) in chunks.iter().enumerate() {
        assert_eq!(chunk.as_ptr() as usize % BYTES, 0);
        // SAFETY: the chunk is ours.
        unsafe {
            if i % 2 == 0 {
                SystemPages.bring_in(*chunk, BYTES);
            }
            chunk.as_ptr().write_bytes(i as u8 + 1, BYTES);
        }
    }
    // Two neighbours, one by itself, and three neighbours, in no order.
    let mut gone: Vec<_> = [9, 0, 8, 4, 1, 10].map(|i: usize| chunks[i]).to_vec();
    // SAFETY: chunks of ours that are not used any more.
    unsafe { SystemPages.release_chunks(&mut gone, BYTES) };
    chunks.retain(|chunk| !gone.contains(chunk));
    for (chunk, i) in chunks.iter().zip([2u8, 3, 5, 6, 7, 11]) {
        // SAFETY: the chunk is ours, and goes back once.
        unsafe {
            let held = std::slice::from_raw_parts(chunk.as_ptr(), BYTES);
            assert!(held.iter().step_by(4096).all(|byte| *byte == i + 1));
            SystemPages.release_chunk(*chunk, BYTES);
        }
    }
}

#[test]
fn threads_share_a_heap_and_free_each_others_nodes() {
    static HEAP: NodeHeap<GlobalPages> = NodeHeap::new(GlobalPages);
    let made: Vec<_> = (0..4u64)
        .map(|t| {
            std::thread::spawn(move || {
                let maps: Vec<_> = (0..amount(300, 12))
                    .map(|m| {
                        let mut map = WordMap::new_in(&HEAP);
                        for i in 0..m % 90 {
                            map.insert(scrambled(t * 1_000_000 + m * 1000 + i), i);
                        }
                        map
                    })
                    .collect();
                maps
            })
        })
        .map(|thread| thread.join().unwrap())
        .collect();
    std::thread::scope(|scope| {
        for (t, maps) in made.into_iter().enumerate() {
            scope.spawn(move || {
                for (m, mut map) in maps.into_iter().enumerate() {
                    assert_eq!(map.len(), m % 90);
                    for i in 0..(m % 90) as u64 {
                        let key = scrambled(t as u64 * 1_000_000 + m as u64 * 1000 + i);
                        assert_eq!(map.remove(key), Some(i));
                    }
                }
            });
        }
    });
    assert_eq!(
        HEAP.usage().reserved_bytes,
        HEAP.usage().spare_bytes,
        "nodes left behind"
    );
    HEAP.trim();
    assert_eq!(HEAP.usage().reserved_bytes, 0);
}
