//! What is where in a file of code (`docs/design/code-cache.md`): reading it without believing it, and
//! writing its index.
//!
//! ```text
//!   header | slots | entries | texts | padding | code | padding | code ...
//!          '------------- index ------------'
//! ```
//!
//! Invariants, which [`Index::new`] checks before anything of a file is used:
//!
//! 1. The header names this Ruby and the size of the whole file, and its check fits the header
//!    and the index.
//! 2. A slot is 0 or the number of an entry, counted from 1, and one slot at least is 0.
//! 3. All that an entry refers to lies in the file: its text in the texts, its code behind the
//!    index.
//! 4. Entries are in the order of their code, and no byte of code belongs to two.
//! 5. The bits of what ran of an entry follow those of the entry before.
//!
//! The code of an entry is checked when it is first used, and not before.

use std::collections::TryReserveError;
use std::io;
use std::ops::Range;

use super::digest::{digest, Digest};
use super::source::{Source, Stamp};

const MAGIC: [u8; 8] = *b"ASHLCODE";
pub(super) const VERSION: u32 = 2;
const HEADER_BYTES: usize = 128;
const CHECK_AT: usize = 112;
const ENTRY_BYTES: usize = 128;
/// Where code begins is a multiple of this: Ruby reads numbers of 8 bytes from it in place.
const CODE_ALIGN: u64 = 16;
/// A longer code is not kept.
pub(super) const CODE_BYTES_MAX: usize = 64 << 20;
/// A file of this size gets no new entries.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 30;

const SETTLED: u32 = 1;

/// Under which warnings a source was compiled without one: `$VERBOSE` (0 for nil, 1 for false,
/// 2 for true), and a bit for each category of warnings that was on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level(pub(super) u32);

impl Level {
    fn verbose(self) -> u32 {
        self.0 & 0xff
    }

    /// Whether it is that of `-w`.
    pub(super) fn is_verbose(self) -> bool {
        self.verbose() == 2
    }

    /// Whether what gave no warning at `other` gives none at this level.
    pub(super) fn is_within(self, other: Self) -> bool {
        self.verbose() == 0
            || self.verbose() <= other.verbose() && (self.0 >> 8) & !(other.0 >> 8) == 0
    }
}

/// What an entry says about its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct About {
    /// The digest of the path that Ruby gave, the real path, and the encoding of the path.
    pub(super) key: Digest,
    pub(super) source: Source,
    pub(super) level: Level,
    /// How long compiling took.
    pub(super) compile_us: u32,
    /// How many instruction sequences the code has.
    pub(super) sequences: u32,
}

/// An entry as it lies in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) about: About,
    pub(super) code: Range<usize>,
    pub(super) code_check: Digest,
    pub(super) first_sequence: u64,
    path: Range<usize>,
    real_path: Range<usize>,
}

pub(super) fn key_of(path: &[u8], real_path: &[u8], encoding: &[u8]) -> Digest {
    digest(&[path, real_path, encoding])
}

/// The number of instruction sequences that a binary form says it has; 0 when it is none. All
/// versions of Ruby so far have it at this place; a wrong number costs room for bits and no
/// more.
pub(super) fn sequences_in(code: &[u8]) -> u32 {
    /// No code of [`CODE_BYTES_MAX`] has more.
    const MAX: u32 = CODE_BYTES_MAX as u32 / 8;
    match (code.get(..4), u32_at(code, 20)) {
        (Some(b"YARB"), Some(count)) if count <= MAX => count,
        _ => 0,
    }
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array_at(bytes, at).map(u64::from_le_bytes)
}

fn usize_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64_at(bytes, at)?).ok()
}

/// The index of a file whose bytes are passed to each function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) generation: Digest,
    pub(super) entries: usize,
    slots: usize,
    texts: Range<usize>,
    pub(super) sequences: u64,
}

/// Why a file is not used.
pub(super) const DAMAGED: &str = "it is damaged";

impl Index {
    /// Checks a file's header and index, and that the file is of the Ruby with this digest.
    pub(super) fn new(file: &[u8], ruby: &Digest) -> Result<Self, String> {
        if array_at(file, 0) != Some(MAGIC) {
            return Err("it is no code cache, or it is damaged".to_owned());
        }
        match u32_at(file, 8) {
            Some(VERSION) => {}
            Some(other) => return Err(format!("its version is {other}, and {VERSION} is wanted")),
            None => return Err(DAMAGED.to_owned()),
        }
        let index = Self::read(file).ok_or(DAMAGED)?;
        if array_at(file, 32).as_ref() != Some(ruby) {
            return Err("it is of another Ruby".to_owned());
        }
        Ok(index)
    }

    fn read(file: &[u8]) -> Option<Self> {
        let header_is_whole =
            u32_at(file, 12)? == HEADER_BYTES as u32 && usize_at(file, 48)? == file.len();
        let entries = u32_at(file, 56)? as usize;
        let slots = u32_at(file, 60)? as usize;
        let texts_at = HEADER_BYTES
            .checked_add(slots.checked_mul(4)?)?
            .checked_add(entries.checked_mul(ENTRY_BYTES)?)?;
        let texts = texts_at..texts_at.checked_add(usize_at(file, 64)?)?;
        let index = Self {
            generation: array_at(file, 16)?,
            entries,
            slots,
            texts,
            sequences: u64_at(file, 72)?,
        };
        let covered = file.get(HEADER_BYTES..index.texts.end)?;
        let check = digest(&[&file[..CHECK_AT], covered]);
        let is_sound = header_is_whole
            && array_at(file, CHECK_AT)? == check
            && slots.is_power_of_two()
            && slots > entries
            && index.are_entries_sound(file);
        is_sound.then_some(index)
    }

    /// Invariants 2 to 5.
    fn are_entries_sound(&self, file: &[u8]) -> bool {
        let slots = (0..self.slots).map(|slot| self.slot(file, slot));
        let mut empty = 0;
        for slot in slots {
            match slot {
                Some(0) => empty += 1,
                Some(number) if number as usize <= self.entries => {}
                _ => return false,
            }
        }
        let (mut code_end, mut sequences) = (self.texts.end, 0_u64);
        for number in 0..self.entries {
            let Some(entry) = self.entry(file, number) else {
                return false;
            };
            let is_in_order = entry.code.start >= code_end
                && entry.code.end <= file.len()
                && entry.code.start as u64 % CODE_ALIGN == 0
                && entry.first_sequence == sequences;
            if !is_in_order || file.get(entry.path).is_none() || file.get(entry.real_path).is_none()
            {
                return false;
            }
            code_end = entry.code.end;
            sequences += u64::from(entry.about.sequences);
        }
        empty > 0 && sequences == self.sequences
    }

    fn slot(&self, file: &[u8], slot: usize) -> Option<u32> {
        u32_at(file, HEADER_BYTES + slot * 4)
    }

    /// The entry with this number, counted from 0; `None` if there is none, or it makes no sense.
    pub(super) fn entry(&self, file: &[u8], number: usize) -> Option<Entry> {
        if number >= self.entries {
            return None;
        }
        let at = HEADER_BYTES + self.slots * 4 + number * ENTRY_BYTES;
        let bytes = file.get(at..at + ENTRY_BYTES)?;
        let time_ns =
            |seconds: u64, ns: u32| i128::from(seconds as i64) * 1_000_000_000 + i128::from(ns);
        let code = usize_at(bytes, 56)?;
        let path = self.texts.start.checked_add(u32_at(bytes, 92)? as usize)?;
        let path_end = path.checked_add(u32_at(bytes, 96)? as usize)?;
        let real_path_bytes = u32_at(bytes, 100)? as usize;
        let real_path = match real_path_bytes {
            0 => path..path_end,
            more => path_end..path_end.checked_add(more)?,
        };
        let stamp = Stamp {
            bytes: u64_at(bytes, 16)?,
            modified_ns: time_ns(u64_at(bytes, 24)?, u32_at(bytes, 32)?),
            changed_ns: time_ns(u64_at(bytes, 112)?, u32_at(bytes, 120)?),
            is_settled: u32_at(bytes, 36)? & SETTLED != 0,
        };
        (real_path.end <= self.texts.end).then_some(())?;
        Some(Entry {
            about: About {
                key: array_at(bytes, 0)?,
                source: Source {
                    stamp,
                    content: array_at(bytes, 40)?,
                },
                level: Level(u32_at(bytes, 104)?),
                compile_us: u32_at(bytes, 108)?,
                sequences: u32_at(bytes, 68)?,
            },
            code: code..code.checked_add(u32_at(bytes, 64)? as usize)?,
            code_check: array_at(bytes, 72)?,
            first_sequence: u64::from(u32_at(bytes, 88)?),
            path: path..path_end,
            real_path,
        })
    }

    /// The number of the entry with this key and these paths.
    pub(super) fn find(
        &self,
        file: &[u8],
        key: &Digest,
        path: &[u8],
        real_path: &[u8],
    ) -> Option<(usize, Entry)> {
        let mut slot = slot_of(key, self.slots);
        loop {
            let number = (self.slot(file, slot)? as usize).checked_sub(1)?;
            let at = HEADER_BYTES + self.slots * 4 + number * ENTRY_BYTES;
            if array_at(file, at).as_ref() == Some(key) {
                let entry = self.entry(file, number)?;
                let is_it = entry.path(file) == path && entry.real_path(file) == real_path;
                return is_it.then_some((number, entry));
            }
            slot = (slot + 1) % self.slots;
        }
    }

    /// The number of the entry whose code begins at this place of the file.
    pub(super) fn of_code(&self, file: &[u8], start: usize) -> Option<(usize, Entry)> {
        let (mut low, mut high) = (0, self.entries);
        while low < high {
            let middle = (low + high) / 2;
            let entry = self.entry(file, middle)?;
            match entry.code.start.cmp(&start) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some((middle, entry)),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }
}

impl Entry {
    pub(super) fn path<'a>(&self, file: &'a [u8]) -> &'a [u8] {
        &file[self.path.clone()]
    }

    pub(super) fn real_path<'a>(&self, file: &'a [u8]) -> &'a [u8] {
        &file[self.real_path.clone()]
    }

    /// Whether the code is what was written. Reads all of it.
    pub(super) fn is_code_whole(&self, file: &[u8]) -> bool {
        file.get(self.code.clone())
            .is_some_and(|code| digest(&[code]) == self.code_check)
    }
}

fn slot_of(key: &Digest, slots: usize) -> usize {
    u64_at(key, 0).unwrap_or(0) as usize & (slots - 1)
}

/// An entry that is to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToWrite<'a> {
    pub(super) about: About,
    pub(super) path: &'a [u8],
    pub(super) real_path: &'a [u8],
    pub(super) code: &'a [u8],
    pub(super) code_check: Digest,
}

impl<'a> ToWrite<'a> {
    /// The real path, unless it is the path itself.
    fn other_path(&self) -> &'a [u8] {
        match self.real_path == self.path {
            true => b"",
            false => self.real_path,
        }
    }
}

fn aligned(at: u64) -> u64 {
    at.next_multiple_of(CODE_ALIGN)
}

/// The zeros between the end of one code, or of the index, and the next code.
fn padding(end: u64) -> &'static [u8] {
    const ZEROS: [u8; CODE_ALIGN as usize] = [0; CODE_ALIGN as usize];
    &ZEROS[..(aligned(end) - end) as usize]
}

/// The header and the index of a file with these entries, in this order.
fn head(
    entries: &[ToWrite<'_>],
    ruby: &Digest,
    generation: &Digest,
) -> Result<Vec<u8>, TryReserveError> {
    let slots = (entries.len() * 2 + 1).next_power_of_two();
    let texts = entries.iter().map(|e| e.path.len() + e.other_path().len());
    let texts = texts.sum::<usize>();
    let texts_at = HEADER_BYTES + slots * 4 + entries.len() * ENTRY_BYTES;
    let index_end = texts_at + texts;
    let mut head = Vec::new();
    head.try_reserve_exact(index_end)?;
    head.resize(index_end, 0);
    let put = |head: &mut [u8], at: usize, bytes: &[u8]| {
        head[at..at + bytes.len()].copy_from_slice(bytes);
    };
    let (mut code_at, mut text_at, mut sequences) = (aligned(index_end as u64), texts_at, 0);
    for (number, entry) in entries.iter().enumerate() {
        let mut slot = slot_of(&entry.about.key, slots);
        while u32_at(&head, HEADER_BYTES + slot * 4) != Some(0) {
            slot = (slot + 1) % slots;
        }
        put(
            &mut head,
            HEADER_BYTES + slot * 4,
            &(number as u32 + 1).to_le_bytes(),
        );
        let at = HEADER_BYTES + slots * 4 + number * ENTRY_BYTES;
        let (about, stamp) = (&entry.about, &entry.about.source.stamp);
        let real_path = entry.other_path();
        let seconds = |time_ns: i128| (time_ns.div_euclid(1_000_000_000) as i64).to_le_bytes();
        let ns = |time_ns: i128| (time_ns.rem_euclid(1_000_000_000) as u32).to_le_bytes();
        put(&mut head, at, &about.key);
        put(&mut head, at + 16, &stamp.bytes.to_le_bytes());
        put(&mut head, at + 24, &seconds(stamp.modified_ns));
        put(&mut head, at + 32, &ns(stamp.modified_ns));
        put(&mut head, at + 112, &seconds(stamp.changed_ns));
        put(&mut head, at + 120, &ns(stamp.changed_ns));
        let flags = if stamp.is_settled { SETTLED } else { 0 };
        put(&mut head, at + 36, &flags.to_le_bytes());
        put(&mut head, at + 40, &about.source.content);
        put(&mut head, at + 56, &code_at.to_le_bytes());
        put(&mut head, at + 64, &(entry.code.len() as u32).to_le_bytes());
        put(&mut head, at + 68, &about.sequences.to_le_bytes());
        put(&mut head, at + 72, &entry.code_check);
        put(&mut head, at + 88, &(sequences as u32).to_le_bytes());
        put(
            &mut head,
            at + 92,
            &((text_at - texts_at) as u32).to_le_bytes(),
        );
        put(&mut head, at + 96, &(entry.path.len() as u32).to_le_bytes());
        put(&mut head, at + 100, &(real_path.len() as u32).to_le_bytes());
        put(&mut head, at + 104, &about.level.0.to_le_bytes());
        put(&mut head, at + 108, &about.compile_us.to_le_bytes());
        put(&mut head, text_at, entry.path);
        put(&mut head, text_at + entry.path.len(), real_path);
        text_at += entry.path.len() + real_path.len();
        sequences += u64::from(about.sequences);
        code_at = aligned(code_at + entry.code.len() as u64);
    }
    let file_bytes = entries.iter().fold(index_end as u64, |end, entry| {
        aligned(end) + entry.code.len() as u64
    });
    put(&mut head, 0, &MAGIC);
    put(&mut head, 8, &VERSION.to_le_bytes());
    put(&mut head, 12, &(HEADER_BYTES as u32).to_le_bytes());
    put(&mut head, 16, generation);
    put(&mut head, 32, ruby);
    put(&mut head, 48, &file_bytes.to_le_bytes());
    put(&mut head, 56, &(entries.len() as u32).to_le_bytes());
    put(&mut head, 60, &(slots as u32).to_le_bytes());
    put(&mut head, 64, &(texts as u64).to_le_bytes());
    put(&mut head, 72, &sequences.to_le_bytes());
    let check = digest(&[&head[..CHECK_AT], &head[HEADER_BYTES..]]);
    put(&mut head, CHECK_AT, &check);
    Ok(head)
}

/// Sends all bytes of a file with these entries to `write`, in their order.
pub(super) fn write(
    entries: &[ToWrite<'_>],
    ruby: &Digest,
    generation: &Digest,
    mut write: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let head = head(entries, ruby, generation)?;
    write(&head)?;
    let mut end = head.len() as u64;
    for entry in entries {
        write(padding(end))?;
        write(entry.code)?;
        end = aligned(end) + entry.code.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) const RUBY: Digest = [7; 16];
    pub(crate) const GENERATION: Digest = [9; 16];

    pub(crate) fn about(path: &str, real_path: &str, code: &[u8]) -> About {
        About {
            key: key_of(path.as_bytes(), real_path.as_bytes(), b"UTF-8"),
            source: Source {
                stamp: Stamp {
                    bytes: path.len() as u64,
                    modified_ns: 1_700_000_000_123_456_789,
                    changed_ns: 1_700_000_001_123_456_789,
                    is_settled: true,
                },
                content: digest(&[path.as_bytes()]),
            },
            level: Level(1),
            compile_us: 250,
            sequences: sequences_in(code),
        }
    }

    fn code(sequences: u32, more: usize) -> Vec<u8> {
        let mut code = b"YARB".to_vec();
        code.extend([0; 16]);
        code.extend(sequences.to_le_bytes());
        code.extend((0..more).map(|at| at as u8));
        code
    }

    type Given = (&'static str, &'static str, Vec<u8>);

    pub(crate) fn three() -> Vec<Given> {
        vec![
            ("/a/one.rb", "/a/one.rb", code(3, 5)),
            ("/a/two.rb", "/b/two.rb", code(9, 40)),
            ("three.rb", "/a/three.rb", code(0, 0)),
        ]
    }

    pub(crate) fn file_of(given: &[Given]) -> Vec<u8> {
        let entries: Vec<_> = given
            .iter()
            .map(|(path, real_path, code)| ToWrite {
                about: about(path, real_path, code),
                path: path.as_bytes(),
                real_path: real_path.as_bytes(),
                code,
                code_check: digest(&[code]),
            })
            .collect();
        let mut file = Vec::new();
        let done = write(&entries, &RUBY, &GENERATION, |bytes| {
            file.extend_from_slice(bytes);
            Ok(())
        });
        done.unwrap();
        file
    }

    /// What a reader of the file gets for each of `given`.
    fn answers<'a>(file: &'a [u8], given: &[Given]) -> Option<Vec<Option<&'a [u8]>>> {
        let index = Index::new(file, &RUBY).ok()?;
        let answer = |(path, real_path, code): &Given| {
            let wanted = about(path, real_path, code);
            let (path, real_path) = (path.as_bytes(), real_path.as_bytes());
            let (_, entry) = index.find(file, &wanted.key, path, real_path)?;
            assert_eq!(entry.about, wanted);
            let is_whole = entry.is_code_whole(file);
            is_whole.then(|| &file[entry.code.clone()])
        };
        Some(given.iter().map(answer).collect())
    }

    #[test]
    fn what_was_written_is_found_and_nothing_else() {
        let given = three();
        let file = file_of(&given);
        let found = answers(&file, &given).unwrap();
        for ((_, _, code), found) in given.iter().zip(found) {
            assert_eq!(found, Some(&code[..]));
        }
        let index = Index::new(&file, &RUBY).unwrap();
        assert_eq!(
            (index.entries, index.sequences, index.generation),
            (3, 12, GENERATION)
        );
        let absent = key_of(b"/a/four.rb", b"/a/four.rb", b"UTF-8");
        assert_eq!(
            index.find(&file, &absent, b"/a/four.rb", b"/a/four.rb"),
            None
        );
        let key = key_of(b"/a/one.rb", b"/a/one.rb", b"UTF-8");
        assert_eq!(index.find(&file, &key, b"/a/one.rb", b"/c/one.rb"), None);
        for number in 0..3 {
            let entry = index.entry(&file, number).unwrap();
            assert_eq!(
                index.of_code(&file, entry.code.start),
                Some((number, entry))
            );
        }
        assert_eq!(index.of_code(&file, 3), None);
    }

    #[test]
    fn an_empty_file_of_code_is_one() {
        let file = file_of(&[]);
        let index = Index::new(&file, &RUBY).unwrap();
        let key = key_of(b"a", b"a", b"");
        assert_eq!(
            (index.entries, index.find(&file, &key, b"a", b"a")),
            (0, None)
        );
    }

    /// The law: whatever happens to a file, each lookup gives the right code or none.
    #[test]
    fn a_file_with_any_byte_changed_gives_right_answers_or_none() {
        let given = three();
        let whole = file_of(&given);
        for at in 0..whole.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut file = whole.clone();
                file[at] ^= change;
                for ((_, _, code), found) in given
                    .iter()
                    .zip(answers(&file, &given).into_iter().flatten())
                {
                    assert!(found.is_none() || found == Some(&code[..]), "byte {at}");
                }
            }
        }
    }

    #[test]
    fn a_file_that_was_cut_or_got_longer_is_refused() {
        let whole = file_of(&three());
        for length in 0..whole.len() {
            assert!(
                Index::new(&whole[..length], &RUBY).is_err(),
                "length {length}"
            );
        }
        let mut longer = whole;
        longer.push(0);
        assert_eq!(Index::new(&longer, &RUBY), Err(DAMAGED.to_owned()));
    }

    #[test]
    fn a_file_of_another_ruby_or_version_says_so() {
        let mut file = file_of(&three());
        let other = Index::new(&file, &[8; 16]).unwrap_err();
        assert_eq!(other, "it is of another Ruby");
        file[8] = 200;
        let other = Index::new(&file, &RUBY).unwrap_err();
        assert_eq!(other, "its version is 200, and 2 is wanted");
    }

    /// A file that is wrong in itself, though its check fits, is refused or gives no panic.
    #[test]
    fn an_index_with_any_byte_changed_and_a_check_that_fits_does_no_harm() {
        let given = three();
        let whole = file_of(&given);
        let index_end = Index::new(&whole, &RUBY).unwrap().texts.end;
        for at in 0..index_end {
            for change in [0x01, 0x7f, 0xff] {
                let mut file = whole.clone();
                file[at] ^= change;
                let check = digest(&[&file[..CHECK_AT], &file[HEADER_BYTES..index_end]]);
                file[CHECK_AT..CHECK_AT + 16].copy_from_slice(&check);
                let Ok(index) = Index::new(&file, &RUBY) else {
                    continue;
                };
                for number in 0..index.entries {
                    let entry = index.entry(&file, number).unwrap();
                    assert!(entry.code.end <= file.len());
                    entry.is_code_whole(&file);
                    let (path, real_path) = (entry.path(&file), entry.real_path(&file));
                    index.find(&file, &entry.about.key, path, real_path);
                    index.of_code(&file, entry.code.start);
                }
            }
        }
    }

    #[test]
    fn a_level_is_within_another_that_shows_as_much() {
        let level = |verbose: u32, categories: u32| Level(verbose | categories << 8);
        assert!(level(1, 0b010).is_within(level(1, 0b010)));
        assert!(level(1, 0b010).is_within(level(2, 0b011)));
        assert!(level(0, 0b111).is_within(level(0, 0)));
        assert!(!level(2, 0).is_within(level(1, 0b111)));
        assert!(!level(1, 0b100).is_within(level(1, 0b011)));
    }
}
