//! What the collector knows about Ruby's objects.
//!
//! Most types are traced here, from their layout, and objects of common types are freed here;
//! Ruby does the rest. Either way is right for every type: the code here saves the calls, and
//! lets other threads than the collecting one trace ([`Common`]).

mod classes;
mod code;
mod data;
mod object;
mod record;
#[cfg_attr(ruby = "3.4", path = "object_model/ruby_3_4.rs")]
#[cfg_attr(ruby = "4.0", path = "object_model/ruby_4_0.rs")]
mod version;

use std::cell::{Cell as StdCell, RefCell};
use std::ptr::{null_mut, NonNull};
use std::sync::atomic::Ordering::Relaxed;

use ashlar_heap::{
    Cell, Forwarding, Inspection, MarkingEnd, Moving, Root, Trace, TraceCommon, Tracer, Vm,
    WidthIndex,
};

use crate::collect::Clocks;
use crate::current_tracer;
use crate::finalizers::Finalizers;
use crate::heap_profile::samples;
use crate::knobs::KNOBS;
use crate::layout::*;
use crate::move_counts::MoveCounts;
use crate::object_ids::ObjectIds;
use crate::payloads::xfree;
use crate::ruby_calls::{cell, is_object, RubyCalls, RubyEvents, Value};
use crate::statics;
use code::EmptyCallCache;
use data::DataType;
pub(crate) use object::{each_value, Object, Values};
use object::{mark_value, mark_values, variables, ShapeById, UNDEFINED};
pub(crate) use version::plain_object_bytes;
use version::{Count, Rule};

/// A Ruby as the collector sees it: Ruby's functions, and what is known of its objects outside
/// the heap.
pub(crate) struct Ruby {
    pub(crate) calls: RubyCalls,
    pub(crate) events: RubyEvents,
    pub(crate) clocks: Clocks,
    pub(crate) finalizers: RefCell<Finalizers>,
    pub(crate) object_ids: RefCell<ObjectIds>,
    /// Whether somebody wants to hear of every freed object.
    pub(crate) traces_frees: StdCell<bool>,
    pub(crate) weak: StdCell<ashlar_heap::WeakCounts>,
    pub(crate) move_counts: MoveCounts,
    empty_call_cache: StdCell<EmptyCallCache>,
    proc_type: StdCell<DataType>,
    call_caches_type: StdCell<DataType>,
    /// The number of loaded files of code, as last counted.
    loaded_files: StdCell<usize>,
    /// Whether there have been several Ractors, in this process or in one that it was forked from.
    had_ractors: StdCell<bool>,
}

impl Ruby {
    pub(crate) fn new(calls: RubyCalls, events: RubyEvents) -> Self {
        Self {
            calls,
            events,
            clocks: Clocks::default(),
            finalizers: RefCell::default(),
            object_ids: RefCell::default(),
            traces_frees: StdCell::new(false),
            weak: StdCell::default(),
            move_counts: MoveCounts::default(),
            empty_call_cache: StdCell::default(),
            proc_type: StdCell::default(),
            call_caches_type: StdCell::default(),
            loaded_files: StdCell::default(),
            had_ractors: StdCell::default(),
        }
    }

    /// Returns how many files the program had loaded when a collection last asked.
    pub(crate) fn loaded_files(&self) -> usize {
        self.loaded_files.get()
    }
}

/// Traces objects from their layout. Besides the objects, it needs only Ruby's table of
/// shapes.
///
/// Several threads trace at once, while Ruby is stopped and the collecting thread runs Ruby's
/// own marking functions, perhaps those of a C extension. This is sound, because those
/// functions read tables and write to four things only:
/// * the largest number of variables that objects of a class have had, which is atomic here;
/// * the tables of classes: here, only a thread that traces alone traces those that Ruby
///   changes;
/// * the caches of calls, and a flag of environments: whoever traces them stores the same
///   words, once for all;
/// * what objects of an extension's own types hold: they are traced by the extension's
///   functions. A type that declares its references instead has no such function.
///
/// Objects whose variables are in the table of generic ones are traced by Ruby. Threads
/// that run without the GVL write to no object, and may run while one thread marks, too.
#[derive(Clone, Copy)]
pub(crate) struct Common {
    shape_by_id: ShapeById,
    empty_call_cache: EmptyCallCache,
    proc_type: DataType,
    call_caches_type: DataType,
}

// SAFETY: what an object refers to is an object of this heap.
unsafe impl TraceCommon for Common {
    /// Returns false when Ruby has to trace the cell.
    #[inline(always)]
    unsafe fn trace_cell(self, cell: Cell, tracer: &mut impl Trace) -> bool {
        let object = Object::new(cell);
        if object.has_generic_variables() {
            return false;
        }
        match object.kind() {
            T_STRING => trace_string(object, tracer),
            T_ARRAY => trace_array(object, tracer),
            T_OBJECT if object.is_too_complex() => return false,
            T_OBJECT => trace_object(object, self.shape_by_id, tracer),
            // Ruby pins the keys of some hashes.
            T_HASH if object.has(RHASH_ST_TABLE_FLAG) && tracer.finds_pins() => return false,
            T_HASH => trace_hash(object, tracer),
            T_STRUCT => mark_values(tracer, object.members()),
            T_RATIONAL | T_COMPLEX => mark_values(tracer, object.two_parts()),
            T_FLOAT | T_BIGNUM => return true,
            T_SYMBOL => {
                version::trace_symbol(object, tracer);
                return true;
            }
            T_IMEMO => return code::trace_internal(self, object, tracer.lent()),
            _ if !self.trace_rarer(object, tracer.lent()) => return false,
            _ => {}
        }
        mark_value(tracer, object.word(KLASS));
        true
    }

    fn reference(self, word: usize) -> Option<Cell> {
        // SAFETY: what an object refers to is an object of this heap.
        is_object(word).then(|| unsafe { cell(word) })
    }

    unsafe fn trace_below(self, cell: Cell, end: usize, tracer: &mut impl Trace) -> usize {
        trace_entries_below(Object::new(cell), end, tracer)
    }
}

impl Common {
    #[inline(never)]
    fn trace_rarer(self, object: Object, mut tracer: impl Trace) -> bool {
        let tracer = &mut tracer;
        match object.kind() {
            T_CLASS | T_MODULE | T_ICLASS => {
                return version::trace_class(self.shape_by_id, object, tracer)
            }
            T_DATA => return data::trace_data(self, object, tracer),
            T_REGEXP => mark_value(tracer, object.word(REGEXP_SOURCE)),
            T_MATCH => {
                mark_value(tracer, object.word(MATCH_REGEXP));
                mark_value(tracer, object.word(MATCH_STRING));
            }
            _ => return false,
        }
        true
    }
}

impl Ruby {
    /// The variables of an object whose shape is not too complex.
    pub(crate) fn variables(&self, object: Object) -> Values {
        variables(object, self.calls.shape_by_id)
    }
}

#[inline(always)]
fn trace_object(object: Object, shape_by_id: ShapeById, tracer: &mut impl Trace) {
    let variables = variables(object, shape_by_id);
    mark_values(tracer, variables);
    raise_max_iv_count(object.word(KLASS), variables.count);
}

/// Raises the largest number of variables that marking has seen in a class: Ruby sizes new
/// objects of the class by it.
#[inline(always)]
fn raise_max_iv_count(klass: Value, count: usize) {
    if version::MAY_LACK_CLASS && count == 0 {
        return;
    }
    let max = (klass + CLASS_MAX_IV_COUNT) as *const version::AtomicCount;
    // SAFETY: the class of a live object is live and has this field, which
    // several threads may raise.
    let max = unsafe { &*max };
    if (max.load(Relaxed) as usize) < count {
        max.fetch_max(count as Count, Relaxed);
    }
}

/// An object with at least this many references is marked in parts while the program runs: a
/// slice takes about as long as marking 50 times as many.
const MANY_REFERENCES: usize = 1024;

#[inline(always)]
fn trace_array(object: Object, tracer: &mut impl Trace) {
    if object.has(RARRAY_EMBED_FLAG) {
        mark_values(tracer, object.embedded_values());
    } else if object.has(ELTS_SHARED) {
        mark_value(tracer, object.word(ARRAY_SHARED_ROOT));
    } else {
        let values = Values {
            first: object.word(ARRAY_PTR),
            count: object.word(ARRAY_LEN),
        };
        // Many methods move elements without calling the write barrier.
        let is_deferred = values.count >= MANY_REFERENCES
            // SAFETY: the program is stopped.
            && tracer.mark_later(unsafe { values.words() });
        if !is_deferred {
            mark_values(tracer, values);
        }
    }
}

#[inline(always)]
fn trace_string(object: Object, tracer: &mut impl Trace) {
    if object.flags & (STR_NOEMBED | ELTS_SHARED) == STR_NOEMBED | ELTS_SHARED {
        trace_shared_string(object.word(STR_SHARED_ROOT), tracer);
    }
}

/// Traces a string whose bytes are in the cell of another string, `root`. That cell must not
/// move, because C code may have the address of the bytes and no reference to the string.
#[inline(always)]
fn trace_shared_string(root: Value, tracer: &mut impl Trace) {
    if !tracer.finds_pins() || !is_object(root) {
        return mark_value(tracer, root);
    }
    // SAFETY: what an object refers to is an object of this heap.
    let root = unsafe { cell(root) };
    if Object::new(root).has(STR_NOEMBED) {
        tracer.mark(root);
    } else {
        tracer.pin(root);
    }
}

#[inline(always)]
fn trace_hash(object: Object, tracer: &mut impl Trace) {
    mark_value(tracer, object.word(HASH_DEFAULT));
    if object.is_small_hash() {
        return object
            .small_hash_pairs()
            .for_each(|pair| mark_values(tracer, pair));
    }
    let (start, bound) = (object.word(HASH_ST_START), object.word(HASH_ST_BOUND));
    // Entries move only downwards, into the places of deleted ones: they are kept in insertion
    // order.
    if bound - start < MANY_REFERENCES / 2 || !tracer.trace_later(bound) {
        trace_entries(object, start, bound, tracer);
    }
}

/// Marks the entries of a large hash from `start` to `end`.
#[inline(always)]
fn trace_entries(object: Object, start: usize, end: usize, tracer: &mut impl Trace) {
    /// `struct st_table_entry` of st.c: hash, key, record.
    type Entry = [usize; 3];
    /// The hash of a deleted entry.
    const DELETED: usize = usize::MAX;
    let entries = object.word(HASH_ST_ENTRIES) as *const Entry;
    for index in start..end {
        // SAFETY: the caller passes entries below the bound, which exist.
        let [hash, key, record] = unsafe { entries.add(index).read() };
        if hash != DELETED {
            mark_value(tracer, key);
            mark_value(tracer, record);
        }
    }
}

/// Marks some of the entries of a large hash below `end`, or below its bound if that is lower
/// by now. Returns where the unmarked entries end, 0 when none is left. The entries of a hash
/// that has become small come from elsewhere, and the write barrier was called for them.
fn trace_entries_below(object: Object, end: usize, tracer: &mut impl Trace) -> usize {
    const ENTRIES_AT_ONCE: usize = 32;
    if object.kind() != T_HASH || !object.has(RHASH_ST_TABLE_FLAG) {
        return 0;
    }
    let start = object.word(HASH_ST_START);
    let end = end.min(object.word(HASH_ST_BOUND));
    let middle = end.saturating_sub(ENTRIES_AT_ONCE).max(start);
    if middle >= end {
        return 0;
    }
    trace_entries(object, middle, end, tracer);
    if middle > start {
        middle
    } else {
        0
    }
}

/// The address of the payload, or other memory, where a live object keeps most of what it has
/// outside its cell; 0 for none.
pub(crate) fn owned_by(object: Object) -> usize {
    match object.kind() {
        T_STRING if object.has(STR_NOEMBED) => object.word(STR_PTR),
        T_ARRAY if !object.has(RARRAY_EMBED_FLAG) => object.word(ARRAY_PTR),
        T_OBJECT if !object.keeps_variables() => object.word(OBJECT_PTR),
        T_HASH if object.has(RHASH_ST_TABLE_FLAG) => object.word(HASH_ST_ENTRIES),
        T_STRUCT if !object.has(RSTRUCT_EMBED_LEN_MASK) => object.word(STRUCT_PTR),
        T_DATA => object.word(DATA_PTR),
        _ => 0,
    }
}

/// What must be done to free an object.
pub(crate) enum Freeing {
    /// Nothing: it owns nothing.
    Nothing,
    /// Freeing the one payload at this address.
    Payload(usize),
    /// Ruby knows how to free it.
    ByRuby,
}

/// Returns what must be done to free a dead object, as its header says.
#[inline(always)]
pub(crate) fn freeing(object: Object) -> Freeing {
    if object.has(version::FREED_BY_RUBY) || object.has_generic_variables() {
        return Freeing::ByRuby;
    }
    match object.kind() {
        T_STRING if object.has(STR_FSTR) => Freeing::ByRuby,
        T_STRING if !object.has(STR_NOEMBED) || object.has(ELTS_SHARED | STR_NOFREE) => {
            Freeing::Nothing
        }
        T_STRING => Freeing::Payload(object.word(STR_PTR)),
        T_ARRAY if object.has(RARRAY_EMBED_FLAG | ELTS_SHARED) => Freeing::Nothing,
        T_ARRAY => Freeing::Payload(object.word(ARRAY_PTR)),
        T_OBJECT if object.is_too_complex() || object.has_id_of_ruby() => Freeing::ByRuby,
        T_OBJECT if object.keeps_variables() => Freeing::Nothing,
        T_OBJECT => Freeing::Payload(object.word(OBJECT_PTR)),
        T_HASH if !object.has(RHASH_ST_TABLE_FLAG) => Freeing::Nothing,
        T_STRUCT if object.has(RSTRUCT_EMBED_LEN_MASK) => Freeing::Nothing,
        T_STRUCT => Freeing::Payload(object.word(STRUCT_PTR)),
        T_FLOAT | T_RATIONAL | T_COMPLEX => Freeing::Nothing,
        T_BIGNUM if object.has(BIGNUM_EMBED) => Freeing::Nothing,
        T_IMEMO => match object.internal_kind() {
            IMEMO_CALLCACHE if object.has(version::LISTED_CALL_CACHE) => Freeing::ByRuby,
            IMEMO_CREF | IMEMO_SVAR | IMEMO_THROW_DATA | IMEMO_IFUNC | IMEMO_MEMO
            | IMEMO_CALLCACHE | IMEMO_CONSTCACHE => Freeing::Nothing,
            _ => match version::owned_by_internal(object) {
                Some(0) => Freeing::Nothing,
                Some(address) => Freeing::Payload(address),
                None => Freeing::ByRuby,
            },
        },
        _ => Freeing::ByRuby,
    }
}

/// Says which flags a dead object has that owns nothing: `flags & mask == value`.
#[derive(Clone, Copy)]
struct OwnsNothing {
    mask: Rule,
    value: Rule,
}

impl OwnsNothing {
    /// Holds for no object.
    const NEVER: Self = Self { mask: 0, value: 1 };

    const fn new(mask: usize, value: usize) -> Self {
        Self {
            mask: (mask | version::FREED_BY_RUBY | version::OTHERS_FREED_BY_RUBY) as Rule,
            value: value as Rule,
        }
    }

    const fn plain_object() -> Self {
        let [mask, value] = version::PLAIN_OBJECT_OWNS_NOTHING;
        Self {
            mask: (mask | version::FREED_BY_RUBY) as Rule,
            value: value as Rule,
        }
    }
}

const _: () = assert!(SHAPE_SHIFT == 32, "a shape is read by itself");

/// The rules by type, for those objects that [`freeing`] sees most; it knows more cases. The
/// rules need no branch, because dead objects come in any order.
type OwnNothing = [OwnsNothing; T_MASK + 1];

static OWN_NOTHING: OwnNothing = {
    let mut rules = [OwnsNothing::NEVER; T_MASK + 1];
    rules[T_STRING] = OwnsNothing::new(STR_FSTR | STR_NOEMBED, 0);
    rules[T_ARRAY] = OwnsNothing::new(RARRAY_EMBED_FLAG, RARRAY_EMBED_FLAG);
    rules[T_OBJECT] = OwnsNothing::plain_object();
    rules[T_HASH] = OwnsNothing::new(RHASH_ST_TABLE_FLAG, 0);
    rules[T_BIGNUM] = OwnsNothing::new(BIGNUM_EMBED, BIGNUM_EMBED);
    rules[T_FLOAT] = OwnsNothing::new(0, 0);
    rules[T_RATIONAL] = OwnsNothing::new(0, 0);
    rules[T_COMPLEX] = OwnsNothing::new(0, 0);
    rules
};

/// The rules while somebody wants to hear of every object that is freed.
static OWN_SOMETHING: OwnNothing = [OwnsNothing::NEVER; T_MASK + 1];

/// Whether the rule of its type says that a dead object owns nothing.
#[inline(always)]
fn owns_nothing(object: Object, rules: &OwnNothing) -> bool {
    let OwnsNothing { mask, value } = rules[object.kind()];
    object.flags as Rule & mask == value && !object.is_dead_and_too_complex()
}

impl Ruby {
    #[cold]
    #[inline(never)]
    fn free_by_ruby(&self, object: Object) {
        let address = object.address;
        // SAFETY: the object is dead and has not been freed; Ruby's functions free what it
        // owns. Flags are removed first where the collector itself does what they stand for.
        unsafe {
            if self.traces_frees.get() {
                (self.calls.event_hook)(address, self.events.free_object);
            }
            (self.calls.free_weak_references)(address);
            let flags = address as *mut usize;
            let had = flags.read();
            // Nothing is written unless it must be: a forked child may share the page.
            if had & (FL_FINALIZE | FL_SEEN_OBJ_ID) != 0 {
                flags.write(had & !(FL_FINALIZE | FL_SEEN_OBJ_ID));
            }
            (self.calls.free_object)(statics::objspace(), address);
            if had & FL_FINALIZE != 0 {
                self.queue_finalizers(address);
            }
            // Its finalizers get an id even if nobody has asked for one.
            if had & (FL_SEEN_OBJ_ID | FL_FINALIZE) != 0 {
                self.object_ids.borrow_mut().forget(address);
            }
        }
    }

    /// Learns addresses that Ruby does not export from an object that Ruby has just traced, so
    /// that more objects are traced here.
    #[inline(always)]
    fn learn_from(&self, object: Object) {
        if object.kind() == T_IMEMO && !self.empty_call_cache.get().is_known() {
            self.empty_call_cache
                .set(EmptyCallCache::learnt_from(object));
        } else if object.kind() == T_DATA {
            if !self.proc_type.get().is_known() {
                // SAFETY: reads a variable of Ruby's.
                let proc_class = unsafe { (self.calls.proc_class)() };
                self.proc_type.set(DataType::of_procs(object, proc_class));
            }
            if object.class() == 0 && !self.call_caches_type.get().is_known() {
                self.call_caches_type
                    .set(DataType::named(object, c"VM/cc_table"));
            }
        }
    }

    /// Queues the finalizers of a dead object, to run outside the collection.
    pub(crate) fn queue_finalizers(&self, object: Value) {
        let id = self.object_ids.borrow_mut().last_id_of(object);
        if self.finalizers.borrow_mut().queue(object, id) {
            self.trigger_jobs();
        }
    }

    /// Queues the finalizers of objects that have died after Ruby moved their content to another
    /// Ractor. Ruby 4.0 then takes their flag away, and sweeping would pass over them.
    fn queue_finalizers_of_moved(&self, end: &MarkingEnd<'_>) {
        if cfg!(not(ruby = "4.0")) || !self.has_had_ractors() {
            return;
        }
        let is_lost = |address: Value| {
            // SAFETY: the object lived when the heap was last swept, so there is a cell.
            let cell = unsafe { cell(address) };
            // The state first: states lie close together, and most objects live.
            // SAFETY: as above, so the cell has its flags.
            end.is_dead(cell) && unsafe { (address as *const usize).read() } & FL_FINALIZE == 0
        };
        let id_of = |address| self.object_ids.borrow_mut().last_id_of(address);
        if self.finalizers.borrow_mut().queue_lost(is_lost, id_of) {
            self.trigger_jobs();
        }
    }

    /// Whether there are several Ractors, or have been. A forked child has one, and what its parent's
    /// Ractors have left.
    pub(crate) fn has_had_ractors(&self) -> bool {
        // SAFETY: may be called at any time.
        let has_now = unsafe { (self.calls.multi_ractor)() };
        let has_had = has_now || self.had_ractors.get();
        self.had_ractors.set(has_had);
        has_had
    }

    /// Makes Ruby run the queued jobs as soon as it can.
    pub(crate) fn trigger_jobs(&self) {
        // SAFETY: may be called anywhere.
        unsafe { (self.calls.trigger_finalizers)() };
    }
}

// SAFETY: Ruby marks objects of its object space, and all that it will go on using; when the
// heap may collect, the VM lock is held and the other Ractors are stopped (`lock.rs`); and
// Ruby makes no objects inside a collection.
unsafe impl Vm for Ruby {
    fn trace_roots(&self, tracer: &mut Tracer<'_>) {
        current_tracer::lend(tracer, || {
            // SAFETY: the collecting thread holds Ruby's lock and has saved its
            // registers.
            unsafe { (self.calls.mark_roots)(statics::objspace(), null_mut()) };
        });
        let finalizers = self.finalizers.borrow();
        finalizers.each_value(|value| mark_value(tracer, value));
    }

    unsafe fn trace_cell(&self, cell: Cell, tracer: &mut Tracer<'_>) {
        if Object::new(cell).is_unfinished_code() {
            tracer.note_changing(cell);
        }
        current_tracer::lend(tracer, || {
            // SAFETY: the cell is a live object.
            unsafe { (self.calls.mark_children)(statics::objspace(), cell.address()) };
        });
        self.learn_from(Object::new(cell));
    }

    /// The bytes of code, estimated by the number of loaded files.
    fn lasting_bytes(&self) -> usize {
        /// What the code of a file takes with its classes and literals. A Rails application
        /// has 42 KiB per file, and Ruby's own library has 44 KiB (docs/design/loading-code.md).
        const FILE_BYTES: usize = 44 << 10;
        // SAFETY: both are called with the VM lock; the second one by the main Ractor.
        unsafe {
            if !(self.calls.multi_ractor)() {
                self.loaded_files.set((self.calls.loaded_files)());
            }
        }
        self.loaded_files.get() * FILE_BYTES
    }

    #[inline(always)]
    fn common(&self) -> impl TraceCommon {
        Common {
            shape_by_id: self.calls.shape_by_id,
            empty_call_cache: self.empty_call_cache.get(),
            proc_type: self.proc_type.get(),
            call_caches_type: self.call_caches_type.get(),
        }
    }

    fn marking_done(&self, end: &mut MarkingEnd<'_>) {
        // SAFETY: a dead weak reference is overwritten in place, as Ruby wants.
        let counts = end.clear_weak_references(|reference| unsafe { reference.write(UNDEFINED) });
        self.weak.set(counts);
        self.queue_finalizers_of_moved(end);
        if KNOBS.has_heap_profile.is_on() {
            samples::marked(end);
        }
        // SAFETY: marking is over.
        unsafe { (self.calls.finish_marking)() };
    }

    fn moving(&self) -> Option<&impl Moving> {
        Some(self)
    }

    fn inspection(&self) -> Option<&impl Inspection> {
        Some(self)
    }

    #[inline(always)]
    unsafe fn owns_nothing(&self) -> impl Fn(Cell) -> bool {
        let rules = match self.traces_frees.get() {
            false => &OWN_NOTHING,
            true => &OWN_SOMETHING,
        };
        |cell| owns_nothing(Object::new(cell), rules)
    }

    /// Not inlined: otherwise sweeping would lose registers to code that few dead objects
    /// need.
    #[inline(never)]
    unsafe fn release(&self, cell: Cell, _width: WidthIndex) {
        let object = Object::new(cell);
        if self.traces_frees.get() {
            return self.free_by_ruby(object);
        }
        match freeing(object) {
            Freeing::Nothing => {}
            Freeing::Payload(address) => {
                if let Some(payload) = NonNull::new(address as *mut u8) {
                    // SAFETY: the dead object owned the payload alone.
                    unsafe { xfree::free_swept(payload) };
                }
            }
            Freeing::ByRuby => self.free_by_ruby(object),
        }
    }
}

// SAFETY: what Ruby's functions and `compaction.rs` cannot rewrite is pinned.
unsafe impl Moving for Ruby {
    const FORWARDED_HEADER: usize = T_MOVED;

    fn compaction_begins(&self) {
        self.move_counts.reset();
    }

    unsafe fn wanted_width(&self, cell: Cell, width: WidthIndex) -> Option<WidthIndex> {
        self.suitable_width(cell, width)
    }

    unsafe fn moved(&self, from: Cell, to: Cell, width: WidthIndex, new_width: WidthIndex) -> bool {
        self.object_moved(from, to, width, new_width)
    }

    fn updating_begins(&self) {
        // SAFETY: the lock is held and the other Ractors are stopped.
        unsafe { (self.calls.begin_updating)() };
    }

    unsafe fn update_cell(&self, cell: Cell, _width: WidthIndex, now: Forwarding<'_>) {
        self.update_object(cell, now);
    }

    fn update_roots(&self, now: Forwarding<'_>) {
        self.update_tables(now);
    }
}

// SAFETY: as for the VM.
unsafe impl Inspection for Ruby {
    fn visit_roots(&self, visit: &mut dyn FnMut(Root)) {
        // SAFETY: the lock is held and no collection runs; what Ruby refers to is in this heap.
        unsafe {
            self.calls.each_root(|_, value| {
                if is_object(value) {
                    visit(Root::Exact(cell(value)));
                }
            });
        }
    }

    unsafe fn visit_cell(&self, holder: Cell, visit: &mut dyn FnMut(Cell)) {
        // SAFETY: the lock is held and no collection runs; what an object refers to is an object of
        // this heap.
        unsafe {
            self.calls.each_reference(holder.address(), |value| {
                if is_object(value) {
                    let shown = Object::new(cell(value));
                    visit(cell(version::kept_by(Object::new(holder), shown)));
                }
            });
        }
    }

    unsafe fn marks_besides(&self, holder: Cell, child: Cell) -> bool {
        version::marks_besides(Object::new(holder), Object::new(child))
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;

    /// Every setting of the flags that freeing looks at (bits 5 to 15, 29 and 30), for every
    /// type and some shapes.
    #[test]
    fn an_object_owns_nothing_only_if_freeing_it_takes_nothing() {
        let mut agreed = 0;
        for kind in 0..=T_MASK {
            for bits in 0..1 << 13 {
                for shape in iter::once(0).chain(version::TRIED_SHAPES) {
                    let looked_at = (bits & 0x7ff) << 5 | bits >> 11 << 29;
                    let flags = kind | looked_at | shape << SHAPE_SHIFT;
                    let words = [flags, 0, 0, 0, 0, 0, 0, 0];
                    let object = Object {
                        address: words.as_ptr() as usize,
                        flags,
                    };
                    if owns_nothing(object, &OWN_NOTHING) {
                        agreed += 1;
                        assert!(matches!(freeing(object), Freeing::Nothing), "{flags:#x}");
                    }
                    assert!(!owns_nothing(object, &OWN_SOMETHING));
                }
            }
        }
        assert!(agreed > 0);
    }
}
