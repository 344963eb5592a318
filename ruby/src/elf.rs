//! The objects loaded in this process, and the slots through which they reach functions of
//! other objects.
//!
//! Source of the formats: the System V ABI and its processor supplements.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::ops::Range;
use std::ptr::null;
use std::sync::atomic::{AtomicUsize, Ordering::Release};

use ashlar_heap::os::page_bytes;
use ashlar_heap::refusals::{is_refused, SystemCall};

/// One loaded object: the executable or a shared library.
pub(crate) struct LoadedObject {
    base: usize,
    name: &'static CStr,
    headers: &'static [libc::Elf64_Phdr],
    symbols: Symbol,
    strings: *const c_char,
    /// The tables for finding symbols by name; an object has one of them, or both.
    hash: *const u32,
    gnu_hash: *const u32,
    relocations: [(*const Relocation, usize); 2],
    /// The addresses that are read-only once the object is relocated.
    read_only: Range<usize>,
    /// The addresses that the object occupies.
    extent: Range<usize>,
}

/// A place that holds the address of a function.
pub(crate) struct Slot<'a> {
    /// The function's name.
    pub(crate) name: &'a CStr,
    /// What the place holds.
    pub(crate) value: usize,
    /// Whether the place is for a call and leads to code of its own object: to code that will
    /// look the function up, or to a function that the object itself has.
    pub(crate) leads_to_own_object: bool,
}

/// A symbol in an object's table.
type Symbol = *const libc::Elf64_Sym;

/// `Elf64_Rela`.
#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// `Elf64_Dyn`.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: u64,
}

const DT_NULL: i64 = 0;
const DT_PLTRELSZ: i64 = 2;
const DT_HASH: i64 = 4;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
const DT_GNU_HASH: i64 = 0x6fff_fef5;

/// Relocations that put a symbol's address into a slot: for a call through the linkage table,
/// in the offset table, in data.
#[cfg(target_arch = "x86_64")]
const JUMP_SLOT: u32 = 7;
#[cfg(target_arch = "x86_64")]
const ADDRESS: [u32; 3] = [JUMP_SLOT, 6, 1];
#[cfg(target_arch = "aarch64")]
const JUMP_SLOT: u32 = 1026;
#[cfg(target_arch = "aarch64")]
const ADDRESS: [u32; 3] = [JUMP_SLOT, 1025, 257];

/// Calls `visit` with every object. The loader's list is locked meanwhile, and another thread
/// that holds the loader's other lock may be waiting for this one: so `visit` must neither
/// look up a symbol nor load anything.
pub(crate) fn for_each_object<F: FnMut(&LoadedObject)>(mut visit: F) {
    unsafe extern "C" fn each<F: FnMut(&LoadedObject)>(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        visit: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes its description of a loaded object, and the pointer to
        // the function below.
        unsafe {
            if let Some(object) = LoadedObject::read(&*info) {
                (*visit.cast::<F>())(&object);
            }
        }
        0
    }
    // SAFETY: `each` is called with the function, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(each::<F>), (&raw mut visit).cast()) };
}

/// Returns the address of the definition of the function that the loader finds at `found`. An
/// executable with a fixed address has a stand-in for each function of another object whose
/// address it takes, and then the loader finds the stand-in.
pub(crate) fn definition(name: &CStr, found: usize) -> usize {
    let mut is_stand_in = false;
    for_each_object(|object| is_stand_in |= object.has_stand_in(name, found));
    let mut first = None;
    if is_stand_in {
        for_each_object(|object| first = first.or_else(|| object.definition(name)));
    }
    first.unwrap_or(found)
}

/// Makes every thread pass a memory barrier: a thread that sees what this thread stores next
/// also sees what it has stored so far, although that thread has no barrier of its own. The
/// system call exists since Linux 4.14; without it nothing is done, which is enough on
/// x86-64.
pub(crate) fn order_stores_for_all_threads() {
    const REGISTER_PRIVATE_EXPEDITED: c_int = 1 << 4;
    const PRIVATE_EXPEDITED: c_int = 1 << 3;
    // SAFETY: neither command changes memory.
    unsafe {
        libc::syscall(libc::SYS_membarrier, REGISTER_PRIVATE_EXPEDITED, 0, 0);
        libc::syscall(libc::SYS_membarrier, PRIVATE_EXPEDITED, 0, 0);
    }
}

impl LoadedObject {
    /// # Safety
    /// `info` describes a loaded object.
    unsafe fn read(info: &libc::dl_phdr_info) -> Option<Self> {
        let base = info.dlpi_addr as usize;
        // SAFETY: the loader has read the same headers. The headers and the name stay as long
        // as the object, which outlives `Self`.
        let (headers, name) = unsafe {
            let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
            match info.dlpi_name.is_null() {
                true => (headers, c""),
                false => (headers, CStr::from_ptr(info.dlpi_name)),
            }
        };
        let mut object = Self {
            base,
            name,
            headers,
            symbols: null(),
            strings: null(),
            hash: null(),
            gnu_hash: null(),
            relocations: [(null(), 0); 2],
            read_only: 0..0,
            extent: Range {
                start: usize::MAX,
                end: 0,
            },
        };
        let mut dynamic: *const Dynamic = null();
        for header in headers {
            let place = object.place_of(header);
            match header.p_type {
                libc::PT_DYNAMIC => dynamic = place.start as *const Dynamic,
                libc::PT_GNU_RELRO => object.read_only = place,
                libc::PT_LOAD => {
                    let Range { start, end } = object.extent;
                    object.extent = start.min(place.start)..end.max(place.end);
                }
                _ => {}
            }
        }
        if dynamic.is_null() {
            return None;
        }
        // SAFETY: the header says where the section is.
        unsafe { object.read_dynamic(dynamic) };
        (!object.symbols.is_null() && !object.strings.is_null()).then_some(object)
    }

    /// The addresses that a header describes.
    fn place_of(&self, header: &libc::Elf64_Phdr) -> Range<usize> {
        let start = self.base + header.p_vaddr as usize;
        start..start + header.p_memsz as usize
    }

    /// # Safety
    /// `entry` is the object's dynamic section.
    unsafe fn read_dynamic(&mut self, mut entry: *const Dynamic) {
        // SAFETY: the section ends with DT_NULL.
        unsafe {
            while (*entry).tag != DT_NULL {
                let value = (*entry).value as usize;
                // Whether the loader has relocated the addresses in this section depends on
                // the system.
                let address = if value < self.base {
                    value + self.base
                } else {
                    value
                };
                match (*entry).tag {
                    DT_SYMTAB => self.symbols = address as *const _,
                    DT_HASH => self.hash = address as *const _,
                    DT_GNU_HASH => self.gnu_hash = address as *const _,
                    DT_STRTAB => self.strings = address as *const _,
                    DT_RELA => self.relocations[0].0 = address as *const _,
                    DT_RELASZ => self.relocations[0].1 = value / size_of::<Relocation>(),
                    DT_JMPREL => self.relocations[1].0 = address as *const _,
                    DT_PLTRELSZ => self.relocations[1].1 = value / size_of::<Relocation>(),
                    _ => {}
                }
                entry = entry.add(1);
            }
        }
    }

    /// Whether the object is left as it is: this library, which calls the real functions, the
    /// loader, and what the kernel maps. A `libruby.so` with this library inside is Ruby,
    /// too, and is not left as it is; then the library's own calls may take the indirect way.
    pub(crate) fn is_exempt(&self, ruby: usize) -> bool {
        let name = self.name.to_bytes();
        self.is_this_library() && !self.contains(ruby)
            || name.starts_with(b"linux-vdso")
            || name.windows(9).any(|part| part == b"/ld-linux")
    }

    pub(crate) fn is_this_library(&self) -> bool {
        self.contains(Self::read as *const () as usize)
    }

    pub(crate) fn contains(&self, address: usize) -> bool {
        self.extent.contains(&address)
    }

    // ── Symbols ─────────────────────────────────────────────────────────────

    /// The address at which the object defines a function of this name, if it does.
    fn definition(&self, name: &CStr) -> Option<usize> {
        let mut symbols = self.symbols();
        let symbol =
            symbols.find(|&symbol| is_defined(symbol) && self.is_function(symbol, name))?;
        Some(self.address_of(symbol))
    }

    /// Whether the object has, at this address, a stand-in for another object's function of
    /// this name.
    fn has_stand_in(&self, name: &CStr, address: usize) -> bool {
        self.functions_at(name, address)
            .any(|symbol| !is_defined(symbol))
    }

    /// Makes everybody who looks the function up from now on find `to` instead of `from`:
    /// `dlsym`, and the loader for objects that it loads and for calls that it binds late.
    /// Returns `None` when the object does not define the function there, false when the
    /// system refuses.
    pub(crate) fn redefine(&self, name: &CStr, from: usize, to: usize) -> Option<bool> {
        let functions = self.functions_at(name, from);
        let mut defined = functions.filter(|&symbol| is_defined(symbol)).peekable();
        defined.peek()?;
        Some(defined.all(|symbol| self.write_value(symbol, to.wrapping_sub(self.base))))
    }

    /// The symbols of functions of this name and address; several if the function has several
    /// versions.
    fn functions_at<'a>(
        &'a self,
        name: &'a CStr,
        address: usize,
    ) -> impl Iterator<Item = Symbol> + 'a {
        let count = if self.contains(address) {
            usize::MAX
        } else {
            0
        };
        let there = move |&symbol: &Symbol| self.address_of(symbol) == address;
        let symbols = self.symbols().take(count).filter(there);
        symbols.filter(move |&symbol| self.is_function(symbol, name))
    }

    fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        // SAFETY: the table has this many symbols.
        (1..self.symbol_count()).map(|index| unsafe { self.symbols.add(index) })
    }

    fn is_function(&self, symbol: Symbol, name: &CStr) -> bool {
        const STT_FUNC: u8 = 2;
        // SAFETY: the symbol belongs to this object.
        let info = unsafe { (*symbol).st_info };
        info & 15 == STT_FUNC && self.name_of(symbol) == name
    }

    fn name_of(&self, symbol: Symbol) -> &CStr {
        // SAFETY: the symbol belongs to this object, whose strings exist as long as it does.
        unsafe { CStr::from_ptr(self.strings.add((*symbol).st_name as usize)) }
    }

    fn address_of(&self, symbol: Symbol) -> usize {
        // SAFETY: the symbol belongs to this object.
        let value = unsafe { (*symbol).st_value };
        self.base.wrapping_add(value as usize)
    }

    /// How many symbols the table has: one more than the number of the last that is found by
    /// name.
    fn symbol_count(&self) -> usize {
        // SAFETY: the loader has read the same tables. `hash` has the numbers of buckets and
        // of chains. `gnu_hash` has the number of buckets, the first symbol in the table, the
        // words of a filter; then the filter, the buckets, and an entry for each symbol from
        // that first one on, which is odd at the last symbol of a bucket.
        unsafe {
            if !self.hash.is_null() {
                return *self.hash.add(1) as usize;
            }
            if self.gnu_hash.is_null() {
                return 0;
            }
            let [bucket_count, first, filter_words] =
                [0, 1, 2].map(|index| *self.gnu_hash.add(index) as usize);
            let buckets = self.gnu_hash.add(4 + 2 * filter_words);
            let begins = (0..bucket_count).map(|index| *buckets.add(index) as usize);
            let mut last = begins.max().unwrap_or(0);
            if last < first {
                return first;
            }
            let entries = buckets.add(bucket_count);
            while *entries.add(last - first) & 1 == 0 {
                last += 1;
            }
            last + 1
        }
    }

    /// Stores a symbol's value; false when the system refuses.
    fn write_value(&self, symbol: Symbol, value: usize) -> bool {
        // SAFETY: the symbol belongs to this object.
        let place = unsafe { &raw const (*symbol).st_value } as usize;
        self.write_function(place, value)
    }

    /// Stores a function's address, or a symbol's value for it, also where the segment allows no
    /// store; false when the system refuses.
    fn write_function(&self, place: usize, value: usize) -> bool {
        let Some(access) = self.access_at(place) else {
            return false;
        };
        let page = page_of(place)..page_of(place) + page_bytes();
        let writable = access | libc::PROT_WRITE;
        if writable != access && !protect(&page, writable) {
            return false;
        }
        // SAFETY: the place is writable now, and aligned. Other threads read either the old
        // or the new value, and both are functions of one type.
        unsafe { AtomicUsize::from_ptr(place as *mut usize) }.store(value, Release);
        // If the page stays writable, that does no harm.
        let _ = writable != access && protect(&page, access);
        true
    }

    /// The access that the headers allow to the object's memory at this address.
    fn access_at(&self, address: usize) -> Option<c_int> {
        let mut loaded = self.headers.iter().filter(|h| h.p_type == libc::PT_LOAD);
        let header = loaded.find(|header| self.place_of(header).contains(&address))?;
        let flags = [
            (libc::PF_R, libc::PROT_READ),
            (libc::PF_W, libc::PROT_WRITE),
            (libc::PF_X, libc::PROT_EXEC),
        ];
        let allowed = flags.iter().filter(|(flag, _)| header.p_flags & flag != 0);
        Some(allowed.fold(libc::PROT_NONE, |all, (_, access)| all | access))
    }

    // ── Slots ───────────────────────────────────────────────────────────────

    /// Calls `rewrite` with every slot, and stores what it returns. Returns false when a slot
    /// could not be written.
    pub(crate) fn rewrite(&self, rewrite: impl Fn(&Slot<'_>) -> Option<usize>) -> bool {
        let (mut opened, mut all_written) = (false, true);
        for (place, slot) in self.slots() {
            let Some(to) = rewrite(&slot) else { continue };
            if self.read_only_pages().contains(&place) && !opened {
                if !self.protect(libc::PROT_READ | libc::PROT_WRITE) {
                    return false;
                }
                opened = true;
            }
            // What the new function needs is ready before a thread can find it.
            all_written &= self.write_function(place, to);
        }
        (!opened || self.protect(libc::PROT_READ)) && all_written
    }

    /// Whether one of the slots is such.
    pub(crate) fn any_slot(&self, is_it: impl Fn(&Slot<'_>) -> bool) -> bool {
        self.slots().any(|(_, slot)| is_it(&slot))
    }

    /// The slots, with their places.
    fn slots(&self) -> impl Iterator<Item = (usize, Slot<'_>)> {
        let tables = self.relocations.into_iter();
        // SAFETY: the loader has read the same tables.
        let relocations = tables
            .flat_map(|(first, count)| (0..count).map(move |index| unsafe { &*first.add(index) }));
        relocations.filter_map(|relocation| self.slot(relocation))
    }

    fn slot(&self, relocation: &Relocation) -> Option<(usize, Slot<'_>)> {
        let kind = relocation.info as u32;
        let symbol = (relocation.info >> 32) as usize;
        if symbol == 0 || !ADDRESS.contains(&kind) || relocation.addend != 0 {
            return None;
        }
        let place = self.base + relocation.offset as usize;
        // SAFETY: the loader has used the same symbol and place.
        let (symbol, value) = unsafe { (self.symbols.add(symbol), (place as *const usize).read()) };
        let slot = Slot {
            name: self.name_of(symbol),
            value,
            leads_to_own_object: kind == JUMP_SLOT && self.contains(value),
        };
        Some((place, slot))
    }

    fn read_only_pages(&self) -> Range<usize> {
        page_of(self.read_only.start)..page_of(self.read_only.end)
    }

    fn protect(&self, access: c_int) -> bool {
        !is_refused(SystemCall::Mprotect) && protect(&self.read_only_pages(), access)
    }
}

/// Where the page of this address begins.
fn page_of(address: usize) -> usize {
    address & !(page_bytes() - 1)
}

fn is_defined(symbol: Symbol) -> bool {
    // SAFETY: symbols do not move while their object is loaded.
    unsafe { (*symbol).st_shndx != 0 }
}

/// Changes the access to whole pages of an object; returns false when the system refuses.
fn protect(pages: &Range<usize>, access: c_int) -> bool {
    // SAFETY: the pages belong to an object, which nobody unloads while the loader's list is
    // locked; whatever access they allowed stays allowed, except for stores.
    unsafe { libc::mprotect(pages.start as *mut c_void, pages.len(), access) == 0 }
}
