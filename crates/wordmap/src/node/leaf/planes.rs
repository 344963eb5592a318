//! The keys of a leaf of any shape: the functions that every shape has, and what they return.

use super::shape::Shape;
use super::view::Leaf;
use crate::node::plane;

/// Where a key is in a leaf, or where it belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    At(usize),
    Before(usize),
}

/// Where a key is in a leaf or belongs, and what an insertion there must know.
#[derive(Clone, Copy)]
pub(crate) struct Spot {
    /// The index of the entry that has the key or would follow it.
    pub(crate) i: usize,
    pub(super) hit: bool,
    /// The key's group, or the group that it would come before (grouped leaves only).
    pub(super) group: usize,
    pub(super) in_group: bool,
}

impl Spot {
    /// A spot in a leaf without groups.
    #[inline(always)]
    pub(super) fn new(i: usize, hit: bool) -> Spot {
        Spot {
            i,
            hit,
            group: 0,
            in_group: true,
        }
    }
}

/// The index of the entry that a hint names. Above the index a hint has the number of the
/// entry's group, where there are groups; that number may be wrong.
#[inline(always)]
pub(crate) fn index_of(hint: usize) -> usize {
    hint & 0xff
}

/// What follows an entry that was guessed to have a key.
pub(crate) enum Step {
    /// The key of the next entry, and a hint at that entry for the following step.
    To(u64, usize),
    /// The end of the leaf.
    Behind,
    /// The guess was wrong.
    Elsewhere,
}

/// The keys of a live leaf, as a shape stores them. Callers pass only keys that the leaf
/// covers, and only entries that exist.
pub(crate) trait Planes<const V: usize>: Copy {
    /// Whether leaves of this shape are mostly longer than a line or two.
    const ARE_LONG: bool;

    /// The keys of `leaf`, which must be of this shape.
    fn of(leaf: Leaf<V>) -> Self;

    /// The same keys in a leaf of `shape` at another header, to which they will be moved.
    fn moved(self, header: *mut u8, shape: &Shape) -> Self;

    fn len(self) -> usize;

    /// Where `key` is or belongs, for a caller that will move what is after it.
    fn spot(self, key: u64) -> Spot;

    /// Whether a key can be inserted without changing the layout.
    fn has_room(self, spot: Spot) -> bool;

    /// Returns `word`, the leaf's new header word, with what the next insertion may want to
    /// know about this one, at `spot`.
    #[inline(always)]
    fn noting(self, word: u64, spot: Spot) -> u64 {
        let _ = spot;
        word
    }

    /// The shape with a key inserted at `spot`, if that is of the same kind as `shape`, the
    /// leaf's; `None` when a new shape should be chosen for the entries.
    fn shape_with(self, shape: Shape, spot: Spot) -> Option<Shape>;

    /// Whether entry `i` can be removed without changing the layout.
    fn keeps_room(self, i: usize) -> bool;

    /// The shape without entry `i`, if that is of the same kind as `shape`, the leaf's; `None`
    /// when a new shape should be chosen for the entries.
    fn shape_without(self, shape: Shape, i: usize) -> Option<Shape>;

    /// Like [`Planes::spot`], for a caller that only reads.
    #[inline(always)]
    fn place(self, key: u64) -> Place {
        let spot = self.spot(key);
        at_or_before(spot.i, spot.hit)
    }

    /// The key of entry `i`.
    fn key(self, i: usize) -> u64;

    /// Reads the keys of entries `from..` into `keys`, as many as it has room for.
    fn keys(self, from: usize, keys: &mut [u64]);

    /// The first entry above `key`: its index and its key.
    #[inline(always)]
    fn after(self, key: u64) -> Option<(usize, u64)> {
        let i = match self.place(key) {
            Place::At(i) => i + 1,
            Place::Before(i) => i,
        };
        (i < self.len()).then(|| (i, self.key(i)))
    }

    /// Whether the entry that `hint` names is `key`, which need not be covered, and if so the
    /// key after it.
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
    /// `to` must be laid out for them. It may be the same memory as `self`, or overlap it from
    /// above: the highest bytes are copied first.
    unsafe fn open(self, to: Self, spot: Spot, key: u64);

    /// Copies the keys to `to` without entry `i`, whose key is `key`.
    ///
    /// # Safety
    /// As [`Planes::open`], but overlapping from below: the lowest bytes are copied first.
    unsafe fn close(self, to: Self, i: usize, key: u64);
}

#[inline(always)]
pub(super) fn at_or_before(i: usize, hit: bool) -> Place {
    if hit {
        Place::At(i)
    } else {
        Place::Before(i)
    }
}

/// The index of `item`, whose upper bytes are ignored, among items `from..to` of a plane, or
/// of the item that it belongs before; and whether it is there. For `GUESSES` see
/// [`plane::lower_bound`]. `ahead` is called with the first and the end of the items among
/// which `item` probably is, before these are looked at.
///
/// # Safety
/// There must be at least one item; 8 bytes must be readable before the plane.
#[inline(always)]
pub(super) unsafe fn find_between<const GUESSES: bool>(
    items: *mut u8,
    width: usize,
    from: usize,
    to: usize,
    item: u64,
    ahead: impl FnOnce(usize, usize),
) -> (usize, bool) {
    // SAFETY: the caller passes items of a plane; bytes of the node are before it.
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
