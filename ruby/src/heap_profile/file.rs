//! The profile in a file: where it goes, and writing it so that either all of it is there
//! or nothing has changed.

use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::image::Written;
use super::recorder;
use super::recorder::unix_ns;
use crate::whole_file::WholeFile;

/// Where the profile goes when the process ends.
#[derive(Debug)]
struct Target {
    /// As it was given, `%p` and all.
    given: PathBuf,
    /// For a crash, when nothing may be allocated.
    path: CString,
}

static TARGET: Mutex<Option<Target>> = Mutex::new(None);
static STARTED_UNIX_NS: OnceLock<u64> = OnceLock::new();

pub(super) fn started_unix_ns() -> u64 {
    *STARTED_UNIX_NS.get_or_init(unix_ns)
}

/// The arguments of the process, separated by blanks.
pub(super) fn command_line() -> String {
    let arguments = fs::read("/proc/self/cmdline").unwrap_or_default();
    let text = String::from_utf8_lossy(&arguments).replace('\0', " ");
    text.trim_end().to_owned()
}

/// A path with this process's number in place of `%p`.
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

fn has_number(path: &Path) -> bool {
    path.as_os_str()
        .as_bytes()
        .windows(2)
        .any(|two| two == b"%p")
}

/// `path` with this process's number behind it.
fn numbered(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    name.into()
}

fn set_target(given: PathBuf, path: &Path) {
    let text = path.as_os_str().as_bytes();
    let path = CString::new(text).unwrap_or_default();
    *TARGET.lock().unwrap_or_else(PoisonError::into_inner) = Some(Target { given, path });
}

/// Has the profile written to this file when the process ends. An error when it could not
/// be, as far as can be known now.
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
    set_target(given, &path);
    Ok(())
}

/// Whether there is something at `path` that a file must not take the place of.
fn is_something_else(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| !data.is_file())
}

fn is_writable(folder: &Path) -> bool {
    let Ok(folder) = CString::new(folder.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: a text that ends with 0.
    unsafe { libc::access(folder.as_ptr(), libc::W_OK) == 0 }
}

/// In a forked child, whose profile is a file of its own.
pub(super) fn name_for_child() {
    let mut target = TARGET.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(Target { given, path }) = target.as_mut() else {
        return;
    };
    let named = expanded(given);
    let named = if has_number(given) {
        named
    } else {
        numbered(&named)
    };
    *path = CString::new(named.as_os_str().as_bytes()).unwrap_or_default();
}

/// Writes the profile as it is now.
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

/// The system's words without its number.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    text[..end].to_owned()
}

fn write_whole(path: &Path, written: Written) -> std::io::Result<()> {
    let (whole, mut file) = WholeFile::create(path)?;
    let outcome = match &*recorder() {
        Some(recorder) => {
            let image = recorder.mapped.read();
            image.write_to(written, |bytes| file.write_all(bytes))
        }
        None => Ok(()),
    };
    whole.finish(outcome)
}

/// The process ends: writes the profile if that was asked for, and says so when it cannot.
/// A file that another process has written since this one began is left alone.
pub(super) fn write_last() {
    let path = {
        let target = TARGET.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(target) = &*target else { return };
        PathBuf::from(OsStr::from_bytes(target.path.as_bytes()))
    };
    let path = if is_newer_than_this_process(&path) {
        numbered(&path)
    } else {
        path
    };
    if let Err(message) = write(&path, Written::AtTheEnd) {
        eprintln!("ashlar: {message}");
    }
}

fn is_newer_than_this_process(path: &Path) -> bool {
    let modified = fs::metadata(path).and_then(|data| data.modified());
    let since = modified.map(|time| time.duration_since(std::time::UNIX_EPOCH));
    matches!(since, Ok(Ok(since)) if since.as_nanos() as u64 > started_unix_ns())
}

/// The process has crashed: writes what there is, without allocating and without waiting
/// for any lock.
pub(super) fn write_at_crash() {
    let (Ok(target), Ok(recorder)) = (TARGET.try_lock(), super::RECORDER.try_lock()) else {
        return;
    };
    let (Some(target), Some(recorder)) = (&*target, &*recorder) else {
        return;
    };
    // SAFETY: a text that ends with 0; the file is used here alone.
    unsafe {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
        let file = libc::open(target.path.as_ptr(), flags, 0o644);
        if file < 0 {
            return;
        }
        let _ = recorder
            .mapped
            .read()
            .write_to(Written::AtACrash, |mut bytes| {
                while !bytes.is_empty() {
                    let written = libc::write(file, bytes.as_ptr().cast(), bytes.len());
                    if written <= 0 {
                        return Err(());
                    }
                    bytes = &bytes[written as usize..];
                }
                Ok(())
            });
        libc::close(file);
    }
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
        assert!(has_number(Path::new("a/%p")) && !has_number(Path::new("a%")));
    }
}
