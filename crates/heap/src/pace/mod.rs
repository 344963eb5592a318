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
//! have died, cells settle less often ([`settling`]). Collections are full from the beginning while
//! less than half of the live old cells are settled: a major one would save little.
//!
//! When a collection starts, pacing learns what has become known ([`learn`]), decides the scope
//! ([`decide`]) and chooses the sizes that follow ([`choose`]). A fork asks for itself ([`fork`]).

mod choose;
mod decide;
mod fork;
mod latest;
mod learn;
mod limit;
mod loading;
mod measure;
mod old;
mod options;
mod rent;
mod settled;
mod settling;

pub use measure::{Costs, Measure, Scope};

pub(crate) use measure::Residence;
pub use options::PaceOptions;

use latest::{Found, Latest};
use limit::Limit;
use loading::Loading;
use old::Old;
use rent::Rent;
use settled::Settled;

/// The state of pacing. Its parts do not exclude each other: a program may load code near its memory limit while old
/// cells and settled ones have grown. What does exclude each other within a part is an enum there.
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
    /// CPU time of the process when garbage was last worth a collection before a fork.
    at_fork_ns: u64,
    /// CPU time of the process between the starts of the latest two collections.
    interval_ns: u64,
}

impl Pace {
    /// Pacing for an empty heap.
    pub fn new(options: PaceOptions) -> Self {
        Self {
            options,
            latest: Latest::Minor,
            nursery_bytes: options.nursery_bytes(0, 0),
            chosen_nursery_bytes: options.nursery_bytes(0, 0),
            old: Old::new(options.heap_min_bytes),
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

    /// A collection starts, of the scope that is `asked` for if somebody asks. Pacing learns from the time since
    /// the latest one, decides the scope, and chooses when the next one is due.
    pub fn start(&mut self, measure: Measure, asked: Option<Scope>) -> Scope {
        self.learn(&measure);
        let scope = asked.unwrap_or_else(|| self.decide_scope(&measure));
        self.note_start(scope, asked.is_some(), &measure);
        self.choose_nursery(self.next_nursery_bytes(&measure, asked));
        scope
    }

    fn note_start(&mut self, scope: Scope, is_asked: bool, measure: &Measure) {
        if scope == Scope::Full {
            self.limit.note_full();
        }
        let unsettled_cells = self.old.left_unsettled_cells;
        self.settled.note_start(scope, is_asked, unsettled_cells);
        let found = Found {
            old_growth_bytes: self.old_growth_bytes(measure),
            settled_growth_bytes: self.settled_growth_bytes(),
            settled_cells: measure.settled_cells,
        };
        self.latest = Latest::new(scope, found);
    }

    /// The collection that has started turns out to be a full one.
    pub fn note_restart_as_full(&mut self) {
        self.latest = self.latest.as_full();
        self.limit.note_full();
    }

    /// Whether cells settle in the major or full collection that has started.
    pub fn lets_settle(&self) -> bool {
        self.settled.lets_settle()
    }

    /// Whether what survives the collection that starts now is to be old at once: a good
    /// part of what was handed out since the previous one lasts, as while a program loads
    /// its code.
    pub fn survivors_last(&self) -> bool {
        self.loading.survivors_last
    }

    /// Fresh bytes at which a collection is due.
    pub fn nursery_bytes(&self) -> usize {
        self.nursery_bytes
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

    /// A marking is over; the program was handed `handed_bytes` while it went on.
    pub fn note_marked(&mut self, scope: Scope, handed_bytes: usize) {
        if scope != Scope::Minor {
            self.old.handed_while_marking_bytes = handed_bytes;
        }
    }

    /// Bytes by which old cells have grown since the latest major or full collection, but for
    /// what lasts.
    fn old_growth_bytes(&self, measure: &Measure) -> usize {
        let lasting_bytes = self.loading.since_major_bytes;
        self.old.growth_bytes(measure, lasting_bytes)
    }

    /// Bytes that major collections have left beyond what the latest full one did, but for what lasts.
    fn settled_growth_bytes(&self) -> usize {
        let lasting_bytes = self.loading.since_full_bytes;
        self.settled
            .growth_bytes(self.old.left_bytes, lasting_bytes)
    }
}

/// The memory limit.
impl Pace {
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

    /// A major or full collection has been swept, and its memory given back as far as the
    /// limit asks for: now it is known whether what it left fits, unless the program
    /// ran while it was marked (`!is_exact`). The program has been handed `fresh_bytes` since then.
    pub fn note_after_larger(&mut self, resident_bytes: usize, fresh_bytes: usize, is_exact: bool) {
        let limit_bytes = self.options.memory_limit_bytes;
        self.limit
            .note_after_larger(limit_bytes, resident_bytes, fresh_bytes, is_exact);
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

    /// Whether what the latest major or full collection left does not fit into the limit.
    pub fn is_over_limit(&self) -> bool {
        self.limit.is_over()
    }
}

#[cfg(test)]
mod tests;
