//! Making, changing and ending a heap.

use std::cell::{Cell as StdCell, RefCell};
use std::ffi::{c_char, c_void, CStr};
use std::process;
use std::sync::MutexGuard;

use ashlar_heap::{os, refusals, CellState, Frozen, Heap, Shared, Stress, RESERVE_BYTES_MIN};

use crate::declared::{Declared, Layouts};
use crate::error;
use crate::options::Options;
use crate::thread::Thread;
use crate::tracer::{cell_of, pointer};
use crate::vm::{Callbacks, Vm};

/// `ashlar_heap`.
pub(crate) struct ProgramHeap {
    /// What a fork that is under way holds. The first field: some of it belongs to the others.
    at_fork: RefCell<Option<AtFork>>,
    pub(crate) heap: Heap<'static, Vm>,
    options: StdCell<Options>,
    /// Calls of `ashlar_disable` without their `ashlar_enable`.
    disabled: StdCell<usize>,
    /// The last field: nothing of the heap is left when it is freed.
    _shared: OwnShared,
}

/// What a fork holds, so that nothing is in the middle of a change. It is released in this order.
struct AtFork {
    _frozen: Frozen<'static>,
    _threads: MutexGuard<'static, Vec<*const Thread>>,
    /// The process that forks.
    process_id: u32,
}

/// What the heap shares with its threads. A pointer, because the heap has references to it.
struct OwnShared(*mut Shared);

impl Drop for OwnShared {
    fn drop(&mut self) {
        // SAFETY: it came from a box, and whoever has a reference to it is gone (`ProgramHeap`).
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl ProgramHeap {
    fn new(callbacks: Callbacks, layouts: Layouts, options: Options) -> Result<Box<Self>, String> {
        let refused = |_| {
            let bytes = options.reserve_bytes.unwrap_or(RESERVE_BYTES_MIN);
            format!(
                "the system refuses {} MiB of address space for the heap; set a smaller one with \
                 reserve=",
                bytes >> 20
            )
        };
        if options.heap.refuse.is_some() {
            refusals::refuse(options.heap.refuse);
        }
        let shared = match options.reserve_bytes {
            Some(bytes) => Shared::reserve(bytes),
            // Nobody knows what the program wants for stacks, files and memory of its own.
            None => Shared::reserve_beside(os::address_space_limit_bytes().unwrap_or(0) / 2),
        };
        let own_shared = OwnShared(Box::into_raw(Box::new(shared.map_err(refused)?)));
        // SAFETY: it is freed when nothing of the heap is left.
        let shared: &'static Shared = unsafe { &*own_shared.0 };
        let vm = Vm::new(callbacks, layouts, shared.space());
        let heap = Box::new(Self {
            at_fork: RefCell::default(),
            heap: Heap::new(vm, shared, options.heap.pace).map_err(refused)?,
            options: StdCell::new(options),
            disabled: StdCell::new(0),
            _shared: own_shared,
        });
        heap.apply(options);
        Ok(heap)
    }

    fn apply(&self, options: Options) {
        let refuse = options.heap.refuse;
        if self.options.replace(options).heap.refuse != refuse {
            refusals::refuse(refuse);
        }
        options.heap.apply(&self.heap);
        let stress = options.heap.stress;
        self.heap.set_stress(Stress {
            no_minor: stress.no_minor || !options.generational,
            ..stress
        });
    }

    pub(crate) fn vm(&self) -> &Vm {
        self.heap.vm()
    }

    pub(crate) fn options(&self) -> Options {
        self.options.get()
    }

    pub(crate) fn is_disabled(&self) -> bool {
        self.disabled.get() > 0
    }

    /// # Panics
    /// When the collector is at work: one of its callbacks has called.
    pub(crate) fn assert_at_rest(&self) {
        assert!(
            !self.heap.shared().is_busy(),
            "a callback of the collector must not allocate or collect"
        );
    }

    /// The state of new cells.
    pub(crate) fn new_state(&self) -> CellState {
        match self.options.get().has_barriers {
            true => CellState::NEW,
            false => CellState::NEW_UNPROTECTED,
        }
    }
}

/// # Safety
/// `text` is null or a string.
unsafe fn option_text(text: *const c_char) -> Result<String, String> {
    if text.is_null() {
        return Ok(String::new());
    }
    // SAFETY: the text is a string: null has been dealt with.
    let text = unsafe { CStr::from_ptr(text) };
    let valid = text.to_str();
    valid
        .map(str::to_owned)
        .map_err(|_| format!("options {text:?}: must be plain text"))
}

#[no_mangle]
unsafe extern "C" fn ashlar_heap_new(
    callbacks: *const Callbacks,
    options: *const c_char,
) -> Option<Box<ProgramHeap>> {
    error::have_panics_leave_a_line();
    // SAFETY: the program passes an `ashlar_vm` and a string.
    let made = unsafe {
        Callbacks::read(callbacks).and_then(|callbacks| {
            let options = Options::default().changed(&option_text(options)?, true)?;
            ProgramHeap::new(callbacks, callbacks.layouts()?, options)
        })
    };
    made.map_err(error::note).ok()
}

#[no_mangle]
unsafe extern "C" fn ashlar_heap_set(heap: &ProgramHeap, options: *const c_char) -> bool {
    // SAFETY: the program passes a string.
    let text = unsafe { option_text(options) };
    let changed = text.and_then(|text| heap.options().changed(&text, false));
    changed
        .map(|options| heap.apply(options))
        .map_err(error::note)
        .is_ok()
}

#[no_mangle]
extern "C" fn ashlar_layout_set(
    heap: &ProgramHeap,
    kind: usize,
    layout: Option<&Declared>,
) -> bool {
    let set = layout
        .ok_or_else(|| "ashlar_layout_set: pass an ashlar_layout, not NULL".into())
        .and_then(|layout| heap.vm().layouts.set(kind, layout));
    set.map_err(error::note).is_ok()
}

/// # Safety
/// `heap` is null, or from `ashlar_heap_new` and nobody uses it afterwards.
#[no_mangle]
unsafe extern "C" fn ashlar_heap_free(heap: *mut ProgramHeap) {
    // The program has ended its threads. Its functions that free a cell's memory may still call with the
    // heap, so it is a box only when they are done.
    // SAFETY: null, or a heap that `ashlar_heap_new` has made.
    let Some(program) = (unsafe { heap.as_ref() }) else {
        return;
    };
    let vm = program.vm();
    // SAFETY: all that is left dies now.
    let owns_nothing = unsafe { ashlar_heap::Vm::owns_nothing(vm) };
    program.with_some_thread(|| {
        program.heap.for_each_cell(|cell, width| {
            if !owns_nothing(cell) {
                // SAFETY: the walk shows each cell once, and nobody uses it any more.
                unsafe { ashlar_heap::Vm::release(vm, cell, width) };
            }
        });
    });
    // SAFETY: `ashlar_heap_new` made the box, and nobody has a reference to it now.
    drop(unsafe { Box::from_raw(heap) });
}

#[no_mangle]
extern "C" fn ashlar_root_add(heap: &ProgramHeap, place: *mut usize) -> bool {
    let is_added = heap.vm().roots.borrow_mut().add(place);
    error::no_memory_unless(is_added, "root")
}

#[no_mangle]
extern "C" fn ashlar_root_remove(heap: &ProgramHeap, place: *mut usize) {
    heap.vm().roots.borrow_mut().remove(place);
}

#[no_mangle]
extern "C" fn ashlar_pin(heap: &ProgramHeap, cell: *mut c_void) -> bool {
    let is_pinned = heap.vm().roots.borrow_mut().pin(cell as usize);
    error::no_memory_unless(is_pinned, "pin")
}

#[no_mangle]
extern "C" fn ashlar_unpin(heap: &ProgramHeap, cell: *mut c_void) {
    heap.vm().roots.borrow_mut().unpin(cell as usize);
}

#[no_mangle]
unsafe extern "C" fn ashlar_cell_bytes(heap: &ProgramHeap, cell: *mut c_void) -> usize {
    // SAFETY: the program passes a cell.
    let cell = unsafe { cell_of(cell) };
    heap.heap.region().width_of(cell).bytes()
}

#[no_mangle]
extern "C" fn ashlar_is_cell(heap: &ProgramHeap, address: *const c_void) -> bool {
    let heap = &heap.heap;
    let cell = heap.region().cell_at(address as usize);
    cell.is_some_and(|cell| !heap.is_garbage(cell))
}

#[no_mangle]
unsafe extern "C" fn ashlar_each_cell(
    heap: &ProgramHeap,
    visit: unsafe extern "C" fn(*mut c_void, usize, *mut c_void),
    argument: *mut c_void,
) {
    heap.with_some_thread(|| {
        heap.heap.for_each_cell(|cell, width| {
            // SAFETY: the program's own function.
            unsafe { visit(pointer(cell), width.bytes(), argument) };
        });
    });
}

#[no_mangle]
extern "C" fn ashlar_disable(heap: &ProgramHeap) {
    heap.disabled.set(heap.disabled.get() + 1);
}

#[no_mangle]
extern "C" fn ashlar_enable(heap: &ProgramHeap) {
    heap.disabled.set(heap.disabled.get().saturating_sub(1));
}

#[no_mangle]
extern "C" fn ashlar_trim(heap: &ProgramHeap) {
    heap.heap.release_empty_blocks();
}

#[no_mangle]
extern "C" fn ashlar_before_fork(heap: &ProgramHeap) {
    heap.heap.leave_shared_pages();
    // SAFETY: a heap outlives what it holds at a fork, and stays where it is.
    let vm: &'static Vm = unsafe { &*std::ptr::from_ref(heap.vm()) };
    // The list of threads comes first: whoever has it may wait for the other locks.
    let threads = vm.threads();
    let shared = heap.heap.shared();
    // Helpers end next: a marking that they take part in may need the other locks.
    let helpers = shared.stop_helpers();
    *heap.at_fork.borrow_mut() = Some(AtFork {
        _frozen: shared.freeze(helpers),
        _threads: threads,
        process_id: process::id(),
    });
}

#[no_mangle]
extern "C" fn ashlar_after_fork(heap: &ProgramHeap) {
    let held = heap.at_fork.take();
    let is_child = held.is_some_and(|held| held.process_id != process::id());
    if is_child {
        heap.heap.begin_in_child();
    }
}

/// A heap of a program whose cells refer to nothing.
#[cfg(test)]
pub(crate) fn heap_of_leaves() -> Box<ProgramHeap> {
    let heap = ProgramHeap::new(
        Callbacks::of_leaves(),
        Layouts::default(),
        Options::default(),
    );
    heap.expect("a heap")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finalizers::ashlar_finalizer_add;
    use crate::refusing_allocator::while_memory_is_refused;
    use std::ptr::null_mut;

    /// Runs `work` in a child, of which `heap` is told. Returns what `work` returns.
    fn in_child(heap: &ProgramHeap, work: impl FnOnce() -> u8) -> i32 {
        ashlar_before_fork(heap);
        // SAFETY: the child does only what `work` does, and ends.
        let child = unsafe { libc::fork() };
        ashlar_after_fork(heap);
        if child == 0 {
            let result = work();
            // SAFETY: no other thread is in the child.
            unsafe { libc::_exit(result.into()) };
        }
        let mut status = 0;
        // SAFETY: the status can be written.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status), "{status}");
        libc::WEXITSTATUS(status)
    }

    #[test]
    fn where_memory_is_refused_a_line_says_what_there_is_none_for() {
        extern "C" fn finalize(_: &Thread, _: *mut c_void, _: *mut c_void) {}
        let heap = heap_of_leaves();
        let mut place = 0;
        let cell = std::ptr::without_provenance_mut(64);
        while_memory_is_refused(|| assert!(!ashlar_root_add(&heap, &mut place)));
        assert_eq!(error::latest(), "memory is out: no root");
        while_memory_is_refused(|| assert!(!ashlar_pin(&heap, cell)));
        assert_eq!(error::latest(), "memory is out: no pin");
        // SAFETY: the cell is not looked at, as the finalizer is not added.
        let add = || unsafe { ashlar_finalizer_add(&heap, cell, finalize, null_mut()) };
        while_memory_is_refused(|| assert!(!add()));
        assert_eq!(error::latest(), "memory is out: no finalizer");
    }

    #[test]
    fn a_child_begins_anew_and_its_parent_goes_on() {
        let heap = heap_of_leaves();
        heap.heap.put_off_collection(1 << 30);
        let nursery_bytes = || heap.heap.pace().nursery_bytes();
        let before_bytes = nursery_bytes();
        let begins_anew = in_child(&heap, || u8::from(nursery_bytes() < before_bytes));
        assert_eq!((begins_anew, nursery_bytes()), (1, before_bytes));
    }
}
