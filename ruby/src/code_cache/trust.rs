//! Whose folder and files are believed: compiled code is code that will run.

use std::ffi::CString;
use std::fs::{DirBuilder, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::settings;
use crate::whole_file::{opened, reason};

/// Why something is not believed, or cannot be had.
#[derive(Debug)]
pub(super) enum Distrust {
    /// There is nothing.
    Absent,
    Why(String),
}

/// What the file of this name has given; `None`, with a line under `-w` if there is a reason, when it
/// is not believed.
pub(super) fn believed<T>(name: &str, given: Result<T, Distrust>) -> Option<T> {
    given
        .inspect_err(|distrust| {
            if let Distrust::Why(why) = distrust {
                settings::say(&format!("{name}: {why}; it is not used"));
            }
        })
        .ok()
}

impl From<io::Error> for Distrust {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOENT) => Self::Absent,
            Some(libc::ELOOP) => Self::Why("it is a symbolic link".to_owned()),
            _ => Self::Why(reason(&error)),
        }
    }
}

/// The user that this process acts for now.
fn this_user() -> u32 {
    // SAFETY: the call only reads.
    unsafe { libc::geteuid() }
}

/// Says why a folder or a file is not believed: it must be this user's or root's, and nobody
/// else may write to it.
fn check(data: &Metadata) -> Result<(), Distrust> {
    let (owner, user) = (data.uid(), this_user());
    if owner != user && owner != 0 {
        let why = format!("it belongs to user {owner}, and this is user {user}");
        return Err(Distrust::Why(why));
    }
    if data.mode() & 0o022 != 0 {
        let mode = data.mode() & 0o7777;
        let why = format!("its mode is {mode:03o}: others than its owner may write to it");
        return Err(Distrust::Why(why));
    }
    Ok(())
}

/// Opens the folder. What is looked at is what has been opened.
pub(super) fn open_folder(path: &Path) -> Result<File, Distrust> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let folder = File::options().read(true).custom_flags(flags).open(path)?;
    check(&folder.metadata()?)?;
    Ok(folder)
}

/// Opens the folder; makes it, for this user alone, if there is none.
pub(super) fn open_or_make_folder(path: &Path) -> Result<File, String> {
    let made = DirBuilder::new().mode(0o700).create(path);
    match open_folder(path) {
        Ok(folder) => Ok(folder),
        Err(Distrust::Why(why)) => Err(why),
        Err(Distrust::Absent) => {
            let why = made
                .err()
                .map_or("it is gone again".to_owned(), |error| reason(&error));
            Err(format!("it cannot be made: {why}"))
        }
    }
}

/// Whether this user may make files in the folder, as far as that can be known in advance.
pub(super) fn is_writable(folder: &File) -> bool {
    let flags = libc::AT_EACCESS;
    // SAFETY: a text that ends with 0.
    unsafe { libc::faccessat(folder.as_raw_fd(), c".".as_ptr(), libc::W_OK, flags) == 0 }
}

/// Opens a file of the folder: to read, or with these flags besides.
pub(super) fn open_file(folder: &File, name: &str, flags: i32) -> Result<File, Distrust> {
    let name = CString::new(name).map_err(io::Error::from)?;
    // A pipe by this name would make the opening wait.
    let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let folder = folder.as_raw_fd();
    // SAFETY: a text that ends with 0; the new file belongs to this function alone.
    let file = unsafe { opened(libc::openat(folder, name.as_ptr(), flags, 0o600)) }?;
    let data = file.metadata()?;
    if !data.is_file() {
        return Err(Distrust::Why("it is no file".to_owned()));
    }
    check(&data)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_that_anybody_else_may_write_to_is_not_believed() {
        let path = std::env::temp_dir().join(format!("trust-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        for (mode, is_believed) in [
            (0o755, true),
            (0o775, false),
            (0o757, false),
            (0o1777, false),
        ] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(open_folder(&path).is_ok(), is_believed, "{mode:o}");
        }
        fs::remove_dir(path).unwrap();
    }
}
