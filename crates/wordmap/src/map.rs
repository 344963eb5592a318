//! The ordered map.

use crate::build::{is_few, merge, or_out_of_memory, BuildError, Pairs};
use crate::cursor::Cursor;
use crate::entry::{Entry, OccupiedEntry, VacantEntry};
use crate::iter::{Iter, IterMut, Keys, Range, RangeMut, Values, ValuesMut};
use crate::last_step::LastStep;
use crate::memory::{NodeSource, SharedHeap};
use crate::node::edge::Edge;
use crate::path::{count_between, leaf, leaf_key, nth, rank, Path, Position};
use crate::tree::{out_of_memory, OutOfMemory, Tree};
use crate::walk::Walk;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::{Index, RangeBounds};

/// An ordered map from 64-bit word to 64-bit word.
///
/// A map is one word wide with the default source of memory. Its interface and meaning are those
/// of the standard library's ordered map, with keys and values passed as words.
///
/// # Layout
/// With a source of memory that takes no room, a map has the layout of one pointer, which is
/// null when the map is empty and whose lowest bit is always 0; a C interface may store it as a
/// pointer.
///
/// # Examples
/// ```
/// use ashlar_wordmap::WordMap;
///
/// let mut fields = WordMap::new();
/// fields.insert(26314, 1);
/// fields.insert(26322, 2);
/// assert_eq!(fields.get(26322), Some(&2));
/// assert_eq!(fields.range(..26320).count(), 1);
/// assert_eq!(fields.iter().map(|(k, _)| k).collect::<Vec<_>>(), [26314, 26322]);
/// ```
#[repr(transparent)]
pub struct WordMap<A: NodeSource = SharedHeap> {
    pub(crate) tree: Tree<1, A>,
}

// SAFETY: a map owns its nodes and shares them with nobody; its source decides the rest.
unsafe impl<A: NodeSource + Send> Send for WordMap<A> {}
// SAFETY: a shared map is only read.
unsafe impl<A: NodeSource + Sync> Sync for WordMap<A> {}

impl WordMap {
    /// An empty map on the process's shared heap. Allocates nothing.
    pub const fn new() -> WordMap {
        WordMap::new_in(SharedHeap)
    }
}

impl<A: NodeSource> WordMap<A> {
    /// An empty map that takes its nodes from `source`. Allocates nothing.
    pub const fn new_in(source: A) -> WordMap<A> {
        WordMap {
            tree: Tree {
                root: Edge::NULL,
                source,
            },
        }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.tree.len() as usize
    }

    /// Whether there are no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tree.root.is_null()
    }

    /// The value of `key`.
    #[inline]
    pub fn get(&self, key: u64) -> Option<&u64> {
        // SAFETY: a value that is found belongs to a live leaf of this map, which is borrowed.
        self.tree.value_of(key).map(|value| unsafe { &*value })
    }

    /// The value of `key`, mutable.
    #[inline]
    pub fn get_mut(&mut self, key: u64) -> Option<&mut u64> {
        // SAFETY: a value that is found belongs to a live leaf of this map, which is borrowed
        // exclusively.
        self.tree.value_of(key).map(|value| unsafe { &mut *value })
    }

    /// Whether `key` is in the map.
    #[inline]
    pub fn contains_key(&self, key: u64) -> bool {
        self.tree.contains(key)
    }

    /// Inserts an entry; returns the value that `key` had before. Calls the
    /// global handler of allocation errors when there is no memory.
    #[inline]
    pub fn insert(&mut self, key: u64, value: u64) -> Option<u64> {
        match self.try_insert(key, value) {
            Ok(old) => old,
            Err(OutOfMemory) => out_of_memory(),
        }
    }

    /// Inserts an entry; returns the value that `key` had before.
    ///
    /// # Errors
    /// [`OutOfMemory`]: the map is unchanged.
    #[inline]
    pub fn try_insert(&mut self, key: u64, value: u64) -> Result<Option<u64>, OutOfMemory> {
        let inserted = self.tree.insert(key)?;
        // SAFETY: the place of a value of a live leaf of this map.
        let old = unsafe { core::ptr::replace(inserted.value, value) };
        Ok((!inserted.is_new).then_some(old))
    }

    /// Returns the value of `key`; inserts 0 first if there is none.
    #[inline]
    pub(crate) fn place(&mut self, key: u64) -> &mut u64 {
        match self.try_place(key) {
            Ok(place) => place,
            Err(OutOfMemory) => out_of_memory(),
        }
    }

    /// Returns the value of `key`; inserts 0 first if there is none. One descent finds or makes
    /// it.
    ///
    /// # Errors
    /// [`OutOfMemory`]: the map is unchanged.
    #[inline]
    pub fn try_place(&mut self, key: u64) -> Result<&mut u64, OutOfMemory> {
        let inserted = self.tree.insert(key)?;
        // SAFETY: the place of a value of a live leaf of this map, borrowed exclusively.
        Ok(unsafe { &mut *inserted.value })
    }

    /// Removes `key`; returns its value. Needs no memory.
    pub fn remove(&mut self, key: u64) -> Option<u64> {
        self.tree.remove(key)
    }

    /// The place of `key`, for reading, changing, inserting or removing.
    pub fn entry(&mut self, key: u64) -> Entry<'_, A> {
        match self.tree.value_of(key) {
            Some(value) => Entry::Occupied(OccupiedEntry {
                map: self,
                key,
                value,
            }),
            None => Entry::Vacant(VacantEntry { map: self, key }),
        }
    }

    /// All entries in key order.
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        Iter::new(Walk::all(self.tree.root))
    }

    /// All entries in key order, with mutable values.
    pub fn iter_mut(&mut self) -> IterMut<'_> {
        IterMut::new(Walk::all(self.tree.root))
    }

    /// All keys in order.
    pub fn keys(&self) -> Keys<'_> {
        Keys::new(Walk::all(self.tree.root))
    }

    /// All values in key order.
    pub fn values(&self) -> Values<'_> {
        Values::new(Walk::all(self.tree.root))
    }

    /// All values in key order, mutable.
    pub fn values_mut(&mut self) -> ValuesMut<'_> {
        ValuesMut::new(Walk::all(self.tree.root))
    }

    /// The entries whose keys lie in `range`, in order. A range whose end
    /// lies before its start is empty.
    pub fn range(&self, range: impl RangeBounds<u64>) -> Range<'_> {
        Range::new(Walk::over(self.tree.root, &range))
    }

    /// The entries whose keys lie in `range`, with mutable values.
    pub fn range_mut(&mut self, range: impl RangeBounds<u64>) -> RangeMut<'_> {
        RangeMut::new(Walk::over(self.tree.root, &range))
    }

    /// The entry with the lowest key.
    pub fn first_key_value(&self) -> Option<(u64, &u64)> {
        self.iter().next()
    }

    /// The entry with the highest key.
    pub fn last_key_value(&self) -> Option<(u64, &u64)> {
        self.iter().next_back()
    }

    /// Removes the entry with the lowest key.
    pub fn pop_first(&mut self) -> Option<(u64, u64)> {
        let (key, &value) = self.first_key_value()?;
        self.remove(key);
        Some((key, value))
    }

    /// Removes the entry with the highest key.
    pub fn pop_last(&mut self) -> Option<(u64, u64)> {
        let (key, &value) = self.last_key_value()?;
        self.remove(key);
        Some((key, value))
    }

    /// The first entry at or after `key`, in one descent and without the
    /// set-up of an iterator.
    #[inline]
    pub fn at_or_after(&self, key: u64) -> Option<(u64, &u64)> {
        crate::path::at_or_after::<1>(self.tree.root, key).map(|found| self.found(found))
    }

    /// Like [`WordMap::at_or_after`], as the first step of a walk by [`WordMap::after_step`].
    #[inline]
    pub fn first_step(&self, key: u64, last: &LastStep) -> Option<(u64, &u64)> {
        let first = self.tree.first_step(key, last);
        // SAFETY: a value that is found belongs to a live leaf of this map, which is borrowed.
        first.map(|(key, value)| (key, unsafe { value.as_ref() }))
    }

    /// The first entry after `key`, for walks over a map that changes meanwhile.
    #[inline]
    pub fn after(&self, key: u64) -> Option<(u64, &u64)> {
        crate::path::after::<1>(self.tree.root, key).map(|found| self.found(found))
    }

    /// Like [`WordMap::after`], but faster when `last` has seen the previous step.
    #[inline]
    pub fn after_step(&self, key: u64, last: &LastStep) -> Option<(u64, &u64)> {
        let next = self.tree.after_step(key, last);
        // SAFETY: a value that is found belongs to a live leaf of this map, which is borrowed.
        next.map(|(key, value)| (key, unsafe { value.as_ref() }))
    }

    /// The width of the items listed by a map that is one small leaf, as most maps are: 1 or 2
    /// bytes, or 8 for a map of one entry. 0 for other maps.
    #[doc(hidden)]
    #[inline(always)]
    pub fn small_width(&self) -> usize {
        self.tree.root.small_width()
    }

    /// The part of [`WordMap::first_step`] that maps of this [`WordMap::small_width`] need,
    /// which is short. Returns `None` where [`WordMap::first_step_anywhere`] is needed, which is
    /// a function of its own.
    ///
    /// # Safety
    /// `WIDTH` is the [`WordMap::small_width`] at this moment, and not 0.
    ///
    /// ```compile_fail,E0133
    /// let last = ashlar_wordmap::LastStep::new();
    /// ashlar_wordmap::WordMap::new().first_step_of_small::<1>(7, &last);
    /// ```
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn first_step_of_small<const WIDTH: usize>(
        &self,
        key: u64,
        last: &LastStep,
    ) -> Option<(u64, &u64)> {
        let (key, value) = self.tree.first_step_of_small::<WIDTH>(key, last)?;
        // SAFETY: a value that is found belongs to a live leaf of this map, which is borrowed.
        Some((key, unsafe { value.as_ref() }))
    }

    #[doc(hidden)]
    #[inline]
    pub fn first_step_anywhere(&self, key: u64, last: &LastStep) -> Option<(u64, &u64)> {
        let (key, value) = self.tree.first_step_anywhere(key, last)?;
        // SAFETY: a value that is found belongs to a live leaf of this map, which is borrowed.
        Some((key, unsafe { value.as_ref() }))
    }

    /// Like [`WordMap::first_step_of_small`], for [`WordMap::after_step`].
    ///
    /// # Safety
    /// `WIDTH` is the [`WordMap::small_width`] at this moment, and not 0.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn after_step_of_small<const WIDTH: usize>(
        &self,
        key: u64,
        last: &LastStep,
    ) -> Option<Option<(u64, &u64)>> {
        let found = self.tree.after_step_of_small::<WIDTH>(key, last)?;
        // SAFETY: a value that is found belongs to a live leaf of this map, which is borrowed.
        Some(found.map(|(key, value)| (key, unsafe { value.as_ref() })))
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn after_step_anywhere(&self, key: u64, last: &LastStep) -> Option<(u64, &u64)> {
        let (key, value) = self.tree.after_step_of_any(key, last)?;
        // SAFETY: a value that is found belongs to a live leaf of this map, which is borrowed.
        Some((key, unsafe { value.as_ref() }))
    }

    /// The last entry at or before `key`.
    pub fn at_or_before(&self, key: u64) -> Option<(u64, &u64)> {
        let mut path = Path::new();
        let position = crate::path::seek_backward::<1>(self.tree.root, key, &mut path);
        position.map(|p| self.entry_at(p))
    }

    /// The entry with `nth_entry` entries before it.
    pub fn nth(&self, nth_entry: u64) -> Option<(u64, &u64)> {
        let mut path = Path::new();
        nth::<1>(self.tree.root, nth_entry, &mut path).map(|p| self.entry_at(p))
    }

    /// The number of entries with keys below `key`.
    pub fn rank(&self, key: u64) -> u64 {
        rank::<1>(self.tree.root, key)
    }

    /// The number of entries whose keys lie in `range`, found without visiting them.
    pub fn count_range(&self, range: impl RangeBounds<u64>) -> u64 {
        count_between(&range, self.tree.len(), |key| self.rank(key))
    }

    fn entry_at(&self, position: Position) -> (u64, &u64) {
        self.found((position, leaf_key::<1>(position.leaf, position.index)))
    }

    #[inline(always)]
    fn found(&self, (position, key): (Position, u64)) -> (u64, &u64) {
        // SAFETY: a position is an entry of a live leaf of this map, which is borrowed.
        let value = unsafe { &*leaf::<1>(position.leaf).value(position.index) };
        (key, value)
    }

    /// A cursor that is at no entry yet.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor::new(self.tree.root)
    }

    /// Keeps only the entries for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(u64, &mut u64) -> bool) {
        let mut found = self.first_key_value().map(|(key, _)| key);
        while let Some(key) = found {
            if let Some(value) = self.get_mut(key) {
                if !keep(key, value) {
                    self.remove(key);
                }
            }
            found = self.after(key).map(|(next, _)| next);
        }
    }

    /// Fills the map, which must be empty, with entries in ascending key order: several times as
    /// fast as inserting them, and the leaves become full.
    ///
    /// # Errors
    /// [`BuildError`]: keys are not in ascending order, or there is no memory. The map stays
    /// empty.
    ///
    /// # Panics
    /// When the map is not empty.
    pub fn try_fill_sorted(
        &mut self,
        entries: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<(), BuildError> {
        assert!(
            self.is_empty(),
            "only an empty map can be filled; use extend"
        );
        self.tree.build(entries.into_iter())
    }

    /// Moves all entries of `other` into this map; they replace entries with the same key.
    pub fn append(&mut self, other: &mut WordMap<A>) {
        self.merge(other, |_, _, theirs| theirs);
        other.clear();
    }

    /// Copies all entries of `other` into this map. Where both have a key, `choose` returns its
    /// value, given the key, the value here and the value there. Walks over both maps when
    /// `other` is not much smaller. Calls the global handler of allocation errors when there is
    /// no memory.
    ///
    /// # Examples
    /// ```
    /// use ashlar_wordmap::WordMap;
    ///
    /// let mut counts = WordMap::from([(1, 10), (2, 20)]);
    /// counts.merge(&WordMap::from([(2, 5), (3, 6)]), |_, here, there| here + there);
    /// assert_eq!(counts, WordMap::from([(1, 10), (2, 25), (3, 6)]));
    /// ```
    pub fn merge<B: NodeSource>(
        &mut self,
        other: &WordMap<B>,
        mut choose: impl FnMut(u64, u64, u64) -> u64,
    ) {
        if is_few(other.len(), self.len()) {
            for (key, &theirs) in other {
                let inserted = self.tree.insert(key).unwrap_or_else(|_| out_of_memory());
                // SAFETY: `inserted.value` points to a value of a live leaf of this map.
                unsafe {
                    let mine = *inserted.value;
                    *inserted.value = if inserted.is_new {
                        theirs
                    } else {
                        choose(key, mine, theirs)
                    };
                }
            }
            return;
        }
        let theirs = Pairs(Walk::<1>::all(other.tree.root));
        let keep = |key, mine, theirs| match (mine, theirs) {
            (Some(mine), Some(theirs)) => Some(choose(key, mine, theirs)),
            _ => mine.or(theirs),
        };
        or_out_of_memory(self.tree.rebuild(|mine| merge(mine, theirs, keep)));
    }

    /// Packs the entries into as little memory as possible: leaves of a map that has grown have
    /// room, and are on average two thirds as full as they could be. Needs memory for a second
    /// copy of the map; without it nothing changes.
    pub fn shrink_to_fit(&mut self) {
        self.tree.pack();
    }

    /// Removes all entries and frees their memory.
    pub fn clear(&mut self) {
        self.tree.clear();
    }

    /// Removes all entries and returns, from the same walk, the bytes that
    /// [`WordMap::memory_used`] would have counted.
    #[inline]
    pub fn clear_and_count(&mut self) -> usize {
        self.tree.clear()
    }

    /// The bytes of all nodes, without the map's own word. Looks at every node.
    pub fn memory_used(&self) -> usize {
        self.tree.node_bytes()
    }
}

impl<A: NodeSource + Default> Default for WordMap<A> {
    fn default() -> Self {
        WordMap::new_in(A::default())
    }
}

impl<A: NodeSource + Clone> Clone for WordMap<A> {
    fn clone(&self) -> Self {
        let mut copy = WordMap::new_in(self.tree.source.clone());
        or_out_of_memory(copy.tree.build(Pairs(Walk::<1>::all(self.tree.root))));
        copy
    }
}

impl<A: NodeSource> fmt::Debug for WordMap<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<A: NodeSource, B: NodeSource> PartialEq<WordMap<B>> for WordMap<A> {
    fn eq(&self, other: &WordMap<B>) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<A: NodeSource> Eq for WordMap<A> {}

impl<A: NodeSource> Hash for WordMap<A> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len().hash(state);
        for entry in self {
            entry.hash(state);
        }
    }
}

impl<A: NodeSource> Extend<(u64, u64)> for WordMap<A> {
    fn extend<I: IntoIterator<Item = (u64, u64)>>(&mut self, entries: I) {
        self.tree.extend(entries.into_iter());
    }
}

impl<'a, A: NodeSource> Extend<(u64, &'a u64)> for WordMap<A> {
    fn extend<I: IntoIterator<Item = (u64, &'a u64)>>(&mut self, entries: I) {
        self.extend(entries.into_iter().map(|(k, &v)| (k, v)));
    }
}

impl<A: NodeSource + Default> FromIterator<(u64, u64)> for WordMap<A> {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(entries: I) -> Self {
        let mut map = WordMap::default();
        map.extend(entries);
        map
    }
}

impl<const N: usize> From<[(u64, u64); N]> for WordMap {
    fn from(entries: [(u64, u64); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<A: NodeSource> Index<u64> for WordMap<A> {
    type Output = u64;

    /// # Panics
    /// When `key` is not in the map.
    fn index(&self, key: u64) -> &u64 {
        match self.get(key) {
            Some(value) => value,
            None => panic!("key {key} is not in the map; use get to ask whether it is"),
        }
    }
}
