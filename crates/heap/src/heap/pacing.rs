//! Pacing: its options, and the bytes in use, the memory and the CPU time that it goes by.

use super::Heap;
use crate::layout::width::WidthIndex;
use crate::layout::BLOCK_BYTES;
use crate::os;
use crate::pace::{Costs, Measure, Pace, PaceOptions, Residence, Scope};
use crate::vm::Vm;

impl<V: Vm> Heap<'_, V> {
    fn live_cell_bytes(&self) -> usize {
        let widths = self.width_usage();
        let bytes = widths.map(|width| width.live_cells * width.width_bytes);
        bytes.iter().sum()
    }

    /// Bytes allocated since the latest collection.
    pub fn fresh_bytes(&self) -> usize {
        self.collector.borrow().fresh_bytes(self.shared)
    }

    /// Bytes that further blocks may be taken for before the next collection is due: what would
    /// be left of the nursery if all free cells were handed out.
    pub fn bytes_for_new_blocks(&self) -> usize {
        let nursery_bytes = self.pace().nursery_bytes();
        nursery_bytes.saturating_sub(self.bytes_without_new_blocks())
    }

    /// Bytes that have been handed out since the latest collection, and bytes that can be without
    /// another block. A run that a cache allocates from counts as fresh from its beginning to its
    /// end, and its free cells as free. What a cache has taken without asking is not among the
    /// fresh bytes yet.
    fn bytes_without_new_blocks(&self) -> usize {
        let free_bytes = self
            .width_usage()
            .map(|width| (width.cells - width.live_cells) * width.width_bytes);
        let (mut unused_bytes, mut untold_bytes) = (0, 0);
        let collector = self.collector.borrow();
        for cache in collector.caches() {
            untold_bytes += cache.handed_bytes();
            unused_bytes += WidthIndex::all()
                .map(|width| cache.unused_bytes(width))
                .sum::<usize>();
        }
        let fresh_bytes = collector.fresh_bytes(self.shared) + untold_bytes;
        (fresh_bytes + free_bytes.iter().sum::<usize>()).saturating_sub(unused_bytes)
    }

    /// The pacing in force.
    pub fn pace(&self) -> Pace {
        self.collector.borrow().pace
    }

    /// Changes the options of pacing.
    pub fn set_pace_options(&self, options: PaceOptions) {
        self.collector.borrow_mut().pace.set_options(options);
    }

    /// Puts the next collection off until further blocks have been taken for at
    /// least `bytes` ([`Heap::bytes_for_new_blocks`]).
    pub fn put_off_collection(&self, bytes: usize) {
        let nursery_bytes = bytes.saturating_add(self.bytes_without_new_blocks());
        self.collector.borrow_mut().pace.put_off(nursery_bytes);
    }

    /// The scope of the next collection if nobody asks for one. While dead cells are unswept, or
    /// marking is in progress, the scope is not known, and `Minor` is returned.
    pub fn next_scope(&self) -> Scope {
        if self.is_sweeping() || self.is_marking() {
            return Scope::Minor;
        }
        self.pace().start(self.measure_all(), None)
    }

    /// Whether to collect in full because the process is about to fork ([`Pace::is_due_before_fork`]).
    pub fn is_due_before_fork(&self) -> bool {
        let measure = self.measure_all();
        self.collector
            .borrow_mut()
            .pace
            .is_due_before_fork(&measure)
    }

    /// Bytes in use, and those of them that are fresh.
    pub fn measure(&self) -> Measure {
        let cell_bytes = self.live_cell_bytes();
        let stats = self.collector.borrow().stats;
        let counts_rescans = self.pace().options().rescans_max_millionths.is_some();
        Measure {
            used_bytes: cell_bytes
                + self.shared.payloads.in_use_bytes()
                + self.shared.payloads.elsewhere_bytes(),
            fresh_bytes: self.fresh_bytes(),
            cell_bytes,
            kept_cells: stats.marked_cells,
            old_cells: stats.old_cells,
            settled_cells: stats.settled_cells,
            lasting_bytes: self.vm.lasting_bytes(),
            rescanned_cells: if counts_rescans {
                self.remembered_unprotected_cells()
            } else {
                0
            },
            residence: None,
            costs: None,
        }
    }

    /// [`Heap::measure`], and also the memory and the CPU time that the system has given, as far
    /// as pacing goes by them.
    pub(super) fn measure_all(&self) -> Measure {
        let measure = self.measure();
        let options = *self.pace().options();
        let (is_limited, is_weighed) = (
            options.memory_limit_bytes.is_some(),
            options.weighs_cpu_time(),
        );
        let resident_bytes = (is_limited || is_weighed)
            .then(os::resident_bytes)
            .flatten();
        let residence = |resident_bytes: usize| {
            let block_bytes = self.shared.space.blocks.counts().in_use * BLOCK_BYTES;
            let here_bytes = measure.used_bytes - self.shared.payloads.elsewhere_bytes();
            Residence {
                resident_bytes,
                free_bytes: block_bytes.saturating_sub(here_bytes),
            }
        };
        Measure {
            residence: resident_bytes.filter(|_| is_limited).map(residence),
            costs: is_weighed
                .then(|| self.costs_now(resident_bytes.unwrap_or(measure.used_bytes)))
                .flatten(),
            ..measure
        }
    }

    /// What the process has cost so far; `None` where the system does not say.
    fn costs_now(&self, resident_bytes: usize) -> Option<Costs> {
        let process_ns = os::cpu_time_ns();
        (process_ns > 0).then(|| {
            let mut collector = self.collector.borrow_mut();
            let process_bytes = collector.forked.own_bytes(
                std::process::id(),
                process_ns,
                resident_bytes,
                os::proportional_bytes,
            );
            Costs {
                collecting_ns: collector.collecting_cpu_ns,
                process_ns,
                process_bytes,
            }
        })
    }

    fn weighs_cpu_time(&self) -> bool {
        self.pace().options().weighs_cpu_time()
    }

    /// Runs `work`, which collects, and counts the CPU time it takes if pacing goes by CPU time.
    pub(super) fn counting_cpu<R>(&self, work: impl FnOnce() -> R) -> R {
        if !self.weighs_cpu_time() {
            return work();
        }
        let start_ns = os::cpu_time_ns();
        let result = work();
        let spent_ns = os::cpu_time_ns().saturating_sub(start_ns);
        self.collector.borrow_mut().collecting_cpu_ns += spent_ns;
        result
    }

    /// Bytes that the process may take from the system before it outgrows its memory limit;
    /// `None` without a limit, when live data does not fit, or where the system does not say.
    pub fn room_below_limit_bytes(&self) -> Option<usize> {
        let pace = self.pace();
        let limit_bytes = pace.options().memory_limit_bytes?;
        let resident_bytes = os::resident_bytes()?;
        (!pace.is_over_limit()).then(|| limit_bytes.saturating_sub(resident_bytes))
    }

    /// Whether the process may take `bytes` more below its memory limit; true where
    /// [`Heap::room_below_limit_bytes`] is `None`.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.room_below_limit_bytes()
            .is_none_or(|room_bytes| room_bytes >= bytes)
    }

    /// Tells pacing how much memory the process has resident, if there is a limit to it.
    pub fn note_resident(&self) {
        let has_limit = self.pace().options().memory_limit_bytes.is_some();
        if let Some(resident_bytes) = has_limit.then(os::resident_bytes).flatten() {
            self.collector
                .borrow_mut()
                .pace
                .note_resident(resident_bytes);
        }
    }

    /// Whether free memory has to go back at once to stay below the limit.
    pub(super) fn is_out_of_limit(&self) -> bool {
        let pace = self.pace();
        pace.options().memory_limit_bytes.is_some_and(|limit| {
            let resident_bytes = os::resident_bytes().unwrap_or(0);
            resident_bytes + 2 * pace.nursery_bytes() + limit / 8 > limit
        })
    }
}
