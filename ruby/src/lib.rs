//! Ruby on the Ashlar heap: `librubygc.ashlar.so`.
//!
//! The shim (`shim/*.c`) implements Ruby's `gc_impl.h` and forwards here; the functions it
//! calls are the `extern "C"` ones, named `ashlar_*` and declared in `shim/ashlar_ruby.h`.
//! What that header says holds for all of them, and no other `# Safety` section repeats it: an
//! `objspace` is the one that [`process`] has made; the thread that passes it holds the GVL,
//! or is called back from inside a collection; values are objects of this heap; a place can be
//! written to, and a text has the length that is passed. Whatever else a function relies on,
//! its own comment says.
//!
//! * [`statics`]: what exists once per process; [`process`]: its start.
//! * [`lock`]: the object space, and what a thread may use without a lock, with the GVL and with the VM lock.
//! * [`collector`]: what the VM lock guards; [`knobs`]: what any thread may read.
//! * [`options`]: the environment variables.
//! * [`objects`], [`barriers`], [`payloads`]: what Ruby calls all the time.
//! * [`inlined`]: which parts of these the shim does without a call.
//! * [`collect`]: a collection as Ruby sees it.
//! * [`object_model`]: what the collector knows about Ruby's objects.
//! * [`compaction`]: how objects move.
//! * [`current_tracer`]: the tracer, kept while Ruby's own code traces.
//! * [`finalizers`], [`object_ids`], [`walk`], [`fork`].
//! * [`heap_profile`]: samples of what the heap hands out, for other processes to read.
//! * [`statistics`], [`profiler`], [`config`]: what Ruby shows of all this.
//! * [`dump`]: the whole heap, written to a file.
//! * [`code_cache`]: compiled code, kept in a file for later processes; [`binary_forms`]: code that waits to be
//!   loaded and is in no file.
//! * [`interpose`], [`elf`]: where memory goes that a program frees with libc's `free`.

mod barriers;
mod binary_forms;
mod code_cache;
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
mod mapping;
mod message;
mod move_counts;
mod object_ids;
mod object_model;
mod objects;
mod options;
// Tests keep Rust's default allocator, which sanitizers know.
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
mod size_signal;
mod spare_memory;
mod statics;
mod statistics;
mod table_memory;
mod walk;
mod whole_file;
