//! A source file as it was when it was compiled, and whether it is still so.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::digest::{digest, Digest};

/// No longer ago, a file may be changed again without its times changing: clocks of file
/// systems go by steps, and the coarsest by steps of two seconds.
const STEP_NS: i128 = 2_000_000_000;

const SECOND_NS: i128 = 1_000_000_000;

/// The size and the times of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) bytes: u64,
    /// When the content changed last, or what a program has set this time to.
    pub(super) modified_ns: i128,
    /// When anything of the file changed last, its times among it. No program sets this one where the
    /// file system keeps it.
    pub(super) changed_ns: i128,
    /// Whether the time can be relied on: a file that has the same size and the same time has
    /// the same content. If not, its content must be looked at.
    pub(super) is_settled: bool,
}

fn now_ns() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as i128)
}

impl Stamp {
    fn of(data: &Metadata, now_ns: i128) -> Self {
        let ns = |seconds: i64, ns: i64| i128::from(seconds) * SECOND_NS + i128::from(ns);
        let modified_ns = ns(data.mtime(), data.mtime_nsec());
        let changed_ns = ns(data.ctime(), data.ctime_nsec());
        Self {
            bytes: data.len(),
            modified_ns,
            changed_ns,
            is_settled: now_ns - modified_ns.max(changed_ns) > STEP_NS,
        }
    }

    /// The stamp of the file at `path`; `None` if there is no ordinary file.
    pub(super) fn at(path: &Path) -> Option<Self> {
        let data = std::fs::metadata(path).ok()?;
        data.is_file().then(|| Self::of(&data, now_ns()))
    }

    /// Whether a file with this stamp and one that had `other` have the same content, if that
    /// can be known from the stamps. The time of the content does not do alone: programs set it, and two files that
    /// change places keep theirs. A file system that has no time of other changes, such as squashfs and vfat,
    /// shows that of the content in its place, in whole seconds.
    pub(super) fn proves_same(&self, other: &Self) -> bool {
        other.is_settled
            && other.changed_ns % SECOND_NS != 0
            && (self.bytes, self.modified_ns, self.changed_ns)
                == (other.bytes, other.modified_ns, other.changed_ns)
    }
}

/// The stamp of a file, and the digest of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) stamp: Stamp,
    pub(super) content: Digest,
}

impl Source {
    /// Reads the file. `None` when there is none, or when it changes meanwhile.
    pub(super) fn read(path: &Path) -> Option<Self> {
        Self::try_read(path).ok().flatten()
    }

    fn try_read(path: &Path) -> io::Result<Option<Self>> {
        let mut file = File::open(path)?;
        let before = file.metadata()?;
        if !before.is_file() {
            return Ok(None);
        }
        let mut content = Vec::new();
        let bytes = usize::try_from(before.len()).unwrap_or(usize::MAX);
        content.try_reserve_exact(bytes.saturating_add(1))?;
        file.read_to_end(&mut content)?;
        let after = file.metadata()?;
        let now_ns = now_ns();
        let stamp = Stamp::of(&after, now_ns);
        let is_whole = content.len() as u64 == stamp.bytes;
        let is_same = stamp.modified_ns == Stamp::of(&before, now_ns).modified_ns;
        Ok((is_whole && is_same).then(|| Self {
            stamp,
            content: digest(&[&content]),
        }))
    }

    /// Whether `after`, read when the file had been compiled, shows that what was compiled is
    /// what this source was before. The stamp may have settled meanwhile.
    pub(super) fn is_unchanged(&self, after: &Self) -> bool {
        self.content == after.content
            && (self.stamp.bytes, self.stamp.modified_ns)
                == (after.stamp.bytes, after.stamp.modified_ns)
    }
}

/// The path with all links followed, as Ruby finds it for `__dir__` and `require_relative`.
pub(super) fn real_path(path: &[u8]) -> Option<PathBuf> {
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    std::fs::canonicalize(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp {
        bytes: 5,
        modified_ns: 1_700_000_000_000_000_001,
        changed_ns: 1_700_000_000_000_000_002,
        is_settled: true,
    };

    #[test]
    fn a_stamp_proves_nothing_while_the_file_may_still_change_unseen() {
        let unsettled = Stamp {
            is_settled: false,
            ..STAMP
        };
        assert!(STAMP.proves_same(&STAMP) && unsettled.proves_same(&STAMP));
        assert!(!STAMP.proves_same(&unsettled));
        let longer = Stamp { bytes: 6, ..STAMP };
        let later = Stamp {
            modified_ns: STAMP.modified_ns + 1,
            ..STAMP
        };
        assert!(!longer.proves_same(&STAMP) && !later.proves_same(&STAMP));
    }

    #[test]
    fn a_time_that_a_program_has_set_proves_nothing_by_itself() {
        let elsewhere = Stamp {
            changed_ns: STAMP.changed_ns + 1,
            ..STAMP
        };
        assert!(!elsewhere.proves_same(&STAMP));
    }

    #[test]
    fn a_file_system_without_times_of_its_own_proves_nothing() {
        let archived = Stamp {
            modified_ns: 1_700_000_000_000_000_000,
            changed_ns: 1_700_000_000_000_000_000,
            ..STAMP
        };
        assert!(!archived.proves_same(&archived));
    }

    #[test]
    fn a_file_just_written_is_not_settled() {
        let path = std::env::temp_dir().join(format!("source-{}", std::process::id()));
        std::fs::write(&path, "a = 1\n").unwrap();
        let data = std::fs::metadata(&path).unwrap();
        let changed_ns = Stamp::of(&data, 0).changed_ns;
        assert!(!Stamp::of(&data, changed_ns + STEP_NS).is_settled);
        assert!(Stamp::of(&data, changed_ns + 2 * STEP_NS).is_settled);
        // Its time can be set back, but not the time when that was done.
        let file = File::options().write(true).open(&path).unwrap();
        let old = UNIX_EPOCH + std::time::Duration::from_secs(315_619_200);
        file.set_modified(old).unwrap();
        let data = std::fs::metadata(&path).unwrap();
        assert!(!Stamp::of(&data, changed_ns + STEP_NS).is_settled);
        let source = Source::read(&path).unwrap();
        let content = digest(&[b"a = 1\n"]);
        assert_eq!((source.stamp.bytes, source.content), (6, content));
        std::fs::remove_file(path).unwrap();
    }
}
