//! JudySL: NUL-terminated string to word, in the order of the bytes.
//!
//! A string is cut into chunks of 8 bytes, highest byte first, so that the chunks'
//! numbers compare as the bytes do. An array is a map from chunk to
//!
//! * the value itself, where the chunk contains the string's end (a zero byte);
//! * a *tail* (lowest bit 1): the rest of a string, if only one goes on after the chunk,
//!   and its value;
//! * the root of another map (lowest bit 0), for the strings that go on after the chunk.
//!
//! Two strings with a long common beginning are below as many maps of one entry as the beginning
//! has chunks. So nothing here calls itself for a string's next chunk: the stack may be small.

use crate::array::{map_at, Map};
use crate::error::{fail, Errno, JudyError, JERR, POINTER_ERROR};
use crate::memory::Shared;
use std::ffi::{c_int, c_void};
use std::mem::replace;
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

/// The link to a tail.
fn link_to(tail: *mut Tail) -> u64 {
    tail.expose_provenance() as u64 | 1
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

/// Finds or inserts a string in a map; `None` when there is no memory, and nothing has changed.
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
                *slot = link_to(tail);
                return Some(&raw mut (*tail).value);
            }
            if let Link::Tail(tail) = link(*slot) {
                if libc::strcmp(tail_text(tail).cast(), text.cast()) == 0 {
                    return Some(&raw mut (*tail).value);
                }
                let (root, value) = split(tail, text)?;
                *slot = root;
                libc::free(tail.cast());
                return Some(value);
            }
            map = inner(slot);
        }
    }
}

/// Makes a map of the string that a tail has and of `text`, another one. Returns the map's root, and
/// the address of the value of `text`. `None` when there is no memory; the tail is as it was in
/// either case.
///
/// # Safety
/// `tail` must be live; `text` must lead to a NUL-terminated string.
unsafe fn split(tail: *mut Tail, text: *const u8) -> Option<(u64, *mut u64)> {
    let mut root = 0;
    // SAFETY: both texts end with NUL, and no chunk after an end is read. The root is that of a map
    // made here, or 0, and what has been made goes when there is no memory for the rest.
    unsafe {
        let old = tail_text(tail);
        let common = common_bytes(old, text);
        let mut levels = (0..common).step_by(8).rev();
        let value = place_two(&mut root, (*tail).value, old.add(common), text.add(common))
            .filter(|_| levels.all(|at| put_below(chunk(old.add(at)).0, &mut root)));
        if value.is_none() {
            free_map(inner(&mut root));
        }
        Some((root, value?))
    }
}

/// How many bytes two strings have in common at their beginnings, in whole chunks.
///
/// # Safety
/// Both must be NUL-terminated, and not the same.
unsafe fn common_bytes(one: *const u8, other: *const u8) -> usize {
    let mut common = 0;
    // SAFETY: the strings differ, so they do not end with these chunks.
    while unsafe { chunk(one.add(common)) == chunk(other.add(common)) } {
        common += 8;
    }
    common
}

/// Puts two strings, which differ in their first chunk, into the map of a root, which must be 0.
/// Returns the address of the value of `new`, which is 0; `None` when there is no memory.
///
/// # Safety
/// Both texts must be NUL-terminated.
unsafe fn place_two(
    root: &mut u64,
    old_value: u64,
    old: *const u8,
    new: *const u8,
) -> Option<*mut u64> {
    // SAFETY: the root is 0, which is that of an empty map; both texts end with NUL.
    unsafe {
        let map = inner(root);
        *place_alone(map, old)? = old_value;
        place_alone(map, new)
    }
}

/// Puts a string into a map that has no string with its first chunk. Returns the address of its
/// value, which is 0; `None` when there is no memory.
///
/// # Safety
/// `text` must lead to a NUL-terminated string.
unsafe fn place_alone(map: &mut Map, text: *const u8) -> Option<*mut u64> {
    // SAFETY: no chunk after the string's end is read.
    unsafe {
        let (here, last) = chunk(text);
        if last {
            return map.try_place(here).ok().map(from_mut);
        }
        let tail = new_tail(text.add(8))?;
        if map.try_insert(here, link_to(tail)).is_err() {
            libc::free(tail.cast());
            return None;
        }
        Some(&raw mut (*tail).value)
    }
}

/// Makes a map with one entry, for `chunk`, of which the map at `root` becomes the value, and sets
/// `root` to the new one. Returns false when there is no memory.
///
/// # Safety
/// `root` must hold the root of a map.
unsafe fn put_below(chunk: u64, root: &mut u64) -> bool {
    let mut above = 0;
    // SAFETY: 0 is the root of an empty map.
    let is_done = unsafe { inner(&mut above).try_insert(chunk, *root).is_ok() };
    if is_done {
        *root = above;
    }
    is_done
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

/// Frees a map and all below it; returns the bytes. Needs no memory, and as much stack for deep maps
/// as for flat ones.
///
/// # Safety
/// All links of `map` must be live; what they lead to is freed.
unsafe fn free_map(map: &mut Map) -> usize {
    let mut waiting = Waiting {
        latest: 0,
        bytes: 0,
    };
    // SAFETY: the caller's contract. Each map is freed once all its links have been followed.
    unsafe {
        for (key, value) in map.iter_mut() {
            waiting.take(key, *value);
        }
        waiting.bytes += map.clear_and_count();
        while let Some(mut root) = waiting.pop() {
            let map = inner(&mut root);
            for (key, value) in map.iter_mut().skip(1) {
                waiting.take(key, *value);
            }
            waiting.bytes += map.clear_and_count();
        }
    }
    waiting.bytes
}

/// Maps that are to be freed, in a list: the first value of each, which has been freed already, is
/// the root of the next one.
struct Waiting {
    /// The root of the map that was put here last; 0 for none.
    latest: u64,
    /// The bytes of all that has been freed.
    bytes: usize,
}

impl Waiting {
    /// Frees what an entry of a map leads to, or puts it on the list.
    ///
    /// # Safety
    /// A value of a chunk without an end must be a live link, and nobody may follow it any more.
    unsafe fn take(&mut self, mut key: u64, mut value: u64) {
        // SAFETY: the caller's contract; a map that a link leads to is not empty.
        unsafe {
            // The first value of a map may be a map, too.
            while !is_last(key) {
                if let Link::Tail(tail) = link(value) {
                    self.bytes += free_tail(tail);
                    return;
                }
                let mut root = value;
                let Some((first, place)) = inner(&mut root).iter_mut().next() else {
                    return;
                };
                (key, value) = (first, replace(place, self.latest));
                self.latest = root;
            }
        }
    }

    /// Takes a map off the list, and returns its root.
    ///
    /// # Safety
    /// The list must be as [`Waiting`] says.
    unsafe fn pop(&mut self) -> Option<u64> {
        let mut root = self.latest;
        // SAFETY: 0, which is that of an empty map, or the root of a map on the list.
        let (_, rest) = unsafe { inner(&mut root).first_key_value()? };
        self.latest = *rest;
        Some(root)
    }
}

/// The direction in which the nearest string is looked for.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Up,
    Down,
}

/// A map on the way to a string.
#[derive(Clone, Copy)]
struct Level<'a> {
    map: &'a Map,
    /// The chunk by which the way goes on.
    chunk: u64,
    /// Where the string has it.
    text: *mut u8,
}

impl Level<'_> {
    /// The nearest entry beside the chunk, and the address of its value.
    fn beside(&self, way: Way) -> Option<Beside> {
        let found = match way {
            Way::Up => self.map.after(self.chunk),
            Way::Down => self.map.at_or_before(self.chunk.checked_sub(1)?),
        };
        found.map(|(chunk, value)| Beside {
            chunk,
            value: from_ref(value).cast_mut(),
            text: self.text,
        })
    }
}

/// An entry beside the way to a string.
struct Beside {
    chunk: u64,
    value: *mut u64,
    /// Where its chunk is to be written.
    text: *mut u8,
}

/// The levels of a way. The deepest one that has an entry beside the way is wanted. It is most
/// often among the last few, so an earlier one is looked at only when more than these follow.
struct Levels<'a> {
    way: Way,
    last: [Option<Level<'a>>; LEVELS_KEPT],
    count: usize,
    /// What lies beside the deepest of the others.
    above: Option<Beside>,
}

const LEVELS_KEPT: usize = 8;

impl<'a> Levels<'a> {
    fn new(way: Way) -> Self {
        Self {
            way,
            last: [None; LEVELS_KEPT],
            count: 0,
            above: None,
        }
    }

    fn push(&mut self, level: Level<'a>) {
        let place = &mut self.last[self.count % LEVELS_KEPT];
        if let Some(beside) = place.replace(level).and_then(|old| old.beside(self.way)) {
            self.above = Some(beside);
        }
        self.count += 1;
    }

    /// The entry beside the way at the deepest level that has one.
    fn deepest(self) -> Option<Beside> {
        let kept = self.count.saturating_sub(LEVELS_KEPT)..self.count;
        let mut levels = kept.rev().map(|number| self.last[number % LEVELS_KEPT]);
        let found = levels.find_map(|level| level?.beside(self.way));
        found.or(self.above)
    }
}

/// Finds the nearest string to `text` in `map`, which may be `text` itself when
/// `same_counts`; returns the address of its value. The string is written over `text` from
/// the chunk on in which they differ.
///
/// # Safety
/// `text` must lead to a NUL-terminated string with room for any string of the array.
unsafe fn near(mut map: &Map, mut text: *mut u8, way: Way, same_counts: bool) -> Option<*mut u64> {
    let mut levels = Levels::new(way);
    // SAFETY: the string ends with the chunk that contains its end, and no chunk after
    // that is read; values of other chunks are links. The caller guarantees room for
    // what is written.
    unsafe {
        loop {
            let (chunk, last) = chunk(text);
            let here = Level { map, chunk, text };
            if let Some(value) = map.get(chunk) {
                let slot = from_ref(value).cast_mut();
                if last && same_counts {
                    return Some(slot);
                }
                if !last {
                    text = text.add(8);
                    let Link::Tail(tail) = link(*slot) else {
                        levels.push(here);
                        map = inner(slot);
                        continue;
                    };
                    let found = near_tail(tail, text, way, same_counts);
                    if found.is_some() {
                        return found;
                    }
                }
            }
            let beside = here.beside(way).or_else(|| levels.deepest())?;
            return Some(end_of(beside.chunk, beside.value, beside.text, way));
        }
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
