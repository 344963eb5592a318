//! An object as the collector reads it: its words, and where the values are that the object
//! holds.

use std::slice;

use ashlar_heap::{Cell, Trace};

use super::record::Record;
use super::version::Count;
use crate::layout::*;
use crate::ruby_calls::{cell, is_object, Value};

/// `Qundef`: what a dead weak reference becomes, and the key of a deleted entry of a small hash.
pub(super) const UNDEFINED: Value = 0x24;

/// The words of one object.
#[derive(Clone, Copy)]
pub(crate) struct Object {
    pub(super) address: usize,
    pub(super) flags: usize,
}

impl Object {
    #[inline(always)]
    pub(crate) fn new(cell: Cell) -> Self {
        let address = cell.address();
        // SAFETY: every cell that Ruby has begins with its flags.
        let flags = unsafe { (address as *const usize).read() };
        Self { address, flags }
    }

    #[inline(always)]
    pub(crate) fn kind(self) -> usize {
        self.flags & T_MASK
    }

    #[inline(always)]
    pub(crate) fn has(self, flags: usize) -> bool {
        self.flags & flags != 0
    }

    /// The word at `offset` bytes.
    #[inline(always)]
    pub(crate) fn word(self, offset: usize) -> usize {
        // SAFETY: offsets come from the layout of this object's type.
        unsafe { ((self.address + offset) as *const usize).read() }
    }

    /// The 32 bits at `offset` bytes.
    #[inline(always)]
    pub(super) fn half(self, offset: usize) -> u32 {
        // SAFETY: as for a word.
        unsafe { ((self.address + offset) as *const u32).read() }
    }

    /// The struct that the word at `offset` bytes points at.
    #[inline(always)]
    pub(super) fn record(self, offset: usize) -> Option<Record> {
        Record::at(self.word(offset))
    }

    #[inline(always)]
    pub(super) fn cell(self) -> Cell {
        // SAFETY: the object's words were read from the cell at this address.
        unsafe { cell(self.address) }
    }

    #[inline(always)]
    pub(crate) fn internal_kind(self) -> usize {
        (self.flags >> IMEMO_SHIFT) & IMEMO_KIND_MASK
    }

    /// Whether this is code that Ruby is compiling or loading. Ruby stores into such code without
    /// always calling the write barrier (`iseq_peephole_optimize`, `ibf_load_catch_table` of
    /// compile.c).
    pub(crate) fn is_unfinished_code(self) -> bool {
        self.kind() == T_IMEMO
            && self.internal_kind() == IMEMO_ISEQ
            && self.has(ISEQ_USE_COMPILE_DATA | ISEQ_NOT_LOADED_YET)
            && !self.is_waiting_code()
    }

    /// Whether this instruction sequence is loaded when it is needed, which is not yet so. It refers
    /// to its loader alone, and to its wrapper. Its number there is below 0 then
    /// (`ibf_load_iseq` in `inside/edits`), and that of code that is being loaded is not.
    #[inline(always)]
    pub(super) fn is_waiting_code(self) -> bool {
        self.has(ISEQ_NOT_LOADED_YET)
            && self.word(ISEQ_BODY) == 0
            && (self.half(ISEQ_LOADER_INDEX) as i32) < 0
    }

    pub(crate) fn shape(self) -> usize {
        self.flags >> SHAPE_SHIFT
    }

    /// Whether Ruby 4.0 has moved the object's content to another Ractor. What is left has no flag
    /// for its finalizers, though it may have some, and the only shape without a width.
    #[inline(always)]
    pub(crate) fn has_left(self) -> bool {
        cfg!(ruby = "4.0") && self.kind() == T_OBJECT && self.shape() == 0
    }

    /// The address of the contents of a `T_DATA` object.
    #[inline(always)]
    pub(super) fn contents(self, are_embedded: bool) -> usize {
        if are_embedded {
            self.address + DATA_EMBEDDED
        } else {
            self.word(DATA_PTR)
        }
    }

    pub(crate) fn address(self) -> usize {
        self.address
    }

    pub(crate) fn class(self) -> Value {
        self.word(KLASS)
    }

    pub(crate) fn flags(self) -> usize {
        self.flags
    }

    /// The elements of an embedded array.
    #[inline(always)]
    pub(crate) fn embedded_values(self) -> Values {
        Values {
            first: self.address + ARRAY_EMBEDDED,
            count: (self.flags & RARRAY_EMBED_LEN_MASK) >> RARRAY_EMBED_LEN_SHIFT,
        }
    }

    /// The number of members of a struct that are in its cell; 0 when they are elsewhere.
    #[inline(always)]
    pub(crate) fn embedded_members(self) -> usize {
        (self.flags & RSTRUCT_EMBED_LEN_MASK) >> RSTRUCT_EMBED_LEN_SHIFT
    }

    /// The members of a struct.
    #[inline(always)]
    pub(crate) fn members(self) -> Values {
        match self.embedded_members() {
            0 => Values {
                first: self.word(STRUCT_PTR),
                count: self.word(STRUCT_LEN),
            },
            count => Values {
                first: self.address + STRUCT_EMBEDDED,
                count,
            },
        }
    }

    #[inline(always)]
    pub(crate) fn is_small_hash(self) -> bool {
        self.kind() == T_HASH && !self.has(RHASH_ST_TABLE_FLAG)
    }

    /// Key and value of each entry of a small hash. Ruby makes the key of a deleted entry
    /// undefined and leaves its value, which nobody keeps alive: that place is none of them.
    #[inline(always)]
    pub(crate) fn small_hash_pairs(self) -> impl Iterator<Item = Values> {
        let bound = (self.flags >> HASH_AR_BOUND_SHIFT) & HASH_AR_BOUND_MASK;
        let pairs = (0..bound).map(move |index| Values {
            first: self.address + HASH_AR_PAIRS + index * 2 * size_of::<Value>(),
            count: 2,
        });
        // SAFETY: the places are those of a live object, below the bound.
        pairs.filter(|pair| unsafe { (pair.first as *const Value).read() } != UNDEFINED)
    }

    /// The place of a hash's default.
    #[inline(always)]
    pub(crate) fn hash_default(self) -> usize {
        self.address + HASH_DEFAULT
    }

    /// The largest number of variables that objects of this object's class have had.
    pub(crate) fn variables_of_class(self) -> usize {
        let max = (self.word(KLASS) + CLASS_MAX_IV_COUNT) as *const Count;
        // SAFETY: the class of a live object is live and has this field.
        unsafe { max.read() as usize }
    }

    /// The parts of a rational or complex number.
    #[inline(always)]
    pub(crate) fn two_parts(self) -> Values {
        Values {
            first: self.address + KLASS + 8,
            count: 2,
        }
    }
}

/// Values side by side: the address of the first, and their number.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Values {
    pub(super) first: usize,
    pub(super) count: usize,
}

impl Values {
    pub(crate) fn count(self) -> usize {
        self.count
    }

    /// # Safety
    /// The values must be those of a live object, which does not change meanwhile.
    pub(super) unsafe fn words<'object>(self) -> &'object [usize] {
        // SAFETY: the words are a live object's, which does not change meanwhile.
        unsafe { slice::from_raw_parts(self.first as *const usize, self.count) }
    }
}

/// Calls `visit` with the place of each value.
#[inline(always)]
pub(crate) fn each_value(values: Values, mut visit: impl FnMut(usize)) {
    for index in 0..values.count {
        visit(values.first + 8 * index);
    }
}

#[inline(always)]
pub(super) fn mark_value(tracer: &mut impl Trace, value: Value) {
    if is_object(value) {
        // SAFETY: what an object refers to is an object of this heap.
        tracer.mark(unsafe { cell(value) });
    }
}

#[inline(always)]
pub(super) fn mark_values(tracer: &mut impl Trace, values: Values) {
    each_value(values, |place| {
        // SAFETY: the caller passes values of a live object.
        mark_value(tracer, unsafe { (place as *const Value).read() });
    });
}

pub(super) type ShapeById = unsafe extern "C" fn(u32) -> *const u8;

/// The number of variables of an object whose shape is not too complex.
#[inline(always)]
pub(super) fn variable_count(object: Object, shape_by_id: ShapeById) -> usize {
    // SAFETY: the object's shape exists; its count of variables is of this type
    // (asserted below).
    let count = unsafe {
        shape_by_id(object.shape() as u32)
            .add(SHAPE_IV_COUNT)
            .cast::<Count>()
            .read()
    };
    count as usize
}

#[inline(always)]
pub(super) fn variables(object: Object, shape_by_id: ShapeById) -> Values {
    let count = variable_count(object, shape_by_id);
    let first = if object.keeps_variables() {
        object.address + OBJECT_EMBEDDED
    } else {
        object.word(OBJECT_PTR)
    };
    Values { first, count }
}

const _: () = assert!(
    SHAPE_IV_COUNT_BYTES == size_of::<Count>() && CLASS_MAX_IV_COUNT_BYTES == size_of::<Count>()
);
