//! A file that grows beyond `ulimit -f` is an error here, as a full disk is.
//!
//! The system also sends SIGXFSZ to the thread that wrote, and Ruby leaves that signal as it is:
//! it would end the program. This holds for files without a name in memory too.

use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// Calls `write` and takes a SIGXFSZ away that came to this thread meanwhile. Allocates nothing
/// and waits for nothing, so that it can be called in a crash.
pub(crate) fn without_size_signal<T>(write: impl FnOnce() -> T) -> T {
    let (mut signal, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let at_once = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the sets are written before they are read, and the calls cannot fail with these
    // arguments but for `sigtimedwait`, which finds no signal or takes it away.
    unsafe {
        libc::sigemptyset(signal.as_mut_ptr());
        libc::sigaddset(signal.as_mut_ptr(), libc::SIGXFSZ);
        libc::pthread_sigmask(libc::SIG_BLOCK, signal.as_ptr(), before.as_mut_ptr());
        let written = write();
        if libc::sigismember(before.as_ptr(), libc::SIGXFSZ) == 0 {
            libc::sigtimedwait(signal.as_ptr(), null_mut(), &at_once);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
        written
    }
}
