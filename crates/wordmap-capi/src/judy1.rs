//! Judy1: a set of words.

use crate::array::{empty_down, empty_up, set_at, set_of};
use crate::error::{fail, Errno, JudyError, JERR};
use std::ffi::{c_int, c_void};

type Root = *mut *mut c_void;

/// Inserts `index`: 1, or 0 if it was there.
///
/// # Safety
/// As documented for libJudy: `root` leads to an array or is null, `error` is a record or null.
#[no_mangle]
pub unsafe extern "C" fn Judy1Set(root: Root, index: u64, error: *mut JudyError) -> c_int {
    // SAFETY: the caller's duty.
    unsafe {
        let Some(set) = set_at(root) else {
            return fail(error, Errno::NullPointerToArray, JERR);
        };
        match set.try_insert(index) {
            Ok(is_new) => c_int::from(is_new),
            Err(_) => fail(error, Errno::NoMemory, JERR),
        }
    }
}

/// Removes `index`: 1, or 0 if it was not there.
///
/// # Safety
/// As [`Judy1Set`].
#[no_mangle]
pub unsafe extern "C" fn Judy1Unset(root: Root, index: u64, error: *mut JudyError) -> c_int {
    // SAFETY: the caller's duty.
    unsafe {
        let Some(set) = set_at(root) else {
            return fail(error, Errno::NullPointerToArray, JERR);
        };
        match set.try_remove(index) {
            Ok(was_there) => c_int::from(was_there),
            Err(_) => fail(error, Errno::NoMemory, JERR),
        }
    }
}

/// Whether `index` is in the set, as 1 or 0.
///
/// # Safety
/// As [`Judy1Set`].
#[no_mangle]
pub unsafe extern "C" fn Judy1Test(
    root: *const c_void,
    index: u64,
    _error: *mut JudyError,
) -> c_int {
    // SAFETY: the caller's duty.
    unsafe { c_int::from(set_of(&root).contains(index)) }
}

/// Makes a set of `count` rising indexes.
///
/// # Safety
/// As [`Judy1Set`]; `indexes` leads to `count` words or is null.
#[no_mangle]
pub unsafe extern "C" fn Judy1SetArray(
    root: Root,
    count: usize,
    indexes: *const u64,
    error: *mut JudyError,
) -> c_int {
    // SAFETY: the caller's duty.
    unsafe {
        let Some(set) = set_at(root) else {
            return fail(error, Errno::NullPointerToArray, JERR);
        };
        if !set.is_empty() {
            return fail(error, Errno::ArrayNotEmpty, JERR);
        }
        if indexes.is_null() {
            return fail(error, Errno::NullPointerToIndex, JERR);
        }
        for i in 0..count {
            let index = *indexes.add(i);
            if i > 0 && index <= *indexes.add(i - 1) {
                set.clear();
                return fail(error, Errno::Unsorted, JERR);
            }
            if set.try_insert(index).is_err() {
                set.clear();
                return fail(error, Errno::NoMemory, JERR);
            }
        }
        1
    }
}

/// The number of indexes from `low` to `high`, both included.
///
/// # Safety
/// As [`Judy1Set`].
#[no_mangle]
pub unsafe extern "C" fn Judy1Count(
    root: *const c_void,
    low: u64,
    high: u64,
    _error: *mut JudyError,
) -> u64 {
    // SAFETY: the caller's duty.
    unsafe { set_of(&root).count_range(low..=high) }
}

/// The `nth` index, counting from 1: 1, or 0 if there are fewer.
///
/// # Safety
/// As [`Judy1Set`]; `index` leads to a word or is null.
#[no_mangle]
pub unsafe extern "C" fn Judy1ByCount(
    root: *const c_void,
    nth: u64,
    index: *mut u64,
    error: *mut JudyError,
) -> c_int {
    // SAFETY: the caller's duty.
    unsafe {
        // An empty set is asked first, as libJudy does.
        if root.is_null() {
            return 0;
        }
        if index.is_null() {
            return fail(error, Errno::NullPointerToIndex, JERR);
        }
        // 0 stands for 2^64, more than any set we can hold in memory has.
        give(nth.checked_sub(1).and_then(|n| set_of(&root).nth(n)), index)
    }
}

/// # Safety
/// `index` must lead to a word.
unsafe fn give(found: Option<u64>, index: *mut u64) -> c_int {
    match found {
        Some(key) => {
            // SAFETY: the caller's duty.
            unsafe { *index = key };
            1
        }
        None => 0,
    }
}

/// Frees the array; returns how many bytes it had.
///
/// # Safety
/// As [`Judy1Set`].
#[no_mangle]
pub unsafe extern "C" fn Judy1FreeArray(root: Root, error: *mut JudyError) -> usize {
    // SAFETY: the caller's duty.
    unsafe {
        let Some(set) = set_at(root) else {
            return fail(error, Errno::NullPointerToArray, JERR as usize);
        };
        let bytes = set.memory_used();
        set.clear();
        bytes
    }
}

/// The bytes of the array's nodes.
///
/// # Safety
/// As [`Judy1Set`].
#[no_mangle]
pub unsafe extern "C" fn Judy1MemUsed(root: *const c_void) -> usize {
    // SAFETY: the caller's duty.
    unsafe { set_of(&root).memory_used() }
}

/// As [`Judy1MemUsed`].
///
/// # Safety
/// As [`Judy1Set`].
#[no_mangle]
pub unsafe extern "C" fn Judy1MemActive(root: *const c_void) -> usize {
    // SAFETY: the caller's duty.
    unsafe { set_of(&root).memory_used() }
}

macro_rules! neighbour {
    ($(#[$doc:meta])* $name:ident, $set:ident, $at:ident => $find:expr) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As [`Judy1Set`]; `index` leads to a word or is null.
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
                let ($set, $at) = (set_of(&root), *index);
                give($find, index)
            }
        }
    };
}

neighbour!(
    /// The first index at or above `index`.
    Judy1First, set, at => set.at_or_after(at)
);
neighbour!(
    /// The first index above `index`.
    Judy1Next, set, at => set.after(at)
);
neighbour!(
    /// The last index at or below `index`.
    Judy1Last, set, at => set.at_or_before(at)
);
neighbour!(
    /// The last index below `index`.
    Judy1Prev, set, at => at.checked_sub(1).and_then(|k| set.at_or_before(k))
);

macro_rules! gap {
    ($(#[$doc:meta])* $name:ident, $from:expr, $walk:ident) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As [`Judy1Set`]; `index` leads to a word or is null.
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
                let set = set_of(&root);
                let from: Option<u64> = $from(*index);
                let full = |a: u64, b: u64| set.count_range(a..=b) == (b - a).wrapping_add(1);
                match from.and_then(|k| $walk(k, |k| set.contains(k), full)) {
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
    Judy1FirstEmpty, Some, empty_up
);
gap!(
    /// The first absent index above `index`.
    Judy1NextEmpty, |k: u64| k.checked_add(1), empty_up
);
gap!(
    /// The last absent index at or below `index`.
    Judy1LastEmpty, Some, empty_down
);
gap!(
    /// The last absent index below `index`.
    Judy1PrevEmpty, |k: u64| k.checked_sub(1), empty_down
);
