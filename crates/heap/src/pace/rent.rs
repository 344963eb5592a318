//! How much memory collecting less often is worth.
//!
//! A collector trades CPU time for memory. Every such trade follows one rule here: of CPU
//! time `P` and memory `M`, both of the whole process, `k ln P + ln M` is to be as small as
//! possible. `k` is the exchange rate: one percent of CPU time is worth `k` percent of memory.
//!
//! Let garbage grow by and by to `T` bytes before a collection that costs `C` frees it, and
//! let the program run for `P` in the meantime. The sum is smallest at `T P = k C M`. Half of `T P`
//! is the area under the growth: bytes of garbage, times the CPU time for which each has
//! stayed. So garbage pays rent, and a collection is due when the rent has reached what the
//! collection is worth, `k C M / 2`. The rule looks back only, so there is nothing to forecast and
//! nothing to oscillate: however garbage comes, collecting costs about what it saves. An idle
//! program takes no CPU time and pays nothing; a machine that is slower, or busy,
//! changes `C` and `P` alike. For steady growth `T` is the square root of `k C M`, times the growth rate: the
//! rule of Kirisame and others ("Optimal Heap Limits for Reducing Browser Memory Use", OOPSLA
//! 2022) with the process's own CPU time and memory in the place of their constant.
//!
//! Old garbage and settled garbage pay in this way. A nursery has to be chosen beforehand, and is
//! small, so its size is the same square root over the latest collections.

use super::measure::{Costs, Measure, Scope};
use super::options::PaceOptions;

/// How much less each minor collection counts than the next one.
const DECAY: f64 = 15.0 / 16.0;
/// At least this part of growth is taken for garbage. What still lives may be dropped whole
/// before long: a document, or all that a request holds.
const GARBAGE_SHARE_MIN: f64 = 1.0 / 2.0;
/// At least this part of a cost is taken to be avoidable.
const AVOIDABLE_SHARE_MIN: f64 = 1.0 / 8.0;
/// How many times a young cell is marked before it is old.
const MARKINGS_TO_OLD: f64 = 3.0;

/// What the rule is computed from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rent {
    /// When the latest collection started; `None` where the system did not say what the process had cost.
    at_latest: Option<Point>,
    /// `None` until there has been a minor collection whose cost is known.
    minors: Option<Minors>,
    /// The least time per cell that a collection has taken. It had the most cells for
    /// its roots, so this is about what a further cell takes.
    least_ns_per_cell: Option<f64>,
    major: Option<Price>,
    full: Option<Price>,
}

/// The start of a collection: the costs until then, and what the heap kept.
#[derive(Clone, Copy, Debug)]
struct Point {
    costs: Costs,
    /// It was in the parent, and this process has been forked since: its CPU time counts from the fork.
    is_before_fork: bool,
    kept_bytes: usize,
    kept_cells: usize,
    old_cells: usize,
}

/// Sums over minor collections, the later ones counting more.
#[derive(Clone, Copy, Debug, Default)]
struct Minors {
    count: f64,
    /// CPU time of these collections, and of the process.
    collecting_ns: f64,
    process_ns: f64,
    /// Young cells that they found, and the growth of kept cells.
    traced_cells: f64,
    grown_cells: f64,
    /// Bytes handed out, and the growth of kept bytes.
    handed_bytes: f64,
    grown_bytes: f64,
}

impl Minors {
    /// Adds the latest one, and lets those before it count less.
    fn note(&mut self, mut latest: Self) {
        for (sum, more) in self.sums().into_iter().zip(latest.sums()) {
            *sum = *sum * DECAY + *more;
        }
    }

    fn sums(&mut self) -> [&mut f64; 7] {
        [
            &mut self.count,
            &mut self.collecting_ns,
            &mut self.process_ns,
            &mut self.traced_cells,
            &mut self.grown_cells,
            &mut self.handed_bytes,
            &mut self.grown_bytes,
        ]
    }

    /// CPU time that a larger nursery would spread over more bytes. Cells that stay are marked
    /// equally often whatever the nursery.
    fn avoidable_ns(&self, ns_per_cell: f64) -> f64 {
        let ns_per_cell = ns_per_cell.min(self.collecting_ns / self.traced_cells.max(1.0));
        let staying_cells = (self.grown_cells * MARKINGS_TO_OLD).clamp(0.0, self.traced_cells);
        let avoidable_ns = self.collecting_ns - staying_cells * ns_per_cell;
        avoidable_ns.max(self.collecting_ns * AVOIDABLE_SHARE_MIN)
    }

    /// What part of a full nursery is garbage.
    fn garbage_share(&self) -> f64 {
        let grown_share = self.grown_bytes / self.handed_bytes.max(1.0);
        (1.0 - grown_share).clamp(GARBAGE_SHARE_MIN, 1.0)
    }
}

/// What collections of one scope have taken.
#[derive(Clone, Copy, Debug)]
struct Price {
    /// The mean of the latest ones, which count most.
    mean_ns: f64,
    /// The mean number of cells that they found, weighted alike.
    mean_cells: f64,
}

impl Price {
    /// Notes what the latest collection has taken. That it has taken no time at all is no price to begin with.
    fn note(price: &mut Option<Self>, collecting_ns: f64, cells: usize) {
        let cells = cells as f64;
        *price = match *price {
            Some(price) => Some(Self {
                mean_ns: (price.mean_ns + collecting_ns) / 2.0,
                mean_cells: (price.mean_cells + cells) / 2.0,
            }),
            None => (collecting_ns > 0.0).then_some(Self {
                mean_ns: collecting_ns,
                mean_cells: cells,
            }),
        };
    }

    /// The CPU time of the next collection if it finds `cells` cells. Before the first one it is that of the cells.
    fn estimate_ns(price: Option<Self>, cells: f64, ns_per_cell: f64) -> f64 {
        price.map_or(cells * ns_per_cell, |price| {
            let estimate_ns = price.mean_ns + (cells - price.mean_cells) * ns_per_cell;
            estimate_ns.max(price.mean_ns * AVOIDABLE_SHARE_MIN)
        })
    }
}

/// The rent that one kind of garbage has paid since the latest collection that frees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paid {
    byte_ns: f64,
    /// CPU time since that collection.
    since_ns: f64,
    /// What part of the growth of this kind has turned out to be garbage.
    garbage_share: f64,
}

impl Default for Paid {
    fn default() -> Self {
        Self {
            byte_ns: 0.0,
            since_ns: 0.0,
            garbage_share: 0.5,
        }
    }
}

impl Paid {
    /// `grown_bytes`, some of them garbage, have stayed for `process_ns` of CPU time.
    pub(super) fn charge(&mut self, grown_bytes: usize, process_ns: u64) {
        self.since_ns += process_ns as f64;
        self.byte_ns += grown_bytes as f64 * process_ns as f64;
    }

    /// There are at most `most_bytes` of this garbage now, and so there have never been more since the
    /// latest collection that frees it. What was charged for more is given back.
    pub(super) fn refund(&mut self, most_bytes: usize) {
        self.byte_ns = self.byte_ns.min(most_bytes as f64 * self.since_ns);
    }

    /// A collection has freed this kind of garbage: `left_bytes` of `grown_bytes` are left.
    pub(super) fn settle(&mut self, grown_bytes: usize, left_bytes: usize) {
        if grown_bytes > 0 {
            let left_share = (left_bytes as f64 / grown_bytes as f64).min(1.0);
            self.garbage_share = (self.garbage_share + 1.0 - left_share) / 2.0;
        }
        (self.byte_ns, self.since_ns) = (0.0, 0.0);
    }

    /// What part of `kept_bytes`, after such growth, a collection is to find live and mark.
    pub(super) fn live_share(&self, grown_bytes: usize, kept_bytes: usize) -> f64 {
        let garbage_bytes = self.garbage_share * grown_bytes as f64;
        (1.0 - garbage_bytes / kept_bytes.max(1) as f64).max(0.0)
    }

    /// Growth at which the rent will have reached `worth_byte_ns`, if garbage goes on growing as
    /// it has grown to `grown_bytes`. `None` while nothing is known.
    pub(super) fn goal_bytes(&self, grown_bytes: usize, worth_byte_ns: f64) -> Option<usize> {
        let garbage_byte_ns = self.byte_ns * self.garbage_share.max(GARBAGE_SHARE_MIN);
        (garbage_byte_ns > 0.0 && grown_bytes > 0)
            .then(|| (grown_bytes as f64 * (worth_byte_ns / garbage_byte_ns).sqrt()) as usize)
    }
}

impl Rent {
    /// This process has just been forked, and its CPU time begins at 0.
    pub(super) fn begin_in_child(&mut self) {
        if let Some(at_latest) = &mut self.at_latest {
            at_latest.costs.process_ns = 0;
            at_latest.is_before_fork = true;
        }
    }

    /// A collection starts; `latest` is the scope of the one before. Returns the CPU time of
    /// the process since that one started, in ns; of a child, since it was forked.
    pub(super) fn note(&mut self, latest: Scope, measure: &Measure) -> u64 {
        let Some(costs) = measure.costs else {
            self.at_latest = None;
            return 0;
        };
        let point = Point {
            costs,
            is_before_fork: false,
            kept_bytes: measure.kept_bytes(),
            kept_cells: measure.kept_cells,
            old_cells: measure.old_cells,
        };
        let before = self.at_latest.replace(point);
        // A child that nobody has told ([`Rent::begin_in_child`]) may have taken less than its parent had.
        let Some(before) = before.filter(|at| at.costs.process_ns <= costs.process_ns) else {
            return 0;
        };
        let process_ns = costs.process_ns - before.costs.process_ns;
        let collecting_ns = costs
            .collecting_ns
            .saturating_sub(before.costs.collecting_ns) as f64;
        match latest {
            // How much the parent was handed in which time is not known.
            Scope::Minor if before.is_before_fork => {}
            Scope::Minor => self.note_minor(&before, measure, collecting_ns, process_ns),
            Scope::Major => {
                let cells = measure.unsettled_cells();
                self.note_cells(collecting_ns, cells);
                Price::note(&mut self.major, collecting_ns, cells);
            }
            Scope::Full => {
                self.note_cells(collecting_ns, measure.kept_cells);
                Price::note(&mut self.full, collecting_ns, measure.kept_cells);
            }
        }
        process_ns
    }

    fn note_cells(&mut self, collecting_ns: f64, cells: usize) {
        let ns_per_cell = collecting_ns / cells.max(1) as f64;
        let least_ns = self.least_ns_per_cell.unwrap_or(ns_per_cell);
        self.least_ns_per_cell = Some(least_ns.min(ns_per_cell));
    }

    fn note_minor(&mut self, before: &Point, now: &Measure, collecting_ns: f64, process_ns: u64) {
        let traced_cells = now.kept_cells.saturating_sub(before.old_cells).max(1);
        self.note_cells(collecting_ns, traced_cells);
        self.minors.get_or_insert_default().note(Minors {
            count: 1.0,
            collecting_ns,
            process_ns: process_ns as f64,
            traced_cells: traced_cells as f64,
            grown_cells: now.kept_cells as f64 - before.kept_cells as f64,
            handed_bytes: now.fresh_bytes as f64,
            grown_bytes: now.kept_bytes() as f64 - before.kept_bytes as f64,
        });
    }

    /// CPU time of a full collection now, in ns. `None` while no collection's cost is known.
    pub(super) fn full_ns(&self, measure: &Measure) -> Option<f64> {
        let (cells, ns_per_cell) = (measure.kept_cells as f64, self.least_ns_per_cell?);
        Some(Price::estimate_ns(self.full, cells, ns_per_cell))
    }

    /// The trade of memory for CPU time; `None` with a fixed overhead, until there has been a minor collection
    /// whose cost is known, and while the system does not say what the process costs.
    pub(super) fn trade(&self, options: &PaceOptions) -> Option<Trade<'_>> {
        if !options.weighs_cpu_time() {
            return None;
        }
        Some(Trade {
            exchange_rate: options.exchange_rate(),
            process_bytes: self.at_latest?.costs.process_bytes as f64,
            minors: self.minors.as_ref()?,
            ns_per_cell: self.least_ns_per_cell?,
            major: self.major.or(self.full),
            full: self.full,
        })
    }
}

/// What the rule says, now that all is known which it is computed from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trade<'a> {
    exchange_rate: f64,
    process_bytes: f64,
    minors: &'a Minors,
    ns_per_cell: f64,
    /// Before the first major collection, what full ones have taken.
    major: Option<Price>,
    full: Option<Price>,
}

impl Trade<'_> {
    /// The rent, in bytes times ns, that a major collection is worth if it finds
    /// `unsettled_cells` cells.
    pub(super) fn major_worth(&self, unsettled_cells: f64) -> f64 {
        self.worth(self.major_ns(unsettled_cells))
    }

    /// The rent, in bytes times ns, that it is worth to make a major collection full, which then
    /// finds `settled_cells` more.
    pub(super) fn full_worth(&self, unsettled_cells: f64, settled_cells: f64) -> f64 {
        let cells = unsettled_cells + settled_cells;
        let full_ns = Price::estimate_ns(self.full, cells, self.ns_per_cell);
        let further_ns = full_ns - self.major_ns(unsettled_cells);
        self.worth(further_ns.max(full_ns * AVOIDABLE_SHARE_MIN))
    }

    fn major_ns(&self, unsettled_cells: f64) -> f64 {
        Price::estimate_ns(self.major, unsettled_cells, self.ns_per_cell)
    }

    fn worth(&self, price_ns: f64) -> f64 {
        self.price_worth(price_ns) / 2.0
    }

    /// The rent, in bytes times ns, that memory which does not grow is to pay until it is worth this price.
    pub(super) fn price_worth(&self, price_ns: f64) -> f64 {
        self.exchange_rate * price_ns * self.process_bytes
    }

    /// The nursery that is worth its memory; 0 where collections have come in no time.
    pub(super) fn nursery_bytes(&self) -> usize {
        let sums = self.minors;
        if sums.process_ns <= 0.0 {
            return 0;
        }
        let share = sums.avoidable_ns(self.ns_per_cell) / sums.process_ns;
        let mean_bytes = sums.handed_bytes / sums.count;
        let worth_bytes = self.exchange_rate * share * self.process_bytes / sums.garbage_share();
        (worth_bytes * mean_bytes).sqrt() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refund_leaves_what_so_many_bytes_have_paid_since_the_latest_collection() {
        let mut paid = Paid::default();
        paid.charge(100, 1000);
        paid.settle(100, 100);
        paid.charge(100, 10);
        paid.charge(300, 20);
        paid.refund(300);
        assert_eq!(paid.byte_ns, 7000.0);
        paid.refund(50);
        assert_eq!(paid.byte_ns, 1500.0);
        paid.charge(100, 10);
        assert_eq!(paid.byte_ns, 2500.0);
        paid.refund(0);
        assert_eq!(paid.byte_ns, 0.0);
    }
}
