//! The objects loaded in this process, and the slots through which they reach
//! functions of others.
//!
//! Source of the formats: the System V ABI and its processor supplements.

use std::ffi::{c_int, c_void, CStr};
use std::ptr::null;

/// One loaded object: the executable or a shared library.
pub(crate) struct LoadedObject {
    base: usize,
    name: &'static CStr,
    symbols: *const libc::Elf64_Sym,
    strings: *const i8,
    relocations: [(*const Relocation, usize); 2],
    /// The part that is read-only once relocated.
    read_only: (usize, usize),
    /// Addresses the object occupies.
    extent: (usize, usize),
}

/// A place that holds the address of a function.
pub(crate) struct Slot<'a> {
    /// The function's name.
    pub(crate) name: &'a CStr,
    /// What the place holds.
    pub(crate) value: usize,
    /// The place leads to the code that will look the function up.
    pub(crate) is_unbound: bool,
}

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
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;

/// Relocations that put a symbol's address into a slot: of a call through the
/// linkage table, of the offset table, of data.
#[cfg(target_arch = "x86_64")]
const JUMP_SLOT: u32 = 7;
#[cfg(target_arch = "x86_64")]
const ADDRESS: [u32; 3] = [JUMP_SLOT, 6, 1];
#[cfg(target_arch = "aarch64")]
const JUMP_SLOT: u32 = 1026;
#[cfg(target_arch = "aarch64")]
const ADDRESS: [u32; 3] = [JUMP_SLOT, 1025, 257];

/// Calls `visit` with every object when the process has loaded any since
/// `loads_seen`; returns the count of loads to pass the next time.
pub(crate) fn for_each_object(loads_seen: u64, visit: impl FnMut(LoadedObject)) -> u64 {
    struct Walk<F> {
        visit: F,
        loads_seen: u64,
        loads: u64,
    }
    unsafe extern "C" fn each<F: FnMut(LoadedObject)>(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        walk: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes its description of an object, and the walk
        // below.
        let (info, walk) = unsafe { (&*info, &mut *walk.cast::<Walk<F>>()) };
        walk.loads = info.dlpi_adds;
        if walk.loads == walk.loads_seen {
            return 1;
        }
        // SAFETY: the loader describes an object that is loaded.
        if let Some(object) = unsafe { LoadedObject::read(info) } {
            (walk.visit)(object);
        }
        0
    }
    fn start<F: FnMut(LoadedObject)>(walk: &mut Walk<F>) {
        // SAFETY: `each` is called with the walk, which outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(each::<F>), (&raw mut *walk).cast()) };
    }
    let mut walk = Walk {
        visit,
        loads_seen,
        loads: loads_seen,
    };
    start(&mut walk);
    walk.loads
}

impl LoadedObject {
    /// An object without any slot.
    pub(crate) fn none() -> Self {
        Self {
            base: 0,
            name: c"",
            symbols: null(),
            strings: null(),
            relocations: [(null(), 0); 2],
            read_only: (0, 0),
            extent: (0, 0),
        }
    }

    /// # Safety
    /// `info` describes a loaded object.
    unsafe fn read(info: &libc::dl_phdr_info) -> Option<Self> {
        let mut object = Self::none();
        object.base = info.dlpi_addr as usize;
        object.extent = (usize::MAX, 0);
        let mut dynamic: *const Dynamic = null();
        // SAFETY: the caller's contract; names stay as long as the object.
        unsafe {
            if !info.dlpi_name.is_null() {
                object.name = CStr::from_ptr(info.dlpi_name);
            }
            for index in 0..usize::from(info.dlpi_phnum) {
                let header = &*info.dlpi_phdr.add(index);
                let start = object.base + header.p_vaddr as usize;
                let end = start + header.p_memsz as usize;
                match header.p_type {
                    libc::PT_DYNAMIC => dynamic = start as *const Dynamic,
                    libc::PT_GNU_RELRO => object.read_only = (start, end),
                    libc::PT_LOAD => {
                        object.extent = (object.extent.0.min(start), object.extent.1.max(end));
                    }
                    _ => {}
                }
            }
            if dynamic.is_null() {
                return None;
            }
            object.read_dynamic(dynamic);
        }
        (!object.symbols.is_null() && !object.strings.is_null()).then_some(object)
    }

    /// # Safety
    /// `entry` is the object's dynamic section.
    unsafe fn read_dynamic(&mut self, mut entry: *const Dynamic) {
        // SAFETY: the section ends with DT_NULL.
        unsafe {
            while (*entry).tag != DT_NULL {
                let value = (*entry).value as usize;
                // The loader has relocated addresses here, or not, by system.
                let address = if value < self.base {
                    value + self.base
                } else {
                    value
                };
                match (*entry).tag {
                    DT_SYMTAB => self.symbols = address as *const _,
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

    /// Whether the object is left as it is: this library, which calls the real functions,
    /// the loader and what the kernel maps. A `libruby.so` with this library inside is
    /// Ruby, too; the library's own calls may take the way round then.
    pub(crate) fn is_exempt(&self) -> bool {
        let here = Self::none as *const () as usize;
        let name = self.name.to_bytes();
        self.contains(here) && !self.has_symbol_of_ruby()
            || name.starts_with(b"linux-vdso")
            || name.windows(9).any(|part| part == b"/ld-linux")
    }

    fn contains(&self, address: usize) -> bool {
        (self.extent.0..self.extent.1).contains(&address)
    }

    /// Whether this is the object that Ruby itself is in.
    pub(crate) fn has_symbol_of_ruby(&self) -> bool {
        // SAFETY: looking a symbol up has no effect.
        let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"ruby_xmalloc".as_ptr()) };
        self.contains(symbol as usize)
    }

    /// Offers every slot to `rewrite` and stores what it returns. False when a
    /// slot could not be stored to.
    pub(crate) fn rewrite(&self, rewrite: impl Fn(&Slot<'_>) -> Option<usize>) -> bool {
        let mut opened = false;
        for (first, count) in self.relocations {
            for index in 0..count {
                // SAFETY: the loader has read the same table.
                let relocation = unsafe { &*first.add(index) };
                let Some((place, slot)) = self.slot(relocation) else {
                    continue;
                };
                let Some(to) = rewrite(&slot) else { continue };
                if self.is_read_only(place) && !opened {
                    if !self.protect(libc::PROT_READ | libc::PROT_WRITE) {
                        return false;
                    }
                    opened = true;
                }
                // SAFETY: the place is writable now, and one aligned store
                // replaces one function by another of the same type.
                unsafe { (place as *mut usize).write_volatile(to) };
            }
        }
        !opened || self.protect(libc::PROT_READ)
    }

    fn slot(&self, relocation: &Relocation) -> Option<(usize, Slot<'_>)> {
        let kind = relocation.info as u32;
        let symbol = (relocation.info >> 32) as usize;
        if symbol == 0 || !ADDRESS.contains(&kind) || relocation.addend != 0 {
            return None;
        }
        let place = self.base + relocation.offset as usize;
        // SAFETY: the loader has used the same symbol, name and place.
        let (name, value) = unsafe {
            let symbol = &*self.symbols.add(symbol);
            let name = CStr::from_ptr(self.strings.add(symbol.st_name as usize).cast());
            (name, (place as *const usize).read())
        };
        let is_unbound = kind == JUMP_SLOT && self.contains(value);
        Some((
            place,
            Slot {
                name,
                value,
                is_unbound,
            },
        ))
    }

    fn is_read_only(&self, place: usize) -> bool {
        let (start, end) = self.read_only_pages();
        (start..end).contains(&place)
    }

    fn read_only_pages(&self) -> (usize, usize) {
        let (start, end) = self.read_only;
        let page_bytes = ashlar_heap::os::page_bytes();
        (start & !(page_bytes - 1), end & !(page_bytes - 1))
    }

    fn protect(&self, access: c_int) -> bool {
        let (start, end) = self.read_only_pages();
        // SAFETY: the pages belong to the object; they are read-only only to
        // catch stray writes.
        unsafe { libc::mprotect(start as *mut c_void, end - start, access) == 0 }
    }
}
