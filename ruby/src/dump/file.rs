//! The file of a dump: nothing under its name until it is whole.

use std::ffi::{CStr, OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use flate2::Compression;

use super::format::Out;

/// A file to write a dump to. What is not a regular file, such as a pipe, is written
/// directly; else the dump is written beside its place, and put there when it is whole.
pub(super) struct DumpFile {
    file: File,
    /// Where the dump belongs.
    path: PathBuf,
    /// Where it is until it is whole.
    unfinished: Option<PathBuf>,
}

impl DumpFile {
    pub(super) fn create(path: &CStr) -> io::Result<Self> {
        let path = PathBuf::from(OsStr::from_bytes(path.to_bytes()));
        if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Ok(Self {
                file: File::options().write(true).open(&path)?,
                path,
                unfinished: None,
            });
        }
        // Of several processes each has its own.
        let mut unfinished = OsString::from(&path);
        unfinished.push(format!(".{}.part", std::process::id()));
        let unfinished = PathBuf::from(unfinished);
        Ok(Self {
            file: File::create(&unfinished)?,
            path,
            unfinished: Some(unfinished),
        })
    }

    /// Has `contents` write the dump, with gzip when the name ends with `.gz`.
    pub(super) fn fill(
        self,
        contents: impl FnOnce(&mut Out<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let Self {
            file,
            path,
            unfinished,
        } = self;
        let written = if path.extension() == Some(OsStr::new("gz")) {
            // The pause is what counts.
            let mut gzip = GzEncoder::new(file, Compression::fast());
            contents(&mut Out::new(&mut gzip)).and_then(|()| gzip.finish()?.flush())
        } else {
            let mut file = file;
            contents(&mut Out::new(&mut file))
        };
        match unfinished {
            Some(unfinished) => put_in_place(written, &unfinished, &path),
            None => written,
        }
    }
}

fn put_in_place(written: io::Result<()>, unfinished: &Path, path: &Path) -> io::Result<()> {
    let placed = written.and_then(|()| fs::rename(unfinished, path));
    if placed.is_err() {
        // The error that is told is the first one.
        let _ = fs::remove_file(unfinished);
    }
    placed
}
