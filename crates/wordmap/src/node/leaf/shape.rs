//! The layout of a leaf: its shape, the room that it has, and which shape suits which
//! entries.

use super::entries::Entries;
use crate::node::edge::{highest_difference, prefix, Kind};

/// The most entries of a leaf that is not a bitmap.
pub(crate) const ENTRIES_MAX: usize = 192;
/// The most entries that a leaf of level 1 lists: 32 bytes, as many as a bitmap takes.
pub(super) const LISTED_MAX: usize = 32;
pub(super) const GROUPS_MAX: usize = 32;

/// How many entries a leaf of `n` has room for; `width` is the bytes of a key that each of
/// them takes. Exact in tiny leaves, then in steps that leave at most an eighth empty. Above
/// 48 entries, neighbouring keys are rounded up to multiples of 8, others to multiples of 6.
#[inline(always)]
pub(super) const fn room(n: usize, width: usize) -> usize {
    if n <= 6 {
        n
    } else if n <= 16 {
        (n + 1) & !1
    } else if n <= 48 {
        (n + 3) & !3
    } else if width == 1 {
        (n + 7) & !7
    } else {
        n.div_ceil(6) * 6
    }
}

/// Whether a list of `n` suffixes of `level` (1 or 2) bytes has room for one more. In a set
/// only suffixes take room, and blocks grow in steps of 8 bytes.
#[inline(always)]
pub(super) const fn list_has_room<const V: usize>(n: usize, level: usize) -> bool {
    if V == 0 && n < 48 {
        n * level % 8 != 0
    } else {
        room(n, level) > n
    }
}

// Up to 48 entries room is rounded up to no more than the next 8 bytes.
const _: () = {
    let mut n = 1;
    while n <= 48 {
        assert!(round8(room(n, 1)) == round8(n) && round8(2 * room(n, 2)) == round8(2 * n));
        n += 1;
    }
};

/// [`room`], looked up in a table: for leaves of any number of entries, whose steps are hard
/// to predict.
#[inline(always)]
pub(super) fn room_of(n: usize, width: usize) -> usize {
    const ROOMS: [[u8; ENTRIES_MAX + 2]; 2] = {
        let mut rooms = [[0; ENTRIES_MAX + 2]; 2];
        let mut n = 0;
        while n < ENTRIES_MAX + 2 {
            rooms[0][n] = room(n, 2) as u8;
            rooms[1][n] = room(n, 1) as u8;
            n += 1;
        }
        rooms
    };
    usize::from(ROOMS[usize::from(width == 1)][n])
}

/// [`room`] for a bitmap, which grows one entry at a time up to 256.
#[inline(always)]
pub(super) const fn bitmap_room(n: usize) -> usize {
    let step = match n {
        0..=64 => 8,
        65..=128 => 16,
        _ => 32,
    };
    (n + step - 1) & !(step - 1)
}

#[inline(always)]
pub(super) fn group_room(groups: usize) -> usize {
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
    /// The number of groups, and of the bytes that tell them apart (grouped leaves only).
    pub(super) groups: usize,
    pub(super) group_bytes: usize,
}

impl Shape {
    /// The bit at which the header word of a grouped leaf has the number of groups, minus
    /// one.
    pub(super) const GROUPS_SHIFT: u32 = 11;
    /// The bit at which that word, above level 2, has the group that the last insertion went
    /// to.
    const LAST_GROUP_SHIFT: u32 = 16;

    /// How many entries a list has room for.
    #[inline(always)]
    pub(super) fn room(&self) -> usize {
        room_of(self.entries, self.level - self.group_bytes)
    }

    /// The shape of a list with one entry more; `None` when a new shape should be chosen for
    /// the entries.
    #[inline(always)]
    pub(super) fn listed_with(mut self) -> Option<Shape> {
        self.entries += 1;
        let same = if self.level == 1 {
            self.entries <= LISTED_MAX
        } else {
            !groups_pay(&self) || !(self.entries - 1).is_power_of_two()
        };
        same.then_some(self)
    }

    /// The bytes before the header.
    #[inline(always)]
    pub(super) fn before<const V: usize>(&self) -> usize {
        match self.kind {
            Kind::ONE => 8 * V,
            Kind::BITMAP => 8 * V * bitmap_room(self.entries),
            _ => 8 * V * self.room(),
        }
    }

    /// The bytes after the header word.
    #[inline(always)]
    fn after(&self) -> usize {
        match self.kind {
            Kind::ONE => 0,
            Kind::FLAT => round8(self.level * self.room()),
            Kind::GROUPED => round8(
                (self.group_bytes + 1) * group_room(self.groups)
                    + (self.level - self.group_bytes) * self.room(),
            ),
            _ => 32,
        }
    }

    /// The bytes of the whole block.
    #[inline(always)]
    pub(crate) fn block_bytes<const V: usize>(&self) -> usize {
        self.before::<V>() + 8 + self.after()
    }

    /// The header word of a leaf of this shape that covers `key` (N2).
    #[inline(always)]
    pub(super) fn word(&self, key: u64) -> u64 {
        match self.kind {
            Kind::ONE => key,
            Kind::GROUPED => {
                let packed = ((self.groups as u64 - 1) << 3) | self.group_bytes as u64;
                prefix(key, self.level) | (packed << 8) | (self.entries as u64 - 1)
            }
            _ => prefix(key, self.level) | (self.entries as u64 - 1),
        }
    }

    /// The number of groups, and of the bytes that tell them apart, from the header word of
    /// a grouped leaf.
    #[inline(always)]
    pub(super) fn groups_of(word: u64) -> (usize, usize) {
        let packed = (word >> 8) as u8;
        (usize::from(packed >> 3) + 1, usize::from(packed & 7))
    }

    /// The group that the last insertion went to, as the header word of a grouped leaf says.
    /// It is a guess: it may be stale and, at level 2, has no meaning.
    #[inline(always)]
    pub(super) fn last_group_of(word: u64) -> usize {
        (word >> Shape::LAST_GROUP_SHIFT) as usize % GROUPS_MAX
    }

    /// The header word of a grouped leaf of `level` with `group` noted as the one last
    /// inserted into, where there are bits for it.
    #[inline(always)]
    pub(super) fn with_last_group(word: u64, level: usize, group: usize) -> u64 {
        if level == 2 {
            return word;
        }
        let mask = (GROUPS_MAX as u64 - 1) << Shape::LAST_GROUP_SHIFT;
        word & !mask | (group as u64) << Shape::LAST_GROUP_SHIFT
    }

    /// The shape of one entry.
    pub(crate) fn one() -> Shape {
        let mut one = Shape::flat(8, 1);
        one.kind = Kind::ONE;
        one
    }

    /// A bitmap, also for fewer entries than bitmaps mostly have.
    pub(crate) fn bitmap(entries: usize) -> Shape {
        let mut bitmap = Shape::flat(1, entries);
        bitmap.kind = Kind::BITMAP;
        bitmap
    }

    #[inline(always)]
    pub(super) fn flat(level: usize, entries: usize) -> Shape {
        Shape {
            kind: Kind::FLAT,
            level,
            entries,
            groups: 0,
            group_bytes: 0,
        }
    }

    /// The shape for these entries: the smallest one, but a flat one for few entries, where
    /// searching is fastest and growing is cheapest.
    pub(crate) fn choose(entries: &Entries) -> Shape {
        let flat = Shape::plain(entries);
        if !groups_pay(&flat) || flat.level == 1 {
            return flat;
        }
        match Shape::best_grouped(entries, flat.level) {
            Some(grouped) if grouped.after() + 8 <= flat.after() => grouped,
            _ => flat,
        }
    }

    /// The smallest shape for these entries.
    pub(crate) fn smallest(entries: &Entries) -> Shape {
        let flat = Shape::plain(entries);
        if flat.kind != Kind::FLAT || flat.level == 1 {
            return flat;
        }
        match Shape::best_grouped(entries, flat.level) {
            Some(grouped) if grouped.after() < flat.after() => grouped,
            _ => flat,
        }
    }

    /// The shape without groups for these entries.
    fn plain(entries: &Entries) -> Shape {
        let n = entries.len();
        if n == 1 {
            return Shape::one();
        }
        let level = highest_difference(entries.key(0), entries.key(n - 1)) + 1;
        let mut shape = Shape::flat(level, n);
        if level == 1 && n > LISTED_MAX {
            shape.kind = Kind::BITMAP;
        }
        shape
    }

    fn best_grouped(entries: &Entries, level: usize) -> Option<Shape> {
        // differing[b]: the number of neighbours whose highest difference is in byte b.
        let n = entries.len();
        let mut differing = [0usize; 8];
        for pair in entries.keys().windows(2) {
            differing[highest_difference(pair[0], pair[1])] += 1;
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

/// Whether grouping a flat leaf may be worthwhile.
pub(super) fn groups_pay(flat: &Shape) -> bool {
    let n = flat.entries;
    flat.kind == Kind::FLAT && flat.level >= 2 && (n > 32 || (flat.level >= 4 && n >= 16))
}
