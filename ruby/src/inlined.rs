//! What `shim/inlined.h` does without a call needs: the tables that it reads, and the
//! proof that both sides mean the same layout.

use std::ptr::{addr_of_mut, null, null_mut};

use ashlar_heap::inlined::{self, Tables};
use ashlar_heap::{Shared, WIDTHS, WIDTH_COUNT};

use crate::layout::INLINED_LAYOUT;

// What the C compiler makes of the header, against the heap itself.
const _: () = {
    let mut index = 0;
    while index < INLINED_LAYOUT.len() {
        assert!(INLINED_LAYOUT[index] == inlined::LAYOUT[index]);
        index += 1;
    }
    assert!(INLINED_LAYOUT.len() == inlined::LAYOUT.len());
};

#[export_name = "ashlar_width_of_words"]
static WIDTH_OF_WORDS: [u8; inlined::WIDTH_OF_WORDS.len()] = inlined::WIDTH_OF_WORDS;
#[export_name = "ashlar_class_of_units"]
static CLASS_OF_UNITS: [u8; inlined::CLASS_OF_UNITS.len()] = inlined::CLASS_OF_UNITS;
#[export_name = "ashlar_kind_bytes"]
static KIND_BYTES: [u16; inlined::KIND_BYTES.len()] = inlined::KIND_BYTES;
#[export_name = "ashlar_widths_bytes"]
static WIDTHS_BYTES: [u16; WIDTH_COUNT] = WIDTHS;

/// Until the region is reserved: no address lies in it.
#[export_name = "ashlar_tables"]
static mut TABLES: Tables = Tables {
    start: 0,
    bytes: 0,
    kinds: null(),
    biased_states: null_mut(),
};

/// Where a collection is; the heap's own byte.
#[export_name = "ashlar_stage"]
static mut STAGE: *const u8 = null();

/// Shows the region to the shim. Called once, by the thread that reserved it, before any
/// other one can have an address in it.
pub(crate) fn show_region(shared: &Shared) {
    // SAFETY: nobody else writes, and a thread that reads the tables with an address of
    // the region has it from somebody who came after this.
    unsafe { addr_of_mut!(TABLES).write(shared.space().region().tables()) };
}

/// Shows the heap's stage to the shim, before there is an object.
pub(crate) fn show_stage(stage: *const u8) {
    // SAFETY: called once, before Ruby has an object or a second thread.
    unsafe { addr_of_mut!(STAGE).write(stage) };
}
