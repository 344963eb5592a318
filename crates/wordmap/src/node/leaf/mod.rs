//! Leaves: the nodes that hold entries.
//!
//! `V` is the number of value words an entry has: 1 in a map, 0 in a set.
//! Values are before the header, entry 0's nearest to it. What is after the header
//! depends on the shape; each has a file:
//!
//! ```text
//! one      (the header word is the key)
//! flat     level 1, 2:  suffix × room
//! wide     level 3..8:  top byte × room │ rest of the suffix × room
//! grouped  upper bytes × group room │ end × group room │ lower bytes × room
//! bitmap   4 words, one bit a key
//! ```
//!
//! `planes.rs` has what every shape implements, `view.rs` what a leaf has in any shape.
//! Room follows from the number of entries and groups (`shape.rs`). Flat and wide leaves
//! are of one kind; their level distinguishes them.

mod bitmap;
mod cut;
mod entries;
mod flat;
mod grouped;
mod listed;
mod listing;
mod one;
mod planes;
mod shape;
mod view;
mod wide;

pub(crate) use bitmap::Bitmap;
pub(crate) use cut::{Cut, Cuttable, Half};
pub(crate) use entries::Entries;
pub(crate) use flat::Flat;
pub(crate) use grouped::Grouped;
pub(crate) use listing::Listing;
use one::One;
pub(crate) use planes::{index_of, Place, Planes, Spot, Step};
pub(crate) use shape::{Shape, ENTRIES_MAX};
pub(crate) use view::Leaf;
pub(crate) use wide::Wide;

use super::edge::{Edge, Kind, BITMAP, FLAT1, FLAT2, ONE};
use super::plane;

/// The outcome of inserting into a leaf.
pub(crate) enum Insertion {
    /// The key is there, as this entry.
    Present(usize),
    /// The key has become this entry.
    Done(usize),
    /// The key belongs here, where there is no room.
    NoRoom(Spot),
}

/// The outcome of removing from a leaf.
pub(crate) enum Removal {
    /// The key is not there.
    Absent,
    /// The key had this value and has been removed.
    Done(u64),
    /// The key is this entry, without which the block would be longer than it should be.
    TooMuchRoom(usize),
}

/// Runs `$do` with the planes of a leaf of any shape.
macro_rules! each {
    ($leaf:expr, $planes:ident => $do:expr) => {{
        let leaf = $leaf;
        match leaf.edge.tag() {
            FLAT1 => {
                let $planes = Flat::<V, 1>::of(leaf);
                $do
            }
            FLAT2 => {
                let $planes = Flat::<V, 2>::of(leaf);
                $do
            }
            tag => match tag >> 4 {
                Kind::ONE => {
                    let $planes = One::of(leaf);
                    $do
                }
                Kind::FLAT => {
                    let $planes = Wide::of(leaf);
                    $do
                }
                Kind::GROUPED => {
                    let $planes = Grouped::of(leaf);
                    $do
                }
                _ => {
                    let $planes = Bitmap::of(leaf);
                    $do
                }
            },
        }
    }};
}

impl<const V: usize> Leaf<V> {
    /// The index of `key`.
    #[inline(always)]
    pub(crate) fn find(self, key: u64) -> Option<usize> {
        match self.edge.tag() {
            ONE => (self.word() == key).then_some(0),
            FLAT1 => Flat::<V, 1>::find(self, key),
            FLAT2 => Flat::<V, 2>::find(self, key),
            _ if !self.covers(key) => None,
            BITMAP => Bitmap::of(self).find(key),
            _ => match self.place(key) {
                Place::At(i) => Some(i),
                Place::Before(_) => None,
            },
        }
    }

    /// The place where `key`, which the leaf covers, is or belongs.
    #[inline(always)]
    pub(crate) fn place(self, key: u64) -> Place {
        each!(self, planes => planes.place(key))
    }

    /// The first entry above `key`, which the leaf covers: its index and key.
    #[inline(always)]
    pub(crate) fn after(self, key: u64) -> Option<(usize, u64)> {
        each!(self, planes => planes.after(key))
    }

    /// Whether the entry that `hint` names is `key`, and if so the key after it.
    #[inline(always)]
    pub(crate) fn step(self, hint: usize, key: u64) -> Step {
        let (n, i) = (self.len(), index_of(hint));
        if i >= n {
            return Step::Elsewhere;
        }
        each!(self, planes => planes.step(hint, key, i + 1 == n))
    }

    /// The key of entry `i`.
    #[inline(always)]
    pub(crate) fn key(self, i: usize) -> u64 {
        each!(self, planes => planes.key(i))
    }

    /// Writes the keys of entries `from..` to `keys`, as many as exist and fit; returns
    /// how many.
    pub(crate) fn keys(self, from: usize, keys: &mut [u64]) -> usize {
        let count = (self.len() - from).min(keys.len());
        each!(self, planes => planes.keys(from, &mut keys[..count]));
        count
    }

    /// Appends all entries to `entries`.
    pub(crate) fn read(self, entries: &mut Entries) {
        let n = self.len();
        // SAFETY: all `n` keys are written, and all values; in a set, whose values are
        // never looked at, zeros are written.
        unsafe {
            entries.extend(n, |keys, values| {
                each!(self, planes => planes.keys(0, keys));
                if V == 1 {
                    values.copy_from_nonoverlapping(self.value(n - 1), n);
                } else {
                    values.write_bytes(0, n);
                }
            });
        }
    }

    /// Writes a leaf of `shape` with `entries` to `block`.
    ///
    /// # Safety
    /// `block` must be writable for `shape.block_bytes()`, aligned to 8, and `shape` must
    /// have been chosen for `entries`.
    pub(crate) unsafe fn write(block: *mut u8, shape: &Shape, entries: &Entries) -> Edge {
        let header = block.wrapping_add(shape.before::<V>());
        let leaf = Leaf::<V> {
            edge: Edge::new(shape.kind, shape.level, header),
            header,
        };
        // SAFETY: the shape has room for the entries' values before the header, and for
        // their keys after it.
        unsafe {
            leaf.set_word(shape.word(entries.key(0)));
            if V == 1 {
                entries.copy_values(header.cast());
            }
            each!(leaf, planes => planes.write(entries.keys()));
        }
        leaf.edge
    }

    /// Inserts `key`, which the leaf covers, with value 0 where there is room for it.
    #[inline(always)]
    pub(crate) fn insert(self, planes: impl Planes<V>, key: u64) -> Insertion {
        self.prefetch_last_values(planes.len());
        let spot = planes.spot(key);
        let i = spot.i;
        if spot.hit {
            return Insertion::Present(i);
        }
        if !planes.has_room(spot) {
            return Insertion::NoRoom(spot);
        }
        let n = planes.len();
        // SAFETY: there is room for one more key, in a group of its own if it needs one,
        // and for one more value.
        unsafe {
            planes.open(planes, spot, key);
            if V == 1 {
                let last = self.header.sub(8 * n);
                plane::copy(last, last.sub(8), 8 * (n - i));
                *self.value(i) = 0;
            }
        }
        let word = self.word() + 1 + (u64::from(!spot.in_group) << Shape::GROUPS_SHIFT);
        self.set_word(planes.noting(word, spot));
        Insertion::Done(i)
    }

    /// Removes `key`, which the leaf covers, where the block keeps its length without it.
    #[inline(always)]
    pub(crate) fn remove(self, planes: impl Planes<V>, key: u64) -> Removal {
        self.prefetch_last_values(planes.len());
        let spot = planes.spot(key);
        let i = spot.i;
        if !spot.hit {
            return Removal::Absent;
        }
        if !planes.keeps_room(i) {
            return Removal::TooMuchRoom(i);
        }
        let n = planes.len();
        let mut value = 0;
        // SAFETY: N1: entry `i` of the leaf's `n`.
        unsafe {
            planes.close(planes, i, key);
            if V == 1 {
                value = *self.value(i);
                let last = self.header.sub(8 * n);
                plane::copy(last, last.add(8), 8 * (n - 1 - i));
            }
        }
        self.set_word(self.word() - 1);
        Removal::Done(value)
    }

    /// Writes the leaf's entries and `key`, with value 0 at `spot`, to `block`, in the
    /// layout of a shape from [`Planes::shape_with`].
    ///
    /// # Safety
    /// `block` must be writable for `shape.block_bytes()`, aligned to 8, and either begin
    /// where the leaf's own block begins or not overlap it.
    #[inline(always)]
    pub(crate) unsafe fn open(
        self,
        planes: impl Planes<V>,
        block: *mut u8,
        shape: &Shape,
        spot: Spot,
        key: u64,
    ) -> Edge {
        let header = block.wrapping_add(shape.before::<V>());
        let (n, i) = (planes.len(), spot.i);
        // SAFETY: the new block has room for `n + 1` entries. In the same block,
        // everything moves up, so the highest bytes go first: planes, header, values.
        unsafe {
            planes.open(planes.moved(header, shape), spot, key);
            header
                .cast::<u64>()
                .write(planes.noting(shape.word(key), spot));
            if V == 1 {
                plane::copy_unless_same(self.header.sub(8 * i), header.sub(8 * i), 8 * i);
                let (from, to) = (self.header.sub(8 * n), header.sub(8 * (n + 1)));
                plane::copy(from, to, 8 * (n - i));
                header.cast::<u64>().sub(i + 1).write(0);
            }
        }
        Edge::new(shape.kind, shape.level, header)
    }

    /// Writes the leaf's entries to `block` without entry `i`, whose key is `key`, in the
    /// layout of a shape from [`Planes::shape_without`].
    ///
    /// # Safety
    /// As [`Leaf::open`].
    #[inline(always)]
    pub(crate) unsafe fn close(
        self,
        planes: impl Planes<V>,
        block: *mut u8,
        shape: &Shape,
        i: usize,
        key: u64,
    ) -> Edge {
        let header = block.wrapping_add(shape.before::<V>());
        let n = planes.len();
        // SAFETY: the new block has room for `n - 1` entries. In the same block,
        // everything moves down, so the lowest bytes go first: values, header, planes.
        // `planes` has been read from the old header before that is overwritten.
        unsafe {
            if V == 1 {
                let (from, to) = (self.header.sub(8 * n), header.sub(8 * (n - 1)));
                plane::copy(from, to, 8 * (n - 1 - i));
                plane::copy_unless_same(self.header.sub(8 * i), header.sub(8 * i), 8 * i);
            }
            header.cast::<u64>().write(shape.word(key));
            planes.close(planes.moved(header, shape), i, key);
        }
        Edge::new(shape.kind, shape.level, header)
    }
}
