//! JudyHS: bytes of any length to word, in no order.
//!
//! The array is a map from a 64-bit hash of the bytes to the first of the records with
//! that hash, which are linked. The hash has a secret (`keyed_hash.rs`), so nobody
//! outside can make keys that share a list of records.

use crate::array::{map_at, map_of, Map};
use crate::error::{fail, Errno, JudyError, POINTER_ERROR};
use crate::keyed_hash::hash;
use std::ffi::{c_int, c_void};
use std::ptr::{from_mut, null_mut};

type Slot = *mut *mut c_void;

/// A key and its value; the bytes of the key follow.
#[repr(C)]
struct Record {
    value: u64,
    next: *mut Record,
    length: usize,
}

/// The caller's bytes. An empty key needs no address.
///
/// # Safety
/// `data` must lead to `length` bytes, unless that is 0.
unsafe fn bytes<'a>(data: *const c_void, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: `data` leads to `length` bytes, and `length` is not 0.
    unsafe { std::slice::from_raw_parts(data.cast(), length) }
}

fn record(word: u64) -> *mut Record {
    std::ptr::with_exposed_provenance_mut(word as usize)
}

/// # Safety
/// `record` must be live.
unsafe fn key<'a>(record: *mut Record) -> &'a [u8] {
    // SAFETY: the bytes follow the record in its block.
    unsafe { std::slice::from_raw_parts(record.add(1).cast(), (*record).length) }
}

/// # Safety
/// `first` must be null or a live record.
unsafe fn find(first: *mut Record, wanted: &[u8]) -> *mut Record {
    let mut at = first;
    // SAFETY: the records that a live record is linked to are live.
    unsafe {
        while !at.is_null() && key(at) != wanted {
            at = (*at).next;
        }
    }
    at
}

/// Finds or inserts a key; a new value is 0. Returns the address of the value.
///
/// # Safety
/// As documented for libJudy: `root` leads to an array or is null, `data` to `length`
/// bytes, `error` to a record or is null.
#[no_mangle]
pub unsafe extern "C" fn JudyHSIns(
    root: Slot,
    data: *mut c_void,
    length: usize,
    error: *mut JudyError,
) -> Slot {
    // SAFETY: by libJudy's contract arrays, strings and records are valid, or null.
    unsafe {
        let Some(map) = map_at(root) else {
            return fail(error, Errno::NullPointerToArray, POINTER_ERROR);
        };
        if data.is_null() && length != 0 {
            return fail(error, Errno::NullPointerToIndex, POINTER_ERROR);
        }
        match insert(map, bytes(data, length)) {
            Some(value) => value.cast(),
            None => fail(error, Errno::NoMemory, POINTER_ERROR),
        }
    }
}

/// # Safety
/// The map's values must be live records.
unsafe fn insert(map: &mut Map, wanted: &[u8]) -> Option<*mut u64> {
    let hash = hash(wanted);
    // SAFETY: the caller's contract; the new block has room for record and key.
    unsafe {
        let first = map.get(hash).map_or(null_mut(), |w| record(*w));
        let found = find(first, wanted);
        if !found.is_null() {
            return Some(&raw mut (*found).value);
        }
        let new: *mut Record = libc::malloc(size_of::<Record>() + wanted.len()).cast();
        if new.is_null() {
            return None;
        }
        new.write(Record {
            value: 0,
            next: first,
            length: wanted.len(),
        });
        let bytes = new.add(1).cast::<u8>();
        std::ptr::copy_nonoverlapping(wanted.as_ptr(), bytes, wanted.len());
        if map
            .try_insert(hash, new.expose_provenance() as u64)
            .is_err()
        {
            libc::free(new.cast());
            return None;
        }
        Some(&raw mut (*new).value)
    }
}

/// Returns the address of the value of a key, or null.
///
/// # Safety
/// As [`JudyHSIns`].
#[no_mangle]
pub unsafe extern "C" fn JudyHSGet(root: *const c_void, data: *mut c_void, length: usize) -> Slot {
    // SAFETY: by libJudy's contract arrays and strings are valid, or null.
    unsafe {
        if data.is_null() && length != 0 {
            return null_mut();
        }
        let wanted = bytes(data, length);
        let Some(first) = map_of(&root).get(hash(wanted)) else {
            return null_mut();
        };
        let found = find(record(*first), wanted);
        if found.is_null() {
            return null_mut();
        }
        (&raw mut (*found).value).cast()
    }
}

/// Removes a key; returns 1, or 0 if it was not there.
///
/// # Safety
/// As [`JudyHSIns`].
#[no_mangle]
pub unsafe extern "C" fn JudyHSDel(
    root: Slot,
    data: *mut c_void,
    length: usize,
    _error: *mut JudyError,
) -> c_int {
    // SAFETY: the caller's contract; what linked to the record is made to link to the
    // next one.
    unsafe {
        let Some(map) = map_at(root) else {
            // As in libJudy, removing nothing, or from nothing, is no error.
            return 0;
        };
        if data.is_null() && length != 0 {
            return 0;
        }
        let wanted = bytes(data, length);
        let hash = hash(wanted);
        let Some(slot) = map.get_mut(hash).map(from_mut) else {
            return 0;
        };
        let first = record(*slot);
        let found = find(first, wanted);
        if found.is_null() {
            return 0;
        }
        if found == first {
            *slot = (*found).next.expose_provenance() as u64;
        } else {
            let mut before = first;
            while (*before).next != found {
                before = (*before).next;
            }
            (*before).next = (*found).next;
        }
        let empty = *slot == 0;
        libc::free(found.cast());
        if empty {
            map.remove(hash);
        }
        1
    }
}

/// Frees the array; returns how many bytes it had.
///
/// # Safety
/// As [`JudyHSIns`].
#[no_mangle]
pub unsafe extern "C" fn JudyHSFreeArray(root: Slot, _error: *mut JudyError) -> usize {
    // SAFETY: the caller's contract; each record is read before it is freed.
    unsafe {
        let Some(map) = map_at(root) else {
            // As in libJudy, a missing array has 0 bytes, which is no error.
            return 0;
        };
        let mut total = map.memory_used();
        for first in map.values() {
            let mut at = record(*first);
            while !at.is_null() {
                let next = (*at).next;
                total += size_of::<Record>() + (*at).length;
                libc::free(at.cast());
                at = next;
            }
        }
        map.clear();
        total
    }
}
