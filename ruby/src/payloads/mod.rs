//! Payloads: the process's `malloc` under `LD_PRELOAD`, and Ruby's `xmalloc`.

mod process_malloc;
mod xmalloc;

pub(crate) use xmalloc::free_swept;
#[cfg(test)]
pub(crate) use xmalloc::{ashlar_xfree, ashlar_xmalloc, ashlar_xrealloc};

/// A thread's cache of payloads of the one heap there is.
pub(crate) type ThreadCache = ashlar_heap::ThreadCache<'static>;
