//! Marking on behalf of Ruby's own tracing functions, and write barriers.

use std::ffi::c_void;
use std::ptr::null_mut;

use ashlar_heap::{Trace, Tracer};

use crate::current_tracer;
use crate::lock::{Gvl, Held};
use crate::object_model::Object;
use crate::ruby_calls::{cell, is_object, Value};

#[no_mangle]
unsafe extern "C" fn ashlar_mark(_objspace: *mut c_void, value: Value) {
    if is_object(value) {
        // SAFETY: Ruby marks objects of its object space, in a collection.
        unsafe { current_tracer::with(|tracer| tracer.mark(cell(value))) };
    }
}

/// Marks an object and pins it, because the reference to it cannot be rewritten.
#[no_mangle]
unsafe extern "C" fn ashlar_mark_and_pin(_objspace: *mut c_void, value: Value) {
    if is_object(value) {
        // SAFETY: Ruby marks objects of its object space, in a collection.
        unsafe { current_tracer::with(|tracer| tracer.pin(cell(value))) };
    }
}

/// Marks what is at `place`, or rewrites it while objects move.
#[no_mangle]
unsafe extern "C" fn ashlar_mark_and_move(held: Held, place: &mut Value) {
    if !held.heap.is_moving() {
        // SAFETY: Ruby calls in a collection, and passes the place of a reference.
        return unsafe { ashlar_mark(null_mut(), *place) };
    }
    let location = held.heap.location(*place);
    if is_object(*place) && location != *place {
        *place = location;
    }
}

/// Marks the cell that `word`, from the stack of a thread, may refer to. Code that is
/// being compiled or loaded is on the stack of the thread that does it, and is traced
/// again.
#[no_mangle]
unsafe extern "C" fn ashlar_mark_maybe(_objspace: *mut c_void, word: Value) {
    let mark = |tracer: &mut Tracer<'_>| {
        if let Some(cell) = tracer.mark_conservatively(word) {
            if Object::new(cell).is_unfinished_code() {
                tracer.trace_anew(cell);
            }
        }
    };
    // SAFETY: Ruby calls in a collection.
    unsafe { current_tracer::with(mark) };
}

#[no_mangle]
unsafe extern "C" fn ashlar_mark_weak(_objspace: *mut c_void, reference: *mut Value) {
    // SAFETY: Ruby calls in a collection, and passes a valid reference.
    unsafe {
        if is_object(reference.read()) {
            current_tracer::with(|tracer| tracer.mark_weak(reference));
        }
    }
}

#[no_mangle]
unsafe extern "C" fn ashlar_write_barrier(gvl: Gvl, parent: Value, child: Value) {
    // SAFETY: Ruby passes two objects; immediates are filtered before.
    unsafe {
        if gvl.objspace().needs_barrier(cell(parent), cell(child)) {
            write_barrier_slowly(gvl, parent, child);
        }
    }
}

/// Tells the tracer that the code it runs, perhaps an extension's, has stored into
/// `parent`; false when nothing is being traced.
///
/// # Safety
/// `parent` is an object of this heap, and the calling thread holds the GVL.
unsafe fn tracing_stored(parent: Value) -> bool {
    // SAFETY: `parent` is an object; this thread has the GVL, so that no other one
    // traces.
    unsafe { current_tracer::with(|tracer| tracer.write_barrier_all(cell(parent))) }
}

/// # Safety
/// Both are objects of this heap.
#[cold]
#[inline(never)]
unsafe fn write_barrier_slowly(gvl: Gvl, parent: Value, child: Value) {
    // SAFETY: the caller's contract: two objects, and the GVL.
    unsafe {
        if tracing_stored(parent) {
            return;
        }
        let (parent, child) = (cell(parent), cell(child));
        gvl.with_vm_lock_no_collection(|collector| {
            collector.heap.write_barrier_slowly(parent, child);
        });
    }
}

#[no_mangle]
unsafe extern "C" fn ashlar_unprotect(gvl: Gvl, object: Value) {
    // SAFETY: Ruby calls with the GVL and passes an object.
    unsafe {
        let cell = cell(object);
        // Said again: no lock is needed to see that.
        if gvl.objspace().is_unprotected(cell)
            || current_tracer::with(|tracer| tracer.unprotect(cell))
        {
            return;
        }
        gvl.with_vm_lock_no_collection(|collector| collector.heap.unprotect(cell));
    }
}

/// Marks the object as one into which any number of references may have been stored.
#[no_mangle]
unsafe extern "C" fn ashlar_remember(gvl: Gvl, object: Value) {
    // SAFETY: Ruby calls with the GVL and passes an object.
    unsafe {
        if tracing_stored(object) {
            return;
        }
        let cell = cell(object);
        gvl.with_vm_lock_no_collection(|collector| collector.heap.write_barrier_all(cell));
    }
}
