//! Recorded programs: what they were handed, how long it lived, and what it cost.
//!
//! `scripts/test/record_trace.py` writes them and says how it measures. A trace goes in steps of 1 MiB that the
//! program is handed. In its file are these lines:
//!
//! | line | meaning |
//! | --- | --- |
//! | `minor_ns N`, `major_ns N`, `full_ns N` | CPU time of a collection beside its cells |
//! | `young_cell_ns N`, `old_cell_ns N` | CPU time of each cell that it marks; old ones are in the processor's caches less often |
//! | `other_bytes N` | memory of the process beside its heap |
//! | `shipped N N N N` | collections of the program with the pacing of the day: minor, major and full ones, and the CPU time of their marking in ns |
//! | `step N N` | the next step: the program's CPU time in µs, and bytes that the VM said would last |
//! | `life S S N N N` | what was born in one step and died in a later one (`-`: never): cells, their bytes, bytes of their payloads |

use std::collections::HashMap;

/// What the program is handed in a step.
pub(crate) const STEP_BYTES: f64 = (1 << 20) as f64;

/// What a program does between the collector's work, and what that work costs.
#[derive(Clone, Default)]
pub(crate) struct Trace {
    pub(crate) name: &'static str,
    pub(crate) costs: CollectionCosts,
    pub(crate) other_bytes: f64,
    pub(crate) shipped: Shipped,
    pub(crate) steps: Vec<Step>,
    /// By how much the first collection comes earlier than its nursery says.
    pub(crate) first_ahead_bytes: f64,
}

/// CPU times, as in the lines of the file.
#[derive(Clone, Copy, Default)]
pub(crate) struct CollectionCosts {
    pub(crate) minor_ns: f64,
    pub(crate) major_ns: f64,
    pub(crate) full_ns: f64,
    pub(crate) young_cell_ns: f64,
    pub(crate) old_cell_ns: f64,
}

/// What the recorded program did with the pacing of the day.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shipped {
    pub(crate) collections: f64,
    pub(crate) marking_ns: f64,
}

#[derive(Clone, Default)]
pub(crate) struct Step {
    pub(crate) program_ns: f64,
    pub(crate) lasting_bytes: usize,
    /// What outlived the step in which it was born. All else that the program was handed has died in its step.
    pub(crate) born: Vec<Life>,
}

/// Cells with their payloads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    /// `None`: it lives at the end.
    pub(crate) dies_in_step: Option<usize>,
    pub(crate) bytes: Bytes,
    /// How many collections have marked it while it was young.
    pub(crate) markings: u8,
    /// A major or full collection has found it old: the next one lets it settle.
    pub(crate) is_found: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bytes {
    pub(crate) cells: f64,
    pub(crate) cell_bytes: f64,
    pub(crate) payload_bytes: f64,
}

impl Bytes {
    pub(crate) fn of(lives: &[Life]) -> Self {
        let sum = |part: fn(&Self) -> f64| lives.iter().map(|life| part(&life.bytes)).sum();
        Self {
            cells: sum(|bytes| bytes.cells),
            cell_bytes: sum(|bytes| bytes.cell_bytes),
            payload_bytes: sum(|bytes| bytes.payload_bytes),
        }
    }

    pub(crate) fn all(&self) -> f64 {
        self.cell_bytes + self.payload_bytes
    }
}

impl Trace {
    /// Reads a trace. Panics where the text is none, and says which line.
    pub(crate) fn parse(name: &'static str, text: &str) -> Self {
        let mut trace = Self {
            name,
            ..Self::default()
        };
        let mut sizes = HashMap::new();
        for line in text.lines() {
            let mut words = line.split(' ');
            let kind = words.next().expect("a word");
            let numbers: Vec<Option<f64>> = words.map(|word| word.parse().ok()).collect();
            match (kind, &numbers[..]) {
                ("step", &[Some(program_us), Some(lasting_bytes)]) => trace.steps.push(Step {
                    program_ns: program_us * 1e3,
                    lasting_bytes: lasting_bytes as usize,
                    born: Vec::new(),
                }),
                (
                    "life",
                    &[Some(born), died, Some(cells), Some(cell_bytes), Some(payload_bytes)],
                ) => {
                    trace.steps[born as usize].born.push(Life {
                        dies_in_step: died.map(|step| step as usize),
                        bytes: Bytes {
                            cells,
                            cell_bytes,
                            payload_bytes,
                        },
                        markings: 0,
                        is_found: false,
                    });
                }
                ("shipped", &[Some(minor), Some(major), Some(full), Some(marking_ns)]) => {
                    trace.shipped = Shipped {
                        collections: minor + major + full,
                        marking_ns,
                    };
                }
                (size, &[Some(number)]) => {
                    sizes.insert(size, number);
                }
                _ => panic!("{name}: a line is no line of a trace: {line}"),
            }
        }
        trace.other_bytes = sizes["other_bytes"];
        trace.costs = CollectionCosts {
            minor_ns: sizes["minor_ns"],
            major_ns: sizes["major_ns"],
            full_ns: sizes["full_ns"],
            young_cell_ns: sizes["young_cell_ns"],
            old_cell_ns: sizes["old_cell_ns"],
        };
        trace
    }

    /// The same program on another day: what costs CPU time costs up to a fifth more or less. One day says little about
    /// pacing, because much depends on whether a collection comes just before something large dies, or just after.
    pub(crate) fn on_day(&self, day: u64) -> Self {
        let mut scatter = Scatter(day);
        let mut trace = self.clone();
        let costs = &mut trace.costs;
        for ns in [
            &mut costs.minor_ns,
            &mut costs.major_ns,
            &mut costs.full_ns,
            &mut costs.young_cell_ns,
            &mut costs.old_cell_ns,
        ] {
            *ns *= scatter.between(0.8, 1.2);
        }
        for step in &mut trace.steps {
            step.program_ns *= scatter.between(0.8, 1.2);
        }
        trace.first_ahead_bytes = scatter.between(0.0, STEP_BYTES);
        trace
    }
}

/// Numbers without order that are the same in each run (splitmix64; Steele, Lea and Flood, 2014).
struct Scatter(u64);

impl Scatter {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let unit = ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64;
        low + (high - low) * unit
    }
}
