/*
 * Prints, as Rust constants, the parts of Ruby's object layout that the
 * collector reads without calling Ruby. Compiled and run while building, so
 * the numbers always are those of the Ruby that the library is built for.
 */
#include <stdio.h>
#include <stddef.h>

#include "ruby/ruby.h"
#include "version.h"
#include "internal.h"
#include "internal/array.h"
#include "internal/bignum.h"
#include "internal/class.h"
#include "internal/hash.h"
#include "internal/imemo.h"
#include "internal/struct.h"
#include "internal/string.h"
#include "internal/object.h"
#include "iseq.h"
#include "vm_core.h"
#include "shape.h"
#include "ruby/st.h"

#include "inlined.h"

#define CONSTANT(name, meaning, value)                                              \
    printf("/// %s\npub(crate) const " name ": usize = %#lx;\n", meaning,           \
           (unsigned long)(value))
#define FLAG(flag) CONSTANT(#flag, "Ruby's flag of this name.", flag)
#define TYPE(type) CONSTANT(#type, "Ruby's type of this name.", type)
#define KIND(name, kind) CONSTANT("IMEMO_" #name, "Ruby's kind of this name.", kind)
#define NAMED(kind) printf("(%d, \"" #kind "\", \"(internal " #kind ")\"), ", imemo_##kind)
#define OFFSET(name, type, member)                                                  \
    CONSTANT(name, "Offset of `" #member "` in `struct " #type "`, in bytes.",      \
             offsetof(struct type, member))

void print_code_layout(void); /* layout_code.c */

int
main(void)
{
    CONSTANT("T_MASK", "Where an object's flags hold its type.", T_MASK);
    TYPE(T_OBJECT); TYPE(T_CLASS); TYPE(T_MODULE); TYPE(T_ICLASS); TYPE(T_FLOAT);
    TYPE(T_STRING); TYPE(T_REGEXP); TYPE(T_ARRAY); TYPE(T_HASH); TYPE(T_STRUCT);
    TYPE(T_BIGNUM); TYPE(T_FILE); TYPE(T_DATA); TYPE(T_MATCH); TYPE(T_COMPLEX);
    TYPE(T_RATIONAL); TYPE(T_SYMBOL); TYPE(T_IMEMO); TYPE(T_ZOMBIE);
    TYPE(T_MOVED);

    FLAG(FL_EXIVAR); FLAG(FL_FINALIZE); FLAG(FL_SEEN_OBJ_ID); FLAG(FL_WB_PROTECTED);
    FLAG(FL_PROMOTED); FLAG(FL_FREEZE); FLAG(ELTS_SHARED);
    OFFSET("KLASS", RBasic, klass);

    CONSTANT("STR_NOEMBED", "A string whose bytes are elsewhere.", FL_USER1);
    CONSTANT("STR_NOFREE", "A string that does not own its bytes.", FL_USER18);
    CONSTANT("STR_TMPLOCK", "A string that C code has locked.", FL_USER7);
    CONSTANT("STR_FSTR", "A string in the table of unique strings.", RSTRING_FSTR);
    OFFSET("STR_LEN", RString, len);
    OFFSET("STR_PTR", RString, as.heap.ptr);
    OFFSET("STR_SHARED_ROOT", RString, as.heap.aux.shared);
    OFFSET("STR_EMBEDDED", RString, as.embed.ary);

    FLAG(RARRAY_EMBED_FLAG); FLAG(RARRAY_EMBED_LEN_MASK); FLAG(RARRAY_EMBED_LEN_SHIFT);
    OFFSET("ARRAY_LEN", RArray, as.heap.len);
    OFFSET("ARRAY_PTR", RArray, as.heap.ptr);
    OFFSET("ARRAY_SHARED_ROOT", RArray, as.heap.aux.shared_root);
    OFFSET("ARRAY_EMBEDDED", RArray, as.ary);

    FLAG(ROBJECT_EMBED);
    OFFSET("OBJECT_EMBEDDED", RObject, as.ary);
    OFFSET("OBJECT_PTR", RObject, as.heap.ivptr);
    CONSTANT("SHAPE_SHIFT", "Where an object's flags hold its shape.", SHAPE_FLAG_SHIFT);
    CONSTANT("TOO_COMPLEX_SHAPE", "The shape of objects with a table of variables.",
             OBJ_TOO_COMPLEX_SHAPE_ID);
    OFFSET("SHAPE_IV_COUNT", rb_shape, next_iv_index);
    CONSTANT("SHAPE_IV_COUNT_BYTES", "Bytes of a count of variables.", sizeof(attr_index_t));
    CONSTANT("CLASS_MAX_IV_COUNT", "Offset of a class's `max_iv_count`, in bytes.",
             offsetof(struct RClass_and_rb_classext_t, classext.max_iv_count));
    CONSTANT("CLASS_MAX_IV_COUNT_BYTES", "Bytes of a class's `max_iv_count`.",
             sizeof(((struct RClass_and_rb_classext_t *)0)->classext.max_iv_count));

    FLAG(FL_SINGLETON);
    OFFSET("CLASS_SUPER", RClass, super);
    OFFSET("CLASS_PATH", RClass_and_rb_classext_t, classext.classpath);
    OFFSET("CLASS_ATTACHED", RClass_and_rb_classext_t, classext.as.singleton_class.attached_object);

    OFFSET("DATA_TYPE", RTypedData, type);
    OFFSET("DATA_TYPED", RTypedData, typed_flag);
    OFFSET("DATA_PTR", RTypedData, data);
    OFFSET("DATA_TYPE_NAME", rb_data_type_struct, wrap_struct_name);

    OFFSET("ISEQ_BODY", rb_iseq_struct, body);
    OFFSET("ISEQ_PATH", rb_iseq_constant_body, location.pathobj);
    OFFSET("ISEQ_LABEL", rb_iseq_constant_body, location.label);
    OFFSET("ISEQ_LINE", rb_iseq_constant_body, location.first_lineno);

    FLAG(RHASH_ST_TABLE_FLAG);
    CONSTANT("HASH_AR_BOUND_SHIFT", "Where a hash's flags hold its entry count.",
             RHASH_AR_TABLE_BOUND_SHIFT);
    CONSTANT("HASH_AR_BOUND_MASK", "Bits of a hash's entry count.",
             (VALUE)RHASH_AR_TABLE_BOUND_MASK >> RHASH_AR_TABLE_BOUND_SHIFT);
    OFFSET("HASH_DEFAULT", RHash, ifnone);
    CONSTANT("HASH_AR_PAIRS", "Offset of a small hash's pairs, in bytes.",
             sizeof(struct RHash) + offsetof(ar_table, pairs));
    CONSTANT("HASH_ST_ENTRIES", "Offset of a large hash's entry pointer, in bytes.",
             sizeof(struct RHash) + offsetof(struct st_table, entries));
    CONSTANT("HASH_ST_START", "Offset of a large hash's first entry number, in bytes.",
             sizeof(struct RHash) + offsetof(struct st_table, entries_start));
    CONSTANT("HASH_ST_BOUND", "Offset of a large hash's entry limit, in bytes.",
             sizeof(struct RHash) + offsetof(struct st_table, entries_bound));

    FLAG(RSTRUCT_EMBED_LEN_MASK); FLAG(RSTRUCT_EMBED_LEN_SHIFT);
    OFFSET("STRUCT_LEN", RStruct, as.heap.len);
    OFFSET("STRUCT_PTR", RStruct, as.heap.ptr);
    OFFSET("STRUCT_EMBEDDED", RStruct, as.ary);

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

    print_code_layout();

    const size_t inlined[] = {
        offsetof(struct ashlar_allocation_cache, biased_states),
        offsetof(struct ashlar_allocation_cache, cursors),
        sizeof(struct ashlar_cursor),
        offsetof(struct ashlar_cursor, next),
        offsetof(struct ashlar_cursor, end),
        ASHLAR_WIDTHS,
        offsetof(struct ashlar_payload_cache, lists),
        sizeof(struct ashlar_free_list),
        offsetof(struct ashlar_free_list, first),
        offsetof(struct ashlar_free_list, room),
        ASHLAR_CLASSES,
        ASHLAR_CLASS_BYTES_MAX,
        ASHLAR_FIRST_PAYLOAD_KIND,
        ASHLAR_BLOCK_SHIFT,
        ASHLAR_STATE_SHIFT,
        ASHLAR_CELL_LIVE,
        ASHLAR_CELL_MARKED,
        ASHLAR_CELL_OLD,
        ASHLAR_CELL_AGED,
        ASHLAR_CELL_AGED_TWICE,
        ASHLAR_CELL_UNPROTECTED,
        ASHLAR_CELL_REMEMBERED,
        ASHLAR_STAGE_IDLE,
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
