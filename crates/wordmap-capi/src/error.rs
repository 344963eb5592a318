//! How failures are reported, as libJudy's manual pages say.

use std::ffi::{c_int, c_void};

/// The returned pointer that means an error (`PPJERR`).
pub(crate) const POINTER_ERROR: *mut *mut c_void = usize::MAX as *mut *mut c_void;
/// The returned number that means an error (`JERR`).
pub(crate) const JERR: c_int = -1;

/// What went wrong (`JU_ERRNO_*`).
#[derive(Clone, Copy)]
#[repr(i32)]
pub(crate) enum Errno {
    None = 0,
    NoMemory = 2,
    NullPointerToArray = 3,
    NullPointerToIndex = 4,
    ArrayNotEmpty = 10,
    NullPointerToValues = 11,
    Unsorted = 12,
}

/// The caller's error record (`JError_t`).
#[repr(C)]
pub struct JudyError {
    errno: c_int,
    id: c_int,
    reserved: [usize; 4],
}

/// Fills in the caller's error record, if there is one, and returns `result`.
///
/// # Safety
/// `error` must be null or a caller's error record.
pub(crate) unsafe fn fail<R>(error: *mut JudyError, errno: Errno, result: R) -> R {
    if !error.is_null() {
        // SAFETY: the caller's contract. The id is only for reports to us: its value
        // means nothing that a program may rely on.
        unsafe {
            (*error).errno = errno as c_int;
            (*error).id = 0;
        }
    }
    result
}
