//! Entries on their way from one node to another.

use core::mem::MaybeUninit;
use core::ptr;

/// Enough for one entry more than the fullest leaf has, and for two leaves that are
/// merged.
const ROOM: usize = 264;

/// Sorted entries outside a leaf.
///
/// * **E1** The first `n` keys, and the last `n` values, have been written.
///
/// Values are in reverse order, as they are in leaves, so that they are copied as a
/// whole.
pub(crate) struct Entries {
    keys: [MaybeUninit<u64>; ROOM],
    values: [MaybeUninit<u64>; ROOM],
    n: usize,
}

impl Entries {
    #[inline(always)]
    pub(crate) fn new() -> Entries {
        Entries {
            keys: [const { MaybeUninit::uninit() }; ROOM],
            values: [const { MaybeUninit::uninit() }; ROOM],
            n: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.n
    }

    #[inline(always)]
    pub(crate) fn keys(&self) -> &[u64] {
        // SAFETY: E1.
        unsafe { &*(ptr::from_ref(&self.keys[..self.n]) as *const [u64]) }
    }

    #[inline(always)]
    pub(crate) fn key(&self, i: usize) -> u64 {
        self.keys()[i]
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, key: u64, value: u64) {
        self.keys[self.n].write(key);
        self.values[ROOM - 1 - self.n].write(value);
        self.n += 1;
    }

    /// Adds `n` entries; `write` writes their keys, and their values in reverse order
    /// to the `n` words at its second argument.
    ///
    /// # Safety
    /// `write` must write all keys and values.
    #[inline(always)]
    pub(super) unsafe fn extend(&mut self, n: usize, write: impl FnOnce(&mut [u64], *mut u64)) {
        let keys = &mut self.keys[self.n..self.n + n];
        for key in keys.iter_mut() {
            key.write(0);
        }
        // SAFETY: all of these have just been written.
        let keys = unsafe { &mut *(ptr::from_mut(keys) as *mut [u64]) };
        let values = self.values[ROOM - self.n - n..].as_mut_ptr().cast();
        write(keys, values);
        self.n += n;
    }

    /// Copies all values, in reverse order, to the words that end at `end`.
    ///
    /// # Safety
    /// `n` words before `end` must be writable.
    #[inline(always)]
    pub(super) unsafe fn copy_values(&self, end: *mut u64) {
        // SAFETY: E1, and the caller's contract.
        unsafe {
            let from = self.values[ROOM - self.n..].as_ptr().cast();
            ptr::copy_nonoverlapping(from, end.sub(self.n), self.n);
        }
    }

    /// Inserts an entry where its key belongs; returns the index.
    pub(crate) fn insert(&mut self, key: u64, value: u64) -> usize {
        let i = self.keys().partition_point(|k| *k < key);
        let n = self.n;
        self.keys.copy_within(i..n, i + 1);
        self.values.copy_within(ROOM - n..ROOM - i, ROOM - n - 1);
        self.keys[i].write(key);
        self.values[ROOM - 1 - i].write(value);
        self.n += 1;
        i
    }

    pub(crate) fn remove(&mut self, i: usize) {
        let n = self.n;
        self.keys.copy_within(i + 1..n, i);
        self.values
            .copy_within(ROOM - n..ROOM - 1 - i, ROOM - n + 1);
        self.n -= 1;
    }

    /// Moves the entries from `at` on to `tail`.
    pub(crate) fn split_off(&mut self, at: usize, tail: &mut Entries) {
        let n = self.n - at;
        tail.keys[..n].copy_from_slice(&self.keys[at..self.n]);
        tail.values[ROOM - n..].copy_from_slice(&self.values[ROOM - self.n..ROOM - at]);
        tail.n = n;
        self.n = at;
    }
}
