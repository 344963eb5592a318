//! One cell of the table: a peer under a workload, measured in this process.
//!
//! Times are thread CPU time. Each cell checks what the peer answers against
//! what it must be; a wrong peer ends the process instead of winning.

use crate::peers::{Map, Seen, Set};
use std::collections::BTreeMap;
use std::hint::black_box;

/// Metric name to value; nanoseconds or bytes, as the name says.
pub type Metrics = BTreeMap<String, f64>;

/// A small fast generator with a fixed start: every peer sees the same keys.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }
    #[inline(always)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
    fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

fn cpu_ns() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is ours to write.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn resident_bytes() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("/proc is mounted");
    let pages = statm.split(' ').nth(1).and_then(|p| p.parse::<f64>().ok());
    pages.expect("resident pages in statm") * 4096.0
}

/// Nanoseconds of CPU time for each of `n` steps of `work`.
fn timed<R>(n: usize, work: impl FnOnce() -> R) -> (f64, R) {
    let start = cpu_ns();
    let result = work();
    ((cpu_ns() - start) / n as f64, result)
}

/// Keys of a map as an object's fields have them: close together, gaps of 8 or 16.
fn tiny_keys(random: &mut Random, n: usize) -> Vec<u64> {
    let mut key = 20_000 + 8 * random.below(1000);
    let mut keys = Vec::with_capacity(n);
    for _ in 0..n {
        keys.push(key);
        key += 8 + 8 * random.below(2);
    }
    random.shuffle(&mut keys);
    keys
}

/// `maps` maps of `n` entries.
pub fn tiny<M: Map>(n: usize, maps: usize) -> Metrics {
    let mut random = Random::new(n as u64);
    // A few thousand key sets are enough to defeat the branch predictor.
    let sets: Vec<Vec<u64>> = (0..4096).map(|_| tiny_keys(&mut random, n)).collect();
    let mut metrics = Metrics::new();
    let mut all: Vec<M> = Vec::with_capacity(maps);
    all.extend((0..maps).map(|_| M::new()));
    let (before, resident) = (M::system_bytes(), resident_bytes());
    let (ns, ()) = timed(maps * n, || {
        for (i, map) in all.iter_mut().enumerate() {
            for (v, key) in sets[i & 4095].iter().enumerate() {
                map.insert(*key, v as u64);
            }
        }
    });
    metrics.insert("insert_ns".into(), ns);
    let handle = std::mem::size_of::<M>() as f64;
    let bytes = (M::system_bytes() - before) as f64 / maps as f64;
    metrics.insert("bytes_per_map".into(), bytes + handle);
    let bytes = (resident_bytes() - resident) / maps as f64;
    metrics.insert("resident_bytes_per_map".into(), bytes + handle);

    let rounds = 2_000_000;
    let picks: Vec<u64> = (0..4096)
        .map(|_| sets[7][random.below(n as u64) as usize])
        .collect();
    let map = &all[7];
    let (ns, hits) = timed(rounds, || {
        let mut hits = 0;
        for i in 0..rounds {
            hits += u64::from(black_box(map).get(picks[i & 4095]).is_some());
        }
        hits
    });
    assert_eq!(hits, rounds as u64, "a key that is there was not found");
    metrics.insert("hot_hit_ns".into(), ns);
    let (ns, hits) = timed(rounds, || {
        let mut hits = 0;
        for i in 0..rounds {
            hits += u64::from(black_box(map).get(picks[i & 4095] + 3).is_some());
        }
        hits
    });
    assert_eq!(hits, 0, "a key that is not there was found");
    metrics.insert("hot_miss_ns".into(), ns);

    let rounds = 1_000_000;
    let cold: Vec<(u32, u64)> = (0..rounds)
        .map(|_| {
            let map = random.below(maps as u64);
            let key = sets[map as usize & 4095][random.below(n as u64) as usize];
            (map as u32, key)
        })
        .collect();
    let (ns, hits) = timed(rounds, || {
        let mut hits = 0;
        for (map, key) in &cold {
            hits += u64::from(all[*map as usize].get(*key).is_some());
        }
        hits
    });
    assert_eq!(hits, rounds as u64, "a key that is there was not found");
    metrics.insert("cold_hit_ns".into(), ns);

    let (ns, seen) = timed(maps * n, || {
        let mut total = Seen::default();
        for map in &all {
            let seen = map.walk();
            total.entries += seen.entries;
            total.key_sum = total.key_sum.wrapping_add(seen.key_sum);
        }
        total
    });
    let expected: u64 = (0..maps).fold(0, |sum: u64, i| {
        sum.wrapping_add(sets[i & 4095].iter().sum())
    });
    assert_eq!(
        (seen.entries, seen.key_sum),
        ((maps * n) as u64, expected),
        "a walk went wrong"
    );
    metrics.insert("walk_ns".into(), ns);
    // Walking one map again and again, as the hot hits do.
    let rounds = 2_000_000 / n;
    let (ns, entries) = timed(rounds * n, || {
        (0..rounds)
            .map(|_| black_box(black_box(map).walk()).entries)
            .sum::<u64>()
    });
    assert_eq!(entries, (rounds * n) as u64);
    metrics.insert("hot_walk_ns".into(), ns);
    let (ns, ()) = timed(maps, || drop(all));
    metrics.insert("drop_ns_per_map".into(), ns);
    metrics
}

/// The keys of a large workload, in the order they are inserted.
pub fn large_keys(workload: &str, n: usize) -> Vec<u64> {
    let mut random = Random::new(42);
    match workload {
        "dense" => (0..n as u64).collect(),
        "clustered" => (0..n / 16)
            .flat_map(|_| {
                let base = random.next() >> 19;
                (0..16).map(move |i| base + i)
            })
            .collect(),
        "random" => (0..n).map(|_| random.next()).collect(),
        other => panic!("unknown workload {other}: dense, clustered or random"),
    }
}

pub fn large<M: Map>(workload: &str, n: usize) -> Metrics {
    let keys = large_keys(workload, n);
    let n = keys.len();
    let mut random = Random::new(7);
    let mut metrics = Metrics::new();
    let rounds = 2_000_000;
    let picks: Vec<u64> = (0..rounds)
        .map(|_| keys[random.below(n as u64) as usize])
        .collect();
    let mut map = M::new();
    let (before, resident) = (M::system_bytes(), resident_bytes());
    // The swing: bytes an entry, at every hundredth of the way from a tenth on.
    let mut swing = (f64::INFINITY, 0f64);
    let mut done = 0;
    let (ns, ()) = timed(n, || {
        for part in keys.chunks(n.div_ceil(100)) {
            for key in part {
                map.insert(*key, !*key);
            }
            done += part.len();
            if done >= n / 10 {
                let bytes = (M::system_bytes() - before) as f64 / done as f64;
                swing = (swing.0.min(bytes), swing.1.max(bytes));
            }
        }
    });
    metrics.insert("insert_ns".into(), ns);
    metrics.insert("growing_bytes_per_entry_min".into(), swing.0);
    metrics.insert("growing_bytes_per_entry_max".into(), swing.1);
    metrics.insert(
        "bytes_per_entry".into(),
        (M::system_bytes() - before) as f64 / n as f64,
    );
    metrics.insert(
        "resident_bytes_per_entry".into(),
        (resident_bytes() - resident) / n as f64,
    );

    let (ns, sum) = timed(rounds, || {
        let mut sum = 0u64;
        for key in &picks {
            sum = sum.wrapping_add(map.get(*key).unwrap_or(1));
        }
        sum
    });
    let expected = picks.iter().fold(0u64, |sum, key| sum.wrapping_add(!*key));
    assert_eq!(sum, expected, "a hit went wrong");
    metrics.insert("hit_ns".into(), ns);

    let (ns, hits) = timed(rounds, || {
        let mut hits = 0;
        for key in &picks {
            hits += u64::from(map.get(key ^ (1 << 46)).is_some());
        }
        hits
    });
    assert_eq!(hits, 0, "a miss went wrong");
    metrics.insert("miss_ns".into(), ns);

    // The address of the next lookup depends on the value of the last.
    let rounds = 500_000;
    let nothing = black_box(0u64);
    let (ns, last) = timed(rounds, || {
        let mut last = 0u64;
        for key in &picks[..rounds] {
            // The compiler cannot know that nothing of `last` is left.
            last = map.get(key ^ (last & nothing)).unwrap_or(0);
        }
        last
    });
    assert_eq!(last, !picks[rounds - 1], "a dependent hit went wrong");
    metrics.insert("dependent_hit_ns".into(), ns);

    let (ns, seen) = timed(n, || map.walk());
    assert_eq!(seen.entries, n as u64, "a walk went wrong");
    let (key_sum, value_sum) = keys.iter().fold((0u64, 0u64), |(k, v), key| {
        (k.wrapping_add(*key), v.wrapping_add(!*key))
    });
    assert_eq!(
        (seen.key_sum, seen.value_sum),
        (key_sum, value_sum),
        "a walk went wrong"
    );
    metrics.insert("walk_ns".into(), ns);

    let mut doomed = keys;
    random.shuffle(&mut doomed);
    doomed.truncate(1_000_000);
    let (ns, removed) = timed(doomed.len(), || {
        doomed
            .iter()
            .map(|key| u64::from(map.remove(*key)))
            .sum::<u64>()
    });
    assert_eq!(removed, doomed.len() as u64, "a removal went wrong");
    metrics.insert("remove_ns".into(), ns);
    drop(map);

    let mut keys = large_keys(workload, n);
    keys.sort_unstable();
    keys.dedup();
    let before = M::system_bytes();
    let (ns, built) = timed(keys.len(), || M::build(&keys));
    metrics.insert("build_ns".into(), ns);
    metrics.insert(
        "built_bytes_per_entry".into(),
        M::system_bytes().saturating_sub(before) as f64 / keys.len() as f64,
    );
    assert_eq!(
        built.walk().entries,
        keys.len() as u64,
        "a built map is wrong"
    );
    metrics
}

pub fn large_set<S: Set>(workload: &str, n: usize) -> Metrics {
    let keys = large_keys(workload, n);
    let n = keys.len();
    let mut random = Random::new(7);
    let mut metrics = Metrics::new();
    let rounds = 2_000_000;
    let picks: Vec<u64> = (0..rounds)
        .map(|_| keys[random.below(n as u64) as usize])
        .collect();
    let mut set = S::new();
    let (before, resident) = (S::system_bytes(), resident_bytes());
    let (ns, ()) = timed(n, || {
        for key in &keys {
            set.insert(*key);
        }
    });
    metrics.insert("insert_ns".into(), ns);
    metrics.insert(
        "bytes_per_entry".into(),
        (S::system_bytes() - before) as f64 / n as f64,
    );
    metrics.insert(
        "resident_bytes_per_entry".into(),
        (resident_bytes() - resident) / n as f64,
    );
    let (ns, hits) = timed(rounds, || {
        picks
            .iter()
            .map(|key| u64::from(set.contains(*key)))
            .sum::<u64>()
    });
    assert_eq!(hits, rounds as u64, "a hit went wrong");
    metrics.insert("hit_ns".into(), ns);
    let (ns, seen) = timed(n, || set.walk());
    let key_sum = keys.iter().fold(0u64, |sum, key| sum.wrapping_add(*key));
    assert_eq!(
        (seen.entries, seen.key_sum),
        (n as u64, key_sum),
        "a walk went wrong"
    );
    metrics.insert("walk_ns".into(), ns);
    metrics
}
