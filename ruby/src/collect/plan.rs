//! What a collection that pacing asks for is to be: pure decisions.

use std::time::Duration;

use ashlar_heap::{Evacuation, Request, Scope, Stress, WorkBudget};

use super::record::Reason;
use crate::collector::Collector;
use crate::knobs::KNOBS;
use crate::pauses::PauseOptions;
use crate::ruby_calls::Value;

/// What the decision depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    /// `GC.config(rgengc_allow_full_mark:)`.
    full_marking_allowed: bool,
    /// What `GC.stress=` was given.
    stress_flag: Value,
    stress: Stress,
    /// What every collection that turns out to be a full one moves.
    auto_compaction: Option<Evacuation>,
    pauses: PauseOptions,
    /// Little is left below the memory limit.
    is_short_of_room: bool,
}

/// How a collection is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// With the program stopped to its end.
    AtOnce(Request),
    /// A slice of it now, or the first one.
    Slice { scope: Option<Scope>, slice: Slice },
}

/// What one slice may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slice {
    /// The work of so many cells.
    Cells(usize),
    /// So much time.
    Time(Duration),
}

impl Slice {
    /// The work budget of a slice that begins now.
    pub(super) fn work_budget(self) -> WorkBudget {
        match self {
            Self::Cells(cells) => WorkBudget::cells(cells),
            Self::Time(time) => WorkBudget::time(time),
        }
    }
}

impl Situation {
    /// As it is now.
    pub(super) fn of(collector: &Collector) -> Self {
        Self {
            full_marking_allowed: KNOBS.full_marking_allowed.is_on(),
            stress_flag: KNOBS.stress_flag(),
            stress: collector.heap.stress(),
            auto_compaction: collector.auto_compaction(),
            pauses: collector.pauses.options(),
            is_short_of_room: collector.heap.pace().is_short_of_room(),
        }
    }

    /// The plan for a collection, or a slice of one, that pacing asks for.
    pub(super) fn plan(&self, reason: Reason) -> Plan {
        let scope = match (self.full_marking_allowed, reason) {
            (false, _) => Some(Scope::Minor),
            (true, Reason::Stress) => stress_scope(self.stress_flag),
            (true, _) => None,
        };
        match self.slice() {
            Some(slice) => Plan::Slice { scope, slice },
            None => Plan::AtOnce(Request {
                scope,
                // When payloads fill the heap, new cells alone would make the sweeper
                // run too late.
                sweep_now: reason == Reason::Malloc || self.is_short_of_room,
                compact: self.auto_compaction,
            }),
        }
    }

    /// What `GC.start` and the like get.
    pub(super) fn asked_for(&self, full: bool, sweep_now: bool) -> Request {
        let scope = match (full, self.full_marking_allowed) {
            (true, _) => Some(Scope::Full),
            // A minor one is upgraded when a major or full one is due anyway.
            (false, true) => None,
            (false, false) => Some(Scope::Minor),
        };
        Request {
            scope,
            sweep_now,
            compact: self.auto_compaction,
        }
    }

    /// What a slice may do; `None` when the collection is to be done at once.
    fn slice(&self) -> Option<Slice> {
        if self.auto_compaction.is_some() || self.stress.move_everything {
            // What moves has to be marked anew, at once.
            return None;
        }
        if self.stress.slice_cells > 0 {
            return Some(Slice::Cells(self.stress.slice_cells));
        }
        let at_once = self.stress.collect_every > 0 || self.is_short_of_room;
        let in_slices = self.pauses.incremental && !at_once;
        in_slices.then_some(Slice::Time(self.pauses.slice_time))
    }
}

/// `GC.stress=` takes a number, whose lowest bit asks for minor collections.
fn stress_scope(flag: Value) -> Option<Scope> {
    let is_number = flag & 1 == 1;
    let no_full = is_number && (flag >> 1) & 1 == 1;
    match flag {
        0 => None,
        _ if no_full => Some(Scope::Minor),
        _ => Some(Scope::Full),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Situation = Situation {
        full_marking_allowed: true,
        stress_flag: 0,
        stress: Stress {
            collect_every: 0,
            slice_cells: 0,
            verify: false,
            poison: false,
            no_minor: false,
            move_everything: false,
            mark_stack_cells_max: 0,
            look_ahead: false,
        },
        auto_compaction: None,
        pauses: PauseOptions {
            incremental: true,
            slice_time: Duration::from_millis(1),
        },
        is_short_of_room: false,
    };

    fn request(situation: Situation, reason: Reason) -> Request {
        match situation.plan(reason) {
            Plan::AtOnce(request) => request,
            plan => panic!("{plan:?}"),
        }
    }

    #[test]
    fn a_collection_is_done_in_slices_unless_that_is_turned_off() {
        let slice = Slice::Time(Duration::from_millis(1));
        let plan = USUAL.plan(Reason::NewObject);
        assert_eq!(plan, Plan::Slice { scope: None, slice });
        let mut off = USUAL;
        off.pauses.incremental = false;
        assert!(!request(off, Reason::NewObject).sweep_now);
        assert!(request(off, Reason::Malloc).sweep_now);
    }

    #[test]
    fn near_the_memory_limit_it_is_done_and_swept_at_once() {
        let near = Situation {
            is_short_of_room: true,
            ..USUAL
        };
        assert!(request(near, Reason::NewObject).sweep_now);
    }

    #[test]
    fn what_moves_is_marked_at_once_even_when_slices_are_asked_for() {
        let mut moving = USUAL;
        moving.stress.slice_cells = 100;
        let slice = Slice::Cells(100);
        let plan = moving.plan(Reason::NewObject);
        assert_eq!(plan, Plan::Slice { scope: None, slice });
        moving.auto_compaction = Some(Evacuation::Sparse);
        assert_eq!(
            request(moving, Reason::NewObject).compact,
            moving.auto_compaction
        );
    }

    #[test]
    fn the_flag_of_gc_stress_chooses_the_scope_unless_full_ones_are_forbidden() {
        let scope = |flag, allowed| {
            let mut stressed = USUAL;
            stressed.stress.collect_every = 1;
            stressed.stress_flag = flag;
            stressed.full_marking_allowed = allowed;
            request(stressed, Reason::Stress).scope
        };
        // `true`, and the numbers 1 and 4.
        assert_eq!(scope(0x14, true), Some(Scope::Full));
        assert_eq!(scope(1 << 1 | 1, true), Some(Scope::Minor));
        assert_eq!(scope(4 << 1 | 1, true), Some(Scope::Full));
        assert_eq!(scope(0x14, false), Some(Scope::Minor));
        assert_eq!(scope(0, true), None);
    }

    #[test]
    fn a_minor_collection_that_is_asked_for_may_become_a_full_one_where_that_is_allowed() {
        let forbidden = Situation {
            full_marking_allowed: false,
            ..USUAL
        };
        assert_eq!(USUAL.asked_for(false, true).scope, None);
        assert_eq!(forbidden.asked_for(false, true).scope, Some(Scope::Minor));
        assert_eq!(forbidden.asked_for(true, true).scope, Some(Scope::Full));
    }
}
