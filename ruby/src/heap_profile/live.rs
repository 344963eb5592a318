//! The table of live numbers, and how they are counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ashlar_heap::{Heap, Scope};

use super::image::{Numbers, NUMBERS};
use crate::counters::{C, COLLECTOR_NS, MARK_NS, SWEEP_NS};
use crate::object_model::Ruby;

/// The numbers, in the order of the image; a later version may append more.
static TABLE: [(&str, C); NUMBERS] = [
    ("live_bytes", C::LIVE_BYTES),
    ("cell_bytes", C::CELL_BYTES),
    ("payload_bytes", C::PAYLOAD_BYTES),
    ("external_bytes", C::EXTERNAL_BYTES),
    ("cell_block_bytes", C::CELL_BLOCK_BYTES),
    ("spare_bytes", C::SPARE_BYTES),
    ("hole_bytes", C::HOLE_BYTES),
    ("live_cells", C::LIVE_CELLS),
    ("allocated_objects", C::ALLOCATED_CELLS),
    ("allocated_bytes", C::ALLOCATED_BYTES),
    ("minor_count", C::MINOR_COLLECTIONS),
    ("major_count", C::MAJOR_OR_FULL_COLLECTIONS),
    ("collector_ns", COLLECTOR_NS),
    ("mark_ns", MARK_NS),
    ("sweep_ns", SWEEP_NS),
    ("pause_count", C::PAUSES),
    ("pause_ns", C::PAUSE_NS),
    ("pause_ns_max", C::PAUSE_NS_MAX),
    ("pause_ns_p50", C::PAUSE_NS_MEDIAN),
    ("pause_ns_p99", C::PAUSE_NS_P99),
    ("memory_limit_bytes", C::MEMORY_LIMIT_BYTES),
    ("nursery_bytes", C::NURSERY_BYTES),
    ("fresh_bytes", C::FRESH_BYTES),
    ("old_cells", C::OLD_CELLS),
    ("payload_block_bytes", C::PAYLOAD_BLOCK_BYTES),
    ("full_count", C::FULL_COLLECTIONS),
];

/// Those that count what was. In a forked child they begin at 0, as its CPU time does.
const COUNTED: [&str; 10] = [
    "allocated_objects",
    "allocated_bytes",
    "minor_count",
    "major_count",
    "collector_ns",
    "mark_ns",
    "sweep_ns",
    "pause_count",
    "pause_ns",
    "full_count",
];

/// What the parent had counted when this process was forked.
static OF_PARENT: [AtomicU64; NUMBERS] = [const { AtomicU64::new(0) }; NUMBERS];

/// Counts the numbers. All Ractors must be stopped.
pub(super) fn numbers_of(heap: &Heap<'_, Ruby>) -> Numbers {
    std::array::from_fn(|index| {
        let of_parent = OF_PARENT[index].load(Relaxed);
        TABLE[index].1.value(heap).saturating_sub(of_parent)
    })
}

/// Begins to count, in a forked child.
pub(super) fn begin_in_child(heap: &Heap<'_, Ruby>) {
    // It ends in the child, and is the first collection there.
    let marking: &[&str] = match heap.marking_scope() {
        None => &[],
        Some(Scope::Minor) => &["minor_count"],
        Some(Scope::Major) => &["major_count"],
        Some(Scope::Full) => &["major_count", "full_count"],
    };
    for ((name, counter), of_parent) in TABLE.iter().zip(&OF_PARENT) {
        if COUNTED.contains(name) {
            let counted = counter.value(heap) - u64::from(marking.contains(name));
            of_parent.store(counted, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use ashlar_heap::document::compare;

    use super::*;

    #[test]
    fn the_readers_of_images_know_every_number() {
        let rows = || TABLE.iter().map(|(name, counter)| (name, counter.about));
        let row = |(at, (name, about))| format!("| {at} | {name} | {about} |\n");
        let table: String = rows().enumerate().map(row).collect();
        let begin = "| number | name | what it is |\n| ---: | --- | --- |\n";
        compare(
            "docs/reference/heap-profile.md",
            begin,
            "\n**Tables**",
            &table,
        );
        let entry = |(name, about)| format!("    \"{name}\": \"{about}\",\n");
        let entries: String = rows().map(entry).collect();
        compare(
            "lab/src/ashlar/heap/image.py",
            "NUMBERS = {\n",
            "}\n",
            &entries,
        );
    }
}
