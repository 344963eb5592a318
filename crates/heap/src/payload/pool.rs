//! Pieces of payload blocks, shared by all threads under one lock.

use std::ops::Range;
use std::ptr::NonNull;

use super::free_lists::{row_pieces, Chain, FreeLists, Row};
use super::notes::noted_pieces;
use crate::allocate::lists::ListedBlocks;
use crate::layout::arena::{ArenaClass, ARENA_CLASS_COUNT};
use crate::layout::block::{BlockIndex, LISTED};
use crate::layout::class::ClassIndex;
use crate::layout::kind::Kind;
use crate::layout::BLOCK_BYTES;
use crate::space::Space;

/// The blocks that have free pieces, a list per class of each arena, and the rows that threads
/// have given back and others may take whole.
///
/// Invariants:
/// 6. A payload block is `LISTED` exactly when it has a free piece.
/// 7. `used` pieces + free pieces + untouched pieces = pieces per block. What is in a row or
///    in a thread's cache counts as used.
#[derive(Debug)]
pub(crate) struct Pool {
    listed: [ListedBlocks; ARENA_CLASS_COUNT],
    rows: [Rows; ARENA_CLASS_COUNT],
    /// Whether [`Arena::INHERITED`] has what is inherited. In a process that has not inherited
    /// anything it is an arena like others.
    pub(super) inherits: bool,
    /// Blocks of pieces that the process has from its parent and has not taken over.
    pub(super) inherited_blocks: usize,
}

/// Rows of a class, the latest first.
#[derive(Clone, Copy, Debug, Default)]
struct Rows {
    /// Address of the latest row's first piece. The second word of that piece is the address of
    /// the next row's first piece.
    first: usize,
    count: usize,
}

/// At most this many bytes of a class are kept in rows. They are lost to other classes until
/// the next major or full collection, so only small pieces, which many programs free and
/// allocate by the thousand, are kept.
const ROWS_BYTES_MAX: usize = 64 << 10;
const PIECE_BYTES_MAX: usize = 1024;

impl Rows {
    fn push(&mut self, space: &Space, row: Row) {
        let first = row.first.as_ptr() as usize;
        // SAFETY: the piece is free and at least 16 bytes long.
        unsafe { second_word(space, first).write(self.first) };
        self.first = first;
        self.count += 1;
    }

    fn pop(&mut self, space: &Space) -> Option<Row> {
        if self.first == 0 {
            return None;
        }
        let first = space.region.pointer(self.first);
        // SAFETY: `push` has written it, and nobody has had the piece since.
        self.first = unsafe { second_word(space, self.first).read() };
        self.count -= 1;
        NonNull::new(first).map(|first| Row { first })
    }
}

/// The first word of a free piece: the address of the next one.
pub(super) fn link(space: &Space, piece: usize) -> *mut usize {
    space.region.pointer(piece).cast()
}

fn second_word(space: &Space, piece: usize) -> *mut usize {
    link(space, piece + size_of::<usize>())
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            listed: [ListedBlocks::default(); ARENA_CLASS_COUNT],
            rows: [Rows::default(); ARENA_CLASS_COUNT],
            inherits: false,
            inherited_blocks: 0,
        }
    }
}

impl Pool {
    /// Moves up to a row of pieces into the cache, which has none of the class. Returns how many:
    /// at least one, unless memory is out.
    pub(crate) fn take(&mut self, space: &Space, lists: &mut FreeLists, of: ArenaClass) -> usize {
        if let Some(row) = self.rows[of.index()].pop(space) {
            lists.put_row(row, of);
            return row_pieces(of.class());
        }
        let class = of.class();
        let wanted = row_pieces(class);
        let mut taken = 0;
        while taken < wanted {
            let Some(block) = self.listed_block(space, of, taken == 0) else {
                break;
            };
            let chain = take_pieces(space, block, class, wanted - taken);
            if !has_piece(space, block, class) {
                self.unlist(space, block, of);
            }
            let Some(chain) = chain else { break };
            taken += chain.count;
            lists.put_in_front(chain, of);
        }
        taken
    }

    /// Keeps a row for whoever wants one next, or puts its pieces into their blocks. Returns the
    /// bytes of the row.
    pub(super) fn give_row(&mut self, space: &Space, row: Row, of: ArenaClass) -> usize {
        let class = of.class();
        let rows = &mut self.rows[of.index()];
        let row_bytes = row_pieces(class) * class.bytes();
        let kept_bytes = (rows.count + 1) * row_bytes;
        if class.bytes() <= PIECE_BYTES_MAX && kept_bytes <= ROWS_BYTES_MAX {
            rows.push(space, row);
        } else {
            self.give(space, row.first.as_ptr() as usize);
        }
        row_bytes
    }

    /// Puts the pieces of all rows into their blocks, so that these can become empty.
    pub(crate) fn give_rows_back(&mut self, space: &Space) {
        for of in ArenaClass::all() {
            while let Some(row) = self.rows[of.index()].pop(space) {
                self.give(space, row.first.as_ptr() as usize);
            }
        }
    }

    /// Puts pieces back into their blocks, and returns how many they were. Each begins with
    /// the address of the next, 0 for none.
    pub(super) fn give(&mut self, space: &Space, first: usize) -> usize {
        let (mut given, mut address) = (0, first);
        while let Some(index) = space.region.block_at(address) {
            // Pieces that follow each other and lie in one block are linked already.
            let (first, mut last, mut count) = (address, address, 1);
            let start = space.region.address_of(index);
            loop {
                // SAFETY: a free piece begins with the address of the next.
                address = unsafe { link(space, last).read() };
                if address.wrapping_sub(start) >= BLOCK_BYTES {
                    break;
                }
                last = address;
                count += 1;
            }
            given += count;
            // A list may have pieces of blocks that have changed their arena since then.
            let Kind::Payloads(of) = space.region.kind(index) else {
                continue;
            };
            if self.is_inherited(of) {
                self.note_run(space, index, of, first, count);
                continue;
            }
            let block = space.region.block(index);
            // SAFETY: the piece is free and at least 16 bytes long.
            unsafe { link(space, last).write(block.free()) };
            block.set_free(first);
            block.used.set(block.used.get() - count);
            self.note_free(space, index, of);
        }
        given
    }

    /// Notes that a block has free pieces. An empty block becomes free for any use, unless it is
    /// the last listed one of its class.
    fn note_free(&mut self, space: &Space, index: BlockIndex, of: ArenaClass) {
        let block = space.region.block(index);
        self.list(space, index, of);
        if block.used.get() == 0 {
            let is_only = block.next.get().is_none() && block.previous.get().is_none();
            if !is_only {
                self.unlist(space, index, of);
                space.lock_blocks().give(index, 1);
            }
        }
    }

    fn listed_block(
        &mut self,
        space: &Space,
        of: ArenaClass,
        may_take_block: bool,
    ) -> Option<BlockIndex> {
        if let Some(block) = self.listed[of.index()].first {
            return Some(block);
        }
        if !may_take_block {
            return None;
        }
        let block = space.lock_blocks().take_one(Kind::Payloads(of))?;
        self.list(space, block, of);
        Some(block)
    }

    pub(super) fn list(&mut self, space: &Space, index: BlockIndex, of: ArenaClass) {
        self.listed[of.index()].add(&space.region, index);
    }

    pub(super) fn unlist(&mut self, space: &Space, index: BlockIndex, of: ArenaClass) {
        self.listed[of.index()].remove(&space.region, index);
    }

    /// Asserts invariants 6 and 7, and 20 for blocks of pieces.
    pub(crate) fn verify(&self, space: &Space) -> Result<(), String> {
        let (mut listed_blocks, mut inherited_blocks) = (0, 0);
        for (index, of) in blocks_of_pieces(space, 0..space.region.committed_blocks()) {
            verify_pieces(space, index, of)?;
            let block = space.region.block(index);
            if self.is_inherited(of) {
                inherited_blocks += 1;
                if block.used.get() == 0 {
                    return Err(format!("invariant 20: {index:?} has no piece in use"));
                }
            }
            if block.has(LISTED) != has_piece(space, index, of.class()) {
                return Err(format!("invariant 6: {index:?} of {of:?}"));
            }
            listed_blocks += usize::from(block.has(LISTED));
        }
        if inherited_blocks != self.inherited_blocks {
            let counted = self.inherited_blocks;
            return Err(format!(
                "invariant 20: {inherited_blocks} blocks, {counted} counted"
            ));
        }
        for of in ArenaClass::all() {
            let (mut previous, mut listed) = (None, self.listed[of.index()].first);
            while let Some(index) = listed {
                let block = space.region.block(index);
                let is_whole =
                    block.has(LISTED) && block.previous.get() == previous && listed_blocks > 0;
                if !is_whole || space.region.kind(index) != Kind::Payloads(of) {
                    return Err(format!("invariant 6: {index:?} in the list of {of:?}"));
                }
                listed_blocks -= 1;
                (previous, listed) = (listed, block.next.get());
            }
        }
        match listed_blocks {
            0 => Ok(()),
            _ => Err(format!(
                "invariant 6: {listed_blocks} blocks are in no list"
            )),
        }
    }
}

/// Asserts invariant 7 for a block.
fn verify_pieces(space: &Space, index: BlockIndex, of: ArenaClass) -> Result<(), String> {
    let class = of.class();
    let (block, start) = (space.region.block(index), space.region.address_of(index));
    let end = start + block.untouched.get() * class.bytes();
    let (mut free, mut address) = (0, block.free());
    while address != 0 {
        let is_piece = (start..end).contains(&address) && (address - start) % class.bytes() == 0;
        if !is_piece || free > class.pieces_per_block() {
            return Err(format!("invariant 7: {address:#x} is free in {index:?}"));
        }
        free += 1;
        // SAFETY: a free piece begins with the address of the next.
        address = unsafe { link(space, address).read() };
    }
    free += noted_pieces(space, index, of).count();
    match block.used.get() + free == block.untouched.get() {
        true => Ok(()),
        false => Err(format!(
            "invariant 7: {index:?} has {} pieces in use, {free} free, of {} touched",
            block.used.get(),
            block.untouched.get()
        )),
    }
}

/// The payload blocks with these numbers.
pub(super) fn blocks_of_pieces(
    space: &Space,
    numbers: Range<usize>,
) -> impl Iterator<Item = (BlockIndex, ArenaClass)> + '_ {
    numbers.filter_map(|index| {
        let index = BlockIndex(index as u32);
        match space.region.kind(index) {
            Kind::Payloads(of) => Some((index, of)),
            _ => None,
        }
    })
}

pub(super) fn has_piece(space: &Space, index: BlockIndex, class: ClassIndex) -> bool {
    let block = space.region.block(index);
    block.free() != 0 || block.untouched.get() < class.pieces_per_block()
}

/// Takes up to `max` pieces out of a block: pieces that were freed, the latest first, or
/// else pieces that nobody has had yet, in the order of their addresses. The program gets
/// them in this order, so what it allocates together lies together.
fn take_pieces(space: &Space, index: BlockIndex, class: ClassIndex, max: usize) -> Option<Chain> {
    let block = space.region.block(index);
    let piece = |address| NonNull::new(space.region.pointer(address));
    let mut count = 1;
    let (first, last) = if block.free() != 0 {
        let (first, mut last) = (block.free(), block.free());
        loop {
            // SAFETY: a free piece begins with the address of the next.
            let next = unsafe { link(space, last).read() };
            if next == 0 || count == max {
                block.set_free(next);
                break (first, last);
            }
            last = next;
            count += 1;
        }
    } else {
        let untouched = block.untouched.get();
        count = max.min(class.pieces_per_block() - untouched);
        let first = space.region.address_of(index) + untouched * class.bytes();
        let last = first + count.checked_sub(1)? * class.bytes();
        for address in (first..last).step_by(class.bytes()) {
            // SAFETY: nobody has had the piece yet, and it is at least 16 bytes long.
            unsafe { link(space, address).write(address + class.bytes()) };
        }
        block.untouched.set(untouched + count);
        (first, last)
    };
    block.used.set(block.used.get() + count);
    Some(Chain {
        first: piece(first)?,
        last: piece(last)?,
        count,
    })
}
