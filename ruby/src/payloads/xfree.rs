//! Frees Ruby's payloads: for Ruby, and for the collector with the object that owned them.

use std::ptr::NonNull;

use super::process_malloc::{ashlar_free_payload, free_payload, is_counted_elsewhere, note_end};
use super::thread_caches::OwnCache;
use crate::knobs::KNOBS;
use crate::libc_malloc;

/// Frees the payload of a dead object.
///
/// # Safety
/// Nobody else has the payload.
#[inline(always)]
pub(crate) unsafe fn free_swept(payload: NonNull<u8>) {
    // SAFETY: nobody else has the payload.
    unsafe { ashlar_xfree(OwnCache::now(), payload) };
}

#[no_mangle]
pub(crate) unsafe extern "C" fn ashlar_xfree(cache: OwnCache, payload: NonNull<u8>) {
    // SAFETY: Ruby does not use the payload any more.
    unsafe {
        if KNOBS.xfree_is_plain() {
            return free_payload(cache, payload);
        }
        if is_counted_elsewhere(payload.as_ptr().cast()) {
            note_end(payload);
            libc_malloc::counted_free(payload.as_ptr().cast());
        } else {
            ashlar_free_payload(cache, payload);
        }
    }
}
