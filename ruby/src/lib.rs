//! Ruby on the Ashlar heap: `librubygc.ashlar.so`.
//!
//! The shim (`shim/*.c`) implements Ruby's `gc_impl.h` and forwards here; the
//! functions it calls are the `extern "C"` ones, named `ashlar_*` and declared
//! in `shim/ashlar_ruby.h`. For all of them holds what that header says, and no other `# Safety` section
//! repeats it: an `objspace` is the one that [`process`] has made; the thread that passes it
//! holds the GVL, or it is called back from inside a collection; values are objects of this
//! heap; a place can be written to, and a text has the length that is passed. What else such a
//! function relies on, its own comment says.
//!
//! * [`statics`], [`objspace`]: what a process has one of; [`process`]: its start.
//! * [`lock`]: who may use what: any thread, the GVL, the VM lock.
//! * [`collector`]: what is used with the VM lock; [`knobs`]: what any thread may read.
//! * [`options`]: the environment variables.
//! * [`objects`], [`barriers`], [`payloads`]: what Ruby calls all the time.
//! * [`inlined`]: what of that the shim does without calling.
//! * [`collect`]: a collection as Ruby sees it.
//! * [`object_model`]: what the collector knows about Ruby's objects.
//! * [`compaction`]: how they move.
//! * [`current_tracer`]: the tracer, while Ruby's own code traces.
//! * [`finalizers`], [`object_ids`], [`walk`], [`fork`].
//! * [`heap_profile`]: samples of what the heap hands out, for other processes to read.
//! * [`statistics`], [`profiler`], [`config`]: what Ruby shows of all this.
//! * [`dump`]: the whole heap, written to a file.
//! * [`interpose`], [`elf`]: what becomes of memory that somebody frees with libc.

mod barriers;
mod collect;
mod collector;
mod compaction;
mod config;
mod counters;
mod current_tracer;
mod dump;
mod elf;
mod finalizers;
mod fork;
mod heap_profile;
mod inlined;
mod interpose;
mod knobs;
mod layout;
mod libc_malloc;
mod lock;
mod message;
mod move_counts;
mod object_ids;
mod object_model;
mod objects;
mod objspace;
mod options;
// Tests have Rust's usual memory, which sanitizers know.
#[cfg(not(test))]
mod own_memory;
mod payloads;
mod process;
mod profiler;
#[cfg(test)]
#[path = "../../crates/heap-capi/src/refusing_allocator.rs"]
mod refusing_allocator;
mod ruby_calls;
mod ruby_gc_variables;
#[cfg(test)]
mod shared_test;
mod spare_memory;
mod statics;
mod statistics;
mod table_memory;
mod walk;
mod whole_file;
