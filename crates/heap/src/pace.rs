//! When to collect, and whether all of it: pure arithmetic over byte counts.
//!
//! There are three thresholds. A collection is due when the program has been handed a
//! nursery of bytes since the previous one. It is a major one when the old part of the
//! kept bytes has outgrown, by `space_overhead`, the bytes that the latest major or full
//! collection kept. `space_overhead` means what it means in OCaml's collector: the
//! memory that garbage may take, in percent of the live data, payloads included.
//!
//! A major collection does not look at settled cells. When it leaves more than the latest
//! full one, by a part of the garbage that may exist, a full one follows. If that shows
//! that settled cells were the reason, the next ones are full from the beginning. They
//! are also while less than half of the old cells are settled: a major one would save
//! little.
//!
//! A heap whose bytes are mostly payloads is collected earlier than that. The cost of a
//! collection depends on its cells; the cost of garbage depends on all its bytes, which
//! have to come from the system and through the processor's caches.

use crate::nursery_floor::{CpuTimes, NurseryFloor};

/// What the user chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaceOptions {
    /// Memory that garbage may take before a major collection, in percent of
    /// live bytes.
    pub space_overhead_percent: usize,
    /// A heap with fewer live bytes is treated as if it had this many.
    pub heap_min_bytes: usize,
    /// A heap with less than this in use is not collected.
    pub heap_init_bytes: usize,
    /// However small the space overhead, kept bytes may grow by this many between
    /// two collections that are not minor.
    pub growth_min_bytes: usize,
    /// However large it is, they may not grow by more than this: at 0 every
    /// collection is a full one.
    pub growth_max_bytes: usize,
    /// A major collection may leave this many percent of the garbage that may exist more
    /// than the latest full one before another full one is made: at 0 there are no major
    /// ones.
    pub settled_growth_percent: usize,
    /// Old cells without a write barrier, which every minor collection traces
    /// again, may be this many millionths of all old cells.
    pub rescans_max_millionths: Option<usize>,
    /// Marking may take this many percent of the process's CPU time before the nursery
    /// grows beyond what the space overhead allows, up to 16 MiB; in a nursery of less than
    /// 4 MiB, less in proportion. 100: it never does.
    pub gc_cpu_percent: usize,
    /// A minor collection comes after at least this many fresh bytes.
    pub nursery_min_bytes: usize,
    /// A minor collection comes after at most this many fresh bytes.
    pub nursery_max_bytes: usize,
    /// Collect harder so that the heap stays below this.
    pub memory_limit_bytes: Option<usize>,
}

impl Default for PaceOptions {
    fn default() -> Self {
        Self {
            space_overhead_percent: 40,
            heap_min_bytes: 4 << 20,
            heap_init_bytes: 0,
            growth_min_bytes: 0,
            growth_max_bytes: usize::MAX,
            settled_growth_percent: 25,
            rescans_max_millionths: None,
            gc_cpu_percent: 100,
            nursery_min_bytes: 1 << 20,
            nursery_max_bytes: 32 << 20,
            memory_limit_bytes: None,
        }
    }
}

impl PaceOptions {
    /// Bytes to hand out before the next collection, `wanted` by all else, when
    /// `kept_bytes` are in use.
    fn budget_bytes(&self, wanted: usize, kept_bytes: usize) -> usize {
        let nursery = wanted.clamp(self.nursery_min_bytes, self.nursery_max_bytes);
        let init_bytes = match self.memory_limit_bytes {
            Some(limit_bytes) => self.heap_init_bytes.min(limit_bytes / 2),
            None => self.heap_init_bytes,
        };
        nursery.max(init_bytes.saturating_sub(kept_bytes))
    }
}

/// Bytes as counted at the start of a collection, when everything the previous
/// one found dead has been swept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measure {
    /// Cells, payloads and external memory in use.
    pub used_bytes: usize,
    /// Of those, handed out since the previous collection.
    pub fresh_bytes: usize,
    /// Of the bytes in use, those of cells.
    pub cell_bytes: usize,
    /// Cells that the previous collection kept.
    pub kept_cells: usize,
    /// Of those, old: minor collections cannot free them.
    pub old_cells: usize,
    /// Of those, settled: only a full collection can free them.
    pub settled_cells: usize,
    /// What the VM says will last ([`Vm::lasting_bytes`](crate::vm::Vm::lasting_bytes)).
    pub lasting_bytes: usize,
    /// Old cells without a write barrier, while there is a limit to them.
    pub rescanned_cells: usize,
    /// While a memory limit is in force.
    pub residence: Option<Residence>,
    /// While there is a limit to the share of CPU time.
    pub cpu: Option<CpuTimes>,
}

/// What the system has given the process, and what of it the heap may fill
/// without asking for more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residence {
    /// Physical memory of the process (RSS).
    pub resident_bytes: usize,
    /// Of that, free memory in blocks that hold cells or payloads.
    pub free_bytes: usize,
}

impl Measure {
    /// Bytes that the previous collection kept.
    fn kept_bytes(&self) -> usize {
        self.used_bytes.saturating_sub(self.fresh_bytes)
    }

    /// The part of the kept bytes that minor collections cannot free, taking
    /// payloads to belong to young and old cells alike.
    fn old_bytes(&self) -> usize {
        let share = self.old_cells as f64 / self.kept_cells.max(1) as f64;
        (self.kept_bytes() as f64 * share.min(1.0)) as usize
    }
}

/// How much of the heap a collection looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Young cells only.
    Minor,
    /// Everything but what is settled.
    Major,
    /// Everything.
    Full,
}

/// The state of pacing.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    options: PaceOptions,
    /// Bytes that the latest major or full collection left, once known.
    live_after_major_bytes: usize,
    /// Of those, cells.
    cells_after_major_bytes: usize,
    /// Old cells then.
    old_after_major_cells: usize,
    /// Bytes by which what lasts has grown since, as last measured.
    lasting_growth_bytes: usize,
    /// What lasted then.
    lasting_at_major_bytes: usize,
    /// What lasted at the latest collection.
    lasting_at_latest_bytes: usize,
    /// [`Pace::survivors_last`].
    survivors_last: bool,
    /// The program is still loading its code, if only a little of what it was handed was code.
    is_loading: bool,
    nursery_floor: NurseryFloor,
    /// Bytes that the latest full collection left, once known.
    live_after_full_bytes: usize,
    /// Of those, cells.
    cells_after_full_bytes: usize,
    /// What a major collection has left, which was too much: a full one follows.
    left_by_major_bytes: Option<usize>,
    /// So many of those that could be major are to be full: settled cells die here.
    full_ahead: u8,
    /// How many the latest finding of that kind made full.
    full_in_a_row: u8,
    /// The previous collection was major or full, so the next measure tells what it left.
    major_just_done: bool,
    /// It was full.
    full_just_done: bool,
    /// Fresh bytes at which the next collection is due.
    budget_bytes: usize,
    /// What may still be handed out under the memory limit, as last measured.
    room_bytes: Option<usize>,
    /// Of that, what the system would have to give.
    unused_bytes: usize,
    /// A full collection in slices left too much: the next one is to be done in one
    /// stop, because only that shows whether live data fits.
    wants_exact_full: bool,
    /// Bytes that the program was handed while the latest major or full collection marked.
    handed_while_marking_bytes: usize,
    /// Full collections that only the memory limit asked for.
    limit_collections: usize,
    /// What the latest full collection left does not fit into the memory limit.
    is_over_limit: bool,
}

/// A nursery is this part of the garbage that may exist: enough minor
/// collections between two others to sort the long-lived from the rest.
const NURSERIES_PER_FULL: usize = 4;

/// Payloads beyond this many bytes per byte of cells do not put a major
/// collection off: marking a cell byte takes about as long as fetching this
/// many bytes from the system (0.3 ns and 0.25 ns per byte, and garbage
/// costs cache misses besides).
const PAYLOADS_PER_CELL_BYTE: usize = 16;
/// Payloads of up to this many bytes always put it off.
const PAYLOADS_MIN_BYTES: usize = 128 << 20;

/// Under a memory limit, this many nurseries fit into what is left of it: minor
/// collections may keep much of theirs, and the next decision must come in time.
const NURSERIES_PER_ROOM: usize = 4;
/// However little room there is, live data grows by this part of itself between
/// two full collections.
const GROWTH_MIN_PART: usize = 16;
/// Less room than this part of the limit is little.
const ROOM_MIN_PART: usize = 16;
/// So is less than this part that the system has not given yet.
const UNUSED_MIN_PART: usize = 8;

/// Of so many fresh bytes one lasts at least while survivors become old at once.
const FRESH_BYTES_PER_LASTING_BYTE: usize = 8;
/// Of so many one lasts at least while the program is taken to load its code.
const FRESH_BYTES_PER_LASTING_BYTE_LOADING: usize = 64;
/// A smaller heap has the nursery that it always has.
const LOADING_HEAP_BYTES: usize = 4 << 20;
/// The largest nursery that a program has because it is loading its code.
const LOADING_NURSERY_BYTES: usize = 6 << 20;

/// A major or full marking in slices is planned to last until the program has been handed this
/// part of the garbage that may exist.
const MARKINGS_PER_FULL: usize = 4;
/// When this part of what was too much turns out to be settled garbage, major collections
/// are not worth it for a while: for one, then for three, and so on.
const SETTLED_GARBAGE_PART: usize = 4;
const FULL_IN_A_ROW_MAX: u8 = 15;
/// Bytes of a cell, about.
const CELL_BYTES: usize = 64;

impl Pace {
    /// Pacing for an empty heap.
    pub fn new(options: PaceOptions) -> Self {
        Self {
            options,
            live_after_major_bytes: 0,
            cells_after_major_bytes: 0,
            old_after_major_cells: 0,
            lasting_growth_bytes: 0,
            lasting_at_major_bytes: 0,
            lasting_at_latest_bytes: 0,
            survivors_last: false,
            is_loading: false,
            nursery_floor: NurseryFloor::default(),
            live_after_full_bytes: 0,
            cells_after_full_bytes: 0,
            left_by_major_bytes: None,
            full_ahead: 0,
            full_in_a_row: 0,
            major_just_done: false,
            full_just_done: false,
            budget_bytes: options.budget_bytes(0, 0),
            room_bytes: None,
            unused_bytes: 0,
            wants_exact_full: false,
            handed_while_marking_bytes: 0,
            limit_collections: 0,
            is_over_limit: false,
        }
    }

    /// The options in force.
    pub fn options(&self) -> &PaceOptions {
        &self.options
    }

    /// Changes the options; the next collection follows them.
    pub fn set_options(&mut self, options: PaceOptions) {
        self.options = options;
        self.budget_bytes = options.budget_bytes(self.budget_bytes, self.live_after_major_bytes);
    }

    /// Lets the program have at least `bytes` before the next collection, unless
    /// there is a memory limit to be kept.
    pub fn put_off(&mut self, bytes: usize) {
        if self.options.memory_limit_bytes.is_none() {
            self.budget_bytes = self.budget_bytes.max(bytes);
        }
    }

    /// Fresh bytes at which a collection is due.
    pub fn budget_bytes(&self) -> usize {
        self.budget_bytes
    }

    /// Bytes by which a heap of `kept_bytes` has outgrown what the latest major or full
    /// collection left.
    pub fn grown_bytes(&self, kept_bytes: usize) -> usize {
        if self.major_just_done {
            return 0;
        }
        kept_bytes.saturating_sub(self.live_after_major_bytes)
    }

    /// [`Pace::grown_bytes`] at which a collection is major.
    pub fn growth_limit_bytes(&self) -> usize {
        self.major_threshold_bytes()
            .saturating_sub(self.live_after_major_bytes)
    }

    /// Kept bytes at which a collection is major. One in slices begins earlier, by
    /// what the program was handed while the last one marked: the heap ends up as
    /// large as if it were done at once.
    pub fn major_threshold_bytes(&self) -> usize {
        let options = &self.options;
        let live = self.live_after_major_bytes.max(options.heap_min_bytes);
        let garbage = self.garbage_bytes(live, self.cells_after_major_bytes);
        let growth = garbage.max(options.growth_min_bytes);
        let growth = growth.min(options.growth_max_bytes);
        let ahead = self.handed_while_marking_bytes.min(growth / 2);
        live.saturating_add(growth - ahead)
            .saturating_add(self.lasting_growth_bytes)
    }

    /// A marking is over; the program was handed this much while it went on.
    pub fn note_marked(&mut self, scope: Scope, handed_bytes: usize) {
        if scope != Scope::Minor {
            self.handed_while_marking_bytes = handed_bytes;
        }
    }

    /// Old cells without a write barrier at which a collection is major; `old_cells`
    /// is how many old ones there are now. `None` without such a limit.
    pub fn rescans_limit_cells(&self, old_cells: usize) -> Option<usize> {
        let millionths = self.options.rescans_max_millionths?;
        let base = if self.major_just_done {
            old_cells
        } else {
            self.old_after_major_cells
        };
        Some((base as f64 * (millionths as f64 / 1e6)) as usize)
    }

    /// Decides the scope of the collection that starts now, and when the next
    /// one is due.
    pub fn start(&mut self, measure: Measure, asked: Option<Scope>) -> Scope {
        let kept_bytes = measure.kept_bytes();
        if std::mem::take(&mut self.major_just_done) {
            self.note_left(kept_bytes, measure);
        }
        self.note_lasting(measure);
        match measure.cpu {
            Some(cpu) => {
                let percent_max = self.options.gc_cpu_percent;
                self.nursery_floor.note(cpu, percent_max, self.budget_bytes);
            }
            None => self.nursery_floor = NurseryFloor::default(),
        }
        self.room_bytes = self.room_bytes_now(measure);
        let rescans_limit = self.rescans_limit_cells(measure.old_cells);
        let outgrown = self.options.growth_max_bytes == 0
            || self.left_by_major_bytes.is_some()
            || measure.old_bytes() >= self.major_threshold_bytes()
            || rescans_limit.is_some_and(|limit| measure.rescanned_cells > limit);
        let near_limit = self.is_near_limit(measure);
        self.limit_collections += usize::from(near_limit && !outgrown && asked.is_none());
        let scope = asked.unwrap_or(match (outgrown, near_limit) {
            (_, true) => Scope::Full,
            (true, false) => self.major_or_full(measure),
            (false, false) => Scope::Minor,
        });
        self.major_just_done = scope != Scope::Minor;
        self.full_just_done = scope == Scope::Full;
        self.budget_bytes = self.nursery_bytes(kept_bytes, measure);
        scope
    }

    fn note_lasting(&mut self, measure: Measure) {
        let grown_since = |before_bytes| measure.lasting_bytes.saturating_sub(before_bytes);
        self.lasting_growth_bytes = grown_since(self.lasting_at_major_bytes);
        let lasting_fresh_bytes = grown_since(self.lasting_at_latest_bytes);
        let lasts_in_part = |part: usize| lasting_fresh_bytes > measure.fresh_bytes / part;
        self.survivors_last = lasts_in_part(FRESH_BYTES_PER_LASTING_BYTE);
        self.is_loading = lasts_in_part(FRESH_BYTES_PER_LASTING_BYTE_LOADING);
        self.lasting_at_latest_bytes = measure.lasting_bytes;
    }

    /// Whether what survives the collection that starts now is to be old at once: a good
    /// part of what was handed out since the previous one lasts, as while a program loads
    /// its code.
    pub fn survivors_last(&self) -> bool {
        self.survivors_last
    }

    /// The collection that has started turns out to be a full one.
    pub fn note_restart_as_full(&mut self) {
        self.major_just_done = true;
        self.full_just_done = true;
    }

    /// What the latest major or full collection left is known now.
    fn note_left(&mut self, left_bytes: usize, measure: Measure) {
        self.live_after_major_bytes = left_bytes;
        self.cells_after_major_bytes = measure.cell_bytes;
        self.old_after_major_cells = measure.old_cells;
        self.lasting_at_major_bytes = measure.lasting_bytes;
        if !std::mem::take(&mut self.full_just_done) {
            let is_too_much = left_bytes > self.major_may_leave_bytes();
            self.left_by_major_bytes = is_too_much.then_some(left_bytes);
            return;
        }
        if let Some(before_bytes) = self.left_by_major_bytes.take() {
            let grown_bytes = before_bytes.saturating_sub(self.live_after_full_bytes);
            let settled_garbage_bytes = before_bytes.saturating_sub(left_bytes);
            self.full_in_a_row = match settled_garbage_bytes >= grown_bytes / SETTLED_GARBAGE_PART {
                true => (2 * self.full_in_a_row + 1).min(FULL_IN_A_ROW_MAX),
                false => 0,
            };
            self.full_ahead = self.full_in_a_row;
        }
        self.live_after_full_bytes = left_bytes;
        self.cells_after_full_bytes = measure.cell_bytes;
    }

    /// Bytes that a major collection may leave without a full one's following it.
    fn major_may_leave_bytes(&self) -> usize {
        let live = self.live_after_full_bytes.max(self.options.heap_min_bytes);
        let garbage = self.garbage_bytes(live, self.cells_after_full_bytes);
        live.saturating_add((garbage / 100).saturating_mul(self.options.settled_growth_percent))
    }

    /// Which of the two a collection is that has to look at old cells.
    fn major_or_full(&mut self, measure: Measure) -> Scope {
        let would_save_little = measure.settled_cells < measure.old_cells.div_ceil(2);
        if would_save_little
            || self.left_by_major_bytes.is_some()
            || self.options.growth_max_bytes == 0
            || self.options.settled_growth_percent == 0
        {
            return Scope::Full;
        }
        match self.full_ahead.checked_sub(1) {
            Some(fewer) => {
                self.full_ahead = fewer;
                Scope::Full
            }
            None => Scope::Major,
        }
    }

    /// Bytes that the program is to be handed while a collection marks, and
    /// about how many cells that has to mark: little of the garbage that may
    /// exist, but enough for the program to get on.
    pub fn marking_plan(&self, scope: Scope, measure: Measure) -> (usize, usize) {
        let half_nursery_bytes = self.budget_bytes / 2;
        match scope {
            Scope::Minor => (half_nursery_bytes, measure.fresh_bytes / CELL_BYTES),
            Scope::Major | Scope::Full => {
                let garbage = self.garbage_bytes(measure.kept_bytes(), measure.cell_bytes);
                let bytes = (garbage / MARKINGS_PER_FULL).max(half_nursery_bytes);
                let passed_over = match scope {
                    Scope::Major => measure.settled_cells,
                    _ => 0,
                };
                (bytes, measure.kept_cells.saturating_sub(passed_over))
            }
        }
    }

    /// The memory that garbage may take beside these live bytes.
    fn garbage_bytes(&self, live_bytes: usize, cell_bytes: usize) -> usize {
        let worth_waiting_for = cell_bytes
            .saturating_mul(PAYLOADS_PER_CELL_BYTE)
            .saturating_add(PAYLOADS_MIN_BYTES);
        let base_bytes = live_bytes.min(worth_waiting_for);
        (base_bytes / 100).saturating_mul(self.options.space_overhead_percent)
    }

    fn nursery_bytes(&self, kept_bytes: usize, measure: Measure) -> usize {
        let wanted = self.garbage_bytes(kept_bytes, measure.cell_bytes) / NURSERIES_PER_FULL;
        let nursery = self.options.budget_bytes(wanted, kept_bytes);
        let loading_bytes = self.loading_nursery_bytes(kept_bytes);
        let floor = self.nursery_floor.bytes().max(loading_bytes);
        let nursery = nursery.max(floor.min(self.options.nursery_max_bytes));
        match self.room_bytes {
            Some(room_bytes) if !self.is_over_limit => nursery
                .min(room_bytes / NURSERIES_PER_ROOM)
                .max(self.options.nursery_min_bytes / 4),
            _ => nursery,
        }
    }

    /// The bytes that a program is to be handed at least between two collections while it
    /// loads its code: as many as the heap has beyond a few MiB. Most of them stay, so the
    /// heap grows by them anyway, and the next nursery finds little garbage.
    fn loading_nursery_bytes(&self, kept_bytes: usize) -> usize {
        if !self.is_loading {
            return 0;
        }
        let beyond_bytes = kept_bytes.saturating_sub(LOADING_HEAP_BYTES);
        beyond_bytes.min(LOADING_NURSERY_BYTES)
    }

    /// Bytes that may be handed out before the process outgrows its limit. Half
    /// of the free memory counts: the rest may have the wrong widths.
    fn room_bytes_now(&mut self, measure: Measure) -> Option<usize> {
        let limit_bytes = self.options.memory_limit_bytes?;
        let residence = measure.residence.unwrap_or(Residence {
            resident_bytes: measure.used_bytes,
            free_bytes: 0,
        });
        self.unused_bytes = limit_bytes.saturating_sub(residence.resident_bytes);
        Some(self.unused_bytes + residence.free_bytes / 2)
    }

    /// Whether half of the room that the latest full collection left is used up
    /// by what may be garbage. When live data leaves next to no room, or does
    /// not fit, it has to grow by a part of itself before it is collected
    /// again: otherwise a program would do nothing else.
    fn is_near_limit(&self, measure: Measure) -> bool {
        let Some(room_bytes) = self.room_bytes else {
            return false;
        };
        if self.wants_exact_full {
            return true;
        }
        let (live, kept) = (self.live_after_major_bytes, measure.kept_bytes());
        let garbage_bytes = kept.saturating_sub(live);
        garbage_bytes > (room_bytes / 2).max(live / GROWTH_MIN_PART)
            || (room_bytes < self.budget_bytes && garbage_bytes > live / GROWTH_MIN_PART)
    }

    /// Whether so little room is left under the limit that a collection had
    /// better not let the program allocate before it is over, and give back at
    /// once what it frees.
    pub fn is_short_of_room(&self) -> bool {
        let limit_bytes = self.options.memory_limit_bytes.unwrap_or(0);
        let is_short = self.room_bytes.is_some_and(|room_bytes| {
            room_bytes < limit_bytes / ROOM_MIN_PART
                || self.unused_bytes < limit_bytes / UNUSED_MIN_PART
        });
        self.wants_exact_full || (!self.is_over_limit && is_short)
    }

    /// The process has this much resident now, while a collection goes on in
    /// slices: the program may have been faster than the collector.
    pub fn note_resident(&mut self, resident_bytes: usize) {
        if let Some(limit) = self.options.memory_limit_bytes {
            self.unused_bytes = limit.saturating_sub(resident_bytes);
        }
    }

    /// A full collection has been swept, and its memory given back as far as the
    /// limit asks for: now it is known whether live data fits, unless the program
    /// ran while it was marked (`!exact`).
    pub fn note_after_full(&mut self, resident_bytes: usize, exact: bool) {
        let limit_bytes = self.options.memory_limit_bytes;
        let is_over = limit_bytes.is_some_and(|limit| resident_bytes > limit);
        self.wants_exact_full = is_over && !exact && !self.is_over_limit;
        self.is_over_limit = is_over && !self.wants_exact_full;
        self.note_resident(resident_bytes);
    }

    /// Full collections that only the memory limit asked for.
    pub fn limit_collections(&self) -> usize {
        self.limit_collections
    }

    /// Whether what the latest full collection left does not fit into the limit.
    pub fn is_over_limit(&self) -> bool {
        self.is_over_limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    const OPTIONS: PaceOptions = PaceOptions {
        space_overhead_percent: 100,
        heap_min_bytes: 8 * MIB,
        heap_init_bytes: 0,
        growth_min_bytes: 0,
        growth_max_bytes: usize::MAX,
        settled_growth_percent: 25,
        rescans_max_millionths: None,
        gc_cpu_percent: 100,
        nursery_min_bytes: 2 * MIB,
        nursery_max_bytes: 32 * MIB,
        memory_limit_bytes: None,
    };

    fn measure(kept: usize, fresh: usize) -> Measure {
        Measure {
            used_bytes: kept + fresh,
            fresh_bytes: fresh,
            cell_bytes: kept,
            kept_cells: 100,
            old_cells: 100,
            settled_cells: 0,
            lasting_bytes: 0,
            rescanned_cells: 0,
            residence: None,
            cpu: None,
        }
    }

    fn pace_after_full(options: PaceOptions, live: usize) -> Pace {
        let mut pace = Pace::new(options);
        pace.start(measure(0, live), Some(Scope::Full));
        pace.start(measure(live, MIB), None);
        pace
    }

    #[test]
    fn a_full_collection_comes_when_the_kept_bytes_outgrow_the_overhead() {
        let mut pace = pace_after_full(OPTIONS, 100 * MIB);
        assert_eq!(pace.start(measure(199 * MIB, MIB), None), Scope::Minor);
        assert_eq!(pace.start(measure(200 * MIB, MIB), None), Scope::Full);
    }

    #[test]
    fn young_survivors_do_not_bring_a_full_collection() {
        let mut pace = pace_after_full(OPTIONS, 100 * MIB);
        let half_young = |kept| Measure {
            old_cells: 50,
            ..measure(kept, MIB)
        };
        assert_eq!(pace.start(half_young(300 * MIB), None), Scope::Minor);
        assert_eq!(pace.start(half_young(400 * MIB), None), Scope::Full);
    }

    use Scope::{Full, Major};

    /// [`measure`] of a heap that is mostly settled.
    fn settled(kept: usize) -> Measure {
        Measure {
            settled_cells: 90,
            ..measure(kept, MIB)
        }
    }

    #[test]
    fn a_full_collection_follows_a_major_one_that_leaves_too_much() {
        let mut pace = pace_after_full(OPTIONS, 100 * MIB);
        assert_eq!(pace.start(settled(200 * MIB), None), Major);
        assert_eq!(pace.start(settled(126 * MIB), None), Full);
        // The program had grown.
        assert_eq!(pace.start(settled(124 * MIB), None), Scope::Minor);
        assert_eq!(pace.start(settled(250 * MIB), None), Major);
    }

    #[test]
    fn where_settled_cells_die_the_next_collections_are_full_from_the_beginning() {
        let mut pace = pace_after_full(OPTIONS, 100 * MIB);
        for in_a_row in [1, 3, 7, 15, 15] {
            assert_eq!(pace.start(settled(200 * MIB), None), Major);
            assert_eq!(pace.start(settled(190 * MIB), None), Full);
            assert_eq!(pace.start(settled(100 * MIB), None), Scope::Minor);
            for _ in 0..in_a_row {
                assert_eq!(pace.start(settled(200 * MIB), None), Full);
                assert_eq!(pace.start(settled(100 * MIB), None), Scope::Minor);
            }
        }
    }

    #[test]
    fn while_little_is_settled_or_by_wish_there_are_no_major_collections() {
        let settled = |settled_cells| Measure {
            settled_cells,
            ..measure(200 * MIB, MIB)
        };
        let never = PaceOptions {
            settled_growth_percent: 0,
            ..OPTIONS
        };
        for (options, cells, scope) in
            [(OPTIONS, 49, Full), (OPTIONS, 50, Major), (never, 90, Full)]
        {
            let mut pace = pace_after_full(options, 100 * MIB);
            assert_eq!(pace.start(settled(cells), None), scope);
        }
    }

    #[test]
    fn growth_that_lasts_brings_no_major_collection() {
        let with_code = |kept, code| Measure {
            lasting_bytes: code,
            ..measure(kept, MIB)
        };
        let mut pace = pace_after_full(OPTIONS, 100 * MIB);
        assert_eq!(
            pace.start(with_code(209 * MIB, 10 * MIB), None),
            Scope::Minor
        );
        assert_eq!(
            pace.start(with_code(210 * MIB, 10 * MIB), None),
            Scope::Full
        );
        // What lasted already does not count once more.
        assert_eq!(
            pace.start(with_code(110 * MIB, 10 * MIB), None),
            Scope::Minor
        );
        assert_eq!(
            pace.start(with_code(220 * MIB, 10 * MIB), None),
            Scope::Full
        );
    }

    #[test]
    fn what_survives_lasts_while_much_of_what_is_handed_out_does() {
        let with_code = |code| Measure {
            lasting_bytes: code,
            ..measure(100 * MIB, 8 * MIB)
        };
        let mut pace = pace_after_full(OPTIONS, 100 * MIB);
        for (code, lasts) in [(0, false), (MIB, false), (3 * MIB, true), (3 * MIB, false)] {
            pace.start(with_code(code), None);
            assert_eq!(pace.survivors_last(), lasts, "{code}");
        }
    }

    #[test]
    fn the_nursery_is_larger_while_a_program_of_some_size_loads_its_code() {
        let with_code = |kept, code| Measure {
            lasting_bytes: code,
            ..measure(kept, 8 * MIB)
        };
        let mut pace = pace_after_full(OPTIONS, 4 * MIB);
        let mut budget = |kept, code| {
            pace.start(with_code(kept, code), None);
            pace.budget_bytes() / MIB
        };
        assert_eq!(budget(5 * MIB, MIB / 4), 2);
        assert_eq!(budget(8 * MIB, MIB / 2), 4);
        assert_eq!(budget(16 * MIB, MIB), 6);
        // It has loaded all.
        assert_eq!(budget(16 * MIB, MIB), 3);
        // A large heap has a larger one anyway.
        assert_eq!(budget(40 * MIB, 2 * MIB), 9);
    }

    #[test]
    fn where_marking_takes_too_much_cpu_time_the_nursery_grows_as_far_as_it_may() {
        let options = PaceOptions {
            gc_cpu_percent: 10,
            nursery_max_bytes: 5 * MIB,
            ..OPTIONS
        };
        let mut pace = pace_after_full(options, 8 * MIB);
        assert_eq!(pace.budget_bytes(), 2 * MIB);
        let with_cpu = |marking_ns| Measure {
            cpu: Some(CpuTimes {
                marking_ns,
                process_ns: 2 * marking_ns,
            }),
            ..measure(8 * MIB, MIB)
        };
        for collection in 1..100 {
            pace.start(with_cpu(collection * 1_000_000), None);
        }
        assert_eq!(pace.budget_bytes(), 5 * MIB);
        // The limit is taken away.
        pace.start(measure(8 * MIB, MIB), None);
        assert_eq!(pace.budget_bytes(), 2 * MIB);
    }

    #[test]
    fn less_overhead_means_earlier_full_collections() {
        let options = PaceOptions {
            space_overhead_percent: 20,
            ..OPTIONS
        };
        let mut pace = pace_after_full(options, 100 * MIB);
        assert_eq!(pace.start(measure(119 * MIB, MIB), None), Scope::Minor);
        assert_eq!(pace.start(measure(121 * MIB, MIB), None), Scope::Full);
    }

    #[test]
    fn a_small_heap_is_paced_as_the_minimum_heap() {
        let pace = pace_after_full(OPTIONS, MIB);
        assert_eq!(pace.major_threshold_bytes() / MIB, 15);
    }

    #[test]
    fn a_heap_is_not_collected_before_it_has_its_first_size() {
        let options = PaceOptions {
            heap_init_bytes: 50 * MIB,
            ..OPTIONS
        };
        let mut pace = Pace::new(options);
        assert_eq!(pace.budget_bytes(), 50 * MIB);
        pace.start(measure(0, 50 * MIB), None);
        assert_eq!(pace.budget_bytes(), 50 * MIB);
        pace.start(measure(20 * MIB, 50 * MIB), None);
        assert_eq!(pace.budget_bytes(), 30 * MIB);
        pace.start(measure(100 * MIB, 50 * MIB), None);
        assert_eq!(pace.budget_bytes(), 25 * MIB);
    }

    #[test]
    fn a_collection_that_is_put_off_comes_no_sooner_than_it_would() {
        let mut pace = pace_after_full(OPTIONS, 40 * MIB);
        let budget = pace.budget_bytes();
        pace.put_off(MIB);
        assert_eq!(pace.budget_bytes(), budget);
        pace.put_off(100 * MIB);
        assert_eq!(pace.budget_bytes(), 100 * MIB);
        let mut limited = Pace::new(LIMITED);
        limited.put_off(100 * MIB);
        assert_eq!(limited.budget_bytes(), LIMITED.nursery_min_bytes);
    }

    #[test]
    fn growth_between_full_collections_has_bounds_of_its_own() {
        let bounded = |growth_min_bytes, growth_max_bytes| PaceOptions {
            growth_min_bytes,
            growth_max_bytes,
            ..OPTIONS
        };
        let threshold = |options| pace_after_full(options, 100 * MIB).major_threshold_bytes();
        assert_eq!(threshold(bounded(300 * MIB, usize::MAX)), 400 * MIB);
        assert_eq!(threshold(bounded(0, 30 * MIB)), 130 * MIB);
        let mut never_minor = pace_after_full(bounded(0, 0), 100 * MIB);
        let shrunk = measure(50 * MIB, MIB);
        assert_eq!(never_minor.start(shrunk, None), Scope::Full);
        assert_eq!(never_minor.start(shrunk, None), Scope::Full);
    }

    #[test]
    fn too_many_cells_to_trace_again_bring_a_full_collection() {
        let options = PaceOptions {
            rescans_max_millionths: Some(100_000),
            ..OPTIONS
        };
        let mut pace = pace_after_full(options, 100 * MIB);
        let rescanned = |cells| Measure {
            rescanned_cells: cells,
            ..measure(100 * MIB, MIB)
        };
        assert_eq!(pace.rescans_limit_cells(500), Some(10));
        assert_eq!(pace.start(rescanned(10), None), Scope::Minor);
        assert_eq!(pace.start(rescanned(11), None), Scope::Full);
        assert_eq!(pace.rescans_limit_cells(500), Some(50));
    }

    #[test]
    fn payloads_without_cells_do_not_put_a_full_collection_off() {
        let payloads_only = |kept| Measure {
            cell_bytes: MIB,
            ..measure(kept, MIB)
        };
        let mut pace = Pace::new(OPTIONS);
        pace.start(payloads_only(0), Some(Scope::Full));
        pace.start(payloads_only(1000 * MIB), None);
        assert_eq!(pace.major_threshold_bytes() / MIB, 1000 + 16 + 128 - 1);
    }

    #[test]
    fn the_nursery_grows_with_the_heap_between_its_bounds() {
        let options = OPTIONS;
        let budget = |live| pace_after_full(options, live).budget_bytes();
        assert_eq!(budget(MIB), options.nursery_min_bytes);
        assert_eq!(budget(40 * MIB) / MIB, 9);
        assert_eq!(budget(4000 * MIB), options.nursery_max_bytes);
    }

    const LIMITED: PaceOptions = PaceOptions {
        memory_limit_bytes: Some(150 * MIB),
        ..OPTIONS
    };

    /// A process of 10 MiB besides its heap, which has as much free memory.
    fn resident(kept: usize, fresh: usize) -> Measure {
        Measure {
            residence: Some(Residence {
                resident_bytes: kept + fresh + 20 * MIB,
                free_bytes: 10 * MIB,
            }),
            ..measure(kept, fresh)
        }
    }

    #[test]
    fn near_the_memory_limit_collections_come_sooner_and_are_full() {
        let mut pace = Pace::new(LIMITED);
        pace.start(resident(0, 90 * MIB), Some(Scope::Full));
        pace.start(resident(90 * MIB, MIB), None);
        assert_eq!(pace.start(resident(100 * MIB, MIB), None), Scope::Minor);
        assert!(pace.budget_bytes() <= 10 * MIB);
        assert_eq!(pace.limit_collections(), 0);
        assert_eq!(pace.start(resident(115 * MIB, MIB), None), Scope::Full);
        assert_eq!(pace.limit_collections(), 1);
    }

    #[test]
    fn without_room_live_data_grows_a_little_between_full_collections() {
        let mut pace = Pace::new(LIMITED);
        pace.start(resident(0, 128 * MIB), Some(Scope::Full));
        pace.start(resident(128 * MIB, MIB), None);
        assert!(pace.is_short_of_room());
        assert_eq!(pace.start(resident(130 * MIB, MIB), None), Scope::Minor);
        assert_eq!(pace.start(resident(137 * MIB, MIB), None), Scope::Full);
    }

    #[test]
    fn a_program_that_outruns_slices_is_short_of_room() {
        let options = PaceOptions {
            memory_limit_bytes: Some(150 * MIB),
            ..OPTIONS
        };
        let mut pace = pace_after_full(options, 50 * MIB);
        assert!(!pace.is_short_of_room());
        pace.note_resident(140 * MIB);
        assert!(pace.is_short_of_room());
    }

    #[test]
    fn live_data_that_does_not_fit_is_paced_almost_as_if_there_were_no_limit() {
        let mut pace = Pace::new(LIMITED);
        pace.start(resident(0, 400 * MIB), Some(Scope::Full));
        pace.note_after_full(420 * MIB, false);
        assert!(!pace.is_over_limit() && pace.is_short_of_room());
        pace.note_after_full(420 * MIB, true);
        assert!(pace.is_over_limit() && !pace.is_short_of_room());
        assert_eq!(pace.start(resident(400 * MIB, MIB), None), Scope::Minor);
        assert_eq!(pace.budget_bytes(), OPTIONS.nursery_max_bytes);
        assert_eq!(pace.start(resident(420 * MIB, MIB), None), Scope::Minor);
        assert_eq!(pace.start(resident(430 * MIB, MIB), None), Scope::Full);
        pace.note_after_full(100 * MIB, true);
        assert!(!pace.is_over_limit());
    }

    #[test]
    fn what_is_asked_for_is_what_happens() {
        let mut pace = pace_after_full(OPTIONS, MIB);
        assert_eq!(pace.start(measure(MIB, 0), Some(Scope::Full)), Scope::Full);
        let asked = Some(Scope::Minor);
        assert_eq!(pace.start(measure(900 * MIB, 0), asked), Scope::Minor);
    }
}
