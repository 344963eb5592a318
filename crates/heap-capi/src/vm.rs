//! The program's side of the heap: its callbacks, as the heap calls them.

use std::cell::{Cell as StdCell, RefCell};
use std::ffi::c_void;
use std::mem::offset_of;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ashlar_heap::{
    Cell, Forwarding, Inspection, MarkingEnd, Moving, Root, Space, Trace, TraceCommon,
    Tracer as HeapTracer, WidthIndex,
};

use crate::declared::{Declared, Layouts, Number};
use crate::finalizers::FinalizerLists;
use crate::roots::{self, Roots};
use crate::thread::Thread;
use crate::tracer::{follow, pointer, Does, Inside, Memory, Tracer};

type CellCallback = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void);

/// `ashlar_vm`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Callbacks {
    interface: u32,
    bytes: u32,
    data: *mut c_void,
    trace: Option<CellCallback>,
    trace_roots: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    trace_anywhere: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void) -> bool>,
    release: Option<unsafe extern "C" fn(*mut c_void, *const Thread, *mut c_void)>,
    marked: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    clear_weak: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    wanted_bytes: Option<unsafe extern "C" fn(*mut c_void, usize, *mut c_void) -> usize>,
    moved: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void) -> bool>,
    moves: bool,
    kind: Number,
    layouts: *const Declared,
    layout_count: usize,
}

const INTERFACE: u32 = 3;

impl Callbacks {
    /// Copies what the program passes, if it was compiled for this library.
    ///
    /// # Safety
    /// `callbacks` is null or an `ashlar_vm` of any version.
    pub(crate) unsafe fn read(callbacks: *const Self) -> Result<Self, String> {
        if callbacks.is_null() {
            return Err("ashlar_heap_new: pass an ashlar_vm, not NULL".into());
        }
        // SAFETY: every version begins with these two.
        let (interface, bytes) = unsafe { ((*callbacks).interface, (*callbacks).bytes) };
        if interface != INTERFACE || bytes as usize != size_of::<Self>() {
            return Err(format!(
                "ashlar_heap_new: the ashlar_vm is of interface {interface} and {bytes} bytes, \
                 this library's of interface {INTERFACE} and {} bytes; begin it with \
                 ASHLAR_VM_INIT and compile the program with this library's ashlar.h",
                size_of::<Self>()
            ));
        }
        // The last fields decide how long the structure is.
        const _: () = assert!(offset_of!(Callbacks, moves) == 80);
        const _: () = assert!(offset_of!(Callbacks, kind) == 82);
        const _: () = assert!(size_of::<Callbacks>() == 104);
        // SAFETY: it is as long as this version's.
        Ok(unsafe { *callbacks })
    }

    /// The layouts that the program declares.
    ///
    /// # Safety
    /// `layouts` is null or has `layout_count` layouts.
    pub(crate) unsafe fn layouts(&self) -> Result<Layouts, String> {
        // SAFETY: `layouts` has `layout_count` layouts, or is null and has none.
        let read = unsafe { Layouts::read(self.kind, self.layouts, self.layout_count) };
        let layouts = read.map_err(|wrong| format!("ashlar_heap_new: {wrong}"))?;
        if self.trace.is_none() && !layouts.ask_for_none() {
            return Err(
                "ashlar_heap_new: ashlar_vm.trace must not be NULL, unless layouts say of \
                        all kinds what they refer to"
                    .into(),
            );
        }
        Ok(layouts)
    }
}

#[cfg(test)]
impl Callbacks {
    /// Those of a program whose cells refer to nothing.
    pub(crate) fn of_leaves() -> Self {
        extern "C" fn trace(_: *mut c_void, _: *mut c_void, _: *mut c_void) {}
        Self {
            interface: INTERFACE,
            bytes: size_of::<Self>() as u32,
            data: std::ptr::null_mut(),
            trace: Some(trace),
            trace_roots: None,
            trace_anywhere: None,
            release: None,
            marked: None,
            clear_weak: None,
            wanted_bytes: None,
            moved: None,
            moves: false,
            kind: Number::default(),
            layouts: std::ptr::null(),
            layout_count: 0,
        }
    }
}

/// What the collector knows of a C program.
pub(crate) struct Vm {
    callbacks: Callbacks,
    pub(crate) layouts: Layouts,
    /// The first layout that the verifier has found to be wrong.
    wrong_layout: RefCell<Option<String>>,
    pub(crate) roots: RefCell<Roots>,
    pub(crate) finalizers: RefCell<FinalizerLists>,
    threads: Mutex<Vec<*const Thread>>,
    /// The thread that the heap runs on at the moment: dead cells are released on it.
    pub(crate) current: StdCell<*const Thread>,
    memory: Memory,
}

impl Vm {
    pub(crate) fn new(callbacks: Callbacks, layouts: Layouts, space: &'static Space) -> Self {
        Self {
            callbacks,
            layouts,
            wrong_layout: RefCell::default(),
            roots: RefCell::default(),
            finalizers: RefCell::default(),
            threads: Mutex::default(),
            current: StdCell::new(std::ptr::null()),
            memory: Memory {
                inside: Inside::of(space.region()),
                space,
            },
        }
    }

    pub(crate) fn threads(&self) -> MutexGuard<'_, Vec<*const Thread>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work`, during which the inline part of `ashlar.h` has no cells: a callback that wants
    /// one ends the program, and does not get one that is freed when marking ends.
    pub(crate) fn without_cells(&self, work: impl FnOnce()) {
        for &thread in self.threads().iter() {
            // SAFETY: threads are taken off the list before they end, and are stopped.
            unsafe { Thread::hide_cells(thread) };
        }
        work();
        for &thread in self.threads().iter() {
            // SAFETY: the same.
            unsafe { Thread::show_cells(thread) };
        }
    }

    /// Whether cells may move.
    pub(crate) fn moves(&self) -> bool {
        self.callbacks.moves
    }

    /// Has the program's callback trace a cell that has no layout.
    fn trace<'a>(&'a self, cell: Cell, does: Does<'a, '_>) {
        let mut tracer = Tracer::new(&self.memory, does);
        let Some(trace) = self.callbacks.trace else {
            self.layouts.panic_without_layout(cell);
        };
        // SAFETY: the program's own function, with a cell of its own.
        unsafe { trace(pointer(cell), tracer.as_c(), self.callbacks.data) };
    }

    /// The first layout that the verifier has found to be wrong since the latest call.
    pub(crate) fn take_wrong_layout(&self) -> Option<String> {
        self.wrong_layout.take()
    }

    fn trace_all_roots<'a>(&'a self, does: Does<'a, '_>) {
        let tracer = &mut Tracer::new(&self.memory, does);
        self.roots.borrow().trace(tracer);
        self.finalizers.borrow_mut().trace(tracer);
        for &thread in self.threads().iter() {
            // SAFETY: threads are taken off the list before they end, and are stopped.
            unsafe {
                roots::trace_frames((*thread).frames.get(), tracer);
                let (now, base) = ((*thread).stack_now.get(), (*thread).stack_base.get());
                if now != 0 && base != 0 {
                    roots::trace_stack(now, base, tracer);
                }
            }
        }
        if let Some(trace_roots) = self.callbacks.trace_roots {
            // SAFETY: the program's own function.
            unsafe { trace_roots(tracer.as_c(), self.callbacks.data) };
        }
    }
}

// SAFETY: the program promises in C what a VM promises (`ashlar.h`), and hands over cells
// of this heap alone; addresses of others are left out.
unsafe impl ashlar_heap::Vm for Vm {
    fn trace_roots(&self, tracer: &mut HeapTracer<'_>) {
        self.trace_all_roots(Does::Mark(tracer));
    }

    unsafe fn trace_cell(&self, cell: Cell, tracer: &mut HeapTracer<'_>) {
        self.trace(cell, Does::Mark(tracer));
    }

    #[inline(always)]
    unsafe fn owns_nothing(&self) -> impl Fn(Cell) -> bool {
        self.layouts
            .tell_owning_nothing(self.callbacks.release.is_some())
    }

    #[inline(always)]
    unsafe fn release(&self, cell: Cell, _width: WidthIndex) {
        if let Some(release) = self.callbacks.release {
            // SAFETY: the program's own function, with a cell of its own that is dead, and
            // a thread that is in a call of the heap.
            unsafe { release(pointer(cell), self.current.get(), self.callbacks.data) };
        }
    }

    fn marking_done(&self, end: &mut MarkingEnd<'_>) {
        if let Some(marked) = self.callbacks.marked {
            let mut tracer = Tracer::new(&self.memory, Does::MarkAtEnd(end, false));
            // SAFETY: the program's own function.
            unsafe { marked(tracer.as_c(), self.callbacks.data) };
            if matches!(tracer.does, Does::MarkAtEnd(_, true)) {
                // What the callback marked may keep more alive: nothing is dead yet.
                return;
            }
        }
        end.clear_weak_references(|place| match self.callbacks.clear_weak {
            // SAFETY: the program's own function, with a place that it noted.
            Some(clear_weak) => unsafe { clear_weak(place.cast(), self.callbacks.data) },
            // SAFETY: the program noted the place, and keeps it valid.
            None => unsafe { place.write(0) },
        });
        self.finalizers.borrow_mut().take_dead(end);
    }

    fn common(&self) -> impl TraceCommon {
        Anywhere { vm: self }
    }

    fn moving(&self) -> Option<&impl Moving> {
        self.callbacks.moves.then_some(self)
    }

    fn inspection(&self) -> Option<&impl Inspection> {
        Some(self)
    }
}

/// Traces cells by their layout, or with `trace_anywhere`.
#[derive(Clone, Copy)]
struct Anywhere<'a> {
    vm: &'a Vm,
}

// SAFETY: of the VM only these are used: its layouts, which do not change while the program is
// stopped; where the heap is; and a function that any thread may call with its data, as the
// program has promised.
unsafe impl Send for Anywhere<'_> {}
// SAFETY: the same.
unsafe impl Sync for Anywhere<'_> {}

// SAFETY: as for the VM.
unsafe impl TraceCommon for Anywhere<'_> {
    #[inline(always)]
    unsafe fn trace_cell(self, cell: Cell, tracer: &mut impl Trace) -> bool {
        let Vm {
            layouts,
            callbacks,
            memory,
            ..
        } = self.vm;
        if layouts.trace(memory.inside, cell, tracer) {
            return true;
        }
        let Some(trace) = callbacks.trace_anywhere else {
            return false;
        };
        let mut lent = tracer.lent();
        let mut tracer = Tracer::new(memory, Does::MarkAnywhere(&mut lent));
        // SAFETY: the program's own function, with a cell of its own.
        unsafe { trace(pointer(cell), tracer.as_c(), callbacks.data) }
    }

    fn reference(self, word: usize) -> Option<Cell> {
        self.vm.memory.inside.reference(word)
    }

    unsafe fn trace_below(self, _cell: Cell, _end: usize, _tracer: &mut impl Trace) -> usize {
        // Nothing is traced with `Trace::trace_later`.
        0
    }
}

// SAFETY: as for the VM.
unsafe impl Moving for Vm {
    unsafe fn wanted_width(&self, cell: Cell, width: WidthIndex) -> Option<WidthIndex> {
        let Some(wanted) = self.callbacks.wanted_bytes else {
            return Some(width);
        };
        // SAFETY: the program's own function, with a cell of its own.
        match unsafe { wanted(pointer(cell), width.bytes(), self.callbacks.data) } {
            0 => None,
            bytes => Some(WidthIndex::for_size(bytes).unwrap_or(width)),
        }
    }

    unsafe fn moved(
        &self,
        from: Cell,
        to: Cell,
        _width: WidthIndex,
        _new_width: WidthIndex,
    ) -> bool {
        match self.callbacks.moved {
            // SAFETY: the program's own function, with cells of its own.
            Some(moved) => unsafe { moved(pointer(from), pointer(to), self.callbacks.data) },
            None => true,
        }
    }

    unsafe fn update_cell(&self, cell: Cell, _width: WidthIndex, now: Forwarding<'_>) {
        let is_declared = self.layouts.each_place(cell, |place| {
            // SAFETY: cells of this kind have the word, as the program has declared, and the
            // program is stopped.
            unsafe {
                follow(self.memory.inside, place, |cell| {
                    now.location(cell.address())
                })
            };
        });
        if !is_declared {
            self.trace(cell, Does::Update(now));
        }
    }

    fn update_roots(&self, now: Forwarding<'_>) {
        self.trace_all_roots(Does::Update(now));
        let location = |word| now.location(word);
        self.finalizers.borrow_mut().follow(location);
    }
}

// SAFETY: as for the VM.
unsafe impl Inspection for Vm {
    fn visit_roots(&self, visit: &mut dyn FnMut(Root)) {
        self.trace_all_roots(Does::ShowRoot(visit));
    }

    unsafe fn visit_cell(&self, cell: Cell, visit: &mut dyn FnMut(Cell)) {
        if let Err(wrong) = self.layouts.check(self.memory.space, cell) {
            self.wrong_layout.borrow_mut().get_or_insert(wrong);
            return;
        }
        let is_declared = self.layouts.each_place(cell, |place| {
            // SAFETY: it has been checked that cells of this kind have the word.
            let child = self.memory.inside.reference(unsafe { place.read() });
            child.into_iter().for_each(&mut *visit);
        });
        if !is_declared {
            self.trace(cell, Does::Show(visit));
        }
    }
}
