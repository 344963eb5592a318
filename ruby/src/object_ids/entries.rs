//! What Ruby calls about object ids.

use std::mem::MaybeUninit;

use ashlar_heap::Cell;

use crate::lock::{Gvl, Held};
use crate::ruby_calls::Value;

/// The id of an object; 0 when there is no memory.
#[no_mangle]
extern "C" fn ashlar_object_id(held: Held, object: Value, fresh: &mut MaybeUninit<bool>) -> u64 {
    let ids = &held.heap.vm().object_ids;
    let (id, is_fresh) = ids.borrow_mut().id_of(object).unwrap_or((0, false));
    fresh.write(is_fresh);
    id
}

/// The live object with this id, or 0.
#[no_mangle]
unsafe extern "C" fn ashlar_object_by_id(gvl: Gvl, id: u64) -> Value {
    gvl.with_vm_lock(|collector| {
        let heap = &collector.heap;
        let object = heap.vm().object_ids.borrow_mut().object(id);
        // SAFETY: objects leave the table when they are freed.
        let is_garbage = |object| heap.is_garbage(unsafe { Cell::from_address(object) });
        object.filter(|&object| !is_garbage(object)).unwrap_or(0)
    })
}

#[no_mangle]
extern "C" fn ashlar_next_object_id(gvl: Gvl) -> u64 {
    gvl.with_vm_lock(|collector| collector.heap.vm().object_ids.borrow().next)
}
