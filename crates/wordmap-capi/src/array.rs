//! A caller's root word seen as the map or set that it is.

use crate::memory::Shared;
use ashlar_wordmap::{WordMap, WordSet};
use std::ffi::c_void;

pub(crate) type Map = WordMap<Shared>;
pub(crate) type Set = WordSet<Shared>;

const _: () = assert!(size_of::<Map>() == 8 && size_of::<Set>() == 8);

/// The map whose root word a caller keeps.
///
/// # Safety
/// `root` must be null or lead to a word that is null or was made by this library's
/// JudyL functions, and that nobody else uses meanwhile.
#[inline(always)]
pub(crate) unsafe fn map_at<'a>(root: *mut *mut c_void) -> Option<&'a mut Map> {
    // SAFETY: the caller's duty; a map has the layout of its root word.
    unsafe { root.cast::<Map>().as_mut() }
}

/// As [`map_at`] for Judy1.
///
/// # Safety
/// As [`map_at`].
#[inline(always)]
pub(crate) unsafe fn set_at<'a>(root: *mut *mut c_void) -> Option<&'a mut Set> {
    // SAFETY: as `map_at`.
    unsafe { root.cast::<Set>().as_mut() }
}

/// The map of a root word passed by value, for reading.
///
/// # Safety
/// The word must be one of this library's JudyL arrays, or null.
#[inline(always)]
pub(crate) unsafe fn map_of(root: &*const c_void) -> &Map {
    // SAFETY: the caller's duty; a map has the layout of its root word.
    unsafe { &*std::ptr::from_ref(root).cast::<Map>() }
}

/// As [`map_of`] for Judy1.
///
/// # Safety
/// As [`map_of`].
#[inline(always)]
pub(crate) unsafe fn set_of(root: &*const c_void) -> &Set {
    // SAFETY: as `map_of`.
    unsafe { &*std::ptr::from_ref(root).cast::<Set>() }
}

/// How far to step one by one before counting in larger strides.
const STEPS: u64 = 64;

/// The first key from `key` up that is absent; `full(a, b)` says whether all
/// keys of `a..=b` are present.
pub(crate) fn empty_up(
    key: u64,
    has: impl Fn(u64) -> bool,
    full: impl Fn(u64, u64) -> bool,
) -> Option<u64> {
    let mut at = key;
    for _ in 0..STEPS {
        if !has(at) {
            return Some(at);
        }
        at = at.checked_add(1)?;
    }
    // Present up to `at`, exclusive; double the stride, then halve it.
    let mut stride = STEPS;
    while full(at, at.saturating_add(stride)) {
        at = at.checked_add(stride)?.checked_add(1)?;
        stride = stride.saturating_mul(2);
    }
    while stride > 0 {
        stride /= 2;
        if full(at, at.saturating_add(stride)) {
            at = at.checked_add(stride)?.checked_add(1)?;
        }
    }
    Some(at)
}

/// As [`empty_up`], downwards.
pub(crate) fn empty_down(
    key: u64,
    has: impl Fn(u64) -> bool,
    full: impl Fn(u64, u64) -> bool,
) -> Option<u64> {
    let flipped = empty_up(!key, |k| has(!k), |a, b| full(!b, !a));
    flipped.map(|k| !k)
}
