/* What the module GC has beside the methods that Ruby defines itself. */
#include "ruby/ruby.h"
#include "gc/gc.h"

#include "ashlar_ruby.h"
#include "shim.h"

static VALUE
verify_internal_consistency(VALUE self)
{
    const char *broken = ashlar_verify(rb_gc_get_objspace());
    if (broken) rb_bug("ashlar: heap verification failed: %s", broken);
    return Qnil;
}

static void
set(VALUE hash, const char *name, VALUE value)
{
    rb_hash_aset(hash, ID2SYM(rb_intern(name)), value);
}

/* By the default collector's names: a page is a block, a heap a width. */
static VALUE
internal_constants(void)
{
    struct ashlar_geometry geometry;
    ashlar_geometry(&geometry);
    VALUE constants = rb_hash_new();
    set(constants, "DEBUG", Qfalse);
    set(constants, "BASE_SLOT_SIZE", SIZET2NUM(geometry.base_bytes));
    set(constants, "RVALUE_OVERHEAD", INT2FIX(0));
    set(constants, "HEAP_PAGE_OBJ_LIMIT", SIZET2NUM(geometry.block_bytes / geometry.base_bytes));
    set(constants, "HEAP_PAGE_BITMAP_SIZE", SIZET2NUM(geometry.block_state_bytes));
    set(constants, "HEAP_PAGE_SIZE", SIZET2NUM(geometry.block_bytes));
    set(constants, "HEAP_COUNT", SIZET2NUM(ashlar_width_count()));
    set(constants, "RVARGC_MAX_ALLOCATE_SIZE", SIZET2NUM(ASHLAR_OBJECT_BYTES_MAX));
    set(constants, "RVALUE_OLD_AGE", SIZET2NUM(geometry.collections_to_old));
    return rb_obj_freeze(constants);
}

/* Features that both collectors have, by the default collector's names:
   generations with objects outside the write barrier, and lazy sweeping. */
static VALUE
features(void)
{
    VALUE names = rb_ary_new();
    rb_ary_push(names, rb_interned_str_cstr("USE_RGENGC"));
    rb_ary_push(names, rb_interned_str_cstr("GC_ENABLE_LAZY_SWEEP"));
    return rb_obj_freeze(names);
}

void
ashlar_define_gc_methods(void)
{
    rb_define_const(rb_mGC, "INTERNAL_CONSTANTS", internal_constants());
    rb_define_const(rb_mGC, "OPTS", features());
    rb_define_singleton_method(rb_mGC, "verify_internal_consistency", verify_internal_consistency, 0);
    rb_define_singleton_method(rb_mGC, "compact", rb_f_notimplement, 0);
    rb_define_singleton_method(rb_mGC, "auto_compact", rb_f_notimplement, 0);
    rb_define_singleton_method(rb_mGC, "auto_compact=", rb_f_notimplement, 1);
    rb_define_singleton_method(rb_mGC, "latest_compact_info", rb_f_notimplement, 0);
    rb_define_singleton_method(rb_mGC, "verify_compaction_references", rb_f_notimplement, -1);
    ashlar_define_profiler();
}
