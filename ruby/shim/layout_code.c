/*
 * Prints, as Rust constants, where Ruby's code objects keep their references:
 * instruction sequences, methods, classes and their tables, procs. A part of the
 * probe that layout.c is: compiled and run while building.
 *
 * The struct of a table by id is in a source file of Ruby's and in no header, so
 * that file is compiled into the probe.
 */
#include <stdio.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ruby/ruby.h"
#include "ruby/re.h"
#include "internal.h"
#include "internal/class.h"
#include "internal/imemo.h"
#include "constant.h"
#include "iseq.h"
#include "method.h"
#include "symbol.h"
#include "vm_callinfo.h"
#include "vm_core.h"

#include "id_table.c"

#define CONSTANT(name, meaning, value)                                              \
    printf("/// %s\npub(crate) const " name ": usize = %#lx;\n", meaning,           \
           (unsigned long)(value))
#define FLAG(name, flag) CONSTANT(name, "Ruby's flag `" #flag "`.", flag)
#define OFFSET(name, type, member)                                                  \
    CONSTANT(name, "Offset of `" #member "` in `" #type "`, in bytes.",             \
             offsetof(type, member))
#define BYTES(name, type) CONSTANT(name, "Bytes of `" #type "`.", sizeof(type))
/* A field of bits: the offset of the 32 bits that it is in, and which of them. */
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

static void
print_instruction_sequences(void)
{
    typedef struct rb_iseq_constant_body body;

    FLAG("ISEQ_NOT_LOADED_YET", ISEQ_NOT_LOADED_YET);
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
    FLAG("DATA_EMBEDDED_FLAG", TYPED_DATA_EMBEDDED);
    CONSTANT("DATA_EMBEDDED", "Offset of embedded data, in bytes.",
             (char *)RTYPEDDATA_GET_DATA((VALUE)&embedded) - (char *)&embedded);
    OFFSET("DATA_TYPE_MARK", rb_data_type_t, function.dmark);
    OFFSET("DATA_TYPE_FLAGS", rb_data_type_t, flags);
    FLAG("DATA_TYPE_DECLARES", RUBY_TYPED_DECL_MARKING);
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

void
print_code_layout(void)
{
    print_instruction_sequences();
    print_methods();
    print_classes();
    print_data();
}
