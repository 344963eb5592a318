//! JudyL: word to word.

use crate::array::{self, array_of, slot, Array, Map, Slot};
use crate::error::JudyError;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// Finds or inserts `index`; a new value is 0. Returns the address of the value.
///
/// # Safety
/// As documented for libJudy: `root` leads to an array or is null, `error` to a record or is
/// null.
#[no_mangle]
pub unsafe extern "C" fn JudyLIns(root: Slot, index: u64, error: *mut JudyError) -> Slot {
    // SAFETY: `root` leads to an array or is null, `error` to a record or is null.
    unsafe { array::insert::<Map>(root, index, error) }
}

/// Removes `index`; returns 1, or 0 if it was not there.
///
/// # Safety
/// As [`JudyLIns`].
#[no_mangle]
pub unsafe extern "C" fn JudyLDel(root: Slot, index: u64, error: *mut JudyError) -> c_int {
    // SAFETY: `root` leads to an array or is null, `error` to a record or is null.
    unsafe { array::remove::<Map>(root, index, error) }
}

/// Returns the address of the value of `index`, or null.
///
/// # Safety
/// As [`JudyLIns`].
#[no_mangle]
pub unsafe extern "C" fn JudyLGet(root: *const c_void, index: u64, _error: *mut JudyError) -> Slot {
    // SAFETY: `root` is an array or null.
    unsafe { array_of::<Map>(&root).get(index).map_or(null_mut(), slot) }
}

/// Makes an array of `count` indexes in ascending order and their values.
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
    // SAFETY: `root` leads to an array or is null; `indexes` and `values` lead to `count`
    // words each or are null.
    unsafe {
        let value = (!values.is_null()).then_some(|i| *values.add(i));
        array::fill::<Map>(root, count, indexes, value, error)
    }
}

array::functions! {
    Map, Slot;
    JudyLCount JudyLByCount JudyLFreeArray JudyLMemUsed JudyLMemActive
    JudyLFirst JudyLNext JudyLLast JudyLPrev
    JudyLFirstEmpty JudyLNextEmpty JudyLLastEmpty JudyLPrevEmpty
}
