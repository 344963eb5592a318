//! A guess of how far a walk by keys has got.
//!
//! A program that walks by asking again and again for the entry after a key keeps only the key.
//! So each step must search, and cannot begin before the previous step has found its key. A guess
//! at the leaf and the index breaks that chain: it is checked against what the search finds, and
//! the processor, which predicts that checks succeed, goes on meanwhile.
//!
//! Where the source of nodes counts the nodes that go away ([`NodeSource::changes`]), a guess can
//! be proven without a search: the root and the leaf were live nodes of one tree when the count
//! was read, and the count is still the same, so they still are.

use crate::memory::NodeSource;
use crate::node::bits::apart;
use crate::node::edge::{Edge, Kind};
use crate::path::Position;
use core::ptr;
use core::sync::atomic::{fence, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// Where the last step of a walk ended, for [`WordMap::after_step`](crate::WordMap::after_step).
///
/// It is a guess that is checked: nothing goes wrong when it is stale, is shared between walks or
/// threads, or belongs to another map; only the step takes longer.
///
/// # Examples
/// ```
/// use ashlar_wordmap::{LastStep, WordMap};
///
/// let map: WordMap = (0..100).map(|i| (i * 7, i)).collect();
/// let last = LastStep::new();
/// let (mut key, mut steps) = (0, 0);
/// while let Some((next, _)) = map.after_step(key, &last) {
///     (key, steps) = (next, steps + 1);
/// }
/// assert_eq!((key, steps), (693, 99));
/// ```
#[derive(Debug, Default)]
pub struct LastStep {
    /// The leaf's edge as a word. It is never followed: see [`LastStep::guess`].
    leaf: AtomicUsize,
    /// A hint for [`Leaf::step`](crate::node::leaf::Leaf::step).
    hint: AtomicUsize,
    proof: Proof,
}

/// A proof that a leaf belongs to the tree with a given root, as long as a count does not change.
///
/// * **L1** While `turn` is the same even number, the other fields are those that one thread
///   wrote together; a `root` of 0 may replace the one that was written.
/// * **L2** Where `root` is not 0, it and `leaf` were edges to live nodes of one tree, and
///   `changes` pointed to the count of both, whose value was `seen`. A full leaf is no node; for
///   it the count is the root's. When it stops being full the counts of all branches above it
///   change, because any of them may have been the root.
#[derive(Debug, Default)]
struct Proof {
    turn: AtomicUsize,
    root: AtomicUsize,
    leaf: AtomicPtr<u8>,
    changes: AtomicPtr<AtomicU64>,
    seen: AtomicU64,
}

impl LastStep {
    /// No guess yet.
    pub const fn new() -> LastStep {
        LastStep {
            leaf: AtomicUsize::new(0),
            hint: AtomicUsize::new(0),
            proof: Proof {
                turn: AtomicUsize::new(0),
                root: AtomicUsize::new(0),
                leaf: AtomicPtr::new(ptr::null_mut()),
                changes: AtomicPtr::new(ptr::null_mut()),
                seen: AtomicU64::new(0),
            },
        }
    }

    /// The hint, if the guessed leaf is `leaf`; and that leaf, as an edge computed from the
    /// guess.
    #[inline(always)]
    pub(crate) fn guess(&self, leaf: Edge) -> Option<(Edge, usize)> {
        let guessed = self.leaf.load(Ordering::Relaxed);
        let same = apart(guessed);
        (guessed == leaf.word()).then(|| (leaf.with_word(same), self.hint.load(Ordering::Relaxed)))
    }

    /// A leaf that is proven to belong to the tree whose root is `root`, which the caller
    /// borrows; and the hint.
    #[inline(always)]
    pub(crate) fn proven(&self, root: Edge) -> Option<(Edge, usize)> {
        let leaf = self.proof.leaf_of(root)?;
        Some((leaf, self.hint.load(Ordering::Relaxed)))
    }

    /// Notes where a step ended, in the tree whose root is `root`.
    #[inline(always)]
    pub(crate) fn note(&self, root: Edge, position: Position, source: &impl NodeSource) {
        self.note_leaf(position.leaf, position.index);
        if root.is_branch() {
            self.proof.note(root, position.leaf, source);
        }
    }

    /// Like [`LastStep::note`], in a tree that is one leaf and needs no proof.
    #[inline(always)]
    pub(crate) fn note_leaf(&self, leaf: Edge, hint: usize) {
        self.leaf.store(leaf.word(), Ordering::Relaxed);
        self.note_hint(hint);
    }

    /// Like [`LastStep::note`], in the same leaf.
    #[inline(always)]
    pub(crate) fn note_hint(&self, hint: usize) {
        self.hint.store(hint, Ordering::Relaxed);
    }
}

impl Proof {
    /// The leaf, if it is proven to belong to the tree of `root`, which the caller borrows.
    #[inline(always)]
    fn leaf_of(&self, root: Edge) -> Option<Edge> {
        self.leaf_of_pausing(root, || {})
    }

    /// Like [`Proof::leaf_of`]. Calls `pause` between the loads, where stores of other threads
    /// may come; tests put stores there.
    #[inline(always)]
    fn leaf_of_pausing(&self, root: Edge, mut pause: impl FnMut()) -> Option<Edge> {
        let turn = self.turn.load(Ordering::Acquire);
        pause();
        if self.root.load(Ordering::Relaxed) != root.word() {
            return None;
        }
        pause();
        let leaf = self.leaf.load(Ordering::Relaxed);
        pause();
        let changes = self.changes.load(Ordering::Relaxed);
        pause();
        let seen = self.seen.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        pause();
        if turn % 2 != 0 || self.turn.load(Ordering::Relaxed) != turn {
            return None;
        }
        // SAFETY: L1, L2: `changes` points to a count, which lasts as long as the program.
        let now = unsafe { (*changes).load(Ordering::Relaxed) };
        // A thread that borrows a tree has seen the count rise with each node of the tree that
        // went away, and with each node that was where its root is now. So with the same count
        // the root is the same node, and the leaf belongs to its tree.
        (now == seen).then(|| Edge::of(leaf))
    }

    /// Notes that `leaf` is one of the tree of `root`, a branch, if `source` counts changes
    /// and no other thread is noting something.
    #[inline(never)]
    fn note(&self, root: Edge, leaf: Edge, source: &impl NodeSource) {
        let count = |edge: Edge| {
            // SAFETY: the caller borrows the tree: its root, and a leaf that is not full, are
            // live.
            ptr::NonNull::new(edge.header()).and_then(|node| unsafe { source.changes(node) })
        };
        let is_of_root = |of_root: &&AtomicU64| {
            leaf.kind() == Kind::FULL || count(leaf).is_some_and(|c| ptr::eq(c, *of_root))
        };
        match count(root).filter(is_of_root) {
            Some(changes) => self.write_pausing(root, leaf, changes, || {}),
            None => self.root.store(0, Ordering::Relaxed),
        }
    }

    /// Writes a proof (L2), unless another thread is writing one. Calls `pause` between the
    /// stores, for the same reason as [`Proof::leaf_of_pausing`].
    #[inline(always)]
    fn write_pausing(
        &self,
        root: Edge,
        leaf: Edge,
        changes: &'static AtomicU64,
        mut pause: impl FnMut(),
    ) {
        let turn = self.turn.load(Ordering::Relaxed);
        let odd = turn | 1;
        if odd == turn
            || self
                .turn
                .compare_exchange(turn, odd, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
        {
            // Another thread is writing at this moment.
            return;
        }
        fence(Ordering::Release);
        pause();
        self.root.store(root.word(), Ordering::Relaxed);
        pause();
        self.leaf.store(leaf.pointer(), Ordering::Relaxed);
        pause();
        self.changes
            .store(ptr::from_ref(changes).cast_mut(), Ordering::Relaxed);
        pause();
        self.seen
            .store(changes.load(Ordering::Relaxed), Ordering::Relaxed);
        pause();
        self.turn.store(odd.wrapping_add(1), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    /// The root and a leaf of a tree, as far as a proof uses them, and the count of both.
    struct Tree {
        root: Edge,
        leaf: Edge,
        changes: &'static AtomicU64,
    }

    /// Two trees in two shards; both counts have the same value.
    fn two_trees() -> [Tree; 2] {
        static CHANGES: [AtomicU64; 2] = [const { AtomicU64::new(7) }; 2];
        [0x1000, 0x2000].map(|at| Tree {
            root: Edge::new(Kind::LINEAR, 3, ptr::without_provenance_mut(at)),
            leaf: Edge::new(Kind::BITMAP, 1, ptr::without_provenance_mut(at + 64)),
            changes: &CHANGES[at / 0x2000],
        })
    }

    fn write(proof: &Proof, tree: &Tree, pause: impl FnMut()) {
        proof.write_pausing(tree.root, tree.leaf, tree.changes, pause);
    }

    /// Does `what` at pause `at`; returns the function that counts the pauses.
    fn at_pause<'a>(
        at: usize,
        pauses: &'a Cell<usize>,
        mut what: impl FnMut() + 'a,
    ) -> impl FnMut() + 'a {
        move || {
            if pauses.replace(pauses.get() + 1) == at {
                what();
            }
        }
    }

    #[test]
    fn a_proof_holds_until_something_goes_from_its_shard() {
        static CHANGES: AtomicU64 = AtomicU64::new(3);
        let [one, other] = two_trees();
        let proof = LastStep::new().proof;
        assert_eq!(proof.leaf_of(one.root), None);
        proof.write_pausing(one.root, one.leaf, &CHANGES, || {});
        assert_eq!(proof.leaf_of(one.root), Some(one.leaf));
        assert_eq!(proof.leaf_of(other.root), None);
        CHANGES.fetch_add(1, Ordering::Relaxed);
        assert_eq!(proof.leaf_of(one.root), None);
    }

    /// Another thread writes the proof of another tree between any two loads of a reader: the
    /// reader finds its own leaf or none.
    #[test]
    fn a_proof_that_is_replaced_while_it_is_read_proves_nothing_else() {
        let [mine, theirs] = two_trees();
        for at in 0.. {
            let proof = LastStep::new().proof;
            write(&proof, &mine, || {});
            let pauses = Cell::new(0);
            let meanwhile = at_pause(at, &pauses, || write(&proof, &theirs, || {}));
            let found = proof.leaf_of_pausing(mine.root, meanwhile);
            assert!(
                found.is_none() || found == Some(mine.leaf),
                "written at pause {at}"
            );
            if at >= pauses.get() {
                assert_eq!((at, found), (5, Some(mine.leaf)), "each pause had its turn");
                break;
            }
        }
    }

    /// A reader comes between any two stores of another thread, which has written the proof of
    /// one tree and is now writing that of another: for either tree the reader finds its own leaf
    /// or none.
    #[test]
    fn a_proof_that_is_being_written_proves_nothing() {
        let [before, after] = two_trees();
        for at in 0..5 {
            let proof = LastStep::new().proof;
            write(&proof, &before, || {});
            let (pauses, reads) = (Cell::new(0), Cell::new(0));
            let read = || {
                reads.set(reads.get() + 1);
                for tree in [&before, &after] {
                    assert_eq!(proof.leaf_of(tree.root), None, "read at pause {at}");
                }
                // A second writer does not join in either.
                write(&proof, &before, || {
                    unreachable!("two threads write one proof")
                });
            };
            write(&proof, &after, at_pause(at, &pauses, read));
            assert_eq!((reads.get(), pauses.get()), (1, 5));
            assert_eq!(proof.leaf_of(after.root), Some(after.leaf));
            assert_eq!(proof.leaf_of(before.root), None);
        }
    }
}
