//! Walks over the entries of a tree, from both ends, a batch of keys at a time.

use crate::node::edge::Edge;
use crate::node::leaf::Listing;
use crate::path::{
    count, descend_first, leaf, leaf_keys, leaf_len, next_leaf, previous_leaf, seek_backward,
    seek_forward, Path, Position,
};
use core::mem::MaybeUninit;
use core::ops::{Bound, RangeBounds};
use core::ptr;

/// The number of keys that are read from a leaf at a time.
const BATCH: usize = 16;

/// The number of entries left in a walk over a range, which nobody has counted.
const UNKNOWN: usize = usize::MAX;

/// Walks over a range start with [`UNKNOWN`] entries left, and are recognized by having at
/// least this many.
const UNKNOWN_MIN: usize = UNKNOWN / 2;

/// One end of a walk: a leaf, and a batch of its keys.
///
/// * **W2** Keys `0..end` of the batch have been written.
/// * **W3** `place` is written when the walk begins from this end; the batch is of its leaf.
struct End {
    /// The keys of the batch that have not been walked over yet: `start..end`.
    start: usize,
    end: usize,
    is_begun: bool,
    place: MaybeUninit<Place>,
    batch: [MaybeUninit<u64>; BATCH],
}

/// Where an end of a walk is: a leaf, and the path to it.
struct Place {
    path: Path,
    leaf: Edge,
    /// Index in the leaf of the first key of the batch.
    from: usize,
}

impl End {
    /// An end from which the walk has not begun. Most walks are over small maps, and begin
    /// from neither end of a tree.
    #[inline(always)]
    fn new() -> End {
        End {
            start: 0,
            end: 0,
            is_begun: false,
            place: MaybeUninit::uninit(),
            batch: [const { MaybeUninit::uninit() }; BATCH],
        }
    }

    /// Begins the walk from this end; returns a path for the caller to fill.
    fn begin(&mut self) -> &mut Path {
        self.is_begun = true;
        let place = self.place.write(Place {
            path: Path::new(),
            leaf: Edge::NULL,
            from: 0,
        });
        &mut place.path
    }

    /// The place of this end, once the walk has begun from it.
    #[inline(always)]
    fn place(&mut self) -> &mut Place {
        debug_assert!(self.is_begun);
        // SAFETY: W3.
        unsafe { self.place.assume_init_mut() }
    }

    fn read<const V: usize>(&mut self, position: Position, count: usize) {
        let place = self.place();
        place.leaf = position.leaf;
        place.from = position.index;
        self.start = 0;
        for key in &mut self.batch[..count] {
            key.write(0);
        }
        // SAFETY: the first `count` have just been written.
        let keys = unsafe { &mut *(ptr::from_mut(&mut self.batch[..count]) as *mut [u64]) };
        self.end = leaf_keys::<V>(position.leaf, position.index, keys);
    }

    #[inline(always)]
    fn key(&self, at: usize) -> u64 {
        debug_assert!(at < BATCH);
        // SAFETY: W2: callers ask only for keys below `end`, which have been read.
        unsafe { self.batch[at % BATCH].assume_init() }
    }

    #[inline(always)]
    fn found<const V: usize>(&self, at: usize) -> Found {
        Found {
            key: self.key(at),
            value: if V == 1 {
                // SAFETY: W3: there is a batch, so the walk has begun.
                let place = unsafe { self.place.assume_init_ref() };
                leaf::<1>(place.leaf).value(place.from + at)
            } else {
                ptr::null_mut()
            },
        }
    }
}

impl Found {
    /// The entry's value; 0 in a set.
    #[inline(always)]
    pub(crate) fn word(self) -> u64 {
        if self.value.is_null() {
            0
        } else {
            // SAFETY: a found entry belongs to a live leaf, which walks borrow.
            unsafe { *self.value }
        }
    }
}

/// An entry that a walk has found.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) key: u64,
    /// The address of its value (null in a set).
    pub(crate) value: *mut u64,
}

/// A walk over entries in key order, from both ends.
///
/// * **W4** Either `listing` has no entries, or `tree` has none.
pub(crate) struct Walk<const V: usize> {
    /// The entries of a small leaf, which is most maps: setting up a walk over any tree takes
    /// longer than walking over such a leaf.
    listing: Listing,
    tree: TreeWalk<V>,
}

impl<const V: usize> Walk<V> {
    /// A walk over everything.
    #[inline(always)]
    pub(crate) fn all(root: Edge) -> Self {
        if root.is_small_leaf() {
            // SAFETY: the caller of the walk borrows the tree, so the leaf stays.
            return Walk::over_small(unsafe { Listing::of::<V>(root) });
        }
        Walk::over_tree(root, 0, u64::MAX, count::<V>(root) as usize)
    }

    pub(crate) fn over(root: Edge, range: &impl RangeBounds<u64>) -> Self {
        let low = match range.start_bound() {
            Bound::Included(&k) => Some(k),
            Bound::Excluded(&k) => k.checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let high = match range.end_bound() {
            Bound::Included(&k) => Some(k),
            Bound::Excluded(&k) => k.checked_sub(1),
            Bound::Unbounded => Some(u64::MAX),
        };
        match (low, high) {
            (Some(low), Some(high)) if root.is_small_leaf() => {
                // SAFETY: the caller of the walk borrows the tree, so the leaf stays.
                Walk::over_small(unsafe { Listing::between::<V>(root, low, high) })
            }
            (Some(low), Some(high)) => Walk::over_tree(root, low, high, UNKNOWN),
            _ => Walk::over_small(Listing::EMPTY),
        }
    }

    #[inline(always)]
    fn over_small(listing: Listing) -> Self {
        let tree = TreeWalk::new(Edge::NULL, 0, u64::MAX, 0);
        Walk { listing, tree }
    }

    #[inline(always)]
    fn over_tree(root: Edge, low: u64, high: u64, left: usize) -> Self {
        let listing = Listing::EMPTY;
        let tree = TreeWalk::new(root, low, high, left);
        Walk { listing, tree }
    }

    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<Found> {
        if let Some((key, value)) = self.listing.next() {
            return Some(found::<V>(key, value));
        }
        if self.tree.has_no_batch() && (self.tree.left == 0 || !self.tree.refill_front()) {
            return None;
        }
        self.tree.next_of_batch()
    }

    #[inline(always)]
    pub(crate) fn next_back(&mut self) -> Option<Found> {
        if let Some((key, value)) = self.listing.next_back() {
            return Some(found::<V>(key, value));
        }
        self.tree.next_back()
    }

    /// The number of entries left, where that is known.
    pub(crate) fn left(&self) -> Option<usize> {
        let of_tree = self.tree.left - self.tree.front.start;
        (of_tree <= UNKNOWN_MIN).then(|| of_tree + self.listing.left())
    }

    pub(crate) fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left().unwrap_or(0), self.left())
    }
}

#[inline(always)]
fn found<const V: usize>(key: u64, value: *mut u64) -> Found {
    let value = if V == 1 { value } else { ptr::null_mut() };
    Found { key, value }
}

/// A walk over the keys between two bounds, both inclusive, of any tree.
pub(crate) struct TreeWalk<const V: usize> {
    root: Edge,
    low: u64,
    high: u64,
    /// The number of entries left, including those of the front's batch that have been walked
    /// over. In a walk over a range, [`UNKNOWN`] less the entries that have been walked over,
    /// until the end is seen.
    left: usize,
    front: End,
    back: End,
}

impl<const V: usize> TreeWalk<V> {
    #[inline(always)]
    fn new(root: Edge, low: u64, high: u64, left: usize) -> Self {
        let is_empty = root.is_null() || low > high;
        TreeWalk {
            root,
            low,
            high,
            left: if is_empty { 0 } else { left },
            front: End::new(),
            back: End::new(),
        }
    }

    /// Whether the front has walked over its whole batch, or has none yet.
    #[inline(always)]
    fn has_no_batch(&self) -> bool {
        self.front.start == self.front.end
    }

    /// The next entry, where the front has a batch.
    #[inline(always)]
    fn next_of_batch(&mut self) -> Option<Found> {
        let at = self.front.start;
        let found = self.front.found::<V>(at);
        if found.key >= self.high {
            self.finish();
            return (found.key == self.high).then_some(found);
        }
        self.front.start = at + 1;
        Some(found)
    }

    fn finish(&mut self) {
        self.left = 0;
        self.front.start = 0;
        self.front.end = 0;
    }

    #[inline(never)]
    fn refill_front(&mut self) -> bool {
        self.left -= self.front.start;
        if self.left == 0 {
            self.finish();
            return false;
        }
        let end = &mut self.front;
        let position = if !end.is_begun {
            let path = end.begin();
            if self.low == 0 {
                Some(descend_first(self.root, path))
            } else {
                seek_forward::<V>(self.root, self.low, path)
            }
        } else {
            // Remembers beyond the batch what has been walked over.
            self.low = end.key(end.end - 1) + 1;
            let read = end.end;
            let place = end.place();
            let (leaf, index) = (place.leaf, place.from + read);
            if index < leaf_len::<V>(leaf) {
                Some(Position { leaf, index })
            } else {
                next_leaf(&mut place.path)
            }
        };
        match position {
            Some(position) => end.read::<V>(position, BATCH),
            None => self.finish(),
        }
        position.is_some()
    }

    /// The lowest key that the walk has not reached from the front.
    fn front_low(&self) -> u64 {
        match self.front.start {
            0 => self.low,
            // Below `high`, or the walk would be finished.
            at => self.front.key(at - 1) + 1,
        }
    }

    fn next_back(&mut self) -> Option<Found> {
        if self.left == self.front.start || self.back.start == self.back.end && !self.refill_back()
        {
            return None;
        }
        let at = self.back.end - 1;
        let found = self.back.found::<V>(at);
        let low = self.front_low();
        if found.key <= low {
            self.finish();
            return (found.key == low).then_some(found);
        }
        self.back.end = at;
        self.left -= 1;
        self.high = found.key - 1;
        Some(found)
    }

    fn refill_back(&mut self) -> bool {
        let end = &mut self.back;
        let position = if !end.is_begun {
            seek_backward::<V>(self.root, self.high, end.begin())
        } else {
            let place = end.place();
            let leaf = place.leaf;
            match place.from.checked_sub(1) {
                Some(index) => Some(Position { leaf, index }),
                None => previous_leaf::<V>(&mut place.path),
            }
        };
        match position {
            Some(Position { leaf, index }) => {
                let from = (index + 1).saturating_sub(BATCH);
                let position = Position { leaf, index: from };
                end.read::<V>(position, index + 1 - from);
            }
            None => self.finish(),
        }
        position.is_some()
    }
}
