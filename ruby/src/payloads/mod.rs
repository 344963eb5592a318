//! Payloads: the process's `malloc` under `LD_PRELOAD`, and Ruby's `xmalloc`.

mod process_malloc;
pub(crate) mod thread_caches;
pub(crate) mod xfree;
pub(crate) mod xmalloc;

/// A thread's cache of payloads of the one heap there is.
pub(crate) type ThreadCache = ashlar_heap::ThreadCache<'static>;
