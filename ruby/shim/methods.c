/* Constants and methods of the module GC besides the methods that Ruby itself
   defines. */
#include "ruby/ruby.h"
#include "gc/gc.h"

#include "ashlar_ruby.h"
#include "inlined.h"
#include "shim.h"

static VALUE
verify_internal_consistency(VALUE self)
{
    char *broken = ashlar_verify(ashlar_objspace());
    if (broken) rb_bug("ashlar: heap verification failed: %s", broken);
    return Qnil;
}

static void
set(VALUE hash, const char *name, VALUE value)
{
    rb_hash_aset(hash, ID2SYM(rb_intern(name)), value);
}

/* ── Compaction ──────────────────────────────────────────────────────────── */

/* Returns a hash of the counts by the name of the type, without those that are 0. */
static VALUE
by_type(const uint64_t *counts)
{
    VALUE hash = rb_hash_new();
    for (size_t type = 0; type < ASHLAR_TYPES; type++) {
        if (counts[type]) rb_hash_aset(hash, type_sym(type), ULL2NUM(counts[type]));
    }
    return hash;
}

static VALUE
latest_compact_info(VALUE self)
{
    struct ashlar_compaction latest;
    ashlar_latest_compaction(ashlar_objspace(), &latest);
    VALUE info = rb_hash_new();
    set(info, "considered", by_type(latest.considered));
    set(info, "moved", by_type(latest.moved));
    set(info, "moved_up", by_type(latest.moved_up));
    set(info, "moved_down", by_type(latest.moved_down));
    return info;
}

static VALUE
compact(VALUE self)
{
    ashlar_collect_and_compact(ashlar_objspace());
    return latest_compact_info(self);
}

static VALUE
auto_compact(VALUE self)
{
    return RBOOL(ashlar_is_on(&ashlar_knobs.auto_compact));
}

static VALUE
set_auto_compact(VALUE self, VALUE on)
{
    ashlar_turn(&ashlar_knobs.auto_compact, RTEST(on));
    return on;
}

/* Moves every object that may move, and looks for references to old addresses. The
   keywords say how the default collector makes room for the moves; here there is always
   room. */
static VALUE
verify_compaction_references(int argc, VALUE *argv, VALUE self)
{
    static ID keywords[3];
    if (!keywords[0]) {
        keywords[0] = rb_intern("toward");
        keywords[1] = rb_intern("double_heap");
        keywords[2] = rb_intern("expand_heap");
    }
    VALUE options, values[3];
    rb_scan_args_kw(rb_keyword_given_p(), argc, argv, ":", &options);
    rb_get_kwargs(options, keywords, 0, 3, values);
    ashlar_compact(ashlar_objspace(), true);
    verify_internal_consistency(self);
    return latest_compact_info(self);
}

/* The constants by the default collector's names: a page is a block, a heap is a
   width. */
static VALUE
internal_constants(void)
{
    size_t block_bytes = (size_t)1 << ASHLAR_BLOCK_SHIFT, base_bytes = ashlar_widths_bytes[ASHLAR_FIVE_WORDS];
    VALUE constants = rb_hash_new();
    set(constants, "DEBUG", Qfalse);
    set(constants, "BASE_SLOT_SIZE", SIZET2NUM(base_bytes));
    set(constants, "RBASIC_SIZE", SIZET2NUM(sizeof(struct RBasic))); /* of stock from Ruby 4.0 on */
    set(constants, "RVALUE_OVERHEAD", INT2FIX(0));
    set(constants, "HEAP_PAGE_OBJ_LIMIT", SIZET2NUM(block_bytes / base_bytes));
    set(constants, "HEAP_PAGE_BITMAP_SIZE", SIZET2NUM(block_bytes >> ASHLAR_STATE_SHIFT));
    set(constants, "HEAP_PAGE_SIZE", SIZET2NUM(block_bytes));
    set(constants, "HEAP_COUNT", INT2FIX(ASHLAR_WIDTHS));
    set(constants, "RVARGC_MAX_ALLOCATE_SIZE", SIZET2NUM(ASHLAR_WIDEST_BYTES));
    set(constants, "RVALUE_OLD_AGE", INT2FIX(ASHLAR_COLLECTIONS_TO_OLD));
    return rb_obj_freeze(constants);
}

/* Features that both collectors have, by the default collector's names:
   generations with objects outside the write barrier, lazy sweeping, and
   compaction. */
static VALUE
features(void)
{
    VALUE names = rb_ary_new();
    rb_ary_push(names, rb_interned_str_cstr("USE_RGENGC"));
    rb_ary_push(names, rb_interned_str_cstr("GC_ENABLE_LAZY_SWEEP"));
    rb_ary_push(names, rb_interned_str_cstr("GC_COMPACTION_SUPPORTED"));
    return rb_obj_freeze(names);
}

void
ashlar_define_gc_methods(void)
{
    rb_define_const(rb_mGC, "INTERNAL_CONSTANTS", internal_constants());
    rb_define_const(rb_mGC, "OPTS", features());
    rb_define_singleton_method(rb_mGC, "verify_internal_consistency", verify_internal_consistency, 0);
    rb_define_singleton_method(rb_mGC, "compact", compact, 0);
    rb_define_singleton_method(rb_mGC, "auto_compact", auto_compact, 0);
    rb_define_singleton_method(rb_mGC, "auto_compact=", set_auto_compact, 1);
    rb_define_singleton_method(rb_mGC, "latest_compact_info", latest_compact_info, 0);
    rb_define_singleton_method(rb_mGC, "verify_compaction_references", verify_compaction_references, -1);
    ashlar_define_profiler();
}
