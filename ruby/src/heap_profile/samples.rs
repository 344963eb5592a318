//! The end of samples: of payloads that are freed or resized, and of cells that die or move.

use ashlar_heap::MarkingEnd;

use super::image::Kind;
use super::recorder::{while_sampling, with_any, Fate, Recorder};
use super::watch;
use crate::knobs::KNOBS;
use crate::payloads::thread_caches::with_locks_free;
use crate::ruby_calls::{cell, Value};

/// Called when a payload is about to be freed while samples are taken.
#[inline]
pub(crate) fn payload_freed(address: usize) {
    if watch::may_have(address) {
        payload_ends(address);
    }
}

#[cold]
fn payload_ends(address: usize) {
    with_recorder_of_payloads(|recorder| {
        recorder.remove(address, Kind::Payload, watch::collections())
    });
}

/// Runs `work` with the recorder, if there is one. A thread that forks frees payloads, too,
/// while it has the recorder locked.
fn with_recorder_of_payloads<R>(work: impl FnOnce(&mut Recorder) -> R) -> Option<R> {
    with_locks_free(|| with_any(work))
}

/// Resizes the payload at this address with `resize`, which returns null when it fails: then the
/// payload is still there, and its sample goes on.
#[inline(always)]
pub(crate) fn while_resized(
    address: usize,
    resize: impl FnOnce() -> *mut std::ffi::c_void,
) -> *mut std::ffi::c_void {
    if KNOBS.samples_payloads() && watch::may_have(address) {
        resize_sample(address, resize)
    } else {
        resize()
    }
}

/// The sample ends before the payload is resized, because another thread may have a sample at
/// this address as soon as the payload is somewhere else.
#[cold]
#[inline(never)]
fn resize_sample(
    address: usize,
    resize: impl FnOnce() -> *mut std::ffi::c_void,
) -> *mut std::ffi::c_void {
    let ended = with_recorder_of_payloads(|recorder| {
        recorder.take(address, Kind::Payload, watch::collections())
    });
    let resized = resize();
    if let Some(ended) = ended.flatten().filter(|_| resized.is_null()) {
        with_recorder_of_payloads(|recorder| recorder.put_back(ended));
    }
    resized
}

/// Ends the samples of what has died, once marking is over.
pub(crate) fn marked(end: &MarkingEnd<'_>) {
    let fate = |value| {
        // SAFETY: the recorder knows objects by their addresses, and forgets the dead ones.
        let cell = unsafe { cell(value) };
        match (end.is_dead(cell), end.is_old(cell)) {
            (true, _) => Fate::Dead,
            (false, false) => Fate::Young,
            (false, true) => Fate::Old,
        }
    };
    while_sampling(|recorder| recorder.forget_dead(end.scope(), watch::collections(), &fate));
}

/// Called when a collection has swept: all that it found dead is freed.
pub(crate) fn swept() {
    if !KNOBS.has_heap_profile.is_on() {
        return;
    }
    with_any(Recorder::swept);
}

/// Called when a cell has moved.
pub(crate) fn moved(from: Value, to: Value) {
    with_any(|recorder| recorder.moved(from, to));
}
