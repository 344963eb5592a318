//! Where thread caches get their pieces from and give them back to.

use std::sync::MutexGuard;

use super::free_lists::{row_pieces, FreeLists, Row};
use super::pool::Pool;
use super::Payloads;
use crate::layout::arena::ArenaClass;
use crate::space::Space;

/// The parts of one heap that serve payloads to all threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Supply<'heap> {
    pub(super) space: &'heap Space,
    pub(super) payloads: &'heap Payloads,
}

impl<'heap> Supply<'heap> {
    /// Gets pieces of a class of an arena; none when memory is out.
    pub(super) fn refill(self, lists: &mut FreeLists, of: ArenaClass) {
        let mut pool = self.payloads.lock();
        let mut taken = pool.take(self.space, lists, of);
        if taken == 0 && self.take_over_class(&mut pool, of) {
            taken = pool.take(self.space, lists, of);
        }
        let taken_bytes = taken * of.class().bytes();
        self.payloads.note_taken(&pool, taken_bytes);
        drop(pool);
        self.payloads.charge_fresh(taken_bytes);
    }

    /// Begins to take back pieces, with the pool locked. A cache takes them out of its lists
    /// only then, so a fork finds each piece in the lists or in the pool.
    pub(super) fn open(self) -> Return<'heap> {
        Return {
            supply: self,
            pool: self.payloads.lock(),
            bytes: 0,
        }
    }
}

/// The giving back of pieces to the pool, which is locked until [`Return::close`].
pub(super) struct Return<'heap> {
    supply: Supply<'heap>,
    pool: MutexGuard<'heap, Pool>,
    /// Bytes that have been given back.
    bytes: usize,
}

impl Return<'_> {
    /// Takes back a full row.
    pub(super) fn row(&mut self, row: Row, of: ArenaClass) {
        self.pool.give_row(self.supply.space, row, of);
        self.bytes += row_pieces(of.class()) * of.class().bytes();
    }

    /// Takes back the free pieces from `first` on; each begins with the address of the next, 0
    /// for none.
    pub(super) fn pieces(&mut self, first: usize, of: ArenaClass) {
        if first != 0 {
            let given = self.pool.give(self.supply.space, first);
            self.bytes += given * of.class().bytes();
        }
    }

    /// Has the pool put all rows that it keeps into their blocks, so that these can become
    /// empty.
    pub(super) fn rows_of_pool(&mut self) {
        self.pool.give_rows_back(self.supply.space);
    }

    pub(super) fn close(self) {
        let payloads = self.supply.payloads;
        payloads.note_given(&self.pool, self.bytes);
        drop(self.pool);
        payloads.credit_fresh(self.bytes);
    }
}
