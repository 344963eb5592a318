//! Where thread caches get their pieces from and give them back to.

use super::class::ClassIndex;
use super::thread_cache::FreeLists;
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

    /// Takes back all pieces of a class but `keep`.
    pub(super) fn give_back(self, lists: &mut FreeLists, class: ClassIndex, keep: usize) {
        let mut pool = self.payloads.lock();
        let mut given = 0;
        while lists.len(class) > keep {
            let Some(piece) = lists.pop(class) else {
                break;
            };
            pool.give(self.space, piece, class);
            given += 1;
        }
        drop(pool);
        self.payloads.credit(given * class.bytes());
        self.payloads.credit_fresh(given * class.bytes());
    }
}
