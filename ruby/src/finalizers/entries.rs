//! What Ruby calls about finalizers.

use std::ffi::c_void;

use super::{Finalizers, Job};
use crate::lock::Gvl;
use crate::ruby_calls::Value;

/// Uses the finalizers with the VM lock held.
///
/// # Safety
/// `objspace` comes from `ashlar_objspace_new`, and the calling thread holds the GVL;
/// `with` must not call into Ruby.
unsafe fn locked<R>(objspace: *mut c_void, with: impl FnOnce(&mut Finalizers) -> R) -> R {
    // SAFETY: `objspace` is Ruby's, and this thread has the GVL.
    unsafe { Gvl::of_caller(objspace) }
        .with_vm_lock(|collector| with(&mut collector.heap.vm().finalizers.borrow_mut()))
}

#[no_mangle]
unsafe extern "C" fn ashlar_finalizers(objspace: *mut c_void, object: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe { locked(objspace, |finalizers| finalizers.get(object)) }.unwrap_or(0)
}

/// Returns false when there is no memory.
#[no_mangle]
unsafe extern "C" fn ashlar_set_finalizers(
    objspace: *mut c_void,
    object: Value,
    array: Value,
) -> bool {
    // SAFETY: Ruby calls with the GVL.
    unsafe { locked(objspace, |finalizers| finalizers.insert(object, array)) }.is_ok()
}

#[no_mangle]
unsafe extern "C" fn ashlar_forget_finalizers(objspace: *mut c_void, object: Value) {
    // SAFETY: Ruby calls with the GVL.
    unsafe { locked(objspace, |finalizers| finalizers.remove(object)) };
}

/// The object whose finalizers are the oldest; 0 when no object has any.
#[no_mangle]
unsafe extern "C" fn ashlar_first_finalized(objspace: *mut c_void) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe { locked(objspace, |finalizers| finalizers.first()) }.unwrap_or(0)
}

/// Queues the finalizers of an object that lives on for a while.
#[no_mangle]
unsafe extern "C" fn ashlar_queue_finalizers(objspace: *mut c_void, object: Value) {
    // SAFETY: Ruby calls with the GVL.
    unsafe { Gvl::of_caller(objspace) }.with_vm_lock(|collector| {
        let ruby = collector.heap.vm();
        // The id that its finalizers get stays its id, if there is memory for that.
        let _ = ruby.object_ids.borrow_mut().id_of(object);
        ruby.queue_finalizers(object);
    });
}

/// Queues `free(data)`. Without memory for the queue it is called at once, as it is for
/// most objects.
#[no_mangle]
unsafe extern "C" fn ashlar_queue_free(
    objspace: *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    data: *mut c_void,
) {
    let job = Job {
        free: Some(free),
        data,
        finalizers: 0,
        object_id: 0,
    };
    // SAFETY: Ruby calls with the GVL.
    let queued = unsafe { Gvl::of_caller(objspace) }.with_vm_lock(|collector| {
        let ruby = collector.heap.vm();
        let queued = ruby.finalizers.borrow_mut().queue_free(job);
        if queued {
            ruby.trigger_jobs();
        }
        queued
    });
    if !queued {
        // SAFETY: Ruby passes the function with its argument.
        unsafe { free(data) };
    }
}

/// Whether there is a job to take.
#[no_mangle]
unsafe extern "C" fn ashlar_jobs_wait(objspace: *mut c_void) -> bool {
    // SAFETY: Ruby calls with the GVL.
    unsafe { locked(objspace, |finalizers| !finalizers.waiting.is_empty()) }
}

/// Takes the next job; returns false when there is none, or no memory to run it inside
/// another one. The job's finalizers are roots until [`ashlar_job_done`]; jobs may nest.
#[no_mangle]
unsafe extern "C" fn ashlar_next_job(objspace: *mut c_void, job: *mut Job) -> bool {
    // SAFETY: Ruby calls with the GVL.
    let next = unsafe { locked(objspace, Finalizers::begin) };
    match next {
        Some(next) => {
            // SAFETY: the shim passes a place for the job.
            unsafe { job.write(next) };
            true
        }
        None => false,
    }
}

#[no_mangle]
unsafe extern "C" fn ashlar_job_done(objspace: *mut c_void) {
    // SAFETY: Ruby calls with the GVL.
    unsafe { locked(objspace, |finalizers| finalizers.running.pop()) };
}
