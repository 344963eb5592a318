//! What a collection was: for `GC.latest_gc_info` and the profiler.

use ashlar_heap::{Scope, WeakCounts};

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

/// Why a collection was not minor: `enum ashlar_major_by`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum MajorBy {
    #[default]
    None,
    Forced,
    Outgrown,
    Memory,
}

impl MajorBy {
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
    major_by: MajorBy,
    sweep_now: bool,
    have_finalizers: bool,
    weak_references: usize,
    retained_weak_references: usize,
}

/// What is remembered of the latest collection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Latest {
    /// Why it has begun, and which scope the program asked for.
    pub(super) reason: Reason,
    pub(super) asked: Option<Scope>,
    /// Its marking is not over.
    is_marking: bool,
    /// What it was, once its marking is over.
    collection: Collection,
    /// Finalizer jobs ever queued before this collection freed anything.
    jobs_before: usize,
}

impl Latest {
    /// A collection that begins.
    pub(super) fn begin(reason: Reason, asked: Option<Scope>) -> Self {
        Self {
            reason,
            asked,
            is_marking: true,
            ..Self::default()
        }
    }

    /// Notes that marking is over. `jobs_before` is the number of finalizer jobs ever
    /// queued before this collection freed anything.
    pub(super) fn marked(
        self,
        scope: Scope,
        sweep_now: bool,
        weak: WeakCounts,
        jobs_before: usize,
    ) -> Self {
        let collection = Collection {
            reason: self.reason,
            major_by: MajorBy::of(scope, self.asked, self.reason),
            sweep_now,
            have_finalizers: false,
            weak_references: weak.noted,
            retained_weak_references: weak.retained,
        };
        Self {
            is_marking: false,
            collection,
            jobs_before,
            ..self
        }
    }

    /// Returns the collection as it is now. `jobs` is the number of finalizer jobs ever queued, `scope_so_far` the
    /// scope while its marking is not over.
    pub(super) fn collection(
        self,
        jobs: usize,
        scope_so_far: impl FnOnce() -> Scope,
    ) -> Collection {
        if self.is_marking {
            return Collection {
                reason: self.reason,
                major_by: MajorBy::of(scope_so_far(), self.asked, self.reason),
                ..Collection::default()
            };
        }
        Collection {
            have_finalizers: jobs > self.jobs_before,
            ..self.collection
        }
    }
}
