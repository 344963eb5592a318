//! Reads dumps: finds out the format, unpacks gzip, and says what is wrong with a dump.

mod ashlar;
mod dump_all;
mod input;

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::blocks;
use crate::graph::{Builder, Graph, Refused};

/// What a dump says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// `GC.config(dump:)` or `ObjectSpace.dump_all`.
    pub format: &'static str,
    /// The version of Ruby, if the dump has it.
    pub ruby_version: Option<String>,
    /// The process that was dumped.
    pub pid: Option<u64>,
    /// The time of the dump, in seconds of Unix time.
    pub unix_seconds: Option<u64>,
    /// Bytes that objects own outside Ashlar's heap, as extensions have reported them.
    pub elsewhere_bytes: Option<u64>,
    /// Whether the dump says what each block is used for; otherwise the blocks are found
    /// from the addresses of objects.
    pub tells_blocks: bool,
}

/// A dump that has been read.
#[derive(Debug)]
pub struct Dump {
    /// What the dump says about itself.
    pub source: Source,
    /// Its objects.
    pub graph: Graph,
}

/// Why a dump cannot be read: one line that says what is wrong, where, and what can be
/// done.
#[derive(Debug)]
pub struct Unreadable(String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

/// What is wrong inside a dump, before the file's name is known.
#[derive(Debug)]
enum Wrong {
    /// The system or the gzip file returned an error.
    Input(io::Error),
    /// The dump is cut off.
    Truncated(String),
    /// The dump contradicts itself or its format.
    Broken(String),
    /// The input is no dump at all.
    NoDump,
}

impl From<io::Error> for Wrong {
    fn from(error: io::Error) -> Self {
        Self::Input(error)
    }
}

impl From<Refused> for Wrong {
    fn from(refused: Refused) -> Self {
        Self::Broken(match refused {
            Refused::TooLarge => "it has 2^31 objects or 2^32 references, or more".to_owned(),
            Refused::Twice(address) => {
                format!("{address:#x} is in it twice; are these two dumps in one file?")
            }
        })
    }
}

const WANTED: &str =
    "a file that GC.config(dump: \"file\") or ObjectSpace.dump_all(output: file) wrote";

impl Wrong {
    fn of_file(self, name: &str) -> Unreadable {
        Unreadable(match self {
            Self::Input(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                format!("{name}: the gzip file ends too early; the dump was cut off, or is still being written")
            }
            Self::Input(error) => match error.raw_os_error() {
                Some(_) => format!("{name}: cannot be read: {error}"),
                None => format!("{name}: the gzip file is damaged ({error}); write the dump again"),
            },
            Self::Truncated(place) => {
                format!("{name}: the dump ends too early, {place}; it was cut off, or is still being written")
            }
            Self::Broken(what) => format!("{name}: {what}; {WANTED} is wanted"),
            Self::NoDump => format!("{name}: not a dump of a Ruby heap; {WANTED} is wanted"),
        })
    }
}

/// Called with the objects and the references that have been read so far.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize);

/// Reads the dump in a file.
pub fn file(path: &Path, progress: Progress<'_>) -> Result<Dump, Unreadable> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| Wrong::Input(error).of_file(&name))?;
    stream(file, &name, progress)
}

/// Reads a dump from any input; `name` is its name in messages.
pub fn stream(input: impl Read, name: &str, progress: Progress<'_>) -> Result<Dump, Unreadable> {
    unpacked(input, progress).map_err(|wrong| wrong.of_file(name))
}

const BUFFER_BYTES: usize = 256 << 10;

fn unpacked(input: impl Read, progress: Progress<'_>) -> Result<Dump, Wrong> {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, input);
    if input.fill_buf()?.starts_with(&[0x1f, 0x8b]) {
        let unpacked = MultiGzDecoder::new(input);
        return plain(BufReader::with_capacity(BUFFER_BYTES, unpacked), progress);
    }
    plain(input, progress)
}

fn plain(mut input: impl BufRead, progress: Progress<'_>) -> Result<Dump, Wrong> {
    let mut builder = Builder::default();
    let source = match input.fill_buf()?.first() {
        Some(b'{') => dump_all::read(input, &mut builder, progress)?,
        Some(_) => ashlar::read(input, &mut builder, progress)?,
        None => return Err(Wrong::NoDump),
    };
    let mut graph = builder.finish();
    if !source.tells_blocks {
        graph.blocks = blocks::from_addresses(&graph);
    }
    Ok(Dump { source, graph })
}
