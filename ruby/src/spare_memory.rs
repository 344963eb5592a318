//! Memory for work that must go on when the system gives none: writing a message, an
//! option's text, a dump. It is mapped when Ruby starts, and its pages take memory only when
//! they are touched. It is not a static array: if the limit of a process's data
//! (`ulimit -d`) is below the size of the program's own data, the kernel kills it before it
//! can print a message.

use std::alloc::Layout;
use std::cell::Cell;
use std::mem::forget;
use std::ptr::null_mut;
use std::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use ashlar_heap::os::{Refused, Reservation};

/// A packed dump needs most: its tables take 400 KiB.
const BYTES: usize = 1 << 20;

/// The largest alignment of a piece, in bytes.
const ALIGN: usize = 4096;

/// The spare memory. It is handed out from its beginning on. The last piece is free again
/// when it is given back, and the others when all pieces are given back.
pub(crate) struct Spare {
    /// Null until the memory is mapped, once, by the thread that starts Ruby.
    start: AtomicPtr<u8>,
    /// In the high half the number of pieces in use; in the low half the end of the last
    /// one, in bytes.
    state: AtomicU64,
}

// Tests keep Rust's default allocator.
#[cfg(not(test))]
pub(crate) static SPARE: Spare = Spare::new();

const PIECE: u64 = 1 << 32;

thread_local! {
    /// Whether this thread may take from the spare now.
    static MAY_TAKE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, which takes little memory, frees most of it, and cannot handle an allocation
/// that fails.
pub(crate) fn with_spare<R>(work: impl FnOnce() -> R) -> R {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            MAY_TAKE.set(self.0);
        }
    }
    let _before = Before(MAY_TAKE.replace(true));
    work()
}

impl Spare {
    const fn new() -> Self {
        Self {
            start: AtomicPtr::new(null_mut()),
            state: AtomicU64::new(0),
        }
    }

    /// Maps the memory, which stays for as long as the process.
    pub(crate) fn map(&self) -> Result<(), Refused> {
        let mapped = Reservation::new(BYTES, ALIGN)?;
        mapped.commit(0, BYTES)?;
        self.start.store(mapped.start(), Relaxed);
        forget(mapped);
        Ok(())
    }

    /// Returns memory for a thread inside [`with_spare`]; null outside, or when none is
    /// left.
    pub(crate) fn take(&self, layout: Layout) -> *mut u8 {
        match MAY_TAKE.get() {
            true => self.take_piece(layout),
            false => null_mut(),
        }
    }

    fn take_piece(&self, layout: Layout) -> *mut u8 {
        if self.start().is_null() {
            return null_mut();
        }
        let mut start = 0;
        let taken = self.state.fetch_update(AcqRel, Acquire, |state| {
            start = (state % PIECE).next_multiple_of(layout.align() as u64);
            let end = start + layout.size() as u64;
            let is_aligned = layout.align() <= ALIGN;
            (is_aligned && end <= BYTES as u64).then_some((state / PIECE + 1) * PIECE + end)
        });
        match taken {
            Ok(_) => self.start().wrapping_add(start as usize),
            Err(_) => null_mut(),
        }
    }

    /// Whether this is a piece of the spare. Before it is mapped, nothing is: no program has
    /// memory in the first MiB.
    #[inline(always)]
    pub(crate) fn has(&self, memory: *mut u8) -> bool {
        memory.addr().wrapping_sub(self.start().addr()) < BYTES
    }

    /// Gives back a piece of `bytes` bytes, which is not used any more.
    #[cold]
    pub(crate) fn give_back(&self, memory: *mut u8, bytes: usize) {
        let start = (memory.addr() - self.start().addr()) as u64;
        let _ = self.state.fetch_update(AcqRel, Relaxed, |state| {
            let (pieces, end) = (state / PIECE - 1, state % PIECE);
            let is_last = start + bytes as u64 == end;
            Some(match pieces {
                0 => 0,
                _ => pieces * PIECE + if is_last { start } else { end },
            })
        });
    }

    #[inline(always)]
    fn start(&self) -> *mut u8 {
        self.start.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_do_not_overlap_and_all_is_free_when_all_are_given_back() {
        static SPARE: Spare = Spare::new();
        assert!(SPARE.take_piece(Layout::new::<usize>()).is_null());
        SPARE.map().unwrap();
        for _ in 0..3 {
            let layouts = [(1, 1), (100, 16), (4096, 4096), (BYTES / 2, 8)];
            let pieces = layouts.map(|(bytes, align)| {
                let layout = Layout::from_size_align(bytes, align).unwrap();
                let start = SPARE.take_piece(layout).addr();
                assert!(start != 0 && start % align == 0);
                assert!(SPARE.has(std::ptr::without_provenance_mut(start + bytes - 1)));
                (start, bytes)
            });
            assert!(pieces.is_sorted_by(|a, b| a.0 + a.1 <= b.0));
            let give_back = |(start, bytes)| {
                SPARE.give_back(std::ptr::without_provenance_mut(start), bytes);
            };
            let half = Layout::from_size_align(BYTES / 2, 8).unwrap();
            assert!(SPARE.take_piece(half).is_null());
            give_back(pieces[3]);
            assert_eq!(SPARE.take_piece(half).addr(), pieces[3].0);
            give_back(pieces[0]);
            assert!(SPARE.take_piece(half).is_null());
            give_back(pieces[2]);
            give_back(pieces[1]);
            give_back(pieces[3]);
        }
    }

    #[test]
    fn only_a_thread_that_says_so_takes_from_the_spare() {
        static SPARE: Spare = Spare::new();
        SPARE.map().unwrap();
        let layout = Layout::new::<usize>();
        assert!(SPARE.take(layout).is_null());
        with_spare(|| {
            assert!(!with_spare(|| SPARE.take(layout)).is_null());
            assert!(!SPARE.take(layout).is_null());
        });
        assert!(SPARE.take(layout).is_null());
    }
}
