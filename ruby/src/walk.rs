//! Walking the heap on behalf of Ruby, whose visitors may allocate and raise:
//! they get a snapshot.

use std::ffi::c_void;
use std::ptr::{null_mut, slice_from_raw_parts_mut};

use crate::collect;
use crate::objspace::from_ruby;
use crate::ruby_calls::Value;

/// All live objects; null when there is no memory for the snapshot. None moves
/// until it is freed, with [`ashlar_snapshot_free`].
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_snapshot(objspace: *mut c_void, count: *mut usize) -> *mut Value {
    // SAFETY: Ruby passes its object space.
    let objspace = unsafe { from_ruby(objspace) };
    let mut objects = Vec::new();
    let has_memory = collect::with_vm_lock(objspace, || {
        objspace.heap.begin_walk();
        let mut live_cells = 0;
        objspace.heap.for_each_cell(|_, _| live_cells += 1);
        if objects.try_reserve_exact(live_cells).is_err() {
            return false;
        }
        objspace
            .heap
            .for_each_cell(|cell, _| objects.push(cell.address()));
        true
    });
    if !has_memory {
        collect::with_vm_lock(objspace, || objspace.heap.end_walk());
        return null_mut();
    }
    let objects = Box::leak(objects.into_boxed_slice());
    // SAFETY: the shim passes a place for the count.
    unsafe { count.write(objects.len()) };
    objects.as_mut_ptr()
}

/// The live object after `object` in address order, 0 after the last; 0 asks
/// for the first. For walks during which nothing is collected.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_next_object(objspace: *mut c_void, object: Value) -> Value {
    // SAFETY: Ruby passes its object space.
    let heap = &unsafe { from_ruby(objspace) }.heap;
    heap.next_cell(object).map_or(0, |cell| cell.address())
}

/// # Safety
/// As `shim/ashlar_ruby.h` says; snapshot and count come from
/// [`ashlar_snapshot`].
#[no_mangle]
unsafe extern "C" fn ashlar_snapshot_free(
    objspace: *mut c_void,
    snapshot: *mut Value,
    count: usize,
) {
    // SAFETY: Ruby passes its object space.
    let objspace = unsafe { from_ruby(objspace) };
    collect::with_vm_lock(objspace, || objspace.heap.end_walk());
    // SAFETY: the caller's contract.
    drop(unsafe { Box::from_raw(slice_from_raw_parts_mut(snapshot, count)) });
}

/// Whether `word` is a live object now.
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_is_live(objspace: *mut c_void, word: Value) -> bool {
    // SAFETY: Ruby passes its object space.
    let heap = &unsafe { from_ruby(objspace) }.heap;
    heap.region()
        .cell_at(word)
        .is_some_and(|cell| !heap.is_garbage(cell))
}
