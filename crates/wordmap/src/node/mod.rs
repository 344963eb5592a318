//! The nodes of a tree, one file per concern.
//!
//! A node is a block of memory with a *header word* somewhere inside it; an
//! [`edge::Edge`] is the address of that header with the node's kind and level in its
//! top byte. 8-byte items (values of a leaf, children of a branch) are *before* the
//! header, in reverse order; everything that is searched is *after* it. So both are
//! reached from the header without knowing how many items the block has room for:
//!
//! ```text
//!   block                         header
//!   │                             ▼
//!   │ room │ v2 │ v1 │ v0 │ prefix:count │ s0 s1 s2 … │ room │
//! ```
//!
//! Numbered invariants, asserted by [`crate::verify`]:
//!
//! * **N1** An edge that is not null and not of kind *full* holds the address
//!   of the header of a live node of the kind and level in its tag.
//! * **N2** A leaf's header word holds the bytes that its keys have in common (all
//!   above its `level` lowest ones) and, in the lowest byte, its number of entries
//!   minus one. Between these, a grouped leaf has its number of groups, the number of
//!   bytes that tell them apart and, above level 2, a guess at the group inserted into
//!   next.
//! * **N3** Keys in a leaf rise strictly.
//! * **N4** The size of a node's block follows from its header and tag alone
//!   ([`leaf::Leaf::shape`], [`branch::Branch::block_bytes`]).
//! * **N5** A branch has at least two children; child 0 begins at byte 0, and
//!   each child covers the bytes from its own separator up to the next one.
//! * **N6** A branch's subtree count is the number of entries below it.
//! * **N7** Along a path levels fall, and a branch's level is at least 1; a leaf below
//!   a branch of level `l` has level at most `l + 1`, and only at that level does it
//!   cover several bytes of the branch.
//! * **N8** A branch notes one of its slots.

pub(crate) mod bits;
pub(crate) mod branch;
pub(crate) mod edge;
pub(crate) mod leaf;
pub(crate) mod plane;
