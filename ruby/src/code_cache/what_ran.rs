//! Which instruction sequences processes have loaded, because they ran: a bit each, in a small
//! file beside the file of code.
//!
//! A process keeps the bits that it sets in memory that it shares with the children that it
//! forks, and adds them to the file when it ends, at `Process.warmup` and before it forks. The
//! file is no shared mapping: setting a bit in one could end a process when the disk is full.

use std::fs::File;
use std::io::{Read, Write};
use std::ptr::slice_from_raw_parts;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::digest::{digest, Digest};
use super::layout::Index;
use super::trust::{open_file, Distrust};
use crate::mapping::Mapping;

const MAGIC: [u8; 8] = *b"ASHLRAN1";
const HEADER_BYTES: usize = 48;

pub(super) fn words_for(sequences: u64) -> usize {
    usize::try_from(sequences.div_ceil(64)).unwrap_or(usize::MAX)
}

/// Bits by the number of a sequence in a file of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn none(sequences: u64) -> Self {
        Self(vec![0; words_for(sequences)])
    }

    pub(super) fn has(&self, bit: u64) -> bool {
        let word = usize::try_from(bit / 64).ok();
        word.and_then(|word| self.0.get(word))
            .is_some_and(|word| word >> (bit % 64) & 1 != 0)
    }

    pub(super) fn set(&mut self, bit: u64) {
        if let Some(word) = self.0.get_mut((bit / 64) as usize) {
            *word |= 1 << (bit % 64);
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own |= other;
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The bits of the file beside the file of code that has this index; none when the file is
    /// absent, or belongs to another file of code.
    pub(super) fn read(folder: &File, name: &str, index: &Index) -> Result<Self, Distrust> {
        let mut file = match open_file(folder, name, libc::O_RDONLY) {
            Ok(file) => file,
            Err(Distrust::Absent) => return Ok(Self::none(index.sequences)),
            Err(distrust) => return Err(distrust),
        };
        let mut bytes = Vec::new();
        let most = HEADER_BYTES + words_for(index.sequences) * 8 + 1;
        (&mut file).take(most as u64).read_to_end(&mut bytes)?;
        match Self::parsed(&bytes, index) {
            Some(bits) => Ok(bits),
            None if bytes.get(8..24) == Some(&index.generation[..]) => {
                Err(Distrust::Why("it is damaged".to_owned()))
            }
            None => Ok(Self::none(index.sequences)),
        }
    }

    fn parsed(bytes: &[u8], index: &Index) -> Option<Self> {
        let (head, words) = bytes.split_at_checked(HEADER_BYTES)?;
        let is_sound = words.len() == words_for(index.sequences) * 8
            && head[..8] == MAGIC
            && head[8..24] == index.generation
            && head[24..40] == digest(&[&head[..24], words]);
        is_sound.then(|| {
            let words = words.chunks_exact(8).map(|word| {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(word);
                u64::from_le_bytes(bytes)
            });
            Self(words.collect())
        })
    }

    /// Writes the bits for the file of code of this generation.
    pub(super) fn write_to(&self, file: &mut File, generation: &Digest) -> std::io::Result<()> {
        file.write_all(&self.as_bytes(generation))
    }

    fn as_bytes(&self, generation: &Digest) -> Vec<u8> {
        let words: Vec<u8> = self.0.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut bytes = MAGIC.to_vec();
        bytes.extend(generation);
        let check = digest(&[&bytes, &words]);
        bytes.extend(check);
        bytes.resize(HEADER_BYTES, 0);
        bytes.extend(words);
        bytes
    }
}

/// Bits that this process and the children that it forks set. Setting one takes no lock and no
/// memory.
#[derive(Debug)]
pub(super) struct SharedBits(Mapping);

impl SharedBits {
    /// `None` when the system gives no memory.
    pub(super) fn new(sequences: u64) -> Option<Self> {
        let words = words_for(sequences).max(1);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let words = Mapping::new(words.checked_mul(8)?, access, libc::MAP_SHARED, None);
        words.ok().map(Self)
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has room for this many, and they are zeros at first.
        unsafe { &*slice_from_raw_parts(self.0.start().as_ptr().cast(), self.0.len() / 8) }
    }

    pub(super) fn set(&self, bit: u64) {
        if let Some(word) = self.words().get((bit / 64) as usize) {
            let mask = 1 << (bit % 64);
            if word.load(Relaxed) & mask == 0 {
                word.fetch_or(mask, Relaxed);
            }
        }
    }

    /// The bits as they are now.
    pub(super) fn now(&self) -> Bits {
        Bits(self.words().iter().map(|word| word.load(Relaxed)).collect())
    }
}

/// Takes the bits of one file of code over to another: those of an entry whose code is the same.
pub(super) fn carry(from: (&Index, &[u8], &Bits), to: (&Index, &[u8], &mut Bits)) {
    let (index, file, bits) = from;
    let (to_index, to_file, to_bits) = to;
    for number in 0..index.entries {
        let Some(old) = index.entry(file, number) else {
            continue;
        };
        let (path, real_path) = (old.path(file), old.real_path(file));
        let Some((_, new)) = to_index.find(to_file, &old.about.key, path, real_path) else {
            continue;
        };
        if new.code_check != old.code_check || new.about.sequences != old.about.sequences {
            continue;
        }
        for sequence in 0..u64::from(old.about.sequences) {
            if bits.has(old.first_sequence + sequence) {
                to_bits.set(new.first_sequence + sequence);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::tests::{file_of, three, GENERATION, RUBY};
    use super::*;

    #[test]
    fn what_was_written_is_read_and_anything_else_is_refused() {
        let file = file_of(&three());
        let index = Index::new(&file, &RUBY).unwrap();
        let mut bits = Bits::none(index.sequences);
        for bit in [0, 5, 11] {
            bits.set(bit);
        }
        bits.set(100_000); // outside: nothing happens
        let whole = bits.as_bytes(&GENERATION);
        assert_eq!(Bits::parsed(&whole, &index), Some(bits.clone()));
        assert_eq!((bits.count(), bits.has(5), bits.has(6)), (3, true, false));
        for at in (0..whole.len()).filter(|at| !(40..48).contains(at)) {
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            assert_eq!(Bits::parsed(&changed, &index), None, "byte {at}");
        }
        for length in 0..whole.len() {
            assert_eq!(Bits::parsed(&whole[..length], &index), None);
        }
        let mut other = index.clone();
        other.generation = [1; 16];
        assert_eq!(Bits::parsed(&whole, &other), None);
    }

    #[test]
    fn bits_follow_their_code_into_another_file() {
        let given = three();
        let old_file = file_of(&given);
        let old = Index::new(&old_file, &RUBY).unwrap();
        let mut bits = Bits::none(old.sequences);
        [1, 3, 11].into_iter().for_each(|bit| bits.set(bit));
        let reversed: Vec<_> = given.into_iter().rev().collect();
        let new_file = file_of(&reversed);
        let new = Index::new(&new_file, &RUBY).unwrap();
        let mut carried = Bits::none(new.sequences);
        carry((&old, &old_file, &bits), (&new, &new_file, &mut carried));
        let expected: Vec<_> = (0..12).filter(|bit| carried.has(*bit)).collect();
        assert_eq!(expected, [0, 8, 10]);
        // Of code that has changed, nothing is known.
        let mut changed = reversed;
        changed[1].2.push(1);
        let new_file = file_of(&changed);
        let new = Index::new(&new_file, &RUBY).unwrap();
        let mut carried = Bits::none(new.sequences);
        carry((&old, &old_file, &bits), (&new, &new_file, &mut carried));
        let expected: Vec<_> = (0..12).filter(|bit| carried.has(*bit)).collect();
        assert_eq!(expected, [10]);
    }

    #[test]
    fn shared_bits_are_set_once_and_seen() {
        let shared = SharedBits::new(70).unwrap();
        [0, 69, 69, 5000]
            .into_iter()
            .for_each(|bit| shared.set(bit));
        let now = shared.now();
        assert_eq!((now.count(), now.has(0), now.has(69)), (2, true, true));
    }
}
