//! Where a collection is.
//!
//! ```text
//!       begin              marks are cleared           nothing grey is left
//! idle ───────→ clearing ────────────────────→ remark ──────────────────────→ idle
//!                                              │    ↑
//!                     the budget is used up:   │    │  nothing grey is left,
//!                     the program goes on      ↓    │  and half of the budget
//!                                             tracing
//! ```
//!
//! A *remark* traces the roots, the cells without a barrier, and the cells into which something
//! unknown was stored, with the program stopped. When nothing is grey afterwards, marking is over
//! and sweeping begins. The first remark begins with marking itself, so a collection that is done
//! in one stop needs no other. When a remark finds more than its budget allows, the program goes
//! on, and another remark is tried later. New cells are white, because no barrier is called when
//! the program fills them.

use std::ops::Range;
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

/// The collection in progress.
#[derive(Debug)]
pub(super) enum Collection {
    Idle,
    Clearing {
        cycle: Cycle,
        /// Blocks that may have marks of earlier collections. Lower ones have been cleared,
        /// higher ones have new cells only.
        uncleared: Range<usize>,
    },
    Tracing(Cycle),
    Remark(Cycle),
    Moving,
}

/// What a collection is from its beginning to the end of marking.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cycle {
    pub(super) scope: Scope,
    pub(super) mode: Mode,
    /// Cells marked at the beginning: the old ones in a minor collection, the settled ones
    /// in a major one.
    pub(super) marked_before: usize,
    /// Remarks begun so far, without the first one.
    pub(super) later_remarks: u32,
    /// The program has run since the beginning: cells that have died since may be kept.
    pub(super) has_been_paused: bool,
}

impl Collection {
    fn stage(&self) -> Stage {
        match self {
            Self::Idle => Stage::Idle,
            Self::Clearing { .. } => Stage::Clearing,
            Self::Tracing(_) => Stage::Tracing,
            Self::Remark(_) => Stage::Remark,
            Self::Moving => Stage::Moving,
        }
    }

    pub(super) fn cycle(&self) -> Option<Cycle> {
        match *self {
            Self::Clearing { cycle, .. } | Self::Tracing(cycle) | Self::Remark(cycle) => {
                Some(cycle)
            }
            Self::Idle | Self::Moving => None,
        }
    }

    pub(super) fn cycle_mut(&mut self) -> Option<&mut Cycle> {
        match self {
            Self::Clearing { cycle, .. } | Self::Tracing(cycle) | Self::Remark(cycle) => {
                Some(cycle)
            }
            Self::Idle | Self::Moving => None,
        }
    }
}

/// The [`Stage`], for those who ask without the VM's lock.
#[derive(Debug)]
pub(super) struct StageByte(AtomicU8);

impl StageByte {
    pub(super) fn new() -> Self {
        Self(AtomicU8::new(Stage::Idle as u8))
    }

    #[inline(always)]
    pub(super) fn get(&self) -> Stage {
        match self.0.load(Relaxed) {
            0 => Stage::Idle,
            1 => Stage::Clearing,
            2 => Stage::Tracing,
            3 => Stage::Remark,
            _ => Stage::Moving,
        }
    }

    pub(super) fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr()
    }

    #[inline(always)]
    pub(super) fn is_idle(&self) -> bool {
        self.0.load(Relaxed) == Stage::Idle as u8
    }

    pub(super) fn follow(&self, collection: &Collection) {
        self.0.store(collection.stage() as u8, Relaxed);
    }
}
