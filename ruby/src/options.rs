//! Options: from the environment, read once before the first allocation, and from
//! `GC.config` while Ruby runs. The variables of Ruby's default collector change the
//! initial values ([`crate::ruby_gc_variables`]).
//!
//! An option has one name, `space_overhead`; its variable is `ASHLAR_SPACE_OVERHEAD`.
//! For an impossible value a line names the option, the value and what is wanted. At
//! the start such a value ends the process; later nothing changes.

use ashlar_heap::options::{
    self as heap_options, parse_bytes, Kept, Range, Reader, Setting, Unit, Value,
};
use ashlar_heap::{refusals, HugePages, PaceOptions, ParallelMarking};

use crate::code_cache::settings as code_cache;
use crate::heap_profile::recorder;
use crate::libc_malloc::MallocSource;
use crate::ruby_gc_variables::tuned;

/// Everything that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) heap: heap_options::Options,
    /// Whether collections are done in slices, if slices have a length.
    pub(crate) incremental: bool,
    pub(crate) malloc: MallocSource,
    /// The mean number of bytes between two samples of the profile.
    pub(crate) profile_bytes: usize,
    /// Whether the profile contains the command line.
    pub(crate) profile_command_line: bool,
    /// Whether live numbers are shown from the start on.
    pub(crate) live: bool,
    /// Whether code from a binary form waits until it runs, where Ruby can do that.
    pub(crate) lazy_code: bool,
}

type Own = Setting<Options>;

/// The options that Ruby has besides [`heap_options::TABLE`].
static OWN: [Own; 8] = [
    Own::new(
        "incremental",
        Kept::Switch(|o| &mut o.incremental),
        "0: each collection is done in one stop, whatever slice_us is",
    )
    .more("docs/design/pauses.md"),
    Own::new(
        "malloc",
        Kept::Text {
            wanted: MALLOC_WANTED,
            read: |o, text| {
                o.malloc = match text {
                    "heap" => MallocSource::Heap,
                    "libc" => MallocSource::Libc,
                    _ => return Err(MALLOC_WANTED.into()),
                };
                Ok(())
            },
            show: |o| match o.malloc {
                MallocSource::Heap => "heap".to_owned(),
                MallocSource::Libc => "libc".to_owned(),
            },
        },
        "xmalloc takes memory from the heap, or from libc's malloc",
    )
    .at_start_only(),
    // Handled in `heap_profile`: at the start the value names a file, later it is an
    // order.
    Own::new(
        "profile",
        Kept::Text {
            wanted: "a file",
            read: |_, _| Ok(()),
            show: |_| recorder::state().to_owned(),
        },
        "write the heap profile to this file when the program ends; while it runs: on, off, or a \
         file to write it to now",
    )
    .more("docs/reference/heap-profile.md"),
    Own::new(
        "profile_bytes",
        Kept::Number(Range::bytes(1 << 10, 1 << 30), |o| &mut o.profile_bytes),
        "mean number of bytes between two samples of the profile; in force when sampling begins next",
    ),
    Own::new(
        "profile_command_line",
        Kept::Switch(|o| &mut o.profile_command_line),
        "1: keep the command line in the profile; it may contain secrets",
    ),
    Own::new(
        "live",
        Kept::Switch(|o| &mut o.live),
        "1: provide live numbers for `ashlar top`, without samples",
    )
    .more("docs/reference/heap-profile.md")
    .at_start_only(),
    // Handled in `code_cache`.
    Own::new(
        "code_cache",
        Kept::Text {
            wanted: "a folder",
            read: |_, text| match code_cache::may_be(text) {
                true => Ok(()),
                false => Err("the folder that was chosen at the start".into()),
            },
            show: |_| code_cache::shown().to_owned(),
        },
        "each file that a program requires is compiled once, and its code kept in this folder",
    )
    .more("docs/design/code-cache.md")
    .at_start_only(),
    Own::new(
        "lazy_code",
        Kept::Switch(|o| &mut o.lazy_code),
        "0: methods and blocks of code that was kept in a file, by this cache or by Bootsnap, are loaded \
         with the file and not when they first run",
    )
    .more("docs/design/lazy-code.md")
    .at_start_only(),
];

const MALLOC_WANTED: &str = "heap or libc";

/// More threads than this mark only when the program asks for them: whether they gain
/// anything has not been measured.
const THREADS_DEFAULT_MAX: usize = 4;

/// The pacing of a Ruby that nobody has tuned.
pub(crate) fn default_pace() -> PaceOptions {
    PaceOptions {
        space_overhead_percent: None,
        ..PaceOptions::default()
    }
}

/// The cores that this process may use, by its affinity and control groups.
fn available_cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// The environment variable of an option.
fn variable(name: &str) -> String {
    format!("ASHLAR_{}", name.to_ascii_uppercase())
}

impl Options {
    /// The defaults, with this pacing.
    fn with_pace(pace: PaceOptions) -> Self {
        Self {
            heap: heap_options::Options {
                pace,
                slice_us: Some(1000),
                huge_pages: HugePages::Full,
                parallel: ParallelMarking {
                    threads: available_cores().min(THREADS_DEFAULT_MAX),
                    ..ParallelMarking::default()
                },
                ..heap_options::Options::default()
            },
            incremental: true,
            malloc: MallocSource::Heap,
            profile_bytes: 512 << 10,
            profile_command_line: false,
            live: false,
            lazy_code: true,
        }
    }

    /// Reads the environment through `lookup`.
    pub(crate) fn from_environment(
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        // A variable that is set to the empty text counts as unset.
        let text = |name: &str| lookup(&variable(name)).filter(|text| !text.is_empty());
        let mut pace = tuned(default_pace(), &lookup).pace;
        // What a variable of Ruby's wants as the least nursery is no bound to Ashlar's own largest one.
        if let Some(max_bytes) = text("nursery_max").as_deref().and_then(parse_bytes) {
            let least_bytes = default_pace().nursery_min_bytes;
            pace.nursery_min_bytes = pace.nursery_min_bytes.min(max_bytes.max(least_bytes));
        }
        Self::with_pace(pace).read(&Reader {
            text: &text,
            shown_name: variable,
            is_running: false,
        })
    }

    /// These options, with those changed that `lookup` returns a text for by name.
    pub(crate) fn changed(&self, lookup: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        self.read(&Reader {
            text: &lookup,
            shown_name: str::to_owned,
            is_running: true,
        })
    }

    fn read(&self, reader: &Reader<'_>) -> Result<Self, String> {
        let heap = self.heap.changed(reader)?;
        reader.changed(&OWN, &Self { heap, ..*self })
    }

    /// The options of the heap, as they are in force.
    pub(crate) fn of_heap(&self) -> heap_options::Options {
        heap_options::Options {
            slice_us: self.heap.slice_us.filter(|_| self.incremental),
            ..self.heap
        }
    }

    /// What `GC.config` shows: the options, and how many calls have been refused.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (&'static str, Value)> + '_ {
        let heap = heap_options::TABLE.iter();
        let heap = heap.map(|setting| (setting.name, setting.value(&self.heap)));
        let own = OWN
            .iter()
            .map(|setting| (setting.name, setting.value(self)));
        let refused_calls = Value::Number(Unit::One, refusals::refused_calls() as usize);
        heap.chain(own).chain([("refused_calls", refused_calls)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Options, String> {
        Options::from_environment(|name| {
            let pair = pairs.iter().find(|(key, _)| *key == name);
            pair.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn nothing_set_means_the_defaults() {
        assert_eq!(read(&[]), Ok(Options::with_pace(default_pace())));
        assert_eq!(read(&[("ASHLAR_MALLOC", "")]), read(&[]));
    }

    #[test]
    fn an_impossible_value_is_named_with_its_variable() {
        for (name, value, wanted) in [
            (
                "ASHLAR_SLICE_US",
                "5",
                "0 or a whole number from 100 to 1000000",
            ),
            ("ASHLAR_MALLOC", "mine", "heap or libc"),
            ("ASHLAR_INCREMENTAL", "on", "0 or 1"),
            ("ASHLAR_PROFILE_BYTES", "2GiB", "a size from 1KiB to 1GiB"),
        ] {
            let line = format!("{name}={value}: {wanted} is wanted");
            assert_eq!(read(&[(name, value)]), Err(line));
        }
    }

    #[test]
    fn a_largest_nursery_counts_more_than_the_least_one_of_rubys_variables() {
        let limit = ("RUBY_GC_MALLOC_LIMIT", "64000000");
        let pace = read(&[limit, ("ASHLAR_NURSERY_MAX", "32MiB")])
            .unwrap()
            .heap
            .pace;
        assert_eq!(
            (pace.nursery_min_bytes, pace.nursery_max_bytes),
            (32 << 20, 32 << 20)
        );
        let too_little = read(&[limit, ("ASHLAR_NURSERY_MAX", "512KiB")]);
        let line = "ASHLAR_NURSERY_MAX=512KiB: a size of at least 1MiB is wanted";
        assert_eq!(too_little.unwrap_err(), line);
        let own = read(&[
            ("ASHLAR_NURSERY_MIN", "64MiB"),
            ("ASHLAR_NURSERY_MAX", "32MiB"),
        ]);
        let line = "ASHLAR_NURSERY_MAX=32MiB: a size of at least 64MiB is wanted";
        assert_eq!(own.unwrap_err(), line);
    }

    #[test]
    fn a_change_leaves_the_rest_as_it_is() {
        let options =
            read(&[("ASHLAR_SPACE_OVERHEAD", "50"), ("ASHLAR_STRESS", "verify")]).unwrap();
        let change = |asked: &str, value: &str| {
            options.changed(|name| (name == asked).then(|| value.to_owned()))
        };
        let mut expected = options;
        expected.incremental = false;
        assert_eq!(change("incremental", "0"), Ok(expected));
        assert_eq!(expected.of_heap().slice(), None);
        assert_eq!(change("malloc", "heap"), Ok(options));
        let refused = "malloc=libc: choose it at the start; it cannot change later";
        assert_eq!(change("malloc", "libc").unwrap_err(), refused);
    }

    #[test]
    fn the_reference_has_every_option() {
        use ashlar_heap::document::compare;
        use ashlar_heap::options::document::{rows, Row};
        // The table is in docs/reference.
        let from_the_reference = |document: &str| {
            let path = document.strip_prefix("docs/").expect("a document");
            match path.strip_prefix("reference/") {
                Some(beside) => beside.to_owned(),
                None => format!("../{path}"),
            }
        };
        let options = Options::with_pace(default_pace());
        let row = |row: Row| {
            let changes = if row.at_start_only { "" } else { " *" };
            let default = match row.name {
                "threads" => "cores, at most 4",
                "profile" | "code_cache" => "none",
                _ => &row.default,
            };
            let more = match row.more {
                "" => String::new(),
                more => format!(" ([more]({}))", from_the_reference(more)),
            };
            let Row { wanted, about, .. } = &row;
            let name = variable(row.name);
            format!("| `{name}`{changes} | {default} | {wanted} | {about}{more} |\n")
        };
        let rows = rows(&heap_options::TABLE, &options.heap)
            .into_iter()
            .chain(rows(&OWN, &options));
        let table: String = rows.map(row).collect();
        let begin = "| variable | default | what it may be | |\n| --- | --- | --- | --- |\n";
        compare(
            "docs/reference/options.md",
            begin,
            "\n## Variables of Ruby",
            &table,
        );
    }
}
