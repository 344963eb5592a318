//! A heap for nodes, shared by any number of maps and threads.
//!
//! The heap is cut into shards, each with its own lock, chunks and lists. A
//! thread allocates from the shard that its stack's address picks, without
//! thread-local storage; a node goes back to the shard whose chunk it is in,
//! whichever thread frees it.

use super::lock::Lock;
use super::runs::{Runs, RUN_BYTES_MAX};
use super::slab::{Chunk, Slabs, Slot, CHUNK_BYTES, CLASSES, HEADER_BYTES, SLOT_BYTES_MAX};
use super::source::{NodeSource, PageSource};
use super::system::SystemPages;
use core::cell::UnsafeCell;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const SHARDS: usize = 8;

/// The most small nodes of a class that lie among the larger nodes before the class gets a page.
/// Without this, a page for each class of which a large map needs a few nodes would be most of
/// the memory that a small set takes.
const STRAYS_MAX: u16 = 24;

/// A shard keeps one empty chunk for its next need, or one per this many chunks in use.
const CHUNKS_A_SPARE: usize = 8;
/// The most empty chunks that a shard keeps. They are released together: see
/// [`PageSource::release_chunks`].
const SPARE_CHUNKS_MAX: usize = 16;

/// A shard with more chunks than this fills the next one soon: see [`PageSource::bring_in`].
const CHUNKS_TO_BRING_IN: usize = 16;

/// A shard with this many chunks (32 MiB) takes its next ones as a region. The chunks that are
/// not used yet are then at most 6 % of what the shard holds, and a smaller part the more it
/// holds.
const CHUNKS_TO_TAKE_REGIONS: usize = 512;
/// The chunks of a region of 2 MiB, a huge page. See [`PageSource::allocate_region`].
const REGION_CHUNKS: usize = 32;
/// The most chunks of one kind, spare or fresh, that a shard has.
const UNUSED_CHUNKS_MAX: usize = REGION_CHUNKS;
const _: () = assert!(SPARE_CHUNKS_MAX <= UNUSED_CHUNKS_MAX);

struct Shelf {
    slabs: Slabs,
    runs: Runs,
    /// The runs handed out for small nodes, by class. The number may be too low where a larger
    /// run was shrunk in place to such a size and then released.
    strays: [u16; CLASSES],
    /// One released stray of each class, kept as it is: a growing map passes through many classes
    /// and stays in none.
    kept: [*mut u8; CLASSES],
    kept_nodes: usize,
    /// The empty chunks that are kept, linked through their headers.
    spare: *mut Chunk,
    spare_chunks: usize,
    /// The next unused chunk of the latest region, and how many of its chunks were never used.
    fresh: *mut u8,
    fresh_chunks: usize,
    /// The largest [`Shard::chunks`] so far.
    chunks_max: usize,
}

#[repr(align(64))]
struct Shard {
    lock: Lock,
    /// How many nodes of this shard have been released, extended or shrunk. Written under the
    /// lock.
    changes: AtomicU64,
    /// The number of chunks: in use, spare and fresh. Written under the lock.
    chunks: AtomicUsize,
    shelf: UnsafeCell<Shelf>,
}

/// What a heap holds, in bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct NodeHeapUse {
    /// The bytes of all chunks: in use, kept empty for later, and not used yet in a region.
    pub reserved_bytes: usize,
    /// The largest `reserved_bytes` so far, summed over the shards.
    pub reserved_bytes_max: usize,
    /// The part of `reserved_bytes` in chunks that are kept empty or not used yet.
    pub spare_bytes: usize,
}

/// A heap for nodes over a source of pages. It can be a `static`.
///
/// Chunks are 64 KiB. Each shard keeps chunks that have become empty for its next need: one, or
/// one for each 8 in use, up to 16. Further ones are given back to the page source. A shard that
/// holds 32 MiB takes regions of 2 MiB, where the source has them.
///
/// # Examples
/// ```
/// use ashlar_wordmap::memory::{GlobalPages, NodeHeap};
/// use ashlar_wordmap::WordMap;
///
/// static HEAP: NodeHeap<GlobalPages> = NodeHeap::new(GlobalPages);
/// let mut map = WordMap::new_in(&HEAP);
/// map.insert(26314, 1);
/// assert_eq!(map.get(26314), Some(&1));
/// ```
pub struct NodeHeap<P: PageSource> {
    pages: P,
    shards: [Shard; SHARDS],
}

// SAFETY: a shelf is only touched by the holder of its shard's lock, and the pointers in it point
// to memory that only shelves use.
unsafe impl<P: PageSource + Sync> Sync for NodeHeap<P> {}
// SAFETY: nothing in a heap is tied to a thread.
unsafe impl<P: PageSource + Send> Send for NodeHeap<P> {}

struct Locked<'a> {
    shard: &'a Shard,
    /// The value of [`Chunk::shard`] in the shard's chunks.
    offset: u32,
}

impl Locked<'_> {
    #[inline(always)]
    fn shelf(&mut self) -> &mut Shelf {
        // SAFETY: this value exists only while its shard is locked, and the
        // borrow ends before the lock does.
        unsafe { &mut *self.shard.shelf.get() }
    }

    /// Counts a node that is released or changes its length.
    #[inline(always)]
    fn count_change(&mut self) {
        let changes = &self.shard.changes;
        changes.store(changes.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn chunks(&self) -> usize {
        self.shard.chunks.load(Ordering::Relaxed)
    }

    fn set_chunks(&mut self, chunks: usize) {
        self.shard.chunks.store(chunks, Ordering::Relaxed);
    }
}

impl Drop for Locked<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.shard.lock.free();
    }
}

impl Shard {
    #[inline(always)]
    fn lock(&self, offset: u32) -> Locked<'_> {
        self.lock.take();
        Locked {
            shard: self,
            offset,
        }
    }
}

/// The index of this thread's shard. Stacks are far apart, so the upper bits of a local
/// variable's address distinguish threads well enough to keep them off each other's shards.
#[inline(always)]
fn home_shard() -> usize {
    let local = 0u8;
    let address = ptr::addr_of!(local).addr() as u64;
    ((address >> 20).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61) as usize % SHARDS
}

/// The bytes from a heap's first shard to this one.
const fn offset_of_shard(index: usize) -> u32 {
    (index * size_of::<Shard>()) as u32
}

impl<P: PageSource> NodeHeap<P> {
    /// An empty heap; it takes no chunk from `pages` until a node is needed.
    pub const fn new(pages: P) -> NodeHeap<P> {
        NodeHeap {
            pages,
            shards: [const {
                Shard {
                    lock: Lock::new(),
                    changes: AtomicU64::new(0),
                    chunks: AtomicUsize::new(0),
                    shelf: UnsafeCell::new(Shelf {
                        slabs: Slabs::new(),
                        runs: Runs::new(),
                        strays: [0; CLASSES],
                        kept: [ptr::null_mut(); CLASSES],
                        kept_nodes: 0,
                        spare: ptr::null_mut(),
                        spare_chunks: 0,
                        fresh: ptr::null_mut(),
                        fresh_chunks: 0,
                        chunks_max: 0,
                    }),
                }
            }; SHARDS],
        }
    }

    /// What the heap holds now. Shards are read one after another, so the
    /// figures are exact only while no other thread allocates.
    pub fn usage(&self) -> NodeHeapUse {
        let mut usage = NodeHeapUse::default();
        for i in 0..SHARDS {
            let mut locked = self.lock(offset_of_shard(i));
            if locked.shelf().is_rest_kept() {
                self.release_kept(&mut locked);
            }
            usage.reserved_bytes += locked.chunks() * CHUNK_BYTES;
            let shelf = locked.shelf();
            usage.reserved_bytes_max += shelf.chunks_max * CHUNK_BYTES;
            usage.spare_bytes += (shelf.spare_chunks + shelf.fresh_chunks) * CHUNK_BYTES;
        }
        usage
    }

    /// [`NodeHeapUse::reserved_bytes`] alone. Takes no lock, so a page source may call it while it
    /// is asked for a chunk, which does not count yet.
    pub fn reserved_bytes(&self) -> usize {
        let chunks = |shard: &Shard| shard.chunks.load(Ordering::Relaxed);
        self.shards.iter().map(chunks).sum::<usize>() * CHUNK_BYTES
    }

    /// Gives the chunks that are kept empty, or not used yet, back to the page source.
    pub fn trim(&self) {
        for i in 0..SHARDS {
            let mut locked = self.lock(offset_of_shard(i));
            self.release_kept(&mut locked);
            self.release_spare(&mut locked);
            self.release_fresh(&mut locked);
        }
    }

    /// [`NodeSource::changes`] of a heap that lasts as long as the program.
    ///
    /// # Safety
    /// `node` must be an address in a live node of this heap.
    #[inline]
    pub unsafe fn changes(&'static self, node: NonNull<u8>) -> &'static AtomicU64 {
        // SAFETY: the node lies in a chunk of this heap.
        let shard = unsafe { Chunk::shard_of(node) };
        &self.shard(shard).changes
    }

    /// Locks every shard, so that a `fork` finds the heap whole. For the
    /// *prepare* handler of `pthread_atfork`.
    pub fn lock_for_fork(&self) {
        for shard in &self.shards {
            shard.lock.take();
        }
    }

    /// Undoes [`NodeHeap::lock_for_fork`]: for the *parent* and *child* handlers.
    ///
    /// # Safety
    /// The calling thread must be the one (or its copy in the child) that
    /// called [`NodeHeap::lock_for_fork`] last.
    pub unsafe fn unlock_after_fork(&self) {
        for shard in &self.shards {
            shard.lock.free();
        }
    }

    /// The shard at an offset that comes from a chunk or from [`offset_of_shard`].
    #[inline(always)]
    fn shard(&self, offset: u32) -> &Shard {
        debug_assert!(offset <= offset_of_shard(SHARDS - 1));
        debug_assert!(offset as usize % size_of::<Shard>() == 0);
        // SAFETY: a heap has a shard there.
        unsafe { &*ptr::from_ref(&self.shards).byte_add(offset as usize).cast() }
    }

    #[inline(always)]
    fn lock(&self, offset: u32) -> Locked<'_> {
        self.shard(offset).lock(offset)
    }

    #[inline(always)]
    fn home(&self) -> Locked<'_> {
        self.lock(offset_of_shard(home_shard()))
    }

    #[inline(always)]
    fn owner(&self, block: NonNull<u8>) -> Locked<'_> {
        // SAFETY: the caller has a live node of this heap.
        self.lock(unsafe { Chunk::shard_of(block) })
    }

    #[inline(always)]
    fn allocate_in(&self, locked: &mut Locked<'_>, bytes: usize) -> Option<NonNull<u8>> {
        let shelf = locked.shelf();
        let mut found = if bytes <= SLOT_BYTES_MAX {
            shelf.slabs.allocate(bytes)
        } else {
            shelf.runs.allocate(bytes)
        };
        if found.is_null() && bytes <= SLOT_BYTES_MAX {
            found = shelf.take_kept(bytes / 8);
        }
        match NonNull::new(found) {
            Some(block) => Some(block),
            None => self.allocate_fresh(locked, bytes),
        }
    }

    /// Replaces a block by one of the same shard, so that one lock is enough.
    ///
    /// # Safety
    /// As [`NodeSource::replace`], for a block of the locked shard.
    #[inline(always)]
    unsafe fn replace_in(
        &self,
        locked: &mut Locked<'_>,
        old: NonNull<u8>,
        old_bytes: usize,
        new_bytes: usize,
        fill: impl FnOnce(NonNull<u8>),
    ) -> Option<NonNull<u8>> {
        let new = self.allocate_in(locked, new_bytes)?;
        fill(new);
        // SAFETY: `fill` has copied what is needed from the old block, which is the locked
        // shard's.
        unsafe { self.release_in(locked, old, old_bytes) };
        Some(new)
    }

    #[cold]
    #[inline(never)]
    fn allocate_fresh(&self, locked: &mut Locked<'_>, bytes: usize) -> Option<NonNull<u8>> {
        if bytes > RUN_BYTES_MAX {
            return None;
        }
        let offset = locked.offset;
        let shelf = locked.shelf();
        if bytes <= SLOT_BYTES_MAX {
            if let Some(block) = shelf.allocate_first(bytes) {
                return Some(block);
            }
        }
        let chunk = match shelf.take_spare() {
            Some(chunk) => chunk,
            None => self.fresh_chunk(locked)?,
        };
        let chunk = chunk.as_ptr().cast();
        let shelf = locked.shelf();
        // SAFETY: the chunk is fresh or empty, and nothing else lists it.
        unsafe {
            if bytes <= SLOT_BYTES_MAX && shelf.strays[bytes / 8] == STRAYS_MAX {
                shelf.slabs.adopt(chunk, offset);
            } else {
                shelf.runs.adopt(chunk, offset);
            }
        }
        if bytes <= SLOT_BYTES_MAX {
            shelf.allocate_first(bytes)
        } else {
            NonNull::new(shelf.runs.allocate(bytes))
        }
    }

    /// Returns a chunk that was never used; from a region if the shard is large.
    fn fresh_chunk(&self, locked: &mut Locked<'_>) -> Option<NonNull<u8>> {
        let mut chunks = locked.chunks();
        if locked.shelf().fresh_chunks == 0 && chunks >= CHUNKS_TO_TAKE_REGIONS {
            if let Some(region) = self.pages.allocate_region(CHUNK_BYTES, REGION_CHUNKS) {
                let shelf = locked.shelf();
                shelf.fresh = region.as_ptr();
                shelf.fresh_chunks = REGION_CHUNKS;
                chunks += REGION_CHUNKS;
            }
        }
        let chunk = match locked.shelf().take_fresh() {
            Some(chunk) => chunk,
            None => {
                let chunk = self.pages.allocate_chunk(CHUNK_BYTES)?;
                chunks += 1;
                chunk
            }
        };
        locked.set_chunks(chunks);
        let shelf = locked.shelf();
        shelf.chunks_max = shelf.chunks_max.max(chunks);
        if chunks > CHUNKS_TO_BRING_IN {
            // SAFETY: a fresh chunk.
            unsafe { self.pages.bring_in(chunk, CHUNK_BYTES) };
        }
        Some(chunk)
    }

    /// # Safety
    /// `block` must be a live node of `bytes` of the locked shard.
    #[inline(always)]
    unsafe fn release_in(&self, locked: &mut Locked<'_>, block: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's contract. The chunk's header says whether it has pages; the size
        // does not, because a block shrunk in place may be smaller than its slot or run was.
        unsafe {
            if (*Chunk::of(block.as_ptr())).has_pages {
                if self.take_slot(locked, Slot::around(block.as_ptr())) {
                    self.settle(locked, block);
                }
            } else {
                self.release_run(locked, block, bytes);
            }
        }
    }

    /// Releases a slot; returns whether its page must be settled.
    ///
    /// # Safety
    /// The slot must be a live one of the locked shard.
    #[inline(always)]
    unsafe fn take_slot(&self, locked: &mut Locked<'_>, slot: Slot) -> bool {
        locked.count_change();
        // SAFETY: the slot is live and of the locked shard.
        unsafe { locked.shelf().slabs.release(slot) }
    }

    /// # Safety
    /// As [`Slabs::settle`].
    #[cold]
    #[inline(never)]
    unsafe fn settle(&self, locked: &mut Locked<'_>, inside: NonNull<u8>) {
        // SAFETY: a slot of this page of the locked shard has just been released.
        if unsafe { locked.shelf().slabs.settle(inside.as_ptr()) } {
            self.retire(locked, Chunk::of(inside.as_ptr()));
        }
        self.release_kept_when_empty(locked);
    }

    /// [`NodeHeap::settle`] as the last thing for which a shard is locked; returns `bytes`.
    ///
    /// # Safety
    /// As [`NodeHeap::settle`].
    #[cold]
    #[inline(never)]
    unsafe fn settle_last(&self, locked: Locked<'_>, inside: NonNull<u8>, bytes: usize) -> usize {
        let mut locked = locked;
        // SAFETY: a slot of this page of the locked shard has just been released.
        unsafe { self.settle(&mut locked, inside) };
        bytes
    }

    /// Releases a node that is not in a page; returns its length in bytes.
    ///
    /// # Safety
    /// As [`NodeSource::release`].
    #[inline(never)]
    unsafe fn release_whole_run(&self, (block, bytes): (NonNull<u8>, usize)) -> usize {
        // SAFETY: the caller's contract; the shard is the block's own.
        unsafe { self.release_run(&mut self.owner(block), block, bytes) };
        bytes
    }

    /// # Safety
    /// `block` must be a live node of `bytes` of the locked shard, not in a page.
    #[inline(always)]
    unsafe fn release_run(&self, locked: &mut Locked<'_>, block: NonNull<u8>, bytes: usize) {
        locked.count_change();
        let shelf = locked.shelf();
        // SAFETY: the block is a run of the locked shard, `bytes` long.
        let empty = unsafe {
            if bytes > SLOT_BYTES_MAX {
                shelf.runs.release(block.as_ptr(), bytes)
            } else {
                shelf.release_stray(block.as_ptr(), bytes)
            }
        };
        if empty {
            self.retire(locked, Chunk::of(block.as_ptr()));
        }
        self.release_kept_when_empty(locked);
    }

    #[inline(always)]
    fn release_kept_when_empty(&self, locked: &mut Locked<'_>) {
        // A single chunk would be kept anyway, and a program may make and drop the same map again
        // and again.
        if locked.shelf().is_rest_kept() && locked.chunks() > 1 {
            self.release_kept(locked);
        }
    }

    /// Merges the kept strays with their neighbours, so that empty chunks are found.
    #[cold]
    #[inline(never)]
    fn release_kept(&self, locked: &mut Locked<'_>) {
        for class in 0..CLASSES {
            let shelf = locked.shelf();
            let block = shelf.take_kept(class);
            if !block.is_null() {
                // SAFETY: a run of this shard that nobody uses.
                if unsafe { shelf.release_run_of_stray(block, class * 8) } {
                    self.retire(locked, Chunk::of(block));
                }
            }
        }
    }

    #[cold]
    fn retire(&self, locked: &mut Locked<'_>, chunk: *mut Chunk) {
        let chunks = locked.chunks();
        let shelf = locked.shelf();
        let in_use = chunks - shelf.spare_chunks - shelf.fresh_chunks - 1;
        if shelf.spare_chunks >= (in_use / CHUNKS_A_SPARE).clamp(1, SPARE_CHUNKS_MAX) {
            self.release_spare(locked);
            if in_use < CHUNKS_TO_TAKE_REGIONS {
                self.release_fresh(locked);
            }
        }
        locked.shelf().put_spare(chunk);
    }

    /// Gives the chunks that are kept empty back to the page source.
    fn release_spare(&self, locked: &mut Locked<'_>) {
        self.release_all(locked, Shelf::take_spare);
    }

    /// Gives the chunks of a region that were never used back to the page source.
    fn release_fresh(&self, locked: &mut Locked<'_>) {
        self.release_all(locked, Shelf::take_fresh);
    }

    /// Gives the chunks that `take` removes from the shelf back to the page source, all together.
    fn release_all(
        &self,
        locked: &mut Locked<'_>,
        take: impl Fn(&mut Shelf) -> Option<NonNull<u8>>,
    ) {
        let mut chunks = [NonNull::dangling(); UNUSED_CHUNKS_MAX];
        let shelf = locked.shelf();
        let mut n = 0;
        while let Some(chunk) = take(shelf) {
            chunks[n] = chunk;
            n += 1;
        }
        locked.set_chunks(locked.chunks() - n);
        // SAFETY: chunks that are empty or were never used, and that are in no list any more; the
        // page source made them with this size.
        unsafe { self.pages.release_chunks(&mut chunks[..n], CHUNK_BYTES) };
    }
}

impl Shelf {
    /// Whether nothing is in use but kept strays.
    #[inline(always)]
    fn is_rest_kept(&self) -> bool {
        self.kept_nodes > 0 && self.runs.live() == self.kept_nodes && self.slabs.pages() == 0
    }

    /// Allocates a small node when no page of its class is open: as a stray, or from a fresh
    /// page.
    fn allocate_first(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        let strays = &mut self.strays[bytes / 8];
        if *strays < STRAYS_MAX {
            if let Some(run) = NonNull::new(self.runs.allocate(bytes)) {
                *strays += 1;
                return Some(run);
            }
        }
        self.slabs.open_page(bytes);
        NonNull::new(self.slabs.allocate(bytes))
    }

    /// # Safety
    /// `block` must be a live node of `bytes` of this shard, not in a page.
    #[inline(always)]
    unsafe fn release_stray(&mut self, block: *mut u8, bytes: usize) -> bool {
        let kept = &mut self.kept[bytes / 8];
        if kept.is_null() {
            *kept = block;
            self.kept_nodes += 1;
            return false;
        }
        // SAFETY: the block is a live node of this shard, not in a page.
        unsafe { self.release_run_of_stray(block, bytes) }
    }

    /// Releases the run of a stray; returns what [`Runs::release`] returns.
    ///
    /// # Safety
    /// As [`Runs::release`].
    unsafe fn release_run_of_stray(&mut self, block: *mut u8, bytes: usize) -> bool {
        let strays = &mut self.strays[bytes / 8];
        *strays = strays.saturating_sub(1);
        // SAFETY: the block is a live run, `bytes` long.
        unsafe { self.runs.release(block, bytes) }
    }

    /// Takes the kept stray of this class; returns null if there is none.
    #[inline(always)]
    fn take_kept(&mut self, class: usize) -> *mut u8 {
        let block = core::mem::replace(&mut self.kept[class], ptr::null_mut());
        self.kept_nodes -= usize::from(!block.is_null());
        block
    }

    /// Keeps an empty chunk, which is in no list. At most [`SPARE_CHUNKS_MAX`] are kept.
    fn put_spare(&mut self, chunk: *mut Chunk) {
        // SAFETY: the chunk is live, and ours under the lock.
        unsafe { (*chunk).next = self.spare };
        self.spare = chunk;
        self.spare_chunks += 1;
    }

    fn take_fresh(&mut self) -> Option<NonNull<u8>> {
        if self.fresh_chunks == 0 {
            return None;
        }
        let chunk = NonNull::new(self.fresh)?;
        self.fresh = self.fresh.wrapping_add(CHUNK_BYTES);
        self.fresh_chunks -= 1;
        Some(chunk)
    }

    fn take_spare(&mut self) -> Option<NonNull<u8>> {
        let chunk = NonNull::new(self.spare)?;
        // SAFETY: spare chunks are live and linked through `next`.
        self.spare = unsafe { (*chunk.as_ptr()).next };
        self.spare_chunks -= 1;
        Some(chunk.cast())
    }
}

const _: () = assert!(HEADER_BYTES % 16 == 0);

// SAFETY: blocks are slots or runs, at multiples of 8 bytes in chunks that the page source
// guarantees, handed out under the owning shard's lock.
unsafe impl<P: PageSource> NodeSource for NodeHeap<P> {
    #[inline(always)]
    fn allocate(&self, bytes: usize) -> Option<NonNull<u8>> {
        self.allocate_in(&mut self.home(), bytes)
    }

    #[inline]
    unsafe fn release(&self, block: NonNull<u8>, bytes: usize) {
        let mut locked = self.owner(block);
        // SAFETY: the caller's contract; the shard is the block's own.
        unsafe { self.release_in(&mut locked, block, bytes) };
    }

    #[inline]
    unsafe fn release_around(
        &self,
        inside: NonNull<u8>,
        find: impl FnOnce() -> (NonNull<u8>, usize),
    ) -> usize {
        // SAFETY: the caller's contract: a live node is in a live chunk, whose header says
        // whether it has pages. A slot may be longer than its node, where no smaller one could be
        // allocated.
        unsafe {
            if !(*Chunk::of(inside.as_ptr())).has_pages {
                return self.release_whole_run(find());
            }
            let slot = Slot::around(inside.as_ptr());
            let bytes = slot.bytes();
            let mut locked = self.owner(inside);
            if self.take_slot(&mut locked, slot) {
                return self.settle_last(locked, inside, bytes);
            }
            bytes
        }
    }

    unsafe fn count_change(&self, node: NonNull<u8>) {
        self.owner(node).count_change();
    }

    unsafe fn shrink(&self, block: NonNull<u8>, old_bytes: usize, new_bytes: usize) {
        let mut locked = self.owner(block);
        locked.count_change();
        // SAFETY: the caller's contract. A slot keeps its size, which its page knows.
        unsafe {
            if !(*Chunk::of(block.as_ptr())).has_pages {
                locked
                    .shelf()
                    .runs
                    .shrink(block.as_ptr(), old_bytes, new_bytes);
            }
        }
    }

    unsafe fn extend(&self, block: NonNull<u8>, old_bytes: usize, new_bytes: usize) -> bool {
        // SAFETY: the caller's contract; the shard is the block's own.
        old_bytes > SLOT_BYTES_MAX
            && unsafe { extend_in(&mut self.owner(block), block, old_bytes, new_bytes) }
    }

    unsafe fn enlarge(
        &self,
        old: NonNull<u8>,
        old_bytes: usize,
        new_bytes: usize,
        fill: impl FnOnce(NonNull<u8>),
    ) -> Option<NonNull<u8>> {
        let mut locked = self.owner(old);
        // SAFETY: the caller's contract; the shard is the old block's own.
        unsafe {
            if old_bytes > SLOT_BYTES_MAX && extend_in(&mut locked, old, old_bytes, new_bytes) {
                fill(old);
                return Some(old);
            }
            self.replace_in(&mut locked, old, old_bytes, new_bytes, fill)
        }
    }

    #[inline]
    unsafe fn replace(
        &self,
        old: NonNull<u8>,
        old_bytes: usize,
        new_bytes: usize,
        fill: impl FnOnce(NonNull<u8>),
    ) -> Option<NonNull<u8>> {
        let mut locked = self.owner(old);
        // SAFETY: the caller's contract; the shard is the old block's own.
        unsafe { self.replace_in(&mut locked, old, old_bytes, new_bytes, fill) }
    }
}

/// Makes a run longer where it is. Slots do not grow, and callers do not ask for a run that was
/// once shrunk in place to the size of a slot.
///
/// # Safety
/// As [`NodeSource::extend`], for a block of the locked shard.
#[inline(always)]
unsafe fn extend_in(
    locked: &mut Locked<'_>,
    block: NonNull<u8>,
    old_bytes: usize,
    new_bytes: usize,
) -> bool {
    locked.count_change();
    let block = block.as_ptr();
    // SAFETY: the caller's contract; a live block is in a live chunk.
    unsafe {
        !(*Chunk::of(block)).has_pages && locked.shelf().runs.extend(block, old_bytes, new_bytes)
    }
}

/// A type that leads to a heap, always the same one. Such a type is a [`NodeSource`]. A map with
/// a source that takes no room is one word wide.
///
/// # Examples
/// ```
/// use ashlar_wordmap::memory::{GlobalPages, NodeHeap, HasHeap};
/// use ashlar_wordmap::WordMap;
///
/// #[derive(Default)]
/// struct Tables;
///
/// impl HasHeap for Tables {
///     type Pages = GlobalPages;
///     fn heap(&self) -> &NodeHeap<GlobalPages> {
///         static HEAP: NodeHeap<GlobalPages> = NodeHeap::new(GlobalPages);
///         &HEAP
///     }
/// }
///
/// let mut map = WordMap::new_in(Tables);
/// map.insert(26314, 1);
/// assert_eq!(size_of_val(&map), 8);
/// ```
pub trait HasHeap {
    /// The source of the heap's chunks.
    type Pages: PageSource;

    /// The heap.
    fn heap(&self) -> &NodeHeap<Self::Pages>;

    /// [`NodeSource::changes`]; implement it by [`NodeHeap::changes`] if the heap is a `static`.
    ///
    /// # Safety
    /// `node` must be an address in a live node of the heap.
    #[inline]
    unsafe fn changes(&self, node: NonNull<u8>) -> Option<&'static AtomicU64> {
        let _ = node;
        None
    }
}

impl<P: PageSource> HasHeap for &NodeHeap<P> {
    type Pages = P;

    #[inline(always)]
    fn heap(&self) -> &NodeHeap<P> {
        self
    }
}

// SAFETY: all calls are forwarded to the heap.
unsafe impl<H: HasHeap> NodeSource for H {
    #[inline(always)]
    fn allocate(&self, bytes: usize) -> Option<NonNull<u8>> {
        self.heap().allocate(bytes)
    }

    #[inline(always)]
    unsafe fn release(&self, block: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller passes a live block of this source, `bytes` long: the heap's.
        unsafe { self.heap().release(block, bytes) };
    }

    #[inline(always)]
    unsafe fn release_around(
        &self,
        inside: NonNull<u8>,
        find: impl FnOnce() -> (NonNull<u8>, usize),
    ) -> usize {
        // SAFETY: the caller passes an address in a live block of this source: the heap's.
        unsafe { self.heap().release_around(inside, find) }
    }

    unsafe fn shrink(&self, block: NonNull<u8>, old_bytes: usize, new_bytes: usize) {
        // SAFETY: the caller passes a live block of this source, `old_bytes` long: the heap's.
        unsafe { self.heap().shrink(block, old_bytes, new_bytes) };
    }

    #[inline]
    unsafe fn changes(&self, node: NonNull<u8>) -> Option<&'static AtomicU64> {
        // SAFETY: the caller passes an address in a live node of this source: the heap's.
        unsafe { HasHeap::changes(self, node) }
    }

    unsafe fn count_change(&self, node: NonNull<u8>) {
        // SAFETY: the caller passes an address in a live node of this source: the heap's.
        unsafe { self.heap().count_change(node) };
    }

    #[inline(always)]
    unsafe fn extend(&self, block: NonNull<u8>, old_bytes: usize, new_bytes: usize) -> bool {
        // SAFETY: the caller passes a live block of this source, `old_bytes` long: the heap's.
        unsafe { self.heap().extend(block, old_bytes, new_bytes) }
    }

    #[inline(always)]
    unsafe fn enlarge(
        &self,
        old: NonNull<u8>,
        old_bytes: usize,
        new_bytes: usize,
        fill: impl FnOnce(NonNull<u8>),
    ) -> Option<NonNull<u8>> {
        // SAFETY: the caller passes a live block of this source, `old_bytes` long: the heap's.
        unsafe { self.heap().enlarge(old, old_bytes, new_bytes, fill) }
    }

    #[inline(always)]
    unsafe fn replace(
        &self,
        old: NonNull<u8>,
        old_bytes: usize,
        new_bytes: usize,
        fill: impl FnOnce(NonNull<u8>),
    ) -> Option<NonNull<u8>> {
        // SAFETY: the caller passes a live block of this source, `old_bytes` long: the heap's.
        unsafe { self.heap().replace(old, old_bytes, new_bytes, fill) }
    }
}

/// Declares a type that leads to a heap of its own, which all values of the type share. The type
/// takes no room in a map. The arguments are the type's name, its page source, and an expression
/// that makes one.
///
/// # Examples
/// ```
/// use ashlar_wordmap::memory::GlobalPages;
/// use ashlar_wordmap::WordMap;
///
/// ashlar_wordmap::shared_heap!(
///     /// Where this program's tables are.
///     pub Tables, GlobalPages, GlobalPages
/// );
///
/// let mut map = WordMap::new_in(Tables);
/// map.insert(26314, 1);
/// assert!(Tables.heap().usage().reserved_bytes > 0);
/// assert_eq!(size_of_val(&map), 8);
/// ```
#[macro_export]
macro_rules! shared_heap {
    ($(#[$doc:meta])* $visible:vis $name:ident, $pages:ty, $source:expr) => {
        $(#[$doc])*
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        $visible struct $name;

        impl $name {
            /// The heap itself.
            #[inline(always)]
            $visible fn heap(self) -> &'static $crate::memory::NodeHeap<$pages> {
                static HEAP: $crate::memory::NodeHeap<$pages> = $crate::memory::NodeHeap::new($source);
                &HEAP
            }
        }

        impl $crate::memory::HasHeap for $name {
            type Pages = $pages;

            #[inline(always)]
            fn heap(&self) -> &$crate::memory::NodeHeap<$pages> {
                (*self).heap()
            }

            #[inline]
            unsafe fn changes(
                &self,
                node: ::core::ptr::NonNull<u8>,
            ) -> Option<&'static ::core::sync::atomic::AtomicU64> {
                // SAFETY: the caller passes an address in a live node of this heap.
                Some(unsafe { (*self).heap().changes(node) })
            }
        }
    };
}

shared_heap!(
    /// The heap that all maps of the process share by default; its chunks come from the system.
    /// Takes no room in the map.
    pub SharedHeap, SystemPages, SystemPages
);
