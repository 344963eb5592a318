//! What the shim calls about the code cache (`shim/code_cache.c`).

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::ptr::{null_mut, slice_from_raw_parts};
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Release};

use super::counts::Counts;
use super::layout::Level;
use super::what_ran::Bits;
use super::{begin, cache, settings, CodeCache, Found, FreshCode};
use crate::spare_memory::with_spare;

/// Runs `work` with the cache, if there is one; it may take from the spare memory.
fn with_cache<R>(work: impl FnOnce(&'static CodeCache) -> R) -> Option<R> {
    cache().map(|cache| with_spare(|| work(cache)))
}

/// A text that the shim passes.
///
/// # Safety
/// There are this many bytes, and they stay as they are while the text is used.
unsafe fn text<'a>(bytes: *const c_char, count: usize) -> &'a [u8] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { &*slice_from_raw_parts(bytes.cast(), count) }
}

/// `struct ashlar_source`: a file that Ruby is to load, and the circumstances.
#[repr(C)]
struct AskedSource {
    thread: usize,
    path: *const c_char,
    path_bytes: usize,
    real_path: *const c_char,
    real_path_bytes: usize,
    encoding: *const c_char,
    encoding_bytes: usize,
    level: u32,
    warnings: u64,
}

/// Whether the environment asks for a code cache.
#[no_mangle]
extern "C" fn ashlar_wants_code_cache() -> bool {
    settings::folder().is_some()
}

/// Begins the cache for the Ruby that the text describes.
#[no_mangle]
unsafe extern "C" fn ashlar_begin_code_cache(ruby: *const c_char, bytes: usize, is_verbose: bool) {
    // SAFETY: the shim passes a text of this length.
    let ruby = unsafe { text(ruby, bytes) };
    settings::set_verbose(is_verbose);
    with_spare(|| begin(ruby));
}

/// Looks for the code of a file: 0 when it is not wanted, 1 when there is none, 2 when it is
/// found.
#[no_mangle]
unsafe extern "C" fn ashlar_find_code(
    source: &AskedSource,
    code: &mut MaybeUninit<*const c_char>,
    code_bytes: &mut MaybeUninit<usize>,
) -> u32 {
    // SAFETY: the source's texts have these lengths.
    let (path, encoding) = unsafe {
        let path = text(source.path, source.path_bytes);
        (path, text(source.encoding, source.encoding_bytes))
    };
    let (thread, level, warnings) = (source.thread, Level(source.level), source.warnings);
    match with_cache(|cache| cache.find(thread, (path, encoding), level, warnings)) {
        Some(Found::Code(found)) => {
            code.write(found.as_ptr().cast());
            code_bytes.write(found.len());
            2
        }
        Some(Found::Nothing) => 1,
        Some(Found::Never) | None => 0,
    }
}

/// Refuses code that has been found, because Ruby could not load it.
#[no_mangle]
extern "C" fn ashlar_refuse_code(code: *const c_char) {
    with_cache(|cache| cache.refuse(code.addr()));
}

/// Whether what is compiled next may be a file whose code is wanted.
#[no_mangle]
extern "C" fn ashlar_awaits_code() -> bool {
    cache().is_some_and(CodeCache::awaits)
}

/// Returns something to give to [`ashlar_keep_code`] if the code of the file that this thread has
/// compiled is wanted; else null.
#[no_mangle]
unsafe extern "C" fn ashlar_compiled(source: &AskedSource) -> Option<Box<FreshCode>> {
    // SAFETY: the source's texts have these lengths.
    let paths = unsafe {
        let path = text(source.path, source.path_bytes);
        (path, text(source.real_path, source.real_path_bytes))
    };
    let (thread, level, warnings) = (source.thread, Level(source.level), source.warnings);
    let fresh = with_cache(|cache| cache.compiled(thread, paths, level, warnings));
    fresh.flatten().map(Box::new)
}

/// Keeps code; forgets `fresh`, which is from [`ashlar_compiled`], when there are no bytes.
#[no_mangle]
unsafe extern "C" fn ashlar_keep_code(fresh: Box<FreshCode>, code: *const c_char, bytes: usize) {
    // SAFETY: the shim passes this many bytes.
    let code = unsafe { text(code, bytes) };
    with_cache(|cache| cache.keep(*fresh, code));
}

/// Writes what is new, if anything is.
#[no_mangle]
extern "C" fn ashlar_write_code_cache() {
    with_cache(CodeCache::write);
}

/// The same before a fork, if enough is new.
#[no_mangle]
extern "C" fn ashlar_write_code_cache_before_fork() {
    if cache().is_some_and(CodeCache::is_worth_writing) {
        with_cache(CodeCache::write);
    }
}

#[no_mangle]
extern "C" fn ashlar_code_counts(counts: &mut MaybeUninit<Counts>) -> bool {
    let now = with_cache(CodeCache::counts);
    counts.write(now.unwrap_or_default());
    now.is_some()
}

// ── What ran ────────────────────────────────────────────────────────────────

/// Ruby has loaded the sequence with this number of the code at this address.
#[no_mangle]
extern "C" fn ashlar_note_loaded_code(binary: *const c_char, index: u32) {
    if let Some(cache) = cache() {
        cache.code_loaded(binary.addr(), index);
    }
}

/// The bits that [`ashlar_may_run_in_children`] looks at.
static RAN_BEFORE: AtomicPtr<Bits> = AtomicPtr::new(null_mut());

/// Reads what ran in earlier processes.
#[no_mangle]
extern "C" fn ashlar_read_what_ran() {
    let bits = with_cache(CodeCache::ran_before).flatten();
    let new = bits.map_or(null_mut(), |bits| Box::into_raw(Box::new(bits)));
    let old = RAN_BEFORE.swap(new, Release);
    if !old.is_null() {
        // SAFETY: a box made here. Only a thread of the main Ractor reads or replaces it, with
        // the GVL.
        drop(unsafe { Box::from_raw(old) });
    }
}

/// Whether children of this process would each load the sequence for themselves: it ran before, as
/// far as [`ashlar_read_what_ran`] has read, or it is not from the cache, so that nobody knows.
#[no_mangle]
extern "C" fn ashlar_may_run_in_children(binary: *const c_char, index: u32) -> bool {
    let Some(bit) = cache().and_then(|cache| cache.bit_of(binary.addr(), index)) else {
        return true;
    };
    // SAFETY: null, or a box that only the calling thread can replace.
    let bits = unsafe { RAN_BEFORE.load(Acquire).as_ref() };
    bits.is_some_and(|bits| bits.has(bit))
}

/// Whether code from a binary form may wait until it runs.
#[no_mangle]
extern "C" fn ashlar_lets_code_wait() -> bool {
    settings::lets_code_wait()
}
