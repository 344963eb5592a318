//! The stress switches at work: they make memory bugs show early.

use super::{Heap, Request};
use crate::compact::Evacuation;
use crate::pace::Scope;
use crate::stress::Stress;
use crate::sweep::free_cells::poison_block;
use crate::vm::Vm;

impl<V: Vm> Heap<'_, V> {
    /// The stress switches that are on.
    pub fn stress(&self) -> Stress {
        self.stress.get()
    }

    /// Turns stress switches on or off. Caches are retired, so that the next
    /// allocation notices.
    pub fn set_stress(&self, stress: Stress) {
        self.stress.set(stress);
        self.marker().limit(match stress.mark_stack_cells_max {
            0 => usize::MAX,
            cells => cells,
        });
        self.stress_countdown.set(stress.collect_every);
        self.retire_caches();
        if stress.poison {
            for (block, width) in self.space().cell_blocks() {
                poison_block(self.space(), block, width);
            }
        }
    }

    pub(super) fn stress_is_due(&self) -> bool {
        let stress = self.stress.get();
        if stress.collect_every == 0 || stress.slice_cells != 0 {
            return stress.slice_cells != 0;
        }
        let left = self.stress_countdown.get().saturating_sub(1);
        self.stress_countdown.set(match left {
            0 => stress.collect_every,
            _ => left,
        });
        left == 0
    }

    /// The request, changed to move everything if that switch is on.
    pub(super) fn stressed(&self, request: Request) -> Request {
        if !self.stress.get().move_everything {
            return request;
        }
        Request {
            scope: Some(Scope::Full),
            compact: Some(Evacuation::Everything),
            ..request
        }
    }
}
