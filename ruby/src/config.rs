//! `GC.config`: the options, shown and changed while Ruby runs.

use std::ffi::{c_char, c_void, CString};
use std::ptr::{null, null_mut};

use ashlar_heap::{refusals, Policy};

use crate::collector::Collector;
use crate::heap_profile;
use crate::knobs::KNOBS;
use crate::lock::Gvl;
use crate::message;
use crate::options::{default_pace, MallocSource, Options};
use crate::ruby_gc_variables::tuned;
use crate::spare_memory::with_spare;

/// What an option's value is: `enum ashlar_option_kind`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
enum Kind {
    Number,
    BytesOrNone,
    Switch,
    Word,
    Thousandths,
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

impl Collector {
    fn options(&self) -> Options {
        Options {
            pace: *self.heap.pace().options(),
            pauses: self.heap.pauses().options(),
            parallel: self.heap.parallel_marking(),
            stress: self.stress_option.get(),
            malloc: self.malloc,
            policy: self.heap.space().policy(),
            huge_pages: self.heap.space().region().has_huge_pages(),
            refuse: refusals::current(),
        }
    }

    fn configure(&self, changes: &[(String, String)]) -> Result<(), String> {
        let change = |name: &str| {
            let change = changes.iter().find(|(changed, _)| changed == name);
            change.map(|(_, value)| value.clone())
        };
        let options = self.options().changed(change)?;
        heap_profile::configure(self, change)?;
        self.heap.set_pace_options(options.pace);
        self.heap.pauses().set_options(options.pauses);
        self.heap.set_parallel_marking(options.parallel);
        if options.policy != self.heap.space().policy() {
            self.heap.space().set_policy(options.policy);
        }
        self.heap
            .space()
            .region()
            .set_huge_pages(options.huge_pages);
        self.set_payload_budget();
        if options.stress != self.stress_option.get() {
            self.stress_option.set(options.stress);
            self.apply_stress(KNOBS.stress_is_on());
        }
        if change("refuse").is_some() {
            self.show_refusal(options.refuse);
            refusals::refuse(options.refuse);
        }
        Ok(())
    }

    /// Keeps the text that [`Collector::shown_option`] shows.
    pub(crate) fn show_refusal(&self, refusal: Option<refusals::Refusal>) {
        let text = refusal.map_or("none".to_owned(), |refusal| refusal.to_string());
        *self.shown_refusal.borrow_mut() = CString::new(text).unwrap_or_default();
    }

    fn shown_option(&self, index: usize) -> Option<ShownOption> {
        let Options {
            pace,
            pauses,
            parallel,
            stress,
            malloc,
            policy,
            huge_pages,
            refuse: _,
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
        let policy = match policy {
            Policy::FirstFit => c"first-fit",
            Policy::NextFit => c"next-fit",
            Policy::BestFit => c"best-fit",
            Policy::SegregatedFit => c"segregated-fit",
        };
        let limit_bytes = pace.memory_limit_bytes.unwrap_or(0);
        Some(match index {
            0 => match pace.space_overhead_percent {
                Some(percent) => number(c"space_overhead", Kind::Number, percent),
                None => ShownOption {
                    word: c"auto".as_ptr(),
                    ..number(c"space_overhead", Kind::Word, 0)
                },
            },
            1 => number(
                c"exchange_rate",
                Kind::Thousandths,
                pace.exchange_rate_thousandths,
            ),
            2 => number(c"memory_limit", Kind::BytesOrNone, limit_bytes),
            3 => number(c"heap_min", Kind::Number, pace.heap_min_bytes),
            4 => number(c"heap_init", Kind::Number, pace.heap_init_bytes),
            5 => number(c"nursery_min", Kind::Number, pace.nursery_min_bytes),
            6 => number(c"nursery_max", Kind::Number, pace.nursery_max_bytes),
            7 => number(
                c"incremental",
                Kind::Switch,
                usize::from(pauses.incremental),
            ),
            8 => number(
                c"slice_us",
                Kind::Number,
                pauses.slice_time.as_micros() as usize,
            ),
            9 => number(c"collect_every", Kind::Number, stress.collect_every),
            10 => number(c"slice_cells", Kind::Number, stress.slice_cells),
            11 => number(c"verify", Kind::Switch, usize::from(stress.verify)),
            12 => number(c"poison", Kind::Switch, usize::from(stress.poison)),
            13 => number(c"no_minor", Kind::Switch, usize::from(stress.no_minor)),
            14 => number(c"look_ahead", Kind::Switch, usize::from(stress.look_ahead)),
            15 => {
                let on = usize::from(stress.move_everything);
                number(c"move_everything", Kind::Switch, on)
            }
            16 => number(c"threads", Kind::Number, parallel.threads),
            17 => number(c"parallel_cells", Kind::Number, parallel.cells_min),
            18 => ShownOption {
                word: malloc.as_ptr(),
                ..number(c"malloc", Kind::Word, 0)
            },
            19 => ShownOption {
                word: heap_profile::state().as_ptr(),
                ..number(c"profile", Kind::Word, 0)
            },
            20 => {
                let bytes = heap_profile::period_bytes() as usize;
                number(c"profile_bytes", Kind::Number, bytes)
            }
            21 => {
                let shown = usize::from(heap_profile::has_command_line());
                number(c"profile_command_line", Kind::Switch, shown)
            }
            22 => ShownOption {
                word: policy.as_ptr(),
                ..number(c"policy", Kind::Word, 0)
            },
            23 => number(c"huge_pages", Kind::Switch, usize::from(huge_pages)),
            24 => ShownOption {
                word: self.shown_refusal.borrow().as_ptr(),
                ..number(c"refuse", Kind::Word, 0)
            },
            25 => {
                let calls = refusals::refused_calls() as usize;
                number(c"refused_calls", Kind::Number, calls)
            }
            _ => return None,
        })
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
    // SAFETY: Ruby calls with the GVL.
    let gvl = unsafe { Gvl::of_caller(objspace) };
    match gvl.with_vm_lock(|collector| collector.shown_option(index)) {
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
    is_memory_out: *mut bool,
) -> *mut c_char {
    with_spare(|| {
        // SAFETY: Ruby calls with the GVL and `count` pairs of texts.
        let (gvl, changes) = unsafe {
            let pairs = std::slice::from_raw_parts(pairs, count);
            let changes: Vec<_> = pairs.iter().map(|pair| pair.texts()).collect();
            (Gvl::of_caller(objspace), changes)
        };
        match gvl.with_vm_lock(|collector| collector.configure(&changes)) {
            Ok(()) => null_mut(),
            Err(text) => {
                // SAFETY: the shim passes a place for the answer.
                unsafe { is_memory_out.write(text == heap_profile::NO_MEMORY) };
                message::hand_over(text)
            }
        }
    })
}

#[no_mangle]
extern "C" fn ashlar_full_marking_allowed() -> bool {
    KNOBS.full_marking_allowed.is_on()
}

#[no_mangle]
extern "C" fn ashlar_allow_full_marking(allowed: bool) {
    KNOBS.full_marking_allowed.set(allowed);
}

/// Says what became of the variables that tune Ruby's default collector.
///
/// # Safety
/// May be called at any time.
#[no_mangle]
unsafe extern "C" fn ashlar_explain_variables() {
    let environment = |name: &str| std::env::var(name).ok();
    for note in tuned(default_pace(), environment).notes {
        eprintln!("ashlar: {note}");
    }
}
