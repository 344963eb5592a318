//! Cutting a full leaf in two where each half keeps the leaf's shape: its planes are copied
//! as they are, and nobody looks at the entries.

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
    /// The highest byte, of those that keys of the leaf do not share, of the first key of
    /// the upper half.
    pub(crate) separator: u8,
}

/// Half of a leaf that is cut for a key that has no room in it.
pub(crate) struct Half {
    /// What is made of it, with the key if it `gains` that.
    pub(crate) shape: Shape,
    /// Its first entry in the leaf, and its first group.
    pub(super) first: usize,
    pub(super) first_group: usize,
    pub(crate) gains: bool,
}

impl Half {
    /// The entries it has from the leaf.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.shape.entries - usize::from(self.gains)
    }
}

/// The place to cut at, nearest the middle of those seen.
pub(super) struct Places {
    middle: usize,
    away: usize,
    best: Option<(usize, usize)>,
}

impl Places {
    /// Of a leaf of `n` entries.
    pub(super) fn of(n: usize) -> Places {
        Places {
            middle: n / 2,
            away: (n / 2).saturating_sub(HALF_MIN),
            best: None,
        }
    }

    /// The leaf may be cut before entry `at`; `what` goes with it.
    #[inline(always)]
    pub(super) fn see(&mut self, what: usize, at: usize) {
        let away = at.abs_diff(self.middle);
        if away < self.away {
            (self.away, self.best) = (away, Some((what, at)));
        }
    }

    /// What the best place is, and which entry it lies before.
    pub(super) fn best(self) -> Option<(usize, usize)> {
        self.best
    }
}

/// Keys that can be cut in two parts of the same shape.
pub(crate) trait Cuttable<const V: usize>: Planes<V> {
    /// How to cut the leaf, which is full, for `key`, which belongs at `spot`; `None` when
    /// a half might have to be of another shape or level.
    fn cut(self, spot: Spot, key: u64) -> Option<Cut>;

    /// Copies the keys of a half to a leaf of its shape whose header is at `header`.
    ///
    /// # Safety
    /// The leaf must be laid out for them, in another block.
    unsafe fn copy_half(self, header: *mut u8, half: &Half) -> Self;
}

impl<const V: usize> Leaf<V> {
    /// Writes half of the leaf, with `key` if the half gains it, to `block`. Returns the
    /// new leaf, and in that case the key's index in it.
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
