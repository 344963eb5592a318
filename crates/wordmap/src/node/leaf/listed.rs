//! The fast paths on which small leaves, of a few neighbouring keys, grow and shrink; most
//! maps are such leaves.

use super::planes::{at_or_before, Place, Step};
use super::shape::{list_has_room, room, Shape, LISTED_MAX};
use super::view::Leaf;
use crate::node::edge::{above, below, highest_difference, prefix, Edge, Kind};
use crate::node::plane;

/// The most entries of a list that are moved one by one.
const SPREAD_MAX: usize = 8;
/// The most entries of a leaf that becomes wider without comparing sizes: a leaf of its own
/// for the key would take more.
const WIDENED_MAX: usize = 8;

impl<const V: usize> Leaf<V> {
    /// The address of the suffixes of a flat leaf.
    #[inline(always)]
    fn plane(self) -> *mut u8 {
        self.header.wrapping_add(8)
    }

    /// Like [`Leaf::place`], for a leaf that lists up to 31 suffixes of `LEVEL` (1 or 2)
    /// bytes; also returns how many it has. `None` when the leaf has more or does not cover
    /// `key`.
    #[inline(always)]
    pub(crate) fn place_listed<const LEVEL: usize>(self, key: u64) -> Option<(usize, Place)> {
        let word = self.word();
        let n = usize::from(word as u8) + 1;
        if above(word ^ key, LEVEL) != 0 || n >= LISTED_MAX {
            return None;
        }
        let suffix = below(key, LEVEL);
        // SAFETY: N1: the plane holds `n` suffixes behind the 8-byte header.
        unsafe {
            let i = plane::count_below_small(self.plane(), LEVEL, n, suffix);
            let hit = i < n && plane::get(self.plane(), LEVEL, i) == suffix;
            Some((n, at_or_before(i, hit)))
        }
    }

    /// The block of a leaf that lists `n` suffixes of `LEVEL` bytes, and its length in
    /// bytes.
    #[inline(always)]
    pub(crate) fn listed_block<const LEVEL: usize>(self, n: usize) -> (*mut u8, usize) {
        let block = self.header.wrapping_sub(8 * V * room(n, LEVEL));
        (block, Self::listed_bytes::<LEVEL>(n))
    }

    /// The length in bytes of the block of a leaf that lists `n` suffixes of `LEVEL` bytes.
    #[inline(always)]
    pub(crate) fn listed_bytes<const LEVEL: usize>(n: usize) -> usize {
        Shape::flat(LEVEL, n).block_bytes::<V>()
    }

    /// Inserts `key`, with value 0, at index `i` of a leaf that lists `n` suffixes, if the
    /// block has room; returns whether it has.
    #[inline(always)]
    pub(crate) fn insert_listed<const LEVEL: usize>(self, n: usize, i: usize, key: u64) -> bool {
        if !list_has_room::<V>(n, LEVEL) {
            return false;
        }
        // SAFETY: there is room for one more suffix and value.
        unsafe { self.write_listed::<LEVEL>(self, n, i, key) };
        true
    }

    /// Writes the entries of a leaf that lists `n` suffixes to a new block of
    /// [`Leaf::listed_bytes`] for `n + 1`, with `key` among them at `i`, with value 0.
    ///
    /// # Safety
    /// `block` must be writable for these bytes, aligned to 8, and not the leaf's own.
    #[inline(always)]
    pub(crate) unsafe fn move_listed<const LEVEL: usize>(
        self,
        block: *mut u8,
        n: usize,
        i: usize,
        key: u64,
    ) -> Edge {
        let header = block.wrapping_add(8 * V * room(n + 1, LEVEL));
        let edge = Edge::new(Kind::FLAT, LEVEL, header);
        // SAFETY: the block has room for the values, the header and `n + 1` keys.
        unsafe {
            let to = Leaf::<V> { edge, header };
            if n > SPREAD_MAX {
                plane::copy(self.plane(), to.plane(), i * LEVEL);
                if V == 1 {
                    let first = 8 * i;
                    plane::copy(self.header.sub(first), header.sub(first), first);
                }
            }
            self.write_listed::<LEVEL>(to, n, i, key);
        }
        edge
    }

    /// Writes the header, `key` and the entries after it to `to`, which may be the leaf
    /// itself; if there are few entries, also those before it.
    ///
    /// # Safety
    /// `to` must have room for `n + 1` suffixes of `LEVEL` bytes and their values.
    #[inline(always)]
    unsafe fn write_listed<const LEVEL: usize>(self, to: Leaf<V>, n: usize, i: usize, key: u64) {
        let word = self.word();
        // SAFETY: the caller's contract; the leaf has `n` entries.
        unsafe {
            if n <= SPREAD_MAX {
                // One by one, last first: the lengths of copies would be hard to predict.
                for j in (0..n).rev() {
                    let behind = usize::from(j >= i);
                    let suffix = plane::get(self.plane(), LEVEL, j);
                    plane::set(to.plane(), LEVEL, j + behind, suffix);
                    if V == 1 {
                        *to.value(j + behind) = *self.value(j);
                    }
                }
            } else {
                let from = self.plane().add(i * LEVEL);
                plane::copy(from, to.plane().add((i + 1) * LEVEL), (n - i) * LEVEL);
                if V == 1 {
                    let from = self.header.sub(8 * n);
                    plane::copy(from, to.header.sub(8 * (n + 1)), 8 * (n - i));
                }
            }
            plane::set(to.plane(), LEVEL, i, key);
            if V == 1 {
                *to.value(i) = 0;
            }
        }
        to.set_word(word + 1);
    }

    /// The key of entry `i` of a leaf that lists suffixes of `LEVEL` bytes.
    #[inline(always)]
    pub(crate) fn listed_key<const LEVEL: usize>(self, i: usize) -> u64 {
        // SAFETY: N1: the plane holds more than `i` suffixes behind the 8-byte header.
        prefix(self.word(), LEVEL) | unsafe { plane::get(self.plane(), LEVEL, i) }
    }

    /// Like [`Leaf::step`], for a leaf that lists suffixes of `LEVEL` bytes.
    #[inline(always)]
    pub(crate) fn step_listed<const LEVEL: usize>(self, i: usize, key: u64) -> Step {
        let last = usize::from(self.word() as u8);
        if i < last {
            if self.listed_key::<LEVEL>(i) == key {
                return Step::To(self.listed_key::<LEVEL>(i + 1), i + 1);
            }
        } else if i == last && self.listed_key::<LEVEL>(i) == key {
            return Step::Behind;
        }
        Step::Elsewhere
    }

    /// Whether a leaf that lists `n` suffixes may become narrower when entry `i` is
    /// removed: a new shape is considered when the entries have halved.
    #[inline(always)]
    pub(crate) fn may_narrow<const LEVEL: usize>(self, n: usize, i: usize) -> bool {
        if LEVEL == 1 || n < 3 || !(n - 1).is_power_of_two() {
            return false;
        }
        let (first, last) = (usize::from(i == 0), n - 1 - usize::from(i == n - 1));
        // SAFETY: N1: the plane holds `n` suffixes behind the 8-byte header.
        let [first, last] = unsafe { [first, last].map(|j| plane::get(self.plane(), LEVEL, j)) };
        (first ^ last) >> 8 == 0
    }

    /// Removes entry `i` of a leaf that lists `n` suffixes, if the block keeps its length;
    /// returns whether it does.
    #[inline(always)]
    pub(crate) fn remove_listed<const LEVEL: usize>(self, n: usize, i: usize) -> bool {
        if n == 2 || !list_has_room::<V>(n - 1, LEVEL) {
            return false;
        }
        // SAFETY: the leaf has `n` entries, and has room for one less.
        unsafe { self.close_listed::<LEVEL>(self, n, i) };
        true
    }

    /// The length in bytes of the block of such a leaf without one of its `n` entries.
    #[inline(always)]
    pub(crate) fn bytes_without<const LEVEL: usize>(n: usize) -> usize {
        match n {
            2 => Shape::one().block_bytes::<V>(),
            _ => Self::listed_bytes::<LEVEL>(n - 1),
        }
    }

    /// Writes the entries of such a leaf, except `i`, to a new block of
    /// [`Leaf::bytes_without`].
    ///
    /// # Safety
    /// `block` must be writable for these bytes, aligned to 8, and not the leaf's own.
    #[inline(always)]
    pub(crate) unsafe fn move_without<const LEVEL: usize>(
        self,
        block: *mut u8,
        n: usize,
        i: usize,
    ) -> Edge {
        // SAFETY: the caller's contract; the leaf has `n` entries, at least two.
        unsafe {
            if n == 2 {
                let other = 1 - i;
                let key = prefix(self.word(), LEVEL) | plane::get(self.plane(), LEVEL, other);
                let edge = Self::write_one(block, key);
                if V == 1 {
                    *block.cast::<u64>() = *self.value(other);
                }
                return edge;
            }
            let header = block.wrapping_add(8 * V * room(n - 1, LEVEL));
            let edge = Edge::new(Kind::FLAT, LEVEL, header);
            let to = Leaf::<V> { edge, header };
            if n > SPREAD_MAX {
                plane::copy(self.plane(), to.plane(), i * LEVEL);
                if V == 1 {
                    plane::copy(self.header.sub(8 * i), header.sub(8 * i), 8 * i);
                }
            }
            self.close_listed::<LEVEL>(to, n, i);
            edge
        }
    }

    /// Writes the header and the entries after `i` to `to`, which may be the leaf itself;
    /// if there are few entries, also those before it.
    ///
    /// # Safety
    /// `to` must have room for `n - 1` suffixes of `LEVEL` bytes and their values.
    #[inline(always)]
    unsafe fn close_listed<const LEVEL: usize>(self, to: Leaf<V>, n: usize, i: usize) {
        let word = self.word();
        // SAFETY: the caller's contract; the leaf has `n` entries.
        unsafe {
            if n <= SPREAD_MAX {
                // One by one, first first: the lengths of copies would be hard to predict.
                for j in 0..n - 1 {
                    let from = j + usize::from(j >= i);
                    let suffix = plane::get(self.plane(), LEVEL, from);
                    plane::set(to.plane(), LEVEL, j, suffix);
                    if V == 1 {
                        *to.value(j) = *self.value(from);
                    }
                }
            } else {
                let left = n - 1 - i;
                let from = self.plane().add((i + 1) * LEVEL);
                plane::copy(from, to.plane().add(i * LEVEL), left * LEVEL);
                if V == 1 {
                    let from = self.header.sub(8 * n);
                    plane::copy(from, to.header.sub(8 * (n - 1)), 8 * left);
                }
            }
        }
        to.set_word(word - 1);
    }

    /// Writes a leaf of `key` alone, with value 0.
    ///
    /// # Safety
    /// As [`Leaf::write`], for [`Shape::one`].
    #[inline(always)]
    pub(crate) unsafe fn write_one(block: *mut u8, key: u64) -> Edge {
        let header = block.wrapping_add(8 * V);
        // SAFETY: the caller's contract: room for the value and the key.
        unsafe {
            if V == 1 {
                block.cast::<u64>().write(0);
            }
            header.cast::<u64>().write(key);
        }
        Edge::new(Kind::ONE, 8, header)
    }

    /// The shape for the leaf's entries and `key`, which the leaf does not cover, if the
    /// keys are so close and so few that this shape is certain to be the best.
    #[inline(always)]
    pub(crate) fn wider(self, key: u64) -> Option<Shape> {
        let narrow = match self.edge.tag() >> 4 {
            Kind::ONE => true,
            kind => kind == Kind::FLAT && self.level() == 1,
        };
        let level = highest_difference(self.lowest() & !0xff, key & !0xff | 1) + 1;
        let n = self.len();
        (narrow && level <= 2 && n < WIDENED_MAX).then(|| Shape::flat(level, n + 1))
    }

    /// Writes the leaf's entries and `key`, with value 0, to a new block, in the layout of
    /// a shape from [`Leaf::wider`]. Returns the leaf and the index of `key`: all keys of
    /// the old leaf are on the same side of it.
    ///
    /// # Safety
    /// `block` must be writable for `shape.block_bytes()`, aligned to 8.
    #[inline(always)]
    pub(crate) unsafe fn write_wider(
        self,
        block: *mut u8,
        shape: &Shape,
        key: u64,
    ) -> (Edge, usize) {
        let header = block.wrapping_add(shape.before::<V>());
        let level = shape.level;
        let wider = Leaf::<V> {
            edge: Edge::new(shape.kind, level, header),
            header,
        };
        let n = self.len();
        let i = if key < self.lowest() { 0 } else { n };
        let others = usize::from(i == 0);
        wider.set_word(prefix(key, level) | n as u64);
        // SAFETY: the shape has room for `n + 1` suffixes and values.
        unsafe {
            for j in 0..n {
                plane::set(wider.plane(), level, j + others, self.key(j));
            }
            plane::set(wider.plane(), level, i, key);
            if V == 1 {
                let to = header.sub(8 * (n + others));
                plane::copy(self.header.sub(8 * n), to, 8 * n);
                *wider.value(i) = 0;
            }
        }
        (wider.edge, i)
    }
}
