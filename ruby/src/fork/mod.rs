//! Fork: helper threads are ended before it, locks are held across it, and the child
//! gives up what belonged to threads that it does not have. All that a fork changes is here:
//!
//! | what a process has one of | in a child |
//! | --- | --- |
//! | helper threads | ended before the fork, started anew when needed |
//! | forking itself | one thread at a time, from the first lock to the last; that one may fork again in the middle |
//! | block allocator, payload pool, the tables' memory, list of caches | locked across the fork |
//! | the heap profile: target, start, image, recorder | locked across the fork; begun anew ([`heap_profile::begin_in_child`]) |
//! | caches of other threads | they are given back, with their free pieces |
//! | jobs that another thread was running, and who runs them | forgotten: this thread runs the rest |
//! | walks of other threads | ended, so that cells move again |
//! | CPU time of the process, which begins anew | those who compare it with an earlier one notice (`pace/rent.rs`), or ask for it before and after a work in which nobody forks |
//! | collecting, moving, sweeping, the tracer, the length of a pause | as they are: Ruby forks with the VM lock and all Ractors stopped, in the middle of none of them. A child of another fork, without the VM lock, may have them in the middle for ever; it is for `exec` alone, and never collects |
//! | free cells and free pieces of the parent's blocks | left alone, because their pages are shared ([`ashlar_heap::Heap::inherit`]); the thread that forks gives back what its cache has before |
//! | options, knobs, pacing, counters of collections | as they are |

pub(crate) mod locks;

use std::ffi::c_void;

use crate::heap_profile;
use crate::lock::held;
use crate::payloads::thread_caches;
use crate::ruby_calls::Value;

/// After a fork, in the parent and in the child.
#[no_mangle]
extern "C" fn ashlar_after_fork(in_child: bool) {
    locks::unlock();
    if in_child {
        forget_what_parent_had();
    }
    locks::let_others_fork();
}

/// In the child of a fork in the middle of another one of the same thread, by a function of
/// the program's that is called then. The locks stay with the other one, which may go on here.
#[no_mangle]
extern "C" fn ashlar_after_fork_in_fork() {
    locks::unlocked(forget_what_parent_had);
}

fn forget_what_parent_had() {
    heap_profile::begin_in_child();
    thread_caches::lock().keep_own_in_child();
}

/// A child of Ruby's own making begins, with `thread` and no other; `runner` is the place
/// of the one that runs jobs. What [`ashlar_after_fork`] did has been done.
#[no_mangle]
unsafe extern "C" fn ashlar_begin_child(objspace: *mut c_void, thread: Value, runner: *mut Value) {
    // SAFETY: the shim holds the VM lock, and passes the place of a value of its own.
    let (collector, runner) = unsafe { (held(objspace), &mut *runner) };
    collector.walks.end_of_others(&collector.heap, thread);
    collector.heap.inherit();
    thread_caches::lock().flush_own_and_shared();
    heap_profile::note_numbers_in_child(collector);
    if *runner != 0 && *runner != thread {
        *runner = 0;
        let ruby = &collector.heap.vm();
        let mut finalizers = ruby.finalizers.borrow_mut();
        finalizers.forget_running();
        if finalizers.waiting_jobs() > 0 {
            ruby.trigger_jobs();
        }
    }
}
