//! `ashlar_tracer`: one face for all that asks a program what its cells refer to. It
//! marks, rewrites references to cells that moved, or shows them to the verifier.

use std::ffi::c_void;

use ashlar_heap::{Cell, Forwarding, MarkingEnd, Region, Root, Space, Trace, Tracer as HeapTracer};

/// What a callback marks with.
pub(crate) struct Tracer<'a, 'c> {
    pub(crate) does: Does<'a, 'c>,
    pub(crate) memory: &'a Memory,
}

/// Where the heap is.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) inside: Inside,
    pub(crate) space: &'static Space,
}

/// Which addresses lie in the heap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inside {
    start: usize,
    bytes: usize,
}

impl Inside {
    pub(crate) fn of(region: &Region) -> Self {
        let tables = region.tables();
        Self {
            start: tables.start,
            bytes: tables.bytes,
        }
    }

    /// The cell that `word` refers to, if it is a reference: 0, tagged words, and addresses of objects
    /// outside the heap, which a program may have, are none.
    #[inline(always)]
    pub(crate) fn reference(self, word: usize) -> Option<Cell> {
        // The region begins at a multiple of 8. When `word` is no multiple of 8, its offset,
        // rotated to the right, is beyond any offset in the region.
        let offset = word.wrapping_sub(self.start).rotate_right(3);
        // SAFETY: `ashlar.h` says that such words are addresses of cells.
        (offset < self.bytes >> 3).then(|| unsafe { Cell::from_address(word) })
    }
}

/// # Safety
/// The program has passed a cell.
pub(crate) unsafe fn cell_of(cell: *mut c_void) -> Cell {
    // SAFETY: the program has passed a cell.
    unsafe { Cell::from_address(cell as usize) }
}

/// A cell as C sees it.
pub(crate) fn pointer(cell: Cell) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(cell.address())
}

/// What becomes of a reference.
pub(crate) enum Does<'a, 'c> {
    /// Marked, by any thread.
    MarkAnywhere(&'a mut dyn TraceWords),
    /// Marked, by the collecting thread.
    Mark(&'a mut HeapTracer<'c>),
    /// Marked once everything reachable is; the flag says whether that made any difference.
    MarkAtEnd(&'a mut MarkingEnd<'c>, bool),
    /// Rewritten.
    Update(Forwarding<'c>),
    /// Shown, as a root.
    ShowRoot(&'a mut dyn FnMut(Root)),
    /// Shown, as what a cell refers to.
    Show(&'a mut dyn FnMut(Cell)),
}

/// A tracer for any thread, with one call for many words.
pub(crate) trait TraceWords: Trace {
    /// Marks what the words refer to.
    fn mark_words(&mut self, inside: Inside, words: &[usize]);
}

impl<T: Trace> TraceWords for T {
    #[inline(always)]
    fn mark_words(&mut self, inside: Inside, words: &[usize]) {
        if words.len() >= MANY_WORDS && self.mark_later(words) {
            return;
        }
        let mut tracer = self.lent();
        for &word in words {
            if let Some(cell) = inside.reference(word) {
                tracer.mark(cell);
            }
        }
    }
}

/// A cell with at least this many words has them marked a few at a time when a collection is done
/// in slices.
const MANY_WORDS: usize = 1024;

impl<'a, 'c> Tracer<'a, 'c> {
    #[inline(always)]
    pub(crate) fn new(memory: &'a Memory, does: Does<'a, 'c>) -> Self {
        Self { does, memory }
    }

    /// The pointer that C gets.
    pub(crate) fn as_c(&mut self) -> *mut c_void {
        (self as *mut Self).cast()
    }

    #[inline(always)]
    pub(crate) fn mark(&mut self, cell: Cell) -> usize {
        match &mut self.does {
            Does::MarkAnywhere(tracer) => tracer.mark(cell),
            Does::Mark(tracer) => tracer.mark(cell),
            Does::MarkAtEnd(end, marked) => {
                *marked |= end.is_dead(cell);
                end.tracer().mark(cell);
            }
            Does::Update(now) => return now.location(cell.address()),
            Does::ShowRoot(show) => show(Root::Exact(cell)),
            Does::Show(show) => show(cell),
        }
        cell.address()
    }

    pub(crate) fn pin(&mut self, cell: Cell) {
        match &mut self.does {
            Does::MarkAnywhere(tracer) => tracer.pin(cell),
            Does::Mark(tracer) => tracer.pin(cell),
            Does::MarkAtEnd(end, marked) => {
                *marked |= end.is_dead(cell);
                end.tracer().pin(cell);
            }
            Does::Update(_) => {}
            Does::ShowRoot(show) => show(Root::Exact(cell)),
            Does::Show(show) => show(cell),
        }
    }

    /// Marks the cell that `word`, which may be a root, refers to. Words inside a cell count: a
    /// compiler may keep nothing but the address of a field.
    pub(crate) fn mark_ambiguous(&mut self, word: usize) {
        let Some(cell) = self.memory.space.region().cell_around(word) else {
            return;
        };
        match &mut self.does {
            Does::Mark(tracer) => {
                tracer.mark_conservatively(cell.address());
            }
            Does::ShowRoot(show) => show(Root::Conservative(cell.address())),
            Does::Update(_) => {}
            _ => panic!("ashlar_mark_ambiguous is for trace_roots"),
        }
    }

    /// # Safety
    /// `count` words at `words` can be read and written, and are as `ashlar.h` says.
    #[inline(always)]
    unsafe fn mark_words(&mut self, words: *mut usize, count: usize) {
        match &mut self.does {
            // SAFETY: the caller's contract; nobody writes while the program is traced.
            Does::MarkAnywhere(tracer) => tracer.mark_words(self.memory.inside, unsafe {
                std::slice::from_raw_parts(words, count)
            }),
            // SAFETY: there are `count` words, which can be written.
            _ => unsafe { self.follow_words(words, count) },
        }
    }

    /// Does what `self.does` says with each of the words that is a reference.
    ///
    /// # Safety
    /// As for [`Tracer::mark_words`].
    #[inline(never)]
    unsafe fn follow_words(&mut self, words: *mut usize, count: usize) {
        for index in 0..count {
            // SAFETY: each of the words can be written.
            unsafe { follow(self.memory.inside, words.add(index), |cell| self.mark(cell)) };
        }
    }

    /// # Safety
    /// `place` holds a word and stays valid, as `ashlar.h` says.
    unsafe fn mark_weak(&mut self, place: *mut usize) {
        // SAFETY: the place can be read.
        let word = unsafe { place.read() };
        if self.memory.inside.reference(word).is_none() {
            return;
        }
        match &mut self.does {
            // SAFETY: the place stays valid until this collection is over.
            Does::Mark(tracer) => unsafe { tracer.mark_weak(place) },
            // SAFETY: the place stays valid until this collection is over.
            Does::MarkAtEnd(end, _) => unsafe { end.tracer().mark_weak(place) },
            // SAFETY: the place can be written.
            Does::Update(now) => unsafe { place.write(now.location(word)) },
            Does::ShowRoot(_) | Does::Show(_) => {}
            Does::MarkAnywhere(_) => panic!(
                "ashlar_mark_weak: trace_anywhere must return false for cells with weak references"
            ),
        }
    }
}

/// Calls `does` with the cell that `place` refers to, if any. `does` returns where the cell is
/// now, which is written to `place` if the cell has moved.
///
/// # Safety
/// `place` can be read and written, and holds a word as `ashlar.h` says.
#[inline(always)]
pub(crate) unsafe fn follow(inside: Inside, place: *mut usize, does: impl FnOnce(Cell) -> usize) {
    // SAFETY: the place can be read.
    let Some(cell) = inside.reference(unsafe { place.read() }) else {
        return;
    };
    let now = does(cell);
    if now != cell.address() {
        // SAFETY: the place can be written.
        unsafe { place.write(now) };
    }
}

#[no_mangle]
unsafe extern "C" fn ashlar_mark(tracer: &mut Tracer<'_, '_>, cell: *mut c_void) -> *mut c_void {
    match tracer.memory.inside.reference(cell as usize) {
        Some(cell) => std::ptr::with_exposed_provenance_mut(tracer.mark(cell)),
        None => cell,
    }
}

#[no_mangle]
unsafe extern "C" fn ashlar_mark_words(
    tracer: &mut Tracer<'_, '_>,
    words: *mut usize,
    count: usize,
) {
    // SAFETY: a callback passes words as `ashlar.h` says.
    unsafe { tracer.mark_words(words, count) };
}

#[no_mangle]
unsafe extern "C" fn ashlar_mark_pinned(tracer: &mut Tracer<'_, '_>, cell: *mut c_void) {
    if let Some(cell) = tracer.memory.inside.reference(cell as usize) {
        tracer.pin(cell);
    }
}

#[no_mangle]
unsafe extern "C" fn ashlar_mark_ambiguous(
    tracer: &mut Tracer<'_, '_>,
    from: *const c_void,
    to: *const c_void,
) {
    // SAFETY: the program says that the words between the two addresses can be read.
    unsafe {
        each_word(from as usize, to as usize, |word| {
            tracer.mark_ambiguous(word)
        })
    };
}

#[no_mangle]
unsafe extern "C" fn ashlar_mark_weak(tracer: &mut Tracer<'_, '_>, place: *mut usize) {
    // SAFETY: a callback passes a place as `ashlar.h` says.
    unsafe { tracer.mark_weak(place) };
}

#[no_mangle]
extern "C" fn ashlar_is_dead(tracer: &Tracer<'_, '_>, cell: *mut c_void) -> bool {
    let Does::MarkAtEnd(end, _) = &tracer.does else {
        panic!("ashlar_is_dead is for vm.marked: nobody knows before all is marked");
    };
    // What lies outside the heap does not die in it.
    let cell = tracer.memory.inside.reference(cell as usize);
    cell.is_some_and(|cell| end.is_dead(cell))
}

/// Calls `visit` with every aligned word from `from` up to `to`.
///
/// # Safety
/// The words can be read.
pub(crate) unsafe fn each_word(from: usize, to: usize, mut visit: impl FnMut(usize)) {
    let mut address = from.next_multiple_of(8);
    while address + 8 <= to {
        // SAFETY: the caller's contract. Stacks change while they are read by their own thread:
        // nothing may be assumed about the words.
        visit(unsafe { std::ptr::with_exposed_provenance::<usize>(address).read_volatile() });
        address += 8;
    }
}
