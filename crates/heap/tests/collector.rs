//! What the collector promises, one claim in each test, through the public interface.

#[allow(dead_code, missing_docs, unreachable_pub)]
mod program;
#[allow(dead_code, unreachable_pub)]
#[path = "../examples/toy_vm.rs"]
mod toy_vm;

use std::time::Duration;

use ashlar_heap::{
    for_tests::Kind, Allocation, Cell, CellRange, CellState, Evacuation, Heap, PaceOptions,
    Progress, Request, Scope, Stage, Urgency, WidthIndex, WorkBudget, BLOCK_BYTES,
};
use program::{with_program, Program, MIB};
use toy_vm::{Shape, ToyVm};

/// [`with_program`], for a minor, a major and a full collection.
fn with_each_scope(run: impl Fn(&mut Program<'_>, Scope)) {
    for scope in [Scope::Minor, Scope::Major, Scope::Full] {
        with_program(16 * MIB, |p| run(p, scope));
    }
}

impl Program<'_> {
    fn try_object(&mut self, shape: Shape, urgency: Urgency) -> Allocation {
        self.try_tagged(7, shape, urgency)
    }

    fn object(&mut self, shape: Shape) -> Cell {
        self.tagged(7, shape)
    }

    /// A protected object with `references` references that is a root and old.
    fn old_root(&mut self, references: usize) -> Cell {
        let cell = self.object(plain(references));
        self.root(cell);
        self.grow_old();
        assert!(self.state(cell).is_old());
        cell
    }

    /// Does as many minor collections as a young cell has to survive.
    fn grow_old(&self) {
        (0..3).for_each(|_| self.minor());
    }

    fn minor(&self) {
        self.collect(Scope::Minor);
    }

    fn major(&self) {
        self.collect(Scope::Major);
    }

    fn full(&self) {
        self.collect(Scope::Full);
    }

    /// An object as [`Program::old_root`] makes it, but settled.
    fn settled_root(&mut self, references: usize) -> Cell {
        let cell = self.old_root(references);
        for _ in 0..2 {
            self.major();
        }
        assert!(self.state(cell).is_settled());
        assert!(!self.state(cell).is_on_boundary());
        cell
    }

    /// The stack of a thread that is about to store `child` into `parent` and waits, as a cell that the
    /// others' collections see. It has called the barrier.
    fn waiting_stack(&mut self, parent: Cell, child: Cell) -> Cell {
        let stack = self.object(unprotected(2));
        self.root(stack);
        self.store_without_barrier(stack, 0, parent);
        self.store_without_barrier(stack, 1, child);
        self.barrier(parent, child);
        stack
    }

    /// A list of objects with `references` references each, kept by a root; collections are done when they are
    /// due. Returns the latest object, which keeps all others.
    fn chain(&mut self, objects: usize, references: usize) -> Cell {
        let mut latest = self.object(plain(references));
        self.root(latest);
        for _ in 1..objects {
            if self.heap.collection_is_due() {
                self.heap.collect(Request::default());
            }
            let next = self.object(plain(references));
            self.store(next, 0, latest);
            *self.heap.vm().roots.borrow_mut().last_mut().unwrap() = next.address();
            latest = next;
        }
        latest
    }

    /// Notes that what the program has taken will last, much more than is handed out between two
    /// collections.
    fn load_code(&self) {
        let lasting_bytes = &self.heap.vm().lasting_bytes;
        lasting_bytes.set(lasting_bytes.get() + 16 * MIB);
    }

    fn collect(&self, scope: Scope) {
        self.ask_and_get(scope, scope);
    }

    /// Asks for a collection of the scope `asked`, and asserts that its scope was `got`.
    fn ask_and_get(&self, asked: Scope, got: Scope) {
        let request = Request {
            scope: Some(asked),
            ..Request::EVERYTHING
        };
        assert_eq!(self.heap.collect(request), got);
        self.heap.verify().unwrap();
    }

    /// Begins a collection in slices and goes on until all roots so far are black, while a long
    /// list is still to be marked.
    fn begin_slices(&mut self, scope: Scope) {
        self.keep_list(1001);
        // The list is the first root: what is made grey last is traced first.
        self.heap.vm().roots.borrow_mut().rotate_right(1);
        let roots = self.heap.vm().roots.borrow().len();
        while self.heap.stage() != Stage::Tracing {
            assert_eq!(self.slice(scope, 1), Progress::Marking);
        }
        for _ in 0..20 * roots {
            assert_eq!(self.slice(scope, 1), Progress::Marking);
        }
    }

    /// Makes a list of `cells` cells that lives on.
    fn keep_list(&mut self, cells: usize) {
        let mut list = self.object(plain(1));
        self.root(list);
        for _ in 1..cells {
            let next = self.object(plain(1));
            self.store(list, 0, next);
            list = next;
        }
    }

    /// The last cell of the list that is still to be marked.
    fn end_of_list(&self) -> Cell {
        // SAFETY: the list is a root.
        let mut last = unsafe { Cell::from_address(self.heap.vm().roots.borrow()[0]) };
        while let Some(next) = self.load(last, 0) {
            last = next;
        }
        assert!(!self.state(last).is_marked());
        last
    }

    fn slice(&self, scope: Scope, cells: usize) -> Progress {
        let progress = self
            .heap
            .advance(Some(scope), &mut WorkBudget::cells(cells));
        self.heap.verify().unwrap();
        progress
    }

    /// Does slices until marking is over, then sweeps.
    fn end_slices(&self) -> Scope {
        loop {
            if let Progress::Marked(scope) = self.slice(Scope::Full, 50) {
                self.finish();
                return scope;
            }
        }
    }

    fn live_cells(&self) -> usize {
        self.heap.usage().live_cells
    }

    fn marked_cells(&self) -> usize {
        let mut marked_cells = 0;
        self.heap.for_each_cell(|cell, _| {
            marked_cells += usize::from(self.state(cell).is_marked());
        });
        marked_cells
    }
}

fn plain(references: usize) -> Shape {
    Shape::plain(references)
}

/// An object with many words beside its references.
fn buffer(references: usize) -> Shape {
    Shape {
        data_words: 16,
        ..plain(references)
    }
}

fn unprotected(references: usize) -> Shape {
    Shape {
        protected: false,
        ..plain(references)
    }
}

fn weak(references: usize) -> Shape {
    Shape {
        weak: references,
        ..plain(references)
    }
}

// ── Generations ─────────────────────────────────────────────────────────────

#[test]
fn a_cell_is_old_after_three_collections_and_an_unprotected_one_stays_young() {
    with_program(16 * MIB, |p| {
        let (protected, unprotected) = (p.object(plain(1)), p.object(unprotected(1)));
        p.root(protected);
        p.root(unprotected);
        for _ in 0..2 {
            p.minor();
            assert!(!p.state(protected).is_old());
        }
        p.minor();
        assert!(p.state(protected).is_old());
        for _ in 0..5 {
            p.full();
            p.minor();
        }
        assert!(!p.state(unprotected).is_old());
    });
}

#[test]
fn while_a_program_loads_code_survivors_of_minor_collections_are_old_at_once() {
    with_each_scope(|p, scope| {
        let parent = p.object(plain(1));
        let child = p.object(plain(0));
        let unprotected = p.object(unprotected(0));
        for cell in [parent, unprotected] {
            p.root(cell);
        }
        p.store(parent, 0, child);
        p.load_code();
        p.collect(scope);
        let is_minor = scope == Scope::Minor;
        assert_eq!(p.state(parent).is_old(), is_minor);
        assert_eq!(p.state(child).is_old(), is_minor);
        assert!(!p.state(unprotected).is_old());
        // Nothing has been loaded since.
        let later = p.object(plain(0));
        p.root(later);
        p.minor();
        assert!(!p.state(later).is_old());
    });
}

#[test]
fn cells_that_fill_holes_do_not_change_how_many_new_blocks_there_may_be() {
    with_program(16 * MIB, |p| {
        // Holes of one cell each: a cache goes from one to the next without asking the heap.
        for number in 0..2000 {
            let cell = p.object(plain(1));
            if number % 2 == 0 {
                p.root(cell);
            }
        }
        p.full();
        let bytes = p.heap.bytes_for_new_blocks();
        assert!(bytes > 0);
        for _ in 0..500 {
            p.object(plain(1));
            assert_eq!(p.heap.bytes_for_new_blocks(), bytes);
        }
    });
}

#[test]
fn a_minor_collection_keeps_old_garbage_and_a_full_one_frees_it() {
    with_program(16 * MIB, |p| {
        let cell = p.old_root(0);
        p.drop_roots();
        p.minor();
        assert!(p.lives(cell));
        p.full();
        assert!(!p.lives(cell));
    });
}

#[test]
fn what_an_old_cell_refers_to_becomes_old_with_all_it_refers_to() {
    with_program(16 * MIB, |p| {
        let parent = p.old_root(1);
        let (child, grandchild) = (p.object(plain(1)), p.object(plain(0)));
        p.store(child, 0, grandchild);
        p.store(parent, 0, child);
        p.minor();
        for cell in [child, grandchild] {
            assert!(p.state(cell).is_old());
        }
        assert!(!p.state(parent).is_remembered());
    });
}

#[test]
fn a_young_cell_reached_first_from_a_root_and_then_from_an_old_cell_takes_its_children_along() {
    // The roots are traced before the remembered set, so the child is black
    // and young when the old parent makes it old.
    with_program(16 * MIB, |p| {
        let parent = p.old_root(1);
        let (child, grandchild) = (p.object(plain(1)), p.object(plain(0)));
        p.root(child);
        p.store(child, 0, grandchild);
        p.store(parent, 0, child);
        p.minor();
        p.heap.vm().roots.borrow_mut().truncate(1);
        p.minor();
        p.minor();
        assert!(p.lives(child) && p.lives(grandchild));
        assert!(p.state(grandchild).is_old());
    });
}

#[test]
fn an_old_unprotected_cell_is_traced_at_every_minor_collection() {
    with_program(16 * MIB, |p| {
        let parent = p.old_root(1);
        let holder = p.object(unprotected(1));
        p.store(parent, 0, holder);
        p.minor();
        assert!(p.state(holder).is_old());
        for _ in 0..4 {
            let child = p.object(plain(0));
            p.store_without_barrier(holder, 0, child);
            p.minor();
            assert!(p.lives(child));
        }
        assert_eq!(p.heap.remembered_unprotected_cells(), 1);
    });
}

/// The unprotected cell is like a thread whose stack refers to what its latest call has made.
#[test]
fn what_an_old_unprotected_cell_refers_to_grows_old_by_itself() {
    with_program(16 * MIB, |p| {
        let parent = p.old_root(1);
        let holder = p.object(unprotected(1));
        p.store(parent, 0, holder);
        p.minor();
        assert!(p.state(holder).is_old());
        let (child, grandchild) = (p.object(plain(1)), p.object(plain(0)));
        p.store(child, 0, grandchild);
        p.store_without_barrier(holder, 0, child);
        for collections in 1..=4 {
            p.minor();
            for cell in [child, grandchild] {
                assert_eq!(p.state(cell).is_old(), collections > 2);
            }
        }
        let other = p.object(plain(0));
        p.store_without_barrier(holder, 0, other);
        p.minor();
        assert!(
            p.lives(child),
            "old garbage is not freed by a minor collection"
        );
    });
}

#[test]
fn what_an_old_cell_refers_to_for_a_while_only_does_not_grow_old() {
    with_program(16 * MIB, |p| {
        let parent = p.old_root(2);
        let answer = |p: &mut Program<'_>| {
            let (child, grandchild) = (p.object(plain(1)), p.object(plain(0)));
            p.store(child, 0, grandchild);
            p.store(parent, 0, child);
            p.minor();
            p.heap.verify().expect("every invariant holds");
            [child, grandchild]
        };
        let mut latest = answer(p);
        for round in 1..10 {
            let previous = std::mem::replace(&mut latest, answer(p));
            if round > 2 {
                assert!(!previous.into_iter().any(|cell| p.lives(cell)), "{round}");
                assert!(!latest.into_iter().any(|cell| p.state(cell).is_old()));
            }
        }
        // The latest child stays, and grows old by itself.
        assert!(p.state(parent).is_remembered());
        p.grow_old();
        for cell in latest {
            assert!(p.lives(cell) && p.state(cell).is_old());
        }
        assert!(!p.state(parent).is_remembered());
    });
}

#[test]
fn a_cell_that_gives_up_its_barrier_needs_none_from_then_on() {
    with_program(16 * MIB, |p| {
        let parent = p.old_root(1);
        p.unprotect(parent);
        for _ in 0..3 {
            let child = p.object(plain(0));
            p.store_without_barrier(parent, 0, child);
            p.minor();
            assert!(p.lives(child));
            p.full();
        }
    });
}

/// The object that stores is found through the one that is stored into, which is black by
/// then.
#[test]
fn what_is_stored_into_a_black_cell_while_tracing_is_marked() {
    with_each_scope(|p, scope| {
        let target = p.old_root(2);
        let storing = p.tagged(toy_vm::STORES_WHILE_TRACED, plain(2));
        let child = p.object(plain(0));
        p.store(storing, 0, target);
        p.store(storing, 1, child);
        p.store(target, 1, storing);
        p.collect(scope);
        let left = [p.load(target, 0), p.load(storing, 1)];
        assert_eq!(left, [Some(child), None]);
        assert!(p.lives(child));
    });
}

#[test]
fn a_cell_that_gives_up_its_barrier_while_it_is_traced_needs_none_from_then_on() {
    with_each_scope(|p, scope| {
        let parent = p.old_root(2);
        let tracing = p.tagged(toy_vm::UNPROTECTS_WHILE_TRACED, plain(1));
        p.store(tracing, 0, parent);
        p.store(parent, 1, tracing);
        p.collect(scope);
        let child = p.object(plain(0));
        p.store_without_barrier(parent, 0, child);
        p.minor();
        assert!(p.lives(child));
    });
}

#[test]
fn a_black_cell_that_gives_up_its_barrier_while_tracing_is_traced_again_at_the_end() {
    with_each_scope(|p, scope| {
        let parent = p.old_root(2);
        let tracing = p.tagged(toy_vm::UNPROTECTS_WHILE_TRACED, plain(1));
        p.store(tracing, 0, parent);
        // The tracing cell comes after the parent: in a minor collection the parent is black from
        // the beginning.
        match scope {
            Scope::Minor => p.root(tracing),
            Scope::Major | Scope::Full => p.store(parent, 1, tracing),
        }
        p.begin_slices(scope);
        // A minor collection traces what is remembered when the list has been traced.
        while !p.state(parent).is_unprotected() {
            assert_eq!(p.slice(scope, 1), Progress::Marking);
        }
        let child = p.object(plain(0));
        p.store_without_barrier(parent, 0, child);
        p.end_slices();
        assert!(p.lives(child));
    });
}

#[test]
fn one_barrier_covers_any_number_of_stores() {
    with_program(16 * MIB, |p| {
        let parent = p.old_root(10);
        let children: Vec<_> = (0..10).map(|_| p.object(plain(0))).collect();
        for (index, child) in children.iter().enumerate() {
            p.store_without_barrier(parent, index, *child);
        }
        p.barrier_all(parent);
        p.minor();
        assert!(children.iter().all(|child| p.lives(*child)));
    });
}

// ── Settled cells ───────────────────────────────────────────────────────────

#[test]
fn a_major_collection_keeps_what_is_settled_and_frees_other_old_cells() {
    with_program(16 * MIB, |p| {
        let settled = p.settled_root(1);
        let old = p.old_root(0);
        p.drop_roots();
        p.major();
        assert!(p.lives(settled) && !p.lives(old));
        p.full();
        assert!(!p.lives(settled));
    });
}

#[test]
fn an_old_cell_settles_only_in_a_collection_that_lets_it() {
    for scope in [Scope::Major, Scope::Full] {
        with_program(16 * MIB, |p| {
            let (settled, old) = (p.settled_root(0), p.old_root(0));
            p.stress(|stress| stress.no_settling = true);
            for _ in 0..4 {
                p.collect(scope);
                assert!(p.state(old).is_old() && !p.state(old).is_settled());
                assert!(p.state(settled).is_settled());
            }
            p.stress(|stress| stress.no_settling = false);
            p.collect(scope);
            assert!(p.state(old).is_settled());
        });
    }
}

#[test]
fn a_collection_that_settles_all_settles_what_it_finds_whatever_its_age() {
    with_program(16 * MIB, |p| {
        let (settled, old) = (p.settled_root(0), p.old_root(1));
        let aged = p.object(plain(1));
        p.root(aged);
        p.minor();
        let (young, unprotected, dead) =
            (p.object(plain(0)), p.object(plain(1)), p.object(plain(0)));
        p.store(old, 0, young);
        p.store(aged, 0, unprotected);
        p.unprotect(unprotected);
        p.heap.collect(Request {
            settle_all: true,
            ..Request::EVERYTHING
        });
        p.heap.verify().unwrap();
        assert!(!p.lives(dead));
        for cell in [settled, old, aged, young] {
            assert!(p.state(cell).is_settled());
        }
        let on_boundary = [settled, old, aged, young].map(|cell| p.state(cell).is_on_boundary());
        assert_eq!(on_boundary, [false, false, true, false]);
        assert!(p.state(unprotected).is_old() && !p.state(unprotected).is_settled());
        let stats = p.heap.stats();
        assert_eq!((stats.marked_cells, stats.settled_cells), (5, 4));
        // They are kept as if they had settled by age.
        p.drop_roots();
        p.major();
        assert!(p.lives(young) && p.lives(unprotected));
        p.full();
        assert!(!p.lives(young) && !p.lives(unprotected));
    });
}

#[test]
#[cfg_attr(miri, ignore = "too many cells for the interpreter")]
fn what_long_requests_hold_is_freed_by_major_collections_without_full_ones_in_a_row() {
    with_program(64 * MIB, |p| {
        let application = p.chain(40_000, 7);
        (0..5).for_each(|_| p.full());
        assert!(p.state(application).is_settled());
        let before = p.heap.stats();
        let mut kept_bytes_max = 0;
        for _ in 0..60 {
            p.chain(8_000, 125);
            p.drop_roots();
            p.root(application);
            let used_bytes = p.heap.shared().space().blocks().counts().in_use * BLOCK_BYTES;
            kept_bytes_max = kept_bytes_max.max(used_bytes);
        }
        let after = p.heap.stats();
        let full = after.full_collections - before.full_collections;
        let major = after.major_collections - before.major_collections;
        assert!(full > 0 && major > 3 * full, "{full} full, {major} major");
        // What two requests hold, and the application.
        assert!(kept_bytes_max < 20 * MIB, "{kept_bytes_max}");
        assert!(p.lives(application));
        p.heap.verify().unwrap();
    });
}

#[test]
fn what_settled_cells_refer_to_settles_and_leaves_them_off_the_boundary() {
    with_program(16 * MIB, |p| {
        let settled = p.settled_root(1);
        let child = p.object(plain(0));
        p.store(settled, 0, child);
        assert!(p.state(settled).is_on_boundary() && p.state(settled).is_remembered());
        p.minor();
        assert!(p.state(child).is_old() && p.state(settled).is_on_boundary());
        p.major();
        assert!(p.state(settled).is_on_boundary());
        p.major();
        assert!(p.state(child).is_settled() && !p.state(settled).is_on_boundary());
        p.drop_roots();
        p.major();
        assert!(p.lives(settled) && p.lives(child));
    });
}

#[test]
fn a_cell_that_is_marked_in_parts_is_on_the_boundary_only_for_what_has_not_settled() {
    const REFERENCES: usize = 100;
    for (tag, unsettled_at) in [6, 7]
        .into_iter()
        .flat_map(|tag| [None, Some(0), Some(REFERENCES - 1)].map(|at| (tag, at)))
    {
        with_program(16 * MIB, |p| {
            let parent = p.tagged(tag, plain(REFERENCES));
            p.root(parent);
            for index in 0..REFERENCES {
                let child = p.object(plain(0));
                p.store(parent, index, child);
            }
            p.grow_old();
            p.major();
            p.major();
            assert!(p.state(parent).is_settled() && !p.state(parent).is_on_boundary());
            let unsettled = p.old_root(0);
            p.drop_roots();
            if let Some(index) = unsettled_at {
                p.store(parent, index, unsettled);
            }
            p.barrier_all(parent);
            assert!(p.state(parent).is_on_boundary());
            while p.slice(Scope::Major, 1) != Progress::Marked(Scope::Major) {}
            p.finish();
            assert_eq!(p.state(parent).is_on_boundary(), unsettled_at.is_some());
            assert_eq!(p.lives(unsettled), unsettled_at.is_some());
        });
    }
}

#[test]
fn a_settled_cell_keeps_an_old_one_that_is_stored_into_it() {
    with_program(16 * MIB, |p| {
        let (settled, old) = (p.settled_root(1), p.old_root(0));
        p.drop_roots();
        p.root(settled);
        p.store(settled, 0, old);
        assert!(!p.state(settled).is_remembered() && p.state(settled).is_on_boundary());
        p.major();
        assert!(p.lives(old));
    });
}

#[test]
fn a_settled_cell_is_noted_also_while_a_major_collection_clears_or_traces() {
    for in_clearing in [true, false] {
        with_program(64 * MIB, |p| {
            let (settled, old) = (p.settled_root(1), p.old_root(0));
            if in_clearing {
                // Clearing takes more than one slice.
                for _ in 0..20_000 {
                    p.object(plain(0));
                }
                p.slice(Scope::Major, 1);
                assert_eq!(p.heap.stage(), Stage::Clearing);
            } else {
                p.unroot(old);
                p.begin_slices(Scope::Major);
            }
            p.unroot(old);
            p.store(settled, 0, old);
            assert!(p.state(settled).is_on_boundary());
            p.end_slices();
            assert!(p.lives(old));
            p.major();
            assert!(p.lives(old));
        });
    }
}

#[test]
fn a_settled_cell_that_is_written_to_without_a_barrier_is_on_the_boundary() {
    with_program(16 * MIB, |p| {
        let (all, unprotected) = (p.settled_root(1), p.settled_root(1));
        for (settled, is_unprotected) in [(all, false), (unprotected, true)] {
            let old = p.old_root(0);
            p.unroot(old);
            if is_unprotected {
                p.unprotect(settled);
                p.major();
                assert!(!p.lives(old));
                let old = p.object(plain(0));
                p.store_without_barrier(settled, 0, old);
                p.major();
                assert!(p.lives(old) && p.state(settled).is_on_boundary());
            } else {
                p.store_without_barrier(settled, 0, old);
                p.barrier_all(settled);
                p.major();
                assert!(p.lives(old));
            }
        }
    });
}

#[test]
fn a_boundary_that_has_no_room_makes_the_next_collection_a_full_one() {
    for in_clearing in [false, true] {
        with_program(64 * MIB, |p| {
            let settled: Vec<Cell> = (0..3).map(|_| p.settled_root(1)).collect();
            for _ in 0..20_000 {
                p.object(plain(0));
            }
            if in_clearing {
                p.slice(Scope::Major, 1);
                assert_eq!(p.heap.stage(), Stage::Clearing);
            }
            p.limit_marking(1);
            let children: Vec<Cell> = settled
                .iter()
                .map(|&parent| {
                    let child = p.object(plain(0));
                    p.store(parent, 0, child);
                    child
                })
                .collect();
            p.drop_roots();
            p.root(settled[1]);
            p.root(settled[2]);
            let before = p.heap.stats().full_collections;
            p.finish();
            if !in_clearing {
                p.ask_and_get(Scope::Major, Scope::Full);
            }
            assert_eq!(p.heap.stats().full_collections, before + 1);
            assert!(!p.lives(settled[0]) && !p.lives(children[0]));
            assert!(p.lives(children[1]) && p.lives(children[2]));
        });
    }
}

#[test]
fn marked_and_old_cells_are_counted_once_however_often_they_are_traced() {
    with_program(16 * MIB, |p| {
        let parent = p.old_root(2);
        let child = p.object(plain(1));
        p.root(child);
        p.store(parent, 0, child);
        p.store(child, 0, child);
        p.minor();
        let stats = p.heap.stats();
        assert_eq!((stats.marked_cells, stats.old_cells), (2, 2));
        p.heap.vm().roots.borrow_mut().pop();
        p.heap.vm().roots.borrow_mut().pop();
        p.full();
        let stats = p.heap.stats();
        assert_eq!((stats.marked_cells, stats.old_cells), (0, 0));
    });
}

// ── Collections in slices ───────────────────────────────────────────────────

#[test]
fn what_only_a_black_cell_refers_to_is_kept() {
    with_each_scope(|p, scope| {
        let (old, young) = (p.old_root(1), p.object(plain(1)));
        p.root(young);
        p.begin_slices(scope);
        let (first, second) = (p.object(plain(1)), p.object(plain(0)));
        p.store(young, 0, first);
        p.store(old, 0, second);
        // Further from the black cell, no barrier is called.
        let third = p.object(plain(0));
        p.store_without_barrier(first, 0, third);
        assert_eq!(p.end_slices(), scope);
        assert!(p.lives(first) && p.lives(second) && p.lives(third));
        p.minor();
        assert!(p.lives(first) && p.lives(second) && p.lives(third));
    });
}

#[test]
fn a_cell_that_moves_from_a_white_cell_to_a_black_one_is_kept() {
    with_program(16 * MIB, |p| {
        let (black, hidden) = (p.old_root(1), p.object(plain(0)));
        p.begin_slices(Scope::Full);
        let last = p.end_of_list();
        p.store(last, 0, hidden);
        p.slice(Scope::Full, 1);
        p.store(black, 0, hidden);
        p.clear(last, 0);
        p.end_slices();
        assert!(p.lives(hidden));
    });
}

#[test]
fn what_is_stored_into_a_cell_that_has_become_black_since_the_barrier_is_kept() {
    with_program(16 * MIB, |p| {
        p.begin_slices(Scope::Full);
        let last = p.end_of_list();
        let child = p.object(plain(0));
        p.push_on_stack(&[child]);
        p.barrier(last, child);
        while !p.state(last).is_marked() {
            p.heap
                .between_barrier_and_store(|| p.slice(Scope::Full, 50));
        }
        assert_eq!(p.heap.stage(), Stage::Tracing);
        p.store_without_barrier(last, 0, child);
        p.empty_stack();
        p.end_slices();
        assert!(p.lives(child));
    });
}

#[test]
fn what_is_stored_into_a_cell_that_has_become_old_since_the_barrier_is_kept() {
    for is_exact_root_too in [false, true] {
        with_program(16 * MIB, |p| {
            let parent = p.object(plain(1));
            if is_exact_root_too {
                p.root(parent);
            }
            p.push_on_stack(&[parent]);
            p.minor();
            p.minor();
            let child = p.object(plain(0));
            p.push_on_stack(&[child]);
            p.barrier(parent, child);
            p.heap.between_barrier_and_store(|| p.minor());
            assert!(p.state(parent).is_old());
            p.store_without_barrier(parent, 0, child);
            p.empty_stack();
            p.minor();
            assert!(p.lives(child), "{is_exact_root_too}");
        });
    }
}

#[test]
fn what_is_stored_into_an_old_cell_that_was_white_for_the_barrier_is_kept() {
    with_program(16 * MIB, |p| {
        let parent = p.old_root(1);
        p.begin_slices(Scope::Full);
        p.heap.restart_marking();
        // The list alone holds the parent, and no root besides.
        let last = p.end_of_list();
        p.store(last, 0, parent);
        p.heap.vm().roots.borrow_mut().truncate(1);
        while p.heap.stage() != Stage::Tracing {
            p.slice(Scope::Full, 1);
        }
        assert!(!p.state(parent).is_marked());
        let child = p.object(plain(0));
        p.push_on_stack(&[parent, child]);
        p.barrier(parent, child);
        p.heap.between_barrier_and_store(|| p.end_slices());
        p.store_without_barrier(parent, 0, child);
        p.empty_stack();
        p.minor();
        assert!(p.lives(child));
    });
}

#[test]
fn what_is_stored_into_a_cell_that_was_old_when_the_barrier_ran_is_kept() {
    with_each_scope(|p, scope| {
        let parent = p.old_root(1);
        let child = p.object(plain(0));
        p.push_on_stack(&[parent, child]);
        p.barrier(parent, child);
        // Whatever remembered the parent, the parent is traced and forgotten before the store.
        p.heap.between_barrier_and_store(|| p.collect(scope));
        p.store_without_barrier(parent, 0, child);
        p.empty_stack();
        p.heap.verify().unwrap();
        p.minor();
        assert!(p.lives(child), "{scope:?}");
    });
}

#[test]
fn a_store_without_room_to_note_what_it_is_into_makes_the_next_collection_full() {
    with_program(16 * MIB, |p| {
        let parents: Vec<_> = (0..20).map(|_| p.old_root(1)).collect();
        let child = p.object(plain(0));
        p.push_on_stack(&parents);
        p.push_on_stack(&[child]);
        p.limit_marking(5);
        for parent in &parents {
            p.barrier(*parent, child);
        }
        p.heap.between_barrier_and_store(|| p.full());
        for parent in &parents {
            p.store_without_barrier(*parent, 0, child);
        }
        p.empty_stack();
        p.heap.verify().unwrap();
        p.ask_and_get(Scope::Minor, Scope::Full);
        assert!(p.lives(child));
    });
}

#[test]
fn what_a_thread_stores_that_waited_while_others_collected_is_kept() {
    type Others = fn(&mut Program<'_>);
    let others: [Others; 4] = [
        |p| p.minor(),
        |p| p.full(),
        |p| p.begin_slices(Scope::Full),
        |p| {
            p.begin_slices(Scope::Minor);
            p.end_slices();
        },
    ];
    for (number, collect) in others.into_iter().enumerate() {
        with_program(16 * MIB, |p| {
            let parent = p.old_root(1);
            let child = p.object(plain(0));
            let stack = p.waiting_stack(parent, child);
            collect(p);
            p.push_on_stack(&[parent, child]);
            p.heap.after_others_collected_before_store();
            p.store_without_barrier(parent, 0, child);
            p.empty_stack();
            (0..2).for_each(|at| p.clear(stack, at));
            p.heap.verify().unwrap();
            p.heap.finish_marking();
            p.minor();
            assert!(p.lives(child), "{number}");
        });
    }
}

#[test]
fn what_a_thread_stores_that_waited_until_a_major_collection_clears_is_kept() {
    with_program(64 * MIB, |p| {
        let parent = p.old_root(1);
        p.major();
        let child = p.object(plain(0));
        let stack = p.waiting_stack(parent, child);
        p.major();
        assert!(p.state(parent).is_settled() && !p.state(child).is_settled());
        // Clearing takes more than one slice.
        for _ in 0..20_000 {
            p.object(plain(0));
        }
        p.slice(Scope::Major, 1);
        assert_eq!(p.heap.stage(), Stage::Clearing);
        p.push_on_stack(&[parent, child]);
        p.heap.after_others_collected_before_store();
        p.store_without_barrier(parent, 0, child);
        p.empty_stack();
        (0..2).for_each(|at| p.clear(stack, at));
        p.end_slices();
        assert!(p.lives(child));
    });
}

#[test]
fn a_root_that_came_after_the_roots_were_traced_is_kept_with_all_it_refers_to() {
    with_program(16 * MIB, |p| {
        p.old_root(0);
        p.begin_slices(Scope::Full);
        let (root, child) = (p.object(plain(1)), p.object(plain(0)));
        p.store_without_barrier(root, 0, child);
        p.root(root);
        p.end_slices();
        assert!(p.lives(root) && p.lives(child));
    });
}

#[test]
fn a_cell_without_a_barrier_is_traced_again_at_the_end() {
    with_each_scope(|p, scope| {
        let (gives_up, young) = (p.old_root(1), p.object(unprotected(1)));
        p.root(young);
        p.begin_slices(scope);
        let (first, second) = (p.object(plain(0)), p.object(plain(0)));
        p.store_without_barrier(young, 0, first);
        p.unprotect(gives_up);
        p.slice(scope, 1);
        p.store_without_barrier(gives_up, 0, second);
        p.end_slices();
        assert!(p.lives(first) && p.lives(second));
    });
}

#[test]
fn one_barrier_for_many_stores_into_a_black_cell_has_it_traced_again() {
    with_each_scope(|p, scope| {
        let black = p.old_root(3);
        p.begin_slices(scope);
        let children: Vec<_> = (0..3).map(|_| p.object(plain(0))).collect();
        for (index, child) in children.iter().enumerate() {
            p.store_without_barrier(black, index, *child);
            p.barrier_all(black);
        }
        p.end_slices();
        assert!(children.iter().all(|child| p.lives(*child)));
    });
}

#[test]
fn without_room_to_note_cells_for_the_end_all_are_traced_again() {
    with_program(16 * MIB, |p| {
        let blacks: Vec<_> = (0..20).map(|_| p.old_root(1)).collect();
        p.limit_marking(4);
        p.begin_slices(Scope::Full);
        let children: Vec<_> = (0..20).map(|_| p.object(plain(0))).collect();
        for (black, child) in blacks.iter().zip(&children) {
            p.store_without_barrier(*black, 0, *child);
            p.barrier_all(*black);
        }
        p.end_slices();
        assert!(children.iter().all(|child| p.lives(*child)));
    });
}

#[test]
fn a_weak_reference_of_a_black_cell_is_cleared_as_it_is_at_the_end() {
    with_program(16 * MIB, |p| {
        let kept = p.old_root(0);
        let holder = p.object(weak(3));
        p.root(holder);
        let [dies, replaced] = [(); 2].map(|()| p.object(plain(0)));
        p.store(holder, 0, dies);
        p.store(holder, 1, replaced);
        p.begin_slices(Scope::Full);
        p.store(holder, 1, kept);
        let late = p.object(plain(0));
        p.store_without_barrier(holder, 2, late);
        p.end_slices();
        assert!(!p.lives(dies) && !p.lives(replaced) && !p.lives(late));
        let held = [0, 1, 2].map(|index| p.load(holder, index));
        assert_eq!(held, [None, Some(kept), None]);
    });
}

/// A child that is stored without a barrier into an old cell, or a black one, while
/// the roots say that the cell is being changed.
#[test]
fn what_is_stored_silently_into_a_cell_that_is_being_changed_is_kept() {
    with_program(64 * MIB, |p| {
        let parent = p.old_root(2);
        let changing = || p.heap.vm().changing_roots.borrow_mut();
        changing().push(parent.address());
        let child = p.object(plain(0));
        p.store_without_barrier(parent, 0, child);
        p.minor();
        assert!(p.lives(child));

        for scope in [Scope::Minor, Scope::Major, Scope::Full] {
            p.begin_slices(scope);
            let child = p.object(plain(0));
            p.store_without_barrier(parent, 1, child);
            assert_eq!(p.finish(), Some(scope));
            assert!(p.lives(child), "{scope:?}");
        }
    });
}

/// As above, when the program has finished changing the cell before anybody looks again.
#[test]
fn what_is_stored_silently_at_the_end_of_a_change_is_kept() {
    let set_changing = |p: &Program<'_>, cells: &[Cell]| {
        let words = cells.iter().map(|cell| cell.address()).collect();
        *p.heap.vm().changing_roots.borrow_mut() = words;
    };
    with_program(64 * MIB, |p| {
        for scope in [Scope::Minor, Scope::Major, Scope::Full] {
            let [old, settled, young] = [p.old_root(2), p.settled_root(2), p.object(plain(2))];
            p.root(young);
            for parent in [young, old, settled] {
                set_changing(p, &[parent]);
                p.collect(scope);
                let child = p.object(plain(0));
                p.store_without_barrier(parent, 0, child);
                set_changing(p, &[]);
                p.minor();
                assert!(p.lives(child), "{scope:?} at once");
            }
        }
    });
}

/// As above, between any two of the last slices.
#[test]
fn what_is_stored_silently_between_the_last_slices_is_kept() {
    /// Stores when `slices` slices have marked, if there are as many. Returns whether the stored
    /// child was kept, and how many slices there were.
    fn store_after(scope: Scope, slices: usize) -> (bool, usize) {
        let mut outcome = (true, 0);
        with_program(64 * MIB, |p| {
            let parent = p.object(plain(1));
            p.root(parent);
            let changing = || p.heap.vm().changing_roots.borrow_mut();
            changing().push(parent.address());
            p.begin_slices(scope);
            while outcome.1 < slices {
                if p.slice(scope, 1) != Progress::Marking {
                    return;
                }
                outcome.1 += 1;
            }
            let child = p.object(plain(0));
            p.store_without_barrier(parent, 0, child);
            changing().clear();
            p.end_slices();
            outcome.0 = p.lives(child);
        });
        outcome
    }
    for scope in [Scope::Minor, Scope::Major, Scope::Full] {
        let (_, all) = store_after(scope, usize::MAX);
        for slices in all - 8..=all {
            assert_eq!(
                store_after(scope, slices),
                (true, slices),
                "{scope:?}, of {all}"
            );
        }
    }
}

#[test]
fn garbage_from_before_a_collection_in_slices_is_freed_by_it() {
    with_program(16 * MIB, |p| {
        let root = p.old_root(1);
        let dead_old = p.object(plain(0));
        p.store(root, 0, dead_old);
        p.minor();
        assert!(p.state(dead_old).is_old());
        let next = p.object(plain(0));
        p.store(root, 0, next);
        let dead_young = p.object(plain(0));
        p.begin_slices(Scope::Full);
        p.end_slices();
        assert!(!p.lives(dead_old) && !p.lives(dead_young) && p.lives(next));
    });
}

#[test]
fn a_collection_that_is_asked_for_comes_after_the_one_in_slices() {
    with_program(16 * MIB, |p| {
        let root = p.old_root(1);
        let child = p.object(plain(0));
        p.store(root, 0, child);
        p.begin_slices(Scope::Full);
        let before = p.heap.stats();
        p.clear(root, 0);
        assert!(p.heap.is_marking());
        p.full();
        assert!(!p.heap.is_marking());
        assert!(
            !p.lives(child),
            "it was dead when the collection was asked for"
        );
        assert_eq!(p.heap.stats().full_collections, before.full_collections + 1);
        assert_eq!(p.heap.finish_marking(), None);
    });
}

#[test]
fn marking_ends_although_every_slice_finds_more_than_it_may_do_and_only_the_last_one_is_long() {
    const SLICE_CELLS: usize = 4;
    with_program(64 * MIB, |p| {
        p.old_root(0);
        p.begin_slices(Scope::Full);
        let (mut slices, mut marked_before) = (0, p.marked_cells());
        while p.heap.advance(None, &mut WorkBudget::cells(SLICE_CELLS)) == Progress::Marking {
            let marked_cells = p.marked_cells();
            let roots = p.heap.vm().roots.borrow().len();
            assert!(
                marked_cells <= marked_before + 8 * SLICE_CELLS + roots,
                "slice {slices}: {marked_before} to {marked_cells}"
            );
            // A new list each time, which only the roots know.
            let mut list = p.object(buffer(1));
            p.heap.vm().roots.borrow_mut()[1] = list.address();
            for _ in 0..400 {
                let next = p.object(buffer(1));
                p.store_without_barrier(list, 0, next);
                list = next;
            }
            marked_before = p.marked_cells();
            slices += 1;
            assert!(slices < 2000);
        }
        assert!(slices > 8, "{slices}");
        p.heap.verify().unwrap();
    });
}

#[test]
fn a_marking_that_begins_anew_forgets_what_it_had_found() {
    with_each_scope(|p, scope| {
        p.old_root(0);
        let (kept, dead) = (p.object(plain(1)), p.object(plain(1)));
        p.root(kept);
        p.root(dead);
        p.begin_slices(scope);
        let full_before = p.heap.stats().full_collections;
        p.heap.restart_marking();
        p.heap.verify().unwrap();
        p.unroot(dead);
        assert_eq!(p.finish(), Some(Scope::Full));
        let was_another = scope != Scope::Full;
        assert_eq!(
            p.heap.stats().full_collections,
            full_before + usize::from(was_another)
        );
        let mut live = Vec::new();
        p.heap.for_each_cell(|cell, _| live.push(cell));
        assert!(live.contains(&kept) && !live.contains(&dead));
    });
}

#[test]
fn a_cell_with_many_references_is_marked_in_parts_while_they_move_about() {
    for hands_over in [true, false] {
        with_program(64 * MIB, |p| {
            let tag = if hands_over { 8 } else { 7 };
            assert_eq!(toy_vm::hands_over(tag), hands_over);
            let parent = p.tagged(tag, plain(120));
            p.root(parent);
            let children: Vec<Cell> = (0..100).map(|_| p.object(plain(0))).collect();
            for (number, &child) in children.iter().enumerate() {
                // There are gaps between the references.
                p.store(parent, number * 6 / 5, child);
            }
            let marked = || {
                let is_marked = |child: &&Cell| p.state(**child).is_marked();
                children.iter().filter(is_marked).count()
            };
            let mut parts = Vec::new();
            let mut scope = Some(Scope::Full);
            while scope.is_some() || p.heap.is_marking() {
                let before = marked();
                p.heap.advance(scope.take(), &mut WorkBudget::cells(1));
                parts.push(marked() - before);
                p.heap.verify().unwrap();
                // A reference to what is marked already makes room for others.
                let is_marked = |&slot: &usize| {
                    let child = p.load(parent, slot);
                    child.is_some_and(|child| p.state(child).is_marked())
                };
                if let Some(slot) = (0..120).rev().find(is_marked) {
                    p.clear(parent, slot);
                }
                // SAFETY: the object lives, and has no weak references.
                unsafe { toy_vm::shift_references(parent) };
            }
            assert_eq!(parts.iter().sum::<usize>(), 100);
            assert!(*parts.iter().max().unwrap() <= 64, "{parts:?}");
        });
    }
}

#[test]
fn what_an_earlier_collection_marked_does_not_put_off_the_slices_of_the_next() {
    with_program(64 * MIB, |p| {
        p.keep_list(60_000);
        p.full();
        p.slice(Scope::Full, 1);
        assert_eq!(p.heap.stage(), Stage::Clearing);
        let until_due_bytes = p.heap.bytes_until_due();
        assert!(until_due_bytes <= MIB / 4, "{until_due_bytes}");
    });
}

#[test]
fn slices_are_due_as_the_program_allocates_until_marking_is_over() {
    with_program(64 * MIB, |p| {
        let mut slices = 0;
        p.begin_slices(Scope::Full);
        while p.heap.is_marking() {
            let until_due_bytes = p.heap.bytes_until_due();
            assert!(
                until_due_bytes > 0 && until_due_bytes <= MIB,
                "{until_due_bytes}"
            );
            let mut allocated_bytes = 0;
            while p.try_object(plain(5), Urgency::MayCollect) != Allocation::NeedsCollection {
                allocated_bytes += plain(5).bytes();
            }
            assert!(allocated_bytes < until_due_bytes + BLOCK_BYTES);
            p.heap.advance(None, &mut WorkBudget::cells(200));
            slices += 1;
        }
        assert!((2..20).contains(&slices), "{slices}");
    });
}

#[test]
fn a_full_marking_has_its_slices_where_the_latest_one_would_have_needed_them() {
    with_program(64 * MIB, |p| {
        p.keep_list(1_000_000);
        let mut first_interval_bytes = || {
            p.slice(Scope::Full, usize::MAX);
            p.heap.finish_sweep();
            let mut first_bytes = None;
            // The first slices mark little.
            for cells in [500; 10].into_iter().chain(std::iter::repeat(40_000)) {
                let mut work = WorkBudget::cells(cells);
                if p.heap.advance(Some(Scope::Full), &mut work) != Progress::Marking {
                    break;
                }
                if p.heap.stage() == Stage::Tracing {
                    first_bytes = first_bytes.or(Some(p.heap.bytes_until_due()));
                }
                while p.try_object(plain(5), Urgency::MayCollect) != Allocation::NeedsCollection {}
            }
            p.heap.finish_sweep();
            first_bytes.unwrap()
        };
        let without_experience = first_interval_bytes();
        let with_experience = first_interval_bytes();
        assert!(
            with_experience > without_experience,
            "{with_experience} {without_experience}"
        );
    });
}

#[test]
fn the_slices_of_a_late_marking_come_sooner_also_where_blocks_are_empty() {
    with_program(64 * MIB, |p| {
        p.keep_list(60_000);
        let mut allocated_bytes = 0;
        while allocated_bytes < 8 * MIB {
            assert_eq!(
                p.heap
                    .advance(Some(Scope::Full), &mut WorkBudget::cells(100)),
                Progress::Marking
            );
            while p.try_object(plain(5), Urgency::MayCollect) != Allocation::NeedsCollection {
                allocated_bytes += plain(5).bytes();
            }
        }
        p.slice(Scope::Full, 100);
        let until_due_bytes = p.heap.bytes_until_due();
        assert!(until_due_bytes <= 16 << 10, "{until_due_bytes}");
        let mut interval_bytes = 0;
        while p.try_object(plain(5), Urgency::MayCollect) != Allocation::NeedsCollection {
            interval_bytes += plain(5).bytes();
        }
        assert!(interval_bytes <= until_due_bytes + (4 << 10));
    });
}

#[test]
fn a_barrier_forgotten_while_marking_is_found_by_the_verifier() {
    with_program(16 * MIB, |p| {
        let young = p.object(plain(1));
        p.root(young);
        p.begin_slices(Scope::Full);
        let hidden = p.object(plain(0));
        p.store_without_barrier(young, 0, hidden);
        let message = p.heap.verify().unwrap_err();
        assert!(message.starts_with("invariant 11"), "{message}");
    });
}

// ── Weak references ─────────────────────────────────────────────────────────

#[test]
fn a_weak_reference_is_cleared_when_its_cell_dies_and_kept_while_it_lives() {
    with_program(16 * MIB, |p| {
        let holder = p.old_root(0);
        let watcher = p.object(weak(2));
        p.root(watcher);
        let (dies, lives) = (p.object(plain(0)), p.object(plain(0)));
        p.root(lives);
        p.store(watcher, 0, dies);
        p.store(watcher, 1, lives);
        p.minor();
        assert_eq!(p.load(watcher, 0), None);
        assert_eq!(p.load(watcher, 1), Some(lives));
        assert!(p.lives(holder));
    });
}

#[test]
fn an_old_holder_goes_on_watching_a_young_cell() {
    with_program(16 * MIB, |p| {
        let holder = p.object(weak(1));
        p.root(holder);
        p.grow_old();
        assert!(p.state(holder).is_old());
        let watched = p.object(plain(0));
        p.root(watched);
        p.store(holder, 0, watched);
        p.minor();
        assert!(p.lives(watched));
        p.heap.vm().roots.borrow_mut().pop();
        p.minor();
        assert!(!p.lives(watched));
        assert_eq!(p.load(holder, 0), None);
    });
}

#[test]
fn a_weak_reference_noted_twice_in_one_collection_is_cleared_once() {
    with_program(16 * MIB, |p| {
        let parent = p.old_root(1);
        let holder = p.object(weak(1));
        p.root(holder);
        let dies = p.object(plain(0));
        p.store(holder, 0, dies);
        // From the root the holder is traced as a young cell, from the parent
        // once more as an old one.
        p.store(parent, 0, holder);
        p.minor();
        assert_eq!(p.load(holder, 0), None);
    });
}

/// Finalizers need their objects once more, after weak references to these have been
/// cleared. What only such an object refers to is found last of all.
#[test]
fn what_is_marked_after_all_else_is_kept_with_all_it_refers_to() {
    for in_slices in [false, true] {
        with_each_scope(|p, scope| {
            let shape = Shape {
                weak: 1,
                ..plain(2)
            };
            let finalizable = p.object(shape);
            let (dying, child, grandchild) =
                (p.object(plain(0)), p.object(plain(1)), p.object(plain(0)));
            p.store_without_barrier(finalizable, 0, dying);
            p.store(finalizable, 1, child);
            p.store(child, 0, grandchild);
            let watcher = p.object(weak(1));
            p.root(watcher);
            p.store_without_barrier(watcher, 0, finalizable);
            let cells = &p.heap.vm().finalizable;
            cells.borrow_mut().push(finalizable.address());
            if in_slices {
                p.begin_slices(scope);
                p.end_slices();
            } else {
                p.collect(scope);
            }
            let kept = [finalizable, child, grandchild].map(|cell| p.lives(cell));
            assert_eq!(kept, [true; 3], "{scope:?}, in slices: {in_slices}");
            assert!(!p.lives(dying));
            let weak = [p.load(watcher, 0), p.load(finalizable, 0)];
            assert_eq!(weak, [None; 2], "{scope:?}, in slices: {in_slices}");
        });
    }
}

#[test]
#[cfg_attr(miri, ignore = "too many cells for the interpreter")]
fn weak_references_beyond_what_can_be_noted_are_strong_for_that_collection() {
    // A region of 16 MiB notes 262,144 of them; each holder has 124.
    const HOLDERS: usize = 3000;
    with_program(16 * MIB, |p| {
        let mut previous = None;
        for _ in 0..HOLDERS {
            let holder = p.object(Shape {
                weak: 124,
                ..plain(125)
            });
            let watched = p.object(plain(0));
            for index in 0..124 {
                p.store(holder, index, watched);
            }
            p.store(holder, 124, previous.unwrap_or(holder));
            previous = Some(holder);
        }
        p.root(previous.unwrap());
        p.full();
        let survivors = p.live_cells() - HOLDERS;
        assert!(survivors > 0 && survivors < HOLDERS, "{survivors}");
        p.heap.verify().unwrap();
    });
}

// ── Sweeping and blocks ─────────────────────────────────────────────────────

#[test]
fn a_dead_cell_is_released_once_and_only_when_its_block_is_swept() {
    with_program(16 * MIB, |p| {
        let cells = if cfg!(miri) { 100 } else { 5_000 };
        let dead: Vec<_> = (0..cells).map(|_| p.object(plain(0)).address()).collect();
        p.mark(Scope::Minor);
        assert!(p.heap.is_sweeping());
        assert_eq!(p.heap.vm().released.borrow().len(), 0);
        // SAFETY: the test keeps the addresses of cells.
        let first = unsafe { Cell::from_address(dead[0]) };
        assert!(p.lives(first) && p.heap.is_garbage(first));
        p.heap.finish_sweep();
        let mut released = p.heap.vm().released.take();
        released.sort_unstable();
        assert_eq!(released, dead);
        p.full();
        assert_eq!(p.heap.vm().released.borrow().len(), 0);
    });
}

#[test]
#[cfg_attr(miri, ignore = "too many cells for the interpreter")]
fn sweeping_is_over_long_before_the_next_collection_is_due() {
    with_program(64 * MIB, |p| {
        for _ in 0..200_000 {
            p.object(plain(1));
        }
        p.heap.collect(Request::default());
        let mut allocated = 0;
        while p.heap.is_sweeping() {
            p.object(plain(125));
            allocated += 1024;
        }
        assert!(allocated <= p.heap.pace().nursery_bytes() / 2 + BLOCK_BYTES);
    });
}

#[test]
#[cfg_attr(miri, ignore = "too many cells for the interpreter")]
fn cells_of_runs_of_one_cell_count_towards_the_next_collection() {
    const LATE_BYTES: usize = 4 << 10;
    with_program(64 * MIB, |p| {
        for number in 0..200_000 {
            let cell = p.object(plain(1));
            if number % 2 == 0 {
                p.root(cell);
            }
        }
        p.full();
        p.heap.finish_sweep();
        let (due_bytes, cells) = (p.heap.bytes_until_due(), p.live_cells());
        assert!(due_bytes < 90_000 * plain(1).bytes(), "{due_bytes}");
        while p.try_object(plain(1), Urgency::MayCollect) != Allocation::NeedsCollection {}
        let handed_bytes = (p.live_cells() - cells) * plain(1).bytes();
        assert!(
            (due_bytes..=due_bytes + LATE_BYTES).contains(&handed_bytes),
            "{handed_bytes} of {due_bytes}"
        );
    });
}

#[test]
#[cfg_attr(miri, ignore = "too many cells for the interpreter")]
fn the_time_for_sweeping_is_kept_after_each_block() {
    with_program(64 * MIB, |p| {
        for _ in 0..100_000 {
            p.object(plain(1));
        }
        p.heap.collect(Request::default());
        let cells_of_a_block = BLOCK_BYTES as u64 / 32;
        // The time is over at once: one block is swept, so that sweeping gets on.
        let is_swept = p.heap.sweep_within(&mut WorkBudget::time(Duration::ZERO));
        assert!(!is_swept && p.heap.stats().freed_cells <= cells_of_a_block);
        // A quarter of a slice is for sweeping.
        p.heap
            .pauses()
            .set_slice_time(Some(Duration::from_nanos(4)));
        let freed_before = p.heap.stats().freed_cells;
        while p.heap.stats().freed_cells == freed_before && p.heap.is_sweeping() {
            p.object(plain(1));
        }
        let freed_now = p.heap.stats().freed_cells - freed_before;
        assert!(freed_now <= cells_of_a_block, "{freed_now}");
    });
}

#[test]
#[cfg_attr(miri, ignore = "too many cells for the interpreter")]
fn a_block_without_live_cells_serves_other_widths_and_payloads() {
    with_program(16 * MIB, |p| {
        let mut kinds = std::collections::BTreeSet::new();
        for references in [0, 5, 20, 125] {
            let shape = plain(references);
            while let Allocation::Allocated(cell) = p.try_object(shape, Urgency::MustAllocate) {
                let block = p.heap.region().block_of(cell);
                kinds.insert((block.get(), shape.bytes()));
            }
            assert_eq!(
                p.heap.width_usage().iter().map(|w| w.blocks).sum::<usize>(),
                256 - RESERVE_BLOCKS
            );
            p.full();
            assert_eq!(p.live_cells(), 0);
            assert_eq!(p.heap.usage().empty_blocks, 256 - RESERVE_BLOCKS);
        }
        assert_eq!(
            kinds.len(),
            4 * (256 - RESERVE_BLOCKS),
            "every block served every width"
        );
        let holder = p.old_root(0);
        // SAFETY: the holder is a root.
        assert!(unsafe { toy_vm::set_payload(p.heap, holder, 14 * MIB) });
        p.drop_roots();
        p.full();
        assert_eq!(p.heap.usage().payload_bytes, 0);
    });
}

#[test]
fn pages_of_empty_blocks_go_back_when_asked_for_and_read_as_zero() {
    with_program(16 * MIB, |p| {
        let cell = p.object(Shape {
            data_words: 100,
            ..plain(0)
        });
        let block = p.heap.region().block_of(cell);
        let word = p
            .heap
            .region()
            .pointer(cell.address() + 800)
            .cast::<usize>();
        // SAFETY: the object is live, then its block is committed and unused.
        unsafe {
            word.write(99);
            p.full();
            assert_eq!(p.heap.usage().held_blocks, 1);
            p.heap.release_empty_blocks();
            assert_eq!(word.read(), 0);
        }
        assert_eq!(p.heap.usage().held_blocks, 0);
        assert!(p.heap.usage().empty_blocks >= 1);
        assert_eq!(p.heap.region().kind(block), Kind::Empty);
        assert_eq!(p.heap.stats().blocks_released, 1);
    });
}

#[test]
fn pages_behind_spans_go_back_a_few_at_a_time_in_slices() {
    with_program(16 * MIB, |p| {
        // Each payload begins in the block in which the one before it ends.
        let behind: Vec<*const u8> = (0..13)
            .map(|number| {
                let cell = p.object(plain(0));
                if number % 2 == 0 {
                    p.root(cell);
                }
                let bytes = BLOCK_BYTES + 64;
                // SAFETY: the object is alive, and its third word has the payload's address.
                unsafe {
                    assert!(toy_vm::set_payload(p.heap, cell, bytes));
                    let word = p.heap.region().pointer(cell.address());
                    let payload = word.cast::<*mut u8>().add(2).read();
                    payload.write_bytes(0xA5, bytes);
                    payload.add(BLOCK_BYTES / 2).cast_const()
                }
            })
            .skip(1)
            .step_by(2)
            .collect();
        let zeroed = || {
            let is_zero = |payload: &*const u8| {
                // SAFETY: blocks stay mapped when what was in them is freed.
                unsafe { payload.read() == 0 }
            };
            behind.iter().copied().filter(is_zero).count()
        };
        p.mark(Scope::Full);
        let counts = (0..3).map(|_| {
            assert!(p.heap.sweep_slice(&mut WorkBudget::cells(1)));
            zeroed()
        });
        assert_eq!(counts.collect::<Vec<_>>(), [1, 2, 3]);
        p.finish();
        assert_eq!(zeroed(), behind.len());
        assert_eq!(p.heap.stats().blocks_released, 0);
    });
}

/// Makes garbage that fills this many blocks, and collects it.
fn spend_nursery(p: &mut Program<'_>, blocks: usize) {
    for _ in 0..blocks * BLOCK_BYTES / plain(100).bytes() {
        p.object(plain(100));
    }
    p.minor();
}

#[test]
fn empty_blocks_that_no_nursery_needs_go_back_without_a_major_collection() {
    with_program(64 * MIB, |p| {
        spend_nursery(p, 100);
        let all_blocks = p.heap.usage().held_blocks;
        let mut held_blocks = Vec::new();
        for _ in 0..80 {
            spend_nursery(p, 2);
            held_blocks.push(p.heap.usage().held_blocks);
        }
        assert!(all_blocks >= 99 && held_blocks[1] == all_blocks);
        assert!(held_blocks[4] > 40, "{held_blocks:?}: too fast");
        assert!(held_blocks[79] < 10, "{held_blocks:?}: kept");
        let stats = p.heap.stats();
        assert_eq!(stats.major_collections + stats.full_collections, 0);
        assert_eq!(stats.blocks_released, all_blocks - held_blocks[79]);
    });
}

#[test]
fn empty_blocks_go_back_in_full_collections_between_which_nothing_is_allocated() {
    with_program(64 * MIB, |p| {
        spend_nursery(p, 100);
        (0..30).for_each(|_| p.full());
        assert!(p.heap.usage().held_blocks > 90, "too fast");
        (0..50).for_each(|_| p.full());
        let held_blocks = p.heap.usage().held_blocks;
        assert!(held_blocks < 10, "{held_blocks} are kept");
    });
}

#[test]
fn empty_blocks_go_back_a_few_at_a_time_in_slices() {
    with_program(64 * MIB, |p| {
        spend_nursery(p, 100);
        let released = || p.heap.stats().blocks_released;
        // Every full collection is swept in slices, each with time for one call of the system.
        let mut at_once = Vec::new();
        for _ in 0..80 {
            p.mark(Scope::Full);
            let mut before = released();
            while p.heap.is_sweeping() {
                p.heap.sweep_slice(&mut WorkBudget::cells(1));
                at_once.push(released() - before);
                before = released();
            }
            p.finish();
        }
        assert!(at_once.iter().all(|&blocks| blocks <= 16), "{at_once:?}");
        assert!(released() > 90, "{} blocks", released());
    });
}

#[test]
fn a_large_payload_that_gives_its_own_pages_back_hides_no_surplus() {
    with_program(64 * MIB, |p| {
        for nursery in 0..if cfg!(miri) { 4 } else { 400 } {
            if nursery % 10 == 0 {
                let holder = p.object(plain(0));
                // SAFETY: the holder is alive.
                assert!(unsafe { toy_vm::set_payload(p.heap, holder, 16 * MIB) });
            }
            spend_nursery(p, if nursery % 2 == 0 { 20 } else { 2 });
        }
        // Small objects take the blocks that the payload leaves, which lie lowest, and leave theirs.
        let held_blocks = p.heap.usage().held_blocks;
        let released = p.heap.stats().blocks_released;
        assert!(held_blocks < 30, "{held_blocks} blocks");
        assert!(cfg!(miri) || released > 100, "{released} blocks");
    });
}

#[test]
fn empty_blocks_that_are_needed_in_turns_stay() {
    with_program(64 * MIB, |p| {
        for nursery in 0..if cfg!(miri) { 10 } else { 1000 } {
            spend_nursery(p, if nursery % 20 == 0 { 40 } else { 2 });
        }
        let released = p.heap.stats().blocks_released;
        assert!(released <= 4 * 40, "{released} blocks");
    });
}

#[test]
fn cells_from_several_caches_never_share_a_block_and_outlive_their_cache() {
    with_program(16 * MIB, |p| {
        let other = p.heap.new_cache();
        let mine = p.object(plain(0));
        // SAFETY: this thread alone uses the cache.
        let theirs = unsafe { toy_vm::new_object(p.heap, other, 0, true) }.unwrap();
        let region = p.heap.region();
        assert_ne!(region.block_of(mine), region.block_of(theirs));
        p.root(theirs);
        // SAFETY: nobody uses the cache any more.
        unsafe { p.heap.drop_cache(other) };
        p.heap.verify().unwrap();
        p.minor();
        assert!(p.lives(theirs) && !p.lives(mine));
        let allocated: u64 = p.heap.allocated_cells().iter().sum();
        assert_eq!(allocated, 2);
    });
}

// ── Conservative references ─────────────────────────────────────────────────

#[test]
fn of_all_words_of_a_region_only_the_starts_of_live_cells_are_cells() {
    with_program(16 * MIB, |p| {
        let mut live = std::collections::BTreeSet::new();
        for references in [0, 2, 9, 17, 60, 125] {
            for _ in 0..5 {
                live.insert(p.object(plain(references)).address());
            }
        }
        let holder = p.object(plain(0));
        live.insert(holder.address());
        // SAFETY: the holder is live.
        assert!(unsafe { toy_vm::set_payload(p.heap, holder, 300) });
        let region = p.heap.region();
        let end = region.start() + region.committed_blocks() * BLOCK_BYTES;
        let step = if cfg!(miri) { 1009 } else { 1 };
        for word in (region.start() - 64..region.start() + 12 * BLOCK_BYTES).step_by(step) {
            assert_eq!(region.cell_at(word).is_some(), live.contains(&word));
        }
        for word in [0, 1, end - 1, end, end + 1, usize::MAX, 1 << 63] {
            assert_eq!(region.cell_at(word), None);
        }
    });
}

// ── Stress ──────────────────────────────────────────────────────────────────

#[test]
fn a_walk_over_ranges_meets_every_cell_of_every_block_once() {
    with_program(16 * MIB, |p| {
        let mut live = Vec::new();
        for number in 0..3000 {
            let cell = p.object(plain(number % 20));
            if number % 7 < 3 {
                p.root(cell);
                live.push(cell);
            }
        }
        p.full();
        let mut free_cells = 0;
        let (mut next, mut seen) = (0, Vec::new());
        p.heap.for_each_range(|range| match range {
            CellRange::Live(cell) => {
                assert!(cell.address() >= next);
                next = cell.address() + 1;
                seen.push(cell);
            }
            CellRange::Free { start, end, width } => {
                assert!(start >= next && end > start);
                assert_eq!((end - start) % width.bytes(), 0);
                next = end;
                free_cells += (end - start) / width.bytes();
            }
        });
        live.sort();
        assert_eq!(seen, live);
        assert_eq!(free_cells, p.heap.usage().free_cells);
    });
}

#[test]
fn collecting_at_every_nth_allocation_asks_for_exactly_that() {
    for every in [1, 2, 7] {
        with_program(16 * MIB, |p| {
            p.stress(|stress| (stress.collect_every, stress.verify) = (every, true));
            let mut asked = Vec::new();
            for number in 1..=40 {
                let shape = plain(number % 5);
                if p.try_object(shape, Urgency::MayCollect) == Allocation::NeedsCollection {
                    asked.push(number);
                    p.heap.collect(Request::default());
                    p.object(shape);
                }
            }
            let expected: Vec<_> = (1..=40).filter(|n| n % every == 0).collect();
            assert_eq!(asked, expected, "every {every}");
        });
    }
}

#[test]
fn stress_that_is_turned_off_leaves_a_heap_that_allocates_in_runs_again() {
    let cells: usize = if cfg!(miri) { 3_000 } else { 10_000 };
    with_program(16 * MIB, |p| {
        p.stress(|stress| stress.collect_every = 1);
        let outcome = p.try_object(plain(0), Urgency::MayCollect);
        assert_eq!(outcome, Allocation::NeedsCollection);
        p.stress(|_| ());
        for _ in 0..cells {
            let outcome = p.try_object(plain(0), Urgency::MayCollect);
            assert!(matches!(outcome, Allocation::Allocated(_)));
        }
        p.heap.verify().unwrap();
        assert_eq!(p.heap.usage().cell_blocks, cells.div_ceil(2048));
    });
}

#[test]
fn a_write_to_a_freed_cell_is_found_while_poisoning_is_on() {
    for words in [4, 5, 128] {
        with_program(16 * MIB, |p| {
            p.stress(|stress| stress.poison = true);
            let shape = Shape {
                data_words: words - 3,
                ..plain(0)
            };
            let cells: Vec<_> = (0..3).map(|_| p.object(shape)).collect();
            p.full();
            assert_eq!(p.heap.disturbed_free_cells(), 0);
            let word = |cell: Cell, index: usize| {
                let start = p.heap.region().pointer(cell.address());
                start.cast::<usize>().wrapping_add(index)
            };
            // SAFETY: the cells are in committed blocks that nobody uses.
            unsafe {
                for index in [0, 3, words - 1] {
                    let intact = word(cells[1], index).replace(1);
                    assert_eq!(p.heap.disturbed_free_cells(), 0, "the block is empty");
                    word(cells[1], index).write(intact);
                }
            }
            // With a live neighbour the block stays a block of cells.
            let neighbour = p.object(shape);
            p.root(neighbour);
            let victim = p.object(shape);
            p.full();
            // SAFETY: the victim is free memory of a committed block.
            unsafe {
                for index in [0, 3, words - 1] {
                    let intact = word(victim, index).replace(1);
                    assert_eq!(p.heap.disturbed_free_cells(), 1, "word {index}");
                    assert!(p.heap.verify().unwrap_err().contains("is free"));
                    word(victim, index).write(intact);
                    p.heap.verify().unwrap();
                }
            }
        });
    }
}

#[test]
fn poison_of_one_width_is_no_disturbance_in_another() {
    with_program(16 * MIB, |p| {
        p.stress(|stress| stress.poison = true);
        p.object(plain(14));
        p.full();
        p.object(plain(7));
        assert_eq!(p.heap.disturbed_free_cells(), 0);
        p.stress(|_| ());
        p.full();
        p.object(plain(1));
        p.stress(|stress| stress.poison = true);
        assert_eq!(p.heap.disturbed_free_cells(), 0);
    });
}

#[test]
fn a_forgotten_barrier_is_found_by_the_verifier() {
    with_program(16 * MIB, |p| {
        let parent = p.old_root(1);
        let child = p.object(plain(0));
        p.store_without_barrier(parent, 0, child);
        let broken = p.heap.verify().unwrap_err();
        assert!(broken.starts_with("invariant 5"), "{broken}");
    });
}

#[test]
fn a_forgotten_root_is_found_by_the_verifier() {
    with_program(16 * MIB, |p| {
        let cell = p.object(plain(0));
        p.full();
        p.root(cell);
        let broken = p.heap.verify().unwrap_err();
        assert!(
            broken.contains("is reachable from None and dead"),
            "{broken}"
        );
    });
}

#[test]
fn a_reference_that_is_traced_and_not_shown_is_found_by_the_verifier() {
    with_program(16 * MIB, |p| {
        let parent = p.tagged(toy_vm::SHOWS_NOTHING, plain(1));
        p.root(parent);
        assert_eq!(p.heap.verify(), Ok(()));
        let child = p.object(plain(0));
        p.store(parent, 0, child);
        let broken = p.heap.verify().unwrap_err();
        assert!(
            broken.contains("is traced to") && broken.contains("to which it does not refer"),
            "{broken}"
        );
    });
}

// ── Faults ──────────────────────────────────────────────────────────────────

/// Blocks that are handed out only once memory has run out.
const RESERVE_BLOCKS: usize = 16;

#[test]
#[cfg_attr(miri, ignore = "too many cells for the interpreter")]
fn the_last_blocks_are_for_reporting_that_memory_is_out_and_are_kept_back_again() {
    with_program(16 * MIB, |p| {
        let shape = plain(125);
        let fill = |p: &mut Program<'_>| {
            let mut objects = 0;
            while let Allocation::Allocated(_) = p.try_object(shape, Urgency::MustAllocate) {
                objects += 1;
            }
            objects
        };
        let cells_per_block = 64;
        assert_eq!(fill(p), (256 - RESERVE_BLOCKS) * cells_per_block);
        p.heap.open_reserve();
        assert_eq!(fill(p), RESERVE_BLOCKS * cells_per_block);
        p.full();
        assert_eq!(p.live_cells(), 0);
        assert_eq!(fill(p), (256 - RESERVE_BLOCKS) * cells_per_block);
    });
}

#[test]
#[cfg_attr(miri, ignore = "too many cells for the interpreter")]
fn a_full_region_is_a_value_loses_nothing_and_goes_on_after_frees() {
    with_program(16 * MIB, |p| {
        let shape = plain(4);
        let mut head = None;
        let mut objects = 0;
        while let Allocation::Allocated(cell) = p.try_object(shape, Urgency::MustAllocate) {
            if let Some(head) = head {
                p.store(cell, 0, head);
            }
            head = Some(cell);
            objects += 1;
        }
        let width = WidthIndex::for_size(shape.bytes()).unwrap();
        assert_eq!(objects, (256 - RESERVE_BLOCKS) * width.cells_per_block());
        p.root(head.unwrap());
        let outcome = p.try_object(shape, Urgency::MustAllocate);
        assert_eq!(outcome, Allocation::OutOfMemory);
        p.full();
        assert_eq!(p.live_cells(), objects);
        let outcome = p.try_object(shape, Urgency::MustAllocate);
        assert_eq!(outcome, Allocation::OutOfMemory);
        // SAFETY: the head is a root.
        assert!(!unsafe { toy_vm::set_payload(p.heap, head.unwrap(), 1) });
        p.heap.verify().unwrap();
        p.drop_roots();
        p.full();
        assert_eq!(p.live_cells(), 0);
        p.object(plain(100));
    });
}

#[test]
#[cfg_attr(miri, ignore = "too many cells for the interpreter")]
fn a_mark_stack_without_room_still_marks_everything() {
    for cells_max in [1, 2, 50] {
        with_program(16 * MIB, |p| {
            // A tree of 16-fold branching: broader than a stack of this size.
            let root = p.object(plain(16));
            p.root(root);
            let mut level = vec![root];
            for _ in 0..3 {
                let parents = std::mem::take(&mut level);
                for parent in parents {
                    for index in 0..16 {
                        let child = p.object(plain(16));
                        p.store(parent, index, child);
                        level.push(child);
                    }
                }
            }
            let objects = 1 + 16 + 256 + 4096;
            p.limit_marking(cells_max);
            for scope in [Scope::Full, Scope::Minor, Scope::Minor, Scope::Full] {
                p.collect(scope);
                assert_eq!(p.live_cells(), objects);
                assert_eq!(p.heap.stats().marked_cells, objects);
            }
        });
    }
}

#[test]
fn a_remembered_set_without_room_makes_the_next_collection_full() {
    with_program(16 * MIB, |p| {
        let parents: Vec<_> = (0..20).map(|_| p.object(plain(1))).collect();
        for parent in &parents {
            p.root(*parent);
        }
        p.grow_old();
        p.limit_marking(5);
        for parent in &parents {
            let child = p.object(plain(0));
            p.store(*parent, 0, child);
        }
        p.heap.verify().unwrap();
        p.ask_and_get(Scope::Minor, Scope::Full);
        assert_eq!(p.live_cells(), 40);
        p.minor();
    });
}

#[test]
fn a_list_of_ten_million_cells_is_marked_without_recursion() {
    let cells = if cfg!(miri) { 2_000 } else { 10_000_000 };
    let marked = std::thread::Builder::new()
        .stack_size(128 << 10)
        .spawn(move || {
            let mut marked = 0;
            with_program(1 << 30, |p| {
                let mut head = p.object(plain(1));
                for _ in 1..cells {
                    let cell = p.object(plain(1));
                    p.store(cell, 0, head);
                    head = cell;
                }
                p.root(head);
                for scope in [Scope::Full, Scope::Minor] {
                    p.heap.collect(Request {
                        scope: Some(scope),
                        ..Request::EVERYTHING
                    });
                }
                marked = p.heap.stats().marked_cells;
                assert_eq!(p.live_cells(), cells);
            });
            marked
        })
        .unwrap()
        .join()
        .unwrap();
    assert_eq!(marked, cells);
}

#[test]
fn sizes_beyond_the_widest_cell_are_too_large() {
    with_program(16 * MIB, |p| {
        let widest = plain(125);
        assert_eq!(widest.bytes(), 1024);
        p.object(widest);
        for references in [126, 1000, usize::MAX / 16] {
            let outcome = p.try_object(plain(references), Urgency::MustAllocate);
            assert_eq!(outcome, Allocation::TooLarge);
        }
    });
}

#[test]
fn memory_owned_elsewhere_makes_collections_due() {
    with_program(16 * MIB, |p| {
        assert!(!p.heap.collection_is_due());
        p.heap.shared().payloads().note_elsewhere(64 * MIB as isize);
        assert!(p.heap.collection_is_due());
        p.minor();
        assert!(!p.heap.collection_is_due());
        assert_eq!(p.heap.shared().payloads().elsewhere_bytes(), 64 * MIB);
        p.heap
            .shared()
            .payloads()
            .note_elsewhere(-(65 * MIB as isize));
        assert_eq!(p.heap.shared().payloads().elsewhere_bytes(), 0);
    });
}

#[test]
fn shared_parts_are_for_one_heap() {
    with_program(16 * MIB, |p| {
        let shared = p.heap.shared();
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            Heap::new(ToyVm::new(shared), shared, PaceOptions::default()).map(drop)
        }));
        let said = refused.expect_err("the second heap was refused");
        let said = said.downcast_ref::<&str>().copied().unwrap_or_default();
        assert_eq!(said, "these shared parts have a heap already");
    });
}

#[test]
fn a_heap_does_not_allocate_with_the_cache_of_another() {
    with_program(16 * MIB, |mine| {
        with_program(16 * MIB, |theirs| {
            let mut cache = mine.heap.new_cache();
            let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                // SAFETY: nobody else uses the cache.
                let cache = unsafe { cache.as_mut() };
                let heap = theirs.heap;
                heap.allocate(cache, 40, CellState::NEW, Urgency::MustAllocate)
            }));
            // SAFETY: nobody uses the cache any more.
            unsafe { mine.heap.drop_cache(cache) };
            let said = refused.expect_err("the allocation was refused");
            let said = said.downcast_ref::<&str>().expect("a message");
            assert!(said.contains("the cache is another heap's"), "{said}");
        });
    });
}

#[test]
fn what_the_vm_has_no_memory_to_move_stays_whole() {
    with_program(16 * MIB, |p| {
        let cells: Vec<_> = (0..40).map(|_| p.object(plain(2))).collect();
        for &cell in &cells {
            p.root(cell);
            p.store(cell, 0, cells[7]);
        }
        // All objects of this program have this tag.
        p.heap.vm().wishes.set(toy_vm::Wishes {
            refused_every: 7,
            ..Default::default()
        });
        let compact = || {
            p.heap.collect(Request {
                compact: Some(Evacuation::Everything),
                ..Request::EVERYTHING
            });
            p.heap.verify().unwrap();
        };
        for poison in [false, true] {
            p.stress(|stress| stress.poison = poison);
            compact();
            assert!(cells.iter().all(|&cell| p.lives(cell)));
            assert_eq!(p.live_cells(), cells.len());
            assert_eq!(p.heap.stats().moved_cells, 0);
        }
        p.heap.vm().wishes.set(toy_vm::Wishes::default());
        compact();
        assert_eq!(p.heap.stats().moved_cells, cells.len() as u64);
    });
}

/// Numbers of the objects that are samples, among `count` new ones of one width, with a
/// minor collection before those whose number is in `collections`.
fn samples(p: &mut Program<'_>, count: usize, apart: u64, collections: &[usize]) -> Vec<usize> {
    let first = p.object(plain(2));
    let width = p.heap.region().width_of(first);
    p.heap
        .each_retired_cache(|cache| cache.sample_after(width, Some(apart)));
    let mut found = Vec::new();
    for number in 1..=count {
        if collections.contains(&number) {
            p.minor();
        }
        let cell = p.object(plain(2));
        p.root(cell);
        // SAFETY: this program alone uses the cache.
        let cache = unsafe { p.cache.as_mut() };
        if cache.last_is_sample(width) {
            cache.sample_after(width, Some(apart));
            found.push(number);
        }
    }
    found
}

#[test]
fn every_nth_cell_is_a_sample_whatever_runs_there_are_and_whenever_the_cache_is_retired() {
    with_program(16 * MIB, |p| {
        let expected: Vec<_> = (1..=30).map(|n| n * 100).collect();
        assert_eq!(samples(p, 3_000, 100, &[]), expected);
        assert_eq!(samples(p, 3_000, 100, &[1, 99, 100, 101, 555]), expected);
        assert_eq!(samples(p, 5, 1, &[3]), [1, 2, 3, 4, 5]);
    });
}

#[test]
fn nothing_is_a_sample_once_that_has_been_taken_back() {
    with_program(16 * MIB, |p| {
        let width = {
            let cell = p.object(plain(2));
            p.heap.region().width_of(cell)
        };
        p.heap
            .each_retired_cache(|cache| cache.sample_after(width, Some(10)));
        p.heap
            .each_retired_cache(|cache| cache.sample_after(width, None));
        for _ in 0..1_000 {
            p.object(plain(2));
            // SAFETY: this program alone uses the cache.
            assert!(!unsafe { p.cache.as_ref() }.last_is_sample(width));
        }
    });
}
