//! The tables of classes: of methods, constants and call caches.

use ashlar_heap::Trace;

use super::object::mark_value;
use super::record::Record;
use super::version;
use crate::layout::*;

#[inline(always)]
pub(super) fn trace_methods(table: Option<Record>, tracer: &mut impl Trace) {
    each_in(table, |value| mark_value(tracer, value));
}

#[inline(always)]
pub(super) fn trace_constants(table: Option<Record>, tracer: &mut impl Trace) {
    each_in(table, |value| {
        if let Some(constant) = Record::at(value) {
            mark_value(tracer, constant.word(CONSTANT_VALUE));
            mark_value(tracer, constant.word(CONSTANT_FILE));
        }
    });
}

/// Marks the call caches in a class's table, and the methods that they are for. Returns
/// false when a method is not valid any more: then Ruby has to trace the table, and removes
/// that method's caches from it.
#[inline(always)]
pub(super) fn trace_call_caches(table: Option<Record>, tracer: &mut impl Trace) -> bool {
    if !call_caches_are_valid(table) {
        return false;
    }
    each_in(table, |value| {
        let Some(caches) = Record::at(value) else {
            return;
        };
        mark_value(tracer, caches.word(CALL_CACHES_METHOD));
        for entry in version::call_cache_entries(caches) {
            mark_value(tracer, entry.word(CALL_CACHES_ENTRY_CACHE));
        }
    });
    true
}

#[inline(always)]
fn call_caches_are_valid(table: Option<Record>) -> bool {
    let mut flags = 0;
    each_in(table, |value| {
        let method = Record::at(value).and_then(|caches| caches.record(CALL_CACHES_METHOD));
        // The flags are the first word, as in every object.
        flags |= method.map_or(0, |method| method.word(0));
    });
    flags & METHOD_INVALIDATED == 0
}

const _: () = assert!(ID_ITEM_KEY_BYTES == 4);

/// Calls `visit` with each value of a table by id.
#[inline(always)]
pub(super) fn each_in(table: Option<Record>, mut visit: impl FnMut(usize)) {
    let Some(table) = table else {
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
