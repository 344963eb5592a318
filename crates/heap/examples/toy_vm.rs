//! A VM that does all that a VM may do: its objects have a list of references, some of which may
//! be weak, own one payload each, and move. The tests drive the heap with this VM, and it is what
//! to copy when giving another VM this heap.
//!
//! Run it with `cargo run --example toy_vm`.

use std::cell::{Cell as StdCell, RefCell};
use std::ptr::NonNull;

use ashlar_heap::{
    Allocation, AllocationCache, Cell, CellState, Evacuation, Forwarding, Heap, Inspection,
    MarkingEnd, Moving, PaceOptions, Request, Root, Shared, ThreadCache, Trace, TraceCommon,
    Tracer, Urgency, Vm, WidthIndex,
};

/// Words of a toy object before its references.
///
/// ```text
/// [ tag │ counts │ payload │ reference 0 │ reference 1 │ … │ data … ]
/// ```
/// The tag is never 0 and belongs to the program. The counts are, 16 bits each,
/// the number of references, the words of data, and how many of the references,
/// the first ones, are weak.
pub const HEADER_WORDS: usize = 3;

const DATA_SHIFT: u32 = 16;
const WEAK_SHIFT: u32 = 32;
const COUNT_MASK: usize = 0xFFFF;

/// What a toy object consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// References, weak ones included.
    pub references: usize,
    /// How many of the references, the first ones, are weak.
    pub weak: usize,
    /// Words of data after the references.
    pub data_words: usize,
    /// Whether every store into it is followed by the write barrier.
    pub protected: bool,
}

impl Shape {
    /// References only, each store followed by the write barrier.
    pub fn plain(references: usize) -> Self {
        Self {
            references,
            weak: 0,
            data_words: 0,
            protected: true,
        }
    }

    /// Bytes of an object of this shape.
    pub fn bytes(self) -> usize {
        (HEADER_WORDS + self.references + self.data_words) * 8
    }
}

/// The VM: its roots, and what its threads allocate with.
pub struct ToyVm<'heap> {
    /// Cells the program refers to directly; 0 for none.
    pub roots: RefCell<Vec<usize>>,
    /// Words that may be cells, as a machine stack has them.
    pub ambiguous_roots: RefCell<Vec<usize>>,
    /// Roots that the program is changing without a write barrier.
    pub changing_roots: RefCell<Vec<usize>>,
    /// Cells that finalizers are to see, whether or not anything else keeps them:
    /// marked when everything else is.
    pub finalizable: RefCell<Vec<usize>>,
    /// Free payload pieces of the only thread.
    pub payload_cache: RefCell<ThreadCache<'heap>>,
    /// Cells the sweeper released, in order.
    pub released: RefCell<Vec<usize>>,
    /// How many bytes of its memory the VM says will last.
    pub lasting_bytes: StdCell<usize>,
    /// What objects want when cells move.
    pub wishes: StdCell<Wishes>,
    /// Where cells moved from and to, in order.
    pub moves: RefCell<Vec<(usize, usize)>>,
}

/// What objects want when cells move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Bytes that an object wants beside those it needs, as far as there are cells of that width.
    pub spare_bytes: usize,
    /// Objects whose tag is a multiple of this do not move; 0 is for none.
    pub immovable_every: usize,
    /// For objects whose tag is a multiple of this, memory is out once they have been copied: so
    /// they stay. 0 is for none.
    pub refused_every: usize,
}

impl Wishes {
    /// The width that an object wants; `None` when it does not move.
    pub fn width(self, tag: usize, needed_bytes: usize) -> Option<WidthIndex> {
        if is_multiple(tag, self.immovable_every) {
            return None;
        }
        let spacious = WidthIndex::for_size(needed_bytes + self.spare_bytes);
        spacious.or(WidthIndex::for_size(needed_bytes))
    }
}

/// Whether `tag` is a multiple of `every`, if that is not 0.
fn is_multiple(tag: usize, every: usize) -> bool {
    every != 0 && tag % every == 0
}

impl<'heap> ToyVm<'heap> {
    /// A VM without roots, for a heap over `shared`.
    pub fn new(shared: &'heap Shared) -> Self {
        Self {
            roots: RefCell::new(Vec::new()),
            ambiguous_roots: RefCell::new(Vec::new()),
            changing_roots: RefCell::new(Vec::new()),
            finalizable: RefCell::new(Vec::new()),
            payload_cache: RefCell::new(shared.thread_cache()),
            released: RefCell::new(Vec::new()),
            lasting_bytes: StdCell::new(0),
            wishes: StdCell::new(Wishes::default()),
            moves: RefCell::new(Vec::new()),
        }
    }

    /// # Safety
    /// Nobody uses the payload any more.
    unsafe fn free_payload(&self, payload: NonNull<u8>) {
        // SAFETY: the caller owns the payload.
        unsafe { self.payload_cache.borrow_mut().free(payload) };
    }

    fn each_root(&self, mut visit: impl FnMut(Cell)) {
        for &root in self.roots.borrow().iter().filter(|&&root| root != 0) {
            // SAFETY: roots are cells of this VM's heap.
            visit(unsafe { Cell::from_address(root) });
        }
    }
}

fn word(cell: Cell, index: usize) -> *mut usize {
    std::ptr::with_exposed_provenance_mut::<usize>(cell.address()).wrapping_add(index)
}

/// Objects with weak references are for the collecting thread alone, and so are
/// those whose tag is a multiple of this: other VMs have types that only their
/// own code can trace.
const UNCOMMON_TAGS: usize = 5;

/// An object with this tag refers to something that the program is changing without a write
/// barrier, as the stack of a thread does. It must not refer to another one of its kind.
pub const SHOWS_CHANGING: usize = 1_000_000 * UNCOMMON_TAGS;

/// An object with this tag stores when it is traced, as an extension's code may: what its second
/// reference leads to goes into the first place of what its first one leads to, and is nowhere
/// else from then on.
pub const STORES_WHILE_TRACED: usize = 2_000_000 * UNCOMMON_TAGS;

/// When an object with this tag is traced, what its first reference leads to gives up the write
/// barrier from then on.
pub const UNPROTECTS_WHILE_TRACED: usize = 3_000_000 * UNCOMMON_TAGS;

/// An object with this tag does not show what it refers to.
pub const SHOWS_NOTHING: usize = 4_000_000 * UNCOMMON_TAGS + 1;

/// Traces toy objects on any thread: it needs nothing but their words.
#[derive(Clone, Copy, Debug)]
pub struct Common;

// SAFETY: what objects refer to are objects of their heap, as `store` sees to.
unsafe impl TraceCommon for Common {
    unsafe fn trace_cell(self, cell: Cell, tracer: &mut impl Trace) -> bool {
        // SAFETY: every toy object has a header.
        let (tag, counts) = unsafe { (word(cell, 0).read(), word(cell, 1).read()) };
        if counts >> WEAK_SHIFT != 0 || tag % UNCOMMON_TAGS == 0 {
            return false;
        }
        trace_strong(cell, tracer);
        true
    }

    fn reference(self, word: usize) -> Option<Cell> {
        // SAFETY: what is no cell is 0.
        (word != 0).then(|| unsafe { Cell::from_address(word) })
    }

    unsafe fn trace_below(self, cell: Cell, end: usize, tracer: &mut impl Trace) -> usize {
        // SAFETY: the object has at least `end` references.
        let last = unsafe { word(cell, HEADER_WORDS + end - 1).read() };
        if let Some(child) = self.reference(last) {
            tracer.mark(child);
        }
        end - 1
    }
}

/// Objects with at least this many references are marked in parts, as VMs mark large tables.
const MANY_REFERENCES: usize = 4;

/// Whether the references of an object with this tag are handed over when there are many. The
/// references of other objects never move upwards.
pub fn hands_over(tag: usize) -> bool {
    tag % 2 == 0
}

fn trace_strong(cell: Cell, tracer: &mut impl Trace) {
    // SAFETY: every toy object has a header.
    let (tag, counts) = unsafe { (word(cell, 0).read(), word(cell, 1).read()) };
    let count = counts & COUNT_MASK;
    let is_deferred = match (count >= MANY_REFERENCES, hands_over(tag)) {
        (false, _) => false,
        // A shared slice, because several threads may trace one object at once.
        // SAFETY: the object has `count` references, and the program is stopped.
        (true, true) => tracer
            .mark_later(unsafe { std::slice::from_raw_parts(word(cell, HEADER_WORDS), count) }),
        (true, false) => tracer.trace_later(count),
    };
    if !is_deferred {
        each_strong_reference(cell, |child| tracer.mark(child));
    }
}

/// Calls `visit` with each cell that `cell` refers to and keeps.
fn each_strong_reference(cell: Cell, mut visit: impl FnMut(Cell)) {
    each_reference(cell, |reference| match reference {
        Reference::Strong(child) => visit(child),
        Reference::Weak(_) => {}
    });
}

/// A reference of an object that refers to something.
enum Reference {
    Strong(Cell),
    /// The place where it is.
    Weak(*mut usize),
}

/// Calls `visit` with every reference of `cell`.
fn each_reference(cell: Cell, mut visit: impl FnMut(Reference)) {
    // SAFETY: every toy object has a header, and as many references as it says.
    unsafe {
        let counts = word(cell, 1).read();
        let (references, weak) = (counts & COUNT_MASK, counts >> WEAK_SHIFT);
        for index in 0..references {
            let place = word(cell, HEADER_WORDS + index);
            match place.read() {
                0 => (),
                _ if index < weak => visit(Reference::Weak(place)),
                address => visit(Reference::Strong(Cell::from_address(address))),
            }
        }
    }
}

/// Does what [`STORES_WHILE_TRACED`] says.
fn store_while_traced(cell: Cell, tracer: &mut Tracer<'_>) {
    // SAFETY: the object has two references, and what the first one leads to has one
    // and is traced by this thread alone.
    unsafe {
        let (target, child) = (word(cell, HEADER_WORDS), word(cell, HEADER_WORDS + 1));
        if child.read() != 0 {
            let target = Cell::from_address(target.read());
            word(target, HEADER_WORDS).write(child.replace(0));
            tracer.write_barrier_all(target);
        }
    }
}

// SAFETY: roots are objects of the only heap that the VM is of, as whoever adds one sees to, and
// so is what objects refer to.
unsafe impl Vm for ToyVm<'_> {
    fn trace_roots(&self, tracer: &mut Tracer<'_>) {
        self.each_root(|cell| tracer.mark(cell));
        for &word in self.ambiguous_roots.borrow().iter() {
            tracer.mark_conservatively(word);
        }
        for &word in self.changing_roots.borrow().iter() {
            if let Some(cell) = tracer.mark_conservatively(word) {
                tracer.trace_anew(cell);
            }
        }
    }

    unsafe fn trace_cell(&self, cell: Cell, tracer: &mut Tracer<'_>) {
        // SAFETY: every toy object has a header.
        let tag = unsafe { word(cell, 0).read() };
        if tag == STORES_WHILE_TRACED {
            store_while_traced(cell, tracer);
        }
        each_reference(cell, |reference| match reference {
            Reference::Strong(child) => {
                tracer.mark(child);
                if tag == SHOWS_CHANGING {
                    tracer.trace_anew(child);
                }
                if tag == UNPROTECTS_WHILE_TRACED {
                    tracer.unprotect(child);
                }
            }
            // SAFETY: the place belongs to a live object and holds a cell.
            Reference::Weak(place) => unsafe { tracer.mark_weak(place) },
        });
    }

    fn lasting_bytes(&self) -> usize {
        self.lasting_bytes.get()
    }

    fn common(&self) -> impl TraceCommon {
        Common
    }

    fn marking_done(&self, end: &mut MarkingEnd<'_>) {
        // SAFETY: the place belongs to a live object.
        end.clear_weak_references(|place| unsafe { place.write(0) });
        for &cell in self.finalizable.borrow().iter() {
            // SAFETY: what is finalizable is a cell of this VM's heap, and is kept.
            end.tracer().mark(unsafe { Cell::from_address(cell) });
        }
    }

    fn moving(&self) -> Option<&impl Moving> {
        Some(self)
    }

    fn inspection(&self) -> Option<&impl Inspection> {
        Some(self)
    }

    unsafe fn release(&self, cell: Cell, _width: WidthIndex) {
        self.released.borrow_mut().push(cell.address());
        // SAFETY: the cell is dead but its header is intact; it owned its
        // payload alone.
        unsafe {
            if let Some(payload) = NonNull::new(word(cell, 2).read() as *mut u8) {
                self.free_payload(payload);
            }
        }
    }
}

// SAFETY: all references but the pinned ones are rewritten.
unsafe impl Moving for ToyVm<'_> {
    unsafe fn wanted_width(&self, cell: Cell, _width: WidthIndex) -> Option<WidthIndex> {
        // SAFETY: every toy object has a header.
        let (tag, counts) = unsafe { (word(cell, 0).read(), word(cell, 1).read()) };
        let (references, data) = (counts & COUNT_MASK, counts >> DATA_SHIFT & COUNT_MASK);
        let needed_bytes = (HEADER_WORDS + references + data) * 8;
        self.wishes.get().width(tag, needed_bytes)
    }

    unsafe fn moved(
        &self,
        from: Cell,
        to: Cell,
        _width: WidthIndex,
        _new_width: WidthIndex,
    ) -> bool {
        // SAFETY: every toy object has a header.
        let tag = unsafe { word(from, 0).read() };
        if is_multiple(tag, self.wishes.get().refused_every) {
            return false;
        }
        let mut moves = self.moves.borrow_mut();
        moves.push((from.address(), to.address()));
        true
    }

    unsafe fn update_cell(&self, cell: Cell, _width: WidthIndex, now: Forwarding<'_>) {
        // SAFETY: every toy object has a header, and as many references as it
        // says.
        unsafe {
            let references = word(cell, 1).read() & COUNT_MASK;
            for index in 0..references {
                let place = word(cell, HEADER_WORDS + index);
                place.write(now.location(place.read()));
            }
        }
    }

    fn update_roots(&self, now: Forwarding<'_>) {
        for root in self.roots.borrow_mut().iter_mut() {
            *root = now.location(*root);
        }
    }
}

// SAFETY: as for `Vm`.
unsafe impl Inspection for ToyVm<'_> {
    fn visit_roots(&self, visit: &mut dyn FnMut(Root)) {
        self.each_root(|cell| visit(Root::Exact(cell)));
        for &word in self.ambiguous_roots.borrow().iter() {
            visit(Root::Conservative(word));
        }
    }

    unsafe fn visit_cell(&self, cell: Cell, visit: &mut dyn FnMut(Cell)) {
        // SAFETY: every toy object has a header.
        if unsafe { word(cell, 0).read() } != SHOWS_NOTHING {
            each_strong_reference(cell, visit);
        }
    }
}

/// Allocates an object without any reference or payload; its data is
/// unspecified.
pub fn try_new_object(
    heap: &Heap<'_, ToyVm<'_>>,
    cache: &mut AllocationCache<'_>,
    tag: usize,
    shape: Shape,
    urgency: Urgency,
) -> Allocation {
    let state = if shape.protected {
        CellState::NEW
    } else {
        CellState::NEW_UNPROTECTED
    };
    let outcome = heap.allocate(cache, shape.bytes(), state, urgency);
    if let Allocation::Allocated(cell) = outcome {
        // SAFETY: the cell is fresh and wide enough.
        unsafe {
            word(cell, 0).write(tag);
            word(cell, 1).write(
                shape.references | shape.data_words << DATA_SHIFT | shape.weak << WEAK_SHIFT,
            );
            for index in 2..HEADER_WORDS + shape.references {
                word(cell, index).write(0);
            }
        }
    }
    outcome
}

/// Allocates an object with `references` empty references, collecting first
/// when that is due. `None` when memory is out.
///
/// # Safety
/// The cache is one of this heap's that the calling thread alone uses, and nobody has a
/// reference to it.
#[allow(dead_code)]
pub unsafe fn new_object<'heap>(
    heap: &Heap<'heap, ToyVm<'heap>>,
    mut cache: NonNull<AllocationCache<'heap>>,
    references: usize,
    protected: bool,
) -> Option<Cell> {
    let shape = Shape {
        protected,
        ..Shape::plain(references)
    };
    let mut allocate = |urgency| {
        // SAFETY: the caller's contract; the reference ends before a collection.
        try_new_object(heap, unsafe { cache.as_mut() }, 1, shape, urgency)
    };
    let mut outcome = allocate(Urgency::MayCollect);
    if outcome == Allocation::NeedsCollection {
        heap.collect(Request::default());
        outcome = allocate(Urgency::MustAllocate);
    }
    match outcome {
        Allocation::Allocated(cell) => Some(cell),
        _ => None,
    }
}

/// Stores a reference and runs the write barrier, which comes after the store.
///
/// # Safety
/// Both are live toy objects, and `parent` has more than `index` references.
pub unsafe fn store(
    heap: &Heap<'_, ToyVm<'_>>,
    parent: Cell,
    index: usize,
    child: Option<Cell>,
    barrier: bool,
) {
    // SAFETY: `parent` has more than `index` references.
    unsafe { word(parent, HEADER_WORDS + index).write(child.map_or(0, Cell::address)) };
    if let (true, Some(child)) = (barrier, child) {
        // SAFETY: both are live objects of this heap.
        unsafe { heap.write_barrier(parent, child) };
    }
}

/// Moves references within an object without a barrier: rotates all of them by one if the object
/// hands its references over, or else moves them into the gaps below them.
///
/// # Safety
/// `cell` is a live toy object without weak references.
#[allow(dead_code)]
pub unsafe fn shift_references(cell: Cell) {
    // SAFETY: every toy object has a header, and as many references as it says.
    unsafe {
        let (tag, counts) = (word(cell, 0).read(), word(cell, 1).read());
        let references =
            std::slice::from_raw_parts_mut(word(cell, HEADER_WORDS), counts & COUNT_MASK);
        if hands_over(tag) && !references.is_empty() {
            references.rotate_left(1);
        } else {
            references.sort_by_key(|&reference| reference == 0);
        }
    }
}

/// Gives an object a payload of `bytes`, in place of the one it has. Returns false when memory is
/// out.
///
/// # Safety
/// `cell` is a live toy object.
pub unsafe fn set_payload(heap: &Heap<'_, ToyVm<'_>>, cell: Cell, bytes: usize) -> bool {
    // SAFETY: the object's payload word holds a payload of this heap or 0.
    unsafe {
        let slot = word(cell, 2);
        let mut cache = heap.vm().payload_cache.borrow_mut();
        let fresh = match NonNull::new(slot.read() as *mut u8) {
            Some(old) => cache.reallocate(old, bytes),
            None => cache.allocate(bytes),
        };
        let Ok(fresh) = fresh else { return false };
        slot.write(fresh.as_ptr() as usize);
    }
    true
}

/// Frees the payload of an object.
///
/// # Safety
/// `cell` is a live toy object.
#[allow(dead_code)]
pub unsafe fn drop_payload(heap: &Heap<'_, ToyVm<'_>>, cell: Cell) {
    // SAFETY: the object's payload word holds a payload of this heap or 0.
    unsafe {
        if let Some(payload) = NonNull::new(word(cell, 2).replace(0) as *mut u8) {
            heap.vm().free_payload(payload);
        }
    }
}

/// Reads a reference back.
///
/// # Safety
/// `cell` is a live toy object with more than `index` references.
#[allow(dead_code)]
pub unsafe fn load(cell: Cell, index: usize) -> Option<Cell> {
    // SAFETY: the caller's contract; what is stored is 0 or a cell.
    unsafe {
        match word(cell, HEADER_WORDS + index).read() {
            0 => None,
            address => Some(Cell::from_address(address)),
        }
    }
}

/// The payload of an object, 0 for none.
///
/// # Safety
/// `cell` is a live toy object.
#[allow(dead_code)]
pub unsafe fn payload(cell: Cell) -> usize {
    // SAFETY: a live object has a word for its payload.
    unsafe { word(cell, 2).read() }
}

#[allow(dead_code)]
fn main() {
    let shared = Shared::reserve(64 << 20).expect("64 MiB of address space");
    let heap = Heap::new(ToyVm::new(&shared), &shared, PaceOptions::default()).expect("a heap");
    let cache = heap.new_cache();
    // SAFETY: the cache is this thread's until it is dropped at the end.
    let new = |references| unsafe { new_object(&heap, cache, references, true) };

    // A list of 100,000 objects, and ten times as many that nobody keeps.
    for number in 0..100_000 {
        let object = new(1).expect("memory");
        // SAFETY: the object and the root are live.
        unsafe {
            let mut roots = heap.vm().roots.borrow_mut();
            let head = roots.first().map(|&head| Cell::from_address(head));
            store(&heap, object, 0, head, true);
            set_payload(&heap, object, number % 500 + 1);
            roots.clear();
            roots.push(object.address());
        }
        for _ in 0..10 {
            new(2).expect("memory");
        }
    }
    heap.collect(Request {
        scope: None,
        sweep_now: true,
        compact: Some(Evacuation::Sparse),
        settle_all: false,
    });
    let (stats, usage) = (heap.stats(), heap.usage());
    println!(
        "{} cells live in {} blocks, {} payload bytes; {} minor and {} full collections freed {} cells",
        usage.live_cells,
        usage.cell_blocks,
        usage.payload_bytes,
        stats.minor_collections,
        stats.full_collections,
        stats.freed_cells
    );
    heap.verify().expect("every invariant holds");
    // SAFETY: nobody uses the cache any more.
    unsafe { heap.drop_cache(cache) };
}
