//! Weak references: words that are cleared when what they refer to dies.

use crate::layout::region::Cell;
use crate::os::Refused;
use crate::space::Space;
use crate::stack::Stack;

/// The weak references that a remark has seen.
#[derive(Debug)]
pub(super) struct WeakReferences {
    noted: Stack<WeakReference>,
}

/// A word that is to be cleared when the cell it refers to dies.
#[derive(Clone, Copy, Debug)]
struct WeakReference {
    /// The cell that has the word; `None` when no cell has it.
    holder: Option<Cell>,
    place: *mut usize,
}

// SAFETY: the places are read and written by the collecting thread alone.
unsafe impl Send for WeakReferences {}

/// How many weak references one collection saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WeakCounts {
    /// How many were noted while marking.
    pub noted: usize,
    /// How many of those refer to a live cell.
    pub retained: usize,
}

impl WeakReferences {
    pub(super) fn new(cells: usize) -> Result<Self, Refused> {
        Ok(Self {
            noted: Stack::new(cells)?,
        })
    }

    /// Notes a reference at `place`, which is valid until the collection ends.
    pub(super) fn note(&mut self, holder: Option<Cell>, place: *mut usize) -> Result<(), Refused> {
        self.noted.push(WeakReference { holder, place })
    }

    /// Forgets the references, because the program goes on: the places may be gone when marking
    /// ends, and the next remark notes them again.
    pub(super) fn forget(&mut self) {
        self.noted.truncate(0);
    }

    pub(super) fn clear(&mut self) {
        self.noted.clear_and_release();
    }

    /// Calls `clear` with those of the noted references whose cell is not marked, and forgets
    /// them all. Calls `holds_young` with each cell that has a weak reference to a young cell
    /// that lives on.
    pub(super) fn clear_dead(
        &mut self,
        space: &Space,
        mut clear: impl FnMut(*mut usize),
        mut holds_young: impl FnMut(Cell),
    ) -> WeakCounts {
        let mut counts = WeakCounts {
            noted: self.noted.len(),
            retained: 0,
        };
        while let Some(WeakReference { holder, place }) = self.noted.pop() {
            // A holder that became old after it was traced was traced again, and its
            // references were noted twice: this one may have been cleared already.
            // SAFETY: whoever noted the place keeps it valid until now.
            let Some(target) = space.region.cell_at(unsafe { place.read() }) else {
                continue;
            };
            let state = space.region.state_of(target);
            if !state.is_marked() {
                clear(place);
                continue;
            }
            counts.retained += 1;
            if let Some(holder) = holder.filter(|_| !state.is_old()) {
                holds_young(holder);
            }
        }
        counts
    }
}
