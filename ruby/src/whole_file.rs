//! A file that has nothing under its name until it is complete.
//!
//! The file is written beside its place, under a name that nobody can guess, and then renamed.
//! A link or another user's file that had the final name before is replaced, and neither
//! followed nor written to. Only this user may read the file, whatever the umask is.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::size_signal::without_size_signal;

/// The random bits of a name.
const NAME_BITS: usize = 128;

/// The place of a file, and the name that the file has until it is complete.
#[derive(Debug)]
pub(crate) struct WholeFile {
    place: CString,
    unfinished: CString,
}

impl WholeFile {
    /// Chooses the temporary name of a file that belongs at `place`. The file may be written
    /// later, and more than once.
    pub(crate) fn prepare(place: &Path) -> io::Result<Self> {
        let folder = place.parent().filter(|folder| *folder != Path::new(""));
        let unfinished = folder
            .unwrap_or(Path::new("."))
            .join(format!(".ashlar-{:032x}.part", random()?));
        Ok(Self {
            place: c_string(place.as_os_str())?,
            unfinished: c_string(unfinished.as_os_str())?,
        })
    }

    /// Begins the file at `place`.
    pub(crate) fn create(place: &Path) -> io::Result<(Self, File)> {
        let whole = Self::prepare(place)?;
        let file = whole.begin()?;
        Ok((whole, file))
    }

    /// Makes `contents` write the file. It has its name afterwards, or is gone. This allocates
    /// nothing and waits for no lock, so that it can be called in a crash.
    pub(crate) fn write(
        &self,
        contents: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut file = self.begin()?;
        self.finish(without_size_signal(|| contents(&mut file)))
    }

    /// Begins the file. Allocates nothing and waits for no lock.
    fn begin(&self) -> io::Result<File> {
        create_new(&self.unfinished)
    }

    /// Renames the file to its place if all was written, else removes it. Returns the first
    /// error. Allocates nothing and waits for no lock.
    pub(crate) fn finish(&self, written: io::Result<()>) -> io::Result<()> {
        // SAFETY: both are texts that end with 0.
        let placed = written.and_then(|()| unsafe {
            outcome(libc::rename(self.unfinished.as_ptr(), self.place.as_ptr()))
        });
        if placed.is_err() {
            // SAFETY: as above.
            unsafe { libc::unlink(self.unfinished.as_ptr()) };
        }
        placed
    }

    pub(crate) fn place(&self) -> &CStr {
        &self.place
    }
}

/// Makes a file without a name in `folder`, to write and read.
pub(crate) fn nameless(folder: &Path) -> io::Result<File> {
    let whole = WholeFile::prepare(&folder.join("nameless"))?;
    let file = whole.begin()?;
    // SAFETY: a text that ends with 0.
    outcome(unsafe { libc::unlink(whole.unfinished.as_ptr()) })?;
    Ok(file)
}

/// Makes a file at `path`, where nothing may be yet, for this user alone.
fn create_new(path: &CStr) -> io::Result<File> {
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: a text that ends with 0; the new file belongs to this function alone.
    unsafe { opened(libc::open(path.as_ptr(), flags, 0o600)) }
}

/// The file that a system call has opened; `descriptor` is its result, -1 after an error.
///
/// # Safety
/// Nobody else has the descriptor.
pub(crate) unsafe fn opened(descriptor: libc::c_int) -> io::Result<File> {
    outcome(descriptor)?;
    // SAFETY: the descriptor is that of an open file, and nobody else has it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

pub(crate) fn random() -> io::Result<u128> {
    let mut bytes = [0_u8; NAME_BITS / 8];
    // SAFETY: the place has this many bytes.
    outcome(unsafe { libc::getentropy(bytes.as_mut_ptr().cast(), bytes.len()) })?;
    Ok(u128::from_ne_bytes(bytes))
}

pub(crate) fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// The descriptor of this process that a path names. Such a path is a link of the system's, also where the descriptor
/// is a file's, and no place for another file.
pub(crate) fn own_descriptor(path: &Path) -> Option<libc::c_int> {
    match path.to_str()? {
        "/dev/stdout" => Some(1),
        "/dev/stderr" => Some(2),
        path => {
            let number = path
                .strip_prefix("/dev/fd/")
                .or_else(|| path.strip_prefix("/proc/self/fd/"));
            number?.parse().ok().filter(|number| *number >= 0)
        }
    }
}

/// The system's message without its error number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    text[..end].to_owned()
}

/// Turns the result of a system call, which is -1 after an error, into a `Result`.
fn outcome(result: libc::c_int) -> io::Result<()> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::{symlink, PermissionsExt};
    use std::path::PathBuf;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("whole-file-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn names(folder: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn nothing_has_its_name_until_it_is_whole() {
        let folder = folder("written");
        let place = folder.join("a");
        let (whole, mut file) = WholeFile::create(&place).unwrap();
        file.write_all(b"all of it").unwrap();
        assert!(!place.exists());
        whole.finish(Ok(())).unwrap();
        assert_eq!(names(&folder), ["a"]);
        assert_eq!(fs::read(&place).unwrap(), b"all of it");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_link_planted_at_the_unfinished_name_is_not_followed() {
        let folder = folder("planted");
        let (other, place) = (folder.join("other"), folder.join("place"));
        fs::write(&other, "precious").unwrap();
        let whole = WholeFile::prepare(&place).unwrap();
        let unfinished = Path::new(OsStr::from_bytes(whole.unfinished.as_bytes()));
        for target in [other.as_path(), Path::new("nothing-there")] {
            symlink(target, unfinished).unwrap();
            let refused = whole.begin().unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EEXIST));
            fs::remove_file(unfinished).unwrap();
        }
        assert_eq!(fs::read(&other).unwrap(), b"precious");
        assert!(!folder.join("nothing-there").exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn only_names_of_descriptors_stand_for_one() {
        let number = |path: &str| own_descriptor(Path::new(path));
        assert_eq!(number("/dev/stdout"), Some(1));
        assert_eq!(number("/dev/fd/17"), Some(17));
        assert_eq!(number("/proc/self/fd/3"), Some(3));
        for path in [
            "/dev/fd/",
            "/dev/fd/-1",
            "/dev/fd/3/4",
            "/tmp/dev/fd/3",
            "fd/3",
        ] {
            assert_eq!(number(path), None, "{path}");
        }
    }

    #[test]
    fn names_differ_and_only_this_user_may_read_what_they_name() {
        let folder = folder("modes");
        let place = folder.join("place");
        let files: Vec<_> = (0..50)
            .map(|_| WholeFile::create(&place).unwrap())
            .collect();
        let mut found = names(&folder);
        found.sort();
        found.dedup();
        assert_eq!(found.len(), 50);
        for name in &found {
            let mode = fs::metadata(folder.join(name))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
            let text = name.to_str().unwrap();
            assert_eq!(text.len(), ".ashlar-.part".len() + NAME_BITS / 4, "{text}");
        }
        for (whole, _) in files {
            whole.finish(Ok(())).unwrap();
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_nameless_file_leaves_nothing_in_its_folder() {
        let folder = folder("nameless");
        let mut file = nameless(&folder).unwrap();
        file.write_all(b"gone with the process").unwrap();
        assert!(names(&folder).is_empty());
        fs::remove_dir_all(folder).unwrap();
    }
}
