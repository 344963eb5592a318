//! Iterators: ordered, from both ends.

use crate::map::WordMap;
use crate::memory::NodeSource;
use crate::set::WordSet;
use crate::walk::{Found, Walk};
use core::fmt;
use core::iter::FusedIterator;
use core::marker::PhantomData;

/// Defines an iterator type over a walk.
macro_rules! iterator {
    ($(#[$doc:meta])* $name:ident, $values:literal, $item:ty, $found:ident => $make:expr) => {
        $(#[$doc])*
        pub struct $name<'a> {
            walk: Walk<$values>,
            borrow: PhantomData<$item>,
            lifetime: PhantomData<&'a ()>,
        }

        impl $name<'_> {
            #[inline(always)]
            pub(crate) fn new(walk: Walk<$values>) -> Self {
                $name { walk, borrow: PhantomData, lifetime: PhantomData }
            }
        }

        impl<'a> Iterator for $name<'a> {
            type Item = $item;

            #[inline(always)]
            fn next(&mut self) -> Option<$item> {
                let $found = self.walk.next()?;
                Some($make)
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                self.walk.size_hint()
            }
        }

        impl DoubleEndedIterator for $name<'_> {
            #[inline]
            fn next_back(&mut self) -> Option<Self::Item> {
                let $found = self.walk.next_back()?;
                Some($make)
            }
        }

        impl FusedIterator for $name<'_> {}

        impl fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("left", &self.walk.left())
                    .finish_non_exhaustive()
            }
        }
    };
}

/// # Safety
/// The walk must borrow, for `'a`, the map in which it has found the entry.
#[inline(always)]
unsafe fn value<'a>(found: Found) -> &'a u64 {
    // SAFETY: a found entry belongs to a live leaf, and the map is borrowed.
    unsafe { &*found.value }
}

/// # Safety
/// The walk must borrow exclusively, for `'a`, the map in which it has found the entry;
/// it finds each entry once.
#[inline(always)]
unsafe fn value_mut<'a>(found: Found) -> &'a mut u64 {
    // SAFETY: a found entry belongs to a live leaf; the map is borrowed exclusively, and
    // this is the only reference to the entry.
    unsafe { &mut *found.value }
}

iterator!(
    /// Entries of a map in key order; see [`WordMap::iter`].
    Iter, 1, (u64, &'a u64), found => {
        // SAFETY: the iterator borrows the map for `'a`.
        (found.key, unsafe { value(found) })
    }
);
iterator!(
    /// Entries of a map in key order, with mutable values; see [`WordMap::iter_mut`].
    IterMut, 1, (u64, &'a mut u64), found => {
        // SAFETY: the iterator borrows the map exclusively for `'a`.
        (found.key, unsafe { value_mut(found) })
    }
);
iterator!(
    /// Entries of a map between two keys; see [`WordMap::range`].
    Range, 1, (u64, &'a u64), found => {
        // SAFETY: the iterator borrows the map for `'a`.
        (found.key, unsafe { value(found) })
    }
);
iterator!(
    /// Entries of a map between two keys, with mutable values; see
    /// [`WordMap::range_mut`].
    RangeMut, 1, (u64, &'a mut u64), found => {
        // SAFETY: the iterator borrows the map exclusively for `'a`.
        (found.key, unsafe { value_mut(found) })
    }
);
iterator!(
    /// Keys of a map in order; see [`WordMap::keys`].
    Keys, 1, u64, found => found.key
);
iterator!(
    /// Values of a map in key order; see [`WordMap::values`].
    Values, 1, &'a u64, found => {
        // SAFETY: the iterator borrows the map for `'a`.
        unsafe { value(found) }
    }
);
iterator!(
    /// Values of a map in key order, mutable; see [`WordMap::values_mut`].
    ValuesMut, 1, &'a mut u64, found => {
        // SAFETY: the iterator borrows the map exclusively for `'a`.
        unsafe { value_mut(found) }
    }
);
iterator!(
    /// Keys of a set in order; see [`WordSet::iter`].
    SetIter, 0, u64, found => found.key
);
iterator!(
    /// Keys of a set between two bounds; see [`WordSet::range`].
    SetRange, 0, u64, found => found.key
);

macro_rules! exact {
    ($($name:ident)*) => { $(
        impl ExactSizeIterator for $name<'_> {}
    )* };
}
exact!(Iter IterMut Keys Values ValuesMut SetIter);

/// The entries of a map that is consumed; see [`WordMap::into_iter`].
pub struct IntoIter<A: NodeSource = crate::memory::SharedHeap> {
    walk: Walk<1>,
    /// Owns the nodes that the walk visits; all are freed together.
    map: WordMap<A>,
}

impl<A: NodeSource> fmt::Debug for IntoIter<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoIter")
            .field("left", &self.walk.left())
            .finish_non_exhaustive()
    }
}

impl<A: NodeSource> Iterator for IntoIter<A> {
    type Item = (u64, u64);

    #[inline]
    fn next(&mut self) -> Option<(u64, u64)> {
        let found = self.walk.next()?;
        // SAFETY: the iterator owns the map.
        Some((found.key, unsafe { *value(found) }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.walk.size_hint()
    }
}

impl<A: NodeSource> DoubleEndedIterator for IntoIter<A> {
    fn next_back(&mut self) -> Option<(u64, u64)> {
        let found = self.walk.next_back()?;
        // SAFETY: the iterator owns the map.
        Some((found.key, unsafe { *value(found) }))
    }
}

impl<A: NodeSource> ExactSizeIterator for IntoIter<A> {}
impl<A: NodeSource> FusedIterator for IntoIter<A> {}

impl<A: NodeSource> IntoIterator for WordMap<A> {
    type Item = (u64, u64);
    type IntoIter = IntoIter<A>;

    fn into_iter(self) -> IntoIter<A> {
        IntoIter {
            walk: Walk::all(self.tree.root),
            map: self,
        }
    }
}

impl<A: NodeSource> IntoIter<A> {
    /// The bytes of all nodes of the map, which the iterator owns until it is dropped.
    pub fn memory_used(&self) -> usize {
        self.map.memory_used()
    }
}

impl<'a, A: NodeSource> IntoIterator for &'a WordMap<A> {
    type Item = (u64, &'a u64);
    type IntoIter = Iter<'a>;
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<'a, A: NodeSource> IntoIterator for &'a mut WordMap<A> {
    type Item = (u64, &'a mut u64);
    type IntoIter = IterMut<'a>;
    fn into_iter(self) -> IterMut<'a> {
        self.iter_mut()
    }
}

impl<'a, A: NodeSource> IntoIterator for &'a WordSet<A> {
    type Item = u64;
    type IntoIter = SetIter<'a>;
    fn into_iter(self) -> SetIter<'a> {
        self.iter()
    }
}
