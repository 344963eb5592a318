//! What the collector knows of objects in Ruby 3.4 that is different in another version.

use std::sync::atomic::AtomicU32;

use ashlar_heap::Trace;

use super::classes::{each_in, trace_call_caches, trace_constants, trace_methods};
use super::object::{mark_value, variable_count, Object, ShapeById};
use super::record::Record;
use crate::layout::*;
use crate::ruby_calls::Value;

/// The type of the flags that the rules of [`super::OWN_NOTHING`] test: those below the shape.
pub(super) type Rule = u32;

/// The type of Ruby's counts of variables.
pub(super) type Count = u32;
pub(super) type AtomicCount = AtomicU32;
/// Whether an object without variables may also be one without a class.
pub(super) const MAY_LACK_CLASS: bool = false;

/// Flags of a dead object, of any type, that the collector cannot free by itself.
pub(super) const FREED_BY_RUBY: usize = FL_FINALIZE | FL_SEEN_OBJ_ID | FL_EXIVAR;
/// Further such flags, of types other than plain objects.
pub(super) const OTHERS_FREED_BY_RUBY: usize = 0;
/// Flags of a dead call cache that Ruby has in a table of its own.
pub(super) const LISTED_CALL_CACHE: usize = 0;
/// `[mask, value]`: a dead plain object whose flags in `mask` equal `value` owns nothing.
pub(super) const PLAIN_OBJECT_OWNS_NOTHING: [usize; 2] = [ROBJECT_EMBED, ROBJECT_EMBED];

impl Object {
    /// Whether Ruby's table of generic variables has some of this object's variables.
    #[inline(always)]
    pub(crate) fn has_generic_variables(self) -> bool {
        self.has(FL_EXIVAR)
    }

    /// Whether a plain object's variables are in its cell.
    #[inline(always)]
    pub(crate) fn keeps_variables(self) -> bool {
        self.has(ROBJECT_EMBED)
    }

    /// Whether the object's variables are in a hash of their own.
    #[inline(always)]
    pub(crate) fn is_too_complex(self) -> bool {
        self.shape() == TOO_COMPLEX_SHAPE
    }

    /// [`Object::is_too_complex`] for a dead object, where no rule of [`super::OWN_NOTHING`] has
    /// tested it.
    #[inline(always)]
    pub(super) fn is_dead_and_too_complex(self) -> bool {
        self.half(SHAPE_SHIFT / 8) == TOO_COMPLEX_SHAPE as u32
    }

    /// Whether a dead plain object may be in Ruby's own table of ids.
    #[inline(always)]
    pub(super) fn has_id_of_ruby(self) -> bool {
        false
    }

    /// The type of a `T_DATA` object, and the address of its contents; `None` for data without a
    /// type.
    #[inline(always)]
    pub(crate) fn typed_data(self) -> Option<[usize; 2]> {
        let typed = self.word(DATA_TYPED);
        (1..=DATA_TYPED_FLAG_MAX).contains(&typed).then(|| {
            let contents = self.contents(typed & DATA_EMBEDDED_FLAG != 0);
            [self.word(DATA_TYPE), contents]
        })
    }

    /// The bytes of the cell of a struct with this many members in it.
    pub(crate) fn struct_bytes(self, members: usize) -> usize {
        STRUCT_EMBEDDED + 8 * members
    }
}

/// The bytes of the cell for a plain object that asks for `size_bytes`; `None` when its variables
/// must be elsewhere.
pub(crate) fn plain_object_bytes(size_bytes: usize) -> Option<usize> {
    Some(size_bytes)
}

/// Traces what a class, a module or an include class has besides its own class; false when Ruby
/// has to.
///
/// Only one thread at a time may do so: Ruby, which may trace other classes meanwhile, changes
/// their tables.
#[inline(never)]
pub(super) fn trace_class(shape_by_id: ShapeById, class: Object, tracer: &mut impl Trace) -> bool {
    let is_inclusion = class.kind() == T_ICLASS;
    if tracer.is_shared()
        || !is_inclusion && class.is_too_complex()
        || !trace_call_caches(class.record(CLASS_CALL_CACHES), tracer)
    {
        return false;
    }
    let mut mark = |offset| mark_value(tracer, class.word(offset));
    mark(CLASS_SUPER);
    if is_inclusion {
        mark(CLASS_INCLUDER);
        if class.flags() & ICLASS_METHODS_MASK == ICLASS_OWNS_METHODS {
            trace_methods(class.record(CLASS_METHODS), tracer);
        }
        trace_methods(class.record(CLASS_CALLABLE_METHODS), tracer);
        return true;
    }
    if class.kind() == T_CLASS && class.has(FL_SINGLETON) {
        mark(CLASS_ATTACHED);
    }
    mark(CLASS_PATH);
    trace_methods(class.record(CLASS_METHODS), tracer);
    each_in(class.record(CLASS_VARIABLE_CACHES), |value| {
        if let Some(cache) = Record::at(value) {
            mark_value(tracer, cache.word(CVAR_CREF));
        }
    });
    if let Some(values) = class.record(CLASS_VARIABLES) {
        for index in 0..variable_count(class, shape_by_id) {
            mark_value(tracer, values.word(8 * index));
        }
    }
    trace_constants(class.record(CLASS_CONSTANTS), tracer);
    true
}

/// The entries of a list of call caches.
#[inline(always)]
pub(super) fn call_cache_entries(caches: Record) -> impl Iterator<Item = Record> {
    let count = caches.count(CALL_CACHES_COUNT);
    caches.each(CALL_CACHES_ENTRIES, count, CALL_CACHES_ENTRY_BYTES)
}

/// Traces a table of call caches that is an object; false when Ruby has to. In this version the
/// call caches are in the classes themselves.
#[inline(always)]
pub(super) fn trace_table_of_call_caches(_table: Record, _tracer: &mut impl Trace) -> bool {
    false
}

/// Traces an internal object of a kind that only this version has, or that other versions trace
/// otherwise; false when Ruby has to.
#[inline(always)]
pub(super) fn trace_internal(
    _shape_by_id: ShapeById,
    object: Object,
    tracer: &mut impl Trace,
) -> bool {
    match object.internal_kind() {
        // All other caches are in the table of their class, which knows their methods and
        // invalidates them: such a cache keeps neither its class nor its method alive.
        IMEMO_CALLCACHE if object.has(CALL_CACHE_OWNS) => {
            mark_value(tracer, object.word(CALL_CACHE_METHOD));
            mark_value(tracer, object.word(CALL_CACHE_CLASS));
        }
        IMEMO_CALLCACHE => {}
        _ => return false,
    }
    true
}

/// Returns the address of what a dead internal object of such a kind owns, 0 for nothing; `None`
/// when Ruby has to free the object.
#[inline(always)]
pub(super) fn owned_by_internal(_object: Object) -> Option<usize> {
    None
}

/// Traces what the code that found a class variable remembers of it. The class has it in its table.
#[inline(always)]
pub(super) fn trace_cached_variable(variable: Record, tracer: &mut impl Trace) {
    mark_value(tracer, variable.word(CVAR_CLASS));
}

/// The object that `holder` keeps alive by its reference to `shown`, which Ruby reports.
pub(super) fn kept_by(_holder: Object, shown: Object) -> Value {
    shown.address()
}

/// Whether tracing here marks `child`, of which Ruby does not tell.
pub(super) fn marks_besides(_holder: Object, _child: Object) -> bool {
    false
}

/// Whether compiled code has trace points attached, which only Ruby marks.
#[inline(always)]
pub(super) fn has_local_hooks(iseq: Object) -> bool {
    iseq.word(ISEQ_LOCAL_HOOKS) != 0
}

/// Whether a method that is a block has trace points attached, which only Ruby marks.
#[inline(always)]
pub(super) fn has_method_hooks(definition: Record) -> bool {
    definition.word(DEFINITION_HOOKS) != 0
}

/// Whether a frame has references that only Ruby finds.
#[inline(always)]
pub(super) fn is_frame_of_ruby(_frame_flags: usize) -> bool {
    false
}

/// Marks what a `T_DATA` object has besides its contents and its class.
#[inline(always)]
pub(super) fn mark_fields_of_data(_data: Object, _tracer: &mut impl Trace) {}

/// Marks what a symbol refers to.
#[inline(always)]
pub(super) fn trace_symbol(_symbol: Object, _tracer: &mut impl Trace) {}

/// The shapes besides 0 that the test of what dead objects own tries.
#[cfg(test)]
pub(super) const TRIED_SHAPES: [usize; 2] = [TOO_COMPLEX_SHAPE, TOO_COMPLEX_SHAPE + 1];
