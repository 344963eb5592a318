//! Walks over the heap on behalf of Ruby. The visitors may allocate and raise, so they walk
//! over a snapshot.
//!
//! Nothing moves during a walk. A walk ends when the visitor is through, raises or breaks
//! out; when the fiber that runs the walk is given up and collected, because the object that
//! stands for the walk (`struct walk` in `shim/gc_impl.c`) dies then; and in a forked child,
//! when the walk ran on a thread that the child does not have.

mod entries;

use std::cell::{Cell as StdCell, RefCell};

use ashlar_heap::{Heap, Vm};

use crate::ruby_calls::Value;

/// A walk that goes on.
struct Walk {
    number: usize,
    /// The Ruby thread that walks; like all objects, it does not move during a walk.
    thread: Value,
    /// The cells as they were when the walk began; the shim reads them.
    _words: Box<[Value]>,
}

/// All walks that go on. Numbers begin at 1 and are not reused.
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
    /// [`marked_count`] when the snapshot was made.
    marked_count: usize,
}

impl Walks {
    /// Begins a walk of a Ruby thread over cells of the heap; `None` when there is no memory
    /// for it.
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
            marked_count: marked_count(heap),
        };
        all.push(Walk {
            number,
            thread,
            _words: words,
        });
        heap.begin_walk();
        Some(begun)
    }

    /// Ends the walks that are over and have not ended yet, by their number and thread.
    pub(crate) fn end(&self, heap: &Heap<'_, impl Vm>, are_over: impl Fn(usize, Value) -> bool) {
        self.all.borrow_mut().retain(|walk| {
            let is_over = are_over(walk.number, walk.thread);
            if is_over {
                heap.end_walk();
            }
            !is_over
        });
    }
}

/// Returns how many collections have finished marking. While the number stays the same, a
/// cell that was free when everything was swept is either still free or a live cell of the
/// same width.
fn marked_count(heap: &Heap<'_, impl Vm>) -> usize {
    heap.collections() - usize::from(heap.is_marking())
}
