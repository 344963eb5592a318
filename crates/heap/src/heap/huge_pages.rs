//! Moving full chunks into huge pages, one at a time, while the program runs.

use super::slice_schedule::LENGTH_MAX;
use super::Heap;
use crate::allocate::huge_pages::HugePages;
use crate::layout::chunk::CHUNK_BLOCKS;
use crate::os;
use crate::pace::Costs;
use crate::vm::Vm;

/// How many chunks are looked at together. A look takes about 2 microseconds.
const LOOKED_AT_TOGETHER: usize = 32;

impl<V: Vm> Heap<'_, V> {
    /// Chooses what the heap has huge pages for, from now on.
    pub fn set_huge_pages(&self, wanted: HugePages) {
        self.region().set_huge_pages(wanted == HugePages::All);
        let is_on = wanted == HugePages::Full && self.region().can_have_huge_chunks();
        self.state.borrow_mut().sweep.moves.turn(is_on);
    }

    /// A collection begins, in which `costs` have been measured, or nothing. A pass over the chunks
    /// begins or goes on if it is time, unless the process is near its memory limit. A move may take
    /// as long as a slice of marking that is late.
    pub(super) fn note_time_for_huge_pages(&self, costs: Option<Costs>) {
        if !self.state.borrow().sweep.moves.are_on() || self.is_out_of_limit() {
            return;
        }
        let process_ns = costs.map_or_else(os::cpu_time_ns, |costs| costs.process_ns);
        let slice_time = self.pauses().slice_time();
        let move_time_max = slice_time.map(|slice| slice * LENGTH_MAX as u32);
        let move_ns_max = move_time_max.map_or(u64::MAX, |time| time.as_nanos() as u64);
        let huge_blocks = self.region().huge_chunks() * CHUNK_BLOCKS;
        let in_use = self.space().blocks.counts().in_use;
        let moves = &mut self.state.borrow_mut().sweep.moves;
        moves.note_time(process_ns, in_use.saturating_sub(huge_blocks), move_ns_max);
    }

    /// Another process is about to have a copy of this one's memory. What is shared stays in the
    /// pages it has, because moving it would make copies.
    pub fn leave_shared_pages(&self) {
        let chunks = self.space().blocks.used_limit().div_ceil(CHUNK_BLOCKS);
        let huge_chunks = self.region().huge_chunks();
        let moves = &mut self.state.borrow_mut().sweep.moves;
        moves.leave(chunks, huge_chunks);
    }

    /// Moves the next full chunk into a huge page, if it is time: between two blocks that the program
    /// allocates from, so that no pause becomes longer.
    #[inline]
    pub(super) fn move_into_huge_page(&self) {
        let next_chunk = self.state.borrow().sweep.moves.ready_chunk();
        if let Some(chunk) = next_chunk {
            self.move_next_into_huge_page(chunk);
        }
    }

    #[cold]
    fn move_next_into_huge_page(&self, next_chunk: usize) {
        let region = self.region();
        let chunks = self.space().blocks.used_limit() / CHUNK_BLOCKS;
        let end = chunks.min(next_chunk + LOOKED_AT_TOGETHER);
        let mut next = end;
        if let Some(chunk) = (next_chunk..end).find(|&chunk| region.is_full_chunk(chunk)) {
            let start = os::thread_cpu_time();
            // If the system refuses, there is no huge page, or something holds the pages.
            let _ = region.move_into_huge_page(chunk);
            let spent = os::thread_cpu_time()
                .zip(start)
                .map(|(end, start)| end - start);
            let moves = &mut self.state.borrow_mut().sweep.moves;
            moves.note_move(spent.map_or(0, |spent| spent.as_nanos() as u64));
            next = chunk + 1;
        }
        let moves = &mut self.state.borrow_mut().sweep.moves;
        moves.go_on_with(Some(next).filter(|&next| next < chunks));
    }
}
