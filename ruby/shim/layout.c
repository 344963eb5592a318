/*
 * Prints, as Rust constants, the parts of Ruby's object layout that the collector reads
 * without calling Ruby. The program is compiled and run during the build, so the
 * numbers are always those of the Ruby that the library is built for.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "ruby/ruby.h"
#include "version.h"
#include "internal.h"
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

/* The struct of a table by id is in this source file only, and in no header. Ruby includes it in
 * symbol.c after this function, which nothing here calls. */
ID rb_id_serial_to_id(rb_id_serial_t num);
#include "id_table.c"

#include "inlined.h"

#define CONSTANT(name, meaning, value)                                              \
    printf("/// %s\npub(crate) const " name ": usize = %#lx;\n", meaning,           \
           (unsigned long)(value))
#define FLAG(flag) CONSTANT(#flag, "Ruby's flag of this name.", flag)
#define NAMED_FLAG(name, flag) CONSTANT(name, "Ruby's flag `" #flag "`.", flag)
#define TYPE(type) CONSTANT(#type, "Ruby's type of this name.", type)
#define KIND(name, kind) CONSTANT("IMEMO_" #name, "Ruby's kind of this name.", kind)
#define NAMED(kind) printf("(%d, \"" #kind "\", \"(internal " #kind ")\"), ", imemo_##kind)
#define OFFSET(name, type, member)                                                  \
    CONSTANT(name, "Offset of `" #member "` in `" #type "`, in bytes.",             \
             offsetof(type, member))
#define BYTES(name, type) CONSTANT(name, "Bytes of `" #type "`.", sizeof(type))
/* A bit field: the offset of the 32 bits that contain it, and a mask of its bits. */
#define BITS(name, type, member, all)                                               \
    do {                                                                            \
        type probe;                                                                 \
        memset(&probe, 0, sizeof(probe));                                           \
        probe.member = (all);                                                       \
        print_bits(name, #member, &probe, sizeof(probe));                           \
    } while (0)

static void
print_bits(const char *name, const char *member, const void *probe, size_t bytes)
{
    for (size_t at = 0; at + 4 <= bytes; at += 4) {
        uint32_t bits;
        memcpy(&bits, (const char *)probe + at, 4);
        if (!bits) continue;
        printf("/// Offset of the 32 bits that hold `%s`, in bytes.\n"
               "pub(crate) const %s_AT: usize = %#lx;\n", member, name, (unsigned long)at);
        printf("/// Which of them hold `%s`.\n"
               "pub(crate) const %s_MASK: u32 = %#x;\n", member, name, bits);
        return;
    }
}

/* What differs between versions of Ruby. */
#define ASHLAR_LAYOUT
#include "ruby_version.h"

static void
print_objects(void)
{
    CONSTANT("T_MASK", "Where an object's flags hold its type.", T_MASK);
    TYPE(T_OBJECT); TYPE(T_CLASS); TYPE(T_MODULE); TYPE(T_ICLASS); TYPE(T_FLOAT);
    TYPE(T_STRING); TYPE(T_REGEXP); TYPE(T_ARRAY); TYPE(T_HASH); TYPE(T_STRUCT);
    TYPE(T_BIGNUM); TYPE(T_FILE); TYPE(T_DATA); TYPE(T_MATCH); TYPE(T_COMPLEX);
    TYPE(T_RATIONAL); TYPE(T_SYMBOL); TYPE(T_IMEMO); TYPE(T_ZOMBIE);
    TYPE(T_MOVED);

    FLAG(FL_FINALIZE); FLAG(FL_WB_PROTECTED);
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

    OFFSET("OBJECT_EMBEDDED", struct RObject, as.ary);
    OFFSET("OBJECT_PTR", struct RObject, OBJECT_VARIABLES);
    CONSTANT("SHAPE_SHIFT", "Where an object's flags hold its shape.", SHAPE_FLAG_SHIFT);
    OFFSET("SHAPE_IV_COUNT", struct rb_shape, SHAPE_VARIABLES);
    CONSTANT("SHAPE_IV_COUNT_BYTES", "Bytes of a count of variables.", sizeof(attr_index_t));
    CONSTANT("CLASS_MAX_IV_COUNT", "Offset of a class's `max_iv_count`, in bytes.",
             offsetof(struct RClass_and_rb_classext_t, classext.max_iv_count));
    CONSTANT("CLASS_MAX_IV_COUNT_BYTES", "Bytes of a class's `max_iv_count`.",
             sizeof(((struct RClass_and_rb_classext_t *)0)->classext.max_iv_count));

    FLAG(FL_SINGLETON);
    OFFSET("CLASS_SUPER", CLASS_WITH_SUPER, SUPER);
    OFFSET("CLASS_PATH", struct RClass_and_rb_classext_t, classext.classpath);
    OFFSET("CLASS_ATTACHED", struct RClass_and_rb_classext_t, classext.as.singleton_class.attached_object);

    OFFSET("DATA_TYPE", struct RTypedData, type);
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
    NAMED(iseq); NAMED(tmpbuf); NAMED(callinfo); NAMED(callcache);
    NAMED(constcache); NAMED_OF_VERSION
    printf("];\n");
}

static void
print_instruction_sequences(void)
{
    typedef struct rb_iseq_constant_body body;

    NAMED_FLAG("ISEQ_NOT_LOADED_YET", ISEQ_NOT_LOADED_YET);
    OFFSET("ISEQ_WRAPPER", rb_iseq_t, wrapper);
    OFFSET("ISEQ_LOADER", rb_iseq_t, aux.loader.obj);
    OFFSET("ISEQ_LOADER_INDEX", rb_iseq_t, aux.loader.index);

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
#if USE_ZJIT
    printf("%zu, ", offsetof(body, zjit_payload));
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
    OFFSET("DEFINITION_ALIASED", rb_method_definition_t, body.alias.original_me);
    OFFSET("DEFINITION_REFINED", rb_method_definition_t, body.refined.orig_me);

    CONSTANT("CALL_CACHE_OWNS", "Flags of a call cache that nothing but call sites refer to.",
             VM_CALLCACHE_SUPER | VM_CALLCACHE_REFINEMENT);
    CONSTANT("CALL_CACHE_OF_REFINEMENT", "The flag of a call cache of a method of a refinement.", VM_CALLCACHE_REFINEMENT);
    CONSTANT("CALL_CACHE_STATIC", "The flag of a call cache that is not in the heap.", VM_CALLCACHE_UNMARKABLE);
    OFFSET("CVAR_CREF", struct rb_cvar_class_tbl_entry, cref);
    OFFSET("CVAR_CLASS", struct rb_cvar_class_tbl_entry, class_value);
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
print_tables_of_classes(void)
{
    OFFSET("ID_TABLE_CAPACITY", struct rb_id_table, capa);
    OFFSET("ID_TABLE_ITEMS", struct rb_id_table, items);
    BYTES("ID_ITEM_BYTES", item_t);
    OFFSET("ID_ITEM_KEY", item_t, key);
    OFFSET("ID_ITEM_VALUE", item_t, val);
    CONSTANT("ID_ITEM_KEY_BYTES", "Bytes of a key, 0 where no item is.", sizeof(id_key_t));

    OFFSET("CONSTANT_VALUE", rb_const_entry_t, value);
    OFFSET("CONSTANT_FILE", rb_const_entry_t, file);
    OFFSET("CALL_CACHES_METHOD", struct rb_class_cc_entries, cme);
    OFFSET("CALL_CACHES_COUNT", struct rb_class_cc_entries, len);
    OFFSET("CALL_CACHES_ENTRIES", struct rb_class_cc_entries, entries);
    BYTES("CALL_CACHES_ENTRY_BYTES", struct rb_class_cc_entries_entry);
    OFFSET("CALL_CACHES_ENTRY_CACHE", struct rb_class_cc_entries_entry, cc);
}

static void
print_data(void)
{
    static struct RTypedData embedded = {EMBEDDED_DATA};

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
    print_tables_of_classes();
    print_data();
    print_layout_of_version();
}

int
main(void)
{
    print_layout();

    const size_t inlined[] = {
        offsetof(struct ashlar_allocation_cache, biased_states),
        offsetof(struct ashlar_allocation_cache, cursors),
        sizeof(struct ashlar_cursor),
        offsetof(struct ashlar_cursor, next),
        offsetof(struct ashlar_cursor, end),
        ASHLAR_WIDTHS,
        offsetof(struct ashlar_payload_cache, first),
        offsetof(struct ashlar_payload_cache, room),
        sizeof(struct ashlar_payload_cache),
        ASHLAR_KINDS,
        ASHLAR_CLASS_BYTES_MAX,
        ASHLAR_FIRST_PAYLOAD_KIND,
        ASHLAR_BLOCK_SHIFT,
        ASHLAR_STATE_SHIFT,
        ASHLAR_CELL_LIVE,
        ASHLAR_CELL_MARKED,
        ASHLAR_CELL_OLD,
        ASHLAR_CELL_AGE_LOW,
        ASHLAR_CELL_AGE_HIGH,
        ASHLAR_CELL_UNPROTECTED,
        ASHLAR_CELL_REMEMBERED,
        ASHLAR_STAGE_IDLE,
        offsetof(struct ashlar_cursor, next_run),
        offsetof(struct ashlar_run, next),
        offsetof(struct ashlar_run, end),
        offsetof(struct ashlar_allocation_cache, bytes_in_runs),
        offsetof(struct ashlar_allocation_cache, allowance_bytes),
        offsetof(struct ashlar_allocation_cache, cells_until_sample),
    };
    printf("/// What `shim/inlined.h` declares, in the order of the heap's `LAYOUT`.\n"
           "pub(crate) const INLINED_LAYOUT: [usize; %zu] = [", sizeof(inlined) / sizeof(*inlined));
    for (size_t i = 0; i < sizeof(inlined) / sizeof(*inlined); i++) printf("%zu, ", inlined[i]);
    printf("];\n");

    printf("/// The Ruby that the library is built for.\n"
           "pub(crate) const RUBY_VERSION: &str = \"%d.%d.%d\";\n",
           RUBY_VERSION_MAJOR, RUBY_VERSION_MINOR, RUBY_VERSION_TEENY);
    return 0;
}
