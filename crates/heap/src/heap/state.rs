//! What the collector remembers between its phases: values that own what one phase works on.

use std::ptr::NonNull;

use super::counts::Counts;
use super::forked::Forked;
use super::slices::Slices;
use crate::allocate::cursor::AllocationCache;
use crate::allocate::huge_pages::Moves;
use crate::allocate::lists::BlockLists;
use crate::allocate::surplus::Surplus;
use crate::layout::block::BlockIndex;
use crate::layout::width::{WidthIndex, WIDTH_COUNT};
use crate::pace::{Pace, PaceOptions, Scope};
use crate::payload::Payloads;
use crate::shared::Shared;
use crate::stats::WidthUsage;
use crate::sweep::pacer::SweepPacer;

/// Everything that only whoever holds the VM's lock works on, but for marking.
pub(super) struct State<'shared> {
    pub(super) pacing: Pacing<'shared>,
    pub(super) sweep: Sweep<'shared>,
    pub(super) counts: Counts,
    pub(super) caches: Vec<NonNull<AllocationCache<'shared>>>,
    pub(super) inherited: Inherited,
}

/// When something is due.
pub(super) struct Pacing<'shared> {
    pub(super) pace: Pace,
    pub(super) slices: Slices,
    pub(super) forked: Forked,
    /// Bytes of cells that have been handed out since the latest collection.
    fresh_cell_bytes: usize,
    payloads: &'shared Payloads,
    /// CPU time of collecting, while pacing goes by it.
    pub(super) collecting_cpu_ns: u64,
    /// The latest collection was full and marked in one stop: all that it kept was live.
    pub(super) latest_is_exact: bool,
}

/// The blocks that are swept, or wait to be.
pub(super) struct Sweep<'shared> {
    pub(super) lists: BlockLists<'shared>,
    pub(super) pacer: SweepPacer,
    /// The first block that has not been looked at since the latest major or full collection, to
    /// give back pages in which nothing lies.
    pub(super) release_from: Option<usize>,
    /// The empty blocks that no nursery needs.
    pub(super) surplus: Surplus,
    /// When full chunks move into huge pages.
    pub(super) moves: Moves,
}

/// What the collector remembers of inherited blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inherited {
    /// Blocks of cells that are flagged [`INHERITED`](crate::layout::block::INHERITED).
    pub(super) blocks: usize,
    /// The number of the block from which the next collection goes on asking.
    pub(super) next: usize,
}

impl<'shared> State<'shared> {
    pub(super) fn new(shared: &'shared Shared, pace: PaceOptions) -> Self {
        Self {
            pacing: Pacing {
                pace: Pace::new(pace),
                slices: Slices::default(),
                forked: Forked::default(),
                fresh_cell_bytes: 0,
                payloads: &shared.payloads,
                collecting_cpu_ns: 0,
                latest_is_exact: true,
            },
            sweep: Sweep {
                lists: BlockLists::new(&shared.space),
                pacer: SweepPacer::default(),
                release_from: None,
                surplus: Surplus::default(),
                moves: Moves::default(),
            },
            counts: Counts::default(),
            caches: Vec::new(),
            inherited: Inherited::default(),
        }
    }

    /// The caches that exist, for a look at their counters.
    pub(super) fn caches(&self) -> impl Iterator<Item = &AllocationCache<'shared>> {
        // SAFETY: caches live until `drop_cache`, which takes them off this list, and nobody
        // has a reference to one when the heap is asked for anything but cells (`new_cache`).
        self.caches.iter().map(|cache| unsafe { cache.as_ref() })
    }

    /// What is in the heap, width by width.
    pub(super) fn width_usage(&self) -> [WidthUsage; WIDTH_COUNT] {
        let mut usage = [WidthUsage::default(); WIDTH_COUNT];
        for (width, of) in self.counts.by_width() {
            let by_caches = self.caches().map(|cache| cache.allocated_cells(width));
            usage[width.index()] = of.usage(width, by_caches.sum());
        }
        usage
    }

    /// Notes that an allocation has got runs of `bytes`.
    #[inline(always)]
    pub(super) fn hand_out(&mut self, bytes: usize) {
        self.count_handed(bytes);
        self.sweep.pacer.note_handed(self.pacing.fresh_bytes());
    }

    /// [`State::hand_out`] at the beginning of an allocation that may have to sweep: whether it
    /// does has been answered ([`Heap::will_sweep`](super::Heap::will_sweep)), and must not change.
    #[inline(always)]
    pub(super) fn count_handed(&mut self, bytes: usize) {
        self.pacing.fresh_cell_bytes += bytes;
    }

    /// Bytes that the program may be handed until a collection, or the next slice of one, is due.
    pub(super) fn bytes_until_due(&self, is_marking: bool) -> usize {
        let Pacing { pace, slices, .. } = &self.pacing;
        let sweeps = slices.sweeps && self.sweep.lists.unswept_blocks() > 0;
        let due_bytes = if is_marking || sweeps {
            slices.next_bytes
        } else {
            pace.nursery_bytes().max(slices.next_bytes)
        };
        due_bytes.saturating_sub(self.pacing.fresh_bytes())
    }
}

impl Pacing<'_> {
    /// Bytes allocated since the latest collection.
    #[inline(always)]
    pub(super) fn fresh_bytes(&self) -> usize {
        self.fresh_cell_bytes + self.payloads.fresh_bytes()
    }

    /// Begins to count fresh bytes from 0.
    pub(super) fn count_fresh_anew(&mut self) {
        self.fresh_cell_bytes = 0;
        self.payloads.take_fresh_bytes();
    }
}

impl Sweep<'_> {
    /// Begins to sweep what a collection of this scope has left.
    pub(super) fn begin(&mut self, scope: Scope, nursery_bytes: usize) {
        let is_minor = scope == Scope::Minor;
        self.lists.rebuild(!is_minor);
        // Early, because dead cells hold memory, but not at once.
        self.pacer = SweepPacer::new(nursery_bytes / 16, self.lists.unswept_blocks());
        if !is_minor {
            self.release_from = Some(0);
        }
    }

    /// The next block to sweep, of this width if there is one.
    pub(super) fn next(&mut self, width: Option<WidthIndex>) -> Option<(WidthIndex, BlockIndex)> {
        let of_width = width.and_then(|width| Some((width, self.lists.pop_unswept(width)?)));
        of_width.or_else(|| self.lists.pop_any_unswept())
    }
}
