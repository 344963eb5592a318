//! What the collector knows of objects in Ruby 4.0 that is different in another version.

use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering::Relaxed};

use ashlar_heap::Trace;

use super::classes::{trace_call_caches, trace_constants, trace_methods};
use super::object::{mark_value, mark_values, variables, Object, ShapeById, UNDEFINED};
use super::record::Record;
use crate::layout::*;
use crate::ruby_calls::Value;

/// Bits of the shape in the flags that are set when the object has variables or an id.
const FIELDS: usize = (SHAPE_OFFSET_MASK | SHAPE_TOO_COMPLEX) << SHAPE_SHIFT;
const TOO_COMPLEX: usize = SHAPE_TOO_COMPLEX << SHAPE_SHIFT;
const HAS_ID: usize = SHAPE_HAS_OBJECT_ID << SHAPE_SHIFT;

/// The type of the flags that the rules of [`super::OWN_NOTHING`] test: all.
pub(super) type Rule = usize;

/// The type of Ruby's counts of variables.
pub(super) type Count = u16;
pub(super) type AtomicCount = AtomicU16;
/// Whether an object without variables may also be one without a class.
pub(super) const MAY_LACK_CLASS: bool = true;

/// Flags of a dead object, of any type, that the collector cannot free by itself.
pub(super) const FREED_BY_RUBY: usize = FL_FINALIZE;
/// Further such flags, of types other than plain objects.
pub(super) const OTHERS_FREED_BY_RUBY: usize = FIELDS;
/// Flags of a dead call cache that Ruby has in a table of its own: it writes into all that are there
/// (`invalidate_cc_refinement`).
pub(super) const LISTED_CALL_CACHE: usize = CALL_CACHE_OF_REFINEMENT;
/// `[mask, value]`: a dead plain object whose flags in `mask` equal `value` owns nothing.
pub(super) const PLAIN_OBJECT_OWNS_NOTHING: [usize; 2] = [ROBJECT_HEAP | TOO_COMPLEX | HAS_ID, 0];

/// A bit per type number: types with fields of their own, which the shape describes.
const HAVE_FIELDS: u32 = 1 << T_OBJECT | 1 << T_CLASS | 1 << T_MODULE | 1 << T_IMEMO;

impl Object {
    /// Whether Ruby's table of generic variables may have some of this object's variables.
    #[inline(always)]
    pub(crate) fn has_generic_variables(self) -> bool {
        self.has(FIELDS) && HAVE_FIELDS >> self.kind() & 1 == 0
    }

    /// Whether a plain object's variables are in its cell; also for the object that has the
    /// variables of another object.
    #[inline(always)]
    pub(crate) fn keeps_variables(self) -> bool {
        !self.has(ROBJECT_HEAP)
    }

    /// Whether the object's variables are in a hash of their own.
    #[inline(always)]
    pub(crate) fn is_too_complex(self) -> bool {
        self.has(TOO_COMPLEX)
    }

    /// [`Object::is_too_complex`] for a dead object, where no rule of [`super::OWN_NOTHING`] has
    /// tested it: here every rule has.
    #[inline(always)]
    pub(super) fn is_dead_and_too_complex(self) -> bool {
        false
    }

    /// Whether a dead plain object may be in Ruby's own table of ids.
    #[inline(always)]
    pub(super) fn has_id_of_ruby(self) -> bool {
        self.has(HAS_ID)
    }

    /// The type of a `T_DATA` object, and the address of its contents; `None` for data without a
    /// type.
    #[inline(always)]
    pub(crate) fn typed_data(self) -> Option<[usize; 2]> {
        self.has(DATA_IS_TYPED).then(|| {
            let data_type = self.word(DATA_TYPE);
            let contents = self.contents(data_type & DATA_EMBEDDED_FLAG != 0);
            [data_type & !DATA_EMBEDDED_FLAG, contents]
        })
    }

    /// The bytes of the cell of a struct with this many members in it. Behind them is the reference
    /// to its variables, unless those are in Ruby's table.
    pub(crate) fn struct_bytes(self, members: usize) -> usize {
        let fields = usize::from(!self.has(STRUCT_GENERIC_FIELDS));
        STRUCT_EMBEDDED + 8 * (members + fields)
    }
}

/// The bytes of the cell for a plain object that asks for `size_bytes`; `None` when its variables
/// must be elsewhere. A shape has room for few widths.
pub(crate) fn plain_object_bytes(size_bytes: usize) -> Option<usize> {
    OBJECT_WIDTHS
        .iter()
        .copied()
        .find(|&width_bytes| width_bytes >= size_bytes)
}

/// Traces what a class, a module or an include class has besides its own class; false when Ruby has
/// to, for a class with tables for boxes. Marking changes no class, so any thread can do this.
#[inline(never)]
pub(super) fn trace_class(_shape_by_id: ShapeById, class: Object, tracer: &mut impl Trace) -> bool {
    let has_boxes = class.has(CLASS_BOXABLE) && class.word(CLASS_BOX_TABLES) != 0;
    let is_of_box = class
        .record(CLASS_BOX)
        .is_some_and(|of| of.half(BOX_IS_USER) & 0xff != 0);
    if has_boxes || is_of_box {
        return false;
    }
    let mut mark = |offset| mark_value(tracer, class.word(offset));
    mark(CLASS_SUPER);
    mark(CLASS_CALL_CACHES);
    if class.kind() == T_ICLASS {
        mark(CLASS_INCLUDER);
        let is_origin = class.half(ICLASS_IS_ORIGIN_AT) & ICLASS_IS_ORIGIN_MASK != 0;
        let shares = class.half(ICLASS_SHARES_METHODS_AT) & ICLASS_SHARES_METHODS_MASK != 0;
        if is_origin && !shares {
            trace_methods(class.record(CLASS_METHODS), tracer);
        }
        trace_methods(class.record(CLASS_CALLABLE_METHODS), tracer);
        return true;
    }
    if class.kind() == T_CLASS && class.has(FL_SINGLETON) {
        mark(CLASS_ATTACHED);
    }
    [CLASS_PATH, CLASS_FIELDS, CLASS_VARIABLE_CACHES]
        .into_iter()
        .for_each(mark);
    trace_methods(class.record(CLASS_METHODS), tracer);
    trace_methods(class.record(CLASS_CALLABLE_METHODS), tracer);
    if class.half(CLASS_SHARES_CONSTANTS_AT) & CLASS_SHARES_CONSTANTS_MASK == 0 {
        trace_constants(class.record(CLASS_CONSTANTS), tracer);
    }
    true
}

/// The entries of a list of call caches, which are in the list itself.
#[inline(always)]
pub(super) fn call_cache_entries(caches: Record) -> impl Iterator<Item = Record> {
    let count = caches.count(CALL_CACHES_COUNT);
    (0..count).map(move |index| caches.part(CALL_CACHES_ENTRIES + index * CALL_CACHES_ENTRY_BYTES))
}

/// Traces a table of call caches that is an object; false when Ruby has to.
///
/// Only one thread at a time may do so: Ruby, which may trace other tables meanwhile, changes them.
#[inline(always)]
pub(super) fn trace_table_of_call_caches(table: Record, tracer: &mut impl Trace) -> bool {
    !tracer.is_shared() && trace_call_caches(Some(table), tracer)
}

/// Traces an internal object of a kind that only this version has, or that other versions trace
/// otherwise; false when Ruby has to.
#[inline(always)]
pub(super) fn trace_internal(
    shape_by_id: ShapeById,
    object: Object,
    tracer: &mut impl Trace,
) -> bool {
    match object.internal_kind() {
        IMEMO_FIELDS if !object.is_too_complex() => {
            mark_value(tracer, object.word(KLASS));
            mark_values(tracer, variables(object, shape_by_id));
        }
        IMEMO_CVAR_ENTRY => {
            mark_value(tracer, object.word(CVAR_CLASS));
            mark_value(tracer, object.word(CVAR_CREF));
        }
        // Ruby holds the class weakly, and there are as many caches as call sites. The caches are
        // in the class's own table; whatever else refers to one is running, so the class lives
        // anyway.
        IMEMO_CALLCACHE => trace_call_cache(object, tracer),
        _ => return false,
    }
    true
}

#[inline(always)]
fn trace_call_cache(cache: Object, tracer: &mut impl Trace) {
    // Ruby may invalidate the cache at this moment, on the thread that collects.
    // SAFETY: a live object's aligned word.
    let class = unsafe { &*((cache.address() + CALL_CACHE_CLASS) as *const AtomicUsize) };
    let class = class.load(Relaxed);
    // The method of a cache without a class is not valid any more.
    if class == UNDEFINED {
        return;
    }
    mark_value(tracer, class);
    if cache.has(CALL_CACHE_OWNS) {
        mark_value(tracer, cache.word(CALL_CACHE_METHOD));
    }
}

/// Returns the address of what a dead internal object of such a kind owns, 0 for nothing; `None`
/// when Ruby has to free the object.
#[inline(always)]
pub(super) fn owned_by_internal(object: Object) -> Option<usize> {
    match object.internal_kind() {
        IMEMO_CVAR_ENTRY => Some(0),
        IMEMO_FIELDS if object.has(TOO_COMPLEX | HAS_ID) => None,
        IMEMO_FIELDS if object.keeps_variables() => Some(0),
        IMEMO_FIELDS => Some(object.word(OBJECT_PTR)),
        _ => None,
    }
}

/// Traces what the code that found a class variable remembers of it: an object. The class has it in its
/// table, until there is a second Ractor: then each new variable of the class takes a new table,
/// which has that one alone (`rb_cvar_set`).
#[inline(always)]
pub(super) fn trace_cached_variable(variable: Record, tracer: &mut impl Trace) {
    mark_value(tracer, variable.address());
    mark_value(tracer, variable.word(CVAR_CLASS));
}

/// The object that `holder` keeps alive by its reference to `shown`, which Ruby reports. For an
/// inline cache of a class variable, that is the class, in whose table the entry is: when Ruby
/// stores the entry, it calls the write barrier for the class alone (`update_classvariable_cache`).
pub(super) fn kept_by(holder: Object, shown: Object) -> Value {
    let is_code = holder.kind() == T_IMEMO && holder.internal_kind() == IMEMO_ISEQ;
    let is_entry = shown.kind() == T_IMEMO && shown.internal_kind() == IMEMO_CVAR_ENTRY;
    if is_code && is_entry {
        shown.word(CVAR_CLASS)
    } else {
        shown.address()
    }
}

/// Whether tracing here marks `child`, of which Ruby does not tell: the class of a call cache, which
/// Ruby holds weakly, and the entry in place of which [`kept_by`] shows a class.
pub(super) fn marks_besides(holder: Object, child: Object) -> bool {
    if holder.kind() != T_IMEMO {
        return false;
    }
    match holder.internal_kind() {
        IMEMO_CALLCACHE => child.address() == holder.word(CALL_CACHE_CLASS),
        IMEMO_ISEQ => child.kind() == T_IMEMO && child.internal_kind() == IMEMO_CVAR_ENTRY,
        _ => false,
    }
}

/// Whether compiled code has trace points attached that only Ruby marks: here they are not among
/// its references.
#[inline(always)]
pub(super) fn has_local_hooks(_iseq: Object) -> bool {
    false
}

/// Whether a method that is a block has trace points attached that only Ruby marks.
#[inline(always)]
pub(super) fn has_method_hooks(_definition: Record) -> bool {
    false
}

/// Whether a frame has references that only Ruby finds: the frame of a file or of a class's body
/// has a reference to its box.
#[inline(always)]
pub(super) fn is_frame_of_ruby(frame_flags: usize) -> bool {
    let kind = frame_flags & FRAME_KIND_MASK;
    frame_flags & FRAME_LOCAL != 0 && (kind == FRAME_OF_CLASS || kind == FRAME_OF_FILE)
}

/// Marks what a `T_DATA` object has besides its contents and its class.
#[inline(always)]
pub(super) fn mark_fields_of_data(data: Object, tracer: &mut impl Trace) {
    mark_value(tracer, data.word(DATA_FIELDS));
}

/// Marks what a symbol refers to.
#[inline(always)]
pub(super) fn trace_symbol(symbol: Object, tracer: &mut impl Trace) {
    mark_value(tracer, symbol.word(SYMBOL_STRING));
    mark_value(tracer, symbol.word(KLASS));
}

/// The shapes besides 0 that the test of what dead objects own tries.
#[cfg(test)]
pub(super) const TRIED_SHAPES: [usize; 3] = [1, SHAPE_TOO_COMPLEX, SHAPE_HAS_OBJECT_ID];
