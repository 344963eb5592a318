//! The `RUBY_GC_*` variables that tune Ruby's default collector: those with a counterpart here are
//! obeyed, and `ruby -w` prints what each of them does.
//!
//! Somebody has tuned a program that comes with such variables: how much it may use before the
//! first collection, and how often it is collected. That has a meaning here, too; variables that
//! describe how the default collector works have none. An impossible value is ignored, as the
//! default collector does, and ashlar's own variables take precedence.

use ashlar_heap::options::{parse_bytes, NURSERY_BYTES_MIN};
use ashlar_heap::{PaceOptions, WIDTHS, WIDTH_COUNT};

/// The pacing that the variables ask for, and a line about each of them that is set.
pub(crate) struct Tuned {
    pub(crate) pace: PaceOptions,
    pub(crate) notes: Vec<String>,
}

/// What a variable does. The functions return a text that says what they have changed, and to what.
enum Effect {
    /// Takes a whole number above 0.
    Size(fn(&mut PaceOptions, usize) -> String),
    /// Takes a number of at least 0.
    Factor(fn(&mut PaceOptions, f64) -> String),
    /// The text says what does the same work here.
    Nothing(&'static str),
}

use Effect::{Factor, Nothing, Size};

/// The bytes that a slot counts for where no width is named.
const SLOT_BYTES: usize = 40;
/// The bytes of a slot in each of the default collector's five heaps.
const DEFAULT_SLOTS_BYTES: [usize; 5] = [40, 80, 160, 320, 640];

const GROWTH: &str = "space_overhead says how far the heap grows";
const FREE_SLOTS: &str = "nursery_min and nursery_max say how much is handed out";
const LIMITS: &str = "limits follow live data";

/// Every variable but `RUBY_GC_HEAP_%d_INIT_SLOTS`.
const VARIABLES: [(&str, Effect); 14] = [
    ("RUBY_GC_HEAP_FREE_SLOTS", Size(free_slots)),
    ("RUBY_GC_HEAP_GROWTH_MAX_SLOTS", Size(growth_slots)),
    ("RUBY_GC_MALLOC_LIMIT", Size(nursery_min)),
    ("RUBY_GC_MALLOC_LIMIT_MAX", Size(nursery_max)),
    ("RUBY_GC_OLDMALLOC_LIMIT", Size(growth_min)),
    ("RUBY_GC_OLDMALLOC_LIMIT_MAX", Size(growth_max)),
    ("RUBY_GC_HEAP_OLDOBJECT_LIMIT_FACTOR", Factor(full_factor)),
    (
        "RUBY_GC_HEAP_REMEMBERED_WB_UNPROTECTED_OBJECTS_LIMIT_RATIO",
        Factor(rescans_ratio),
    ),
    ("RUBY_GC_HEAP_GROWTH_FACTOR", Nothing(GROWTH)),
    ("RUBY_GC_HEAP_FREE_SLOTS_MIN_RATIO", Nothing(FREE_SLOTS)),
    ("RUBY_GC_HEAP_FREE_SLOTS_GOAL_RATIO", Nothing(FREE_SLOTS)),
    ("RUBY_GC_HEAP_FREE_SLOTS_MAX_RATIO", Nothing(FREE_SLOTS)),
    ("RUBY_GC_MALLOC_LIMIT_GROWTH_FACTOR", Nothing(LIMITS)),
    ("RUBY_GC_OLDMALLOC_LIMIT_GROWTH_FACTOR", Nothing(LIMITS)),
];

/// The default collector's free slots after a collection are what the program can use before the
/// next one: here that is the nursery.
fn free_slots(pace: &mut PaceOptions, slots: usize) -> String {
    let wanted_bytes = slots.saturating_mul(SLOT_BYTES);
    nursery_min(pace, wanted_bytes.max(pace.nursery_min_bytes))
}

fn growth_slots(pace: &mut PaceOptions, slots: usize) -> String {
    nursery_max(pace, slots.saturating_mul(SLOT_BYTES))
}

fn nursery_min(pace: &mut PaceOptions, bytes: usize) -> String {
    let min_bytes = bytes.max(NURSERY_BYTES_MIN);
    pace.nursery_min_bytes = min_bytes;
    pace.nursery_max_bytes = pace.nursery_max_bytes.max(min_bytes);
    format!("nursery_min is {min_bytes}")
}

fn nursery_max(pace: &mut PaceOptions, bytes: usize) -> String {
    pace.nursery_max_bytes = bytes.max(pace.nursery_min_bytes);
    format!("nursery_max is {}", pace.nursery_max_bytes)
}

fn growth_min(pace: &mut PaceOptions, bytes: usize) -> String {
    pace.growth_min_bytes = bytes;
    format!("a full collection comes after at least {bytes} more bytes")
}

fn growth_max(pace: &mut PaceOptions, bytes: usize) -> String {
    pace.growth_max_bytes = bytes;
    format!("a full collection comes after at most {bytes} more bytes")
}

fn full_factor(pace: &mut PaceOptions, factor: f64) -> String {
    if factor < 1.0 {
        pace.growth_max_bytes = 0;
        return "every collection is a full one".to_owned();
    }
    let percent = ((factor - 1.0) * 100.0).round().clamp(10.0, 1000.0);
    pace.space_overhead_percent = Some(percent as usize);
    format!("space_overhead is {percent}")
}

fn rescans_ratio(pace: &mut PaceOptions, ratio: f64) -> String {
    pace.rescans_max_millionths = Some((ratio * 1e6).round() as usize);
    format!("a full collection comes when {ratio} of the old objects have no write barrier")
}

/// Reads the variables through `lookup`.
pub(crate) fn tuned(pace: PaceOptions, lookup: impl Fn(&str) -> Option<String>) -> Tuned {
    let mut tuned = Tuned {
        pace,
        notes: Vec::new(),
    };
    let set = |name: &str| lookup(name).filter(|value| !value.is_empty());
    tuned.read_first_slots(set);
    for (name, effect) in &VARIABLES {
        if let Some(value) = set(name) {
            let note = effect.apply(&mut tuned.pace, &value);
            tuned.note(name, &value, note);
        }
    }
    tuned
}

/// Lines about what Ruby's variables asked for, beyond the `untuned` pacing, and Ashlar's own have decided otherwise.
pub(crate) fn overruled(
    untuned: &PaceOptions,
    asked: &PaceOptions,
    in_force: &PaceOptions,
) -> Vec<String> {
    type Field = fn(&PaceOptions) -> usize;
    const FIELDS: [(&str, Field); 4] = [
        ("nursery_min", |pace| pace.nursery_min_bytes),
        ("nursery_max", |pace| pace.nursery_max_bytes),
        ("heap_init", |pace| pace.heap_init_bytes),
        ("space_overhead", |pace| {
            pace.space_overhead_percent.unwrap_or(0)
        }),
    ];
    let mut lines = Vec::new();
    for (name, field) in FIELDS {
        if field(asked) != field(untuned) && field(asked) != field(in_force) {
            let value = match (name, field(in_force)) {
                ("space_overhead", 0) => "auto".to_owned(),
                (_, value) => value.to_string(),
            };
            lines.push(format!(
                "{name} is {value}, as the variables of Ashlar say, which count more"
            ));
        }
    }
    let rate = in_force.exchange_rate_thousandths;
    if asked.space_overhead_percent.is_some()
        && in_force.space_overhead_percent.is_some()
        && rate != untuned.exchange_rate_thousandths
    {
        lines
            .push("exchange_rate does nothing beside a space_overhead that is a number".to_owned());
    }
    lines
}

impl Effect {
    fn apply(&self, pace: &mut PaceOptions, value: &str) -> Result<String, String> {
        match self {
            Self::Size(change) => Ok(change(pace, size(value)?)),
            Self::Factor(change) => Ok(change(pace, factor(value)?)),
            Self::Nothing(instead) => Err((*instead).to_owned()),
        }
    }
}

impl Tuned {
    fn note(&mut self, name: &str, value: &str, note: Result<String, String>) {
        self.notes.push(match note {
            Ok(effect) => format!("{name}={value}: {effect}"),
            Err(reason) => format!("{name}={value} is ignored: {reason}"),
        });
    }

    /// Reads `RUBY_GC_HEAP_%d_INIT_SLOTS`. If only heaps are named that the default collector has,
    /// its slots are meant; higher numbers are heaps of `GC.stat_heap` here.
    fn read_first_slots(&mut self, set: impl Fn(&str) -> Option<String>) {
        let values: [Option<String>; WIDTH_COUNT] =
            std::array::from_fn(|index| set(&format!("RUBY_GC_HEAP_{index}_INIT_SLOTS")));
        let is_default = values[DEFAULT_SLOTS_BYTES.len()..]
            .iter()
            .all(Option::is_none);
        for (index, value) in values.into_iter().enumerate() {
            let Some(value) = value else { continue };
            let slot_bytes = if is_default {
                DEFAULT_SLOTS_BYTES[index]
            } else {
                usize::from(WIDTHS[index])
            };
            let note = size(&value).map(|slots| {
                let heap_init_bytes = &mut self.pace.heap_init_bytes;
                *heap_init_bytes = heap_init_bytes.saturating_add(slots.saturating_mul(slot_bytes));
                format!("{slot_bytes} bytes each, so far heap_init is {heap_init_bytes}")
            });
            self.note(&format!("RUBY_GC_HEAP_{index}_INIT_SLOTS"), &value, note);
        }
    }
}

fn size(value: &str) -> Result<usize, String> {
    parse_bytes(value)
        .filter(|&size| size > 0)
        .ok_or_else(|| "a whole number above 0 is wanted".to_owned())
}

fn factor(value: &str) -> Result<f64, String> {
    let factor = value.parse::<f64>().ok();
    factor
        .filter(|factor| factor.is_finite() && *factor >= 0.0)
        .ok_or_else(|| "a number of at least 0 is wanted".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Tuned {
        tuned(PaceOptions::default(), |name| {
            let pair = pairs.iter().find(|(key, _)| *key == name);
            pair.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn nothing_set_changes_nothing_and_says_nothing() {
        let tuned = read(&[("RUBY_GC_MALLOC_LIMIT", ""), ("RUBY_GC_LIBRARY", "ashlar")]);
        assert_eq!(tuned.pace, PaceOptions::default());
        assert!(tuned.notes.is_empty());
    }

    #[test]
    fn first_slots_add_up_in_the_slots_of_the_default_collector() {
        let tuned = read(&[
            ("RUBY_GC_HEAP_0_INIT_SLOTS", "1000"),
            ("RUBY_GC_HEAP_4_INIT_SLOTS", "10"),
        ]);
        assert_eq!(tuned.pace.heap_init_bytes, 40_000 + 6400);
        assert_eq!(
            tuned.notes[1],
            "RUBY_GC_HEAP_4_INIT_SLOTS=10: 640 bytes each, so far heap_init is 46400"
        );
    }

    #[test]
    fn first_slots_of_a_heap_that_only_ashlar_has_mean_its_widths() {
        let tuned = read(&[
            ("RUBY_GC_HEAP_1_INIT_SLOTS", "1000"),
            ("RUBY_GC_HEAP_23_INIT_SLOTS", "10"),
        ]);
        assert_eq!(tuned.pace.heap_init_bytes, 40_000 + 10_240);
    }

    #[test]
    fn limits_bound_the_nursery_and_the_growth() {
        let pace = read(&[
            ("RUBY_GC_MALLOC_LIMIT", "60000000"),
            ("RUBY_GC_MALLOC_LIMIT_MAX", "160m"),
            ("RUBY_GC_OLDMALLOC_LIMIT", "1000"),
            ("RUBY_GC_OLDMALLOC_LIMIT_MAX", "2000"),
        ])
        .pace;
        assert_eq!(pace.nursery_min_bytes, 60_000_000);
        assert_eq!(pace.nursery_max_bytes, 160 << 20);
        assert_eq!((pace.growth_min_bytes, pace.growth_max_bytes), (1000, 2000));
    }

    #[test]
    fn the_nursery_keeps_its_bounds_in_order() {
        let pace = read(&[("RUBY_GC_HEAP_FREE_SLOTS", "1000000")]).pace;
        assert_eq!(pace.nursery_min_bytes, 40_000_000);
        assert_eq!(pace.nursery_max_bytes, 40_000_000);
        let pace = read(&[
            ("RUBY_GC_HEAP_FREE_SLOTS", "1"),
            ("RUBY_GC_HEAP_GROWTH_MAX_SLOTS", "1"),
        ])
        .pace;
        let min_bytes = PaceOptions::default().nursery_min_bytes;
        assert_eq!(pace.nursery_min_bytes, min_bytes);
        assert_eq!(pace.nursery_max_bytes, min_bytes);
    }

    #[test]
    fn the_factor_of_old_objects_is_the_space_overhead() {
        let overhead = |factor| {
            read(&[("RUBY_GC_HEAP_OLDOBJECT_LIMIT_FACTOR", factor)])
                .pace
                .space_overhead_percent
        };
        assert_eq!(overhead("2.0"), Some(100));
        assert_eq!(overhead("1.0"), Some(10));
        let never_minor = read(&[("RUBY_GC_HEAP_OLDOBJECT_LIMIT_FACTOR", "0.9")]).pace;
        assert_eq!(never_minor.growth_max_bytes, 0);
    }

    #[test]
    fn what_ashlars_own_variables_decide_otherwise_is_told() {
        let untuned = PaceOptions {
            space_overhead_percent: None,
            ..PaceOptions::default()
        };
        let asked = read(&[
            ("RUBY_GC_MALLOC_LIMIT", "8000000"),
            ("RUBY_GC_HEAP_OLDOBJECT_LIMIT_FACTOR", "2.0"),
        ])
        .pace;
        assert!(overruled(&untuned, &asked, &asked).is_empty());
        let in_force = PaceOptions {
            nursery_min_bytes: 2 << 20,
            exchange_rate_thousandths: 1000,
            ..asked
        };
        assert_eq!(
            overruled(&untuned, &asked, &in_force),
            [
                "nursery_min is 2097152, as the variables of Ashlar say, which count more",
                "exchange_rate does nothing beside a space_overhead that is a number",
            ]
        );
        // What no variable of Ruby's asked for is nobody's surprise.
        assert!(overruled(&untuned, &untuned, &in_force).is_empty());
    }

    #[test]
    fn what_has_no_counterpart_or_cannot_be_is_named_and_ignored() {
        let tuned = read(&[
            ("RUBY_GC_HEAP_GROWTH_FACTOR", "2.0"),
            ("RUBY_GC_MALLOC_LIMIT", "0"),
            ("RUBY_GC_HEAP_OLDOBJECT_LIMIT_FACTOR", "banana"),
        ]);
        assert_eq!(tuned.pace, PaceOptions::default());
        assert_eq!(
            tuned.notes,
            [
                "RUBY_GC_MALLOC_LIMIT=0 is ignored: a whole number above 0 is wanted",
                "RUBY_GC_HEAP_OLDOBJECT_LIMIT_FACTOR=banana is ignored: a number of at least 0 is wanted",
                "RUBY_GC_HEAP_GROWTH_FACTOR=2.0 is ignored: space_overhead says how far the heap grows",
            ]
        );
    }
}
