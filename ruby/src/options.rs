//! Options: from the environment, read once before the first allocation, and
//! from `GC.config` while Ruby runs. The variables of Ruby's default collector
//! change what they begin with ([`crate::ruby_gc_variables`]).
//!
//! An option has one name, `space_overhead`; its variable is
//! `ASHLAR_SPACE_OVERHEAD`. An impossible value is answered by a line that names
//! the option, the value and what is allowed; at the start it ends the process,
//! and later nothing changes.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use ashlar_heap::refusals::Refusal;
use ashlar_heap::{os, PaceOptions, ParallelMarking, Policy, Stress, THREADS_MAX};

use crate::ruby_gc_variables::tuned;
use ashlar_heap::driver::PauseOptions;

/// Where `xmalloc` gets its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MallocSource {
    /// The heap.
    Heap,
    /// The C library, or whatever allocator is preloaded.
    Libc,
}

/// Everything that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) pace: PaceOptions,
    pub(crate) pauses: PauseOptions,
    pub(crate) parallel: ParallelMarking,
    pub(crate) stress: Stress,
    pub(crate) malloc: MallocSource,
    pub(crate) policy: Policy,
    /// Blocks and states are backed by huge pages.
    pub(crate) huge_pages: bool,
    /// Calls that the system is made to refuse.
    pub(crate) refuse: Option<Refusal>,
}

const MIB: usize = 1 << 20;

/// Percent of live bytes; the bounds of the space overhead.
const SPACE_OVERHEAD_RANGE: RangeInclusive<usize> = 10..=1000;
/// Percent of memory for one percent of CPU time.
const EXCHANGE_RATE_RANGE: RangeInclusive<f64> = 0.1..=100.0;
/// Microseconds; a slice below the minimum would do little but begin and end.
const SLICE_US_RANGE: RangeInclusive<usize> = 100..=1_000_000;
/// Bytes; a smaller nursery would be all collections.
pub(crate) const NURSERY_BYTES_MIN: usize = 64 << 10;
const MEMORY_LIMIT_BYTES_MIN: usize = 16 * MIB;
/// More threads than this mark only when somebody asks for them: what they gain has not
/// been measured.
const THREADS_DEFAULT_MAX: usize = 4;

/// Pacing of a Ruby that nobody has tuned.
pub(crate) fn default_pace() -> PaceOptions {
    PaceOptions {
        space_overhead_percent: None,
        ..PaceOptions::default()
    }
}

/// Cores that this process may use, as its affinity and control groups have it.
fn available_cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}

impl Options {
    /// Reads the environment through `lookup`.
    pub(crate) fn from_environment(
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let default = Self {
            pace: tuned(default_pace(), &lookup).pace,
            pauses: PauseOptions::default(),
            parallel: ParallelMarking {
                threads: available_cores().min(THREADS_DEFAULT_MAX),
                ..ParallelMarking::default()
            },
            stress: Stress::default(),
            malloc: MallocSource::Heap,
            policy: Policy::default(),
            huge_pages: false,
            refuse: None,
        };
        default.read(&Reader {
            // A variable that is set to nothing counts as unset.
            value: &|name| lookup(&variable(name)).filter(|value| !value.is_empty()),
            shown_name: variable,
        })
    }

    /// These options with those that `lookup` knows changed, by their names.
    pub(crate) fn changed(&self, lookup: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let changed = self.read(&Reader {
            value: &lookup,
            shown_name: str::to_owned,
        })?;
        if changed.malloc != self.malloc {
            return Err(format!(
                "malloc={}: cannot change while Ruby runs; start it with ASHLAR_MALLOC={0}",
                changed.malloc.name()
            ));
        }
        Ok(changed)
    }

    fn read(&self, reader: &Reader<'_>) -> Result<Self, String> {
        let (pace, stress) = (&self.pace, &self.stress);
        let nursery_min_bytes =
            reader.bytes("nursery_min", NURSERY_BYTES_MIN, pace.nursery_min_bytes)?;
        let nursery_max_bytes = reader.bytes(
            "nursery_max",
            nursery_min_bytes,
            pace.nursery_max_bytes.max(nursery_min_bytes),
        )?;
        Ok(Self {
            pace: PaceOptions {
                space_overhead_percent: reader.space_overhead(pace.space_overhead_percent)?,
                exchange_rate_thousandths: reader.thousandths(
                    "exchange_rate",
                    EXCHANGE_RATE_RANGE,
                    pace.exchange_rate_thousandths,
                )?,
                heap_min_bytes: reader.bytes("heap_min", 0, pace.heap_min_bytes)?,
                heap_init_bytes: reader.bytes("heap_init", 0, pace.heap_init_bytes)?,
                nursery_min_bytes,
                nursery_max_bytes,
                memory_limit_bytes: reader.memory_limit(pace.memory_limit_bytes)?,
                ..*pace
            },
            pauses: PauseOptions {
                incremental: reader.switch("incremental", self.pauses.incremental)?,
                slice_time: reader.microseconds("slice_us", self.pauses.slice_time)?,
            },
            parallel: ParallelMarking {
                threads: reader.number("threads", 1..=THREADS_MAX, self.parallel.threads)?,
                cells_min: reader.number(
                    "parallel_cells",
                    0..=usize::MAX,
                    self.parallel.cells_min,
                )?,
            },
            stress: Stress {
                collect_every: reader.number(
                    "collect_every",
                    0..=usize::MAX,
                    stress.collect_every,
                )?,
                slice_cells: reader.number("slice_cells", 0..=usize::MAX, stress.slice_cells)?,
                verify: reader.switch("verify", stress.verify)?,
                poison: reader.switch("poison", stress.poison)?,
                no_minor: reader.switch("no_minor", stress.no_minor)?,
                look_ahead: reader.switch("look_ahead", stress.look_ahead)?,
                move_everything: reader.switch("move_everything", stress.move_everything)?,
                ..Stress::default()
            },
            malloc: reader.malloc(self.malloc)?,
            policy: reader.policy(self.policy)?,
            huge_pages: reader.switch("huge_pages", self.huge_pages)?,
            refuse: reader.refusal(self.refuse)?,
        })
    }
}

impl MallocSource {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Heap => "heap",
            Self::Libc => "libc",
        }
    }
}

/// Reads options; each comes as text by its name, or not at all, which leaves
/// it as it is.
struct Reader<'a> {
    value: &'a dyn Fn(&str) -> Option<String>,
    /// The name that a message calls an option by.
    shown_name: fn(&str) -> String,
}

/// The environment variable of an option.
fn variable(name: &str) -> String {
    format!("ASHLAR_{}", name.to_ascii_uppercase())
}

impl Reader<'_> {
    fn refuse<T>(&self, name: &str, value: &str, wanted: &str) -> Result<T, String> {
        let name = (self.shown_name)(name);
        Err(format!("{name}={value}: {wanted} is wanted"))
    }

    fn number(
        &self,
        name: &str,
        allowed: RangeInclusive<usize>,
        current: usize,
    ) -> Result<usize, String> {
        let Some(value) = (self.value)(name) else {
            return Ok(current);
        };
        match value.parse() {
            Ok(number) if allowed.contains(&number) => Ok(number),
            _ if *allowed.end() == usize::MAX => {
                let wanted = format!("a whole number of at least {}", allowed.start());
                self.refuse(name, &value, &wanted)
            }
            _ => {
                let wanted = format!(
                    "a whole number from {} to {}",
                    allowed.start(),
                    allowed.end()
                );
                self.refuse(name, &value, &wanted)
            }
        }
    }

    fn space_overhead(&self, current: Option<usize>) -> Result<Option<usize>, String> {
        let name = "space_overhead";
        match (self.value)(name).as_deref() {
            None => Ok(current),
            Some("auto") => Ok(None),
            Some(value) => match value.parse() {
                Ok(percent) if SPACE_OVERHEAD_RANGE.contains(&percent) => Ok(Some(percent)),
                _ => {
                    let (min, max) = SPACE_OVERHEAD_RANGE.into_inner();
                    self.refuse(
                        name,
                        value,
                        &format!("auto, or a whole number from {min} to {max},"),
                    )
                }
            },
        }
    }

    /// A number with a decimal point, in thousandths.
    fn thousandths(
        &self,
        name: &str,
        allowed: RangeInclusive<f64>,
        current: usize,
    ) -> Result<usize, String> {
        let Some(value) = (self.value)(name) else {
            return Ok(current);
        };
        match value.parse::<f64>() {
            Ok(number) if allowed.contains(&number) => Ok((number * 1e3).round() as usize),
            _ => {
                let wanted = format!("a number from {} to {}", allowed.start(), allowed.end());
                self.refuse(name, &value, &wanted)
            }
        }
    }

    fn microseconds(&self, name: &str, current: Duration) -> Result<Duration, String> {
        let current_us = current.as_micros() as usize;
        let microseconds = self.number(name, SLICE_US_RANGE, current_us)?;
        Ok(Duration::from_micros(microseconds as u64))
    }

    fn bytes(&self, name: &str, min: usize, current: usize) -> Result<usize, String> {
        let Some(value) = (self.value)(name) else {
            return Ok(current);
        };
        match parse_bytes(&value).filter(|&bytes| bytes >= min) {
            Some(bytes) => Ok(bytes),
            None => {
                let wanted = format!("a size of at least {} KiB, such as 512MiB,", min >> 10);
                self.refuse(name, &value, &wanted)
            }
        }
    }

    fn switch(&self, name: &str, current: bool) -> Result<bool, String> {
        match (self.value)(name).as_deref() {
            None => Ok(current),
            Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(value) => self.refuse(name, value, "0 or 1"),
        }
    }

    fn malloc(&self, current: MallocSource) -> Result<MallocSource, String> {
        match (self.value)("malloc").as_deref() {
            None => Ok(current),
            Some("heap") => Ok(MallocSource::Heap),
            Some("libc") => Ok(MallocSource::Libc),
            Some(value) => self.refuse("malloc", value, "heap or libc"),
        }
    }

    fn policy(&self, current: Policy) -> Result<Policy, String> {
        let Some(value) = (self.value)("policy") else {
            return Ok(current);
        };
        value
            .parse()
            .or_else(|_| self.refuse("policy", &value, Policy::ALLOWED))
    }

    fn refusal(&self, current: Option<Refusal>) -> Result<Option<Refusal>, String> {
        match (self.value)("refuse").as_deref() {
            None => Ok(current),
            Some("none") => Ok(None),
            Some(value) => match value.parse() {
                Ok(refusal) => Ok(Some(refusal)),
                Err(_) => self.refuse("refuse", value, Refusal::ALLOWED),
            },
        }
    }

    fn memory_limit(&self, current: Option<usize>) -> Result<Option<usize>, String> {
        let name = "memory_limit";
        match (self.value)(name).as_deref() {
            None => Ok(current),
            Some("none") => Ok(None),
            Some("auto") => Ok(cgroup_limit_bytes()),
            Some(value) => match parse_bytes(value) {
                Some(bytes) if bytes >= MEMORY_LIMIT_BYTES_MIN => Ok(Some(bytes)),
                _ => self.refuse(name, value, "a size of at least 16MiB, auto or none"),
            },
        }
    }
}

/// Reads `512MiB`, `2GiB`, `65536` and the like.
pub(crate) fn parse_bytes(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => MIB,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return None,
    };
    digits.parse::<usize>().ok()?.checked_mul(unit)
}

/// The memory limit of this process's control group (version 2, then 1), when
/// it has one below the machine's memory.
fn cgroup_limit_bytes() -> Option<usize> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let machine = os::physical_memory_bytes().unwrap_or(usize::MAX);
    lowest_group_limit_bytes(&groups, Path::new("/sys/fs/cgroup"))
        .filter(|&limit: &usize| limit < machine)
}

/// The lowest limit of the groups that `groups` names, and of those above them:
/// all are in force. In a container the group may be mounted as the topmost one,
/// whatever its name outside.
fn lowest_group_limit_bytes(groups: &str, mount: &Path) -> Option<usize> {
    let limits = groups.lines().flat_map(|line| {
        let (controllers, path) = line
            .split_once(':')
            .and_then(|(_, rest)| rest.split_once(':'))
            .unwrap_or(("none", ""));
        let (root, file) = match controllers {
            "" => (mount.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (mount.join("memory"), "memory.limit_in_bytes")
            }
            _ => return Vec::new(),
        };
        let group = Path::new(path.trim_start_matches('/'));
        let read = |group: &Path| {
            let text = std::fs::read_to_string(root.join(group).join(file)).ok()?;
            text.trim().parse::<usize>().ok()
        };
        group.ancestors().filter_map(read).collect()
    });
    limits.min()
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
        let options = read(&[]).unwrap();
        assert_eq!(options.pace, default_pace());
        assert_eq!(options.pauses, PauseOptions::default());
        assert_eq!(options.malloc, MallocSource::Heap);
    }

    #[test]
    fn sizes_have_units() {
        let options = read(&[("ASHLAR_MEMORY_LIMIT", "512MiB"), ("ASHLAR_HEAP_MIN", "4k")]);
        let pace = options.unwrap().pace;
        assert_eq!(pace.memory_limit_bytes, Some(512 * MIB));
        assert_eq!(pace.heap_min_bytes, 4096);
    }

    #[test]
    fn variables_of_the_default_collector_give_way_to_ashlars_own() {
        let malloc_limit = ("RUBY_GC_MALLOC_LIMIT", "60m");
        let pace = read(&[malloc_limit]).unwrap().pace;
        assert_eq!(pace.nursery_min_bytes, 60 * MIB);
        let pace = read(&[malloc_limit, ("ASHLAR_NURSERY_MIN", "2MiB")])
            .unwrap()
            .pace;
        assert_eq!(pace.nursery_min_bytes, 2 * MIB);
    }

    #[test]
    fn an_impossible_value_is_named_with_what_is_allowed() {
        let nursery_min_bytes = PaceOptions::default().nursery_min_bytes;
        let nursery_min = format!("at least {} KiB", nursery_min_bytes >> 10);
        for (name, value, allowed) in [
            (
                "ASHLAR_SPACE_OVERHEAD",
                "banana",
                "auto, or a whole number from 10 to 1000",
            ),
            ("ASHLAR_EXCHANGE_RATE", "0", "a number from 0.1 to 100"),
            ("ASHLAR_EXCHANGE_RATE", "NaN", "a number from 0.1 to 100"),
            ("ASHLAR_SPACE_OVERHEAD", "5", "from 10 to 1000"),
            ("ASHLAR_MEMORY_LIMIT", "3XB", "auto or none"),
            ("ASHLAR_NURSERY_MIN", "1", "at least 64 KiB"),
            ("ASHLAR_NURSERY_MAX", "64KiB", &nursery_min),
            ("ASHLAR_MALLOC", "mine", "heap or libc"),
            ("ASHLAR_VERIFY", "yes", "0 or 1"),
            ("ASHLAR_INCREMENTAL", "on", "0 or 1"),
            ("ASHLAR_SLICE_US", "5", "from 100 to 1000000"),
            ("ASHLAR_COLLECT_EVERY", "-1", "at least 0"),
            ("ASHLAR_THREADS", "0", "from 1 to 64"),
            ("ASHLAR_THREADS", "all", "from 1 to 64"),
            ("ASHLAR_PARALLEL_CELLS", "few", "at least 0"),
            ("ASHLAR_REFUSE", "mmap", "such as mprotect:5"),
        ] {
            let message = read(&[(name, value)]).unwrap_err();
            assert!(
                message.starts_with(&format!("{name}={value}: ")),
                "{message}"
            );
            assert!(message.contains(allowed), "{message}");
        }
    }

    #[test]
    fn a_change_leaves_the_rest_as_it_is() {
        let options = read(&[("ASHLAR_SPACE_OVERHEAD", "50"), ("ASHLAR_VERIFY", "1")]).unwrap();
        let changed = options
            .changed(|name| (name == "nursery_min").then(|| "64MiB".to_owned()))
            .unwrap();
        assert_eq!(changed.pace.nursery_min_bytes, 64 * MIB);
        assert_eq!(changed.pace.nursery_max_bytes, 64 * MIB);
        assert_eq!(changed.pace.space_overhead_percent, Some(50));
        assert_eq!(changed.stress, options.stress);
    }

    #[test]
    fn a_change_that_cannot_be_is_refused_by_the_name_it_was_given() {
        let options = read(&[]).unwrap();
        for (name, value, message) in [
            (
                "space_overhead",
                "5",
                "space_overhead=5: auto, or a whole number from 10 to 1000, is wanted",
            ),
            ("verify", "", "verify=: 0 or 1 is wanted"),
            (
                "policy",
                "worst-fit",
                "policy=worst-fit: first-fit, next-fit, best-fit or segregated-fit is wanted",
            ),
            (
                "malloc",
                "libc",
                "malloc=libc: cannot change while Ruby runs; start it with ASHLAR_MALLOC=libc",
            ),
        ] {
            let changed = options.changed(|asked| (asked == name).then(|| value.to_owned()));
            assert_eq!(changed.unwrap_err(), message);
        }
    }

    #[test]
    fn the_lowest_limit_among_a_group_and_those_above_it_is_in_force() {
        let mount = std::env::temp_dir().join(format!("ashlar-groups-{}", std::process::id()));
        let write = |file: &str, text: &str| {
            let path = mount.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("a/memory.max", "700\n");
        write("a/b/memory.max", "max\n");
        write("memory/memory.limit_in_bytes", "900\n");
        let limit = |groups: &str| lowest_group_limit_bytes(groups, &mount);
        assert_eq!(limit("0::/a/b\n"), Some(700));
        assert_eq!(limit("0::/\n"), None);
        assert_eq!(limit("9:cpu:/a\n4:memory:/elsewhere/name\n"), Some(900));
        assert_eq!(limit("4:cpu,memory:/\n0::/a\n"), Some(700));
        assert_eq!(limit("nonsense"), None);
        std::fs::remove_dir_all(&mount).unwrap();
    }

    #[test]
    fn an_empty_value_counts_as_unset() {
        assert_eq!(read(&[("ASHLAR_MALLOC", "")]), read(&[]));
    }
}
