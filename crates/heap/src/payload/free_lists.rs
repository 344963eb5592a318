//! The free pieces that one thread keeps, by kind of block.

use std::ptr::{with_exposed_provenance_mut, NonNull};
use std::sync::atomic::{compiler_fence, Ordering::Release};

use crate::layout::arena::{Arena, ArenaClass};
use crate::layout::class::ClassIndex;
use crate::layout::kind::{KindByte, KIND_COUNT};

/// At most this many bytes of one class are in a row; a cache keeps two rows.
const ROW_BYTES: usize = 4 * 1024;
/// And at most this many pieces.
const ROW_PIECES: usize = 32;
/// At least this many, also of the large classes.
const ROW_PIECES_MIN: usize = 1;

/// As many free pieces of a class as a full row has; each begins with the address of the
/// next, the last one with 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) first: NonNull<u8>,
}

// SAFETY: whoever has the row has its pieces, which nobody else uses.
unsafe impl Send for Row {}

/// Free pieces of a class, each beginning with the address of the next, the last one with
/// anything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    pub(super) first: NonNull<u8>,
    pub(super) last: NonNull<u8>,
    pub(super) count: usize,
}

/// Free pieces that one thread keeps, in a list for each kind of block: so the byte of a
/// piece's block is the place of its list, and whatever is no piece has a list without room.
///
/// A forked child has the lists as they were between two stores of their thread, and gives
/// their pieces back ([`ThreadCache::flush`]). So a piece is in a list only while it begins
/// with the address of the next, and never in two places at once; between two places it may
/// be in neither, and is lost to the child then.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct FreeLists {
    /// Address of the first piece; each begins with the address of the next. 0 ends the
    /// list.
    pub(crate) first: [usize; KIND_COUNT],
    /// How many more a list may have; of a full row none.
    pub(crate) room: [i8; KIND_COUNT],
}

const _: () = assert!(ROW_PIECES <= i8::MAX as usize);

/// Stores before this one in the program come before those after it in a forked child. The
/// compiler alone has to be told: what one thread has stored when its pages are taken away
/// from it is a beginning of what it executes, on every machine.
#[inline(always)]
pub(super) fn in_this_order() {
    compiler_fence(Release);
}

impl FreeLists {
    pub(super) fn new() -> Self {
        let mut lists = Self {
            first: [0; KIND_COUNT],
            room: [0; KIND_COUNT],
        };
        for of in ArenaClass::all() {
            *lists.room_of(of) = row_pieces(of.class()) as i8;
        }
        lists
    }

    #[inline(always)]
    fn first_of(&mut self, of: ArenaClass) -> &mut usize {
        &mut self.first[usize::from(KindByte::of_payloads(of).0)]
    }

    #[inline(always)]
    fn room_of(&mut self, of: ArenaClass) -> &mut i8 {
        &mut self.room[usize::from(KindByte::of_payloads(of).0)]
    }

    /// Leaves no room for pieces that are inherited: each goes to the pool, which notes it.
    pub(super) fn leave_inherited(&mut self) {
        for of in ArenaClass::all().filter(|of| of.arena() == Arena::INHERITED) {
            *self.room_of(of) = 0;
        }
    }

    /// Takes all pieces of a list that has as many as it may.
    pub(super) fn take_row(&mut self, of: ArenaClass) -> Option<Row> {
        debug_assert!(*self.room_of(of) == 0);
        let first = with_exposed_provenance_mut(self.take_all(of));
        NonNull::new(first).map(|first| Row { first })
    }

    /// Fills a list, which is empty.
    pub(super) fn put_row(&mut self, row: Row, of: ArenaClass) {
        debug_assert!(*self.first_of(of) == 0);
        debug_assert!(*self.room_of(of) == row_pieces(of.class()) as i8);
        *self.first_of(of) = row.first.as_ptr() as usize;
        *self.room_of(of) = 0;
    }

    /// Takes all pieces of a list, the address of the first.
    pub(super) fn take_all(&mut self, of: ArenaClass) -> usize {
        *self.room_of(of) = row_pieces(of.class()) as i8;
        std::mem::take(self.first_of(of))
    }

    #[inline(always)]
    pub(crate) fn pop(&mut self, of: ArenaClass) -> Option<NonNull<u8>> {
        let first = self.first_of(of);
        let piece = NonNull::new(with_exposed_provenance_mut::<u8>(*first))?;
        // SAFETY: a piece in a list is free and begins with the next address.
        *first = unsafe { piece.cast().read() };
        in_this_order();
        *self.room_of(of) += 1;
        Some(piece)
    }

    /// Puts pieces before those that its list has.
    pub(super) fn put_in_front(&mut self, chain: Chain, of: ArenaClass) {
        let first = self.first_of(of);
        // SAFETY: the piece is free and at least 16 bytes long.
        unsafe { chain.last.cast().write(*first) };
        *first = chain.first.as_ptr() as usize;
        *self.room_of(of) -= chain.count as i8;
    }

    /// Puts a payload of a block of this kind in its list, if that has room: of the kinds
    /// that are not pieces none has.
    ///
    /// # Safety
    /// Nobody uses the payload any more.
    #[inline(always)]
    pub(super) unsafe fn push(&mut self, payload: *mut u8, kind: KindByte) -> bool {
        let place = usize::from(kind.0);
        let room = &mut self.room[place];
        *room -= 1;
        if *room < 0 {
            *room = 0;
            return false;
        }
        // SAFETY: a list that has room is one of pieces. This one is free, and at least 16
        // bytes long.
        unsafe { payload.cast::<usize>().write(self.first[place]) };
        in_this_order();
        self.first[place] = payload as usize;
        true
    }
}

/// Pieces of a full row.
pub(super) fn row_pieces(class: ClassIndex) -> usize {
    (ROW_BYTES / class.bytes()).clamp(ROW_PIECES_MIN, ROW_PIECES)
}
