//! JudyL: word to word.

use crate::array::{self, array_at, array_of, slot, Array, Map, Slot};
use crate::error::{fail, Errno, JudyError, JERR, POINTER_ERROR};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// Finds or inserts `index`; a new value is 0.
///
/// # Safety
/// As documented for libJudy: `root` leads to an array or is null, `error` is a record or null.
#[no_mangle]
pub unsafe extern "C" fn JudyLIns(root: Slot, index: u64, error: *mut JudyError) -> Slot {
    // SAFETY: the caller's duty.
    unsafe {
        let Some(map) = array_at::<Map>(root) else {
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
        match array_at::<Map>(root) {
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
    unsafe { array_of::<Map>(&root).get(index).map_or(null_mut(), slot) }
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
        let insert = |map: &mut Map, i: usize, index: u64| {
            let inserted = map.try_insert(index, *values.add(i));
            inserted.map(|_| ()).map_err(|_| Errno::NoMemory)
        };
        let some = if values.is_null() {
            Err(Errno::NullPointerToValues)
        } else {
            Ok(())
        };
        array::fill(root, count, indexes, some, error, insert)
    }
}

array::functions! {
    Map, Slot;
    JudyLCount JudyLByCount JudyLFreeArray JudyLMemUsed JudyLMemActive
    JudyLFirst JudyLNext JudyLLast JudyLPrev
    JudyLFirstEmpty JudyLNextEmpty JudyLLastEmpty JudyLPrevEmpty
}
