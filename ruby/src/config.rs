//! `GC.config`: the options, shown and changed while Ruby runs.

use std::ffi::{c_char, c_void, CString};
use std::ptr::null;

use ashlar_heap::pace::PaceOptions;

use crate::collect::with_vm_lock;
use crate::objspace::{from_ruby, Objspace};
use crate::options::{MallocSource, Options};
use crate::ruby_gc_variables::tuned;

/// What an option's value is: `enum ashlar_option_kind`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
enum Kind {
    Number,
    BytesOrNone,
    Switch,
    Word,
}

/// One option: `struct ashlar_option`.
#[repr(C)]
pub(crate) struct ShownOption {
    name: *const c_char,
    kind: Kind,
    number: usize,
    word: *const c_char,
}

/// A name and a value: `struct ashlar_pair`.
#[repr(C)]
pub(crate) struct Pair {
    name: *const u8,
    name_bytes: usize,
    value: *const u8,
    value_bytes: usize,
}

impl Pair {
    /// # Safety
    /// The pair must hold readable texts.
    unsafe fn texts(&self) -> (String, String) {
        let text = |start, bytes| {
            // SAFETY: the caller's contract.
            let bytes = unsafe { std::slice::from_raw_parts(start, bytes) };
            String::from_utf8_lossy(bytes).into_owned()
        };
        (
            text(self.name, self.name_bytes),
            text(self.value, self.value_bytes),
        )
    }
}

impl Objspace {
    fn options(&self) -> Options {
        Options {
            pace: *self.heap.pace().options(),
            pauses: self.timing.pauses.options(),
            parallel: self.heap.parallel_marking(),
            stress: self.stress_option.get(),
            malloc: self.malloc,
        }
    }

    fn configure(&self, changes: &[(String, String)]) -> Result<(), String> {
        let options = self.options().changed(|name| {
            let change = changes.iter().find(|(changed, _)| changed == name);
            change.map(|(_, value)| value.clone())
        })?;
        self.heap.set_pace_options(options.pace);
        self.timing.pauses.set_options(options.pauses);
        self.heap.set_parallel_marking(options.parallel);
        let sweep_time_max = options.pauses.sweep_time_max();
        self.heap.set_sweep_time_max(sweep_time_max);
        self.set_payload_budget();
        if options.stress != self.stress_option.get() {
            self.stress_option.set(options.stress);
            self.apply_stress(self.gc_stress_is_on());
        }
        Ok(())
    }

    fn shown_option(&self, index: usize) -> Option<ShownOption> {
        let Options {
            pace,
            pauses,
            parallel,
            stress,
            malloc,
        } = self.options();
        let number = |name: &'static std::ffi::CStr, kind, number| ShownOption {
            name: name.as_ptr(),
            kind,
            number,
            word: null(),
        };
        let malloc = match malloc {
            MallocSource::Heap => c"heap",
            MallocSource::Libc => c"libc",
        };
        let limit_bytes = pace.memory_limit_bytes.unwrap_or(0);
        Some(match index {
            0 => number(c"space_overhead", Kind::Number, pace.space_overhead_percent),
            1 => number(c"memory_limit", Kind::BytesOrNone, limit_bytes),
            2 => number(c"heap_min", Kind::Number, pace.heap_min_bytes),
            3 => number(c"heap_init", Kind::Number, pace.heap_init_bytes),
            4 => number(c"nursery_min", Kind::Number, pace.nursery_min_bytes),
            5 => number(c"nursery_max", Kind::Number, pace.nursery_max_bytes),
            6 => number(
                c"incremental",
                Kind::Switch,
                usize::from(pauses.incremental),
            ),
            7 => number(
                c"slice_us",
                Kind::Number,
                pauses.slice_time.as_micros() as usize,
            ),
            8 => number(c"collect_every", Kind::Number, stress.collect_every),
            9 => number(c"slice_cells", Kind::Number, stress.slice_cells),
            10 => number(c"verify", Kind::Switch, usize::from(stress.verify)),
            11 => number(c"poison", Kind::Switch, usize::from(stress.poison)),
            12 => {
                let on = usize::from(stress.move_everything);
                number(c"move_everything", Kind::Switch, on)
            }
            13 => number(c"threads", Kind::Number, parallel.threads),
            14 => number(c"parallel_cells", Kind::Number, parallel.cells_min),
            15 => ShownOption {
                word: malloc.as_ptr(),
                ..number(c"malloc", Kind::Word, 0)
            },
            _ => return None,
        })
    }

    /// Keeps a message for the shim, until the next one.
    pub(crate) fn keep_message(&self, message: String) -> *const c_char {
        let mut kept = self.message.borrow_mut();
        *kept = CString::new(message).unwrap_or_default();
        kept.as_ptr()
    }
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_option(
    objspace: *mut c_void,
    index: usize,
    option: *mut ShownOption,
) -> bool {
    // SAFETY: Ruby passes its object space.
    let objspace = unsafe { from_ruby(objspace) };
    match with_vm_lock(objspace, || objspace.shown_option(index)) {
        Some(shown) => {
            // SAFETY: the shim passes a place for the option.
            unsafe { option.write(shown) };
            true
        }
        None => false,
    }
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_configure(
    objspace: *mut c_void,
    pairs: *const Pair,
    count: usize,
) -> *const c_char {
    // SAFETY: Ruby passes its object space and `count` pairs of texts.
    let (objspace, changes) = unsafe {
        let pairs = std::slice::from_raw_parts(pairs, count);
        let changes: Vec<_> = pairs.iter().map(|pair| pair.texts()).collect();
        (from_ruby(objspace), changes)
    };
    match with_vm_lock(objspace, || objspace.configure(&changes)) {
        Ok(()) => null(),
        Err(message) => objspace.keep_message(message),
    }
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_full_marking_allowed(objspace: *mut c_void) -> bool {
    // SAFETY: Ruby passes its object space.
    unsafe { from_ruby(objspace) }.full_marking_allowed.get()
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_allow_full_marking(objspace: *mut c_void, allowed: bool) {
    // SAFETY: Ruby passes its object space.
    unsafe { from_ruby(objspace) }
        .full_marking_allowed
        .set(allowed);
}

/// Says what became of the variables that tune Ruby's default collector.
///
/// # Safety
/// May be called at any time.
#[no_mangle]
unsafe extern "C" fn ashlar_explain_variables() {
    let environment = |name: &str| std::env::var(name).ok();
    for note in tuned(PaceOptions::default(), environment).notes {
        eprintln!("ashlar: {note}");
    }
}
