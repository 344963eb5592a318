//! How a collection that pacing asks for is done: pure decisions.

use std::time::Duration;

use crate::compact::Evacuation;
use crate::heap::{Heap, Request};
use crate::pace::Scope;
use crate::stress::Stress;
use crate::vm::Vm;

/// What wants memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// New cells, which sweep before they are handed out.
    #[default]
    Cells,
    /// Payloads: where they fill the heap, new cells alone would sweep too late.
    Payloads,
}

/// What a VM wants of a collection that pacing asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// What wants memory.
    pub cause: Cause,
    /// The scope that the VM asks for; `None` when pacing decides.
    pub scope: Option<Scope>,
    /// Which cells are moved if the collection turns out to be a full one.
    pub compact: Option<Evacuation>,
}

/// What the decision depends on beside [`Wanted`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    stress: Stress,
    /// The time that a slice may take; `None` when collections are done at once.
    slice_time: Option<Duration>,
    /// Little is left below the memory limit.
    is_short_of_room: bool,
}

/// How a collection is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// With the program stopped to its end.
    AtOnce(Request),
    /// In slices, the first or the next one now: it may do the work of this many cells.
    SliceOfCells(usize),
    /// The same: it may take this much time.
    SliceOfTime(Duration),
}

impl Situation {
    /// The situation of `heap` now.
    pub(super) fn of<V: Vm>(heap: &Heap<'_, V>) -> Self {
        Self {
            stress: heap.stress(),
            slice_time: heap.pauses().slice_time(),
            is_short_of_room: heap.pace().is_short_of_room(),
        }
    }

    pub(super) fn plan(&self, wanted: Wanted) -> Plan {
        let at_once = Plan::AtOnce(Request {
            scope: wanted.scope,
            sweep_now: wanted.cause == Cause::Payloads || self.is_short_of_room,
            compact: wanted.compact,
            settle_all: false,
        });
        match self.slice_time {
            // Before cells move, everything has to be marked again, in one stop.
            _ if wanted.compact.is_some() || self.stress.move_everything => at_once,
            _ if self.stress.slice_cells > 0 => Plan::SliceOfCells(self.stress.slice_cells),
            Some(time) if self.stress.collect_every == 0 && !self.is_short_of_room => {
                Plan::SliceOfTime(time)
            }
            _ => at_once,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE_TIME: Duration = Duration::from_millis(1);
    const PAYLOADS: Wanted = Wanted {
        cause: Cause::Payloads,
        scope: None,
        compact: None,
    };

    fn usual() -> Situation {
        Situation {
            stress: Stress::default(),
            slice_time: Some(SLICE_TIME),
            is_short_of_room: false,
        }
    }

    fn request(situation: Situation, wanted: Wanted) -> Request {
        match situation.plan(wanted) {
            Plan::AtOnce(request) => request,
            plan => panic!("{plan:?}"),
        }
    }

    #[test]
    fn a_collection_is_done_in_slices_unless_that_is_turned_off() {
        let slice = Plan::SliceOfTime(SLICE_TIME);
        assert_eq!(usual().plan(Wanted::default()), slice);
        let off = Situation {
            slice_time: None,
            ..usual()
        };
        assert!(!request(off, Wanted::default()).sweep_now);
        assert!(request(off, PAYLOADS).sweep_now);
    }

    #[test]
    fn near_the_memory_limit_it_is_done_and_swept_at_once() {
        let near = Situation {
            is_short_of_room: true,
            ..usual()
        };
        assert!(request(near, Wanted::default()).sweep_now);
    }

    #[test]
    fn what_moves_is_marked_at_once_even_when_slices_are_asked_for() {
        let mut moving = usual();
        moving.stress.slice_cells = 100;
        let slice = Plan::SliceOfCells(100);
        assert_eq!(moving.plan(PAYLOADS), slice);
        let compact = Some(Evacuation::Sparse);
        let wanted = Wanted {
            compact,
            ..PAYLOADS
        };
        assert_eq!(request(moving, wanted).compact, compact);
        moving.stress.move_everything = true;
        request(moving, PAYLOADS);
    }

    #[test]
    fn a_collection_at_every_allocation_is_a_whole_one() {
        let mut stressed = usual();
        stressed.stress.collect_every = 1;
        request(stressed, Wanted::default());
    }
}
