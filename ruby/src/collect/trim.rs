//! Gives back the memory that parsing has left: empty blocks, or free memory of libc's.

use std::cell::Cell as StdCell;
use std::ffi::c_void;

use ashlar_heap::{Heap, Vm};

/// Asking libc takes some microseconds: once for so many loaded files.
const FILES_PER_LOOK: usize = 32;
/// Trimming takes milliseconds, and what is given back may be wanted again: only for so
/// much more free memory than the next nursery takes, or of libc's than last time.
const GROWTH_MIN_BYTES: usize = 8 << 20;

/// glibc's function, since 2.33.
type Mallinfo2 = extern "C" fn() -> libc::mallinfo2;

/// Who tells about libc's memory, and what was found last.
pub(crate) struct Trimming {
    /// Found at the start: during a collection the loader's lock may be another thread's,
    /// which waits for the collection to end.
    mallinfo2: Option<Mallinfo2>,
    loaded_files: StdCell<usize>,
    /// Free memory of libc's that is not worth giving back, or has been.
    free_bytes: StdCell<usize>,
}

impl Trimming {
    pub(crate) fn new() -> Self {
        // SAFETY: looks for a symbol.
        let mallinfo2 = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"mallinfo2".as_ptr()) };
        Self {
            // SAFETY: null, or glibc's function of this name, which has this type.
            mallinfo2: unsafe { std::mem::transmute::<*mut c_void, Option<Mallinfo2>>(mallinfo2) },
            loaded_files: StdCell::new(0),
            free_bytes: StdCell::new(0),
        }
    }

    /// After a collection: whether so many files have been loaded that it is worth looking.
    pub(super) fn is_due(&self, files: usize) -> bool {
        let is_due = files >= self.loaded_files.get() + FILES_PER_LOOK;
        if is_due {
            self.loaded_files.set(files);
        }
        is_due
    }

    /// Ruby's parser takes the nodes of a file's syntax tree, 25 MB for a file of tables, and
    /// frees them. Blocks that were full of them are reused, but only a major or full collection
    /// would give them back; and libc, where payloads come from there, keeps what it cannot cut
    /// off at the end of its heap, where no object comes into it.
    pub(super) fn trim(&self, heap: &Heap<'_, impl Vm>) {
        heap.release_empty_blocks_beyond(heap.pace().nursery_bytes(), GROWTH_MIN_BYTES);
        self.trim_libc();
    }

    fn trim_libc(&self) {
        let Some(mallinfo2) = self.mallinfo2 else {
            return;
        };
        let free_bytes = mallinfo2().fordblks;
        if free_bytes > self.free_bytes.get() + GROWTH_MIN_BYTES {
            // SAFETY: gives free memory of libc's allocator back.
            unsafe { libc::malloc_trim(0) };
            self.free_bytes.set(free_bytes);
        } else {
            self.free_bytes.set(free_bytes.min(self.free_bytes.get()));
        }
    }
}
