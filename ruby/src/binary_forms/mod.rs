//! The bytes of binary forms from which code waits to be loaded, apart from the heap.
//!
//! They are of no use any more when all their code is loaded, while what was loaded in between stays. In the
//! heap they would leave holes among it, and a server that forks keeps these for good.

mod entries;

use std::cell::Cell as StdCell;
use std::ptr::NonNull;

use crate::mapping::Mapping;

/// What is mapped at once for forms that are shorter than a quarter of it. A longer one has a mapping of its own.
const CHUNK_BYTES: usize = 1 << 20;
/// Forms begin with numbers of eight bytes.
const ALIGNMENT_BYTES: usize = 16;

/// The beginning of a mapping. The forms follow, each behind its [`Owner`].
#[repr(C, align(16))]
struct Chunk {
    memory: Mapping,
    used_bytes: usize,
    /// Forms that are still wanted.
    forms: usize,
}

/// The mapping that a form is in; before each form.
#[repr(C, align(16))]
struct Owner(NonNull<Chunk>);

/// All forms of a process.
#[derive(Default)]
pub(crate) struct BinaryForms {
    /// Where the next short form goes.
    current: StdCell<Option<NonNull<Chunk>>>,
}

// SAFETY: the mappings belong to no thread.
unsafe impl Send for BinaryForms {}

impl BinaryForms {
    /// Copies a form; `None` when the system gives no memory.
    fn keep(&self, form: &[u8]) -> Option<NonNull<u8>> {
        let bytes = size_of::<Owner>() + form.len().next_multiple_of(ALIGNMENT_BYTES);
        let chunk = self.chunk_for(bytes)?;
        // SAFETY: the chunk has this much room behind what is used, and nobody else has that.
        unsafe {
            let this = &mut *chunk.as_ptr();
            let owner = chunk.byte_add(this.used_bytes).cast::<Owner>();
            this.used_bytes += bytes;
            this.forms += 1;
            owner.write(Owner(chunk));
            let place = owner.add(1).cast::<u8>();
            place.copy_from_nonoverlapping(NonNull::from(form).cast(), form.len());
            Some(place)
        }
    }

    /// Gives a form back, and its mapping with the last form in it.
    ///
    /// # Safety
    /// [`BinaryForms::keep`] has returned it, and nobody uses it any more.
    unsafe fn give_back(&self, form: NonNull<u8>) {
        // SAFETY: the form's owner is before it, and the chunk stays mapped until its last form is given back, here.
        unsafe {
            let chunk = form.cast::<Owner>().sub(1).read().0;
            let this = &mut *chunk.as_ptr();
            this.forms -= 1;
            if this.forms == 0 {
                if self.current.get() == Some(chunk) {
                    self.current.set(None);
                }
                drop(chunk.read());
            }
        }
    }

    /// A chunk with room for `bytes`.
    fn chunk_for(&self, bytes: usize) -> Option<NonNull<Chunk>> {
        if bytes >= CHUNK_BYTES / 4 {
            return new_chunk(size_of::<Chunk>() + bytes);
        }
        // SAFETY: the current chunk is mapped.
        let has_room = |chunk: &NonNull<Chunk>| unsafe {
            let chunk = chunk.as_ref();
            chunk.memory.len() - chunk.used_bytes >= bytes
        };
        if let Some(chunk) = self.current.get().filter(has_room) {
            return Some(chunk);
        }
        // The old one goes with its last form: it has one, or it would be gone.
        let chunk = new_chunk(CHUNK_BYTES)?;
        self.current.set(Some(chunk));
        Some(chunk)
    }
}

fn new_chunk(bytes: usize) -> Option<NonNull<Chunk>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let memory = Mapping::new(bytes, access, libc::MAP_PRIVATE, None).ok()?;
    let chunk = memory.start().cast();
    // SAFETY: the mapping is new, aligned to a page, and has room for it.
    unsafe {
        chunk.write(Chunk {
            memory,
            used_bytes: size_of::<Chunk>(),
            forms: 0,
        });
    }
    Some(chunk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    fn form_of(number: usize, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (number * 31 + at) as u8).collect()
    }

    /// Whether these bytes are at this address. Another thread may map its own memory where a
    /// mapping was, so it does not matter whether anything is mapped there.
    fn is_at(form: &[u8], address: NonNull<u8>) -> bool {
        let memory = File::open("/proc/self/mem").unwrap();
        let mut there = vec![0; form.len()];
        let read = memory.read_exact_at(&mut there, address.as_ptr().addr() as u64);
        read.is_ok() && there == form
    }

    #[test]
    fn forms_of_any_size_stay_as_they_were_until_they_are_given_back() {
        let forms = BinaryForms::default();
        let sizes = [
            0,
            1,
            15,
            16,
            17,
            12_000,
            200_000,
            262_127,
            262_128,
            262_144,
            1 << 20,
            3 << 20,
        ];
        let all: Vec<_> = (0..5 * sizes.len())
            .map(|number| form_of(number, sizes[number % sizes.len()]))
            .collect();
        let kept: Vec<_> = all.iter().map(|form| forms.keep(form).unwrap()).collect();
        for (index, form) in all.iter().enumerate() {
            assert_eq!(kept[index].as_ptr().addr() % ALIGNMENT_BYTES, 0);
            // SAFETY: the form was kept.
            let now = unsafe { std::slice::from_raw_parts(kept[index].as_ptr(), form.len()) };
            assert_eq!(now, form);
            // SAFETY: nobody uses it any more.
            unsafe { forms.give_back(kept[index]) };
        }
        assert_eq!(forms.current.get(), None);
    }

    #[test]
    fn a_mapping_goes_with_its_last_form_whichever_that_is() {
        let forms = BinaryForms::default();
        for last_is_first in [true, false] {
            let all: Vec<_> = (0..200).map(|number| form_of(number, 10_000)).collect();
            let kept: Vec<_> = all.iter().map(|form| forms.keep(form).unwrap()).collect();
            let last_index = if last_is_first { 0 } else { 50 };
            let last = kept[last_index];
            let others = kept.iter().filter(|&&form| form != last);
            // SAFETY: nobody uses them any more.
            others.for_each(|&form| unsafe { forms.give_back(form) });
            assert!(is_at(&all[last_index], last));
            assert!(!is_at(&all[150], kept[150]), "another mapping");
            // SAFETY: as above.
            unsafe { forms.give_back(last) };
            assert!(!is_at(&all[last_index], last));
        }
        assert_eq!(forms.current.get(), None);
    }
}
