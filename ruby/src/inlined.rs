//! What the inlined code of `shim/inlined.h` needs: the tables that it reads, and the check that
//! both sides use the same layout.

use std::arch::global_asm;
use std::ptr::{addr_of_mut, null, null_mut};

use ashlar_heap::inlined::{self, Tables};
use ashlar_heap::outline::Outline;
use ashlar_heap::{Shared, WIDTHS, WIDTH_COUNT};

use crate::layout::{CLASS_PATH, CLASS_SUPER, FL_SINGLETON, INLINED_LAYOUT};
use crate::layout::{STR_EMBEDDED, STR_LEN, STR_NOEMBED, STR_PTR};

// Compares what the C compiler makes of the header with the heap itself.
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

/// The tables until the region is reserved: no address lies in it. None does either for another
/// thread, which frees libc's memory at that moment, if it sees the new `bytes` and still this
/// `start`.
const NO_TABLES: Tables = Tables {
    start: 1 << 63,
    bytes: 0,
    kinds: null(),
    biased_states: null_mut(),
};

#[export_name = "ashlar_tables"]
static mut TABLES: Tables = NO_TABLES;

/// The arena of the inline caches and call caches of code. All other payloads are of the arena that
/// threads share, or of the one that a forked child has from its parent.
pub(crate) const CODE_ARENA: usize = 1;

/// What other processes read to find the heap ([how](../../docs/reference/shared-memory.md)).
#[export_name = "ashlar_outline"]
static OUTLINE: Outline = Outline::none();

// Other processes find it by an ELF note, which says how far behind itself the outline is. The
// program headers lead to the note, so memory alone is enough, even if the file has been stripped
// or replaced, or lies in a container. A second note has what they need to read the name of a class.
global_asm!(
    ".pushsection .note.ashlar.heap, \"a\", @note",
    ".balign 4",
    ".long 12", // bytes of the name
    ".long 8",  // bytes of what follows it
    ".long 1",  // the kind
    ".asciz \"Ashlar.heap\"",
    ".quad {outline} - .",
    ".long 12",
    ".long 32",
    ".long 1",
    ".asciz \"Ashlar.ruby\"",
    ".long {code}, {above}, {path}, {singleton}, {elsewhere}, {length}, {pointer}, {embedded}",
    ".popsection",
    outline = sym OUTLINE,
    code = const CODE_ARENA,
    above = const CLASS_SUPER,
    path = const CLASS_PATH,
    singleton = const FL_SINGLETON,
    elsewhere = const STR_NOEMBED,
    length = const STR_LEN,
    pointer = const STR_PTR,
    embedded = const STR_EMBEDDED,
);

/// The heap's byte that says at which stage a collection is.
#[export_name = "ashlar_stage"]
static mut STAGE: *const u8 = null();

/// Shows the region to the shim and to other processes. Called once, by the thread that reserved
/// the region, before any other thread can have an address in it.
pub(crate) fn show_region(shared: &Shared) {
    // SAFETY: nobody else writes. A thread that reads the tables with an address of the region has
    // that address from a thread that got it after this write. A thread with another address finds
    // that it is not in the region, whichever of the words it sees.
    unsafe { addr_of_mut!(TABLES).write(shared.space().region().tables()) };
    OUTLINE.set(shared.space().region());
    show_process();
}

/// Shows other processes which one this is, and which one it was forked from. Called again by the
/// only thread of a child.
pub(crate) fn show_process() {
    OUTLINE.set_process(std::process::id());
}

/// Shows the heap's stage to the shim, before there is an object.
pub(crate) fn show_stage(stage: *const u8) {
    // SAFETY: called once, before Ruby has an object or a second thread.
    unsafe { addr_of_mut!(STAGE).write(stage) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another thread may see the words that one thread writes in any order.
    #[test]
    fn no_address_lies_in_a_region_whose_size_is_seen_before_its_start() {
        const REGION_BYTES_MAX: usize = 4096 << 30;
        // Addresses of programs with 48 and with 52 bits of address, and of one that is not loaded
        // high.
        for address in [0, 0x40_0000, 0x5555_5555_0000, (1 << 48) - 1, (1 << 52) - 1] {
            let offset = usize::wrapping_sub(address, NO_TABLES.start);
            assert!(offset >= REGION_BYTES_MAX, "{address:#x}");
        }
    }
}
