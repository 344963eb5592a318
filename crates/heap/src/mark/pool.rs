//! A pool of threads that help the collecting one: started when first needed, waiting
//! otherwise, and ended before a fork, which would not copy them.
//!
//! Nothing here allocates: threads are started in the middle of a collection,
//! perhaps because memory is out. If the system refuses a thread, marking goes on
//! without it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

/// The most threads that may mark at the same time, the collecting one included.
pub const THREADS_MAX: usize = 64;

/// The threads, and where they get their task.
///
/// The lock on `threads` is held while they run a task, and across a fork. A marking that begins
/// in the meantime goes on without them.
#[derive(Debug)]
pub(crate) struct ThreadPool {
    threads: Mutex<Threads>,
    /// Boxed, because threads refer to it.
    tasks: Box<Tasks>,
}

type Threads = [Option<thread::Thread>; THREADS_MAX - 1];

/// The task of the moment, if there is one.
#[derive(Debug, Default)]
struct Tasks {
    current: Mutex<Current>,
    /// There is a task, or the pool shuts down.
    changed: Condvar,
    /// No thread runs the task any more.
    finished: Condvar,
}

#[derive(Debug, Default)]
struct Current {
    task: Option<Task>,
    /// Counts tasks, so that no thread runs one twice.
    number: u64,
    /// How many more threads may begin to run the task.
    wanted: usize,
    running: usize,
    shuts_down: bool,
}

/// The address of a function of the thread that waits in [`ThreadPool::run`].
#[derive(Clone, Copy, Debug)]
struct Task(*const (dyn Fn() + Sync));

// SAFETY: what it refers to is `Sync`.
unsafe impl Send for Task {}

type Borrowed<'a> = &'a (dyn Fn() + Sync + 'a);

/// The pool has no thread while this exists, and starts none.
#[derive(Debug)]
pub struct Stopped<'a> {
    _threads: MutexGuard<'a, Threads>,
}

impl Default for ThreadPool {
    fn default() -> Self {
        Self {
            threads: Mutex::new([const { None }; THREADS_MAX - 1]),
            tasks: Box::default(),
        }
    }
}

impl ThreadPool {
    /// Runs `own` here and `task` on up to `wanted` threads, and returns when all
    /// have returned. `task` must come to an end once `own` has. A thread may come
    /// late, or never.
    pub(crate) fn run<R>(
        &self,
        wanted: usize,
        task: &(dyn Fn() + Sync),
        own: impl FnOnce() -> R,
    ) -> R {
        let mut threads = match self.threads.try_lock() {
            Ok(threads) => threads,
            Err(TryLockError::Poisoned(threads)) => threads.into_inner(),
            Err(TryLockError::WouldBlock) => return own(),
        };
        for place in threads.iter_mut().take(wanted) {
            if place.is_none() {
                *place = thread::start(&self.tasks);
            }
            if place.is_none() {
                break;
            }
        }
        let _running = self.tasks.begin(task, wanted);
        own()
    }

    /// Ends all threads, and starts no new ones until what it returns is dropped:
    /// what a fork needs. Waits for a task that is running to end.
    pub(crate) fn stop(&self) -> Stopped<'_> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        self.tasks.lock().shuts_down = true;
        self.tasks.changed.notify_all();
        for thread in threads.iter_mut().filter_map(Option::take) {
            thread.join();
        }
        self.tasks.lock().shuts_down = false;
        Stopped { _threads: threads }
    }

    /// Threads that exist, running a task or waiting; 0 while another thread holds their lock.
    pub(crate) fn count(&self) -> usize {
        let threads = self.threads.try_lock();
        threads.map_or(0, |threads| threads.iter().flatten().count())
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        drop(self.stop());
    }
}

/// A task that threads may begin to run; dropping it waits until all have returned.
struct Running<'a>(&'a Tasks);

impl Tasks {
    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, task: Borrowed<'_>, wanted: usize) -> Running<'_> {
        // SAFETY: only the lifetime changes. The function is called while it is the current task
        // or a thread runs it, and `Running` ends both before `ThreadPool::run` returns.
        let task = unsafe { std::mem::transmute::<Borrowed<'_>, Borrowed<'static>>(task) };
        let mut current = self.lock();
        current.task = Some(Task(task));
        current.number += 1;
        current.wanted = wanted;
        drop(current);
        self.changed.notify_all();
        Running(self)
    }

    /// What a thread of the pool does all its life.
    fn run_each(&self) {
        let mut latest = 0;
        let mut current = self.lock();
        while !current.shuts_down {
            let may_run = current.number != latest && current.wanted > 0;
            let Some(task) = current.task.filter(|_| may_run) else {
                let waited = self.changed.wait(current);
                current = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            latest = current.number;
            current.wanted -= 1;
            current.running += 1;
            drop(current);
            // SAFETY: whoever began the task waits until nobody runs it.
            unsafe { (*task.0)() };
            current = self.lock();
            current.running -= 1;
            if current.running == 0 {
                self.finished.notify_all();
            }
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut current = self.0.lock();
        current.task = None;
        while current.running > 0 {
            let waited = self.0.finished.wait(current);
            current = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

mod thread {
    //! The system's threads, without the allocations of the standard library's.

    use std::ffi::c_void;
    use std::mem::MaybeUninit;
    use std::ptr::null_mut;

    use super::Tasks;
    use crate::refusals::{is_refused, SystemCall};

    /// Address space of a thread's stack; some 24 KiB of it are touched.
    #[cfg(not(miri))]
    const STACK_BYTES: usize = 256 << 10;

    #[derive(Debug)]
    pub(super) struct Thread(libc::pthread_t);

    // SAFETY: any thread may join it.
    unsafe impl Send for Thread {}

    impl Thread {
        pub(super) fn join(self) {
            // SAFETY: the thread was started joinable, and is joined once.
            unsafe { libc::pthread_join(self.0, null_mut()) };
        }
    }

    extern "C" fn run(tasks: *mut c_void) -> *mut c_void {
        // SAFETY: the tasks are freed after the threads have been joined.
        unsafe { &*tasks.cast::<Tasks>() }.run_each();
        null_mut()
    }

    /// Starts a thread; `None` when the system refuses.
    pub(super) fn start(tasks: &Tasks) -> Option<Thread> {
        if is_refused(SystemCall::Thread) {
            return None;
        }
        let tasks = (&raw const *tasks).cast_mut().cast();
        let thread = create(run, tasks)?;
        // SAFETY: the thread has not been joined.
        unsafe { name(thread) };
        Some(Thread(thread))
    }

    /// A new thread with a small stack that no signal of the program reaches.
    #[cfg(not(miri))]
    fn create(
        run: extern "C" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> Option<libc::pthread_t> {
        let mut attributes = MaybeUninit::uninit();
        let mut thread = MaybeUninit::uninit();
        // SAFETY: the attributes are initialized before they are used, and the
        // thread when none of the calls fails.
        unsafe {
            if libc::pthread_attr_init(attributes.as_mut_ptr()) != 0 {
                return None;
            }
            libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK_BYTES);
            let failed = without_signals(|| {
                libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), run, argument) != 0
            });
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
            (!failed).then(|| thread.assume_init())
        }
    }

    /// Miri knows neither attributes of threads nor signals.
    #[cfg(miri)]
    fn create(
        run: extern "C" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> Option<libc::pthread_t> {
        let mut thread = MaybeUninit::uninit();
        let attributes = std::ptr::null();
        // SAFETY: the thread is initialized when the call does not fail.
        unsafe {
            let failed = libc::pthread_create(thread.as_mut_ptr(), attributes, run, argument) != 0;
            (!failed).then(|| thread.assume_init())
        }
    }

    /// Runs `start` with all signals blocked except those for a fault of the thread itself. A new
    /// thread inherits this mask, so the program's handlers never run on it.
    #[cfg(not(miri))]
    fn without_signals<R>(start: impl FnOnce() -> R) -> R {
        const FAULTS: [libc::c_int; 6] = [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGILL,
            libc::SIGFPE,
            libc::SIGABRT,
            libc::SIGTRAP,
        ];
        let (mut blocked, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: `blocked` is initialized by the first call, `before` by
        // `pthread_sigmask`, which cannot fail with these arguments.
        unsafe {
            libc::sigfillset(blocked.as_mut_ptr());
            for fault in FAULTS {
                libc::sigdelset(blocked.as_mut_ptr(), fault);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, blocked.as_ptr(), before.as_mut_ptr());
            let result = start();
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
            result
        }
    }

    /// Gives the thread the name that `top` and debuggers show.
    unsafe fn name(thread: libc::pthread_t) {
        #[cfg(all(target_os = "linux", not(miri)))]
        // SAFETY: the caller passes a thread that has not been joined.
        unsafe {
            libc::pthread_setname_np(thread, c"ashlar-marker".as_ptr());
        }
        let _ = thread;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

    /// Runs a task in which `all` threads take part: it ends when all have come.
    fn meet(pool: &ThreadPool, all: usize) {
        let come = AtomicUsize::new(0);
        let wait_for_all = || {
            come.fetch_add(1, SeqCst);
            while come.load(SeqCst) < all {
                std::thread::yield_now();
            }
        };
        pool.run(all - 1, &wait_for_all, wait_for_all);
        assert_eq!(come.load(SeqCst), all);
    }

    #[test]
    fn threads_come_whenever_there_is_a_task_and_are_started_once() {
        let pool = ThreadPool::default();
        assert_eq!(pool.count(), 0);
        for _ in 0..20 {
            meet(&pool, 4);
        }
        assert_eq!(pool.count(), 3);
        meet(&pool, 2);
        assert_eq!(pool.count(), 3);
    }

    #[test]
    fn stopped_threads_are_gone_and_others_are_started_afterwards() {
        let pool = ThreadPool::default();
        for _ in 0..5 {
            meet(&pool, 3);
            let stopped = pool.stop();
            // Without them the task is this thread's alone.
            let alone = pool.run(2, &|| panic!("a thread came"), || 7);
            assert_eq!(alone, 7);
            drop(stopped);
            assert_eq!(pool.count(), 0);
        }
    }

    #[test]
    fn nobody_runs_a_task_any_more_when_it_has_returned() {
        let pool = ThreadPool::default();
        for _ in 0..200 {
            let over = AtomicBool::new(false);
            let running = AtomicUsize::new(0);
            let task = || {
                running.fetch_add(1, SeqCst);
                while !over.load(SeqCst) {
                    std::thread::yield_now();
                }
                running.fetch_sub(1, SeqCst);
            };
            pool.run(3, &task, || over.store(true, SeqCst));
            assert_eq!(running.load(SeqCst), 0);
        }
    }

    /// Places that threads use one at a time.
    struct Places([std::cell::UnsafeCell<usize>; 4]);

    // SAFETY: the test gives each place to one thread at a time.
    unsafe impl Sync for Places {}

    impl Places {
        fn at(&self, number: usize) -> *mut usize {
            self.0[number].get()
        }
    }

    /// Only the lock of the tasks orders what the threads do to memory: Miri finds two threads
    /// that use a place at once, and a write that one of them may not have seen yet.
    #[test]
    fn threads_see_what_was_written_before_and_what_they_write_is_seen_afterwards() {
        use std::sync::atomic::Ordering::Relaxed;
        let pool = ThreadPool::default();
        let (given, taken) = (Places(Default::default()), Places(Default::default()));
        for round in 1..=if cfg!(miri) { 3 } else { 300 } {
            for place in &given.0 {
                // SAFETY: no thread works between two rounds.
                unsafe { place.get().write(round) };
            }
            let come = AtomicUsize::new(0);
            let task = || {
                let number = come.fetch_add(1, Relaxed);
                // SAFETY: nobody writes to `given` meanwhile, and the place in `taken` is this
                // thread's, which alone has its number.
                unsafe { taken.at(number).write(given.at(number).read()) };
            };
            pool.run(taken.0.len() - 1, &task, task);
            for place in &taken.0[..come.load(Relaxed)] {
                // SAFETY: all have returned.
                assert_eq!(unsafe { place.get().read() }, round);
            }
        }
    }

    #[test]
    fn stopping_waits_for_a_task_that_is_running() {
        let pool = ThreadPool::default();
        let (over, began) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pool.run(1, &|| (), || {
                    began.store(true, SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    over.store(true, SeqCst);
                });
            });
            while !began.load(SeqCst) {
                std::thread::yield_now();
            }
            drop(pool.stop());
            assert!(over.load(SeqCst));
        });
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn no_signal_of_the_program_reaches_a_thread_of_the_pool() {
        let pool = ThreadPool::default();
        let mask = Mutex::new(None);
        let over = AtomicBool::new(false);
        let look = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("SigBlk:"));
            let word = line.unwrap().split_whitespace().nth(1).unwrap();
            *mask.lock().unwrap() = Some(u64::from_str_radix(word, 16).unwrap());
            over.store(true, SeqCst);
        };
        pool.run(1, &look, || {
            while !over.load(SeqCst) {
                std::thread::yield_now();
            }
        });
        let blocked = |signal: i32| mask.lock().unwrap().unwrap() >> (signal - 1) & 1 == 1;
        for signal in [
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGALRM,
            libc::SIGPROF,
            libc::SIGVTALRM,
            libc::SIGCHLD,
            libc::SIGUSR1,
        ] {
            assert!(blocked(signal), "signal {signal}");
        }
        assert!(!blocked(libc::SIGSEGV));
    }
}
