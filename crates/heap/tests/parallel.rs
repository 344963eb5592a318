//! Marking by several threads finds what marking by one does.

#[allow(dead_code, missing_docs, unreachable_pub)]
mod program;
#[allow(dead_code, unreachable_pub)]
#[path = "../examples/toy_vm.rs"]
mod toy_vm;

use ashlar_heap::{Cell, Evacuation, ParallelMarking, Progress, Request, Scope, Stage, WorkBudget};
use program::{Program, MIB};
use toy_vm::Shape;

/// Cells of a graph: enough for several threads to get a part of the graph.
const CELLS: usize = if cfg!(miri) { 600 } else { 60_000 };
/// How many threads are compared with one.
const THREADS: &[usize] = if cfg!(miri) { &[3] } else { &[2, 3, 8] };
/// A tag of objects that any thread can trace, and a tag of objects that only the collecting
/// thread can trace.
const COMMON: usize = 7;
const UNCOMMON: usize = 10;

fn with_program(threads: usize, run: impl FnOnce(&mut Program<'_>)) {
    program::with_program(64 * MIB, |p| {
        p.heap.set_parallel_marking(ParallelMarking {
            threads,
            cells_min: 0,
        });
        run(p);
    });
}

impl Program<'_> {
    fn object(&mut self, tag: usize, references: usize, weak: usize, protected: bool) -> Cell {
        let shape = Shape {
            references,
            weak,
            data_words: 0,
            protected,
        };
        self.tagged(tag, shape)
    }

    /// Objects without references.
    fn leaves(&mut self, count: usize) -> Vec<Cell> {
        let leaf = |_| self.object(COMMON, 0, 0, true);
        (0..count).map(leaf).collect()
    }

    /// A tree in which some objects are uncommon, some unprotected, and some watch another one;
    /// beside each object is one that dies.
    fn tree(&mut self) -> Cell {
        let root = self.object(COMMON, 4, 0, true);
        let mut parents = vec![root];
        while self.made.len() < CELLS {
            let mut children = Vec::new();
            for parent in parents {
                for index in 0..3 {
                    let number = self.made.len();
                    let tag = if number % 7 == 0 { UNCOMMON } else { COMMON };
                    let weak = usize::from(number % 11 == 0);
                    let child = self.object(tag, 4 + weak, weak, number % 13 != 0);
                    self.object(COMMON, 1, 0, true);
                    self.store(parent, 1 + index, child);
                    if weak == 1 {
                        self.store(child, 0, *children.last().unwrap_or(&root));
                    }
                    children.push(child);
                }
            }
            parents = children;
        }
        self.root(root);
        root
    }

    fn collect(&self, scope: Scope) {
        assert_eq!(self.mark(scope), scope);
    }

    fn full(&self) {
        self.collect(Scope::Full);
        self.heap.verify().unwrap();
    }

    /// The states of all objects that were made, in the order in which they were made.
    fn states(&self) -> Vec<u8> {
        let states = self.made.iter().map(|&cell| self.state(cell).bits());
        states.collect()
    }

    fn threads(&self) -> usize {
        self.heap.stats().marking_threads
    }
}

/// What a program comes to with `threads` threads: states after each of several full collections,
/// and the counts.
fn outcome(threads: usize, build: impl Fn(&mut Program<'_>)) -> Vec<(Vec<u8>, usize, usize)> {
    let mut outcomes = Vec::new();
    with_program(threads, |p| {
        build(p);
        for _ in 0..4 {
            p.full();
            let stats = p.heap.stats();
            outcomes.push((p.states(), stats.marked_cells, stats.old_cells));
            p.finish();
        }
    });
    outcomes
}

fn claim_the_same_for_any_number_of_threads(build: impl Fn(&mut Program<'_>)) {
    let alone = outcome(1, &build);
    for &threads in THREADS {
        let together = outcome(threads, &build);
        for (collection, (one, many)) in alone.iter().zip(&together).enumerate() {
            assert_eq!((one.1, one.2), (many.1, many.2), "{threads}, {collection}");
            assert!(one.0 == many.0, "states with {threads}, {collection}");
        }
    }
}

#[test]
fn a_tree_of_all_sorts_is_marked_as_by_one_thread() {
    claim_the_same_for_any_number_of_threads(|p| {
        p.tree();
    });
}

#[test]
fn a_long_list_is_marked_as_by_one_thread() {
    claim_the_same_for_any_number_of_threads(|p| {
        let mut last = p.object(COMMON, 1, 0, true);
        p.root(last);
        for number in 0..CELLS {
            let tag = if number % 3 == 0 { UNCOMMON } else { COMMON };
            let next = p.object(tag, 1, 0, true);
            p.store(last, 0, next);
            last = next;
        }
    });
}

#[test]
fn objects_that_everything_refers_to_are_counted_once() {
    claim_the_same_for_any_number_of_threads(|p| {
        let hubs: Vec<_> = (0..4)
            .map(|n| p.object(COMMON + n, 60, 0, n % 2 == 0))
            .collect();
        for number in 0..CELLS / 4 {
            let spoke = p.object(COMMON, 4, 0, true);
            for (index, &hub) in hubs.iter().enumerate() {
                p.store(spoke, index, hub);
            }
            p.store(hubs[number % 4], number % 60, spoke);
            if number % 100 == 0 {
                p.root(spoke);
            }
        }
    });
}

/// Invariant 5: what an old object refers to is old, unless it has no barrier.
#[test]
fn what_old_objects_refer_to_is_old_afterwards() {
    for threads in [1, 2, 4] {
        with_program(threads, |p| {
            let root = p.tree();
            for _ in 0..4 {
                p.full();
            }
            assert!(p.state(root).is_old());
            // Parents everywhere in the tree, below old objects.
            let children = p.made.iter().copied().skip(1).step_by(2);
            let old: Vec<_> = children.take(CELLS / 20).collect();
            let mut added = Vec::new();
            for parent in old {
                if !p.lives(parent) || p.state(parent).is_unprotected() {
                    continue;
                }
                let child = p.object(COMMON, 1, 0, true);
                let grandchild = p.object(UNCOMMON, 1, 0, true);
                p.store(child, 0, grandchild);
                p.store(parent, 0, child);
                added.extend([child, grandchild]);
            }
            p.full();
            let living = |cell: &&Cell| p.state(**cell).is_marked();
            let states = added.iter().filter(living).map(|&cell| p.state(cell));
            assert!(states.clone().count() > CELLS / 100);
            assert!(
                states.clone().all(|state| state.is_old()),
                "{threads} threads"
            );
        });
    }
}

/// The object that shows the change is found when several threads mark already.
#[test]
fn a_cell_that_is_being_changed_is_traced_anew_whoever_marks() {
    for threads in [1, 3] {
        with_program(threads, |p| {
            p.tree();
            let parent = p.object(COMMON, 2, 0, true);
            p.root(parent);
            while p.heap.stage() != Stage::Tracing {
                p.heap.advance(Some(Scope::Full), &mut WorkBudget::cells(1));
            }
            p.heap.advance(None, &mut WorkBudget::cells(10));
            let child = p.object(COMMON, 0, 0, true);
            p.store_without_barrier(parent, 0, child);
            let stack = p.object(toy_vm::SHOWS_CHANGING, 1, 0, true);
            p.store(stack, 0, parent);
            p.root(stack);
            assert_eq!(p.finish(), Some(Scope::Full));
            assert!(p.lives(child), "{threads} threads");
        });
    }
}

#[test]
fn marks_that_do_not_fit_on_any_stack_are_found() {
    for cells in [1, 60, 3000] {
        let build = |p: &mut Program<'_>| {
            p.tree();
            p.limit_marking(cells);
        };
        let live = outcome(1, build).pop().unwrap();
        let together = outcome(3, build).pop().unwrap();
        assert_eq!((live.1, live.2), (together.1, together.2));
    }
}

/// A helper that comes in time marks, and a large graph leaves it time.
#[test]
#[cfg(not(miri))]
fn helpers_are_started_at_the_first_full_collection_and_said_to_have_marked() {
    with_program(2, |p| {
        p.tree();
        p.collect(Scope::Minor);
        assert_eq!(p.heap.shared().helper_count(), 0);
        assert_eq!(p.threads(), 0);
        let most = (0..50).map(|_| (p.full(), p.threads()).1).max();
        assert_eq!(p.heap.shared().helper_count(), 1);
        assert_eq!(most, Some(2));
        drop(p.heap.shared().stop_helpers());
        assert_eq!(p.heap.shared().helper_count(), 0);
        p.full();
        assert_eq!(p.heap.shared().helper_count(), 1);
    });
}

#[test]
fn little_work_is_done_by_one_thread() {
    with_program(4, |p| {
        p.tree();
        let live = CELLS;
        p.heap.set_parallel_marking(ParallelMarking {
            threads: 4,
            cells_min: 2 * live,
        });
        p.full();
        assert_eq!((p.threads(), p.heap.shared().helper_count()), (1, 0));
    });
}

/// Enough full collections for nearly all of the tree to settle.
#[test]
#[cfg(not(miri))]
fn a_major_collection_that_passes_over_nearly_all_cells_is_done_by_one_thread() {
    with_program(2, |p| {
        p.tree();
        (0..8).for_each(|_| p.full());
        p.heap.finish_sweep();
        drop(p.heap.shared().stop_helpers());
        let stats = p.heap.stats();
        p.heap.set_parallel_marking(ParallelMarking {
            threads: 2,
            cells_min: stats.marked_cells / 2,
        });
        assert!(stats.settled_cells > stats.marked_cells * 3 / 4);
        p.collect(Scope::Major);
        assert_eq!((p.threads(), p.heap.shared().helper_count()), (1, 0));
        p.full();
        assert_eq!(p.heap.shared().helper_count(), 1);
    });
}

#[test]
fn slices_are_done_by_one_thread_and_ended_by_several() {
    with_program(3, |p| {
        p.tree();
        p.full();
        p.heap.finish_sweep();
        drop(p.heap.shared().stop_helpers());
        let one_slice = || {
            p.heap
                .advance(Some(Scope::Full), &mut WorkBudget::cells(100))
        };
        for _ in 0..CELLS / 400 {
            assert_eq!(one_slice(), Progress::Marking);
        }
        assert_eq!(p.heap.shared().helper_count(), 0);
        p.heap.finish_marking();
        p.heap.verify().unwrap();
        assert_eq!(p.heap.shared().helper_count(), 2);
    });
}

#[test]
fn a_compaction_finds_what_must_not_move_with_one_thread() {
    with_program(4, |p| {
        let root = p.tree();
        p.push_on_stack(&[root]);
        p.heap.collect(Request {
            compact: Some(Evacuation::Everything),
            ..Request::EVERYTHING
        });
        p.heap.verify().unwrap();
        assert_eq!((p.threads(), p.heap.shared().helper_count()), (1, 0));
        assert_eq!(p.heap.vm().roots.borrow()[0], root.address());
    });
}

/// Old objects with this tag. Each refers first to an old object, its target, and is found
/// through it, so the target is black by then. The collecting thread alone traces both, each
/// once, as nothing young makes it look again.
fn traced_by_own_code(p: &mut Program<'_>, tag: usize) -> Vec<(Cell, Cell)> {
    let mut pairs = Vec::new();
    for _ in 0..CELLS / 100 {
        let target = p.object(UNCOMMON, 2, 0, true);
        p.root(target);
        let tracing = p.object(tag, 2, 0, true);
        p.store(target, 1, tracing);
        pairs.push((target, tracing));
    }
    for _ in 0..4 {
        p.full();
    }
    for &(target, tracing) in &pairs {
        p.store(tracing, 0, target);
    }
    pairs
}

#[test]
fn what_is_stored_into_black_cells_while_several_threads_mark_is_marked() {
    for &threads in THREADS {
        with_program(threads, |p| {
            let pairs = traced_by_own_code(p, toy_vm::STORES_WHILE_TRACED);
            let children = p.leaves(pairs.len());
            for ((_, storing), &child) in pairs.iter().zip(&children) {
                p.store(*storing, 1, child);
            }
            p.full();
            p.finish();
            assert!(children.iter().all(|&child| p.lives(child)));
        });
    }
}

#[test]
fn cells_that_give_up_their_barrier_while_several_threads_mark_need_none_from_then_on() {
    for &threads in THREADS {
        with_program(threads, |p| {
            let pairs = traced_by_own_code(p, toy_vm::UNPROTECTS_WHILE_TRACED);
            p.full();
            let children = p.leaves(pairs.len());
            for (&(target, _), &child) in pairs.iter().zip(&children) {
                p.store_without_barrier(target, 0, child);
            }
            p.collect(Scope::Minor);
            p.finish();
            assert!(children.iter().all(|&child| p.lives(child)));
        });
    }
}
