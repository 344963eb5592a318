//! Stacks in address space of their own, so that growing one neither copies nor
//! calls anybody's `malloc`.

use std::ptr::{null_mut, NonNull};
use std::slice;

use crate::os::{self, Refused, Reservation};

/// A stack of plain values.
#[derive(Debug)]
pub(crate) struct Stack<T> {
    reservation: Reservation,
    /// Addresses of the first item, and just past the latest.
    bottom: *mut T,
    top: *mut T,
    /// Below this address there is memory and no item is refused: a push is just a store.
    room_end: *mut T,
    /// Whole steps of [`STEP_BYTES`].
    committed_bytes: usize,
    /// More items than this are refused.
    max: usize,
}

/// Bytes that are committed at once.
const STEP_BYTES: usize = 256 << 10;

impl<T> Default for Stack<T> {
    /// A stack that refuses everything.
    fn default() -> Self {
        Self {
            reservation: Reservation::none(),
            bottom: null_mut(),
            top: null_mut(),
            room_end: null_mut(),
            committed_bytes: 0,
            max: 0,
        }
    }
}

impl<T: Copy> Stack<T> {
    /// An empty stack for `capacity` items. The first step is committed now:
    /// marking a long list needs few places, but would take forever with none.
    pub(crate) fn new(capacity: usize) -> Result<Self, Refused> {
        let bytes = (capacity * size_of::<T>()).next_multiple_of(STEP_BYTES);
        let reservation = Reservation::new(bytes, align_of::<T>())?;
        let bottom = reservation.start().cast();
        let mut stack = Self {
            reservation,
            bottom,
            top: bottom,
            room_end: bottom,
            committed_bytes: 0,
            max: bytes / size_of::<T>(),
        };
        stack.grow_to(1)?;
        Ok(stack)
    }

    /// Refuses more than `items` from now on: stress runs reach rare paths that way.
    pub(crate) fn limit(&mut self, items: usize) {
        self.max = items;
        self.note_room();
    }

    /// Puts `item` on top.
    #[inline(always)]
    pub(crate) fn push(&mut self, item: T) -> Result<(), Refused> {
        if self.top >= self.room_end {
            self.grow_to(self.len() + 1)?;
        }
        // SAFETY: the places below `room_end` are writable, and `top` is one of them.
        unsafe { self.top.write(item) };
        self.top = self.top.wrapping_add(1);
        Ok(())
    }

    /// Puts all these items on top, or none of them.
    pub(crate) fn push_all(&mut self, items: &[T]) -> Result<(), Refused> {
        if self.top.wrapping_add(items.len()) > self.room_end {
            self.grow_to(self.len() + items.len())?;
        }
        // SAFETY: the places below `room_end` are writable, and from `top` on none of
        // them is in use.
        unsafe {
            os::populate(self.top.cast(), size_of_val(items));
            self.top
                .copy_from_nonoverlapping(items.as_ptr(), items.len());
        }
        self.top = self.top.wrapping_add(items.len());
        Ok(())
    }

    /// Takes the top item.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.top == self.bottom {
            return None;
        }
        self.top = self.top.wrapping_sub(1);
        // SAFETY: the item was written by a push, and committed memory stays so.
        Some(unsafe { self.top.read() })
    }

    pub(crate) fn len(&self) -> usize {
        (self.top.addr() - self.bottom.addr()) / size_of::<T>()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.top == self.bottom
    }

    /// The items, oldest first.
    pub(crate) fn as_slice(&self) -> &[T] {
        // SAFETY: the first `len` items have been written and stay put.
        unsafe { slice::from_raw_parts(self.first(), self.len()) }
    }

    /// The items, oldest first, to be replaced.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: the first `len` items have been written, and the stack is borrowed.
        unsafe { slice::from_raw_parts_mut(self.first(), self.len()) }
    }

    /// Keeps the first `len` items.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.top = self.bottom.wrapping_add(self.len().min(len));
    }

    /// Forgets all items and gives their pages back, but for the first step.
    pub(crate) fn clear_and_release(&mut self) {
        self.top = self.bottom;
        let spare_bytes = self.committed_bytes.saturating_sub(STEP_BYTES);
        if spare_bytes > 0 {
            // SAFETY: the range is committed and holds no item. If the system refuses,
            // the stack keeps its memory.
            let _ = unsafe { os::release(self.reservation.start().add(STEP_BYTES), spare_bytes) };
        }
    }

    /// Makes room for `len` items.
    #[cold]
    fn grow_to(&mut self, len: usize) -> Result<(), Refused> {
        let wanted_bytes = (len * size_of::<T>()).next_multiple_of(STEP_BYTES);
        if len > self.max || wanted_bytes > self.reservation.bytes() {
            return Err(Refused);
        }
        if wanted_bytes > self.committed_bytes {
            let fresh_bytes = wanted_bytes - self.committed_bytes;
            self.reservation.commit(self.committed_bytes, fresh_bytes)?;
            self.committed_bytes = wanted_bytes;
        }
        self.note_room();
        Ok(())
    }

    fn note_room(&mut self) {
        let committed = self.committed_bytes / size_of::<T>();
        self.room_end = self.bottom.wrapping_add(committed.min(self.max));
    }

    /// Address of the first item; of a stack without address space, some aligned address.
    fn first(&self) -> *mut T {
        match self.bottom.is_null() {
            true => NonNull::dangling().as_ptr(),
            false => self.bottom,
        }
    }
}

// SAFETY: the stack owns its reservation; nothing else points into it.
unsafe impl<T: Send> Send for Stack<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: usize = STEP_BYTES / size_of::<usize>();

    #[test]
    fn a_stack_returns_items_in_reverse_and_refuses_when_full() {
        let mut stack = Stack::new(10).unwrap();
        for word in 0..STEP {
            stack.push(word).unwrap();
        }
        assert_eq!(stack.push(1), Err(Refused));
        for word in (0..STEP).rev() {
            assert_eq!(stack.pop(), Some(word));
        }
        assert_eq!(stack.pop(), None);
    }

    #[test]
    fn a_stack_without_address_space_is_empty_and_refuses_every_item() {
        let mut stack = Stack::<usize>::default();
        assert_eq!(stack.push(1), Err(Refused));
        assert_eq!((stack.pop(), stack.as_slice()), (None, &[][..]));
        stack.clear_and_release();
    }

    #[test]
    fn a_limited_stack_refuses_beyond_its_limit_and_keeps_what_it_has() {
        let mut stack = Stack::new(10).unwrap();
        for word in 0..5 {
            stack.push(word).unwrap();
        }
        stack.limit(3);
        assert_eq!(stack.push(5), Err(Refused));
        assert_eq!(stack.as_slice(), [0, 1, 2, 3, 4]);
        stack.truncate(2);
        stack.push(6).unwrap();
        assert_eq!(stack.push(7), Err(Refused));
        stack.limit(usize::MAX);
        stack.push(8).unwrap();
        assert_eq!(stack.as_slice(), [0, 1, 6, 8]);
    }

    #[test]
    fn items_of_any_size_come_back_whole() {
        let mut stack = Stack::new(1).unwrap();
        let items = STEP_BYTES / size_of::<[usize; 3]>();
        for word in 0..items {
            stack.push([word, !word, 7]).unwrap();
        }
        assert_eq!(stack.push([0; 3]), Err(Refused));
        assert_eq!(stack.pop(), Some([items - 1, !(items - 1), 7]));
    }
}
