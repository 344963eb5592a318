//! What a process has one of: the parts of the heap that every thread may use, and the
//! address of the object space.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::OnceLock;

use ashlar_heap::{options::refusal_in, os::Refused, refusals, Shared};

use crate::inlined;

static SHARED: OnceLock<Result<Shared, Refused>> = OnceLock::new();
/// What [`SHARED`] holds once it is made: one load instead of three.
static SHARED_ADDRESS: AtomicPtr<Shared> = AtomicPtr::new(null_mut());
/// The object space: `crate::objspace::Objspace`.
static OBJSPACE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Has the system refuse what `ASHLAR_STRESS` says, before it is asked for anything. Whoever
/// reads all options, later, says when the value is impossible.
fn set_refusal() {
    let text = std::env::var("ASHLAR_STRESS").ok();
    let refusal = text.and_then(|text| refusal_in(&text));
    if refusal.is_some() && refusal != refusals::current() {
        refusals::refuse(refusal);
    }
}

fn reserve() -> Result<Shared, Refused> {
    /// Ruby, its libraries, the main thread's stack and a few small ones.
    const ELSEWHERE_BYTES: usize = 96 << 20;
    set_refusal();
    Shared::reserve_beside(ELSEWHERE_BYTES)
}

/// The parts of the heap that every thread may use; made at the first call.
/// `None` when the system refuses the address space.
#[inline(always)]
pub(crate) fn shared() -> Option<&'static Shared> {
    match made_shared() {
        Some(shared) => Some(shared),
        None => make_shared(),
    }
}

/// [`shared`], if there has been a call of it.
#[inline(always)]
pub(crate) fn made_shared() -> Option<&'static Shared> {
    // SAFETY: set once, to a static; the parts of the heap are made before.
    unsafe { SHARED_ADDRESS.load(Acquire).as_ref() }
}

/// Whether the collector is at work; any thread may ask, a signal handler too.
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

/// The pointer by which Ruby knows the object space, null before Ruby has started. What
/// was written to it before can be read.
#[inline(always)]
pub(crate) fn objspace() -> *mut c_void {
    OBJSPACE.load(Acquire)
}

/// Makes `objspace` the process's.
pub(crate) fn set_objspace(objspace: *mut c_void) {
    OBJSPACE.store(objspace, Release);
}
