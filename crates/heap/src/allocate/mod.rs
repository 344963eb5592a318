//! Size → address: cursors over free runs, blocks from the block allocator.

pub(crate) mod blocks;
pub(crate) mod cursor;
pub(crate) mod lists;
pub(crate) mod run;
