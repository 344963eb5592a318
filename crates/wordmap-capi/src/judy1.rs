//! Judy1: a set of words.

use crate::array::{self, array_of, Array, Set, Slot};
use crate::error::JudyError;
use std::ffi::{c_int, c_void};

/// Inserts `index`; returns 1, or 0 if it was there.
///
/// # Safety
/// As documented for libJudy: `root` leads to an array or is null, `error` to a record or is
/// null.
#[no_mangle]
pub unsafe extern "C" fn Judy1Set(root: Slot, index: u64, error: *mut JudyError) -> c_int {
    // SAFETY: `root` leads to an array or is null, `error` to a record or is null.
    unsafe { array::insert::<Set>(root, index, error) }
}

/// Removes `index`; returns 1, or 0 if it was not there.
///
/// # Safety
/// As [`Judy1Set`].
#[no_mangle]
pub unsafe extern "C" fn Judy1Unset(root: Slot, index: u64, error: *mut JudyError) -> c_int {
    // SAFETY: `root` leads to an array or is null, `error` to a record or is null.
    unsafe { array::remove::<Set>(root, index, error) }
}

/// Returns 1 if `index` is in the set, else 0.
///
/// # Safety
/// As [`Judy1Set`].
#[no_mangle]
pub unsafe extern "C" fn Judy1Test(
    root: *const c_void,
    index: u64,
    _error: *mut JudyError,
) -> c_int {
    // SAFETY: `root` is an array or null.
    unsafe { c_int::from(array_of::<Set>(&root).has(index)) }
}

/// Makes a set of `count` indexes in ascending order.
///
/// # Safety
/// As [`Judy1Set`]; `indexes` leads to `count` words or is null.
#[no_mangle]
pub unsafe extern "C" fn Judy1SetArray(
    root: Slot,
    count: usize,
    indexes: *const u64,
    error: *mut JudyError,
) -> c_int {
    // SAFETY: `root` leads to an array or is null, `indexes` to `count` words or is null.
    unsafe { array::fill::<Set>(root, count, indexes, Some(|_| 0), error) }
}

array::functions! {
    Set, c_int;
    Judy1Count Judy1ByCount Judy1FreeArray Judy1MemUsed Judy1MemActive
    Judy1First Judy1Next Judy1Last Judy1Prev
    Judy1FirstEmpty Judy1NextEmpty Judy1LastEmpty Judy1PrevEmpty
}
