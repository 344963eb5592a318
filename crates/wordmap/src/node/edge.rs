//! An edge: a node's address, kind and level in one word.

use super::bits::apart;

/// Bits of a word that hold the address; the top byte holds the tag.
/// User addresses have at most 56 bits on every 64-bit system Rust supports.
const ADDRESS_BITS: u32 = 56;
const ADDRESS_MASK: usize = (1 << ADDRESS_BITS) - 1;

/// The kinds of nodes. Kinds from [`Kind::LINEAR`] on are branches, so that a test of the sign
/// bit distinguishes a branch from a leaf.
#[allow(non_snake_case)]
pub(crate) mod Kind {
    /// One entry: the header word is the key itself.
    pub(crate) const ONE: u8 = 1;
    /// Sorted suffixes of `level` bytes each.
    pub(crate) const FLAT: u8 = 2;
    /// Suffixes grouped by their upper bytes, which are stored once per group.
    pub(crate) const GROUPED: u8 = 3;
    /// A bit for each of 256 keys (level 1 only).
    pub(crate) const BITMAP: u8 = 4;
    /// All 256 keys of a set, without any memory: the word holds the upper 56 bits of the keys,
    /// shifted up by 4 bits, so that its lowest bit is 0 like any edge's.
    pub(crate) const FULL: u8 = 5;
    /// A branch with a short list of separators.
    pub(crate) const LINEAR: u8 = 8;
    /// A branch with a bit for each separator.
    pub(crate) const RANKED: u8 = 9;
    /// A branch with one edge for each of the 256 bytes.
    pub(crate) const DIRECT: u8 = 10;
}

/// The tag of an edge to a leaf of this kind and level.
pub(crate) const fn leaf_tag(kind: u8, level: u8) -> u8 {
    (kind << 4) | level
}

/// The tags of the leaves of small maps.
pub(crate) const ONE: u8 = leaf_tag(Kind::ONE, 8);
pub(crate) const FLAT1: u8 = leaf_tag(Kind::FLAT, 1);
pub(crate) const FLAT2: u8 = leaf_tag(Kind::FLAT, 2);

/// The tag of bitmaps.
pub(crate) const BITMAP: u8 = leaf_tag(Kind::BITMAP, 1);

/// A tagged pointer to a node, or null.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(crate) struct Edge(*mut u8);

impl Edge {
    pub(crate) const NULL: Edge = Edge(core::ptr::null_mut());

    #[inline(always)]
    pub(crate) fn new(kind: u8, level: usize, header: *mut u8) -> Edge {
        debug_assert!(level <= 8 && header.addr() & !ADDRESS_MASK == 0 && header.addr() & 7 == 0);
        let tag = (usize::from(kind) << 4) | level;
        Edge(header.map_addr(|a| a | (tag << ADDRESS_BITS)))
    }

    /// The edge that stands for all 256 keys with the upper bytes of `key`.
    pub(crate) fn full(key: u64) -> Edge {
        let word = (u64::from(Kind::FULL) << 60) | ((key >> 8) << 4);
        Edge(core::ptr::without_provenance_mut(word as usize))
    }

    #[inline(always)]
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Address and tag, as a pointer.
    #[inline(always)]
    pub(crate) fn pointer(self) -> *mut u8 {
        self.0
    }

    /// The edge from which [`Edge::pointer`] was taken.
    #[inline(always)]
    pub(crate) fn of(pointer: *mut u8) -> Edge {
        Edge(pointer)
    }

    /// Address and tag.
    #[inline(always)]
    pub(crate) fn word(self) -> usize {
        self.0.addr()
    }

    /// The same edge, with its word taken from `word`, which must be equal.
    #[inline(always)]
    pub(crate) fn with_word(self, word: usize) -> Edge {
        debug_assert!(word == self.word());
        Edge(self.0.map_addr(|_| word))
    }

    #[inline(always)]
    pub(crate) fn tag(self) -> u8 {
        (self.0.addr() >> ADDRESS_BITS) as u8
    }

    #[inline(always)]
    pub(crate) fn kind(self) -> u8 {
        self.tag() >> 4
    }

    /// For a leaf, how many low bytes its suffixes have; for a branch, which byte it tells
    /// apart, 0 being the lowest. Not for null and full edges.
    #[inline(always)]
    pub(crate) fn level(self) -> usize {
        usize::from(self.tag() & 15)
    }

    /// Whether the edge leads to a small leaf, as most maps are: of one entry, or with suffixes
    /// of 1 or 2 bytes.
    #[inline(always)]
    pub(crate) fn is_small_leaf(self) -> bool {
        matches!(self.tag(), ONE | FLAT1 | FLAT2)
    }

    /// The bytes of the suffixes of a small leaf (8 where it has one entry); 0 for other edges.
    #[inline(always)]
    pub(crate) fn small_width(self) -> usize {
        // One after another: otherwise the compiler would test for the leaf of one entry first.
        let tag = usize::from(self.tag());
        if tag == usize::from(FLAT1) {
            return 1;
        }
        let tag = apart(tag);
        if tag == usize::from(FLAT2) {
            return 2;
        }
        if apart(tag) == usize::from(ONE) {
            8
        } else {
            0
        }
    }

    #[inline(always)]
    pub(crate) fn is_branch(self) -> bool {
        (self.0.addr() as isize) < 0
    }

    #[inline(always)]
    pub(crate) fn header(self) -> *mut u8 {
        self.0.map_addr(|a| a & ADDRESS_MASK)
    }

    /// Like [`Edge::header`], for an edge whose tag is `tag`: one subtraction where the tag is
    /// a constant.
    #[inline(always)]
    pub(crate) fn header_under(self, tag: u8) -> *mut u8 {
        debug_assert!(tag == self.tag());
        self.0.wrapping_byte_sub(usize::from(tag) << ADDRESS_BITS)
    }

    /// The lowest key of a full edge.
    pub(crate) fn full_base(self) -> u64 {
        ((self.0.addr() as u64) << 4) & !0xff
    }
}

/// Drops the `bytes` lowest bytes; all of them when `bytes` is 8.
#[inline(always)]
pub(crate) fn above(word: u64, bytes: usize) -> u64 {
    (word >> (4 * bytes)) >> (4 * bytes)
}

/// Keeps the `bytes` (1 to 8) lowest bytes.
#[inline(always)]
pub(crate) fn below(word: u64, bytes: usize) -> u64 {
    let shift = 64 - 8 * bytes as u32;
    (word << shift) >> shift
}

/// The bytes of `key` above its `level` lowest ones, not shifted.
#[inline(always)]
pub(crate) fn prefix(key: u64, level: usize) -> u64 {
    if level == 8 {
        0
    } else {
        key & (u64::MAX << (8 * level))
    }
}

/// The `level`-byte suffix of `key`, split into its `upper` highest bytes and the rest.
#[inline(always)]
pub(crate) fn split(key: u64, level: usize, upper: usize) -> (u64, u64) {
    let lower = level - upper;
    (below(key, level) >> (8 * lower), below(key, lower))
}

/// Byte `level` of `key`, 0 being the lowest.
#[inline(always)]
pub(crate) fn byte(key: u64, level: usize) -> u8 {
    (key >> (8 * level)) as u8
}

/// The highest byte in which two different keys differ.
#[inline(always)]
pub(crate) fn highest_difference(a: u64, b: u64) -> usize {
    debug_assert!(a != b);
    ((63 - (a ^ b).leading_zeros()) / 8) as usize
}
