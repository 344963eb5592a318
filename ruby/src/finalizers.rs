//! Finalizers, and work that waits for the end of a collection.

use std::collections::{HashMap, VecDeque};
use std::ffi::c_void;
use std::ptr::null_mut;

use crate::collect;
use crate::objspace::from_ruby;
use crate::ruby_calls::Value;

/// One piece of work: `struct ashlar_job`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Job {
    free: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
    finalizers: Value,
    object_id: u64,
}

/// Which object has which finalizers, and the jobs that wait.
#[derive(Default)]
pub(crate) struct Finalizers {
    /// Object → array of procs.
    by_object: HashMap<Value, Value>,
    waiting: VecDeque<Job>,
    /// The job being run: its array is a root as long.
    running: Vec<Job>,
}

impl Finalizers {
    /// Calls `visit` with every array that must be kept.
    pub(crate) fn each_value(&self, visit: impl FnMut(Value)) {
        let jobs = self.waiting.iter().chain(&self.running);
        self.by_object
            .values()
            .copied()
            .chain(jobs.map(|job| job.finalizers))
            .for_each(visit);
    }

    /// Jobs that wait.
    pub(crate) fn waiting_jobs(&self) -> usize {
        self.waiting.len()
    }

    /// Turns the finalizers of a dead object into a job; false when it has none.
    pub(crate) fn queue(&mut self, object: Value, object_id: u64) -> bool {
        let Some(finalizers) = self.by_object.remove(&object) else {
            return false;
        };
        self.waiting.push_back(Job {
            free: None,
            data: null_mut(),
            finalizers,
            object_id,
        });
        true
    }
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_finalizers(objspace: *mut c_void, object: Value) -> Value {
    // SAFETY: Ruby passes its object space.
    let finalizers = unsafe { from_ruby(objspace) }.finalizers.borrow();
    finalizers.by_object.get(&object).copied().unwrap_or(0)
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_set_finalizers(objspace: *mut c_void, object: Value, array: Value) {
    // SAFETY: Ruby passes its object space.
    let mut finalizers = unsafe { from_ruby(objspace) }.finalizers.borrow_mut();
    finalizers.by_object.insert(object, array);
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_forget_finalizers(objspace: *mut c_void, object: Value) {
    // SAFETY: Ruby passes its object space.
    let mut finalizers = unsafe { from_ruby(objspace) }.finalizers.borrow_mut();
    finalizers.by_object.remove(&object);
}

/// Any object with finalizers, 0 when there is none.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_any_finalized(objspace: *mut c_void) -> Value {
    // SAFETY: Ruby passes its object space.
    let finalizers = unsafe { from_ruby(objspace) }.finalizers.borrow();
    finalizers.by_object.keys().next().copied().unwrap_or(0)
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_queue_finalizers(objspace: *mut c_void, object: Value) {
    // SAFETY: Ruby passes its object space.
    unsafe { from_ruby(objspace) }.queue_finalizers(object);
}

/// Queues `free(data)`.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_queue_free(
    objspace: *mut c_void,
    free: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
) {
    // SAFETY: Ruby passes its object space.
    let objspace = unsafe { from_ruby(objspace) };
    objspace.finalizers.borrow_mut().waiting.push_back(Job {
        free,
        data,
        finalizers: 0,
        object_id: 0,
    });
    objspace.timing.note_finalizers();
    collect::trigger_finalizers(objspace);
}

/// Takes the next job; false when there is none. It is rooted until
/// [`ashlar_job_done`]; jobs may nest.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_next_job(objspace: *mut c_void, job: *mut Job) -> bool {
    // SAFETY: Ruby passes its object space.
    let mut finalizers = unsafe { from_ruby(objspace) }.finalizers.borrow_mut();
    let Some(next) = finalizers.waiting.pop_front() else {
        return false;
    };
    finalizers.running.push(next);
    // SAFETY: the shim passes a place for the job.
    unsafe { job.write(next) };
    true
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_job_done(objspace: *mut c_void) {
    // SAFETY: Ruby passes its object space.
    unsafe { from_ruby(objspace) }
        .finalizers
        .borrow_mut()
        .running
        .pop();
}
