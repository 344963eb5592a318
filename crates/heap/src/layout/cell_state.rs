//! The state of a cell: one byte in a side table.

use std::fmt;

/// What the collector knows about one cell.
///
/// Invariants (the verifier asserts the same numbers):
/// 1. A free cell has no bit set.
/// 2. `OLD` implies `LIVE`. It also implies `MARKED`, except during a major or full
///    collection, and in the cells that such a collection found dead until they are swept.
/// 3. `REMEMBERED` implies `OLD`, and the cell is in the remembered set once, unless the set
///    has overflowed.
/// 4. A cell that is `OLD` and `UNPROTECTED` is `REMEMBERED`.
/// 5. An `OLD` cell that is not `REMEMBERED` refers to `OLD` cells only, unless the
///    remembered set has overflowed, so that the next collection is a full one.
/// 16. A cell on the boundary is in the boundary set, unless the set has overflowed.
/// 17. A settled cell that is not on the boundary is not `UNPROTECTED`, and refers to
///     settled cells only unless the remembered set has overflowed.
///
/// Invariants 13 and 14, about cells that move, are in `compact/mod.rs`.
///
/// An old cell settles when two collections, major or full, have found it. Where settled cells die, most
/// collections let none settle (`pace/settling.rs`): they take `AGE_LOW` away before they mark. A major
/// collection does not trace settled cells (`mark/sets.rs`). The two bits that count the collections
/// that a young cell has survived mean this in an old one:
///
/// | `AGE_HIGH` | `AGE_LOW` | |
/// | --- | --- | --- |
/// | 0 | 0 | no major or full collection has found it, or its age was taken away |
/// | 0 | 1 | one has found it since |
/// | 1 | 0 | settled |
/// | 1 | 1 | settled, and on the boundary |
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CellState(pub(crate) u8);

impl CellState {
    /// Nothing lives here.
    pub const FREE: Self = Self(0);
    /// Freshly allocated, young, with a write barrier.
    pub const NEW: Self = Self(Self::LIVE);
    /// Freshly allocated, young, without a write barrier.
    pub const NEW_UNPROTECTED: Self = Self(Self::LIVE | Self::UNPROTECTED);

    /// The object that lived here has moved; the cell holds the new address until every
    /// reference has been rewritten.
    pub(crate) const FORWARDED: Self = Self(Self::PINNED);

    /// Handed out to the program and not yet swept.
    pub(crate) const LIVE: u8 = 1;
    /// Reached in the current or latest collection.
    pub(crate) const MARKED: u8 = 1 << 1;
    /// Survived often enough: kept by minor collections without being traced.
    pub(crate) const OLD: u8 = 1 << 2;
    /// The lower bit of the age. In a young cell: it survived at least one collection. In an old
    /// one: see the table above.
    pub(crate) const AGE_LOW: u8 = 1 << 3;
    /// The higher bit of the age. In a young cell: it survived two collections. In an old one: it
    /// is settled.
    pub(crate) const AGE_HIGH: u8 = 1 << 7;
    /// Kept by major collections without being traced.
    pub(crate) const SETTLED: u8 = Self::OLD | Self::AGE_HIGH;
    /// In a settled cell: it is on the boundary.
    pub(crate) const BOUNDARY: u8 = Self::AGE_LOW;
    /// The program writes to it without a barrier: every collection traces it again.
    pub(crate) const UNPROTECTED: u8 = 1 << 4;
    /// In the remembered set.
    pub(crate) const REMEMBERED: u8 = 1 << 5;
    /// Something refers to it that cannot be rewritten: it must not move.
    pub(crate) const PINNED: u8 = 1 << 6;

    /// Whether the program has the cell, or had it when it was last swept.
    #[inline(always)]
    pub fn is_live(self) -> bool {
        self.0 & Self::LIVE != 0
    }

    /// Whether the latest collection reached it.
    #[inline(always)]
    pub fn is_marked(self) -> bool {
        self.0 & Self::MARKED != 0
    }

    /// Whether minor collections keep it untraced.
    #[inline(always)]
    pub fn is_old(self) -> bool {
        self.0 & Self::OLD != 0
    }

    /// Whether it survived a collection without being old yet.
    #[inline(always)]
    pub fn is_aged(self) -> bool {
        self.0 & (Self::AGE_LOW | Self::OLD) == Self::AGE_LOW
    }

    /// Whether major collections keep it untraced, unless it is on the boundary.
    #[inline(always)]
    pub fn is_settled(self) -> bool {
        self.0 & Self::SETTLED == Self::SETTLED
    }

    /// 1 for a settled cell and 0 for any other old one. The cell must be old.
    #[inline(always)]
    pub(crate) fn settled_if_old(self) -> usize {
        const {
            assert!(
                Self::AGE_HIGH.leading_zeros() == 0,
                "nothing is shifted beside it"
            )
        };
        debug_assert!(self.is_old());
        usize::from(self.0 >> Self::AGE_HIGH.trailing_zeros())
    }

    /// Whether it is settled and may refer to cells that are not.
    #[inline(always)]
    pub fn is_on_boundary(self) -> bool {
        const BITS: u8 = CellState::SETTLED | CellState::BOUNDARY;
        self.0 & BITS == BITS
    }

    /// How many collections it survived: 0, 1 or 2, and 3 when it is old.
    pub fn age(self) -> u8 {
        match self {
            _ if self.is_old() => 3,
            _ if self.0 & Self::AGE_HIGH != 0 => 2,
            _ => u8::from(self.is_aged()),
        }
    }

    /// Whether the program writes to it without a barrier.
    #[inline(always)]
    pub fn is_unprotected(self) -> bool {
        self.0 & Self::UNPROTECTED != 0
    }

    /// Whether it is in the remembered set.
    #[inline(always)]
    pub fn is_remembered(self) -> bool {
        self.0 & Self::REMEMBERED != 0
    }

    /// Whether being found once more makes a young cell old, if that takes the age bits
    /// `needed`. An unprotected cell does not grow old by age: every collection would trace it
    /// then. It grows old only when an old cell refers to it.
    #[inline(always)]
    pub(crate) fn grows_old(self, needed: Ageing) -> bool {
        self.0 & (needed.0 | Self::UNPROTECTED) == needed.0
    }

    /// The next state of a young cell that grows old, or of an old one that a major or full
    /// collection finds. Unprotected cells do not settle: they would always be on the boundary.
    /// A settled cell is off the boundary at first; tracing it shows whether that is right.
    #[inline(always)]
    pub(crate) fn old_and_found(self) -> Self {
        Self(OLD_AND_FOUND[usize::from(self.0)])
    }

    /// The state of a live cell that settles when a full collection finds it next, if it may settle.
    pub(crate) fn aged_to_settle(self) -> Self {
        match self.is_unprotected() || self.is_settled() {
            true => self,
            false => self.without(Self::AGE_HIGH).with(Self::OLD | Self::AGE_LOW),
        }
    }

    /// The bits that a cell in this state wants in the cells that it refers to: when those
    /// have all of them, marking changes nothing. An unprotected cell makes nothing old that
    /// it refers to: every collection traces the cell anyway, and what it refers to may be
    /// short-lived, such as what the latest call on a thread's stack has made.
    #[inline(always)]
    pub(crate) fn wants_of_children(self) -> Wants {
        Wants(WANTS_OF_CHILDREN[usize::from(self.0)])
    }

    /// Whether the barrier has to note that an old cell in this state refers to a cell in
    /// the state `child`.
    #[inline(always)]
    pub(crate) fn misses(self, child: Self) -> bool {
        let misses_old = !self.is_remembered() && !child.is_old();
        misses_old
            || (self.0 & (Self::AGE_HIGH | Self::AGE_LOW) == Self::AGE_HIGH && !child.is_settled())
    }

    /// Whether a cell in this state has all the bits in `wants`.
    #[inline(always)]
    pub(crate) fn is_all_of(self, wants: Wants) -> bool {
        self.0 & wants.0 == wants.0
    }

    /// Whether it must not move.
    #[inline(always)]
    pub fn is_pinned(self) -> bool {
        self.0 & Self::PINNED != 0
    }

    /// # Panics
    /// When it is not the state of a new cell.
    #[inline(always)]
    pub(crate) fn assert_new(self) {
        let is_new = self.0 & !Self::UNPROTECTED == Self::LIVE;
        assert!(is_new, "{self:?} is not the state of a new cell");
    }

    /// The byte itself.
    pub fn bits(self) -> u8 {
        self.0
    }

    #[inline(always)]
    pub(crate) fn with(self, bits: u8) -> Self {
        Self(self.0 | bits)
    }

    #[inline(always)]
    pub(crate) fn without(self, bits: u8) -> Self {
        Self(self.0 & !bits)
    }
}

/// [`CellState::old_and_found`] of each state. It is a table because it is looked up for every
/// old cell that a collection finds.
static OLD_AND_FOUND: [u8; 256] = {
    const AGES: u8 = CellState::AGE_LOW | CellState::AGE_HIGH;
    let mut table = [0; 256];
    let mut index = 0;
    while index < table.len() {
        let state = index as u8;
        let ages = if state & CellState::OLD == 0 || state & CellState::UNPROTECTED != 0 {
            0
        } else if state & AGES != 0 {
            CellState::AGE_HIGH
        } else {
            CellState::AGE_LOW
        };
        table[index] = state & !AGES | CellState::MARKED | CellState::OLD | ages;
        index += 1;
    }
    table
};

/// [`CellState::wants_of_children`] of each state. It is a table because it is looked up for
/// every cell that is traced.
static WANTS_OF_CHILDREN: [u8; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < table.len() {
        let state = index as u8;
        let more = if state & CellState::OLD == 0 || state & CellState::UNPROTECTED != 0 {
            0
        } else {
            state & CellState::SETTLED
        };
        table[index] = CellState::MARKED | more;
        index += 1;
    }
    table
};

/// A word with the lowest bit set in the byte of each of the eight states that has all of
/// `BITS`.
#[inline(always)]
pub(crate) fn those_with<const BITS: u8>(eight: u64) -> u64 {
    let mut found = u64::from_ne_bytes([1; 8]);
    let mut bit = 0;
    while bit < 8 {
        if BITS >> bit & 1 == 1 {
            found &= eight >> bit;
        }
        bit += 1;
    }
    found
}

/// The eight states after a collection: each marked young cell has survived one more, and its
/// mark is cleared.
#[inline(always)]
pub(crate) fn eight_aged_once_more(eight: u64) -> u64 {
    const MARKED: u32 = CellState::MARKED.trailing_zeros();
    const OLD: u32 = CellState::OLD.trailing_zeros();
    const AGE_LOW: u32 = CellState::AGE_LOW.trailing_zeros();
    const AGE_HIGH: u32 = CellState::AGE_HIGH.trailing_zeros();
    let found = those_with::<{ CellState::MARKED }>(eight) & !(eight >> OLD);
    let aged = found & eight >> AGE_LOW;
    eight & !(found << MARKED) | found << AGE_LOW | aged << AGE_HIGH
}

/// The bits of age that a young cell needs to grow old when it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ageing(u8);

impl Ageing {
    /// The bit of a cell that has survived two collections.
    pub(crate) const SLOW: Self = Self(CellState::AGE_HIGH);
    /// No bits: whatever survives lasts.
    pub(crate) const AT_ONCE: Self = Self(0);
}

/// The bits that a cell wants in the cells that it refers to: `MARKED`, also `OLD` when it is
/// old itself, and also `AGE_HIGH` when it is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wants(u8);

impl Wants {
    /// The bits that roots want.
    pub(crate) const MARKED: Self = Self(CellState::MARKED);

    /// Whether an old cell wants these bits.
    #[inline(always)]
    pub(crate) fn old(self) -> bool {
        self.0 & CellState::OLD != 0
    }

    /// Whether a settled cell wants these bits.
    #[inline(always)]
    pub(crate) fn settled(self) -> bool {
        self.0 & CellState::AGE_HIGH != 0
    }
}

impl fmt::Debug for CellState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::FREE {
            return f.write_str("free");
        }
        if *self == Self::FORWARDED {
            return f.write_str("forwarded");
        }
        let names = [
            (self.is_live(), "live"),
            (self.is_marked(), "marked"),
            (self.is_old(), "old"),
            (self.is_aged(), "aged"),
            (self.is_settled(), "settled"),
            (self.is_on_boundary(), "on the boundary"),
            (self.is_unprotected(), "unprotected"),
            (self.is_remembered(), "remembered"),
            (self.is_pinned(), "pinned"),
        ];
        let set: Vec<_> = names.iter().filter(|(on, _)| *on).map(|n| n.1).collect();
        f.write_str(&set.join("+"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_cell_settles_when_it_is_found_twice_and_an_unprotected_one_never() {
        let white = |state: CellState| state.without(CellState::MARKED);
        let young = CellState::NEW.with(CellState::AGE_LOW | CellState::AGE_HIGH);
        let mut state = young.old_and_found();
        for is_settled in [false, false, true, true, true] {
            assert!(state.is_old() && state.is_marked() && !state.is_on_boundary());
            assert_eq!(state.is_settled(), is_settled, "{state:?}");
            state = white(state).old_and_found();
        }
        let boundary = state.with(CellState::AGE_LOW);
        assert!(boundary.is_on_boundary());
        assert_eq!(white(boundary).old_and_found(), state);
        let mut unprotected = CellState::NEW_UNPROTECTED.old_and_found();
        for _ in 0..3 {
            unprotected = white(unprotected).old_and_found();
            assert!(!unprotected.is_settled());
        }
    }

    #[test]
    fn what_a_cell_wants_of_others_is_what_it_is_itself_unless_it_has_no_barrier() {
        for bits in 0..=u8::MAX {
            let state = CellState(bits);
            let wants = state.wants_of_children();
            let has_barrier = !state.is_unprotected();
            assert_eq!(wants.old(), has_barrier && state.is_old(), "{state:?}");
            let is_settled = has_barrier && state.is_settled();
            assert_eq!(wants.settled(), is_settled, "{state:?}");
            assert!(state.with(CellState::MARKED).is_all_of(wants), "{state:?}");
            assert!(!state.without(CellState::MARKED).is_all_of(wants));
        }
    }
}
