//! Payloads: the process's `malloc` under `LD_PRELOAD`, and Ruby's `xmalloc`.

mod for_code;
mod process_malloc;
pub(crate) mod thread_caches;
pub(crate) mod xfree;
pub(crate) mod xmalloc;
