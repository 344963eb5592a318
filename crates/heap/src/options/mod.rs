//! Everything about a heap that can be chosen, as one table: what an option is called,
//! what it may be, where it is kept, and a sentence about it.
//!
//! A VM has a table of its own, of the same type, for the options that it adds, and says where
//! the texts come from ([`Reader`]). How options are read and shown, the messages about
//! impossible values, and the documents all come from the tables.

mod control_group;
#[doc(hidden)]
pub mod document;
mod setting;
mod switches;

use std::time::Duration;

pub use setting::{parse_bytes, Kept, Range, Reader, Setting, Unit, Value, Word};
pub use switches::{refusal_in, SWITCHES};

use crate::allocate::huge_pages::HugePages;
use crate::allocate::policy::Policy;
use crate::heap::Heap;
use crate::mark::pile::ParallelMarking;
use crate::mark::pool::THREADS_MAX;
use crate::pace::PaceOptions;
use crate::refusals::Refusal;
use crate::stress::Stress;
use crate::vm::Vm;

/// Everything about a heap that can be chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// When it is collected.
    pub pace: PaceOptions,
    /// Microseconds of a slice; `None` when collections are done in one stop.
    pub slice_us: Option<usize>,
    /// How many threads mark, and when.
    pub parallel: ParallelMarking,
    /// Where large payloads are placed.
    pub policy: Policy,
    /// What the system is asked to back by huge pages.
    pub huge_pages: HugePages,
    /// What makes memory bugs show early.
    pub stress: Stress,
    /// Calls that the system is made to refuse, in the whole process
    /// ([`crate::refusals::refuse`]).
    pub refuse: Option<Refusal>,
}

/// The smallest nursery: with a smaller one the program would do little but collect.
pub const NURSERY_BYTES_MIN: usize = 64 << 10;

type Own = Setting<Options>;

/// The options of every heap. The lower bound of `nursery_max` is `nursery_min`, which comes
/// before it.
pub static TABLE: [Setting<Options>; 12] = [
    Own::new(
        "exchange_rate",
        Kept::Number(Range::thousandths(100, 100_000), |o| {
            &mut o.pace.exchange_rate_thousandths
        }),
        "take this many percent more memory where that saves 1 % of the CPU time: a smaller number \
                saves memory, a larger one CPU time; in force while space_overhead is auto",
    )
    .more("docs/design/pacing.md"),
    Own::new(
        "space_overhead",
        Kept::NumberOr(&[("auto", || None)], Range::whole(10, 1000), |o| {
            &mut o.pace.space_overhead_percent
        }),
        "auto: exchange_rate decides how much memory garbage may take; a number: garbage may \
                take this many percent of the live bytes",
    )
    .more("docs/design/pacing.md"),
    Own::new(
        "heap_min",
        Kept::Number(Range::bytes(0, usize::MAX), |o| &mut o.pace.heap_min_bytes),
        "with a fixed space_overhead, a heap with fewer live bytes than this is collected as if \
                it had this many",
    ),
    Own::new(
        "heap_init",
        Kept::Number(Range::bytes(0, usize::MAX), |o| &mut o.pace.heap_init_bytes),
        "no collection begins while the heap uses fewer bytes than this",
    ),
    Own::new(
        "nursery_min",
        Kept::Number(Range::bytes(NURSERY_BYTES_MIN, usize::MAX), |o| {
            &mut o.pace.nursery_min_bytes
        }),
        "the program allocates at least this many bytes between two collections",
    ),
    Own::new(
        "nursery_max",
        Kept::Number(Range::bytes(NURSERY_BYTES_MIN, usize::MAX), |o| {
            &mut o.pace.nursery_max_bytes
        }),
        "the program allocates at most this many bytes between two collections; at least nursery_min",
    ),
    Own::new(
        "memory_limit",
        Kept::NumberOr(
            &[("none", || None), ("auto", control_group::limit_bytes)],
            Range::bytes(16 << 20, usize::MAX),
            |o| &mut o.pace.memory_limit_bytes,
        ),
        "keep the RSS of the process below this; auto: below what its control group may have. Near \
                the limit the heap is collected more often, and before a payload of 256 KiB or more \
                that would not fit",
    ),
    Own::new(
        "slice_us",
        Kept::NumberOr(&[("0", || None)], Range::whole(100, 1_000_000), |o| {
            &mut o.slice_us
        }),
        "a collection works for this many microseconds of CPU time, then the program goes on; up \
                to eight times as long where marking is late. 0: each collection is done in one stop",
    )
    .more("docs/design/pauses.md"),
    Own::new(
        "threads",
        Kept::Number(Range::whole(1, THREADS_MAX), |o| &mut o.parallel.threads),
        "threads that mark a large heap in a major or full collection that is done in one stop",
    )
    .more("docs/design/parallel-marking.md"),
    Own::new(
        "policy",
        Kept::Text {
            wanted: Policy::ALLOWED,
            read: |o, text| {
                o.policy = Policy::named(text).ok_or(Policy::ALLOWED)?;
                Ok(())
            },
            show: |o| o.policy.name().to_owned(),
        },
        "where payloads above 32 KiB are placed",
    )
    .more("docs/design/policies.md"),
    Own::new(
        "huge_pages",
        Kept::Text {
            wanted: HugePages::ALLOWED,
            read: |o, text| {
                o.huge_pages = HugePages::named(text).ok_or(HugePages::ALLOWED)?;
                Ok(())
            },
            show: |o| o.huge_pages.name().to_owned(),
        },
        "auto: move memory that is full into huge pages of Linux, for at most 1 % of the CPU time; \
                1: ask for huge pages for all of the heap, for heaps of many gigabytes",
    )
    .more("docs/design/huge-pages.md"),
    Own::new(
        "stress",
        Kept::Text {
            wanted: "none or switches",
            read: switches::read,
            show: switches::text,
        },
        "switches for tests, with commas between them: collect-every:N, slice-cells:N, verify, \
         poison, no-minor, no-settling, look-ahead, move-everything, parallel-cells:N, \
         refuse:CALL",
    )
    .more("docs/reference/stress-switches.md"),
];

impl Options {
    /// These options, changed where `reader` has a text for one.
    ///
    /// # Errors
    /// A line that names the option, its value, and what is wanted.
    pub fn changed(&self, reader: &Reader<'_>) -> Result<Self, String> {
        switches::refuse_as_options(reader)?;
        let mut changed = reader.changed(&TABLE, self)?;
        let pace = &mut changed.pace;
        if pace.nursery_max_bytes < pace.nursery_min_bytes {
            let least = Range::bytes(pace.nursery_min_bytes, usize::MAX);
            reader.refuse_if_named("nursery_max", &least.wanted())?;
            pace.nursery_max_bytes = pace.nursery_min_bytes;
        }
        Ok(changed)
    }

    /// Length of a slice; `None` when collections are done in one stop.
    pub fn slice(&self) -> Option<Duration> {
        let microseconds = self.slice_us?;
        Some(Duration::from_micros(microseconds as u64))
    }

    /// Puts all but stress and refusals in force.
    pub fn apply<V: Vm>(&self, heap: &Heap<'_, V>) {
        heap.set_pace_options(self.pace);
        heap.set_parallel_marking(self.parallel);
        heap.pauses().set_slice_time(self.slice());
        if self.policy != heap.space().policy() {
            heap.space().set_policy(self.policy);
        }
        heap.set_huge_pages(self.huge_pages);
    }
}

#[cfg(test)]
mod tests;
