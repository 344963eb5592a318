//! Weak references: words that are cleared when what they refer to dies.

use crate::heap::Heap;
use crate::layout::region::Cell;
use crate::vm::Vm;

impl<V: Vm> Heap<'_, V> {
    /// Notes a weak reference of the cell being traced: once marking is over,
    /// the word at `reference` is handed to the sink of
    /// [`Heap::clear_weak_references`] if what it refers to has died.
    ///
    /// When there is no memory to note it, the reference is treated as strong
    /// in this collection.
    ///
    /// # Safety
    /// `reference` points at the address of a cell and stays valid until the
    /// end of this collection.
    pub unsafe fn mark_weak(&self, reference: *mut usize) {
        let noted = self.with_marker(|marker| marker.push_weak(reference as usize));
        if !noted {
            // SAFETY: the caller passes the address of a reference to a cell.
            let target = unsafe { Cell::from_address(reference.read()) };
            self.mark(target);
        }
    }

    /// Goes through the weak references noted in this collection and calls
    /// `clear` with those whose cell has died; it must put a word there that is
    /// not the address of a cell. Returns how many there were and how many of
    /// them live on.
    pub fn clear_weak_references(&self, clear: impl Fn(*mut usize)) -> WeakCounts {
        let mut counts = WeakCounts {
            noted: self.with_marker(|marker| marker.weak_references()),
            retained: 0,
        };
        while let Some((parent, reference)) = self.with_marker(|marker| marker.pop_weak()) {
            let reference = reference as *mut usize;
            // A holder that became old after it was traced was traced, and its
            // references noted, twice: this one may have been cleared already.
            // SAFETY: the holder lives, so its reference can be read.
            let Some(target) = self.region().cell_at(unsafe { reference.read() }) else {
                continue;
            };
            let state = self.region().state(target);
            if !state.is_marked() {
                clear(reference);
                continue;
            }
            counts.retained += 1;
            if parent != 0 && !state.is_old() {
                // SAFETY: only cells are noted as holders.
                self.remember_if_old(unsafe { Cell::from_address(parent) });
            }
        }
        counts
    }
}

/// How many weak references one collection saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WeakCounts {
    /// Noted while marking.
    pub noted: usize,
    /// Of those, referring to a live cell.
    pub retained: usize,
}
