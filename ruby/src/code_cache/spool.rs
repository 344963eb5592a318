//! Where code waits until it is written: a little of it in memory, the rest in files without names. A
//! server that fills the cache would else keep all its compiled code in memory until it ends.

use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use super::file::MappedFile;
use crate::size_signal::without_size_signal;
use crate::whole_file::nameless;

/// About as much waits in memory.
const IN_MEMORY_BYTES: usize = 1 << 20;

/// Code that waits.
#[derive(Debug, Default)]
pub(super) struct Spool {
    /// What lies in files. They are mapped and not open: programs that close all files when they
    /// begin would close these.
    spilled: Vec<MappedFile>,
    in_memory: Vec<u8>,
    /// How much there was in memory when no file took it the last time. When there is twice as much, that is
    /// tried again: a full disk is not written to for each file of Ruby code.
    refused_bytes: usize,
}

/// Where code lies in a spool.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Which of the mappings, or the next one, which is still in memory.
    mapping: usize,
    bytes: Range<usize>,
}

impl Spool {
    /// Keeps this code, with files in `folder`. `None` if there is no memory for it.
    pub(super) fn keep(&mut self, folder: &Path, code: &[u8]) -> Option<Place> {
        let most_bytes = IN_MEMORY_BYTES.max(2 * self.refused_bytes);
        if !self.in_memory.is_empty() && self.in_memory.len() + code.len() > most_bytes {
            // What no file takes stays in memory.
            let is_refused = self.spill(folder).is_err();
            self.refused_bytes = if is_refused { self.in_memory.len() } else { 0 };
        }
        self.in_memory.try_reserve(code.len()).ok()?;
        let start = self.in_memory.len();
        self.in_memory.extend_from_slice(code);
        Some(Place {
            mapping: self.spilled.len(),
            bytes: start..start + code.len(),
        })
    }

    fn spill(&mut self, folder: &Path) -> io::Result<()> {
        self.spilled.try_reserve(1)?;
        let mut file = nameless(folder)?;
        without_size_signal(|| file.write_all(&self.in_memory))?;
        let mapping = MappedFile::of(&file, self.in_memory.len())?;
        self.spilled.push(mapping);
        // One large file would else leave as much room here.
        self.in_memory = Vec::new();
        Ok(())
    }

    pub(super) fn get(&self, place: &Place) -> &[u8] {
        let all = match self.spilled.get(place.mapping) {
            Some(mapping) => mapping.bytes(),
            None => &self.in_memory,
        };
        &all[place.bytes.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(number: usize) -> Vec<u8> {
        vec![number as u8; 1000 * (number % 500 + 1)]
    }

    fn keep_all(folder: &Path) -> Spool {
        let mut spool = Spool::default();
        let places: Vec<_> = (0..40)
            .map(|number| spool.keep(folder, &code(number * 37)).unwrap())
            .collect();
        for (number, place) in places.iter().enumerate() {
            assert_eq!(spool.get(place), code(number * 37), "{number}");
        }
        spool
    }

    #[test]
    fn what_is_kept_is_found_and_most_of_it_lies_in_files_without_names() {
        let folder = std::env::temp_dir().join(format!("spool-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let spool = keep_all(&folder);
        assert!(spool.spilled.len() >= 5, "{}", spool.spilled.len());
        assert!(spool.in_memory.len() <= IN_MEMORY_BYTES);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn where_no_file_could_be_made_that_is_tried_again_when_there_is_twice_as_much() {
        let folder = std::env::temp_dir().join(format!("spool-later-{}", std::process::id()));
        let mut spool = Spool::default();
        let mut keep = |count: usize| {
            for _ in 0..count {
                spool.keep(&folder, &[7; 300_000]).unwrap();
            }
            (spool.spilled.len(), spool.in_memory.len())
        };
        assert_eq!(keep(4), (0, 1_200_000));
        std::fs::create_dir_all(&folder).unwrap();
        assert_eq!(keep(2), (0, 1_800_000));
        assert_eq!(keep(1), (1, 300_000));
        assert_eq!(keep(3), (2, 300_000));
        std::fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn where_no_file_can_be_made_all_stays_in_memory() {
        let spool = keep_all(Path::new("/nothing/is/here"));
        assert!(spool.spilled.is_empty());
        assert!(spool.in_memory.len() > 5 * IN_MEMORY_BYTES);
    }
}
