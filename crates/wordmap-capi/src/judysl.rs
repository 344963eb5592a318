//! JudySL: NUL-terminated string to word, in the order of the bytes.
//!
//! A string is cut into chunks of 8 bytes, highest byte first, so that the chunks'
//! numbers compare as the bytes do. An array is a map from chunk to
//!
//! * the value itself, where the chunk contains the string's end (a zero byte);
//! * a *tail* (lowest bit 1): the rest of a string, if only one goes on after the chunk,
//!   and its value;
//! * the root of another map (lowest bit 0), for the strings that go on after the chunk.

use crate::array::{map_at, Map};
use crate::error::{fail, Errno, JudyError, JERR, POINTER_ERROR};
use crate::memory::Shared;
use std::ffi::{c_int, c_void};
use std::ptr::{from_mut, from_ref, null_mut};

type Slot = *mut *mut c_void;

/// The rest of a string and its value; the bytes, with their NUL, follow.
#[repr(C)]
struct Tail {
    value: u64,
    text: [u8; 0],
}

/// A link in a map: a tail's address with bit 0 set, or a map's root.
enum Link {
    Tail(*mut Tail),
    Map,
}

fn link(word: u64) -> Link {
    if word & 1 == 1 {
        Link::Tail(std::ptr::with_exposed_provenance_mut((word & !1) as usize))
    } else {
        Link::Map
    }
}

/// The map whose root word is at `slot`.
///
/// # Safety
/// The word must be a link to a map, or 0.
unsafe fn inner<'a>(slot: *mut u64) -> &'a mut Map {
    // SAFETY: a map has the layout of its root word.
    unsafe { &mut *slot.cast::<Map>() }
}

/// Reads up to 8 bytes of a string as a number; also returns whether its end is among
/// them.
///
/// # Safety
/// `text` must lead to a NUL-terminated string.
#[inline(always)]
unsafe fn chunk(text: *const u8) -> (u64, bool) {
    let mut bytes = [0; 8];
    for (i, b) in bytes.iter_mut().enumerate() {
        // SAFETY: no byte before this one was the string's end.
        *b = unsafe { *text.add(i) };
        if *b == 0 {
            return (u64::from_be_bytes(bytes), true);
        }
    }
    (u64::from_be_bytes(bytes), false)
}

fn is_last(chunk: u64) -> bool {
    chunk.to_be_bytes().contains(&0)
}

/// Writes a chunk, up to the string's end if that is in it.
///
/// # Safety
/// `to` must be writable for this many bytes.
unsafe fn write_chunk(to: *mut u8, chunk: u64) {
    for (i, b) in chunk.to_be_bytes().into_iter().enumerate() {
        // SAFETY: there is room for this many bytes.
        unsafe { *to.add(i) = b };
        if b == 0 {
            return;
        }
    }
}

/// # Safety
/// `text` must lead to a NUL-terminated string.
unsafe fn new_tail(text: *const u8) -> Option<*mut Tail> {
    // SAFETY: `text` is the caller's string; the new block has room for value, text and
    // NUL.
    unsafe {
        let length = libc::strlen(text.cast()) + 1;
        let tail: *mut Tail = libc::malloc(8 + length).cast();
        if tail.is_null() {
            return None;
        }
        (*tail).value = 0;
        std::ptr::copy_nonoverlapping(text, (*tail).text.as_mut_ptr(), length);
        Some(tail)
    }
}

/// # Safety
/// `tail` must be live.
unsafe fn tail_text(tail: *mut Tail) -> *const u8 {
    // SAFETY: the text follows the value in the same block.
    unsafe { tail.cast::<u8>().add(8) }
}

/// # Safety
/// `tail` must be live; it is freed.
unsafe fn free_tail(tail: *mut Tail) -> usize {
    // SAFETY: tails come from malloc.
    unsafe {
        let bytes = 8 + libc::strlen(tail_text(tail).cast()) + 1;
        libc::free(tail.cast());
        bytes
    }
}

/// Finds or inserts a string in a map; `None` when there is no memory.
///
/// # Safety
/// `text` must lead to a NUL-terminated string.
unsafe fn insert(mut map: &mut Map, mut text: *const u8) -> Option<*mut u64> {
    // SAFETY: chunks are read up to the string's end; links lead to live tails and maps.
    unsafe {
        loop {
            let (here, last) = chunk(text);
            let slot = from_mut(map.try_place(here).ok()?);
            if last {
                return Some(slot);
            }
            text = text.add(8);
            if *slot == 0 {
                let Some(tail) = new_tail(text) else {
                    map.remove(here);
                    return None;
                };
                *slot = tail.expose_provenance() as u64 | 1;
                return Some(&raw mut (*tail).value);
            }
            if let Link::Tail(tail) = link(*slot) {
                if libc::strcmp(tail_text(tail).cast(), text.cast()) == 0 {
                    return Some(&raw mut (*tail).value);
                }
                *slot = push_down(tail)?;
            }
            map = inner(slot);
        }
    }
}

/// Makes a map of one string from a tail; returns the map's root.
///
/// # Safety
/// `tail` must be live; it is freed unless the result is `None`.
unsafe fn push_down(tail: *mut Tail) -> Option<u64> {
    // SAFETY: the tail is live, and its text ends with NUL; no chunk after the end is
    // read.
    unsafe {
        let mut root = 0u64;
        let map = inner(&mut root);
        let text = tail_text(tail);
        let (here, last) = chunk(text);
        let slot = from_mut(map.try_place(here).ok()?);
        if last {
            *slot = (*tail).value;
        } else {
            let Some(shorter) = new_tail(text.add(8)) else {
                map.remove(here);
                return None;
            };
            (*shorter).value = (*tail).value;
            *slot = shorter.expose_provenance() as u64 | 1;
        }
        free_tail(tail);
        Some(root)
    }
}

/// # Safety
/// `text` must lead to a NUL-terminated string.
unsafe fn find(mut map: &Map, mut text: *const u8) -> Option<*mut u64> {
    // SAFETY: chunks are read up to the string's end; links lead to live tails and maps.
    unsafe {
        loop {
            let (here, last) = chunk(text);
            let slot = from_ref(map.get(here)?).cast_mut();
            if last {
                return Some(slot);
            }
            text = text.add(8);
            match link(*slot) {
                Link::Tail(tail) => {
                    let same = libc::strcmp(tail_text(tail).cast(), text.cast()) == 0;
                    return same.then_some(&raw mut (*tail).value);
                }
                Link::Map => map = inner(slot),
            }
        }
    }
}

/// Frees everything below a link; returns the bytes.
///
/// # Safety
/// `slot` must hold a link; what it leads to is freed.
unsafe fn free_link(slot: *mut u64) -> usize {
    // SAFETY: the slot holds a link, which nobody follows any more.
    unsafe {
        match link(*slot) {
            Link::Tail(tail) => free_tail(tail),
            Link::Map => free_map(inner(slot)),
        }
    }
}

/// # Safety
/// All links of `map` must be live; what they lead to is freed.
unsafe fn free_map(map: &mut Map) -> usize {
    let mut bytes = map.memory_used();
    for (key, value) in map.iter_mut() {
        if !is_last(key) {
            // SAFETY: the values of chunks without an end are links.
            bytes += unsafe { free_link(value) };
        }
    }
    map.clear();
    bytes
}

/// The direction in which the nearest string is looked for.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Up,
    Down,
}

/// Finds the nearest string to `text` in `map`, which may be `text` itself when
/// `same_counts`; returns the address of its value. The string is written over `text`,
/// deepest chunk first, so that `text` is read before it is overwritten.
///
/// # Safety
/// `text` must lead to a NUL-terminated string with room for any string of the array.
unsafe fn near(map: &Map, text: *mut u8, way: Way, same_counts: bool) -> Option<*mut u64> {
    // SAFETY: the string ends with the chunk that contains its end, and no chunk after
    // that is read; values of other chunks are links. The caller guarantees room for
    // what is written.
    unsafe {
        let (here, last) = chunk(text);
        if let Some(value) = map.get(here) {
            let slot = from_ref(value).cast_mut();
            let found = if last {
                same_counts.then_some(slot)
            } else {
                match link(*slot) {
                    Link::Tail(tail) => near_tail(tail, text.add(8), way, same_counts),
                    Link::Map => near(inner(slot), text.add(8), way, same_counts),
                }
            };
            if found.is_some() {
                return found;
            }
        }
        let beside = match way {
            Way::Up => map.after(here),
            Way::Down => map.at_or_before(here.checked_sub(1)?),
        };
        let (chunk, value) = beside?;
        Some(end_of(chunk, from_ref(value).cast_mut(), text, way))
    }
}

/// # Safety
/// As [`near`], for the rest of the string and a live tail.
unsafe fn near_tail(
    tail: *mut Tail,
    rest: *mut u8,
    way: Way,
    same_counts: bool,
) -> Option<*mut u64> {
    // SAFETY: both strings end with NUL, and the caller guarantees room for any string
    // of the array.
    unsafe {
        let order = libc::strcmp(tail_text(tail).cast(), rest.cast());
        let fits = match way {
            Way::Up => order > 0,
            Way::Down => order < 0,
        };
        if !(fits || order == 0 && same_counts) {
            return None;
        }
        libc::strcpy(rest.cast(), tail_text(tail).cast());
        Some(&raw mut (*tail).value)
    }
}

/// Writes the lowest (going up) or highest string below an entry of a map; returns the
/// address of the string's value.
///
/// # Safety
/// As [`near`]; `slot` is the entry's value.
unsafe fn end_of(mut chunk: u64, mut slot: *mut u64, mut text: *mut u8, way: Way) -> *mut u64 {
    // SAFETY: values of chunks without an end are links to live tails and maps; the
    // caller guarantees room for any string of the array.
    unsafe {
        loop {
            write_chunk(text, chunk);
            if is_last(chunk) {
                return slot;
            }
            text = text.add(8);
            if let Link::Tail(tail) = link(*slot) {
                libc::strcpy(text.cast(), tail_text(tail).cast());
                return &raw mut (*tail).value;
            }
            let map = inner(slot);
            let next = match way {
                Way::Up => map.at_or_after(0),
                Way::Down => map.at_or_before(u64::MAX),
            };
            let Some((next_chunk, value)) = next else {
                return slot;
            };
            (chunk, slot) = (next_chunk, from_ref(value).cast_mut());
        }
    }
}

/// Finds or inserts a string; a new value is 0. Returns the address of the value.
///
/// # Safety
/// As documented for libJudy: `root` leads to an array or is null, `text` to a
/// NUL-terminated string or is null, `error` to a record or is null.
#[no_mangle]
pub unsafe extern "C" fn JudySLIns(root: Slot, text: *const u8, error: *mut JudyError) -> Slot {
    // SAFETY: `root` leads to an array or is null, `text` to a string or is null.
    unsafe {
        let Some(map) = map_at(root) else {
            return fail(error, Errno::NullPointerToArray, POINTER_ERROR);
        };
        if text.is_null() {
            return fail(error, Errno::NullPointerToIndex, POINTER_ERROR);
        }
        match insert(map, text) {
            Some(slot) => slot.cast(),
            None => fail(error, Errno::NoMemory, POINTER_ERROR),
        }
    }
}

/// Returns the address of the value of a string, or null.
///
/// # Safety
/// As [`JudySLIns`].
#[no_mangle]
pub unsafe extern "C" fn JudySLGet(
    root: *const c_void,
    text: *const u8,
    error: *mut JudyError,
) -> Slot {
    // SAFETY: `root` is an array or null, `text` leads to a string or is null.
    unsafe {
        if text.is_null() {
            return fail(error, Errno::NullPointerToIndex, POINTER_ERROR);
        }
        find(crate::array::map_of(&root), text).map_or(null_mut(), <*mut u64>::cast)
    }
}

/// Removes a string; returns 1, or 0 if it was not there.
///
/// # Safety
/// As [`JudySLIns`].
#[no_mangle]
pub unsafe extern "C" fn JudySLDel(root: Slot, text: *const u8, error: *mut JudyError) -> c_int {
    // SAFETY: `root` leads to an array or is null, `text` to a string or is null.
    unsafe {
        let Some(map) = map_at(root) else {
            return fail(error, Errno::NullPointerToArray, JERR);
        };
        if text.is_null() {
            return fail(error, Errno::NullPointerToIndex, JERR);
        }
        c_int::from(remove(map, text))
    }
}

/// # Safety
/// `text` must lead to a NUL-terminated string.
unsafe fn remove(mut map: &mut Map, mut text: *const u8) -> bool {
    // SAFETY: chunks are read up to the string's end; links lead to live tails and maps.
    // The raw pointer points to a map above the current one; the map is not touched
    // while the pointer is used.
    unsafe {
        if find(map, text).is_none() {
            return false;
        }
        // The last entry on the path that is not alone in its map: from there down
        // everything belongs to this string only.
        let mut cut: (*mut Map, u64) = (from_mut(map), chunk(text).0);
        loop {
            let (here, last) = chunk(text);
            if map.len() > 1 {
                cut = (from_mut(map), here);
            }
            let Some(slot) = map.get_mut(here).map(from_mut) else {
                return false;
            };
            if last {
                break;
            }
            text = text.add(8);
            match link(*slot) {
                Link::Tail(_) => break,
                Link::Map => map = inner(slot),
            }
        }
        let (map, here) = (&mut *cut.0, cut.1);
        if !is_last(here) {
            if let Some(slot) = map.get_mut(here) {
                free_link(slot);
            }
        }
        map.remove(here);
        true
    }
}

/// Frees the array; returns how many bytes it had.
///
/// # Safety
/// As [`JudySLIns`].
#[no_mangle]
pub unsafe extern "C" fn JudySLFreeArray(root: Slot, error: *mut JudyError) -> usize {
    // SAFETY: `root` leads to an array or is null, `error` to a record or is null.
    unsafe {
        match map_at(root) {
            Some(map) => free_map(map),
            None => fail(error, Errno::NullPointerToArray, JERR as usize),
        }
    }
}

macro_rules! neighbour {
    ($(#[$doc:meta])* $name:ident, $way:expr, $same:literal) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As [`JudySLIns`]; `text` has room for any string of the array.
        #[no_mangle]
        pub unsafe extern "C" fn $name(
            root: *const c_void,
            text: *mut u8,
            error: *mut JudyError,
        ) -> Slot {
            // SAFETY: `root` is an array or null, and any string of it fits at `text`.
            unsafe {
                if text.is_null() {
                    return fail(error, Errno::NullPointerToIndex, POINTER_ERROR);
                }
                let map = crate::array::map_of(&root);
                near(map, text, $way, $same).map_or(null_mut(), <*mut u64>::cast)
            }
        }
    };
}

neighbour!(
    /// Finds the first string at or after `text`, and writes it over `text`.
    JudySLFirst, Way::Up, true
);
neighbour!(
    /// Finds the first string after `text`, and writes it over `text`.
    JudySLNext, Way::Up, false
);
neighbour!(
    /// Finds the last string at or before `text`, and writes it over `text`.
    JudySLLast, Way::Down, true
);
neighbour!(
    /// Finds the last string before `text`, and writes it over `text`.
    JudySLPrev, Way::Down, false
);

const _: () = assert!(size_of::<Shared>() == 0 && size_of::<Tail>() == 8);
