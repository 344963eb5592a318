//! What Ruby calls about the profile of `GC::Profiler`.

use std::mem::MaybeUninit;

use super::{Profiler, Record};
use crate::lock::Gvl;

/// Uses the profile with the VM lock held.
fn locked<R>(gvl: Gvl, with: impl FnOnce(&Profiler) -> R) -> R {
    gvl.with_vm_lock(|collector| with(&collector.profiler))
}

#[no_mangle]
extern "C" fn ashlar_profiles(gvl: Gvl) -> bool {
    locked(gvl, Profiler::is_on)
}

#[no_mangle]
extern "C" fn ashlar_set_profiling(gvl: Gvl, on: bool) {
    locked(gvl, |profile| profile.on.set(on));
}

#[no_mangle]
extern "C" fn ashlar_clear_profile(gvl: Gvl) {
    drop(locked(gvl, |profile| profile.records.take()));
}

#[no_mangle]
extern "C" fn ashlar_profile_length(gvl: Gvl) -> usize {
    locked(gvl, |profile| profile.records.borrow().len())
}

/// Writes one record; returns false when there are not that many.
#[no_mangle]
extern "C" fn ashlar_profile_record(
    gvl: Gvl,
    index: usize,
    record: &mut MaybeUninit<Record>,
) -> bool {
    let found = locked(gvl, |profile| profile.records.borrow().get(index).copied());
    found.map(|found| record.write(found)).is_some()
}
