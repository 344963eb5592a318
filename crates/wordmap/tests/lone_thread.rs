//! A heap in a process of one thread, which takes its locks without an exchange, and of more
//! from then on. No harness: it would start threads.

use ashlar_wordmap::memory::{GlobalPages, NodeHeap};
use ashlar_wordmap::WordMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

static HEAP: NodeHeap<GlobalPages> = NodeHeap::new(GlobalPages);

type Map = WordMap<&'static NodeHeap<GlobalPages>>;

fn main() {
    one_thread_inserts_and_removes();
    a_thread_started_under_the_locks_waits_for_them();
    threads_use_each_others_nodes();
}

/// Small maps, so that most operations take nodes and give them back.
fn one_thread_inserts_and_removes() {
    const MAPS: usize = if cfg!(miri) { 3 } else { 100 };
    let mut maps: Vec<Map> = (0..MAPS).map(|_| WordMap::new_in(&HEAP)).collect();
    for i in 0..80 {
        for map in &mut maps {
            assert_eq!(map.insert(i % 40 * 8, i), i.checked_sub(40));
        }
    }
    for map in &mut maps {
        assert_eq!(map.remove(0), Some(40));
        map.verify().expect("a whole map");
    }
    drop(maps);
    HEAP.trim();
    assert_eq!(HEAP.usage().reserved_bytes, 0, "nodes were left behind");
}

/// The locks were taken while there was one thread.
fn a_thread_started_under_the_locks_waits_for_them() {
    static ARE_FREE: AtomicBool = AtomicBool::new(false);
    HEAP.lock_for_fork();
    let other = thread::spawn(|| {
        let mut map = WordMap::new_in(&HEAP);
        map.insert(1, 2);
        ARE_FREE.load(Ordering::Relaxed)
    });
    thread::sleep(Duration::from_millis(if cfg!(miri) { 0 } else { 50 }));
    ARE_FREE.store(true, Ordering::Relaxed);
    // SAFETY: this thread has locked them.
    unsafe { HEAP.unlock_after_fork() };
    assert!(other.join().expect("no panic"), "a lock did not hold");
}

/// Each map goes through the hands of three threads, all at once.
fn threads_use_each_others_nodes() {
    const THREADS: u64 = 3;
    const MAPS: u64 = if cfg!(miri) { 2 } else { 2000 };
    let mut hands: Vec<Vec<Map>> = (0..THREADS)
        .map(|_| (0..MAPS).map(|_| WordMap::new_in(&HEAP)).collect())
        .collect();
    for turn in 0..THREADS {
        let threads: Vec<_> = hands
            .drain(..)
            .map(|mut maps| {
                thread::spawn(move || {
                    for map in &mut maps {
                        for key in 0..10 {
                            map.insert(key * THREADS + turn, turn);
                        }
                    }
                    maps
                })
            })
            .collect();
        hands.extend(
            threads
                .into_iter()
                .map(|thread| thread.join().expect("no panic")),
        );
        hands.rotate_left(1);
    }
    for map in hands.into_iter().flatten() {
        map.verify().expect("a whole map");
        assert!(map
            .iter()
            .map(|(key, turn)| (key, *turn))
            .eq((0..30).map(|key| (key, key % 3))));
    }
}
