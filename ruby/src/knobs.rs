//! What every thread may read and set, without any lock: switches of the program, and
//! what the collector tells `xmalloc`.
//!
//! Each is a value of its own; none says anything about other memory, so all accesses are
//! relaxed. Values that must agree with each other are in the
//! [`crate::collector::Collector`].

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU8, AtomicUsize, Ordering::Relaxed};

use crate::layout;
use crate::ruby_calls::Value;

/// All knobs; there is one Ruby in a process.
#[export_name = "ashlar_knobs"]
pub(crate) static KNOBS: Knobs = Knobs::new();

/// A switch that any thread may turn.
#[repr(transparent)]
pub(crate) struct Switch(AtomicBool);

impl Switch {
    const fn new(on: bool) -> Self {
        Self(AtomicBool::new(on))
    }

    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Relaxed)
    }

    pub(crate) fn set(&self, on: bool) {
        self.0.store(on, Relaxed);
    }
}

/// The shim reads the first ones itself, and turns the switches (`shim/inlined.h`).
#[repr(C)]
pub(crate) struct Knobs {
    /// A bit per type number: whether objects of this type may have the narrowest cells.
    narrow_types: AtomicU32,
    /// How `xmalloc` proceeds; anything but 0 leaves the fast path.
    xmalloc_mode: AtomicU8,
    /// `GC.disable`.
    pub(crate) disabled: Switch,
    /// `GC.auto_compact`.
    pub(crate) auto_compact: Switch,
    /// `GC.config(rgengc_allow_full_mark:)`.
    pub(crate) full_marking_allowed: Switch,
    /// `GC.measure_total_time`.
    pub(crate) measures_time: Switch,
    /// Whether there is a heap profile, of samples or of live numbers alone.
    pub(crate) has_heap_profile: Switch,
    /// The value that `GC.stress=` was given.
    stress_flag: AtomicUsize,
    /// Fresh payload bytes at which a collection is due, as the collector's pacing has
    /// computed.
    payloads_due_bytes: AtomicUsize,
    /// Fresh payload bytes beyond which the process would outgrow its memory limit.
    room_bytes: AtomicUsize,
    /// Bytes by which resized payloads have grown beyond that, and for which no room has been
    /// made yet.
    owed_room_bytes: AtomicUsize,
    /// How many collections, and slices of collections, have marked.
    markings: AtomicUsize,
}

// The shim has the same struct (`shim/inlined.h`), and asserts the same places.
const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(Knobs, xmalloc_mode) == 4);
    assert!(offset_of!(Knobs, disabled) == 5);
    assert!(offset_of!(Knobs, auto_compact) == 6);
    assert!(offset_of!(Knobs, full_marking_allowed) == 7);
    assert!(offset_of!(Knobs, measures_time) == 8);
    assert!(offset_of!(Knobs, has_heap_profile) == 9);
    assert!(offset_of!(Knobs, stress_flag) == 16);
};

/// A bit of `xmalloc_mode`: payloads come from the C library.
const FROM_LIBC: u8 = 1;
/// A bit of `xmalloc_mode`: every allocation collects.
const STRESS: u8 = 2;
/// A bit of `xmalloc_mode`: some payloads are samples of the heap profile.
const SAMPLED: u8 = 4;
/// A bit of `xmalloc_mode`: a collection has become due where none may begin, and the next
/// `xmalloc` is to look.
const DUE: u8 = 8;

/// Types whose objects never need more than four words unless they ask for more. Objects of
/// all other types may be turned into a form of five words in place, or are written as five
/// words when they are moved to another Ractor.
const FOUR_WORD_TYPES: u32 =
    1 << layout::T_FLOAT | 1 << layout::T_RATIONAL | 1 << layout::T_COMPLEX;

impl Knobs {
    const fn new() -> Self {
        Self {
            disabled: Switch::new(false),
            auto_compact: Switch::new(false),
            full_marking_allowed: Switch::new(true),
            measures_time: Switch::new(true),
            has_heap_profile: Switch::new(false),
            stress_flag: AtomicUsize::new(0),
            narrow_types: AtomicU32::new(FOUR_WORD_TYPES),
            xmalloc_mode: AtomicU8::new(FROM_LIBC),
            payloads_due_bytes: AtomicUsize::new(usize::MAX),
            room_bytes: AtomicUsize::new(usize::MAX),
            owed_room_bytes: AtomicUsize::new(0),
            markings: AtomicUsize::new(0),
        }
    }

    // ── Objects ─────────────────────────────────────────────────────────────

    /// Whether an object with these flags may have a cell of the narrowest width.
    #[inline(always)]
    pub(crate) fn is_narrow_type(&self, flags: Value) -> bool {
        self.narrow_types.load(Relaxed) >> (flags & layout::T_MASK) & 1 == 1
    }

    /// Sets whether allocations are traced from now on: Ruby then clears what follows an
    /// object's first five words, so no object may have fewer.
    pub(crate) fn trace_allocations(&self, traced: bool) {
        let narrow_types = if traced { 0 } else { FOUR_WORD_TYPES };
        self.narrow_types.store(narrow_types, Relaxed);
    }

    // ── `GC.stress` ─────────────────────────────────────────────────────────

    pub(crate) fn stress_flag(&self) -> Value {
        self.stress_flag.load(Relaxed)
    }

    pub(crate) fn set_stress_flag(&self, flag: Value) {
        self.stress_flag.store(flag, Relaxed);
    }

    /// Whether `GC.stress` asks for a collection at every allocation.
    pub(crate) fn stress_is_on(&self) -> bool {
        /// `nil`, the only bit that a false value can have.
        const QNIL: Value = 4;
        self.stress_flag() & !QNIL != 0
    }

    // ── `xmalloc` ───────────────────────────────────────────────────────────

    /// Whether `xmalloc` may take a payload from the thread's cache. If payloads are
    /// sampled, the payload must be counted first.
    #[inline(always)]
    pub(crate) fn xmalloc_is_from_cache(&self) -> bool {
        self.xmalloc_mode.load(Relaxed) & !SAMPLED == 0
    }

    /// Whether payloads are sampled.
    #[inline(always)]
    pub(crate) fn samples_payloads(&self) -> bool {
        self.xmalloc_mode.load(Relaxed) & SAMPLED != 0
    }

    /// Sets whether payloads are sampled from now on.
    pub(crate) fn sample_payloads(&self, on: bool) {
        self.set_mode(SAMPLED, on);
    }

    /// Whether `xfree` may give a payload to the thread's cache without further checks.
    #[inline(always)]
    pub(crate) fn xfree_is_plain(&self) -> bool {
        self.xmalloc_mode.load(Relaxed) & (FROM_LIBC | SAMPLED) == 0
    }

    #[inline(always)]
    pub(crate) fn xmalloc_is_from_libc(&self) -> bool {
        self.xmalloc_mode.load(Relaxed) & FROM_LIBC != 0
    }

    /// Sets whether `xmalloc` is served from the heap from now on.
    pub(crate) fn serve_from_heap(&self, from_heap: bool) {
        self.set_mode(FROM_LIBC, !from_heap);
    }

    /// Whether every `xmalloc` collects.
    pub(crate) fn xmalloc_is_stressed(&self) -> bool {
        self.xmalloc_mode.load(Relaxed) & STRESS != 0
    }

    /// Sets whether every `xmalloc` collects from now on. Returns whether that is a change,
    /// after which payloads are due at other bytes.
    pub(crate) fn stress_xmalloc(&self, on: bool) -> bool {
        let is_change = self.xmalloc_is_stressed() != on;
        self.set_mode(STRESS, on);
        is_change
    }

    /// Sets whether no collection may begin from now on. Meanwhile `xmalloc` has nothing to look
    /// for, and the first one afterwards looks.
    pub(crate) fn disable(&self, on: bool) {
        self.disabled.set(on);
        self.set_mode(DUE, !on);
    }

    /// Lets the next `xmalloc` look whether a collection is due.
    pub(crate) fn let_next_xmalloc_look(&self) {
        if !self.disabled.is_on() {
            self.set_mode(DUE, true);
        }
    }

    /// Whether the next `xmalloc` is to look.
    #[inline(always)]
    pub(crate) fn next_xmalloc_looks(&self) -> bool {
        self.xmalloc_mode.load(Relaxed) & DUE != 0
    }

    /// Somebody looks who may collect.
    pub(crate) fn note_look(&self) {
        self.set_mode(DUE, false);
    }

    /// A resized payload grows by `bytes` that do not fit below the memory limit: whoever may
    /// collect next is to make room for them.
    pub(crate) fn owe_room(&self, bytes: usize) {
        self.owed_room_bytes.fetch_add(bytes, Relaxed);
        self.let_next_xmalloc_look();
    }

    #[inline(always)]
    pub(crate) fn owes_room(&self) -> bool {
        self.owed_room_bytes.load(Relaxed) > 0
    }

    /// The bytes for which room is to be made, now that somebody makes it.
    pub(crate) fn take_owed_room(&self) -> usize {
        self.owed_room_bytes.swap(0, Relaxed)
    }

    fn set_mode(&self, bit: u8, on: bool) {
        if on {
            self.xmalloc_mode.fetch_or(bit, Relaxed);
        } else {
            self.xmalloc_mode.fetch_and(!bit, Relaxed);
        }
    }

    /// Fresh payload bytes at which a collection is due.
    #[inline(always)]
    pub(crate) fn payloads_due_bytes(&self) -> usize {
        self.payloads_due_bytes.load(Relaxed)
    }

    /// Fresh payload bytes that fit below the memory limit.
    #[inline(always)]
    pub(crate) fn room_bytes(&self) -> usize {
        self.room_bytes.load(Relaxed)
    }

    /// Sets how many fresh bytes payloads may take. It is 0 under stress, so that
    /// `xmalloc` has only one number to compare with.
    pub(crate) fn set_payloads_due(&self, payloads_due_bytes: usize, room_bytes: usize) {
        let is_stressed = self.xmalloc_is_stressed();
        let payloads_due_bytes = if is_stressed { 0 } else { payloads_due_bytes };
        self.payloads_due_bytes.store(payloads_due_bytes, Relaxed);
        self.room_bytes.store(room_bytes, Relaxed);
    }

    /// How often anything has been marked; it changes only while all Ractors are stopped. A
    /// thread that has waited for the VM lock finds another number afterwards if others
    /// have marked.
    pub(crate) fn markings(&self) -> usize {
        self.markings.load(Relaxed)
    }

    pub(crate) fn count_marking(&self) {
        self.markings.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xmalloc_looks_for_nothing_while_collecting_is_disabled_and_afterwards_once() {
        let knobs = Knobs::new();
        knobs.serve_from_heap(true);
        knobs.let_next_xmalloc_look();
        knobs.disable(true);
        knobs.let_next_xmalloc_look();
        knobs.owe_room(1);
        assert!(knobs.xmalloc_is_from_cache() && !knobs.next_xmalloc_looks());
        knobs.disable(false);
        assert!(knobs.next_xmalloc_looks() && knobs.owes_room());
        knobs.note_look();
        assert!(knobs.xmalloc_is_from_cache());
    }
}
