//! Leaves: the nodes that hold entries.
//!
//! `V` is the number of value words an entry has: 1 in a map, 0 in a set.
//! Values lie before the header, entry 0's nearest to it. After the header:
//!
//! ```text
//! one      (the header word is the key)
//! flat     level 1, 2:  suffix × room
//!          level 3..8:  top byte × room │ rest of the suffix × room
//! grouped  upper bytes × group room │ end × group room │ lower bytes × room
//! bitmap   4 words, one bit a key
//! ```
//!
//! `room` is [`room`] of the number of entries; a group's end is the index
//! behind its last entry.

use super::edge::{above, below, highest_difference, leaf_tag, Edge, Kind};
use super::{bits, plane};
use core::mem::MaybeUninit;
use core::ptr;

/// The most entries of a leaf that is not a bitmap.
pub(crate) const ENTRIES_MAX: usize = 192;
/// The most entries a leaf of level 1 lists one by one: 32 bytes, as many as a bitmap takes.
const LISTED_MAX: usize = 32;
const GROUPS_MAX: usize = 32;
/// The most entries of a list that are moved one by one.
const SPREAD_MAX: usize = 8;
/// The most entries of a leaf that becomes wider without a second thought: a leaf of
/// its own for the key would take more.
const WIDENED_MAX: usize = 8;

/// Entries a leaf of `n` has room for: exact while tiny, then in steps that
/// leave an eighth at most.
#[inline(always)]
fn room(n: usize) -> usize {
    if n <= 6 {
        n
    } else if n <= 16 {
        (n + 1) & !1
    } else {
        (n + 3) & !3
    }
}

/// As [`room`] for a bitmap, whose entries come one by one up to 256.
#[inline(always)]
fn bitmap_room(n: usize) -> usize {
    let step = match n {
        0..=64 => 8,
        65..=128 => 16,
        _ => 32,
    };
    (n + step - 1) & !(step - 1)
}

#[inline(always)]
fn group_room(groups: usize) -> usize {
    (groups + 1) & !1
}

const fn round8(bytes: usize) -> usize {
    (bytes + 7) & !7
}

/// Everything that decides how a leaf is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub(crate) kind: u8,
    pub(crate) level: usize,
    pub(crate) entries: usize,
    /// Groups, and the bytes that tell them apart (grouped leaves only).
    groups: usize,
    group_bytes: usize,
}

impl Shape {
    /// Bytes before the header.
    #[inline(always)]
    fn before<const V: usize>(&self) -> usize {
        match self.kind {
            Kind::ONE => 8 * V,
            Kind::BITMAP => 8 * V * bitmap_room(self.entries),
            _ => 8 * V * room(self.entries),
        }
    }

    /// Bytes after the header word.
    #[inline(always)]
    fn after(&self) -> usize {
        match self.kind {
            Kind::ONE => 0,
            Kind::FLAT => round8(self.level * room(self.entries)),
            Kind::GROUPED => round8(
                (self.group_bytes + 1) * group_room(self.groups)
                    + (self.level - self.group_bytes) * room(self.entries),
            ),
            _ => 32,
        }
    }

    /// Bytes of the whole block.
    #[inline(always)]
    pub(crate) fn block_bytes<const V: usize>(&self) -> usize {
        self.before::<V>() + 8 + self.after()
    }

    /// One entry.
    pub(crate) fn one() -> Shape {
        let mut one = Shape::flat(8, 1);
        one.kind = Kind::ONE;
        one
    }

    #[inline(always)]
    fn flat(level: usize, entries: usize) -> Shape {
        Shape {
            kind: Kind::FLAT,
            level,
            entries,
            groups: 0,
            group_bytes: 0,
        }
    }

    /// The shape for these entries: the smallest, but flat when small, where
    /// the search is fastest and growing cheapest.
    pub(crate) fn choose(entries: &Entries) -> Shape {
        let flat = match Shape::plain(entries) {
            Ok(shape) | Err(shape) if shape.kind != Kind::FLAT || shape.level == 1 => return shape,
            Ok(shape) => return shape,
            Err(shape) => shape,
        };
        match Shape::best_grouped(entries, flat.level) {
            Some(grouped) if grouped.after() + 8 <= flat.after() => grouped,
            _ => flat,
        }
    }

    /// The smallest shape for these entries.
    pub(crate) fn smallest(entries: &Entries) -> Shape {
        let (Ok(flat) | Err(flat)) = Shape::plain(entries);
        if flat.kind != Kind::FLAT || flat.level == 1 {
            return flat;
        }
        match Shape::best_grouped(entries, flat.level) {
            Some(grouped) if grouped.after() < flat.after() => grouped,
            _ => flat,
        }
    }

    /// The shape without groups; `Err` when groups are worth a look.
    fn plain(entries: &Entries) -> Result<Shape, Shape> {
        let n = entries.len();
        if n == 1 {
            return Ok(Shape::one());
        }
        let level = highest_difference(entries.key(0), entries.key(n - 1)) + 1;
        let mut shape = Shape::flat(level, n);
        if level == 1 && n > LISTED_MAX {
            shape.kind = Kind::BITMAP;
        }
        if groups_pay(level, n) {
            Err(shape)
        } else {
            Ok(shape)
        }
    }

    fn best_grouped(entries: &Entries, level: usize) -> Option<Shape> {
        // differing[b]: neighbours whose highest difference is in byte b.
        let n = entries.len();
        let mut differing = [0usize; 8];
        for i in 1..n {
            differing[highest_difference(entries.key(i - 1), entries.key(i))] += 1;
        }
        let mut best: Option<Shape> = None;
        let mut groups = 1;
        for group_bytes in 1..level {
            groups += differing[level - group_bytes];
            if groups > GROUPS_MAX {
                break;
            }
            let shape = Shape {
                kind: Kind::GROUPED,
                level,
                entries: n,
                groups,
                group_bytes,
            };
            if best.is_none_or(|b| shape.after() <= b.after()) {
                best = Some(shape);
            }
        }
        best
    }
}

/// Whether a leaf of this level and size may be worth grouping.
fn groups_pay(level: usize, n: usize) -> bool {
    level >= 2 && (n > 32 || (level >= 4 && n >= 16))
}

/// Entries on their way from one node to another. Holds one more than the
/// fullest leaf.
pub(crate) struct Entries {
    keys: [MaybeUninit<u64>; 264],
    values: [MaybeUninit<u64>; 264],
    n: usize,
}

impl Entries {
    #[inline(always)]
    pub(crate) fn new() -> Entries {
        Entries {
            keys: [const { MaybeUninit::uninit() }; 264],
            values: [const { MaybeUninit::uninit() }; 264],
            n: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.n
    }

    #[inline(always)]
    pub(crate) fn key(&self, i: usize) -> u64 {
        assert!(i < self.n);
        // SAFETY: the first `n` are written.
        unsafe { self.keys[i].assume_init() }
    }

    #[inline(always)]
    pub(crate) fn value(&self, i: usize) -> u64 {
        assert!(i < self.n);
        // SAFETY: the first `n` are written.
        unsafe { self.values[i].assume_init() }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, key: u64, value: u64) {
        self.keys[self.n].write(key);
        self.values[self.n].write(value);
        self.n += 1;
    }

    /// Room for `n` more keys; the caller writes them and their values.
    fn extend_keys(&mut self, n: usize) -> &mut [u64] {
        let new = &mut self.keys[self.n..self.n + n];
        for key in new.iter_mut() {
            key.write(0);
        }
        self.n += n;
        // SAFETY: all of them have just been written.
        unsafe { &mut *(ptr::from_mut(new) as *mut [u64]) }
    }

    /// Inserts an entry where its key belongs; returns the index.
    pub(crate) fn insert(&mut self, key: u64, value: u64) -> usize {
        let mut i = self.n;
        assert!(i < self.keys.len());
        while i > 0 && self.key(i - 1) > key {
            self.keys[i] = self.keys[i - 1];
            self.values[i] = self.values[i - 1];
            i -= 1;
        }
        self.keys[i].write(key);
        self.values[i].write(value);
        self.n += 1;
        i
    }

    pub(crate) fn remove(&mut self, i: usize) {
        self.keys.copy_within(i + 1..self.n, i);
        self.values.copy_within(i + 1..self.n, i);
        self.n -= 1;
    }

    /// Moves entries from `at` on to a list of their own.
    pub(crate) fn split_off(&mut self, at: usize, tail: &mut Entries) {
        tail.n = 0;
        for i in at..self.n {
            tail.push(self.key(i), self.value(i));
        }
        self.n = at;
    }
}

/// Where a key is in a leaf, or where it belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    At(usize),
    Before(usize),
}

/// What lies behind an entry that was guessed to have a key.
pub(crate) enum Step {
    /// The key of the next entry.
    To(u64),
    /// The end of the leaf.
    Behind,
    /// The guess was wrong.
    Elsewhere,
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

    #[inline(always)]
    fn word(self) -> u64 {
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

    /// Whether all keys of the leaf share their upper bytes with `key`.
    #[inline(always)]
    pub(crate) fn covers(self, key: u64) -> bool {
        if self.edge.kind() == Kind::ONE {
            self.word() == key
        } else {
            above(self.word() ^ key, self.level()) == 0
        }
    }

    /// Bytes between the start of the plane area and the header's end.
    #[inline(always)]
    fn plane(self) -> *mut u8 {
        self.header.wrapping_add(8)
    }

    #[inline(always)]
    fn groups(self) -> (usize, usize) {
        let packed = (self.word() >> 8) as u8;
        (usize::from(packed >> 3) + 1, usize::from(packed & 7))
    }

    pub(crate) fn shape(self) -> Shape {
        let mut shape = Shape::flat(self.level(), self.len());
        shape.kind = self.edge.kind();
        if shape.kind == Kind::GROUPED {
            (shape.groups, shape.group_bytes) = self.groups();
        }
        shape
    }

    pub(crate) fn block(self) -> *mut u8 {
        self.header.wrapping_sub(self.shape().before::<V>())
    }

    /// Where the value of entry `i` is. Without meaning in a set.
    #[inline(always)]
    pub(crate) fn value(self, i: usize) -> *mut u64 {
        self.header.cast::<u64>().wrapping_sub(i + 1)
    }

    /// Has the values of `from..to` fetched while their suffixes are searched.
    #[inline(always)]
    fn prefetch_values(self, from: usize, to: usize) {
        if V == 1 {
            let quarter = (to - from) / 4;
            plane::prefetch(self.value(from + quarter).cast());
            plane::prefetch(self.value(to - 1 - quarter).cast());
        }
    }

    /// Planes of a flat leaf of level 3 or more: the rests behind `n` tops.
    #[inline(always)]
    fn rests(self, n: usize) -> *mut u8 {
        self.plane().wrapping_add(room(n))
    }

    /// Planes of a grouped leaf: ends and lower bytes.
    #[inline(always)]
    fn group_planes(self, groups: usize, group_bytes: usize) -> (*mut u8, *mut u8) {
        let room = group_room(groups);
        let ends = self.plane().wrapping_add(room * group_bytes);
        (ends, ends.wrapping_add(room))
    }

    #[inline(always)]
    fn bits(self, word: usize) -> *mut u64 {
        self.plane().cast::<u64>().wrapping_add(word)
    }

    /// The keys of a bitmap below bit `b`, and whether `b` is one.
    #[inline(always)]
    fn bitmap_rank(self, b: usize) -> (usize, bool) {
        // SAFETY: N1: a bitmap has four words.
        unsafe { bits::rank(self.bits(0), b) }
    }

    /// The index of `key`.
    #[inline(always)]
    pub(crate) fn find(self, key: u64) -> Option<usize> {
        const FLAT1: u8 = leaf_tag(Kind::FLAT, 1);
        const FLAT2: u8 = leaf_tag(Kind::FLAT, 2);
        const BITMAP: u8 = leaf_tag(Kind::BITMAP, 1);
        const ONE: u8 = leaf_tag(Kind::ONE, 8);
        match self.edge.tag() {
            ONE => (self.word() == key).then_some(0),
            FLAT1 => self.find_flat::<1>(key),
            FLAT2 => self.find_flat::<2>(key),
            BITMAP => {
                if !self.covers(key) {
                    return None;
                }
                let (rank, hit) = self.bitmap_rank((key & 0xff) as usize);
                hit.then_some(rank)
            }
            _ => match self.covers(key).then(|| self.place(key)) {
                Some(Place::At(i)) => Some(i),
                _ => None,
            },
        }
    }

    /// As [`Leaf::find`] for a flat leaf of level `LEVEL`, 1 or 2.
    #[inline(always)]
    fn find_flat<const LEVEL: usize>(self, key: u64) -> Option<usize> {
        // Which line the end of a longer plane lies in is known before the header is.
        plane::prefetch(self.header.wrapping_add(64));
        let word = self.word();
        if above(word ^ key, LEVEL) != 0 {
            return None;
        }
        let n = usize::from(word as u8) + 1;
        let suffix = below(key, LEVEL);
        // SAFETY: N1: the plane holds `n` suffixes; the header lies before it, and
        // a value where there are values.
        let i = unsafe {
            if V == 1 {
                plane::find_small::<LEVEL, 16>(self.plane(), n, suffix)
            } else {
                plane::find_small::<LEVEL, 8>(self.plane(), n, suffix)
            }
        };
        (i < n).then_some(i)
    }

    /// The first entry above `key`, which the leaf covers: its index and key.
    #[inline(always)]
    pub(crate) fn after(self, key: u64) -> Option<(usize, u64)> {
        const FLAT1: u8 = leaf_tag(Kind::FLAT, 1);
        const FLAT2: u8 = leaf_tag(Kind::FLAT, 2);
        match self.edge.tag() {
            FLAT1 => self.after_flat::<1>(key),
            FLAT2 => self.after_flat::<2>(key),
            tag => match tag >> 4 {
                Kind::ONE => None,
                Kind::BITMAP => self.after_bitmap(key),
                Kind::GROUPED => self.after_grouped(key),
                _ => {
                    let i = match self.place(key) {
                        Place::At(i) => i + 1,
                        Place::Before(i) => i,
                    };
                    (i < self.len()).then(|| (i, self.key(i)))
                }
            },
        }
    }

    #[inline(always)]
    fn after_flat<const LEVEL: usize>(self, key: u64) -> Option<(usize, u64)> {
        let word = self.word();
        let n = usize::from(word as u8) + 1;
        let suffix = below(key, LEVEL);
        // SAFETY: as in `find_flat`; entry `i` is there when `i < n`.
        unsafe {
            let i = if V == 1 {
                plane::count_at_most_small::<LEVEL, 16>(self.plane(), n, suffix)
            } else {
                plane::count_at_most_small::<LEVEL, 8>(self.plane(), n, suffix)
            };
            let next = |i| prefix(word, LEVEL) | plane::get(self.plane(), LEVEL, i);
            (i < n).then(|| (i, next(i)))
        }
    }

    /// Whether entry `i` is `key`, and if so the key behind it.
    #[inline(always)]
    pub(crate) fn step(self, i: usize, key: u64) -> Step {
        const FLAT1: u8 = leaf_tag(Kind::FLAT, 1);
        const FLAT2: u8 = leaf_tag(Kind::FLAT, 2);
        let n = self.len();
        if i >= n {
            return Step::Elsewhere;
        }
        let is_last = i + 1 == n;
        match self.edge.tag() {
            FLAT1 => self.step_flat::<1>(i, key, is_last),
            FLAT2 => self.step_flat::<2>(i, key, is_last),
            tag if tag >> 4 == Kind::BITMAP => self.step_bitmap(i, key, is_last),
            tag if tag >> 4 == Kind::GROUPED => self.step_grouped(i, key, is_last),
            _ if self.key(i) != key => Step::Elsewhere,
            _ if is_last => Step::Behind,
            _ => Step::To(self.key(i + 1)),
        }
    }

    #[inline(always)]
    fn step_flat<const LEVEL: usize>(self, i: usize, key: u64, is_last: bool) -> Step {
        let base = prefix(self.word(), LEVEL);
        // SAFETY: N1: the caller's entry `i` is there, and the next unless it is the last.
        unsafe {
            if base | plane::get(self.plane(), LEVEL, i) != key {
                Step::Elsewhere
            } else if is_last {
                Step::Behind
            } else {
                Step::To(base | plane::get(self.plane(), LEVEL, i + 1))
            }
        }
    }

    #[inline(always)]
    fn step_bitmap(self, i: usize, key: u64, is_last: bool) -> Step {
        let b = (key & 0xff) as usize;
        if !self.covers(key) || self.bitmap_rank(b) != (i, true) {
            return Step::Elsewhere;
        }
        if is_last {
            return Step::Behind;
        }
        // Where keys are dense, the next one is mostly there.
        // SAFETY: N1: a bitmap has four words; the last key is below 255 here.
        let next = unsafe { *self.bits((b + 1) / 64) } >> ((b + 1) % 64);
        if next & 1 != 0 {
            return Step::To(key + 1);
        }
        self.after_bitmap(key)
            .map_or(Step::Behind, |(_, next)| Step::To(next))
    }

    #[inline(always)]
    fn step_grouped(self, i: usize, key: u64, is_last: bool) -> Step {
        let (groups, group_bytes) = self.groups();
        let (ends, lowers) = self.group_planes(groups, group_bytes);
        let level = self.level();
        let width = level - group_bytes;
        let base = prefix(self.word(), level);
        // SAFETY: N1: the three planes of a grouped leaf; entry `i` is there, and the
        // next unless it is the last.
        unsafe {
            let key_at = |g, i| {
                let upper = plane::get(self.plane(), group_bytes, g);
                base | (upper << (8 * width)) | plane::get(lowers, width, i)
            };
            let g = group_of(ends, groups, i);
            if key_at(g, i) != key {
                Step::Elsewhere
            } else if is_last {
                Step::Behind
            } else {
                let g = g + usize::from(usize::from(*ends.add(g)) == i + 1);
                Step::To(key_at(g, i + 1))
            }
        }
    }

    #[inline(always)]
    fn after_bitmap(self, key: u64) -> Option<(usize, u64)> {
        let b = (key & 0xff) as usize;
        let (rank, hit) = self.bitmap_rank(b);
        let i = rank + usize::from(hit);
        let mut w = b / 64;
        // SAFETY: N1: a bitmap has four words.
        let mut word = unsafe { *self.bits(w) } & (u64::MAX << (b % 64) << 1);
        while word == 0 {
            w += 1;
            if w == 4 {
                return None;
            }
            // SAFETY: as above.
            word = unsafe { *self.bits(w) };
        }
        let next = (w * 64) as u64 + u64::from(word.trailing_zeros());
        Some((i, (self.word() & !0xff) | next))
    }

    #[inline(always)]
    fn after_grouped(self, key: u64) -> Option<(usize, u64)> {
        let level = self.level();
        let (groups, group_bytes) = self.groups();
        let width = level - group_bytes;
        let (upper, lower) = split(key, level, group_bytes);
        let (ends, lowers) = self.group_planes(groups, group_bytes);
        // SAFETY: N1: the three planes of a grouped leaf, each with the bytes before
        // it; no group is empty.
        unsafe {
            let (mut g, found) = self.group(groups, group_bytes, upper);
            let mut i = group_start(ends, g);
            if found {
                let end = usize::from(*ends.add(g));
                i = match self.place_between(lowers, width, i, end, lower) {
                    Place::At(i) => i + 1,
                    Place::Before(i) => i,
                };
                g += usize::from(i == end);
            }
            if g == groups {
                return None;
            }
            let upper = plane::get(self.plane(), group_bytes, g);
            let suffix = (upper << (8 * width)) | plane::get(lowers, width, i);
            Some((i, prefix(self.word(), level) | suffix))
        }
    }

    /// Where `key`, which the leaf covers, is or belongs.
    #[inline(always)]
    pub(crate) fn place(self, key: u64) -> Place {
        let level = self.level();
        let n = self.len();
        match self.edge.kind() {
            Kind::ONE => Place::At(0),
            Kind::FLAT if level <= 2 => {
                let suffix = below(key, level);
                // SAFETY: N1: the plane holds `n` suffixes behind the 8-byte header.
                unsafe {
                    let i = plane::count_below_small(self.plane(), level, n, suffix);
                    at_or_before(i, i < n && plane::get(self.plane(), level, i) == suffix)
                }
            }
            Kind::FLAT => {
                let (top, rest) = split(key, level, 1);
                // SAFETY: N1: tops and rests of `n` entries, each with the bytes before it.
                unsafe {
                    let from = plane::count_below_small(self.plane(), 1, n, top);
                    if from == n || plane::get(self.plane(), 1, from) != top {
                        return Place::Before(from);
                    }
                    let mut to = from + 1;
                    if to < n && plane::get(self.plane(), 1, to) == top {
                        to = match top {
                            255 => n,
                            _ => plane::count_below_small(self.plane(), 1, n, top + 1),
                        };
                    }
                    self.prefetch_values(from, to);
                    self.place_between(self.rests(n), level - 1, from, to, rest)
                }
            }
            Kind::GROUPED => {
                let (groups, group_bytes) = self.groups();
                let (upper, lower) = split(key, level, group_bytes);
                let (ends, lowers) = self.group_planes(groups, group_bytes);
                // SAFETY: N1: the three planes of a grouped leaf, each with the bytes before it.
                unsafe {
                    let (g, found) = self.group(groups, group_bytes, upper);
                    let from = group_start(ends, g);
                    if !found {
                        return Place::Before(from);
                    }
                    let to = usize::from(*ends.add(g));
                    self.prefetch_values(from, to);
                    self.place_between(lowers, level - group_bytes, from, to, lower)
                }
            }
            _ => {
                let (rank, hit) = self.bitmap_rank((key & 0xff) as usize);
                at_or_before(rank, hit)
            }
        }
    }

    /// The group of `upper`, or the one it belongs before.
    ///
    /// # Safety
    /// The leaf must be grouped, as the arguments say.
    #[inline(always)]
    unsafe fn group(self, groups: usize, group_bytes: usize, upper: u64) -> (usize, bool) {
        // SAFETY: N1: the plane of upper bytes lies right behind the header.
        unsafe {
            let g = if group_bytes <= 2 {
                plane::count_below_small(self.plane(), group_bytes, groups, upper)
            } else {
                plane::lower_bound(self.plane(), group_bytes, 0, groups, upper)
            };
            let found = g < groups && plane::get(self.plane(), group_bytes, g) == upper;
            (g, found)
        }
    }

    /// # Safety
    /// Entries `from..to`, at least one, of a plane of this leaf.
    #[inline(always)]
    unsafe fn place_between(
        self,
        items: *mut u8,
        width: usize,
        from: usize,
        to: usize,
        item: u64,
    ) -> Place {
        // SAFETY: the caller names items of a plane; the node's bytes lie before it.
        unsafe {
            let i = if width <= 2 {
                let start = items.add(from * width);
                from + plane::count_below_small(start, width, to - from, item)
            } else {
                plane::lower_bound(items, width, from, to, item)
            };
            at_or_before(i, i < to && plane::get(items, width, i) == item)
        }
    }

    /// The key of entry `i`.
    #[inline(always)]
    pub(crate) fn key(self, i: usize) -> u64 {
        let word = self.word();
        let level = self.level();
        // SAFETY: N1 and `i < len`: item `i` of the leaf's planes.
        unsafe {
            match self.edge.kind() {
                Kind::ONE => word,
                Kind::FLAT if level <= 2 => {
                    (above(word, level) << (8 * level)) | plane::get(self.plane(), level, i)
                }
                Kind::FLAT => {
                    let top = plane::get(self.plane(), 1, i);
                    let rest = plane::get(self.rests(self.len()), level - 1, i);
                    prefix(word, level) | (top << (8 * (level - 1))) | rest
                }
                Kind::GROUPED => {
                    let (groups, group_bytes) = self.groups();
                    let (ends, lowers) = self.group_planes(groups, group_bytes);
                    let g = group_of(ends, groups, i);
                    let width = level - group_bytes;
                    let upper = plane::get(self.plane(), group_bytes, g);
                    prefix(word, level) | (upper << (8 * width)) | plane::get(lowers, width, i)
                }
                _ => (word & !0xff) | self.nth_bit(i),
            }
        }
    }

    fn nth_bit(self, mut i: usize) -> u64 {
        for w in 0..4 {
            // SAFETY: N1: a bitmap has four words.
            let mut word = unsafe { *self.bits(w) };
            let ones = word.count_ones() as usize;
            if i < ones {
                if ones == 64 {
                    return (w * 64 + i) as u64;
                }
                for _ in 0..i {
                    word &= word - 1;
                }
                return (w * 64) as u64 + u64::from(word.trailing_zeros());
            }
            i -= ones;
        }
        unreachable!("a bitmap has as many bits as its header says")
    }

    /// Writes the keys of entries `from..` to `keys`, as many as there are
    /// and fit; returns how many.
    pub(crate) fn keys(self, from: usize, keys: &mut [u64]) -> usize {
        let count = (self.len() - from).min(keys.len());
        let word = self.word();
        let level = self.level();
        let keys = &mut keys[..count];
        // SAFETY: N1: items `from..from + count` of the leaf's planes.
        unsafe {
            match self.edge.kind() {
                Kind::ONE => keys.fill(word),
                Kind::FLAT if level == 1 => {
                    let (base, suffixes) = (word & !0xff, self.plane().add(from));
                    for (k, key) in keys.iter_mut().enumerate() {
                        *key = base | u64::from(*suffixes.add(k));
                    }
                }
                Kind::FLAT if level == 2 => {
                    let (base, suffixes) = (word & !0xffff, self.plane().cast::<u16>().add(from));
                    for (k, key) in keys.iter_mut().enumerate() {
                        *key = base | u64::from(u16::from_le(ptr::read(suffixes.add(k))));
                    }
                }
                Kind::FLAT => {
                    let (base, rests) = (prefix(word, level), self.rests(self.len()));
                    for (k, key) in keys.iter_mut().enumerate() {
                        let top = u64::from(*self.plane().add(from + k));
                        *key = base
                            | (top << (8 * (level - 1)))
                            | plane::get(rests, level - 1, from + k);
                    }
                }
                Kind::GROUPED => self.grouped_keys(from, keys),
                _ => self.bitmap_keys(from, keys),
            }
        }
        count
    }

    /// # Safety
    /// The leaf must be grouped and have entries `from..from + keys.len()`.
    unsafe fn grouped_keys(self, from: usize, keys: &mut [u64]) {
        let (level, word) = (self.level(), self.word());
        let (groups, group_bytes) = self.groups();
        let (ends, lowers) = self.group_planes(groups, group_bytes);
        let width = level - group_bytes;
        // SAFETY: the caller's duty and N1: ends rise to the number of entries.
        unsafe {
            let mut g = 0;
            while usize::from(*ends.add(g)) <= from {
                g += 1;
            }
            let mut i = from;
            while i < from + keys.len() {
                let upper = plane::get(self.plane(), group_bytes, g);
                let base = prefix(word, level) | (upper << (8 * width));
                let end = usize::from(*ends.add(g)).min(from + keys.len());
                if width == 1 {
                    while i < end {
                        keys[i - from] = base | u64::from(*lowers.add(i));
                        i += 1;
                    }
                } else {
                    while i < end {
                        keys[i - from] = base | plane::get(lowers, width, i);
                        i += 1;
                    }
                }
                g += 1;
            }
        }
    }

    fn bitmap_keys(self, from: usize, keys: &mut [u64]) {
        let base = self.word() & !0xff;
        let mut skip = from;
        let mut k = 0;
        for w in 0..4 {
            // SAFETY: N1: a bitmap has four words.
            let mut word = unsafe { *self.bits(w) };
            let ones = word.count_ones() as usize;
            if skip >= ones {
                skip -= ones;
                continue;
            }
            if word == u64::MAX {
                let mut b = skip as u64;
                while b < 64 && k < keys.len() {
                    keys[k] = base | ((w as u64) * 64 + b);
                    b += 1;
                    k += 1;
                }
                skip = 0;
                continue;
            }
            for _ in 0..skip {
                word &= word - 1;
            }
            skip = 0;
            while word != 0 && k < keys.len() {
                keys[k] = base | ((w * 64) as u64 + u64::from(word.trailing_zeros()));
                word &= word - 1;
                k += 1;
            }
        }
    }

    /// Appends all entries.
    pub(crate) fn read(self, entries: &mut Entries) {
        let n = self.len();
        let from = entries.n;
        self.keys(0, entries.extend_keys(n));
        for i in 0..n {
            let value = if V == 1 {
                // SAFETY: N1: the leaf has `n` values.
                unsafe { *self.value(i) }
            } else {
                0
            };
            entries.values[from + i].write(value);
        }
    }

    /// Writes a leaf of `shape` with `entries` to `block`.
    ///
    /// # Safety
    /// `block` must be writable for `shape.block_bytes()`, aligned to 8, and `shape`
    /// must be one chosen for `entries`.
    pub(crate) unsafe fn write(block: *mut u8, shape: &Shape, entries: &Entries) -> Edge {
        let header = block.wrapping_add(shape.before::<V>());
        let level = shape.level;
        let leaf = Leaf::<V> {
            edge: Edge::new(shape.kind, level, header),
            header,
        };
        let n = entries.len();
        if V == 1 {
            for i in 0..n {
                // SAFETY: the shape has room for `n` values before the header.
                unsafe { *leaf.value(i) = entries.value(i) };
            }
        }
        let first = entries.key(0);
        if shape.kind == Kind::ONE {
            leaf.set_word(first);
            return leaf.edge;
        }
        leaf.set_word(prefix(first, level) | (n as u64 - 1));
        // SAFETY: every item written lies in the planes the shape has room for.
        unsafe {
            match shape.kind {
                Kind::FLAT if level <= 2 => {
                    plane::fill(leaf.plane(), level, n, |i| entries.key(i));
                }
                Kind::FLAT => {
                    let keys = |i| entries.key(i);
                    plane::fill(leaf.plane(), 1, n, |i| split(keys(i), level, 1).0);
                    plane::clear(leaf.plane(), n, room(n));
                    plane::fill(leaf.rests(n), level - 1, n, keys);
                }
                Kind::GROUPED => leaf.write_groups(shape, entries),
                _ => {
                    let mut bits = [0u64; 4];
                    for i in 0..n {
                        let b = (entries.key(i) & 0xff) as usize;
                        bits[b / 64] |= 1 << (b % 64);
                    }
                    leaf.bits(0).cast::<[u64; 4]>().write(bits);
                }
            }
        }
        leaf.edge
    }

    /// # Safety
    /// As [`Leaf::write`], for a grouped shape.
    unsafe fn write_groups(self, shape: &Shape, entries: &Entries) {
        let (groups, group_bytes, level) = (shape.groups, shape.group_bytes, shape.level);
        let packed = ((groups as u64 - 1) << 3) | group_bytes as u64;
        self.set_word((self.word() & !0xff00) | (packed << 8));
        let (ends, lowers) = self.group_planes(groups, group_bytes);
        let width = level - group_bytes;
        let upper = |i: usize| split(entries.key(i), level, group_bytes).0;
        // SAFETY: the shape counted as many groups as the entries have.
        unsafe {
            plane::fill(lowers, width, entries.len(), |i| entries.key(i));
            self.clear_group_room(groups, group_bytes, groups);
            let mut g = 0;
            for i in 0..entries.len() {
                if i > 0 && upper(i - 1) == upper(i) {
                    *ends.add(g - 1) += 1;
                } else {
                    plane::set(self.plane(), group_bytes, g, upper(i));
                    *ends.add(g) = (i + 1) as u8;
                    g += 1;
                }
            }
        }
    }

    /// Writes what lies between the planes of a grouped leaf with room for `groups`
    /// groups, `written` of which are there: searches load it, and look at none of it.
    ///
    /// # Safety
    /// The planes must be the caller's to write.
    unsafe fn clear_group_room(self, groups: usize, group_bytes: usize, written: usize) {
        let room = group_room(groups);
        let (ends, _) = self.group_planes(groups, group_bytes);
        // SAFETY: both planes have this room.
        unsafe {
            plane::clear(self.plane(), written * group_bytes, room * group_bytes);
            plane::clear(ends, written, room);
        }
    }

    /// Inserts `key`, which the leaf covers and belongs at `i`, when the
    /// block has room. The new value is 0.
    #[inline(always)]
    pub(crate) fn insert_in_place(self, i: usize, key: u64) -> bool {
        let n = self.len();
        let level = self.level();
        // SAFETY: room for one more entry is checked first in each arm, which
        // then touches planes of this leaf only.
        unsafe {
            match self.edge.kind() {
                Kind::FLAT if room(n) > n => {
                    if level <= 2 {
                        plane::open(self.plane(), level, n, i);
                        plane::set(self.plane(), level, i, key);
                    } else {
                        let (top, rest) = split(key, level, 1);
                        let rests = self.rests(n);
                        plane::open(self.plane(), 1, n, i);
                        plane::set(self.plane(), 1, i, top);
                        plane::open(rests, level - 1, n, i);
                        plane::set(rests, level - 1, i, rest);
                    }
                }
                Kind::GROUPED if room(n) > n => {
                    if !self.insert_grouped(i, key, n) {
                        return false;
                    }
                }
                Kind::BITMAP if bitmap_room(n) > n => {
                    let b = (key & 0xff) as usize;
                    *self.bits(b / 64) |= 1 << (b % 64);
                }
                _ => return false,
            }
            if V == 1 {
                let last = self.value(n - 1).cast::<u8>();
                plane::copy(last, last.sub(8), 8 * (n - i));
                *self.value(i) = 0;
            }
        }
        self.set_word(self.word() + 1);
        true
    }

    /// # Safety
    /// The leaf must be grouped, hold `n` entries and have room for one more.
    unsafe fn insert_grouped(self, i: usize, key: u64, n: usize) -> bool {
        let (groups, group_bytes) = self.groups();
        let level = self.level();
        let (upper, lower) = split(key, level, group_bytes);
        let (ends, lowers) = self.group_planes(groups, group_bytes);
        // SAFETY: the caller's duty; a new group needs room of its own, which is checked.
        unsafe {
            let (g, found) = self.group(groups, group_bytes, upper);
            let mut count = groups;
            if !found {
                if groups == GROUPS_MAX || group_room(groups) == groups {
                    return false;
                }
                plane::open(self.plane(), group_bytes, groups, g);
                plane::set(self.plane(), group_bytes, g, upper);
                plane::open(ends, 1, groups, g);
                *ends.add(g) = i as u8;
                count += 1;
                self.set_word(self.word() + (1 << 11));
            }
            for end in g..count {
                *ends.add(end) += 1;
            }
            plane::open(lowers, level - group_bytes, n, i);
            plane::set(lowers, level - group_bytes, i, lower);
        }
        true
    }

    /// As [`Leaf::place`] for a leaf that lists up to 31 suffixes of `LEVEL` (1 or 2)
    /// bytes, and how many it has. `None` when it has more or does not cover `key`.
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

    /// The block of a leaf that lists `n` suffixes of `LEVEL` bytes, and its length.
    #[inline(always)]
    pub(crate) fn listed_block<const LEVEL: usize>(self, n: usize) -> (*mut u8, usize) {
        let block = self.header.wrapping_sub(8 * V * room(n));
        (block, Self::listed_bytes::<LEVEL>(n))
    }

    /// The length of the block of such a leaf.
    #[inline(always)]
    pub(crate) fn listed_bytes<const LEVEL: usize>(n: usize) -> usize {
        8 * V * room(n) + 8 + round8(LEVEL * room(n))
    }

    /// Inserts `key`, which belongs at `i` of such a leaf's `n` entries, when the
    /// block has room. The new value is 0.
    #[inline(always)]
    pub(crate) fn insert_listed<const LEVEL: usize>(self, n: usize, i: usize, key: u64) -> bool {
        if room(n) == n {
            return false;
        }
        // SAFETY: there is room for one more suffix and value.
        unsafe { self.write_listed::<LEVEL>(self, n, i, key) };
        true
    }

    /// Writes the entries of such a leaf to a new block of [`Leaf::listed_bytes`] of
    /// one more, `key` among them at `i` with value 0.
    ///
    /// # Safety
    /// `block` must be writable for so many bytes, aligned to 8, and not the leaf's own.
    #[inline(always)]
    pub(crate) unsafe fn move_listed<const LEVEL: usize>(
        self,
        block: *mut u8,
        n: usize,
        i: usize,
        key: u64,
    ) -> Edge {
        let header = block.wrapping_add(8 * V * room(n + 1));
        let edge = Edge::new(Kind::FLAT, LEVEL, header);
        // SAFETY: the caller's duty.
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

    /// Writes header, `key` and the entries behind it to `to`, which may be the leaf
    /// itself; those before it too when they are few.
    ///
    /// # Safety
    /// `to` must have room for `n + 1` suffixes of `LEVEL` bytes and their values.
    #[inline(always)]
    unsafe fn write_listed<const LEVEL: usize>(self, to: Leaf<V>, n: usize, i: usize, key: u64) {
        let word = self.word();
        // SAFETY: the caller's duty; the leaf has `n` entries.
        unsafe {
            if n <= SPREAD_MAX {
                // One by one, last first: how long copies are would be hard to guess.
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

    /// Writes a leaf of `key` alone, with value 0.
    ///
    /// # Safety
    /// As [`Leaf::write`], for [`Shape::one`].
    #[inline(always)]
    pub(crate) unsafe fn write_one(block: *mut u8, key: u64) -> Edge {
        let header = block.wrapping_add(8 * V);
        // SAFETY: the caller's duty: room for the values and the key.
        unsafe {
            if V == 1 {
                block.cast::<u64>().write(0);
            }
            header.cast::<u64>().write(key);
        }
        Edge::new(Kind::ONE, 8, header)
    }

    /// The shape for the leaf's entries and `key`, which it does not cover, where
    /// they are so close and so few that it is sure to be the best.
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

    /// Writes the leaf's entries and `key`, with value 0, to a new block, laid out
    /// in a shape from [`Leaf::wider`]. Returns the leaf and the index of `key`:
    /// all keys of the old one lie on the same side of it.
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

    /// The shape with which the leaf can go on growing by copying its
    /// planes, `None` when its entries should be looked at again.
    #[inline(always)]
    pub(crate) fn roomier(self, key: u64) -> Option<Shape> {
        let mut shape = self.shape();
        shape.entries += 1;
        let n = shape.entries;
        match shape.kind {
            Kind::FLAT if shape.level == 1 => (n <= LISTED_MAX).then_some(shape),
            Kind::FLAT => (!groups_pay(shape.level, n) || n % 16 != 1).then_some(shape),
            Kind::GROUPED => {
                let upper = split(key, shape.level, shape.group_bytes).0;
                // SAFETY: the leaf is grouped as its shape says.
                let (_, found) = unsafe { self.group(shape.groups, shape.group_bytes, upper) };
                if !found {
                    shape.groups += 1;
                }
                (shape.groups <= GROUPS_MAX && n % 16 != 1).then_some(shape)
            }
            Kind::BITMAP => Some(shape),
            _ => None,
        }
    }

    /// Moves the leaf to `block`, laid out with the room of `shape`, which
    /// must be one from [`Leaf::roomier`]. `block` may be the leaf's own, made
    /// longer: everything moves up, the highest bytes first.
    ///
    /// # Safety
    /// `block` must be writable for `shape.block_bytes()`, aligned to 8, and
    /// begin where the leaf's own block does or not overlap it.
    #[inline(always)]
    pub(crate) unsafe fn move_to(self, block: *mut u8, shape: &Shape) -> Edge {
        let header = block.wrapping_add(shape.before::<V>());
        let moved = Leaf::<V> {
            edge: Edge::new(shape.kind, shape.level, header),
            header,
        };
        let (n, word) = (self.len(), self.word());
        let level = shape.level;
        // SAFETY: the new block has room for these `n` entries in each plane. In
        // one block, each plane's new place ends before that of the one above it.
        unsafe {
            match shape.kind {
                Kind::FLAT if level <= 2 => {
                    plane::copy(self.plane(), moved.plane(), n * level);
                }
                Kind::FLAT => {
                    let to = moved.rests(shape.entries);
                    ptr::copy(self.rests(n), to, n * (level - 1));
                    ptr::copy(self.plane(), moved.plane(), n);
                    plane::clear(moved.plane(), n, room(shape.entries));
                }
                Kind::GROUPED => {
                    let (groups, bytes) = self.groups();
                    let (ends, lowers) = self.group_planes(groups, bytes);
                    let (ends_to, lowers_to) = moved.group_planes(shape.groups, bytes);
                    ptr::copy(lowers, lowers_to, n * (level - bytes));
                    ptr::copy(ends, ends_to, groups);
                    ptr::copy(self.plane(), moved.plane(), groups * bytes);
                    moved.clear_group_room(shape.groups, bytes, groups);
                }
                _ => ptr::copy(self.bits(0), moved.bits(0), 4),
            }
            moved.set_word(word);
            if V == 1 {
                plane::copy(self.header.sub(8 * n), header.sub(8 * n), 8 * n);
            }
        }
        moved.edge
    }

    /// Inserts into a leaf just moved by [`Leaf::move_to`] to where there is room for one more.
    #[inline(always)]
    pub(crate) fn insert_in_moved(self, i: usize, key: u64, old_n: usize) {
        let level = self.level();
        let n = old_n;
        // SAFETY: the leaf was laid out with room for `n + 1` entries (and for one
        // more group where the key needs one).
        unsafe {
            match self.edge.kind() {
                Kind::FLAT if level <= 2 => {
                    plane::open(self.plane(), level, n, i);
                    plane::set(self.plane(), level, i, key);
                }
                Kind::FLAT => {
                    let (top, rest) = split(key, level, 1);
                    let rests = self.rests(n + 1);
                    plane::open(self.plane(), 1, n, i);
                    plane::set(self.plane(), 1, i, top);
                    plane::open(rests, level - 1, n, i);
                    plane::set(rests, level - 1, i, rest);
                }
                Kind::GROUPED => self.insert_grouped_in_moved(i, key, n),
                _ => {
                    let b = (key & 0xff) as usize;
                    *self.bits(b / 64) |= 1 << (b % 64);
                }
            }
            if V == 1 {
                let last = self.value(n - 1).cast::<u8>();
                plane::copy(last, last.sub(8), 8 * (n - i));
                *self.value(i) = 0;
            }
        }
        self.set_word(self.word() + 1);
    }

    /// # Safety
    /// As [`Leaf::insert_in_moved`], for a grouped leaf.
    unsafe fn insert_grouped_in_moved(self, i: usize, key: u64, n: usize) {
        let (groups, group_bytes) = self.groups();
        let level = self.level();
        let (upper, lower) = split(key, level, group_bytes);
        // SAFETY: the caller's duty. Where a group is new, the planes were laid out for it.
        unsafe {
            let (g, found) = self.group(groups, group_bytes, upper);
            let count = groups + usize::from(!found);
            let (ends, lowers) = self.group_planes(count, group_bytes);
            if !found {
                plane::open(self.plane(), group_bytes, groups, g);
                plane::set(self.plane(), group_bytes, g, upper);
                plane::open(ends, 1, groups, g);
                *ends.add(g) = i as u8;
                self.set_word(self.word() + (1 << 11));
            }
            for end in g..count {
                *ends.add(end) += 1;
            }
            plane::open(lowers, level - group_bytes, n, i);
            plane::set(lowers, level - group_bytes, i, lower);
        }
    }

    /// Removes entry `i` when the block stays the right size without it.
    pub(crate) fn remove_in_place(self, i: usize) -> bool {
        let n = self.len();
        let level = self.level();
        // SAFETY: each arm first checks that the planes stay where they are.
        unsafe {
            match self.edge.kind() {
                Kind::FLAT if n > 2 && room(n - 1) == room(n) => {
                    if level <= 2 {
                        plane::close(self.plane(), level, n, i);
                    } else {
                        plane::close(self.plane(), 1, n, i);
                        plane::close(self.rests(n), level - 1, n, i);
                    }
                }
                Kind::GROUPED if n > 2 && room(n - 1) == room(n) => {
                    if !self.remove_grouped(i, n) {
                        return false;
                    }
                }
                Kind::BITMAP if n > LISTED_MAX + 1 && bitmap_room(n - 1) == bitmap_room(n) => {
                    let b = self.nth_bit(i) as usize;
                    *self.bits(b / 64) &= !(1 << (b % 64));
                }
                _ => return false,
            }
            if V == 1 {
                let last = self.value(n - 1).cast::<u8>();
                ptr::copy(last, last.add(8), 8 * (n - 1 - i));
            }
        }
        self.set_word(self.word() - 1);
        true
    }

    /// # Safety
    /// The leaf must be grouped, hold `n` entries, and keep its room without entry `i`.
    unsafe fn remove_grouped(self, i: usize, n: usize) -> bool {
        let (groups, group_bytes) = self.groups();
        let (ends, lowers) = self.group_planes(groups, group_bytes);
        // SAFETY: the caller's duty; the last entry of a group is left to be rewritten.
        unsafe {
            let mut g = 0;
            while usize::from(*ends.add(g)) <= i {
                g += 1;
            }
            if usize::from(*ends.add(g)) - group_start(ends, g) == 1 {
                return false;
            }
            for end in g..groups {
                *ends.add(end) -= 1;
            }
            plane::close(lowers, self.level() - group_bytes, n, i);
        }
        true
    }

    /// The bytes all keys share, with zeros below.
    pub(crate) fn lowest(self) -> u64 {
        if self.edge.kind() == Kind::ONE {
            self.word()
        } else {
            prefix(self.word(), self.level())
        }
    }
}

/// The group that entry `i` is in.
///
/// # Safety
/// `ends` must be the plane of ends of a leaf with `groups` groups and more than `i` entries.
#[inline(always)]
unsafe fn group_of(ends: *const u8, groups: usize, i: usize) -> usize {
    // SAFETY: the caller's duty; the header lies before the plane.
    unsafe { plane::count_at_most_small::<1, 8>(ends, groups, i as u64) }
}

/// The end of the group before `g`.
///
/// # Safety
/// `ends` must hold more than `g - 1` ends.
#[inline(always)]
unsafe fn group_start(ends: *const u8, g: usize) -> usize {
    match g {
        0 => 0,
        // SAFETY: the caller's duty.
        _ => unsafe { usize::from(*ends.add(g - 1)) },
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

/// The bytes of `key` above its `level` lowest, in place.
#[inline(always)]
fn prefix(key: u64, level: usize) -> u64 {
    if level == 8 {
        0
    } else {
        key & (u64::MAX << (8 * level))
    }
}

/// The `level`-byte suffix of `key`, cut into its `upper` highest bytes and the rest.
#[inline(always)]
fn split(key: u64, level: usize, upper: usize) -> (u64, u64) {
    let lower = level - upper;
    (below(key, level) >> (8 * lower), below(key, lower))
}
