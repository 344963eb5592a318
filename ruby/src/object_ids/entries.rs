//! What Ruby calls about object ids.

use std::ffi::c_void;

use ashlar_heap::Cell;

use crate::lock::{held, Gvl};
use crate::ruby_calls::Value;

/// The id of an object; 0 when there is no memory.
#[no_mangle]
unsafe extern "C" fn ashlar_object_id(
    objspace: *mut c_void,
    object: Value,
    fresh: *mut bool,
) -> u64 {
    // SAFETY: the shim holds the VM lock.
    let ids = unsafe { &held(objspace).heap.vm().object_ids };
    let (id, is_fresh) = ids.borrow_mut().id_of(object).unwrap_or((0, false));
    // SAFETY: the shim passes a place for the answer.
    unsafe { fresh.write(is_fresh) };
    id
}

/// The live object with this id, or 0.
#[no_mangle]
unsafe extern "C" fn ashlar_object_by_id(objspace: *mut c_void, id: u64) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe { Gvl::of_caller(objspace) }.with_vm_lock(|collector| {
        let heap = &collector.heap;
        let object = heap.vm().object_ids.borrow_mut().object(id);
        // SAFETY: objects leave the table when they are freed.
        let is_garbage = |object| heap.is_garbage(unsafe { Cell::from_address(object) });
        object.filter(|&object| !is_garbage(object)).unwrap_or(0)
    })
}

#[no_mangle]
unsafe extern "C" fn ashlar_next_object_id(objspace: *mut c_void) -> u64 {
    // SAFETY: Ruby calls with the GVL.
    unsafe { Gvl::of_caller(objspace) }
        .with_vm_lock(|collector| collector.heap.vm().object_ids.borrow().next)
}
