//! Fork: helper threads are ended before it, locks are held across it, and the child gives up
//! what belonged to threads that it does not have. Everything that a fork changes is here:
//!
//! | what exists once per process | in a child |
//! | --- | --- |
//! | helper threads | ended before the fork, started again when needed |
//! | forking itself | one thread at a time, from the first lock to the last; that thread may fork again in the middle |
//! | block allocator, payload pool, the tables' memory, list of caches | locked across the fork |
//! | the heap profile: target, start, image, recorder | locked across the fork; begun again ([`heap_profile::begin_in_child`]), and so are its counts ([`heap_profile::begin_numbers_in_child`]) |
//! | caches of other threads | given back, with their free pieces, once the parent's blocks are known as such. A program without Ruby knows none, and gives them back at once. A child of Ruby that Ruby has not forked keeps them unused |
//! | jobs that another thread was running, and which thread that was | forgotten: the child's thread runs the rest |
//! | walks of other threads | ended, so that cells move again |
//! | CPU time of the process, which begins at 0 again | code that compares it with an earlier time forgets that time (`Pace::begin_in_child`), or measures work during which nobody forks |
//! | collecting, moving, sweeping, the tracer, the length of a pause | as they are: Ruby forks with the VM lock and all Ractors stopped, in the middle of none of them. A child that was forked without the VM lock may have them half done for ever; it may only call `exec`, and never collects |
//! | free cells and free pieces of the parent's blocks | left alone, because their pages are shared ([`ashlar_heap::Heap::inherit`]); the thread that forks gives back what its cache has before the fork |
//! | the code cache: code that waits to be written | left to the parent |
//! | the numbers of this process and of those that it was forked from | its own is added ([`inlined::show_process`]) |
//! | options, knobs, pacing, counters of collections | as they are, but for the bytes until a collection is due, and what has been warned of |

pub(crate) mod locks;

use crate::code_cache;
use crate::heap_profile;
use crate::inlined;
use crate::lock::Held;
use crate::payloads::thread_caches;
use crate::ruby_calls::Value;
use crate::statics;

/// Called after a fork, in the parent and in the child.
#[no_mangle]
extern "C" fn ashlar_after_fork(in_child: bool) {
    locks::unlock();
    if in_child {
        forget_what_parent_had();
    }
    locks::let_others_fork();
}

/// Called in the child of a nested fork: a function of the program, called at a fork, has forked
/// on the same thread. The outer fork keeps the locks, because it may go on in this child.
#[no_mangle]
extern "C" fn ashlar_after_fork_in_fork() {
    locks::unlocked(forget_what_parent_had);
}

fn forget_what_parent_had() {
    inlined::show_process();
    heap_profile::begin_in_child();
    let mut caches = thread_caches::lock();
    caches.keep_own_in_child();
    // A program that has the library for its malloc alone: no heap inherits blocks.
    if statics::objspace().is_null() {
        caches.give_back_those_of_parent();
    }
}

/// Called when a child that Ruby itself has forked begins; it has `thread` and no other. `runner`
/// is the place of the thread that runs finalizer jobs. [`ashlar_after_fork`] has been called.
#[no_mangle]
extern "C" fn ashlar_begin_child(collector: Held, thread: Value, runner: &mut Value) {
    // Nobody else would end the walks of threads that the child does not have.
    collector
        .walks
        .end(&collector.heap, |_, other| other != thread);
    collector.heap.inherit();
    let mut caches = thread_caches::lock();
    caches.flush_own_and_shared();
    caches.give_back_those_of_parent();
    drop(caches);
    collector.begin_in_child();
    heap_profile::begin_numbers_in_child(&collector);
    code_cache::begin_in_child();
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
