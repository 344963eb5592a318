//! What the shim calls about binary forms.

use std::ffi::{c_char, c_void};
use std::ptr::{null, NonNull};

use crate::lock::Gvl;

/// Copies a binary form. Returns null when there is no memory.
#[no_mangle]
unsafe extern "C" fn ashlar_keep_binary_form(
    objspace: *mut c_void,
    form: *const u8,
    bytes: usize,
) -> *const c_char {
    // SAFETY: the shim passes the bytes of a string, which nobody changes meanwhile.
    let form = unsafe { std::slice::from_raw_parts(form, bytes) };
    // SAFETY: Ruby calls with the GVL.
    let kept = unsafe { Gvl::of_caller(objspace) }
        .with_vm_lock(|collector| collector.binary_forms.keep(form));
    kept.map_or(null(), |kept| kept.as_ptr().cast())
}

/// Gives a form back: the object that had it is dead.
#[no_mangle]
unsafe extern "C" fn ashlar_give_binary_form_back(objspace: *mut c_void, form: NonNull<u8>) {
    // SAFETY: Ruby calls with the GVL, and the shim passes a form once that it has from above.
    unsafe {
        Gvl::of_caller(objspace).with_vm_lock(|collector| collector.binary_forms.give_back(form));
    }
}
