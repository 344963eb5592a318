//! What becomes of heap payloads that somebody hands to libc's `free`, and what Ruby's
//! own core gets when it calls `malloc`.
//!
//! Ruby's own core and extensions do that: memory from `xmalloc` ends in
//! `free`, `realloc` or `malloc_usable_size`. Under `LD_PRELOAD` those are this
//! library's anyway. Otherwise every place in the process through which they
//! are reached is redirected to a function that looks at the address first:
//! the relocation slots of all loaded objects, those of objects loaded later,
//! and what `dlsym` answers. Then nothing speaks against payloads for what Ruby takes by
//! `malloc`, either. See docs/payloads-and-libc.md for why this is sound and what was rejected.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::elf::{LoadedObject, Slot};
use crate::knobs::KNOBS;
use crate::libc_malloc::{self, FunctionAddress};

extern "C" {
    // shim/interposed.c
    fn ashlar_interposed_malloc(size: usize) -> *mut c_void;
    fn ashlar_interposed_calloc(count: usize, size: usize) -> *mut c_void;
    fn ashlar_interposed_free(memory: *mut c_void);
    fn ashlar_interposed_realloc(memory: *mut c_void, size: usize) -> *mut c_void;
    fn ashlar_interposed_realloc_of_ruby(memory: *mut c_void, size: usize) -> *mut c_void;
    fn ashlar_interposed_reallocarray(m: *mut c_void, count: usize, size: usize) -> *mut c_void;
    fn ashlar_interposed_usable_size(memory: *mut c_void) -> usize;
    fn ashlar_interposed_dlopen(path: *const c_char, mode: c_int) -> *mut c_void;
    fn ashlar_interposed_dlopen_later(path: *const c_char, mode: c_int) -> *mut c_void;
    fn ashlar_interposed_dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// A function that is redirected.
struct Redirection {
    name: &'static CStr,
    /// The process's own function.
    real: &'static FunctionAddress,
    /// What calls from an object are redirected to, if they are.
    to: fn(object: &LoadedObject) -> Option<usize>,
}

static REALLOCARRAY: FunctionAddress = FunctionAddress::unknown();
static DLOPEN: FunctionAddress = FunctionAddress::unknown();
static DLSYM: FunctionAddress = FunctionAddress::unknown();

static REDIRECTIONS: [Redirection; 8] = [
    Redirection {
        name: c"free",
        real: &libc_malloc::FREE.address,
        to: |_| Some(ashlar_interposed_free as *const () as usize),
    },
    Redirection {
        name: c"realloc",
        real: &libc_malloc::REALLOC.address,
        to: |object| {
            Some(match object.has_symbol_of_ruby() {
                true => ashlar_interposed_realloc_of_ruby as *const () as usize,
                false => ashlar_interposed_realloc as *const () as usize,
            })
        },
    },
    Redirection {
        name: c"reallocarray",
        real: &REALLOCARRAY,
        to: |_| Some(ashlar_interposed_reallocarray as *const () as usize),
    },
    Redirection {
        name: c"malloc_usable_size",
        real: &libc_malloc::USABLE_SIZE.address,
        to: |_| Some(ashlar_interposed_usable_size as *const () as usize),
    },
    Redirection {
        name: c"dlsym",
        real: &DLSYM,
        to: |_| Some(ashlar_interposed_dlsym as *const () as usize),
    },
    // Ruby loads extensions by their full path, so the call may be made from
    // here, and the new objects are redirected before their code runs. Other
    // callers' search paths depend on who calls, so they are only noted.
    Redirection {
        name: c"dlopen",
        real: &DLOPEN,
        to: |object| {
            Some(match object.has_symbol_of_ruby() {
                true => ashlar_interposed_dlopen as *const () as usize,
                false => ashlar_interposed_dlopen_later as *const () as usize,
            })
        },
    },
    // What Ruby itself takes: its parser's trees, its regular expressions, what its
    // just-in-time compiler notes. Other objects keep libc's.
    Redirection {
        name: c"malloc",
        real: &libc_malloc::MALLOC.address,
        to: |object| {
            let is_ruby = object.has_symbol_of_ruby();
            is_ruby.then_some(ashlar_interposed_malloc as *const () as usize)
        },
    },
    Redirection {
        name: c"calloc",
        real: &libc_malloc::CALLOC.address,
        to: |object| {
            let is_ruby = object.has_symbol_of_ruby();
            is_ruby.then_some(ashlar_interposed_calloc as *const () as usize)
        },
    },
];

/// Redirecting was given up: payloads come from libc since.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);
/// The process's count of loaded objects when they were last looked at.
static LOADS_SEEN: AtomicU64 = AtomicU64::new(0);
/// One thread at a time redirects.
static REDIRECTING: Mutex<()> = Mutex::new(());

/// Waits until nobody redirects, and lets nobody begin: what a fork needs.
pub(crate) fn lock() -> MutexGuard<'static, ()> {
    REDIRECTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes it safe to serve `xmalloc` from the heap; false when it cannot be, and
/// then payloads must come from libc.
pub(crate) fn make_safe() -> bool {
    if libc_malloc::is_this_library() {
        return true;
    }
    for redirection in &REDIRECTIONS {
        redirection.real.find(redirection.name);
    }
    let all_known = REDIRECTIONS
        .iter()
        .all(|redirection| !redirection.real.address().is_null());
    all_known && redirect_new_objects()
}

/// Redirects the slots of objects loaded since the last call; false when one
/// could not be.
fn redirect_new_objects() -> bool {
    let _one_at_a_time = lock();
    let mut all_redirected = true;
    let loads = crate::elf::for_each_object(LOADS_SEEN.load(Relaxed), |object| {
        all_redirected &= object.is_exempt() || redirect(&object);
    });
    LOADS_SEEN.store(loads, Relaxed);
    all_redirected
}

fn redirect(object: &LoadedObject) -> bool {
    object.rewrite(|slot: &Slot| {
        let redirection = REDIRECTIONS.iter().find(|r| r.name == slot.name)?;
        let to = (redirection.to)(object)?;
        // A slot that leads anywhere else belongs to another allocator.
        let is_reals = slot.value == redirection.real.address() as usize;
        (is_reals || slot.is_unbound).then_some(to)
    })
}

/// Objects may have been loaded: redirects theirs, or gives up serving
/// payloads from the heap.
pub(crate) fn look_again() {
    if !redirect_new_objects() && !GIVEN_UP.swap(true, Relaxed) {
        eprintln!(
            "ashlar: a library was loaded whose calls of free cannot be redirected; \
             payloads come from libc from now on"
        );
        KNOBS.serve_from_heap(false);
    }
}

/// An extension has been loaded.
#[no_mangle]
extern "C" fn ashlar_objects_loaded() {
    look_again();
}

/// Something will be loaded: the next `xmalloc` looks again.
#[no_mangle]
extern "C" fn ashlar_objects_will_load() {
    KNOBS.look_again_soon();
}

/// What `dlsym` answers instead of `address`.
#[no_mangle]
extern "C" fn ashlar_redirected(name: *const c_char, address: *mut c_void) -> *mut c_void {
    // SAFETY: the caller of dlsym passes a string.
    let name = unsafe { CStr::from_ptr(name) };
    let known = REDIRECTIONS[..4].iter().find(|r| r.name == name);
    match known {
        Some(r) if r.real.address() == address => {
            (r.to)(&LoadedObject::none()).map_or(address, |to| to as *mut c_void)
        }
        _ => address,
    }
}

/// The process's own function, by its place in the list above.
#[no_mangle]
extern "C" fn ashlar_real_function(name: *const c_char) -> *mut c_void {
    // SAFETY: the shim passes a string.
    let name = unsafe { CStr::from_ptr(name) };
    let known = REDIRECTIONS.iter().find(|r| r.name == name);
    known.map_or(std::ptr::null_mut(), |r| r.real.address())
}
