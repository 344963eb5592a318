//! Where a collection is. ARCHITECTURE.md draws its stages.
//!
//! A *remark* traces the roots, the cells without a barrier, and the cells into which something
//! unknown was stored, with the program stopped. When nothing is grey afterwards, marking is over
//! and sweeping begins. The first remark begins with marking itself, so a collection that is done
//! in one stop needs no other. When a remark finds more than its budget allows, the program goes
//! on, and another remark is tried later. New cells are white, because no barrier is called when
//! the program fills them.

use std::cell::Cell as StdCell;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::mark::Mode;
use crate::pace::Scope;

/// The states of a collection, without their data: all that the write barrier, and those who do
/// not hold the VM's lock, need to know.
///
/// Invariants (the verifier asserts the same numbers):
///
/// 11. While tracing, a black cell refers to marked cells only. Black is a
///     marked cell that is neither grey, nor remembered and untraced, nor to be
///     traced again by the remark.
/// 12. While clearing, no cell of a block that has been cleared is marked, but for
///     settled ones in a major collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// No marking is going on. Invariants 1 to 5, 16 and 17 hold.
    Idle,
    /// A major or full collection takes the marks of the previous ones off; a minor one passes
    /// this stage without doing anything. Nothing is marked in the meantime, and the remembered
    /// set is of no use any more: invariants 2 to 5 do not hold. In a major collection invariants
    /// 2, 16 and 17 hold for settled cells.
    Clearing,
    /// Cells are being marked, and the program runs between slices. In a major or full
    /// collection invariants 2 to 5, 16 and 17 hold for marked cells, 5 and 17 only for
    /// black ones.
    Tracing,
    /// The roots have been traced, and the program has not run since: when nothing is grey, all
    /// that lives is marked. Never seen while the program runs.
    Remark,
    /// Cells move: references may still be to where the cells were. Never seen while the program
    /// runs.
    Moving,
}

impl Stage {
    /// Whether there are marks that are not complete: black and white cells.
    #[inline(always)]
    pub(crate) fn is_tracing(self) -> bool {
        matches!(self, Self::Tracing | Self::Remark)
    }

    /// Whether a collection has begun whose marking is not over.
    #[inline(always)]
    pub(crate) fn is_marking(self) -> bool {
        self == Self::Clearing || self.is_tracing()
    }
}

/// What a collection is from its beginning to the end of marking.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cycle {
    pub(crate) scope: Scope,
    pub(super) mode: Mode,
    /// The blocks whose marks are taken off are the lowest: so many, and so many of them have been
    /// cleared. Higher ones have new cells only.
    pub(super) blocks: usize,
    pub(crate) cleared_blocks: usize,
    /// Cells marked at the beginning: the old ones in a minor collection, the settled ones
    /// in a major one.
    pub(super) marked_before: usize,
    /// Remarks begun so far, without the first one.
    pub(super) later_remarks: u32,
    /// Old cells that have been found before settle when they are found now.
    pub(super) lets_settle: bool,
    /// The program has run since the beginning: cells that have died since may be kept.
    pub(super) has_been_paused: bool,
}

/// The collection in progress.
#[derive(Debug)]
pub(super) struct Collection {
    /// The [`Stage`], an atomic for those who ask without the VM's lock.
    stage: AtomicU8,
    /// There is one exactly while the stage [is marking](Stage::is_marking).
    cycle: StdCell<Option<Cycle>>,
}

impl Collection {
    pub(super) fn none() -> Self {
        Self {
            stage: AtomicU8::new(Stage::Idle as u8),
            cycle: StdCell::new(None),
        }
    }

    #[inline(always)]
    pub(super) fn stage(&self) -> Stage {
        match self.stage.load(Relaxed) {
            0 => Stage::Idle,
            1 => Stage::Clearing,
            2 => Stage::Tracing,
            3 => Stage::Remark,
            _ => Stage::Moving,
        }
    }

    pub(super) fn stage_byte(&self) -> *const u8 {
        self.stage.as_ptr()
    }

    #[inline(always)]
    pub(super) fn is_idle(&self) -> bool {
        self.stage.load(Relaxed) == Stage::Idle as u8
    }

    pub(super) fn cycle(&self) -> Option<Cycle> {
        self.cycle.get()
    }

    pub(super) fn enter(&self, stage: Stage, cycle: Option<Cycle>) {
        debug_assert_eq!(cycle.is_some(), stage.is_marking());
        self.cycle.set(cycle);
        self.stage.store(stage as u8, Relaxed);
    }
}
