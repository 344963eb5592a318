//! A thread's door to the payloads of a heap: its own free pieces, so that most
//! allocations and frees take no lock.

use std::ptr::NonNull;

use super::free_lists::{in_this_order, FreeLists, Row};
use super::supply::Supply;
use super::{OutOfMemory, Payloads, Resized};
use crate::layout::arena::{Arena, ArenaClass};
use crate::layout::class::{ClassIndex, CLASS_COUNT, CLASS_MAX_BYTES, PAYLOAD_ALIGN};
use crate::layout::kind::KindByte;
use crate::layout::region::Kinds;
use crate::layout::BLOCK_BYTES;
use crate::space::Space;

/// Allocates and frees payloads of one heap on behalf of one thread.
///
/// The pieces that a cache keeps are lost to the heap when the cache is dropped:
/// call [`ThreadCache::flush`] first, which gives them back.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ThreadCache<'heap> {
    pub(crate) lists: FreeLists,
    /// Where the region's table of kinds is, copied to save a load.
    kinds: Kinds<'heap>,
    /// The arena that this thread allocates from. Pieces of other arenas that it frees wait in
    /// lists of their own until a row is full, which then goes back to its arena.
    arena: Arena,
    /// A full row of each class of that arena, or none. A row is put aside when a list is full
    /// and gets one piece more, and taken when a list is empty. So a program that allocates and
    /// frees in turns leaves the pool alone, and rows change hands whole.
    spares: [Option<Row>; CLASS_COUNT],
    supply: Supply<'heap>,
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
    /// When `align` is above 16 and not a power of two.
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
        // SAFETY: the payload comes from this heap, and nobody uses it any more.
        unsafe {
            if !self.free_at_once(payload.as_ptr()) {
                self.free_slowly(payload);
            }
        }
    }

    /// Takes a payload back if the cache can keep it: the part of [`ThreadCache::free`] that
    /// never waits. Returns false for null and for memory outside this heap.
    ///
    /// # Safety
    /// As for [`ThreadCache::free`], if `payload` lies in this heap. When this returns false,
    /// `payload` is still the caller's.
    #[inline(always)]
    pub unsafe fn free_at_once(&mut self, payload: *mut u8) -> bool {
        match self.kinds.at(payload as usize) {
            // SAFETY: where there is a kind the payload lies in this heap; it is free now.
            Some(kind) => unsafe { self.lists.push(payload, kind) },
            None => false,
        }
    }

    /// Takes back a payload for which its list has no room.
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
                // SAFETY: the payload is one of this heap's pieces, and is free now.
                let push = |lists: &mut FreeLists| unsafe { lists.push(payload.as_ptr(), kind) };
                // There is room if the block was inherited a moment ago, and has been taken over since.
                if !push(&mut self.lists) {
                    self.put_aside(of);
                    push(&mut self.lists);
                }
            }
            None => self.supply.free_span(address),
        }
    }

    /// [`ThreadCache::resize`], returning the payload's address whether it has moved or not.
    ///
    /// # Safety
    /// As for [`ThreadCache::resize`].
    pub unsafe fn reallocate(
        &mut self,
        payload: NonNull<u8>,
        size: usize,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        // SAFETY: the payload is in use, and the caller goes on with the one that is returned.
        match unsafe { self.resize(payload, size) }? {
            Resized::InPlace => Ok(payload),
            Resized::Moved(moved) => Ok(moved),
        }
    }

    /// Changes the size of a payload, keeping its contents up to the smaller
    /// size; in place where that is possible without wasting half of it.
    ///
    /// # Safety
    /// As for [`ThreadCache::free`], unless this returns an error or the payload stays in place:
    /// then the payload is still the caller's.
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
        let fresh = match self.allocate(size) {
            Ok(fresh) => fresh,
            // To make a payload smaller needs no memory, though it may then waste some.
            Err(OutOfMemory) if size <= old_bytes => {
                if old_bytes > CLASS_MAX_BYTES {
                    let span_bytes = size.max(CLASS_MAX_BYTES + 1);
                    self.supply.resize_span_in_place(address, span_bytes);
                }
                return Ok(Resized::InPlace);
            }
            Err(OutOfMemory) => return Err(OutOfMemory),
        };
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

    /// Changes the size of a payload where it is, or else does nothing. Returns whether the
    /// payload has room for `size` bytes now. For an owner that has pointers into the payload.
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

    /// Gives every piece back to the heap. A forked child has to call this after
    /// [`Heap::inherit`](crate::Heap::inherit) for each cache that it has from its parent.
    pub fn flush(&mut self) {
        self.supply.give_back(|space, pool| {
            let mut given_bytes = 0;
            for class in ClassIndex::all() {
                if let Some(spare) = self.spares[class.index()].take() {
                    let first = spare.first.as_ptr() as usize;
                    given_bytes += pool.give(space, first) * class.bytes();
                }
            }
            for of in ArenaClass::all() {
                let first = self.lists.take_all(of);
                given_bytes += pool.give(space, first) * of.class().bytes();
            }
            self.leave_inherited();
            pool.give_rows_back(space);
            given_bytes
        });
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

    /// Empties a list that is full: its row becomes the spare, or goes to the pool.
    fn put_aside(&mut self, of: ArenaClass) {
        let is_own = of.arena() == self.arena;
        let spare = &mut self.spares[of.class().index()];
        if is_own && spare.is_none() {
            let row = self.lists.take_row(of);
            in_this_order();
            *spare = row;
            return;
        }
        self.supply.give_back(|space, pool| {
            let row = self.lists.take_row(of);
            let given = match is_own {
                true => std::mem::replace(spare, row),
                false => row,
            };
            given.map_or(0, |row| pool.give_row(space, row, of))
        });
    }
}
