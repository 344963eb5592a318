//! What the tests of pacing begin with. They stand beside what they test.

use super::{Costs, Measure, Pace, PaceOptions, Scope};

pub(super) const MIB: usize = 1 << 20;

pub(super) const OPTIONS: PaceOptions = PaceOptions {
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

pub(super) fn measure(kept: usize, fresh: usize) -> Measure {
    Measure {
        used_bytes: kept + fresh,
        fresh_bytes: fresh,
        cell_bytes: kept,
        kept_cells: 100,
        old_cells: 100,
        ..Measure::default()
    }
}

pub(super) fn pace_after_full(options: PaceOptions, live: usize) -> Pace {
    let mut pace = Pace::new(options);
    pace.start(measure(0, live), Some(Scope::Full));
    pace.start(measure(live, MIB), None);
    pace
}

/// [`measure`] of a process of 200 MiB that has taken this CPU time, one 100th of it in collections.
pub(super) fn measure_at(process_ms: u64, kept: usize, fresh: usize) -> Measure {
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
pub(super) fn pace_by_cost() -> Pace {
    let mut pace = Pace::new(PaceOptions {
        space_overhead_percent: None,
        ..OPTIONS
    });
    pace.start(measure_at(100, 0, 50 * MIB), None);
    pace.start(measure_at(200, 50 * MIB, 50 * MIB), None);
    pace.start(measure_at(1000, 100 * MIB, MIB), Some(Scope::Full));
    pace.start(measure_at(2000, 100 * MIB, MIB), Some(Scope::Minor));
    pace
}

pub(super) const LIMITED: PaceOptions = PaceOptions {
    memory_limit_bytes: Some(150 * MIB),
    ..OPTIONS
};
