//! The only place that talks to the operating system about memory.
//!
//! Address space is reserved once and inaccessible; parts of it are committed
//! (made readable and writable) before first use and may be released: their
//! pages go back to the system and read as zero afterwards.
//!
//! Each call may be refused, by the system or by a test ([`crate::refusals`]).

use std::alloc::Layout;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::refusals::{is_refused, SystemCall};

/// Bytes of a page of this system, which commits and releases whole pages.
#[inline]
pub fn page_bytes() -> usize {
    static PAGE_BYTES: AtomicUsize = AtomicUsize::new(0);
    match PAGE_BYTES.load(Relaxed) {
        0 => {
            // SAFETY: sysconf reads a number and has no other effect.
            let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
            PAGE_BYTES.store(bytes, Relaxed);
            bytes
        }
        bytes => bytes,
    }
}

/// The system refused memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// A box with `value`; an error where the allocator has no memory, and `Box::new` would end the
/// process.
pub fn boxed<T>(value: T) -> Result<Box<T>, Refused> {
    const { assert!(size_of::<T>() > 0) };
    // SAFETY: the layout is not empty. It is that of a box, whose memory is the allocator's, too.
    unsafe {
        let block = std::alloc::alloc(Layout::new::<T>()).cast::<T>();
        let block = NonNull::new(block).ok_or(Refused)?;
        block.write(value);
        Ok(Box::from_raw(block.as_ptr()))
    }
}

/// A range of reserved address space; dropping it gives the range back.
#[derive(Debug)]
pub struct Reservation {
    start: NonNull<u8>,
    bytes: usize,
    align: usize,
    page_bytes: usize,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        // SAFETY: the range is this reservation's alone, and whoever could
        // point into it borrows its owner.
        unsafe { unreserve(self.start, self.bytes, self.align) };
    }
}

impl Reservation {
    /// Reserves at least `bytes` of inaccessible address space, aligned to `align`
    /// (a power of two), in whole pages of the system.
    pub fn new(bytes: usize, align: usize) -> Result<Self, Refused> {
        Self::with_pages(bytes, align, page_bytes())
    }

    /// [`Reservation::new`] with pages of `page_bytes`, a multiple of the system's:
    /// so larger pages than the system's can be tried.
    pub fn with_pages(bytes: usize, align: usize, page_bytes: usize) -> Result<Self, Refused> {
        assert!(align.is_power_of_two() && page_bytes % self::page_bytes() == 0);
        let bytes = bytes.max(1);
        let bytes = bytes.checked_next_multiple_of(page_bytes).ok_or(Refused)?;
        let align = align.max(page_bytes);
        reserve(bytes, align).map(|start| Self {
            start,
            bytes,
            align,
            page_bytes,
        })
    }

    /// No address space at all.
    pub(crate) fn none() -> Self {
        Self {
            start: NonNull::<usize>::dangling().cast(),
            bytes: 0,
            align: 1,
            page_bytes: 1,
        }
    }

    /// First address.
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes reserved.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes `bytes` from `offset` on readable and writable, and the rest of the pages
    /// in which they lie. Pages that were never touched read as zero.
    pub fn commit(&self, offset: usize, bytes: usize) -> Result<(), Refused> {
        let end = offset.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.bytes));
        let pages = whole_pages(offset, bytes, self.page_bytes);
        // SAFETY: the range lies inside this reservation, which nobody unmaps.
        unsafe { make_writable(self.start.as_ptr().add(pages.start), pages.len()) }
    }

    /// Asks the system to back the reservation by huge pages, or not to. A huge page comes at the
    /// first touch where none of its memory has been touched, and by and by elsewhere. Contents
    /// stay as they are. Nothing changes where the system has no huge pages for programs that ask.
    pub fn set_huge_pages(&self, wanted: bool) {
        // SAFETY: the range is this reservation, which nobody unmaps.
        unsafe { set_huge_pages(self.start.as_ptr(), self.bytes, wanted) };
    }
}

/// The whole pages in which `bytes` from `offset` on lie, as a range of offsets.
fn whole_pages(offset: usize, bytes: usize, page_bytes: usize) -> Range<usize> {
    offset / page_bytes * page_bytes..(offset + bytes).next_multiple_of(page_bytes)
}

/// Bytes of physical memory of the machine, or `None` where the system does not say.
pub fn physical_memory_bytes() -> Option<usize> {
    // SAFETY: sysconf reads a number and has no other effect.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    (pages > 0).then(|| pages as usize * page_bytes())
}

/// Physical memory that this process occupies, or `None` where the system does not
/// say. Takes some microseconds and no memory.
pub fn resident_bytes() -> Option<usize> {
    let mut text = [0; 128];
    resident_bytes_of(read_own("/proc/self/statm", &mut text)?, page_bytes())
}

/// [`resident_bytes`], with each page divided by the number of processes that share it (PSS).
/// Takes about 0.1 microseconds for each resident page, and no memory.
pub fn proportional_bytes() -> Option<usize> {
    let mut text = [0; 512];
    proportional_bytes_of(read_own("/proc/self/smaps_rollup", &mut text)?)
}

/// Reads the beginning of a file in which the system describes this process's memory.
fn read_own<'a>(path: &str, text: &'a mut [u8]) -> Option<&'a [u8]> {
    use std::io::Read;
    if is_refused(SystemCall::Statm) {
        return None;
    }
    let mut file = std::fs::File::open(path).ok()?;
    let bytes = file.read(text).ok()?;
    Some(&text[..bytes])
}

/// Shows which pages of this process other processes have, too.
pub(crate) struct PageMap(std::fs::File);

impl PageMap {
    /// `None` where the system does not say.
    pub(crate) fn open() -> Option<Self> {
        if cfg!(miri) || is_refused(SystemCall::Statm) {
            return None;
        }
        std::fs::File::open("/proc/self/pagemap").ok().map(Self)
    }

    /// Whether another process has one of these pages, too. `bytes` are whole pages, at most
    /// 64 KiB. `None` when the entries cannot be read.
    pub(crate) fn is_shared(&self, start: usize, bytes: usize) -> Option<bool> {
        let mut entries = [0; (64 << 10) / 4096 * ENTRY_BYTES];
        let mut entries = self.entries(start, bytes, &mut entries)?;
        Some(entries.any(is_shared_page))
    }

    /// How many of these pages are in memory and this process's alone. A page that was only read is not: all of those
    /// are one page of zeros. `bytes` are whole pages, at most 2 MiB. `None` when the entries cannot be read.
    pub(crate) fn own_pages(&self, start: usize, bytes: usize) -> Option<usize> {
        let mut entries = [0; (2 << 20) / 4096 * ENTRY_BYTES];
        let entries = self.entries(start, bytes, &mut entries)?;
        Some(entries.filter(|&entry| is_own_page(entry)).count())
    }

    fn entries<'e>(
        &self,
        start: usize,
        bytes: usize,
        entries: &'e mut [u8],
    ) -> Option<impl Iterator<Item = u64> + 'e> {
        use std::os::unix::fs::FileExt;
        let entries = entries.get_mut(..bytes / page_bytes() * ENTRY_BYTES)?;
        let place = start / page_bytes() * ENTRY_BYTES;
        self.0.read_exact_at(entries, place as u64).ok()?;
        let entries = entries.chunks_exact(ENTRY_BYTES);
        Some(entries.filter_map(|entry| entry.try_into().ok().map(u64::from_ne_bytes)))
    }
}

/// Bytes of an entry of `/proc/self/pagemap`.
const ENTRY_BYTES: usize = 8;
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
/// Linux says so since 4.2.
const EXCLUSIVE: u64 = 1 << 56;

/// Whether an entry of `/proc/self/pagemap` says that a page exists (in memory, or swapped) and is
/// not this process's alone.
fn is_shared_page(entry: u64) -> bool {
    entry & (PRESENT | SWAPPED) != 0 && entry & EXCLUSIVE == 0
}

/// Whether an entry says that a page is in memory and this process's alone.
fn is_own_page(entry: u64) -> bool {
    entry & PRESENT != 0 && entry & EXCLUSIVE != 0
}

/// CPU time of this process so far, of all its threads; 0 where it cannot be read.
pub fn cpu_time_ns() -> u64 {
    let time = cpu_time_by(libc::CLOCK_PROCESS_CPUTIME_ID);
    time.map_or(0, |time| time.as_nanos() as u64)
}

/// CPU time of this process since `start_ns`, a time that [`cpu_time_ns`] returned; 0 where either
/// cannot be read.
pub fn cpu_time_since_ns(start_ns: u64) -> u64 {
    match start_ns {
        0 => 0,
        _ => cpu_time_ns().saturating_sub(start_ns),
    }
}

/// CPU time of the calling thread so far; `None` where it cannot be read.
pub(crate) fn thread_cpu_time() -> Option<Duration> {
    cpu_time_by(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn cpu_time_by(clock: libc::clockid_t) -> Option<Duration> {
    // The interpreter has no such clocks.
    if cfg!(miri) || is_refused(SystemCall::Clock) {
        return None;
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills the structure.
    let is_known = unsafe { libc::clock_gettime(clock, &mut time) } == 0;
    is_known.then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// The resident bytes in a line of `/proc/self/statm`, which counts pages.
fn resident_bytes_of(statm: &[u8], page_bytes: usize) -> Option<usize> {
    let pages = std::str::from_utf8(statm).ok()?.split(' ').nth(1)?;
    Some(pages.parse::<usize>().ok()? * page_bytes)
}

/// This process's part in bytes, from `/proc/self/smaps_rollup`, which counts KiB.
fn proportional_bytes_of(rollup: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(rollup).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib = line.trim().strip_suffix(" kB")?;
    Some(kib.parse::<usize>().ok()? << 10)
}

/// Bytes of address space this process may use in all (`ulimit -v`), or `None`
/// when it is unlimited.
pub fn address_space_limit_bytes() -> Option<usize> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: getrlimit fills the structure it is given.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) } != 0;
    (!failed && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur as usize)
}

#[cfg(not(miri))]
mod system {
    use super::{is_refused, page_bytes, NonNull, Refused, SystemCall};

    pub(super) fn reserve(bytes: usize, align: usize) -> Result<NonNull<u8>, Refused> {
        let padded = bytes.checked_add(align - page_bytes()).ok_or(Refused)?;
        let raw = map(padded)?;
        let skip = raw.align_offset(align);
        // SAFETY: `skip` is below `align`, so `start` lies inside the padded
        // mapping; head and tail were mapped just now and are unused.
        unsafe {
            let start = raw.add(skip);
            // What is not taken back stays inaccessible, and takes no memory.
            let _ = unmap(raw, skip);
            let _ = unmap(start.add(bytes), padded - skip - bytes);
            // A core dump needs what is used, not what is reserved; committed
            // ranges ask to be in it again. If the kernel refuses, the dump is larger.
            let _ = advise(SystemCall::Dump, start, bytes, libc::MADV_DONTDUMP);
            NonNull::new(start).ok_or(Refused)
        }
    }

    fn map(bytes: usize) -> Result<*mut u8, Refused> {
        if is_refused(SystemCall::Mmap) {
            return Err(Refused);
        }
        // SAFETY: a fresh anonymous mapping at an address of the system's
        // choice cannot overlap anything.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        match start {
            libc::MAP_FAILED => Err(Refused),
            start => Ok(start.cast()),
        }
    }

    /// # Safety
    /// The range must be whole pages of [`map`] that nobody uses any more.
    unsafe fn unmap(start: *mut u8, bytes: usize) -> Result<(), Refused> {
        // SAFETY: whole pages of `map` that nobody uses any more.
        let is_done = bytes == 0
            || !is_refused(SystemCall::Munmap) && unsafe { libc::munmap(start.cast(), bytes) } == 0;
        is_done.then_some(()).ok_or(Refused)
    }

    /// # Safety
    /// The range must lie inside a reservation, and what `advice` does to it must be meant.
    unsafe fn advise(
        call: SystemCall,
        start: *mut u8,
        bytes: usize,
        advice: libc::c_int,
    ) -> Result<(), Refused> {
        // SAFETY: the range lies inside a reservation, and the advice is meant.
        let is_done =
            !is_refused(call) && unsafe { libc::madvise(start.cast(), bytes, advice) } == 0;
        is_done.then_some(()).ok_or(Refused)
    }

    /// # Safety
    /// The range must be a whole reservation that nobody uses any more.
    pub(super) unsafe fn unreserve(start: NonNull<u8>, bytes: usize, _align: usize) {
        // SAFETY: a whole reservation that nobody uses any more.
        unsafe {
            // This fails when a hole would make two mappings of one and the process has as many as
            // it may. Then the address space is lost, but not the memory.
            if unmap(start.as_ptr(), bytes).is_err() {
                let _ = release(start.as_ptr(), bytes);
            }
        }
    }

    /// # Safety
    /// The range must lie inside a reservation.
    pub(super) unsafe fn make_writable(start: *mut u8, bytes: usize) -> Result<(), Refused> {
        if is_refused(SystemCall::Mprotect) {
            return Err(Refused);
        }
        // SAFETY: the caller passes a range of its own reservation; more
        // access rights never invalidate anybody's pages.
        unsafe {
            if libc::mprotect(start.cast(), bytes, libc::PROT_READ | libc::PROT_WRITE) != 0 {
                return Err(Refused);
            }
            // If this fails, a core dump lacks these pages, and nothing else is wrong.
            let _ = advise(SystemCall::Dump, start, bytes, libc::MADV_DODUMP);
        }
        Ok(())
    }

    /// # Safety
    /// The range must lie inside a reservation.
    pub(super) unsafe fn set_huge_pages(start: *mut u8, bytes: usize, wanted: bool) {
        let advice = match wanted {
            true => libc::MADV_HUGEPAGE,
            false => libc::MADV_NOHUGEPAGE,
        };
        if wanted {
            let _ = let_process_have_huge_pages();
        }
        // SAFETY: the caller's contract; what the memory holds stays.
        let _ = unsafe { advise(SystemCall::HugePages, start, bytes, advice) };
    }

    /// Ruby, for one, refuses huge pages for its whole process. This makes memory that asks for
    /// them an exception, where the kernel can (Linux 6.18), and else takes the refusal back.
    /// Returns whether it has been taken back.
    fn let_process_have_huge_pages() -> bool {
        const EXCEPT_ADVISED: libc::c_ulong = 1 << 1;
        const NONE: libc::c_ulong = 0;
        // SAFETY: reads an attribute of the process; no memory is touched.
        let refused = unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, NONE, NONE, NONE, NONE) };
        let is_open = refused != 1 || refuse_process_huge_pages(1, EXCEPT_ADVISED);
        !is_open && refuse_process_huge_pages(0, NONE)
    }

    /// Returns whether the kernel did so.
    fn refuse_process_huge_pages(refused: libc::c_ulong, but: libc::c_ulong) -> bool {
        const NONE: libc::c_ulong = 0;
        // SAFETY: sets an attribute of the process; no memory is touched.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, refused, but, NONE, NONE) == 0 }
    }

    /// Moves the pages of the range into huge pages now (Linux 6.1). Pages that are not there are
    /// added, and read as zero.
    ///
    /// # Safety
    /// The range must be committed.
    pub(crate) unsafe fn collapse(start: *mut u8, bytes: usize) -> Result<(), Refused> {
        let is_taken_back = let_process_have_huge_pages();
        // SAFETY: contents stay as they are.
        let moved = unsafe { advise(SystemCall::HugePages, start, bytes, libc::MADV_COLLAPSE) };
        if is_taken_back {
            refuse_process_huge_pages(1, 0);
        }
        moved
    }

    /// Splits the huge pages that the range, whole pages, is a part of. Without it, the memory of a
    /// part that is released stays with the process until the system runs short.
    ///
    /// # Safety
    /// The range must be committed.
    pub(crate) unsafe fn split(start: *mut u8, bytes: usize) {
        // SAFETY: the advice says which memory is needed last, and contents stay as they are. To
        // follow it for a part of a huge page, the kernel splits the page.
        let _ = unsafe { advise(SystemCall::HugePages, start, bytes, libc::MADV_COLD) };
    }

    /// How many pages of the range, which begins at a page, the system has provided; 0 where it does
    /// not say. `pages` has room for a byte for each of them.
    pub(crate) fn resident_pages(start: *mut u8, bytes: usize, pages: &mut [u8]) -> usize {
        assert!(pages.len() * page_bytes() >= bytes);
        // SAFETY: fills a byte for each page, for which there is room; the kernel checks the range.
        let is_known = !is_refused(SystemCall::Statm)
            && unsafe { libc::mincore(start.cast(), bytes, pages.as_mut_ptr()) } == 0;
        match is_known {
            true => pages.iter().filter(|&&page| page & 1 != 0).count(),
            false => 0,
        }
    }

    /// Gives the pages of the range, which begins at a page, back to the system. They
    /// read as zero afterwards. If the system refuses, as it does for locked memory
    /// (`mlock`), some pages may read as zero, and the others are as they were.
    ///
    /// # Safety
    /// The range must be committed and nothing in it may be in use.
    pub unsafe fn release(start: *mut u8, bytes: usize) -> Result<(), Refused> {
        // SAFETY: nobody uses the contents (caller's contract).
        unsafe { advise(SystemCall::Release, start, bytes, libc::MADV_DONTNEED) }
    }

    /// Gets the pages of a range that is about to be written, all together: getting them one at
    /// a time, at the first write to each, takes several times as long. Linux can do this since
    /// 5.14; where the kernel cannot, or has too little memory, they come one at a time.
    ///
    /// # Safety
    /// The range must be committed.
    pub(crate) unsafe fn populate(start: *mut u8, bytes: usize) {
        let before = start as usize % page_bytes();
        // SAFETY: only brings pages in; contents stay as they are.
        unsafe {
            let page = start.wrapping_sub(before);
            let advice = libc::MADV_POPULATE_WRITE;
            let _ = advise(SystemCall::Populate, page, bytes + before, advice);
        }
    }
}

#[cfg(miri)]
mod system {
    //! Under the interpreter a reservation is one zeroed allocation: enough to
    //! check every access of the heap to its own memory.
    use super::{is_refused, NonNull, Refused, SystemCall};

    pub(super) fn reserve(bytes: usize, align: usize) -> Result<NonNull<u8>, Refused> {
        if is_refused(SystemCall::Mmap) {
            return Err(Refused);
        }
        let layout = std::alloc::Layout::from_size_align(bytes, align).map_err(|_| Refused)?;
        // SAFETY: the size is not zero.
        NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).ok_or(Refused)
    }

    /// # Safety
    /// `start` must come from `reserve` with the same sizes.
    pub(super) unsafe fn unreserve(start: NonNull<u8>, bytes: usize, align: usize) {
        // SAFETY: `reserve` allocated it with this layout.
        unsafe {
            let layout = std::alloc::Layout::from_size_align_unchecked(bytes, align);
            std::alloc::dealloc(start.as_ptr(), layout);
        }
    }

    /// # Safety
    /// None: everything is writable already.
    pub(super) unsafe fn make_writable(_start: *mut u8, _bytes: usize) -> Result<(), Refused> {
        match is_refused(SystemCall::Mprotect) {
            true => Err(Refused),
            false => Ok(()),
        }
    }

    /// # Safety
    /// The range must be committed and unused.
    pub unsafe fn release(start: *mut u8, bytes: usize) -> Result<(), Refused> {
        if is_refused(SystemCall::Release) {
            return Err(Refused);
        }
        // SAFETY: the range is committed, and nobody uses it.
        unsafe { std::ptr::write_bytes(start, 0, bytes) };
        Ok(())
    }

    /// # Safety
    /// As on a real system.
    pub(super) unsafe fn set_huge_pages(_start: *mut u8, _bytes: usize, _wanted: bool) {}

    /// # Safety
    /// As on a real system.
    pub(crate) unsafe fn populate(_start: *mut u8, _bytes: usize) {}

    /// # Safety
    /// As on a real system.
    pub(crate) unsafe fn collapse(_start: *mut u8, _bytes: usize) -> Result<(), Refused> {
        Err(Refused)
    }

    /// # Safety
    /// As on a real system.
    pub(crate) unsafe fn split(_start: *mut u8, _bytes: usize) {}

    pub(crate) fn resident_pages(_start: *mut u8, _bytes: usize, _pages: &mut [u8]) -> usize {
        0
    }
}

pub use system::release;
pub(crate) use system::{collapse, populate, resident_pages, split};
use system::{make_writable, reserve, set_huge_pages, unreserve};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_is_aligned_and_reads_as_zero_once_committed() {
        let reservation = Reservation::new(1 << 20, 1 << 16).unwrap();
        assert_eq!(reservation.start() as usize % (1 << 16), 0);
        reservation.commit(1 << 16, 1 << 16).unwrap();
        // SAFETY: just committed.
        let byte = unsafe { reservation.start().add(1 << 16).read() };
        assert_eq!(byte, 0);
    }

    #[test]
    #[cfg(not(miri))]
    fn dropping_a_reservation_gives_its_address_space_back() {
        // Together far more than an address space holds.
        for _ in 0..1000 {
            Reservation::new(1 << 40, 1 << 16).unwrap();
        }
    }

    #[test]
    fn what_is_committed_is_whole_pages() {
        let pages = |offset, bytes| whole_pages(offset, bytes, 1 << 16);
        assert_eq!(pages(16 << 10, 16 << 10), 0..1 << 16);
        assert_eq!(pages(48 << 10, 32 << 10), 0..2 << 16);
        assert_eq!(pages(1 << 16, 1 << 16), 1 << 16..2 << 16);
        let reservation = Reservation::with_pages(80 << 10, 8, 1 << 16).unwrap();
        assert_eq!(reservation.start() as usize % (1 << 16), 0);
        assert_eq!(reservation.bytes(), 2 << 16);
        reservation.commit(16 << 10, 64 << 10).unwrap();
        // SAFETY: in pages that have just been committed.
        let bytes = unsafe {
            let start = reservation.start();
            (start.read(), start.add((2 << 16) - 1).read())
        };
        assert_eq!(bytes, (0, 0));
    }

    #[test]
    fn resident_memory_is_counted_in_pages_of_the_system() {
        let statm = b"1000 300 20 1 0 50 0\n";
        for page_bytes in [4 << 10, 64 << 10] {
            let resident_bytes = resident_bytes_of(statm, page_bytes);
            assert_eq!(resident_bytes, Some(300 * page_bytes));
        }
    }

    #[test]
    fn the_part_of_a_process_is_read_from_its_line_alone() {
        let rollup =
            b"55d0-7ffe ---p 0 00:00 0 [rollup]\nRss: 9000 kB\nPss:    5120 kB\nPss_Dirty: 7 kB\n";
        assert_eq!(proportional_bytes_of(rollup), Some(5 << 20));
        assert_eq!(proportional_bytes_of(b"Pss_Dirty: 7 kB\n"), None);
        if let (Some(own), Some(resident)) = (proportional_bytes(), resident_bytes()) {
            assert!(own > 0 && own < resident + (8 << 20), "{own} {resident}");
        }
    }

    #[test]
    fn released_pages_read_as_zero() {
        let reservation = Reservation::new(1 << 16, 1 << 16).unwrap();
        reservation.commit(0, 1 << 16).unwrap();
        // SAFETY: committed, and used by this test alone.
        unsafe {
            reservation.start().write(7);
            release(reservation.start(), 1 << 16).unwrap();
            assert_eq!(reservation.start().read(), 0);
        }
    }
}
