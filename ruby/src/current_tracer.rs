//! The tracer that Ruby's own tracing functions mark with. Ruby calls `rb_gc_mark` and
//! similar functions without any context, so the tracer is kept here while Ruby traces.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use ashlar_heap::Tracer;

/// Null unless Ruby is tracing. Only the collecting thread uses it, with all Ractors
/// stopped.
static CURRENT: AtomicPtr<Tracer<'static>> = AtomicPtr::new(null_mut());

/// Runs `trace`, which makes Ruby trace; whatever Ruby marks meanwhile is marked by
/// `tracer`.
#[inline(always)]
pub(crate) fn lend(tracer: &mut Tracer<'_>, trace: impl FnOnce()) {
    let lent = (&raw mut *tracer).cast();
    CURRENT.store(lent, Relaxed);
    trace();
    CURRENT.store(null_mut(), Relaxed);
}

/// Runs `mark` with the tracer if Ruby is tracing, and returns whether it is. A
/// reference that Ruby marks at any other time is ignored.
///
/// # Safety
/// The calling thread holds the VM lock, or is called back from inside a collection;
/// `mark` does not call Ruby.
#[inline(always)]
pub(crate) unsafe fn with(mark: impl FnOnce(&mut Tracer<'_>)) -> bool {
    // SAFETY: whoever lent the tracer borrows it, is inside `lend`, and does not use
    // it there; Ruby traces on one thread, and each call back has it for itself.
    let tracer = unsafe { CURRENT.load(Relaxed).as_mut() };
    tracer.map(mark).is_some()
}
