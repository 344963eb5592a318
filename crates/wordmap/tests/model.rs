//! The map and the set behave as the standard library's ordered ones do,
//! and keep their own invariants, under any sequence of operations.

use ashlar_wordmap::{BuildError, LastStep, WordMap, WordSet};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Barrier;

/// Keys from families that lead to different shapes: dense, clustered,
/// spread over every byte, and the ends of the range.
fn key() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0u64..700,
        4 => (0u64..40, 0u64..16).prop_map(|(c, k)| c.wrapping_mul(0x1_3579_bdf1) & 0xff_ffff_fff0 | k),
        2 => any::<u64>(),
        2 => (0u32..8, 0u64..256).prop_map(|(b, v)| v << (8 * b)),
        1 => prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(u64::MAX - 1), Just(1 << 63)],
        3 => (0u64..3, 0u64..4000).prop_map(|(p, k)| (p << 40) + 20_000 + k),
    ]
}

#[derive(Debug, Clone)]
enum Operation {
    Insert(u64, u64),
    InsertRun(u64, u64, u64),
    Remove(u64),
    RemoveRange(u64, u64),
    Get(u64),
    Entry(u64),
    PopFirst,
    PopLast,
    Range(u64, u64),
    Nth(u64),
    Steps(u64, usize),
    Clear,
}

/// One for all walks of the tests: most guesses it gives are of another map, or stale.
static LAST_STEP: LastStep = LastStep::new();

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        20 => (key(), any::<u64>()).prop_map(|(k, v)| Operation::Insert(k, v)),
        6 => (key(), 1u64..400, 1u64..20).prop_map(|(k, n, s)| Operation::InsertRun(k, n, s)),
        12 => key().prop_map(Operation::Remove),
        2 => (key(), 0u64..5000).prop_map(|(k, n)| Operation::RemoveRange(k, n)),
        5 => key().prop_map(Operation::Get),
        4 => key().prop_map(Operation::Entry),
        1 => Just(Operation::PopFirst),
        1 => Just(Operation::PopLast),
        4 => (key(), key()).prop_map(|(a, b)| Operation::Range(a, b)),
        2 => (0u64..2000).prop_map(Operation::Nth),
        4 => (key(), 1usize..40).prop_map(|(k, n)| Operation::Steps(k, n)),
        1 => Just(Operation::Clear),
    ]
}

fn apply(map: &mut WordMap, model: &mut BTreeMap<u64, u64>, operation: Operation) {
    match operation {
        Operation::Insert(k, v) => assert_eq!(map.insert(k, v), model.insert(k, v)),
        Operation::InsertRun(k, n, stride) => {
            for i in 0..n {
                let k = k.wrapping_add(i * stride);
                assert_eq!(map.insert(k, i), model.insert(k, i));
            }
        }
        Operation::Remove(k) => {
            // A key that is there more often than not.
            let k = model.range(k..).next().map_or(k, |(&k, _)| k);
            assert_eq!(map.remove(k), model.remove(&k));
            assert_eq!(map.remove(k), None);
        }
        Operation::RemoveRange(k, n) => {
            let high = k.saturating_add(n);
            map.retain(|key, _| key < k || key > high);
            model.retain(|&key, _| key < k || key > high);
        }
        Operation::Get(k) => {
            assert_eq!(map.get(k), model.get(&k));
            assert_eq!(map.get_mut(k), model.get_mut(&k));
            assert_eq!(map.contains_key(k), model.contains_key(&k));
            assert_eq!(
                map.at_or_after(k),
                model.range(k..).next().map(|(&k, v)| (k, v))
            );
            let above = (Bound::Excluded(k), Bound::Unbounded);
            assert_eq!(
                map.after(k),
                model.range(above).next().map(|(&k, v)| (k, v))
            );
            assert_eq!(
                map.at_or_before(k),
                model.range(..=k).next_back().map(|(&k, v)| (k, v))
            );
            assert_eq!(map.rank(k), model.range(..k).count() as u64);
        }
        Operation::Entry(k) => {
            *map.entry(k).or_insert(7) += 1;
            *model.entry(k).or_insert(7) += 1;
        }
        Operation::PopFirst => assert_eq!(map.pop_first(), model.pop_first()),
        Operation::PopLast => assert_eq!(map.pop_last(), model.pop_last()),
        Operation::Range(a, b) => {
            let (low, high) = (a.min(b), a.max(b));
            let ours = map.range(low..=high).map(|(k, &v)| (k, v));
            assert!(ours.eq(model.range(low..=high).map(|(&k, &v)| (k, v))));
            let ours = map.range(low..high).rev().map(|(k, &v)| (k, v));
            assert!(ours.eq(model.range(low..high).rev().map(|(&k, &v)| (k, v))));
            let counted = model.range(low..=high).count() as u64;
            assert_eq!(map.count_range(low..=high), counted);
        }
        Operation::Nth(n) => {
            let expected = model.iter().nth(n as usize).map(|(&k, v)| (k, v));
            assert_eq!(map.nth(n), expected);
        }
        Operation::Steps(from, steps) => {
            let mut expected = model.range(from..).map(|(&k, v)| (k, v));
            let mut found = map.first_step(from, &LAST_STEP);
            for _ in 0..steps {
                assert_eq!(found, expected.next());
                let Some((key, _)) = found else { break };
                found = map.after_step(key, &LAST_STEP);
            }
        }
        Operation::Clear => {
            map.clear();
            model.clear();
        }
    }
}

fn assert_same(map: &WordMap, model: &BTreeMap<u64, u64>) {
    map.verify().unwrap();
    assert_eq!(map.len(), model.len());
    assert_eq!(map.is_empty(), model.is_empty());
    assert!(map
        .iter()
        .map(|(k, &v)| (k, v))
        .eq(model.iter().map(|(&k, &v)| (k, v))));
    assert!(map
        .iter()
        .rev()
        .map(|(k, &v)| (k, v))
        .eq(model.iter().rev().map(|(&k, &v)| (k, v))));
}

/// How many steps a random run takes at most.
const STEPS_MAX: usize = if cfg!(miri) { 12 } else { 120 };

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 1 } else { 300 },
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_map_does_what_the_model_does(operations in prop::collection::vec(operation(), 1..STEPS_MAX)) {
        let mut map = WordMap::new();
        let mut model = BTreeMap::new();
        for operation in operations {
            apply(&mut map, &mut model, operation);
            map.verify().unwrap();
        }
        assert_same(&map, &model);
    }

    #[test]
    fn both_ends_of_a_walk_meet_once(keys in prop::collection::btree_set(key(), 0..STEPS_MAX * 5 / 2), turns in prop::collection::vec(any::<bool>(), 0..STEPS_MAX * 10 / 3)) {
        let map: WordMap = keys.iter().map(|&k| (k, !k)).collect();
        let (mut ours, mut theirs) = (map.iter(), keys.iter());
        for front in turns {
            let (a, b) = if front { (ours.next(), theirs.next()) } else { (ours.next_back(), theirs.next_back()) };
            prop_assert_eq!(a.map(|(k, &v)| (k, v)), b.map(|&k| (k, !k)));
            prop_assert_eq!(ours.len(), theirs.len());
        }
    }

    #[test]
    fn a_set_does_what_the_model_does(runs in prop::collection::vec((key(), 1u64..300, any::<bool>()), 1..STEPS_MAX / 2)) {
        let mut set = WordSet::new();
        let mut model = BTreeSet::new();
        for (start, n, adding) in runs {
            for k in (0..n).map(|i| start.wrapping_add(i)) {
                if adding {
                    prop_assert_eq!(set.insert(k), model.insert(k));
                } else {
                    prop_assert_eq!(set.remove(k), model.remove(&k));
                }
                prop_assert_eq!(set.contains(k), adding);
            }
            set.verify().unwrap();
            prop_assert_eq!(set.at_or_after(start), model.range(start..).next().copied());
            let above = (Bound::Excluded(start), Bound::Unbounded);
            prop_assert_eq!(set.after(start), model.range(above).next().copied());
            prop_assert_eq!(set.at_or_before(start), model.range(..=start).next_back().copied());
            prop_assert_eq!(set.rank(start), model.range(..start).count() as u64);
            let mut step = set.first_step(start, &LAST_STEP);
            for &k in model.range(start..).take(20) {
                prop_assert_eq!(step, Some(k));
                step = set.after_step(k, &LAST_STEP);
            }
        }
        prop_assert!(set.iter().eq(model.iter().copied()));
        let mut at = set.first();
        for &k in &model {
            prop_assert_eq!(at, Some(k));
            at = set.after(k);
        }
        prop_assert_eq!(at, None);
        let mut at = set.first_step(0, &LAST_STEP);
        for &k in &model {
            prop_assert_eq!(at, Some(k));
            at = set.after_step(k, &LAST_STEP);
        }
        prop_assert_eq!(at, None);
        prop_assert!(set.iter().rev().eq(model.iter().rev().copied()));
        for (n, &k) in model.iter().enumerate().step_by(7) {
            prop_assert_eq!(set.nth(n as u64), Some(k));
        }
    }
}

/// Asks for the entry behind any key of a leaf, present or not, whatever the last step was.
#[test]
fn a_step_from_anywhere_is_not_misled_by_the_last_one() {
    let last = LastStep::new();
    let sizes = if cfg!(miri) {
        vec![2, 9]
    } else {
        vec![1, 2, 5, 6, 9, 16, 31, 40, 130]
    };
    for n in sizes {
        for stride in [1, 3, 200, 0x1_0001, 0x0123_4567_89ab_cdef / 200] {
            let map: WordMap = (1..=n).map(|i| (i * stride, i)).collect();
            let set: WordSet = (1..=n).map(|i| i * stride).collect();
            let after = |key: u64| {
                Some(key / stride + 1)
                    .filter(|i| *i <= n)
                    .map(|i| i * stride)
            };
            for turn in 0..if cfg!(miri) { 40 } else { 2000 } {
                let key = scrambled(turn) % ((n + 2) * stride);
                let key = if turn % 2 == 0 {
                    key
                } else {
                    key / stride * stride
                };
                let found = map.after_step(key, &last);
                assert_eq!(
                    found.map(|(k, _)| k),
                    after(key),
                    "{n} keys {stride} apart, {key}"
                );
                assert!(found.is_none_or(|(k, &v)| k == v * stride));
                assert_eq!(set.after_step(key, &last), after(key));
                if turn % 3 == 0 {
                    assert_eq!(map.after_step(key, &last).map(|(k, _)| k), after(key));
                }
            }
        }
    }
}

/// Steps through a map that gains and loses entries before and behind the walk, so
/// that what the last step noted is often not so any more.
#[test]
fn a_walk_by_steps_sees_what_changes_meanwhile() {
    let n = if cfg!(miri) { 40 } else { 2000 };
    for stride in [1, 3, 40, 0x1_0001, 0x0123_4567_89ab] {
        let mut map: WordMap = (0..n).map(|i| (i * stride, i)).collect();
        let mut model: BTreeMap<u64, u64> = (0..n).map(|i| (i * stride, i)).collect();
        let last = LastStep::new();
        let mut step = map.first_step(0, &last).map(|(k, _)| k);
        let mut turn = 0;
        while let Some(key) = step {
            turn += 1;
            let near = key
                .wrapping_add(scrambled(turn) % (9 * stride))
                .wrapping_sub(4 * stride);
            if turn % 3 == 0 {
                assert_eq!(map.insert(near, turn), model.insert(near, turn));
            } else if turn % 5 == 0 {
                assert_eq!(
                    map.remove(near / stride * stride),
                    model.remove(&(near / stride * stride))
                );
            }
            let above = (Bound::Excluded(key), Bound::Unbounded);
            let expected = model.range(above).next().map(|(&k, v)| (k, v));
            assert_eq!(map.after_step(key, &last), expected);
            step = expected.map(|(k, _)| k);
        }
        assert!(turn > n * 3 / 4);
        assert_same(&map, &model);
    }
}

/// A leaf of two-byte suffixes that removals leave with neighbours only, and that then
/// fills up, has no byte to be cut at.
#[test]
fn a_list_of_neighbours_becomes_a_bitmap_when_it_is_full() {
    let mut set = WordSet::new();
    let mut map = WordMap::new();
    for k in (0..33).chain(355..578) {
        set.insert(k);
        map.insert(k, k);
    }
    for k in 314..512 {
        set.remove(k);
        map.remove(k);
    }
    for k in 0..250 {
        set.insert(k);
        map.insert(k, k);
        if k % 50 == 49 {
            set.verify().unwrap();
            map.verify().unwrap();
        }
    }
    assert!(set.iter().eq((0..250).chain(512..578)));
    assert!(map.iter().map(|(k, _)| k).eq((0..250).chain(512..578)));
}

/// A list that is full is cut in two as it is. The key that had no room may belong to
/// either half and either end of it, to a group that is there or between two.
#[test]
fn a_full_leaf_is_cut_in_two_wherever_the_key_belongs() {
    let spread = |i: u64| i << 40 | scrambled(i) & 0xff_ffff_fffe;
    let groups = |i: u64| (i / 16) << 40 | 0x0123_4500 | (2 * (i % 16));
    let narrow = |i: u64| (i / 16) << 16 | (7 * (i % 16)) << 8 | 6;
    let ends: Vec<u64> = if cfg!(miri) {
        vec![130]
    } else {
        (0..=192).collect()
    };
    for key in [&spread as &dyn Fn(u64) -> u64, &groups, &narrow] {
        for &at in &ends {
            let others = [key(at.min(191)) ^ 1, key(at.min(191)) ^ 1 << 30, key(at)];
            for more in others.into_iter().take(if cfg!(miri) { 1 } else { 3 }) {
                let mut map = WordMap::new();
                let mut set = WordSet::new();
                for i in 0..192 {
                    map.insert(key(i), i);
                    set.insert(key(i));
                }
                let mut model: BTreeMap<u64, u64> = (0..192).map(|i| (key(i), i)).collect();
                assert_eq!(map.insert(more, at), model.insert(more, at));
                set.insert(more);
                assert_same(&map, &model);
                set.verify().unwrap();
                assert!(set.iter().eq(model.keys().copied()));
            }
        }
    }
}

/// Keys of a leaf that share their top byte are looked for where they are if the bytes below
/// are spread evenly, and elsewhere if they are not.
#[test]
fn keys_that_share_a_byte_are_found_however_the_next_bytes_are_spread() {
    let spreads: [fn(u64, u64) -> u64; 7] = [
        |i, n| (i << 24) / n,
        |i, _| scrambled(i) & 0xff_ffff,
        |i, _| i,
        |i, _| 0xff_ffff - i,
        |i, _| 0x80_0000 + i,
        |i, _| if i % 2 == 0 { i } else { 0xff_ffff - i },
        |i, _| i * i * i,
    ];
    let lengths: Vec<u64> = match cfg!(miri) {
        true => vec![9],
        false => (1..40).chain((40..=192).step_by(7)).collect(),
    };
    let stride = if cfg!(miri) { 5 } else { 1 };
    for (way, spread) in spreads.iter().enumerate().step_by(stride) {
        // Few top bytes are groups, many a list of them.
        for (n, tops) in lengths
            .iter()
            .flat_map(|n| [(*n, 3), (*n, if cfg!(miri) { 6 } else { 45 })])
        {
            let width = 3 + n % 5;
            let rest =
                |i: u64| spread(i, n) << (8 * width - 24) | i & ((1 << (8 * width - 24)) - 1);
            let key = |top: u64, i: u64| top << (8 * width) | rest(i);
            let mut keys: Vec<u64> = (0..tops).map(|top| key(2 * top, top % n)).collect();
            keys.extend((0..n).map(|i| key(tops & !1, i)));
            keys.sort_by_key(|key| scrambled(*key));
            let mut map = WordMap::new();
            let mut set = WordSet::new();
            let mut model = BTreeMap::new();
            for (i, &key) in (0..).zip(&keys) {
                let old = model.insert(key, i);
                assert_eq!(map.insert(key, i), old);
                assert_eq!(set.insert(key), old.is_none());
            }
            for part in 0..3 {
                assert_same(&map, &model);
                set.verify().unwrap();
                for k in keys.iter().flat_map(|&k| [k.saturating_sub(1), k, k + 1]) {
                    let case = || format!("spread {way}, {n} keys, {tops} top bytes, {k:#x}");
                    assert_eq!(map.get(k), model.get(&k), "{}", case());
                    assert_eq!(set.contains(k), model.contains_key(&k), "{}", case());
                    let next = model.range(k + 1..).next().map(|(&k, v)| (k, v));
                    assert_eq!(map.after(k), next, "{}", case());
                    assert_eq!(set.after(k), next.map(|entry| entry.0), "{}", case());
                    let before = model.range(..=k).next_back().map(|(&k, v)| (k, v));
                    assert_eq!(map.at_or_before(k), before, "{}", case());
                }
                for &k in keys.iter().skip(part).step_by(3) {
                    assert_eq!(map.remove(k), model.remove(&k));
                    assert!(!set.contains(k) || set.remove(k));
                }
            }
            assert!(map.is_empty() && set.is_empty());
        }
    }
}

/// Where a run was inserted into last is looked at first. It may since have moved, have gone
/// or be another's, and the next key may belong anywhere in it.
#[test]
fn runs_grow_in_turns_and_in_any_order() {
    for apart in [9, 16, 24, 40, 56] {
        let runs: u64 = if apart < 16 { 20 } else { 12 };
        let mut map = WordMap::new();
        let mut set = WordSet::new();
        let mut model = BTreeMap::new();
        let mut ends = [0u64; 20];
        let mut run = 0;
        for turn in 0..if cfg!(miri) { 50 } else { 1500 } {
            let dice = scrambled(turn ^ apart << 32);
            if dice % 5 == 0 {
                run = (dice >> 8) % runs;
            }
            let end = &mut ends[run as usize];
            let low = match dice >> 16 & 7 {
                0 => (dice >> 24) & 15,
                _ => {
                    *end = (*end + 1) & 15;
                    *end
                }
            };
            let key = (1 << 60) + (run << apart) + low;
            if dice >> 20 & 7 < 2 {
                assert_eq!(map.remove(key), model.remove(&key));
                set.remove(key);
            } else {
                assert_eq!(map.insert(key, turn), model.insert(key, turn));
                set.insert(key);
            }
            assert_eq!(set.len(), model.len());
            if turn % 16 == 0 {
                assert_same(&map, &model);
                set.verify().unwrap();
                assert!(set.iter().eq(model.keys().copied()));
            }
        }
    }
}

/// A run that goes on behind a full leaf has a bitmap from the first key on. Any key may come
/// to it or leave it: its only one, one beside it, one that it does not cover.
#[test]
fn a_run_goes_on_behind_a_full_leaf() {
    let others: [&[u64]; 5] = [
        &[],
        &[257],
        &[258, 300],
        &[511, 512, 70_000],
        &[1 << 40, 255],
    ];
    // All at once take Miri too long.
    let few = if cfg!(miri) { 1 } else { 5 };
    for base in [0xfe00, 0, 1 << 20].into_iter().take(few) {
        for others in others.into_iter().rev().take(few) {
            for first_out in [256, 0, 128, 255, 257].into_iter().take(few) {
                let mut map: WordMap = WordMap::new();
                let mut set = WordSet::new();
                let mut model = BTreeMap::new();
                for k in (0..257).chain(others.iter().copied()) {
                    let key = base + k;
                    let old = model.insert(key, k);
                    assert_eq!(map.insert(key, k), old);
                    assert_eq!(set.insert(key), old.is_none());
                }
                assert_same(&map, &model);
                set.verify().unwrap();
                let mut keys: Vec<u64> = model.keys().copied().collect();
                keys.rotate_left(first_out);
                for (i, key) in keys.into_iter().enumerate() {
                    assert_eq!(map.remove(key), model.remove(&key));
                    assert!(set.remove(key) && !set.remove(key));
                    if i < 3 || cfg!(not(miri)) {
                        assert_same(&map, &model);
                        set.verify().unwrap();
                        assert!(set.iter().eq(model.keys().copied()));
                    }
                }
            }
        }
    }
}

/// Insertions look first where the last one went; removals, which note nothing, change the
/// tree in between.
#[test]
fn insertions_find_their_way_after_any_removal() {
    let families: [&dyn Fn(u64) -> u64; 3] = [
        &|i| i,
        &|i| (scrambled(i / 16) & 0x1fff_ffff_fff0) + i % 16,
        &|i| (i / 40) << 16 | (i % 40) << 3,
    ];
    for key in families {
        let mut map = WordMap::new();
        let mut set = WordSet::new();
        let mut model = BTreeMap::new();
        let n = if cfg!(miri) { 70 } else { 6000 };
        for i in 0..n {
            let k = key(i);
            assert_eq!(map.insert(k, i), model.insert(k, i));
            set.insert(k);
            // All that came before but the last few, in parts: branches become leaves.
            if i % 64 == 63 {
                let doomed: Vec<u64> = (i / 64 % 3 * 20..i).map(key).collect();
                for k in &doomed[..doomed.len().saturating_sub(i as usize % 7)] {
                    assert_eq!(map.remove(*k), model.remove(k));
                    set.remove(*k);
                    if k % 16 == 0 {
                        assert_eq!(map.insert(k + 1, *k), model.insert(k + 1, *k));
                        set.insert(k + 1);
                    }
                }
                assert_same(&map, &model);
                set.verify().unwrap();
                assert!(set.iter().eq(model.keys().copied()));
            }
        }
    }
}

/// A leaf that holds all of its keys is no node: that it is full no more must be seen too.
#[test]
fn a_walk_by_steps_sees_full_leaves_lose_keys() {
    let n = if cfg!(miri) { 290 } else { 4000 };
    let mut set: WordSet = (0..n).collect();
    let mut model: BTreeSet<u64> = (0..n).collect();
    let last = LastStep::new();
    let mut step = set.first_step(0, &last);
    let mut turn = 0;
    while let Some(key) = step {
        turn += 1;
        let near = key + 1 + scrambled(turn) % 3;
        if turn % 70 == 0 && near < n {
            assert_eq!(set.remove(near), model.remove(&near));
        }
        step = set.after_step(key, &last);
        let above = (Bound::Excluded(key), Bound::Unbounded);
        assert_eq!(step, model.range(above).next().copied());
    }
    assert!(model.len() < n as usize - 2);
    set.verify().unwrap();
    assert!(set.iter().eq(model.iter().copied()));
}

/// Another root may come, in another shard than the noted one, before the leaf loses a key, and go again.
#[test]
fn a_walk_by_steps_sees_full_leaves_lose_keys_under_another_root() {
    const FAR: u64 = 1 << 40;
    // Each thread's stack picks a shard, so that most of these pick another than the first.
    for threads in 1..=8 {
        let mut set: WordSet = (0..1024).collect();
        let last = LastStep::new();
        assert_eq!(set.first_step(10, &last), Some(10));
        let waiting = Barrier::new(threads);
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|| waiting.wait());
            }
            let changing = scope.spawn(|| {
                let done = set.insert(FAR) && set.remove(11) && set.remove(FAR);
                waiting.wait();
                done
            });
            assert!(changing.join().unwrap());
        });
        assert_eq!(set.after_step(10, &last), Some(12));
    }
}

/// Walks of several threads note where they are in one place: the same keys, other values,
/// in maps that come and go in one heap.
#[test]
fn threads_that_share_a_last_step_are_not_misled() {
    static SHARED: LastStep = LastStep::new();
    let (n, rounds, jumps) = if cfg!(miri) {
        (260, 2, 60)
    } else {
        (400, 12, 60_000)
    };
    std::thread::scope(|scope| {
        for thread in 1..=4 {
            scope.spawn(move || {
                for round in 0..rounds {
                    let stride = [1, 7, 0x1_0001][(round % 3) as usize];
                    let value = |i: u64| thread << 32 | round << 16 | i;
                    let mut map: WordMap = (0..n).map(|i| (i * stride, value(i))).collect();
                    for jump in 0..jumps {
                        // Few places, so that threads meet, in the first leaf and the last.
                        let i = [7, n - 9][(jump / 2 % 2) as usize] + jump % 2;
                        let found = map.after_step(i * stride, &SHARED).map(|(k, v)| (k, *v));
                        let next = Some(i + 1).filter(|i| *i < n);
                        assert_eq!(found, next.map(|i| (i * stride, value(i))));
                        if jump % 512 == 0 {
                            assert_eq!(map.remove(i * stride), Some(value(i)));
                            assert_eq!(map.insert(i * stride, value(i)), None);
                        }
                    }
                }
            });
        }
    });
}

/// Keys that rise, of every family, `n` of them or fewer.
fn rising(family: usize, n: u64) -> Vec<u64> {
    let key = |i: u64| match family {
        0 => i,
        1 => (scrambled(i / 16) & 0x1fff_ffff_fff0) + i % 16,
        2 => scrambled(i),
        3 => scrambled(i) % (3 * n),
        4 => u64::MAX - i * 257,
        5 => scrambled(i) & 0xff00_ff00_ff00_00ff,
        // A few keys here, many there.
        _ => (1 << (scrambled(i) % 64)) | (scrambled(i >> 6) % 1000),
    };
    (0..n)
        .map(key)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

const FAMILIES: usize = 7;

#[test]
fn what_is_built_from_sorted_entries_is_what_inserting_them_gives() {
    let sizes: &[u64] = match cfg!(miri) {
        true => &[1, 60],
        false => &[0, 1, 2, 6, 33, 192, 193, 255, 256, 257, 513, 3000, 50_000],
    };
    for family in 0..FAMILIES {
        for &n in sizes {
            let keys = rising(family, n);
            let mut built = WordMap::new();
            built
                .try_fill_sorted(keys.iter().map(|&k| (k, !k)))
                .unwrap();
            built.verify().unwrap();
            let mut inserted = WordMap::new();
            for &k in &keys {
                inserted.insert(k, !k);
            }
            assert_eq!(built, inserted, "family {family}, {n} keys");
            assert!(keys.iter().all(|k| built.get(*k) == Some(&!k)));
            let loose = inserted.memory_used();
            inserted.shrink_to_fit();
            inserted.verify().unwrap();
            assert_eq!(built, inserted, "family {family}, {n} keys");
            assert!(inserted.memory_used() <= loose, "family {family}, {n} keys");
            // It goes on growing and shrinking as any other.
            for &k in keys.iter().step_by(2) {
                assert_eq!(built.remove(k), Some(!k));
                built.insert(k ^ 1, k);
            }
            built.verify().unwrap();

            let mut set = WordSet::new();
            set.try_fill_sorted(keys.iter().copied()).unwrap();
            set.verify().unwrap();
            assert!(set.iter().eq(keys.iter().copied()));
        }
    }
}

#[test]
fn keys_that_do_not_rise_are_refused_and_leave_nothing() {
    let n = if cfg!(miri) { 400 } else { 3000 };
    for repeated in [1, 300, n - 1] {
        let mut keys = rising(2, n as u64);
        keys[repeated] = keys[repeated - 1];
        let mut map = WordMap::new();
        let refused = map.try_fill_sorted(keys.iter().map(|&k| (k, 0)));
        assert_eq!(refused, Err(BuildError::Unsorted(keys[repeated])));
        assert!(map.is_empty());
    }
}

#[test]
fn many_entries_at_once_are_inserted_in_their_order() {
    let n = if cfg!(miri) { 100 } else { 20_000 };
    for family in 0..FAMILIES {
        let mut model = BTreeMap::new();
        let mut map = WordMap::new();
        // Each key comes twice, with two values; then some of them again to a map that has entries.
        for part in [0..2 * n, n / 2..n / 2 + n / 16, 0..n] {
            let first = rising(family, n)[0];
            let entries: Vec<_> = part
                .map(|i| (first.wrapping_add(scrambled(i % n) % (4 * n)), i))
                .collect();
            map.extend(entries.iter().copied());
            model.extend(entries.iter().copied());
            assert_same(&map, &model);
        }
    }
}

#[test]
fn two_sets_are_combined_as_the_model_combines_them() {
    let n = if cfg!(miri) { 60 } else { 5000 };
    for family in 0..FAMILIES {
        let all = rising(family, n);
        let pick = |bit: u64| {
            all.iter()
                .copied()
                .filter(move |k| scrambled(*k) >> bit & 3 != 0)
        };
        let (a, b): (WordSet, WordSet) = (pick(3).collect(), pick(9).collect());
        let (ma, mb): (BTreeSet<u64>, BTreeSet<u64>) = (pick(3).collect(), pick(9).collect());
        for (ours, theirs) in [
            (a.union(&b), &ma | &mb),
            (a.intersection(&b), &ma & &mb),
            (a.difference(&b), &ma - &mb),
            (a.symmetric_difference(&b), &ma ^ &mb),
        ] {
            ours.verify().unwrap();
            assert!(ours.iter().eq(theirs.iter().copied()), "family {family}");
        }
        let mut map: WordMap = pick(3).map(|k| (k, 1)).collect();
        let other: WordMap = pick(9).map(|k| (k, 2)).collect();
        map.merge(&other, |_, here, there| 10 * here + there);
        map.verify().unwrap();
        for k in all {
            let value = u64::from(ma.contains(&k)) + 2 * u64::from(mb.contains(&k));
            let expected = [None, Some(1), Some(2), Some(12)][value as usize];
            assert_eq!(map.get(k).copied(), expected, "family {family}, key {k:#x}");
        }
    }
}

/// A full-period generator: the same keys each run.
fn scrambled(i: u64) -> u64 {
    let x = i
        .wrapping_add(0x9e37_79b9_7f4a_7c15)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (x ^ (x >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb) ^ x >> 7
}

fn grow_and_shrink(name: &str, n: u64, key: impl Fn(u64) -> u64) {
    let (n, checks) = if cfg!(miri) { (n / 600, 2) } else { (n, 8) };
    let mut map = WordMap::new();
    let mut model = BTreeMap::new();
    for i in 0..n {
        let k = key(i);
        assert_eq!(map.insert(k, i), model.insert(k, i), "{name}: {k:#x}");
        if i % (n / checks) == 0 {
            assert_same(&map, &model);
        }
    }
    assert_same(&map, &model);
    for i in 0..n {
        let k = key(scrambled(i) % n);
        assert_eq!(map.remove(k), model.remove(&k), "{name}: {k:#x}");
        if i % (n / checks) == 0 {
            assert_same(&map, &model);
        }
    }
    for i in 0..n {
        let k = key(i);
        assert_eq!(map.remove(k), model.remove(&k), "{name}: {k:#x}");
        if i % (n / checks) == 0 {
            assert_same(&map, &model);
        }
    }
    assert!(map.is_empty());
    assert_eq!(map.memory_used(), 0);
}

#[test]
fn large_maps_grow_and_shrink_like_the_model() {
    grow_and_shrink("dense", 60_000, |i| i);
    grow_and_shrink("dense backwards", 30_000, |i| u64::MAX - i);
    grow_and_shrink("shuffled dense", 1 << 15, |i| {
        i.wrapping_mul(40_503) & 0x7fff
    });
    grow_and_shrink("clustered", 60_000, |i| {
        (scrambled(i / 16) & 0x1fff_ffff_fff0) + i % 16
    });
    grow_and_shrink("random", 60_000, scrambled);
    grow_and_shrink("top bytes", 40_000, |i| {
        scrambled(i) & 0xffff_ff00_0000_0000
    });
    grow_and_shrink("stride 256", 20_000, |i| i << 8);
}

/// Small maps begin their walks in a way of their own: both ends meet wherever they do.
#[test]
fn a_walk_over_a_small_map_may_be_taken_from_both_ends() {
    for stride in [1, 8, 300, 1 << 40] {
        for n in 0..=if cfg!(miri) { 6 } else { 40 } {
            let model: BTreeMap<u64, u64> = (0..n).map(|i| (stride * i, !i)).collect();
            let map: WordMap = model.iter().map(|(&k, &v)| (k, v)).collect();
            let set: WordSet = model.keys().copied().collect();
            for from_back in 0..=n {
                let (mut walk, mut expected) = (map.iter(), model.iter());
                let (mut keys, mut key) = (set.iter(), model.keys());
                for i in 0..=n {
                    let back = i % 3 == 1 || i < from_back / 2;
                    let entry = |e: Option<(&u64, &u64)>| e.map(|(&k, &v)| (k, v));
                    let plain = |e: Option<(u64, &u64)>| e.map(|(k, &v)| (k, v));
                    if back {
                        assert_eq!(plain(walk.next_back()), entry(expected.next_back()));
                        assert_eq!(keys.next_back(), key.next_back().copied());
                    } else {
                        assert_eq!(plain(walk.next()), entry(expected.next()));
                        assert_eq!(keys.next(), key.next().copied());
                    }
                    assert_eq!(walk.len(), expected.len());
                }
            }
        }
    }
}

/// Of maps of every small size, whose suffixes have one, two or eight bytes: every range, by
/// turns from both ends.
#[test]
fn a_range_of_a_small_map_ends_where_its_bounds_say() {
    let sizes = if cfg!(miri) { 0..4 } else { 0..9 };
    for (stride, n) in [1, 20, 1 << 40]
        .iter()
        .flat_map(|s| sizes.clone().map(move |n| (*s, n)))
    {
        let model: BTreeMap<u64, u64> = (0..n).map(|i| (u64::MAX - stride * 2 * i, i)).collect();
        let map: WordMap = model.iter().map(|(&k, &v)| (k, v)).collect();
        let set: WordSet = model.keys().copied().collect();
        let bounds = || {
            let near = |k: u64| [k.wrapping_sub(1), k, k.wrapping_add(1)];
            model
                .keys()
                .copied()
                .flat_map(near)
                .chain([0, 1 << 63, u64::MAX])
        };
        for (low, high) in bounds().flat_map(|low| bounds().map(move |high| (low, high))) {
            let expected: Vec<_> = if low <= high {
                model.range(low..=high).map(|(&k, &v)| (k, v)).collect()
            } else {
                Vec::new()
            };
            let (mut ours, mut theirs) = (map.range(low..=high), expected.iter().copied());
            while let Some(found) = theirs.next() {
                assert_eq!(ours.next().map(|(k, &v)| (k, v)), Some(found));
                assert_eq!(ours.next_back().map(|(k, &v)| (k, v)), theirs.next_back());
            }
            assert!(ours.next().is_none() && ours.next_back().is_none());
            assert!(set
                .range(low..=high)
                .eq(expected.iter().map(|entry| entry.0)));
        }
    }
}

#[test]
fn small_maps_take_one_exact_block() {
    for (n, bytes) in [(1, 16), (2, 32), (4, 48), (8, 88), (16, 168), (32, 328)] {
        let map: WordMap = (0..n).map(|i| (26_314 + 8 * i + (i & 1) * 8, i)).collect();
        assert!(
            map.memory_used() <= bytes,
            "{n}: {} bytes",
            map.memory_used()
        );
        assert_eq!(std::mem::size_of_val(&map), 8);
    }
}
