//! A dump of the heap: every object with its references, the roots, and what each block
//! is used for, written to a file. `docs/reference/heap-dump.md` describes the format.
//!
//! ```text
//! open → full collection → roots → blocks in address order, with their cells → totals → pour
//! ```
//!
//! Everything between opening and pouring happens with the VM lock held and the other Ractors
//! stopped. The walk makes no Ruby object, and needs only the memory of the file's buffers, for
//! which there is a spare. Opening and pouring may wait for the reader of a pipe: the thread
//! does not hold the GVL then.

mod contents;
mod file;
mod format;
mod names;

use std::ffi::{c_char, c_int, CStr};
use std::io::{self, ErrorKind};

use ashlar_heap::Request;

use crate::collect::Reason;
use crate::collector::Collector;
use crate::knobs::KNOBS;
use crate::lock::Gvl;
use crate::spare_memory::with_spare;
use crate::statics::is_busy;
use file::DumpFile;

/// Keeps collections from beginning while it lives: without it, what Ruby's functions allocate
/// while they show an object could start one.
struct CollectionsOff {
    were_off: bool,
}

impl CollectionsOff {
    fn begin() -> Self {
        let were_off = KNOBS.disabled.is_on();
        KNOBS.disable(true);
        Self { were_off }
    }
}

impl Drop for CollectionsOff {
    fn drop(&mut self) {
        KNOBS.disable(self.were_off);
    }
}

/// Collects, and writes what is live. After an error there is no file that was not there before.
fn write(collector: &Collector, file: &mut DumpFile) -> io::Result<()> {
    // The caller may be a hook of the collector.
    if is_busy() {
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    // The other Ractors stay stopped until the VM lock is given back.
    let driver = collector.driver(Reason::Method);
    driver.collect(Request::EVERYTHING);
    let _off = CollectionsOff::begin();
    file.fill(|out| contents::write(collector, out))
}

/// 0, or the errno of the error.
fn number(outcome: io::Result<()>) -> c_int {
    let number_of = |error: io::Error| match error.kind() {
        ErrorKind::OutOfMemory => libc::ENOMEM,
        _ => error.raw_os_error().unwrap_or(libc::EIO),
    };
    outcome.map_or_else(number_of, |()| 0)
}

#[no_mangle]
unsafe extern "C" fn ashlar_new_dump(gvl: Gvl, path: *const c_char) -> Box<DumpFile> {
    // SAFETY: the shim passes a text that ends with 0.
    let path = unsafe { CStr::from_ptr(path) };
    with_spare(|| {
        // Ruby changes the environment only with the VM lock held.
        let spool_folder = gvl.with_vm_lock(|_| std::env::temp_dir());
        Box::new(DumpFile::new(path, spool_folder))
    })
}

// The shim has its dump from `ashlar_new_dump`, uses it on one thread, and gives it back once.

#[no_mangle]
extern "C" fn ashlar_open_dump(file: &mut DumpFile) -> c_int {
    number(with_spare(|| file.open()))
}

#[no_mangle]
extern "C" fn ashlar_write_dump(gvl: Gvl, file: &mut DumpFile) -> c_int {
    number(with_spare(|| {
        gvl.with_vm_lock(|collector| write(collector, file))
    }))
}

#[no_mangle]
extern "C" fn ashlar_pour_dump(file: &mut DumpFile) -> c_int {
    number(with_spare(|| file.pour()))
}

#[no_mangle]
extern "C" fn ashlar_free_dump(_file: Box<DumpFile>) {}
