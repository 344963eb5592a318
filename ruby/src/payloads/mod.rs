//! Payloads: the process's `malloc` under `LD_PRELOAD`, and Ruby's `xmalloc`.

mod process_malloc;
mod xmalloc;

pub(crate) use xmalloc::free_swept;
