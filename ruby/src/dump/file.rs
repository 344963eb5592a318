//! The file of a dump: nothing under its name until it is whole.

use std::ffi::{CStr, OsStr};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use flate2::write::GzEncoder;
use flate2::Compression;

use super::format::Out;
use crate::whole_file::WholeFile;

/// A file to write a dump to. What is not a regular file, such as a pipe, is written
/// directly; else the dump is written beside its place, and put there when it is whole.
pub(super) struct DumpFile {
    file: File,
    is_packed: bool,
    whole: Option<WholeFile>,
}

impl DumpFile {
    /// Opens it; what is written is packed with gzip when the name ends with `.gz`.
    pub(super) fn create(path: &CStr) -> io::Result<Self> {
        let path = Path::new(OsStr::from_bytes(path.to_bytes()));
        let (whole, file) = if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            (None, File::options().write(true).open(path)?)
        } else {
            let (whole, file) = WholeFile::create(path)?;
            (Some(whole), file)
        };
        Ok(Self {
            file,
            is_packed: path.extension() == Some(OsStr::new("gz")),
            whole,
        })
    }

    /// Has `contents` write the dump.
    pub(super) fn fill(
        mut self,
        contents: impl FnOnce(&mut Out<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let written = if self.is_packed {
            // The pause is what counts.
            let mut gzip = GzEncoder::new(self.file, Compression::fast());
            contents(&mut Out::new(&mut gzip)).and_then(|()| gzip.finish()?.flush())
        } else {
            contents(&mut Out::new(&mut self.file))
        };
        match self.whole {
            Some(whole) => whole.finish(written),
            None => written,
        }
    }
}
