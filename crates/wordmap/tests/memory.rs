//! Nodes come from the source they should, go back to it, and their absence
//! is a value that leaves the map as it was.

use ashlar_wordmap::memory::{GlobalPages, Heap, NodeSource};
use ashlar_wordmap::{OutOfMemory, WordMap, WordSet};
use std::alloc::{alloc, dealloc, Layout};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
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
        for i in 0..6000 {
            map.insert(key(i), i);
        }
        let asked: usize = source.live.borrow().values().map(|b| b.1).sum();
        assert_eq!(map.memory_used(), asked, "{name}");
        for i in (0..6000).step_by(3) {
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
        for i in 0..5000 {
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
            source.failures.get() > 100,
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

#[test]
fn building_without_memory_leaves_nothing_behind() {
    for (name, key) in families() {
        let mut keys: Vec<u64> = (0..4000).map(key).collect();
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

#[test]
fn removal_from_a_map_needs_no_memory() {
    for (name, key) in families() {
        let source = Strict::default();
        let mut map = WordMap::new_in(&source);
        let mut model = BTreeMap::new();
        for i in 0..20_000 {
            map.insert(key(i), i);
            model.insert(key(i), i);
        }
        for i in 0..20_000 {
            let k = key(scrambled(i) % 20_000);
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
            source.failures.get() > 100,
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
    let sizes = if cfg!(miri) { 1..=9 } else { 1..=33 };
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
        while source.failures.get() <= 100 {
            turn += 1;
            assert!(turn < 2_000_000, "the test must fail allocations");
            let k = scrambled(turn) % 3000 * stride;
            source.fuse.set((scrambled(turn) >> 40) as i64 % 3);
            // Mostly full and mostly empty by turns, so that leaves come and go.
            let inserting = if turn >> 14 & 1 == 0 { 8 } else { 2 };
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
    let heap = Heap::new(GlobalPages);
    let sizes = [16, 24, 72, 104, 344, 504, 512, 520, 2088, 4000];
    let turns = if cfg!(miri) { 1200 } else { 200_000 };
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

#[test]
fn threads_share_a_heap_and_free_each_others_nodes() {
    static HEAP: Heap<GlobalPages> = Heap::new(GlobalPages);
    let made: Vec<_> = (0..4u64)
        .map(|t| {
            std::thread::spawn(move || {
                let maps: Vec<_> = (0..300)
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
