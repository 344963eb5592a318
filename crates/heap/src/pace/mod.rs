//! When to collect, and whether all of it: pure arithmetic over byte counts and CPU times.
//!
//! A collection is due when the program has been handed a nursery of bytes since the previous
//! one. It is a major one when the old part of the kept bytes has outgrown the old part of what the latest
//! major or full collection kept, and a full one when what major collections leave has outgrown what the
//! latest full one kept.
//!
//! How large a nursery and growth may become is a trade of memory for CPU time. With
//! `space_overhead=auto` the collector makes that trade by what both cost ([`rent`]). With a fixed
//! `space_overhead` only the program's bytes decide: the overhead is the memory that garbage may
//! take, in percent of the live data, payloads included, as in OCaml's collector; a nursery is a
//! quarter of it, and so is what major collections may leave. Then a heap whose bytes are mostly
//! payloads is collected earlier: the cost of a collection depends on its cells; the cost of
//! garbage depends on all its bytes, which have to come from the system and through the
//! processor's caches.
//!
//! A major collection does not look at settled cells. If a full one shows that settled cells
//! have died, cells settle less often ([`Settling`]). Collections are full from the beginning while
//! less than half of the live old cells are settled: a major one would save little.

mod limit;
mod loading;
mod measure;
mod options;
mod rent;
mod settling;

pub use measure::{Costs, Measure, Scope};

pub(crate) use measure::Residence;
pub use options::PaceOptions;

use limit::Limit;
use loading::Loading;
use rent::{Paid, Rent};
use settling::Settling;

/// The state of pacing.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    options: PaceOptions,
    latest: Latest,
    /// Fresh bytes at which the next collection is due.
    nursery_bytes: usize,
    /// What this would be if nobody had put that collection off ([`Pace::put_off`]).
    chosen_nursery_bytes: usize,
    old: Old,
    settled: Settled,
    loading: Loading,
    rent: Rent,
    limit: Limit,
    /// CPU time of the process when it was last found due to collect before a fork.
    at_fork_ns: u64,
    /// CPU time of the process between the starts of the latest two collections.
    interval_ns: u64,
}

/// The latest collection. What it left is known when the next one starts.
#[derive(Clone, Copy, Debug)]
struct Latest {
    scope: Scope,
    /// By how much old cells had grown before a collection that was not minor, in bytes.
    grown_bytes: usize,
    /// How many cells were settled before it.
    settled_cells: usize,
    /// By how much what major collections left had grown before it.
    settled_growth_bytes: usize,
}

impl Latest {
    const MINOR: Self = Self {
        scope: Scope::Minor,
        grown_bytes: 0,
        settled_cells: 0,
        settled_growth_bytes: 0,
    };
}

/// What is known of old cells, which major collections free.
#[derive(Clone, Copy, Debug, Default)]
struct Old {
    /// Bytes that the latest major or full collection left, once known.
    left_bytes: usize,
    /// Of those, old ones: growth counts from here. Young ones that it left have not grown old yet.
    left_old_bytes: usize,
    /// Of the bytes that it left, cells.
    left_cell_bytes: usize,
    /// Old cells that it left.
    left_cells: usize,
    /// Of those, cells that had not settled.
    left_unsettled_cells: usize,
    /// Bytes that the program was handed while that collection marked.
    handed_while_marking_bytes: usize,
    paid: Paid,
    /// Growth at which a major collection is worth its cost, as last known.
    goal_bytes: usize,
}

/// What is known of settled cells, which only full collections free.
#[derive(Clone, Copy, Debug, Default)]
struct Settled {
    /// Bytes that the latest full collection left, once known.
    left_bytes: usize,
    /// The fewest bytes that it, or a major collection since, has left.
    least_left_bytes: usize,
    /// Of those that it left, cells.
    left_cell_bytes: usize,
    /// Settled cells that it left.
    left_cells: usize,
    paid: Paid,
    /// What major collections have left is worth a full collection, which follows: it may be settled
    /// garbage.
    is_suspicious: bool,
    /// All that lived at a collection before a fork has settled, also what the program was about to drop. So the next
    /// collection that looks at old cells is full.
    has_what_passes: bool,
    settling: Settling,
}

/// With a fixed space overhead, a nursery is this part of the garbage that may exist: enough
/// minor collections between two major or full ones to sort the long-lived from the rest.
const NURSERIES_PER_GARBAGE: usize = 4;
/// Major collections may leave this part of the garbage that may exist.
const SETTLED_GARBAGE_PER_GARBAGE: usize = 4;
/// The overhead, in percent, while the cost of collecting is not known.
const FALLBACK_OVERHEAD_PERCENT: usize = 20;

/// Payload bytes beyond this many per byte of cells do not put a major collection off: marking
/// does not look at payloads, so waiting longer saves nothing and keeps their memory.
const PAYLOADS_PER_CELL_BYTE: usize = 16;
/// Payloads of up to this many bytes always put a major collection off.
const PAYLOADS_MIN_BYTES: usize = 128 << 20;

/// A major or full marking in slices is planned to last until the program has been handed this
/// part of the garbage that may exist.
const MARKINGS_PER_GARBAGE: usize = 4;
/// About the mean bytes of a cell.
const CELL_BYTES: usize = 64;
/// In how many processes garbage that a fork shares takes memory, at least: in the parent, and in a child that copies
/// the pages in which it lies.
const PROCESSES_WITH_GARBAGE: f64 = 2.0;
/// About the CPU time that the system takes to provide the pages of a block anew.
const BLOCK_PAGES_NS: f64 = 30_000.0;

impl Pace {
    /// Pacing for an empty heap.
    pub fn new(options: PaceOptions) -> Self {
        Self {
            options,
            latest: Latest::MINOR,
            nursery_bytes: options.nursery_bytes(0, 0),
            chosen_nursery_bytes: options.nursery_bytes(0, 0),
            old: Old {
                goal_bytes: options.heap_min_bytes,
                ..Old::default()
            },
            settled: Settled::default(),
            loading: Loading::default(),
            rent: Rent::default(),
            limit: Limit::default(),
            at_fork_ns: 0,
            interval_ns: 0,
        }
    }

    /// The options in force.
    pub fn options(&self) -> &PaceOptions {
        &self.options
    }

    /// Changes the options; the next collection follows them.
    pub fn set_options(&mut self, options: PaceOptions) {
        if options.memory_limit_bytes != self.options.memory_limit_bytes {
            self.limit.begin_anew();
        }
        self.options = options;
        self.choose_nursery(options.nursery_bytes(self.chosen_nursery_bytes, self.old.left_bytes));
    }

    fn choose_nursery(&mut self, bytes: usize) {
        (self.nursery_bytes, self.chosen_nursery_bytes) = (bytes, bytes);
    }

    /// Lets the program have at least `bytes` before the next collection, unless
    /// there is a memory limit to be kept.
    pub fn put_off(&mut self, bytes: usize) {
        if self.options.memory_limit_bytes.is_none() {
            self.nursery_bytes = self.nursery_bytes.max(bytes);
        }
    }

    /// Fresh bytes at which a collection is due.
    pub fn nursery_bytes(&self) -> usize {
        self.nursery_bytes
    }

    /// Bytes by which what is old has outgrown what the latest major or full collection left of it.
    pub fn grown_bytes(&self, measure: &Measure) -> usize {
        match self.latest.scope {
            Scope::Minor => measure.old_bytes().saturating_sub(self.old.left_old_bytes),
            Scope::Major | Scope::Full => 0,
        }
    }

    /// [`Pace::grown_bytes`] at which a collection is major.
    pub fn growth_limit_bytes(&self) -> usize {
        self.major_threshold_bytes()
            .saturating_sub(self.old.left_old_bytes)
    }

    /// Old bytes at which a collection is major. A collection in slices begins earlier, by
    /// what the program was handed while the last one marked, so that the heap ends up as
    /// large as if the collection were done at once.
    pub fn major_threshold_bytes(&self) -> usize {
        let options = &self.options;
        let live = match self.trades() {
            true => self.old.left_bytes,
            false => self.old.left_bytes.max(options.heap_min_bytes),
        };
        let live_young = self.old.left_bytes - self.old.left_old_bytes;
        let garbage = self.garbage_bytes(live, self.old.left_cell_bytes);
        let growth = garbage.max(options.growth_min_bytes);
        let growth = growth.min(options.growth_max_bytes);
        let ahead = self.old.handed_while_marking_bytes.min(growth / 2);
        (live - live_young)
            .saturating_add(growth - ahead)
            .saturating_add(self.loading.since_major_bytes)
    }

    /// A marking is over; the program was handed `handed_bytes` while it went on.
    pub fn note_marked(&mut self, scope: Scope, handed_bytes: usize) {
        if scope != Scope::Minor {
            self.old.handed_while_marking_bytes = handed_bytes;
        }
    }

    /// Old cells without a write barrier at which a collection is major; `old_cells`
    /// is how many old ones there are now. `None` without such a limit.
    pub fn rescans_limit_cells(&self, old_cells: usize) -> Option<usize> {
        let millionths = self.options.rescans_max_millionths?;
        let base = match self.latest.scope {
            Scope::Minor => self.old.left_cells,
            Scope::Major | Scope::Full => old_cells,
        };
        Some((base as f64 * (millionths as f64 / 1e6)) as usize)
    }

    /// Decides the scope of the collection that starts now, and when the next
    /// one is due.
    pub fn start(&mut self, measure: Measure, asked: Option<Scope>) -> Scope {
        self.learn(&measure);
        let scope = asked.unwrap_or_else(|| self.scope_of_next(&measure));
        if scope == Scope::Full {
            self.limit.note_full();
        }
        if scope != Scope::Minor {
            let (settled, unsettled_cells) = (&mut self.settled, self.old.left_unsettled_cells);
            settled
                .settling
                .begin(asked.is_some(), settled.is_suspicious, unsettled_cells);
        }
        self.latest = match scope {
            Scope::Minor => Latest::MINOR,
            Scope::Major | Scope::Full => Latest {
                scope,
                grown_bytes: self.old_growth_bytes(&measure),
                settled_cells: measure.settled_cells,
                settled_growth_bytes: self.settled_growth_bytes(),
            },
        };
        self.choose_nursery(self.next_nursery_bytes(&measure, asked));
        scope
    }

    /// Whether cells settle in the major or full collection that has started.
    pub fn lets_settle(&self) -> bool {
        self.settled.settling.is_on()
    }

    /// What part of the price of its pages an empty block of `bytes` has paid as rent between the starts of the
    /// latest two collections. `None` while no cost is known.
    pub(crate) fn pages_paid(&self, bytes: usize) -> Option<f64> {
        let worth_ns = self.pages_worth_ns(bytes);
        (self.trades() && worth_ns > 0.0).then(|| self.interval_ns as f64 / worth_ns)
    }

    /// The CPU time after which an empty block of `bytes` has paid the price of its pages as rent.
    fn pages_worth_ns(&self, bytes: usize) -> f64 {
        let exchange_rate = self.options.exchange_rate();
        self.rent.price_worth(exchange_rate, BLOCK_PAGES_NS) / bytes as f64
    }

    /// Whether a full collection is due because the process is about to fork. A child leaves its
    /// parent's garbage where it is, so the garbage lasts as long as the child. That is taken to
    /// be as long as the process has run since it was last found due, in CPU time.
    pub fn is_due_before_fork(&mut self, measure: &Measure) -> bool {
        let grown_bytes = match self.latest.scope {
            Scope::Full => measure.fresh_bytes,
            Scope::Minor | Scope::Major => {
                let lasting_bytes = self.loading.since_full_now_bytes(measure);
                let base_bytes = self.settled.left_bytes + lasting_bytes;
                measure.used_bytes.saturating_sub(base_bytes)
            }
        };
        let trades = self.options.weighs_cpu_time();
        let is_due = match measure.costs.zip(self.rent.full_ns(measure)) {
            Some((costs, full_ns)) if trades => {
                self.is_worth_before_fork(grown_bytes, &costs, full_ns)
            }
            _ => grown_bytes > self.settled_garbage_bytes(),
        };
        self.settled.has_what_passes |= is_due;
        is_due
    }

    /// This process has just been forked, with `fresh_bytes` of its parent's, and its CPU time begins at 0. What put
    /// off the parent's next collection puts off none of the child's, and what the parent has been handed brings
    /// none about.
    pub fn begin_in_child(&mut self, fresh_bytes: usize) {
        self.at_fork_ns = 0;
        self.rent.begin_in_child();
        self.limit.begin_in_child();
        self.settled.has_what_passes = false;
        let child_nursery_bytes = fresh_bytes.saturating_add(self.chosen_nursery_bytes);
        self.nursery_bytes = self.nursery_bytes.min(child_nursery_bytes);
    }

    fn is_worth_before_fork(&mut self, grown_bytes: usize, costs: &Costs, full_ns: f64) -> bool {
        let since_ns = costs.process_ns.saturating_sub(self.at_fork_ns) as f64;
        let rent = PROCESSES_WITH_GARBAGE * grown_bytes as f64 * since_ns;
        let worth = self.options.exchange_rate() * full_ns * costs.process_bytes as f64;
        let is_worth = rent > worth;
        if is_worth {
            self.at_fork_ns = costs.process_ns;
        }
        is_worth
    }

    /// What has become known since the latest collection started.
    fn learn(&mut self, measure: &Measure) {
        let latest = std::mem::replace(&mut self.latest, Latest::MINOR);
        if latest.scope != Scope::Minor {
            let is_full = latest.scope == Scope::Full;
            self.loading.note_left(measure, is_full);
            self.note_left(measure, &latest);
        }
        self.loading.note(measure);
        let process_ns = self.rent.note(latest.scope, measure);
        self.interval_ns = process_ns;
        self.pay(measure, process_ns);
        self.limit.note(self.options.memory_limit_bytes, measure);
    }

    /// Garbage pays for the CPU time since the latest collection started.
    fn pay(&mut self, measure: &Measure, process_ns: u64) {
        if !self.trades() {
            return;
        }
        let exchange_rate = self.options.exchange_rate();
        let kept_bytes = measure.kept_bytes();
        let (unsettled, settled) = (measure.unsettled_cells(), measure.settled_cells);

        let (grown_bytes, paid) = (self.old_growth_bytes(measure), &mut self.old.paid);
        paid.charge(grown_bytes, process_ns);
        let unsettled = unsettled as f64 * paid.live_share(grown_bytes, kept_bytes);
        let worth = self.rent.major_worth(exchange_rate, unsettled);
        if let Some(goal_bytes) = paid.goal_bytes(grown_bytes, worth) {
            self.old.goal_bytes = goal_bytes;
        }

        let (grown_bytes, paid) = (self.settled_growth_bytes(), &mut self.settled.paid);
        paid.charge(grown_bytes, process_ns);
        let settled = settled as f64 * paid.live_share(grown_bytes, kept_bytes);
        let worth = self.rent.full_worth(exchange_rate, unsettled, settled);
        let goal_bytes = paid.goal_bytes(grown_bytes, worth);
        if goal_bytes.is_some_and(|goal_bytes| grown_bytes >= goal_bytes) {
            self.settled.is_suspicious = true;
        }
    }

    /// Bytes by which old cells have grown since the latest major or full collection, but for
    /// what lasts. Some of them are garbage.
    fn old_growth_bytes(&self, measure: &Measure) -> usize {
        let base_bytes = self.old.left_old_bytes + self.loading.since_major_bytes;
        measure.old_bytes().saturating_sub(base_bytes)
    }

    /// Bytes that major collections have left beyond what the latest full one did.
    fn settled_growth_bytes(&self) -> usize {
        let base_bytes = self.settled.left_bytes + self.loading.since_full_bytes;
        self.old.left_bytes.saturating_sub(base_bytes)
    }

    /// Whether memory is traded for CPU time.
    fn trades(&self) -> bool {
        self.options.weighs_cpu_time() && self.rent.is_known()
    }

    /// Whether what survives the collection that starts now is to be old at once: a good
    /// part of what was handed out since the previous one lasts, as while a program loads
    /// its code.
    pub fn survivors_last(&self) -> bool {
        self.loading.survivors_last
    }

    /// The collection that has started turns out to be a full one.
    pub fn note_restart_as_full(&mut self) {
        self.latest.scope = Scope::Full;
        self.limit.note_full();
    }

    /// What the latest collection, a major or full one, left is known now.
    fn note_left(&mut self, measure: &Measure, latest: &Latest) {
        let left_bytes = measure.kept_bytes();
        let left_growth_bytes = self.old_growth_bytes(measure);
        self.old.paid.settle(latest.grown_bytes, left_growth_bytes);
        self.old.left_bytes = left_bytes;
        self.old.left_old_bytes = measure.old_bytes();
        self.old.left_cell_bytes = measure.cell_bytes;
        self.old.left_cells = measure.old_cells;
        self.old.left_unsettled_cells = measure.old_cells.saturating_sub(measure.settled_cells);
        match latest.scope == Scope::Full {
            true => self.note_left_by_full(latest, measure),
            false => self.note_left_by_major(left_bytes),
        }
    }

    /// What a major collection has freed was not settled garbage, and as far as is known the least
    /// that has been left since the latest full one is none either.
    fn note_left_by_major(&mut self, left_bytes: usize) {
        let settled = &mut self.settled;
        settled.least_left_bytes = settled.least_left_bytes.min(left_bytes);
        settled.paid.refund(left_bytes - settled.least_left_bytes);
        if !self.trades() {
            let base_bytes = self.settled.left_bytes.max(self.options.heap_min_bytes);
            let may_leave_bytes = base_bytes.saturating_add(self.settled_garbage_bytes());
            self.settled.is_suspicious |= left_bytes > may_leave_bytes;
        }
    }

    fn note_left_by_full(&mut self, latest: &Latest, measure: &Measure) {
        let settled = &mut self.settled;
        let is_suspicious = std::mem::take(&mut settled.is_suspicious);
        // Where cells settle, the number of settled ones does not show how many have died.
        let dead_cells = latest.settled_cells.saturating_sub(measure.settled_cells);
        if is_suspicious && !settled.settling.is_on() {
            let new_cells = latest.settled_cells.saturating_sub(settled.left_cells);
            settled
                .settling
                .note_full(latest.settled_cells, new_cells, dead_cells);
            let mean_bytes = measure.kept_bytes() / measure.kept_cells.max(1);
            let grown_bytes = latest.settled_growth_bytes;
            let left_bytes = grown_bytes.saturating_sub(dead_cells * mean_bytes);
            settled.paid.settle(grown_bytes, left_bytes);
        } else {
            settled.paid.settle(0, 0);
        }
        settled.left_bytes = measure.kept_bytes();
        settled.least_left_bytes = settled.left_bytes;
        settled.left_cell_bytes = measure.cell_bytes;
        settled.left_cells = measure.settled_cells;
    }

    /// With a fixed overhead, settled garbage that a full collection is worth.
    fn settled_garbage_bytes(&self) -> usize {
        let live_bytes = self.settled.left_bytes.max(self.options.heap_min_bytes);
        self.garbage_bytes(live_bytes, self.settled.left_cell_bytes) / SETTLED_GARBAGE_PER_GARBAGE
    }

    /// The scope of a collection that nobody has asked for.
    fn scope_of_next(&mut self, measure: &Measure) -> Scope {
        let rescans_limit = self.rescans_limit_cells(measure.old_cells);
        let outgrown = self.options.growth_max_bytes == 0
            || self.settled.is_suspicious
            || measure.old_bytes() >= self.major_threshold_bytes()
            || rescans_limit.is_some_and(|limit| measure.rescanned_cells > limit);
        let (live, kept) = (self.old.left_bytes, measure.kept_bytes());
        let scope = match (outgrown, self.limit.is_near(live, kept, self.nursery_bytes)) {
            (_, true) => {
                self.limit.collections += usize::from(!outgrown);
                Scope::Full
            }
            (true, false) => self.major_or_full(measure),
            (false, false) => Scope::Minor,
        };
        self.settled.has_what_passes &= scope != Scope::Full;
        scope
    }

    /// Whether a collection that has to look at old cells is major or full.
    fn major_or_full(&self, measure: &Measure) -> Scope {
        // Garbage is not marked, so growth since the latest such collection does not count.
        let live_cells = measure.old_cells.min(self.old.left_cells);
        let would_save_little = measure.settled_cells < live_cells.div_ceil(2).max(1);
        let may_have_garbage = self.settled.is_suspicious || self.settled.has_what_passes;
        let is_full = would_save_little || may_have_garbage || self.options.growth_max_bytes == 0;
        match is_full {
            true => Scope::Full,
            false => Scope::Major,
        }
    }

    /// Bytes that the program is to be handed while a collection marks, and
    /// about how many cells the collection has to mark. The bytes are little of
    /// the garbage that may exist, but enough for the program to get on.
    pub fn marking_plan(&self, scope: Scope, measure: Measure) -> (usize, usize) {
        let half_nursery_bytes = self.nursery_bytes / 2;
        match scope {
            Scope::Minor => (half_nursery_bytes, measure.fresh_bytes / CELL_BYTES),
            Scope::Major | Scope::Full => {
                let garbage = self.garbage_bytes(measure.kept_bytes(), measure.cell_bytes);
                let bytes = (garbage / MARKINGS_PER_GARBAGE).max(half_nursery_bytes);
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
        if self.trades() {
            return self.old.goal_bytes;
        }
        let worth_waiting_for = cell_bytes
            .saturating_mul(PAYLOADS_PER_CELL_BYTE)
            .saturating_add(PAYLOADS_MIN_BYTES);
        let base_bytes = live_bytes.min(worth_waiting_for);
        let percent = self.options.space_overhead_percent;
        (base_bytes / 100).saturating_mul(percent.unwrap_or(FALLBACK_OVERHEAD_PERCENT))
    }

    fn next_nursery_bytes(&self, measure: &Measure, asked: Option<Scope>) -> usize {
        let kept_bytes = measure.kept_bytes();
        let exchange_rate = self.options.exchange_rate();
        let worth_bytes = match self.trades() {
            true => self.rent.nursery_bytes(exchange_rate).unwrap_or(0),
            false => self.garbage_bytes(kept_bytes, measure.cell_bytes) / NURSERIES_PER_GARBAGE,
        };
        let nursery = self.options.nursery_bytes(worth_bytes, kept_bytes);
        let nursery_min_bytes = self.options.nursery_min_bytes;
        // Where the VM wants minor collections, more of them would not make room: no full one follows.
        let least_bytes = match asked {
            Some(Scope::Minor) => nursery_min_bytes,
            _ => nursery_min_bytes / 4,
        };
        self.limit.nursery_bytes(nursery, least_bytes)
    }

    /// Whether so little room is left under the limit that a collection had
    /// better not let the program allocate before it is over, and give back at
    /// once what it frees.
    pub fn is_short_of_room(&self) -> bool {
        self.limit.is_short_of_room(self.options.memory_limit_bytes)
    }

    /// The process has this much resident now, while a collection goes on in
    /// slices: the program may have been faster than the collector.
    pub fn note_resident(&mut self, resident_bytes: usize) {
        let limit_bytes = self.options.memory_limit_bytes;
        self.limit.note_resident(limit_bytes, resident_bytes);
    }

    /// A full collection has been swept, and its memory given back as far as the
    /// limit asks for: now it is known whether live data fits, unless the program
    /// ran while it was marked (`!is_exact`). The program has been handed `fresh_bytes` since then.
    pub fn note_after_full(&mut self, resident_bytes: usize, fresh_bytes: usize, is_exact: bool) {
        let limit_bytes = self.options.memory_limit_bytes;
        self.limit
            .note_after_full(limit_bytes, resident_bytes, fresh_bytes, is_exact);
    }

    /// Whether a full collection may make room for `bytes` below the memory limit, and not too
    /// soon after the latest one, now that the program has been handed `fresh_bytes` since the
    /// latest collection.
    pub fn may_gain_room(&self, fresh_bytes: usize, bytes: usize) -> bool {
        self.limit
            .may_gain_room(self.old.left_bytes, fresh_bytes, bytes)
    }

    /// Full collections that only the memory limit asked for.
    pub fn limit_collections(&self) -> usize {
        self.limit.collections
    }

    /// Whether what the latest full collection left does not fit into the limit.
    pub fn is_over_limit(&self) -> bool {
        self.limit.is_over()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Scope::{Full, Major, Minor};

    const MIB: usize = 1 << 20;

    const OPTIONS: PaceOptions = PaceOptions {
        space_overhead_percent: Some(100),
        exchange_rate_thousandths: 2500,
        heap_min_bytes: 8 * MIB,
        heap_init_bytes: 0,
        growth_min_bytes: 0,
        growth_max_bytes: usize::MAX,
        rescans_max_millionths: None,
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
            ..Measure::default()
        }
    }

    fn pace_after_full(options: PaceOptions, live: usize) -> Pace {
        let mut pace = Pace::new(options);
        pace.start(measure(0, live), Some(Full));
        pace.start(measure(live, MIB), None);
        pace
    }

    #[test]
    fn a_full_collection_comes_when_the_kept_bytes_outgrow_the_overhead() {
        for percent in [100, 20] {
            let options = PaceOptions {
                space_overhead_percent: Some(percent),
                ..OPTIONS
            };
            let mut pace = pace_after_full(options, 100 * MIB);
            let mut start = |mib| pace.start(measure(mib * MIB, MIB), None);
            assert_eq!(start(100 + percent - 1), Minor);
            assert_eq!(start(100 + percent), Full);
        }
    }

    #[test]
    fn young_survivors_do_not_bring_a_full_collection() {
        let mut pace = pace_after_full(OPTIONS, 100 * MIB);
        let half_young = |kept| Measure {
            old_cells: 50,
            ..measure(kept, MIB)
        };
        assert_eq!(pace.start(half_young(300 * MIB), None), Minor);
        assert_eq!(pace.start(half_young(400 * MIB), None), Full);
    }

    #[test]
    fn what_was_young_after_a_full_collection_is_growth_when_it_is_old() {
        let mut pace = Pace::new(OPTIONS);
        pace.start(measure(0, 100 * MIB), Some(Full));
        let half_young = Measure {
            old_cells: 50,
            ..measure(100 * MIB, MIB)
        };
        assert_eq!(pace.start(half_young, None), Minor);
        // 50 MiB were old, and 100 MiB lived.
        assert_eq!(pace.start(measure(149 * MIB, MIB), None), Minor);
        assert_eq!(pace.grown_bytes(&measure(149 * MIB, MIB)), 99 * MIB);
        assert_eq!(pace.growth_limit_bytes(), 100 * MIB);
        assert_eq!(pace.start(measure(150 * MIB, MIB), None), Full);
    }

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
        assert_eq!(pace.start(settled(124 * MIB), None), Minor);
        assert_eq!(pace.start(settled(250 * MIB), None), Major);
    }

    /// [`measure`] of a process of 200 MiB that has taken this CPU time, one 100th of it in collections.
    fn measure_at(process_ms: u64, kept: usize, fresh: usize) -> Measure {
        Measure {
            costs: Some(Costs {
                collecting_ns: process_ms * 10_000,
                process_ns: process_ms * 1_000_000,
                process_bytes: 200 * MIB,
            }),
            ..measure(kept, fresh)
        }
    }

    /// Pacing by cost, after a full collection that took 10 ms and left 100 MiB.
    fn pace_by_cost() -> Pace {
        let mut pace = Pace::new(PaceOptions {
            space_overhead_percent: None,
            ..OPTIONS
        });
        pace.start(measure_at(100, 0, 50 * MIB), None);
        pace.start(measure_at(200, 50 * MIB, 50 * MIB), None);
        pace.start(measure_at(1000, 100 * MIB, MIB), Some(Full));
        pace.start(measure_at(2000, 100 * MIB, MIB), Some(Minor));
        pace
    }

    /// As [`measure_at`], when most cells are settled.
    fn settled_at(process_ms: u64, kept_kib: usize) -> Measure {
        Measure {
            settled_cells: 90,
            ..measure_at(process_ms, kept_kib << 10, MIB)
        }
    }

    #[test]
    fn what_a_major_collection_frees_pays_nothing_for_a_full_one() {
        const LIVE_KIB: usize = 100 << 10;
        for (left_kib, scope) in [(2048, Full), (100, Minor)] {
            let mut pace = pace_by_cost();
            // Three major collections leave 2 MiB, this much, and 2 MiB beyond what the full one has left.
            let mut at_ms = 2000;
            for grown_kib in [2048, left_kib, 2048] {
                let kept_kib = LIVE_KIB + grown_kib;
                let major = pace.start(settled_at(at_ms, kept_kib), Some(Major));
                let minor = pace.start(settled_at(at_ms + 10, kept_kib), Some(Minor));
                assert_eq!((major, minor), (Major, Minor));
                at_ms += 1800;
            }
            let next = pace.start(settled_at(at_ms, LIVE_KIB + 2048), None);
            assert_eq!(next, scope, "{left_kib}");
        }
    }

    #[test]
    fn settled_garbage_pays_also_when_the_full_collection_before_has_left_more() {
        const LIVE_KIB: usize = 100 << 10;
        const HELD_KIB: usize = 20 << 10;
        let mut pace = pace_by_cost();
        let held = settled_at(2000, LIVE_KIB + HELD_KIB);
        assert_eq!(pace.start(held, Some(Full)), Full);
        pace.start(settled_at(2010, LIVE_KIB + HELD_KIB), Some(Minor));
        // Each request holds 20 MiB and leaves 256 KiB of garbage that has settled.
        let is_full = |request: &usize| {
            let garbage_kib = 256 * request;
            let at_ms = 2100 + 400 * *request as u64;
            [(0, HELD_KIB), (200, 0)].into_iter().any(|(ms, held_kib)| {
                let kept_kib = LIVE_KIB + held_kib + garbage_kib;
                let scope = pace.start(settled_at(at_ms + ms, kept_kib), None);
                pace.start(settled_at(at_ms + ms + 10, kept_kib), Some(Major));
                pace.start(settled_at(at_ms + ms + 20, kept_kib), Some(Minor));
                scope == Full
            })
        };
        let requests = (0..100).find(is_full);
        assert!(requests.is_some_and(|count| count < 20), "{requests:?}");
    }

    #[test]
    fn an_empty_block_pays_for_its_pages_from_collection_to_collection() {
        let mut pace = pace_by_cost();
        for (at_ms, paid) in [(2060, 0.25), (2180, 0.5), (2420, 1.0)] {
            pace.start(measure_at(at_ms, 100 * MIB, MIB), None);
            assert_eq!(pace.pages_paid(64 << 10), Some(paid), "{at_ms}");
        }
        let fixed = pace_after_full(OPTIONS, 100 * MIB);
        assert_eq!(fixed.pages_paid(64 << 10), None);
        let unknown = Pace::new(*pace.options());
        assert_eq!(unknown.pages_paid(64 << 10), None);
    }

    #[test]
    fn a_fork_collects_first_where_that_costs_less_than_the_garbage() {
        // 10 ms of 2,100 are 0.48 %, which is worth 1.19 % of 200 MiB, in two processes.
        for (fresh_kib, is_due) in [(1100, false), (1300, true)] {
            let mut pace = pace_by_cost();
            let before_fork = measure_at(2100, 100 * MIB, fresh_kib << 10);
            assert_eq!(pace.is_due_before_fork(&before_fork), is_due, "{fresh_kib}");
        }
    }

    #[test]
    fn a_fork_soon_after_one_that_collected_does_not_collect() {
        let mut pace = pace_by_cost();
        assert!(pace.is_due_before_fork(&measure_at(2100, 100 * MIB, 10 * MIB)));
        pace.start(measure_at(2100, 100 * MIB, 10 * MIB), Some(Full));
        assert!(!pace.is_due_before_fork(&measure_at(2110, 100 * MIB, 0)));
        // 10 ms of 60 are 17 %, which is worth 83 MiB; of 2,100, they are worth 2.4 MiB.
        assert!(!pace.is_due_before_fork(&measure_at(2160, 100 * MIB, 10 * MIB)));
        assert!(pace.is_due_before_fork(&measure_at(4200, 100 * MIB, 10 * MIB)));
    }

    #[test]
    fn a_child_that_forks_counts_its_own_time_from_the_beginning() {
        let before_fork = measure_at(2110, 100 * MIB, 10 * MIB);
        for (is_child, is_due) in [(false, false), (true, true)] {
            let mut pace = pace_by_cost();
            assert!(pace.is_due_before_fork(&measure_at(2100, 100 * MIB, 10 * MIB)));
            if is_child {
                pace.begin_in_child(0);
            }
            assert_eq!(pace.is_due_before_fork(&before_fork), is_due);
        }
    }

    #[test]
    fn a_program_that_forks_often_collects_before_few_forks_if_it_has_had_no_other_collection() {
        let mut pace = Pace::new(PaceOptions {
            space_overhead_percent: None,
            ..OPTIONS
        });
        let mut due_at = Vec::new();
        let (mut collecting_ns, mut fresh_bytes) = (0, 0);
        for fork in 0..100 {
            fresh_bytes += 300 << 10;
            let mut before_fork = measure_at(100 + 10 * fork, 10 * MIB, fresh_bytes);
            before_fork.costs.as_mut().unwrap().collecting_ns = collecting_ns;
            if pace.is_due_before_fork(&before_fork) {
                pace.start(before_fork, Some(Full));
                (collecting_ns, fresh_bytes) = (collecting_ns + 5_000_000, 0);
                due_at.push(fork);
            }
        }
        // What a full collection takes is known once the next one starts.
        assert!((3..15).contains(&due_at.len()), "{due_at:?}");
    }

    #[test]
    fn what_puts_off_a_collection_of_the_parent_puts_off_none_of_its_child() {
        let mut pace = pace_by_cost();
        let chosen_bytes = pace.nursery_bytes();
        pace.put_off(100 * MIB);
        assert_eq!(pace.nursery_bytes(), 100 * MIB);
        pace.begin_in_child(0);
        assert_eq!(pace.nursery_bytes(), chosen_bytes);
    }

    #[test]
    fn what_the_parent_was_handed_brings_about_no_collection_of_its_child() {
        let mut pace = pace_by_cost();
        let chosen_bytes = pace.nursery_bytes();
        pace.put_off(100 * MIB);
        pace.begin_in_child(30 * MIB);
        assert_eq!(pace.nursery_bytes(), 30 * MIB + chosen_bytes);
        pace.begin_in_child(200 * MIB);
        assert_eq!(pace.nursery_bytes(), 30 * MIB + chosen_bytes);
    }

    #[test]
    fn options_that_change_choose_no_nursery_by_what_is_put_off() {
        let mut pace = pace_by_cost();
        let chosen_bytes = pace.nursery_bytes();
        pace.put_off(100 * MIB);
        pace.set_options(*pace.options());
        assert_eq!(pace.nursery_bytes(), chosen_bytes);
    }

    #[test]
    fn what_settled_before_a_fork_is_looked_at_once_by_the_parent_and_never_by_its_child() {
        let grown = Measure {
            settled_cells: 1_000_000,
            ..measure_at(2200, 300 * MIB, MIB)
        };
        for (is_child, scopes) in [(false, [Full, Major]), (true, [Major, Major])] {
            let mut pace = pace_by_cost();
            let before_fork = measure_at(2100, 100 * MIB, 10 * MIB);
            assert!(pace.is_due_before_fork(&before_fork));
            pace.start(before_fork, Some(Full));
            if is_child {
                pace.begin_in_child(0);
            }
            for scope in scopes {
                assert_eq!(pace.scope_of_next(&grown), scope, "a child: {is_child}");
            }
        }
    }

    #[test]
    fn a_child_learns_what_its_parents_latest_collection_took_if_that_was_full() {
        // A full one took 10 ms before, and the latest one took 40 ms.
        for (latest, full_ms) in [(Full, 25.0), (Minor, 10.0)] {
            let mut pace = pace_by_cost();
            pace.start(measure_at(3000, 100 * MIB, MIB), Some(latest));
            pace.begin_in_child(0);
            let mut first = measure_at(50, 100 * MIB, MIB);
            first.costs.as_mut().unwrap().collecting_ns = (30 + 40) * 1_000_000;
            pace.start(first, Some(Minor));
            let expected_ns = pace.rent.full_ns(&first).unwrap();
            assert_eq!(expected_ns / 1e6, full_ms, "{latest:?}");
        }
    }

    #[test]
    fn what_lasts_is_no_reason_to_collect_before_a_fork() {
        let mut pace = pace_by_cost();
        let with_code = Measure {
            lasting_bytes: 20 * MIB,
            ..measure_at(2100, 110 * MIB, 10 * MIB)
        };
        assert!(!pace.is_due_before_fork(&with_code));
    }

    #[test]
    fn with_a_fixed_overhead_growth_alone_decides_before_a_fork() {
        let mut pace = pace_after_full(OPTIONS, 100 * MIB);
        assert!(!pace.is_due_before_fork(&measure(100 * MIB, 24 * MIB)));
        assert!(pace.is_due_before_fork(&measure(100 * MIB, 26 * MIB)));
        pace.start(measure(100 * MIB, 26 * MIB), Some(Full));
        assert!(!pace.is_due_before_fork(&measure(126 * MIB, 24 * MIB)));
    }

    /// [`measure`] of a heap with so many settled cells, and 40 other old ones.
    fn with_settled(settled_cells: usize, kept: usize) -> Measure {
        with_cells(settled_cells, 40, kept)
    }

    /// [`measure`] of a heap with so many settled cells, and so many other old ones.
    fn with_cells(settled_cells: usize, unsettled_cells: usize, kept: usize) -> Measure {
        Measure {
            kept_cells: settled_cells + unsettled_cells,
            old_cells: settled_cells + unsettled_cells,
            settled_cells,
            ..measure(kept, MIB)
        }
    }

    /// A major collection of `pace` leaves too much. The full one after it finds that `dead` of 90 settled
    /// cells have died, and then 60 are settled.
    fn find_dead(pace: &mut Pace, dead: usize) {
        assert_eq!(pace.start(with_settled(90, 200 * MIB), None), Major);
        assert_eq!(pace.start(with_settled(90, 190 * MIB), None), Full);
        assert!(
            !pace.lets_settle(),
            "it is to show what is left of the settled ones"
        );
        pace.start(with_settled(90 - dead, 100 * MIB), None);
        pace.settled.left_cells = 60;
    }

    #[test]
    fn where_settled_cells_die_cells_settle_in_fewer_collections() {
        let mut pace = pace_after_full(OPTIONS, 100 * MIB);
        pace.settled.left_cells = 60;
        // Each collection leaves as much that could settle.
        let expect_settling_in = |pace: &mut Pace, collection: usize| {
            for number in 1..=collection {
                assert_eq!(pace.start(with_settled(60, 200 * MIB), None), Major);
                assert_eq!(
                    pace.lets_settle(),
                    number == collection,
                    "{number} of {collection}"
                );
                assert_eq!(pace.start(with_settled(60, 100 * MIB), None), Minor);
            }
        };
        expect_settling_in(&mut pace, 1);
        // The last time the major collection in `find_dead` is the first of the 16.
        for collection in [2, 4, 8, 16, 15] {
            find_dead(&mut pace, 30);
            expect_settling_in(&mut pace, collection);
        }
        for collection in [7, 3, 1, 1, 1] {
            find_dead(&mut pace, 0);
            expect_settling_in(&mut pace, collection);
        }
    }

    #[test]
    fn where_settled_cells_die_cells_settle_after_a_collection_that_left_few() {
        let mut pace = pace_after_full(OPTIONS, 100 * MIB);
        pace.settled.left_cells = 60;
        find_dead(&mut pace, 30);
        find_dead(&mut pace, 30);
        for (left_cells, lets_settle) in [
            (10, false),
            (100, false),
            (100, false),
            (30, false),
            (0, true),
        ] {
            assert_eq!(pace.start(with_settled(60, 200 * MIB), None), Major);
            assert_eq!(pace.lets_settle(), lets_settle);
            let left = with_cells(60, left_cells, 100 * MIB);
            assert_eq!(pace.start(left, None), Minor);
        }
    }

    #[test]
    fn cells_settle_when_the_program_asks_for_a_collection() {
        let mut pace = pace_after_full(OPTIONS, 100 * MIB);
        find_dead(&mut pace, 30);
        for asked in [Full, Major, Full] {
            pace.start(with_settled(60, 100 * MIB), Some(asked));
            assert!(pace.lets_settle());
        }
        pace.start(with_settled(60, 100 * MIB), None);
        assert_eq!(pace.start(with_settled(60, 200 * MIB), None), Major);
        assert!(!pace.lets_settle());
    }

    #[test]
    fn while_little_is_settled_there_are_no_major_collections() {
        let settled = |settled_cells| Measure {
            settled_cells,
            ..measure(200 * MIB, MIB)
        };
        for (cells, scope) in [(49, Full), (50, Major)] {
            let mut pace = pace_after_full(OPTIONS, 100 * MIB);
            assert_eq!(pace.start(settled(cells), None), scope);
        }
    }

    #[test]
    fn growth_that_lasts_brings_no_major_collection() {
        let mut pace = pace_after_full(OPTIONS, 100 * MIB);
        let mut start_with = |kept, code| {
            let with_code = Measure {
                lasting_bytes: code,
                ..measure(kept, MIB)
            };
            pace.start(with_code, None)
        };
        assert_eq!(start_with(209 * MIB, 10 * MIB), Minor);
        assert_eq!(start_with(210 * MIB, 10 * MIB), Full);
        // What lasted already does not count once more.
        assert_eq!(start_with(110 * MIB, 10 * MIB), Minor);
        assert_eq!(start_with(220 * MIB, 10 * MIB), Full);
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
        assert_eq!(pace.nursery_bytes(), 50 * MIB);
        pace.start(measure(0, 50 * MIB), None);
        assert_eq!(pace.nursery_bytes(), 50 * MIB);
        pace.start(measure(20 * MIB, 50 * MIB), None);
        assert_eq!(pace.nursery_bytes(), 30 * MIB);
        pace.start(measure(100 * MIB, 50 * MIB), None);
        assert_eq!(pace.nursery_bytes(), 25 * MIB);
    }

    #[test]
    fn a_collection_that_is_put_off_comes_no_sooner_than_it_would() {
        let mut pace = pace_after_full(OPTIONS, 40 * MIB);
        let nursery_bytes = pace.nursery_bytes();
        pace.put_off(MIB);
        assert_eq!(pace.nursery_bytes(), nursery_bytes);
        pace.put_off(100 * MIB);
        assert_eq!(pace.nursery_bytes(), 100 * MIB);
        let mut limited = Pace::new(LIMITED);
        limited.put_off(100 * MIB);
        assert_eq!(limited.nursery_bytes(), LIMITED.nursery_min_bytes);
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
        assert_eq!(never_minor.start(shrunk, None), Full);
        assert_eq!(never_minor.start(shrunk, None), Full);
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
        assert_eq!(pace.start(rescanned(10), None), Minor);
        assert_eq!(pace.start(rescanned(11), None), Full);
        assert_eq!(pace.rescans_limit_cells(500), Some(50));
    }

    #[test]
    fn payloads_without_cells_do_not_put_a_full_collection_off() {
        let payloads_only = |kept| Measure {
            cell_bytes: MIB,
            ..measure(kept, MIB)
        };
        let mut pace = Pace::new(OPTIONS);
        pace.start(payloads_only(0), Some(Full));
        pace.start(payloads_only(1000 * MIB), None);
        assert_eq!(pace.major_threshold_bytes() / MIB, 1000 + 16 + 128 - 1);
    }

    #[test]
    fn the_nursery_grows_with_the_heap_between_its_bounds() {
        let nursery_bytes = |live| pace_after_full(OPTIONS, live).nursery_bytes();
        assert_eq!(nursery_bytes(MIB), OPTIONS.nursery_min_bytes);
        assert_eq!(nursery_bytes(40 * MIB) / MIB, 9);
        assert_eq!(nursery_bytes(4000 * MIB), OPTIONS.nursery_max_bytes);
    }

    const LIMITED: PaceOptions = PaceOptions {
        memory_limit_bytes: Some(150 * MIB),
        ..OPTIONS
    };

    /// A process with 10 MiB besides its heap, and 10 MiB of free memory in its heap.
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
        pace.start(resident(0, 90 * MIB), Some(Full));
        pace.start(resident(90 * MIB, MIB), None);
        assert_eq!(pace.start(resident(100 * MIB, MIB), None), Minor);
        assert!(pace.nursery_bytes() <= 10 * MIB);
        assert_eq!(pace.limit_collections(), 0);
        assert_eq!(pace.start(resident(115 * MIB, MIB), None), Full);
        assert_eq!(pace.limit_collections(), 1);
    }

    #[test]
    fn without_room_live_data_grows_a_little_between_full_collections() {
        let mut pace = Pace::new(LIMITED);
        pace.start(resident(0, 128 * MIB), Some(Full));
        pace.note_after_full(148 * MIB, 0, true);
        pace.start(resident(128 * MIB, MIB), None);
        assert!(pace.is_short_of_room());
        assert_eq!(pace.start(resident(130 * MIB, MIB), None), Minor);
        assert_eq!(pace.start(resident(137 * MIB, MIB), None), Full);
    }

    #[test]
    fn a_program_that_outruns_slices_is_short_of_room() {
        let mut pace = pace_after_full(LIMITED, 50 * MIB);
        assert!(!pace.is_short_of_room());
        pace.note_resident(140 * MIB);
        assert!(pace.is_short_of_room());
    }

    #[test]
    fn live_data_that_does_not_fit_is_paced_almost_as_if_there_were_no_limit() {
        let mut pace = Pace::new(LIMITED);
        pace.start(resident(0, 400 * MIB), Some(Full));
        pace.note_after_full(420 * MIB, 0, false);
        assert!(!pace.is_over_limit() && pace.is_short_of_room());
        pace.note_after_full(420 * MIB, 0, true);
        assert!(pace.is_over_limit() && !pace.is_short_of_room());
        assert_eq!(pace.start(resident(400 * MIB, MIB), None), Minor);
        assert_eq!(pace.nursery_bytes(), OPTIONS.nursery_max_bytes);
        assert_eq!(pace.start(resident(420 * MIB, MIB), None), Minor);
        assert_eq!(pace.start(resident(430 * MIB, MIB), None), Full);
        pace.note_after_full(100 * MIB, 0, true);
        assert!(!pace.is_over_limit());
    }

    #[test]
    fn what_the_program_is_handed_after_marking_is_not_what_did_not_fit() {
        let mut pace = pace_after_full(LIMITED, 50 * MIB);
        pace.note_after_full(200 * MIB, 60 * MIB, true);
        assert!(!pace.is_over_limit());
        pace.note_after_full(200 * MIB, 40 * MIB, true);
        assert!(pace.is_over_limit());
    }

    #[test]
    fn what_the_program_is_handed_after_marking_does_not_make_live_data_fit() {
        let mut pace = pace_after_full(LIMITED, 150 * MIB);
        pace.note_after_full(155 * MIB, 0, true);
        // The same live data, and the cells of a nursery between it.
        pace.note_after_full(155 * MIB, 10 * MIB, false);
        assert!(pace.is_over_limit());
        pace.note_after_full(149 * MIB, 10 * MIB, false);
        assert!(!pace.is_over_limit());
    }

    /// A process with 80 MiB of live data, and with this much of RSS.
    fn of_80_mib(resident_mib: usize) -> Measure {
        Measure {
            residence: Some(Residence {
                resident_bytes: resident_mib * MIB,
                free_bytes: 0,
            }),
            ..measure(80 * MIB, MIB)
        }
    }

    #[test]
    fn memory_elsewhere_beyond_the_limit_brings_one_full_collection() {
        let mut pace = Pace::new(LIMITED);
        pace.start(measure(0, 80 * MIB), Some(Full));
        pace.note_after_full(100 * MIB, 0, true);
        assert_eq!(pace.start(of_80_mib(110), None), Minor);
        assert_eq!(pace.start(of_80_mib(151), None), Full);
        pace.note_after_full(145 * MIB, 0, true);
        // Not again before it has grown by a part of live data.
        assert_eq!(pace.start(of_80_mib(150), None), Minor);
        assert_eq!(pace.start(of_80_mib(151), None), Full);
        pace.note_after_full(151 * MIB, 0, true);
        for _ in 0..10 {
            assert_eq!(pace.start(of_80_mib(190), None), Minor);
            assert!(pace.nursery_bytes() > 19 * MIB);
        }
    }

    #[test]
    fn a_forked_child_above_the_limit_has_to_show_whether_its_live_data_fits() {
        let mut pace = Pace::new(LIMITED);
        pace.start(measure(0, 80 * MIB), Some(Full));
        pace.note_after_full(170 * MIB, 0, true);
        pace.begin_in_child(0);
        assert_eq!(pace.start(of_80_mib(60), None), Minor);
        assert_eq!(pace.start(of_80_mib(155), None), Full);
    }

    #[test]
    fn another_limit_has_to_show_whether_live_data_fits() {
        for is_exact in [false, true] {
            let mut pace = pace_after_full(LIMITED, 400 * MIB);
            pace.note_after_full(420 * MIB, 0, is_exact);
            pace.set_options(OPTIONS);
            assert!(!pace.is_over_limit() && !pace.is_short_of_room());
        }
    }

    #[test]
    fn where_only_minor_collections_are_wanted_the_nursery_keeps_its_least_size() {
        let above = Measure {
            residence: Some(Residence {
                resident_bytes: 160 * MIB,
                free_bytes: 0,
            }),
            ..measure(140 * MIB, MIB)
        };
        let mut pace = pace_after_full(LIMITED, 130 * MIB);
        pace.start(above, None);
        assert_eq!(pace.nursery_bytes(), OPTIONS.nursery_min_bytes / 4);
        pace.start(above, Some(Minor));
        assert_eq!(pace.nursery_bytes(), OPTIONS.nursery_min_bytes);
    }

    #[test]
    fn a_full_collection_may_make_room_once_the_program_has_been_handed_something() {
        let mut pace = pace_after_full(LIMITED, 100 * MIB);
        pace.start(resident(100 * MIB, 0), Some(Full));
        assert!(!pace.may_gain_room(0, usize::MAX));
        // Also when a minor collection has counted it.
        assert!(pace.may_gain_room(MIB, 40 * MIB) && !pace.may_gain_room(MIB, 2 * MIB));
        pace.start(resident(100 * MIB, MIB), Some(Minor));
        assert!(pace.may_gain_room(0, 40 * MIB) && !pace.may_gain_room(0, 2 * MIB));
        pace.start(resident(100 * MIB, 5 * MIB), Some(Minor));
        assert!(pace.may_gain_room(0, 2 * MIB));
    }

    #[test]
    fn when_the_clock_fails_pacing_goes_by_the_overhead_that_it_had_before_costs_were_known() {
        let options = PaceOptions {
            space_overhead_percent: None,
            ..OPTIONS
        };
        let mut pace = Pace::new(options);
        for at_ms in 1..20 {
            let costs = Costs {
                collecting_ns: at_ms * 1_000_000,
                process_ns: at_ms * 10_000_000,
                process_bytes: 150 * MIB,
            };
            pace.start(
                Measure {
                    costs: Some(costs),
                    ..measure(100 * MIB, MIB)
                },
                None,
            );
        }
        for _ in 0..10 {
            pace.start(measure(100 * MIB, MIB), None);
        }
        assert_eq!(pace.start(measure(110 * MIB, MIB), None), Minor);
        assert_eq!(pace.nursery_bytes() / MIB, 5);
    }

    #[test]
    fn what_is_asked_for_is_what_happens() {
        let mut pace = pace_after_full(OPTIONS, MIB);
        assert_eq!(pace.start(measure(MIB, 0), Some(Full)), Full);
        let asked = Some(Minor);
        assert_eq!(pace.start(measure(900 * MIB, 0), asked), Minor);
    }
}
