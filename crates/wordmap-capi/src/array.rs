//! What Judy1 and JudyL have in common: a view of a caller's root word as the set or map that it
//! is, and the functions that both have.

use crate::error::{fail, Errno, JudyError, JERR};
use crate::memory::Shared;
use ashlar_wordmap::{BuildError, LastStep, OutOfMemory, WordMap, WordSet};
use std::ffi::{c_int, c_void};
use std::ptr::{from_mut, from_ref};

pub(crate) type Map = WordMap<Shared>;
pub(crate) type Set = WordSet<Shared>;
/// The place where a caller keeps an array; also where an array keeps a value.
pub(crate) type Slot = *mut *mut c_void;

/// A map or set behind a root word.
///
/// # Safety
/// The type must have the layout of its root word, null when it is empty.
pub(crate) unsafe trait Array {
    /// What functions that look for an entry return.
    type Answer;
    /// The answer when there is no such entry.
    const ABSENT: Self::Answer;
    /// The answer when an argument is refused, or there is no memory.
    const REFUSED: Self::Answer;

    /// Finds or inserts a key.
    fn try_insert(&mut self, key: u64) -> Result<Self::Answer, OutOfMemory>;
    /// Removes a key; returns whether it was there.
    fn try_take(&mut self, key: u64) -> Result<bool, OutOfMemory>;
    /// Fills an empty array with entries in ascending key order.
    fn try_fill(&mut self, entries: impl Iterator<Item = (u64, u64)>) -> Result<(), BuildError>;
    fn is_empty(&self) -> bool;
    fn has(&self, key: u64) -> bool;
    fn count(&self, low: u64, high: u64) -> u64;
    fn find_nth(&self, nth: u64) -> Option<(u64, Self::Answer)>;
    /// The width of the items listed by a small array, 1, 2 or 8 bytes; 0 for other arrays.
    fn small_width(&self) -> usize;
    /// The first entry at or above a key, as the first step of a walk, in two functions: this
    /// one, which is short, for small arrays of a width, and `find_from_anywhere`, which must be
    /// called when this one returns `None`.
    ///
    /// # Safety
    /// `WIDTH` is the array's [`Array::small_width`], and not 0.
    unsafe fn find_from<const WIDTH: usize>(
        &self,
        key: u64,
        last: &LastStep,
    ) -> Option<Option<(u64, Self::Answer)>>;
    fn find_from_anywhere(&self, key: u64, last: &LastStep) -> Option<(u64, Self::Answer)>;
    /// The first entry above a key, in two functions likewise.
    ///
    /// # Safety
    /// As [`Array::find_from`].
    unsafe fn find_after<const WIDTH: usize>(
        &self,
        key: u64,
        last: &LastStep,
    ) -> Option<Option<(u64, Self::Answer)>>;
    fn find_after_anywhere(&self, key: u64, last: &LastStep) -> Option<(u64, Self::Answer)>;
    fn find_back(&self, key: u64) -> Option<(u64, Self::Answer)>;
    fn bytes(&self) -> usize;
    /// Removes everything; returns the bytes that the array had.
    fn free(&mut self) -> usize;
}

const _: () = assert!(size_of::<Map>() == 8 && size_of::<Set>() == 8);

/// The address of a value, as C functions return it.
pub(crate) fn slot(value: &u64) -> Slot {
    from_ref(value).cast_mut().cast()
}

// SAFETY: the layout is documented for a map over a source that takes no room.
unsafe impl Array for Map {
    type Answer = Slot;
    const ABSENT: Slot = std::ptr::null_mut();
    const REFUSED: Slot = crate::error::POINTER_ERROR;

    #[inline(always)]
    fn try_insert(&mut self, key: u64) -> Result<Slot, OutOfMemory> {
        self.try_place(key).map(|value| from_mut(value).cast())
    }
    #[inline(always)]
    fn try_take(&mut self, key: u64) -> Result<bool, OutOfMemory> {
        Ok(self.remove(key).is_some())
    }
    fn try_fill(&mut self, entries: impl Iterator<Item = (u64, u64)>) -> Result<(), BuildError> {
        self.try_fill_sorted(entries)
    }
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
    fn has(&self, key: u64) -> bool {
        self.contains_key(key)
    }
    fn count(&self, low: u64, high: u64) -> u64 {
        self.count_range(low..=high)
    }
    fn find_nth(&self, nth: u64) -> Option<(u64, Slot)> {
        self.nth(nth).map(|(key, value)| (key, slot(value)))
    }
    #[inline(always)]
    fn small_width(&self) -> usize {
        self.small_width()
    }
    #[inline(always)]
    unsafe fn find_from<const WIDTH: usize>(
        &self,
        key: u64,
        last: &LastStep,
    ) -> Option<Option<(u64, Slot)>> {
        // SAFETY: the map has this width now, which is not 0.
        let found = unsafe { self.first_step_of_small::<WIDTH>(key, last)? };
        Some(Some((found.0, slot(found.1))))
    }
    #[inline(always)]
    fn find_from_anywhere(&self, key: u64, last: &LastStep) -> Option<(u64, Slot)> {
        let found = self.first_step_anywhere(key, last);
        found.map(|(key, value)| (key, slot(value)))
    }
    #[inline(always)]
    unsafe fn find_after<const WIDTH: usize>(
        &self,
        key: u64,
        last: &LastStep,
    ) -> Option<Option<(u64, Slot)>> {
        // SAFETY: the map has this width now, which is not 0.
        let found = unsafe { self.after_step_of_small::<WIDTH>(key, last)? };
        Some(found.map(|(key, value)| (key, slot(value))))
    }
    #[inline(always)]
    fn find_after_anywhere(&self, key: u64, last: &LastStep) -> Option<(u64, Slot)> {
        let found = self.after_step_anywhere(key, last);
        found.map(|(key, value)| (key, slot(value)))
    }
    fn find_back(&self, key: u64) -> Option<(u64, Slot)> {
        self.at_or_before(key)
            .map(|(key, value)| (key, slot(value)))
    }
    fn bytes(&self) -> usize {
        self.memory_used()
    }
    #[inline(always)]
    fn free(&mut self) -> usize {
        self.clear_and_count()
    }
}

// SAFETY: the layout is documented for a set over a source that takes no room.
unsafe impl Array for Set {
    type Answer = c_int;
    const ABSENT: c_int = 0;
    const REFUSED: c_int = JERR;

    #[inline(always)]
    fn try_insert(&mut self, key: u64) -> Result<c_int, OutOfMemory> {
        self.try_insert(key).map(c_int::from)
    }
    #[inline(always)]
    fn try_take(&mut self, key: u64) -> Result<bool, OutOfMemory> {
        self.try_remove(key)
    }
    fn try_fill(&mut self, entries: impl Iterator<Item = (u64, u64)>) -> Result<(), BuildError> {
        self.try_fill_sorted(entries.map(|(key, _)| key))
    }
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
    fn has(&self, key: u64) -> bool {
        self.contains(key)
    }
    fn count(&self, low: u64, high: u64) -> u64 {
        self.count_range(low..=high)
    }
    fn find_nth(&self, nth: u64) -> Option<(u64, c_int)> {
        self.nth(nth).map(|key| (key, 1))
    }
    #[inline(always)]
    fn small_width(&self) -> usize {
        self.small_width()
    }
    #[inline(always)]
    unsafe fn find_from<const WIDTH: usize>(
        &self,
        key: u64,
        last: &LastStep,
    ) -> Option<Option<(u64, c_int)>> {
        // SAFETY: the set has this width now, which is not 0.
        let first = unsafe { self.first_step_of_small::<WIDTH>(key, last)? };
        Some(Some((first, 1)))
    }
    #[inline(always)]
    fn find_from_anywhere(&self, key: u64, last: &LastStep) -> Option<(u64, c_int)> {
        self.first_step_anywhere(key, last).map(|key| (key, 1))
    }
    #[inline(always)]
    unsafe fn find_after<const WIDTH: usize>(
        &self,
        key: u64,
        last: &LastStep,
    ) -> Option<Option<(u64, c_int)>> {
        // SAFETY: the set has this width now, which is not 0.
        let found = unsafe { self.after_step_of_small::<WIDTH>(key, last)? };
        Some(found.map(|key| (key, 1)))
    }
    #[inline(always)]
    fn find_after_anywhere(&self, key: u64, last: &LastStep) -> Option<(u64, c_int)> {
        self.after_step_anywhere(key, last).map(|key| (key, 1))
    }
    fn find_back(&self, key: u64) -> Option<(u64, c_int)> {
        self.at_or_before(key).map(|key| (key, 1))
    }
    fn bytes(&self) -> usize {
        self.memory_used()
    }
    #[inline(always)]
    fn free(&mut self) -> usize {
        self.clear_and_count()
    }
}

/// The array whose root word a caller keeps at `root`.
///
/// # Safety
/// `root` must be null or point to a word that is null or was made by this library's functions
/// for this kind of array, and that nobody else uses meanwhile.
#[inline(always)]
pub(crate) unsafe fn array_at<'a, A: Array>(root: Slot) -> Option<&'a mut A> {
    // SAFETY: the caller's contract; an array has the layout of its root word.
    unsafe { root.cast::<A>().as_mut() }
}

/// The array of a root word passed by value, for reading.
///
/// # Safety
/// The word must be one of this library's arrays of this kind, or null.
#[inline(always)]
pub(crate) unsafe fn array_of<A: Array>(root: &*const c_void) -> &A {
    // SAFETY: the caller's contract; an array has the layout of its root word.
    unsafe { &*from_ref(root).cast::<A>() }
}

/// [`array_at`] for a map.
///
/// # Safety
/// As [`array_at`].
#[inline(always)]
pub(crate) unsafe fn map_at<'a>(root: Slot) -> Option<&'a mut Map> {
    // SAFETY: `root` is null, or leads to the word of a map that nobody else uses.
    unsafe { array_at(root) }
}

/// [`array_of`] for a map.
///
/// # Safety
/// As [`array_of`].
#[inline(always)]
pub(crate) unsafe fn map_of(root: &*const c_void) -> &Map {
    // SAFETY: the word is that of a map, or null.
    unsafe { array_of(root) }
}

/// Finds or inserts `index`.
///
/// # Safety
/// As [`array_at`]; `error` leads to a record or is null.
#[inline(always)]
pub(crate) unsafe fn insert<A: Array>(root: Slot, index: u64, error: *mut JudyError) -> A::Answer {
    // SAFETY: `root` leads to an array or is null, `error` to a record or is null.
    unsafe {
        match array_at::<A>(root).map(|array| array.try_insert(index)) {
            Some(Ok(answer)) => answer,
            Some(Err(_)) => fail(error, Errno::NoMemory, A::REFUSED),
            None => fail(error, Errno::NullPointerToArray, A::REFUSED),
        }
    }
}

/// Removes `index`; returns 1, or 0 if it was not there.
///
/// # Safety
/// As [`insert`].
#[inline(always)]
pub(crate) unsafe fn remove<A: Array>(root: Slot, index: u64, error: *mut JudyError) -> c_int {
    // SAFETY: `root` leads to an array or is null, `error` to a record or is null.
    unsafe {
        match array_at::<A>(root).map(|array| array.try_take(index)) {
            Some(Ok(was_there)) => c_int::from(was_there),
            Some(Err(_)) => fail(error, Errno::NoMemory, JERR),
            None => fail(error, Errno::NullPointerToArray, JERR),
        }
    }
}

/// Fills an empty array with `count` indexes in ascending order. `value` returns the value for
/// the index at a position; it is `None` if the caller has passed no values but must.
///
/// # Safety
/// As [`insert`]; `indexes` leads to `count` words or is null.
pub(crate) unsafe fn fill<A: Array>(
    root: Slot,
    count: usize,
    indexes: *const u64,
    value: Option<impl Fn(usize) -> u64>,
    error: *mut JudyError,
) -> c_int {
    // SAFETY: as [`insert`] for `root` and `error`; `indexes` leads to `count` words.
    unsafe {
        let Some(array) = array_at::<A>(root) else {
            return fail(error, Errno::NullPointerToArray, JERR);
        };
        if !array.is_empty() {
            return fail(error, Errno::ArrayNotEmpty, JERR);
        }
        if indexes.is_null() {
            return fail(error, Errno::NullPointerToIndex, JERR);
        }
        let Some(value) = value else {
            return fail(error, Errno::NullPointerToValues, JERR);
        };
        match array.try_fill((0..count).map(|i| (*indexes.add(i), value(i)))) {
            Ok(()) => 1,
            Err(BuildError::OutOfMemory) => fail(error, Errno::NoMemory, JERR),
            Err(BuildError::Unsorted(_)) => fail(error, Errno::Unsorted, JERR),
        }
    }
}

/// # Safety
/// `index` must lead to a word.
#[inline(always)]
unsafe fn give<A: Array>(found: Option<(u64, A::Answer)>, index: *mut u64) -> A::Answer {
    match found {
        Some((key, answer)) => {
            // SAFETY: `index` leads to a word.
            unsafe { *index = key };
            answer
        }
        None => A::ABSENT,
    }
}

/// The entry that `find` finds for the index at `index`; writes the entry's index there.
///
/// # Safety
/// As [`array_of`]; `index` leads to a word or is null.
#[inline(always)]
pub(crate) unsafe fn neighbour<A: Array>(
    root: *const c_void,
    index: *mut u64,
    error: *mut JudyError,
    find: impl FnOnce(&A, u64) -> Option<(u64, A::Answer)>,
) -> A::Answer {
    // SAFETY: `root` is an array or null, `index` leads to a word or is null.
    unsafe {
        if index.is_null() {
            return fail(error, Errno::NullPointerToIndex, A::REFUSED);
        }
        give::<A>(find(array_of(&root), *index), index)
    }
}

/// [`neighbour`] for a step of a walk: to the first entry from an index on, or, with `AFTER`,
/// after it. Small arrays of each width, and all others, have a function of their own, which
/// saves only the registers that it needs.
///
/// # Safety
/// As [`neighbour`].
#[inline(always)]
pub(crate) unsafe fn step<A: Array, const AFTER: bool>(
    root: *const c_void,
    index: *mut u64,
    error: *mut JudyError,
) -> A::Answer {
    // SAFETY: `root` is an array or null, `index` leads to a word or is null.
    unsafe {
        if index.is_null() {
            return fail(error, Errno::NullPointerToIndex, A::REFUSED);
        }
        match array_of::<A>(&root).small_width() {
            1 => step_in_small::<A, AFTER, 1>(root, index),
            2 => step_in_small::<A, AFTER, 2>(root, index),
            8 => step_in_small::<A, AFTER, 8>(root, index),
            _ => step_anywhere::<A, AFTER>(root, index),
        }
    }
}

/// [`step`] in a small array of width `WIDTH`.
///
/// # Safety
/// The array has width `WIDTH`. As [`neighbour`], where `index` leads to a word.
#[inline(never)]
unsafe fn step_in_small<A: Array, const AFTER: bool, const WIDTH: usize>(
    root: *const c_void,
    index: *mut u64,
) -> A::Answer {
    // SAFETY: `root` is an array of this width, `index` leads to a word.
    unsafe {
        let (array, last): (&A, _) = (array_of(&root), last_step(index));
        let found = match AFTER {
            true => array.find_after::<WIDTH>(*index, last),
            false => array.find_from::<WIDTH>(*index, last),
        };
        match found {
            Some(found) => give::<A>(found, index),
            None => step_anywhere::<A, AFTER>(root, index),
        }
    }
}

/// [`step`] in any array.
///
/// # Safety
/// As [`neighbour`], where `index` leads to a word.
#[inline(never)]
unsafe fn step_anywhere<A: Array, const AFTER: bool>(
    root: *const c_void,
    index: *mut u64,
) -> A::Answer {
    // SAFETY: `root` is an array, `index` leads to a word.
    unsafe {
        let (array, last): (&A, _) = (array_of(&root), last_step(index));
        let found = match AFTER {
            true => array.find_after_anywhere(*index, last),
            false => array.find_from_anywhere(*index, last),
        };
        give::<A>(found, index)
    }
}

/// The number of indexes from `low` to `high`, both included.
///
/// The macros `J1C` and `JLC` take 0 for a failure unless the record says otherwise, and do not
/// fill the record in before. So an answer of 0 says in it that nothing failed.
///
/// # Safety
/// As [`array_of`]; `error` leads to a record or is null.
#[inline(always)]
pub(crate) unsafe fn count<A: Array>(
    root: *const c_void,
    low: u64,
    high: u64,
    error: *mut JudyError,
) -> u64 {
    // SAFETY: `root` is an array or null, `error` leads to a record or is null.
    unsafe {
        match array_of::<A>(&root).count(low, high) {
            0 => fail(error, Errno::None, 0),
            count => count,
        }
    }
}

/// The `nth` entry, counting from 1.
///
/// # Safety
/// As [`neighbour`].
pub(crate) unsafe fn by_count<A: Array>(
    root: *const c_void,
    nth: u64,
    index: *mut u64,
    error: *mut JudyError,
) -> A::Answer {
    // SAFETY: `root` is an array or null, `index` leads to a word or is null.
    unsafe {
        // Whether the array is empty is tested first, as in libJudy.
        if root.is_null() {
            return A::ABSENT;
        }
        if index.is_null() {
            return fail(error, Errno::NullPointerToIndex, A::REFUSED);
        }
        // 0 stands for 2^64, more entries than an array that fits into memory can have.
        let array: &A = array_of(&root);
        give::<A>(nth.checked_sub(1).and_then(|n| array.find_nth(n)), index)
    }
}

/// Frees an array; returns how many bytes it had.
///
/// # Safety
/// As [`array_at`].
pub(crate) unsafe fn free<A: Array>(root: Slot, error: *mut JudyError) -> usize {
    // SAFETY: `root` leads to an array or is null, `error` to a record or is null.
    unsafe {
        let Some(array) = array_at::<A>(root) else {
            return fail(error, Errno::NullPointerToArray, JERR as usize);
        };
        array.free()
    }
}

/// Finds the nearest absent index from `from(*index)` on, in `direction`; writes it to `index`
/// and returns 1, or returns 0 if there is none.
///
/// # Safety
/// As [`neighbour`].
pub(crate) unsafe fn gap<A: Array>(
    root: *const c_void,
    index: *mut u64,
    error: *mut JudyError,
    from: impl FnOnce(u64) -> Option<u64>,
    direction: Direction,
) -> c_int {
    // SAFETY: `root` is an array or null, `index` leads to a word or is null.
    unsafe {
        if index.is_null() {
            return fail(error, Errno::NullPointerToIndex, JERR);
        }
        let array: &A = array_of(&root);
        let has = |k| array.has(k);
        let full = |a: u64, b: u64| array.count(a, b) == (b - a).wrapping_add(1);
        let found = from(*index).and_then(|k| match direction {
            Direction::Up => empty_up(k, has, full),
            Direction::Down => empty_up(!k, |k| has(!k), |a, b| full(!b, !a)).map(|k| !k),
        });
        match found {
            Some(found) => {
                *index = found;
                1
            }
            None => 0,
        }
    }
}

pub(crate) enum Direction {
    Up,
    Down,
}

/// How many indexes are tested one by one before counting in larger strides.
const STEPS: u64 = 64;

/// The first absent key from `key` up; `full(a, b)` returns whether all keys of `a..=b` are
/// present.
fn empty_up(key: u64, has: impl Fn(u64) -> bool, full: impl Fn(u64, u64) -> bool) -> Option<u64> {
    let mut at = key;
    for _ in 0..STEPS {
        if !has(at) {
            return Some(at);
        }
        at = at.checked_add(1)?;
    }
    // All keys up to `at`, exclusive, are present; double the stride, then halve it.
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

/// How far the current walks have got. A walk is identified by the address at which its caller
/// keeps the index; walks that share an entry only lose time.
static LAST_STEPS: [Apart; WALKS] = [const { Apart(LastStep::new()) }; WALKS];
const WALKS: usize = 64;

/// A `LastStep` in a cache line of its own.
#[repr(align(64))]
struct Apart(LastStep);

/// What is known about the walk whose index is at `index`.
#[inline(always)]
pub(crate) fn last_step(index: *const u64) -> &'static LastStep {
    // Bits 29 to 34 of the product of the address and a number that fits into an instruction.
    // They depend on bits 3 to 34 of the address, in which stacks differ, too.
    let place = index.addr().wrapping_mul(0x61c8_8647);
    &LAST_STEPS[(place >> 29) % WALKS].0
}

/// The functions that Judy1 and JudyL both have.
macro_rules! functions {
    (
        $array:ty, $answer:ty;
        $count:ident $by_count:ident $free:ident $used:ident $active:ident
        $first:ident $next:ident $last:ident $previous:ident
        $first_empty:ident $next_empty:ident $last_empty:ident $previous_empty:ident
    ) => {
        /// The number of indexes from `low` to `high`, both included.
        ///
        /// # Safety
        /// As documented for libJudy: `root` is an array or null, `error` leads to a
        /// record or is null.
        #[no_mangle]
        pub unsafe extern "C" fn $count(
            root: *const c_void,
            low: u64,
            high: u64,
            error: *mut JudyError,
        ) -> u64 {
            // SAFETY: `root` is an array or null, `error` a record or null.
            unsafe { array::count::<$array>(root, low, high, error) }
        }

        /// The `nth` entry, counting from 1.
        ///
        /// # Safety
        /// As documented for libJudy: `root` is an array or null, `index` leads to a
        /// word or is null, `error` to a record or is null.
        #[no_mangle]
        pub unsafe extern "C" fn $by_count(
            root: *const c_void,
            nth: u64,
            index: *mut u64,
            error: *mut JudyError,
        ) -> $answer {
            // SAFETY: `root` is an array or null; the others lead to what they name, or are null.
            unsafe { array::by_count::<$array>(root, nth, index, error) }
        }

        /// Frees the array; returns how many bytes it had.
        ///
        /// # Safety
        /// As documented for libJudy: `root` leads to an array or is null, `error` is a
        /// record or null.
        #[no_mangle]
        pub unsafe extern "C" fn $free(root: Slot, error: *mut JudyError) -> usize {
            // SAFETY: `root` leads to an array or is null, `error` to a record or is null.
            unsafe { array::free::<$array>(root, error) }
        }

        /// The bytes of the array's nodes.
        ///
        /// # Safety
        /// As documented for libJudy: `root` is an array or null.
        #[no_mangle]
        pub unsafe extern "C" fn $used(root: *const c_void) -> usize {
            // SAFETY: `root` is an array or null.
            unsafe { array_of::<$array>(&root).bytes() }
        }

        /// The bytes of the array's nodes: all of them are active.
        ///
        /// # Safety
        /// As documented for libJudy: `root` is an array or null.
        #[no_mangle]
        pub unsafe extern "C" fn $active(root: *const c_void) -> usize {
            // SAFETY: `root` is an array or null.
            unsafe { array_of::<$array>(&root).bytes() }
        }

        $crate::array::functions! { neighbours $array, $answer;
            /// The first index at or above `index`.
            $first step::<false>();
            /// The first index above `index`.
            $next step::<true>();
            /// The last index at or below `index`.
            $last neighbour(|array: &$array, at| array.find_back(at));
            /// The last index below `index`.
            $previous neighbour(|array: &$array, at: u64| {
                at.checked_sub(1).and_then(|k| array.find_back(k))
            });
        }
        $crate::array::functions! { gaps $array;
            /// The first absent index at or above `index`: 1, or 0 if there is none.
            $first_empty Some, Up;
            /// The first absent index above `index`.
            $next_empty |k: u64| k.checked_add(1), Up;
            /// The last absent index at or below `index`.
            $last_empty Some, Down;
            /// The last absent index below `index`.
            $previous_empty |k: u64| k.checked_sub(1), Down;
        }
    };
    (neighbours $array:ty, $answer:ty; $(
        $(#[$doc:meta])* $name:ident $function:ident$(::<$after:literal>)?($($find:expr)?);
    )*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// As documented for libJudy: `root` is an array or null, `index` leads to a
        /// word or is null, `error` to a record or is null.
        #[no_mangle]
        pub unsafe extern "C" fn $name(
            root: *const c_void,
            index: *mut u64,
            error: *mut JudyError,
        ) -> $answer {
            // SAFETY: `root` is an array or null; the others lead to what they name, or are null.
            unsafe { array::$function::<$array $(, $after)?>(root, index, error $(, $find)?) }
        }
    )* };
    (gaps $array:ty; $($(#[$doc:meta])* $name:ident $from:expr, $direction:ident;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// As documented for libJudy: `root` is an array or null, `index` leads to a
        /// word or is null, `error` to a record or is null.
        #[no_mangle]
        pub unsafe extern "C" fn $name(
            root: *const c_void,
            index: *mut u64,
            error: *mut JudyError,
        ) -> c_int {
            // SAFETY: `root` is an array or null; the others lead to what they name, or are null.
            unsafe { array::gap::<$array>(root, index, error, $from, array::Direction::$direction) }
        }
    )* };
}
pub(crate) use functions;
