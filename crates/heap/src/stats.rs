//! Counters that every phase reports and everybody may read.

use crate::pace::Scope;

/// Totals since the heap was made, and the outcome of the latest collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Minor collections.
    pub minor_collections: usize,
    /// Major collections: of everything but what is settled.
    pub major_collections: usize,
    /// Full collections: of everything.
    pub full_collections: usize,
    /// Collections that compacted.
    pub compactions: usize,
    /// Cells that compactions moved.
    pub moved_cells: u64,
    /// Cells freed by the sweeper.
    pub freed_cells: u64,
    /// Cells that the latest collection found live.
    pub marked_cells: usize,
    /// Cells that are old.
    pub old_cells: usize,
    /// Of those, settled.
    pub settled_cells: usize,
    /// Cells on the boundary after the latest collection, some of them twice.
    pub boundary_cells: usize,
    /// Threads that marked in the latest collection that was not minor.
    pub marking_threads: usize,
    /// Cell blocks taken from the block allocator.
    pub blocks_taken: usize,
    /// Cell blocks given back to the block allocator.
    pub blocks_given: usize,
    /// Blocks whose pages went back to the system.
    pub blocks_released: usize,
}

impl Stats {
    /// Collections of one scope.
    pub(crate) fn collections_of(&mut self, scope: Scope) -> &mut usize {
        match scope {
            Scope::Minor => &mut self.minor_collections,
            Scope::Major => &mut self.major_collections,
            Scope::Full => &mut self.full_collections,
        }
    }

    /// Collections so far, of whatever scope.
    pub fn collections(&self) -> usize {
        self.minor_collections + self.major_collections + self.full_collections
    }
}

/// What is in the heap now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Cells the program has, garbage not yet swept included.
    pub live_cells: usize,
    /// Cells that could be handed out without taking another block.
    pub free_cells: usize,
    /// Blocks that hold cells.
    pub cell_blocks: usize,
    /// Bytes of live cells.
    pub cell_bytes: usize,
    /// Bytes of payloads in use.
    pub payload_bytes: usize,
    /// Blocks that are empty.
    pub empty_blocks: usize,
    /// Of those, with memory that has not gone back to the system.
    pub held_blocks: usize,
}

/// One width's share of [`Usage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WidthUsage {
    /// Bytes of a cell.
    pub width_bytes: usize,
    /// Blocks of this width.
    pub blocks: usize,
    /// Cells in those blocks.
    pub cells: usize,
    /// Of those, live.
    pub live_cells: usize,
    /// Blocks taken from the block allocator so far.
    pub blocks_taken: usize,
    /// Cells allocated so far.
    pub allocated_cells: u64,
    /// Cells freed so far.
    pub freed_cells: u64,
}
