//! A struct of Ruby outside the heap's cells, which a live object owns.

/// The address of a struct. Only the layout that `shim/layout.c` prints says what is at
/// which offset.
#[derive(Clone, Copy)]
pub(super) struct Record(usize);

impl Record {
    /// The struct at `address`, `None` when that is null.
    #[inline(always)]
    pub(super) fn at(address: usize) -> Option<Self> {
        (address != 0).then_some(Self(address))
    }

    /// The word at `offset` bytes.
    #[inline(always)]
    pub(super) fn word(self, offset: usize) -> usize {
        // SAFETY: live objects own the struct, so it is there while they are traced, and
        // its layout says that a word is at this offset. Some structs are packed.
        unsafe { ((self.0 + offset) as *const usize).read_unaligned() }
    }

    /// The 32 bits at `offset` bytes.
    #[inline(always)]
    pub(super) fn half(self, offset: usize) -> u32 {
        // SAFETY: as for a word; the layout says that 32 bits are at this offset.
        unsafe { ((self.0 + offset) as *const u32).read_unaligned() }
    }

    /// A count of 32 bits at `offset` bytes.
    #[inline(always)]
    pub(super) fn count(self, offset: usize) -> usize {
        self.half(offset) as usize
    }

    /// The struct that the word at `offset` bytes points at.
    #[inline(always)]
    pub(super) fn record(self, offset: usize) -> Option<Self> {
        Self::at(self.word(offset))
    }

    /// The struct at `offset` bytes in this one.
    #[inline(always)]
    pub(super) fn part(self, offset: usize) -> Self {
        Self(self.0 + offset)
    }

    /// The first `count` structs, of `bytes` each, of the array that the word at
    /// `offset` bytes points at; none when that word is null.
    #[inline(always)]
    pub(super) fn each(
        self,
        offset: usize,
        count: usize,
        bytes: usize,
    ) -> impl Iterator<Item = Self> {
        let first = self.word(offset);
        let count = if first == 0 { 0 } else { count };
        (0..count).map(move |index| Self(first + index * bytes))
    }

    pub(super) fn address(self) -> usize {
        self.0
    }
}
