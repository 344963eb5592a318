//! Writing a new file of code, and what ran.
//!
//! Whoever has something to write takes a lock in the folder, reads the file that is there now,
//! and puts what is still right of it and what is new into a new file, which then takes the
//! name. Who finds the lock taken writes nothing: of forty processes that start together one
//! writes, and what the others had is compiled again next time, if the one had not the same.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::digest::Digest;
use super::file::CodeFile;
use super::layout::{self, Level, ToWrite, FILE_BYTES_MAX};
use super::source::{Source, Stamp};
use super::trust::{open_file, open_folder, Distrust};
use super::what_ran::{carry, Bits};
use super::{locked, settings, CodeCache, Fresh, FreshCode};
use crate::whole_file::{random, reason, WholeFile};

pub(super) fn file_name(name: &str) -> String {
    format!("{name}.cache")
}

pub(super) fn ran_name(name: &str) -> String {
    format!("{name}.ran")
}

/// Takes the lock; `None` when another process has it. It is free again when the file is
/// closed.
fn lock(folder: &File, name: &str) -> Result<Option<File>, Distrust> {
    let flags = libc::O_RDWR | libc::O_CREAT;
    let file = open_file(folder, &format!("{name}.lock"), flags)?;
    // SAFETY: the descriptor is that of an open file.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(Some(file)),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EWOULDBLOCK) => Ok(None),
            error => Err(error.into()),
        },
    }
}

impl CodeCache {
    /// Writes what is new, if anything is. A failure is no error: the program goes on.
    pub(super) fn write(&self) {
        if let Some(file) = &self.file {
            file.mapping.let_go();
        }
        let has_fresh = {
            let fresh = locked(&self.fresh);
            !fresh.code.is_empty() || !fresh.unchanged.is_empty() || self.is_outdated.load(Relaxed)
        };
        let ran = self.ran.as_ref().map(|ran| ran.now());
        let has_ran = ran.as_ref().is_some_and(|ran| ran.count() > 0);
        if !has_fresh && !has_ran {
            return;
        }
        match self.try_write(has_fresh, ran.filter(|_| has_ran)) {
            Ok(()) => {}
            Err(Distrust::Absent) => settings::say("the folder is gone; nothing has been written"),
            Err(Distrust::Why(why)) => settings::say(&format!("{why}; nothing has been written")),
        }
    }

    /// Whether enough has been kept to write the file before a fork, where writing makes the
    /// program wait: an eighth of the file.
    pub(super) fn is_worth_writing(&self) -> bool {
        let file_bytes = self.file.as_ref().map_or(0, |file| file.bytes().len());
        let fresh = locked(&self.fresh);
        let was_written = locked(&self.counts).written > 0;
        fresh.bytes > file_bytes / 8 || !was_written && !fresh.code.is_empty()
    }

    fn try_write(&self, has_fresh: bool, ran: Option<Bits>) -> Result<(), Distrust> {
        let folder = open_folder(&self.folder)?;
        let Some(_lock) = lock(&folder, &self.name)? else {
            return Ok(());
        };
        let name = file_name(&self.name);
        let mut current = CodeFile::open(&folder, &name, &self.ruby).ok();
        let read = |of: &CodeFile| Bits::read(&folder, &ran_name(&self.name), &of.index).ok();
        let mut bits = current.as_ref().and_then(read);
        let mut are_bits_new = false;
        if has_fresh {
            let fresh = std::mem::take(&mut *locked(&self.fresh));
            self.is_outdated.store(false, Relaxed);
            if let Some(generation) = self.write_file(current.as_ref(), fresh)? {
                locked(&self.counts).written += 1;
                let old = current.take();
                current = CodeFile::open(&folder, &name, &self.ruby).ok();
                let new = current
                    .as_ref()
                    .filter(|new| new.index.generation == generation);
                bits = new.map(|new| {
                    let mut carried = Bits::none(new.index.sequences);
                    if let (Some(old), Some(bits)) = (&old, &bits) {
                        let to = (&new.index, new.bytes(), &mut carried);
                        carry((&old.index, old.bytes(), bits), to);
                    }
                    are_bits_new = carried.count() > 0;
                    carried
                });
            }
        }
        let (Some(current), Some(mut bits)) = (current, bits) else {
            return Ok(());
        };
        let before = bits.count();
        if let (Some(ran), Some(own)) = (&ran, &self.file) {
            if own.index.generation == current.index.generation {
                bits.add(ran);
            } else {
                let to = (&current.index, current.bytes(), &mut bits);
                carry((&own.index, own.bytes(), ran), to);
            }
        }
        if are_bits_new || bits.count() > before {
            let place = self.folder.join(ran_name(&self.name));
            write_whole(&place, |file| {
                bits.write_to(file, &current.index.generation)
            })?;
        }
        Ok(())
    }

    /// Writes a new file; returns its generation. `None` if the one there has all that is new.
    fn write_file(
        &self,
        current: Option<&CodeFile>,
        mut fresh: Fresh,
    ) -> Result<Option<Digest>, Distrust> {
        if let Some(current) = current {
            fresh.code.retain(|code| !has(current, &code.of));
        }
        let mut entries = Vec::new();
        let old_entries = current.map_or(0, |current| current.index.entries);
        let room = entries.try_reserve_exact(old_entries + fresh.code.len());
        room.map_err(io::Error::from)?;
        let are_old_the_same =
            current.is_none_or(|current| still_right(current, &fresh, &mut entries));
        if fresh.code.is_empty() && are_old_the_same {
            return Ok(None);
        }
        let mut bytes: u64 = entries.iter().map(|entry| entry.code.len() as u64).sum();
        for waiting in &fresh.code {
            let of = &waiting.of;
            let code = fresh.spool.get(&waiting.place);
            bytes += code.len() as u64;
            if bytes > FILE_BYTES_MAX {
                break;
            }
            entries.push(ToWrite {
                about: of.about,
                path: &of.path,
                real_path: of.real_path.as_os_str().as_encoded_bytes(),
                code,
                code_check: waiting.code_check,
            });
        }
        remove_leftovers(&self.folder);
        let generation = random()?.to_le_bytes();
        let place = self.folder.join(file_name(&self.name));
        write_whole(&place, |file| {
            let mut out = BufWriter::with_capacity(1 << 16, file);
            layout::write(&entries, &self.ruby, &generation, |bytes| {
                out.write_all(bytes)
            })?;
            out.flush()
        })?;
        Ok(Some(generation))
    }
}

/// Removes files that processes left unfinished, because they were killed. Whoever finishes one
/// has begun it seconds ago.
fn remove_leftovers(folder: &Path) {
    const OLD: Duration = Duration::from_secs(3600);
    for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = file.file_name();
        let name = name.as_encoded_bytes();
        let is_unfinished = name.starts_with(b".ashlar-") && name.ends_with(b".part");
        let modified = file.metadata().and_then(|data| data.modified());
        let age = modified.ok().and_then(|modified| modified.elapsed().ok());
        if is_unfinished && age.is_some_and(|age| age > OLD) {
            let _ = std::fs::remove_file(file.path());
        }
    }
}

fn write_whole(
    place: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), Distrust> {
    let why = |error: io::Error| {
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        Distrust::Why(format!("{name} cannot be written: {}", reason(&error)))
    };
    let whole = WholeFile::prepare(place).map_err(why)?;
    whole.write(write).map_err(why)
}

/// Whether the file has this code, or code that is as good.
fn has(current: &CodeFile, code: &FreshCode) -> bool {
    let real_path = code.real_path.as_os_str().as_encoded_bytes();
    let bytes = current.bytes();
    let found = current
        .index
        .find(bytes, &code.about.key, &code.path, real_path);
    found.is_some_and(|(_, entry)| {
        let level: Level = code.about.level;
        entry.about.source == code.about.source
            && level.is_within(entry.about.level)
            && entry.is_code_whole(bytes)
    })
}

/// Adds the entries of the file that stay: their sources are there, of the same size, and their
/// code is whole. Returns whether they are all there is, as it is.
fn still_right<'a>(current: &'a CodeFile, fresh: &Fresh, entries: &mut Vec<ToWrite<'a>>) -> bool {
    let bytes = current.bytes();
    let mut are_same = true;
    for number in 0..current.index.entries {
        let Some(entry) = current.index.entry(bytes, number) else {
            are_same = false;
            continue;
        };
        let key = &entry.about.key;
        let is_replaced = fresh.code.iter().any(|code| code.of.about.key == *key);
        let is_right = !is_replaced
            && is_source_there(entry.real_path(bytes), entry.about.source.stamp)
            && entry.is_code_whole(bytes);
        if !is_right {
            are_same = false;
            continue;
        }
        let mut about = entry.about;
        // Another process may have replaced the entry meanwhile, with code of other content.
        let is_of =
            |(of, now): &&(Digest, Source)| of == key && now.content == about.source.content;
        let unchanged = fresh.unchanged.iter().rev().find(is_of);
        if let Some((_, now)) = unchanged.filter(|(_, now)| now.stamp != about.source.stamp) {
            about.source.stamp = now.stamp;
            are_same = false;
        }
        entries.push(ToWrite {
            about,
            path: entry.path(bytes),
            real_path: entry.real_path(bytes),
            code: &bytes[entry.code.clone()],
            code_check: entry.code_check,
        });
    }
    are_same
}

fn is_source_there(real_path: &[u8], stamp: Stamp) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let path = Path::new(std::ffi::OsStr::from_bytes(real_path));
    Stamp::at(path).is_some_and(|now| now.bytes == stamp.bytes)
}
