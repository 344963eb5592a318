//! Everything that a process has one of, and its start.

use std::ffi::{c_char, c_void, CStr, CString};
use std::ptr::{null_mut, NonNull};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr};
use std::sync::OnceLock;

use ashlar_heap::os::{self, Refused};
use ashlar_heap::AllocationCache;
use ashlar_heap::{Heap, Shared};
use ashlar_heap::{WIDTHS, WIDTH_COUNT};

use crate::collector::Collector;
use crate::knobs::KNOBS;
use crate::lock::{Gvl, Locked, Unlocked};
use crate::object_model::Ruby;
use crate::options::{MallocSource, Options};
use crate::ruby_calls::{RubyCalls, RubyEvents};
use crate::{interpose, layout, libc_malloc};

/// What Ruby calls an object space.
pub(crate) struct Objspace {
    pub(crate) calls: RubyCalls,
    pub(crate) collector: Locked<Collector>,
}

static SHARED: OnceLock<Result<Shared, Refused>> = OnceLock::new();
/// What [`SHARED`] holds once it is made: one load instead of three.
static SHARED_ADDRESS: AtomicPtr<Shared> = AtomicPtr::new(null_mut());
static OBJSPACE: AtomicPtr<Objspace> = AtomicPtr::new(null_mut());
/// The main Ractor has its allocation cache.
static STARTED: AtomicBool = AtomicBool::new(false);

/// Address space to reserve: enough for any program on this machine, and of a
/// limited address space a part that leaves room for stacks and libraries.
fn reserve_bytes() -> usize {
    const GIB: usize = 1 << 30;
    let wanted = (4 * os::physical_memory_bytes().unwrap_or(16 * GIB)).clamp(64 * GIB, 4096 * GIB);
    match os::address_space_limit_bytes() {
        Some(limit) => wanted.min(reserve_bytes_below(limit)),
        None => wanted,
    }
}

/// What a limit on the address space leaves for the heap. Its tables and stacks
/// take nearly as much again.
fn reserve_bytes_below(limit: usize) -> usize {
    /// Ruby, its libraries, the main thread's stack and a few small ones.
    const ELSE_BYTES: usize = 96 << 20;
    limit.saturating_sub(ELSE_BYTES) / 2
}

/// With less than this Ruby does not get as far as its first line.
const RESERVE_BYTES_MIN: usize = 16 << 20;

fn reserve() -> Result<Shared, Refused> {
    let mut bytes = reserve_bytes();
    while bytes >= RESERVE_BYTES_MIN {
        if let Ok(shared) = Shared::reserve(bytes) {
            return Ok(shared);
        }
        bytes /= 2;
    }
    Err(Refused)
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

#[cold]
fn make_shared() -> Option<&'static Shared> {
    let shared = SHARED.get_or_init(reserve).as_ref().ok()?;
    SHARED_ADDRESS.store((&raw const *shared).cast_mut(), Release);
    Some(shared)
}

/// The object space, once Ruby has started.
#[inline(always)]
pub(crate) fn objspace() -> Option<&'static Objspace> {
    // SAFETY: the object space is never freed, and was written before its address.
    unsafe { OBJSPACE.load(Acquire).as_ref() }
}

/// The pointer by which Ruby knows the object space.
pub(crate) fn as_ruby() -> *mut c_void {
    OBJSPACE.load(Relaxed).cast()
}

/// The object space that a call of Ruby names.
///
/// # Safety
/// `objspace` must come from [`ashlar_objspace_new`].
#[inline(always)]
pub(crate) unsafe fn from_ruby(objspace: *mut c_void) -> &'static Objspace {
    // SAFETY: the caller's contract; the object space is never freed.
    unsafe { &*objspace.cast() }
}

/// What any thread may ask of the heap of the object space that Ruby names.
///
/// # Safety
/// `objspace` must come from [`ashlar_objspace_new`].
#[inline(always)]
pub(crate) unsafe fn unlocked(objspace: *mut c_void) -> Unlocked<'static> {
    // SAFETY: the caller's contract.
    unsafe { from_ruby(objspace) }.collector.unlocked()
}

/// Makes `objspace` the process's.
#[cfg(test)]
pub(crate) fn start_for_test(objspace: Objspace) {
    STARTED.store(true, Relaxed);
    OBJSPACE.store(Box::leak(Box::new(objspace)), Release);
}

/// Whether Ruby has a Ractor, and with it the VM lock.
pub(crate) fn has_started() -> bool {
    STARTED.load(Relaxed)
}

extern "C" {
    fn ashlar_watch_forks();
}

fn new_objspace(
    calls: RubyCalls,
    events: RubyEvents,
    ruby_version: &str,
) -> Result<Box<Objspace>, String> {
    if ruby_version != layout::RUBY_VERSION {
        return Err(format!(
            "this library was built for Ruby {} and cannot run in Ruby {ruby_version}; \
             build it for this Ruby, or unset RUBY_GC_LIBRARY",
            layout::RUBY_VERSION
        ));
    }
    let options = Options::from_environment(|name| std::env::var(name).ok())?;
    let refused = "the system refuses the memory of the heap; raise `ulimit -v` or `ulimit -d`";
    let shared = shared().ok_or(refused)?;
    let heap = Heap::new(Ruby::new(calls, events), shared, options.pace).map_err(|_| refused)?;
    libc_malloc::find();
    let payloads_here = options.malloc == MallocSource::Heap && interpose::make_safe();
    KNOBS.serve_from_heap(payloads_here);
    // SAFETY: may be called at any time.
    unsafe { ashlar_watch_forks() };
    let malloc = if payloads_here {
        MallocSource::Heap
    } else {
        MallocSource::Libc
    };
    let collector = Collector::new(heap, Options { malloc, ..options });
    Ok(Box::new(Objspace {
        calls,
        collector: Locked::new(collector),
    }))
}

/// Makes the object space, before Ruby allocates anything.
///
/// # Safety
/// The arguments are as `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_objspace_new(
    calls: *const RubyCalls,
    events: *const RubyEvents,
    ruby_version: *const c_char,
    failure: *mut *const c_char,
) -> *mut Objspace {
    // SAFETY: the shim passes valid pointers.
    let (calls, events, version) = unsafe {
        (
            *calls,
            *events,
            CStr::from_ptr(ruby_version).to_string_lossy(),
        )
    };
    match new_objspace(calls, events, &version) {
        Ok(objspace) => {
            let objspace = Box::leak(objspace);
            OBJSPACE.store(objspace, Release);
            objspace
        }
        Err(message) => {
            let message = CString::new(message).unwrap_or_default();
            // SAFETY: the shim passes a place for the message, which is leaked
            // because the process ends now.
            unsafe { failure.write(message.into_raw()) };
            null_mut()
        }
    }
}

/// A Ractor's allocation cache. The first one is made before Ruby has a lock.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_cache_new(objspace: *mut c_void) -> *mut AllocationCache<'static> {
    // SAFETY: Ruby calls with the GVL, or before it has one.
    let gvl = unsafe { Gvl::of_caller(objspace) };
    let cache = gvl.with_vm_lock_if_there(|collector| collector.heap.new_cache());
    STARTED.store(true, Relaxed);
    cache.as_ptr()
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_cache_free(
    objspace: *mut c_void,
    cache: *mut AllocationCache<'static>,
) {
    // SAFETY: Ruby calls with the GVL.
    let gvl = unsafe { Gvl::of_caller(objspace) };
    if let Some(cache) = NonNull::new(cache) {
        // SAFETY: Ruby has no more use for the cache.
        gvl.with_vm_lock(|collector| unsafe { collector.heap.drop_cache(cache) });
    }
}

static RUBY_WIDTHS: [usize; WIDTH_COUNT + 1] = {
    let mut widths = [0; WIDTH_COUNT + 1];
    let mut index = 0;
    while index < WIDTH_COUNT {
        widths[index] = WIDTHS[index] as usize;
        index += 1;
    }
    // Ruby derives from it how many variables an object has room for, and
    // objects never have the narrowest cells (`objects::width_for`).
    widths[0] = widths[1];
    widths
};

/// What objects can have, by width, ended by 0.
#[no_mangle]
extern "C" fn ashlar_widths() -> *const usize {
    RUBY_WIDTHS.as_ptr()
}
