//! Finalizers, and work that waits for the end of a collection.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr::null_mut;

use ashlar_wordmap::WordMap;

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
///
/// An object gets a place when it gets its finalizers; places rise, and are
/// the order in which finalizers run when the program ends.
///
/// * **F1** The objects in `places` are those in `objects`, and the places in
///   `objects` are those in `arrays`.
#[derive(Default)]
pub(crate) struct Finalizers {
    /// Object → place.
    places: WordMap,
    /// Place → object.
    objects: WordMap,
    /// Place → array of procs.
    arrays: WordMap,
    last_place: u64,
    waiting: VecDeque<Job>,
    /// The job being run: its array is a root as long.
    running: Vec<Job>,
}

impl Finalizers {
    /// Calls `visit` with every array that must be kept.
    pub(crate) fn each_value(&self, visit: impl FnMut(Value)) {
        let jobs = self.waiting.iter().chain(&self.running);
        let defined = self.arrays.values().map(|&array| array as Value);
        defined
            .chain(jobs.map(|job| job.finalizers))
            .for_each(visit);
    }

    /// Jobs that wait.
    pub(crate) fn waiting_jobs(&self) -> usize {
        self.waiting.len()
    }

    /// The array of an object.
    fn get(&self, object: Value) -> Option<Value> {
        let place = *self.places.get(object as u64)?;
        self.arrays.get(place).map(|&array| array as Value)
    }

    fn insert(&mut self, object: Value, finalizers: Value) {
        self.remove(object);
        self.last_place += 1;
        self.places.insert(object as u64, self.last_place);
        self.objects.insert(self.last_place, object as u64);
        self.arrays.insert(self.last_place, finalizers as u64);
    }

    fn remove(&mut self, object: Value) -> Option<Value> {
        let place = self.places.remove(object as u64)?;
        self.objects.remove(place);
        self.arrays.remove(place).map(|array| array as Value)
    }

    /// The object has moved; it keeps its place in the order.
    pub(crate) fn moved(&mut self, from: Value, to: Value) {
        if let Some(place) = self.places.remove(from as u64) {
            self.places.insert(to as u64, place);
            self.objects.insert(place, to as u64);
        }
    }

    /// Rewrites the arrays of procs.
    pub(crate) fn update(&mut self, location: impl Fn(Value) -> Value) {
        for array in self.arrays.values_mut() {
            *array = location(*array as Value) as u64;
        }
        for job in self.waiting.iter_mut().chain(&mut self.running) {
            job.finalizers = location(job.finalizers);
        }
    }

    /// Whose finalizers are the oldest.
    fn first(&self) -> Option<Value> {
        let (_, &object) = self.objects.first_key_value()?;
        Some(object as Value)
    }

    /// Turns the finalizers of a dead object into a job; false when it has none.
    pub(crate) fn queue(&mut self, object: Value, object_id: u64) -> bool {
        let Some(finalizers) = self.remove(object) else {
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

/// Uses the finalizers with Ruby's lock held.
///
/// # Safety
/// `objspace` is Ruby's object space; `with` must not call into Ruby.
unsafe fn locked<R>(objspace: *mut c_void, with: impl FnOnce(&mut Finalizers) -> R) -> R {
    // SAFETY: the caller's contract.
    let objspace = unsafe { from_ruby(objspace) };
    collect::with_vm_lock(objspace, || with(&mut objspace.finalizers.borrow_mut()))
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_finalizers(objspace: *mut c_void, object: Value) -> Value {
    // SAFETY: Ruby passes its object space.
    unsafe { locked(objspace, |finalizers| finalizers.get(object)) }.unwrap_or(0)
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_set_finalizers(objspace: *mut c_void, object: Value, array: Value) {
    // SAFETY: Ruby passes its object space.
    unsafe { locked(objspace, |finalizers| finalizers.insert(object, array)) };
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_forget_finalizers(objspace: *mut c_void, object: Value) {
    // SAFETY: Ruby passes its object space.
    unsafe { locked(objspace, |finalizers| finalizers.remove(object)) };
}

/// The object whose finalizers are the oldest, 0 when there is none.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_first_finalized(objspace: *mut c_void) -> Value {
    // SAFETY: Ruby passes its object space.
    unsafe { locked(objspace, |finalizers| finalizers.first()) }.unwrap_or(0)
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_queue_finalizers(objspace: *mut c_void, object: Value) {
    // SAFETY: Ruby passes its object space.
    let objspace = unsafe { from_ruby(objspace) };
    collect::with_vm_lock(objspace, || objspace.queue_finalizers(object));
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

/// Whether there is a job to take.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_jobs_wait(objspace: *mut c_void) -> bool {
    // SAFETY: Ruby passes its object space.
    unsafe { locked(objspace, |finalizers| !finalizers.waiting.is_empty()) }
}

/// Takes the next job; false when there is none. It is rooted until
/// [`ashlar_job_done`]; jobs may nest.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_next_job(objspace: *mut c_void, job: *mut Job) -> bool {
    // SAFETY: Ruby passes its object space.
    let next = unsafe {
        locked(objspace, |finalizers| {
            let next = finalizers.waiting.pop_front()?;
            finalizers.running.push(next);
            Some(next)
        })
    };
    match next {
        Some(next) => {
            // SAFETY: the shim passes a place for the job.
            unsafe { job.write(next) };
            true
        }
        None => false,
    }
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_job_done(objspace: *mut c_void) {
    // SAFETY: Ruby passes its object space.
    unsafe { locked(objspace, |finalizers| finalizers.running.pop()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finalizers_come_first_that_were_defined_first() {
        let mut finalizers = Finalizers::default();
        for object in [400, 80, 240, 160] {
            finalizers.insert(object, object + 8);
        }
        finalizers.remove(80);
        finalizers.insert(80, 88);
        finalizers.moved(240, 320);
        finalizers.update(|array| if array == 248 { 328 } else { array });
        let mut order = Vec::new();
        while let Some(object) = finalizers.first() {
            assert_eq!(finalizers.remove(object), Some(object + 8));
            order.push(object);
        }
        assert_eq!(order, [400, 320, 160, 80]);
        assert!(finalizers.places.is_empty() && finalizers.arrays.is_empty());
    }
}
