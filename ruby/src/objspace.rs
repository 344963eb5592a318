//! The object space of a process: Ruby's functions and the collector.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::collector::Collector;
use crate::lock::{Locked, Unlocked};
use crate::ruby_calls::RubyCalls;
use crate::statics;

/// What Ruby calls an object space.
pub(crate) struct Objspace {
    pub(crate) calls: RubyCalls,
    pub(crate) collector: Locked<Collector>,
}

/// Whether the main Ractor has its allocation cache.
static STARTED: AtomicBool = AtomicBool::new(false);

/// The object space, once Ruby has started.
#[inline(always)]
pub(crate) fn objspace() -> Option<&'static Objspace> {
    // SAFETY: the address is that of an object space, which is never freed.
    unsafe { statics::objspace().cast::<Objspace>().as_ref() }
}

/// The object space that a call of Ruby names.
///
/// # Safety
/// `objspace` must come from `ashlar_objspace_new`.
#[inline(always)]
pub(crate) unsafe fn from_ruby(objspace: *mut c_void) -> &'static Objspace {
    // SAFETY: the caller's contract; the object space is never freed.
    unsafe { &*objspace.cast() }
}

/// What any thread may ask of the heap of the object space that Ruby names.
///
/// # Safety
/// `objspace` must come from `ashlar_objspace_new`.
#[inline(always)]
pub(crate) unsafe fn unlocked(objspace: *mut c_void) -> Unlocked<'static> {
    // SAFETY: `objspace` is Ruby's, which lives for as long as the process.
    unsafe { from_ruby(objspace) }.collector.unlocked()
}

/// Makes `objspace` the object space of the process.
#[cfg(test)]
pub(crate) fn start_for_test(objspace: Objspace) {
    note_start();
    statics::set_objspace((&raw mut *Box::leak(Box::new(objspace))).cast());
}

/// Notes that Ruby has its first Ractor.
pub(crate) fn note_start() {
    STARTED.store(true, Relaxed);
}

/// Whether Ruby has a Ractor, and with it the VM lock.
pub(crate) fn has_started() -> bool {
    STARTED.load(Relaxed)
}
