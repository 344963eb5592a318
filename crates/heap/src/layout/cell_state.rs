//! The state of a cell: one byte in a side table.

use std::fmt;

/// What the collector knows about one cell.
///
/// Invariants (the verifier asserts the same numbers):
/// 1. A free cell has no bit set.
/// 2. `OLD` implies `LIVE`; outside a full collection it implies `MARKED`.
/// 3. `REMEMBERED` implies `OLD`, and the cell is in the remembered set once.
/// 4. A cell that is `OLD` and `UNPROTECTED` is `REMEMBERED`.
/// 5. An `OLD` cell that is not `REMEMBERED` refers to `OLD` cells only.
///
/// 13 and 14, about cells that move, are in `compact/mod.rs`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CellState(pub(crate) u8);

impl CellState {
    /// Nothing lives here.
    pub const FREE: Self = Self(0);
    /// Freshly allocated, young, with a write barrier.
    pub const NEW: Self = Self(Self::LIVE);
    /// Freshly allocated, young, without a write barrier.
    pub const NEW_UNPROTECTED: Self = Self(Self::LIVE | Self::UNPROTECTED);

    /// What lived here has moved; the cell holds its new address until every
    /// reference has been rewritten.
    pub(crate) const FORWARDED: Self = Self(Self::PINNED);

    /// Handed out to the program and not yet swept.
    pub(crate) const LIVE: u8 = 1;
    /// Reached in the current or latest collection.
    pub(crate) const MARKED: u8 = 1 << 1;
    /// Survived often enough: kept by minor collections without being traced.
    pub(crate) const OLD: u8 = 1 << 2;
    /// Survived one collection.
    pub(crate) const AGED: u8 = 1 << 3;
    /// Survived two.
    pub(crate) const AGED_TWICE: u8 = 1 << 7;
    /// The program writes to it without telling: traced anew in every
    /// collection.
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
        self.0 & Self::AGED != 0
    }

    /// How many collections it survived: 0, 1 or 2, and 3 when it is old.
    pub fn age(self) -> u8 {
        match self {
            _ if self.is_old() => 3,
            _ if self.0 & Self::AGED_TWICE != 0 => 2,
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

    /// The state of a young cell that has survived one more collection.
    #[inline(always)]
    pub(crate) fn aged_once_more(self) -> Self {
        self.with(if self.is_aged() {
            Self::AGED_TWICE
        } else {
            Self::AGED
        })
    }

    /// Whether being found once more makes it old. Unprotected cells grow old
    /// only with what refers to them: old, they would be traced every time.
    #[inline(always)]
    pub(crate) fn grows_old(self) -> bool {
        self.0 & (Self::AGED_TWICE | Self::UNPROTECTED) == Self::AGED_TWICE
    }

    /// The state of a white cell that is found while several threads mark: what
    /// it would be if no old cell referred to it. An unprotected cell is remembered
    /// as long as it is old (invariant 4).
    #[inline(always)]
    pub(crate) fn found_by_several(self) -> Self {
        if !self.is_old() && !self.grows_old() {
            return self.with(Self::MARKED);
        }
        let remembered = match self.is_unprotected() {
            true => Self::REMEMBERED,
            false => 0,
        };
        self.with(Self::MARKED | Self::OLD | remembered)
    }

    /// Whether it must not move.
    #[inline(always)]
    pub fn is_pinned(self) -> bool {
        self.0 & Self::PINNED != 0
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

    /// Whoever finds it, and however often: nothing but these bits is added.
    #[test]
    fn a_white_cell_becomes_marked_and_old_when_it_is_time_and_is_remembered_then_if_unprotected() {
        for bits in (0..=u8::MAX).filter(|bits| bits & CellState::MARKED == 0) {
            let state = CellState(bits);
            let found = state.found_by_several();
            let is_old = state.is_old() || state.grows_old();
            assert!(found.is_marked(), "{state:?}");
            assert_eq!(found.is_old(), is_old, "{state:?}");
            let is_remembered = state.is_remembered() || is_old && state.is_unprotected();
            assert_eq!(found.is_remembered(), is_remembered, "{state:?}");
            let may_change = CellState::MARKED | CellState::OLD | CellState::REMEMBERED;
            assert_eq!(found.without(may_change), state.without(may_change));
            assert_eq!(found.found_by_several(), found, "{state:?}");
        }
    }
}
