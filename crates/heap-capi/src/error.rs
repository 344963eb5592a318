//! The calling thread's latest error, as a line.

use std::cell::RefCell;
use std::ffi::{c_char, CString};

thread_local! {
    static LATEST: RefCell<CString> = RefCell::default();
}

/// Keeps what went wrong for `ashlar_error`.
pub(crate) fn note(message: impl Into<Vec<u8>>) {
    let mut bytes: Vec<u8> = message.into();
    bytes.retain(|&byte| byte != 0);
    // Bytes without a zero among them make a string.
    let text = CString::new(bytes).unwrap_or_default();
    LATEST.with(|latest| *latest.borrow_mut() = text);
}

#[no_mangle]
extern "C" fn ashlar_error() -> *const c_char {
    LATEST.with(|latest| latest.borrow().as_ptr())
}
