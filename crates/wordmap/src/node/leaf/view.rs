//! A view of a leaf: its header, what determines its shape, and its values.

use super::shape::{Shape, ENTRIES_MAX};
use crate::node::edge::{prefix, Edge, Kind, ONE};
use crate::node::plane;
use core::ptr::NonNull;

/// A view of a live leaf that is not full (N1).
#[derive(Clone, Copy)]
pub(crate) struct Leaf<const V: usize> {
    pub(super) edge: Edge,
    pub(super) header: *mut u8,
}

impl<const V: usize> Leaf<V> {
    /// # Safety
    /// `edge` must lead to a live leaf that is not full, and that must stay so while the
    /// view is used.
    #[inline(always)]
    pub(crate) unsafe fn of(edge: Edge) -> Leaf<V> {
        Leaf {
            edge,
            header: edge.header(),
        }
    }

    /// Like [`Leaf::of`], where the edge's tag is `tag`.
    ///
    /// # Safety
    /// As [`Leaf::of`].
    #[inline(always)]
    pub(crate) unsafe fn of_tagged(edge: Edge, tag: u8) -> Leaf<V> {
        Leaf {
            edge,
            header: edge.header_under(tag),
        }
    }

    #[inline(always)]
    pub(crate) fn word(self) -> u64 {
        // SAFETY: N1: the header word of a live node.
        unsafe { *self.header.cast::<u64>() }
    }

    #[inline(always)]
    pub(super) fn set_word(self, word: u64) {
        // SAFETY: N1; whoever changes a leaf has borrowed the tree exclusively.
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

    /// Whether the leaf has as many entries as a leaf may have.
    #[inline(always)]
    pub(crate) fn is_full(self) -> bool {
        self.edge.kind() != Kind::BITMAP && self.len() >= ENTRIES_MAX
    }

    /// Whether all keys of the leaf share their upper bytes with `key`.
    #[inline(always)]
    pub(crate) fn covers(self, key: u64) -> bool {
        if self.edge.kind() == Kind::ONE {
            self.word() == key
        } else {
            self.covers_more(key)
        }
    }

    /// Like [`Leaf::covers`], for a leaf of more than one entry.
    #[inline(always)]
    pub(crate) fn covers_more(self, key: u64) -> bool {
        // One shift by a variable length.
        ((self.word() ^ key) >> (8 * (self.level() - 1))) >> 8 == 0
    }

    /// The bytes that all keys share, with zeros below them.
    pub(crate) fn lowest(self) -> u64 {
        if self.edge.kind() == Kind::ONE {
            self.word()
        } else {
            prefix(self.word(), self.level())
        }
    }

    pub(crate) fn shape(self) -> Shape {
        let mut shape = Shape::flat(self.level(), self.len());
        shape.kind = self.edge.kind();
        if shape.kind == Kind::GROUPED {
            (shape.groups, shape.group_bytes) = Shape::groups_of(self.word());
        }
        shape
    }

    pub(crate) fn block(self) -> *mut u8 {
        self.header.wrapping_sub(self.shape().before::<V>())
    }

    /// The leaf's block and its length.
    #[inline(always)]
    pub(crate) fn whole_block(self) -> (NonNull<u8>, usize) {
        let (block, bytes) = if self.edge.tag() == ONE {
            (self.header.wrapping_sub(8 * V), 8 * V + 8)
        } else {
            self.block_by_shape()
        };
        // SAFETY: N1: a live node is not at address 0.
        (unsafe { NonNull::new_unchecked(block) }, bytes)
    }

    #[inline(never)]
    fn block_by_shape(self) -> (*mut u8, usize) {
        (self.block(), self.shape().block_bytes::<V>())
    }

    /// The address of the value of entry `i`. Without meaning in a set.
    #[inline(always)]
    pub(crate) fn value(self, i: usize) -> *mut u64 {
        self.header.cast::<u64>().wrapping_sub(i + 1)
    }

    /// The value of entry `i`; 0 in a set.
    #[inline(always)]
    pub(crate) fn word_of_value(self, i: usize) -> u64 {
        if V == 1 {
            // SAFETY: N1: entry `i` of a live leaf.
            unsafe { *self.value(i) }
        } else {
            0
        }
    }

    /// Prefetches the first cache lines after the header of a large leaf, and before it,
    /// before the number of entries is known: the line that a search looks at next depends
    /// on the line before, so otherwise none of them would be fetched early.
    #[inline(always)]
    pub(crate) fn prefetch<const BEHIND: usize, const BEFORE: usize>(self) {
        for line in 0..BEHIND {
            plane::prefetch(self.header.wrapping_add(64 * (line + 1)));
        }
        for line in 0..BEFORE * V {
            plane::prefetch(self.header.wrapping_sub(64 * (line + 1)));
        }
    }

    /// Prefetches the last of `n` values, which will have to move, while the keys are
    /// searched.
    #[inline(always)]
    pub(super) fn prefetch_last_values(self, n: usize) {
        if V == 1 && n > 32 {
            let last = self.header.wrapping_sub(8 * n);
            for line in 0..6 {
                plane::prefetch(last.wrapping_add(64 * line));
            }
        }
    }
}

/// Prefetches the first and the last value of entries `first..end` of a map's leaf: a caller
/// that is about to find one of these entries will read its value next.
#[inline(always)]
pub(super) fn prefetch_values<const V: usize>(header: *mut u8, first: usize, end: usize) {
    if V == 1 {
        plane::prefetch(header.wrapping_sub(8 * (first + 1)));
        plane::prefetch(header.wrapping_sub(8 * end));
    }
}
