//! What becomes of heap payloads that somebody hands to libc's `free`.
//!
//! See docs/payloads-and-libc.md for the choice and why it is sound.

/// Makes it safe to serve `xmalloc` from the heap; false when it cannot be, and
/// then payloads must come from libc.
pub(crate) fn make_safe() -> Result<bool, String> {
    Ok(crate::libc_malloc::is_this_library())
}
