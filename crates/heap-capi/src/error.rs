//! The calling thread's latest error, as a line.

use std::cell::RefCell;
use std::ffi::c_char;
use std::fmt::{Display, Error, Result, Write};
use std::panic::{self, PanicHookInfo};
use std::sync::Once;

/// Bytes of a line, with the zero after it.
const LINE_BYTES: usize = 1024;

/// A line that needs no other memory: that memory is out is an error, too. What does not fit is
/// left out.
struct Line {
    bytes: [u8; LINE_BYTES],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> Result {
        for character in text.chars().filter(|&character| character != '\0') {
            let room = &mut self.bytes[self.length..LINE_BYTES - 1];
            if room.len() < character.len_utf8() {
                return Err(Error);
            }
            self.length += character.encode_utf8(room).len();
        }
        Ok(())
    }
}

thread_local! {
    static LATEST: RefCell<Line> = const {
        RefCell::new(Line { bytes: [0; LINE_BYTES], length: 0 })
    };
}

/// Keeps what went wrong for `ashlar_error`.
pub(crate) fn note(message: impl Display) {
    LATEST.with_borrow_mut(|latest| {
        latest.length = 0;
        // An error says that not all of it fits.
        let _ = write!(latest, "{message}");
        latest.bytes[latest.length] = 0;
    });
}

/// Returns whether there is memory, and keeps that there is none for `what`.
pub(crate) fn no_memory_unless(has_memory: bool, what: &str) -> bool {
    if !has_memory {
        note(format_args!("memory is out: no {what}"));
    }
    has_memory
}

/// Has panics, which end the process, leave one line on standard error.
pub(crate) fn have_panics_leave_a_line() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| panic::set_hook(Box::new(leave_a_line)));
}

fn leave_a_line(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let formatted = payload.downcast_ref::<String>().map(String::as_str);
    let message = formatted.or_else(|| payload.downcast_ref::<&str>().copied());
    let place = panic.location().map(|place| format!(" ({place})"));
    eprintln!(
        "ashlar: {}{}",
        message.unwrap_or("a panic"),
        place.unwrap_or_default()
    );
}

#[no_mangle]
extern "C" fn ashlar_error() -> *const c_char {
    LATEST.with_borrow(|latest| latest.bytes.as_ptr().cast())
}

/// The latest error of this thread.
#[cfg(test)]
pub(crate) fn latest() -> String {
    // SAFETY: a zero follows the line.
    let line = unsafe { std::ffi::CStr::from_ptr(ashlar_error()) };
    line.to_str().expect("text").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_no_zeros_and_ends_at_a_whole_character() {
        assert_eq!(latest(), "");
        note("a\0b");
        assert_eq!(latest(), "ab");
        note(format_args!("{}{}", "a".repeat(1020), "ää"));
        assert_eq!(latest(), format!("{}ä", "a".repeat(1020)));
        note("b");
        assert_eq!(latest(), "b");
    }
}
