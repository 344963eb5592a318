//! Size → address: cursors over free runs, blocks from the block allocator.

pub(crate) mod blocks;
pub(crate) mod cursor;
mod empty_blocks;
pub(crate) mod huge_pages;
pub(crate) mod lists;
pub(crate) mod policy;
pub(crate) mod run;
pub(crate) mod shared_blocks;
pub(crate) mod surplus;
mod take;
