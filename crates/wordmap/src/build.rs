//! Builds a tree from entries that come in key order, leaf by leaf, each as full as leaves
//! get. Merging, and packing a tree, are made of it.
//!
//! ```text
//! entries ─▶ leaf in the making ─▶ open branches, levels falling ─▶ root
//! ```
//!
//! Where a leaf is cut off from its neighbour, their keys differ first in some byte: that
//! is the level of the branch that has both leaves below it. A leaf may be cut off
//! anywhere, provided that none of its own keys differ in a higher byte than the one in
//! which it differs from its neighbours (N7). So the leaf in the making is cut off
//!
//! * before a key that differs from the last one in a higher byte than the leaf's first key
//!   differs from the previous leaf;
//! * when it is full, where its keys differ in the highest byte for the last time.

use crate::memory::NodeSource;
use crate::node::branch::Children;
use crate::node::edge::{byte, highest_difference, Edge};
use crate::node::leaf::{Entries, ENTRIES_MAX};
use crate::tree::{out_of_memory, subtree_bytes, OutOfMemory, Tree};
use crate::walk::Walk;
use alloc::vec::Vec;
use core::iter::Peekable;
use core::mem::{replace, swap, MaybeUninit};

/// Why a map could not be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildError {
    /// There was no memory for a node.
    OutOfMemory,
    /// This key came after a key that is not below it.
    Unsorted(u64),
}

impl core::fmt::Display for BuildError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            BuildError::OutOfMemory => OutOfMemory.fmt(f),
            BuildError::Unsorted(key) => {
                write!(
                    f,
                    "keys must rise, but key {key} is not above the one before it"
                )
            }
        }
    }
}

impl core::error::Error for BuildError {}

impl From<OutOfMemory> for BuildError {
    fn from(_: OutOfMemory) -> BuildError {
        BuildError::OutOfMemory
    }
}

/// Whether inserting `few` entries one by one takes less time than a walk that also visits
/// `many`.
pub(crate) fn is_few(few: usize, many: usize) -> bool {
    few < many / 8
}

/// Calls the global handler of allocation errors when a tree could not be built of keys in
/// ascending order.
pub(crate) fn or_out_of_memory(built: Result<(), BuildError>) {
    if built.is_err() {
        out_of_memory();
    }
}

/// A branch that is still getting children.
struct Open {
    level: usize,
    /// The first key below the branch.
    first_key: u64,
    /// The number of entries below the branch.
    count: u64,
    children: Children,
}

impl Open {
    fn add(&mut self, child: Edge, first_key: u64, count: u64) {
        let i = self.children.len();
        let separator = if i == 0 {
            0
        } else {
            byte(first_key, self.level)
        };
        self.children.insert(i, separator, child);
        self.count += count;
    }
}

/// The fewest entries for which sorting them before they are inserted is worth it.
const SORTED_MIN: usize = 512;

/// A level above the eight bytes that keys have.
const ABOVE_ALL: usize = 8;

/// A tree in the making.
///
/// * **B1** The levels of the open branches fall. What is cut off next goes below the last
///   of them, or below a new branch in between.
/// * **B2** No two keys of the leaf in the making differ in a byte above `bound`, the level
///   of the last open branch (7 when there is none).
pub(crate) struct Builder<'a, const V: usize, A: NodeSource> {
    tree: &'a mut Tree<V, A>,
    leaf: Entries,
    bound: usize,
    open: [MaybeUninit<Open>; 8],
    depth: usize,
    /// A node that no branch has taken yet.
    loose: Edge,
}

impl<'a, const V: usize, A: NodeSource> Builder<'a, V, A> {
    /// A builder of `tree`, whose root must be null.
    #[inline]
    pub(crate) fn new(tree: &'a mut Tree<V, A>) -> Builder<'a, V, A> {
        debug_assert!(tree.root.is_null());
        Builder {
            tree,
            leaf: Entries::new(),
            bound: 7,
            open: [const { MaybeUninit::uninit() }; 8],
            depth: 0,
            loose: Edge::NULL,
        }
    }

    /// Adds an entry whose key must be above all keys added so far.
    #[inline]
    pub(crate) fn push(&mut self, key: u64, value: u64) -> Result<(), BuildError> {
        let n = self.leaf.len();
        if n > 0 {
            let last = self.leaf.key(n - 1);
            if key <= last {
                return Err(BuildError::Unsorted(key));
            }
            let apart = highest_difference(last, key);
            if apart > self.bound {
                self.cut(n, apart)?;
            } else if n >= ENTRIES_MAX {
                self.cut_full(key)?;
            }
        }
        self.leaf.push(key, value);
        Ok(())
    }

    /// Sets the tree's root, which leads to all entries that have been added.
    pub(crate) fn finish(mut self) -> Result<(), OutOfMemory> {
        let n = self.leaf.len();
        if n > 0 {
            self.cut(n, ABOVE_ALL)?;
        }
        self.tree.root = replace(&mut self.loose, Edge::NULL);
        Ok(())
    }

    /// The last open branch.
    fn top(&mut self) -> Option<&mut Open> {
        let top = self.depth.checked_sub(1)?;
        // SAFETY: the first `depth` have been written.
        Some(unsafe { self.open[top].assume_init_mut() })
    }

    /// Makes room for `key` after a leaf in the making that has as many entries as most
    /// leaves may have; a bitmap may have more.
    fn cut_full(&mut self, key: u64) -> Result<(), OutOfMemory> {
        let n = self.leaf.len();
        let level = highest_difference(self.leaf.key(0), key);
        if level == 0 {
            return Ok(());
        }
        let is_apart = |i: &usize| {
            let here = if *i == n { key } else { self.leaf.key(*i) };
            byte(self.leaf.key(i - 1), level) != byte(here, level)
        };
        // The first key and `key` differ in byte `level`, so there is such a place.
        let at = (1..=n).rev().find(is_apart).unwrap_or(n);
        self.cut(at, level)
    }

    /// Makes a leaf of the first `at` entries, of which there is at least one. The next key
    /// differs from theirs in byte `apart` first.
    fn cut(&mut self, at: usize, apart: usize) -> Result<(), OutOfMemory> {
        let mut rest = Entries::new();
        let (key, mut count) = (self.leaf.key(0), at as u64);
        self.leaf.split_off(at, &mut rest);
        self.loose = self.tree.new_leaf(&self.leaf)?;
        self.leaf = rest;
        let mut first_key = key;
        self.bound = apart;
        // Branches that will not contain the next key are complete.
        loop {
            let node = self.loose;
            let Some(top) = self.top().filter(|top| top.level <= apart) else {
                break;
            };
            top.add(node, first_key, count);
            let is_open = top.level == apart;
            (first_key, count) = (top.first_key, top.count);
            self.loose = Edge::NULL;
            if is_open {
                return Ok(());
            }
            self.close()?;
        }
        if apart != ABOVE_ALL {
            let mut open = Open {
                level: apart,
                first_key,
                count: 0,
                children: Children::new(),
            };
            open.add(replace(&mut self.loose, Edge::NULL), first_key, count);
            self.open[self.depth].write(open);
            self.depth += 1;
        }
        Ok(())
    }

    /// Makes the last open branch a node.
    fn close(&mut self) -> Result<(), OutOfMemory> {
        let top = self.depth - 1;
        // SAFETY: the first `depth` have been written; the caller has made sure that there
        // is one.
        let open = unsafe { self.open[top].assume_init_ref() };
        let (level, key, count) = (open.level, open.first_key, open.count);
        self.loose = self.tree.new_branch(level, key, count, &open.children)?;
        self.depth = top;
        Ok(())
    }
}

/// Releases what has been made of a tree that will not be finished.
impl<const V: usize, A: NodeSource> Drop for Builder<'_, V, A> {
    fn drop(&mut self) {
        self.tree.release_subtree(self.loose);
        while let Some(open) = self.top() {
            let children = replace(&mut open.children, Children::new());
            for i in 0..children.len() {
                self.tree.release_subtree(children.edge(i));
            }
            self.depth -= 1;
        }
    }
}

/// A tree that is built anew while its old nodes are still there. In the end, which may be a panic
/// of what supplies the entries, it has the root that is kept, and the nodes below the other one
/// are released.
struct Both<'a, const V: usize, A: NodeSource> {
    tree: &'a mut Tree<V, A>,
    kept: Edge,
}

impl<'a, const V: usize, A: NodeSource> Both<'a, V, A> {
    /// Keeps the tree's root, and leaves the tree empty.
    fn of(tree: &'a mut Tree<V, A>) -> Self {
        let kept = replace(&mut tree.root, Edge::NULL);
        Self { tree, kept }
    }

    /// Keeps the new root.
    fn keep_new(mut self) {
        swap(&mut self.tree.root, &mut self.kept);
    }
}

impl<const V: usize, A: NodeSource> Drop for Both<'_, V, A> {
    fn drop(&mut self) {
        let other = replace(&mut self.tree.root, self.kept);
        self.tree.release_subtree(other);
    }
}

impl<const V: usize, A: NodeSource> Tree<V, A> {
    /// Fills the tree, which must be empty, with entries in ascending key order. The tree
    /// stays empty when that fails.
    pub(crate) fn build(
        &mut self,
        entries: impl Iterator<Item = (u64, u64)>,
    ) -> Result<(), BuildError> {
        let mut builder = Builder::new(self);
        for (key, value) in entries {
            builder.push(key, value)?;
        }
        Ok(builder.finish()?)
    }

    /// Replaces all entries by those that `make` makes of a walk over them, in ascending
    /// key order. Needs memory for both; without it, or when `make` panics, nothing changes.
    pub(crate) fn rebuild<I: Iterator<Item = (u64, u64)>>(
        &mut self,
        make: impl FnOnce(Pairs<V>) -> I,
    ) -> Result<(), BuildError> {
        let both = Both::of(self);
        both.tree.build(make(Pairs(Walk::<V>::all(both.kept))))?;
        both.keep_new();
        Ok(())
    }

    /// Rebuilds the tree if it takes less memory then. Needs memory for both; without it
    /// nothing changes.
    pub(crate) fn pack(&mut self) {
        // A tree of one leaf has too little room for that to be worth it.
        if !self.root.is_branch() {
            return;
        }
        let both = Both::of(self);
        let built = both.tree.build(Pairs(Walk::<V>::all(both.kept))).is_ok();
        if built && subtree_bytes::<V>(both.tree.root) < subtree_bytes::<V>(both.kept) {
            both.keep_new();
        }
    }

    /// Inserts entries; of two with the same key the later one wins. Builds the tree, if it
    /// is empty, as long as keys are in ascending order; sorts the rest before inserting it
    /// where that is worth it. Calls the global handler of allocation errors when there is
    /// no memory.
    pub(crate) fn extend(&mut self, entries: impl Iterator<Item = (u64, u64)>) {
        let mut entries = entries;
        let mut back = None;
        if self.root.is_null() {
            let mut builder = Builder::new(self);
            for (key, value) in entries.by_ref() {
                match builder.push(key, value) {
                    Ok(()) => {}
                    Err(BuildError::Unsorted(_)) => {
                        back = Some((key, value));
                        break;
                    }
                    Err(BuildError::OutOfMemory) => out_of_memory(),
                }
            }
            or_out_of_memory(builder.finish().map_err(BuildError::from));
        }
        let rest = back.into_iter().chain(entries);
        let at_least = rest.size_hint().0;
        if at_least >= SORTED_MIN && !is_few(at_least, self.len() as usize) {
            self.extend_sorted(rest.collect());
        } else {
            for (key, value) in rest {
                self.put(key, value);
            }
        }
    }

    fn put(&mut self, key: u64, value: u64) {
        let inserted = self.insert(key).unwrap_or_else(|_| out_of_memory());
        if V == 1 {
            // SAFETY: `inserted.value` points to a value of a live leaf of this map.
            unsafe { *inserted.value = value };
        }
    }

    fn extend_sorted(&mut self, mut entries: Vec<(u64, u64)>) {
        // Entries of one key stay in order, so that the last one wins.
        entries.sort_by_key(|entry| entry.0);
        let last_ones = (0..entries.len()).filter_map(|i| {
            let is_last = entries.get(i + 1).is_none_or(|next| next.0 != entries[i].0);
            is_last.then_some(entries[i])
        });
        let new_wins = |_, old: Option<u64>, new: Option<u64>| new.or(old);
        or_out_of_memory(self.rebuild(|old| merge(old, last_ones, new_wins)));
    }
}

/// Keys and values of a tree in order; in a set, values are 0.
pub(crate) struct Pairs<const V: usize>(pub(crate) Walk<V>);

impl<const V: usize> Iterator for Pairs<V> {
    type Item = (u64, u64);

    #[inline]
    fn next(&mut self) -> Option<(u64, u64)> {
        let found = self.0.next()?;
        Some((found.key, found.word()))
    }
}

/// Two walks that are being merged, and the function that chooses what is kept.
pub(crate) struct Merge<X: Iterator, Y: Iterator, F> {
    mine: Peekable<X>,
    theirs: Peekable<Y>,
    keep: F,
}

/// Merges two walks. `keep` returns the value of each key, given the key's value in each
/// walk; `None` leaves the key out.
pub(crate) fn merge<X, Y, F>(mine: X, theirs: Y, keep: F) -> Merge<X, Y, F>
where
    X: Iterator<Item = (u64, u64)>,
    Y: Iterator<Item = (u64, u64)>,
    F: FnMut(u64, Option<u64>, Option<u64>) -> Option<u64>,
{
    Merge {
        mine: mine.peekable(),
        theirs: theirs.peekable(),
        keep,
    }
}

impl<X, Y, F> Iterator for Merge<X, Y, F>
where
    X: Iterator<Item = (u64, u64)>,
    Y: Iterator<Item = (u64, u64)>,
    F: FnMut(u64, Option<u64>, Option<u64>) -> Option<u64>,
{
    type Item = (u64, u64);

    #[inline]
    fn next(&mut self) -> Option<(u64, u64)> {
        loop {
            let key = match (self.mine.peek(), self.theirs.peek()) {
                (Some(mine), Some(theirs)) => mine.0.min(theirs.0),
                (Some(one), None) | (None, Some(one)) => one.0,
                (None, None) => return None,
            };
            let mine = self.mine.next_if(|entry| entry.0 == key);
            let theirs = self.theirs.next_if(|entry| entry.0 == key);
            let kept = (self.keep)(key, mine.map(|entry| entry.1), theirs.map(|entry| entry.1));
            if let Some(value) = kept {
                return Some((key, value));
            }
        }
    }
}
