//! What Ruby calls about the heap profile.

use std::borrow::Cow;
use std::mem::MaybeUninit;
use std::slice::from_raw_parts;

use super::recorder::{change_image, recorder, Nameless, Recorder};
use super::{file, settings};
use crate::lock::Gvl;
use crate::message;
use crate::spare_memory::with_spare;

/// Begins what the environment asks for; prints a message when it cannot.
#[no_mangle]
extern "C" fn ashlar_begin_profile(gvl: Gvl) {
    with_spare(|| {
        if let Err(text) = gvl.with_vm_lock(settings::begin) {
            message::print(text);
        }
    });
}

/// Finds the classes of sampled payloads, for a profile that is about to be written.
#[no_mangle]
extern "C" fn ashlar_find_payload_owners(gvl: Gvl) {
    gvl.with_vm_lock(super::find_owners);
}

/// Writes something that has no name yet to `nameless`; returns false when there is
/// nothing.
#[no_mangle]
extern "C" fn ashlar_next_nameless(nameless: &mut MaybeUninit<Nameless>) -> bool {
    let taken = recorder().as_mut().and_then(Recorder::take_nameless);
    taken.map(|taken| nameless.write(taken)).is_some()
}

/// A text of Ruby's: `struct ashlar_text`.
#[repr(C)]
struct Text {
    bytes: *const u8,
    count: usize,
}

impl Text {
    /// # Safety
    /// The bytes are there, and stay as they are while the result is used.
    unsafe fn shown<'a>(&self) -> Cow<'a, str> {
        // SAFETY: the caller's contract.
        String::from_utf8_lossy(unsafe { from_raw_parts(self.bytes, self.count) })
    }
}

#[no_mangle]
unsafe extern "C" fn ashlar_name(nameless: &Nameless, label: Text, path: Text, first_line: u32) {
    if let Some(recorder) = &mut *recorder() {
        with_spare(|| {
            // SAFETY: the shim passes strings of Ruby's, and Ruby does not run meanwhile.
            let (label, path) = unsafe { (label.shown(), path.shown()) };
            recorder.name(*nameless, &label, &path, first_line);
        });
    }
}

#[no_mangle]
unsafe extern "C" fn ashlar_describe_process(description: Text) {
    with_spare(|| {
        // SAFETY: as in `ashlar_name`.
        let description = unsafe { description.shown() };
        change_image(|image| image.set_description(&description));
    });
}

/// Called when Ruby ends: writes the profile if the environment asks for it.
#[no_mangle]
extern "C" fn ashlar_write_last_profile(gvl: Gvl) {
    gvl.with_vm_lock(|collector| {
        collector.stop_ractors();
        super::note_numbers_now(collector);
    });
    file::write_last();
}

/// Called when Ruby has crashed.
#[no_mangle]
extern "C" fn ashlar_write_profile_at_crash() {
    file::write_at_crash();
}
