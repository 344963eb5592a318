//! Counters, as C reads them.

use std::mem::size_of;

use ashlar_heap::{counters, counters::Counter};

use crate::heap::ProgramHeap;
use crate::vm::Vm;

/// What a heap counts.
type C = Counter<Vm>;

counters! { Vm, Kept, |heap|
    FINALIZERS_DUE "finalizers" "finalizers that are due" = heap.vm().finalizers.borrow().due();
}

/// The fields of `ashlar_statistics`, to which a later version may append.
static FIELDS: [(&str, C); 21] = [
    ("minor_collections", C::MINOR_COLLECTIONS),
    ("major_collections", C::MAJOR_COLLECTIONS),
    ("full_collections", C::FULL_COLLECTIONS),
    ("compactions", C::COMPACTIONS),
    ("live_cells", C::LIVE_CELLS),
    ("cell_bytes", C::CELL_BYTES),
    ("payload_bytes", C::PAYLOAD_BYTES),
    ("block_bytes", C::MEMORY_BLOCK_BYTES),
    ("marked_cells", C::MARKED_CELLS),
    ("old_cells", C::OLD_CELLS),
    ("allocated_cells", C::ALLOCATED_CELLS),
    ("freed_cells", C::FREED_CELLS),
    ("moved_cells", C::MOVED_CELLS),
    ("fresh_bytes", C::FRESH_BYTES),
    ("due_bytes", C::DUE_BYTES),
    ("pauses", C::PAUSES),
    ("pause_ns", C::PAUSE_NS),
    ("pause_ns_max", C::PAUSE_NS_MAX),
    ("finalizers_due", FINALIZERS_DUE),
    ("payload_moves", C::PAYLOAD_MOVES),
    ("payload_copied_bytes", C::COPIED_BYTES),
];

#[no_mangle]
unsafe extern "C" fn ashlar_statistics_get(heap: &ProgramHeap, into: *mut u64, bytes: usize) {
    // SAFETY: the program passes room for `bytes`.
    unsafe { into.cast::<u8>().write_bytes(0, bytes) };
    let known = FIELDS.iter().take(bytes / size_of::<u64>());
    for (index, (_, counter)) in known.enumerate() {
        // SAFETY: there is room for this counter.
        unsafe { into.add(index).write(counter.value(&heap.heap)) };
    }
}

#[cfg(test)]
mod tests {
    use ashlar_heap::document::compare;

    use super::*;

    #[test]
    fn the_header_has_every_counter_in_its_place() {
        let field = |(name, counter): &(&str, C)| {
            format!(
                "    {:30} /* {} */\n",
                format!("uint64_t {name};"),
                counter.about
            )
        };
        let fields: String = FIELDS.iter().map(field).collect();
        let begin = "typedef struct ashlar_statistics {\n";
        compare("crates/heap-capi/include/ashlar.h", begin, "}", &fields);
    }
}
