//! `GC.config`: the options, shown and changed while Ruby runs.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use ashlar_heap::options::{Unit, Value};
use ashlar_heap::refusals;

use crate::collector::Collector;
use crate::heap_profile;
use crate::knobs::KNOBS;
use crate::lock::Gvl;
use crate::message;
use crate::options::{default_pace, Options};
use crate::ruby_gc_variables::{overruled, tuned, Tuned};
use crate::spare_memory::with_spare;

/// The kind of an option's value: `enum ashlar_option_kind`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
enum Kind {
    Number,
    Thousandths,
    Switch,
    Word,
}

/// One option: `struct ashlar_option`.
#[repr(C)]
pub(crate) struct ShownOption {
    name: *const u8,
    name_bytes: usize,
    kind: Kind,
    number: usize,
    word: *mut c_char,
}

impl ShownOption {
    fn new(name: &'static str, value: Value) -> Self {
        let (kind, number, word) = match value {
            Value::Switch(is_on) => (Kind::Switch, usize::from(is_on), null_mut()),
            Value::Number(Unit::Thousandth, number) => (Kind::Thousandths, number, null_mut()),
            Value::Number(_, number) => (Kind::Number, number, null_mut()),
            Value::Text(text) => (Kind::Word, 0, message::hand_over(text.into_owned())),
        };
        Self {
            name: name.as_ptr(),
            name_bytes: name.len(),
            kind,
            number,
            word,
        }
    }
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
            // SAFETY: the text has this many bytes.
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
    fn configure(&self, changes: &[(String, String)]) -> Result<(), String> {
        let change = |name: &str| {
            let change = changes.iter().find(|(changed, _)| changed == name);
            change.map(|(_, value)| value.clone())
        };
        let old = self.options.get();
        let options = old.changed(change)?;
        heap_profile::configure(self, &options, change("profile"))?;
        self.apply(options);
        if options.heap.pace.memory_limit_bytes != old.heap.pace.memory_limit_bytes {
            self.forget_limit_warning();
        }
        self.set_payloads_due();
        if options.heap.stress != old.heap.stress {
            self.apply_stress(KNOBS.stress_is_on());
        }
        if change("stress").is_some() {
            refusals::refuse(options.heap.refuse);
        }
        Ok(())
    }
}

#[no_mangle]
extern "C" fn ashlar_option(gvl: Gvl, index: usize, option: &mut MaybeUninit<ShownOption>) -> bool {
    let options = gvl.with_vm_lock(|collector| collector.options.get());
    with_spare(|| {
        let shown = options.shown().nth(index);
        let shown = shown.map(|(name, value)| option.write(ShownOption::new(name, value)));
        shown.is_some()
    })
}

#[no_mangle]
unsafe extern "C" fn ashlar_configure(
    gvl: Gvl,
    pairs: *const Pair,
    count: usize,
    is_memory_out: &mut MaybeUninit<bool>,
) -> *mut c_char {
    with_spare(|| {
        // SAFETY: Ruby calls with `count` pairs of texts.
        let changes: Vec<_> = unsafe {
            let pairs = std::slice::from_raw_parts(pairs, count);
            pairs.iter().map(|pair| pair.texts()).collect()
        };
        match gvl.with_vm_lock(|collector| collector.configure(&changes)) {
            Ok(()) => null_mut(),
            Err(text) => {
                is_memory_out.write(text == heap_profile::NO_MEMORY);
                message::hand_over(text)
            }
        }
    })
}

/// Prints what the variables do that tune Ruby's default collector.
#[no_mangle]
extern "C" fn ashlar_explain_variables() {
    let environment = |name: &str| std::env::var(name).ok();
    let untuned = default_pace();
    let Tuned { pace, notes } = tuned(untuned, environment);
    // The process has ended at its start if a variable has an impossible value.
    let in_force = Options::from_environment(environment).map_or(pace, |options| options.heap.pace);
    let overruled = overruled(&untuned, &pace, &in_force);
    for line in notes.iter().chain(&overruled) {
        message::print(line);
    }
}
