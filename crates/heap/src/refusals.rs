//! Refusals on demand: chosen calls of the system fail, so that tests see what becomes of a
//! program then.
//!
//! Calls of the chosen sort are counted while the switch is set. One of them is refused, or all
//! from one on. A refused call does not reach the system.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Defines [`SystemCall`] from one list of its sorts and their names.
macro_rules! system_calls {
    ($($(#[$about:meta])* $call:ident $name:literal)*) => {
        /// What the system is asked for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum SystemCall { $($(#[$about])* $call,)* }

        impl SystemCall {
            /// All sorts of calls, in order.
            pub const ALL: [Self; 12] = [$(Self::$call),*];

            /// Its name in the text of a [`Refusal`].
            pub fn name(self) -> &'static str {
                match self { $(Self::$call => $name),* }
            }
        }
    };
}

system_calls! {
    /// Address space, or memory of its own.
    Mmap "mmap"
    /// To take address space back.
    Munmap "munmap"
    /// To make pages readable and writable.
    Mprotect "mprotect"
    /// To take pages back (`madvise`).
    Release "release"
    /// To bring pages in before they are touched (`madvise`).
    Populate "populate"
    /// To leave pages out of core dumps, or to take them in (`madvise`).
    Dump "dump"
    /// Huge pages, or none (`madvise`).
    HugePages "huge_pages"
    /// How much memory the process occupies.
    Statm "statm"
    /// How much CPU time has gone by.
    Clock "clock"
    /// A file in memory.
    Memfd "memfd"
    /// A thread.
    Thread "thread"
    /// Memory from libc, in which a collector keeps its own tables.
    Malloc "malloc"
}

/// Which calls are refused.
///
/// # Examples
/// ```
/// use ashlar_heap::refusals::{Refusal, SystemCall};
///
/// let refusal: Refusal = "mprotect:5+".parse().unwrap();
/// assert_eq!(refusal.call, Some(SystemCall::Mprotect));
/// assert_eq!((refusal.first, refusal.all_after), (5, true));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The sort of call; `None`: any sort, all counted together.
    pub call: Option<SystemCall>,
    /// The number of the first refused call, counted from 1.
    pub first: u64,
    /// Whether the calls after it are refused, too.
    pub all_after: bool,
}

impl Refusal {
    /// What a refusal looks like as text.
    pub const ALLOWED: &'static str =
        "none, or a system call and the number of one such as mprotect:5, or mprotect:5+ \
         for all from it on (any, mmap, munmap, mprotect, release, populate, dump, \
         huge_pages, statm, clock, memfd, thread, malloc)";
}

/// A text that names no refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotARefusal;

impl FromStr for Refusal {
    type Err = NotARefusal;

    fn from_str(text: &str) -> Result<Self, NotARefusal> {
        let (name, number) = text.split_once(':').ok_or(NotARefusal)?;
        let call = SystemCall::ALL.into_iter().find(|call| call.name() == name);
        if call.is_none() && name != "any" {
            return Err(NotARefusal);
        }
        let digits = number.strip_suffix('+').unwrap_or(number);
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let first = digits.parse().map_err(|_| NotARefusal)?;
        if first == 0 || !is_number {
            return Err(NotARefusal);
        }
        Ok(Self {
            call,
            first,
            all_after: number != digits,
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.call.map_or("any", SystemCall::name);
        let mark = if self.all_after { "+" } else { "" };
        write!(f, "{name}:{}{mark}", self.first)
    }
}

/// Some call may be refused. What follows is read only then.
static IS_SET: AtomicBool = AtomicBool::new(false);
/// The sort that is counted, by its place in [`SystemCall::ALL`], or [`ANY`] or [`NONE`].
static CALL: AtomicU64 = AtomicU64::new(NONE);
/// The numbers of the first and the last call that is refused.
static FIRST: AtomicU64 = AtomicU64::new(0);
static LAST: AtomicU64 = AtomicU64::new(0);
/// Calls of the sort, and how many of them were refused, since the switch was set.
static CALLS: AtomicU64 = AtomicU64::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);

const ANY: u64 = u64::MAX;
const NONE: u64 = u64::MAX - 1;

/// Refuses these calls from now on, in the whole process, or none; counts start again at 0.
pub fn refuse(refusal: Option<Refusal>) {
    IS_SET.store(false, Release);
    CALLS.store(0, Relaxed);
    REFUSED.store(0, Relaxed);
    let Some(Refusal {
        call,
        first,
        all_after,
    }) = refusal
    else {
        CALL.store(NONE, Relaxed);
        return;
    };
    CALL.store(call.map_or(ANY, |call| call as u64), Relaxed);
    FIRST.store(first, Relaxed);
    LAST.store(if all_after { u64::MAX } else { first }, Relaxed);
    IS_SET.store(true, Release);
}

/// What [`refuse`] was last called with.
pub fn current() -> Option<Refusal> {
    let call = match CALL.load(Relaxed) {
        NONE => return None,
        ANY => None,
        index => Some(SystemCall::ALL[index as usize]),
    };
    Some(Refusal {
        call,
        first: FIRST.load(Relaxed),
        all_after: LAST.load(Relaxed) == u64::MAX,
    })
}

/// Calls that have been refused since the switch was set.
pub fn refused_calls() -> u64 {
    REFUSED.load(Relaxed)
}

/// Whether this call, which the caller is about to make, is refused.
#[inline(always)]
pub fn is_refused(call: SystemCall) -> bool {
    IS_SET.load(Relaxed) && decide(call)
}

#[cold]
#[inline(never)]
fn decide(call: SystemCall) -> bool {
    if !IS_SET.load(Acquire) {
        return false;
    }
    let wanted = CALL.load(Relaxed);
    if wanted != ANY && wanted != call as u64 {
        return false;
    }
    let number = CALLS.fetch_add(1, AcqRel) + 1;
    let is_refused = (FIRST.load(Relaxed)..=LAST.load(Relaxed)).contains(&number);
    REFUSED.fetch_add(u64::from(is_refused), Relaxed);
    is_refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_a_text_and_other_texts_are_none() {
        let calls = SystemCall::ALL.map(Some);
        for call in calls.into_iter().chain([None]) {
            for (first, all_after) in [(1, false), (1, true), (u64::MAX, true)] {
                let refusal = Refusal {
                    call,
                    first,
                    all_after,
                };
                assert_eq!(refusal.to_string().parse(), Ok(refusal));
                let name = call.map_or("any", SystemCall::name);
                assert!(Refusal::ALLOWED.contains(name), "{name}");
            }
        }
        for text in [
            "",
            "none",
            "mmap",
            "mmap:",
            "mmap:0",
            "mmap:+",
            "mmap:+5",
            "mmap:-1",
            "mmap:5++",
            "mmap: 5",
            "map:5",
            ":5",
            "mmap:5:6",
            "mmap:18446744073709551616",
        ] {
            assert_eq!(text.parse::<Refusal>(), Err(NotARefusal), "{text}");
        }
    }
}
