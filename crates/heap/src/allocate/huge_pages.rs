//! When full chunks move into huge pages: arithmetic only.
//!
//! What a chunk gains in a huge page is not known, so what the moves cost is bounded: a hundredth of
//! the CPU time. A *pass* looks at all chunks once, and begins when it can be paid. So a program
//! that is over soon has no pass. (Why memory that is full alone moves: `layout/chunk.rs`. Hunter and
//! others, "Beyond malloc efficiency to fleet efficiency: a hugepage-aware memory allocator", OSDI
//! 2021, weigh the same gain and loss.)

use crate::layout::chunk::CHUNK_BLOCKS;

/// The moves take at most one part in so many of the CPU time.
const PARTS: u64 = 100;
/// While a pass goes on, the moves take at most one part in so many of the CPU time.
const MOVE_PARTS: u64 = 10;
/// What a move takes while none has been made.
const UNKNOWN_MOVE_NS: u64 = 1_000_000;
/// A pass begins when the CPU time is at least 5/4 of what it was when the one before it began.
const BETWEEN_PASSES: (u64, u64) = (5, 4);

/// What the heap has huge pages for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugePages {
    /// Nothing.
    #[default]
    Never,
    /// Memory that is full. A program that forks says so before
    /// ([`Heap::leave_shared_pages`](crate::Heap::leave_shared_pages)), or processes would stop sharing it.
    Full,
    /// Whatever the kernel has huge pages for, from the first use on.
    All,
}

impl HugePages {
    /// The names, as a message says them.
    pub const ALLOWED: &'static str = "auto, 0 or 1";

    /// What has this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "0" => Some(Self::Never),
            "auto" => Some(Self::Full),
            "1" => Some(Self::All),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Never => "0",
            Self::Full => "auto",
            Self::All => "1",
        }
    }
}

/// The moves of chunks into huge pages.
#[derive(Debug)]
pub(crate) struct Moves {
    /// Chunks move at all.
    is_on: bool,
    /// The chunk to go on with in the pass in progress.
    next_chunk: Option<usize>,
    /// The pass may go on now.
    is_ready: bool,
    /// Chunks below this one are left alone: other processes share their pages.
    first_chunk: usize,
    /// How many of those were huge when they were left.
    left_huge_chunks: usize,
    /// The CPU time from which another pass may begin.
    next_pass_ns: u64,
    /// The CPU time from which another move may be made.
    next_move_ns: u64,
    /// CPU time of all moves.
    moving_ns: u64,
    /// What it may be when the pass in progress is over.
    moving_ns_max: u64,
    /// CPU time of a move, an average of the latest ones.
    move_ns: u64,
}

impl Default for Moves {
    fn default() -> Self {
        Self {
            is_on: false,
            next_chunk: None,
            is_ready: false,
            first_chunk: 0,
            left_huge_chunks: 0,
            next_pass_ns: 0,
            next_move_ns: 0,
            moving_ns: 0,
            moving_ns_max: 0,
            move_ns: UNKNOWN_MOVE_NS,
        }
    }
}

impl Moves {
    /// Lets chunks move from now on, or no longer.
    pub(crate) fn turn(&mut self, is_on: bool) {
        if self.is_on != is_on {
            self.is_on = is_on;
            self.next_chunk = None;
        }
    }

    /// Whether chunks move at all.
    #[inline(always)]
    pub(crate) fn are_on(&self) -> bool {
        self.is_on
    }

    /// The process has taken `process_ns` of CPU time, and `blocks` blocks with memory are not in huge
    /// pages. A pass begins, or goes on, if it is time. No move is made while a move takes more
    /// than `move_ns_max`.
    pub(crate) fn note_time(&mut self, process_ns: u64, blocks: usize, move_ns_max: u64) {
        if !self.is_on {
            return;
        }
        let chunks = blocks / CHUNK_BLOCKS + self.left_huge_chunks;
        let chunks = chunks.saturating_sub(self.first_chunk);
        if self.next_chunk.is_none() {
            self.begin_pass(process_ns, chunks);
        }
        if self.next_chunk.is_some() && self.move_ns > move_ns_max {
            // A later pass tries again.
            self.next_chunk = None;
            self.move_ns /= 2;
        }
        self.is_ready = process_ns >= self.next_move_ns;
        self.next_move_ns = self.next_move_ns.max(process_ns);
    }

    /// Begins a pass in which at most `chunks` chunks move, if it is time and can be paid.
    fn begin_pass(&mut self, process_ns: u64, chunks: usize) {
        let pass_ns = self.move_ns * chunks as u64;
        let payable_ns = process_ns / PARTS;
        if chunks == 0 || process_ns < self.next_pass_ns || self.moving_ns + pass_ns > payable_ns {
            return;
        }
        self.next_pass_ns = process_ns / BETWEEN_PASSES.1 * BETWEEN_PASSES.0;
        self.next_chunk = Some(self.first_chunk);
        self.moving_ns_max = payable_ns.min(self.moving_ns + 2 * pass_ns);
    }

    /// The chunk to look at now; `None` while there is no pass, or nothing to do in it.
    #[inline(always)]
    pub(crate) fn ready_chunk(&self) -> Option<usize> {
        self.next_chunk.filter(|_| self.is_ready)
    }

    /// The pass goes on with this chunk, or is over. It is also over when its moves have taken twice
    /// as long as they were to take.
    pub(crate) fn go_on_with(&mut self, chunk: Option<usize>) {
        self.next_chunk = chunk.filter(|_| self.moving_ns < self.moving_ns_max);
    }

    /// A move has taken so long.
    pub(crate) fn note_move(&mut self, move_ns: u64) {
        self.moving_ns += move_ns;
        self.move_ns = (3 * self.move_ns + move_ns) / 4;
        self.next_move_ns += MOVE_PARTS * move_ns;
        self.is_ready = false;
    }

    /// This process has just been forked: its CPU time begins at 0.
    pub(crate) fn begin_in_child(&mut self) {
        self.next_pass_ns = 0;
        self.next_move_ns = 0;
        self.moving_ns = 0;
    }

    /// Leaves the first `chunks` chunks alone from now on, `huge_chunks` of them huge: another process is about to share them,
    /// and a move would make copies of their pages.
    pub(crate) fn leave(&mut self, chunks: usize, huge_chunks: usize) {
        self.first_chunk = self.first_chunk.max(chunks);
        self.left_huge_chunks = huge_chunks;
        self.next_chunk = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn begun() -> Moves {
        let mut moves = Moves::default();
        moves.turn(true);
        moves
    }

    /// A program of `chunks` full chunks, a move of which takes `move_ns`; all of them are split
    /// again before each pass. Returns the CPU time at which each pass began.
    fn passes(chunks: usize, move_ns: u64, end_ms: u64) -> Vec<u64> {
        let mut moves = begun();
        let mut began_ms = Vec::new();
        let mut moved_ms = 0;
        for ms in 0..end_ms {
            let was_over = moves.next_chunk.is_none();
            moves.note_time(ms * MS, chunks * CHUNK_BLOCKS, u64::MAX);
            if was_over && moves.next_chunk.is_some() {
                began_ms.push(ms);
            }
            if let Some(chunk) = moves.ready_chunk() {
                assert!(moved_ms == 0 || ms - moved_ms >= MOVE_PARTS * move_ns / MS);
                moved_ms = ms;
                moves.note_move(move_ns);
                assert_eq!(moves.ready_chunk(), None);
                moves.go_on_with(Some(chunk + 1).filter(|&next| next < chunks));
            }
            assert!(moves.moving_ns <= ms * MS / PARTS + move_ns);
        }
        began_ms
    }

    #[test]
    fn a_program_that_is_over_soon_moves_nothing() {
        for chunks in [1, 60, 5000] {
            assert_eq!(passes(chunks, MS, 99 * chunks as u64), []);
        }
    }

    #[test]
    fn a_pass_begins_when_all_of_it_can_be_paid() {
        assert_eq!(passes(60, MS, 6500), [6000]);
    }

    #[test]
    fn passes_that_move_the_same_chunks_again_stay_below_a_hundredth_of_the_time() {
        for move_ns in [MS / 2, MS, 5 * MS] {
            let began = passes(60, move_ns, 200_000);
            assert!(began.len() > 2, "{began:?}");
            assert!(began.windows(2).all(|pair| pair[1] >= pair[0] * 5 / 4));
        }
    }

    #[test]
    fn a_pass_whose_moves_take_far_longer_than_expected_ends() {
        let mut moves = begun();
        let chunks = 60;
        let mut moved = 0;
        moves.note_time(3_600_000 * MS, chunks * CHUNK_BLOCKS, u64::MAX);
        for ms in 3_600_000..3_700_000 {
            moves.note_time(ms * MS, chunks * CHUNK_BLOCKS, u64::MAX);
            if let Some(chunk) = moves.ready_chunk() {
                moved += 1;
                moves.note_move(50 * MS);
                moves.go_on_with(Some(chunk + 1));
            }
        }
        assert_eq!(moved, 3);
    }

    #[test]
    fn moves_that_take_longer_than_a_pause_may_are_not_made() {
        let mut moves = begun();
        let blocks = 8 * CHUNK_BLOCKS;
        moves.note_time(1000 * MS, blocks, MS / 2);
        assert_eq!(moves.ready_chunk(), None);
        // It may have been slow once, so it is tried again.
        moves.note_time(1250 * MS, blocks, MS / 2);
        assert_eq!(moves.ready_chunk(), Some(0));
        moves.note_move(5 * MS);
        moves.go_on_with(Some(1));
        moves.note_time(1500 * MS, blocks, MS / 2);
        assert_eq!(moves.ready_chunk(), None);
    }

    #[test]
    fn nothing_moves_before_it_is_wanted() {
        let mut moves = Moves::default();
        moves.note_time(1000 * MS, CHUNK_BLOCKS, MS);
        assert_eq!(moves.ready_chunk(), None);
    }

    #[test]
    fn chunks_that_others_share_are_left_alone() {
        let mut moves = begun();
        moves.note_time(1000 * MS, 8 * CHUNK_BLOCKS, MS);
        moves.leave(7, 0);
        assert_eq!(moves.ready_chunk(), None);
        moves.note_time(2000 * MS, 7 * CHUNK_BLOCKS, MS);
        assert_eq!(moves.ready_chunk(), None);
        moves.note_time(2000 * MS, 8 * CHUNK_BLOCKS, MS);
        assert_eq!(moves.ready_chunk(), Some(7));
    }

    #[test]
    fn huge_chunks_that_others_share_hide_none_of_the_new_ones() {
        let mut moves = begun();
        moves.leave(92, 60);
        // 152 chunks are in use, and the 60 are still huge.
        moves.note_time(100_000 * MS, (152 - 60) * CHUNK_BLOCKS, MS);
        assert_eq!(moves.ready_chunk(), Some(92));
        // The huge ones have been given back.
        let mut moves = begun();
        moves.leave(92, 60);
        moves.note_time(100_000 * MS, (92 - 60) * CHUNK_BLOCKS, MS);
        assert_eq!(moves.ready_chunk(), None);
    }

    #[test]
    fn a_child_counts_its_own_time() {
        let mut moves = begun();
        moves.note_time(1000 * MS, CHUNK_BLOCKS, MS);
        moves.note_move(MS);
        moves.leave(1, 0);
        moves.begin_in_child();
        moves.note_time(99 * MS, 2 * CHUNK_BLOCKS, MS);
        assert_eq!(moves.ready_chunk(), None);
        moves.note_time(100 * MS, 2 * CHUNK_BLOCKS, MS);
        assert_eq!(moves.ready_chunk(), Some(1));
    }
}
