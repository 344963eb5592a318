//! The start of a process: its object space, and the allocation caches of its Ractors.

use std::ffi::{c_char, CStr};
use std::ptr::{null_mut, NonNull};

use ashlar_heap::{refusals, AllocationCache, Heap, WIDTHS, WIDTH_COUNT};

use crate::collector::Collector;
use crate::knobs::KNOBS;
use crate::libc_malloc::MallocSource;
use crate::lock::{note_start, Gvl, Objspace};
use crate::object_model::Ruby;
use crate::options::Options;
use crate::ruby_calls::{RubyCalls, RubyEvents};
use crate::spare_memory::with_spare;
use crate::{code_cache, heap_profile, inlined, interpose, layout, libc_malloc, message, statics};

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
    if options.heap.refuse != refusals::current() {
        refusals::refuse(options.heap.refuse);
    }
    heap_profile::read_environment(&options)?;
    code_cache::settings::read_environment(options.lazy_code)?;
    let refused = "the system refuses the memory of the heap; raise `ulimit -v` or `ulimit -d`";
    #[cfg(not(test))]
    crate::spare_memory::SPARE.map().map_err(|_| refused)?;
    let shared = statics::shared().ok_or(refused)?;
    let heap =
        Heap::new(Ruby::new(calls, events), shared, options.heap.pace).map_err(|_| refused)?;
    libc_malloc::find(options.malloc);
    let ruby = calls.thread_has_gvl as *const () as usize;
    let payloads_here = options.malloc == MallocSource::Heap && interpose::make_safe(ruby);
    KNOBS.serve_from_heap(payloads_here);
    // SAFETY: may be called at any time.
    unsafe { ashlar_watch_forks() };
    let malloc = if payloads_here {
        MallocSource::Heap
    } else {
        MallocSource::Libc
    };
    let collector = Collector::new(heap, Options { malloc, ..options });
    let objspace = Objspace::new(collector);
    inlined::show_stage(objspace.stage_byte());
    Ok(objspace)
}

/// Makes the object space, before Ruby allocates anything.
///
/// # Safety
/// The arguments are as `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_objspace_new(
    calls: &RubyCalls,
    events: &RubyEvents,
    ruby_version: *const c_char,
    failure: &mut *const c_char,
) -> *mut Objspace {
    // SAFETY: the shim passes a text that ends with 0.
    let version = unsafe { CStr::from_ptr(ruby_version) };
    match new_objspace(*calls, *events, &version.to_string_lossy()) {
        Ok(objspace) => objspace.begin(),
        Err(message) => {
            // Nobody frees the message, because the process ends now.
            *failure = message::hand_over(message);
            null_mut()
        }
    }
}

/// A Ractor's allocation cache. The first one is made before Ruby has a lock.
#[no_mangle]
unsafe extern "C" fn ashlar_cache_new(gvl: Gvl) -> *mut AllocationCache<'static> {
    let mut cache =
        with_spare(|| gvl.with_vm_lock_if_there(|collector| collector.heap.new_cache()));
    // SAFETY: the cache is new, and nobody else has it.
    heap_profile::cache_is_new(unsafe { cache.as_mut() });
    note_start();
    cache.as_ptr()
}

#[no_mangle]
unsafe extern "C" fn ashlar_cache_free(gvl: Gvl, cache: Option<NonNull<AllocationCache<'static>>>) {
    if let Some(cache) = cache {
        // SAFETY: Ruby has no more use for the cache.
        gvl.with_vm_lock(|collector| unsafe { collector.heap.drop_cache(cache) });
    }
}

/// The widths that objects can have, in bytes, ended by 0.
#[export_name = "ashlar_object_widths"]
static RUBY_WIDTHS: [usize; WIDTH_COUNT + 1] = {
    let mut widths = [0; WIDTH_COUNT + 1];
    let mut index = 0;
    while index < WIDTH_COUNT {
        widths[index] = WIDTHS[index] as usize;
        index += 1;
    }
    // Ruby derives from the first width how many variables an object has room for, and
    // objects never have the narrowest cells (`objects::width_for`).
    widths[0] = widths[1];
    widths
};
