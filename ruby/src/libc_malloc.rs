//! The allocator that the rest of the process uses: libc's, or a preloaded one. It is found
//! by name in the process's own search order, because this library has functions of the
//! same names. If the process uses those, there is no other allocator, except libc's behind
//! them for a program that asks for it (`ASHLAR_MALLOC=libc`).

use std::ffi::{c_void, CStr};
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};

use crate::elf;
use crate::statics::shared;

/// Where `xmalloc` gets its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MallocSource {
    /// The heap.
    Heap,
    /// The C library, or whatever allocator is preloaded.
    Libc,
}

/// The address of a function of the process, null while it is unknown.
pub(crate) struct FunctionAddress(AtomicPtr<c_void>);

impl FunctionAddress {
    pub(crate) const fn unknown() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    pub(crate) fn address(&self) -> *mut c_void {
        self.0.load(Relaxed)
    }

    /// Looks the name up in the process's own search order, without this library: an
    /// allocator that comes before it may lack some of the functions that this library has.
    pub(crate) fn find(&self, name: &CStr) {
        self.0.store(look_up(name), Relaxed);
        if is_of_this_library(self.address()) {
            self.find_next(name);
        }
    }

    /// Looks the name up in what comes after this library in the search order.
    fn find_next(&self, name: &CStr) {
        self.0.store(look_up_in(libc::RTLD_NEXT, name), Relaxed);
    }
}

/// Returns the function of this name in the process's own search order.
pub(crate) fn look_up(name: &CStr) -> *mut c_void {
    let found = look_up_in(libc::RTLD_DEFAULT, name);
    elf::definition(name, found as usize) as *mut c_void
}

fn look_up_in(place: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: looking a symbol up has no effect.
    unsafe { libc::dlsym(place, name.as_ptr()) }
}

fn is_of_this_library(address: *const c_void) -> bool {
    let base = |address: *const c_void| {
        let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: asks which object is at an address, and fills the description in if there
        // is one; zeros are a valid description, too.
        unsafe {
            libc::dladdr(address, info.as_mut_ptr());
            info.assume_init().dli_fbase
        }
    };
    base(address) == base(look_up as *const c_void)
}

/// A function of the process's allocator, with its type.
pub(crate) struct Found<F> {
    pub(crate) address: FunctionAddress,
    function: PhantomData<F>,
}

/// `malloc`.
pub(crate) type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
/// `calloc`.
pub(crate) type Calloc = unsafe extern "C" fn(usize, usize) -> *mut c_void;
/// `realloc`.
pub(crate) type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
/// `free`.
pub(crate) type Free = unsafe extern "C" fn(*mut c_void);
/// `malloc_usable_size`.
pub(crate) type UsableSize = unsafe extern "C" fn(*mut c_void) -> usize;

impl<F: Copy> Found<F> {
    const fn nothing() -> Self {
        Self {
            address: FunctionAddress::unknown(),
            function: PhantomData,
        }
    }

    /// The function; `None` if it is unknown, or only this library has one.
    fn of_others(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let address = self.address.address();
        // SAFETY: the symbol of this name has the type `F`, which is a function's.
        (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
    }
}

pub(crate) static MALLOC: Found<Malloc> = Found::nothing();
pub(crate) static CALLOC: Found<Calloc> = Found::nothing();
pub(crate) static REALLOC: Found<Realloc> = Found::nothing();
pub(crate) static FREE: Found<Free> = Found::nothing();
pub(crate) static USABLE_SIZE: Found<UsableSize> = Found::nothing();

/// Whether this library itself is the process's allocator: it is preloaded, or part of
/// Ruby.
static IS_THIS_LIBRARY: AtomicBool = AtomicBool::new(false);

/// The functions, with their names.
fn all() -> [(&'static FunctionAddress, &'static CStr); 5] {
    [
        (&MALLOC.address, c"malloc"),
        (&CALLOC.address, c"calloc"),
        (&REALLOC.address, c"realloc"),
        (&FREE.address, c"free"),
        (&USABLE_SIZE.address, c"malloc_usable_size"),
    ]
}

/// Looks the functions up; called once, when Ruby starts.
pub(crate) fn find(xmalloc_from: MallocSource) {
    extern "C" {
        #[link_name = "ashlar_own_free"]
        fn own_free() -> *mut c_void;
    }
    // SAFETY: only asks for an address.
    if look_up(c"free") != unsafe { own_free() } {
        for (function, name) in all() {
            function.find(name);
        }
        return;
    }
    IS_THIS_LIBRARY.store(true, Relaxed);
    for (function, name) in all() {
        match xmalloc_from {
            MallocSource::Libc => function.find_next(name),
            MallocSource::Heap => function.0.store(null_mut(), Relaxed),
        }
    }
}

/// Whether this library itself is the process's allocator.
pub(crate) fn is_this_library() -> bool {
    IS_THIS_LIBRARY.load(Relaxed)
}

/// # Safety
/// `memory` comes from the process's allocator and is not used any more.
/// Memory of unknown origin is leaked: that is the only safe thing to do.
pub(crate) unsafe fn free(memory: *mut c_void) {
    if let Some(free) = FREE.of_others() {
        // SAFETY: libc gave the memory, and nobody uses it any more.
        unsafe { free(memory) };
    }
}

/// # Safety
/// `memory` comes from the process's allocator and, unless null is returned, is not used
/// any more.
#[export_name = "ashlar_realloc_elsewhere"]
pub(crate) unsafe extern "C" fn realloc(memory: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: libc gave the memory, which is freed if it moves.
    REALLOC
        .of_others()
        .map_or(null_mut(), |realloc| unsafe { realloc(memory, size) })
}

/// # Safety
/// `memory` comes from the process's allocator.
pub(crate) unsafe fn usable_size(memory: *mut c_void) -> usize {
    // SAFETY: libc gave the memory.
    USABLE_SIZE
        .of_others()
        .map_or(0, |usable_size| unsafe { usable_size(memory) })
}

/// Counts a change of the bytes that Ruby has from this allocator, which pace collections.
fn note(difference: isize) {
    if let Some(shared) = shared() {
        shared.payloads().note_elsewhere(difference);
    }
}

/// The process's own `malloc`.
pub(crate) fn malloc(size: usize) -> *mut c_void {
    // SAFETY: any size may be asked for.
    MALLOC
        .of_others()
        .map_or(null_mut(), |malloc| unsafe { malloc(size) })
}

/// The process's own `calloc`, for one item of this size.
pub(crate) fn calloc(size: usize) -> *mut c_void {
    // SAFETY: any size may be asked for.
    CALLOC
        .of_others()
        .map_or(null_mut(), |calloc| unsafe { calloc(1, size) })
}

/// Counts what [`malloc`] or [`calloc`] has returned.
pub(crate) fn counted(memory: *mut c_void) -> *mut c_void {
    if !memory.is_null() {
        // SAFETY: just allocated there.
        note(unsafe { usable_size(memory) } as isize);
    }
    memory
}

/// `realloc`, counted.
///
/// # Safety
/// `memory` comes from the process's allocator and, unless null is returned, is not used
/// any more.
pub(crate) unsafe fn counted_realloc(memory: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: libc gave the memory, which is freed if it moves.
    unsafe {
        let old_bytes = usable_size(memory) as isize;
        let fresh = realloc(memory, size);
        if !fresh.is_null() {
            note(usable_size(fresh) as isize - old_bytes);
        }
        fresh
    }
}

/// `free`, counted.
///
/// # Safety
/// `memory` comes from the process's allocator and is not used any more.
pub(crate) unsafe fn counted_free(memory: *mut c_void) {
    // SAFETY: libc gave the memory, and nobody uses it any more.
    unsafe {
        note(-(usable_size(memory) as isize));
        free(memory);
    }
}
