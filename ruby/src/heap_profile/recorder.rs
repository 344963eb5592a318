//! The tables of the profile: what a sample adds to them, and what its end removes.

use std::collections::{HashMap, TryReserveError};
use std::ffi::c_int;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ashlar_heap::{AllocationCache, Scope, WidthIndex};

use super::image::{Growing, Image, Kind, Mapped, Sample, StackNode, SAMPLES, SITES};
use super::interval::Intervals;
use super::watch;
use crate::knobs::KNOBS;
use crate::layout::{IMEMO_KIND_MASK, IMEMO_SHIFT, T_IMEMO, T_MASK};
use crate::ruby_calls::{is_object, Value};

/// The time since 1970.
pub(super) fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

pub(super) static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);

pub(super) fn recorder() -> MutexGuard<'static, Option<Recorder>> {
    RECORDER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work` with the recorder, if samples are taken.
pub(super) fn while_sampling<R>(work: impl FnOnce(&mut Recorder) -> R) -> Option<R> {
    let mut recorder = recorder();
    recorder.as_mut().filter(|own| own.is_sampling).map(work)
}

pub(super) fn is_sampling() -> bool {
    KNOBS.has_heap_profile.is_on() && while_sampling(|_| ()).is_some()
}

/// Runs `work` with the recorder, if there is one.
pub(super) fn with_any<R>(work: impl FnOnce(&mut Recorder) -> R) -> Option<R> {
    recorder().as_mut().map(work)
}

/// Changes the image, if there is one.
pub(super) fn change_image(work: impl FnOnce(&mut Image)) {
    with_any(|recorder| recorder.mapped.change(work));
}

/// `on` or `off`.
pub(crate) fn state() -> &'static str {
    if is_sampling() {
        "on"
    } else {
        "off"
    }
}

/// Frames, or classes, by address, each with a number: that of the frame in the image, or the
/// index of the class in [`Recorder::class_names`].
///
/// The profile keeps no frame and no class alive: it forgets those that die, and their names
/// stay.
#[derive(Default)]
struct Known {
    numbers: HashMap<Value, u32>,
    /// The addresses that minor collections may free.
    young: Vec<Value>,
    /// The addresses that have no name yet, the latest last.
    nameless: Vec<Value>,
}

impl Known {
    fn add(&mut self, value: Value, number: u32) {
        self.numbers.insert(value, number);
        self.young.push(value);
        self.nameless.push(value);
    }

    /// Reserves room for `more` addresses, so that adding them takes no memory.
    fn reserve(&mut self, more: usize) -> Result<(), TryReserveError> {
        self.numbers.try_reserve(more)?;
        self.young.try_reserve(more)?;
        self.nameless.try_reserve(more)
    }

    /// Forgets what has died. After a minor collection it asks only about the young ones.
    fn forget_dead(&mut self, is_minor: bool, fate: &impl Fn(Value) -> Fate) {
        let numbers = &mut self.numbers;
        if !is_minor {
            numbers.retain(|&value, _| fate(value) != Fate::Dead);
        }
        self.young.retain(|&value| {
            let fate = fate(value);
            if fate == Fate::Dead {
                numbers.remove(&value);
            }
            fate == Fate::Young
        });
        self.nameless.retain(|value| numbers.contains_key(value));
    }

    /// Notes that a frame or a class has moved. Without memory for its new address it is forgotten, as
    /// if it had died.
    fn moved(&mut self, from: Value, to: Value) {
        let Some(number) = self.numbers.remove(&from) else {
            return;
        };
        let has_room = self.numbers.try_reserve(1).is_ok();
        if has_room {
            self.numbers.insert(to, number);
        }
        for list in [&mut self.young, &mut self.nameless] {
            match list.iter().position(|&value| value == from) {
                Some(at) if has_room => list[at] = to,
                Some(at) => drop(list.swap_remove(at)),
                None => {}
            }
        }
    }
}

/// What marking has found out about a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Dead,
    Young,
    Old,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct SiteKey {
    stack: u32,
    class: ClassKey,
    kind: Kind,
    width_bytes: u32,
}

/// A class by its number in [`Recorder::classes`], or what has no class.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum ClassKey {
    Class(u32),
    /// An internal object of Ruby, by the first bits of its flags.
    Internal(u32),
    Payload,
}

/// Live numbers are taken at most this often, because many are sums over the widths.
const NUMBERS_INTERVAL: Duration = Duration::from_millis(50);

/// The most classes that get a name: some programs never stop making classes.
const CLASSES_MAX: usize = 1 << 16;

/// Something that has no name yet: `struct ashlar_nameless`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Nameless {
    value: Value,
    is_class: bool,
}

/// What the heap has handed out where a mark lay.
pub(super) enum Made {
    Cell {
        class: Value,
        flags: Value,
        width_bytes: u32,
    },
    Payload {
        bytes: u64,
    },
}

/// A sample that has ended, perhaps only for a moment.
pub(super) struct EndedSample {
    sample: Sample,
    /// The index of its age in `died_at_age`.
    age: usize,
    beginning: usize,
}

pub(super) struct Recorder {
    pub(super) mapped: Mapped,
    /// When live numbers are due again.
    numbers_due: Instant,
    pub(super) intervals: Intervals,
    is_sampling: bool,
    /// Strings of the image by a hash of their text.
    strings: HashMap<u64, u32>,
    frames: Known,
    classes: Known,
    /// The offset of each class's name, by the number of the class; 0 until the name is
    /// known.
    class_names: Vec<u32>,
    stacks: HashMap<StackNode, u32>,
    sites: HashMap<SiteKey, u32>,
    /// The class of each site.
    site_classes: Vec<ClassKey>,
    /// Addresses of sampled cells that minor collections may free.
    young_cells: Vec<Value>,
    live_samples: usize,
    /// How often the tables have been emptied.
    beginnings: usize,
    /// The number of the latest full collection that has marked, as in the image; 0 for none.
    marked_in_full: u64,
}

impl Recorder {
    pub(super) fn new(mapped: Mapped) -> Self {
        Self {
            mapped,
            numbers_due: Instant::now(),
            intervals: Intervals::new(1, 1),
            is_sampling: false,
            strings: HashMap::new(),
            frames: Known::default(),
            classes: Known::default(),
            class_names: Vec::new(),
            stacks: HashMap::new(),
            sites: HashMap::new(),
            site_classes: vec![ClassKey::Payload; 2],
            young_cells: Vec::new(),
            live_samples: 0,
            beginnings: 0,
            marked_in_full: 0,
        }
    }

    /// Sets how many cells of each width this cache hands out before the next sample.
    pub(super) fn begin_in(&mut self, cache: &mut AllocationCache<'_>) {
        for width in WidthIndex::all() {
            let cells = self.intervals.cells(width.bytes());
            cache.sample_after(width, Some(cells));
        }
    }

    /// Whether live numbers are due; if so, the next time is an interval away.
    pub(super) fn are_numbers_due(&mut self) -> bool {
        let now = Instant::now();
        let are_due = now >= self.numbers_due;
        if are_due {
            self.numbers_due = now + NUMBERS_INTERVAL;
        }
        are_due
    }

    /// Begins sampling, with empty tables.
    pub(super) fn begin(&mut self, period_bytes: u64) {
        let now = unix_ns();
        self.mapped
            .change(|image| image.begin_sampling(period_bytes, now));
        self.intervals = Intervals::new(period_bytes, now ^ u64::from(std::process::id()) << 40);
        self.is_sampling = true;
        self.forget_all();
    }

    /// Goes on with this empty image, in a forked child. Takes no memory.
    pub(super) fn begin_in_child(&mut self, empty: Mapped) {
        self.mapped = empty;
        self.marked_in_full = 0;
        match self.is_sampling {
            true => self.begin(self.intervals.period_bytes),
            false => self.forget_all(),
        }
    }

    fn forget_all(&mut self) {
        self.strings.clear();
        self.frames = Known::default();
        self.classes = Known::default();
        self.class_names.clear();
        self.stacks.clear();
        self.sites.clear();
        self.site_classes.clear();
        self.site_classes.extend([ClassKey::Payload; 2]);
        self.young_cells.clear();
        self.live_samples = 0;
        self.beginnings += 1;
    }

    /// Ends sampling. What has no name yet gets none: from now on nobody says which of it has
    /// died.
    pub(super) fn end(&mut self) {
        self.is_sampling = false;
        self.classes.nameless.clear();
        self.frames.nameless.clear();
        self.mapped.change(|image| image.header.is_sampling = 0);
    }

    // ── A sample begins ─────────────────────────────────────────────────────

    /// Adds a sample. `stack` has Ruby's frames and their lines, innermost first.
    pub(super) fn add(
        &mut self,
        address: usize,
        made: &Made,
        stack: (&[Value], &[c_int]),
        collection: usize,
    ) {
        let (bytes, kind, width_bytes) = match *made {
            Made::Cell { width_bytes, .. } => (u64::from(width_bytes), Kind::Cell, width_bytes),
            Made::Payload { bytes } => (bytes, Kind::Payload, 0),
        };
        if self.reserve(stack.0.len()).is_err() {
            return self.mapped.change(Image::note_dropped);
        }
        let class = match *made {
            Made::Cell { class, flags, .. } => self.class_of(class, flags),
            Made::Payload { .. } => ClassKey::Payload,
        };
        let site = match self.stack(stack) {
            Some(stack) => self.site(SiteKey {
                stack,
                class,
                kind,
                width_bytes,
            }),
            None => kind as u32,
        };
        self.end_at(address, collection);
        let probability = self.intervals.probability(bytes);
        let sample = Sample {
            address: address as u64,
            site,
            collection: collection as u32,
            bytes,
            made_unix_ms: unix_ns() / 1_000_000,
        };
        let has_room = self.live_samples < SAMPLES / 4 * 3;
        self.mapped.change(|image| {
            let counted = &mut image.sites[site as usize];
            counted.allocated.add(bytes, probability);
            if has_room {
                counted.live.add(bytes, probability);
                insert(&mut image.samples, sample);
            }
            if !has_room {
                image.note_dropped();
            }
        });
        if has_room {
            self.live_samples += 1;
            match kind {
                Kind::Cell => self.young_cells.push(address),
                Kind::Payload => watch::add(address),
            }
        }
    }

    /// Ends any sample at this address, of whatever kind: something else is there now.
    fn end_at(&mut self, address: usize, collection: usize) {
        let image = self.mapped.read();
        if let Some(slot) = find(&image.samples, address as u64) {
            let kind = image.sites[image.samples[slot].site as usize].kind;
            self.remove(address, kind, collection);
        }
    }

    /// Reserves room for all that a sample with this many frames may add, so that adding it
    /// takes no memory.
    fn reserve(&mut self, frames: usize) -> Result<(), TryReserveError> {
        self.frames.reserve(frames)?;
        self.classes.reserve(1)?;
        self.class_names.try_reserve(1)?;
        self.stacks.try_reserve(frames)?;
        self.sites.try_reserve(1)?;
        self.site_classes.try_reserve(1)?;
        self.young_cells.try_reserve(1)?;
        self.strings.try_reserve(2)
    }

    fn class_of(&mut self, class: Value, flags: Value) -> ClassKey {
        let kind = flags & T_MASK;
        if kind == T_IMEMO || !is_object(class) {
            let imemo = (flags >> IMEMO_SHIFT & IMEMO_KIND_MASK) << 8;
            return ClassKey::Internal((kind | if kind == T_IMEMO { imemo } else { 0 }) as u32);
        }
        if let Some(&number) = self.classes.numbers.get(&class) {
            return ClassKey::Class(number);
        }
        let number = self.class_names.len() as u32;
        if number as usize >= CLASSES_MAX {
            return ClassKey::Internal(0);
        }
        self.class_names.push(0);
        self.classes.add(class, number);
        ClassKey::Class(number)
    }

    /// Returns the innermost node of the stack, or `None` where there is no room for all of it: an outer line
    /// has not allocated what an inner one has.
    fn stack(&mut self, (frames, lines): (&[Value], &[c_int])) -> Option<u32> {
        let mut node = 0;
        for (&value, &line) in frames.iter().zip(lines).rev() {
            let key = StackNode {
                caller: node,
                frame: self.frame(value)?,
                line: u32::try_from(line).unwrap_or(0),
            };
            if let Some(&known) = self.stacks.get(&key) {
                node = known;
                continue;
            }
            let added = self.mapped.change(|image| {
                let added = image.take(Growing::Stacks)?;
                image.stacks[added as usize] = key;
                Some(added)
            })?;
            self.stacks.insert(key, added);
            node = added;
        }
        Some(node)
    }

    fn frame(&mut self, value: Value) -> Option<u32> {
        if let Some(&known) = self.frames.numbers.get(&value) {
            return Some(known);
        }
        let added = self.mapped.change(|image| image.take(Growing::Frames))?;
        self.frames.add(value, added);
        Some(added)
    }

    /// Returns the site, or that of all for which there is no room.
    fn site(&mut self, key: SiteKey) -> u32 {
        if let Some(&known) = self.sites.get(&key) {
            return known;
        }
        let class = self.name_of(key.class);
        let added = self.mapped.change(|image| {
            let added = image.take(Growing::Sites)?;
            let site = &mut image.sites[added as usize];
            (site.stack, site.class, site.kind) = (key.stack, class, key.kind);
            site.width_bytes = key.width_bytes;
            Some(added)
        });
        let Some(added) = added else {
            return key.kind as u32;
        };
        debug_assert!((added as usize) < SITES);
        self.sites.insert(key, added);
        self.site_classes.push(key.class);
        added
    }

    /// Returns the name of a class, 0 while it is not known.
    fn name_of(&mut self, class: ClassKey) -> u32 {
        match class {
            ClassKey::Class(number) => self.class_names[number as usize],
            ClassKey::Internal(bits) => self.string(internal_name(bits)),
            ClassKey::Payload => 0,
        }
    }

    /// Returns the string with this text; 0, the empty one, when there is no room for
    /// another.
    fn string(&mut self, text: &str) -> u32 {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let mut hash = hasher.finish();
        while let Some(&known) = self.strings.get(&hash) {
            if self.mapped.read().string(known) == text.as_bytes() {
                return known;
            }
            hash = hash.wrapping_add(1);
        }
        let has_room = self.strings.try_reserve(1).is_ok();
        let added = has_room.then(|| self.mapped.change(|image| image.add_string(text)));
        let Some(Some(added)) = added else { return 0 };
        self.strings.insert(hash, added);
        added
    }

    // ── A sample ends ───────────────────────────────────────────────────────

    /// Ends the sample of this kind at this address; returns whether there was one.
    pub(super) fn remove(&mut self, address: usize, kind: Kind, collection: usize) -> bool {
        self.take(address, kind, collection).is_some()
    }

    /// [`Recorder::remove`], but returns the sample, which can be put back.
    pub(super) fn take(
        &mut self,
        address: usize,
        kind: Kind,
        collection: usize,
    ) -> Option<EndedSample> {
        let intervals = &self.intervals;
        let (sample, age) = self.mapped.change(|image| {
            let slot = find(&image.samples, address as u64)?;
            let sample = image.samples[slot];
            let site = &mut image.sites[sample.site as usize];
            if site.kind != kind {
                return None;
            }
            let survived = (collection as u32).saturating_sub(sample.collection);
            let age = (survived.checked_ilog2().map_or(0, |log| log + 1) as usize).min(7);
            site.live
                .remove(sample.bytes, intervals.probability(sample.bytes));
            site.died_at_age[age] += 1;
            remove(&mut image.samples, slot);
            Some((sample, age))
        })?;
        self.live_samples -= 1;
        if kind == Kind::Payload {
            watch::remove(address);
        }
        Some(EndedSample {
            sample,
            age,
            beginning: self.beginnings,
        })
    }

    /// Makes the sample of a payload live again, if sampling has not begun anew and there is
    /// still room for it.
    pub(super) fn put_back(&mut self, ended: EndedSample) {
        let EndedSample {
            sample,
            age,
            beginning,
        } = ended;
        // One slot stays empty, so that a search for a sample ends.
        if beginning != self.beginnings || self.live_samples + 1 >= SAMPLES {
            return;
        }
        let probability = self.intervals.probability(sample.bytes);
        self.mapped.change(|image| {
            let site = &mut image.sites[sample.site as usize];
            site.live.add(sample.bytes, probability);
            site.died_at_age[age] -= 1;
            insert(&mut image.samples, sample);
        });
        self.live_samples += 1;
        watch::add(sample.address as usize);
    }

    /// Forgets what has died, and ends its samples, once marking is over: `fate` says what has
    /// died. A minor collection frees young cells only. `collection` is the number of
    /// collections marked before this one.
    pub(super) fn forget_dead(
        &mut self,
        scope: Scope,
        collection: usize,
        fate: &impl Fn(Value) -> Fate,
    ) {
        let is_minor = scope == Scope::Minor;
        self.frames.forget_dead(is_minor, fate);
        self.classes.forget_dead(is_minor, fate);
        if !is_minor {
            self.forget_dead_cells(collection, fate);
        }
        // A major collection finds no settled garbage.
        if scope == Scope::Full {
            self.marked_in_full = collection as u64 + 1;
        }
        let mut young = std::mem::take(&mut self.young_cells);
        young.retain(|&address| {
            let fate = fate(address);
            if fate == Fate::Dead {
                self.remove(address, Kind::Cell, collection);
            }
            fate == Fate::Young
        });
        self.young_cells = young;
    }

    /// Notes that sweeping is over: payloads of dead objects are freed, too. A sample that
    /// was taken before the latest full collection had marked, and is still here, was found
    /// live by it, because the heap marks a new cell only when it traces to it.
    pub(super) fn swept(&mut self) {
        let full = self.marked_in_full;
        if self.mapped.read().header.full_collection != full {
            self.mapped
                .change(|image| image.header.full_collection = full);
        }
    }

    /// Looks at all sampled cells. Removing a sample moves others up, but only into the slot
    /// that is looked at, or into later ones.
    fn forget_dead_cells(&mut self, collection: usize, fate: &impl Fn(Value) -> Fate) {
        let mut slot = 0;
        while slot < SAMPLES {
            let Sample { address, site, .. } = self.mapped.read().samples[slot];
            let address = address as usize;
            let is_cell =
                address != 0 && self.mapped.read().sites[site as usize].kind == Kind::Cell;
            if !(is_cell
                && fate(address) == Fate::Dead
                && self.remove(address, Kind::Cell, collection))
            {
                slot += 1;
            }
        }
    }

    /// Notes that a cell has moved.
    pub(super) fn moved(&mut self, from: Value, to: Value) {
        self.frames.moved(from, to);
        self.classes.moved(from, to);
        let image = self.mapped.read();
        let Some(slot) = find(&image.samples, from as u64) else {
            return;
        };
        if image.sites[image.samples[slot].site as usize].kind != Kind::Cell {
            return;
        }
        self.mapped.change(|image| {
            let mut sample = image.samples[slot];
            remove(&mut image.samples, slot);
            sample.address = to as u64;
            insert(&mut image.samples, sample);
        });
        if let Some(address) = self.young_cells.iter_mut().find(|cell| **cell == from) {
            *address = to;
        }
    }

    /// Notes that a live object of this class owns the payload at this address. The payload's
    /// site gets this class, if it has none yet.
    pub(super) fn own(&mut self, payload: usize, class: Value, flags: Value) {
        let Some(slot) = find(&self.mapped.read().samples, payload as u64) else {
            return;
        };
        let site = self.mapped.read().samples[slot].site as usize;
        if site < 2 || self.site_classes[site] != ClassKey::Payload {
            return;
        }
        if self.reserve(0).is_err() {
            return;
        }
        let class = self.class_of(class, flags);
        let name = self.name_of(class);
        self.site_classes[site] = class;
        self.mapped.change(|image| image.sites[site].class = name);
    }

    // ── Names ───────────────────────────────────────────────────────────────

    pub(super) fn has_nameless(&self) -> bool {
        !self.frames.nameless.is_empty() || !self.classes.nameless.is_empty()
    }

    /// Takes a frame or class that has no name yet. It is not returned again.
    pub(super) fn take_nameless(&mut self) -> Option<Nameless> {
        let (value, is_class) = match self.classes.nameless.pop() {
            Some(class) => (class, true),
            None => (self.frames.nameless.pop()?, false),
        };
        Some(Nameless { value, is_class })
    }

    /// Gives a name to what [`Recorder::take_nameless`] has returned.
    pub(super) fn name(&mut self, nameless: Nameless, label: &str, path: &str, first_line: u32) {
        if nameless.is_class {
            let Some(&number) = self.classes.numbers.get(&nameless.value) else {
                return;
            };
            let name = self.string(label);
            self.class_names[number as usize] = name;
            let sites = self.site_classes.iter().enumerate();
            let of_class = sites.filter(|(_, class)| **class == ClassKey::Class(number));
            self.mapped
                .change(|image| of_class.for_each(|(site, _)| image.sites[site].class = name));
            return;
        }
        let Some(&frame) = self.frames.numbers.get(&nameless.value) else {
            return;
        };
        let (label, path) = (self.string(label), self.string(path));
        self.mapped.change(|image| {
            let named = &mut image.frames[frame as usize];
            (named.label, named.path) = (label, path);
            (named.first_line, named.is_named) = (first_line, 1);
        });
    }
}

// ── The table of live samples: open addressing, linear probing ──────────────

fn home(address: u64) -> usize {
    const BITS: u32 = SAMPLES.ilog2();
    ((address >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS)) as usize
}

fn next(slot: usize) -> usize {
    (slot + 1) % SAMPLES
}

fn find(samples: &[Sample; SAMPLES], address: u64) -> Option<usize> {
    let mut slot = home(address);
    while samples[slot].address != 0 {
        if samples[slot].address == address {
            return Some(slot);
        }
        slot = next(slot);
    }
    None
}

/// Inserts a sample; there must be room.
fn insert(samples: &mut [Sample; SAMPLES], sample: Sample) {
    let mut slot = home(sample.address);
    while samples[slot].address != 0 && samples[slot].address != sample.address {
        slot = next(slot);
    }
    samples[slot] = sample;
}

/// Removes a sample, and moves up those samples whose search had to pass its slot (Knuth,
/// vol. 3, 6.4, algorithm R).
fn remove(samples: &mut [Sample; SAMPLES], mut hole: usize) {
    let mut slot = next(hole);
    while samples[slot].address != 0 {
        let distance_to_slot = (slot + SAMPLES - home(samples[slot].address)) % SAMPLES;
        let distance_to_hole = (slot + SAMPLES - hole) % SAMPLES;
        if distance_to_slot >= distance_to_hole {
            samples[hole] = samples[slot];
            hole = slot;
        }
        slot = next(slot);
    }
    samples[hole].address = 0;
}

/// The name of an object that belongs to no class.
fn internal_name(bits: u32) -> &'static str {
    use crate::layout::*;
    let (kind, imemo) = ((bits & 0xff) as usize, (bits >> 8) as usize);
    if kind == T_IMEMO {
        let found = IMEMO_NAMES.iter().find(|known| known.0 == imemo);
        return found.map_or("(other)", |known| known.2);
    }
    match kind {
        T_STRING => "(internal string)",
        T_ARRAY => "(internal array)",
        T_HASH => "(internal hash)",
        T_CLASS => "(internal class)",
        T_ICLASS => "(internal iclass)",
        T_OBJECT => "(internal object)",
        T_DATA => "(internal data)",
        _ => "(other)",
    }
}

#[cfg(test)]
mod tests {
    use super::super::image::{Site, FRAMES};
    use super::*;
    use crate::refusing_allocator::while_memory_is_refused;

    const NONE: Sample = Sample {
        address: 0,
        site: 0,
        collection: 0,
        bytes: 0,
        made_unix_ms: 0,
    };

    #[test]
    fn what_moves_while_memory_is_refused_is_known_at_its_new_address_or_forgotten() {
        const ALL: usize = 448; // as many as fit
        let mut known = Known::default();
        for number in 1..=ALL {
            known.reserve(1).unwrap();
            known.add(number, number as u32);
        }
        while_memory_is_refused(|| (1..=ALL).for_each(|number| known.moved(number, number + ALL)));
        for (&value, &number) in &known.numbers {
            assert_eq!(value, number as usize + ALL);
        }
        for list in [&known.young, &known.nameless] {
            assert_eq!(list.len(), known.numbers.len());
            assert!(list.iter().all(|value| known.numbers.contains_key(value)));
        }
    }

    #[test]
    fn when_sampling_has_ended_nothing_is_left_to_be_named_that_may_die() {
        let mapped = Mapped::new("", 0).unwrap();
        let mut recorder = Recorder::new(mapped);
        recorder.begin(1);
        let cell = Made::Cell {
            class: 0x4000,
            flags: 0,
            width_bytes: 40,
        };
        recorder.add(0x8000, &cell, (&[0x5000], &[1]), 0);
        assert!(recorder.has_nameless());
        recorder.end();
        assert!(recorder.take_nameless().is_none());
    }

    #[test]
    fn where_frames_are_used_up_no_outer_line_gets_what_inner_ones_allocate() {
        const DEEP: usize = 500;
        const OUTER: Value = 8;
        let mut recorder = Recorder::new(Mapped::new("", 0).unwrap());
        recorder.begin(1);
        let cell = Made::Cell {
            class: 0x4000,
            flags: 0,
            width_bytes: 40,
        };
        for stack in 0..FRAMES / DEEP + 2 {
            let own = |frame: usize| 16 * (stack * DEEP + frame + 1);
            let frames: Vec<Value> = (0..DEEP).map(own).chain([OUTER]).collect();
            recorder.add(0x8000 + stack * 64, &cell, (&frames, &[1; DEEP + 1]), 0);
        }
        let image = recorder.mapped.read();
        let outer = image.stacks.iter().position(|node| node.frame != 0);
        let of_outer = |site: &&Site| site.stack as usize == outer.unwrap();
        assert_eq!(image.sites.iter().filter(of_outer).count(), 0);
        assert_eq!(image.sites[0].allocated.samples(), 2);
        assert_eq!(image.dropped_samples(), 0);
    }

    #[test]
    fn the_table_of_samples_finds_what_is_in_it_and_nothing_else() {
        let mut table: Box<[Sample; SAMPLES]> = vec![NONE; SAMPLES].try_into().ok().unwrap();
        let mut model = HashMap::new();
        let mut random = 1_u64;
        for step in 0..200_000_u32 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            // Few addresses, so that samples are close to each other and are hit again.
            let address = ((random >> 40) % 16_000 + 1) * 8;
            match find(&table, address) {
                Some(slot) if step % 3 > 0 => {
                    assert_eq!(model.remove(&address), Some(table[slot].site));
                    remove(&mut table, slot);
                }
                found => {
                    assert_eq!(found.is_some(), model.contains_key(&address));
                    insert(
                        &mut table,
                        Sample {
                            address,
                            site: step,
                            ..NONE
                        },
                    );
                    model.insert(address, step);
                }
            }
        }
        assert_eq!(
            table.iter().filter(|sample| sample.address != 0).count(),
            model.len()
        );
        for (&address, &site) in &model {
            assert_eq!(
                find(&table, address).map(|slot| table[slot].site),
                Some(site)
            );
        }
    }
}
