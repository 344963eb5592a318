//! Walking the heap on behalf of Ruby, whose visitors may allocate and raise:
//! they get a snapshot.
//!
//! Nothing moves while a walk goes on. It ends when the visitor is through, raises or
//! breaks out; when the fiber that it goes on in is given up and collected, because the
//! object that stands for the walk dies then (`struct walk` in `shim/gc_impl.c`); and in a
//! forked child, when it went on in a thread that the child does not have.

mod entries;

use std::cell::{Cell as StdCell, RefCell};

use ashlar_heap::{Heap, Vm};

use crate::ruby_calls::Value;

/// One that goes on.
struct Walk {
    number: usize,
    /// The Ruby thread, which stays where it is as all objects do meanwhile.
    thread: Value,
    /// The cells as they were when it began, which the shim reads.
    _words: Box<[Value]>,
}

/// All that go on. Numbers begin at 1 and are not used again.
#[derive(Default)]
pub(crate) struct Walks {
    latest: StdCell<usize>,
    all: RefCell<Vec<Walk>>,
}

/// A walk as the shim sees it: `struct ashlar_snapshot`.
#[repr(C)]
pub(crate) struct Snapshot {
    number: usize,
    words: *const Value,
    count: usize,
}

impl Walks {
    /// Begins one of a Ruby thread over cells of the heap.
    fn begin(
        &self,
        heap: &Heap<'_, impl Vm>,
        thread: Value,
        words: Vec<Value>,
    ) -> Option<Snapshot> {
        let words = words.into_boxed_slice();
        let mut all = self.all.borrow_mut();
        all.try_reserve(1).ok()?;
        let number = self.latest.get() + 1;
        self.latest.set(number);
        let begun = Snapshot {
            number,
            words: words.as_ptr(),
            count: words.len(),
        };
        all.push(Walk {
            number,
            thread,
            _words: words,
        });
        heap.begin_walk();
        Some(begun)
    }

    /// Ends the one that has this number, unless that has been done.
    fn end(&self, heap: &Heap<'_, impl Vm>, number: usize) {
        self.end_those(heap, |walk| walk.number == number);
    }

    /// In a forked child, which has `thread` alone: the walks of the others will not be ended
    /// by anybody.
    pub(crate) fn end_of_others(&self, heap: &Heap<'_, impl Vm>, thread: Value) {
        self.end_those(heap, |walk| walk.thread != thread);
    }

    fn end_those(&self, heap: &Heap<'_, impl Vm>, are_over: impl Fn(&Walk) -> bool) {
        self.all.borrow_mut().retain(|walk| {
            let is_over = are_over(walk);
            if is_over {
                heap.end_walk();
            }
            !is_over
        });
    }
}
