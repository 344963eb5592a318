//! Arenas: threads that run at the same time have pieces of different blocks.
//!
//! A processor's cache holds memory in lines of 64 bytes, and takes a line away from the others
//! to write to it. If neighbouring pieces belonged to two threads, each would wait for the
//! other's lines. So a block of pieces belongs to one arena, threads allocate from one
//! arena, and a piece that any thread frees goes back to its own (Berger and others, "Hoard: A
//! Scalable Memory Allocator for Multithreaded Applications", ASPLOS 2000; the name is
//! jemalloc's).

use super::class::{ClassIndex, CLASS_COUNT};

/// Arenas. Which one a block belongs to is part of the byte that says what it holds.
pub const ARENA_COUNT: usize = 3;

/// The classes of all arenas.
pub(crate) const ARENA_CLASS_COUNT: usize = ARENA_COUNT * CLASS_COUNT;

/// One of the arenas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arena {
    first_class: u32,
}

impl Arena {
    /// The arena to which a forked child moves the blocks that it has from its parent
    /// (`payload::inherited`). That is for programs with no threads in this arena: nobody
    /// allocates from it then.
    pub(crate) const INHERITED: Self = Self {
        first_class: ((ARENA_COUNT - 1) * CLASS_COUNT) as u32,
    };

    /// The arena of the `number`-th thread, however many threads there are.
    pub fn of_thread(number: usize) -> Self {
        Self {
            first_class: (number % ARENA_COUNT * CLASS_COUNT) as u32,
        }
    }

    /// A class of this arena.
    #[inline(always)]
    pub(crate) fn class(self, class: ClassIndex) -> ArenaClass {
        ArenaClass(self.first_class + class.index() as u32)
    }

    /// Its number, below [`ARENA_COUNT`].
    pub fn number(self) -> usize {
        self.first_class as usize / CLASS_COUNT
    }
}

/// A size class in one arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaClass(u32);

impl ArenaClass {
    /// The class at this position; `None` from [`ARENA_CLASS_COUNT`] on.
    #[inline(always)]
    pub(crate) fn at(index: u8) -> Option<Self> {
        (usize::from(index) < ARENA_CLASS_COUNT).then_some(Self(u32::from(index)))
    }

    /// Its position, arena by arena; below [`ARENA_CLASS_COUNT`].
    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        let index = self.0 as usize;
        // SAFETY: `at` and `all` stay below this bound. `Arena::class` adds an index below
        // `CLASS_COUNT` to the arena's first class, a multiple of `CLASS_COUNT` below it.
        unsafe { std::hint::assert_unchecked(index < ARENA_CLASS_COUNT) };
        index
    }

    /// Its size class.
    #[inline(always)]
    pub fn class(self) -> ClassIndex {
        ClassIndex::new(self.index() % CLASS_COUNT)
    }

    /// Its arena.
    #[inline(always)]
    pub fn arena(self) -> Arena {
        Arena::of_thread(self.index() / CLASS_COUNT)
    }

    /// All of them, arena by arena.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..ARENA_CLASS_COUNT as u32).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_of_each_arena_has_a_place_of_its_own() {
        let mut all = ArenaClass::all();
        for number in 0..ARENA_COUNT {
            let arena = Arena::of_thread(number);
            assert_eq!(
                (arena.number(), arena),
                (number, Arena::of_thread(number + ARENA_COUNT))
            );
            for class in ClassIndex::all() {
                let both = arena.class(class);
                assert_eq!(Some(both), all.next());
                assert_eq!((both.class(), both.arena()), (class, arena));
                assert_eq!(ArenaClass::at(both.index() as u8), Some(both));
            }
        }
        assert_eq!(all.next(), None);
        assert_eq!(ArenaClass::at(ARENA_CLASS_COUNT as u8), None);
    }
}
