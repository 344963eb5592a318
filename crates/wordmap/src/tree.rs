//! The tree under maps and sets: descending, growing, splitting, shrinking.
//!
//! `V` is the number of value words of an entry, 1 or 0. Every operation that needs memory
//! allocates it before it changes anything, so that a failed operation leaves the tree as it
//! was.

use crate::memory::NodeSource;
use crate::node::branch::{block_bytes_for, prefetch_before, Branch, Children};
use crate::node::edge::{above, byte, highest_difference, Edge, Kind, BITMAP, FLAT1, FLAT2, ONE};
use crate::node::leaf::{
    Bitmap, Cut, Cuttable, Entries, Flat, Grouped, Half, Insertion, Leaf, Place, Planes, Removal,
    Shape, Spot, Wide, ENTRIES_MAX,
};
use crate::path::{
    branch, count, descend_first, leaf, leaf_key, leaf_len, next_leaf, noted_leaf, noted_path, Path,
};
use alloc::alloc::{handle_alloc_error, Layout};
use core::fmt;
use core::ptr::{self, NonNull};

/// A subtree with at most this many entries becomes one leaf.
const COLLAPSED_MAX: u64 = 48;

/// Leaves are merged into one of at most this many entries, when one of them has run low.
const MERGED_MAX: usize = 64;

/// There was no memory for a node; the map is as it was before the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory;

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no memory for a node of a word map")
    }
}

impl core::error::Error for OutOfMemory {}

/// Calls the global handler of allocation errors.
#[cold]
pub(crate) fn out_of_memory() -> ! {
    handle_alloc_error(Layout::new::<[u64; 2]>())
}

/// A tree of nodes, and the source of the nodes.
#[repr(C)]
pub(crate) struct Tree<const V: usize, A: NodeSource> {
    pub(crate) root: Edge,
    pub(crate) source: A,
}

/// The outcome of an insertion.
pub(crate) struct Inserted {
    /// The address of the entry's value (without meaning in a set).
    pub(crate) value: *mut u64,
    pub(crate) is_new: bool,
}

impl<const V: usize, A: NodeSource> Tree<V, A> {
    /// The leaf and index of `key`.
    #[inline(always)]
    fn find(&self, key: u64) -> Option<(Leaf<V>, usize)> {
        let mut edge = self.root;
        while edge.is_branch() {
            let b = branch(edge);
            edge = b.child(b.slot(byte(key, b.level())));
        }
        if edge.is_null() {
            return None;
        }
        let leaf = leaf::<V>(edge);
        leaf.find(key).map(|i| (leaf, i))
    }

    /// The address of the value of `key`.
    #[inline(always)]
    pub(crate) fn value_of(&self, key: u64) -> Option<*mut u64> {
        self.find(key).map(|(leaf, i)| leaf.value(i))
    }

    /// Whether `key` is in the tree.
    #[inline(always)]
    pub(crate) fn contains(&self, key: u64) -> bool {
        let mut edge = self.root;
        while edge.is_branch() {
            let b = branch(edge);
            edge = b.child(b.slot(byte(key, b.level())));
        }
        if edge.is_null() {
            return false;
        }
        if V == 0 && edge.kind() == Kind::FULL {
            return edge.full_base() == key & !0xff;
        }
        leaf::<V>(edge).find(key).is_some()
    }

    pub(crate) fn len(&self) -> u64 {
        count::<V>(self.root)
    }

    fn allocate(&self, bytes: usize) -> Result<NonNull<u8>, OutOfMemory> {
        self.source.allocate(bytes).ok_or(OutOfMemory)
    }

    fn release(&self, block: *mut u8, bytes: usize) {
        if let Some(block) = NonNull::new(block) {
            // SAFETY: only called with blocks of this tree's nodes and their sizes (N4), when no
            // edge leads to them any more.
            unsafe { self.source.release(block, bytes) };
        }
    }

    /// Releases a leaf; returns the bytes that it had.
    #[inline]
    fn release_leaf(&self, edge: Edge) -> usize {
        if V == 0 && edge.kind() == Kind::FULL {
            return 0;
        }
        // SAFETY: N1, N4: the header of a live leaf is in its block, whose length follows from
        // the leaf's shape; no edge leads to the leaf any more.
        unsafe {
            let inside = NonNull::new_unchecked(edge.header());
            self.source
                .release_around(inside, || leaf::<V>(edge).whole_block())
        }
    }

    /// Releases a branch; returns the bytes that it had.
    fn release_branch(&self, branch: Branch) -> usize {
        let bytes = branch.block_bytes();
        self.release(branch.block(), bytes);
        bytes
    }

    pub(crate) fn new_leaf(&self, entries: &Entries) -> Result<Edge, OutOfMemory> {
        if V == 0 && entries.len() == 256 {
            return Ok(Edge::full(entries.key(0)));
        }
        let shape = Shape::choose(entries);
        let block = self.allocate(shape.block_bytes::<V>())?;
        // SAFETY: a fresh block of the shape's size.
        Ok(unsafe { Leaf::<V>::write(block.as_ptr(), &shape, entries) })
    }

    #[inline(always)]
    fn new_one(&self, key: u64) -> Result<Edge, OutOfMemory> {
        let block = self.allocate(Shape::one().block_bytes::<V>())?;
        // SAFETY: a fresh block of the shape's size.
        Ok(unsafe { Leaf::<V>::write_one(block.as_ptr(), key) })
    }

    /// A leaf of `key` alone. If `key` continues a run of neighbours after a full leaf, to which
    /// the last insertion went, the new leaf is a bitmap at once: a list would soon become one.
    fn new_one_or_run(&self, key: u64) -> Result<Edge, OutOfMemory> {
        if key == 0 || full_leaf_end::<V>(noted_leaf(self.root)) != Some(key - 1) {
            return self.new_one(key);
        }
        debug_assert!(key & 0xff == 0);
        let block = self.allocate(Shape::bitmap(1).block_bytes::<V>())?;
        // SAFETY: a fresh block of the shape's size.
        let edge = unsafe { Leaf::<V>::write_bitmap(block.as_ptr(), key, [1, 0, 0, 0]) };
        if V == 1 {
            // SAFETY: entry 0 of the leaf.
            unsafe { *leaf::<V>(edge).value(0) = 0 };
        }
        Ok(edge)
    }

    pub(crate) fn new_branch(
        &self,
        level: usize,
        key: u64,
        count: u64,
        children: &Children,
    ) -> Result<Edge, OutOfMemory> {
        let block = self.allocate(block_bytes_for(children.len()))?;
        // SAFETY: a fresh block of the right size.
        Ok(unsafe { Branch::write(block.as_ptr(), level, key, count, children) })
    }

    /// Replaces the node at the end of `path` by `edge`.
    #[inline(always)]
    fn store(&mut self, path: &Path, edge: Edge) {
        match path.top() {
            None => self.root = edge,
            Some(step) => branch(step.edge).replace_child(usize::from(step.slot), edge),
        }
    }

    #[inline(always)]
    fn add_counts(path: &Path, change: i64) {
        for depth in 0..path.depth {
            branch(path.step(depth).edge).add_count(change);
        }
    }

    /// Finds or inserts `key`; a new value is 0.
    ///
    /// Branches note the slots that an insertion goes through, so the next insertion first looks
    /// in the same leaf, and the path need not be kept elsewhere.
    #[inline(always)]
    pub(crate) fn insert(&mut self, key: u64) -> Result<Inserted, OutOfMemory> {
        if !self.root.is_branch() {
            return self.insert_in_leaf(self.root, key);
        }
        let noted = noted_leaf(self.root);
        if noted.tag() == BITMAP {
            if let Some(i) = leaf::<V>(noted).insert_in_bitmap(key) {
                self.count_insertion();
                return Ok(new_value(leaf::<V>(noted).value(i)));
            }
        }
        self.insert_below(noted, key)
    }

    /// [`Tree::insert`] where the root is a branch; `noted` is what [`noted_leaf`] returns.
    #[inline(never)]
    fn insert_below(&mut self, noted: Edge, key: u64) -> Result<Inserted, OutOfMemory> {
        let edge = if leads_to::<V>(noted, key) {
            noted
        } else {
            self.note_way(key)
        };
        match edge.kind() {
            Kind::GROUPED => self.insert_in::<Grouped<V>>(edge, key),
            Kind::FLAT if edge.level() > 2 => self.insert_in::<Wide<V>>(edge, key),
            _ => self.insert_in_leaf(edge, key),
        }
    }

    /// Returns the leaf that `key` leads to, and notes the slots on the way.
    #[inline(always)]
    fn note_way(&mut self, key: u64) -> Edge {
        let mut edge = self.root;
        while edge.is_branch() {
            // Whether branches cover the key is only checked if the leaf does not cover it: a
            // leaf that covers the key is below branches that do (N7).
            let b = branch(edge);
            let slot = b.slot(byte(key, b.level()));
            b.note_slot(slot);
            edge = b.child(slot);
            prefetch_before(edge);
        }
        edge
    }

    /// Counts one more entry in each branch of the noted path.
    #[inline(always)]
    fn count_insertion(&mut self) {
        let mut edge = self.root;
        while edge.is_branch() {
            let b = branch(edge);
            b.add_count(1);
            edge = b.child(b.noted_slot());
        }
    }

    /// Replaces the leaf at the end of the noted path by `edge`.
    #[inline(always)]
    fn store_noted(&mut self, edge: Edge) {
        let mut old = self.root;
        if !old.is_branch() {
            self.root = edge;
            return;
        }
        loop {
            let b = branch(old);
            let slot = b.noted_slot();
            old = b.child(slot);
            if !old.is_branch() {
                b.replace_child(slot, edge);
                return;
            }
        }
    }

    /// Inserts into `edge`, the leaf at the end of the noted path; null in an empty tree.
    #[inline(never)]
    fn insert_in_leaf(&mut self, edge: Edge, key: u64) -> Result<Inserted, OutOfMemory> {
        if edge.is_null() {
            self.root = self.new_one(key)?;
            return Ok(new_value(leaf::<V>(self.root).value(0)));
        }
        match edge.tag() {
            FLAT1 => self.insert_listed::<1>(edge, key),
            FLAT2 => self.insert_listed::<2>(edge, key),
            BITMAP => self.insert_in::<Bitmap<V>>(edge, key),
            tag => match tag >> 4 {
                Kind::GROUPED => self.insert_in::<Grouped<V>>(edge, key),
                Kind::FLAT => self.insert_in::<Wide<V>>(edge, key),
                Kind::ONE => self.insert_uncovered(edge, key),
                _ => self.insert_in_full(edge, key),
            },
        }
    }

    /// Inserts into a leaf that lists its suffixes, as the leaves of small maps do.
    #[inline(always)]
    fn insert_listed<const LEVEL: usize>(
        &mut self,
        edge: Edge,
        key: u64,
    ) -> Result<Inserted, OutOfMemory> {
        let mut leaf = leaf::<V>(edge);
        let (n, i) = match leaf.place_listed::<LEVEL>(key) {
            Some((n, Place::Before(i))) => (n, i),
            Some((_, Place::At(i))) => return Ok(value_there(leaf.value(i))),
            None => return self.insert_in::<Flat<V, LEVEL>>(edge, key),
        };
        if !leaf.insert_listed::<LEVEL>(n, i, key) {
            let (old, old_bytes) = leaf.listed_block::<LEVEL>(n);
            let new_bytes = Leaf::<V>::listed_bytes::<LEVEL>(n + 1);
            let mut edge = Edge::NULL;
            // SAFETY: the old block is this leaf's, of the size that its entries need; the new
            // block has room for one entry more.
            unsafe {
                let fill = |block: NonNull<u8>| {
                    edge = leaf.move_listed::<LEVEL>(block.as_ptr(), n, i, key);
                };
                let old = NonNull::new_unchecked(old);
                if self
                    .source
                    .replace(old, old_bytes, new_bytes, fill)
                    .is_none()
                {
                    return Err(OutOfMemory);
                }
            }
            self.store_noted(edge);
            leaf = crate::path::leaf::<V>(edge);
        }
        self.count_insertion();
        Ok(new_value(leaf.value(i)))
    }

    #[inline(never)]
    fn insert_in_full(&mut self, edge: Edge, key: u64) -> Result<Inserted, OutOfMemory> {
        let base = edge.full_base();
        if base == key & !0xff {
            return Ok(value_there(ptr::null_mut()));
        }
        let mut path = noted_path(self.root);
        if let Some(done) = self.insert_beside_branch(&mut path, key) {
            return done;
        }
        let apart = highest_difference(base, key & !0xff);
        self.insert_beside(&mut path, edge, base, apart, key)
    }

    /// Inserts into a leaf whose keys are stored as `P`.
    #[inline(never)]
    fn insert_in<P: Planes<V>>(&mut self, edge: Edge, key: u64) -> Result<Inserted, OutOfMemory> {
        let leaf = leaf::<V>(edge);
        if P::ARE_LONG {
            if self.root.is_branch() {
                leaf.prefetch::<14, 12>();
            } else {
                leaf.prefetch::<8, 0>();
            }
        }
        if !leaf.covers_more(key) {
            return self.insert_uncovered(edge, key);
        }
        let planes = P::of(leaf);
        match leaf.insert(planes, key) {
            Insertion::Present(i) => Ok(value_there(leaf.value(i))),
            Insertion::Done(i) => {
                self.count_insertion();
                Ok(new_value(leaf.value(i)))
            }
            Insertion::NoRoom(spot) if leaf.is_full() => self.split(edge, spot, key),
            Insertion::NoRoom(spot) => match planes.shape_with(leaf.shape(), spot) {
                Some(shape) => self.open(leaf, planes, &shape, spot, key),
                None => self.rewrite(edge, key),
            },
        }
    }

    /// Inserts into a leaf that keeps its shape, in its block or in a larger one.
    #[inline(always)]
    fn open(
        &mut self,
        leaf: Leaf<V>,
        planes: impl Planes<V>,
        shape: &Shape,
        spot: Spot,
        key: u64,
    ) -> Result<Inserted, OutOfMemory> {
        let old_bytes = leaf.shape().block_bytes::<V>();
        if V == 0 && shape.entries == 256 {
            self.release(leaf.block(), old_bytes);
            self.store_noted(Edge::full(key));
            self.count_insertion();
            return Ok(new_value(ptr::null_mut()));
        }
        let old = NonNull::new(leaf.block()).ok_or(OutOfMemory)?;
        let new_bytes = shape.block_bytes::<V>();
        // SAFETY: the old block is this leaf's, of the size that follows from its
        // shape; the block written to is as long as `shape` says.
        let edge = unsafe {
            if old_bytes == new_bytes {
                leaf.open(planes, old.as_ptr(), shape, spot, key)
            } else {
                let mut edge = Edge::NULL;
                let fill = |block: NonNull<u8>| {
                    edge = leaf.open(planes, block.as_ptr(), shape, spot, key);
                };
                let new = self.source.enlarge(old, old_bytes, new_bytes, fill);
                new.ok_or(OutOfMemory)?;
                self.store_noted(edge);
                edge
            }
        };
        self.count_insertion();
        Ok(new_value(crate::path::leaf::<V>(edge).value(spot.i)))
    }

    /// Inserts a key that the leaf at the end of the noted path does not cover; the key may be
    /// that of a leaf of one entry.
    #[inline(never)]
    fn insert_uncovered(&mut self, edge: Edge, key: u64) -> Result<Inserted, OutOfMemory> {
        let leaf = leaf::<V>(edge);
        if edge.kind() == Kind::ONE && leaf.covers(key) {
            return Ok(value_there(leaf.value(0)));
        }
        let mut path = noted_path(self.root);
        if let Some(done) = self.insert_beside_branch(&mut path, key) {
            return done;
        }
        match leaf.wider(key) {
            Some(shape) => self.widen(leaf, &shape, key),
            None => self.insert_outside(&mut path, edge, key),
        }
    }

    /// Inserts a key beside the highest branch of `path` that does not cover it; returns `None`
    /// when all branches cover it.
    fn insert_beside_branch(
        &mut self,
        path: &mut Path,
        key: u64,
    ) -> Option<Result<Inserted, OutOfMemory>> {
        let depth = (0..path.depth).find(|&d| !branch(path.step(d).edge).covers(key))?;
        let edge = path.step(depth).edge;
        path.depth = depth;
        let low = branch(edge).lowest();
        let level = edge.level() + 1;
        let apart = highest_difference(low, above(key, level) << (8 * level));
        Some(self.insert_beside(path, edge, low, apart, key))
    }

    /// Inserts a key into a small leaf, which must cover more keys for it.
    #[inline(always)]
    fn widen(&mut self, leaf: Leaf<V>, shape: &Shape, key: u64) -> Result<Inserted, OutOfMemory> {
        let old = NonNull::new(leaf.block()).ok_or(OutOfMemory)?;
        let old_bytes = leaf.shape().block_bytes::<V>();
        let mut written = (Edge::NULL, 0);
        // SAFETY: the old block is this leaf's, of the size that follows from its shape; the new
        // block is as long as `shape` says.
        unsafe {
            let fill = |block: NonNull<u8>| written = leaf.write_wider(block.as_ptr(), shape, key);
            let new_bytes = shape.block_bytes::<V>();
            let new = self.source.replace(old, old_bytes, new_bytes, fill);
            new.ok_or(OutOfMemory)?;
        }
        let (edge, i) = written;
        self.store_noted(edge);
        self.count_insertion();
        Ok(new_value(crate::path::leaf::<V>(edge).value(i)))
    }

    /// Inserts by rewriting the leaf in the shape that suits it now.
    #[inline(never)]
    fn rewrite(&mut self, edge: Edge, key: u64) -> Result<Inserted, OutOfMemory> {
        let mut entries = Entries::new();
        leaf::<V>(edge).read(&mut entries);
        let i = entries.insert(key, 0);
        let new = self.new_leaf(&entries)?;
        self.release_leaf(edge);
        self.store_noted(new);
        self.count_insertion();
        Ok(new_value(leaf::<V>(new).value(i)))
    }

    /// Inserts a key that the leaf at the end of `path` does not cover: into a wider leaf where
    /// that takes less memory, otherwise beside the leaf.
    #[inline(never)]
    fn insert_outside(
        &mut self,
        path: &mut Path,
        edge: Edge,
        key: u64,
    ) -> Result<Inserted, OutOfMemory> {
        let old = leaf::<V>(edge);
        let level = if edge.kind() == Kind::ONE {
            0
        } else {
            old.level()
        };
        let low = old.lowest();
        let kept = above(key, level) << (8 * level);
        let apart = highest_difference(low, if level == 0 { key } else { kept });
        if old.len() < ENTRIES_MAX {
            let mut entries = Entries::new();
            old.read(&mut entries);
            let i = entries.insert(key, 0);
            let shape = Shape::choose(&entries);
            let same_branch = path.top().is_some_and(|s| s.edge.level() == apart);
            let beside =
                old.shape().block_bytes::<V>() + (8 + 8 * V) + 9 + if same_branch { 0 } else { 40 };
            if shape.block_bytes::<V>() <= beside {
                let new = self.new_leaf(&entries)?;
                self.release_leaf(edge);
                self.store(path, new);
                Self::add_counts(path, 1);
                return Ok(new_value(leaf::<V>(new).value(i)));
            }
        }
        self.insert_beside(path, edge, low, apart, key)
    }

    /// Makes a leaf for `key` beside the node at the end of `path`, whose keys have the upper
    /// bytes of `low` and differ from `key` in byte `apart` first.
    #[inline(never)]
    fn insert_beside(
        &mut self,
        path: &mut Path,
        edge: Edge,
        low: u64,
        apart: usize,
        key: u64,
    ) -> Result<Inserted, OutOfMemory> {
        let one = self.new_one_or_run(key)?;
        let value = leaf::<V>(one).value(0);
        let (ours, theirs) = (byte(key, apart), byte(low, apart));
        let (first, separator, second) = if ours < theirs {
            (one, theirs, edge)
        } else {
            (edge, ours, one)
        };
        let done = self.put_pair(
            path,
            apart,
            key,
            [first, second],
            separator,
            count::<V>(edge) + 1,
        );
        if let Err(e) = done {
            self.release_leaf(one);
            return Err(e);
        }
        Self::add_counts(path, 1);
        Ok(new_value(value))
    }

    /// Replaces the node at the end of `path` by two nodes whose keys byte `level` tells apart:
    /// in the branch above if that is its byte, otherwise in a new branch with `total` entries.
    fn put_pair(
        &mut self,
        path: &mut Path,
        level: usize,
        key: u64,
        pair: [Edge; 2],
        separator: u8,
        total: u64,
    ) -> Result<(), OutOfMemory> {
        let [low, high] = pair;
        let Some(step) = path.top().filter(|s| s.edge.level() == level) else {
            let children = Children::pair(low, separator, high);
            let new = self.new_branch(level, key, total, &children)?;
            self.store(path, new);
            return Ok(());
        };
        let parent = branch(step.edge);
        let slot = usize::from(step.slot);
        if parent.split_in_place(slot, low, separator, high) {
            return Ok(());
        }
        let mut children = Children::new();
        let ordinal = parent.read(&mut children, slot);
        children.set_edge(ordinal, low);
        children.insert(ordinal + 1, separator, high);
        let new = self.new_branch(level, key, parent.count(), &children)?;
        self.release_branch(parent);
        self.replace_top(path, new);
        Ok(())
    }

    /// Replaces the branch at the top of `path` by `edge`.
    fn replace_top(&mut self, path: &mut Path, edge: Edge) {
        let Some(step) = path.top() else { return };
        path.depth -= 1;
        self.store(path, edge);
        path.push(edge, usize::from(step.slot));
    }

    /// Inserts into a list that is as full as lists get: replaces it by two leaves, cut where
    /// the highest byte in which keys differ changes nearest the middle.
    #[inline(never)]
    fn split(&mut self, edge: Edge, spot: Spot, key: u64) -> Result<Inserted, OutOfMemory> {
        let old = leaf::<V>(edge);
        let mut path = noted_path(self.root);
        let path = &mut path;
        let cut = match edge.kind() {
            Kind::GROUPED => self.cut(path, edge, Grouped::of(old), spot, key),
            Kind::FLAT if edge.level() > 2 => self.cut(path, edge, Wide::of(old), spot, key),
            _ => None,
        };
        if let Some(done) = cut {
            return done;
        }
        let mut low = Entries::new();
        leaf::<V>(edge).read(&mut low);
        let i = low.insert(key, 0);
        let n = low.len();
        let level = highest_difference(low.key(0), low.key(n - 1));
        if level == 0 {
            // After removals only neighbours are left: a bitmap has room for them all.
            return self.rewrite(edge, key);
        }
        let cut = middle_cut(&low, level);
        let mut high = Entries::new();
        low.split_off(cut, &mut high);
        let separator = byte(high.key(0), level);
        let first = self.new_leaf(&low)?;
        let second = match self.new_leaf(&high) {
            Ok(second) => second,
            Err(e) => {
                self.release_leaf(first);
                return Err(e);
            }
        };
        self.replace_by_pair(path, edge, level, key, [first, second], separator)?;
        Ok(new_value(if i < cut {
            leaf::<V>(first).value(i)
        } else {
            leaf::<V>(second).value(i - cut)
        }))
    }

    /// [`Tree::split`] where both halves keep the leaf's shape; `None` when they cannot.
    fn cut(
        &mut self,
        path: &mut Path,
        edge: Edge,
        planes: impl Cuttable<V>,
        spot: Spot,
        key: u64,
    ) -> Option<Result<Inserted, OutOfMemory>> {
        let cut = planes.cut(spot, key)?;
        Some(self.cut_so(path, edge, planes, &cut, key))
    }

    fn cut_so(
        &mut self,
        path: &mut Path,
        edge: Edge,
        planes: impl Cuttable<V>,
        cut: &Cut,
        key: u64,
    ) -> Result<Inserted, OutOfMemory> {
        let old = leaf::<V>(edge);
        let write = |half: &Half| {
            let block = self.allocate(half.shape.block_bytes::<V>())?;
            // SAFETY: a fresh block of the half's size.
            Ok(unsafe { old.write_half(planes, block.as_ptr(), half, key) })
        };
        let [low, high] = &cut.halves;
        let (first, i) = write(low)?;
        let (second, j) = match write(high) {
            Ok(second) => second,
            Err(e) => {
                self.release_leaf(first);
                return Err(e);
            }
        };
        let (level, pair) = (edge.level() - 1, [first, second]);
        self.replace_by_pair(path, edge, level, key, pair, cut.separator)?;
        Ok(new_value(if low.gains {
            leaf::<V>(first).value(i)
        } else {
            leaf::<V>(second).value(j)
        }))
    }

    /// Replaces the leaf at the end of `path` by two leaves that hold its entries and one more.
    /// Releases the old leaf, or the two new ones when there is no memory.
    fn replace_by_pair(
        &mut self,
        path: &mut Path,
        edge: Edge,
        level: usize,
        key: u64,
        pair: [Edge; 2],
        separator: u8,
    ) -> Result<(), OutOfMemory> {
        let total = leaf::<V>(edge).len() as u64 + 1;
        if let Err(e) = self.put_pair(path, level, key, pair, separator, total) {
            self.release_leaf(pair[0]);
            self.release_leaf(pair[1]);
            return Err(e);
        }
        self.release_leaf(edge);
        Self::add_counts(path, 1);
        Ok(())
    }

    /// Removes `key`; returns its value (0 in a set). Where there is no memory for a smaller
    /// node, the old block stays in use; only [`Tree::remove_from_full`] can fail.
    #[inline(always)]
    pub(crate) fn remove(&mut self, key: u64) -> Option<u64> {
        if self.root.tag() == ONE {
            // The last entry of a map: there is no path, and nothing to settle.
            return self.remove_one(&mut Path::new(), self.root, key);
        }
        if V == 0 {
            return self.remove_by_way(key);
        }
        self.remove_anywhere(key)
    }

    /// [`Tree::remove`] in a function of its own, which is not inlined.
    #[inline(never)]
    fn remove_anywhere(&mut self, key: u64) -> Option<u64> {
        self.remove_by_way(key)
    }

    #[inline(always)]
    fn remove_by_way(&mut self, key: u64) -> Option<u64> {
        let mut path = Path::new();
        let mut edge = self.root;
        while edge.is_branch() {
            let b = branch(edge);
            let slot = b.slot(byte(key, b.level()));
            path.push(edge, slot);
            edge = b.child(slot);
            prefetch_before(edge);
        }
        if edge.is_null() {
            return None;
        }
        let path = &mut path;
        match edge.tag() {
            ONE => self.remove_one(path, edge, key),
            FLAT1 => self.remove_listed::<1>(path, edge, key),
            FLAT2 => self.remove_listed::<2>(path, edge, key),
            BITMAP => self.remove_in::<Bitmap<V>>(path, edge, key),
            tag => match tag >> 4 {
                Kind::GROUPED => self.remove_in::<Grouped<V>>(path, edge, key),
                Kind::FLAT => self.remove_in::<Wide<V>>(path, edge, key),
                _ => self.remove_from_full(path, edge, key),
            },
        }
    }

    /// Counts one entry less in each branch of `path`; returns the depth of the highest branch
    /// that has become small.
    #[inline(always)]
    fn count_removal(path: &Path) -> Option<usize> {
        let mut small = None;
        for depth in (0..path.depth).rev() {
            let b = branch(path.step(depth).edge);
            b.add_count(-1);
            if is_small(b) {
                small = Some(depth);
            }
        }
        small
    }

    /// Counts one entry less. Then replaces the highest subtree that has become small by one
    /// leaf, or merges `edge`, the leaf at the end of `path`, with a neighbour when both have
    /// run low.
    #[inline(always)]
    fn settle_removal(&mut self, path: &mut Path, edge: Edge) {
        if let Some(depth) = Self::count_removal(path) {
            self.collapse(path, depth);
        } else if path.depth > 0 {
            let n = leaf_len::<V>(edge);
            if n <= MERGED_MAX / 2 && n % 8 == 0 {
                self.merge(path, edge, n);
            }
        }
    }

    /// Removes `key` from a leaf of one entry.
    #[inline(always)]
    fn remove_one(&mut self, path: &mut Path, edge: Edge, key: u64) -> Option<u64> {
        if !leaf::<V>(edge).covers(key) {
            return None;
        }
        self.remove_leaf(path, edge)
    }

    /// Removes a leaf of one entry.
    #[inline(always)]
    fn remove_leaf(&mut self, path: &mut Path, edge: Edge) -> Option<u64> {
        let leaf = leaf::<V>(edge);
        let value = leaf.word_of_value(0);
        self.release_leaf(edge);
        if path.depth == 0 {
            self.root = Edge::NULL;
        } else {
            Self::add_counts(path, -1);
            self.unlink(path);
            let small = (0..path.depth).find(|&d| is_small(branch(path.step(d).edge)));
            if let Some(depth) = small {
                self.collapse(path, depth);
            }
        }
        Some(value)
    }

    /// Removes from a leaf that lists its suffixes, as the leaves of small maps do.
    #[inline(always)]
    fn remove_listed<const LEVEL: usize>(
        &mut self,
        path: &mut Path,
        edge: Edge,
        key: u64,
    ) -> Option<u64> {
        let leaf = leaf::<V>(edge);
        let (n, i) = match leaf.place_listed::<LEVEL>(key) {
            Some((n, Place::At(i))) => (n, i),
            Some((_, Place::Before(_))) => return None,
            None => return self.remove_in::<Flat<V, LEVEL>>(path, edge, key),
        };
        let value = leaf.word_of_value(i);
        if leaf.may_narrow::<LEVEL>(n, i) {
            return self.remove_in::<Flat<V, LEVEL>>(path, edge, key);
        }
        if leaf.remove_listed::<LEVEL>(n, i) {
            self.settle_removal(path, edge);
            return Some(value);
        }
        let (old, old_bytes) = leaf.listed_block::<LEVEL>(n);
        let new_bytes = Leaf::<V>::bytes_without::<LEVEL>(n);
        let mut edge_without = Edge::NULL;
        // SAFETY: the old block is this leaf's, of the size that its entries need; the new block
        // has room for one entry less.
        let new = unsafe {
            let fill = |block: NonNull<u8>| {
                edge_without = leaf.move_without::<LEVEL>(block.as_ptr(), n, i);
            };
            let old = NonNull::new_unchecked(old);
            self.source.replace(old, old_bytes, new_bytes, fill)
        };
        if new.is_none() {
            // No memory for a smaller block: the old block stays in use.
            return self.remove_in::<Flat<V, LEVEL>>(path, edge, key);
        }
        self.store(path, edge_without);
        self.settle_removal(path, edge_without);
        Some(value)
    }

    /// Removes from a leaf whose keys are stored as `P`.
    #[inline(never)]
    fn remove_in<P: Planes<V>>(&mut self, path: &mut Path, edge: Edge, key: u64) -> Option<u64> {
        let leaf = leaf::<V>(edge);
        if P::ARE_LONG && path.depth > 0 {
            leaf.prefetch::<14, 10>();
        }
        if !leaf.covers_more(key) {
            return None;
        }
        let planes = P::of(leaf);
        let i = match leaf.remove(planes, key) {
            Removal::Absent => return None,
            Removal::Done(value) => {
                self.settle_removal(path, edge);
                return Some(value);
            }
            Removal::TooMuchRoom(i) => i,
        };
        if planes.len() == 1 {
            // A bitmap with which a run began.
            return self.remove_leaf(path, edge);
        }
        let value = leaf.word_of_value(i);
        let edge = match planes.shape_without(leaf.shape(), i) {
            Some(shape) => self.close(path, leaf, planes, &shape, i, key),
            None => self.rewrite_without(path, edge, i),
        };
        self.settle_removal(path, edge);
        Some(value)
    }

    /// Removes a key from a full leaf, which has no block to reuse. Without memory for a bitmap
    /// the key stays, and `None` is returned; [`Tree::remove_may_fail`] distinguishes that from
    /// a key that was not there.
    fn remove_from_full(&mut self, path: &mut Path, edge: Edge, key: u64) -> Option<u64> {
        if edge.full_base() != key & !0xff {
            return None;
        }
        let new = self.full_without(edge, key).ok()?;
        self.count_full_no_more(path);
        self.store(path, new);
        Self::add_counts(path, -1);
        Some(0)
    }

    /// No block is released, but a walk may be in the leaf that was full. It noted the count of
    /// the root (L2), which may have been any branch above the leaf.
    fn count_full_no_more(&self, path: &Path) {
        for depth in 0..path.depth {
            if let Some(node) = NonNull::new(path.step(depth).edge.header()) {
                // SAFETY: N1: a step of a path begins at a branch, a live node.
                unsafe { self.source.count_change(node) };
            }
        }
    }

    fn full_without(&self, edge: Edge, key: u64) -> Result<Edge, OutOfMemory> {
        debug_assert!(edge.full_base() == key & !0xff);
        let block = self.allocate(Shape::bitmap(255).block_bytes::<V>())?;
        let mut bits = [u64::MAX; 4];
        bits[(key & 0xff) as usize / 64] &= !(1 << (key % 64));
        // SAFETY: a fresh block of the shape's size, of a set.
        Ok(unsafe { Leaf::<V>::write_bitmap(block.as_ptr(), key, bits) })
    }

    /// Whether removing `key` needs memory, and so may fail: only where a full leaf of a set
    /// must become a bitmap.
    pub(crate) fn remove_may_fail(&self, key: u64) -> bool {
        V == 0 && {
            let mut edge = self.root;
            while edge.is_branch() {
                let b = branch(edge);
                edge = b.child(b.slot(byte(key, b.level())));
            }
            !edge.is_null() && edge.kind() == Kind::FULL && edge.full_base() == key & !0xff
        }
    }

    /// Removes entry `i`, whose key is `key`, from a leaf that keeps its shape, in its block or
    /// in a smaller one.
    #[inline(always)]
    fn close(
        &mut self,
        path: &Path,
        leaf: Leaf<V>,
        planes: impl Planes<V>,
        shape: &Shape,
        i: usize,
        key: u64,
    ) -> Edge {
        let old_bytes = leaf.shape().block_bytes::<V>();
        let new_bytes = shape.block_bytes::<V>();
        let mut edge = Edge::NULL;
        // SAFETY: the old block is this leaf's, of the size that follows from its
        // shape; the block written to is as long as `shape` says.
        unsafe {
            let old = NonNull::new_unchecked(leaf.block());
            let mut write =
                |block: NonNull<u8>| edge = leaf.close(planes, block.as_ptr(), shape, i, key);
            if old_bytes == new_bytes {
                write(old);
                return edge;
            }
            let new = self.source.replace(old, old_bytes, new_bytes, &mut write);
            if new.is_none() {
                write(old);
                self.source.shrink(old, old_bytes, new_bytes);
            }
        }
        self.store(path, edge);
        edge
    }

    /// Rewrites the leaf at the end of `path` without entry `i`, in the shape that suits it now.
    fn rewrite_without(&mut self, path: &Path, edge: Edge, i: usize) -> Edge {
        let mut entries = Entries::new();
        let old = leaf::<V>(edge);
        old.read(&mut entries);
        entries.remove(i);
        let old_bytes = old.shape().block_bytes::<V>();
        let mut shape = Shape::choose(&entries);
        let new = match self.source.allocate(shape.block_bytes::<V>()) {
            Some(block) => {
                // SAFETY: a fresh block of the shape's size.
                let new = unsafe { Leaf::<V>::write(block.as_ptr(), &shape, &entries) };
                self.release_leaf(edge);
                new
            }
            None => {
                if shape.block_bytes::<V>() > old_bytes {
                    shape = Shape::smallest(&entries);
                }
                let block = old.block();
                // SAFETY: the smallest shape of fewer entries fits into the old block, whose
                // contents are not needed any more: the entries are copies.
                unsafe {
                    let new = Leaf::<V>::write(block, &shape, &entries);
                    self.source.shrink(
                        NonNull::new_unchecked(block),
                        old_bytes,
                        shape.block_bytes::<V>(),
                    );
                    new
                }
            }
        };
        self.store(path, new);
        new
    }

    /// Removes the node at the end of `path`, which has been released, from the tree.
    fn unlink(&mut self, path: &mut Path) {
        let Some(step) = path.top() else {
            self.root = Edge::NULL;
            return;
        };
        let parent = branch(step.edge);
        let slot = usize::from(step.slot);
        if parent.remove_in_place(slot) {
            path.depth -= 1;
            return;
        }
        let mut children = Children::new();
        let ordinal = parent.read(&mut children, slot);
        children.remove(ordinal);
        path.depth -= 1;
        let new = if children.len() == 1 {
            self.release_branch(parent);
            children.edge(0)
        } else {
            self.shrink_branch(parent, &children)
        };
        self.store(path, new);
    }

    fn shrink_branch(&mut self, old: Branch, children: &Children) -> Edge {
        let (level, key, count) = (old.level(), old.lowest(), old.count());
        let (block, bytes) = (old.block(), old.block_bytes());
        if let Ok(new) = self.new_branch(level, key, count, children) {
            self.release_branch(old);
            return new;
        }
        // SAFETY: fewer children never need a larger block, and the old branch has been read;
        // the rest of its block is given back.
        unsafe {
            let new = Branch::write(block, level, key, count, children);
            self.source.shrink(
                NonNull::new_unchecked(block),
                bytes,
                block_bytes_for(children.len()),
            );
            new
        }
    }

    /// Replaces the branch at `depth` of `path` by a leaf.
    #[inline(never)]
    fn collapse(&mut self, path: &mut Path, depth: usize) {
        let edge = path.step(depth).edge;
        path.depth = depth;
        let mut entries = Entries::new();
        read_subtree::<V>(edge, &mut entries);
        if let Ok(new) = self.new_leaf(&entries) {
            self.release_subtree(edge);
            self.store(path, new);
        }
    }

    /// Merges the leaf at the end of `path` with a neighbour under the same branch, if that
    /// takes no more memory.
    #[inline(never)]
    fn merge(&mut self, path: &mut Path, edge: Edge, n: usize) {
        let Some(step) = path.top() else { return };
        let parent = branch(step.edge);
        let slot = usize::from(step.slot);
        for other in [parent.next_slot(slot), parent.previous_slot(slot)] {
            let Some(other) = other else { continue };
            let neighbour = parent.child(other);
            if neighbour.is_branch()
                || neighbour.kind() == Kind::FULL
                || n + leaf_len::<V>(neighbour) > MERGED_MAX
            {
                continue;
            }
            let (low, high) = if other > slot {
                (edge, neighbour)
            } else {
                (neighbour, edge)
            };
            let mut entries = Entries::new();
            leaf::<V>(low).read(&mut entries);
            leaf::<V>(high).read(&mut entries);
            let apart_bytes = leaf::<V>(low).shape().block_bytes::<V>()
                + leaf::<V>(high).shape().block_bytes::<V>();
            if Shape::choose(&entries).block_bytes::<V>() > apart_bytes {
                continue;
            }
            let Ok(new) = self.new_leaf(&entries) else {
                return;
            };
            // The lower slot stays: its range grows when the upper one is removed.
            parent.replace_child(slot.min(other), new);
            self.release_leaf(low);
            self.release_leaf(high);
            path.replace_top(step.edge, slot.max(other));
            self.unlink(path);
            return;
        }
    }

    /// Releases all nodes from `edge` down; returns the bytes that they had.
    pub(crate) fn release_subtree(&self, edge: Edge) -> usize {
        if edge.is_branch() {
            let b = branch(edge);
            let mut bytes = 0;
            let mut slot = Some(0);
            while let Some(s) = slot {
                // The next slot is found before the child is released.
                slot = b.next_slot(s);
                bytes += self.release_subtree(b.child(s));
            }
            bytes + self.release_branch(b)
        } else if !edge.is_null() {
            self.release_leaf(edge)
        } else {
            0
        }
    }

    /// Removes everything; returns the bytes that the nodes had.
    #[inline]
    pub(crate) fn clear(&mut self) -> usize {
        let root = core::mem::replace(&mut self.root, Edge::NULL);
        if root.is_branch() {
            self.release_subtree(root)
        } else if !root.is_null() {
            self.release_leaf(root)
        } else {
            0
        }
    }

    /// The bytes of all nodes, as requested from the source.
    pub(crate) fn node_bytes(&self) -> usize {
        subtree_bytes::<V>(self.root)
    }
}

impl<const V: usize, A: NodeSource> Drop for Tree<V, A> {
    #[inline]
    fn drop(&mut self) {
        self.clear();
    }
}

/// The highest key of a leaf that has all 256 keys that it can have.
fn full_leaf_end<const V: usize>(edge: Edge) -> Option<u64> {
    let base = match edge.kind() {
        Kind::FULL if V == 0 => edge.full_base(),
        Kind::BITMAP if leaf::<V>(edge).len() == 256 => leaf::<V>(edge).lowest(),
        _ => return None,
    };
    Some(base | 0xff)
}

/// Whether a branch has so few entries below it that one leaf is enough for them.
fn is_small(branch: Branch) -> bool {
    branch.count() <= COLLAPSED_MAX
}

/// Whether `key` certainly leads to `edge`, a leaf below a branch; a fast check, which may
/// return false for a key that does. Keys that come in order or in runs mostly lead to one leaf
/// several times.
///
/// Branches above a leaf of level `l` tell apart byte `l - 1` or higher bytes, and never byte 0
/// (N7). So a key goes the same way as a key of the leaf that it shares those bytes with.
#[inline(always)]
fn leads_to<const V: usize>(edge: Edge, key: u64) -> bool {
    match edge.tag() {
        BITMAP | FLAT1 => leaf::<V>(edge).covers_more(key),
        tag => tag >> 4 == Kind::GROUPED && leaf::<V>(edge).is_in_last_group(key),
    }
}

/// The outcome for a key that was there before.
fn value_there(value: *mut u64) -> Inserted {
    Inserted {
        value,
        is_new: false,
    }
}

fn new_value(value: *mut u64) -> Inserted {
    Inserted {
        value,
        is_new: true,
    }
}

/// The index to cut at: between two entries that differ in byte `level`, as near the middle as
/// possible.
fn middle_cut(entries: &Entries, level: usize) -> usize {
    let n = entries.len();
    let changes = |i: usize| byte(entries.key(i - 1), level) != byte(entries.key(i), level);
    let middle = n / 2;
    for away in 0..=middle {
        if middle > away && changes(middle - away) {
            return middle - away;
        }
        if middle + away < n && changes(middle + away) {
            return middle + away;
        }
    }
    unreachable!("the first and the last key differ in this byte")
}

fn read_subtree<const V: usize>(edge: Edge, entries: &mut Entries) {
    let mut path = Path::new();
    let mut position = Some(descend_first(edge, &mut path));
    while let Some(p) = position {
        if p.leaf.kind() == Kind::FULL {
            for i in 0..256 {
                entries.push(leaf_key::<V>(p.leaf, i), 0);
            }
        } else {
            leaf::<V>(p.leaf).read(entries);
        }
        position = next_leaf(&mut path);
    }
}

pub(crate) fn subtree_bytes<const V: usize>(edge: Edge) -> usize {
    if edge.is_null() || edge.kind() == Kind::FULL {
        return 0;
    }
    if !edge.is_branch() {
        return leaf::<V>(edge).shape().block_bytes::<V>();
    }
    let b = branch(edge);
    let mut bytes = b.block_bytes();
    let mut slot = Some(0);
    while let Some(s) = slot {
        bytes += subtree_bytes::<V>(b.child(s));
        slot = b.next_slot(s);
    }
    bytes
}
