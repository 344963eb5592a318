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
#[derive(Clone, Copy, Debug)]
pub(super) struct Rent {
    /// When the latest collection started: the costs until then, and what the heap kept.
    at_latest: Option<Point>,
    minors: Minors,
    /// The least time per cell that a collection has taken. It had the most cells for
    /// its roots, so this is about what a further cell takes.
    least_ns_per_cell: f64,
    major: Price,
    full: Price,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    costs: Costs,
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
#[derive(Clone, Copy, Debug, Default)]
struct Price {
    /// The mean of the latest ones, which count most; 0 when there has been none.
    mean_ns: f64,
    /// The mean number of cells that they found, weighted alike.
    mean_cells: f64,
}

impl Price {
    fn note(&mut self, collecting_ns: f64, cells: usize) {
        if self.is_known() {
            self.mean_ns = (self.mean_ns + collecting_ns) / 2.0;
            self.mean_cells = (self.mean_cells + cells as f64) / 2.0;
        } else {
            (self.mean_ns, self.mean_cells) = (collecting_ns, cells as f64);
        }
    }

    fn is_known(&self) -> bool {
        self.mean_ns > 0.0
    }

    /// The CPU time of the next collection if it finds `cells` cells.
    fn estimate_ns(&self, cells: f64, ns_per_cell: f64) -> f64 {
        let estimate_ns = self.mean_ns + (cells - self.mean_cells) * ns_per_cell;
        estimate_ns.max(self.mean_ns * AVOIDABLE_SHARE_MIN)
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

impl Default for Rent {
    fn default() -> Self {
        Self {
            at_latest: None,
            minors: Minors::default(),
            least_ns_per_cell: f64::INFINITY,
            major: Price::default(),
            full: Price::default(),
        }
    }
}

impl Rent {
    /// This process has just been forked, and its CPU time begins at 0.
    pub(super) fn begin_in_child(&mut self) {
        if let Some(at_latest) = &mut self.at_latest {
            at_latest.costs.process_ns = 0;
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
            // Before the fork of this process. How much the parent was handed in which time is not known.
            Scope::Minor if before.costs.process_ns == 0 => {}
            Scope::Minor => self.note_minor(&before, measure, collecting_ns, process_ns),
            Scope::Major => {
                let cells = measure.unsettled_cells();
                self.note_cells(collecting_ns, cells);
                self.major.note(collecting_ns, cells);
            }
            Scope::Full => {
                self.note_cells(collecting_ns, measure.kept_cells);
                self.full.note(collecting_ns, measure.kept_cells);
            }
        }
        process_ns
    }

    fn note_cells(&mut self, collecting_ns: f64, cells: usize) {
        let ns_per_cell = collecting_ns / cells.max(1) as f64;
        self.least_ns_per_cell = self.least_ns_per_cell.min(ns_per_cell);
    }

    fn note_minor(&mut self, before: &Point, now: &Measure, collecting_ns: f64, process_ns: u64) {
        let traced_cells = now.kept_cells.saturating_sub(before.old_cells).max(1);
        self.note_cells(collecting_ns, traced_cells);
        self.minors.note(Minors {
            count: 1.0,
            collecting_ns,
            process_ns: process_ns as f64,
            traced_cells: traced_cells as f64,
            grown_cells: now.kept_cells as f64 - before.kept_cells as f64,
            handed_bytes: now.fresh_bytes as f64,
            grown_bytes: now.kept_bytes() as f64 - before.kept_bytes as f64,
        });
    }

    /// The rent, in bytes times ns, that a major collection is worth if it finds
    /// `unsettled_cells` cells.
    pub(super) fn major_worth(&self, exchange_rate: f64, unsettled_cells: f64) -> f64 {
        self.worth(exchange_rate, self.major_ns(unsettled_cells))
    }

    /// The rent, in bytes times ns, that it is worth to make a major collection full, which then
    /// finds `settled_cells` more.
    pub(super) fn full_worth(
        &self,
        exchange_rate: f64,
        unsettled_cells: f64,
        settled_cells: f64,
    ) -> f64 {
        let ns_per_cell = self.least_ns_per_cell;
        let full_ns = self
            .full
            .estimate_ns(unsettled_cells + settled_cells, ns_per_cell);
        let further_ns = full_ns - self.major_ns(unsettled_cells);
        self.worth(exchange_rate, further_ns.max(full_ns * AVOIDABLE_SHARE_MIN))
    }

    /// CPU time of a full collection now, in ns. `None` while no collection's cost is known.
    pub(super) fn full_ns(&self, measure: &Measure) -> Option<f64> {
        let ns_per_cell = self.least_ns_per_cell;
        let is_known = ns_per_cell.is_finite();
        is_known.then(|| {
            self.full
                .estimate_ns(measure.kept_cells as f64, ns_per_cell)
        })
    }

    fn major_ns(&self, unsettled_cells: f64) -> f64 {
        let price = match self.major.is_known() {
            true => &self.major,
            false => &self.full,
        };
        price.estimate_ns(unsettled_cells, self.least_ns_per_cell)
    }

    fn worth(&self, exchange_rate: f64, price_ns: f64) -> f64 {
        self.price_worth(exchange_rate, price_ns) / 2.0
    }

    /// The rent, in bytes times ns, that memory which does not grow is to pay until it is worth this price.
    pub(super) fn price_worth(&self, exchange_rate: f64, price_ns: f64) -> f64 {
        exchange_rate * price_ns * self.process_bytes()
    }

    /// The nursery that is worth its memory; `None` while nothing is known.
    pub(super) fn nursery_bytes(&self, exchange_rate: f64) -> Option<usize> {
        let sums = &self.minors;
        if sums.process_ns <= 0.0 {
            return None;
        }
        let share = sums.avoidable_ns(self.least_ns_per_cell) / sums.process_ns;
        let mean_bytes = sums.handed_bytes / sums.count;
        let worth_bytes = exchange_rate * share * self.process_bytes() / sums.garbage_share();
        Some((worth_bytes * mean_bytes).sqrt() as usize)
    }

    /// Whether there has been a minor collection whose cost is known, and the system still says
    /// what the process costs.
    pub(super) fn is_known(&self) -> bool {
        self.minors.count > 0.0 && self.at_latest.is_some()
    }

    fn process_bytes(&self) -> f64 {
        self.at_latest
            .map_or(0.0, |at| at.costs.process_bytes as f64)
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
