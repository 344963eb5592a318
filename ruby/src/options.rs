//! Options from the environment, read once before the first allocation.
//!
//! An impossible value ends the process with a line that names the variable,
//! the value and what is allowed.

use ashlar_heap::os;
use ashlar_heap::pace::PaceOptions;
use ashlar_heap::stress::Stress;

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
    pub(crate) stress: Stress,
    pub(crate) malloc: MallocSource,
}

const MIB: usize = 1 << 20;

/// Percent of live bytes; the bounds of the space overhead.
pub(crate) const SPACE_OVERHEAD_RANGE: std::ops::RangeInclusive<usize> = 10..=1000;

impl Options {
    /// Reads the environment through `lookup`.
    pub(crate) fn read(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let reader = Reader { lookup };
        let default = PaceOptions::default();
        let nursery_min_bytes = reader.bytes(
            "ASHLAR_NURSERY_MIN",
            64 << 10,
            usize::MAX,
            default.nursery_min_bytes,
        )?;
        let nursery_max_bytes = reader.bytes(
            "ASHLAR_NURSERY_MAX",
            nursery_min_bytes,
            usize::MAX,
            default.nursery_max_bytes.max(nursery_min_bytes),
        )?;
        Ok(Self {
            pace: PaceOptions {
                space_overhead_percent: reader.number(
                    "ASHLAR_SPACE_OVERHEAD",
                    SPACE_OVERHEAD_RANGE,
                    default.space_overhead_percent,
                )?,
                heap_min_bytes: reader.bytes(
                    "ASHLAR_HEAP_MIN",
                    0,
                    usize::MAX,
                    default.heap_min_bytes,
                )?,
                nursery_min_bytes,
                nursery_max_bytes,
                memory_limit_bytes: reader.memory_limit()?,
            },
            stress: Stress {
                collect_every: reader.number("ASHLAR_COLLECT_EVERY", 0..=usize::MAX, 0)?,
                verify: reader.switch("ASHLAR_VERIFY")?,
                poison: reader.switch("ASHLAR_POISON")?,
            },
            malloc: reader.malloc()?,
        })
    }
}

struct Reader<F> {
    lookup: F,
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    /// The value of a variable; empty counts as unset.
    fn value(&self, name: &str) -> Option<String> {
        (self.lookup)(name).filter(|value| !value.is_empty())
    }

    fn number(
        &self,
        name: &str,
        allowed: std::ops::RangeInclusive<usize>,
        default: usize,
    ) -> Result<usize, String> {
        let Some(value) = self.value(name) else {
            return Ok(default);
        };
        match value.parse() {
            Ok(number) if allowed.contains(&number) => Ok(number),
            _ if *allowed.end() == usize::MAX => Err(format!(
                "{name}={value}: a whole number of at least {} is wanted",
                allowed.start()
            )),
            _ => Err(format!(
                "{name}={value}: a whole number from {} to {} is wanted",
                allowed.start(),
                allowed.end()
            )),
        }
    }

    fn bytes(&self, name: &str, min: usize, max: usize, default: usize) -> Result<usize, String> {
        let Some(value) = self.value(name) else {
            return Ok(default);
        };
        parse_bytes(&value)
            .filter(|bytes| (min..=max).contains(bytes))
            .ok_or_else(|| {
                format!(
                    "{name}={value}: a size of at least {} KiB is wanted, such as 512MiB",
                    min >> 10
                )
            })
    }

    fn switch(&self, name: &str) -> Result<bool, String> {
        match self.value(name).as_deref() {
            None | Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(value) => Err(format!("{name}={value}: 0 or 1 is wanted")),
        }
    }

    fn malloc(&self) -> Result<MallocSource, String> {
        match self.value("ASHLAR_MALLOC").as_deref() {
            None | Some("heap") => Ok(MallocSource::Heap),
            Some("libc") => Ok(MallocSource::Libc),
            Some(value) => Err(format!("ASHLAR_MALLOC={value}: heap or libc is wanted")),
        }
    }

    fn memory_limit(&self) -> Result<Option<usize>, String> {
        let name = "ASHLAR_MEMORY_LIMIT";
        match self.value(name).as_deref() {
            None | Some("none") => Ok(None),
            Some("auto") => Ok(cgroup_limit_bytes()),
            Some(value) => parse_bytes(value)
                .filter(|&bytes| bytes >= 16 * MIB)
                .map(Some)
                .ok_or_else(|| {
                    format!("{name}={value}: a size of at least 16MiB, auto or none is wanted")
                }),
        }
    }
}

/// Reads `512MiB`, `2GiB`, `65536` and the like.
fn parse_bytes(text: &str) -> Option<usize> {
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
    let limits = groups.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let file = match controllers {
            "" => format!("/sys/fs/cgroup{path}/memory.max"),
            "memory" => format!("/sys/fs/cgroup/memory{path}/memory.limit_in_bytes"),
            _ => return None,
        };
        std::fs::read_to_string(file).ok()?.trim().parse().ok()
    });
    let machine = os::physical_memory_bytes().unwrap_or(usize::MAX);
    limits.min().filter(|&limit: &usize| limit < machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Options, String> {
        Options::read(|name| {
            let pair = pairs.iter().find(|(key, _)| *key == name);
            pair.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn nothing_set_means_the_defaults() {
        let options = read(&[]).unwrap();
        assert_eq!(options.pace, PaceOptions::default());
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
    fn an_impossible_value_is_named_with_what_is_allowed() {
        for (name, value, allowed) in [
            ("ASHLAR_SPACE_OVERHEAD", "banana", "from 10 to 1000"),
            ("ASHLAR_SPACE_OVERHEAD", "5", "from 10 to 1000"),
            ("ASHLAR_MEMORY_LIMIT", "3XB", "auto or none"),
            ("ASHLAR_NURSERY_MIN", "1", "at least 64 KiB"),
            ("ASHLAR_NURSERY_MAX", "64KiB", "at least 2048 KiB"),
            ("ASHLAR_MALLOC", "mine", "heap or libc"),
            ("ASHLAR_VERIFY", "yes", "0 or 1"),
            ("ASHLAR_COLLECT_EVERY", "-1", "at least 0"),
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
    fn an_empty_value_counts_as_unset() {
        assert_eq!(read(&[("ASHLAR_MALLOC", "")]), read(&[]));
    }
}
