//! What a heap does with the blocks that it has from its parent where the system does not say
//! which pages are shared: they stay inherited as long as half of their cells live.
//!
//! The refusal holds for the whole process, so these tests have a file of their own.

#[allow(dead_code, missing_docs, unreachable_pub)]
mod program;
#[allow(dead_code, unreachable_pub)]
#[path = "../examples/toy_vm.rs"]
mod toy_vm;

use std::collections::BTreeMap;
use std::sync::Once;

use ashlar_heap::refusals::refuse;
use ashlar_heap::{Cell, Progress, Request, Scope, WidthIndex, WorkBudget, BLOCK_BYTES};
use program::{Program, MIB};
use toy_vm::Shape;

/// Wide objects, so that few of them fill a block.
const WIDE: Shape = Shape {
    references: 1,
    weak: 0,
    data_words: 60,
    protected: true,
};

fn with_program(run: impl FnOnce(&mut Program<'_>)) {
    static REFUSED: Once = Once::new();
    REFUSED.call_once(|| refuse(Some("statm:1+".parse().unwrap())));
    program::with_program(4 * MIB, run);
}

impl Program<'_> {
    /// Objects that fill so many blocks, by block.
    fn full_blocks(&mut self, blocks: usize) -> Vec<Vec<Cell>> {
        let cells_per_block = cells_per_block();
        let mut found = BTreeMap::<_, Vec<_>>::new();
        for _ in 0..blocks * cells_per_block {
            let cell = self.tagged(1, WIDE);
            let block = cell.address() / BLOCK_BYTES;
            found.entry(block).or_default().push(cell);
        }
        let found: Vec<_> = found.into_values().collect();
        assert!(found.len() == blocks && found.iter().all(|cells| cells.len() == cells_per_block));
        found
    }

    /// Makes roots of these, and of nothing else.
    fn keep<'a>(&self, cells: impl IntoIterator<Item = &'a Cell>) {
        self.drop_roots();
        cells.into_iter().for_each(|&cell| self.root(cell));
    }

    fn collect(&self, scope: Scope, settle_all: bool) {
        self.heap.collect(Request {
            scope: Some(scope),
            settle_all,
            ..Request::EVERYTHING
        });
        self.heap.verify().unwrap();
    }

    fn states(&self, cells: &[Cell]) -> Vec<u8> {
        let states = cells.iter().map(|&cell| self.state(cell).bits());
        states.collect()
    }
}

fn cells_per_block() -> usize {
    let width = WidthIndex::for_size(WIDE.bytes()).unwrap();
    width.cells_per_block()
}

#[test]
fn a_block_of_which_less_than_half_lives_is_taken_over_and_no_other() {
    for scope in [Scope::Major, Scope::Full] {
        with_program(|p| {
            let theirs = p.full_blocks(6);
            p.heap.inherit();
            let half = cells_per_block().div_ceil(2);
            let (sparse, dense) = theirs.split_at(3);
            let kept = sparse.iter().map(|cells| &cells[..half - 1]);
            let kept = kept.chain(dense.iter().map(|cells| &cells[..half]));
            p.keep(kept.flatten());
            p.collect(Scope::Minor, false);
            assert_eq!(p.heap.inherited_blocks(), 6);
            p.collect(scope, false);
            assert_eq!(p.heap.inherited_blocks(), 3);
            let holes = 3 * (cells_per_block() - (half - 1));
            let mut filled: Vec<_> = (0..holes).map(|_| p.tagged(1, WIDE)).collect();
            filled.sort();
            let mut free: Vec<_> = sparse.iter().flat_map(|cells| &cells[half - 1..]).collect();
            free.sort();
            assert!(filled.iter().eq(free));
        });
    }
}

#[test]
fn a_major_collection_writes_no_states_of_what_settled_in_the_parent_and_a_full_one_frees_it() {
    with_program(|p| {
        let blocks = p.full_blocks(6);
        let theirs = blocks.concat();
        p.keep(&theirs);
        p.collect(Scope::Full, true);
        assert!(theirs.iter().all(|&cell| p.state(cell).is_settled()));
        p.heap.inherit();
        p.keep(theirs.iter().step_by(2));
        let mine = p.full_blocks(2).concat();
        let before = p.states(&theirs);
        // In slices, so that a state that is written and put back shows in between.
        let advance = || {
            p.heap
                .advance(Some(Scope::Major), &mut WorkBudget::cells(1))
        };
        while !matches!(advance(), Progress::Marked(_)) {
            assert!(p.states(&theirs) == before);
        }
        p.finish();
        assert!(p.states(&theirs) == before);
        assert!(!mine.iter().any(|&cell| p.lives(cell)));
        p.collect(Scope::Full, false);
        for (n, &cell) in theirs.iter().enumerate() {
            assert_eq!(p.lives(cell), n % 2 == 0);
        }
        assert_eq!(p.heap.inherited_blocks(), blocks.len());
    });
}
