//! What a block holds: one byte in a side table.

use super::arena::{ArenaClass, ARENA_CLASS_COUNT};
use super::class::ClassIndex;
use super::width::{WidthIndex, WIDTH_COUNT};

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing; the block can be taken for any use.
    Empty,
    /// Object cells of one width.
    Cells(WidthIndex),
    /// Payloads of one size class, of one arena.
    Payloads(ArenaClass),
    /// The first block of a payload that is larger than the size classes.
    Span,
    /// A further block of such a payload.
    SpanRest,
}

/// [`Kind`] in one byte: 0 empty, then widths, then the payload classes of each arena, then
/// spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KindByte(pub(crate) u8);

/// How many values a [`KindByte`] may have.
pub(crate) const KIND_COUNT: usize = 1 << u8::BITS;

pub(crate) const FIRST_CELLS: u8 = 1;
pub(crate) const FIRST_PAYLOADS: u8 = 64;
pub(crate) const SPAN: u8 = 254;
pub(crate) const SPAN_REST: u8 = 255;

const _: () = assert!(FIRST_CELLS as usize + WIDTH_COUNT <= FIRST_PAYLOADS as usize);
const _: () = assert!(FIRST_PAYLOADS as usize + ARENA_CLASS_COUNT <= SPAN as usize);

impl KindByte {
    pub(crate) const EMPTY: Self = Self(0);
    pub(crate) const SPAN_REST: Self = Self(SPAN_REST);

    /// The width when the block holds cells.
    #[inline(always)]
    pub(crate) fn width(self) -> Option<WidthIndex> {
        let index = self.0.wrapping_sub(FIRST_CELLS);
        ((index as usize) < WIDTH_COUNT).then(|| WidthIndex::new(index as usize))
    }

    /// The size class when the block holds payloads.
    #[inline(always)]
    pub(crate) fn class(self) -> Option<ClassIndex> {
        self.arena_class().map(ArenaClass::class)
    }

    /// The size class and the arena when the block holds payloads.
    #[inline(always)]
    pub(crate) fn arena_class(self) -> Option<ArenaClass> {
        ArenaClass::at(self.0.wrapping_sub(FIRST_PAYLOADS))
    }

    /// The kind of a block that holds payloads of this class.
    #[inline(always)]
    pub(crate) fn of_payloads(of: ArenaClass) -> Self {
        Self(FIRST_PAYLOADS + of.index() as u8)
    }

    pub(crate) fn kind(self) -> Kind {
        match self.0 {
            0 => Kind::Empty,
            SPAN => Kind::Span,
            SPAN_REST => Kind::SpanRest,
            _ => match (self.width(), self.arena_class()) {
                (Some(width), _) => Kind::Cells(width),
                (_, Some(class)) => Kind::Payloads(class),
                _ => unreachable!("kind byte {}", self.0),
            },
        }
    }
}

impl From<Kind> for KindByte {
    fn from(kind: Kind) -> Self {
        Self(match kind {
            Kind::Empty => 0,
            Kind::Cells(width) => FIRST_CELLS + width.index() as u8,
            Kind::Payloads(of) => return Self::of_payloads(of),
            Kind::Span => SPAN,
            Kind::SpanRest => SPAN_REST,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_its_byte() {
        let kinds = WidthIndex::all()
            .map(Kind::Cells)
            .chain(ArenaClass::all().map(Kind::Payloads))
            .chain([Kind::Empty, Kind::Span, Kind::SpanRest]);
        for kind in kinds {
            assert_eq!(KindByte::from(kind).kind(), kind);
        }
    }
}
