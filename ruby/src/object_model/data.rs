//! Traces `T_DATA` objects whose type says where their references are, and procs.

use std::ffi::{c_char, CStr};

use ashlar_heap::Trace;

use super::object::{mark_value, Object};
use super::record::Record;
use super::{version, Common};
use crate::layout::*;
use crate::ruby_calls::Value;

/// A data type of Ruby that it does not export; 0 until the type is known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DataType(usize);

impl DataType {
    pub(super) fn is_known(self) -> bool {
        self.0 != 0
    }

    /// The type of `data` if its class is that of procs: Ruby itself makes all of these.
    pub(super) fn of_procs(data: Object, proc_class: Value) -> Self {
        let is_proc = proc_class != 0 && data.word(KLASS) == proc_class;
        Self(if is_proc { type_of(data) } else { 0 })
    }

    /// The type of `data`, which has no class, if it has this name: only Ruby makes such data.
    pub(super) fn named(data: Object, name: &CStr) -> Self {
        let data_type = type_of(data);
        let text = Record::at(data_type).map_or(0, |found| found.word(DATA_TYPE_NAME));
        // SAFETY: a type's name ends with 0.
        let is_named = text != 0 && unsafe { CStr::from_ptr(text as *const c_char) } == name;
        Self(if is_named { data_type } else { 0 })
    }
}

fn type_of(data: Object) -> usize {
    data.typed_data().map_or(0, |[data_type, _]| data_type)
}

/// Traces what data has besides its class; false when only a function of its type can.
#[inline(never)]
pub(super) fn trace_data(common: Common, data: Object, tracer: &mut impl Trace) -> bool {
    let Some([data_type, contents]) = data.typed_data() else {
        return false;
    };
    let Some(data_type) = Record::at(data_type) else {
        return false;
    };
    let mark = data_type.word(DATA_TYPE_MARK);
    let (Some(contents), Some(mark)) = (Record::at(contents), Record::at(mark)) else {
        version::mark_fields_of_data(data, tracer);
        return true;
    };
    if data_type.address() == common.proc_type.0 {
        trace_proc(contents, tracer);
    } else if data_type.word(DATA_TYPE_FLAGS) & DATA_TYPE_DECLARES != 0 {
        trace_declared(contents, mark, tracer);
    } else if data_type.address() == common.call_caches_type.0 {
        if !version::trace_table_of_call_caches(contents, tracer) {
            return false;
        }
    } else {
        return false;
    }
    version::mark_fields_of_data(data, tracer);
    true
}

/// Traces contents whose type has, in place of a marking function, a list of the offsets of
/// their references.
#[inline(always)]
fn trace_declared(contents: Record, list: Record, tracer: &mut impl Trace) {
    let offsets = (0..).map(|index| list.word(8 * index));
    for offset in offsets.take_while(|&offset| offset != DATA_REFERENCES_END) {
        mark_value(tracer, contents.word(offset));
    }
}

#[inline(always)]
fn trace_proc(proc: Record, tracer: &mut impl Trace) {
    match proc.count(PROC_BLOCK_TYPE) {
        BLOCK_TYPE_ISEQ | BLOCK_TYPE_IFUNC => {
            mark_value(tracer, proc.word(PROC_SELF));
            mark_value(tracer, proc.word(PROC_CODE));
            if let Some(frame) = proc.record(PROC_FRAME) {
                mark_value(tracer, frame.word(FRAME_ENV));
            }
        }
        // For a block that is a symbol or another proc: both are in the same place.
        _ => mark_value(tracer, proc.word(PROC_SYMBOL)),
    }
}

const _: () = assert!(PROC_SYMBOL == PROC_PROC);
