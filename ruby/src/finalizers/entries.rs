//! What Ruby calls about finalizers.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use super::{Finalizers, Job};
use crate::lock::Gvl;
use crate::ruby_calls::Value;

/// Uses the finalizers with the VM lock held; `with` must not call into Ruby.
fn locked<R>(gvl: Gvl, with: impl FnOnce(&mut Finalizers) -> R) -> R {
    gvl.with_vm_lock(|collector| with(&mut collector.heap.vm().finalizers.borrow_mut()))
}

#[no_mangle]
extern "C" fn ashlar_finalizers(gvl: Gvl, object: Value) -> Value {
    locked(gvl, |finalizers| finalizers.get(object)).unwrap_or(0)
}

/// Returns false when there is no memory.
#[no_mangle]
extern "C" fn ashlar_set_finalizers(gvl: Gvl, object: Value, array: Value) -> bool {
    locked(gvl, |finalizers| finalizers.insert(object, array)).is_ok()
}

#[no_mangle]
extern "C" fn ashlar_forget_finalizers(gvl: Gvl, object: Value) {
    locked(gvl, |finalizers| finalizers.remove(object));
}

/// The object whose finalizers are the oldest; 0 when no object has any.
#[no_mangle]
extern "C" fn ashlar_first_finalized(gvl: Gvl) -> Value {
    locked(gvl, |finalizers| finalizers.first()).unwrap_or(0)
}

/// Queues the finalizers of an object that lives on for a while.
#[no_mangle]
extern "C" fn ashlar_queue_finalizers(gvl: Gvl, object: Value) {
    gvl.with_vm_lock(|collector| collector.heap.vm().queue_finalizers(object));
}

/// Queues `free(data)`. Without memory for the queue it is called at once, as it is for
/// most objects.
#[no_mangle]
unsafe extern "C" fn ashlar_queue_free(
    gvl: Gvl,
    free: unsafe extern "C" fn(*mut c_void),
    data: *mut c_void,
) {
    let job = Job {
        free: Some(free),
        data,
        ..Job::of(0, 0)
    };
    let queued = gvl.with_vm_lock(|collector| {
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
extern "C" fn ashlar_jobs_wait(gvl: Gvl) -> bool {
    locked(gvl, |finalizers| !finalizers.waiting.is_empty())
}

/// Takes the next job; returns false when there is none, or no memory to run it inside
/// another one. The job's finalizers are roots until [`ashlar_job_done`]; jobs may nest.
#[no_mangle]
extern "C" fn ashlar_next_job(gvl: Gvl, job: &mut MaybeUninit<Job>) -> bool {
    let next = locked(gvl, Finalizers::begin);
    next.map(|next| job.write(next)).is_some()
}

#[no_mangle]
extern "C" fn ashlar_job_done(gvl: Gvl) {
    locked(gvl, |finalizers| finalizers.running.pop());
}
