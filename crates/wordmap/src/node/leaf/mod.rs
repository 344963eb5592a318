//! Leaves: the nodes that hold entries.
//!
//! `V` is the number of value words an entry has: 1 in a map, 0 in a set.
//! Values lie before the header, entry 0's nearest to it. What lies after it is
//! the shape's, one file each:
//!
//! ```text
//! one      (the header word is the key)
//! flat     level 1, 2:  suffix × room
//! wide     level 3..8:  top byte × room │ rest of the suffix × room
//! grouped  upper bytes × group room │ end × group room │ lower bytes × room
//! bitmap   4 words, one bit a key
//! ```
//!
//! Room follows from the number of entries and groups (`shape.rs`). Flat and wide
//! leaves are of one kind; their level tells them apart.

mod bitmap;
mod cut;
mod entries;
mod flat;
mod grouped;
mod listed;
mod listing;
mod one;
mod shape;
mod wide;

pub(crate) use bitmap::Bitmap;
pub(crate) use cut::{Cut, Cuttable, Half};
pub(crate) use entries::Entries;
pub(crate) use flat::Flat;
pub(crate) use grouped::Grouped;
pub(crate) use listing::Listing;
use one::One;
pub(crate) use shape::{Shape, ENTRIES_MAX};
pub(crate) use wide::Wide;

use super::edge::{prefix, Edge, Kind, BITMAP, FLAT1, FLAT2, ONE};
use super::plane;
use core::ptr::NonNull;

/// Where a key is in a leaf, or where it belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    At(usize),
    Before(usize),
}

/// Where a key is in a leaf or belongs, and what inserting it there must know.
#[derive(Clone, Copy)]
pub(crate) struct Spot {
    /// Of the entry that has the key or would follow it.
    pub(crate) i: usize,
    hit: bool,
    /// The key's group, or the one it would come before (grouped leaves only).
    group: usize,
    in_group: bool,
}

impl Spot {
    /// A spot in a leaf without groups.
    #[inline(always)]
    fn new(i: usize, hit: bool) -> Spot {
        Spot {
            i,
            hit,
            group: 0,
            in_group: true,
        }
    }
}

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
    /// The key had this value and is gone.
    Done(u64),
    /// The key is this entry, without which the block would be too large.
    TooMuchRoom(usize),
}

/// The entry that a hint names. Above its index a hint has the number of its group, where
/// there are groups; it may be wrong.
#[inline(always)]
pub(crate) fn index_of(hint: usize) -> usize {
    hint & 0xff
}

/// What lies behind an entry that was guessed to have a key.
pub(crate) enum Step {
    /// The key of the next entry, and a hint at that for the step after.
    To(u64, usize),
    /// The end of the leaf.
    Behind,
    /// The guess was wrong.
    Elsewhere,
}

/// The keys of a live leaf, as a shape stores them. Keys that are asked for are
/// covered by the leaf, and entries that are named are there.
pub(crate) trait Planes<const V: usize>: Copy {
    /// Whether leaves of this shape are mostly longer than a line or two.
    const ARE_LONG: bool;

    /// The keys of `leaf`, which must be of this shape.
    fn of(leaf: Leaf<V>) -> Self;

    /// The same keys in a leaf of `shape` at another header: where they are to go.
    fn moved(self, header: *mut u8, shape: &Shape) -> Self;

    fn len(self) -> usize;

    /// Where `key` is or belongs, for who will move what lies behind it.
    fn spot(self, key: u64) -> Spot;

    /// Whether a key may be inserted without another layout.
    fn has_room(self, spot: Spot) -> bool;

    /// The leaf's new header word, `word`, with what the next insertion may want to know of
    /// this one, at `spot`.
    #[inline(always)]
    fn noting(self, word: u64, spot: Spot) -> u64 {
        let _ = spot;
        word
    }

    /// The shape with a key inserted at `spot`, `shape` being the leaf's, when it is one of
    /// the same kind; `None` when the entries should be looked at again.
    fn shape_with(self, shape: Shape, spot: Spot) -> Option<Shape>;

    /// Whether entry `i` may be removed without another layout.
    fn keeps_room(self, i: usize) -> bool;

    /// The shape without entry `i`, `shape` being the leaf's, when it is one of the same kind;
    /// `None` when the entries should be looked at again.
    fn shape_without(self, shape: Shape, i: usize) -> Option<Shape>;

    /// As [`Planes::spot`].
    #[inline(always)]
    fn place(self, key: u64) -> Place {
        let spot = self.spot(key);
        at_or_before(spot.i, spot.hit)
    }

    /// The key of entry `i`.
    fn key(self, i: usize) -> u64;

    /// Reads the keys of entries `from..`, as many as there is room for.
    fn keys(self, from: usize, keys: &mut [u64]);

    /// The first entry above `key`: its index and key.
    #[inline(always)]
    fn after(self, key: u64) -> Option<(usize, u64)> {
        let i = match self.place(key) {
            Place::At(i) => i + 1,
            Place::Before(i) => i,
        };
        (i < self.len()).then(|| (i, self.key(i)))
    }

    /// Whether the entry that `hint` names is `key`, which need not be covered, and if so
    /// the key behind it.
    #[inline(always)]
    fn step(self, hint: usize, key: u64, is_last: bool) -> Step {
        let i = index_of(hint);
        if self.key(i) != key {
            Step::Elsewhere
        } else if is_last {
            Step::Behind
        } else {
            Step::To(self.key(i + 1), i + 1)
        }
    }

    /// Writes all keys to a leaf whose header has been written.
    ///
    /// # Safety
    /// The leaf must have been laid out for these keys.
    unsafe fn write(self, keys: &[u64]);

    /// Copies the keys to `to`, with `key` among them at `spot`.
    ///
    /// # Safety
    /// `to` must be laid out for them. It may be where the keys are now, or overlap
    /// that from above: the highest bytes are copied first.
    unsafe fn open(self, to: Self, spot: Spot, key: u64);

    /// Copies the keys to `to` without entry `i`, whose key is `key`.
    ///
    /// # Safety
    /// As [`Planes::open`], but overlapping from below: the lowest bytes are copied first.
    unsafe fn close(self, to: Self, i: usize, key: u64);
}

/// Does something with the planes of a leaf, whatever its shape.
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

/// A view of a live leaf that is not full (N1).
#[derive(Clone, Copy)]
pub(crate) struct Leaf<const V: usize> {
    edge: Edge,
    header: *mut u8,
}

impl<const V: usize> Leaf<V> {
    /// # Safety
    /// `edge` must lead to a live leaf that is not full, and stay so while the view is used.
    #[inline(always)]
    pub(crate) unsafe fn of(edge: Edge) -> Leaf<V> {
        Leaf {
            edge,
            header: edge.header(),
        }
    }

    /// As [`Leaf::of`], where the edge's tag is `tag`.
    ///
    /// # Safety
    /// As [`Leaf::of`].
    #[inline(always)]
    pub(crate) unsafe fn of_tagged(edge: Edge, tag: u8) -> Leaf<V> {
        Leaf {
            edge,
            header: edge.header_under(tag),
        }
    }

    #[inline(always)]
    pub(crate) fn word(self) -> u64 {
        // SAFETY: N1: the header word of a live node.
        unsafe { *self.header.cast::<u64>() }
    }

    #[inline(always)]
    fn set_word(self, word: u64) {
        // SAFETY: N1, and the tree is borrowed exclusively where leaves change.
        unsafe { *self.header.cast::<u64>() = word }
    }

    #[inline(always)]
    pub(crate) fn level(self) -> usize {
        self.edge.level()
    }

    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        if self.edge.kind() == Kind::ONE {
            1
        } else {
            (self.word() as u8) as usize + 1
        }
    }

    /// Whether the leaf has as many entries as there may be in one.
    #[inline(always)]
    pub(crate) fn is_full(self) -> bool {
        self.edge.kind() != Kind::BITMAP && self.len() >= ENTRIES_MAX
    }

    /// Whether all keys of the leaf share their upper bytes with `key`.
    #[inline(always)]
    pub(crate) fn covers(self, key: u64) -> bool {
        if self.edge.kind() == Kind::ONE {
            self.word() == key
        } else {
            self.covers_more(key)
        }
    }

    /// As [`Leaf::covers`] for a leaf of more than one entry.
    #[inline(always)]
    pub(crate) fn covers_more(self, key: u64) -> bool {
        // One shift; its length is not known.
        ((self.word() ^ key) >> (8 * (self.level() - 1))) >> 8 == 0
    }

    /// The bytes all keys share, with zeros below.
    pub(crate) fn lowest(self) -> u64 {
        if self.edge.kind() == Kind::ONE {
            self.word()
        } else {
            prefix(self.word(), self.level())
        }
    }

    pub(crate) fn shape(self) -> Shape {
        let mut shape = Shape::flat(self.level(), self.len());
        shape.kind = self.edge.kind();
        if shape.kind == Kind::GROUPED {
            (shape.groups, shape.group_bytes) = Shape::groups_of(self.word());
        }
        shape
    }

    pub(crate) fn block(self) -> *mut u8 {
        self.header.wrapping_sub(self.shape().before::<V>())
    }

    /// The leaf's block and its length.
    #[inline(always)]
    pub(crate) fn whole_block(self) -> (NonNull<u8>, usize) {
        let (block, bytes) = if self.edge.tag() == ONE {
            (self.header.wrapping_sub(8 * V), 8 * V + 8)
        } else {
            self.block_by_shape()
        };
        // SAFETY: N1: a live node does not lie at 0.
        (unsafe { NonNull::new_unchecked(block) }, bytes)
    }

    #[inline(never)]
    fn block_by_shape(self) -> (*mut u8, usize) {
        (self.block(), self.shape().block_bytes::<V>())
    }

    /// Where the value of entry `i` is. Without meaning in a set.
    #[inline(always)]
    pub(crate) fn value(self, i: usize) -> *mut u64 {
        self.header.cast::<u64>().wrapping_sub(i + 1)
    }

    /// The value of entry `i`; 0 in a set.
    #[inline(always)]
    pub(crate) fn word_of_value(self, i: usize) -> u64 {
        if V == 1 {
            // SAFETY: N1: entry `i` of a live leaf.
            unsafe { *self.value(i) }
        } else {
            0
        }
    }

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

    /// Where `key`, which the leaf covers, is or belongs.
    #[inline(always)]
    pub(crate) fn place(self, key: u64) -> Place {
        each!(self, planes => planes.place(key))
    }

    /// The first entry above `key`, which the leaf covers: its index and key.
    #[inline(always)]
    pub(crate) fn after(self, key: u64) -> Option<(usize, u64)> {
        each!(self, planes => planes.after(key))
    }

    /// Whether the entry that `hint` names is `key`, and if so the key behind it.
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

    /// Writes the keys of entries `from..` to `keys`, as many as there are
    /// and fit; returns how many.
    pub(crate) fn keys(self, from: usize, keys: &mut [u64]) -> usize {
        let count = (self.len() - from).min(keys.len());
        each!(self, planes => planes.keys(from, &mut keys[..count]));
        count
    }

    /// Appends all entries.
    pub(crate) fn read(self, entries: &mut Entries) {
        let n = self.len();
        // SAFETY: all `n` keys are read, and all values; of a set's, which are never
        // looked at, zeros are.
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
    /// `block` must be writable for `shape.block_bytes()`, aligned to 8, and `shape`
    /// must be one chosen for `entries`.
    pub(crate) unsafe fn write(block: *mut u8, shape: &Shape, entries: &Entries) -> Edge {
        let header = block.wrapping_add(shape.before::<V>());
        let leaf = Leaf::<V> {
            edge: Edge::new(shape.kind, shape.level, header),
            header,
        };
        // SAFETY: the shape has room for the entries' values before the header, and
        // for their keys behind it.
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

    /// Has the first lines behind the header of a large leaf fetched, and before it,
    /// before it is known how many entries there are: which line a search looks at next
    /// depends on the line before, so none of them would be asked for early.
    #[inline(always)]
    pub(crate) fn prefetch<const BEHIND: usize, const BEFORE: usize>(self) {
        for line in 0..BEHIND {
            plane::prefetch(self.header.wrapping_add(64 * (line + 1)));
        }
        for line in 0..BEFORE * V {
            plane::prefetch(self.header.wrapping_sub(64 * (line + 1)));
        }
    }

    /// Has the last of `n` values, which will have to move, fetched while the keys are
    /// searched.
    #[inline(always)]
    fn prefetch_last_values(self, n: usize) {
        if V == 1 && n > 32 {
            let last = self.header.wrapping_sub(8 * n);
            for line in 0..6 {
                plane::prefetch(last.wrapping_add(64 * line));
            }
        }
    }

    /// Removes `key`, which the leaf covers, where the block stays as long without it.
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

    /// Writes the leaf's entries and `key`, with value 0 at `spot`, to `block`, laid out
    /// in a shape from [`Planes::shape_with`].
    ///
    /// # Safety
    /// `block` must be writable for `shape.block_bytes()`, aligned to 8, and begin
    /// where the leaf's own block does or not overlap it.
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
        // SAFETY: the new block has room for `n + 1` entries. In one block, everything
        // moves up, so the highest bytes go first: planes, header, values.
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

    /// Writes the leaf's entries to `block` without entry `i`, whose key is `key`, laid
    /// out in a shape from [`Planes::shape_without`].
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
        // SAFETY: the new block has room for `n - 1` entries. In one block, everything
        // moves down, so the lowest bytes go first: values, header, planes. What the
        // planes are is read from the old header before it is written over.
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

/// The index of `item`, whose upper bytes do not count, among items `from..to` of a plane, or
/// of the one it belongs before, and whether it is there. `GUESSES` as in
/// [`plane::lower_bound`]; `ahead` is told, the first and the end, among which it may well be,
/// before they are looked at.
///
/// # Safety
/// There must be at least one; 8 bytes must be readable before the plane.
#[inline(always)]
unsafe fn find_between<const GUESSES: bool>(
    items: *mut u8,
    width: usize,
    from: usize,
    to: usize,
    item: u64,
    ahead: impl FnOnce(usize, usize),
) -> (usize, bool) {
    // SAFETY: the caller names items of a plane; the node's bytes lie before it.
    unsafe {
        let i = if width <= 2 {
            let quarter = (to - from) / 4;
            ahead(from + quarter, to - quarter);
            let start = items.add(from * width);
            from + plane::count_below_small(start, width, to - from, item)
        } else {
            plane::lower_bound_near::<GUESSES>(items, width, from, to, item, ahead)
        };
        (i, i < to && plane::is(items, width, i, item))
    }
}

/// Has the first and the last value of entries `first..end` of a map's leaf fetched: who is
/// about to find one of them will look at its value next.
#[inline(always)]
fn prefetch_values<const V: usize>(header: *mut u8, first: usize, end: usize) {
    if V == 1 {
        plane::prefetch(header.wrapping_sub(8 * (first + 1)));
        plane::prefetch(header.wrapping_sub(8 * end));
    }
}

#[inline(always)]
fn at_or_before(i: usize, hit: bool) -> Place {
    if hit {
        Place::At(i)
    } else {
        Place::Before(i)
    }
}
