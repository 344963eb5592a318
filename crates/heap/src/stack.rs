//! Stacks in address space of their own, so that growing one neither copies nor
//! calls anybody's `malloc`.

use std::marker::PhantomData;
use std::slice;

use crate::os::{self, Refused, Reservation};

/// A stack of plain values.
#[derive(Debug)]
pub(crate) struct Stack<T> {
    reservation: Reservation,
    len: usize,
    /// Whole steps.
    committed_bytes: usize,
    /// More items than this are refused.
    max: usize,
    /// Up to this many items none is refused and there is memory: pushing one is a
    /// store.
    room: usize,
    items: PhantomData<T>,
}

/// Bytes that are committed at once.
const STEP_BYTES: usize = 256 << 10;

impl<T> Default for Stack<T> {
    /// A stack that refuses everything.
    fn default() -> Self {
        Self {
            reservation: Reservation::none(),
            len: 0,
            committed_bytes: 0,
            max: 0,
            room: 0,
            items: PhantomData,
        }
    }
}

impl<T: Copy> Stack<T> {
    /// An empty stack for `capacity` items. The first step is committed now:
    /// marking a long list needs few places, but would take forever with none.
    pub(crate) fn new(capacity: usize) -> Result<Self, Refused> {
        let bytes = (capacity * size_of::<T>()).next_multiple_of(STEP_BYTES);
        let mut stack = Self {
            reservation: Reservation::new(bytes, align_of::<T>())?,
            max: bytes / size_of::<T>(),
            ..Self::default()
        };
        stack.grow_to(1)?;
        Ok(stack)
    }

    /// Refuses more than `items` from now on: stress runs see rare paths that way.
    pub(crate) fn limit(&mut self, items: usize) {
        self.max = items;
        self.room = self.committed().min(items);
    }

    /// Puts `item` on top.
    #[inline(always)]
    pub(crate) fn push(&mut self, item: T) -> Result<(), Refused> {
        if self.len >= self.room {
            self.grow_to(self.len + 1)?;
        }
        // SAFETY: `len < room`, and those places are writable.
        unsafe { self.place(self.len).write(item) };
        self.len += 1;
        Ok(())
    }

    /// Puts all these on top, or none of them.
    pub(crate) fn push_all(&mut self, items: &[T]) -> Result<(), Refused> {
        let end = self.len + items.len();
        if end > self.room {
            self.grow_to(end)?;
        }
        // SAFETY: the places up to `room` are writable, and from `len` on none of
        // them is in use.
        unsafe {
            let top = self.place(self.len);
            os::populate(top.cast(), size_of_val(items));
            top.copy_from_nonoverlapping(items.as_ptr(), items.len());
        }
        self.len = end;
        Ok(())
    }

    /// Takes the top item.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: it was written by `push`, and what is committed stays so.
        Some(unsafe { self.place(self.len).read() })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The items, oldest first.
    pub(crate) fn as_slice(&self) -> &[T] {
        // SAFETY: the first `len` items have been written and stay put.
        unsafe { slice::from_raw_parts(self.place(0), self.len) }
    }

    /// The items, oldest first, to be replaced.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: the first `len` items have been written, and the stack is borrowed.
        unsafe { slice::from_raw_parts_mut(self.place(0), self.len) }
    }

    /// Keeps the first `len` items.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Forgets all items and gives their pages back, but for the first step.
    pub(crate) fn clear_and_release(&mut self) {
        self.len = 0;
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
        self.room = self.committed().min(self.max);
        Ok(())
    }

    /// Items that there is memory for.
    fn committed(&self) -> usize {
        self.committed_bytes / size_of::<T>()
    }

    #[inline(always)]
    fn place(&self, index: usize) -> *mut T {
        self.reservation.start().cast::<T>().wrapping_add(index)
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
