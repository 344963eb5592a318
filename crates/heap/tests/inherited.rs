//! What a heap does in a forked child with what it has from its parent. No process is forked
//! here: `Heap::inherit` does the same without a fork, and blocks are taken over at the next
//! major or full collection, because no other process has their pages. `ruby/test/fork_test.rb`
//! forks.

#[allow(dead_code, missing_docs, unreachable_pub)]
mod program;
#[allow(dead_code, unreachable_pub)]
#[path = "../examples/toy_vm.rs"]
mod toy_vm;

use std::collections::BTreeSet;
use std::ptr::NonNull;

use ashlar_heap::{
    Allocation, Cell, Evacuation, Request, Scope, ThreadCache, Urgency, BLOCK_BYTES,
};
use program::{Program, MIB};
use toy_vm::Shape;

const TAG: usize = 7;

fn with_program(run: impl FnOnce(&mut Program<'_>)) {
    program::with_program(4 * MIB, run);
}

impl Program<'_> {
    fn try_object(&mut self) -> Option<Cell> {
        let shape = Shape {
            data_words: 3,
            ..Shape::plain(1)
        };
        match self.try_tagged(TAG, shape, Urgency::MustAllocate) {
            Allocation::Allocated(cell) => Some(cell),
            _ => None,
        }
    }

    fn objects(&mut self, count: usize) -> Vec<Cell> {
        (0..count).map(|_| self.try_object().unwrap()).collect()
    }

    /// Makes roots of every `n`-th of these, and of nothing else.
    fn keep_every(&self, n: usize, cells: &[Cell]) {
        let kept = cells.iter().step_by(n).map(|cell| cell.address());
        *self.heap.vm().roots.borrow_mut() = kept.collect();
    }

    fn collect(&self, scope: Scope) {
        self.collect_and_move(scope, None);
    }

    fn compact(&self) {
        self.collect_and_move(Scope::Full, Some(Evacuation::Sparse));
    }

    fn collect_and_move(&self, scope: Scope, compact: Option<Evacuation>) {
        self.heap.collect(Request {
            scope: Some(scope),
            sweep_now: true,
            compact,
            settle_all: false,
        });
        self.heap.verify().unwrap();
    }

    fn first_word(&self, cell: Cell) -> usize {
        let place = std::ptr::with_exposed_provenance::<usize>(cell.address());
        // SAFETY: the block of the cell is committed.
        unsafe { place.read() }
    }
}

fn blocks_of(cells: &[Cell]) -> BTreeSet<usize> {
    let blocks = cells.iter().map(|cell| cell.address() / BLOCK_BYTES);
    blocks.collect()
}

const OBJECTS: usize = if cfg!(miri) { 100 } else { 5000 };

#[test]
fn nothing_is_allocated_into_what_is_inherited() {
    with_program(|p| {
        let theirs = p.objects(OBJECTS);
        p.keep_every(2, &theirs);
        p.collect(Scope::Full);
        p.heap.inherit();
        assert_eq!(p.heap.inherited_blocks(), blocks_of(&theirs).len());
        p.heap.verify().unwrap();
        for _ in 0..3 {
            let mine = p.objects(OBJECTS);
            assert!(blocks_of(&mine).is_disjoint(&blocks_of(&theirs)));
            p.collect(Scope::Minor);
        }
        assert_eq!(p.heap.inherited_blocks(), blocks_of(&theirs).len());
    });
}

#[test]
fn what_dies_in_an_inherited_block_is_not_written_to_until_that_is_taken_over() {
    for poison in [false, true] {
        with_program(|p| {
            p.stress(|stress| stress.poison = poison);
            let theirs = p.objects(OBJECTS);
            p.heap.inherit();
            p.keep_every(3, &theirs);
            p.collect(Scope::Minor);
            assert_eq!(p.heap.usage().live_cells, theirs.len().div_ceil(3));
            let words: Vec<_> = theirs.iter().map(|&cell| p.first_word(cell)).collect();
            assert!(words.iter().all(|&word| word == TAG));
            p.collect(Scope::Full);
            assert_eq!(p.heap.inherited_blocks(), 0);
            for (n, &cell) in theirs.iter().enumerate() {
                assert_eq!(p.first_word(cell) == TAG, n % 3 == 0);
            }
            let mine = p.objects(OBJECTS / 3);
            assert!(blocks_of(&mine).is_subset(&blocks_of(&theirs)));
        });
    }
}

#[test]
fn an_inherited_block_in_which_nothing_lives_goes_back() {
    with_program(|p| {
        let theirs = p.objects(OBJECTS);
        p.heap.inherit();
        p.keep_every(OBJECTS, &[]);
        p.collect(Scope::Minor);
        let usage = p.heap.usage();
        assert_eq!((p.heap.inherited_blocks(), usage.cell_blocks), (0, 0));
        assert_eq!(usage.empty_blocks, blocks_of(&theirs).len());
    });
}

#[test]
fn so_does_one_that_an_allocation_sweeps() {
    with_program(|p| {
        let theirs = p.objects(OBJECTS);
        p.heap.inherit();
        p.keep_every(OBJECTS, &[]);
        p.mark(Scope::Minor);
        let mine = p.objects(OBJECTS);
        p.finish();
        assert_eq!(p.heap.inherited_blocks(), 0);
        let cell_blocks = p.heap.usage().cell_blocks;
        assert_eq!(cell_blocks, blocks_of(&mine).len(), "{}", theirs.len());
    });
}

#[test]
fn what_a_child_of_a_child_inherits_is_all_that_this_has() {
    with_program(|p| {
        let eldest = p.objects(OBJECTS);
        p.keep_every(2, &eldest);
        p.heap.inherit();
        let elder = p.objects(OBJECTS);
        p.collect(Scope::Minor);
        p.heap.inherit();
        let cell_blocks = p.heap.usage().cell_blocks;
        assert_eq!(p.heap.inherited_blocks(), cell_blocks);
        let mine = p.objects(OBJECTS);
        assert!(blocks_of(&mine).is_disjoint(&blocks_of(&eldest)));
        let _ = elder;
        p.collect(Scope::Full);
        assert_eq!(p.heap.inherited_blocks(), 0);
    });
}

#[test]
fn a_fork_in_the_middle_of_marking_and_of_sweeping_keeps_what_lives() {
    for cells in [1, 10, OBJECTS / 2] {
        with_program(|p| {
            let theirs = p.objects(OBJECTS);
            p.keep_every(2, &theirs);
            let mut work = ashlar_heap::WorkBudget::cells(cells);
            let _ = p.heap.advance(Some(Scope::Full), &mut work);
            p.heap.inherit();
            p.heap.verify().unwrap();
            let _ = p.heap.finish_marking();
            p.heap.inherit();
            p.heap.verify().unwrap();
            p.finish();
            let live_cells = p.heap.usage().live_cells;
            assert_eq!(live_cells, OBJECTS / 2, "after {cells} cells");
        });
    }
}

#[test]
#[cfg_attr(miri, ignore)] // The interpreter takes minutes to fill a region.
fn holes_are_used_when_there_is_no_other_room() {
    with_program(|p| {
        p.heap.open_reserve();
        let mut theirs = Vec::new();
        while let Some(cell) = p.try_object() {
            theirs.push(cell);
        }
        p.keep_every(2, &theirs);
        p.collect(Scope::Minor);
        p.heap.inherit();
        let mine = (0..theirs.len() / 2).map_while(|_| p.try_object());
        assert_eq!(mine.count(), theirs.len() / 2);
        p.heap.verify().unwrap();
    });
}

#[test]
fn cells_that_move_leave_and_enter_blocks_that_were_inherited() {
    with_program(|p| {
        let theirs = p.objects(OBJECTS);
        p.keep_every(4, &theirs);
        p.collect(Scope::Full);
        p.heap.inherit();
        p.compact();
        assert_eq!(p.heap.inherited_blocks(), 0);
        let dense_blocks = blocks_of(&theirs).len().div_ceil(4) + 1;
        assert!(p.heap.usage().cell_blocks <= dense_blocks);
    });
}

/// The heap has more blocks than a collection asks about.
#[test]
#[cfg_attr(miri, ignore)] // The interpreter takes minutes for so many cells.
fn all_blocks_are_taken_over_before_cells_move_and_some_at_other_collections() {
    program::with_program(64 * MIB, |p| {
        let theirs = p.objects(400_000);
        // Cells move from the lower blocks into the higher ones, which a collection asks about
        // last.
        let (low, high) = theirs.split_at(theirs.len() / 2);
        let high = high.iter().enumerate().filter(|(n, _)| n % 10 != 0);
        let kept = low.iter().step_by(20).chain(high.map(|(_, cell)| cell));
        let kept = kept.map(|cell| cell.address()).collect();
        *p.heap.vm().roots.borrow_mut() = kept;
        p.collect(Scope::Full);
        p.heap.inherit();
        let inherited_blocks = p.heap.inherited_blocks();
        assert!(inherited_blocks > 300);
        p.collect(Scope::Full);
        let left_blocks = p.heap.inherited_blocks();
        assert!((1..inherited_blocks - 200).contains(&left_blocks));
        p.heap.inherit();
        p.compact();
        assert_eq!(p.heap.inherited_blocks(), 0);
        assert!(p.heap.usage().cell_blocks < inherited_blocks * 11 / 20);
    });
}

// ── Payloads ────────────────────────────────────────────────────────────────

const PIECE_BYTES: usize = 48;
const PIECES: usize = if cfg!(miri) { 200 } else { 4000 };

fn pieces(cache: &mut ThreadCache<'_>, count: usize) -> Vec<NonNull<u8>> {
    let piece = |n| {
        let piece = cache.allocate(PIECE_BYTES).unwrap();
        // SAFETY: the piece is this long, and nobody else has it.
        unsafe { piece.cast::<[usize; 6]>().write([n; 6]) };
        piece
    };
    (0..count).map(piece).collect()
}

fn blocks_of_pieces(pieces: &[NonNull<u8>]) -> BTreeSet<usize> {
    let blocks = pieces.iter();
    let blocks = blocks.map(|piece| piece.as_ptr() as usize / BLOCK_BYTES);
    blocks.collect()
}

fn contents(piece: NonNull<u8>) -> [usize; 6] {
    // SAFETY: the blocks of the pieces are committed.
    unsafe { piece.cast().read() }
}

/// Asserts that what was written to the pieces is still there.
fn assert_untouched<'a>(pieces: impl Iterator<Item = (usize, &'a NonNull<u8>)>) {
    for (n, &piece) in pieces {
        assert_eq!(contents(piece), [n; 6]);
    }
}

fn with_pieces(run: impl FnOnce(&Program<'_>, &mut ThreadCache<'_>, &[NonNull<u8>])) {
    with_program(|p| {
        let mut cache = p.heap.shared().thread_cache();
        let theirs = pieces(&mut cache, PIECES);
        cache.flush();
        p.heap.inherit();
        cache.flush();
        run(p, &mut cache, &theirs);
        cache.flush();
        p.heap.verify().unwrap();
    });
}

fn free(cache: &mut ThreadCache<'_>, piece: NonNull<u8>) {
    // SAFETY: the tests free each piece once.
    unsafe { cache.free(piece) };
}

#[test]
fn pieces_that_a_child_frees_are_not_written_to_and_not_allocated() {
    with_pieces(|p, cache, theirs| {
        for &piece in theirs.iter().step_by(2) {
            free(cache, piece);
        }
        p.heap.verify().unwrap();
        let mine = pieces(cache, PIECES);
        assert!(blocks_of_pieces(&mine).is_disjoint(&blocks_of_pieces(theirs)));
        assert_untouched(theirs.iter().enumerate());
        let in_use_bytes = p.heap.usage().payload_bytes;
        let kept_bytes = (PIECES / 2 + PIECES) * PIECE_BYTES;
        assert!((kept_bytes..kept_bytes + 8 * 1024).contains(&in_use_bytes));
    });
}

#[test]
fn a_block_whose_pieces_are_all_freed_goes_back_and_is_used_again() {
    with_pieces(|p, cache, theirs| {
        for &piece in theirs {
            free(cache, piece);
        }
        let empty_blocks = p.heap.usage().empty_blocks;
        assert_eq!(empty_blocks, blocks_of_pieces(theirs).len());
        let mine = pieces(cache, PIECES);
        assert!(!blocks_of_pieces(&mine).is_disjoint(&blocks_of_pieces(theirs)));
    });
}

#[test]
fn a_block_whose_pieces_were_all_free_at_the_fork_goes_back() {
    with_program(|p| {
        let mut cache = p.heap.shared().thread_cache();
        let theirs = pieces(&mut cache, 1);
        free(&mut cache, theirs[0]);
        cache.flush();
        let empty_blocks = p.heap.usage().empty_blocks;
        p.heap.inherit();
        cache.flush();
        assert_eq!(p.heap.usage().empty_blocks, empty_blocks + 1);
        p.heap.verify().unwrap();
    });
}

#[test]
fn pieces_freed_before_a_block_is_taken_over_are_allocated_after() {
    with_pieces(|p, cache, theirs| {
        for &piece in theirs.iter().step_by(2) {
            free(cache, piece);
        }
        p.collect(Scope::Full);
        let mine: BTreeSet<_> = pieces(cache, PIECES).into_iter().collect();
        let again = theirs.iter().step_by(2);
        if cfg!(miri) {
            return; // The interpreter has no page map: nothing says that the pages are not shared.
        }
        assert!(again.filter(|piece| mine.contains(piece)).count() > PIECES / 3);
        assert_untouched(theirs.iter().enumerate().skip(1).step_by(2));
        p.heap.verify().unwrap();
    });
}

#[test]
#[cfg_attr(miri, ignore)] // The interpreter takes minutes to fill a region.
fn pieces_are_allocated_from_inherited_blocks_when_there_is_no_other_room() {
    with_program(|p| {
        p.heap.open_reserve();
        let mut cache = p.heap.shared().thread_cache();
        let mut theirs = Vec::new();
        while let Ok(piece) = cache.allocate(PIECE_BYTES) {
            theirs.push(piece);
        }
        p.heap.inherit();
        cache.flush();
        for &piece in theirs.iter().step_by(2) {
            free(&mut cache, piece);
        }
        let mine: BTreeSet<_> = pieces(&mut cache, theirs.len() / 2).into_iter().collect();
        assert!(theirs.iter().step_by(2).any(|piece| mine.contains(piece)));
        cache.flush();
        p.heap.verify().unwrap();
    });
}

#[test]
fn what_a_cache_of_the_parent_had_is_given_back_without_a_write_to_its_pages() {
    with_program(|p| {
        let shared = p.heap.shared();
        let (mut cache, mut of_gone_thread) = (shared.thread_cache(), shared.thread_cache());
        let theirs = pieces(&mut cache, 40);
        let gone = pieces(&mut of_gone_thread, 40);
        for &piece in gone.iter().chain(theirs.iter().step_by(2)) {
            free(&mut of_gone_thread, piece);
        }
        p.heap.inherit();
        cache.flush();
        let before: Vec<_> = gone.iter().map(|&piece| contents(piece)).collect();
        of_gone_thread.flush();
        p.heap.verify().unwrap();
        let after: Vec<_> = gone.iter().map(|&piece| contents(piece)).collect();
        assert_eq!(before, after);
        for &piece in theirs.iter().skip(1).step_by(2) {
            free(&mut cache, piece);
        }
        cache.flush();
        p.heap.verify().unwrap();
        assert_eq!(p.heap.usage().payload_bytes, 0);
    });
}

#[test]
fn a_cache_that_learns_nothing_of_it_gives_back_what_it_frees() {
    with_program(|p| {
        let mut cache = p.heap.shared().thread_cache();
        let theirs = pieces(&mut cache, PIECES);
        p.heap.inherit();
        for &piece in theirs.iter().step_by(2) {
            free(&mut cache, piece);
        }
        p.heap.verify().unwrap();
        cache.flush();
        p.heap.verify().unwrap();
        for &piece in theirs.iter().skip(1).step_by(2) {
            free(&mut cache, piece);
        }
        cache.flush();
        p.heap.verify().unwrap();
        assert_eq!(p.heap.usage().payload_bytes, 0);
    });
}
