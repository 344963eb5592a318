//! What exists once per process: the parts of the heap that every thread may use, and the
//! address of the object space.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::OnceLock;

use ashlar_heap::{options::refusal_in, os::Refused, refusals, Shared};

use crate::inlined;

static SHARED: OnceLock<Result<Shared, Refused>> = OnceLock::new();
/// The address of what [`SHARED`] holds, once that is made: reading it takes one load
/// instead of three.
static SHARED_ADDRESS: AtomicPtr<Shared> = AtomicPtr::new(null_mut());
/// The object space: `crate::lock::Objspace`.
static OBJSPACE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Makes the system refuse the calls that `ASHLAR_STRESS` names, before any call is made. An
/// impossible value is reported later, when all options are read.
fn set_refusal() {
    let text = std::env::var("ASHLAR_STRESS").ok();
    let refusal = text.and_then(|text| refusal_in(&text));
    if refusal.is_some() && refusal != refusals::current() {
        refusals::refuse(refusal);
    }
}

fn reserve() -> Result<Shared, Refused> {
    /// For Ruby, its libraries, the main thread's stack and a few small ones.
    const ELSEWHERE_BYTES: usize = 96 << 20;
    set_refusal();
    Shared::reserve_beside(ELSEWHERE_BYTES)
}

/// Returns the parts of the heap that every thread may use; the first call makes them.
/// `None` when the system refuses the address space.
#[inline(always)]
pub(crate) fn shared() -> Option<&'static Shared> {
    match made_shared() {
        Some(shared) => Some(shared),
        None => make_shared(),
    }
}

/// Returns what [`shared`] has made, or `None` before its first call.
#[inline(always)]
pub(crate) fn made_shared() -> Option<&'static Shared> {
    // SAFETY: the address is set once, to a static, after the parts of the heap are made.
    unsafe { SHARED_ADDRESS.load(Acquire).as_ref() }
}

/// Returns whether the collector is at work; any thread may ask, also in a signal handler.
pub(crate) fn is_busy() -> bool {
    made_shared().is_some_and(Shared::is_busy)
}

#[cold]
fn make_shared() -> Option<&'static Shared> {
    let shared = SHARED.get_or_init(|| reserve().inspect(inlined::show_region));
    let shared = shared.as_ref().ok()?;
    SHARED_ADDRESS.store((&raw const *shared).cast_mut(), Release);
    Some(shared)
}

/// Returns the pointer by which Ruby knows the object space; null before Ruby has started.
/// What was written to the object space before it was set can be read.
#[inline(always)]
pub(crate) fn objspace() -> *mut c_void {
    OBJSPACE.load(Acquire)
}

/// Makes `objspace` the object space of the process.
pub(crate) fn set_objspace(objspace: *mut c_void) {
    OBJSPACE.store(objspace, Release);
}
