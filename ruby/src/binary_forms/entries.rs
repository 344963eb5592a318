//! What the shim calls about binary forms.

use std::ffi::c_char;
use std::ptr::{null, NonNull};

use crate::lock::Gvl;

/// Copies a binary form. Returns null when there is no memory.
#[no_mangle]
unsafe extern "C" fn ashlar_keep_binary_form(
    gvl: Gvl,
    form: *const u8,
    bytes: usize,
) -> *const c_char {
    // SAFETY: the shim passes the bytes of a string, which nobody changes meanwhile.
    let form = unsafe { std::slice::from_raw_parts(form, bytes) };
    let kept = gvl.with_vm_lock(|collector| collector.binary_forms.keep(form));
    kept.map_or(null(), |kept| kept.as_ptr().cast())
}

/// Gives a form back: the object that had it is dead.
#[no_mangle]
unsafe extern "C" fn ashlar_give_binary_form_back(gvl: Gvl, form: NonNull<u8>) {
    // SAFETY: the shim passes a form once that it has from above.
    gvl.with_vm_lock(|collector| unsafe { collector.binary_forms.give_back(form) });
}
