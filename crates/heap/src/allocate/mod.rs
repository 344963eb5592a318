//! Size → address: cursors over free runs, blocks from the shared stock.

pub mod blocks;
pub mod cursor;
pub(crate) mod lists;
pub(crate) mod run;
