//! How much memory the program and its garbage may take, and what follows from that.

use super::measure::{Measure, Scope};
use super::rent::Trade;
use super::Pace;

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
/// About the CPU time that the system takes to provide the pages of a block anew.
const BLOCK_PAGES_NS: f64 = 30_000.0;

impl Pace {
    /// The trade of memory for CPU time, as far as it decides.
    pub(super) fn trade(&self) -> Option<Trade<'_>> {
        self.rent.trade(&self.options)
    }

    /// The memory that garbage may take beside these live bytes.
    pub(super) fn garbage_bytes(&self, live_bytes: usize, cell_bytes: usize) -> usize {
        if self.trade().is_some() {
            return self.old.goal_bytes;
        }
        let worth_waiting_for = cell_bytes
            .saturating_mul(PAYLOADS_PER_CELL_BYTE)
            .saturating_add(PAYLOADS_MIN_BYTES);
        let base_bytes = live_bytes.min(worth_waiting_for);
        let percent = self.options.space_overhead_percent;
        (base_bytes / 100).saturating_mul(percent.unwrap_or(FALLBACK_OVERHEAD_PERCENT))
    }

    /// With a fixed overhead, settled garbage that a full collection is worth.
    pub(super) fn settled_garbage_bytes(&self) -> usize {
        let live_bytes = self.settled.left_bytes.max(self.options.heap_min_bytes);
        self.garbage_bytes(live_bytes, self.settled.left_cell_bytes) / SETTLED_GARBAGE_PER_GARBAGE
    }

    /// Fresh bytes at which the collection after the one that starts now is due.
    pub(super) fn next_nursery_bytes(&self, measure: &Measure, asked: Option<Scope>) -> usize {
        let kept_bytes = measure.kept_bytes();
        let worth_bytes = match self.trade() {
            Some(trade) => trade.nursery_bytes(),
            None => self.garbage_bytes(kept_bytes, measure.cell_bytes) / NURSERIES_PER_GARBAGE,
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

    /// Bytes that the program is to be handed while a collection marks, and
    /// about how many cells the collection has to mark. The bytes are little of
    /// the garbage that may exist, but enough for the program to get on.
    pub fn marking_plan(&self, scope: Scope, measure: Measure) -> (usize, usize) {
        let cells = match scope {
            Scope::Minor => measure.fresh_bytes / CELL_BYTES,
            Scope::Major => measure.unsettled_cells(),
            Scope::Full => measure.kept_cells,
        };
        let half_nursery_bytes = self.nursery_bytes / 2;
        let bytes = match scope {
            Scope::Minor => half_nursery_bytes,
            Scope::Major | Scope::Full => {
                let garbage = self.garbage_bytes(measure.kept_bytes(), measure.cell_bytes);
                (garbage / MARKINGS_PER_GARBAGE).max(half_nursery_bytes)
            }
        };
        (bytes, cells)
    }

    /// What part of the price of its pages an empty block of `bytes` has paid as rent between the starts of the
    /// latest two collections. `None` while no cost is known.
    pub(crate) fn pages_paid(&self, bytes: usize) -> Option<f64> {
        // The CPU time after which it has paid all of it.
        let worth_ns = self.trade()?.price_worth(BLOCK_PAGES_NS) / bytes as f64;
        (worth_ns > 0.0).then(|| self.interval_ns as f64 / worth_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::tests::{
        measure, measure_at, pace_after_full, pace_by_cost, LIMITED, MIB, OPTIONS,
    };
    use crate::pace::{Costs, PaceOptions};
    use Scope::Minor;

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
    fn options_that_change_choose_no_nursery_by_what_is_put_off() {
        let mut pace = pace_by_cost();
        let chosen_bytes = pace.nursery_bytes();
        pace.put_off(100 * MIB);
        pace.set_options(*pace.options());
        assert_eq!(pace.nursery_bytes(), chosen_bytes);
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
    fn the_nursery_grows_with_the_heap_between_its_bounds() {
        let nursery_bytes = |live| pace_after_full(OPTIONS, live).nursery_bytes();
        assert_eq!(nursery_bytes(MIB), OPTIONS.nursery_min_bytes);
        assert_eq!(nursery_bytes(40 * MIB) / MIB, 9);
        assert_eq!(nursery_bytes(4000 * MIB), OPTIONS.nursery_max_bytes);
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
}
