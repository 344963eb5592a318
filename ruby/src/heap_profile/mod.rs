//! The heap profile: samples of what the heap hands out, and live numbers, in an image that
//! other processes can read (`docs/reference/heap-profile.md`).
//!
//! A sample of a cell is taken where the allocator leaves its fast path anyway: a run of free
//! cells is cut off before the cell that contains the next mark
//! ([`ashlar_heap::AllocationCache::sample_after`]). Payloads leave the fast path of `xmalloc`
//! and `xfree` while samples are taken, and each thread counts its own. While nothing is
//! sampled, none of this happens.
//!
//! The recorder has a lock of its own, the last of all. No function of Ruby is called while it
//! is held.

mod entries;
pub(crate) mod file;
mod image;
mod interval;
mod live;
pub(crate) mod recorder;
pub(crate) mod samples;
mod settings;
mod watch;

use std::ffi::c_int;

use ashlar_heap::{AllocationCache, CellRange, WidthIndex};

use self::live::numbers_of;
use self::recorder::{
    change_image, is_sampling, recorder, unix_ns, while_sampling, with_any, Made, Recorder,
};
use crate::collector::Collector;
use crate::knobs::KNOBS;
use crate::lock::{objspace, Gvl};
use crate::object_model::{owned_by, Object};
use crate::payloads::thread_caches::with_locks_free;
use crate::ruby_calls::Value;
use crate::spare_memory::with_spare;
use crate::statics::is_busy;

pub(crate) use self::settings::{configure, read_environment};
pub(crate) use self::watch::count_collection;

/// The most frames that a stack has; the innermost ones are kept.
const FRAMES_MAX: usize = 512;

/// Begins an empty profile in a forked child, which has one thread. The parent goes on writing
/// to the image that it shares with the child, so the child takes nothing over from it: the
/// image may be in the middle of a change, and describe objects that the child does not have.
/// Without memory for an image the child has no profile.
pub(crate) fn begin_in_child() {
    with_spare(|| {
        file::begin_in_child();
        watch::clear();
        begin_image_of_child();
    });
}

fn begin_image_of_child() {
    let mut recorder = recorder();
    let Some(own) = recorder.as_mut() else { return };
    match new_image() {
        Some(mapped) => own.begin_in_child(mapped),
        None => {
            *recorder = None;
            KNOBS.sample_payloads(false);
            KNOBS.has_heap_profile.set(false);
        }
    }
}

/// Begins the counts of a forked child, and takes its first numbers.
pub(crate) fn begin_numbers_in_child(collector: &Collector) {
    live::begin_in_child(&collector.heap);
    watch::count_collections_anew();
    if KNOBS.has_heap_profile.is_on() {
        note_numbers_now(collector);
    }
}

// ── Beginning and ending ────────────────────────────────────────────────────

/// Maps an empty image of this process.
fn new_image() -> Option<image::Mapped> {
    image::Mapped::new(&settings::command_line(), file::started_unix_ns())
}

/// The message when there is no memory for a profile.
pub(crate) const NO_MEMORY: &str = "profile: the system refuses the memory of the profile";

/// Runs `work` with the recorder, which the first call makes.
fn with_recorder<R>(work: impl FnOnce(&mut Recorder) -> R) -> Result<R, String> {
    let mut guard = recorder();
    if guard.is_none() {
        *guard = new_image().map(Recorder::new);
    }
    match &mut *guard {
        Some(recorder) => Ok(work(recorder)),
        None => Err(NO_MEMORY.to_owned()),
    }
}

/// Begins to take live numbers.
fn begin_numbers(collector: &Collector) -> Result<(), String> {
    with_recorder(|_| ())?;
    KNOBS.has_heap_profile.set(true);
    note_numbers_now(collector);
    Ok(())
}

/// Begins to take samples, with empty tables. All Ractors are stopped meanwhile.
fn begin_sampling(collector: &Collector, period_bytes: u64) -> Result<(), String> {
    begin_numbers(collector)?;
    collector.stop_ractors();
    end_sampling(collector);
    with_recorder(|recorder| {
        recorder.begin(period_bytes);
        watch::clear();
        collector
            .heap
            .each_retired_cache(|cache| recorder.begin_in(cache));
    })?;
    KNOBS.sample_payloads(true);
    Ok(())
}

/// Ends sampling; the image stays as it is.
fn end_sampling(collector: &Collector) {
    if !is_sampling() {
        return;
    }
    collector.stop_ractors();
    KNOBS.sample_payloads(false);
    collector.heap.each_retired_cache(|cache| {
        WidthIndex::all().for_each(|width| cache.sample_after(width, None));
    });
    with_any(Recorder::end);
}

/// Begins to sample the cells of a Ractor's new cache, if samples are taken.
pub(crate) fn cache_is_new(cache: &mut AllocationCache<'_>) {
    if KNOBS.has_heap_profile.is_on() {
        while_sampling(|recorder| recorder.begin_in(cache));
    }
}

// ── Samples begin ───────────────────────────────────────────────────────────

/// Adds a sample for a cell that has been handed out, and sets the next one.
#[cold]
pub(crate) fn cell_made(
    cache: &mut AllocationCache<'_>,
    (address, width): (usize, WidthIndex),
    class: Value,
    flags: Value,
) {
    let cells = with_any(|recorder| recorder.intervals.cells(width.bytes()));
    cache.sample_after(width, cells);
    let width_bytes = width.bytes() as u32;
    add(
        address,
        &Made::Cell {
            class,
            flags,
            width_bytes,
        },
    );
}

/// Adds a sample for a payload that has been handed out.
#[cold]
fn payload_made(address: usize, bytes: usize) {
    add(
        address,
        &Made::Payload {
            bytes: bytes as u64,
        },
    );
}

fn add(address: usize, made: &Made) {
    let (mut frames, mut lines) = ([0; FRAMES_MAX], [0; FRAMES_MAX]);
    let depth = stack_here(&mut frames, &mut lines);
    let stack = (&frames[..depth], &lines[..depth]);
    let has_nameless = while_sampling(|recorder| {
        recorder.add(address, made, stack, watch::collections());
        recorder.has_nameless()
    });
    if let (Some(true), Some(objspace)) = (has_nameless, objspace()) {
        // SAFETY: may be called at any time; the names are looked up later.
        unsafe { (objspace.calls().name_samples_soon)() };
    }
}

/// Writes Ruby's frames of the calling thread with their lines, innermost first; returns how
/// many. There are none without the GVL, and none while the collector works.
fn stack_here(frames: &mut [Value; FRAMES_MAX], lines: &mut [c_int; FRAMES_MAX]) -> usize {
    if is_busy() || Gvl::of_this_thread().is_none() {
        return 0;
    }
    let Some(objspace) = objspace() else {
        return 0;
    };
    let (frames, lines) = (frames.as_mut_ptr(), lines.as_mut_ptr());
    let profile_frames = objspace.calls().profile_frames;
    // SAFETY: there are places for this many frames; Ruby only reads its stack.
    let depth = unsafe { profile_frames(0, FRAMES_MAX as c_int, frames, lines) };
    usize::try_from(depth).unwrap_or(0)
}

// ── Payloads ────────────────────────────────────────────────────────────────

/// Allocates a payload of `bytes` with `allocate`, and makes it a sample if a mark lies in it.
#[inline(always)]
pub(crate) fn with_payload(
    bytes: usize,
    allocate: impl FnOnce() -> *mut std::ffi::c_void,
) -> *mut std::ffi::c_void {
    if KNOBS.samples_payloads() {
        with_counted_payload(bytes, allocate)
    } else {
        allocate()
    }
}

#[cold]
#[inline(never)]
fn with_counted_payload(
    bytes: usize,
    allocate: impl FnOnce() -> *mut std::ffi::c_void,
) -> *mut std::ffi::c_void {
    // Even a payload of 0 bytes has an address of its own.
    let bytes = bytes.max(1);
    let is_sample = with_locks_free(|| watch::is_sample(bytes));
    let payload = allocate();
    if is_sample && !payload.is_null() {
        with_locks_free(|| payload_made(payload as usize, bytes));
    }
    payload
}

/// Finds the classes of sampled payloads by their owners; looks at all live objects for that.
fn find_owners(collector: &Collector) {
    if !is_sampling() {
        return;
    }
    collector.stop_ractors();
    // The walk would end the sweep, too, and nobody would learn that the collection is over.
    collector.finish_sweep();
    let mut found = Vec::new();
    collector.heap.for_each_range(|range| {
        if let CellRange::Live(cell) = range {
            let object = Object::new(cell);
            let owned = owned_by(object);
            if owned != 0 && watch::may_have(owned) && found.try_reserve(1).is_ok() {
                found.push((owned, object.class(), object.flags()));
            }
        }
    });
    with_any(|recorder| {
        for (payload, class, flags) in found {
            recorder.own(payload, class, flags);
        }
    });
}

// ── Collections ─────────────────────────────────────────────────────────────

/// Takes the live numbers after a collection has marked or swept, if they are due. Also when
/// the program has asked for the collection and it is over, because the program may read them
/// next. All Ractors are stopped.
pub(crate) fn note_numbers(collector: &Collector, asked_for_and_over: bool) {
    if !KNOBS.has_heap_profile.is_on() {
        return;
    }
    let are_due = with_any(Recorder::are_numbers_due) == Some(true);
    if are_due || asked_for_and_over {
        note_numbers_now(collector);
    }
}

fn note_numbers_now(collector: &Collector) {
    let numbers = numbers_of(&collector.heap);
    change_image(|image| {
        image.header.numbers = numbers;
        image.header.updated_unix_ns = unix_ns();
    });
}
