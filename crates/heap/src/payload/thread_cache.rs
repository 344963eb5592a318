//! A thread's door to the payloads of a heap: its own free pieces, so that most
//! allocations and frees take no lock.

use std::ptr::{with_exposed_provenance_mut, NonNull};
use std::sync::atomic::{compiler_fence, Ordering::Release};

use super::arena::{Arena, ArenaClass};
use super::class::{ClassIndex, CLASS_COUNT, CLASS_MAX_BYTES, PAYLOAD_ALIGN};
use super::pool::{Chain, Row};
use super::supply::Supply;
use super::{OutOfMemory, Payloads, Resized};
use crate::layout::kind::{KindByte, KIND_COUNT};
use crate::layout::region::Kinds;
use crate::layout::BLOCK_BYTES;
use crate::space::Space;

/// At most this many bytes of one class are in a row; a cache keeps two rows.
const ROW_BYTES: usize = 4 * 1024;
/// And at most this many pieces.
const ROW_PIECES: usize = 32;
/// At least this many, also of the large classes.
const ROW_PIECES_MIN: usize = 1;

/// Allocates and frees payloads of one heap on behalf of one thread.
///
/// The pieces that it keeps are lost to the heap when it is dropped:
/// [`ThreadCache::flush`] gives them back before.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ThreadCache<'heap> {
    pub(crate) lists: FreeLists,
    /// A copy of the region's, one load nearer.
    kinds: Kinds<'heap>,
    /// The arena that this thread allocates from. What it frees of others waits in their
    /// lists for a row to be full, which then goes back to them.
    arena: Arena,
    /// A full row of each class of that arena, or none: what is put aside when a list is full
    /// and gets one more, and taken when one is empty. So a program that allocates and frees
    /// in turns leaves the pool alone, and rows change hands whole.
    spares: [Option<Row>; CLASS_COUNT],
    supply: Supply<'heap>,
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
fn in_this_order() {
    compiler_fence(Release);
}

impl FreeLists {
    fn new() -> Self {
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
    pub(super) fn room_of(&mut self, of: ArenaClass) -> &mut i8 {
        &mut self.room[usize::from(KindByte::of_payloads(of).0)]
    }

    /// Takes all pieces of a list that has as many as it may.
    fn take_row(&mut self, of: ArenaClass) -> Option<Row> {
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
    unsafe fn push(&mut self, payload: *mut u8, kind: KindByte) -> bool {
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

impl<'heap> ThreadCache<'heap> {
    /// An empty cache. Both parts must be of one heap.
    pub(crate) fn new(space: &'heap Space, payloads: &'heap Payloads, arena: Arena) -> Self {
        let mut cache = Self {
            lists: FreeLists::new(),
            kinds: space.region.kinds(),
            arena,
            spares: [None; CLASS_COUNT],
            supply: Supply { space, payloads },
        };
        cache.leave_inherited();
        cache
    }

    fn leave_inherited(&mut self) {
        if self.supply.payloads.inherits() {
            self.lists.leave_inherited();
        }
    }

    /// Allocates at least `size` bytes (at least one), aligned to 16.
    #[inline(always)]
    pub fn allocate(&mut self, size: usize) -> Result<NonNull<u8>, OutOfMemory> {
        match ClassIndex::for_size(size) {
            Some(class) => match self.lists.pop(self.arena.class(class)) {
                Some(piece) => Ok(piece),
                None => self.refill(class),
            },
            None => self.supply.allocate_span(size),
        }
    }

    /// Takes one of the pieces that the cache keeps, of at least `size` bytes, if
    /// there is one: the part of [`ThreadCache::allocate`] that never waits.
    #[inline(always)]
    pub fn allocate_at_once(&mut self, size: usize) -> Option<NonNull<u8>> {
        self.lists
            .pop(self.arena.class(ClassIndex::for_size(size)?))
    }

    /// Allocates at least `size` zeroed bytes.
    pub fn allocate_zeroed(&mut self, size: usize) -> Result<NonNull<u8>, OutOfMemory> {
        if size > CLASS_MAX_BYTES {
            return self.supply.allocate_zeroed_span(size);
        }
        let piece = self.allocate(size)?;
        // SAFETY: the piece has at least `size` bytes and nobody else has it.
        unsafe { piece.as_ptr().write_bytes(0, size) };
        Ok(piece)
    }

    /// Allocates at least `size` bytes aligned to `align`, a power of two.
    ///
    /// # Panics
    /// When it is none, and not small.
    pub fn allocate_aligned(
        &mut self,
        size: usize,
        align: usize,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        if align <= PAYLOAD_ALIGN {
            return self.allocate(size);
        }
        assert!(align.is_power_of_two());
        if align > BLOCK_BYTES {
            return self.supply.allocate_aligned_span(size, align);
        }
        // Pieces start at multiples of their size.
        match ClassIndex::for_size(size.max(align)) {
            Some(class) => self.allocate(class.aligned_to(align).bytes()),
            None => self.supply.allocate_aligned_span(size, BLOCK_BYTES),
        }
    }

    /// Takes a payload back.
    ///
    /// # Safety
    /// `payload` must come from this heap and nobody may use it any more.
    #[inline(always)]
    pub unsafe fn free(&mut self, payload: NonNull<u8>) {
        // SAFETY: the caller's contract.
        unsafe {
            if !self.free_at_once(payload.as_ptr()) {
                self.free_slowly(payload);
            }
        }
    }

    /// Takes a payload back if the cache can keep it: the part of [`ThreadCache::free`] that
    /// never waits. It says no to null and to memory of others.
    ///
    /// # Safety
    /// As for [`ThreadCache::free`], if `payload` lies in this heap; when the answer is no, it
    /// goes on being the caller's.
    #[inline(always)]
    pub unsafe fn free_at_once(&mut self, payload: *mut u8) -> bool {
        match self.kinds.at(payload as usize) {
            // SAFETY: the caller's contract.
            Some(kind) => unsafe { self.lists.push(payload, kind) },
            None => false,
        }
    }

    /// Takes a payload back that its list has no room for.
    ///
    /// # Safety
    /// As for [`ThreadCache::free`].
    #[cold]
    #[inline(never)]
    unsafe fn free_slowly(&mut self, payload: NonNull<u8>) {
        let address = payload.as_ptr() as usize;
        let kind = self.kinds.at(address).unwrap_or(KindByte::EMPTY);
        match kind.arena_class() {
            Some(of) if self.supply.is_inherited(of) => self.supply.free_inherited(payload, of),
            Some(of) => {
                self.put_aside(of);
                // SAFETY: the caller's contract.
                unsafe { self.lists.push(payload.as_ptr(), kind) };
            }
            None => self.supply.free_span(address),
        }
    }

    /// [`ThreadCache::resize`] for those who look for the payload where it is now.
    ///
    /// # Safety
    /// As for [`ThreadCache::resize`].
    pub unsafe fn reallocate(
        &mut self,
        payload: NonNull<u8>,
        size: usize,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        // SAFETY: the caller's contract.
        match unsafe { self.resize(payload, size) }? {
            Resized::InPlace => Ok(payload),
            Resized::Moved(moved) => Ok(moved),
        }
    }

    /// Changes the size of a payload, keeping its contents up to the smaller
    /// size; in place where that is possible without wasting half of it.
    ///
    /// # Safety
    /// As for [`ThreadCache::free`], unless an error comes back or it stays in place: then
    /// it goes on being the caller's.
    pub unsafe fn resize(
        &mut self,
        payload: NonNull<u8>,
        size: usize,
    ) -> Result<Resized, OutOfMemory> {
        let address = payload.as_ptr() as usize;
        let old_bytes = self.supply.space.usable_bytes(address).unwrap_or(0);
        let both_are_spans = old_bytes > CLASS_MAX_BYTES && size > CLASS_MAX_BYTES;
        let stays = match both_are_spans {
            true => self.supply.resize_span_in_place(address, size),
            // What fits and fills more than half stays where it is.
            false => size <= old_bytes && size > old_bytes / 2,
        };
        if stays {
            return Ok(Resized::InPlace);
        }
        if both_are_spans {
            return self.supply.move_span(address, size).map(Resized::Moved);
        }
        let fresh = self.allocate(size)?;
        let kept_bytes = size.min(old_bytes);
        // SAFETY: two different payloads, both at least this long; the old one
        // is not used after this (caller's contract).
        unsafe {
            std::ptr::copy_nonoverlapping(payload.as_ptr(), fresh.as_ptr(), kept_bytes);
            self.free(payload);
        }
        self.supply.payloads.note_moved(kept_bytes);
        Ok(Resized::Moved(fresh))
    }

    /// Changes the size of a payload where it is, or else does nothing; whether it has
    /// room for `size` bytes now. For an owner that has pointers into it.
    ///
    /// # Safety
    /// `payload` is the caller's, of this heap.
    pub unsafe fn resize_in_place(&mut self, payload: NonNull<u8>, size: usize) -> bool {
        let address = payload.as_ptr() as usize;
        match self.supply.space.usable_bytes(address) {
            None => false,
            Some(old_bytes) if old_bytes > CLASS_MAX_BYTES => {
                self.supply.resize_span_in_place(address, size)
            }
            Some(old_bytes) => size <= old_bytes,
        }
    }

    /// Gives every piece back to the heap. A cache that a forked child has from its parent needs
    /// it after [`Heap::inherit`](crate::Heap::inherit).
    pub fn flush(&mut self) {
        let mut pool = self.supply.open();
        for class in ClassIndex::all() {
            if let Some(spare) = self.spares[class.index()].take() {
                pool.pieces(spare.first.as_ptr() as usize, self.arena.class(class));
            }
        }
        for of in ArenaClass::all() {
            pool.pieces(self.lists.take_all(of), of);
        }
        self.leave_inherited();
        pool.rows_of_pool();
        pool.close();
    }

    #[cold]
    #[inline(never)]
    fn refill(&mut self, class: ClassIndex) -> Result<NonNull<u8>, OutOfMemory> {
        let of = self.arena.class(class);
        match self.spares[class.index()].take() {
            Some(spare) => {
                in_this_order();
                self.lists.put_row(spare, of);
            }
            None => self.supply.refill(&mut self.lists, of),
        }
        self.lists.pop(of).ok_or(OutOfMemory)
    }

    /// Empties a list that is full.
    fn put_aside(&mut self, of: ArenaClass) {
        let is_own = of.arena() == self.arena;
        let spare = &mut self.spares[of.class().index()];
        if is_own && spare.is_none() {
            let row = self.lists.take_row(of);
            in_this_order();
            *spare = row;
            return;
        }
        let mut pool = self.supply.open();
        let row = self.lists.take_row(of);
        let given = match is_own {
            true => std::mem::replace(spare, row),
            false => row,
        };
        if let Some(row) = given {
            pool.row(row, of);
        }
        pool.close();
    }
}

/// Pieces of a full row.
pub(super) fn row_pieces(class: ClassIndex) -> usize {
    (ROW_BYTES / class.bytes()).clamp(ROW_PIECES_MIN, ROW_PIECES)
}
