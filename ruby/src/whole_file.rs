//! A file that has nothing under its name until it is whole.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A file that is being written beside its place.
pub(crate) struct WholeFile {
    place: PathBuf,
    unfinished: PathBuf,
}

impl WholeFile {
    /// Begins one for `place`. Of several processes each has its own.
    pub(crate) fn create(place: &Path) -> io::Result<(Self, File)> {
        let mut unfinished = OsString::from(place);
        unfinished.push(format!(".{}.part", std::process::id()));
        let unfinished = PathBuf::from(unfinished);
        let file = File::create(&unfinished)?;
        let place = place.to_owned();
        Ok((Self { place, unfinished }, file))
    }

    /// Puts the file in its place if all was written, else removes it. The error that is
    /// told is the first one.
    pub(crate) fn finish(self, written: io::Result<()>) -> io::Result<()> {
        let placed = written.and_then(|()| fs::rename(&self.unfinished, &self.place));
        if placed.is_err() {
            let _ = fs::remove_file(&self.unfinished);
        }
        placed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

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
    fn what_failed_leaves_the_old_file_alone_and_nothing_beside_it() {
        let folder = folder("failed");
        let place = folder.join("a");
        fs::write(&place, "old").unwrap();
        let (whole, mut file) = WholeFile::create(&place).unwrap();
        file.write_all(b"half").unwrap();
        let told = whole.finish(Err(io::Error::other("the disk is full")));
        assert_eq!(told.unwrap_err().to_string(), "the disk is full");
        assert_eq!(names(&folder), ["a"]);
        assert_eq!(fs::read(&place).unwrap(), b"old");
        fs::remove_dir_all(folder).unwrap();
    }
}
