//! Messages for the shim, which frees them.

use std::ffi::{c_char, CString};

use crate::spare_memory::with_spare;

/// Hands a message over; the shim gives it back to [`ashlar_message_free`].
pub(crate) fn hand_over(text: String) -> *mut c_char {
    with_spare(|| CString::new(text).unwrap_or_default().into_raw())
}

/// # Safety
/// The message comes from [`hand_over`] and is not used any more.
#[no_mangle]
unsafe extern "C" fn ashlar_message_free(message: *mut c_char) {
    // SAFETY: `hand_over` made the message, and nobody uses it any more.
    drop(unsafe { CString::from_raw(message) });
}
