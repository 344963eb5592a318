//! A heap on which recorded programs run.

mod trace;

use ashlar_heap::{Costs, Measure, Pace, PaceOptions, Scope};

use crate::outcome::Outcome;
use trace::{Bytes, Life, Step};
pub(crate) use trace::{Trace, STEP_BYTES};

/// How many times a young cell is marked before it is old.
const MARKINGS_TO_OLD: u8 = 3;

/// All that are kept here.
pub(crate) fn traces() -> [Trace; 8] {
    [
        ("redmine", include_str!("traces/redmine.txt")),
        ("rails", include_str!("traces/rails.txt")),
        ("boot", include_str!("traces/boot.txt")),
        (
            "request-and-cache",
            include_str!("traces/request-and-cache.txt"),
        ),
        ("document", include_str!("traces/document.txt")),
        ("job-worker", include_str!("traces/job-worker.txt")),
        (
            "interpreted-pages",
            include_str!("traces/interpreted-pages.txt"),
        ),
        ("splay", include_str!("traces/splay.txt")),
    ]
    .map(|(name, text)| Trace::parse(name, text))
}

/// Who decides: the pacing under test, or fixed sizes.
pub(crate) enum Policy {
    Paced(Box<Pace>),
    Fixed(Sizes),
}

/// Every `larger_per_full`th collection that is not minor is full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) nursery_bytes: f64,
    pub(crate) growth_bytes: f64,
    pub(crate) larger_per_full: usize,
}

impl Policy {
    pub(crate) fn paced(options: PaceOptions) -> Self {
        Self::Paced(Box::new(Pace::new(options)))
    }

    fn nursery_bytes(&self) -> f64 {
        match self {
            Self::Paced(pace) => pace.nursery_bytes() as f64,
            Self::Fixed(sizes) => sizes.nursery_bytes,
        }
    }

    fn lets_settle(&self) -> bool {
        match self {
            Self::Paced(pace) => pace.lets_settle(),
            Self::Fixed(_) => true,
        }
    }

    fn survivors_last(&self) -> bool {
        match self {
            Self::Paced(pace) => pace.survivors_last(),
            Self::Fixed(_) => false,
        }
    }
}

/// What the latest collection left, dead old cells among it.
#[derive(Default)]
struct Kept {
    young: Vec<Life>,
    old: Vec<Life>,
    settled: Vec<Life>,
}

impl Kept {
    fn bytes(&self) -> [Bytes; 3] {
        [&self.young, &self.old, &self.settled].map(|lives| Bytes::of(lives))
    }

    /// Frees what has died by the end of this step and a collection of this scope looks at.
    fn free(&mut self, scope: Scope, step: usize) {
        let lives = |life: &Life| life.dies_in_step.is_none_or(|died| died > step);
        self.young.retain(lives);
        if scope != Scope::Minor {
            self.old.retain(lives);
        }
        if scope == Scope::Full {
            self.settled.retain(lives);
        }
    }

    /// A major or full collection has marked all that is old. What one has found before settles, if it may.
    fn settle(&mut self, lets_settle: bool) {
        if lets_settle {
            let found = self.old.iter().filter(|life| life.is_found);
            self.settled.extend(found);
            self.old.retain(|life| !life.is_found);
        }
        for life in &mut self.old {
            life.is_found = true;
        }
    }

    fn grow_old(&mut self, survivors_last: bool) {
        for life in &mut self.young {
            life.markings += 1;
        }
        let is_old = |life: &Life| survivors_last || life.markings >= MARKINGS_TO_OLD;
        self.old
            .extend(self.young.iter().filter(|life| is_old(life)));
        self.young.retain(|life| !is_old(life));
    }
}

/// A recorded program on this heap.
pub(crate) struct Simulation<'a> {
    trace: &'a Trace,
    policy: Policy,
    kept: Kept,
    fresh: Vec<Life>,
    fresh_bytes: f64,
    /// Bytes by which nurseries have been larger than they were to be: a collection comes at the end of a step.
    ahead_bytes: f64,
    /// Old bytes that the latest collection that was not minor left.
    left_old_bytes: f64,
    outcome: Outcome,
    /// The bytes that pacing wanted of each nursery.
    pub(crate) nurseries: Vec<f64>,
}

impl<'a> Simulation<'a> {
    pub(crate) fn new(trace: &'a Trace, policy: Policy) -> Self {
        Self {
            trace,
            policy,
            kept: Kept::default(),
            fresh: Vec::new(),
            fresh_bytes: 0.0,
            ahead_bytes: trace.first_ahead_bytes,
            left_old_bytes: 0.0,
            outcome: Outcome::default(),
            nurseries: Vec::new(),
        }
    }

    /// Runs all of the program.
    pub(crate) fn run(&mut self) -> Outcome {
        for (number, step) in self.trace.steps.iter().enumerate() {
            self.fresh_bytes += STEP_BYTES;
            self.fresh.extend_from_slice(&step.born);
            self.spend(step.program_ns, false);
            let beyond_bytes = self.fresh_bytes + self.ahead_bytes - self.policy.nursery_bytes();
            if beyond_bytes >= 0.0 {
                self.ahead_bytes = beyond_bytes.min(STEP_BYTES);
                self.collect(number, step);
            }
        }
        self.outcome
    }

    /// The pages of a nursery stay resident when it has been collected.
    fn spend(&mut self, ns: f64, is_collecting: bool) {
        let kept_bytes: f64 = self.kept.bytes().iter().map(Bytes::all).sum();
        let nursery_bytes = self.fresh_bytes.max(self.policy.nursery_bytes());
        let process_bytes = kept_bytes + nursery_bytes + self.trace.other_bytes;
        self.outcome.spend(ns, is_collecting, process_bytes);
    }

    /// Collects at the end of this step.
    fn collect(&mut self, number: usize, step: &Step) {
        let scope = self.scope_of_next(step);
        self.nurseries.push(self.policy.nursery_bytes());
        self.outcome.count(scope);
        self.kept.young.append(&mut self.fresh);
        self.kept.free(scope, number);
        self.spend(self.marking_ns(scope), true);
        self.fresh_bytes = 0.0;
        if scope != Scope::Minor {
            self.kept.settle(self.policy.lets_settle());
        }
        let survivors_last = scope == Scope::Minor && self.policy.survivors_last();
        self.kept.grow_old(survivors_last);
        if scope != Scope::Minor {
            let [_, old, settled] = self.kept.bytes();
            self.left_old_bytes = old.all() + settled.all();
        }
    }

    /// What it takes to mark all that lives.
    fn marking_ns(&self, scope: Scope) -> f64 {
        let costs = &self.trace.costs;
        let [young, old, settled] = self.kept.bytes();
        let without_young_ns = match scope {
            Scope::Minor => costs.minor_ns,
            Scope::Major => costs.major_ns + old.cells * costs.old_cell_ns,
            Scope::Full => costs.full_ns + (old.cells + settled.cells) * costs.old_cell_ns,
        };
        without_young_ns + young.cells * costs.young_cell_ns
    }

    /// Asks the policy, which knows what was known before this collection.
    fn scope_of_next(&mut self, step: &Step) -> Scope {
        let measure = self.measure(step);
        match &mut self.policy {
            Policy::Paced(pace) => pace.start(measure, None),
            Policy::Fixed(sizes) => {
                let old_bytes = measure.old_bytes() as f64;
                let is_larger = old_bytes - self.left_old_bytes >= sizes.growth_bytes;
                let is_full = (self.outcome.larger + 1) % sizes.larger_per_full == 0;
                match (is_larger, is_full) {
                    (false, _) => Scope::Minor,
                    (true, false) => Scope::Major,
                    (true, true) => Scope::Full,
                }
            }
        }
    }

    fn measure(&self, step: &Step) -> Measure {
        let [young, old, settled] = self.kept.bytes();
        let kept = [young, old, settled];
        let used_bytes = kept.iter().map(Bytes::all).sum::<f64>() + self.fresh_bytes;
        Measure {
            used_bytes: used_bytes as usize,
            fresh_bytes: self.fresh_bytes as usize,
            cell_bytes: kept.iter().map(|bytes| bytes.cell_bytes).sum::<f64>() as usize,
            kept_cells: kept.iter().map(|bytes| bytes.cells).sum::<f64>() as usize,
            old_cells: (old.cells + settled.cells) as usize,
            settled_cells: settled.cells as usize,
            lasting_bytes: step.lasting_bytes,
            costs: Some(Costs {
                collecting_ns: self.outcome.collecting_ns as u64,
                process_ns: self.outcome.cpu_ns() as u64,
                process_bytes: (used_bytes + self.trace.other_bytes) as usize,
            }),
            ..Measure::default()
        }
    }
}
