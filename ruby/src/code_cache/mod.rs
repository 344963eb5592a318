//! The code cache: each file that a program requires is compiled once, and its compiled form
//! lies in one file that all processes of the application map (`docs/design/code-cache.md`).
//!
//! Ruby asks for a file's code before it compiles it ([`CodeCache::find`]). If there is none,
//! Ruby compiles the file as it would without a cache, and what came of it is kept
//! ([`CodeCache::keep`]) until it is written ([`writer`]).
//!
//! * [`layout`], [`file`]: the file and how it is read. [`spool`]: where code waits to be written.
//!   [`writer`]: how a new file comes to be.
//! * [`source`]: whether a source file has changed. [`trust`]: whose files are believed.
//! * [`what_ran`]: which instruction sequences earlier processes loaded.
//!
//! No function here calls Ruby, and no lock is held while Ruby runs. So whoever has the GVL
//! waits for no lock for long, and a child of Ruby's `fork` finds none locked: the thread that
//! forks has the GVL, and the other Ractors, stopped outside these functions, use
//! [`CodeCache::code_loaded`] only, which takes none.

mod counts;
mod digest;
mod entries;
mod file;
mod layout;
pub(crate) mod settings;
mod source;
mod spool;
mod trust;
mod what_ran;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use self::counts::Counts;
use self::digest::{digest, hexadecimal, Digest};
use self::file::CodeFile;
use self::layout::{key_of, sequences_in, About, Entry, Level, CODE_BYTES_MAX};
use self::source::{real_path, Source, Stamp};
use self::spool::{Place, Spool};
use self::what_ran::{Bits, SharedBits};

/// When this much code has been kept it is written, so that keeping it takes no more of the disk.
const KEPT_BYTES_MAX: usize = 32 << 20;

/// When Ruby has been given this much code, the pages that it has read are let go: it has made
/// objects of its own of them.
const READ_BYTES_MAX: u64 = 1 << 20;

/// A compilation that has not ended by now has failed.
const COMPILING_MAX: Duration = Duration::from_secs(60);

/// The cache of this process, from the first file on that is required.
static CACHE: OnceLock<Option<CodeCache>> = OnceLock::new();

fn cache() -> Option<&'static CodeCache> {
    CACHE.get().and_then(Option::as_ref)
}

/// What a process has of the cache.
#[derive(Debug)]
struct CodeCache {
    folder: PathBuf,
    /// The name of the file, without what is behind the dot.
    name: String,
    ruby: Digest,
    /// The file as it was when this process began. A newer one is for later processes.
    file: Option<CodeFile>,
    /// For each entry whether its code has been checked.
    checked: Box<[AtomicU8]>,
    ran: Option<SharedBits>,
    is_writable: bool,
    awaited: Mutex<Vec<Awaited>>,
    fresh: Mutex<Fresh>,
    /// Whether something in the file is to be replaced, although no code is fresh.
    is_outdated: AtomicBool,
    /// How much code Ruby has been given since pages were let go.
    read_bytes: AtomicU64,
    counts: Mutex<Counts>,
}

const UNCHECKED: u8 = 0;
const WHOLE: u8 = 1;
const REFUSED: u8 = 2;

/// A file that Ruby is about to compile.
#[derive(Debug)]
struct Awaited {
    /// The number of the thread that compiles it; no other thread has it.
    thread: usize,
    path: Box<[u8]>,
    real_path: PathBuf,
    key: Digest,
    before: Source,
    level: Level,
    /// How many warnings there had been.
    warnings: u64,
    began: Instant,
}

/// Code that has just been compiled.
#[derive(Debug)]
struct FreshCode {
    about: About,
    path: Box<[u8]>,
    real_path: PathBuf,
}

/// Code that is not in the file yet, and where it waits.
#[derive(Debug)]
struct Waiting {
    of: FreshCode,
    /// The digest of the code as it was kept: the disk may give back something else.
    code_check: Digest,
    place: Place,
}

/// What is to be written.
#[derive(Debug, Default)]
struct Fresh {
    code: Vec<Waiting>,
    spool: Spool,
    /// How much code has been kept, what is no longer wanted included.
    bytes: usize,
    /// By key, files whose content is what it was, with newer stamps.
    unchanged: Vec<(Digest, Source)>,
}

/// What [`CodeCache::find`] has found.
enum Found {
    Code(&'static [u8]),
    /// Ruby compiles the file, and what comes of it is wanted.
    Nothing,
    /// Ruby compiles the file, and what comes of it is not wanted.
    Never,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins the cache, for a Ruby that `ruby` describes: its version and all its settings that
/// change what code is compiled to.
fn begin(ruby: &[u8]) {
    CACHE.get_or_init(|| settings::folder().and_then(|folder| CodeCache::open(folder, ruby)));
}

impl CodeCache {
    /// Opens the cache in this folder, which is made if there is none. `None` if the folder
    /// cannot be used.
    fn open(path: &Path, ruby: &[u8]) -> Option<Self> {
        let ruby = digest(&[&layout::VERSION.to_le_bytes(), ruby]);
        let folder = trust::open_or_make_folder(path)
            .inspect_err(|why| settings::say(&format!("{why}; there is no code cache")))
            .ok()?;
        let name = format!("code-{}", hexadecimal(&ruby));
        let file_name = writer::file_name(&name);
        let file = trust::believed(&file_name, CodeFile::open(&folder, &file_name, &ruby));
        let is_writable = trust::is_writable(&folder);
        if !is_writable {
            settings::say("nothing can be written there, so that nothing new is kept");
        }
        let (entries, sequences) = file
            .as_ref()
            .map_or((0, 0), |file| (file.index.entries, file.index.sequences));
        Some(Self {
            folder: path.to_owned(),
            name,
            ruby,
            checked: (0..entries).map(|_| AtomicU8::new(UNCHECKED)).collect(),
            ran: (sequences > 0)
                .then(|| SharedBits::new(sequences))
                .flatten(),
            file,
            is_writable,
            awaited: Mutex::default(),
            fresh: Mutex::default(),
            is_outdated: AtomicBool::new(false),
            read_bytes: AtomicU64::new(0),
            counts: Mutex::default(),
        })
    }

    /// Looks for the code of the file at `path`. `thread` is the thread that asks, and
    /// `warnings` how many warnings there have been so far.
    fn find(
        &'static self,
        thread: usize,
        (path, encoding): (&[u8], &[u8]),
        level: Level,
        warnings: u64,
    ) -> Found {
        settings::set_verbose(level.is_verbose());
        self.forget_failed(Some(thread));
        let found = real_path(path).and_then(|real| Some((Stamp::at(&real)?, real)));
        let Some((stamp, real_path)) = found else {
            return Found::Never;
        };
        let real = real_path.as_os_str().as_encoded_bytes();
        let key = key_of(path, real, encoding);
        if let Some(code) = self.code_of((&key, path, real), &stamp, level, &real_path) {
            return Found::Code(code);
        }
        locked(&self.counts).misses += 1;
        if !self.is_writable {
            return Found::Never;
        }
        let Some(before) = Source::read(&real_path) else {
            return Found::Never;
        };
        let awaited = Awaited {
            thread,
            path: path.into(),
            real_path,
            key,
            before,
            level,
            warnings,
            began: Instant::now(),
        };
        locked(&self.awaited).push(awaited);
        Found::Nothing
    }

    fn code_of(
        &'static self,
        (key, path, real): (&Digest, &[u8], &[u8]),
        stamp: &Stamp,
        level: Level,
        real_path: &Path,
    ) -> Option<&'static [u8]> {
        let file = self.file.as_ref()?;
        let (number, entry) = file.index.find(file.bytes(), key, path, real)?;
        if self.read_bytes.load(Relaxed) > READ_BYTES_MAX {
            self.read_bytes.store(0, Relaxed);
            file.mapping.let_go();
        }
        let is_wanted = level.is_within(entry.about.level)
            && self.is_current(stamp, &entry, real_path)
            && self.is_whole(file, number, &entry);
        if !is_wanted {
            return None;
        }
        let code = &file.bytes()[entry.code];
        self.read_bytes.fetch_add(code.len() as u64, Relaxed);
        let mut counts = locked(&self.counts);
        counts.hits += 1;
        counts.loaded_bytes += code.len() as u64;
        counts.saved_us += u64::from(entry.about.compile_us);
        Some(code)
    }

    /// Whether the file that now has this stamp has the content that was compiled.
    fn is_current(&self, stamp: &Stamp, entry: &Entry, real_path: &Path) -> bool {
        let compiled = &entry.about.source;
        if stamp.proves_same(&compiled.stamp) {
            return true;
        }
        if stamp.bytes != compiled.stamp.bytes {
            return false;
        }
        locked(&self.counts).sources_read += 1;
        let now = Source::read(real_path).filter(|now| now.content == compiled.content);
        if let Some(now) = now.filter(|now| now.stamp.is_settled) {
            let mut fresh = locked(&self.fresh);
            if fresh.unchanged.try_reserve(1).is_ok() {
                fresh.unchanged.push((entry.about.key, now));
            }
        }
        now.is_some()
    }

    /// Whether the code of an entry is what was written. Its bytes are read the first time.
    fn is_whole(&self, file: &CodeFile, number: usize, entry: &Entry) -> bool {
        match self.checked[number].load(Relaxed) {
            WHOLE => return true,
            REFUSED => return false,
            _ => {}
        }
        let is_whole = entry.is_code_whole(file.bytes());
        let state = if is_whole { WHOLE } else { REFUSED };
        self.checked[number].store(state, Relaxed);
        if !is_whole {
            self.note_damage(file, entry);
        }
        is_whole
    }

    fn note_damage(&self, file: &CodeFile, entry: &Entry) {
        locked(&self.counts).damaged += 1;
        self.is_outdated.store(true, Relaxed);
        let path = String::from_utf8_lossy(entry.path(file.bytes()));
        let name = writer::file_name(&self.name);
        settings::say(&format!(
            "{name}: the code of {path} is damaged; it is compiled"
        ));
    }

    /// Refuses code that Ruby could not load.
    fn refuse(&self, address: usize) {
        let Some(file) = &self.file else { return };
        if let Some((number, entry)) = file.entry_at(address) {
            self.checked[number].store(REFUSED, Relaxed);
            self.note_damage(file, &entry);
        }
    }

    /// Returns the file that this thread was to compile, if it is the one at `path`, and
    /// nothing speaks against keeping its code: it gave no warning, it is unchanged, no
    /// other thread compiles the same, and Ruby has put the awaited real path into the code.
    /// Ruby remembers what real path a path had first, and that may be another file's by now.
    fn compiled(
        &self,
        thread: usize,
        (path, real): (&[u8], &[u8]),
        level: Level,
        warnings: u64,
    ) -> Option<FreshCode> {
        let mut awaited = locked(&self.awaited);
        let at = awaited.iter().position(|one| one.thread == thread)?;
        let one = awaited.swap_remove(at);
        let is_alone = awaited.iter().all(|other| other.path != one.path);
        drop(awaited);
        let compile_us = one.began.elapsed().as_micros();
        let after = Source::read(&one.real_path)?;
        let is_unchanged =
            one.before.is_unchanged(&after) && real_path(path).as_ref() == Some(&one.real_path);
        let is_wanted = is_alone
            && *one.path == *path
            && one.real_path.as_os_str().as_encoded_bytes() == real
            && one.level == level
            && one.warnings == warnings
            && is_unchanged;
        is_wanted.then(|| FreshCode {
            about: About {
                key: one.key,
                source: after,
                level,
                compile_us: u32::try_from(compile_us).unwrap_or(u32::MAX),
                sequences: 0,
            },
            path: one.path,
            real_path: one.real_path,
        })
    }

    /// Whether a thread is about to compile a file.
    fn awaits(&self) -> bool {
        self.forget_failed(None);
        !locked(&self.awaited).is_empty()
    }

    /// Forgets files that could not be compiled: what a thread that asks again was about to
    /// compile, and what should have been compiled long ago.
    fn forget_failed(&self, thread: Option<usize>) {
        locked(&self.awaited).retain(|awaited| {
            Some(awaited.thread) != thread && awaited.began.elapsed() < COMPILING_MAX
        });
    }

    /// Keeps the code of a file that has been compiled.
    fn keep(&self, mut fresh_code: FreshCode, code: &[u8]) {
        if code.is_empty() || code.len() > CODE_BYTES_MAX {
            return;
        }
        fresh_code.about.sequences = sequences_in(code);
        let code_check = digest(&[code]);
        let mut fresh = locked(&self.fresh);
        if fresh.code.try_reserve(1).is_err() {
            return;
        }
        let Some(place) = fresh.spool.keep(&self.folder, code) else {
            return;
        };
        // Newer code of the same file takes the place of the older.
        fresh
            .code
            .retain(|old| old.of.about.key != fresh_code.about.key);
        fresh.bytes += code.len();
        fresh.code.push(Waiting {
            of: fresh_code,
            code_check,
            place,
        });
        let is_much = fresh.bytes > KEPT_BYTES_MAX;
        drop(fresh);
        locked(&self.counts).kept += 1;
        if is_much {
            self.write();
            let mut fresh = locked(&self.fresh);
            // It could not be written.
            if fresh.bytes > KEPT_BYTES_MAX {
                *fresh = Fresh::default();
            }
        }
    }

    /// Notes that a sequence has been loaded. Called at any time, by any thread that may run
    /// Ruby's code; takes no lock and no memory.
    fn code_loaded(&self, address: usize, sequence: u32) {
        if let (Some(bit), Some(ran)) = (self.bit_of(address, sequence), &self.ran) {
            ran.set(bit);
        }
    }

    /// The bit of a sequence of the code that begins at this address.
    fn bit_of(&self, address: usize, sequence: u32) -> Option<u64> {
        let (_, entry) = self.file.as_ref()?.entry_at(address)?;
        (sequence < entry.about.sequences).then(|| entry.first_sequence + u64::from(sequence))
    }

    /// Which sequences ran in earlier processes, as the folder says now, or in this one.
    fn ran_before(&self) -> Option<Bits> {
        let file = self.file.as_ref()?;
        let folder = trust::open_folder(&self.folder).ok()?;
        let name = writer::ran_name(&self.name);
        let bits = trust::believed(&name, Bits::read(&folder, &name, &file.index));
        let mut bits = bits.unwrap_or_else(|| Bits::none(file.index.sequences));
        if let Some(ran) = &self.ran {
            bits.add(&ran.now());
        }
        Some(bits)
    }

    /// Drops what the parent has kept, in a child that has been forked: the parent writes it.
    fn begin_in_child(&self) {
        *locked(&self.fresh) = Fresh::default();
        locked(&self.awaited).clear();
        self.is_outdated.store(false, Relaxed);
    }

    fn counts(&self) -> Counts {
        let file = self.file.as_ref();
        Counts {
            file_bytes: file.map_or(0, |file| file.bytes().len() as u64),
            entries: file.map_or(0, |file| file.index.entries as u64),
            sequences: file.map_or(0, |file| file.index.sequences),
            ran_before: self.ran_before().map_or(0, |bits| bits.count()),
            loaded_later: self.ran.as_ref().map_or(0, |ran| ran.now().count()),
            ..*locked(&self.counts)
        }
    }
}

/// Called in a child that Ruby has forked.
pub(crate) fn begin_in_child() {
    if let Some(cache) = cache() {
        cache.begin_in_child();
    }
}
