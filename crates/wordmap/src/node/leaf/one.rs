//! A leaf of one entry: the header word is the key.

use super::planes::{Planes, Spot};
use super::shape::Shape;
use super::view::Leaf;

#[derive(Clone, Copy)]
pub(super) struct One<const V: usize> {
    key: u64,
}

/// The leaf covers its own key and no other.
impl<const V: usize> Planes<V> for One<V> {
    const ARE_LONG: bool = false;

    #[inline(always)]
    fn of(leaf: Leaf<V>) -> Self {
        One { key: leaf.word() }
    }

    fn moved(self, _: *mut u8, _: &Shape) -> Self {
        self
    }

    #[inline(always)]
    fn len(self) -> usize {
        1
    }

    #[inline(always)]
    fn spot(self, _: u64) -> Spot {
        Spot::new(0, true)
    }

    fn has_room(self, _: Spot) -> bool {
        false
    }

    #[inline(always)]
    fn shape_with(self, _: Shape, _: Spot) -> Option<Shape> {
        unreachable!("no other key is covered")
    }

    fn keeps_room(self, _: usize) -> bool {
        false
    }

    fn shape_without(self, _: Shape, _: usize) -> Option<Shape> {
        None
    }

    #[inline(always)]
    fn key(self, _: usize) -> u64 {
        self.key
    }

    fn keys(self, _: usize, keys: &mut [u64]) {
        keys.fill(self.key);
    }

    unsafe fn write(self, _: &[u64]) {}

    unsafe fn open(self, _: Self, _: Spot, _: u64) {
        unreachable!("no other key is covered")
    }

    unsafe fn close(self, _: Self, _: usize, _: u64) {
        unreachable!("an empty leaf is released")
    }
}
