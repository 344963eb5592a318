//! A flat leaf of level 3 to 8: the top byte of each suffix in one plane, the rest of each
//! suffix in another. The top bytes are searched by comparing many at once; then one or two
//! rests are looked at.

use super::cut::{Cut, Cuttable, Half, Places};
use super::planes::{at_or_before, find_between, Place, Planes, Spot};
use super::shape::{groups_pay, room_of, Shape, GROUPS_MAX};
use super::view::{prefetch_values, Leaf};
use crate::node::edge::{byte, prefix, split};
use crate::node::plane;
use core::{ptr, slice};

#[derive(Clone, Copy)]
pub(crate) struct Wide<const V: usize> {
    header: *mut u8,
    level: usize,
    n: usize,
    room: usize,
}

impl<const V: usize> Wide<V> {
    #[inline(always)]
    fn tops(self) -> *mut u8 {
        self.header.wrapping_add(8)
    }

    #[inline(always)]
    fn rests(self) -> *mut u8 {
        self.tops().wrapping_add(self.room)
    }

    /// How many different top bytes entries `from..to`, at least one, have.
    fn groups_among(self, from: usize, to: usize) -> usize {
        // SAFETY: N1: the top bytes of `n` entries, which nobody writes meanwhile.
        let tops = unsafe { slice::from_raw_parts(self.tops().add(from), to - from) };
        // There are no more changes than entries: a byte is wide enough.
        let changes = tops.windows(2).fold(0, |changes: u8, pair| {
            changes.wrapping_add(u8::from(pair[0] != pair[1]))
        });
        usize::from(changes) + 1
    }

    #[inline(always)]
    fn base(self) -> u64 {
        // SAFETY: N1: the header word of a live node.
        prefix(unsafe { *self.header.cast::<u64>() }, self.level)
    }

    /// Where `key` is or belongs. A caller that only reads (`READS`) has the values near the
    /// key prefetched, and uses branches in the search. A caller that writes needs more than
    /// these, and has prefetched it.
    #[inline(always)]
    fn search<const READS: bool>(self, key: u64) -> Spot {
        let n = self.n;
        let top = u64::from(byte(key, self.level - 1));
        // SAFETY: N1: tops and rests of `n` entries, each with the bytes before it.
        unsafe {
            let from = plane::count_below_small(self.tops(), 1, n, top);
            if from == n || plane::get(self.tops(), 1, from) != top {
                return Spot::new(from, false);
            }
            let to = if n >= 16 {
                // After 16 top bytes there are at least 32 bytes of rests.
                from + plane::run_of(self.tops().add(from), n - from, top)
            } else if top < 255 {
                plane::count_below_small(self.tops(), 1, n, top + 1)
            } else {
                n
            };
            let to = to.min(n);
            let ahead = |first, end| {
                if READS {
                    prefetch_values::<V>(self.header, first, end);
                }
            };
            let (rests, width) = (self.rests(), self.level - 1);
            let (i, hit) = find_between::<READS>(rests, width, from, to, key, ahead);
            Spot::new(i, hit)
        }
    }

    #[inline(always)]
    fn suffix(self, i: usize) -> u64 {
        debug_assert!(i < self.n);
        // SAFETY: N1: tops and rests of `n` entries, each with the bytes before it.
        unsafe {
            let top = plane::get(self.tops(), 1, i);
            let rest = plane::get(self.rests(), self.level - 1, i);
            (top << (8 * (self.level - 1))) | rest
        }
    }
}

impl<const V: usize> Planes<V> for Wide<V> {
    const ARE_LONG: bool = true;

    #[inline(always)]
    fn of(leaf: Leaf<V>) -> Self {
        let n = usize::from(leaf.word() as u8) + 1;
        Wide {
            header: leaf.header,
            level: leaf.level(),
            n,
            room: room_of(n, leaf.level()),
        }
    }

    #[inline(always)]
    fn moved(self, header: *mut u8, shape: &Shape) -> Self {
        Wide {
            header,
            room: shape.room(),
            ..self
        }
    }

    #[inline(always)]
    fn len(self) -> usize {
        self.n
    }

    #[inline(always)]
    fn spot(self, key: u64) -> Spot {
        self.search::<false>(key)
    }

    #[inline(always)]
    fn place(self, key: u64) -> Place {
        let spot = self.search::<true>(key);
        at_or_before(spot.i, spot.hit)
    }

    #[inline(always)]
    fn has_room(self, _: Spot) -> bool {
        self.room > self.n
    }

    #[inline(always)]
    fn shape_with(self, shape: Shape, _: Spot) -> Option<Shape> {
        let mut with = shape;
        with.entries += 1;
        let again = groups_pay(&with) && shape.entries.is_power_of_two();
        // With this many groups of the shortest length, there are too many groups of any
        // length.
        (!again || self.groups_among(0, self.n) > GROUPS_MAX).then_some(with)
    }

    #[inline(always)]
    fn keeps_room(self, _: usize) -> bool {
        self.n > 2 && room_of(self.n - 1, self.level) == self.room
    }

    #[inline(always)]
    fn shape_without(self, mut shape: Shape, _: usize) -> Option<Shape> {
        shape.entries -= 1;
        (!shape.entries.is_power_of_two()).then_some(shape)
    }

    #[inline(always)]
    fn key(self, i: usize) -> u64 {
        self.base() | self.suffix(i)
    }

    #[inline(always)]
    fn keys(self, from: usize, keys: &mut [u64]) {
        let base = self.base();
        for (k, key) in keys.iter_mut().enumerate() {
            *key = base | self.suffix(from + k);
        }
    }

    unsafe fn write(self, keys: &[u64]) {
        let n = keys.len();
        // SAFETY: the caller's contract. The bytes between the planes are loaded with the
        // first rests.
        unsafe {
            plane::fill(self.tops(), 1, n, |i| split(keys[i], self.level, 1).0);
            plane::clear(self.tops(), n, self.room);
            plane::fill(self.rests(), self.level - 1, n, |i| keys[i]);
        }
    }

    #[inline(always)]
    unsafe fn open(self, to: Self, spot: Spot, key: u64) {
        let i = spot.i;

        let width = self.level - 1;
        // SAFETY: the caller's contract; the highest bytes first.
        unsafe {
            plane::open(self.rests(), to.rests(), width, self.n, i);
            plane::set(to.rests(), width, i, key);
            plane::open(self.tops(), to.tops(), 1, self.n, i);
            plane::set(to.tops(), 1, i, key >> (8 * width));
            if self.header != to.header || self.room != to.room {
                plane::clear(to.tops(), self.n + 1, to.room);
            }
        }
    }

    #[inline(always)]
    unsafe fn close(self, to: Self, i: usize, _: u64) {
        // SAFETY: the caller's contract; the lowest bytes first.
        unsafe {
            plane::close(self.tops(), to.tops(), 1, self.n, i);
            plane::close(self.rests(), to.rests(), self.level - 1, self.n, i);
            if self.header != to.header || self.room != to.room {
                plane::clear(to.tops(), self.n - 1, to.room);
            }
        }
    }
}

impl<const V: usize> Cuttable<V> for Wide<V> {
    fn cut(self, _: Spot, key: u64) -> Option<Cut> {
        // SAFETY: N1: tops of `n` entries.
        let top = |i: usize| unsafe { *self.tops().add(i) };
        let mut places = Places::of(self.n);
        for at in 1..self.n {
            if top(at) != top(at - 1) {
                places.see(at, at);
            }
        }
        let (at, _) = places.best()?;
        let groups_min = self.groups_among(0, at).min(self.groups_among(at, self.n));
        if groups_min <= GROUPS_MAX {
            return None;
        }
        let separator = top(at);
        let is_high = byte(key, self.level - 1) >= separator;
        let half = |first: usize, next: usize, gains: bool| Half {
            shape: Shape::flat(self.level, next - first + usize::from(gains)),
            first,
            first_group: 0,
            gains,
        };
        Some(Cut {
            halves: [half(0, at, !is_high), half(at, self.n, is_high)],
            separator,
        })
    }

    unsafe fn copy_half(self, header: *mut u8, half: &Half) -> Self {
        let n = half.len();
        let to = Wide {
            n,
            ..self.moved(header, &half.shape)
        };
        let width = self.level - 1;
        // SAFETY: the caller's contract: the planes of `to` have room for the half's.
        unsafe {
            ptr::copy_nonoverlapping(self.tops().add(half.first), to.tops(), n);
            plane::clear(to.tops(), n, to.room);
            let rests = self.rests().add(half.first * width);
            ptr::copy_nonoverlapping(rests, to.rests(), n * width);
        }
        to
    }
}
