//! Where a dump goes.
//!
//! A regular file has nothing under its name until it is complete. A target that may make its
//! writer wait (a pipe, a device, a descriptor of this process) gets the dump when the program
//! runs again: until then the dump is in a file without a name.

use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use flate2::Compression;

use super::format::Out;
use crate::size_signal::without_size_signal;
use crate::whole_file::{nameless, opened, own_descriptor, WholeFile};

/// How many bytes are passed on at once.
const PIECE_BYTES: usize = 64 << 10;

/// What a dump is written to.
enum Sink {
    Place(WholeFile, File),
    Stream(Stream),
}

/// A target that may make its writer wait, and the dump that it gets.
struct Stream {
    to: File,
    spool: File,
    /// What has been read from the spool and not been written yet.
    piece: Vec<u8>,
}

/// A dump that is being written.
pub(super) struct DumpFile {
    path: CString,
    is_packed: bool,
    spool_folder: PathBuf,
    sink: Option<Sink>,
}

impl DumpFile {
    /// A dump to this path; it is packed with gzip when the path ends with `.gz`. A file
    /// without a name is made in `spool_folder`.
    pub(super) fn new(path: &CStr, spool_folder: PathBuf) -> Self {
        Self {
            path: path.to_owned(),
            is_packed: os_path(path).extension() == Some(OsStr::new("gz")),
            spool_folder,
            sink: None,
        }
    }

    /// Opens the target. If that is a pipe without a reader, waits for one, until a signal
    /// comes.
    pub(super) fn open(&mut self) -> io::Result<()> {
        let (path, folder) = (os_path(&self.path), self.spool_folder.as_path());
        self.sink = Some(match own_descriptor(path) {
            Some(number) => Sink::Stream(Stream::new(duplicate(number)?, folder)?),
            None if fs::metadata(path).is_ok_and(|found| !found.is_file()) => {
                Sink::Stream(Stream::new(open_stream(&self.path)?, folder)?)
            }
            None => {
                let (whole, file) = WholeFile::create(path)?;
                Sink::Place(whole, file)
            }
        });
        Ok(())
    }

    /// Makes `contents` write the dump. A regular file has it afterwards.
    pub(super) fn fill(
        &mut self,
        contents: impl FnOnce(&mut Out<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let closed = || io::Error::from_raw_os_error(libc::EBADF);
        match self.sink.take().ok_or_else(closed)? {
            Sink::Place(whole, mut file) => {
                whole.finish(write_to(&mut file, self.is_packed, contents))
            }
            Sink::Stream(mut stream) => {
                write_to(&mut stream.spool, self.is_packed, contents)?;
                stream.spool.rewind()?;
                self.sink = Some(Sink::Stream(stream));
                Ok(())
            }
        }
    }

    /// Writes what the target has not got yet. After a signal the error is `EINTR`, and this
    /// can be called again.
    pub(super) fn pour(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Some(Sink::Stream(stream)) => stream.pour(),
            _ => Ok(()),
        }
    }
}

/// Removes a dump that was not finished.
impl Drop for DumpFile {
    fn drop(&mut self) {
        if let Some(Sink::Place(whole, _)) = self.sink.take() {
            let _ = whole.finish(Err(io::Error::from_raw_os_error(libc::EINTR)));
        }
    }
}

impl Stream {
    fn new(to: File, spool_folder: &Path) -> io::Result<Self> {
        Ok(Self {
            to,
            spool: nameless(spool_folder)?,
            piece: Vec::new(),
        })
    }

    fn pour(&mut self) -> io::Result<()> {
        loop {
            if self.piece.is_empty() {
                let mut next = (&mut self.spool).take(PIECE_BYTES as u64);
                if next.read_to_end(&mut self.piece)? == 0 {
                    return Ok(());
                }
            }
            match without_size_signal(|| self.to.write(&self.piece)) {
                Ok(written) => drop(self.piece.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => wait_for_room(&self.to)?,
                Err(error) => return Err(error),
            }
        }
    }
}

fn write_to(
    file: &mut File,
    is_packed: bool,
    contents: impl FnOnce(&mut Out<'_>) -> io::Result<()>,
) -> io::Result<()> {
    without_size_signal(|| {
        if !is_packed {
            return contents(&mut Out::new(file));
        }
        // Compressed fast, because the program is stopped meanwhile.
        let mut gzip = GzEncoder::new(file, Compression::fast());
        contents(&mut Out::new(&mut gzip)).and_then(|()| gzip.finish()?.flush())
    })
}

fn os_path(path: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(path.to_bytes()))
}

/// A duplicate of a descriptor, which the program keeps.
fn duplicate(number: libc::c_int) -> io::Result<File> {
    // SAFETY: any number may be asked for; the new file belongs to this function alone.
    unsafe { opened(libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0)) }
}

/// Opens a target that is no regular file, and no link. In a folder of all users another one may
/// have put a file of his own in its place since that was asked. The standard library would go on
/// waiting for the reader of a pipe after a signal.
fn open_stream(path: &CStr) -> io::Result<File> {
    let flags = libc::O_WRONLY | libc::O_NOFOLLOW | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: `path` ends with 0; the new file belongs to this function alone.
    let file = unsafe { opened(libc::open(path.as_ptr(), flags)) }?;
    let found = file.metadata()?;
    // SAFETY: asks who this process is.
    let is_trusted = found.uid() == 0 || found.uid() == unsafe { libc::geteuid() };
    if found.is_file() || found.file_type().is_fifo() && !is_trusted {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    Ok(file)
}

/// Waits until something can be written, or a signal comes.
fn wait_for_room(to: &File) -> io::Result<()> {
    let mut wanted = libc::pollfd {
        fd: to.as_raw_fd(),
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one descriptor, which is open.
    match unsafe { libc::poll(&raw mut wanted, 1, -1) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_stands_where_a_pipe_stood_is_not_written_to() {
        let path = std::env::temp_dir().join(format!("ashlar-dump-{}", std::process::id()));
        fs::write(&path, "theirs").unwrap();
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        let opened = open_stream(&name);
        fs::remove_file(&path).unwrap();
        assert_eq!(opened.unwrap_err().raw_os_error(), Some(libc::EPERM));
    }
}
