//! Blocks of pieces that a forked child has from its parent.
//!
//! A child shares their pages with others (`heap::inherited`), so it neither allocates
//! from them nor writes links into what it frees there. They belong to an arena that nobody
//! allocates from, and what is freed is noted beside them ([`super::notes`]). When a block is
//! taken over, its noted pieces become free pieces like others.
//!
//! Invariant 7 counts noted pieces as free.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

use super::notes::{forget_notes, free_noted, note_of};
use super::pool::{blocks_of_pieces, has_piece, link, Pool};
use super::supply::Supply;
use super::Payloads;
use crate::layout::arena::{Arena, ArenaClass};
use crate::layout::block::BlockIndex;
use crate::layout::kind::Kind;
use crate::space::Space;

impl Payloads {
    /// Whether this process keeps apart what it has from its parent.
    pub(crate) fn inherits(&self) -> bool {
        self.inherits.load(Relaxed)
    }

    /// Whether this process still has a block of pieces from its parent that it has not taken over.
    pub(crate) fn has_inherited_blocks(&self) -> bool {
        self.inherits() && self.lock().inherited_blocks > 0
    }

    /// Makes the pieces in the pool inherited. This process has just been forked, and has one
    /// thread.
    pub(crate) fn inherit(&self, space: &Space) {
        self.inherits.store(true, Relaxed);
        self.lock().inherit(space);
    }
}

impl Pool {
    fn inherit(&mut self, space: &Space) {
        self.give_rows_back(space);
        for (index, of) in blocks_of_pieces(space, 0..space.blocks.used_limit()) {
            if self.is_inherited(of) {
                continue;
            }
            // Nobody would ever free a piece of it.
            if space.region.block(index).used.get() == 0 {
                self.unlist(space, index, of);
                space.lock_blocks().give(index, 1);
                continue;
            }
            self.move_to(space, index, of, Arena::INHERITED);
            self.inherited_blocks += 1;
        }
        self.inherits = true;
    }

    pub(super) fn is_inherited(&self, of: ArenaClass) -> bool {
        self.inherits && of.arena() == Arena::INHERITED
    }

    /// Takes over those inherited blocks with these numbers for which `is_wanted` returns
    /// true.
    pub(crate) fn take_over(
        &mut self,
        space: &Space,
        numbers: Range<usize>,
        mut is_wanted: impl FnMut(BlockIndex) -> bool,
    ) {
        for (index, of) in blocks_of_pieces(space, numbers) {
            if self.is_inherited(of) && is_wanted(index) {
                free_noted(space, index, of);
                self.move_to(space, index, of, Arena::default());
                self.inherited_blocks -= 1;
            }
        }
    }

    fn move_to(&mut self, space: &Space, index: BlockIndex, of: ArenaClass, arena: Arena) {
        let now_of = arena.class(of.class());
        self.unlist(space, index, of);
        space.region.set_kind(index, Kind::Payloads(now_of));
        if has_piece(space, index, of.class()) {
            self.list(space, index, now_of);
        }
    }

    /// Takes a piece of an inherited block back, without writing into it.
    fn note(&mut self, space: &Space, piece: usize, index: BlockIndex, of: ArenaClass) {
        let block = space.region.block(index);
        let (entry, bit) = note_of(space, index, piece);
        entry.fetch_or(bit, Relaxed);
        block.used.set(block.used.get() - 1);
        if block.used.get() == 0 {
            self.unlist(space, index, of);
            forget_notes(space, index);
            space.lock_blocks().give(index, 1);
            self.inherited_blocks -= 1;
        }
    }

    /// Takes back `count` pieces of an inherited block, which are linked from `first` on: those that a cache had
    /// when the process was forked, such as the cache of a thread that the process does not have.
    pub(super) fn note_run(
        &mut self,
        space: &Space,
        index: BlockIndex,
        of: ArenaClass,
        first: usize,
        count: usize,
    ) {
        let mut piece = first;
        for _ in 0..count {
            // SAFETY: a free piece begins with the address of the next. It is read before the piece is noted,
            // because the block of the last piece may become free.
            let next = unsafe { link(space, piece).read() };
            self.note(space, piece, index, of);
            piece = next;
        }
    }

    /// Takes a single piece back, in a process that inherits.
    fn give_piece(&mut self, space: &Space, piece: NonNull<u8>) {
        let address = piece.as_ptr() as usize;
        let Some(index) = space.region.block_at(address) else {
            return;
        };
        match space.region.kind(index) {
            Kind::Payloads(of) if self.is_inherited(of) => self.note(space, address, index, of),
            _ => {
                // SAFETY: the piece is free and at least 16 bytes long.
                unsafe { piece.cast::<usize>().write(0) };
                self.give(space, address);
            }
        }
    }
}

impl Supply<'_> {
    pub(super) fn is_inherited(self, of: ArenaClass) -> bool {
        of.arena() == Arena::INHERITED && self.payloads.inherits()
    }

    /// When memory is out: takes over the inherited blocks of a class. Returns whether that may
    /// help.
    #[cold]
    pub(super) fn take_over_class(self, pool: &mut Pool, of: ArenaClass) -> bool {
        if !self.payloads.inherits() || of.arena() != Arena::default() {
            return false;
        }
        let inherited = Kind::Payloads(Arena::INHERITED.class(of.class()));
        let all = 0..self.space.blocks.used_limit();
        pool.take_over(self.space, all, |index| {
            self.space.region.kind(index) == inherited
        });
        true
    }

    /// Takes a piece back that was inherited when its kind was read.
    pub(super) fn free_inherited(self, piece: NonNull<u8>, of: ArenaClass) {
        self.give_back(|space, pool| {
            pool.give_piece(space, piece);
            of.class().bytes()
        });
    }
}
