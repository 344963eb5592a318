//! A flat leaf of level 1 or 2: sorted suffixes of `LEVEL` bytes. Maps of an object's
//! fields look like this.

use super::planes::{index_of, Planes, Spot, Step};
use super::shape::{list_has_room, Shape};
use super::view::Leaf;
use crate::node::edge::{above, below, prefix};
use crate::node::plane;
use core::ptr;

#[derive(Clone, Copy)]
pub(crate) struct Flat<const V: usize, const LEVEL: usize> {
    header: *mut u8,
    n: usize,
}

impl<const V: usize, const LEVEL: usize> Flat<V, LEVEL> {
    #[inline(always)]
    fn suffixes(self) -> *mut u8 {
        self.header.wrapping_add(8)
    }

    #[inline(always)]
    fn base(self) -> u64 {
        // SAFETY: N1: the header word of a live node.
        prefix(unsafe { *self.header.cast::<u64>() }, LEVEL)
    }

    #[inline(always)]
    fn suffix(self, i: usize) -> u64 {
        debug_assert!(i < self.n);
        // SAFETY: N1: the plane holds `n` suffixes behind the 8-byte header.
        unsafe { plane::get(self.suffixes(), LEVEL, i) }
    }

    /// The index of `key`. The leaf need not cover it.
    #[inline(always)]
    pub(super) fn find(leaf: Leaf<V>, key: u64) -> Option<usize> {
        // The cache line at the end of a longer plane is known before the header is.
        plane::prefetch(leaf.header.wrapping_add(64));
        if above(leaf.word() ^ key, LEVEL) != 0 {
            return None;
        }
        let this = Self::of(leaf);
        let suffix = below(key, LEVEL);
        // SAFETY: N1: the plane holds `n` suffixes; the header lies before it, and
        // a value where there are values.
        let i = unsafe {
            if V == 1 {
                plane::find_small::<LEVEL, 16>(this.suffixes(), this.n, suffix)
            } else {
                plane::find_small::<LEVEL, 8>(this.suffixes(), this.n, suffix)
            }
        };
        (i < this.n).then_some(i)
    }
}

impl<const V: usize, const LEVEL: usize> Planes<V> for Flat<V, LEVEL> {
    const ARE_LONG: bool = false;

    #[inline(always)]
    fn of(leaf: Leaf<V>) -> Self {
        Flat {
            header: leaf.header,
            n: usize::from(leaf.word() as u8) + 1,
        }
    }

    #[inline(always)]
    fn moved(self, header: *mut u8, _: &Shape) -> Self {
        Flat { header, n: self.n }
    }

    #[inline(always)]
    fn len(self) -> usize {
        self.n
    }

    #[inline(always)]
    fn spot(self, key: u64) -> Spot {
        let suffix = below(key, LEVEL);
        // SAFETY: N1: the plane holds `n` suffixes behind the 8-byte header.
        let i = unsafe { plane::count_below_small(self.suffixes(), LEVEL, self.n, suffix) };
        Spot::new(i, i < self.n && self.suffix(i) == suffix)
    }

    #[inline(always)]
    fn has_room(self, _: Spot) -> bool {
        list_has_room::<V>(self.n, LEVEL)
    }

    #[inline(always)]
    fn shape_with(self, shape: Shape, _: Spot) -> Option<Shape> {
        shape.listed_with()
    }

    #[inline(always)]
    fn keeps_room(self, _: usize) -> bool {
        self.n > 2 && list_has_room::<V>(self.n - 1, LEVEL)
    }

    #[inline(always)]
    fn shape_without(self, mut shape: Shape, _: usize) -> Option<Shape> {
        shape.entries -= 1;
        let same = if LEVEL == 1 {
            shape.entries > 1
        } else {
            !shape.entries.is_power_of_two()
        };
        same.then_some(shape)
    }

    #[inline(always)]
    fn after(self, key: u64) -> Option<(usize, u64)> {
        let suffix = below(key, LEVEL);
        // SAFETY: N1: the plane holds `n` suffixes; the header lies before it, and
        // a value where there are values.
        let i = unsafe {
            if V == 1 {
                plane::count_at_most_small::<LEVEL, 16>(self.suffixes(), self.n, suffix)
            } else {
                plane::count_at_most_small::<LEVEL, 8>(self.suffixes(), self.n, suffix)
            }
        };
        (i < self.n).then(|| (i, self.key(i)))
    }

    #[inline(always)]
    fn key(self, i: usize) -> u64 {
        self.base() | self.suffix(i)
    }

    #[inline(always)]
    fn keys(self, from: usize, keys: &mut [u64]) {
        let base = self.base();
        if LEVEL == 1 {
            for (k, key) in keys.iter_mut().enumerate() {
                // SAFETY: N1: the plane holds `n` suffixes.
                *key = base | u64::from(unsafe { *self.suffixes().add(from + k) });
            }
        } else {
            for (k, key) in keys.iter_mut().enumerate() {
                let at = self.suffixes().cast::<u16>().wrapping_add(from + k);
                // SAFETY: N1: the plane holds `n` suffixes of two bytes.
                *key = base | u64::from(u16::from_le(unsafe { ptr::read(at) }));
            }
        }
    }

    unsafe fn write(self, keys: &[u64]) {
        // SAFETY: the leaf is laid out for these keys: its plane has one suffix for
        // each.
        unsafe { plane::fill(self.suffixes(), LEVEL, keys.len(), |i| keys[i]) };
    }

    #[inline(always)]
    unsafe fn open(self, to: Self, spot: Spot, key: u64) {
        // SAFETY: `to` is laid out for one suffix more, and overlaps from above at most.
        unsafe {
            plane::open(self.suffixes(), to.suffixes(), LEVEL, self.n, spot.i);
            plane::set(to.suffixes(), LEVEL, spot.i, key);
        }
    }

    #[inline(always)]
    unsafe fn close(self, to: Self, i: usize, _: u64) {
        // SAFETY: `to` is laid out for one suffix less, and overlaps from below at most.
        unsafe { plane::close(self.suffixes(), to.suffixes(), LEVEL, self.n, i) };
    }

    #[inline(always)]
    fn step(self, hint: usize, key: u64, is_last: bool) -> Step {
        let (base, i) = (self.base(), index_of(hint));
        if base | self.suffix(i) != key {
            Step::Elsewhere
        } else if is_last {
            Step::Behind
        } else {
            Step::To(base | self.suffix(i + 1), i + 1)
        }
    }
}
