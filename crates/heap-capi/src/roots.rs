//! Roots that the heap knows of: variables, pins, frames and stacks of threads.

use std::collections::HashMap;

use crate::tracer::{each_word, follow, Does, Tracer};

/// `ashlar_frame`.
#[repr(C)]
pub(crate) struct Frame {
    pub(crate) previous: *const Frame,
    pub(crate) count: usize,
    pub(crate) places: *const *mut usize,
}

/// The roots of a heap that belong to no thread.
#[derive(Debug, Default)]
pub(crate) struct Roots {
    /// Addresses of variables; `by_address` has the index of each.
    places: Vec<*mut usize>,
    by_address: HashMap<usize, usize>,
    /// Pinned words, and how often.
    pins: HashMap<usize, usize>,
}

impl Roots {
    pub(crate) fn add(&mut self, place: *mut usize) -> bool {
        if self.by_address.contains_key(&(place as usize)) {
            return true;
        }
        if self.places.try_reserve(1).is_err() || self.by_address.try_reserve(1).is_err() {
            return false;
        }
        self.by_address.insert(place as usize, self.places.len());
        self.places.push(place);
        true
    }

    pub(crate) fn remove(&mut self, place: *mut usize) {
        let Some(index) = self.by_address.remove(&(place as usize)) else {
            return;
        };
        self.places.swap_remove(index);
        if let Some(moved) = self.places.get(index) {
            self.by_address.insert(*moved as usize, index);
        }
    }

    /// Keeps a cell alive, and where it is. Returns false when there is no memory.
    pub(crate) fn pin(&mut self, cell: usize) -> bool {
        let has_room = self.pins.try_reserve(1).is_ok();
        if has_room {
            *self.pins.entry(cell).or_insert(0) += 1;
        }
        has_room
    }

    pub(crate) fn unpin(&mut self, cell: usize) {
        if let Some(count) = self.pins.get_mut(&cell) {
            *count -= 1;
            if *count == 0 {
                self.pins.remove(&cell);
            }
        }
    }

    pub(crate) fn trace(&self, tracer: &mut Tracer<'_, '_>) {
        for &place in &self.places {
            // SAFETY: the program keeps the variable until it removes the root.
            unsafe { trace_place(place, tracer) };
        }
        for &address in self.pins.keys() {
            if let Some(cell) = tracer.memory.inside.reference(address) {
                tracer.pin(cell);
            }
        }
    }
}

/// # Safety
/// `place` is a variable that holds 0 or a cell.
unsafe fn trace_place(place: *mut usize, tracer: &mut Tracer<'_, '_>) {
    // SAFETY: the variable holds 0 or a cell.
    unsafe { follow(tracer.memory.inside, place, |cell| tracer.mark(cell)) };
}

/// Marks what the frames of a thread hold.
///
/// # Safety
/// The frames are as `ashlar.h` says, and their thread is stopped.
pub(crate) unsafe fn trace_frames(mut frame: *const Frame, tracer: &mut Tracer<'_, '_>) {
    while !frame.is_null() {
        // SAFETY: a frame lasts until it is popped.
        let Frame {
            previous,
            count,
            places,
        } = unsafe { &*frame };
        for index in 0..*count {
            // SAFETY: a frame has the addresses of `count` variables.
            unsafe { trace_place(places.add(index).read(), tracer) };
        }
        frame = *previous;
    }
}

/// Marks what the words of a stack may refer to.
///
/// # Safety
/// The words from `from` up to `to` can be read.
pub(crate) unsafe fn trace_stack(from: usize, to: usize, tracer: &mut Tracer<'_, '_>) {
    if !matches!(tracer.does, Does::Update(_)) {
        // SAFETY: the words can be read.
        unsafe { each_word(from, to, |word| tracer.mark_ambiguous(word)) };
    }
}
