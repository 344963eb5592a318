//! The keys of a leaf, whatever its shape: what every shape answers, and what it answers with.

use super::shape::Shape;
use super::view::Leaf;
use crate::node::plane;

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
    pub(super) hit: bool,
    /// The key's group, or the one it would come before (grouped leaves only).
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

#[inline(always)]
pub(super) fn at_or_before(i: usize, hit: bool) -> Place {
    if hit {
        Place::At(i)
    } else {
        Place::Before(i)
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
pub(super) unsafe fn find_between<const GUESSES: bool>(
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
