//! Traces classes, modules and what stands for an included module.

use ashlar_heap::Trace;

use super::record::Record;
use super::{mark_value, Object};
use crate::layout::*;

/// Traces what a class has beside its own class; `variables` is how many variables the
/// class itself has. False when Ruby has to, to take out of the class's call caches what
/// is not valid any more.
///
/// One thread at a time: Ruby changes the tables of classes that it traces.
#[inline(never)]
pub(super) fn trace_class(class: Object, variables: usize, tracer: &mut impl Trace) -> bool {
    if !call_caches_are_valid(class) {
        return false;
    }
    trace_call_caches(class, tracer);
    let mut mark = |offset| mark_value(tracer, class.word(offset));
    mark(CLASS_SUPER);
    if class.kind() == T_ICLASS {
        mark(CLASS_INCLUDER);
        if class.flags() & ICLASS_METHODS_MASK == ICLASS_OWNS_METHODS {
            trace_methods(class, CLASS_METHODS, tracer);
        }
        trace_methods(class, CLASS_CALLABLE_METHODS, tracer);
        return true;
    }
    if class.kind() == T_CLASS && class.has(FL_SINGLETON) {
        mark(CLASS_ATTACHED);
    }
    mark(CLASS_PATH);
    trace_methods(class, CLASS_METHODS, tracer);
    each_in_table(class, CLASS_VARIABLE_CACHES, |value| {
        if let Some(cache) = Record::at(value) {
            mark_value(tracer, cache.word(CVAR_CREF));
        }
    });
    if let Some(values) = class.record(CLASS_VARIABLES) {
        for index in 0..variables {
            mark_value(tracer, values.word(8 * index));
        }
    }
    each_in_table(class, CLASS_CONSTANTS, |value| {
        if let Some(constant) = Record::at(value) {
            mark_value(tracer, constant.word(CONSTANT_VALUE));
            mark_value(tracer, constant.word(CONSTANT_FILE));
        }
    });
    true
}

#[inline(always)]
fn trace_methods(class: Object, table: usize, tracer: &mut impl Trace) {
    each_in_table(class, table, |value| mark_value(tracer, value));
}

/// Whether every method that the class's call caches are for is valid still. Otherwise
/// Ruby frees its caches and takes them out of the table.
#[inline(always)]
fn call_caches_are_valid(class: Object) -> bool {
    let mut flags = 0;
    each_in_table(class, CLASS_CALL_CACHES, |value| {
        let method = Record::at(value).and_then(|caches| caches.record(CALL_CACHES_METHOD));
        // The flags are the first word, as in every object.
        flags |= method.map_or(0, |method| method.word(0));
    });
    flags & METHOD_INVALIDATED == 0
}

/// Marks the class's call caches and the methods that they are for.
#[inline(always)]
fn trace_call_caches(class: Object, tracer: &mut impl Trace) {
    each_in_table(class, CLASS_CALL_CACHES, |value| {
        let Some(caches) = Record::at(value) else {
            return;
        };
        mark_value(tracer, caches.word(CALL_CACHES_METHOD));
        let count = caches.count(CALL_CACHES_COUNT);
        for entry in caches.each(CALL_CACHES_ENTRIES, count, CALL_CACHES_ENTRY_BYTES) {
            mark_value(tracer, entry.word(CALL_CACHES_ENTRY_CACHE));
        }
    });
}

const _: () = assert!(ID_ITEM_KEY_BYTES == 4);

/// Calls `visit` with each value of one of the class's tables by id.
#[inline(always)]
fn each_in_table(class: Object, table: usize, mut visit: impl FnMut(usize)) {
    let Some(table) = class.record(table) else {
        return;
    };
    for item in table.each(
        ID_TABLE_ITEMS,
        table.count(ID_TABLE_CAPACITY),
        ID_ITEM_BYTES,
    ) {
        if item.half(ID_ITEM_KEY) != 0 {
            visit(item.word(ID_ITEM_VALUE));
        }
    }
}
