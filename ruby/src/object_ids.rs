//! Object ids: numbers that are never given twice.

use std::collections::HashMap;
use std::ffi::c_void;

use ashlar_heap::layout::region::Cell;

use crate::collect::with_vm_lock;
use crate::objspace::from_ruby;
use crate::ruby_calls::Value;

/// Ids are multiples of this, so that none looks like an immediate.
const STEP: u64 = 8;

/// Both directions of the table.
pub(crate) struct ObjectIds {
    by_object: HashMap<Value, u64>,
    by_id: HashMap<u64, Value>,
    next: u64,
}

impl Default for ObjectIds {
    fn default() -> Self {
        Self {
            by_object: HashMap::new(),
            by_id: HashMap::new(),
            next: STEP,
        }
    }
}

impl ObjectIds {
    /// The id of an object, and whether it has just been given.
    pub(crate) fn id_of(&mut self, object: Value) -> (u64, bool) {
        if let Some(&id) = self.by_object.get(&object) {
            return (id, false);
        }
        let id = self.next;
        self.next += STEP;
        self.by_object.insert(object, id);
        self.by_id.insert(id, object);
        (id, true)
    }

    /// The object has moved.
    pub(crate) fn moved(&mut self, from: Value, to: Value) {
        if let Some(id) = self.by_object.remove(&from) {
            self.by_object.insert(to, id);
            self.by_id.insert(id, to);
        }
    }

    /// The object is dead.
    pub(crate) fn forget(&mut self, object: Value) {
        if let Some(id) = self.by_object.remove(&object) {
            self.by_id.remove(&id);
        }
    }
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_object_id(
    objspace: *mut c_void,
    object: Value,
    fresh: *mut bool,
) -> u64 {
    // SAFETY: Ruby passes its object space and a place for the answer; the
    // shim holds the lock.
    unsafe {
        let (id, is_fresh) = from_ruby(objspace).object_ids.borrow_mut().id_of(object);
        fresh.write(is_fresh);
        id
    }
}

/// The live object with this id, or 0.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_object_by_id(objspace: *mut c_void, id: u64) -> Value {
    // SAFETY: Ruby passes its object space.
    let objspace = unsafe { from_ruby(objspace) };
    with_vm_lock(objspace, || {
        let ids = objspace.object_ids.borrow();
        let object = ids.by_id.get(&id).copied();
        // SAFETY: objects leave the table when they are freed.
        let is_garbage = |object| unsafe { objspace.heap.is_garbage(Cell::from_address(object)) };
        object.filter(|&object| !is_garbage(object)).unwrap_or(0)
    })
}

/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_next_object_id(objspace: *mut c_void) -> u64 {
    // SAFETY: Ruby passes its object space.
    let objspace = unsafe { from_ruby(objspace) };
    with_vm_lock(objspace, || objspace.object_ids.borrow().next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_stays_and_is_never_given_again() {
        let mut ids = ObjectIds::default();
        let (first, fresh) = ids.id_of(40);
        assert!(fresh);
        assert_eq!(ids.id_of(40), (first, false));
        ids.moved(40, 80);
        assert_eq!(ids.id_of(80), (first, false));
        assert_eq!(ids.by_id[&first], 80);
        ids.forget(80);
        let (second, fresh) = ids.id_of(40);
        assert!(fresh && second != first);
    }
}
