/*
 * What is so in Ruby 3.4 and may be otherwise in the next Ruby, which gets a file like this
 * one; ruby_version.h chooses. docs/inside-ruby.md has a list of what changes in 4.0.
 *
 * Two programs include it. For gc_impl.c it has the functions of gc_impl.h that take other
 * arguments in other versions, or do not exist there, and the table of Ruby's functions that
 * the collector calls. For layout.c, which defines ASHLAR_LAYOUT, it says where Ruby's objects
 * keep what.
 */
#ifndef ASHLAR_LAYOUT

extern int ruby_thread_has_gvl_p(void);
extern size_t rb_obj_memsize_of(VALUE object);
extern void rb_mv_generic_ivar(VALUE from, VALUE to);
extern const char ruby_version[];
#ifdef BUILDING_MODULAR_GC
extern void *rb_shape_get_shape_by_id(uint32_t shape_id);
#endif

static const struct ashlar_ruby_calls calls = {
    .mark_roots = rb_gc_mark_roots,
    .mark_children = rb_gc_mark_children,
    .finish_marking = rb_ractor_finish_marking,
    .save_machine_context = rb_gc_save_machine_context,
    .shape_by_id = (void *(*)(uint32_t))rb_shape_get_shape_by_id,
    .proc_class = proc_class,
    .free_weak_references = rb_gc_obj_free_vm_weak_references,
    .free_object = rb_gc_obj_free,
    .event_hook = rb_gc_event_hook,
    .vm_lock = rb_gc_vm_lock,
    .vm_unlock = rb_gc_vm_unlock,
    .vm_lock_no_barrier = rb_gc_vm_lock_no_barrier,
    .vm_unlock_no_barrier = rb_gc_vm_unlock_no_barrier,
    .vm_barrier = rb_gc_vm_barrier,
    .multi_ractor = rb_gc_multi_ractor_p,
    .loaded_files = loaded_files,
    .thread_has_gvl = ruby_thread_has_gvl_p,
    .optimal_size = rb_gc_obj_optimal_size,
    .rebuild_shape = rb_gc_rebuild_shape,
    .set_shape = rb_gc_set_shape,
    .move_generic_variables = rb_mv_generic_ivar,
    .update_object = rb_gc_update_object_references,
    .update_vm = rb_gc_update_vm_references,
    .prepare_object = rb_gc_prepare_heap_process_object,
    .trigger_finalizers = trigger_finalizers,
    .profile_frames = rb_profile_frames,
    .name_samples_soon = ashlar_name_samples_soon,
    .reachable_from_roots = rb_objspace_reachable_objects_from_root,
    .reachable_from = rb_objspace_reachable_objects_from,
    .memory_of = rb_obj_memsize_of,
};

static const struct ashlar_ruby_events events = {
    .gc_start = RUBY_INTERNAL_EVENT_GC_START,
    .gc_end_mark = RUBY_INTERNAL_EVENT_GC_END_MARK,
    .gc_end_sweep = RUBY_INTERNAL_EVENT_GC_END_SWEEP,
    .gc_enter = RUBY_INTERNAL_EVENT_GC_ENTER,
    .gc_exit = RUBY_INTERNAL_EVENT_GC_EXIT,
    .free_object = RUBY_INTERNAL_EVENT_FREEOBJ,
};

/* ── Widths ────────────────────────────────────────────────────────────────── */

size_t *
rb_gc_impl_heap_sizes(void *objspace)
{
    return (size_t *)ashlar_widths();
}

/* ── Object allocation ───────────────────────────────────────────────────── */

/* The object space is looked up here: who has it as an argument loads it for every object. */
__attribute__((noinline, cold))
static VALUE
new_object_of_heap(void *cache, VALUE klass, VALUE flags, VALUE v1, VALUE v2, VALUE v3, bool wb_protected, size_t size)
{
    VALUE object = ashlar_allocate(rb_gc_get_objspace(), cache, klass, flags, v1, v2, v3, wb_protected, size);
    if (!object) rb_memerror();
    return object;
}

/* Not inlined: there, it would take registers that every object had to save. */
__attribute__((noinline))
static VALUE
new_object_slowly(void *cache, VALUE klass, VALUE flags, VALUE v1, VALUE v2, VALUE v3, bool wb_protected, size_t size)
{
    VALUE object = ashlar_take_cell_of_next_run(cache, klass, flags, v1, v2, v3, wb_protected, size);
    if (ASHLAR_LIKELY(object)) return object;
    return new_object_of_heap(cache, klass, flags, v1, v2, v3, wb_protected, size);
}

VALUE
rb_gc_impl_new_obj(void *objspace, void *cache, VALUE klass, VALUE flags, VALUE v1, VALUE v2, VALUE v3,
                   bool wb_protected, size_t alloc_size)
{
    VALUE object = ashlar_take_cell(cache, klass, flags, v1, v2, v3, wb_protected, alloc_size);
    if (ASHLAR_LIKELY(object)) return object;
    return new_object_slowly(cache, klass, flags, v1, v2, v3, wb_protected, alloc_size);
}

size_t
rb_gc_impl_obj_slot_size(VALUE obj)
{
    return ashlar_width_of(obj);
}

size_t
rb_gc_impl_heap_id_for_size(void *objspace, size_t size)
{
    return size <= ASHLAR_WIDEST_BYTES ? ashlar_width_of_words[(size + 7) >> 3] : 0;
}

bool
rb_gc_impl_size_allocatable_p(size_t size)
{
    return size <= ASHLAR_WIDEST_BYTES;
}

/* ── Shutdown ────────────────────────────────────────────────────────────── */

/* Types, by number, of which rb_gc_shutdown_call_finalizer_p may say yes. */
static uint32_t
types_freed_at_exit(void)
{
    /* A class is of no type that it knows: it says yes only where everything is freed. */
    if (rb_gc_shutdown_call_finalizer_p(rb_cObject)) return ~(1U << T_NONE);
    return 1U << T_DATA | 1U << T_FILE | 1U << T_SYMBOL;
}

/* ── Malloc ──────────────────────────────────────────────────────────────── */

void *
rb_gc_impl_malloc(void *objspace, size_t size)
{
    void *payload = ashlar_xmalloc_is_plain() ? ashlar_pop_payload(ashlar_thread_cache, size) : NULL;
    return ASHLAR_LIKELY(payload) ? payload : ashlar_xmalloc(ashlar_thread_cache, size);
}

void *
rb_gc_impl_calloc(void *objspace, size_t size)
{
    void *payload = ashlar_xmalloc_is_plain() ? ashlar_pop_payload(ashlar_thread_cache, size) : NULL;
    return ASHLAR_LIKELY(payload) ? memset(payload, 0, size) : ashlar_xcalloc(ashlar_thread_cache, size);
}

void *
rb_gc_impl_realloc(void *objspace, void *ptr, size_t new_size, size_t old_size)
{
    if (ashlar_xmalloc_is_plain() && ashlar_stays(ptr, new_size)) return ptr;
    return ashlar_xrealloc(ashlar_thread_cache, ptr, new_size);
}

void
rb_gc_impl_free(void *objspace, void *ptr, size_t old_size)
{
    if (!ptr || (ashlar_xmalloc_is_plain() && ashlar_push_payload(ashlar_thread_cache, ptr))) return;
    ashlar_xfree(ashlar_thread_cache, ptr);
}

/* ── Weak references ───────────────────────────────────────────────────────── */

void
rb_gc_impl_mark_weak(void *objspace, VALUE *ptr)
{
    ashlar_mark_weak(objspace, ptr);
}

void
rb_gc_impl_remove_weak(void *objspace, VALUE parent_obj, VALUE *ptr)
{
    ashlar_remove_weak(objspace, ptr);
}

/* ── Object id ───────────────────────────────────────────────────────────── */

VALUE
rb_gc_impl_object_id(void *objspace, VALUE obj)
{
    bool fresh;
    unsigned int level = rb_gc_vm_lock();
    uint64_t id = ashlar_object_id(objspace, obj, &fresh);
    if (fresh) FL_SET(obj, FL_SEEN_OBJ_ID);
    rb_gc_vm_unlock(level);
    if (!id) rb_memerror();
    return ULL2NUM(id);
}

VALUE
rb_gc_impl_object_id_to_ref(void *objspace, VALUE object_id)
{
    VALUE known = Qfalse;
    if (!(RB_TYPE_P(object_id, T_BIGNUM) && rb_absint_size(object_id, NULL) > 8) &&
        !RTEST(rb_funcall(object_id, rb_intern("<"), 1, INT2FIX(0)))) {
        known = ashlar_object_by_id(objspace, NUM2ULL(object_id));
    }
    if (known) return known;
    VALUE shown = rb_funcall(object_id, rb_intern("to_s"), 1, INT2FIX(10));
    if (RTEST(rb_funcall(object_id, rb_intern(">="), 1, ULL2NUM(ashlar_next_object_id(objspace))))) {
        rb_raise(rb_eRangeError, "%+"PRIsVALUE" is not id value", shown);
    }
    rb_raise(rb_eRangeError, "%+"PRIsVALUE" is recycled object", shown);
}

/* ── Miscellaneous ─────────────────────────────────────────────────────────── */

size_t
rb_gc_impl_obj_flags(void *objspace, VALUE obj, ID *flags, size_t max)
{
    unsigned int state = ashlar_cell_state(objspace, obj);
    size_t count = 0;
#define SHOW(name, on) if (count < max && (on)) flags[count++] = rb_intern_const(name)
    SHOW("wb_protected", !(state & ASHLAR_CELL_UNPROTECTED));
    SHOW("old", state & ASHLAR_CELL_OLD);
    SHOW("uncollectible", state & ASHLAR_CELL_OLD);
    SHOW("marking", ashlar_during_gc() && (state & ASHLAR_CELL_MARKED));
    SHOW("marked", state & (ASHLAR_CELL_MARKED | ASHLAR_CELL_AGED));
    SHOW("pinned", state & ASHLAR_CELL_PINNED);
#undef SHOW
    return count;
}

bool
rb_gc_impl_pointer_to_heap_p(void *objspace, const void *ptr)
{
    /* Tables that follow moves ask before they look for the new place. */
    return (ashlar_cell_state(objspace, (VALUE)ptr) & ASHLAR_CELL_LIVE) || ashlar_has_moved(objspace, (VALUE)ptr);
}

#else /* ASHLAR_LAYOUT */

#include "constant.h"
#include "internal/array.h"
#include "internal/bignum.h"
#include "internal/class.h"
#include "internal/hash.h"
#include "internal/imemo.h"
#include "internal/object.h"
#include "internal/string.h"
#include "internal/struct.h"
#include "iseq.h"
#include "method.h"
#include "ruby/re.h"
#include "ruby/st.h"
#include "shape.h"
#include "symbol.h"
#include "vm_callinfo.h"
#include "vm_core.h"

/* The struct of a table by id is in this source file, and in no header. */
#include "id_table.c"

static void
print_objects(void)
{
    CONSTANT("T_MASK", "Where an object's flags hold its type.", T_MASK);
    TYPE(T_OBJECT); TYPE(T_CLASS); TYPE(T_MODULE); TYPE(T_ICLASS); TYPE(T_FLOAT);
    TYPE(T_STRING); TYPE(T_REGEXP); TYPE(T_ARRAY); TYPE(T_HASH); TYPE(T_STRUCT);
    TYPE(T_BIGNUM); TYPE(T_FILE); TYPE(T_DATA); TYPE(T_MATCH); TYPE(T_COMPLEX);
    TYPE(T_RATIONAL); TYPE(T_SYMBOL); TYPE(T_IMEMO); TYPE(T_ZOMBIE);
    TYPE(T_MOVED);

    FLAG(FL_EXIVAR); FLAG(FL_FINALIZE); FLAG(FL_SEEN_OBJ_ID); FLAG(FL_WB_PROTECTED);
    FLAG(FL_PROMOTED); FLAG(FL_FREEZE); FLAG(ELTS_SHARED);
    OFFSET("KLASS", struct RBasic, klass);

    CONSTANT("STR_NOEMBED", "A string whose bytes are elsewhere.", FL_USER1);
    CONSTANT("STR_NOFREE", "A string that does not own its bytes.", FL_USER18);
    CONSTANT("STR_TMPLOCK", "A string that C code has locked.", FL_USER7);
    CONSTANT("STR_FSTR", "A string in the table of unique strings.", RSTRING_FSTR);
    OFFSET("STR_LEN", struct RString, len);
    OFFSET("STR_PTR", struct RString, as.heap.ptr);
    OFFSET("STR_SHARED_ROOT", struct RString, as.heap.aux.shared);
    OFFSET("STR_EMBEDDED", struct RString, as.embed.ary);

    FLAG(RARRAY_EMBED_FLAG); FLAG(RARRAY_EMBED_LEN_MASK); FLAG(RARRAY_EMBED_LEN_SHIFT);
    OFFSET("ARRAY_LEN", struct RArray, as.heap.len);
    OFFSET("ARRAY_PTR", struct RArray, as.heap.ptr);
    OFFSET("ARRAY_SHARED_ROOT", struct RArray, as.heap.aux.shared_root);
    OFFSET("ARRAY_EMBEDDED", struct RArray, as.ary);

    FLAG(ROBJECT_EMBED);
    OFFSET("OBJECT_EMBEDDED", struct RObject, as.ary);
    OFFSET("OBJECT_PTR", struct RObject, as.heap.ivptr);
    CONSTANT("SHAPE_SHIFT", "Where an object's flags hold its shape.", SHAPE_FLAG_SHIFT);
    CONSTANT("TOO_COMPLEX_SHAPE", "The shape of objects with a table of variables.",
             OBJ_TOO_COMPLEX_SHAPE_ID);
    OFFSET("SHAPE_IV_COUNT", struct rb_shape, next_iv_index);
    CONSTANT("SHAPE_IV_COUNT_BYTES", "Bytes of a count of variables.", sizeof(attr_index_t));
    CONSTANT("CLASS_MAX_IV_COUNT", "Offset of a class's `max_iv_count`, in bytes.",
             offsetof(struct RClass_and_rb_classext_t, classext.max_iv_count));
    CONSTANT("CLASS_MAX_IV_COUNT_BYTES", "Bytes of a class's `max_iv_count`.",
             sizeof(((struct RClass_and_rb_classext_t *)0)->classext.max_iv_count));

    FLAG(FL_SINGLETON);
    OFFSET("CLASS_SUPER", struct RClass, super);
    OFFSET("CLASS_PATH", struct RClass_and_rb_classext_t, classext.classpath);
    OFFSET("CLASS_ATTACHED", struct RClass_and_rb_classext_t, classext.as.singleton_class.attached_object);

    OFFSET("DATA_TYPE", struct RTypedData, type);
    OFFSET("DATA_TYPED", struct RTypedData, typed_flag);
    OFFSET("DATA_PTR", struct RTypedData, data);
    OFFSET("DATA_TYPE_NAME", struct rb_data_type_struct, wrap_struct_name);

    OFFSET("ISEQ_BODY", struct rb_iseq_struct, body);
    OFFSET("ISEQ_PATH", struct rb_iseq_constant_body, location.pathobj);
    OFFSET("ISEQ_LABEL", struct rb_iseq_constant_body, location.label);
    OFFSET("ISEQ_LINE", struct rb_iseq_constant_body, location.first_lineno);

    FLAG(RHASH_ST_TABLE_FLAG);
    CONSTANT("HASH_AR_BOUND_SHIFT", "Where a hash's flags hold its entry count.",
             RHASH_AR_TABLE_BOUND_SHIFT);
    CONSTANT("HASH_AR_BOUND_MASK", "Bits of a hash's entry count.",
             (VALUE)RHASH_AR_TABLE_BOUND_MASK >> RHASH_AR_TABLE_BOUND_SHIFT);
    OFFSET("HASH_DEFAULT", struct RHash, ifnone);
    CONSTANT("HASH_AR_PAIRS", "Offset of a small hash's pairs, in bytes.",
             sizeof(struct RHash) + offsetof(ar_table, pairs));
    CONSTANT("HASH_ST_ENTRIES", "Offset of a large hash's entry pointer, in bytes.",
             sizeof(struct RHash) + offsetof(struct st_table, entries));
    CONSTANT("HASH_ST_START", "Offset of a large hash's first entry number, in bytes.",
             sizeof(struct RHash) + offsetof(struct st_table, entries_start));
    CONSTANT("HASH_ST_BOUND", "Offset of a large hash's entry limit, in bytes.",
             sizeof(struct RHash) + offsetof(struct st_table, entries_bound));

    FLAG(RSTRUCT_EMBED_LEN_MASK); FLAG(RSTRUCT_EMBED_LEN_SHIFT);
    OFFSET("STRUCT_LEN", struct RStruct, as.heap.len);
    OFFSET("STRUCT_PTR", struct RStruct, as.heap.ptr);
    OFFSET("STRUCT_EMBEDDED", struct RStruct, as.ary);

    CONSTANT("BIGNUM_EMBED", "A bignum whose digits are in its cell.", BIGNUM_EMBED_FLAG);

    CONSTANT("IMEMO_SHIFT", "Where an internal object's flags hold its kind.", FL_USHIFT);
    CONSTANT("IMEMO_KIND_MASK", "Bits of an internal object's kind.", IMEMO_MASK);
    KIND(ENV, imemo_env); KIND(MENT, imemo_ment); KIND(TMPBUF, imemo_tmpbuf);
    KIND(CREF, imemo_cref); KIND(SVAR, imemo_svar); KIND(THROW_DATA, imemo_throw_data); KIND(IFUNC, imemo_ifunc);
    KIND(MEMO, imemo_memo); KIND(CALLINFO, imemo_callinfo); KIND(CALLCACHE, imemo_callcache); KIND(CONSTCACHE, imemo_constcache);
    KIND(ISEQ, imemo_iseq); FLAG(ISEQ_USE_COMPILE_DATA);
    printf("/// Ruby's names of its kinds of internal objects, and what the heap profile says of each.\n"
           "pub(crate) const IMEMO_NAMES: &[(usize, &str, &str)] = &[");
    NAMED(env); NAMED(cref); NAMED(svar); NAMED(throw_data); NAMED(ifunc); NAMED(memo); NAMED(ment);
    NAMED(iseq); NAMED(tmpbuf); NAMED(ast); NAMED(parser_strterm); NAMED(callinfo); NAMED(callcache);
    NAMED(constcache);
    printf("];\n");
}

static void
print_instruction_sequences(void)
{
    typedef struct rb_iseq_constant_body body;

    NAMED_FLAG("ISEQ_NOT_LOADED_YET", ISEQ_NOT_LOADED_YET);
    OFFSET("ISEQ_WRAPPER", rb_iseq_t, wrapper);
    OFFSET("ISEQ_LOCAL_HOOKS", rb_iseq_t, aux.exec.local_hooks);

    OFFSET("BODY_SIZE", body, iseq_size);
    OFFSET("BODY_ENCODED", body, iseq_encoded);
    OFFSET("BODY_MARK_BITS", body, mark_bits);
    CONSTANT("MARK_BITS_PER_WORD", "References that a word of mark bits tells of.", ISEQ_MBITS_BITLENGTH);
    OFFSET("BODY_INLINE_STORAGE", body, is_entries);
    OFFSET("BODY_IVC_SIZE", body, ivc_size);
    OFFSET("BODY_ICVARC_SIZE", body, icvarc_size);
    OFFSET("BODY_ISE_SIZE", body, ise_size);
    OFFSET("BODY_IC_SIZE", body, ic_size);
    BYTES("INLINE_STORAGE_BYTES", union iseq_inline_storage_entry);
    OFFSET("INLINE_CVAR_ENTRY", struct iseq_inline_cvar_cache_entry, entry);
    OFFSET("INLINE_ONCE_VALUE", union iseq_inline_storage_entry, once.value);
    OFFSET("INLINE_CONSTANT_ENTRY", struct iseq_inline_constant_cache, entry);
    OFFSET("BODY_CALL_DATA", body, call_data);
    OFFSET("BODY_CALL_DATA_COUNT", body, ci_size);
    BYTES("CALL_DATA_BYTES", struct rb_call_data);
    OFFSET("CALL_DATA_INFO", struct rb_call_data, ci);
    OFFSET("CALL_DATA_CACHE", struct rb_call_data, cc);
    BITS("BODY_HAS_KEYWORDS", body, param.flags.has_kw, 1);
    OFFSET("BODY_KEYWORDS", body, param.keyword);
    OFFSET("KEYWORD_COUNT", struct rb_iseq_param_keyword, num);
    OFFSET("KEYWORD_REQUIRED_COUNT", struct rb_iseq_param_keyword, required_num);
    OFFSET("KEYWORD_DEFAULTS", struct rb_iseq_param_keyword, default_values);
    OFFSET("BODY_CATCH_TABLE", body, catch_table);
    OFFSET("CATCH_TABLE_SIZE", struct iseq_catch_table, size);
    OFFSET("CATCH_TABLE_ENTRIES", struct iseq_catch_table, entries);
    BYTES("CATCH_ENTRY_BYTES", struct iseq_catch_table_entry);
    OFFSET("CATCH_ENTRY_ISEQ", struct iseq_catch_table_entry, iseq);

    printf("/// Offsets of the body's references, in bytes.\n"
           "pub(crate) const BODY_REFERENCES: [usize; 9] = [%zu, %zu, %zu, %zu, %zu, %zu, %zu, %zu, %zu];\n",
           offsetof(body, variable.coverage), offsetof(body, variable.pc2branchindex),
           offsetof(body, variable.script_lines), offsetof(body, location.label),
           offsetof(body, location.base_label), offsetof(body, location.pathobj),
           offsetof(body, local_iseq), offsetof(body, parent_iseq),
           offsetof(body, mandatory_only_iseq));
    printf("/// Offsets of words that are 0 unless a compiler to machine code has references to\n"
           "/// mark, in bytes.\n"
           "pub(crate) const BODY_COMPILED: &[usize] = &[");
#if USE_RJIT
    printf("%zu, ", offsetof(body, rjit_blocks));
#endif
#if USE_YJIT
    printf("%zu, ", offsetof(body, yjit_payload));
#endif
    printf("];\n");
}

static void
print_methods(void)
{
    OFFSET("METHOD_OWNER", rb_method_entry_t, owner);
    OFFSET("METHOD_DEFINED_CLASS", rb_method_entry_t, defined_class);
    OFFSET("METHOD_DEFINITION", rb_method_entry_t, def);
    CONSTANT("METHOD_INVALIDATED", "The flag of a method entry that is not to be called any more.", IMEMO_FL_USER5);
    BITS("DEFINITION_TYPE", rb_method_definition_t, type, (1 << VM_METHOD_TYPE_MINIMUM_BITS) - 1);
    BITS("DEFINITION_OVERLOAD", rb_method_definition_t, iseq_overload, 1);
    CONSTANT("METHOD_TYPE_ISEQ", "A method in Ruby.", VM_METHOD_TYPE_ISEQ);
    CONSTANT("METHOD_TYPE_ATTRSET", "A writer of a variable.", VM_METHOD_TYPE_ATTRSET);
    CONSTANT("METHOD_TYPE_IVAR", "A reader of a variable.", VM_METHOD_TYPE_IVAR);
    CONSTANT("METHOD_TYPE_BMETHOD", "A method that is a block.", VM_METHOD_TYPE_BMETHOD);
    CONSTANT("METHOD_TYPE_ALIAS", "Another name.", VM_METHOD_TYPE_ALIAS);
    CONSTANT("METHOD_TYPE_REFINED", "A method that a refinement may replace.", VM_METHOD_TYPE_REFINED);
    OFFSET("DEFINITION_ISEQ", rb_method_definition_t, body.iseq.iseqptr);
    OFFSET("DEFINITION_CREF", rb_method_definition_t, body.iseq.cref);
    OFFSET("DEFINITION_LOCATION", rb_method_definition_t, body.attr.location);
    OFFSET("DEFINITION_PROC", rb_method_definition_t, body.bmethod.proc);
    OFFSET("DEFINITION_HOOKS", rb_method_definition_t, body.bmethod.hooks);
    OFFSET("DEFINITION_ALIASED", rb_method_definition_t, body.alias.original_me);
    OFFSET("DEFINITION_REFINED", rb_method_definition_t, body.refined.orig_me);

    CONSTANT("CALL_CACHE_OWNS", "Flags of a call cache that nothing but call sites refer to.",
             VM_CALLCACHE_SUPER | VM_CALLCACHE_REFINEMENT);
    CONSTANT("CALL_CACHE_STATIC", "The flag of a call cache that is not in the heap.", VM_CALLCACHE_UNMARKABLE);
    OFFSET("CALL_CACHE_CLASS", struct rb_callcache, klass);
    OFFSET("CALL_CACHE_METHOD", struct rb_callcache, cme_);

    OFFSET("CONSTANT_CACHE_VALUE", struct iseq_inline_constant_cache_entry, value);
    OFFSET("CREF_CLASS", rb_cref_t, klass_or_self);
    OFFSET("CREF_NEXT", rb_cref_t, next);
    OFFSET("CREF_REFINEMENTS", rb_cref_t, refinements);
    OFFSET("SVAR_FIRST", struct vm_svar, cref_or_me);
    CONSTANT("SVAR_COUNT", "References of a special variable.",
             (sizeof(struct vm_svar) - offsetof(struct vm_svar, cref_or_me)) / sizeof(VALUE));
    OFFSET("THROWN_OBJECT", struct vm_throw_data, throw_obj);
}

static void
print_classes(void)
{
    typedef struct RClass_and_rb_classext_t both;

    CONSTANT("ICLASS_METHODS_MASK", "Flags that say whose an inclusion's methods are.",
             RICLASS_IS_ORIGIN | RICLASS_ORIGIN_SHARED_MTBL);
    CONSTANT("ICLASS_OWNS_METHODS", "Those of them that an inclusion has whose own they are.", RICLASS_IS_ORIGIN);
    OFFSET("CLASS_METHODS", both, rclass.m_tbl);
    OFFSET("CLASS_VARIABLES", both, classext.iv_ptr);
    OFFSET("CLASS_CONSTANTS", both, classext.const_tbl);
    OFFSET("CLASS_CALLABLE_METHODS", both, classext.callable_m_tbl);
    OFFSET("CLASS_CALL_CACHES", both, classext.cc_tbl);
    OFFSET("CLASS_VARIABLE_CACHES", both, classext.cvc_tbl);
    OFFSET("CLASS_INCLUDER", both, classext.includer);

    OFFSET("ID_TABLE_CAPACITY", struct rb_id_table, capa);
    OFFSET("ID_TABLE_ITEMS", struct rb_id_table, items);
    BYTES("ID_ITEM_BYTES", item_t);
    OFFSET("ID_ITEM_KEY", item_t, key);
    OFFSET("ID_ITEM_VALUE", item_t, val);
    CONSTANT("ID_ITEM_KEY_BYTES", "Bytes of a key, 0 where no item is.", sizeof(id_key_t));

    OFFSET("CONSTANT_VALUE", rb_const_entry_t, value);
    OFFSET("CONSTANT_FILE", rb_const_entry_t, file);
    OFFSET("CVAR_CREF", struct rb_cvar_class_tbl_entry, cref);
    OFFSET("CVAR_CLASS", struct rb_cvar_class_tbl_entry, class_value);
    OFFSET("CALL_CACHES_METHOD", struct rb_class_cc_entries, cme);
    OFFSET("CALL_CACHES_COUNT", struct rb_class_cc_entries, len);
    OFFSET("CALL_CACHES_ENTRIES", struct rb_class_cc_entries, entries);
    BYTES("CALL_CACHES_ENTRY_BYTES", struct rb_class_cc_entries_entry);
    OFFSET("CALL_CACHES_ENTRY_CACHE", struct rb_class_cc_entries_entry, cc);
}

static void
print_data(void)
{
    static struct RTypedData embedded = {.typed_flag = 1 | TYPED_DATA_EMBEDDED};

    CONSTANT("DATA_TYPED_FLAG_MAX", "More than this is the address of a function, in data without a type.", 3);
    NAMED_FLAG("DATA_EMBEDDED_FLAG", TYPED_DATA_EMBEDDED);
    CONSTANT("DATA_EMBEDDED", "Offset of embedded data, in bytes.",
             (char *)RTYPEDDATA_GET_DATA((VALUE)&embedded) - (char *)&embedded);
    OFFSET("DATA_TYPE_MARK", rb_data_type_t, function.dmark);
    OFFSET("DATA_TYPE_FLAGS", rb_data_type_t, flags);
    NAMED_FLAG("DATA_TYPE_DECLARES", RUBY_TYPED_DECL_MARKING);
    CONSTANT("DATA_REFERENCES_END", "What ends a list of offsets of references.", RUBY_REF_END);

    OFFSET("PROC_BLOCK_TYPE", rb_proc_t, block.type);
    CONSTANT("BLOCK_TYPE_ISEQ", "A block in Ruby.", block_type_iseq);
    CONSTANT("BLOCK_TYPE_IFUNC", "A block in C.", block_type_ifunc);
    OFFSET("PROC_SELF", rb_proc_t, block.as.captured.self);
    OFFSET("PROC_CODE", rb_proc_t, block.as.captured.code);
    OFFSET("PROC_FRAME", rb_proc_t, block.as.captured.ep);
    OFFSET("PROC_SYMBOL", rb_proc_t, block.as.symbol);
    OFFSET("PROC_PROC", rb_proc_t, block.as.proc);

    OFFSET("ENV_VALUES", rb_env_t, env);
    OFFSET("ENV_COUNT", rb_env_t, env_size);
    OFFSET("ENV_FRAME", rb_env_t, ep);
    OFFSET("ENV_ISEQ", rb_env_t, iseq);
    CONSTANT("FRAME_OUTER_BEFORE", "Bytes before a frame's end where the outer frame is.",
             -VM_ENV_DATA_INDEX_SPECVAL * (int)sizeof(VALUE));
    CONSTANT("FRAME_FLAGS", "Offset of a frame's flags, in bytes.", VM_ENV_DATA_INDEX_FLAGS * sizeof(VALUE));
    CONSTANT("FRAME_ENV", "Offset of a frame's environment, in bytes.", VM_ENV_DATA_INDEX_ENV * sizeof(VALUE));
    CONSTANT("FRAME_LOCAL", "The flag of a frame without an outer one.", VM_ENV_FLAG_LOCAL);
    CONSTANT("FRAME_BARRIER", "The flag of a frame that a store into calls the write barrier for.",
             VM_ENV_FLAG_WB_REQUIRED);

    OFFSET("REGEXP_SOURCE", struct RRegexp, src);
    OFFSET("MATCH_REGEXP", struct RMatch, regexp);
    OFFSET("MATCH_STRING", struct RMatch, str);
}

static void
print_layout(void)
{
    print_objects();
    print_instruction_sequences();
    print_methods();
    print_classes();
    print_data();
}

#endif
