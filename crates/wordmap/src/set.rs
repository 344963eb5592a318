//! The ordered set.

use crate::build::{merge, or_out_of_memory, BuildError, Pairs};
use crate::iter::{SetIter, SetRange};
use crate::last_step::LastStep;
use crate::memory::{NodeSource, SharedHeap};
use crate::node::edge::Edge;
use crate::path::{count_between, leaf_key, nth, rank, seek_backward, Path};
use crate::tree::{out_of_memory, OutOfMemory, Tree};
use crate::walk::Walk;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::RangeBounds;

/// An ordered set of 64-bit words, laid out as [`WordMap`](crate::WordMap) is.
///
/// # Examples
/// ```
/// use ashlar_wordmap::WordSet;
///
/// let mut live = WordSet::new();
/// live.insert(40);
/// live.insert(2);
/// assert!(live.contains(40));
/// assert_eq!(live.iter().collect::<Vec<_>>(), [2, 40]);
/// ```
#[repr(transparent)]
pub struct WordSet<A: NodeSource = SharedHeap> {
    pub(crate) tree: Tree<0, A>,
}

// SAFETY: a set owns its nodes and shares them with nobody; its source decides the rest.
unsafe impl<A: NodeSource + Send> Send for WordSet<A> {}
// SAFETY: a shared set is only read.
unsafe impl<A: NodeSource + Sync> Sync for WordSet<A> {}

impl WordSet {
    /// An empty set on the process's shared heap. Allocates nothing.
    pub const fn new() -> WordSet {
        WordSet::new_in(SharedHeap)
    }
}

impl<A: NodeSource> WordSet<A> {
    /// An empty set that takes its nodes from `source`. Allocates nothing.
    pub const fn new_in(source: A) -> WordSet<A> {
        WordSet {
            tree: Tree {
                root: Edge::NULL,
                source,
            },
        }
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.tree.len() as usize
    }

    /// Whether there are no keys.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tree.root.is_null()
    }

    /// Whether `key` is in the set.
    #[inline]
    pub fn contains(&self, key: u64) -> bool {
        self.tree.contains(key)
    }

    /// Inserts `key`; returns whether it is new. Calls the global handler of
    /// allocation errors when there is no memory.
    #[inline]
    pub fn insert(&mut self, key: u64) -> bool {
        match self.try_insert(key) {
            Ok(is_new) => is_new,
            Err(OutOfMemory) => out_of_memory(),
        }
    }

    /// Inserts `key`; returns whether it is new.
    ///
    /// # Errors
    /// [`OutOfMemory`]: the set is unchanged.
    #[inline]
    pub fn try_insert(&mut self, key: u64) -> Result<bool, OutOfMemory> {
        self.tree.insert(key).map(|inserted| inserted.is_new)
    }

    /// Removes `key`; returns whether it was there. Calls the global handler
    /// of allocation errors when there is no memory; see [`WordSet::try_remove`].
    pub fn remove(&mut self, key: u64) -> bool {
        match self.try_remove(key) {
            Ok(was_there) => was_there,
            Err(OutOfMemory) => out_of_memory(),
        }
    }

    /// Removes `key`; returns whether it was there.
    ///
    /// # Errors
    /// [`OutOfMemory`], with the set unchanged: 256 neighbouring keys that are all in the
    /// set take no memory, and need some when one of them is removed.
    pub fn try_remove(&mut self, key: u64) -> Result<bool, OutOfMemory> {
        match self.tree.remove(key) {
            Some(_) => Ok(true),
            None if self.tree.remove_may_fail(key) => Err(OutOfMemory),
            None => Ok(false),
        }
    }

    /// All keys in order.
    #[inline]
    pub fn iter(&self) -> SetIter<'_> {
        SetIter::new(Walk::all(self.tree.root))
    }

    /// The keys that lie in `range`, in order. A range whose end lies before
    /// its start is empty.
    pub fn range(&self, range: impl RangeBounds<u64>) -> SetRange<'_> {
        SetRange::new(Walk::over(self.tree.root, &range))
    }

    /// The lowest key.
    pub fn first(&self) -> Option<u64> {
        self.at_or_after(0)
    }

    /// The highest key.
    pub fn last(&self) -> Option<u64> {
        self.at_or_before(u64::MAX)
    }

    /// The first key at or after `key`.
    #[inline]
    pub fn at_or_after(&self, key: u64) -> Option<u64> {
        crate::path::at_or_after::<0>(self.tree.root, key).map(|(_, found)| found)
    }

    /// Like [`WordSet::at_or_after`], as the first step of a walk by
    /// [`WordSet::after_step`].
    #[inline]
    pub fn first_step(&self, key: u64, last: &LastStep) -> Option<u64> {
        self.tree.first_step(key, last).map(|(first, _)| first)
    }

    /// The first key after `key`, for walks over a set that changes meanwhile.
    #[inline]
    pub fn after(&self, key: u64) -> Option<u64> {
        crate::path::after::<0>(self.tree.root, key).map(|(_, next)| next)
    }

    /// Like [`WordSet::after`], but faster when `last` has seen the previous step.
    #[inline]
    pub fn after_step(&self, key: u64, last: &LastStep) -> Option<u64> {
        self.tree.after_step(key, last).map(|(next, _)| next)
    }

    /// See [`WordMap::small_width`](crate::WordMap::small_width).
    #[doc(hidden)]
    #[inline(always)]
    pub fn small_width(&self) -> usize {
        self.tree.root.small_width()
    }

    /// See [`WordMap::first_step_of_small`](crate::WordMap::first_step_of_small).
    ///
    /// # Safety
    /// `WIDTH` is the [`WordSet::small_width`] at this moment, and not 0.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn first_step_of_small<const WIDTH: usize>(
        &self,
        key: u64,
        last: &LastStep,
    ) -> Option<u64> {
        let (first, _) = self.tree.first_step_of_small::<WIDTH>(key, last)?;
        Some(first)
    }

    #[doc(hidden)]
    #[inline]
    pub fn first_step_anywhere(&self, key: u64, last: &LastStep) -> Option<u64> {
        let (first, _) = self.tree.first_step_anywhere(key, last)?;
        Some(first)
    }

    /// See [`WordMap::after_step_of_small`](crate::WordMap::after_step_of_small).
    ///
    /// # Safety
    /// `WIDTH` is the [`WordSet::small_width`] at this moment, and not 0.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn after_step_of_small<const WIDTH: usize>(
        &self,
        key: u64,
        last: &LastStep,
    ) -> Option<Option<u64>> {
        let found = self.tree.after_step_of_small::<WIDTH>(key, last)?;
        Some(found.map(|(next, _)| next))
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn after_step_anywhere(&self, key: u64, last: &LastStep) -> Option<u64> {
        let (next, _) = self.tree.after_step_of_any(key, last)?;
        Some(next)
    }

    /// The last key at or before `key`.
    pub fn at_or_before(&self, key: u64) -> Option<u64> {
        let mut path = Path::new();
        seek_backward::<0>(self.tree.root, key, &mut path).map(|p| leaf_key::<0>(p.leaf, p.index))
    }

    /// The key with `nth_key` keys before it.
    pub fn nth(&self, nth_key: u64) -> Option<u64> {
        let mut path = Path::new();
        nth::<0>(self.tree.root, nth_key, &mut path).map(|p| leaf_key::<0>(p.leaf, p.index))
    }

    /// The number of keys below `key`.
    pub fn rank(&self, key: u64) -> u64 {
        rank::<0>(self.tree.root, key)
    }

    /// The number of keys that lie in `range`, found without visiting them.
    pub fn count_range(&self, range: impl RangeBounds<u64>) -> u64 {
        count_between(&range, self.tree.len(), |key| self.rank(key))
    }

    /// Keeps only the keys for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(u64) -> bool) {
        let mut found = self.first();
        while let Some(key) = found {
            if !keep(key) {
                self.remove(key);
            }
            found = self.after(key);
        }
    }

    /// Fills the set, which must be empty, with keys in ascending order: several times as
    /// fast as inserting them, and the leaves become full.
    ///
    /// # Errors
    /// [`BuildError`]: keys are not in ascending order, or there is no memory. The set
    /// stays empty.
    ///
    /// # Panics
    /// When the set is not empty.
    pub fn try_fill_sorted(
        &mut self,
        keys: impl IntoIterator<Item = u64>,
    ) -> Result<(), BuildError> {
        assert!(
            self.is_empty(),
            "only an empty set can be filled; use extend"
        );
        self.tree.build(keys.into_iter().map(|key| (key, 0)))
    }

    /// Packs the keys into as little memory as possible; see
    /// [`WordMap::shrink_to_fit`](crate::WordMap::shrink_to_fit).
    pub fn shrink_to_fit(&mut self) {
        self.tree.pack();
    }

    /// Removes all keys and frees their memory.
    pub fn clear(&mut self) {
        self.tree.clear();
    }

    /// Removes all keys and returns, from the same walk, the bytes that
    /// [`WordSet::memory_used`] would have counted.
    #[inline]
    pub fn clear_and_count(&mut self) -> usize {
        self.tree.clear()
    }

    /// The bytes of all nodes, without the set's own word. Looks at every node.
    pub fn memory_used(&self) -> usize {
        self.tree.node_bytes()
    }
}

/// Defines two methods that combine two sets by walking over both; `$keep` says which
/// keys the result has.
macro_rules! combine {
    ($(#[$doc:meta])* $name:ident, $try_name:ident, $keep:expr) => {
        $(#[$doc])*
        /// The result takes its nodes from where this set does. Calls the global handler
        /// of allocation errors when there is no memory.
        #[must_use]
        pub fn $name<B: NodeSource>(&self, other: &WordSet<B>) -> WordSet<A> {
            self.$try_name(other).unwrap_or_else(|_| out_of_memory())
        }

        $(#[$doc])*
        ///
        /// # Errors
        /// [`OutOfMemory`].
        pub fn $try_name<B: NodeSource>(&self, other: &WordSet<B>) -> Result<WordSet<A>, OutOfMemory> {
            self.combined(other, $keep)
        }
    };
}

impl<A: NodeSource + Clone> WordSet<A> {
    combine!(
        /// The keys that are in either set.
        union, try_union, |_, _| true
    );
    combine!(
        /// The keys that are in both sets.
        intersection, try_intersection, |mine, theirs| mine && theirs
    );
    combine!(
        /// The keys that are in this set and not in `other`.
        difference, try_difference, |_, theirs: bool| !theirs
    );
    combine!(
        /// The keys that are in exactly one of the sets.
        symmetric_difference, try_symmetric_difference, |mine, theirs| mine != theirs
    );

    fn combined<B: NodeSource>(
        &self,
        other: &WordSet<B>,
        keep: impl Fn(bool, bool) -> bool,
    ) -> Result<WordSet<A>, OutOfMemory> {
        let mut combined = WordSet::new_in(self.tree.source.clone());
        let mine = Pairs(Walk::<0>::all(self.tree.root));
        let theirs = Pairs(Walk::<0>::all(other.tree.root));
        let kept = merge(mine, theirs, |_, mine: Option<u64>, theirs: Option<u64>| {
            keep(mine.is_some(), theirs.is_some()).then_some(0)
        });
        combined.tree.build(kept).map_err(|_| OutOfMemory)?;
        Ok(combined)
    }
}

impl<A: NodeSource + Default> Default for WordSet<A> {
    fn default() -> Self {
        WordSet::new_in(A::default())
    }
}

impl<A: NodeSource + Clone> Clone for WordSet<A> {
    fn clone(&self) -> Self {
        let mut copy = WordSet::new_in(self.tree.source.clone());
        or_out_of_memory(copy.tree.build(Pairs(Walk::<0>::all(self.tree.root))));
        copy
    }
}

impl<A: NodeSource> fmt::Debug for WordSet<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl<A: NodeSource, B: NodeSource> PartialEq<WordSet<B>> for WordSet<A> {
    fn eq(&self, other: &WordSet<B>) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<A: NodeSource> Eq for WordSet<A> {}

impl<A: NodeSource> Hash for WordSet<A> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len().hash(state);
        for key in self {
            key.hash(state);
        }
    }
}

impl<A: NodeSource> Extend<u64> for WordSet<A> {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, keys: I) {
        self.tree.extend(keys.into_iter().map(|key| (key, 0)));
    }
}

impl<A: NodeSource + Default> FromIterator<u64> for WordSet<A> {
    fn from_iter<I: IntoIterator<Item = u64>>(keys: I) -> Self {
        let mut set = WordSet::default();
        set.extend(keys);
        set
    }
}

impl<const N: usize> From<[u64; N]> for WordSet {
    fn from(keys: [u64; N]) -> Self {
        keys.into_iter().collect()
    }
}
