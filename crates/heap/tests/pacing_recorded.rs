//! Pacing on recorded programs: two Rails applications, a boot, requests beside a cache, a document, jobs, pages, a splay tree.
//! What they are handed, how long it lives and what collecting costs are as measured, whatever pacing did then
//! (scripts/test/record_trace.py).

mod outcome;
mod recorded;

use ashlar_heap::PaceOptions;
use outcome::Outcome;
use recorded::{traces, Policy, Simulation, Sizes, Trace, STEP_BYTES};

const EXCHANGE_RATE: f64 = 2.5;
const DAYS: u64 = 8;

/// What ships, or a fixed overhead in percent.
fn paced(space_overhead_percent: Option<usize>) -> Policy {
    let exchange_rate_thousandths = (EXCHANGE_RATE * 1e3) as usize;
    Policy::paced(PaceOptions {
        space_overhead_percent,
        exchange_rate_thousandths,
        ..PaceOptions::default()
    })
}

fn on_days(trace: &Trace, policy: impl Fn() -> Policy) -> Vec<Outcome> {
    (0..DAYS)
        .map(|day| Simulation::new(&trace.on_day(day), policy()).run())
        .collect()
}

/// The percent of memory by which some outcomes are worse than others of the same days.
fn worse_than(outcomes: &[Outcome], others: &[Outcome]) -> f64 {
    let pairs = outcomes.iter().zip(others);
    mean(pairs.map(|(outcome, other)| outcome.worse_than(other, EXCHANGE_RATE)))
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    values.iter().sum::<f64>() / values.len() as f64
}

/// By how much the pacing is worse than the sizes that are best for this program over all days.
fn worse_than_best_sizes(trace: &Trace) -> f64 {
    let paced = on_days(trace, || paced(None));
    let mut worst = f64::NEG_INFINITY;
    for nursery_steps in [1, 2, 4, 8, 16, 32] {
        for growth_mib in [0.25, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0] {
            for larger_per_full in [1, 4, 16] {
                let sizes = Sizes {
                    nursery_bytes: f64::from(nursery_steps) * STEP_BYTES,
                    growth_bytes: growth_mib * STEP_BYTES,
                    larger_per_full,
                };
                let fixed = on_days(trace, || Policy::Fixed(sizes));
                worst = worst.max(worse_than(&paced, &fixed));
            }
        }
    }
    worst
}

#[test]
fn what_is_simulated_is_about_what_the_programs_did() {
    for trace in traces() {
        let outcomes = on_days(&trace, || paced(None));
        let collections = mean(outcomes.iter().map(|outcome| outcome.collections as f64));
        let collecting_ns = mean(outcomes.iter().map(|outcome| outcome.collecting_ns));
        for ratio in [
            collections / trace.shipped.collections,
            collecting_ns / trace.shipped.marking_ns,
        ] {
            assert!((0.4..3.2).contains(&ratio), "{}: {ratio}", trace.name);
        }
    }
}

#[test]
fn recorded_programs_do_about_as_well_as_with_the_sizes_that_are_best_for_each() {
    for trace in traces() {
        let worse_at_most = match trace.name {
            // It drops three parsed documents, and it matters whether a full collection comes before or after.
            "document" => 16.0,
            // It is over after 0.6 s, in which nurseries have just grown.
            "splay" => 16.0,
            _ => 3.0,
        };
        let worse = worse_than_best_sizes(&trace);
        assert!(worse < worse_at_most, "{}: {worse}", trace.name);
    }
}

#[test]
fn no_overhead_is_as_good_for_all_recorded_programs() {
    let traces = traces();
    for percent in [10, 15, 20, 25, 40, 80] {
        let worse = mean(traces.iter().map(|trace| {
            let fixed = on_days(trace, || paced(Some(percent)));
            worse_than(&on_days(trace, || paced(None)), &fixed)
        }));
        assert!(worse < -3.0, "{percent}: {worse}");
    }
}

#[test]
fn nurseries_of_recorded_programs_do_not_swing() {
    for trace in traces() {
        let mut simulation = Simulation::new(&trace, paced(None));
        simulation.run();
        let half = simulation.nurseries.len() / 2;
        let mut later = simulation.nurseries.split_off(half);
        later.sort_by(f64::total_cmp);
        let [low, middle, high] = [1, 5, 9].map(|tenth| later[later.len() * tenth / 10]);
        assert!(
            high <= 2.0 * middle && middle <= 2.0 * low,
            "{}: {low}, {middle}, {high}",
            trace.name
        );
    }
}
