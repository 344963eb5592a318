//! What a collection was: for `GC.latest_gc_info` and the profiler.

use ashlar_heap::{Scope, WeakCounts};

use crate::collector::Collector;

/// Why a collection happened: `enum ashlar_reason`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reason {
    #[default]
    None,
    NewObject,
    Malloc,
    Method,
    Stress,
}

impl Reason {
    /// Whether the collection may come between a write barrier and the store. Ruby
    /// allocates payloads there (`st_update` enlarges its table after its callback has
    /// called the barrier), but makes no object and asks for no collection.
    pub(super) fn may_come_before_a_store(self) -> bool {
        !matches!(self, Self::NewObject | Self::Method)
    }
}

/// Why a collection was not minor: `enum ashlar_full_reason`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FullReason {
    #[default]
    None,
    Forced,
    Outgrown,
    Memory,
}

impl FullReason {
    fn of(scope: Scope, asked: Option<Scope>, reason: Reason) -> Self {
        match (scope, asked, reason) {
            (Scope::Minor, ..) => Self::None,
            (Scope::Full, Some(Scope::Full), Reason::NewObject | Reason::Malloc) => Self::Memory,
            (Scope::Full, Some(Scope::Full), _) => Self::Forced,
            (Scope::Major | Scope::Full, ..) => Self::Outgrown,
        }
    }
}

/// One collection: `struct ashlar_collection`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Collection {
    reason: Reason,
    full_reason: FullReason,
    sweep_now: bool,
    have_finalizers: bool,
    weak_references: usize,
    retained_weak_references: usize,
}

/// Why the collection in progress has begun, and which scope was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Begun {
    pub(super) reason: Reason,
    pub(super) asked: Option<Scope>,
}

/// What is remembered of the latest collections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Latest {
    pub(super) begun: Begun,
    collection: Collection,
    /// Jobs queued before it freed anything.
    jobs_before: usize,
}

/// The latest collection, and what comes: `struct ashlar_latest`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    collection: Collection,
    next_full_reason: FullReason,
    sweeping: bool,
    marking: bool,
}

impl Collector {
    /// A collection begins.
    pub(super) fn note_begun(&self, reason: Reason, asked: Option<Scope>) {
        self.latest.set(Latest {
            begun: Begun { reason, asked },
            ..self.latest.get()
        });
    }

    /// Marking is over. `jobs_before` are the jobs ever queued before this collection
    /// freed anything.
    pub(super) fn note_marked(&self, scope: Scope, sweep_now: bool, jobs_before: usize) {
        let begun = self.latest.get().begun;
        let WeakCounts { noted, retained } = self.heap.vm().weak.get();
        let collection = Collection {
            reason: begun.reason,
            full_reason: FullReason::of(scope, begun.asked, begun.reason),
            sweep_now,
            have_finalizers: false,
            weak_references: noted,
            retained_weak_references: retained,
        };
        self.latest.set(Latest {
            begun,
            collection,
            jobs_before,
        });
    }

    /// The latest collection whose marking is over, as it is now.
    pub(super) fn latest_collection(&self) -> Collection {
        let latest = self.latest.get();
        Collection {
            have_finalizers: self.jobs_so_far() > latest.jobs_before,
            ..latest.collection
        }
    }

    /// Jobs ever queued.
    pub(super) fn jobs_so_far(&self) -> usize {
        self.heap.vm().finalizers.borrow().jobs_so_far()
    }

    pub(super) fn answer(&self) -> Answer {
        let next_full_reason = if self.heap.stress().move_everything {
            FullReason::Forced
        } else if self.heap.next_scope() != Scope::Minor {
            FullReason::Outgrown
        } else {
            FullReason::None
        };
        Answer {
            collection: self.latest_collection(),
            next_full_reason,
            sweeping: self.heap.is_sweeping(),
            marking: self.heap.is_marking(),
        }
    }
}
