//! `GC::Profiler`: a record of each collection while it is on.

mod entries;

use std::cell::{Cell as StdCell, RefCell};

use ashlar_heap::{Heap, Vm, BLOCK_BYTES};

use crate::collect::{Collection, Phase};

/// One collection: `struct ashlar_profile_record`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Record {
    collection: Collection,
    start_ns: u64,
    mark_ns: u64,
    sweep_ns: u64,
    used_bytes: u64,
    total_bytes: u64,
    live_cells: u64,
    available_cells: u64,
    moved_cells: u64,
}

/// The records so far. Time for late sweeping counts for the latest record.
#[derive(Default)]
pub(crate) struct Profiler {
    on: StdCell<bool>,
    /// Cells moved before the latest collection.
    moved_before: StdCell<u64>,
    records: RefCell<Vec<Record>>,
}

impl Profiler {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.get()
    }

    /// Adds a record for a collection that begins. Without memory for another record,
    /// the collection shares the latest one.
    pub(crate) fn begin(&self, heap: &Heap<'_, impl Vm>, now_ns: impl FnOnce() -> u64) {
        if self.is_on() {
            self.moved_before.set(heap.stats().moved_cells);
            let mut records = self.records.borrow_mut();
            if records.try_reserve(1).is_ok() {
                records.push(Record {
                    start_ns: now_ns(),
                    ..Record::default()
                });
            }
        }
    }

    /// Adds time to the latest collection.
    pub(crate) fn add(&self, phase: Phase, spent_ns: u64) {
        self.change_latest(|record| match phase {
            Phase::Mark => record.mark_ns += spent_ns,
            Phase::Sweep => record.sweep_ns += spent_ns,
        });
    }

    /// Fills in what is known about the latest collection, and about the heap that it
    /// leaves: once after marking and once more when all is swept.
    pub(crate) fn describe(&self, heap: &Heap<'_, impl Vm>, collection: Collection) {
        if !self.is_on() {
            return;
        }
        let usage = heap.usage();
        let moved_cells = heap.stats().moved_cells;
        let blocks = heap.space().blocks().counts().in_use;
        self.change_latest(|record| {
            record.collection = collection;
            record.used_bytes = (usage.cell_bytes + usage.payload_bytes) as u64;
            record.total_bytes = (blocks * BLOCK_BYTES) as u64;
            record.live_cells = usage.live_cells as u64;
            record.moved_cells = moved_cells - self.moved_before.get();
            record.available_cells = (usage.live_cells + usage.free_cells) as u64;
        });
    }

    fn change_latest(&self, change: impl FnOnce(&mut Record)) {
        if self.is_on() {
            if let Some(record) = self.records.borrow_mut().last_mut() {
                change(record);
            }
        }
    }
}
