//! Branches: the nodes that tell apart one byte of the key.
//!
//! Children are before the header, child 0 nearest to it. The header word has the bytes above
//! the branch's level, which is at least 1 (N7); in the second-lowest byte the slot that the
//! last insertion below the branch went through; and in the lowest byte the number of children
//! minus one. After it come the subtree count, then
//!
//! ```text
//! linear   separator × children, rounded up to 8 bytes   (up to 16 children)
//! ranked   4 words, one bit a separator                  (up to 95)
//! direct   nothing: edge b belongs to byte b; a child that covers
//!          several bytes stands in all of them
//! ```

use super::edge::{Edge, Kind};
use super::{bits, plane};
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr;

const LINEAR_MAX: usize = 16;
const RANKED_MAX: usize = 95;

/// Bytes of the header word and the subtree count.
const HEAD_BYTES: usize = 16;

/// The children of a branch on their way to another branch; `edges` below `n` have been written.
pub(crate) struct Children {
    separators: [u8; 256],
    edges: [MaybeUninit<Edge>; 256],
    n: usize,
}

impl Children {
    pub(crate) fn new() -> Children {
        Children {
            separators: [0; 256],
            edges: [const { MaybeUninit::uninit() }; 256],
            n: 0,
        }
    }

    /// Two children; the second begins at `separator`.
    pub(crate) fn pair(low: Edge, separator: u8, high: Edge) -> Children {
        let mut children = Children::new();
        children.insert(0, 0, low);
        children.insert(1, separator, high);
        children
    }

    pub(crate) fn len(&self) -> usize {
        self.n
    }

    pub(crate) fn edge(&self, i: usize) -> Edge {
        debug_assert!(i < self.n);
        // SAFETY: the edges below `n` have been written.
        unsafe { self.edges[i].assume_init() }
    }

    pub(crate) fn set_edge(&mut self, i: usize, edge: Edge) {
        self.edges[i].write(edge);
    }

    /// Adds a child after the others.
    fn push(&mut self, separator: u8, edge: Edge) {
        self.separators[self.n] = separator;
        self.set_edge(self.n, edge);
        self.n += 1;
    }

    pub(crate) fn insert(&mut self, i: usize, separator: u8, edge: Edge) {
        self.separators.copy_within(i..self.n, i + 1);
        self.edges.copy_within(i..self.n, i + 1);
        self.separators[i] = separator;
        self.set_edge(i, edge);
        self.n += 1;
    }

    pub(crate) fn remove(&mut self, i: usize) {
        self.separators.copy_within(i + 1..self.n, i);
        self.edges.copy_within(i + 1..self.n, i);
        self.n -= 1;
        self.separators[0] = 0;
    }
}

fn kind_for(children: usize) -> u8 {
    if children <= LINEAR_MAX {
        Kind::LINEAR
    } else if children <= RANKED_MAX {
        Kind::RANKED
    } else {
        Kind::DIRECT
    }
}

fn before(kind: u8, children: usize) -> usize {
    match kind {
        Kind::LINEAR => 8 * children,
        Kind::RANKED => 8 * ((children + 3) & !3),
        _ => 8 * 256,
    }
}

fn after(kind: u8, children: usize) -> usize {
    match kind {
        Kind::LINEAR => (children + 7) & !7,
        Kind::RANKED => 32,
        _ => 0,
    }
}

/// The bytes of the block of a branch with this many children.
pub(crate) fn block_bytes_for(children: usize) -> usize {
    let kind = kind_for(children);
    before(kind, children) + HEAD_BYTES + after(kind, children)
}

/// Prefetches the cache line before the header of a node while the header itself is being
/// fetched. In a branch of a few children that line has their edges, and the header's line says
/// which one is needed. The kind of the node is not checked.
#[inline(always)]
pub(crate) fn prefetch_before(edge: Edge) {
    plane::prefetch(edge.header().wrapping_sub(8));
}

/// A view of a live branch (N1). Children are named by a *slot*: their
/// ordinal, or in a direct branch any byte they cover.
#[derive(Clone, Copy)]
pub(crate) struct Branch {
    edge: Edge,
    header: *mut u8,
}

impl Branch {
    /// # Safety
    /// `edge` must lead to a live branch, which must stay live while the view is used.
    #[inline(always)]
    pub(crate) unsafe fn of(edge: Edge) -> Branch {
        Branch {
            edge,
            header: edge.header(),
        }
    }

    #[inline(always)]
    fn word(self) -> u64 {
        // SAFETY: N1: the header word of a live node.
        unsafe { *self.header.cast::<u64>() }
    }

    #[inline(always)]
    pub(crate) fn level(self) -> usize {
        self.edge.level()
    }

    /// The number of children.
    pub(crate) fn len(self) -> usize {
        // SAFETY: N1: a byte of the header word.
        usize::from(unsafe { *self.header_byte(0) }) + 1
    }

    /// Whether `key` has the bytes above the branch's level.
    #[inline(always)]
    pub(crate) fn covers(self, key: u64) -> bool {
        // As `above`, but with one shift whose length is not known.
        ((self.word() ^ key) >> (8 * self.level())) >> 8 == 0
    }

    /// The lowest key that the branch can hold.
    pub(crate) fn lowest(self) -> u64 {
        let level = self.level();
        if level == 7 {
            0
        } else {
            self.word() & (u64::MAX << (8 * (level + 1)))
        }
    }

    #[inline(always)]
    fn count_word(self) -> *mut u64 {
        self.header.cast::<u64>().wrapping_add(1)
    }

    /// The number of entries below the branch.
    pub(crate) fn count(self) -> u64 {
        // SAFETY: N1: the second word of a branch.
        unsafe { *self.count_word() }
    }

    #[inline(always)]
    pub(crate) fn add_count(self, change: i64) {
        // SAFETY: N1: the second word of a branch; whoever changes the tree has borrowed it
        // exclusively.
        unsafe { *self.count_word() = (*self.count_word()).wrapping_add(change as u64) }
    }

    /// The address of byte `i` of the header word, 0 being the lowest. Bytes are loaded and
    /// stored one by one: a wider load would wait for a narrower store.
    #[inline(always)]
    fn header_byte(self, i: usize) -> *mut u8 {
        let offset = if cfg!(target_endian = "little") {
            i
        } else {
            7 - i
        };
        self.header.wrapping_add(offset)
    }

    /// The slot that the last insertion went through, or another slot (N8).
    #[inline(always)]
    pub(crate) fn noted_slot(self) -> usize {
        // SAFETY: N1: a byte of the header word.
        usize::from(unsafe { *self.header_byte(1) })
    }

    /// Notes the slot that an insertion goes through.
    #[inline(always)]
    pub(crate) fn note_slot(self, slot: usize) {
        // SAFETY: N1: a byte of the header word; whoever inserts has borrowed the tree
        // exclusively.
        unsafe { *self.header_byte(1) = slot as u8 }
    }

    pub(crate) fn block(self) -> *mut u8 {
        self.header
            .wrapping_sub(before(self.edge.kind(), self.len()))
    }

    pub(crate) fn block_bytes(self) -> usize {
        let (kind, n) = (self.edge.kind(), self.len());
        before(kind, n) + HEAD_BYTES + after(kind, n)
    }

    #[inline(always)]
    fn separators(self) -> *mut u8 {
        self.header.wrapping_add(HEAD_BYTES)
    }

    #[inline(always)]
    fn bits(self, word: usize) -> *mut u64 {
        self.separators().cast::<u64>().wrapping_add(word)
    }

    #[inline(always)]
    fn slot_address(self, slot: usize) -> *mut Edge {
        self.header.cast::<Edge>().wrapping_sub(slot + 1)
    }

    /// The child of a slot.
    #[inline(always)]
    pub(crate) fn child(self, slot: usize) -> Edge {
        // SAFETY: N1; this view makes the slots.
        unsafe { *self.slot_address(slot) }
    }

    /// Writes one slot.
    #[inline(always)]
    fn set_child(self, slot: usize, edge: Edge) {
        // SAFETY: N1; this view makes the slots; whoever changes the tree has borrowed it
        // exclusively.
        unsafe { *self.slot_address(slot) = edge };
    }

    /// The slot of the child that covers `byte`.
    #[inline(always)]
    pub(crate) fn slot(self, byte: u8) -> usize {
        match self.edge.kind() {
            Kind::DIRECT => usize::from(byte),
            Kind::LINEAR => {
                // SAFETY: N1: separators are rounded up to 8 bytes, and to 16 from 9 on.
                let n = unsafe { plane::separators_at_most(self.separators(), self.len(), byte) };
                n - 1
            }
            _ => self.rank(usize::from(byte)) - 1,
        }
    }

    /// The number of separators of a ranked branch up to `b`, included.
    #[inline(always)]
    fn rank(self, b: usize) -> usize {
        // SAFETY: N1: a ranked branch has four words of bits.
        let (below, here) = unsafe { bits::rank(self.bits(0), b) };
        below + usize::from(here)
    }

    /// The slot of the child after the child of `slot`.
    #[inline(always)]
    pub(crate) fn next_slot(self, slot: usize) -> Option<usize> {
        if self.edge.kind() != Kind::DIRECT {
            return (slot + 1 < self.len()).then_some(slot + 1);
        }
        let here = self.child(slot);
        (slot + 1..256).find(|&s| self.child(s) != here)
    }

    /// The slot of the child before the child of `slot`.
    pub(crate) fn previous_slot(self, slot: usize) -> Option<usize> {
        if self.edge.kind() != Kind::DIRECT {
            return slot.checked_sub(1);
        }
        let here = self.child(slot);
        (0..slot).rev().find(|&s| self.child(s) != here)
    }

    pub(crate) fn last_slot(self) -> usize {
        match self.edge.kind() {
            Kind::DIRECT => 255,
            _ => self.len() - 1,
        }
    }

    /// Replaces the child of `slot` by `edge`.
    #[inline]
    pub(crate) fn replace_child(self, slot: usize, edge: Edge) {
        if self.edge.kind() == Kind::DIRECT {
            self.fill(self.slots_of_child(slot), edge);
        } else {
            self.set_child(slot, edge);
        }
    }

    /// The slots of a direct branch that hold the same child as `slot`. In a branch that keys
    /// are appended to, the last child is in most slots.
    #[inline(never)]
    fn slots_of_child(self, slot: usize) -> Range<usize> {
        const STRIDE: usize = 8;
        let here = self.child(slot);
        let mut first = slot;
        while first > 0 && self.child(first - 1) == here {
            first -= 1;
        }
        if self.child(255) == here {
            return first..256;
        }
        let differs = |s: usize| self.child(s).word() ^ here.word();
        let mut end = slot + 1;
        while end + STRIDE <= 256 && (0..STRIDE).fold(0, |all, i| all | differs(end + i)) == 0 {
            end += STRIDE;
        }
        while end < 256 && self.child(end) == here {
            end += 1;
        }
        first..end
    }

    /// Writes `edge` to slots of a direct branch.
    fn fill(self, slots: Range<usize>, edge: Edge) {
        for slot in slots {
            self.set_child(slot, edge);
        }
    }

    /// Splits the child of `slot` of a direct branch in two, which needs no memory: `low` takes
    /// the child's bytes below `separator`, `high` the others. Returns false when the branch is
    /// of another kind.
    pub(crate) fn split_in_place(self, slot: usize, low: Edge, separator: u8, high: Edge) -> bool {
        if self.edge.kind() != Kind::DIRECT {
            return false;
        }
        let slots = self.slots_of_child(slot);
        let cut = usize::from(separator);
        self.fill(slots.start..cut, low);
        self.fill(cut..slots.end, high);
        self.set_len(self.len() + 1);
        true
    }

    /// Removes the child of `slot` from a direct branch that stays direct; returns false for
    /// others.
    pub(crate) fn remove_in_place(self, slot: usize) -> bool {
        if self.edge.kind() != Kind::DIRECT || kind_for(self.len() - 1) != Kind::DIRECT {
            return false;
        }
        let heir = match self.previous_slot(slot) {
            Some(before) => before,
            None => match self.next_slot(slot) {
                Some(after) => after,
                None => return false,
            },
        };
        self.replace_child(slot, self.child(heir));
        self.set_len(self.len() - 1);
        true
    }

    fn set_len(self, n: usize) {
        // SAFETY: N1; whoever changes the tree has borrowed it exclusively.
        unsafe { *self.header_byte(0) = (n - 1) as u8 }
    }

    /// Reads all children; returns the ordinal of the child of `slot`.
    pub(crate) fn read(self, children: &mut Children, slot: usize) -> usize {
        let n = self.len();
        children.n = 0;
        match self.edge.kind() {
            Kind::DIRECT => {
                let mut ordinal = 0;
                for s in 0..256 {
                    let edge = self.child(s);
                    if s == 0 || edge != children.edge(children.n - 1) {
                        children.push(s as u8, edge);
                    }
                    if s == slot {
                        ordinal = children.n - 1;
                    }
                }
                return ordinal;
            }
            Kind::LINEAR => {
                // SAFETY: N1: `n` separators of one byte each.
                unsafe {
                    ptr::copy_nonoverlapping(
                        self.separators(),
                        children.separators.as_mut_ptr(),
                        n,
                    );
                }
            }
            _ => {
                let mut k = 0;
                for w in 0..4 {
                    // SAFETY: N1: a ranked branch has four words of bits.
                    let mut word = unsafe { *self.bits(w) };
                    while word != 0 {
                        children.separators[k] = (w * 64) as u8 + word.trailing_zeros() as u8;
                        word &= word - 1;
                        k += 1;
                    }
                }
            }
        }
        for i in 0..n {
            children.set_edge(i, self.child(i));
        }
        children.n = n;
        slot
    }

    /// Writes a branch at `level`, with `key`'s upper bytes, to `block`.
    ///
    /// # Safety
    /// `block` must be writable for [`block_bytes_for`] the children, aligned to 8.
    pub(crate) unsafe fn write(
        block: *mut u8,
        level: usize,
        key: u64,
        count: u64,
        children: &Children,
    ) -> Edge {
        let n = children.n;
        let kind = kind_for(n);
        let header = block.wrapping_add(before(kind, n));
        let branch = Branch {
            edge: Edge::new(kind, level, header),
            header,
        };
        let prefix = if level == 7 {
            0
        } else {
            key & (u64::MAX << (8 * (level + 1)))
        };
        // SAFETY: the block has room for the head, the separators and the children.
        unsafe {
            *header.cast::<u64>() = prefix | (n as u64 - 1);
            *branch.count_word() = count;
            match kind {
                Kind::LINEAR => {
                    for i in 0..after(kind, n) {
                        *branch.separators().add(i) = children.separators[i];
                    }
                }
                Kind::RANKED => {
                    let mut bits = [0u64; 4];
                    for s in &children.separators[..n] {
                        bits[usize::from(*s) / 64] |= 1 << (s % 64);
                    }
                    branch.bits(0).cast::<[u64; 4]>().write(bits);
                }
                _ => {
                    let mut i = 0;
                    for s in 0..256 {
                        if i + 1 < n && usize::from(children.separators[i + 1]) == s {
                            i += 1;
                        }
                        *branch.slot_address(s) = children.edge(i);
                    }
                    return branch.edge;
                }
            }
            for i in 0..n {
                *branch.slot_address(i) = children.edge(i);
            }
        }
        branch.edge
    }
}
