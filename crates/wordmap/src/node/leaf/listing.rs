//! A walk over a small leaf, which is most maps: one load per entry, and nothing to set up but
//! the address of the first entry.

use super::planes::Place;
use super::view::Leaf;
use crate::node::edge::{prefix, Edge, Kind, ONE};
use crate::node::plane::read8;
use core::ptr;

/// The entries of a small leaf ([`Edge::is_small_leaf`]) that are left in a walk over it from
/// both ends.
///
/// * **W1** While `left` is not 0, `word` points to the 8 bytes that end with the first suffix
///   left, in which `shift` bits come before the suffix, and `value` to that entry's value (in
///   a map). The other entries follow, `width` bytes apart, with their values one word apart
///   downwards. The key of a leaf of one entry is a suffix of 8 bytes.
#[derive(Clone, Copy)]
pub(crate) struct Listing {
    word: *const u8,
    value: *mut u64,
    /// The bytes that the keys share.
    base: u64,
    // Whole words, so that a load can be forwarded from a store.
    width: usize,
    shift: usize,
    left: usize,
}

impl Listing {
    /// A walk over nothing.
    pub(crate) const EMPTY: Listing = Listing {
        word: ptr::null(),
        value: ptr::null_mut(),
        base: 0,
        width: 0,
        shift: 0,
        left: 0,
    };

    /// All entries of the small leaf that `edge` leads to.
    ///
    /// # Safety
    /// `edge` must lead to a live leaf of a map (`V` is 1) or set (0) for which
    /// [`Edge::is_small_leaf`] is true, and stay so while the walk is used.
    #[inline(always)]
    pub(crate) unsafe fn of<const V: usize>(edge: Edge) -> Listing {
        // SAFETY: the edge leads to a live small leaf.
        let leaf = unsafe { Leaf::<V>::of(edge) };
        let word = leaf.word();
        // The suffixes are after the header word; in a leaf of one entry that word is the key
        // itself.
        let (width, base, left) = if edge.tag() == ONE {
            (0, 0, 1)
        } else {
            let width = edge.level() % 4;
            (width, prefix(word, width), usize::from(word as u8) + 1)
        };
        Listing {
            word: leaf.header.wrapping_add(width),
            value: leaf.value(0),
            base,
            width,
            shift: (8 * width).wrapping_neg() % 64,
            left,
        }
    }

    /// Like [`Listing::of`], for the entries whose keys lie between `low` and `high`, both
    /// included.
    ///
    /// # Safety
    /// As [`Listing::of`].
    pub(crate) unsafe fn between<const V: usize>(edge: Edge, low: u64, high: u64) -> Listing {
        // SAFETY: the edge leads to a live small leaf.
        let (leaf, mut listing) = unsafe { (Leaf::<V>::of(edge), Listing::of::<V>(edge)) };
        let first = leaf.count_below(low);
        let end = match high.checked_add(1) {
            Some(above) => leaf.count_below(above),
            None => listing.left,
        };
        listing.word = listing.word.wrapping_add(first * listing.width);
        listing.value = listing.value.wrapping_sub(first);
        listing.left = end.saturating_sub(first);
        listing
    }

    /// The number of entries left.
    #[inline(always)]
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// The key of entry `i`, counted from the first one left.
    #[inline(always)]
    fn key(&self, i: usize) -> u64 {
        debug_assert!(i < self.left);
        // SAFETY: W1; whoever made the walk guaranteed that the leaf stays.
        let word = unsafe { read8(self.word.add(i * self.width)) };
        self.base | (word >> (self.shift % 64))
    }

    /// The first entry left: its key, and the address of its value (without meaning in a set).
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<(u64, *mut u64)> {
        if self.left == 0 {
            return None;
        }
        let found = (self.key(0), self.value);
        self.word = self.word.wrapping_add(self.width);
        self.value = self.value.wrapping_sub(1);
        self.left -= 1;
        Some(found)
    }

    /// The last entry left; see [`Listing::next`].
    #[inline(always)]
    pub(crate) fn next_back(&mut self) -> Option<(u64, *mut u64)> {
        let last = self.left.checked_sub(1)?;
        let found = (self.key(last), self.value.wrapping_sub(last));
        self.left = last;
        Some(found)
    }
}

impl<const V: usize> Leaf<V> {
    /// How many keys of the leaf are below `key`.
    fn count_below(self, key: u64) -> usize {
        if self.edge.kind() != Kind::ONE && self.covers(key) {
            match self.place(key) {
                Place::At(i) | Place::Before(i) => i,
            }
        } else if key <= self.lowest() {
            0
        } else {
            self.len()
        }
    }
}
