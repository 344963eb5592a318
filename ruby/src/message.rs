//! Messages: lines on standard error, and texts for the shim, which frees them.

use std::ffi::{c_char, CString};
use std::fmt::Display;
use std::io::{stderr, Write};

use crate::spare_memory::with_spare;

/// Prints a line on standard error. One that cannot be written is lost: the program goes on, where
/// `eprintln!` would end it.
pub(crate) fn print(text: impl Display) {
    let _ = writeln!(stderr(), "ashlar: {text}");
}

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
