//! Where heap payloads go that a program hands to libc's `free`, and where Ruby's own core
//! gets memory when it calls `malloc`.
//!
//! Ruby's own core and extensions do hand them over: memory from `xmalloc` ends in `free`,
//! `realloc` or `malloc_usable_size`. Under `LD_PRELOAD` these are this library's functions
//! anyway. Otherwise their callers are redirected to functions that look at the address first:
//! the symbols by which the loader and `dlsym` find `free` lead to them, and so do the
//! relocation slots of all objects that were loaded before. Then what Ruby's core takes by
//! `malloc` can be payloads, too. See docs/design/payloads-and-libc.md for why this is sound and what
//! was rejected.

use std::ffi::{c_void, CStr};

use crate::elf::{self, LoadedObject, Slot};
use crate::libc_malloc::{self, FunctionAddress};
use crate::message;

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
    /// What calls of most objects are redirected to; only of functions that are passed memory,
    /// which may be a payload.
    to: Option<fn() -> usize>,
    /// What Ruby's own calls are redirected to: those for its parser's trees, its regular
    /// expressions, and its just-in-time compiler's notes. Other objects keep libc's `malloc`.
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

/// Makes it safe to serve `xmalloc` from the heap. Returns false when that is impossible; then
/// payloads must come from libc.
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
    // In this order: slots that the loader relocates after the first step are right already.
    let is_safe = all_known && redefine() && redirect_slots(ruby);
    if all_known && !is_safe {
        message::print(
            "calls of free cannot be redirected, because the system or the C library \
             does not let their places be written, or Ruby has an allocator of its own; \
             payloads come from libc (in the first case preload this library to have them \
             from the heap)",
        );
    }
    is_safe
}

/// Makes lookups of the functions' names find the replacements from now on.
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
        // The lookup takes the loader's lock: an object that was being relocated with the real
        // function's address is complete afterwards.
        let found = libc_malloc::look_up(redirection.name) as usize;
        outcome == Some(true) && found == to()
    })
}

/// Redirects the slots of the objects that were relocated before; returns false when one could
/// not be redirected.
fn redirect_slots(ruby: usize) -> bool {
    // Found by its address, because another object may have a function of that name.
    let ruby = elf::definition(c"ruby_thread_has_gvl_p", ruby);
    let mut all_redirected = true;
    elf::for_each_object(|object| {
        let is_ruby = object.contains(ruby);
        all_redirected &= object.is_exempt(ruby) || redirect(object, is_ruby);
        all_redirected &= !is_ruby || frees_payloads(object);
    });
    all_redirected
}

/// Whether Ruby's own calls of `free` take payloads. They do not where Ruby has an allocator
/// linked into it, or calls one's functions by other names.
fn frees_payloads(ruby: &LoadedObject) -> bool {
    let to = ashlar_interposed_free as *const () as usize;
    ruby.is_this_library() || ruby.any_slot(|slot| slot.name == c"free" && slot.value == to)
}

fn redirect(object: &LoadedObject, is_ruby: bool) -> bool {
    object.rewrite(|slot: &Slot| {
        let redirection = REDIRECTIONS.iter().find(|r| r.name == slot.name)?;
        let to = match is_ruby {
            true => (redirection.to_for_ruby)(),
            false => redirection.to?(),
        };
        // A slot that leads anywhere else belongs to another allocator. One that is not bound yet
        // looks the same as one that is bound to an allocator in the object itself. It finds what
        // the symbols lead to when it is bound, which in Ruby's own object is not enough.
        let is_reals = slot.value == redirection.real.address() as usize;
        let is_redefined = redirection.to.is_some_and(|to| slot.value == to());
        let is_rubys = is_ruby && slot.leads_to_own_object;
        ((is_reals || is_redefined || is_rubys) && slot.value != to).then_some(to)
    })
}
