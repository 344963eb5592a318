//! Walking the heap on behalf of Ruby, whose visitors may allocate and raise:
//! they get a snapshot.

use std::ffi::c_void;
use std::ptr::slice_from_raw_parts_mut;

use crate::collect;
use crate::objspace::from_ruby;
use crate::ruby_calls::Value;

/// All live objects. To be freed with [`ashlar_snapshot_free`].
///
/// # Safety
/// As `shim/ashlar_ruby.h` says.
#[no_mangle]
unsafe extern "C" fn ashlar_snapshot(objspace: *mut c_void, count: *mut usize) -> *mut Value {
    // SAFETY: Ruby passes its object space.
    let objspace = unsafe { from_ruby(objspace) };
    let mut objects = Vec::new();
    collect::with_vm_lock(objspace, || {
        objspace
            .heap
            .for_each_cell(|cell, _| objects.push(cell.address()));
    });
    let objects = Box::leak(objects.into_boxed_slice());
    // SAFETY: the shim passes a place for the count.
    unsafe { count.write(objects.len()) };
    objects.as_mut_ptr()
}

/// # Safety
/// Both come from [`ashlar_snapshot`].
#[no_mangle]
unsafe extern "C" fn ashlar_snapshot_free(snapshot: *mut Value, count: usize) {
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
