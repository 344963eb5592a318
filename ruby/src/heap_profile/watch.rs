//! What every `xmalloc` and `xfree` checks while samples are taken, without a lock: how
//! far it is to this thread's next mark, and whether a payload may be a sample.

use std::cell::Cell as StdCell;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};

use super::recorder::with_any;

/// Bytes that a thread may still allocate before the next mark.
#[derive(Clone, Copy)]
struct Countdown {
    bytes: u64,
    /// The value of [`EPOCH`] when `bytes` was drawn; 0 for never.
    epoch: usize,
}

thread_local! {
    static COUNTDOWN: StdCell<Countdown> = const { StdCell::new(Countdown { bytes: 0, epoch: 0 }) };
}

/// How often sampling has begun.
static EPOCH: AtomicUsize = AtomicUsize::new(0);
/// Collections that this process has marked.
static COLLECTIONS: AtomicUsize = AtomicUsize::new(0);

const COUNTERS: usize = 1 << 14;
/// How many payloads that are live samples fall on each of these counters; the recorder changes
/// them with its samples. Nearly all are 0, so nearly every payload that is no sample is seen to be
/// none.
static COUNTS: [AtomicU8; COUNTERS] = [const { AtomicU8::new(0) }; COUNTERS];

pub(super) fn collections() -> usize {
    COLLECTIONS.load(Relaxed)
}

/// Begins to count, in a forked child.
pub(super) fn count_collections_anew() {
    COLLECTIONS.store(0, Relaxed);
}

/// Called when a collection has marked.
pub(crate) fn count_collection() {
    COLLECTIONS.fetch_add(1, Relaxed);
}

/// Called when sampling begins: no payload is a sample.
pub(super) fn clear() {
    EPOCH.fetch_add(1, Relaxed);
    for count in &COUNTS {
        // Nothing is written where nothing was counted: a forked child shares these pages.
        if count.load(Relaxed) != 0 {
            count.store(0, Relaxed);
        }
    }
}

/// Counts a payload of `bytes`; returns whether it is a sample.
pub(super) fn is_sample(bytes: usize) -> bool {
    let bytes = bytes as u64;
    let epoch = EPOCH.load(Relaxed);
    let Countdown {
        bytes: left,
        epoch: drawn_in,
    } = COUNTDOWN.get();
    let left = if drawn_in == epoch { left } else { draw() };
    let is_sample = bytes >= left;
    let bytes = if is_sample { draw() } else { left - bytes };
    COUNTDOWN.set(Countdown { bytes, epoch });
    is_sample
}

#[cold]
fn draw() -> u64 {
    with_any(|recorder| recorder.intervals.bytes().max(1)).unwrap_or(u64::MAX)
}

fn counter(address: usize) -> &'static AtomicU8 {
    let hash = (address as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    &COUNTS[(hash >> (64 - COUNTERS.ilog2())) as usize]
}

/// Whether the payload at this address may be a sample.
#[inline(always)]
pub(super) fn may_have(address: usize) -> bool {
    counter(address).load(Relaxed) != 0
}

/// A counter that has reached this value stays there: then more payloads than necessary
/// are looked up.
const FULL: u8 = u8::MAX;

pub(super) fn add(address: usize) {
    change(address, |count| count.saturating_add(1));
}

pub(super) fn remove(address: usize) {
    change(address, |count| count.saturating_sub(1));
}

fn change(address: usize, changed: impl Fn(u8) -> u8) {
    let unless_full = |count| (count < FULL).then(|| changed(count));
    let _ = counter(address).fetch_update(Relaxed, Relaxed, unless_full);
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::super::image::{Kind, SAMPLES};
    use super::super::samples::payload_freed;
    use super::super::{payload_made, with_recorder};
    use super::*;

    /// The counters are the process's.
    static ALONE: Mutex<()> = Mutex::new(());

    fn watched() -> usize {
        COUNTS
            .iter()
            .filter(|count| count.load(Relaxed) != 0)
            .count()
    }

    #[test]
    fn a_payload_is_watched_while_it_is_a_sample() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        const ROOM: usize = SAMPLES / 4 * 3;
        let addresses = || (1..=ROOM + 10_000).map(|number| 0x7f80_0000_0000 + number * 2048);
        with_recorder(|recorder| recorder.begin(1)).unwrap();
        addresses().for_each(|address| payload_made(address, 2000));
        assert!(addresses().take(ROOM).all(may_have));
        addresses().for_each(payload_freed);
        assert_eq!(watched(), 0);
        // What takes the place of a payload that was freed where nobody noticed ends its sample.
        let unnoticed = 0x7f80_0000_0000;
        payload_made(unnoticed, 2000);
        payload_made(unnoticed, 3000);
        with_recorder(|recorder| recorder.remove(unnoticed, Kind::Payload, 0)).unwrap();
        assert_eq!(watched(), 0);
    }

    #[test]
    fn a_watched_payload_is_found_until_it_is_removed() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let address = 0x7f00_1234_5670;
        add(address);
        assert!(may_have(address));
        remove(address);
        assert!(!may_have(address));
    }
}
