//! What is in a free cell.
//!
//! ```text
//! [ 0 │ next run │ end of this run │ poison … ]     the first cell of a free run
//! [ 0 │ poison …                              ]     any other
//! ```
//! Poison is there only while poisoning is on
//! ([`Stress::poison`](crate::stress::Stress::poison)).

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::allocate::run::RUN_WORDS;
use crate::layout::block::BlockIndex;
use crate::layout::cell_state::CellState;
use crate::layout::region::{Cell, Region, States};
use crate::layout::width::WidthIndex;
use crate::space::Space;
use crate::stress::POISON;

/// Frees the memory of a cell in which nothing lives any more.
#[inline(always)]
pub(crate) fn free_cell(region: &Region, states: States<'_>, cell: Cell) {
    states.set(cell, CellState::FREE);
    let first_word = region.pointer(cell.address()).cast::<usize>();
    // SAFETY: the cell has just become free, and begins with a word.
    unsafe { first_word.write(0) };
}

/// Poisons all but the first word of a cell that is free or about to be.
#[cold]
#[inline(never)]
pub(crate) fn poison_cell(region: &Region, cell: Cell, width: WidthIndex) {
    // SAFETY: nothing lives in the cell.
    fill(&unsafe { words_of(region, cell, width) }[1..]);
}

/// Poisons the free cells of a block, except the words that runs need.
pub(crate) fn poison_block(space: &Space, block: BlockIndex, width: WidthIndex) {
    for_each_free_cell(space, block, width, |_, words| {
        words[0].store(0, Relaxed);
        fill(&words[RUN_WORDS..]);
    });
}

/// Calls `visit` with the free cells of a block that somebody wrote to. Called while poisoning is
/// on.
pub(crate) fn for_each_disturbed(
    space: &Space,
    block: BlockIndex,
    width: WidthIndex,
    mut visit: impl FnMut(Cell),
) {
    for_each_free_cell(space, block, width, |cell, words| {
        let is_poison = |word: &AtomicUsize| word.load(Relaxed) == POISON;
        if words[0].load(Relaxed) != 0 || !words[RUN_WORDS..].iter().all(is_poison) {
            visit(cell);
        }
    });
}

fn for_each_free_cell(
    space: &Space,
    block: BlockIndex,
    width: WidthIndex,
    mut visit: impl FnMut(Cell, &[AtomicUsize]),
) {
    for cell in space.cells_of(block) {
        if space.region.state_of(cell) == CellState::FREE {
            // SAFETY: the cell is free.
            visit(cell, unsafe { words_of(&space.region, cell, width) });
        }
    }
}

fn fill(words: &[AtomicUsize]) {
    for word in words {
        word.store(POISON, Relaxed);
    }
}

/// The words of a free cell.
///
/// # Safety
/// The cell is free: the program does not use it.
#[inline(always)]
unsafe fn words_of(region: &Region, cell: Cell, width: WidthIndex) -> &[AtomicUsize] {
    let start = region.pointer(cell.address()).cast();
    // SAFETY: the cell's block is committed, a cell is aligned to a word, and the
    // collector alone accesses free cells.
    unsafe { std::slice::from_raw_parts(start, width.bytes() / 8) }
}
