//! Threads that help the collecting one: started when first needed, waiting
//! otherwise, and ended before a fork, which would not copy them.
//!
//! Nothing here allocates: helpers are started in the middle of a collection,
//! perhaps because memory is out. If the system refuses a thread, marking goes on
//! without it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

/// Most threads that may mark at the same time, the collecting one included.
pub const THREADS_MAX: usize = 64;

/// The threads, and the desk where they get their work.
///
/// The lock of the roster is held while they work and across a fork; a marking that
/// begins in the meantime goes on without them.
#[derive(Debug)]
pub(crate) struct Helpers {
    roster: Mutex<Roster>,
    /// In a place of its own: threads refer to it.
    desk: Box<Desk>,
}

#[derive(Debug)]
struct Roster {
    threads: [Option<thread::Thread>; THREADS_MAX - 1],
}

#[derive(Debug, Default)]
struct Desk {
    board: Mutex<Board>,
    /// There is a job, or everybody is dismissed.
    called: Condvar,
    /// Nobody is at work any more.
    left: Condvar,
}

#[derive(Debug, Default)]
struct Board {
    job: Option<Job>,
    /// Counts jobs, so that nobody takes one twice.
    jobs: u64,
    /// Helpers that may still take it.
    places: usize,
    at_work: usize,
    dismissed: bool,
}

/// What the helpers are to do: the address of a function of the thread that
/// waits in [`Helpers::share`].
#[derive(Clone, Copy)]
struct Job(*const (dyn Fn() + Sync));

// SAFETY: what it refers to is `Sync`.
unsafe impl Send for Job {}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Job")
    }
}

type Borrowed<'a> = &'a (dyn Fn() + Sync + 'a);

/// No helper exists while this does, and none is started.
#[derive(Debug)]
pub struct Stopped<'a> {
    _roster: MutexGuard<'a, Roster>,
}

impl Default for Helpers {
    fn default() -> Self {
        Self {
            roster: Mutex::new(Roster {
                threads: [const { None }; THREADS_MAX - 1],
            }),
            desk: Box::default(),
        }
    }
}

impl Helpers {
    /// Runs `own` here and `job` on up to `wanted` helpers, and returns when all
    /// have returned. `job` must come to an end once `own` has. A helper may come
    /// late, or never.
    pub(crate) fn share<R>(
        &self,
        wanted: usize,
        job: &(dyn Fn() + Sync),
        own: impl FnOnce() -> R,
    ) -> R {
        let mut roster = match self.roster.try_lock() {
            Ok(roster) => roster,
            Err(TryLockError::Poisoned(roster)) => roster.into_inner(),
            Err(TryLockError::WouldBlock) => return own(),
        };
        roster.start(wanted, &self.desk);
        let _offer = self.desk.offer(job, wanted);
        own()
    }

    /// Ends all helpers, and starts no new ones until what it returns is dropped:
    /// what a fork needs. Waits for work that they share in to end.
    pub(crate) fn stop(&self) -> Stopped<'_> {
        let mut roster = self.roster.lock().unwrap_or_else(PoisonError::into_inner);
        self.desk.lock().dismissed = true;
        self.desk.called.notify_all();
        for thread in &mut roster.threads {
            if let Some(thread) = thread.take() {
                thread.join();
            }
        }
        self.desk.lock().dismissed = false;
        Stopped { _roster: roster }
    }

    /// Helpers that exist, at work or waiting; 0 while that cannot be told.
    pub(crate) fn count(&self) -> usize {
        match self.roster.try_lock() {
            Ok(roster) => roster.threads.iter().flatten().count(),
            Err(_) => 0,
        }
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        drop(self.stop());
    }
}

impl Roster {
    /// Sees to it that there are `wanted` threads, if the system allows.
    fn start(&mut self, wanted: usize, desk: &Desk) {
        for place in self.threads.iter_mut().take(wanted) {
            if place.is_none() {
                *place = thread::start(desk);
            }
            if place.is_none() {
                return;
            }
        }
    }
}

/// A job that is on the board; dropping it waits until everybody has left.
struct Offer<'a>(&'a Desk);

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offer(&self, job: Borrowed<'_>, places: usize) -> Offer<'_> {
        // SAFETY: only the lifetime changes. It is called while the board has it
        // or somebody is at work, and `Offer` ends both before `share` returns.
        let job = unsafe { std::mem::transmute::<Borrowed<'_>, Borrowed<'static>>(job) };
        let mut board = self.lock();
        board.job = Some(Job(job));
        board.jobs += 1;
        board.places = places;
        drop(board);
        self.called.notify_all();
        Offer(self)
    }

    /// What a helper does all its life.
    fn attend(&self) {
        let mut done = 0;
        let mut board = self.lock();
        while !board.dismissed {
            let is_free = board.jobs != done && board.places > 0;
            let Some(job) = board.job.filter(|_| is_free) else {
                let waited = self.called.wait(board);
                board = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            done = board.jobs;
            board.places -= 1;
            board.at_work += 1;
            drop(board);
            // SAFETY: whoever offered the job waits until nobody is at work.
            unsafe { (*job.0)() };
            board = self.lock();
            board.at_work -= 1;
            if board.at_work == 0 {
                self.left.notify_all();
            }
        }
    }
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        let mut board = self.0.lock();
        board.job = None;
        while board.at_work > 0 {
            let waited = self.0.left.wait(board);
            board = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

mod thread {
    //! The system's threads, without the allocations of the standard library's.

    use std::ffi::c_void;
    use std::mem::MaybeUninit;
    use std::ptr::null_mut;

    use super::Desk;
    use crate::refusals::{is_refused, SystemCall};

    /// Address space of a helper's stack, of which some 24 KiB are touched.
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

    extern "C" fn run(desk: *mut c_void) -> *mut c_void {
        // SAFETY: the desk is freed after its threads have been joined.
        unsafe { &*desk.cast::<Desk>() }.attend();
        null_mut()
    }

    /// Starts a helper; `None` when the system refuses.
    pub(super) fn start(desk: &Desk) -> Option<Thread> {
        if is_refused(SystemCall::Thread) {
            return None;
        }
        let desk = (&raw const *desk).cast_mut().cast();
        let thread = create(run, desk)?;
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

    /// Runs `start` with all signals blocked but those that say that the thread
    /// itself has failed: a new thread inherits that, so that the program's
    /// handlers never run on it.
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

    /// What `top` and debuggers show.
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

    /// Shares a job of which everybody takes part: it ends when `all` have come.
    fn meet(helpers: &Helpers, all: usize) {
        let come = AtomicUsize::new(0);
        let wait_for_all = || {
            come.fetch_add(1, SeqCst);
            while come.load(SeqCst) < all {
                std::thread::yield_now();
            }
        };
        helpers.share(all - 1, &wait_for_all, wait_for_all);
        assert_eq!(come.load(SeqCst), all);
    }

    #[test]
    fn helpers_come_whenever_there_is_a_job_and_are_started_once() {
        let helpers = Helpers::default();
        assert_eq!(helpers.count(), 0);
        for _ in 0..20 {
            meet(&helpers, 4);
        }
        assert_eq!(helpers.count(), 3);
        meet(&helpers, 2);
        assert_eq!(helpers.count(), 3);
    }

    #[test]
    fn stopped_helpers_are_gone_and_others_are_started_afterwards() {
        let helpers = Helpers::default();
        for _ in 0..5 {
            meet(&helpers, 3);
            let stopped = helpers.stop();
            // Without them the job is this thread's alone.
            let alone = helpers.share(2, &|| panic!("a helper came"), || 7);
            assert_eq!(alone, 7);
            drop(stopped);
            assert_eq!(helpers.count(), 0);
        }
    }

    #[test]
    fn nobody_works_any_more_when_sharing_has_returned() {
        let helpers = Helpers::default();
        for _ in 0..200 {
            let over = AtomicBool::new(false);
            let at_work = AtomicUsize::new(0);
            let job = || {
                at_work.fetch_add(1, SeqCst);
                while !over.load(SeqCst) {
                    std::thread::yield_now();
                }
                at_work.fetch_sub(1, SeqCst);
            };
            helpers.share(3, &job, || over.store(true, SeqCst));
            assert_eq!(at_work.load(SeqCst), 0);
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

    /// The desk alone orders what the threads do to memory: Miri finds two that use a place at
    /// once, and what one of them may not have seen yet.
    #[test]
    fn helpers_see_what_was_written_before_and_what_they_write_is_seen_afterwards() {
        use std::sync::atomic::Ordering::Relaxed;
        let helpers = Helpers::default();
        let (given, taken) = (Places(Default::default()), Places(Default::default()));
        for round in 1..=if cfg!(miri) { 3 } else { 300 } {
            for place in &given.0 {
                // SAFETY: no helper works between two rounds.
                unsafe { place.get().write(round) };
            }
            let come = AtomicUsize::new(0);
            let job = || {
                let number = come.fetch_add(1, Relaxed);
                // SAFETY: nobody writes what is given meanwhile, and the other place is this
                // thread's, which alone has its number.
                unsafe { taken.at(number).write(given.at(number).read()) };
            };
            helpers.share(taken.0.len() - 1, &job, job);
            for place in &taken.0[..come.load(Relaxed)] {
                // SAFETY: all have left.
                assert_eq!(unsafe { place.get().read() }, round);
            }
        }
    }

    #[test]
    fn stopping_waits_for_work_that_is_shared() {
        let helpers = Helpers::default();
        let (over, began) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                helpers.share(1, &|| (), || {
                    began.store(true, SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    over.store(true, SeqCst);
                });
            });
            while !began.load(SeqCst) {
                std::thread::yield_now();
            }
            drop(helpers.stop());
            assert!(over.load(SeqCst));
        });
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn no_signal_of_the_program_reaches_a_helper() {
        let helpers = Helpers::default();
        let mask = Mutex::new(None);
        let over = AtomicBool::new(false);
        let look = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("SigBlk:"));
            let word = line.unwrap().split_whitespace().nth(1).unwrap();
            *mask.lock().unwrap() = Some(u64::from_str_radix(word, 16).unwrap());
            over.store(true, SeqCst);
        };
        helpers.share(1, &look, || {
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
