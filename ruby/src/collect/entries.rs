//! What Ruby calls about collections: `GC.start` and similar methods.

use std::mem::MaybeUninit;

use ashlar_heap::{Evacuation, Request, Scope};

use super::record::{Collection, MajorBy, Reason};
use crate::collector::Collector;
use crate::knobs::KNOBS;
use crate::lock::Gvl;
use crate::ruby_calls::Value;
use crate::statics::is_busy;

#[no_mangle]
extern "C" fn ashlar_start(gvl: Gvl, full: bool, sweep_now: bool, reason: Reason) {
    gvl.with_vm_lock(|collector| {
        let request = collector.asked_for(full, sweep_now);
        collector.driver(reason).collect(request);
    });
}

#[no_mangle]
extern "C" fn ashlar_during_gc() -> bool {
    is_busy()
}

#[no_mangle]
extern "C" fn ashlar_finish_collection(gvl: Gvl) {
    gvl.with_vm_lock(|collector| {
        collector.driver(Reason::Method).finish();
    });
}

/// `GC.disable` and `GC.enable`.
#[no_mangle]
extern "C" fn ashlar_disable(on: bool) {
    KNOBS.disable(on);
}

/// Ends marking before Ruby frees everything: objects that marking would still find
/// dead are freed with the rest.
#[no_mangle]
extern "C" fn ashlar_end_collections(gvl: Gvl) {
    gvl.with_vm_lock(|collector| {
        collector.stopped(|| {
            collector.heap.restart_marking();
            collector.finish_sweep();
        });
    });
    KNOBS.disable(true);
}

/// `Process.warmup`: all objects that live now are expected to live long.
#[no_mangle]
unsafe extern "C" fn ashlar_prepare_heap(gvl: Gvl) {
    // The VM lock is held all along: until it is given back, the other Ractors stay
    // where the collection has stopped them.
    gvl.with_vm_lock(prepare);
    // SAFETY: gives free memory of libc's allocator back.
    unsafe { libc::malloc_trim(0) };
}

fn prepare(collector: &Collector) {
    let heap = &collector.heap;
    collector.stop_ractors();
    let cells_at_hand = collector.cells_at_hand();
    collector.driver(Reason::Method).collect(Request {
        compact: Some(Evacuation::Sparse),
        settle_all: true,
        ..Request::EVERYTHING
    });
    let calls = collector.calls();
    // Another Ractor may have been stopped while it was making a string.
    // SAFETY: may be asked at any time.
    if !unsafe { (calls.multi_ractor)() } {
        // SAFETY: the object is live; Ruby only computes now what it would compute
        // later.
        heap.for_each_cell(|cell, _| unsafe { (calls.prepare_object)(cell.address()) });
    }
    heap.release_empty_blocks();
    // Ruby documents that the memory given back may be taken again.
    collector.keep_cells_at_hand(cells_at_hand);
    collector.set_payloads_due();
}

/// Before a fork. A child keeps its parent's garbage for as long as it lives. Returns whether there has been a
/// collection.
#[no_mangle]
extern "C" fn ashlar_collect_before_fork(gvl: Gvl) -> bool {
    gvl.with_vm_lock(|collector| {
        collector.heap.vm().has_had_ractors();
        collector.heap.leave_shared_pages();
    });
    if KNOBS.disabled.is_on() || !KNOBS.full_marking_allowed.is_on() {
        return false;
    }
    gvl.with_vm_lock(|collector| {
        // Whether it is due depends on what the other Ractors have allocated.
        collector.stop_ractors();
        let is_due = collector.heap.decide_before_fork();
        if is_due {
            // A child does not use the memory of what it has from its parent, so it has nothing to gain from
            // looking at that in its major collections.
            collector.driver(Reason::Method).collect(Request {
                settle_all: true,
                ..Request::EVERYTHING
            });
        }
        is_due
    })
}

#[no_mangle]
extern "C" fn ashlar_set_stress(gvl: Gvl, flag: Value, on: bool) {
    KNOBS.set_stress_flag(flag);
    // Ruby sets the initial value before it has a lock.
    gvl.with_vm_lock_if_there(|collector| {
        if KNOBS.stress_xmalloc(on) {
            collector.set_payloads_due();
        }
        collector.apply_stress(on);
    });
}

/// The latest collection, and what the next one will be: `struct ashlar_latest`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Answer {
    collection: Collection,
    next_major_by: MajorBy,
    sweeping: bool,
    marking: bool,
}

impl Answer {
    fn of(collector: &Collector) -> Self {
        let next_major_by = if collector.heap.stress().move_everything {
            MajorBy::Forced
        } else if collector.heap.next_scope() != Scope::Minor {
            MajorBy::Outgrown
        } else {
            MajorBy::None
        };
        Self {
            collection: collector.latest_collection(),
            next_major_by,
            sweeping: collector.heap.is_sweeping(),
            marking: collector.heap.is_marking(),
        }
    }
}

#[no_mangle]
extern "C" fn ashlar_latest(gvl: Gvl, latest: &mut MaybeUninit<Answer>) {
    gvl.with_vm_lock(|collector| {
        // The scope of the next collection depends on what the other Ractors have
        // allocated.
        collector.stop_ractors();
        latest.write(Answer::of(collector));
    });
}
