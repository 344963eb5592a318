//! `GC::Profiler`: a record of each collection while it is on.

use std::cell::{Cell as StdCell, RefCell};
use std::ffi::c_void;

use ashlar_heap::BLOCK_BYTES;

use crate::collect::{Collection, Phase};
use crate::collector::Collector;
use crate::lock::Gvl;

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

/// The records so far. What is swept late still counts for the latest one.
#[derive(Default)]
pub(crate) struct Profile {
    on: StdCell<bool>,
    /// Cells moved before the latest collection.
    moved_before: StdCell<u64>,
    records: RefCell<Vec<Record>>,
}

impl Profile {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.get()
    }

    /// A collection begins.
    pub(crate) fn begin(&self, collector: &Collector, now_ns: impl FnOnce() -> u64) {
        if self.is_on() {
            self.moved_before.set(collector.heap.stats().moved_cells);
            self.records.borrow_mut().push(Record {
                start_ns: now_ns(),
                ..Record::default()
            });
        }
    }

    /// The latest collection took more time.
    pub(crate) fn add(&self, phase: Phase, spent_ns: u64) {
        self.change_latest(|record| match phase {
            Phase::Mark => record.mark_ns += spent_ns,
            Phase::Sweep => record.sweep_ns += spent_ns,
        });
    }

    /// What there is to say about the latest collection, and about the heap
    /// that it leaves: once after marking and once more when all is swept.
    pub(crate) fn describe(&self, collector: &Collector, collection: Collection) {
        if !self.is_on() {
            return;
        }
        let usage = collector.heap.usage();
        let moved_cells = collector.heap.stats().moved_cells;
        let blocks = collector.heap.space().blocks.counts().in_use;
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

/// Uses the profile with the VM lock held.
///
/// # Safety
/// `objspace` comes from `ashlar_objspace_new`, and the calling thread holds the GVL.
unsafe fn locked<R>(objspace: *mut c_void, with: impl FnOnce(&Profile) -> R) -> R {
    // SAFETY: the caller's contract.
    unsafe { Gvl::of_caller(objspace) }.with_vm_lock(|collector| with(&collector.profile))
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_profiles(objspace: *mut c_void) -> bool {
    // SAFETY: Ruby calls with the GVL.
    unsafe { locked(objspace, Profile::is_on) }
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_set_profiling(objspace: *mut c_void, on: bool) {
    // SAFETY: Ruby calls with the GVL.
    unsafe { locked(objspace, |profile| profile.on.set(on)) };
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_clear_profile(objspace: *mut c_void) {
    // SAFETY: Ruby calls with the GVL.
    drop(unsafe { locked(objspace, |profile| profile.records.take()) });
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_profile_length(objspace: *mut c_void) -> usize {
    // SAFETY: Ruby calls with the GVL.
    unsafe { locked(objspace, |profile| profile.records.borrow().len()) }
}

/// One record; false when there are not that many.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_profile_record(
    objspace: *mut c_void,
    index: usize,
    record: *mut Record,
) -> bool {
    let copy = |profile: &Profile| profile.records.borrow().get(index).copied();
    // SAFETY: Ruby calls with the GVL.
    match unsafe { locked(objspace, copy) } {
        Some(found) => {
            // SAFETY: the shim passes a place for the record.
            unsafe { record.write(found) };
            true
        }
        None => false,
    }
}
