//! Where thread caches get their pieces from and give them back to.

use std::sync::atomic::Ordering::Relaxed;

use super::free_lists::FreeLists;
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

impl Supply<'_> {
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
        self.payloads.fresh_bytes.fetch_add(taken_bytes, Relaxed);
    }

    /// Runs `give`, which gives pieces back to the pool and returns how many bytes they have. A
    /// cache takes them out of its lists only then, with the pool locked, so a fork finds each
    /// piece in the lists or in the pool.
    pub(super) fn give_back(self, give: impl FnOnce(&Space, &mut Pool) -> usize) {
        let mut pool = self.payloads.lock();
        let given_bytes = give(self.space, &mut pool);
        self.payloads.note_given(&pool, given_bytes);
        drop(pool);
        self.payloads.credit_fresh(given_bytes);
    }
}
