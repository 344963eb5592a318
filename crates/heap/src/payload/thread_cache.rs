//! A thread's own stock of free pieces, so that most allocations and frees
//! take no lock.

use std::ptr::NonNull;

use super::class::{ClassIndex, CLASS_COUNT};
use crate::layout::region::Region;

/// At most this many bytes of one class are kept.
const LIMIT_BYTES: usize = 8 * 1024;
/// And at most this many pieces.
const LIMIT_PIECES: usize = 64;
/// At least this many, also of the large classes.
const LIMIT_PIECES_MIN: usize = 2;

#[derive(Clone, Copy, Debug, Default)]
struct Stock {
    /// Address of the first free piece; each piece begins with the address of
    /// the next. 0 ends the list.
    first: usize,
    count: u32,
    limit: u32,
}

/// Free pieces that one thread keeps, by size class.
#[derive(Debug)]
#[repr(align(64))]
pub struct ThreadCache {
    stocks: [Stock; CLASS_COUNT],
}

impl Default for ThreadCache {
    fn default() -> Self {
        Self::new()
    }
}

impl ThreadCache {
    /// An empty cache.
    pub fn new() -> Self {
        let mut stocks = [Stock::default(); CLASS_COUNT];
        for class in ClassIndex::all() {
            stocks[class.index()].limit =
                (LIMIT_BYTES / class.bytes()).clamp(LIMIT_PIECES_MIN, LIMIT_PIECES) as u32;
        }
        Self { stocks }
    }

    /// Pieces of the class in stock.
    pub(crate) fn len(&self, class: ClassIndex) -> usize {
        self.stocks[class.index()].count as usize
    }

    /// Pieces of the class to keep at most.
    pub(crate) fn limit(&self, class: ClassIndex) -> usize {
        self.stocks[class.index()].limit as usize
    }

    #[inline(always)]
    pub(crate) fn pop(&mut self, region: &Region, class: ClassIndex) -> Option<NonNull<u8>> {
        let stock = &mut self.stocks[class.index()];
        if stock.first == 0 {
            return None;
        }
        let piece = region.pointer(stock.first);
        // SAFETY: a piece in stock is free and begins with the next address.
        stock.first = unsafe { piece.cast::<usize>().read() };
        stock.count -= 1;
        NonNull::new(piece)
    }

    /// Puts a free piece in stock; true when the stock is over its limit now.
    #[inline(always)]
    pub(crate) fn push(&mut self, piece: NonNull<u8>, class: ClassIndex) -> bool {
        let stock = &mut self.stocks[class.index()];
        // SAFETY: the piece is free and at least 16 bytes long.
        unsafe { piece.as_ptr().cast::<usize>().write(stock.first) };
        stock.first = piece.as_ptr() as usize;
        stock.count += 1;
        stock.count > stock.limit
    }
}
