//! What the inline part of `ashlar.h` relies on, compared with what the heap says.
//! A change of any of these numbers is a change of `ASHLAR_INTERFACE`.

use std::mem::offset_of;

use ashlar_heap::inlined::LAYOUT;

use crate::thread::Thread;

/// `ashlar.h`'s own numbers, in the order of [`LAYOUT`]. Numbers that the header does not use are
/// the heap's.
const HEADER: [usize; LAYOUT.len()] = {
    let mut header = LAYOUT;
    header[0] = 0; // ashlar_cells.states
    header[1] = 8; // ashlar_cells.cursors
    header[2] = 32; // sizeof(struct ashlar_cursor)
    header[3] = 0; // ashlar_cursor.next
    header[4] = 8; // ashlar_cursor.end
    header[5] = 24; // widths
    header[13] = 5; // states[cell >> 5]
    header[16] = 4; // old
    header[17] = 8; // survived one collection; with the next: on the boundary
    header[18] = 128; // survived two; old: settled
    header[20] = 32; // remembered
    header[21] = 0; // the stage when nothing is going on
    header
};

const _: () = {
    let mut index = 0;
    while index < LAYOUT.len() {
        assert!(LAYOUT[index] == HEADER[index], "ashlar.h says otherwise");
        index += 1;
    }
    assert!(offset_of!(Thread, cells) == 0);
    assert!(offset_of!(Thread, stage) == 8);
    assert!(offset_of!(Thread, states) == 16);
    assert!(offset_of!(Thread, frames) == 24);
    assert!(offset_of!(Thread, new_state) == 32);
};
