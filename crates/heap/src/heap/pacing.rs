//! Pacing: its options, and the bytes in use, the memory and the CPU time that it goes by.

use super::Heap;
use crate::layout::width::WidthIndex;
use crate::layout::BLOCK_BYTES;
use crate::os;
use crate::pace::{Costs, Measure, Pace, PaceOptions, Residence, Scope};
use crate::vm::Vm;

impl<V: Vm> Heap<'_, V> {
    /// Whether pacing wants a collection, or the next slice of one.
    #[inline]
    pub fn collection_is_due(&self) -> bool {
        self.bytes_until_due() == 0
    }

    /// Bytes that the program may be handed until [`Heap::collection_is_due`].
    pub fn bytes_until_due(&self) -> usize {
        let is_marking = self.is_marking();
        self.state.borrow().bytes_until_due(is_marking)
    }

    /// Bytes allocated since the latest collection.
    pub fn fresh_bytes(&self) -> usize {
        self.state.borrow().pacing.fresh_bytes()
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
        let state = self.state.borrow();
        let mut bytes = state.pacing.fresh_bytes();
        for width in state.width_usage() {
            bytes += (width.cells - width.live_cells) * width.width_bytes;
        }
        let mut unused_bytes = 0;
        for cache in state.caches() {
            bytes += cache.handed_bytes();
            unused_bytes += WidthIndex::all()
                .map(|width| cache.unused_bytes(width))
                .sum::<usize>();
        }
        bytes.saturating_sub(unused_bytes)
    }

    /// The pacing in force.
    pub fn pace(&self) -> Pace {
        self.state.borrow().pacing.pace
    }

    /// Changes the options of pacing.
    pub fn set_pace_options(&self, options: PaceOptions) {
        self.state.borrow_mut().pacing.pace.set_options(options);
    }

    /// Puts the next collection off until further blocks have been taken for at
    /// least `bytes` ([`Heap::bytes_for_new_blocks`]).
    pub fn put_off_collection(&self, bytes: usize) {
        let nursery_bytes = bytes.saturating_add(self.bytes_without_new_blocks());
        self.state.borrow_mut().pacing.pace.put_off(nursery_bytes);
    }

    /// The scope of the next collection if nobody asks for one. While dead cells are unswept, or
    /// marking is in progress, the scope is not known, and `Minor` is returned.
    pub fn next_scope(&self) -> Scope {
        if self.is_sweeping() || self.is_marking() {
            return Scope::Minor;
        }
        self.pace().start(self.measure_all(), None)
    }

    /// Decides whether to collect in full because the process is about to fork ([`Pace::decide_before_fork`]).
    pub fn decide_before_fork(&self) -> bool {
        let measure = self.measure_all();
        let pace = &mut self.state.borrow_mut().pacing.pace;
        pace.decide_before_fork(&measure)
    }

    /// Bytes in use, and those of them that are fresh.
    pub fn measure(&self) -> Measure {
        let counts_rescans = self.pace().options().rescans_max_millionths.is_some();
        let rescanned_cells = match counts_rescans {
            true => self.remembered_unprotected_cells(),
            false => 0,
        };
        let lasting_bytes = self.vm.lasting_bytes();
        let state = self.state.borrow();
        let (stats, payloads) = (&state.counts.totals, &self.shared.payloads);
        let widths = state.width_usage();
        let cell_bytes = widths.map(|width| width.live_cells * width.width_bytes);
        let cell_bytes = cell_bytes.iter().sum();
        Measure {
            used_bytes: cell_bytes + payloads.in_use_bytes() + payloads.elsewhere_bytes(),
            fresh_bytes: state.pacing.fresh_bytes(),
            cell_bytes,
            kept_cells: stats.marked_cells,
            old_cells: stats.old_cells,
            settled_cells: stats.settled_cells,
            lasting_bytes,
            rescanned_cells,
            ..Measure::default()
        }
    }

    /// [`Heap::measure`], and also the memory and the CPU time that the system has given, as far
    /// as pacing goes by them.
    pub(super) fn measure_all(&self) -> Measure {
        let mut measure = self.measure();
        let options = *self.pace().options();
        let is_limited = options.memory_limit_bytes.is_some();
        if !is_limited && !options.weighs_cpu_time() {
            return measure;
        }
        let process_ns = os::cpu_time_ns();
        let resident_bytes = os::resident_bytes();
        let whole_bytes = resident_bytes.unwrap_or(measure.used_bytes);
        let own_bytes = self.own_bytes(process_ns, whole_bytes, 0);
        if is_limited && resident_bytes.is_some() {
            let block_bytes = self.shared.space.blocks.counts().in_use * BLOCK_BYTES;
            // Other threads may have reported more since the measuring.
            let elsewhere_bytes = self.shared.payloads.elsewhere_bytes();
            let here_bytes = measure.used_bytes.saturating_sub(elsewhere_bytes);
            // Nothing is allocated into the holes of inherited blocks, so they are no room.
            let has_inherited_blocks =
                self.inherited_blocks() > 0 || self.shared.payloads.has_inherited_blocks();
            let free_bytes = match has_inherited_blocks {
                true => 0,
                false => block_bytes.saturating_sub(here_bytes),
            };
            measure.residence = Some(Residence {
                resident_bytes: own_bytes,
                free_bytes,
            });
        }
        // The system may not say what CPU time the process has taken.
        if options.weighs_cpu_time() && process_ns > 0 {
            measure.costs = Some(Costs {
                collecting_ns: self.state.borrow().pacing.collecting_cpu_ns,
                process_ns,
                process_bytes: own_bytes,
            });
        }
        measure
    }

    /// How many of the `resident_bytes` count as this process's, which has taken `process_ns` of
    /// CPU time and wants `wanted_bytes` more. A forked child asks the system if it is time to.
    fn own_bytes(&self, process_ns: u64, resident_bytes: usize, wanted_bytes: usize) -> usize {
        let limit_bytes = self.pace().options().memory_limit_bytes;
        let with_wanted_bytes = resident_bytes.saturating_add(wanted_bytes);
        let may_be_near_limit =
            limit_bytes.is_some_and(|limit_bytes| with_wanted_bytes > limit_bytes / 4 * 3);
        self.state.borrow_mut().pacing.forked.own_bytes(
            std::process::id(),
            process_ns,
            resident_bytes,
            may_be_near_limit,
            os::proportional_bytes,
        )
    }

    /// The resident memory that counts as this process's, as far as is known without asking
    /// for it; `None` where the system does not say.
    pub fn own_resident_bytes(&self) -> Option<usize> {
        let resident_bytes = os::resident_bytes()?;
        let forked = self.state.borrow().pacing.forked;
        Some(forked.without_elsewhere(resident_bytes))
    }

    /// [`Heap::own_resident_bytes`], or the bytes in use where the system does not say.
    pub fn own_resident_or_used_bytes(&self) -> usize {
        self.own_resident_bytes()
            .unwrap_or_else(|| self.measure().used_bytes)
    }

    /// Runs `work`, which collects, and counts the CPU time it takes if pacing goes by CPU time.
    pub(super) fn counting_cpu<R>(&self, work: impl FnOnce() -> R) -> R {
        if !self.pace().options().weighs_cpu_time() {
            return work();
        }
        let start_ns = os::cpu_time_ns();
        let result = work();
        let spent_ns = os::cpu_time_since_ns(start_ns);
        self.state.borrow_mut().pacing.collecting_cpu_ns += spent_ns;
        result
    }

    /// Bytes that the process may take from the system before it outgrows its memory limit;
    /// `None` without a limit, when live data does not fit, or where the system does not say.
    pub fn room_below_limit_bytes(&self) -> Option<usize> {
        let pace = self.pace();
        let limit_bytes = pace.options().memory_limit_bytes?;
        let resident_bytes = self.own_resident_bytes()?;
        (!pace.is_over_limit()).then(|| limit_bytes.saturating_sub(resident_bytes))
    }

    /// Whether the process may take `bytes` more below its memory limit; true where
    /// [`Heap::room_below_limit_bytes`] is `None`. A forked child that has not asked for its part
    /// of the memory asks if it would have no room otherwise.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        let has_room = || {
            self.room_below_limit_bytes()
                .is_none_or(|room_bytes| room_bytes >= bytes)
        };
        if has_room() {
            return true;
        }
        let resident_bytes = os::resident_bytes().unwrap_or(0);
        let own_bytes = self.own_bytes(os::cpu_time_ns(), resident_bytes, bytes);
        own_bytes < resident_bytes && has_room()
    }

    /// Tells pacing how much memory the process has resident, if there is a limit to it.
    pub fn note_resident(&self) {
        let has_limit = self.pace().options().memory_limit_bytes.is_some();
        if let Some(resident_bytes) = has_limit.then(|| self.own_resident_bytes()).flatten() {
            let pace = &mut self.state.borrow_mut().pacing.pace;
            pace.note_resident(resident_bytes);
        }
    }

    /// Whether free memory has to go back at once to stay below the limit.
    pub(super) fn is_out_of_limit(&self) -> bool {
        let pace = self.pace();
        pace.options().memory_limit_bytes.is_some_and(|limit| {
            let resident_bytes = self.own_resident_or_used_bytes();
            resident_bytes + 2 * pace.nursery_bytes() + limit / 8 > limit
        })
    }
}
