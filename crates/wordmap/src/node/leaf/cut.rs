//! Cuts a full leaf in two where each half keeps the leaf's shape: its planes are copied as
//! they are, and the entries are not read one by one.

use super::planes::{Planes, Spot};
use super::shape::Shape;
use super::view::Leaf;
use crate::node::edge::Edge;
use crate::node::plane;

/// The fewest entries of a half.
const HALF_MIN: usize = 48;

/// How a leaf is cut in two.
pub(crate) struct Cut {
    pub(crate) halves: [Half; 2],
    /// The highest byte in which keys of the leaf may differ, of the first key of the upper
    /// half.
    pub(crate) separator: u8,
}

/// Half of a leaf that is cut because it has no room for a key.
pub(crate) struct Half {
    /// The shape of the new leaf, including the key if the half `gains` it.
    pub(crate) shape: Shape,
    /// The index of its first entry in the leaf, and of its first group.
    pub(super) first: usize,
    pub(super) first_group: usize,
    pub(crate) gains: bool,
}

impl Half {
    /// The number of entries that it has from the leaf.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.shape.entries - usize::from(self.gains)
    }
}

/// The best place to cut at, so far: the one nearest the middle.
pub(super) struct Places {
    middle: usize,
    away: usize,
    best: Option<(usize, usize)>,
}

impl Places {
    /// For a leaf of `n` entries.
    pub(super) fn of(n: usize) -> Places {
        Places {
            middle: n / 2,
            away: (n / 2).saturating_sub(HALF_MIN),
            best: None,
        }
    }

    /// Considers a place: the leaf may be cut before entry `at`. `what` is returned with
    /// it.
    #[inline(always)]
    pub(super) fn see(&mut self, what: usize, at: usize) {
        let away = at.abs_diff(self.middle);
        if away < self.away {
            (self.away, self.best) = (away, Some((what, at)));
        }
    }

    /// The best place, with its `what`; the leaf is cut before this entry.
    pub(super) fn best(self) -> Option<(usize, usize)> {
        self.best
    }
}

/// Keys that can be cut into two parts of the same shape.
pub(crate) trait Cuttable<const V: usize>: Planes<V> {
    /// Chooses how to cut the leaf, which is full, for `key`, which belongs at `spot`;
    /// `None` when a half might need another shape or level.
    fn cut(self, spot: Spot, key: u64) -> Option<Cut>;

    /// Copies the keys of a half to a leaf of its shape whose header is at `header`.
    ///
    /// # Safety
    /// The leaf must be laid out for these keys, in another block.
    unsafe fn copy_half(self, header: *mut u8, half: &Half) -> Self;
}

impl<const V: usize> Leaf<V> {
    /// Writes half of the leaf, with `key` if the half gains it, to `block`. Returns the
    /// new leaf, and the key's index in it if the half gains the key.
    ///
    /// # Safety
    /// `block` must be writable for the half's `shape.block_bytes()`, aligned to 8, and not
    /// the leaf's own.
    pub(crate) unsafe fn write_half(
        self,
        planes: impl Cuttable<V>,
        block: *mut u8,
        half: &Half,
        key: u64,
    ) -> (Edge, usize) {
        let shape = &half.shape;
        let header = block.wrapping_add(shape.before::<V>());
        let edge = Edge::new(shape.kind, shape.level, header);
        let n = half.len();
        // SAFETY: the block has room for the half's header, planes and values, and for
        // those of `key` where it gains them.
        unsafe {
            header.cast::<u64>().write(shape.word(key));
            let to = planes.copy_half(header, half);
            let values = header.sub(8 * n * V);
            let from = self.header.sub(8 * (half.first + n) * V);
            values.copy_from_nonoverlapping(from, 8 * n * V);
            if !half.gains {
                return (edge, 0);
            }
            let spot = to.spot(key);
            to.open(to, spot, key);
            if V == 1 {
                plane::copy(values, values.sub(8), 8 * (n - spot.i));
                header.cast::<u64>().sub(spot.i + 1).write(0);
            }
            (edge, spot.i)
        }
    }
}
