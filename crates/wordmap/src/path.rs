//! The path from a tree's root to one of its leaves, and walks along it.

use crate::last_step::LastStep;
use crate::memory::NodeSource;
use crate::node::branch::Branch;
use crate::node::edge::{byte, leaf_tag, Edge, Kind, ONE};
use crate::node::leaf::{index_of, Leaf, Place, Step as LeafStep};
use crate::tree::Tree;
use core::mem::MaybeUninit;
use core::ops::{Bound, RangeBounds};
use core::ptr::NonNull;

/// A branch and the slot that the path takes in it.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub(crate) edge: Edge,
    pub(crate) slot: u16,
}

/// The steps from the root down. Levels fall (N7), so there are at most eight.
///
/// * **P1** The first `depth_max` steps have been written, where `depth_max` is the largest
///   `depth` there has been.
#[derive(Clone, Copy)]
pub(crate) struct Path {
    steps: [MaybeUninit<Step>; 8],
    pub(crate) depth: usize,
}

impl Path {
    #[inline(always)]
    pub(crate) fn new() -> Path {
        Path {
            steps: [const { MaybeUninit::uninit() }; 8],
            depth: 0,
        }
    }

    /// The step taken at `depth`, which must be below [`Path::depth`].
    #[inline(always)]
    pub(crate) fn step(&self, depth: usize) -> Step {
        debug_assert!(depth < self.depth);
        // SAFETY: P1.
        unsafe { self.steps[depth & 7].assume_init() }
    }

    /// Replaces the last step.
    pub(crate) fn replace_top(&mut self, edge: Edge, slot: usize) {
        self.depth -= 1;
        self.push(edge, slot);
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, edge: Edge, slot: usize) {
        self.steps[self.depth & 7].write(Step {
            edge,
            slot: slot as u16,
        });
        self.depth += 1;
    }

    #[inline(always)]
    pub(crate) fn top(&self) -> Option<Step> {
        self.depth.checked_sub(1).map(|d| self.step(d))
    }
}

/// A view of the branch that an edge leads to.
#[inline(always)]
pub(crate) fn branch(edge: Edge) -> Branch {
    debug_assert!(edge.is_branch());
    // SAFETY: N1: trees hold edges to live nodes only, and views do not outlive
    // the borrow of the tree they were reached through.
    unsafe { Branch::of(edge) }
}

/// A view of the leaf that an edge, neither null nor full, leads to.
#[inline(always)]
pub(crate) fn leaf<const V: usize>(edge: Edge) -> Leaf<V> {
    debug_assert!(!edge.is_branch() && !edge.is_null() && edge.kind() != Kind::FULL);
    // SAFETY: N1: trees hold edges to live nodes only, and views do not outlive
    // the borrow of the tree they were reached through.
    unsafe { Leaf::of(edge) }
}

/// Like [`leaf`], for an edge whose tag is `tag`.
#[inline(always)]
fn leaf_tagged<const V: usize>(edge: Edge, tag: u8) -> Leaf<V> {
    // SAFETY: N1: trees hold edges to live nodes only, and views do not outlive
    // the borrow of the tree they were reached through.
    unsafe { Leaf::of_tagged(edge, tag) }
}

/// The number of entries below an edge.
pub(crate) fn count<const V: usize>(edge: Edge) -> u64 {
    if edge.is_null() {
        0
    } else if edge.is_branch() {
        branch(edge).count()
    } else {
        leaf_len::<V>(edge) as u64
    }
}

#[inline(always)]
pub(crate) fn leaf_len<const V: usize>(edge: Edge) -> usize {
    if V == 0 && edge.kind() == Kind::FULL {
        256
    } else {
        leaf::<V>(edge).len()
    }
}

#[inline(always)]
pub(crate) fn leaf_key<const V: usize>(edge: Edge, i: usize) -> u64 {
    if V == 0 && edge.kind() == Kind::FULL {
        edge.full_base() | i as u64
    } else {
        leaf::<V>(edge).key(i)
    }
}

/// Like [`Leaf::keys`], also for full leaves.
#[inline(always)]
pub(crate) fn leaf_keys<const V: usize>(edge: Edge, from: usize, keys: &mut [u64]) -> usize {
    if V == 0 && edge.kind() == Kind::FULL {
        let n = (256 - from).min(keys.len());
        for (k, key) in keys.iter_mut().enumerate().take(n) {
            *key = edge.full_base() | (from + k) as u64;
        }
        n
    } else {
        leaf::<V>(edge).keys(from, keys)
    }
}

/// The position of an entry: its leaf and its index there.
#[derive(Clone, Copy)]
pub(crate) struct Position {
    pub(crate) leaf: Edge,
    pub(crate) index: usize,
}

/// The position of `key` relative to the keys of a leaf.
enum Side {
    Below,
    Above,
    Inside(Place),
}

fn side_of_leaf<const V: usize>(edge: Edge, key: u64) -> Side {
    if V == 0 && edge.kind() == Kind::FULL {
        let base = edge.full_base();
        return match key & !0xff {
            k if k < base => Side::Below,
            k if k > base => Side::Above,
            _ => Side::Inside(Place::At((key & 0xff) as usize)),
        };
    }
    let leaf = leaf::<V>(edge);
    if leaf.covers(key) {
        Side::Inside(leaf.place(key))
    } else if key < leaf.lowest() {
        Side::Below
    } else {
        Side::Above
    }
}

/// Goes to the first entry below `edge`.
pub(crate) fn descend_first(mut edge: Edge, path: &mut Path) -> Position {
    while edge.is_branch() {
        path.push(edge, 0);
        edge = branch(edge).child(0);
    }
    Position {
        leaf: edge,
        index: 0,
    }
}

/// The leaf that the last insertion below `edge` went to, or another leaf (N8).
#[inline(always)]
pub(crate) fn noted_leaf(mut edge: Edge) -> Edge {
    while edge.is_branch() {
        let b = branch(edge);
        edge = b.child(b.noted_slot());
    }
    edge
}

/// The path to the leaf that [`noted_leaf`] returns.
pub(crate) fn noted_path(mut edge: Edge) -> Path {
    let mut path = Path::new();
    while edge.is_branch() {
        let b = branch(edge);
        let slot = b.noted_slot();
        path.push(edge, slot);
        edge = b.child(slot);
    }
    path
}

/// Goes to the last entry below `edge`.
pub(crate) fn descend_last<const V: usize>(mut edge: Edge, path: &mut Path) -> Position {
    while edge.is_branch() {
        let slot = branch(edge).last_slot();
        path.push(edge, slot);
        edge = branch(edge).child(slot);
    }
    Position {
        leaf: edge,
        index: leaf_len::<V>(edge) - 1,
    }
}

/// The first entry of the leaf after the leaf at the end of `path`.
pub(crate) fn next_leaf(path: &mut Path) -> Option<Position> {
    while let Some(step) = path.top() {
        path.depth -= 1;
        if let Some(slot) = branch(step.edge).next_slot(usize::from(step.slot)) {
            path.push(step.edge, slot);
            return Some(descend_first(branch(step.edge).child(slot), path));
        }
    }
    None
}

/// The last entry of the leaf before the leaf at the end of `path`.
pub(crate) fn previous_leaf<const V: usize>(path: &mut Path) -> Option<Position> {
    while let Some(step) = path.top() {
        path.depth -= 1;
        if let Some(slot) = branch(step.edge).previous_slot(usize::from(step.slot)) {
            path.push(step.edge, slot);
            return Some(descend_last::<V>(branch(step.edge).child(slot), path));
        }
    }
    None
}

enum Reached {
    Leaf(Edge),
    /// A branch whose keys are all above the key that is looked for.
    AllAbove(Edge),
    /// A branch whose keys are all below the key that is looked for.
    AllBelow,
}

/// Descends towards `key` as far as branches cover it.
#[inline(always)]
fn descend(mut edge: Edge, key: u64, path: &mut Path) -> Reached {
    while edge.is_branch() {
        let b = branch(edge);
        let level = b.level();
        if !b.covers(key) {
            return if key < b.lowest() {
                Reached::AllAbove(edge)
            } else {
                Reached::AllBelow
            };
        }
        let slot = b.slot(byte(key, level));
        path.push(edge, slot);
        edge = b.child(slot);
    }
    Reached::Leaf(edge)
}

/// The first entry at or after `key`; leaves `path` at its leaf.
pub(crate) fn seek_forward<const V: usize>(
    root: Edge,
    key: u64,
    path: &mut Path,
) -> Option<Position> {
    path.depth = 0;
    if root.is_null() {
        return None;
    }
    match descend(root, key, path) {
        Reached::AllAbove(edge) => Some(descend_first(edge, path)),
        Reached::AllBelow => next_leaf(path),
        Reached::Leaf(edge) => {
            let index = match side_of_leaf::<V>(edge, key) {
                Side::Below => 0,
                Side::Inside(Place::At(i) | Place::Before(i)) => i,
                Side::Above => return next_leaf(path),
            };
            if index < leaf_len::<V>(edge) {
                Some(Position { leaf: edge, index })
            } else {
                next_leaf(path)
            }
        }
    }
}

/// The last entry at or before `key`; leaves `path` at its leaf.
pub(crate) fn seek_backward<const V: usize>(
    root: Edge,
    key: u64,
    path: &mut Path,
) -> Option<Position> {
    path.depth = 0;
    if root.is_null() {
        return None;
    }
    match descend(root, key, path) {
        Reached::AllAbove(_) => previous_leaf::<V>(path),
        Reached::AllBelow => {
            // The branch that was not entered is the child of the top step, or the root.
            let edge = path
                .top()
                .map_or(root, |s| branch(s.edge).child(usize::from(s.slot)));
            Some(descend_last::<V>(edge, path))
        }
        Reached::Leaf(edge) => {
            let end = match side_of_leaf::<V>(edge, key) {
                Side::Below => 0,
                Side::Inside(Place::At(i)) => i + 1,
                Side::Inside(Place::Before(i)) => i,
                Side::Above => leaf_len::<V>(edge),
            };
            match end.checked_sub(1) {
                Some(index) => Some(Position { leaf: edge, index }),
                None => previous_leaf::<V>(path),
            }
        }
    }
}

/// The leaf that `key` leads to, null in an empty tree; records no path.
#[inline(always)]
pub(crate) fn leaf_towards(root: Edge, key: u64) -> Edge {
    let mut edge = root;
    while edge.is_branch() {
        let b = branch(edge);
        edge = b.child(b.slot(byte(key, b.level())));
    }
    edge
}

/// The first entry above `key`, and its key. Looks in the leaf that `key` leads to without
/// recording the path, which is needed only at the end of a leaf.
#[inline(always)]
pub(crate) fn after<const V: usize>(root: Edge, key: u64) -> Option<(Position, u64)> {
    after_from::<V>(root, leaf_towards(root, key), key)
}

/// Like [`after`], given `edge`, the leaf that `key` leads to.
#[inline(always)]
fn after_from<const V: usize>(root: Edge, edge: Edge, key: u64) -> Option<(Position, u64)> {
    if edge.is_null() {
        return None;
    }
    if V == 0 && edge.kind() == Kind::FULL {
        let index = (key & 0xff) as usize + 1;
        if edge.full_base() == key & !0xff && index < 256 {
            return Some((Position { leaf: edge, index }, key + 1));
        }
    } else {
        let leaf = leaf::<V>(edge);
        if leaf.covers(key) {
            match leaf.after(key) {
                Some((index, next)) => return Some((Position { leaf: edge, index }, next)),
                None if edge == root => return None,
                None => {}
            }
        }
    }
    after_by_path::<V>(root, key)
}

impl<const V: usize, A: NodeSource> Tree<V, A> {
    /// Like [`after`] for the next step of a walk; `last` is a guess where the previous step
    /// ended. Unless the guessed leaf is proven to belong to this tree, the leaf is looked for
    /// all the same, and the guess is used only if it is the leaf found. In any case the
    /// guessed entry must have `key`.
    #[inline(always)]
    pub(crate) fn after_step(&self, key: u64, last: &LastStep) -> Option<Next> {
        let found = match self.root.small_width() {
            1 => self.after_step_of_small::<1>(key, last),
            2 => self.after_step_of_small::<2>(key, last),
            8 => self.after_step_of_small::<8>(key, last),
            _ => None,
        };
        found.unwrap_or_else(|| self.after_step_anywhere(key, last))
    }

    /// [`Tree::after_step`] for a tree that is one small leaf whose width
    /// ([`Edge::small_width`]) is `WIDTH`, as most maps are: the leaf need not be looked for.
    /// Returns `None` where that is not enough to know the next entry.
    #[inline(always)]
    pub(crate) fn after_step_of_small<const WIDTH: usize>(
        &self,
        key: u64,
        last: &LastStep,
    ) -> Option<Option<Next>> {
        let leaf = small_leaf::<V, WIDTH>(self.root);
        if WIDTH == 8 {
            let only = leaf.word();
            return Some((key < only).then(|| next_in(leaf, 0, only)));
        }
        // The root is at hand, so nothing has to wait for the guess.
        let (_, i) = last.guess(self.root)?;
        match leaf.step_listed::<WIDTH>(i, key) {
            LeafStep::To(next, hint) => {
                last.note_hint(hint);
                Some(Some(next_in(leaf, hint, next)))
            }
            LeafStep::Behind => Some(None),
            LeafStep::Elsewhere => None,
        }
    }

    /// The first entry at or after `key`, as the first step of a walk.
    #[inline(always)]
    pub(crate) fn first_step(&self, key: u64, last: &LastStep) -> Option<Next> {
        let found = match self.root.small_width() {
            1 => self.first_step_of_small::<1>(key, last),
            2 => self.first_step_of_small::<2>(key, last),
            8 => self.first_step_of_small::<8>(key, last),
            _ => None,
        };
        found.or_else(|| self.first_step_anywhere(key, last))
    }

    /// [`Tree::first_step`] for a tree that is a leaf as in [`Tree::after_step_of_small`];
    /// `None` if `key` is above the first key.
    #[inline(always)]
    pub(crate) fn first_step_of_small<const WIDTH: usize>(
        &self,
        key: u64,
        last: &LastStep,
    ) -> Option<Next> {
        let leaf = small_leaf::<V, WIDTH>(self.root);
        let first = first_of_small::<V, WIDTH>(leaf);
        if key > first {
            return None;
        }
        if WIDTH < 8 {
            last.note_leaf(self.root, 0);
        }
        Some(next_in(leaf, 0, first))
    }

    #[inline(never)]
    pub(crate) fn first_step_anywhere(&self, key: u64, last: &LastStep) -> Option<Next> {
        let (position, first) = at_or_after_anywhere::<V>(self.root, key)?;
        last.note(self.root, position, &self.source);
        Some(next_at::<V>(position.leaf, position.index, first))
    }

    #[inline(never)]
    fn after_step_anywhere(&self, key: u64, last: &LastStep) -> Option<Next> {
        self.after_step_of_any(key, last)
    }

    /// [`Tree::after_step`] where [`Tree::after_step_of_small`] returns `None`.
    #[inline(always)]
    pub(crate) fn after_step_of_any(&self, key: u64, last: &LastStep) -> Option<Next> {
        if self.root.is_branch() {
            if let Some((proven, hint)) = last.proven(self.root) {
                if V == 0 && proven.kind() == Kind::FULL {
                    if proven.full_base() == key & !0xff && key & 0xff < 255 {
                        return Some(next_at::<V>(proven, 0, key + 1));
                    }
                } else if let LeafStep::To(next, hint) = leaf::<V>(proven).step(hint, key) {
                    last.note_hint(hint);
                    return Some(next_at::<V>(proven, index_of(hint), next));
                }
            }
        }
        self.after_step_searching(key, last)
    }

    #[inline(never)]
    fn after_step_searching(&self, key: u64, last: &LastStep) -> Option<Next> {
        let root = self.root;
        let edge = leaf_towards(root, key);
        if V == 1 || edge.kind() != Kind::FULL {
            if let Some((guessed, hint)) = last.guess(edge).filter(|_| !edge.is_null()) {
                match leaf::<V>(guessed).step(hint, key) {
                    LeafStep::To(next, hint) => {
                        last.note_hint(hint);
                        return Some(next_at::<V>(guessed, index_of(hint), next));
                    }
                    LeafStep::Behind if edge == root => return None,
                    LeafStep::Behind | LeafStep::Elsewhere => {}
                }
            }
        }
        let (position, next) = after_from::<V>(root, edge, key)?;
        last.note(root, position, &self.source);
        Some(next_at::<V>(position.leaf, position.index, next))
    }
}

/// The small leaf that a tree consists of; `WIDTH` is its [`Edge::small_width`].
#[inline(always)]
fn small_leaf<const V: usize, const WIDTH: usize>(root: Edge) -> Leaf<V> {
    debug_assert!(root.small_width() == WIDTH);
    leaf_tagged(
        root,
        if WIDTH == 8 {
            ONE
        } else {
            leaf_tag(Kind::FLAT, WIDTH as u8)
        },
    )
}

/// The first key of a small leaf.
#[inline(always)]
fn first_of_small<const V: usize, const WIDTH: usize>(leaf: Leaf<V>) -> u64 {
    if WIDTH == 8 {
        leaf.word()
    } else {
        leaf.listed_key::<WIDTH>(0)
    }
}

/// The key of the entry that a step went to, and the address of its value (without meaning in a
/// set): two words, which functions return in registers.
pub(crate) type Next = (u64, NonNull<u64>);

#[inline(always)]
fn next_at<const V: usize>(edge: Edge, i: usize, key: u64) -> Next {
    if V == 0 {
        return (key, NonNull::dangling());
    }
    next_in(leaf::<V>(edge), i, key)
}

#[inline(always)]
fn next_in<const V: usize>(leaf: Leaf<V>, i: usize, key: u64) -> Next {
    if V == 0 {
        return (key, NonNull::dangling());
    }
    // SAFETY: N1: values lie in a node's block, which does not begin at 0.
    (key, unsafe { NonNull::new_unchecked(leaf.value(i)) })
}

/// The first entry at or after `key`, and its key; searches as [`after`] does.
#[inline(always)]
pub(crate) fn at_or_after<const V: usize>(root: Edge, key: u64) -> Option<(Position, u64)> {
    let first = match root.small_width() {
        1 => first_of_small::<V, 1>(small_leaf::<V, 1>(root)),
        2 => first_of_small::<V, 2>(small_leaf::<V, 2>(root)),
        8 => first_of_small::<V, 8>(small_leaf::<V, 8>(root)),
        _ => return at_or_after_anywhere::<V>(root, key),
    };
    if key > first {
        return at_or_after_anywhere::<V>(root, key);
    }
    let (leaf, index) = (root, 0);
    Some((Position { leaf, index }, first))
}

#[inline(never)]
fn at_or_after_anywhere<const V: usize>(root: Edge, key: u64) -> Option<(Position, u64)> {
    let edge = leaf_towards(root, key);
    if edge.is_null() {
        return None;
    }
    if V == 1 || edge.kind() != Kind::FULL {
        let leaf = leaf::<V>(edge);
        let index = if leaf.covers(key) {
            match leaf.place(key) {
                Place::At(index) => return Some((Position { leaf: edge, index }, key)),
                Place::Before(index) => index,
            }
        } else if edge == root && key < leaf.lowest() {
            0
        } else {
            leaf.len()
        };
        if index < leaf.len() {
            return Some((Position { leaf: edge, index }, leaf.key(index)));
        }
        if edge == root {
            return None;
        }
    }
    at_or_after_by_path::<V>(root, key)
}

#[cold]
#[inline(never)]
fn at_or_after_by_path<const V: usize>(root: Edge, key: u64) -> Option<(Position, u64)> {
    let position = seek_forward::<V>(root, key, &mut Path::new())?;
    Some((position, leaf_key::<V>(position.leaf, position.index)))
}

#[cold]
#[inline(never)]
fn after_by_path<const V: usize>(root: Edge, key: u64) -> Option<(Position, u64)> {
    at_or_after_by_path::<V>(root, key.checked_add(1)?)
}

/// The number of keys in a range; `rank` returns the number of keys below a key.
pub(crate) fn count_between(
    range: &impl RangeBounds<u64>,
    len: u64,
    rank: impl Fn(u64) -> u64,
) -> u64 {
    let below_or_at = |key: u64| key.checked_add(1).map_or(len, &rank);
    let before = match range.start_bound() {
        Bound::Included(&key) => rank(key),
        Bound::Excluded(&key) => below_or_at(key),
        Bound::Unbounded => 0,
    };
    let upto = match range.end_bound() {
        Bound::Included(&key) => below_or_at(key),
        Bound::Excluded(&key) => rank(key),
        Bound::Unbounded => len,
    };
    upto.saturating_sub(before)
}

/// The number of entries below `key`.
pub(crate) fn rank<const V: usize>(root: Edge, key: u64) -> u64 {
    let mut path = Path::new();
    let Some(position) = seek_forward::<V>(root, key, &mut path) else {
        return count::<V>(root);
    };
    let mut rank = position.index as u64;
    for step in (0..path.depth).map(|d| path.step(d)) {
        let b = branch(step.edge);
        let here = b.child(usize::from(step.slot));
        let mut slot = Some(0);
        while let Some(s) = slot {
            let child = b.child(s);
            if child == here {
                break;
            }
            rank += count::<V>(child);
            slot = b.next_slot(s);
        }
    }
    rank
}

/// The entry with `nth` entries before it.
pub(crate) fn nth<const V: usize>(root: Edge, mut nth: u64, path: &mut Path) -> Option<Position> {
    path.depth = 0;
    if nth >= count::<V>(root) {
        return None;
    }
    let mut edge = root;
    while edge.is_branch() {
        let b = branch(edge);
        let mut slot = 0;
        loop {
            let below = count::<V>(b.child(slot));
            if nth < below {
                break;
            }
            nth -= below;
            slot = b.next_slot(slot)?;
        }
        path.push(edge, slot);
        edge = b.child(slot);
    }
    Some(Position {
        leaf: edge,
        index: nth as usize,
    })
}
