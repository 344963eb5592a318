//! Ruby's functions that the collector calls: `struct ashlar_ruby_calls` of
//! `shim/ashlar_ruby.h`.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};

use ashlar_heap::Cell;

/// A Ruby value: an object's address, or an immediate.
pub(crate) type Value = usize;

/// Whether `value` is an object in the heap. Immediates have one of the low three bits set,
/// except for `false`, which is 0.
///
/// One test covers both: subtracting 8 from 0 sets the highest bit, and no address of a
/// program has that bit.
#[inline(always)]
pub(crate) fn is_object(value: Value) -> bool {
    const NONE_OF: usize = 7 | 1 << (usize::BITS - 1);
    value.wrapping_sub(8) & NONE_OF == 0
}

/// The cell of an object.
///
/// # Safety
/// `value` must be an object of this heap.
#[inline(always)]
pub(crate) unsafe fn cell(value: Value) -> Cell {
    // SAFETY: the value is an object of this heap.
    unsafe { Cell::from_address(value) }
}

/// Ruby's functions.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RubyCalls {
    pub(crate) mark_roots: unsafe extern "C" fn(*mut c_void, *mut *const c_char),
    pub(crate) mark_children: unsafe extern "C" fn(*mut c_void, Value),
    pub(crate) finish_marking: unsafe extern "C" fn(),
    pub(crate) save_machine_context: unsafe extern "C" fn(),
    pub(crate) shape_by_id: unsafe extern "C" fn(u32) -> *const u8,
    pub(crate) proc_class: unsafe extern "C" fn() -> Value,
    pub(crate) free_weak_references: unsafe extern "C" fn(Value),
    pub(crate) free_object: unsafe extern "C" fn(*mut c_void, Value) -> bool,
    pub(crate) event_hook: unsafe extern "C" fn(Value, u32),
    pub(crate) vm_lock: unsafe extern "C" fn() -> c_uint,
    pub(crate) vm_unlock: unsafe extern "C" fn(c_uint),
    pub(crate) vm_lock_no_barrier: unsafe extern "C" fn() -> c_uint,
    pub(crate) vm_unlock_no_barrier: unsafe extern "C" fn(c_uint),
    pub(crate) vm_barrier: unsafe extern "C" fn(),
    pub(crate) multi_ractor: unsafe extern "C" fn() -> bool,
    pub(crate) forget_called_methods: unsafe extern "C" fn(),
    pub(crate) loaded_files: unsafe extern "C" fn() -> usize,
    pub(crate) thread_has_gvl: unsafe extern "C" fn() -> c_int,
    pub(crate) optimal_size: unsafe extern "C" fn(Value) -> usize,
    pub(crate) shape_in_width: unsafe extern "C" fn(Value, usize) -> u32,
    pub(crate) set_shape: unsafe extern "C" fn(Value, u32),
    pub(crate) move_generic_variables: unsafe extern "C" fn(Value, Value),
    pub(crate) begin_updating: unsafe extern "C" fn(),
    pub(crate) update_object: unsafe extern "C" fn(*mut c_void, Value),
    pub(crate) update_vm: unsafe extern "C" fn(*mut c_void),
    pub(crate) prepare_object: unsafe extern "C" fn(Value),
    pub(crate) trigger_finalizers: unsafe extern "C" fn(),
    pub(crate) profile_frames: unsafe extern "C" fn(c_int, c_int, *mut Value, *mut c_int) -> c_int,
    pub(crate) name_samples_soon: unsafe extern "C" fn(),
    pub(crate) reachable_from_roots:
        unsafe extern "C" fn(unsafe extern "C" fn(*const c_char, Value, *mut c_void), *mut c_void),
    pub(crate) reachable_from:
        unsafe extern "C" fn(Value, unsafe extern "C" fn(Value, *mut c_void), *mut c_void),
    pub(crate) memory_of: unsafe extern "C" fn(Value) -> usize,
}

impl RubyCalls {
    /// Calls `visit` with each root that Ruby knows, and the name of its category.
    ///
    /// # Safety
    /// The calling thread holds the VM lock, and no collection runs.
    pub(crate) unsafe fn each_root<F: FnMut(&'static CStr, Value)>(&self, mut visit: F) {
        unsafe extern "C" fn each<F: FnMut(&'static CStr, Value)>(
            category: *const c_char,
            value: Value,
            visit: *mut c_void,
        ) {
            // SAFETY: `visit` is the function below; categories are texts that are never freed.
            unsafe { (*visit.cast::<F>())(CStr::from_ptr(category), value) };
        }
        // SAFETY: the caller's contract; `visit` outlives the call.
        unsafe { (self.reachable_from_roots)(each::<F>, (&raw mut visit).cast()) };
    }

    /// Calls `visit` with each value that an object refers to, as Ruby says.
    ///
    /// # Safety
    /// As for [`RubyCalls::each_root`]; the object is live.
    pub(crate) unsafe fn each_reference<F: FnMut(Value)>(&self, object: Value, mut visit: F) {
        unsafe extern "C" fn each<F: FnMut(Value)>(value: Value, visit: *mut c_void) {
            // SAFETY: `visit` is the function below.
            unsafe { (*visit.cast::<F>())(value) };
        }
        // SAFETY: the caller's contract; `visit` outlives the call.
        unsafe { (self.reachable_from)(object, each::<F>, (&raw mut visit).cast()) };
    }
}

/// Ruby's numbers for the collector's events.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RubyEvents {
    pub(crate) gc_start: u32,
    pub(crate) gc_end_mark: u32,
    pub(crate) gc_end_sweep: u32,
    pub(crate) gc_enter: u32,
    pub(crate) gc_exit: u32,
    pub(crate) free_object: u32,
}
