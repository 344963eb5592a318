//! The free pieces that one thread keeps, by kind of block.

use std::ptr::{with_exposed_provenance_mut, NonNull};
use std::sync::atomic::{compiler_fence, Ordering::Release};

use crate::layout::arena::{Arena, ArenaClass};
use crate::layout::class::ClassIndex;
use crate::layout::kind::{KindByte, KIND_COUNT};

/// At most this many bytes of one class are in a row; a cache keeps two rows.
const ROW_BYTES: usize = 4 * 1024;
/// A row also has at most this many pieces.
const ROW_PIECES: usize = 32;
/// A row has at least this many pieces, also of the large classes.
const ROW_PIECES_MIN: usize = 1;

/// The free pieces of a full row, all of one class. Each begins with the address of the
/// next, the last one with 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) first: NonNull<u8>,
}

// SAFETY: whoever has the row has its pieces, which nobody else uses.
unsafe impl Send for Row {}

/// Free pieces of a class. Each begins with the address of the next; what the last one begins
/// with means nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    pub(super) first: NonNull<u8>,
    pub(super) last: NonNull<u8>,
    pub(super) count: usize,
}

/// Free pieces that one thread keeps, in a list for each kind of block: so the kind byte of a
/// piece's block is the index of its list, and whatever is no piece has a list without room.
///
/// A forked child has the lists as they were between two stores of their thread, and gives
/// their pieces back ([`ThreadCache::flush`](super::thread_cache::ThreadCache::flush)). So a piece is in a list only while it begins
/// with the address of the next, and never in two places at once; between two places it may
/// be in neither, and is lost to the child then.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct FreeLists {
    /// Address of the first piece; each begins with the address of the next. 0 ends the
    /// list.
    pub(crate) first: [usize; KIND_COUNT],
    /// How many more pieces each list may have; 0 when it has a full row.
    pub(crate) room: [i8; KIND_COUNT],
}

const _: () = assert!(ROW_PIECES <= i8::MAX as usize);

/// In a forked child, the stores before this call in the program come before those after it.
/// Only the compiler has to keep that order: on every machine, what a thread has stored when
/// its pages are taken away is what it executed up to some point.
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

    /// Takes all pieces of a list that is full.
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

    /// Takes all pieces of a list. Returns the address of the first, 0 for none.
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

    /// Puts pieces in front of those that are in their list.
    pub(super) fn put_in_front(&mut self, chain: Chain, of: ArenaClass) {
        let first = self.first_of(of);
        // SAFETY: the piece is free and at least 16 bytes long.
        unsafe { chain.last.cast().write(*first) };
        *first = chain.first.as_ptr() as usize;
        *self.room_of(of) -= chain.count as i8;
    }

    /// Puts a payload of a block of this kind in the list of that kind, if the list has room,
    /// and returns whether it had. The lists of kinds that hold no pieces have no room.
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
        // SAFETY: a list that has room is a list of pieces. This piece is free, and at least 16
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
