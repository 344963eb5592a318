//! What becomes of heap payloads that somebody hands to libc's `free`, and what Ruby's
//! own core gets when it calls `malloc`.
//!
//! Ruby's own core and extensions do that: memory from `xmalloc` ends in
//! `free`, `realloc` or `malloc_usable_size`. Under `LD_PRELOAD` those are this
//! library's anyway. Otherwise whoever reaches them is redirected to a function that looks at
//! the address first: the symbols by which the loader and `dlsym` find them lead there, and
//! so do the relocation slots of all objects that were loaded before. Then nothing speaks
//! against payloads for what Ruby takes by `malloc`, either. See docs/payloads-and-libc.md
//! for why this is sound and what was rejected.

use std::ffi::{c_void, CStr};

use crate::elf::{self, LoadedObject, Slot};
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
}

/// A function that is redirected.
struct Redirection {
    name: &'static CStr,
    /// The process's own function.
    real: &'static FunctionAddress,
    /// What calls are redirected to; those of most objects if they free memory, which may be a
    /// payload then.
    to: Option<fn() -> usize>,
    /// What Ruby's own calls are redirected to: its parser's trees, its regular expressions,
    /// what its just-in-time compiler notes. Other objects keep libc's `malloc`.
    to_for_ruby: fn() -> usize,
}

static REALLOCARRAY: FunctionAddress = FunctionAddress::unknown();

static REDIRECTIONS: [Redirection; 6] = [
    Redirection {
        name: c"free",
        real: &libc_malloc::FREE.address,
        to: Some(|| ashlar_interposed_free as *const () as usize),
        to_for_ruby: || ashlar_interposed_free as *const () as usize,
    },
    Redirection {
        name: c"realloc",
        real: &libc_malloc::REALLOC.address,
        to: Some(|| ashlar_interposed_realloc as *const () as usize),
        to_for_ruby: || ashlar_interposed_realloc_of_ruby as *const () as usize,
    },
    Redirection {
        name: c"reallocarray",
        real: &REALLOCARRAY,
        to: Some(|| ashlar_interposed_reallocarray as *const () as usize),
        to_for_ruby: || ashlar_interposed_reallocarray as *const () as usize,
    },
    Redirection {
        name: c"malloc_usable_size",
        real: &libc_malloc::USABLE_SIZE.address,
        to: Some(|| ashlar_interposed_usable_size as *const () as usize),
        to_for_ruby: || ashlar_interposed_usable_size as *const () as usize,
    },
    Redirection {
        name: c"malloc",
        real: &libc_malloc::MALLOC.address,
        to: None,
        to_for_ruby: || ashlar_interposed_malloc as *const () as usize,
    },
    Redirection {
        name: c"calloc",
        real: &libc_malloc::CALLOC.address,
        to: None,
        to_for_ruby: || ashlar_interposed_calloc as *const () as usize,
    },
];

/// Makes it safe to serve `xmalloc` from the heap; false when it cannot be, and
/// then payloads must come from libc.
///
/// Called once, when Ruby starts; other threads of the program may be loading objects. `ruby`
/// is the address of Ruby's function `ruby_thread_has_gvl_p`.
pub(crate) fn make_safe(ruby: usize) -> bool {
    if libc_malloc::is_this_library() {
        return true;
    }
    REALLOCARRAY.find(c"reallocarray");
    let all_known = REDIRECTIONS
        .iter()
        .all(|redirection| !redirection.real.address().is_null());
    // In this order: what the loader relocates from the first step on needs no second one.
    let is_safe = all_known && redefine() && redirect_slots(ruby);
    if all_known && !is_safe {
        eprintln!(
            "ashlar: calls of free cannot be redirected, because the system or the C library \
             does not let their places be written; payloads come from libc (preload this \
             library to have them from the heap)"
        );
    }
    is_safe
}

/// Has the functions found under their names from now on.
fn redefine() -> bool {
    elf::order_stores_for_all_threads();
    REDIRECTIONS.iter().all(|redirection| {
        let Some(to) = redirection.to else {
            return true;
        };
        let real = redirection.real.address() as usize;
        let mut outcome = None;
        elf::for_each_object(|object| {
            outcome = outcome.or_else(|| object.redefine(redirection.name, real, to()));
        });
        // Looking it up takes the loader's lock: an object that is being relocated with the
        // real function's address is complete afterwards.
        let found = libc_malloc::look_up(redirection.name) as usize;
        outcome == Some(true) && found == to()
    })
}

/// Redirects the slots of the objects that have been relocated before; false when one could
/// not be.
fn redirect_slots(ruby: usize) -> bool {
    // By its address: another object may have a function of that name.
    let ruby = elf::definition(c"ruby_thread_has_gvl_p", ruby);
    let mut all_redirected = true;
    elf::for_each_object(|object| {
        all_redirected &= object.is_exempt(ruby) || redirect(object, object.contains(ruby));
    });
    all_redirected
}

fn redirect(object: &LoadedObject, is_ruby: bool) -> bool {
    object.rewrite(|slot: &Slot| {
        let redirection = REDIRECTIONS.iter().find(|r| r.name == slot.name)?;
        let to = match is_ruby {
            true => (redirection.to_for_ruby)(),
            false => redirection.to?(),
        };
        // A slot that leads anywhere else belongs to another allocator.
        let is_reals = slot.value == redirection.real.address() as usize;
        let is_redefined = redirection.to.is_some_and(|to| slot.value == to());
        ((is_reals || is_redefined || slot.is_unbound) && slot.value != to).then_some(to)
    })
}
