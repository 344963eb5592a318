//! A collection as Ruby sees it: locks, events, clocks, reasons.

use std::cell::Cell as StdCell;
use std::ffi::c_void;

use ashlar_heap::compact::Evacuation;
use ashlar_heap::heap::{Progress, Request};
use ashlar_heap::pace::Scope;
use ashlar_heap::work_budget::WorkBudget;

use crate::objspace::{from_ruby, Objspace};
use crate::pauses::Pauses;
use crate::payloads;
use crate::profile::Profile;
use crate::ruby_calls::Value;

/// Why a collection happened: `enum ashlar_reason`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reason {
    #[default]
    None,
    NewObject,
    Malloc,
    Method,
    #[allow(dead_code, reason = "the shim may pass it")]
    CApi,
    Stress,
}

impl Reason {
    /// Ruby may allocate memory between a write barrier and the store (`st_update`
    /// enlarges its table after its callback has called the barrier), but makes no
    /// object there and asks for no collection.
    fn may_come_before_a_store(self) -> bool {
        !matches!(self, Self::NewObject | Self::Method)
    }
}

/// Why a collection looked at the whole heap: `enum ashlar_full_reason`.
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
            (Scope::Full, ..) => Self::Outgrown,
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

/// The latest collection, and what comes: `struct ashlar_latest`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Latest {
    collection: Collection,
    next_full_reason: FullReason,
    sweeping: bool,
    marking: bool,
}

/// What the collector spends its time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Mark,
    Sweep,
}

/// Clocks and the latest collection.
#[derive(Default)]
pub(crate) struct Timing {
    pub(crate) off: StdCell<bool>,
    pub(crate) mark_ns: StdCell<u64>,
    pub(crate) sweep_ns: StdCell<u64>,
    pub(crate) profile: Profile,
    pub(crate) pauses: Pauses,
    /// Why the collection in progress has begun, and what was asked for.
    begun: StdCell<(Reason, Option<Scope>)>,
    latest: StdCell<Collection>,
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
        let result = self.pauses.during(|| self.count(Phase::Sweep, work));
        if !objspace.heap.is_sweeping() {
            self.swept(objspace);
        }
        result
    }

    fn swept(&self, objspace: &Objspace) {
        objspace.warn_when_over_limit();
        self.profile.describe(objspace, self.latest.get());
        event(objspace, objspace.events.gc_end_sweep);
    }

    fn count<R>(&self, phase: Phase, work: impl FnOnce() -> R) -> R {
        if self.off.get() && !self.profile.is_on() {
            return work();
        }
        let start_ns = cpu_time_ns();
        let result = work();
        let spent_ns = cpu_time_ns() - start_ns;
        self.profile.add(phase, spent_ns);
        if !self.off.get() {
            let total_ns = match phase {
                Phase::Mark => &self.mark_ns,
                Phase::Sweep => &self.sweep_ns,
            };
            total_ns.set(total_ns.get() + spent_ns);
        }
        result
    }

    /// The latest collection leaves finalizers to run.
    pub(crate) fn note_finalizers(&self) {
        let latest = self.latest.get();
        self.latest.set(Collection {
            have_finalizers: true,
            ..latest
        });
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

/// Runs `work` with Ruby's lock, without letting another Ractor collect while
/// this one waits for it: for write barriers, which come after the store. A
/// collection between the two would miss what has been stored.
#[inline]
pub(crate) fn with_vm_lock_no_collection<R>(objspace: &Objspace, work: impl FnOnce() -> R) -> R {
    let calls = &objspace.heap.vm.calls;
    // SAFETY: as for `with_vm_lock`.
    unsafe {
        let level = (calls.vm_lock_no_barrier)();
        let result = work();
        (calls.vm_unlock_no_barrier)(level);
        result
    }
}

/// A collection that pacing asked for.
pub(crate) fn paced(objspace: &Objspace, reason: Reason) {
    let scope = match (objspace.full_marking_allowed.get(), reason) {
        (false, _) => Some(Scope::Minor),
        (true, Reason::Stress) => stress_scope(objspace),
        (true, _) => None,
    };
    if let Some(work) = objspace.slice_budget() {
        return advance(objspace, scope, work, reason);
    }
    // When payloads are what fills the heap, waiting for allocation to sweep
    // would let the dead ones float.
    let request = Request {
        scope,
        sweep_now: reason == Reason::Malloc || objspace.heap.pace().is_short_of_room(),
        compact: objspace.auto_compaction(),
    };
    collect(objspace, request, reason);
}

/// A collection before a payload of `size` that would not fit below the memory
/// limit.
pub(crate) fn make_room(objspace: &Objspace, size: usize) {
    if !objspace.has_objects() {
        return;
    }
    let request = Request {
        scope: Some(Scope::Full),
        sweep_now: true,
        compact: objspace.auto_compaction(),
    };
    collect(objspace, request, Reason::Malloc);
    let room_bytes = objspace.heap.room_below_limit_bytes();
    if room_bytes.is_some_and(|room_bytes| room_bytes < size) {
        with_vm_lock(objspace, || {
            objspace.heap.release_empty_blocks();
            objspace.set_payload_budget();
        });
    }
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
    if objspace.heap.is_collecting() || !objspace.has_objects() {
        return false;
    }
    let request = Request {
        scope: Some(Scope::Full),
        sweep_now: true,
        compact: None,
    };
    collect(objspace, request, Reason::Malloc);
    true
}

/// Collects at once.
pub(crate) fn collect(objspace: &Objspace, request: Request, reason: Reason) {
    stopped(objspace, || run(objspace, request, reason));
}

/// Does a part of a collection, or begins one, when that is due.
fn advance(objspace: &Objspace, scope: Option<Scope>, work: WorkBudget, reason: Reason) {
    stopped(objspace, || run_slice(objspace, scope, work, reason));
}

/// Runs `work` with the program stopped, unless the collector is at work.
fn stopped(objspace: &Objspace, work: impl FnOnce()) {
    with_vm_lock(objspace, || {
        if objspace.heap.is_collecting() {
            return;
        }
        // SAFETY: the lock is held; the other Ractors stop here.
        unsafe { (objspace.heap.vm.calls.vm_barrier)() };
        objspace.timing.pauses.during(|| {
            event(objspace, objspace.events.gc_enter);
            work();
            objspace.set_payload_budget();
            event(objspace, objspace.events.gc_exit);
        });
    });
}

fn run(objspace: &Objspace, request: Request, reason: Reason) {
    finish_collection(objspace, reason);
    begin(objspace, request.scope, reason);
    let waiting_jobs = objspace.finalizers.borrow().waiting_jobs();
    let mut scope = Scope::Full;
    mark(objspace, reason, || {
        scope = objspace.heap.collect(Request {
            sweep_now: false,
            ..request
        });
        Some(scope)
    });
    marked(objspace, scope, request.sweep_now);
    let timing = &objspace.timing;
    // A compaction has swept already.
    let is_swept = !objspace.heap.is_sweeping();
    if is_swept && objspace.finalizers.borrow().waiting_jobs() > waiting_jobs {
        timing.note_finalizers();
    }
    if request.sweep_now || is_swept {
        timing.count(Phase::Sweep, || objspace.heap.finish_sweep());
        timing.swept(objspace);
    }
}

fn run_slice(objspace: &Objspace, scope: Option<Scope>, mut work: WorkBudget, reason: Reason) {
    let (heap, timing) = (&objspace.heap, &objspace.timing);
    if !heap.is_marking() {
        let is_swept = timing.sweeping(objspace, || heap.sweep_slice(&mut work));
        let is_wanted = heap.collection_is_due() || heap.stress().slice_cells > 0;
        if !is_swept || !is_wanted {
            return;
        }
        begin(objspace, scope, reason);
        let next = match scope {
            None if heap.next_is_full() => Scope::Full,
            asked => asked.unwrap_or(Scope::Minor),
        };
        if heap.stress().slice_cells == 0 && timing.pauses.is_short(next) {
            work = WorkBudget::time(timing.pauses.at_once_time());
        }
    }
    let marked_scope = mark(objspace, reason, || match heap.advance(scope, &mut work) {
        Progress::Marked(scope) => Some(scope),
        Progress::Marking | Progress::Sweeping => None,
    });
    if let Some(scope) = marked_scope {
        marked(objspace, scope, false);
        // When payloads are what fills the heap, new cells alone would sweep too
        // late.
        if timing.begun.get().0 == Reason::Malloc {
            heap.sweep_in_slices();
        }
    }
}

/// Ends the collection in progress, marking and sweeping, for this reason.
fn finish_collection(objspace: &Objspace, reason: Reason) {
    let (heap, timing) = (&objspace.heap, &objspace.timing);
    if heap.is_marking() {
        if let Some(scope) = mark(objspace, reason, || heap.finish_marking()) {
            marked(objspace, scope, false);
        }
    }
    timing.sweeping(objspace, || heap.finish_sweep());
}

fn begin(objspace: &Objspace, asked: Option<Scope>, reason: Reason) {
    event(objspace, objspace.events.gc_start);
    objspace.timing.begun.set((reason, asked));
    objspace.timing.profile.begin(objspace, cpu_time_ns);
}

/// Runs `work`, which marks; the scope when the marking is over.
fn mark(
    objspace: &Objspace,
    reason: Reason,
    work: impl FnOnce() -> Option<Scope>,
) -> Option<Scope> {
    objspace.timing.count(Phase::Mark, || {
        // SAFETY: this thread's registers and stack are roots.
        unsafe { (objspace.heap.vm.calls.save_machine_context)() };
        objspace.timing.pauses.marking(|| {
            if reason.may_come_before_a_store() {
                objspace.heap.between_barrier_and_store(work)
            } else {
                work()
            }
        })
    })
}

/// Marking is over.
fn marked(objspace: &Objspace, scope: Scope, sweep_now: bool) {
    let timing = &objspace.timing;
    let (reason, asked) = timing.begun.get();
    let weak = objspace.heap.vm.weak.get();
    timing.latest.set(Collection {
        reason,
        full_reason: FullReason::of(scope, asked, reason),
        sweep_now,
        have_finalizers: false,
        weak_references: weak.noted,
        retained_weak_references: weak.retained,
    });
    timing.profile.describe(objspace, timing.latest.get());
    event(objspace, objspace.events.gc_end_mark);
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
    // SAFETY: Ruby passes its object space.
    let objspace = unsafe { from_ruby(objspace) };
    let scope = match (full, objspace.full_marking_allowed.get()) {
        (true, _) => Some(Scope::Full),
        // A minor one is upgraded when a full one is due anyway.
        (false, true) => None,
        (false, false) => Some(Scope::Minor),
    };
    let request = Request {
        scope,
        sweep_now,
        compact: objspace.auto_compaction(),
    };
    collect(objspace, request, reason);
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
unsafe extern "C" fn ashlar_finish_collection(objspace: *mut c_void) {
    // SAFETY: Ruby passes its object space.
    let objspace = unsafe { from_ruby(objspace) };
    stopped(objspace, || finish_collection(objspace, Reason::Method));
}

/// Ruby is about to free everything: what marking would still find dead is freed
/// with the rest.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_end_collections(objspace: *mut c_void) {
    // SAFETY: Ruby passes its object space.
    let objspace = unsafe { from_ruby(objspace) };
    stopped(objspace, || {
        objspace.heap.restart_marking();
        let (heap, timing) = (&objspace.heap, &objspace.timing);
        timing.sweeping(objspace, || heap.finish_sweep());
    });
    objspace.disabled.set(true);
}

/// `Process.warmup`: what lives now will live long.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_prepare_heap(objspace: *mut c_void) {
    // SAFETY: Ruby passes its object space.
    let objspace = unsafe { from_ruby(objspace) };
    // Held all along: until it is given back, the other Ractors stay where the
    // collection has stopped them.
    with_vm_lock(objspace, || prepare(objspace));
    // SAFETY: gives free memory of libc's allocator back.
    unsafe { libc::malloc_trim(0) };
}

fn prepare(objspace: &Objspace) {
    let heap = &objspace.heap;
    let cells_at_hand = objspace.cells_at_hand();
    let request = Request {
        scope: Some(Scope::Full),
        sweep_now: true,
        compact: Some(Evacuation::Sparse),
    };
    collect(objspace, request, Reason::Method);
    let calls = &heap.vm.calls;
    // Another Ractor may have been stopped while it was making a string.
    // SAFETY: may be asked at any time.
    if !unsafe { (calls.multi_ractor)() } {
        // SAFETY: the object is live; Ruby only computes what it would later.
        heap.for_each_cell(|cell, _| unsafe { (calls.prepare_object)(cell.address()) });
    }
    heap.promote_everything();
    heap.release_empty_blocks();
    // As Ruby documents it: what was given back may be taken again.
    objspace.keep_cells_at_hand(cells_at_hand);
    objspace.set_payload_budget();
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
    objspace.apply_stress(on);
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
        latest.write(with_vm_lock(objspace, || objspace.latest()));
    }
}

impl Objspace {
    /// Whether `GC.stress` asks for a collection at every allocation.
    pub(crate) fn gc_stress_is_on(&self) -> bool {
        /// `nil`, the only bit that a value without truth has.
        const QNIL: Value = 4;
        self.stress_flag.get() & !QNIL != 0
    }

    /// Puts the stress options in force; `GC.stress` collects at every
    /// allocation beside.
    pub(crate) fn apply_stress(&self, every_allocation: bool) {
        let mut stress = self.stress_option.get();
        if every_allocation {
            stress.collect_every = 1;
        }
        // Ruby sets the initial value before it has a lock.
        if stress != self.heap.stress() {
            with_vm_lock(self, || {
                // SAFETY: the lock is held; the other Ractors do not allocate now.
                unsafe { (self.heap.vm.calls.vm_barrier)() };
                self.heap.set_stress(stress);
            });
        }
    }

    /// Whether there is anything to collect. Before the first object Ruby has
    /// no roots to show either.
    fn has_objects(&self) -> bool {
        self.heap.stats().blocks_taken > 0
    }

    /// What the next slice of a collection may do; `None` when it is to be done
    /// at once.
    fn slice_budget(&self) -> Option<WorkBudget> {
        if self.auto_compact.get() || self.heap.stress().move_everything {
            // What moves has to be marked anew, at once.
            return None;
        }
        let cells = self.heap.stress().slice_cells;
        if cells > 0 {
            return Some(WorkBudget::cells(cells));
        }
        let options = self.timing.pauses.options();
        self.heap.note_resident();
        let at_once = self.heap.stress().collect_every > 0 || self.heap.pace().is_short_of_room();
        (options.incremental && !at_once).then(|| WorkBudget::time(options.slice_time))
    }

    /// Says once that live data does not fit into the memory limit.
    fn warn_when_over_limit(&self) {
        let pace = self.heap.pace();
        let Some(limit_bytes) = pace.options().memory_limit_bytes else {
            return;
        };
        if pace.is_over_limit() && !self.warned_of_limit.replace(true) {
            let resident_bytes = ashlar_heap::os::resident_bytes().unwrap_or(0);
            eprintln!(
                "ashlar: memory_limit={} MiB: live data does not fit, {} MiB are in use after a full \
                 collection; the program goes on beyond the limit",
                limit_bytes >> 20,
                resident_bytes >> 20
            );
        }
    }

    /// Tells payloads when the collector has something to do.
    pub(crate) fn set_payload_budget(&self) {
        let fresh_bytes = self.heap.shared().payloads.fresh_bytes();
        let room_bytes = self.heap.room_below_limit_bytes().unwrap_or(usize::MAX);
        payloads::set_budget_bytes(fresh_bytes.saturating_add(self.heap.bytes_until_due()));
        payloads::set_room_bytes(fresh_bytes.saturating_add(room_bytes));
    }

    fn latest(&self) -> Latest {
        let next_full_reason = if self.heap.stress().move_everything {
            FullReason::Forced
        } else if self.heap.next_is_full() {
            FullReason::Outgrown
        } else {
            FullReason::None
        };
        Latest {
            collection: self.timing.latest.get(),
            next_full_reason,
            sweeping: self.heap.is_sweeping(),
            marking: self.heap.is_marking(),
        }
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
