//! The language in which tests and fuzzers talk to a heap: what a program may
//! do to it, one operation at a time.

use ashlar_heap::{Evacuation, ParallelMarking, Request, Scope, Stress};

use crate::toy_vm::Wishes;

/// One step of a program. Numbers called `object`, `parent` and so on choose
/// something that exists, whatever their value, so that every sequence of
/// operations means something and stays meaningful when a part is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Allocates an object and makes it a root.
    Allocate {
        bytes: u16,
        references: u8,
        weak: u8,
        protected: bool,
        cache: u8,
        root: u8,
    },
    /// Allocates many objects of one size; every `keep_every`-th is put into a
    /// list whose head becomes a root.
    Burst {
        bytes: u16,
        objects: u16,
        keep_every: u8,
        root: u8,
    },
    /// Stores a reference, with the barrier where the parent needs one.
    Store { parent: u16, slot: u8, child: u16 },
    /// Stores a reference as [`Op::Store`] does, with a slice of `cells` cells, or a whole
    /// collection when `cells` is 0, between the barrier and the store: the program's own slice
    /// or collection, or one of others while the program waits.
    StoreLate {
        parent: u16,
        slot: u8,
        child: u16,
        scope: Option<Scope>,
        cells: u16,
        by_others: bool,
    },
    /// Stores into every slot and runs the barrier for all of them at once.
    StoreAll { parent: u16, children: u16 },
    /// Makes an object a root, and stores something new into the same slot of it `times` times,
    /// with a minor collection after each store, or a slice of `cells` cells.
    Rewrite {
        parent: u16,
        slot: u8,
        times: u8,
        cells: u16,
    },
    /// Empties a slot.
    Clear { parent: u16, slot: u8 },
    /// Gives up the barrier of an object.
    Unprotect { object: u16 },
    /// Makes a reachable object a root as well.
    Root { object: u16, root: u8 },
    /// Forgets a root.
    DropRoot { root: u8 },
    /// Makes a word an ambiguous root.
    AmbiguousRoot { word: u8, aim: Aim },
    /// Sets or changes the size of an object's payload.
    SetPayload { object: u16, bytes: u32 },
    /// Frees an object's payload.
    DropPayload { object: u16 },
    /// Asks which cell a word refers to.
    Lookup { aim: Aim },
    /// Collects.
    Collect(Request),
    /// Collects and moves cells.
    Compact {
        scope: Option<Scope>,
        evacuation: Evacuation,
        wishes: Wishes,
    },
    /// Does a part of a collection, or begins one.
    Slice { scope: Option<Scope>, cells: u16 },
    /// Collects in slices of `cells` cells from now on whenever a collection is due; 0 turns that
    /// off.
    CollectInSlices { cells: u16 },
    /// Has slices sweep, too.
    SweepInSlices,
    /// Moves references within an object.
    Shift { object: u16 },
    /// Has the marking that is going on begin again.
    RestartMarking,
    /// Sweeps what is unswept.
    Sweep,
    /// Turns stress switches on and off.
    Stress(Stress),
    /// Ends an allocation cache and makes a new one in its place.
    RenewCache { cache: u8 },
    /// Gives the pages of empty blocks back.
    ReleaseEmptyBlocks,
    /// Does what a forked child does; `caches` says whether the cache of payloads is flushed,
    /// too.
    Inherit { caches: bool },
    /// Reports memory owned elsewhere.
    NoteElsewhere { bytes: i32 },
    /// Chooses how many threads mark.
    Parallel(ParallelMarking),
    /// Ends the threads that help in marking.
    StopHelpers,
    /// Collects in full and lets all that lives settle.
    SettleAll,
    /// `kib` KiB more of what the program has taken will last.
    Last { kib: u16 },
    /// Sets the nursery, and so how often collections are due.
    Pace { nursery_kib: u8 },
}

/// A word that may or may not be the address of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// The start of the `n`-th cell, reachable or not, of those that the program was given and
    /// that have not been freed, plus `offset`.
    Object { n: u16, offset: u8 },
    /// Anywhere in the region.
    Region { offset: u32 },
    /// Anywhere.
    Anywhere { word: u64 },
}

impl Op {
    /// The operation that these four numbers mean.
    pub fn decode(code: u8, a: u8, b: u16, c: u16) -> Self {
        let (b_high, c_low) = ((b >> 8) as u8, c as usize & 0xff);
        match code {
            0..=59 => Self::Allocate {
                // Mostly small, as in life; a few too large for any width.
                bytes: if a & 7 == 0 { b % 1100 } else { b % 200 },
                references: c as u8 & 15,
                weak: (c >> 4) as u8 & 3,
                protected: a & 24 != 0,
                cache: (c >> 6) as u8,
                root: (c >> 8) as u8,
            },
            60..=75 => Self::Burst {
                bytes: if a & 3 == 0 { c % 1025 } else { c % 129 },
                objects: b % if cfg!(miri) { 25 } else { 2500 },
                keep_every: a >> 2,
                root: b_high,
            },
            76..=78 => Self::StoreLate {
                parent: b,
                slot: a,
                child: c,
                scope: scope(b ^ c >> 3),
                cells: if (b >> 2 ^ c) & 1 == 0 {
                    0
                } else {
                    slice_cells(b ^ c)
                },
                by_others: (b >> 3 ^ c >> 1) & 1 == 0,
            },
            79..=81 => Self::Rewrite {
                parent: b,
                slot: a >> 3,
                times: 3 + (a & 7),
                cells: if c & 1 == 0 { 0 } else { slice_cells(c >> 1) },
            },
            82..=119 => Self::Store {
                parent: b,
                slot: a,
                child: c,
            },
            120..=125 => Self::StoreAll {
                parent: b,
                children: c,
            },
            126..=132 => Self::Clear { parent: b, slot: a },
            133..=135 => Self::Shift { object: b },
            136..=140 => Self::Unprotect { object: b },
            141..=150 => Self::Root { object: b, root: a },
            151..=158 => Self::DropRoot { root: a },
            159..=164 => Self::AmbiguousRoot {
                word: a,
                aim: Aim::decode(a >> 2, b, c),
            },
            165..=190 => Self::SetPayload {
                object: b,
                bytes: payload_bytes(a, c),
            },
            191..=194 => Self::DropPayload { object: b },
            195..=200 => Self::Lookup {
                aim: Aim::decode(a, b, c),
            },
            201..=208 => Self::Compact {
                scope: (a & 3 != 3).then_some(Scope::Full),
                evacuation: if a & 4 == 0 {
                    Evacuation::Sparse
                } else {
                    Evacuation::Everything
                },
                wishes: Wishes {
                    // Mostly the width they have, as in life.
                    spare_bytes: if a & 8 == 0 { 0 } else { b as usize % 300 },
                    immovable_every: if a & 16 == 0 { 0 } else { c_low },
                    refused_every: if a & 32 == 0 { 0 } else { c as usize >> 8 },
                },
            },
            209..=214 => Self::Slice {
                scope: scope(u16::from(a)),
                cells: slice_cells(b),
            },
            215..=217 => Self::CollectInSlices {
                cells: if a & 3 == 0 { 0 } else { slice_cells(b) },
            },
            218..=228 => Self::Collect(Request {
                scope: scope(u16::from(a)),
                sweep_now: a & 12 == 0,
                compact: None,
                settle_all: false,
            }),
            229 if a & 1 == 0 => Self::SweepInSlices,
            229 => Self::RestartMarking,
            230..=231 => Self::Sweep,
            232..=239 => Self::Stress(Stress {
                collect_every: if b & 1 == 0 { 0 } else { b_high as usize },
                slice_cells: if b & 6 == 2 { c_low } else { 0 },
                verify: a & 1 != 0,
                poison: a & 2 != 0,
                mark_stack_cells_max: if a & 12 == 4 { c_low } else { 0 },
                move_everything: a & 48 == 16,
                no_minor: a & 192 == 64,
                look_ahead: b & 8 != 0,
                no_settling: b & 16 != 0,
            }),
            240..=243 => Self::RenewCache { cache: a },
            244 => Self::ReleaseEmptyBlocks,
            245 => Self::Inherit { caches: a & 1 == 0 },
            246..=247 => Self::NoteElsewhere {
                bytes: i32::from(b as i16) * i32::from(a),
            },
            248 => Self::Parallel(ParallelMarking {
                threads: a as usize & 3,
                cells_min: if a & 12 == 0 { b_high as usize } else { 0 },
            }),
            249 if a & 7 == 0 => Self::StopHelpers,
            249 => Self::Parallel(ParallelMarking {
                threads: 1 + (a as usize & 3),
                cells_min: 0,
            }),
            250 if a & 1 == 0 => Self::SettleAll,
            250 => Self::Last { kib: b },
            251..=255 => Self::Pace { nursery_kib: a },
        }
    }

    /// Reads operations, six bytes each; an incomplete one at the end is left
    /// out.
    #[allow(dead_code)]
    pub fn decode_all(bytes: &[u8]) -> Vec<Self> {
        bytes
            .chunks_exact(6)
            .map(|op| {
                let (b, c) = ([op[2], op[3]], [op[4], op[5]]);
                Self::decode(op[0], op[1], u16::from_le_bytes(b), u16::from_le_bytes(c))
            })
            .collect()
    }
}

impl Aim {
    fn decode(a: u8, b: u16, c: u16) -> Self {
        match a % 8 {
            0..=3 => Self::Object { n: b, offset: 0 },
            4..=5 => Self::Object {
                n: b,
                offset: c as u8,
            },
            6 => Self::Region {
                offset: u32::from(b) << 8 | u32::from(c & 0xFF),
            },
            _ => Self::Anywhere {
                word: u64::from(a) << 56 | u64::from(b) << 24 | u64::from(c),
            },
        }
    }
}

fn scope(choice: u16) -> Option<Scope> {
    [
        Some(Scope::Minor),
        Some(Scope::Major),
        Some(Scope::Full),
        None,
    ][usize::from(choice & 3)]
}

/// Cells of a slice: from one to thousands, the small numbers more often.
fn slice_cells(b: u16) -> u16 {
    1 + (b >> (b & 7)) % 4000
}

/// Sizes from one byte to several MiB, the small ones more often.
fn payload_bytes(a: u8, c: u16) -> u32 {
    let c = u32::from(c);
    match a % 16 {
        0..=4 => c % 256,
        5..=8 => c % 4096,
        9..=11 => c % 40_000,
        12..=13 => c * 16,
        // A little more than whole blocks.
        14 => ((1 + c % 3) << 16) + 1 + c / 3 % 60,
        _ => c * 100,
    }
}
