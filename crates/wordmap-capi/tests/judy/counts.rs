//! Tests what a count says of itself in the caller's error record.

use crate::error::JudyError;
use crate::{judy1, judyl};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

type Count = unsafe extern "C" fn(*const c_void, u64, u64, *mut JudyError) -> u64;

/// The count, and the error number in a record that nobody has filled in before.
fn counted(count: Count, root: *const c_void, low: u64, high: u64) -> (u64, c_int) {
    let mut record = MaybeUninit::<JudyError>::uninit();
    // SAFETY: the root is an array or null; the record is written, and begins with the number.
    unsafe {
        record.as_mut_ptr().write_bytes(0x7f, 1);
        let counted = count(root, low, high, record.as_mut_ptr());
        (counted, *record.as_ptr().cast::<c_int>())
    }
}

/// The macros `J1C` and `JLC` end the program when a count is 0 and the record does not say that
/// there was no failure.
#[test]
fn a_count_of_nothing_is_told_from_a_failure() {
    let (mut set, mut map) = (null_mut(), null_mut());
    // SAFETY: the roots are null.
    unsafe {
        assert_eq!(judy1::Judy1Set(&mut set, 9, null_mut()), 1);
        assert!(!judyl::JudyLIns(&mut map, 9, null_mut()).is_null());
    }
    for (count, root) in [
        (judy1::Judy1Count as Count, set),
        (judyl::JudyLCount as Count, map),
    ] {
        assert_eq!(counted(count, null_mut(), 0, u64::MAX), (0, 0), "no array");
        assert_eq!(counted(count, root, 10, 9), (0, 0), "in the wrong order");
        assert_eq!(counted(count, root, 5, 5), (0, 0), "an absent index");
        assert_eq!(counted(count, root, 10, u64::MAX), (0, 0), "nothing above");
        assert_eq!(counted(count, root, 0, 8), (0, 0), "nothing below");
        assert_eq!(counted(count, root, 0, u64::MAX).0, 1);
        // SAFETY: the root is an array. The record may be left out.
        assert_eq!(unsafe { count(root, 10, 9, null_mut()) }, 0);
    }
    // SAFETY: the roots are those of a set and of a map.
    unsafe {
        judy1::Judy1FreeArray(&mut set, null_mut());
        judyl::JudyLFreeArray(&mut map, null_mut());
    }
}
