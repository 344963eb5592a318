//! JudyL: word to word.

use crate::array::{empty_down, empty_up, map_at, map_of};
use crate::error::{fail, Errno, JudyError, JERR, POINTER_ERROR};
use std::ffi::{c_int, c_void};
use std::ptr::{from_ref, null_mut};

type Slot = *mut *mut c_void;

fn slot(value: &u64) -> Slot {
    from_ref(value).cast_mut().cast()
}

/// Finds or inserts `index`; a new value is 0.
///
/// # Safety
/// As documented for libJudy: `root` leads to an array or is null, `error` is a record or null.
#[no_mangle]
pub unsafe extern "C" fn JudyLIns(root: Slot, index: u64, error: *mut JudyError) -> Slot {
    // SAFETY: the caller's duty.
    unsafe {
        let Some(map) = map_at(root) else {
            return fail(error, Errno::NullPointerToArray, POINTER_ERROR);
        };
        match map.try_place(index) {
            Ok(value) => std::ptr::from_mut(value).cast(),
            Err(_) => fail(error, Errno::NoMemory, POINTER_ERROR),
        }
    }
}

/// Removes `index`: 1, or 0 if it was not there.
///
/// # Safety
/// As [`JudyLIns`].
#[no_mangle]
pub unsafe extern "C" fn JudyLDel(root: Slot, index: u64, error: *mut JudyError) -> c_int {
    // SAFETY: the caller's duty.
    unsafe {
        match map_at(root) {
            Some(map) => c_int::from(map.remove(index).is_some()),
            None => fail(error, Errno::NullPointerToArray, JERR),
        }
    }
}

/// The value of `index`, or null.
///
/// # Safety
/// As [`JudyLIns`].
#[no_mangle]
pub unsafe extern "C" fn JudyLGet(root: *const c_void, index: u64, _error: *mut JudyError) -> Slot {
    // SAFETY: the caller's duty.
    unsafe { map_of(&root).get(index).map_or(null_mut(), slot) }
}

/// Makes an array of `count` rising indexes and their values.
///
/// # Safety
/// As [`JudyLIns`]; `indexes` and `values` lead to `count` words each or are null.
#[no_mangle]
pub unsafe extern "C" fn JudyLInsArray(
    root: Slot,
    count: usize,
    indexes: *const u64,
    values: *const u64,
    error: *mut JudyError,
) -> c_int {
    // SAFETY: the caller's duty.
    unsafe {
        let Some(map) = map_at(root) else {
            return fail(error, Errno::NullPointerToArray, JERR);
        };
        if !map.is_empty() {
            return fail(error, Errno::ArrayNotEmpty, JERR);
        }
        if indexes.is_null() {
            return fail(error, Errno::NullPointerToIndex, JERR);
        }
        if values.is_null() {
            return fail(error, Errno::NullPointerToValues, JERR);
        }
        for i in 0..count {
            let index = *indexes.add(i);
            if i > 0 && index <= *indexes.add(i - 1) {
                map.clear();
                return fail(error, Errno::Unsorted, JERR);
            }
            if map.try_insert(index, *values.add(i)).is_err() {
                map.clear();
                return fail(error, Errno::NoMemory, JERR);
            }
        }
        1
    }
}

/// The number of indexes from `low` to `high`, both included.
///
/// # Safety
/// As [`JudyLIns`].
#[no_mangle]
pub unsafe extern "C" fn JudyLCount(
    root: *const c_void,
    low: u64,
    high: u64,
    _error: *mut JudyError,
) -> u64 {
    // SAFETY: the caller's duty.
    unsafe { map_of(&root).count_range(low..=high) }
}

/// The `nth` value, counting from 1, and its index.
///
/// # Safety
/// As [`JudyLIns`]; `index` leads to a word or is null.
#[no_mangle]
pub unsafe extern "C" fn JudyLByCount(
    root: *const c_void,
    nth: u64,
    index: *mut u64,
    error: *mut JudyError,
) -> Slot {
    // SAFETY: the caller's duty.
    unsafe {
        // An empty array is asked first, as libJudy does.
        if root.is_null() {
            return null_mut();
        }
        if index.is_null() {
            return fail(error, Errno::NullPointerToIndex, POINTER_ERROR);
        }
        // 0 stands for 2^64, more than any array has.
        let found = nth.checked_sub(1).and_then(|n| map_of(&root).nth(n));
        give(found, index)
    }
}

/// # Safety
/// `index` must lead to a word.
unsafe fn give(found: Option<(u64, &u64)>, index: *mut u64) -> Slot {
    match found {
        Some((key, value)) => {
            // SAFETY: the caller's duty.
            unsafe { *index = key };
            slot(value)
        }
        None => null_mut(),
    }
}

/// Frees the array; returns how many bytes it had.
///
/// # Safety
/// As [`JudyLIns`].
#[no_mangle]
pub unsafe extern "C" fn JudyLFreeArray(root: Slot, error: *mut JudyError) -> usize {
    // SAFETY: the caller's duty.
    unsafe {
        let Some(map) = map_at(root) else {
            return fail(error, Errno::NullPointerToArray, JERR as usize);
        };
        let bytes = map.memory_used();
        map.clear();
        bytes
    }
}

/// The bytes of the array's nodes.
///
/// # Safety
/// As [`JudyLIns`].
#[no_mangle]
pub unsafe extern "C" fn JudyLMemUsed(root: *const c_void) -> usize {
    // SAFETY: the caller's duty.
    unsafe { map_of(&root).memory_used() }
}

/// As [`JudyLMemUsed`].
///
/// # Safety
/// As [`JudyLIns`].
#[no_mangle]
pub unsafe extern "C" fn JudyLMemActive(root: *const c_void) -> usize {
    // SAFETY: the caller's duty.
    unsafe { map_of(&root).memory_used() }
}

macro_rules! neighbour {
    ($(#[$doc:meta])* $name:ident, $map:ident, $at:ident => $find:expr) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As [`JudyLIns`]; `index` leads to a word or is null.
        #[no_mangle]
        pub unsafe extern "C" fn $name(
            root: *const c_void,
            index: *mut u64,
            error: *mut JudyError,
        ) -> Slot {
            // SAFETY: the caller's duty.
            unsafe {
                if index.is_null() {
                    return fail(error, Errno::NullPointerToIndex, POINTER_ERROR);
                }
                let ($map, $at) = (map_of(&root), *index);
                give($find, index)
            }
        }
    };
}

neighbour!(
    /// The first index at or above `index`.
    JudyLFirst, map, at => map.at_or_after(at)
);
neighbour!(
    /// The first index above `index`.
    JudyLNext, map, at => map.after(at)
);
neighbour!(
    /// The last index at or below `index`.
    JudyLLast, map, at => map.at_or_before(at)
);
neighbour!(
    /// The last index below `index`.
    JudyLPrev, map, at => at.checked_sub(1).and_then(|k| map.at_or_before(k))
);

macro_rules! gap {
    ($(#[$doc:meta])* $name:ident, $from:expr, $walk:ident) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As [`JudyLIns`]; `index` leads to a word or is null.
        #[no_mangle]
        pub unsafe extern "C" fn $name(
            root: *const c_void,
            index: *mut u64,
            error: *mut JudyError,
        ) -> c_int {
            // SAFETY: the caller's duty.
            unsafe {
                if index.is_null() {
                    return fail(error, Errno::NullPointerToIndex, JERR);
                }
                let map = map_of(&root);
                let from: Option<u64> = $from(*index);
                let full = |a: u64, b: u64| map.count_range(a..=b) == (b - a).wrapping_add(1);
                match from.and_then(|k| $walk(k, |k| map.contains_key(k), full)) {
                    Some(found) => {
                        *index = found;
                        1
                    }
                    None => 0,
                }
            }
        }
    };
}

gap!(
    /// The first absent index at or above `index`: 1, or 0 if there is none.
    JudyLFirstEmpty, Some, empty_up
);
gap!(
    /// The first absent index above `index`.
    JudyLNextEmpty, |k: u64| k.checked_add(1), empty_up
);
gap!(
    /// The last absent index at or below `index`.
    JudyLLastEmpty, Some, empty_down
);
gap!(
    /// The last absent index below `index`.
    JudyLPrevEmpty, |k: u64| k.checked_sub(1), empty_down
);
