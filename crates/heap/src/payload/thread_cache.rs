//! A thread's door to the payloads of a heap: its own free pieces, so that most
//! allocations and frees take no lock.

use std::ptr::{with_exposed_provenance_mut, NonNull};

use super::arena::{Arena, ArenaClass, ARENA_CLASS_COUNT};
use super::class::{ClassIndex, CLASS_COUNT, CLASS_MAX_BYTES, PAYLOAD_ALIGN};
use super::pool::{Chain, Row};
use super::supply::Supply;
use super::{OutOfMemory, Payloads, Resized};
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
    /// A full row of each class of that arena, or none: what is put aside when a list is over its limit,
    /// and taken when one is empty. So a program that allocates and frees in turns leaves
    /// the pool alone, and rows change hands whole.
    spares: [Option<Row>; CLASS_COUNT],
    supply: Supply<'heap>,
}

/// Free pieces of one class.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct FreeList {
    /// Address of the first one; each piece begins with the address of the next.
    /// 0 ends the list.
    pub(crate) first: usize,
    /// How many more it may have: of a full row none, and -1 when it has one too many.
    pub(crate) room: i32,
}

/// Free pieces that one thread keeps, by arena and size class.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct FreeLists([FreeList; ARENA_CLASS_COUNT]);

impl FreeLists {
    fn new() -> Self {
        let mut lists = [FreeList::default(); ARENA_CLASS_COUNT];
        for of in ArenaClass::all() {
            lists[of.index()].room = row_pieces(of.class()) as i32;
        }
        Self(lists)
    }

    /// Takes all pieces of a list that has as many as it may.
    fn take_row(&mut self, of: ArenaClass) -> Option<Row> {
        let list = &mut self.0[of.index()];
        debug_assert!(list.room == 0);
        list.room = row_pieces(of.class()) as i32;
        let first = with_exposed_provenance_mut(std::mem::take(&mut list.first));
        NonNull::new(first).map(|first| Row { first })
    }

    /// Fills a list, which is empty.
    pub(super) fn put_row(&mut self, row: Row, of: ArenaClass) {
        let list = &mut self.0[of.index()];
        debug_assert!(list.first == 0 && list.room == row_pieces(of.class()) as i32);
        list.first = row.first.as_ptr() as usize;
        list.room = 0;
    }

    /// Takes all pieces of a list, the address of the first.
    pub(super) fn take_all(&mut self, of: ArenaClass) -> usize {
        let list = &mut self.0[of.index()];
        list.room = row_pieces(of.class()) as i32;
        std::mem::take(&mut list.first)
    }

    #[inline(always)]
    pub(crate) fn pop(&mut self, of: ArenaClass) -> Option<NonNull<u8>> {
        let list = &mut self.0[of.index()];
        let piece = NonNull::new(with_exposed_provenance_mut::<u8>(list.first))?;
        // SAFETY: a piece in a list is free and begins with the next address.
        list.first = unsafe { piece.cast().read() };
        list.room += 1;
        Some(piece)
    }

    /// Puts pieces before those that its list has.
    pub(super) fn put_in_front(&mut self, chain: Chain, of: ArenaClass) {
        let list = &mut self.0[of.index()];
        // SAFETY: the piece is free and at least 16 bytes long.
        unsafe { chain.last.cast().write(list.first) };
        list.first = chain.first.as_ptr() as usize;
        list.room -= chain.count as i32;
    }

    /// Puts a free piece in its list; true when that has one too many now.
    #[inline(always)]
    pub(crate) fn push(&mut self, piece: NonNull<u8>, of: ArenaClass) -> bool {
        let list = &mut self.0[of.index()];
        // SAFETY: the piece is free and at least 16 bytes long.
        unsafe { piece.cast().write(list.first) };
        list.first = piece.as_ptr() as usize;
        list.room -= 1;
        list.room < 0
    }
}

impl<'heap> ThreadCache<'heap> {
    /// An empty cache. Both parts must be of one heap.
    pub(crate) fn new(space: &'heap Space, payloads: &'heap Payloads, arena: Arena) -> Self {
        Self {
            lists: FreeLists::new(),
            kinds: space.region.kinds(),
            arena,
            spares: [None; CLASS_COUNT],
            supply: Supply { space, payloads },
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
    pub fn allocate_aligned(
        &mut self,
        size: usize,
        align: usize,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        if align <= PAYLOAD_ALIGN {
            return self.allocate(size);
        }
        if align > BLOCK_BYTES {
            return self.supply.allocate_aligned_span(size, align);
        }
        // Pieces start at multiples of their size, spans at blocks.
        let size = match ClassIndex::for_size(size.max(align)) {
            Some(class) => class.aligned_to(align).bytes(),
            None => size.max(align),
        };
        self.allocate(size)
    }

    /// Takes a payload back.
    ///
    /// # Safety
    /// `payload` must come from this heap and nobody may use it any more.
    #[inline(always)]
    pub unsafe fn free(&mut self, payload: NonNull<u8>) {
        let address = payload.as_ptr() as usize;
        match self.kinds.at(address).arena_class() {
            Some(of) => {
                if self.lists.push(payload, of) {
                    self.put_aside(of);
                }
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

    /// Gives every piece back to the heap.
    pub fn flush(&mut self) {
        for class in ClassIndex::all() {
            if let Some(spare) = self.spares[class.index()].take() {
                let first = spare.first.as_ptr() as usize;
                self.supply.give_back(first, self.arena.class(class));
            }
        }
        for of in ArenaClass::all() {
            self.supply.give_back(self.lists.take_all(of), of);
        }
        self.supply.payloads.give_rows_back(self.supply.space);
    }

    #[cold]
    #[inline(never)]
    fn refill(&mut self, class: ClassIndex) -> Result<NonNull<u8>, OutOfMemory> {
        let of = self.arena.class(class);
        match self.spares[class.index()].take() {
            Some(spare) => self.lists.put_row(spare, of),
            None => self.supply.refill(&mut self.lists, of),
        }
        self.lists.pop(of).ok_or(OutOfMemory)
    }

    #[cold]
    #[inline(never)]
    fn put_aside(&mut self, of: ArenaClass) {
        // The latest stays, so that giving and taking in turns does not end here each time.
        let latest = self.lists.pop(of);
        let row = self.lists.take_row(of);
        if let Some(latest) = latest {
            self.lists.push(latest, of);
        }
        let given = match of.arena() == self.arena {
            true => std::mem::replace(&mut self.spares[of.class().index()], row),
            false => row,
        };
        if let Some(row) = given {
            self.supply.give_row(row, of);
        }
    }
}

/// Pieces of a full row.
pub(super) fn row_pieces(class: ClassIndex) -> usize {
    (ROW_BYTES / class.bytes()).clamp(ROW_PIECES_MIN, ROW_PIECES)
}
