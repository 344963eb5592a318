//! Gives back the memory that parsing has left: empty blocks, or free memory in libc's heap.

use std::cell::Cell as StdCell;
use std::ffi::c_void;

use ashlar_heap::{Heap, Vm};

/// Loaded files between two looks, because asking libc takes some microseconds.
const FILES_PER_LOOK: usize = 32;
/// The least growth of free memory that is worth trimming: beyond what the next nursery takes,
/// or, in libc, beyond what was free last time. Trimming takes milliseconds, and the memory may
/// be needed again.
const GROWTH_MIN_BYTES: usize = 8 << 20;

/// glibc's `mallinfo2`, which exists since 2.33.
type Mallinfo2 = extern "C" fn() -> libc::mallinfo2;

/// The function that reports libc's memory, and what was found last.
pub(crate) struct Trimming {
    /// Looked up at the start: during a collection another thread may hold the loader's lock,
    /// and wait for the collection to end.
    mallinfo2: Option<Mallinfo2>,
    loaded_files: StdCell<usize>,
    /// Bytes that are free in libc's heap but are not worth giving back, or have been given
    /// back.
    free_bytes: StdCell<usize>,
}

impl Trimming {
    pub(crate) fn new() -> Self {
        // SAFETY: only looks for a symbol.
        let mallinfo2 = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"mallinfo2".as_ptr()) };
        Self {
            // SAFETY: null, or glibc's function of this name, which has this type.
            mallinfo2: unsafe { std::mem::transmute::<*mut c_void, Option<Mallinfo2>>(mallinfo2) },
            loaded_files: StdCell::new(0),
            free_bytes: StdCell::new(0),
        }
    }

    /// After a collection: whether enough files have been loaded since the last look.
    pub(super) fn is_due(&self, files: usize) -> bool {
        let is_due = files >= self.loaded_files.get() + FILES_PER_LOOK;
        if is_due {
            self.loaded_files.set(files);
        }
        is_due
    }

    /// Ruby's parser allocates the nodes of a file's syntax tree, 25 MB for a file of tables,
    /// and frees them. Blocks that were full of nodes are reused, but the others would stay
    /// until they have paid their price as rent. Where payloads come from libc, libc keeps what is not at
    /// the end of its heap, and no object is placed there.
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
