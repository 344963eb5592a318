//! Where thread caches get their pieces from and give them back to.

use super::arena::ArenaClass;
use super::pool::Row;
use super::thread_cache::{row_pieces, FreeLists};
use super::Payloads;
use crate::space::Space;

/// The parts of one heap that serve payloads to all threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Supply<'heap> {
    pub(super) space: &'heap Space,
    pub(super) payloads: &'heap Payloads,
}

impl Supply<'_> {
    /// Gets pieces of a class of an arena; none when memory is out.
    pub(super) fn refill(self, lists: &mut FreeLists, of: ArenaClass) {
        let taken = self.payloads.lock().take(self.space, lists, of);
        self.payloads.charge(taken * of.class().bytes());
    }

    /// Takes back a full row.
    pub(super) fn give_row(self, row: Row, of: ArenaClass) {
        self.payloads.lock().give_row(self.space, row, of);
        self.note_given(row_pieces(of.class()), of);
    }

    /// Takes back free pieces, each of which begins with the address of the next.
    pub(super) fn give_back(self, first: usize, of: ArenaClass) {
        if first != 0 {
            let given = self.payloads.lock().give(self.space, first, of);
            self.note_given(given, of);
        }
    }

    fn note_given(self, pieces: usize, of: ArenaClass) {
        let bytes = pieces * of.class().bytes();
        self.payloads.credit(bytes);
        self.payloads.credit_fresh(bytes);
    }
}
