//! A collection as Ruby sees it: locks, events, clocks, reasons.

use std::cell::Cell as StdCell;
use std::ffi::c_void;

use ashlar_heap::heap::Request;
use ashlar_heap::pace::Scope;
use ashlar_heap::stress::Stress;

use crate::objspace::{from_ruby, Objspace};
use crate::payloads;
use crate::ruby_calls::Value;

/// Why a collection happened: `enum ashlar_reason`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reason {
    #[default]
    NewObject,
    Malloc,
    Method,
    #[allow(dead_code, reason = "the shim may pass it")]
    CApi,
    Stress,
}

/// The latest collection: `struct ashlar_latest`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Latest {
    reason: Reason,
    full: bool,
    forced_full: bool,
    sweep_now: bool,
    sweeping: bool,
    marking: bool,
}

/// Clocks and the latest collection.
#[derive(Default)]
pub(crate) struct Timing {
    pub(crate) off: StdCell<bool>,
    pub(crate) mark_ns: StdCell<u64>,
    pub(crate) sweep_ns: StdCell<u64>,
    pub(crate) latest: StdCell<Latest>,
}

impl Timing {
    /// Runs `work`, which may sweep, and counts its time if there was anything
    /// to sweep.
    #[inline]
    pub(crate) fn sweeping<R>(&self, objspace: &Objspace, work: impl FnOnce() -> R) -> R {
        if !objspace.heap.is_sweeping() {
            return work();
        }
        // SAFETY: the lock is held; objects are freed with all Ractors stopped.
        unsafe { (objspace.heap.vm.calls.vm_barrier)() };
        let result = self.count(&self.sweep_ns, work);
        if !objspace.heap.is_sweeping() {
            event(objspace, objspace.events.gc_end_sweep);
        }
        result
    }

    fn count<R>(&self, total_ns: &StdCell<u64>, work: impl FnOnce() -> R) -> R {
        if self.off.get() {
            return work();
        }
        let start_ns = cpu_time_ns();
        let result = work();
        total_ns.set(total_ns.get() + (cpu_time_ns() - start_ns));
        result
    }
}

/// CPU time of the process, which is what Ruby's own collector counts in.
fn cpu_time_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn event(objspace: &Objspace, event: u32) {
    // SAFETY: the lock is held; Ruby ignores events that nobody wants.
    unsafe { (objspace.heap.vm.calls.event_hook)(0, event) };
}

/// Runs `work` with Ruby's lock: nothing to do while there is one Ractor.
#[inline]
pub(crate) fn with_vm_lock<R>(objspace: &Objspace, work: impl FnOnce() -> R) -> R {
    let calls = &objspace.heap.vm.calls;
    // SAFETY: the lock is recursive, and given back below: `work` does not
    // unwind or jump.
    unsafe {
        let level = (calls.vm_lock)();
        let result = work();
        (calls.vm_unlock)(level);
        result
    }
}

/// A collection that pacing asked for.
pub(crate) fn paced(objspace: &Objspace, reason: Reason) {
    let scope = match (objspace.full_marking_allowed.get(), reason) {
        (false, _) => Some(Scope::Minor),
        (true, Reason::Stress) => stress_scope(objspace),
        (true, _) if objspace.needs_full.get() => Some(Scope::Full),
        (true, _) => None,
    };
    // When payloads are what fills the heap, waiting for allocation to sweep
    // would let the dead ones float.
    let request = Request {
        scope,
        sweep_now: reason == Reason::Malloc,
    };
    collect(objspace, request, reason);
}

/// `GC.stress=` takes a number, whose lowest bit asks for minor collections.
fn stress_scope(objspace: &Objspace) -> Option<Scope> {
    let flag = objspace.stress_flag.get();
    let is_number = flag & 1 == 1;
    let no_full = is_number && (flag >> 1) & 1 == 1;
    match flag {
        0 => None,
        _ if no_full => Some(Scope::Minor),
        _ => Some(Scope::Full),
    }
}

/// When memory is out: a full collection, everything swept. False when that
/// cannot be done now.
pub(crate) fn last_resort(objspace: &Objspace) -> bool {
    if objspace.heap.is_collecting() {
        return false;
    }
    let request = Request {
        scope: Some(Scope::Full),
        sweep_now: true,
    };
    collect(objspace, request, Reason::Malloc);
    true
}

/// Collects.
pub(crate) fn collect(objspace: &Objspace, request: Request, reason: Reason) {
    with_vm_lock(objspace, || {
        if objspace.heap.is_collecting() {
            return;
        }
        // SAFETY: the lock is held; the other Ractors stop here.
        unsafe { (objspace.heap.vm.calls.vm_barrier)() };
        event(objspace, objspace.events.gc_enter);
        event(objspace, objspace.events.gc_start);
        run(objspace, request, reason);
        event(objspace, objspace.events.gc_exit);
    });
}

fn run(objspace: &Objspace, request: Request, reason: Reason) {
    let timing = &objspace.timing;
    timing.count(&timing.sweep_ns, || objspace.heap.finish_sweep());
    let scope = timing.count(&timing.mark_ns, || {
        // SAFETY: this thread's registers and stack are roots.
        unsafe { (objspace.heap.vm.calls.save_machine_context)() };
        objspace.heap.collect(Request {
            sweep_now: false,
            ..request
        })
    });
    if scope == Scope::Full {
        objspace.needs_full.set(false);
    }
    payloads::set_budget_bytes(objspace.heap.pace().budget_bytes());
    timing.latest.set(Latest {
        reason,
        full: scope == Scope::Full,
        forced_full: request.scope == Some(Scope::Full),
        sweep_now: request.sweep_now,
        ..Latest::default()
    });
    event(objspace, objspace.events.gc_end_mark);
    if request.sweep_now {
        timing.count(&timing.sweep_ns, || objspace.heap.finish_sweep());
        event(objspace, objspace.events.gc_end_sweep);
    }
}

/// Has Ruby run the queued jobs as soon as it can.
pub(crate) fn trigger_finalizers(objspace: &Objspace) {
    // SAFETY: may be called anywhere.
    unsafe { (objspace.heap.vm.calls.trigger_finalizers)() };
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_start(
    objspace: *mut c_void,
    full: bool,
    sweep_now: bool,
    reason: Reason,
) {
    let scope = if full { Scope::Full } else { Scope::Minor };
    let request = Request {
        scope: Some(scope),
        sweep_now,
    };
    // SAFETY: Ruby passes its object space.
    collect(unsafe { from_ruby(objspace) }, request, reason);
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_during_gc(objspace: *mut c_void) -> bool {
    // SAFETY: Ruby passes its object space.
    let heap = &unsafe { from_ruby(objspace) }.heap;
    heap.is_collecting() || heap.shared().payloads.is_sweeping()
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_finish_sweep(objspace: *mut c_void) {
    // SAFETY: Ruby passes its object space.
    let objspace = unsafe { from_ruby(objspace) };
    with_vm_lock(objspace, || {
        let timing = &objspace.timing;
        timing.sweeping(objspace, || objspace.heap.finish_sweep());
    });
}

/// `Process.warmup`: what lives now will live long.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_prepare_heap(objspace: *mut c_void) {
    // SAFETY: Ruby passes its object space.
    let objspace = unsafe { from_ruby(objspace) };
    let heap = &objspace.heap;
    let request = Request {
        scope: Some(Scope::Full),
        sweep_now: true,
    };
    collect(objspace, request, Reason::Method);
    with_vm_lock(objspace, || {
        // SAFETY: the object is live; Ruby only computes what it would later.
        heap.for_each_cell(|cell, _| unsafe { (heap.vm.calls.prepare_object)(cell.address()) });
        heap.promote_everything();
        heap.release_empty_blocks();
    });
    // SAFETY: gives free memory of libc's allocator back.
    unsafe { libc::malloc_trim(0) };
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_set_disabled(objspace: *mut c_void, disabled: bool) {
    // SAFETY: Ruby passes its object space.
    unsafe { from_ruby(objspace) }.disabled.set(disabled);
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_is_disabled(objspace: *mut c_void) -> bool {
    // SAFETY: Ruby passes its object space.
    unsafe { from_ruby(objspace) }.disabled.get()
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_set_stress(objspace: *mut c_void, flag: Value, on: bool) {
    // SAFETY: Ruby passes its object space.
    let objspace = unsafe { from_ruby(objspace) };
    objspace.stress_flag.set(flag);
    let from_environment = objspace.stress_from_environment;
    let collect_every = if on {
        1
    } else {
        from_environment.collect_every
    };
    let stress = Stress {
        collect_every,
        ..from_environment
    };
    // Ruby sets the initial value before it has a lock.
    if stress != objspace.heap.stress() {
        with_vm_lock(objspace, || {
            // SAFETY: the lock is held; the other Ractors do not allocate now.
            unsafe { (objspace.heap.vm.calls.vm_barrier)() };
            objspace.heap.set_stress(stress);
        });
    }
    payloads::stress(on);
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_stress(objspace: *mut c_void) -> Value {
    // SAFETY: Ruby passes its object space.
    unsafe { from_ruby(objspace) }.stress_flag.get()
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_latest(objspace: *mut c_void, latest: *mut Latest) {
    // SAFETY: Ruby passes its object space and a place for the answer.
    unsafe {
        let objspace = from_ruby(objspace);
        latest.write(Latest {
            sweeping: objspace.heap.is_sweeping(),
            marking: objspace.heap.is_collecting(),
            ..objspace.timing.latest.get()
        });
    }
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_measure_time(objspace: *mut c_void, on: bool) {
    // SAFETY: Ruby passes its object space.
    unsafe { from_ruby(objspace) }.timing.off.set(!on);
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_measures_time(objspace: *mut c_void) -> bool {
    // SAFETY: Ruby passes its object space.
    !unsafe { from_ruby(objspace) }.timing.off.get()
}

/// Counts memory that objects own outside the heap.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_adjust_memory(objspace: *mut c_void, difference: isize) {
    // SAFETY: Ruby passes its object space.
    let objspace = unsafe { from_ruby(objspace) };
    objspace.heap.shared().payloads.note_elsewhere(difference);
    if difference > 0 {
        payloads::collect_if_due();
    }
}
