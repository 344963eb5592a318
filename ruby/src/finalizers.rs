//! Finalizers, and work that waits for the end of a collection.

use std::collections::{HashMap, TryReserveError, VecDeque};
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
///
/// Invariant: `waiting` has room for a job of every object in `in_order`, so
/// that a collection, which may run because memory is out, needs no more.
#[derive(Default)]
pub(crate) struct Finalizers {
    /// Object → index in `in_order`.
    by_object: HashMap<Value, usize>,
    /// Objects with their arrays of procs, in the order in which they got
    /// them: the one in which finalizers run when the program ends. `None`
    /// where an object has lost its own.
    in_order: Vec<Option<(Value, Value)>>,
    /// Nothing is left in `in_order` before this index.
    first: usize,
    waiting: VecDeque<Job>,
    /// The job being run: its array is a root as long.
    running: Vec<Job>,
}

impl Finalizers {
    /// Calls `visit` with every array that must be kept.
    pub(crate) fn each_value(&self, visit: impl FnMut(Value)) {
        let jobs = self.waiting.iter().chain(&self.running);
        let defined = self.in_order.iter().flatten();
        defined
            .map(|(_, finalizers)| *finalizers)
            .chain(jobs.map(|job| job.finalizers))
            .for_each(visit);
    }

    /// Jobs that wait.
    pub(crate) fn waiting_jobs(&self) -> usize {
        self.waiting.len()
    }

    /// The array of an object.
    fn get(&self, object: Value) -> Option<Value> {
        let index = *self.by_object.get(&object)?;
        self.in_order[index].map(|(_, finalizers)| finalizers)
    }

    fn insert(&mut self, object: Value, finalizers: Value) -> Result<(), TryReserveError> {
        self.by_object.try_reserve(1)?;
        self.waiting.try_reserve(self.by_object.len() + 1)?;
        self.in_order.try_reserve(1)?;
        self.remove(object);
        self.by_object.insert(object, self.in_order.len());
        self.in_order.push(Some((object, finalizers)));
        Ok(())
    }

    fn remove(&mut self, object: Value) -> Option<Value> {
        let index = self.by_object.remove(&object)?;
        let removed = self.in_order[index].take();
        if self.in_order.len() > 2 * self.by_object.len() {
            self.close_gaps();
        }
        removed.map(|(_, finalizers)| finalizers)
    }

    /// Takes the gaps out of `in_order`, in place.
    fn close_gaps(&mut self) {
        self.in_order.retain(Option::is_some);
        self.first = 0;
        for (index, (object, _)) in self.in_order.iter().flatten().enumerate() {
            if let Some(known) = self.by_object.get_mut(object) {
                *known = index;
            }
        }
    }

    /// Whose finalizers are the oldest.
    fn first(&mut self) -> Option<Value> {
        let gaps = self.in_order[self.first..]
            .iter()
            .take_while(|entry| entry.is_none());
        self.first += gaps.count();
        let (object, _) = (*self.in_order.get(self.first)?)?;
        Some(object)
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

    /// Queues a job beside those that there is room for already; false when
    /// memory is out.
    fn queue_free(&mut self, job: Job) -> bool {
        let has_room = self.waiting.try_reserve(self.by_object.len() + 1).is_ok();
        if has_room {
            self.waiting.push_back(job);
        }
        has_room
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

/// False when memory is out.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_set_finalizers(
    objspace: *mut c_void,
    object: Value,
    array: Value,
) -> bool {
    // SAFETY: Ruby passes its object space.
    unsafe { locked(objspace, |finalizers| finalizers.insert(object, array)) }.is_ok()
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

/// Queues the finalizers of an object that lives on for a while.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_queue_finalizers(objspace: *mut c_void, object: Value) {
    // SAFETY: Ruby passes its object space.
    let objspace = unsafe { from_ruby(objspace) };
    collect::with_vm_lock(objspace, || {
        // What its finalizers are told stays its id, if there is memory for that.
        drop(objspace.object_ids.borrow_mut().id_of(object));
        objspace.queue_finalizers(object);
    });
}

/// Queues `free(data)`; without memory for the queue it is called at once,
/// which is what happens to most objects.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_queue_free(
    objspace: *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    data: *mut c_void,
) {
    // SAFETY: Ruby passes its object space.
    let objspace = unsafe { from_ruby(objspace) };
    let queued = objspace.finalizers.borrow_mut().queue_free(Job {
        free: Some(free),
        data,
        finalizers: 0,
        object_id: 0,
    });
    if !queued {
        // SAFETY: Ruby passes the function with its argument.
        return unsafe { free(data) };
    }
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
            finalizers.insert(object, object + 8).unwrap();
        }
        finalizers.remove(80);
        finalizers.insert(80, 88).unwrap();
        let mut order = Vec::new();
        while let Some(object) = finalizers.first() {
            assert_eq!(finalizers.remove(object), Some(object + 8));
            order.push(object);
        }
        assert_eq!(order, [400, 240, 160, 80]);
        assert!(finalizers.by_object.is_empty() && finalizers.in_order.is_empty());
    }

    #[test]
    fn every_object_keeps_its_own_finalizers_while_gaps_are_closed() {
        let mut finalizers = Finalizers::default();
        for object in 0..1000 {
            finalizers.insert(object, object + 8).unwrap();
        }
        let is_kept = |object| object % 7 == 3;
        for object in (0..1000).filter(|&object| !is_kept(object)) {
            assert_eq!(finalizers.remove(object), Some(object + 8));
        }
        assert!(finalizers.in_order.len() <= 2 * finalizers.by_object.len());
        for object in 0..1000 {
            let expected = is_kept(object).then_some(object + 8);
            assert_eq!(finalizers.get(object), expected);
        }
        assert_eq!(finalizers.first(), Some(3));
    }

    #[test]
    fn there_is_room_for_the_jobs_of_all_objects_before_they_die() {
        let mut finalizers = Finalizers::default();
        for object in 0..1000 {
            finalizers.insert(object, object).unwrap();
            if object % 3 == 0 {
                finalizers.queue(object, 0);
            }
            let needed = finalizers.waiting.len() + finalizers.by_object.len();
            assert!(finalizers.waiting.capacity() >= needed);
        }
    }
}
