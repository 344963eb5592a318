//! How many objects the latest compaction moved.

use std::cell::Cell as StdCell;

use ashlar_heap::WidthIndex;

use crate::layout::T_MASK;

/// The number of Ruby's types.
const TYPES: usize = T_MASK + 1;

/// What the latest compaction did, by type number: `struct ashlar_compaction`.
#[repr(C)]
#[derive(Clone, Default)]
pub(crate) struct MoveCounts {
    considered: [StdCell<u64>; TYPES],
    moved: [StdCell<u64>; TYPES],
    moved_up: [StdCell<u64>; TYPES],
    moved_down: [StdCell<u64>; TYPES],
}

impl MoveCounts {
    pub(crate) fn reset(&self) {
        let groups = [
            &self.considered,
            &self.moved,
            &self.moved_up,
            &self.moved_down,
        ];
        groups.into_iter().flatten().for_each(|count| count.set(0));
    }

    /// Counts an object of this type that the compaction looks at.
    pub(crate) fn note_considered(&self, kind: usize) {
        add_one(&self.considered[kind]);
    }

    /// Counts an object of this type that has moved between cells of these widths.
    pub(crate) fn note_moved(&self, kind: usize, width: WidthIndex, new_width: WidthIndex) {
        add_one(&self.moved[kind]);
        if new_width > width {
            add_one(&self.moved_up[kind]);
        } else if new_width < width {
            add_one(&self.moved_down[kind]);
        }
    }
}

fn add_one(count: &StdCell<u64>) {
    count.set(count.get() + 1);
}
