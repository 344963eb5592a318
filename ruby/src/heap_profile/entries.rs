//! What Ruby calls about the heap profile.

use std::ffi::{c_char, CStr};
use std::mem::MaybeUninit;

use super::recorder::{change_image, recorder, Nameless, Recorder};
use super::{file, settings};
use crate::lock::Gvl;
use crate::spare_memory::with_spare;

/// Begins what the environment asks for; prints a message when it cannot.
#[no_mangle]
extern "C" fn ashlar_begin_profile(gvl: Gvl) {
    with_spare(|| {
        if let Err(message) = gvl.with_vm_lock(settings::begin) {
            eprintln!("ashlar: {message}");
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

#[no_mangle]
unsafe extern "C" fn ashlar_name(
    nameless: &Nameless,
    label: *const c_char,
    path: *const c_char,
    first_line: u32,
) {
    // SAFETY: the shim passes texts that end with 0.
    let (label, path) = unsafe { (CStr::from_ptr(label), CStr::from_ptr(path)) };
    if let Some(recorder) = &mut *recorder() {
        with_spare(|| {
            let (label, path) = (label.to_string_lossy(), path.to_string_lossy());
            recorder.name(*nameless, &label, &path, first_line);
        });
    }
}

#[no_mangle]
unsafe extern "C" fn ashlar_describe_process(description: *const c_char) {
    // SAFETY: the shim passes a text that ends with 0.
    let description = unsafe { CStr::from_ptr(description) };
    with_spare(|| {
        let description = description.to_string_lossy();
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
