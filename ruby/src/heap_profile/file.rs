//! The profile in a file: where the file is, and writing it so that either all of the profile
//! is there or nothing has changed.

use std::ffi::{CStr, OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::image::Written;
use super::recorder::{recorder, unix_ns, Recorder, RECORDER};
use crate::message;
use crate::spare_memory::with_spare;
use crate::whole_file::{c_string, own_descriptor, reason, WholeFile};

/// Where the profile is written when the process ends. All of this is prepared in advance,
/// because nothing may be allocated in a crash.
#[derive(Debug)]
pub(super) struct Target {
    /// The path as it was given, with any `%p`, but absolute: the program may change its
    /// folder.
    given: PathBuf,
    file: WholeFile,
    /// For when another process has written to `file` meanwhile.
    numbered: WholeFile,
}

static TARGET: Mutex<Option<Target>> = Mutex::new(None);
/// 0 until it was first asked for.
static STARTED_UNIX_NS: AtomicU64 = AtomicU64::new(0);

/// When this process started: the time of the first call, or of the fork.
pub(super) fn started_unix_ns() -> u64 {
    match STARTED_UNIX_NS.load(Relaxed) {
        0 => {
            let now = unix_ns();
            STARTED_UNIX_NS.store(now, Relaxed);
            now
        }
        started => started,
    }
}

/// The locks that keep the profile unchanged during a fork.
pub(crate) struct HeldProfile {
    _target: MutexGuard<'static, Option<Target>>,
    _recorder: MutexGuard<'static, Option<Recorder>>,
}

/// Locks the profile, so that it does not change during a fork.
pub(crate) fn lock_for_fork() -> HeldProfile {
    HeldProfile {
        _target: hold_target(),
        _recorder: recorder(),
    }
}

fn hold_target() -> MutexGuard<'static, Option<Target>> {
    TARGET.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a path with this process's number in place of `%p`.
fn expanded(given: &Path) -> PathBuf {
    let process = std::process::id().to_string();
    let bytes = given.as_os_str().as_bytes();
    let mut path = Vec::with_capacity(bytes.len() + process.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(2).position(|two| two == b"%p") {
        path.extend_from_slice(&rest[..at]);
        path.extend_from_slice(process.as_bytes());
        rest = &rest[at + 2..];
    }
    path.extend_from_slice(rest);
    OsString::from_vec(path).into()
}

/// Returns `path` with this process's number appended.
fn numbered(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    name.into()
}

impl Target {
    fn new(given: PathBuf, path: &Path) -> io::Result<Self> {
        Ok(Self {
            given,
            file: WholeFile::prepare(path)?,
            numbered: WholeFile::prepare(&numbered(path))?,
        })
    }

    /// The file to write to: `numbered` if another process has written `file` since this
    /// process began. Allocates nothing.
    fn to_write(&self) -> &WholeFile {
        match is_newer_than_this_process(self.file.place()) {
            true => &self.numbered,
            false => &self.file,
        }
    }
}

/// Whether [`write_at_the_end`] has named a file.
pub(super) fn is_written_at_the_end() -> bool {
    hold_target().is_some()
}

/// Makes the profile be written to this file when the process ends. Returns an error when
/// that is already known to be impossible.
pub(super) fn write_at_the_end(given: &OsStr) -> Result<(), String> {
    started_unix_ns();
    let given = PathBuf::from(given);
    let path = expanded(&given);
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let problem = if is_something_else(&path) {
        Some("it is there and is no file".to_owned())
    } else if !folder.is_dir() {
        Some(format!("there is no folder {}", folder.display()))
    } else if !is_writable(folder) {
        Some(format!(
            "the folder {} cannot be written to",
            folder.display()
        ))
    } else {
        None
    };
    if let Some(problem) = problem {
        return Err(format!(
            "ASHLAR_PROFILE={}: {problem}; name a file in a folder that this user can write to",
            given.display()
        ));
    }
    let absolute = std::path::absolute(&given).unwrap_or_else(|_| given.clone());
    let target = Target::new(absolute.clone(), &expanded(&absolute))
        .map_err(|error| format!("ASHLAR_PROFILE={}: {}", given.display(), reason(&error)))?;
    *hold_target() = Some(target);
    Ok(())
}

/// Whether there is something at `path` that a file must not replace.
fn is_something_else(path: &Path) -> bool {
    own_descriptor(path).is_some() || fs::metadata(path).is_ok_and(|data| !data.is_file())
}

/// Returns what is at `path`, following links. Allocates nothing.
fn status(path: &CStr) -> Option<libc::stat> {
    let mut status = MaybeUninit::uninit();
    // SAFETY: `path` ends with 0, and the place for the answer is filled when the call
    // succeeds.
    unsafe { (libc::stat(path.as_ptr(), status.as_mut_ptr()) == 0).then(|| status.assume_init()) }
}

fn is_writable(folder: &Path) -> bool {
    let folder = c_string(folder.as_os_str());
    // SAFETY: a text that ends with 0.
    folder.is_ok_and(|folder| unsafe { libc::access(folder.as_ptr(), libc::W_OK) == 0 })
}

/// Prepares a file of its own for the profile of a forked child.
pub(super) fn begin_in_child() {
    STARTED_UNIX_NS.store(unix_ns(), Relaxed);
    let mut target = hold_target();
    let Some(Target { given, .. }) = target.take() else {
        return;
    };
    let named = expanded(&given);
    let named = match named == given {
        true => numbered(&named),
        false => named,
    };
    *target = Target::new(given, &named).ok();
}

/// Writes the profile as it is now; `written` is noted in it as the reason.
pub(super) fn write(path: &Path, written: Written) -> Result<(), String> {
    if is_something_else(path) {
        return Err(format!(
            "profile={}: it is there and is no file",
            path.display()
        ));
    }
    write_whole(path, written).map_err(|error| {
        format!(
            "profile={}: {}; nothing has been written",
            path.display(),
            reason(&error)
        )
    })
}

fn write_whole(path: &Path, written: Written) -> io::Result<()> {
    WholeFile::prepare(path)?.write(|file| match &*recorder() {
        Some(recorder) => {
            let image = recorder.mapped.read();
            image.write_to(written, |bytes| file.write_all(bytes))
        }
        None => Ok(()),
    })
}

/// Called when the process ends: writes the profile if the environment asks for it, and
/// prints a message when that fails.
pub(super) fn write_last() {
    with_spare(|| {
        let path = match &*hold_target() {
            Some(target) => PathBuf::from(OsStr::from_bytes(target.to_write().place().to_bytes())),
            None => return,
        };
        if let Err(text) = write(&path, Written::AtTheEnd) {
            message::print(text);
        }
    });
}

fn is_newer_than_this_process(path: &CStr) -> bool {
    status(path).is_some_and(|status| {
        let modified_ns =
            status.st_mtime as i128 * 1_000_000_000 + i128::from(status.st_mtime_nsec);
        modified_ns > i128::from(started_unix_ns())
    })
}

/// Called when the process has crashed: writes what there is, without allocating and without
/// waiting for any lock.
pub(super) fn write_at_crash() {
    let (Ok(target), Ok(recorder)) = (TARGET.try_lock(), RECORDER.try_lock()) else {
        return;
    };
    let (Some(target), Some(recorder)) = (&*target, &*recorder) else {
        return;
    };
    let whole = target.to_write();
    let is_file = |status: libc::stat| status.st_mode & libc::S_IFMT == libc::S_IFREG;
    if !status(whole.place()).is_none_or(is_file) {
        return;
    }
    let image = recorder.mapped.read();
    let _ = whole.write(|file| image.write_to(Written::AtACrash, |bytes| file.write_all(bytes)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_the_process_is_put_in() {
        let process = std::process::id().to_string();
        let expanded = |text: &str| expanded(Path::new(text)).to_str().unwrap().to_owned();
        assert_eq!(expanded("a/%p.heap"), format!("a/{process}.heap"));
        assert_eq!(expanded("%p%p%"), format!("{process}{process}%"));
        assert_eq!(expanded("plain"), "plain");
    }
}
