//! The image: the profile as one block of memory that other processes can read
//! (`docs/reference/heap-profile.md` says what is where).

use std::fs::{File, Permissions};
use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::ptr::slice_from_raw_parts;
use std::sync::atomic::{fence, AtomicU64, Ordering};

use ashlar_heap::refusals::{is_refused, SystemCall};

use crate::mapping::Mapping;
use crate::size_signal::without_size_signal;
use crate::whole_file::opened;

/// Bytes of all strings together.
const STRING_BYTES: usize = 1 << 20;
pub(super) const FRAMES: usize = 1 << 14;
pub(super) const STACK_NODES: usize = 1 << 16;
pub(super) const SITES: usize = 1 << 13;
/// Slots for live samples: at one sample in 512 KiB, three quarters of them stand for 6 GiB.
pub(super) const SAMPLES: usize = 1 << 14;

/// How many live numbers there are: what `ashlar top` shows.
pub(super) const NUMBERS: usize = 26;

pub(super) type Numbers = [u64; NUMBERS];

const TABLES: usize = 5;
const HEADER_BYTES: usize = 4096;

/// Why an image was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Written {
    Live,
    OnRequest,
    AtTheEnd,
    AtACrash,
}

/// The tables that grow by whole entries, by their numbers in the directory.
#[derive(Clone, Copy)]
pub(super) enum Growing {
    Frames = 1,
    Stacks,
    Sites,
}

/// An entry of the directory of tables.
#[repr(C)]
#[derive(Clone, Copy)]
struct Table {
    offset: u64,
    entry_bytes: u32,
    used: u32,
    capacity: u32,
    unused: u32,
}

#[repr(C)]
pub(super) struct Header {
    magic: [u8; 8],
    version: u32,
    header_bytes: u32,
    sequence: AtomicU64,
    process: u64,
    started_unix_ns: u64,
    pub(super) updated_unix_ns: u64,
    period_bytes: u64,
    dropped_samples: u64,
    numbers_count: u32,
    numbers_offset: u32,
    tables_count: u32,
    tables_offset: u32,
    sampled_since_unix_ns: u64,
    pub(super) is_sampling: u32,
    written: Written,
    /// The number of the latest full collection that is over, 0 for none.
    pub(super) full_collection: u64,
    unused: [u8; 24],
    tables: [Table; TABLES],
    unused_too: [u8; 512 - 128 - TABLES * size_of::<Table>()],
    pub(super) numbers: Numbers,
    unused_as_well: [u8; 512 - size_of::<Numbers>()],
    command_line: [u8; 1024],
    description: [u8; 2048],
}

const _: () = assert!(size_of::<Header>() == HEADER_BYTES);
const _: () = assert!(offset_of!(Header, tables) == 128 && offset_of!(Header, numbers) == 512);
const _: () = assert!(offset_of!(Header, command_line) == 1024);

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Frame {
    pub(super) label: u32,
    pub(super) path: u32,
    pub(super) first_line: u32,
    pub(super) is_named: u32,
}

/// A line of a frame, and who called it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct StackNode {
    pub(super) caller: u32,
    pub(super) frame: u32,
    pub(super) line: u32,
}

#[repr(C)]
pub(super) struct Site {
    pub(super) stack: u32,
    pub(super) class: u32,
    pub(super) kind: Kind,
    pub(super) width_bytes: u32,
    pub(super) allocated: Estimate,
    pub(super) live: Estimate,
    /// How many samples died, by the number of collections that they survived: 0, 1, 2 to 3,
    /// and so on, up to 64 and more.
    pub(super) died_at_age: [u32; 8],
}

/// Samples, and what they stand for.
#[repr(C)]
pub(super) struct Estimate {
    samples: u64,
    objects: f64,
    bytes: f64,
}

impl Estimate {
    #[cfg(test)]
    pub(super) fn samples(&self) -> u64 {
        self.samples
    }

    /// Adds a sample of `bytes`, which was taken with probability `probability`.
    pub(super) fn add(&mut self, bytes: u64, probability: f64) {
        self.samples += 1;
        self.objects += 1.0 / probability;
        self.bytes += bytes as f64 / probability;
    }

    pub(super) fn remove(&mut self, bytes: u64, probability: f64) {
        self.samples -= 1;
        if self.samples == 0 {
            // Removes what rounding has left.
            (self.objects, self.bytes) = (0.0, 0.0);
            return;
        }
        self.objects -= 1.0 / probability;
        self.bytes -= bytes as f64 / probability;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub(super) enum Kind {
    Cell,
    Payload,
}

/// A live sample; `address` is 0 in an empty slot.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Sample {
    pub(super) address: u64,
    pub(super) site: u32,
    pub(super) collection: u32,
    pub(super) bytes: u64,
    pub(super) made_unix_ms: u64,
}

/// The whole image, as it lies in memory. Memory of zeros is a valid image.
#[repr(C)]
pub(super) struct Image {
    pub(super) header: Header,
    strings: [u8; STRING_BYTES],
    pub(super) frames: [Frame; FRAMES],
    pub(super) stacks: [StackNode; STACK_NODES],
    pub(super) sites: [Site; SITES],
    pub(super) samples: [Sample; SAMPLES],
}

/// A file of this many zeros that has a name under `/proc` alone; `None` if the system has no such
/// files (before Linux 3.17, or where it refuses them).
fn shown_file(bytes: usize) -> Option<File> {
    if is_refused(SystemCall::Memfd) {
        return None;
    }
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: a text that ends with 0; the new file belongs to this function alone.
    let file = unsafe { opened(libc::memfd_create(c"ashlar-live".as_ptr(), flags)) }.ok()?;
    without_size_signal(|| file.set_len(bytes as u64)).ok()?;
    Some(file)
}

/// The process's image, and the file by which others see it. In a forked child, whose parent goes on
/// with the image, dropping this ends only the child's view of it.
pub(super) struct Mapped {
    memory: Mapping,
    _file: Option<Shown>,
}

/// The open file. Some programs close all files that they find open when they begin, and then the number may be that of a file of theirs, which
/// dropping this leaves open.
struct Shown {
    file: Option<File>,
    identity: Option<(u64, u64)>,
}

impl Shown {
    fn new(file: File) -> Self {
        let identity = identity(&file);
        Self {
            file: Some(file),
            identity,
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            if identity(&file) != self.identity {
                let _ = file.into_raw_fd();
            }
        }
    }
}

fn identity(file: &File) -> Option<(u64, u64)> {
    let found = file.metadata().ok()?;
    Some((found.dev(), found.ino()))
}

impl Mapped {
    /// Maps an empty image; `None` when the system refuses the memory.
    pub(super) fn new(command_line: &str, started_unix_ns: u64) -> Option<Self> {
        let (bytes, access) = (size_of::<Image>(), libc::PROT_READ | libc::PROT_WRITE);
        let file = shown_file(bytes);
        let flags = match &file {
            Some(_) => libc::MAP_SHARED,
            None => libc::MAP_PRIVATE,
        };
        let memory = Mapping::new(bytes, access, flags, file.as_ref()).ok()?;
        if let Some(file) = &file {
            // Only those who may read this process's memory can open the file; this mode keeps
            // the other users among them from writing to it.
            let _ = file.set_permissions(Permissions::from_mode(0o600));
            // Nobody else can change the file, or cut it off below us, as far as the kernel
            // has these seals. The last one came with Linux 5.1; an older kernel sets none of
            // them.
            let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_FUTURE_WRITE;
            // SAFETY: the descriptor is that of an open file.
            unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
        }
        let mut mapped = Self {
            memory,
            _file: file.map(Shown::new),
        };
        mapped.image_mut().begin(command_line, started_unix_ns);
        Some(mapped)
    }

    pub(super) fn read(&self) -> &Image {
        // SAFETY: memory of this size, page-aligned, mapped as long as `self` lives; zeros are
        // valid, and the seals keep other processes from writing.
        unsafe { self.memory.start().cast().as_ref() }
    }

    fn image_mut(&mut self) -> &mut Image {
        // SAFETY: as in `read`; nobody else has a reference to it.
        unsafe { self.memory.start().cast().as_mut() }
    }

    /// Runs `work`, which changes the image, so that a reader notices the change.
    pub(super) fn change<R>(&mut self, work: impl FnOnce(&mut Image) -> R) -> R {
        let image = self.image_mut();
        let sequence = image.header.sequence.load(Ordering::Relaxed);
        image.header.sequence.store(sequence | 1, Ordering::Relaxed);
        fence(Ordering::Release);
        let result = work(image);
        image
            .header
            .sequence
            .store((sequence | 1) + 1, Ordering::Release);
        result
    }
}

impl Image {
    fn begin(&mut self, command_line: &str, started_unix_ns: u64) {
        let header = &mut self.header;
        header.magic = *b"ASHLARHP";
        header.version = 1;
        header.header_bytes = HEADER_BYTES as u32;
        header.written = Written::Live;
        header.process = u64::from(std::process::id());
        header.started_unix_ns = started_unix_ns;
        header.numbers_count = header.numbers.len() as u32;
        header.numbers_offset = offset_of!(Header, numbers) as u32;
        header.tables_offset = offset_of!(Header, tables) as u32;
        self.set_command_line(command_line);
    }

    pub(super) fn set_command_line(&mut self, text: &str) {
        put_text(&mut self.header.command_line, text);
    }

    /// Zeroes the parts of the tables that are in use. The rest has never been written to, and
    /// so takes no memory.
    fn clear_tables(&mut self) {
        let used = self.used();
        let start = (&raw mut *self).cast::<u8>();
        for &(from, to) in &used[1..] {
            // SAFETY: a part of the image behind its header, where zeros are valid.
            unsafe { start.add(from).write_bytes(0, to - from) };
        }
    }

    /// Begins sampling: empties the tables.
    pub(super) fn begin_sampling(&mut self, period_bytes: u64, unix_ns: u64) {
        fn table<T>(offset: usize, entries: &[T], used: usize) -> Table {
            Table {
                offset: offset as u64,
                entry_bytes: size_of::<T>() as u32,
                used: used as u32,
                capacity: entries.len() as u32,
                unused: 0,
            }
        }
        self.clear_tables();
        self.header.tables = [
            table(offset_of!(Image, strings), &self.strings, 4),
            table(offset_of!(Image, frames), &self.frames, 1),
            table(offset_of!(Image, stacks), &self.stacks, 1),
            table(offset_of!(Image, sites), &self.sites, 2),
            table(offset_of!(Image, samples), &self.samples, SAMPLES),
        ];
        self.sites[1].kind = Kind::Payload;
        self.header.tables_count = TABLES as u32;
        self.header.period_bytes = period_bytes;
        self.header.dropped_samples = 0;
        self.header.sampled_since_unix_ns = unix_ns;
        self.header.is_sampling = 1;
    }

    #[cfg(test)]
    pub(super) fn dropped_samples(&self) -> u64 {
        self.header.dropped_samples
    }

    pub(super) fn note_dropped(&mut self) {
        self.header.dropped_samples += 1;
    }

    pub(super) fn set_description(&mut self, text: &str) {
        put_text(&mut self.header.description, text);
    }

    /// Adds a string; returns its offset, or `None` when there is no room.
    pub(super) fn add_string(&mut self, text: &str) -> Option<u32> {
        let used = &mut self.header.tables[0].used;
        let (start, bytes) = (*used as usize, text.len());
        let end = (start + 4 + bytes).next_multiple_of(4);
        let room = self.strings.get_mut(start..end)?;
        room[..4].copy_from_slice(&(bytes as u32).to_le_bytes());
        room[4..4 + bytes].copy_from_slice(text.as_bytes());
        *used = end as u32;
        Some(start as u32)
    }

    /// The string at this offset.
    pub(super) fn string(&self, offset: u32) -> &[u8] {
        let start = offset as usize + 4;
        let length = self.strings[start - 4..start]
            .try_into()
            .map(u32::from_le_bytes);
        &self.strings[start..start + length.unwrap_or(0) as usize]
    }

    /// Takes a new entry of a table that grows from its beginning; returns its number, or
    /// `None` when there is no room.
    pub(super) fn take(&mut self, from: Growing) -> Option<u32> {
        let Table { used, capacity, .. } = &mut self.header.tables[from as usize];
        if used == capacity {
            return None;
        }
        *used += 1;
        Some(*used - 1)
    }

    fn bytes(&self) -> &[u8] {
        let all = slice_from_raw_parts((&raw const *self).cast::<u8>(), size_of::<Self>());
        // SAFETY: all of it is initialised memory, and no part has padding.
        unsafe { &*all }
    }

    /// The byte range of the header, and of the used part of each table.
    fn used(&self) -> [(usize, usize); 1 + TABLES] {
        let mut parts = [(0, HEADER_BYTES); 1 + TABLES];
        let tables = &self.header.tables[..self.header.tables_count as usize];
        for (part, table) in parts[1..].iter_mut().zip(tables) {
            let (start, bytes) = (table.offset as usize, table.used * table.entry_bytes);
            *part = (start, start + bytes as usize);
        }
        for part in &mut parts[1 + tables.len()..] {
            *part = (0, 0);
        }
        parts
    }

    /// Passes the image to `write` in pieces, one table after the other. Allocates nothing, so
    /// that it can be called in a crash.
    pub(super) fn write_to<E>(
        &self,
        written: Written,
        mut write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        // SAFETY: a header is plain numbers and texts.
        let mut header = unsafe { (&raw const self.header).read() };
        *header.sequence.get_mut() = 0;
        header.written = written;
        let parts = self.used();
        let mut offset = HEADER_BYTES;
        for (table, (start, end)) in header.tables.iter_mut().zip(&parts[1..]) {
            table.offset = offset as u64;
            table.capacity = table.used;
            offset += (end - start).next_multiple_of(8);
        }
        let header = slice_from_raw_parts((&raw const header).cast::<u8>(), HEADER_BYTES);
        // SAFETY: the header is initialised and has no padding.
        write(unsafe { &*header })?;
        for &(start, end) in &parts[1..] {
            write(&self.bytes()[start..end])?;
            write(&[0; 8][..(end - start).next_multiple_of(8) - (end - start)])?;
        }
        Ok(())
    }
}

/// Writes a text and the 0 that ends it into a place. A text that does not fit is cut off
/// between two characters.
fn put_text(place: &mut [u8], text: &str) {
    let mut end = text.len().min(place.len() - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    place.fill(0);
    place[..end].copy_from_slice(&text.as_bytes()[..end]);
}
