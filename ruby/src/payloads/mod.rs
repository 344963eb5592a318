//! Payloads: the process's `malloc` under `LD_PRELOAD`, and Ruby's `xmalloc`.

mod process_malloc;
mod xmalloc;

pub(crate) use xmalloc::free_swept;

/// A thread's cache of payloads of the one heap there is.
pub(crate) type ThreadCache = ashlar_heap::payload::thread_cache::ThreadCache<'static>;
