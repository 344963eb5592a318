//! Cursors: where a thread of the program allocates its next cells.

use crate::layout::block::{BlockIndex, HAS_YOUNG, OWNED};
use crate::layout::cell_state::CellState;
use crate::layout::region::{Cell, States};
use crate::layout::width::{WidthIndex, WIDTH_COUNT};
use crate::prefetch::prefetch;
use crate::space::Space;

use super::run::Run;

/// The free run being allocated from, for one width.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Cursor {
    /// Address of the next cell to hand out.
    pub(crate) next: usize,
    /// Address just past the run.
    pub(crate) end: usize,
    /// The block's next run, 0 for none.
    pub(crate) next_run: usize,
    /// The block the runs belong to.
    block: Option<BlockIndex>,
}

impl Cursor {
    /// Goes on to a run of the same block.
    #[inline(always)]
    fn begin(&mut self, run: Run) {
        self.next = run.start;
        self.end = run.end;
        self.next_run = run.next;
        // Nobody has looked there since the block was swept.
        prefetch(run.next);
    }
}

/// One allocating thread's cursors (a Ractor's, say). Cells come from their runs
/// without any lock; a block belongs to at most one cache.
#[derive(Debug)]
#[repr(C)]
pub struct AllocationCache<'space> {
    /// Where the region's cell states are, copied to save a load.
    pub(crate) states: States<'space>,
    pub(crate) cursors: [Cursor; WIDTH_COUNT],
    /// Bytes of the runs that this cache has had so far, by width.
    pub(crate) bytes_in_runs: [u64; WIDTH_COUNT],
    /// Bytes of further runs that the cache may begin before it asks the heap again, and how
    /// many the heap allowed last.
    pub(crate) allowance_bytes: usize,
    allowed_bytes: usize,
    /// By width: cells to be handed out in further runs up to the next sample, the sample
    /// included; 0 when the cell handed out last was a sample.
    pub(crate) cells_until_sample: [u64; WIDTH_COUNT],
    space: &'space Space,
}

/// [`AllocationCache::cells_until_sample`] while nothing is sampled.
///
/// Also known to the code that goes on to runs without calling the heap (`inlined.rs`).
const NEVER: u64 = u64::MAX;

impl<'space> AllocationCache<'space> {
    /// A cache without any block. The caller sees to it that the cache owns no block
    /// while blocks are swept.
    pub(crate) fn new(space: &'space Space) -> Self {
        Self {
            states: space.region.states(),
            cursors: [Cursor::default(); WIDTH_COUNT],
            bytes_in_runs: [0; WIDTH_COUNT],
            allowance_bytes: 0,
            allowed_bytes: 0,
            cells_until_sample: [NEVER; WIDTH_COUNT],
            space,
        }
    }

    /// Whether its cells are cells of `space`.
    pub(crate) fn is_of(&self, space: &Space) -> bool {
        std::ptr::eq(self.space, space)
    }

    /// The next cell of the current run, in state `state`; `None` when the run
    /// is used up: the part of [`Heap::allocate`](crate::Heap::allocate) that needs no heap.
    ///
    /// # Panics
    /// When `state` is not the state of a new cell.
    #[inline(always)]
    pub fn allocate_at_once(&mut self, width: WidthIndex, state: CellState) -> Option<Cell> {
        state.assert_new();
        self.bump(width, state)
    }

    /// The next cell of the current run, in state `state`; `None` when the run
    /// is used up.
    #[inline(always)]
    pub(crate) fn bump(&mut self, width: WidthIndex, state: CellState) -> Option<Cell> {
        let cursor = &mut self.cursors[width.index()];
        let address = cursor.next;
        if address >= cursor.end {
            return None;
        }
        cursor.next = address + width.bytes();
        // SAFETY: a run consists of cells of the cursor's width.
        let cell = unsafe { Cell::from_address(address) };
        self.states.set(cell, state);
        Some(cell)
    }

    /// The first cell of the current block's next run, in state `state`; `None` when there is
    /// no such run or the heap has to be asked ([`AllocationCache::allow`]). This path is short
    /// because in a dense heap a run has a cell or two.
    #[inline(always)]
    pub(crate) fn bump_next_run(&mut self, width: WidthIndex, state: CellState) -> Option<Cell> {
        let cursor = &mut self.cursors[width.index()];
        if cursor.next_run == 0 || self.cells_until_sample[width.index()] != NEVER {
            return None;
        }
        let run = Run::read(&self.space.region, cursor.next_run);
        let bytes = run.end - run.start;
        self.allowance_bytes = self.allowance_bytes.checked_sub(bytes)?;
        cursor.begin(run);
        self.bytes_in_runs[width.index()] += bytes as u64;
        self.bump(width, state)
    }

    /// Allows `bytes` of further runs. [`AllocationCache::take_handed`] reports to the heap
    /// later how many have been begun.
    pub(crate) fn allow(&mut self, bytes: usize) {
        self.allowance_bytes = bytes;
        self.allowed_bytes = bytes;
    }

    /// Bytes of the runs begun since [`AllocationCache::take_handed`], by
    /// [`AllocationCache::bump_next_run`] or by code that does not call the heap (`inlined.rs`).
    pub(crate) fn handed_bytes(&self) -> usize {
        self.allowed_bytes - self.allowance_bytes
    }

    /// Returns [`AllocationCache::handed_bytes`], for the heap to count. Afterwards no further
    /// run is allowed.
    pub(crate) fn take_handed(&mut self) -> usize {
        let handed = self.handed_bytes();
        self.allow(0);
        handed
    }

    /// Goes on to the next run of the current block. Returns the run's bytes, or `None` when
    /// the block is used up. `cells_at_most` shortens the run (stress runs
    /// allocate one cell at a time), and so does a sample: it is the only cell of its run.
    pub(crate) fn next_run(&mut self, width: WidthIndex, cells_at_most: usize) -> Option<usize> {
        let region = &self.space.region;
        let cells_at_most = cells_at_most.min(self.cells_before_sample(width));
        let cursor = &mut self.cursors[width.index()];
        if cursor.next_run == 0 {
            return None;
        }
        let mut run = Run::read(region, cursor.next_run);
        let bytes_at_most = cells_at_most.saturating_mul(width.bytes());
        if run.end - run.start > bytes_at_most {
            let rest = Run {
                start: run.start + bytes_at_most,
                end: run.end,
                next: run.next,
            };
            rest.write(region);
            run.end = rest.start;
            run.next = rest.start;
        }
        cursor.begin(run);
        let bytes = run.end - run.start;
        self.bytes_in_runs[width.index()] += bytes as u64;
        let until_sample = &mut self.cells_until_sample[width.index()];
        if *until_sample != NEVER {
            *until_sample -= (bytes / width.bytes()) as u64;
        }
        Some(bytes)
    }

    /// The most cells that a run may have, so that a sample is the only cell of its run.
    fn cells_before_sample(&self, width: WidthIndex) -> usize {
        match self.cells_until_sample[width.index()] {
            NEVER => usize::MAX,
            cells => (cells as usize).saturating_sub(1).max(1),
        }
    }

    /// Whether the cell of this width that was handed out last is a sample. The answer stays
    /// true until [`AllocationCache::sample_after`] chooses the next sample.
    pub fn last_is_sample(&self, width: WidthIndex) -> bool {
        self.cells_until_sample[width.index()] == 0
    }

    /// Makes the `cells`-th next cell of this width a sample (0 means the first), not counting
    /// what is left of the current run. With `None` no cell is a sample.
    pub fn sample_after(&mut self, width: WidthIndex, cells: Option<u64>) {
        self.cells_until_sample[width.index()] =
            cells.map_or(NEVER, |cells| cells.clamp(1, NEVER - 1));
    }

    /// Whether a cell of this width can be had from the current block.
    pub(crate) fn has_room(&self, width: WidthIndex) -> bool {
        let cursor = &self.cursors[width.index()];
        cursor.next < cursor.end || cursor.next_run != 0
    }

    /// Whether the block of this width has another free run: then an allocation
    /// sweeps nothing.
    pub(crate) fn has_run(&self, width: WidthIndex) -> bool {
        self.cursors[width.index()].next_run != 0
    }

    /// Starts to allocate from a block with free runs.
    pub(crate) fn adopt(&mut self, width: WidthIndex, index: BlockIndex) {
        let block = self.space.region.block(index);
        block.add(OWNED | HAS_YOUNG);
        self.cursors[width.index()] = Cursor {
            next: 0,
            end: 0,
            next_run: block.free(),
            block: Some(index),
        };
        block.set_free(0);
    }

    /// Gives up the block of one width, with what is left of its runs.
    pub(crate) fn retire(&mut self, width: WidthIndex) -> Option<BlockIndex> {
        let space = self.space;
        let region = &space.region;
        let cursor = std::mem::take(&mut self.cursors[width.index()]);
        let index = cursor.block?;
        let mut first = cursor.next_run;
        if cursor.next < cursor.end {
            Run {
                start: cursor.next,
                end: cursor.end,
                next: cursor.next_run,
            }
            .write(region);
            first = cursor.next;
            self.unhand(width, cursor.end - cursor.next);
        }
        let block = region.block(index);
        block.set_free(first);
        block.remove(OWNED);
        Some(index)
    }

    /// Gives up the block of one width and writes nothing into it: what is left of its
    /// runs stays free and in no run.
    pub(crate) fn leave(&mut self, width: WidthIndex) {
        let cursor = std::mem::take(&mut self.cursors[width.index()]);
        let Some(index) = cursor.block else { return };
        self.unhand(width, cursor.end - cursor.next);
        self.space.region.block(index).remove(OWNED);
    }

    /// Takes `bytes` at the end of the current run, which were not handed out, off the counts.
    fn unhand(&mut self, width: WidthIndex, bytes: usize) {
        self.bytes_in_runs[width.index()] -= bytes as u64;
        let until_sample = &mut self.cells_until_sample[width.index()];
        if *until_sample != NEVER {
            *until_sample += (bytes / width.bytes()) as u64;
        }
    }

    /// Bytes of the current run of one width that no cell has yet.
    pub(crate) fn unused_bytes(&self, width: WidthIndex) -> usize {
        let cursor = &self.cursors[width.index()];
        cursor.end - cursor.next
    }

    /// Cells of one width handed out so far.
    pub fn allocated_cells(&self, width: WidthIndex) -> u64 {
        (self.bytes_in_runs[width.index()] - self.unused_bytes(width) as u64) / width.bytes() as u64
    }
}
