//! Options as text: `name=value`, with spaces between.

use std::time::Duration;

use ashlar_heap::{PaceOptions, ParallelMarking, Policy, Stress, THREADS_MAX};

/// Everything that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) pace: PaceOptions,
    pub(crate) stress: Stress,
    pub(crate) parallel: ParallelMarking,
    /// Length of a slice; none when collections are done at once.
    pub(crate) slice: Option<Duration>,
    /// The program calls the write barrier.
    pub(crate) has_barriers: bool,
    /// Where large payloads are placed.
    pub(crate) policy: Policy,
    /// Blocks and states are backed by huge pages.
    pub(crate) huge_pages: bool,
    /// Address space; none to go by the machine.
    pub(crate) reserve_bytes: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            pace: PaceOptions::default(),
            stress: Stress::default(),
            parallel: ParallelMarking {
                threads: 1,
                ..ParallelMarking::default()
            },
            slice: None,
            has_barriers: true,
            policy: Policy::default(),
            huge_pages: false,
            reserve_bytes: None,
        }
    }
}

/// What only `ashlar_heap_new` takes.
const AT_FIRST_ONLY: [&str; 3] = ["barriers", "reserve", "threads"];

impl Options {
    /// These options with those of `text` changed. `is_new` is for a heap that is being
    /// made.
    pub(crate) fn changed(mut self, text: &str, is_new: bool) -> Result<Self, String> {
        for word in text.split_whitespace() {
            let (name, value) = word
                .split_once('=')
                .ok_or_else(|| format!("option {word:?}: give it a value, as in {word}=1"))?;
            if !is_new && AT_FIRST_ONLY.contains(&name) {
                return Err(format!(
                    "{name}={value}: cannot change in a heap that exists; give it to ashlar_heap_new"
                ));
            }
            self.set(name, value)
                .map_err(|allowed| format!("{name}={value}: {allowed}"))?;
        }
        self.checked()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let (pace, stress) = (&mut self.pace, &mut self.stress);
        match name {
            "space_overhead" => {
                pace.space_overhead_percent = match value {
                    "auto" => None,
                    _ => Some(
                        number(value, 10, 1000)
                            .map_err(|_| "must be auto, or a whole number from 10 to 1000")?,
                    ),
                }
            }
            "exchange_rate" => pace.exchange_rate_thousandths = thousandths(value)?,
            "heap_min" => pace.heap_min_bytes = bytes(value, 0)?,
            "heap_init" => pace.heap_init_bytes = bytes(value, 0)?,
            "nursery_min" => pace.nursery_min_bytes = bytes(value, 64 << 10)?,
            "nursery_max" => pace.nursery_max_bytes = bytes(value, 64 << 10)?,
            "memory_limit" => {
                pace.memory_limit_bytes = match value {
                    "none" => None,
                    _ => Some(bytes(value, 16 << 20)?),
                }
            }
            "slice_us" => {
                let us = number(value, 0, 1_000_000)?;
                if (1..100).contains(&us) {
                    return Err("must be 0 or from 100 to 1000000".into());
                }
                self.slice = (us > 0).then(|| Duration::from_micros(us as u64));
            }
            "policy" => self.policy = value.parse()?,
            "huge_pages" => self.huge_pages = number(value, 0, 1)? == 1,
            "threads" => self.parallel.threads = number(value, 1, THREADS_MAX)?,
            "barriers" => self.has_barriers = number(value, 0, 1)? == 1,
            "reserve" => self.reserve_bytes = Some(bytes(value, 16 << 20)?),
            "collect_every" => stress.collect_every = number(value, 0, usize::MAX)?,
            "slice_cells" => stress.slice_cells = number(value, 0, usize::MAX)?,
            "verify" => stress.verify = number(value, 0, 1)? == 1,
            "poison" => stress.poison = number(value, 0, 1)? == 1,
            "no_minor" => stress.no_minor = number(value, 0, 1)? == 1,
            "look_ahead" => stress.look_ahead = number(value, 0, 1)? == 1,
            "move_everything" => stress.move_everything = number(value, 0, 1)? == 1,
            _ => return Err("there is no such option; ashlar.h lists them".into()),
        }
        Ok(())
    }

    fn checked(mut self) -> Result<Self, String> {
        let PaceOptions {
            nursery_min_bytes: min,
            nursery_max_bytes: max,
            ..
        } = self.pace;
        if min > max {
            return Err(format!(
                "nursery_min={min}: must not be more than nursery_max={max}"
            ));
        }
        if !self.has_barriers {
            if self.slice.is_some() || self.stress.slice_cells > 0 {
                return Err("barriers=0: collections in slices need the write barrier".into());
            }
            // Every collection is a full one.
            self.pace.growth_max_bytes = 0;
        }
        Ok(self)
    }
}

fn number(value: &str, min: usize, max: usize) -> Result<usize, String> {
    match value.parse() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ if max == usize::MAX => Err(format!("must be a whole number of at least {min}")),
        _ => Err(format!("must be a whole number from {min} to {max}")),
    }
}

/// A number from 0.1 to 100, with a decimal point if need be, in thousandths.
fn thousandths(value: &str) -> Result<usize, String> {
    match value.parse::<f64>() {
        Ok(number) if (0.1..=100.0).contains(&number) => Ok((number * 1e3).round() as usize),
        _ => Err("must be a number from 0.1 to 100".into()),
    }
}

fn bytes(value: &str, min: usize) -> Result<usize, String> {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match value[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => Some(0),
        "k" | "kb" | "kib" => Some(10),
        "m" | "mb" | "mib" => Some(20),
        "g" | "gb" | "gib" => Some(30),
        "t" | "tb" | "tib" => Some(40),
        _ => None,
    };
    let bytes = shift.and_then(|shift| digits.parse::<usize>().ok()?.checked_mul(1 << shift));
    match bytes {
        Some(bytes) if bytes >= min => Ok(bytes),
        _ => Err(format!(
            "must be a size of at least {min} bytes, as in 64M or 1GiB"
        )),
    }
}
