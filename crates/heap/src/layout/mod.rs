//! Addresses, widths, cell states and block descriptors: what the bytes mean.
//!
//! ```text
//! region  = blocks of 64 KiB          side tables, one entry each
//!           ┌────────┬────────┬──     kind        1 byte  per block
//!           │ cells  │payloads│       block      64 bytes per block
//!           └────────┴────────┴──     cell state  1 byte  per 32 bytes
//! ```
//!
//! Every table is found from an address by subtracting the region's start and
//! shifting; nothing about collection is stored in the cells themselves.

pub(crate) mod arena;
pub(crate) mod block;
pub(crate) mod cell_state;
pub(crate) mod chunk;
pub(crate) mod class;
pub(crate) mod kind;
pub(crate) mod parts;
pub(crate) mod region;
pub(crate) mod width;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 64 * 1024;
/// Log2 of [`BLOCK_BYTES`].
pub(crate) const BLOCK_SHIFT: u32 = 16;
/// Bytes that share one entry of the cell-state table: the narrowest cell, so
/// that two cells never share an entry.
pub const STATE_GRANULE_BYTES: usize = 32;
/// Log2 of [`STATE_GRANULE_BYTES`].
pub(crate) const STATE_SHIFT: u32 = 5;

const _: () = assert!(1 << BLOCK_SHIFT == BLOCK_BYTES);
const _: () = assert!(1 << STATE_SHIFT == STATE_GRANULE_BYTES);
const _: () = assert!(width::WIDTH_MIN_BYTES >= STATE_GRANULE_BYTES);
