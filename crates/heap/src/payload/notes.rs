//! Notes of free pieces, in the side table of cell states, which has no other use for payloads:
//! each of two bits of an entry stands for 16 bytes at which a piece may begin.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::layout::arena::ArenaClass;
use crate::layout::block::BlockIndex;
use crate::layout::class::PAYLOAD_ALIGN;
use crate::layout::{BLOCK_BYTES, STATE_GRANULE_BYTES};
use crate::space::Space;

const _: () = assert!(STATE_GRANULE_BYTES == 2 * PAYLOAD_ALIGN);

/// The entry and the bit in it that note that this piece is free.
pub(super) fn note_of(space: &Space, index: BlockIndex, piece: usize) -> (&AtomicU8, u8) {
    let offset = piece - space.region.address_of(index);
    let entries = space.region.states_of(index);
    let entry = &entries[offset / STATE_GRANULE_BYTES];
    (entry, 1 << (offset / PAYLOAD_ALIGN % 2))
}

pub(super) fn forget_notes(space: &Space, index: BlockIndex) {
    for entry in space.region.states_of(index) {
        if entry.load(Relaxed) != 0 {
            entry.store(0, Relaxed);
        }
    }
}

fn is_noted(space: &Space, index: BlockIndex, piece: usize) -> bool {
    let (entry, bit) = note_of(space, index, piece);
    entry.load(Relaxed) & bit != 0
}

/// The pieces of a block that are noted as free.
pub(super) fn noted_pieces(
    space: &Space,
    index: BlockIndex,
    of: ArenaClass,
) -> impl Iterator<Item = usize> + '_ {
    let (start, bytes) = (space.region.address_of(index), of.class().bytes());
    let touched = space.region.block(index).untouched.get();
    debug_assert!(touched * bytes <= BLOCK_BYTES);
    let pieces = (0..touched).map(move |piece| start + piece * bytes);
    pieces.filter(move |&piece| is_noted(space, index, piece))
}

/// Puts the noted pieces of a block into its list of free pieces, and forgets the notes.
pub(super) fn free_noted(space: &Space, index: BlockIndex, of: ArenaClass) {
    let block = space.region.block(index);
    for piece in noted_pieces(space, index, of) {
        // SAFETY: the piece is free and at least 16 bytes long.
        unsafe {
            let link = space.region.pointer(piece).cast::<usize>();
            link.write(block.free());
        }
        block.set_free(piece);
    }
    forget_notes(space, index);
}
