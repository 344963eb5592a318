//! A grouped leaf. The upper bytes that the keys of a group have in common are stored once,
//! in one plane. After these comes each group's end, the index after its last entry; then
//! the lower bytes of each key. A run of 16 neighbouring keys stores its upper bytes once.

use super::cut::{Cut, Cuttable, Half, Places};
use super::planes::{at_or_before, find_between, index_of, Place, Planes, Spot, Step};
use super::shape::{group_room, room_of, Shape, GROUPS_MAX};
use super::view::{prefetch_values, Leaf};
use crate::node::edge::{below, byte, prefix, split, Kind};
use crate::node::plane;
use core::ptr;

/// The bit at which a hint at an entry has the number of the entry's group.
const GROUP_HINT_SHIFT: u32 = 8;

#[derive(Clone, Copy)]
pub(crate) struct Grouped<const V: usize> {
    header: *mut u8,
    level: usize,
    n: usize,
    groups: usize,
    /// The number of bytes that are stored once per group.
    group_bytes: usize,
    /// How many groups there is room for.
    group_room: usize,
    /// The group that the last insertion went to, as a guess (N2).
    guess: usize,
}

impl<const V: usize> Grouped<V> {
    #[inline(always)]
    fn uppers(self) -> *mut u8 {
        self.header.wrapping_add(8)
    }

    #[inline(always)]
    fn ends(self) -> *mut u8 {
        self.uppers()
            .wrapping_add(self.group_room * self.group_bytes)
    }

    #[inline(always)]
    fn lowers(self) -> *mut u8 {
        self.ends().wrapping_add(self.group_room)
    }

    /// The number of bytes of a key that are stored once per entry.
    #[inline(always)]
    fn width(self) -> usize {
        self.level - self.group_bytes
    }

    #[inline(always)]
    fn base(self) -> u64 {
        // SAFETY: N1: the header word of a live node.
        prefix(unsafe { *self.header.cast::<u64>() }, self.level)
    }

    /// The index after the last entry of group `g`.
    #[inline(always)]
    fn end(self, g: usize) -> usize {
        debug_assert!(g < self.groups);
        // SAFETY: N1: there is one end per group.
        unsafe { usize::from(*self.ends().add(g)) }
    }

    /// The end of the group before `g`; `g` may be the number after the last group.
    #[inline(always)]
    fn start(self, g: usize) -> usize {
        match g {
            0 => 0,
            _ => self.end(g - 1),
        }
    }

    /// The group that entry `i` is in.
    #[inline(always)]
    fn group_of(self, i: usize) -> usize {
        // SAFETY: N1: there is one end per group, and the header is before the plane.
        unsafe { plane::count_at_most_small::<1, 8>(self.ends(), self.groups, i as u64) }
    }

    /// The group of `upper`, or the group that it belongs before; and whether it is there.
    #[inline(always)]
    fn group<const GUESSES: bool>(self, upper: u64) -> (usize, bool) {
        let (uppers, width) = (self.uppers(), self.group_bytes);
        // SAFETY: N1: the plane of upper bytes is directly after the header.
        unsafe {
            let g = if width <= 2 {
                plane::count_below_small(uppers, width, self.groups, upper)
            } else {
                plane::lower_bound::<GUESSES>(uppers, width, 0, self.groups, upper)
            };
            let found = g < self.groups && plane::get(uppers, width, g) == upper;
            (g, found)
        }
    }

    /// The upper bytes of the keys of group `g`, at their place in a key.
    #[inline(always)]
    fn group_base(self, g: usize) -> u64 {
        // SAFETY: N1: the upper bytes of each group are after the header.
        let upper = unsafe { plane::get(self.uppers(), self.group_bytes, g) };
        self.base() | (upper << (8 * self.width()))
    }

    /// The key of entry `i`, which is in group `g`.
    #[inline(always)]
    fn key_in(self, g: usize, i: usize) -> u64 {
        // SAFETY: N1: lower bytes of each entry, with other planes before them.
        self.group_base(g) | unsafe { plane::get(self.lowers(), self.width(), i) }
    }

    /// Whether the group that the last insertion went to has these upper bytes.
    #[inline(always)]
    fn last_group_is(self, upper: u64) -> bool {
        self.guess < self.groups && {
            // SAFETY: N1: the upper bytes of each group are after the header.
            let guessed = unsafe { plane::get(self.uppers(), self.group_bytes, self.guess) };
            guessed == upper
        }
    }

    /// Like [`Grouped::group`]; looks first at the group that the last insertion went to.
    #[inline(always)]
    fn group_after_last(self, upper: u64) -> (usize, bool) {
        if self.last_group_is(upper) {
            return (self.guess, true);
        }
        self.group::<false>(upper)
    }

    /// Where `key` is or belongs. A caller that only reads (`READS`) has the values near the
    /// key prefetched, and uses branches in the search. A caller that writes needs more than
    /// these, and has prefetched it. Keys of a run mostly come one after the other: a writer
    /// looks first at the end of the group that the last insertion went to.
    #[inline(always)]
    fn search<const READS: bool>(self, key: u64) -> Spot {
        let width = self.width();
        let upper = below(key, self.level) >> (8 * width);
        let (group, in_group) = if READS {
            self.group::<true>(upper)
        } else {
            self.group_after_last(upper)
        };
        let spot = |i, hit| Spot {
            i,
            hit,
            group,
            in_group,
        };
        if !in_group {
            return spot(self.start(group), false);
        }
        let to = self.end(group);
        if !READS {
            // SAFETY: N1: a group has entries, each with lower bytes.
            let last = unsafe { plane::get(self.lowers(), width, to - 1) };
            if last < below(key, width) {
                return spot(to, false);
            }
        }
        let from = self.start(group);
        let ahead = |first, end| {
            if READS {
                prefetch_values::<V>(self.header, first, end);
            }
        };
        let lowers = self.lowers();
        // SAFETY: N1: entries `from..to` of the plane of lower bytes, at least one.
        let (i, hit) = unsafe { find_between::<READS>(lowers, width, from, to, key, ahead) };
        spot(i, hit)
    }

    /// The highest byte in which keys of the leaf may differ, in the keys of group `g`.
    #[inline(always)]
    fn top(self, g: usize) -> u8 {
        debug_assert!(g < self.groups);
        // SAFETY: N1: upper bytes of each group, lowest first.
        unsafe { *self.uppers().add((g + 1) * self.group_bytes - 1) }
    }

    /// Clears the bytes between the planes: searches load these bytes, and ignore them.
    ///
    /// # Safety
    /// The caller must be allowed to write the planes.
    #[inline(always)]
    unsafe fn clear_room(self) {
        let (groups, room) = (self.groups, self.group_room);
        // SAFETY: both planes have this much room.
        unsafe {
            let width = self.group_bytes;
            plane::clear(self.uppers(), groups * width, room * width);
            plane::clear(self.ends(), groups, room);
        }
    }
}

impl<const V: usize> Leaf<V> {
    /// Whether a grouped leaf covers `key`, and the group that the last insertion went to is
    /// the key's.
    #[inline(always)]
    pub(crate) fn is_in_last_group(self, key: u64) -> bool {
        self.covers_more(key) && {
            let planes = Grouped::of(self);
            planes.last_group_is(below(key, planes.level) >> (8 * planes.width()))
        }
    }
}

impl<const V: usize> Planes<V> for Grouped<V> {
    const ARE_LONG: bool = true;

    #[inline(always)]
    fn of(leaf: Leaf<V>) -> Self {
        let word = leaf.word();
        let (groups, group_bytes) = Shape::groups_of(word);
        Grouped {
            header: leaf.header,
            level: leaf.level(),
            n: usize::from(word as u8) + 1,
            groups,
            group_bytes,
            group_room: group_room(groups),
            guess: Shape::last_group_of(word),
        }
    }

    #[inline(always)]
    fn moved(self, header: *mut u8, shape: &Shape) -> Self {
        Grouped {
            header,
            groups: shape.groups,
            group_room: group_room(shape.groups),
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
    fn has_room(self, spot: Spot) -> bool {
        room_of(self.n, self.width()) > self.n
            && (spot.in_group || self.groups < self.group_room && self.groups < GROUPS_MAX)
    }

    #[inline(always)]
    fn noting(self, word: u64, spot: Spot) -> u64 {
        Shape::with_last_group(word, self.level, spot.group)
    }

    /// Returns `None` when there would be too many groups.
    #[inline(always)]
    fn shape_with(self, mut shape: Shape, spot: Spot) -> Option<Shape> {
        shape.entries += 1;
        shape.groups += usize::from(!spot.in_group);
        (shape.groups <= GROUPS_MAX).then_some(shape)
    }

    #[inline(always)]
    fn keeps_room(self, i: usize) -> bool {
        let (group, width) = (self.group_of(i), self.width());
        self.n > 2
            && room_of(self.n - 1, width) == room_of(self.n, width)
            && self.end(group) - self.start(group) > 1
    }

    #[inline(always)]
    fn shape_without(self, mut shape: Shape, i: usize) -> Option<Shape> {
        let g = self.group_of(i);
        shape.entries -= 1;
        shape.groups -= usize::from(self.end(g) - self.start(g) == 1);
        (shape.groups > 0 && !shape.entries.is_power_of_two()).then_some(shape)
    }

    #[inline(always)]
    fn after(self, key: u64) -> Option<(usize, u64)> {
        let (upper, lower) = split(key, self.level, self.group_bytes);
        let (mut g, found) = self.group::<true>(upper);
        let mut i = self.start(g);
        if found {
            let end = self.end(g);
            let (lowers, width) = (self.lowers(), self.width());
            // SAFETY: N1: entries `i..end` of the plane of lower bytes; no group is empty.
            let (at, hit) =
                unsafe { find_between::<true>(lowers, width, i, end, lower, |_, _| ()) };
            i = at + usize::from(hit);
            g += usize::from(i == end);
        }
        (g < self.groups).then(|| (i, self.key_in(g, i)))
    }

    #[inline(always)]
    fn key(self, i: usize) -> u64 {
        self.key_in(self.group_of(i), i)
    }

    fn keys(self, from: usize, keys: &mut [u64]) {
        let (lowers, width) = (self.lowers(), self.width());
        let until = from + keys.len();
        let mut g = self.group_of(from);
        let mut i = from;
        while i < until {
            let base = self.group_base(g);
            let end = self.end(g).min(until);
            let keys = &mut keys[i - from..end - from];
            if width == 1 {
                for (k, key) in keys.iter_mut().enumerate() {
                    // SAFETY: N1: a lower byte for each entry.
                    *key = base | u64::from(unsafe { *lowers.add(i + k) });
                }
            } else {
                for (k, key) in keys.iter_mut().enumerate() {
                    // SAFETY: N1: lower bytes for each entry, planes before them.
                    *key = base | unsafe { plane::get(lowers, width, i + k) };
                }
            }
            i = end;
            g += 1;
        }
    }

    unsafe fn write(self, keys: &[u64]) {
        let upper = |i: usize| split(keys[i], self.level, self.group_bytes).0;
        // SAFETY: the caller's contract: the shape has as many groups as the keys.
        unsafe {
            plane::fill(self.lowers(), self.width(), keys.len(), |i| keys[i]);
            self.clear_room();
            let mut g = 0;
            let mut last = upper(0);
            for i in 1..=keys.len() {
                if i == keys.len() || upper(i) != last {
                    plane::set(self.uppers(), self.group_bytes, g, last);
                    *self.ends().add(g) = i as u8;
                    g += 1;
                    last = upper(i.min(keys.len() - 1));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn open(self, to: Self, spot: Spot, key: u64) {
        let (width, groups, g) = (self.width(), self.groups, spot.group);
        // SAFETY: the caller's contract; the highest bytes first.
        unsafe {
            plane::open(self.lowers(), to.lowers(), width, self.n, spot.i);
            plane::set(to.lowers(), width, spot.i, key);
            if spot.in_group {
                plane::copy_unless_same(self.ends(), to.ends(), groups);
                plane::copy_unless_same(self.uppers(), to.uppers(), groups * self.group_bytes);
            } else {
                plane::open(self.ends(), to.ends(), 1, groups, g);
                *to.ends().add(g) = spot.i as u8;
                plane::open(self.uppers(), to.uppers(), self.group_bytes, groups, g);
                plane::set(to.uppers(), self.group_bytes, g, key >> (8 * width));
            }
            let groups = groups + usize::from(!spot.in_group);
            plane::count_bytes(to.ends(), g, groups, true);
            if to.header != self.header || to.group_room != self.group_room {
                to.clear_room();
            }
        }
    }

    #[inline(always)]
    unsafe fn close(self, to: Self, i: usize, _: u64) {
        let g = self.group_of(i);
        let groups = self.groups;
        // SAFETY: the caller's contract; the lowest bytes first.
        unsafe {
            plane::count_bytes(self.ends(), g, groups, false);
            if to.groups == groups {
                plane::copy_unless_same(self.uppers(), to.uppers(), groups * self.group_bytes);
                plane::copy_unless_same(self.ends(), to.ends(), groups);
            } else {
                plane::close(self.uppers(), to.uppers(), self.group_bytes, groups, g);
                plane::close(self.ends(), to.ends(), 1, groups, g);
            }
            plane::close(self.lowers(), to.lowers(), self.width(), self.n, i);
            if to.header != self.header || to.group_room != self.group_room {
                to.clear_room();
            }
        }
    }

    #[inline(always)]
    fn step(self, hint: usize, key: u64, is_last: bool) -> Step {
        let (i, mut g) = (index_of(hint), hint >> GROUP_HINT_SHIFT);
        if g >= self.groups || i < self.start(g) || i >= self.end(g) {
            g = self.group_of(i);
        }
        let hint = (i + 1) | (g << GROUP_HINT_SHIFT);
        // SAFETY: N1: lower bytes of each entry, with other planes before them.
        let lower = |i: usize| unsafe { plane::get(self.lowers(), self.width(), i) };
        let upper = self.group_base(g);
        if upper | lower(i) != key {
            Step::Elsewhere
        } else if is_last {
            Step::Behind
        } else if self.end(g) > i + 1 {
            Step::To(upper | lower(i + 1), hint)
        } else {
            Step::To(self.key_in(g + 1, i + 1), hint + (1 << GROUP_HINT_SHIFT))
        }
    }
}

impl<const V: usize> Cuttable<V> for Grouped<V> {
    fn cut(self, spot: Spot, key: u64) -> Option<Cut> {
        let mut places = Places::of(self.n);
        for g in 1..self.groups {
            if self.top(g) != self.top(g - 1) {
                places.see(g, self.start(g));
            }
        }
        let (cut, at) = places.best()?;
        let last = self.groups - 1;
        if self.top(0) == self.top(cut - 1) || self.top(cut) == self.top(last) {
            return None;
        }
        let separator = self.top(cut);
        let is_high = byte(key, self.level - 1) >= separator;
        let half = |high: bool| {
            let (groups, entries) = if high {
                (cut..self.groups, at..self.n)
            } else {
                (0..cut, 0..at)
            };
            let gains = high == is_high;
            let mut shape = Shape::flat(self.level, entries.len() + usize::from(gains));
            shape.kind = Kind::GROUPED;
            shape.groups = groups.len() + usize::from(gains && !spot.in_group);
            shape.group_bytes = self.group_bytes;
            Half {
                shape,
                first: entries.start,
                first_group: groups.start,
                gains,
            }
        };
        Some(Cut {
            halves: [half(false), half(true)],
            separator,
        })
    }

    unsafe fn copy_half(self, header: *mut u8, half: &Half) -> Self {
        let (width, upper) = (self.width(), self.group_bytes);
        let n = half.len();
        let next = half.first + n;
        let groups = if next == self.n {
            self.groups - half.first_group
        } else {
            self.group_of(next) - half.first_group
        };
        let to = Grouped {
            n,
            groups,
            ..self.moved(header, &half.shape)
        };
        // SAFETY: the caller's contract: the planes of `to` have room for the half's.
        unsafe {
            let lowers = self.lowers().add(half.first * width);
            ptr::copy_nonoverlapping(lowers, to.lowers(), n * width);
            let uppers = self.uppers().add(half.first_group * upper);
            ptr::copy_nonoverlapping(uppers, to.uppers(), groups * upper);
            for g in 0..groups {
                *to.ends().add(g) = (self.end(half.first_group + g) - half.first) as u8;
            }
            to.clear_room();
        }
        to
    }
}
