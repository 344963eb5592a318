//! A heap and its oracle, driven by one language of operations.
//!
//! The oracle is a plain map from address to object. Before each collection the oracle says which
//! objects must live on: in a full collection what the roots reach, in a minor one also what was
//! old, in a major one what was settled, and what these objects reach. Afterwards the heap must
//! agree, object by object and byte by byte. A collection in slices may also keep what was
//! reachable when it began, or came into being since: the oracle knows what must live and what
//! may.
//!
//! At every step:
//!
//! * no cell or payload that is handed out overlaps another one;
//! * only objects that a collection found dead are released, each once;
//! * only cells that a compaction may move have moved, to the width they want,
//!   and when everything was to move, all of them;
//! * a word is the start of a live cell exactly when the oracle has an object
//!   there.

pub mod op;

use std::collections::{BTreeMap, BTreeSet};
use std::ptr::NonNull;

use ashlar_heap::refusals::{self, Refusal};
use ashlar_heap::{
    Allocation, AllocationCache, Cell, CellState, Evacuation, Heap, PaceOptions, ParallelMarking,
    Progress, Request, Scope, Shared, Stress, Urgency, WidthIndex, WorkBudget, WIDTH_MAX_BYTES,
};

use crate::toy_vm::{self, Shape, ToyVm, HEADER_WORDS};
use op::{Aim, Op};

const ROOTS: usize = 12;
const AMBIGUOUS_ROOTS: usize = 4;
const CACHES: usize = 3;
const REGION_BYTES: usize = 16 << 20;
/// Objects that exist at a time, so that one case does not take for ever.
const OBJECTS_MAX: usize = 8_000;
/// Objects to compare in one case before collecting at every `n`-th allocation is turned off, for
/// the same reason.
const COMPARISONS_MAX: usize = 100_000;

type Address = usize;

struct Payload {
    address: Address,
    bytes: usize,
    seed: usize,
}

struct Object {
    tag: usize,
    shape: Shape,
    slots: Vec<Option<Address>>,
    payload: Option<Payload>,
}

impl Object {
    fn strong(&self) -> impl Iterator<Item = Address> + '_ {
        self.slots[self.shape.weak..].iter().copied().flatten()
    }
}

/// What a collection in slices may keep.
#[derive(Default)]
struct MayLive {
    /// Reachable when the collection began or afterwards, and all that is new since.
    reachable: BTreeSet<Address>,
    /// Old when the collection began, and what these objects reached: a minor collection keeps
    /// them.
    old: BTreeSet<Address>,
    /// Settled when the collection began, and what these objects reached: a major collection
    /// keeps them.
    settled: BTreeSet<Address>,
}

/// A heap beside the map that says what must be in it.
pub struct Model<'shared, 'heap> {
    heap: &'heap Heap<'shared, ToyVm<'shared>>,
    objects: BTreeMap<Address, Object>,
    /// Objects that a collection found dead and that are not released yet.
    doomed: BTreeSet<Address>,
    /// Start and end of every cell and payload in use.
    extents: BTreeMap<Address, Address>,
    roots: Vec<Option<Address>>,
    caches: Vec<NonNull<AllocationCache<'shared>>>,
    next_tag: usize,
    released: u64,
    collections: usize,
    comparisons: usize,
    /// Cells of a slice, 0 when collections are done at once.
    slice_cells: usize,
    /// What may live, while a collection in slices is going on.
    may_live: Option<MayLive>,
    /// The remembered set was limited since the latest collection, or memory was refused.
    may_overflow: bool,
}

/// Runs a program on a fresh heap and panics when the heap and the oracle
/// disagree.
#[allow(dead_code)]
pub fn run(ops: &[Op]) {
    run_with(ParallelMarking::default(), ops);
}

/// [`run`], marking as `parallel` says until the program chooses otherwise.
pub fn run_with(parallel: ParallelMarking, ops: &[Op]) {
    let shared = Shared::reserve(REGION_BYTES).expect("address space");
    let heap = Heap::new(ToyVm::new(&shared), &shared, PaceOptions::default()).expect("a heap");
    Model::after(&heap, parallel, ops).finish();
}

/// [`run_with`] in a region of `region_bytes`, with these system calls refused. Returns how many
/// were refused. What needs no memory is done all the same, and right. The rest is done right, or
/// its failure is reported.
///
/// Other heaps of the process are refused the same calls.
#[allow(dead_code)]
pub fn run_refused(
    refusal: Refusal,
    region_bytes: usize,
    parallel: ParallelMarking,
    ops: &[Op],
) -> u64 {
    refusals::refuse(Some(refusal));
    if let Ok(shared) = Shared::reserve(region_bytes) {
        let pace = PaceOptions::default();
        if let Ok(heap) = Heap::new(ToyVm::new(&shared), &shared, pace) {
            let mut model = Model::after(&heap, parallel, ops);
            let refused_calls = refusals::refused_calls();
            model.step(Op::Sweep);
            refusals::refuse(None);
            model.may_overflow |= refused_calls > 0;
            model.finish();
            return refused_calls;
        }
    }
    refused_heap()
}

/// Ends refusals because of which there is no heap. Returns how many there were.
#[allow(dead_code)]
pub fn refused_heap() -> u64 {
    let refused_calls = refusals::refused_calls();
    refusals::refuse(None);
    assert!(refused_calls > 0, "no heap, although nothing was refused");
    refused_calls
}

impl<'shared, 'heap> Model<'shared, 'heap> {
    /// An oracle for a heap that is empty.
    pub fn new(heap: &'heap Heap<'shared, ToyVm<'shared>>) -> Self {
        *heap.vm().roots.borrow_mut() = vec![0; ROOTS];
        *heap.vm().ambiguous_roots.borrow_mut() = vec![0; AMBIGUOUS_ROOTS];
        Self {
            heap,
            objects: BTreeMap::new(),
            doomed: BTreeSet::new(),
            extents: BTreeMap::new(),
            roots: vec![None; ROOTS],
            caches: (0..CACHES).map(|_| heap.new_cache()).collect(),
            next_tag: 1,
            released: 0,
            collections: 0,
            comparisons: 0,
            slice_cells: 0,
            may_live: None,
            may_overflow: false,
        }
    }

    /// An oracle for a heap that was empty before these operations.
    fn after(
        heap: &'heap Heap<'shared, ToyVm<'shared>>,
        parallel: ParallelMarking,
        ops: &[Op],
    ) -> Self {
        heap.set_parallel_marking(parallel);
        let mut model = Self::new(heap);
        ops.iter().for_each(|op| model.step(*op));
        model
    }

    /// Does one operation on both sides.
    pub fn step(&mut self, op: Op) {
        match op {
            Op::Allocate {
                bytes,
                references,
                weak,
                protected,
                cache,
                root,
            } => {
                let shape = shape_for(bytes, references, weak, protected);
                if let Some(object) = self.allocate(shape, cache) {
                    self.set_root(root, Some(object));
                }
            }
            Op::Burst {
                bytes,
                objects,
                keep_every,
                root,
            } => self.burst(bytes, objects, keep_every, root),
            Op::Store {
                parent,
                slot,
                child,
            } => self.store_into(parent, slot, child),
            Op::StoreLate {
                parent,
                slot,
                child,
                scope,
                cells,
                by_others,
            } => self.store_late((parent, slot, child), by_others, |model| {
                model.collect_or_advance(scope, cells as usize);
            }),
            Op::StoreAll { parent, children } => self.store_all(parent, children),
            Op::Rewrite {
                parent,
                slot,
                times,
                cells,
            } => self.rewrite((parent, slot), times, cells as usize),
            Op::Clear { parent, slot } => {
                if let Some((parent, slot)) = self.choose_slot(parent, slot) {
                    self.store(parent, slot, None, false);
                }
            }
            Op::Shift { object } => self.shift(object),
            Op::Unprotect { object } => self.unprotect(object),
            Op::Root { object, root } => {
                if let Some(object) = self.choose(object) {
                    self.set_root(root, Some(object));
                }
            }
            Op::DropRoot { root } => self.set_root(root, None),
            Op::AmbiguousRoot { word, aim } => {
                let target = self.word(aim);
                self.note_revival(target);
                let mut words = self.heap.vm().ambiguous_roots.borrow_mut();
                words[word as usize % AMBIGUOUS_ROOTS] = target;
            }
            Op::SetPayload { object, bytes } => self.set_payload(object, bytes as usize),
            Op::DropPayload { object } => self.drop_payload(object),
            Op::Lookup { aim } => self.look_up(self.word(aim)),
            Op::Collect(request) => self.collect(request),
            Op::Compact {
                scope,
                evacuation,
                wishes,
            } => {
                self.heap.vm().wishes.set(wishes);
                self.collect(Request {
                    scope,
                    sweep_now: false,
                    compact: Some(evacuation),
                    settle_all: false,
                });
            }
            Op::Slice { scope, cells } => self.advance(scope, cells as usize),
            Op::CollectInSlices { cells } => self.slice_cells = cells as usize,
            Op::SweepInSlices => self.heap.sweep_in_slices(),
            Op::RestartMarking => {
                self.heap.restart_marking();
                self.heap.verify().expect("every invariant holds");
            }
            Op::Sweep => {
                self.heap.finish_sweep();
                self.sync();
                self.check_swept();
            }
            Op::Stress(stress) => {
                self.may_overflow |= stress.mark_stack_cells_max != 0;
                self.heap.set_stress(stress);
                self.count_comparisons(0);
            }
            Op::RenewCache { cache } => self.renew_cache(cache),
            Op::ReleaseEmptyBlocks => self.heap.release_empty_blocks(),
            Op::Inherit { caches } => self.inherit(caches),
            Op::NoteElsewhere { bytes } => {
                let payloads = &self.heap.shared().payloads();
                payloads.note_elsewhere(bytes as isize);
            }
            Op::Parallel(parallel) => self.heap.set_parallel_marking(parallel),
            Op::StopHelpers => drop(self.heap.shared().stop_helpers()),
            Op::SettleAll => {
                self.collect(Request {
                    settle_all: true,
                    ..Request::EVERYTHING
                });
                self.check_all_settled();
            }
            Op::Last { kib } => {
                let lasting_bytes = &self.heap.vm().lasting_bytes;
                lasting_bytes.set(lasting_bytes.get() + (usize::from(kib) << 10));
            }
            Op::Pace { nursery_kib } => self.set_nursery((nursery_kib as usize + 1) << 10),
        }
        self.sync();
    }

    /// Drops everything and asserts that the heap is empty then.
    pub fn finish(mut self) {
        self.heap.set_stress(Stress::default());
        self.collect(Request::default());
        for root in 0..ROOTS {
            self.set_root(root as u8, None);
        }
        self.heap.vm().ambiguous_roots.borrow_mut().fill(0);
        self.collect(Request::EVERYTHING);
        for cache in self.caches.drain(..) {
            // SAFETY: nobody uses the cache any more.
            unsafe { self.heap.drop_cache(cache) };
        }
        self.heap.vm().payload_cache.borrow_mut().flush();
        let usage = self.heap.usage();
        assert_eq!((usage.live_cells, usage.payload_bytes), (0, 0));
        assert_eq!(
            usage.cell_blocks, 0,
            "blocks without any cell are given back"
        );
        assert!(self.objects.is_empty() && self.extents.is_empty());
    }

    // ── What the program does ───────────────────────────────────────────────

    fn allocate(&mut self, shape: Shape, cache: u8) -> Option<Address> {
        if self.objects.len() >= OBJECTS_MAX {
            return None;
        }
        let tag = self.next_tag;
        self.next_tag += 1;
        let mut outcome = self.try_new_object(cache, tag, shape, Urgency::MayCollect);
        if outcome == Allocation::NeedsCollection {
            self.collect_as_due();
            outcome = self.try_new_object(cache, tag, shape, Urgency::MustAllocate);
        }
        if outcome == Allocation::OutOfMemory {
            self.collect(Request::EVERYTHING);
            outcome = self.try_new_object(cache, tag, shape, Urgency::MustAllocate);
        }
        self.sync();
        let Some(width) = WidthIndex::for_size(shape.bytes()) else {
            assert_eq!(outcome, Allocation::TooLarge);
            assert!(shape.bytes() > WIDTH_MAX_BYTES);
            return None;
        };
        let Allocation::Allocated(cell) = outcome else {
            assert_eq!(outcome, Allocation::OutOfMemory);
            return None;
        };
        let address = cell.address();
        assert_eq!(self.heap.region().width_of(cell), width);
        self.occupy(address, width.bytes());
        let object = Object {
            tag,
            shape,
            slots: vec![None; shape.references],
            payload: None,
        };
        self.write(address, tag, data_words(&shape));
        if let Some(may_live) = &mut self.may_live {
            may_live.reachable.insert(address);
        }
        assert!(self.objects.insert(address, object).is_none());
        Some(address)
    }

    fn try_new_object(&self, cache: u8, tag: usize, shape: Shape, urgency: Urgency) -> Allocation {
        let mut cache = self.caches[cache as usize % CACHES];
        // SAFETY: this thread alone uses the cache.
        let cache = unsafe { cache.as_mut() };
        toy_vm::try_new_object(self.heap, cache, tag, shape, urgency)
    }

    fn burst(&mut self, bytes: u16, objects: u16, keep_every: u8, root: u8) {
        let shape = shape_for(bytes.max(32), 1, 0, true);
        let keep_every = keep_every as usize;
        self.set_root(root, None);
        for number in 0..objects as usize {
            let Some(object) = self.allocate(shape, 0) else {
                return;
            };
            if keep_every != 0 && number % keep_every == 0 {
                let head = self.roots[root as usize % ROOTS];
                self.store(object, 0, head, true);
                self.set_root(root, Some(object));
            }
        }
    }

    fn store_into(&mut self, parent: u16, slot: u8, child: u16) {
        if let (Some((parent, slot)), Some(child)) =
            (self.choose_slot(parent, slot), self.choose(child))
        {
            let barrier = self.objects[&parent].shape.protected;
            self.store(parent, slot, Some(child), barrier);
        }
    }

    /// Stores, and has `work` done between the barrier and the store. Meanwhile the parent and
    /// the child are on the stack of the program.
    fn store_late(
        &mut self,
        (parent, slot, child): (u16, u8, u16),
        by_others: bool,
        work: impl FnOnce(&mut Self),
    ) {
        let Some((parent, slot)) = self.choose_slot(parent, slot) else {
            return;
        };
        let shape = self.objects[&parent].shape;
        let child = self.choose(child).filter(|_| shape.protected);
        let Some(child) = child.filter(|_| slot >= shape.weak) else {
            return;
        };
        let heap = self.heap;
        let stack = |words: &[Address]| {
            let mut all = heap.vm().ambiguous_roots.borrow_mut();
            all.truncate(AMBIGUOUS_ROOTS);
            all.extend(words);
        };
        stack(&[parent, child]);
        self.note_revival(parent);
        self.note_revival(child);
        // SAFETY: both are reachable, so they are live cells.
        unsafe { heap.write_barrier(cell(parent), cell(child)) };
        if by_others {
            work(self);
            heap.after_others_collected_before_store();
        } else {
            heap.between_barrier_and_store(|| work(self));
        }
        self.store(parent, slot, Some(child), false);
        stack(&[]);
    }

    fn store_all(&mut self, parent: u16, children: u16) {
        let Some(parent) = self.choose(parent) else {
            return;
        };
        for slot in 0..self.objects[&parent].slots.len() {
            let child = self.choose(children.wrapping_mul(slot as u16 + 1));
            self.store(parent, slot, child, false);
        }
        // SAFETY: the object is reachable, so it is a live cell.
        unsafe { self.heap.write_barrier_all(cell(parent)) };
    }

    /// Stores new objects into one slot, one after the other. Each of them has a child of its
    /// own, which only it refers to.
    fn rewrite(&mut self, (parent, slot): (u16, u8), times: u8, cells: usize) {
        const ROOT: u8 = 0;
        let Some((parent, slot)) = self.choose_slot(parent, slot) else {
            return;
        };
        self.set_root(ROOT, Some(parent));
        for _ in 0..times {
            let shape = shape_for(64, 1, 0, true);
            let Some(child) = self.allocate(shape, 0) else {
                return;
            };
            self.set_root(ROOT + 1, Some(child));
            let grandchild = self.allocate(shape, 0);
            // Both may have moved.
            let [parent, child] = [ROOT, ROOT + 1].map(|root| self.roots[root as usize]);
            let (Some(parent), Some(child)) = (parent, child) else {
                return;
            };
            self.store(child, 0, grandchild, true);
            let barrier = self.objects[&parent].shape.protected;
            self.store(parent, slot, Some(child), barrier);
            self.set_root(ROOT + 1, None);
            self.collect_or_advance(Some(Scope::Minor), cells);
        }
    }

    /// Moves references within an object, without calling the barrier.
    fn shift(&mut self, object: u16) {
        let Some(object) = self.choose(object) else {
            return;
        };
        let known = self.object_mut(object);
        if known.shape.weak > 0 {
            return;
        }
        if toy_vm::hands_over(known.tag) && !known.slots.is_empty() {
            known.slots.rotate_left(1);
        } else {
            known.slots.sort_by_key(Option::is_none);
        }
        // SAFETY: the object is reachable, so it is a live cell, and has no weak
        // references.
        unsafe { toy_vm::shift_references(cell(object)) };
    }

    fn store(&mut self, parent: Address, slot: usize, child: Option<Address>, barrier: bool) {
        // SAFETY: both are reachable, so they are live cells.
        unsafe { toy_vm::store(self.heap, cell(parent), slot, child.map(cell), barrier) };
        self.object_mut(parent).slots[slot] = child;
        if let Some(child) = child {
            self.note_revival(child);
        }
    }

    fn unprotect(&mut self, object: u16) {
        if let Some(object) = self.choose(object) {
            // SAFETY: the object is reachable, so it is a live cell.
            unsafe { self.heap.unprotect(cell(object)) };
            self.object_mut(object).shape.protected = false;
        }
    }

    fn set_root(&mut self, root: u8, object: Option<Address>) {
        let root = root as usize % ROOTS;
        if let Some(object) = object {
            self.note_revival(object);
        }
        self.roots[root] = object;
        self.heap.vm().roots.borrow_mut()[root] = object.unwrap_or(0);
    }

    fn set_payload(&mut self, object: u16, bytes: usize) {
        let Some(address) = self.choose(object) else {
            return;
        };
        // SAFETY: the object is reachable, so it is a live cell.
        let done = unsafe { toy_vm::set_payload(self.heap, cell(address), bytes) };
        let old = self.object_mut(address).payload.take();
        if !done {
            // The payload is then as it was.
            self.check_payload(old.as_ref(), usize::MAX);
            self.object_mut(address).payload = old;
            return;
        }
        if let Some(old) = &old {
            self.extents.remove(&old.address);
        }
        // SAFETY: the object is a live cell with a payload's place.
        let fresh = unsafe { toy_vm::payload(cell(address)) };
        let moved = old.map(|old| Payload {
            address: fresh,
            ..old
        });
        self.check_payload(moved.as_ref(), bytes);
        let usable = self.heap.space().usable_bytes(fresh).unwrap();
        assert!(usable >= bytes.max(1) && fresh % 16 == 0);
        self.occupy(fresh, usable);
        let payload = Payload {
            address: fresh,
            bytes,
            seed: self.next_tag,
        };
        self.next_tag += 1;
        self.write(fresh, payload.seed, sampled_words(bytes));
        self.object_mut(address).payload = Some(payload);
    }

    fn drop_payload(&mut self, object: u16) {
        let Some(address) = self.choose(object) else {
            return;
        };
        // SAFETY: the object is reachable, so it is a live cell.
        unsafe { toy_vm::drop_payload(self.heap, cell(address)) };
        if let Some(payload) = self.object_mut(address).payload.take() {
            self.extents.remove(&payload.address);
        }
    }

    fn renew_cache(&mut self, cache: u8) {
        let cache = cache as usize % CACHES;
        // SAFETY: nobody uses the cache any more.
        unsafe { self.heap.drop_cache(self.caches[cache]) };
        self.caches[cache] = self.heap.new_cache();
    }

    fn inherit(&mut self, caches: bool) {
        self.heap.inherit();
        if caches {
            self.heap.vm().payload_cache.borrow_mut().flush();
        }
    }

    fn set_nursery(&mut self, nursery_bytes: usize) {
        self.heap.set_pace_options(PaceOptions {
            nursery_min_bytes: nursery_bytes,
            nursery_max_bytes: nursery_bytes * 4,
            heap_min_bytes: nursery_bytes,
            ..PaceOptions::default()
        });
    }

    // ── Collections ─────────────────────────────────────────────────────────

    fn collect(&mut self, request: Request) {
        self.finish_marking();
        self.may_overflow |= refusals::refused_calls() > 0;
        let (old, settled) = (self.old_objects(), self.settled_objects());
        let (known, next) = (!self.heap.is_sweeping(), self.heap.next_scope());
        let room_before = self.has_room_to_move();
        let scope = self.heap.collect(request);
        self.collections += 1;
        if self.heap.stress().move_everything {
            assert_eq!(scope, Scope::Full);
        } else if let Some(asked) = request.scope {
            // After an overflow of the remembered set only a full collection is right.
            assert!(scope == asked || (self.may_overflow && scope == Scope::Full));
        } else if known && !self.may_overflow {
            let next = match (next, request.compact) {
                (Scope::Major, Some(_)) => Scope::Full,
                (Scope::Minor, _) if self.heap.stress().no_minor => Scope::Major,
                (next, _) => next,
            };
            assert_eq!(scope, next, "pacing foretells the scope");
        }
        self.may_overflow = self.heap.stress().mark_stack_cells_max != 0;
        let mut survivors = self.reachable_from_roots();
        match scope {
            Scope::Minor => survivors.extend(self.reach(old)),
            Scope::Major => survivors.extend(self.reach(settled)),
            Scope::Full => {}
        }
        self.bury_all_but(&survivors);
        let evacuation = self.evacuation(request, scope);
        if let Some(evacuation) = evacuation {
            let pinned = self.pinned(&survivors);
            let moves = self.follow_moves();
            self.check_moves(evacuation, &survivors, &pinned, &moves, room_before);
            survivors = survivors
                .iter()
                .map(|a| moves.get(a).copied().unwrap_or(*a))
                .collect();
        }
        assert!(self.heap.vm().moves.borrow().is_empty(), "moved unasked");
        if request.sweep_now || evacuation.is_some() {
            self.check_swept();
        }
        self.compare(&survivors);
    }

    /// Does what a VM does when a collection is due.
    fn collect_as_due(&mut self) {
        match self.heap.stress().slice_cells {
            0 => self.collect_or_advance(None, self.slice_cells),
            cells => self.advance(None, cells),
        }
    }

    /// Does a part of a collection, or a whole one where `cells` is 0.
    fn collect_or_advance(&mut self, scope: Option<Scope>, cells: usize) {
        match cells {
            0 => self.collect(Request {
                scope,
                ..Request::default()
            }),
            _ => self.advance(scope, cells),
        }
    }

    /// Does a part of a collection.
    fn advance(&mut self, scope: Option<Scope>, cells: usize) {
        if self.may_live.is_none() {
            self.may_live = Some(MayLive {
                reachable: self.reachable_from_roots(),
                old: self.reach(self.old_objects()),
                settled: self.reach(self.settled_objects()),
            });
        }
        let progress = self.heap.advance(scope, &mut WorkBudget::cells(cells));
        self.sync();
        match progress {
            Progress::Sweeping => self.may_live = None,
            Progress::Marked(scope) => self.settle_slices(scope),
            Progress::Marking => {
                if self.comparisons <= COMPARISONS_MAX {
                    self.heap
                        .verify()
                        .expect("every invariant holds while marking");
                }
                self.count_comparisons(self.objects.len() / 4 + 50);
            }
        }
    }

    /// Brings the collection in slices to its end, if one is going on.
    fn finish_marking(&mut self) {
        let is_marking = self.may_live.is_some();
        assert_eq!(self.heap.is_marking(), is_marking);
        let scope = self.heap.finish_marking();
        assert_eq!(scope.is_some(), is_marking);
        if let Some(scope) = scope {
            self.settle_slices(scope);
        }
    }

    /// Ends a collection in slices: it kept what must live, and nothing but what may.
    fn settle_slices(&mut self, scope: Scope) {
        self.collections += 1;
        let mut may_live = self.may_live.take().expect("a collection in slices");
        let mut must_live = self.reachable_from_roots();
        match scope {
            Scope::Minor => {
                must_live.extend(self.reach(self.old_objects()));
                may_live.reachable.append(&mut may_live.old);
            }
            Scope::Major => {
                must_live.extend(self.reach(self.settled_objects()));
                may_live.reachable.append(&mut may_live.settled);
            }
            Scope::Full => {}
        }
        let is_live = |address: &Address| !self.heap.is_garbage(cell(*address));
        let survivors: BTreeSet<Address> = self.objects.keys().copied().filter(is_live).collect();
        let lost: Vec<_> = must_live.difference(&survivors).collect();
        assert!(lost.is_empty(), "reachable and found dead: {lost:x?}");
        let kept: Vec<_> = survivors.difference(&may_live.reachable).collect();
        assert!(kept.is_empty(), "kept without a reason: {kept:x?}");
        for child in survivors.iter().flat_map(|at| self.objects[at].strong()) {
            assert!(survivors.contains(&child), "{child:#x} has a live parent");
        }
        self.bury_all_but(&survivors);
        self.compare(&survivors);
    }

    fn bury_all_but(&mut self, survivors: &BTreeSet<Address>) {
        self.clear_dead_weak_references(survivors);
        let dead = self.objects.keys().filter(|a| !survivors.contains(a));
        self.doomed = dead.copied().collect();
        self.sync();
    }

    fn compare(&mut self, survivors: &BTreeSet<Address>) {
        self.check(survivors);
        self.count_comparisons(self.objects.len() + 500);
    }

    fn count_comparisons(&mut self, comparisons: usize) {
        self.comparisons += comparisons;
        let stress = self.heap.stress();
        if self.comparisons > COMPARISONS_MAX && stress.collect_every + stress.slice_cells > 0 {
            self.heap.set_stress(Stress {
                collect_every: 0,
                slice_cells: 0,
                ..stress
            });
        }
    }

    // ── Moving ──────────────────────────────────────────────────────────────

    /// How much the collection that has just ended had to move.
    fn evacuation(&self, request: Request, scope: Scope) -> Option<Evacuation> {
        if self.heap.stress().move_everything {
            return Some(Evacuation::Everything);
        }
        request.compact.filter(|_| scope == Scope::Full)
    }

    /// Whether there are so many empty blocks that every cell can move.
    fn has_room_to_move(&self) -> bool {
        let in_use = self.heap.space().blocks().counts().in_use;
        // A new block beside each used one, and a started block for every width.
        2 * in_use + 64 < self.heap.region().reserved_blocks() && refusals::current().is_none()
    }

    /// Survivors that must not move: a reference to them cannot be rewritten, or they do not want
    /// to move.
    fn pinned(&self, survivors: &BTreeSet<Address>) -> BTreeSet<Address> {
        let words = self.heap.vm().ambiguous_roots.borrow();
        let is_pinned = |address: &Address| {
            let object = &self.objects[address];
            words.contains(address) || self.wanted_width(object).is_none()
        };
        survivors.iter().copied().filter(is_pinned).collect()
    }

    fn wanted_width(&self, object: &Object) -> Option<WidthIndex> {
        let wishes = self.heap.vm().wishes.get();
        wishes.width(object.tag, object.shape.bytes())
    }

    /// Rewrites every address the oracle knows as the heap says it moved.
    fn follow_moves(&mut self) -> BTreeMap<Address, Address> {
        let list = std::mem::take(&mut *self.heap.vm().moves.borrow_mut());
        let moves: BTreeMap<_, _> = list.iter().copied().collect();
        assert_eq!(moves.len(), list.len(), "each cell moves once");
        let location = |address: Address| moves.get(&address).copied().unwrap_or(address);
        for object in self.objects.values_mut() {
            for slot in object.slots.iter_mut().flatten() {
                *slot = location(*slot);
            }
        }
        for root in self.roots.iter_mut().flatten() {
            *root = location(*root);
        }
        for (from, to) in &moves {
            assert!(!moves.contains_key(to), "{to:#x} was left and filled");
            let object = self.objects.remove(from).expect("only objects move");
            assert!(self.objects.insert(*to, object).is_none());
            self.occupy(*to, self.width_at(*to).bytes());
        }
        // The cells that were left stay out of use until the compaction is over.
        for from in moves.keys() {
            self.extents.remove(from);
        }
        moves
    }

    fn check_moves(
        &self,
        evacuation: Evacuation,
        survivors: &BTreeSet<Address>,
        pinned: &BTreeSet<Address>,
        moves: &BTreeMap<Address, Address>,
        room_before: bool,
    ) {
        let room_before = room_before && self.heap.vm().wishes.get().refused_every == 0;
        for address in survivors {
            let Some(&to) = moves.get(address) else {
                let must_move = evacuation == Evacuation::Everything && !pinned.contains(address);
                assert!(!(must_move && room_before), "{address:#x} stayed");
                continue;
            };
            assert!(
                !pinned.contains(address),
                "{address:#x} is pinned and moved"
            );
            let wanted = self.wanted_width(&self.objects[&to]);
            let width = self.width_at(to);
            assert!(
                wanted == Some(width) || !room_before,
                "{to:#x} is {width:?}"
            );
        }
        if room_before {
            for address in survivors
                .difference(pinned)
                .filter(|a| !moves.contains_key(a))
            {
                let wanted = self.wanted_width(&self.objects[address]);
                assert_eq!(wanted, Some(self.width_at(*address)));
            }
        }
    }

    /// Notes what a word or a weak reference may bring back while a collection is going on,
    /// although it was unreachable when the collection began.
    fn note_revival(&mut self, word: Address) {
        let is_object = self.objects.contains_key(&word) && !self.doomed.contains(&word);
        if self.may_live.is_some() && is_object {
            let revived = self.reach([word]);
            if let Some(may_live) = &mut self.may_live {
                may_live.reachable.extend(revived);
            }
        }
    }

    /// Objects that a minor collection keeps whether anything refers to them or not.
    fn old_objects(&self) -> Vec<Address> {
        self.objects_in_state(CellState::is_old)
    }

    /// Objects that a major collection keeps whether anything refers to them or not.
    fn settled_objects(&self) -> Vec<Address> {
        self.objects_in_state(CellState::is_settled)
    }

    fn objects_in_state(&self, wanted: impl Fn(CellState) -> bool) -> Vec<Address> {
        let is_wanted = |address: &Address| {
            let state = self.heap.region().state(cell(*address));
            wanted(state) && !self.doomed.contains(address)
        };
        self.objects.keys().copied().filter(is_wanted).collect()
    }

    /// What the roots reach, ambiguous ones included. Objects found dead
    /// earlier are swept before anything is marked, so no word finds them.
    fn reachable_from_roots(&self) -> BTreeSet<Address> {
        let words = self.heap.vm().ambiguous_roots.borrow();
        let is_object =
            |word: &&Address| self.objects.contains_key(word) && !self.doomed.contains(word);
        let ambiguous = words.iter().filter(is_object).copied();
        self.reach(self.roots.iter().copied().flatten().chain(ambiguous))
    }

    fn reach(&self, from: impl IntoIterator<Item = Address>) -> BTreeSet<Address> {
        let mut seen = BTreeSet::new();
        let mut grey: Vec<Address> = from.into_iter().collect();
        while let Some(address) = grey.pop() {
            if seen.insert(address) {
                grey.extend(self.objects[&address].strong());
            }
        }
        seen
    }

    fn clear_dead_weak_references(&mut self, survivors: &BTreeSet<Address>) {
        for address in survivors {
            let object = self.objects.get_mut(address).expect("a survivor");
            for slot in &mut object.slots[..object.shape.weak] {
                *slot = slot.filter(|target| survivors.contains(target));
            }
        }
    }

    /// Notes what the sweeper released since the latest call.
    fn sync(&mut self) {
        for address in std::mem::take(&mut *self.heap.vm().released.borrow_mut()) {
            assert!(self.doomed.remove(&address), "{address:#x} was alive");
            let object = self.objects.remove(&address).expect("released once");
            self.extents.remove(&address);
            if let Some(payload) = object.payload {
                self.extents.remove(&payload.address);
            }
            self.released += 1;
        }
    }

    // ── Comparing ───────────────────────────────────────────────────────────

    fn check(&self, survivors: &BTreeSet<Address>) {
        self.heap.verify().expect("every invariant holds");
        for address in survivors {
            self.check_object(*address);
        }
        let (stats, usage) = (self.heap.stats(), self.heap.usage());
        assert_eq!(usage.live_cells, self.objects.len());
        assert_eq!(stats.freed_cells, self.released);
        assert_eq!(stats.marked_cells, survivors.len(), "marked cells");
        assert_eq!(stats.old_cells, self.old_objects().len(), "old cells");
        let settled_cells = self.settled_objects().len();
        assert_eq!(stats.settled_cells, settled_cells, "settled cells");
        assert_eq!(stats.collections(), self.collections);
        assert_eq!(self.heap.disturbed_free_cells(), 0);
        if self.doomed.is_empty() {
            let mut cells = Vec::new();
            self.heap
                .for_each_cell(|cell, _| cells.push(cell.address()));
            assert!(self.objects.keys().eq(&cells), "live cells differ");
        }
    }

    fn check_all_settled(&self) {
        if self.heap.stress().no_settling {
            return;
        }
        for &address in self.objects.keys() {
            let state = self.heap.region().state(cell(address));
            assert!(
                state.is_settled() || state.is_unprotected(),
                "{address:#x}: {state:?}"
            );
        }
    }

    fn check_swept(&self) {
        let doomed = &self.doomed;
        assert!(doomed.is_empty(), "dead but unswept: {doomed:x?}");
    }

    fn check_object(&self, address: Address) {
        let object = &self.objects[&address];
        // SAFETY: the object survived, so its memory is its own.
        unsafe {
            let cell = cell(address);
            let word = |index| self.word_of(address, index).read();
            assert!(!self.heap.is_garbage(cell), "{address:#x} is reachable");
            assert_eq!(word(0), object.tag, "tag of {address:#x}");
            for (index, expected) in object.slots.iter().enumerate() {
                let found = toy_vm::load(cell, index).map(Cell::address);
                assert_eq!(found, *expected, "reference {index} of {address:#x}");
            }
            for index in data_words(&object.shape) {
                let expected = pattern(object.tag, index);
                assert_eq!(word(index), expected, "word {index} of {address:#x}");
            }
            let payload = object.payload.as_ref().map_or(0, |p| p.address);
            assert_eq!(toy_vm::payload(cell), payload);
        }
        self.check_payload(object.payload.as_ref(), usize::MAX);
    }

    /// Asserts that the first `bytes_max` bytes of a payload are as they were written.
    fn check_payload(&self, payload: Option<&Payload>, bytes_max: usize) {
        let Some(payload) = payload else { return };
        for word in sampled_words(payload.bytes) {
            if (word + 1) * 8 > bytes_max {
                continue;
            }
            // SAFETY: the payload is in use and at least this long.
            let found = unsafe { self.word_of(payload.address, word).read() };
            let expected = pattern(payload.seed, word);
            assert_eq!(found, expected, "payload word {word}");
        }
    }

    fn look_up(&self, word: Address) {
        let found = self.heap.region().cell_at(word);
        assert_eq!(found.is_some(), self.objects.contains_key(&word));
        if let Some(cell) = found {
            assert_eq!(cell.address(), word);
            assert_eq!(self.heap.is_garbage(cell), self.doomed.contains(&word));
        }
    }

    /// Notes that `[start, start + bytes)` is in use, and asserts that nothing else is there.
    fn occupy(&mut self, start: Address, bytes: usize) {
        let end = start + bytes;
        let before = self.extents.range(..end).next_back();
        if let Some((other, other_end)) = before {
            assert!(
                *other_end <= start,
                "{start:#x}..{end:#x} overlaps {other:#x}..{other_end:#x}"
            );
        }
        self.extents.insert(start, end);
    }

    // ── Choosing ────────────────────────────────────────────────────────────

    /// Some object the program can get at: from a root, a few references on.
    fn choose(&self, choice: u16) -> Option<Address> {
        let mut choice = choice as usize;
        let first = choice % ROOTS;
        choice /= ROOTS;
        let mut at = (0..ROOTS).find_map(|n| self.roots[(first + n) % ROOTS])?;
        while choice % 4 != 0 {
            choice /= 4;
            let slots = &self.objects[&at].slots;
            match slots.iter().flatten().cycle().nth(choice % 16) {
                Some(next) => at = *next,
                None => break,
            }
        }
        Some(at)
    }

    fn choose_slot(&self, parent: u16, slot: u8) -> Option<(Address, usize)> {
        let parent = self.choose(parent)?;
        let slots = self.objects[&parent].slots.len();
        (slots > 0).then(|| (parent, slot as usize % slots))
    }

    fn word(&self, aim: Aim) -> Address {
        match aim {
            Aim::Object { n, offset } => {
                let n = n as usize % self.objects.len().max(1);
                let start = self.objects.keys().nth(n).copied().unwrap_or(0);
                start + offset as usize
            }
            Aim::Region { offset } => self.heap.region().start() + offset as usize,
            Aim::Anywhere { word } => word as usize,
        }
    }

    // ── Memory ──────────────────────────────────────────────────────────────

    fn object_mut(&mut self, address: Address) -> &mut Object {
        self.objects.get_mut(&address).expect("an object")
    }

    fn width_at(&self, address: Address) -> WidthIndex {
        self.heap.region().width_of(cell(address))
    }

    fn word_of(&self, address: Address, index: usize) -> *mut usize {
        let start = self.heap.region().pointer(address).cast::<usize>();
        start.wrapping_add(index)
    }

    /// Writes the pattern of `seed` to these words of a cell or payload of an object.
    fn write(&self, start: Address, seed: usize, words: impl Iterator<Item = usize>) {
        for index in words {
            // SAFETY: the object's memory is this long.
            unsafe { self.word_of(start, index).write(pattern(seed, index)) };
        }
    }
}

fn cell(address: Address) -> Cell {
    // SAFETY: the oracle has only addresses of cells.
    unsafe { Cell::from_address(address) }
}

/// A shape of about `bytes`: a header, then references as far as there is room, then data.
fn shape_for(bytes: u16, references: u8, weak: u8, protected: bool) -> Shape {
    let words = (bytes as usize / 8).max(HEADER_WORDS);
    let references = (references as usize).min(words - HEADER_WORDS);
    Shape {
        references,
        weak: (weak as usize).min(references),
        data_words: words - HEADER_WORDS - references,
        protected,
    }
}

fn data_words(shape: &Shape) -> std::ops::Range<usize> {
    let first = HEADER_WORDS + shape.references;
    first..first + shape.data_words
}

/// The words of a payload that are written and checked: all of a small payload, a few of every
/// page of a large one.
fn sampled_words(bytes: usize) -> impl Iterator<Item = usize> {
    const DENSE: usize = 64;
    let words = bytes / 8;
    let last = words.saturating_sub(DENSE).max(DENSE);
    let middle = (DENSE..last.max(DENSE)).step_by(511);
    (0..words.min(DENSE))
        .chain(middle)
        .chain(last..words.max(last))
}

fn pattern(seed: usize, index: usize) -> usize {
    (seed << 20 ^ index).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
