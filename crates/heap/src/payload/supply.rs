//! Where thread caches get their pieces from and give them back to.

use super::class::ClassIndex;
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
    /// Gets pieces of a class; none when memory is out.
    pub(super) fn refill(self, lists: &mut FreeLists, class: ClassIndex) {
        let taken = self.payloads.lock().take(self.space, lists, class);
        self.payloads.charge(taken * class.bytes());
    }

    /// Takes back a full row.
    pub(super) fn give_row(self, row: Row, class: ClassIndex) {
        self.payloads.lock().give_row(self.space, row, class);
        self.note_given(row_pieces(class), class);
    }

    /// Takes back free pieces, each of which begins with the address of the next.
    pub(super) fn give_back(self, first: usize, class: ClassIndex) {
        if first != 0 {
            let given = self.payloads.lock().give(self.space, first, class);
            self.note_given(given, class);
        }
    }

    fn note_given(self, pieces: usize, class: ClassIndex) {
        self.payloads.credit(pieces * class.bytes());
        self.payloads.credit_fresh(pieces * class.bytes());
    }
}
