//! What Ruby calls about the profile of `GC::Profiler`.

use std::ffi::c_void;

use super::{Profiler, Record};
use crate::lock::Gvl;

/// Uses the profile with the VM lock held.
///
/// # Safety
/// `objspace` comes from `ashlar_objspace_new`, and the calling thread holds the GVL.
unsafe fn locked<R>(objspace: *mut c_void, with: impl FnOnce(&Profiler) -> R) -> R {
    // SAFETY: `objspace` is Ruby's, and this thread has the GVL.
    unsafe { Gvl::of_caller(objspace) }.with_vm_lock(|collector| with(&collector.profiler))
}

#[no_mangle]
unsafe extern "C" fn ashlar_profiles(objspace: *mut c_void) -> bool {
    // SAFETY: Ruby calls with the GVL.
    unsafe { locked(objspace, Profiler::is_on) }
}

#[no_mangle]
unsafe extern "C" fn ashlar_set_profiling(objspace: *mut c_void, on: bool) {
    // SAFETY: Ruby calls with the GVL.
    unsafe { locked(objspace, |profile| profile.on.set(on)) };
}

#[no_mangle]
unsafe extern "C" fn ashlar_clear_profile(objspace: *mut c_void) {
    // SAFETY: Ruby calls with the GVL.
    drop(unsafe { locked(objspace, |profile| profile.records.take()) });
}

#[no_mangle]
unsafe extern "C" fn ashlar_profile_length(objspace: *mut c_void) -> usize {
    // SAFETY: Ruby calls with the GVL.
    unsafe { locked(objspace, |profile| profile.records.borrow().len()) }
}

/// Writes one record; returns false when there are not that many.
#[no_mangle]
unsafe extern "C" fn ashlar_profile_record(
    objspace: *mut c_void,
    index: usize,
    record: *mut Record,
) -> bool {
    let copy = |profile: &Profiler| profile.records.borrow().get(index).copied();
    // SAFETY: Ruby calls with the GVL.
    match unsafe { locked(objspace, copy) } {
        Some(found) => {
            // SAFETY: the shim passes a place for the record.
            unsafe { record.write(found) };
            true
        }
        None => false,
    }
}
