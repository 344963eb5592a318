//! Traces code: instruction sequences, methods, and the caches of their calls.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ashlar_heap::Trace;

use super::object::{mark_value, Object};
use super::record::Record;
use super::{version, Common};
use crate::layout::*;

/// Ruby's empty call cache, which is not in the heap; 0 until its address is known. Ruby
/// replaces the cache of every call by it when it traces an instruction sequence, and
/// shows the address nowhere else.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EmptyCallCache(usize);

impl EmptyCallCache {
    pub(super) fn is_known(self) -> bool {
        self.0 != 0
    }

    /// Learns the address from `object`, which Ruby has just traced, if that is an
    /// instruction sequence with calls. If the first call's cache is not in the heap, it
    /// is the empty one: Ruby has replaced all caches that it does not keep, and it keeps
    /// none that is not in the heap.
    pub(super) fn learnt_from(object: Object) -> Self {
        let is_iseq = object.kind() == T_IMEMO && object.internal_kind() == IMEMO_ISEQ;
        let body = is_iseq.then(|| object.record(ISEQ_BODY)).flatten();
        let mut calls = body.into_iter().flat_map(calls);
        let cache = calls.next().and_then(|call| call.record(CALL_DATA_CACHE));
        // The flags are the first word, as in every object.
        let is_static = |cache: &Record| cache.word(0) & CALL_CACHE_STATIC != 0;
        Self(cache.filter(is_static).map_or(0, Record::address))
    }
}

/// Traces an internal object; false when Ruby has to.
#[inline(never)]
pub(super) fn trace_internal(common: Common, object: Object, mut tracer: impl Trace) -> bool {
    let tracer = &mut tracer;
    let mut mark = |offset| mark_value(tracer, object.word(offset));
    match object.internal_kind() {
        IMEMO_ISEQ => return trace_iseq(object, common.empty_call_cache, tracer),
        IMEMO_MENT => return trace_method(object, tracer),
        IMEMO_CALLINFO => {}
        IMEMO_CREF => {
            [CREF_CLASS, CREF_NEXT, CREF_REFINEMENTS]
                .into_iter()
                .for_each(mark);
        }
        IMEMO_CONSTCACHE => mark(CONSTANT_CACHE_VALUE),
        IMEMO_THROW_DATA => mark(THROWN_OBJECT),
        IMEMO_SVAR => (0..SVAR_COUNT).for_each(|index| mark(SVAR_FIRST + 8 * index)),
        IMEMO_ENV => return trace_env(object, tracer),
        _ => return version::trace_internal(common.shape_by_id, object, tracer),
    }
    true
}

/// The data of each call in an instruction sequence.
#[inline(always)]
fn calls(body: Record) -> impl Iterator<Item = Record> {
    body.each(
        BODY_CALL_DATA,
        body.count(BODY_CALL_DATA_COUNT),
        CALL_DATA_BYTES,
    )
}

#[inline(always)]
fn trace_iseq(iseq: Object, empty: EmptyCallCache, tracer: &mut impl Trace) -> bool {
    let is_plain = !iseq.has(ISEQ_NOT_LOADED_YET | ISEQ_USE_COMPILE_DATA)
        && !version::has_local_hooks(iseq)
        && empty.is_known();
    let Some(body) = iseq.record(ISEQ_BODY).filter(|_| is_plain) else {
        // Code that is loaded when it is needed.
        let is_waiting = iseq.is_waiting_code();
        if is_waiting {
            mark_value(tracer, iseq.word(ISEQ_WRAPPER));
            mark_value(tracer, iseq.word(ISEQ_LOADER));
        }
        return is_waiting;
    };
    if BODY_COMPILED.iter().any(|&offset| body.word(offset) != 0) {
        return false;
    }
    mark_value(tracer, iseq.word(ISEQ_WRAPPER));
    for offset in BODY_REFERENCES {
        mark_value(tracer, body.word(offset));
    }
    for call in calls(body) {
        mark_value(tracer, call.word(CALL_DATA_INFO));
        forget_cache(call, empty);
    }
    trace_inline_storage(body, tracer);
    trace_operands(body, tracer);
    trace_keywords(body, tracer);
    trace_catch_table(body, tracer);
    true
}

/// Replaces the cache of a call by the empty one, as Ruby does whenever it traces an
/// instruction sequence. Several threads may do so at once: all store the same address.
#[inline(always)]
fn forget_cache(call: Record, empty: EmptyCallCache) {
    let place = call.part(CALL_DATA_CACHE).address() as *const AtomicUsize;
    // SAFETY: the data of calls is an aligned array that a live instruction sequence owns,
    // and the program, which would write there, is stopped.
    let place = unsafe { &*place };
    if place.load(Relaxed) != empty.0 {
        place.store(empty.0, Relaxed);
    }
}

/// Traces what instructions keep in the inline storage: first places of variables, which
/// have no references, then class variables, values computed once, and constants.
#[inline(always)]
fn trace_inline_storage(body: Record, tracer: &mut impl Trace) {
    let [places, class_variables, once, constants] =
        [BODY_IVC_SIZE, BODY_ICVARC_SIZE, BODY_ISE_SIZE, BODY_IC_SIZE].map(|at| body.count(at));
    if class_variables + once + constants == 0 {
        return;
    }
    let all = places + class_variables + once + constants;
    let mut entries = body
        .each(BODY_INLINE_STORAGE, all, INLINE_STORAGE_BYTES)
        .skip(places);
    for entry in entries.by_ref().take(class_variables) {
        if let Some(variable) = entry.record(INLINE_CVAR_ENTRY) {
            version::trace_cached_variable(variable, tracer);
        }
    }
    for entry in entries.by_ref().take(once) {
        mark_value(tracer, entry.word(INLINE_ONCE_VALUE));
    }
    for entry in entries {
        mark_value(tracer, entry.word(INLINE_CONSTANT_ENTRY));
    }
}

/// Traces the references among the encoded instructions. A bit for each word says which
/// words are references. If one word of bits is enough, it is in the place of the address
/// of the list.
#[inline(always)]
fn trace_operands(body: Record, tracer: &mut impl Trace) {
    let bits = body.word(BODY_MARK_BITS);
    let words = body.count(BODY_SIZE).div_ceil(MARK_BITS_PER_WORD);
    if bits == 0 || words == 0 {
        return;
    }
    let list = match words {
        1 => body.part(BODY_MARK_BITS),
        _ => match Record::at(bits) {
            Some(list) => list,
            None => return,
        },
    };
    let Some(code) = body.record(BODY_ENCODED) else {
        return;
    };
    for index in 0..words {
        let mut bits = list.word(8 * index);
        while bits != 0 {
            let at = index * MARK_BITS_PER_WORD + bits.trailing_zeros() as usize;
            mark_value(tracer, code.word(8 * at));
            bits &= bits - 1;
        }
    }
}

/// Traces the default values of optional keyword parameters.
#[inline(always)]
fn trace_keywords(body: Record, tracer: &mut impl Trace) {
    if body.half(BODY_HAS_KEYWORDS_AT) & BODY_HAS_KEYWORDS_MASK == 0 {
        return;
    }
    let Some(keywords) = body.record(BODY_KEYWORDS) else {
        return;
    };
    let optional = keywords
        .count(KEYWORD_COUNT)
        .saturating_sub(keywords.count(KEYWORD_REQUIRED_COUNT));
    for value in keywords.each(KEYWORD_DEFAULTS, optional, 8) {
        mark_value(tracer, value.word(0));
    }
}

#[inline(always)]
fn trace_catch_table(body: Record, tracer: &mut impl Trace) {
    let Some(table) = body.record(BODY_CATCH_TABLE) else {
        return;
    };
    for index in 0..table.count(CATCH_TABLE_SIZE) {
        let entry = table.part(CATCH_TABLE_ENTRIES + index * CATCH_ENTRY_BYTES);
        mark_value(tracer, entry.word(CATCH_ENTRY_ISEQ));
    }
}

#[inline(always)]
fn trace_method(entry: Object, tracer: &mut impl Trace) -> bool {
    let defined_class = entry.word(METHOD_DEFINED_CLASS);
    if let Some(definition) = entry.record(METHOD_DEFINITION) {
        let method_type = (definition.half(DEFINITION_TYPE_AT) & DEFINITION_TYPE_MASK) as usize;
        let mut mark = |offset| mark_value(tracer, definition.word(offset));
        match method_type {
            METHOD_TYPE_ISEQ => {
                [DEFINITION_ISEQ, DEFINITION_CREF]
                    .into_iter()
                    .for_each(mark);
                let is_overloaded =
                    definition.half(DEFINITION_OVERLOAD_AT) & DEFINITION_OVERLOAD_MASK != 0;
                if is_overloaded && defined_class != 0 {
                    // Ruby may use the entry as a key of a table of its own.
                    tracer.pin(entry.cell());
                }
            }
            METHOD_TYPE_ATTRSET | METHOD_TYPE_IVAR => mark(DEFINITION_LOCATION),
            // Hooks are marked by Ruby.
            METHOD_TYPE_BMETHOD if version::has_method_hooks(definition) => return false,
            METHOD_TYPE_BMETHOD => mark(DEFINITION_PROC),
            METHOD_TYPE_ALIAS => mark(DEFINITION_ALIASED),
            METHOD_TYPE_REFINED => mark(DEFINITION_REFINED),
            _ => {}
        }
    }
    mark_value(tracer, entry.word(METHOD_OWNER));
    mark_value(tracer, defined_class);
    true
}

/// Traces an environment: the local variables of a frame that is on no stack any more.
/// Ruby stores into it without a barrier until it is traced; the flag that is set here
/// ends that.
#[inline(always)]
fn trace_env(env: Object, tracer: &mut impl Trace) -> bool {
    // Ruby has not filled it yet.
    let Some(frame) = env.record(ENV_FRAME) else {
        return true;
    };
    if version::is_frame_of_ruby(frame.word(FRAME_FLAGS)) {
        return false;
    }
    let values = Record::at(env.word(ENV_VALUES));
    let count = env.half(ENV_COUNT) as usize;
    for index in 0..values.map_or(0, |_| count) {
        let value = values.map_or(0, |values| values.word(8 * index));
        mark_value(tracer, value);
    }
    mark_value(tracer, env.word(ENV_ISEQ));
    let place = frame.part(FRAME_FLAGS).address() as *const AtomicUsize;
    // SAFETY: a live environment owns its frame, whose flags are an aligned word; the
    // program, which would write there, is stopped, and other tracing threads set the same
    // bit.
    let flags = unsafe { &*place };
    let set = flags.load(Relaxed);
    if set & FRAME_BARRIER == 0 {
        flags.store(set | FRAME_BARRIER, Relaxed);
    }
    if set & FRAME_LOCAL == 0 {
        /// The low bits of the outer frame's address, which distinguish it from an
        /// object's address.
        const GUARD: usize = 3;
        let before = Record::at(frame.address() - FRAME_OUTER_BEFORE);
        let outer = before.and_then(|place| Record::at(place.word(0) & !GUARD));
        if let Some(outer) = outer {
            mark_value(tracer, outer.word(FRAME_ENV));
        }
    }
    true
}
