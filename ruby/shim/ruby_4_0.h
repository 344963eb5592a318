/*
 * What is different in Ruby 4.0 from other versions, each of which has a file like this one;
 * ruby_version.h chooses.
 *
 * Two programs include this file. For gc_impl.c it has the functions of gc_impl.h that take
 * other arguments in other versions, or do not exist there. For layout.c, which defines
 * ASHLAR_LAYOUT, it says where Ruby's objects keep their data.
 */
#ifndef ASHLAR_LAYOUT

#include "shape.h"

/* ── Ruby's functions that the collector calls ───────────────────────────── */

static void *
shape_by_id(uint32_t id)
{
    return &rb_shape_tree.shape_list[id & SHAPE_ID_OFFSET_MASK];
}

/* Does nothing: the table of generic variables is updated when all objects have moved. */
static void
move_generic_variables(VALUE from, VALUE to)
{
}

static void
begin_updating(void)
{
    rb_gc_before_updating_jit_code();
}

static int
has_moved(VALUE value, void *objspace)
{
    return ashlar_has_moved(objspace, value) ? ST_REPLACE : ST_CONTINUE;
}

static int
follow(VALUE *value, void *objspace)
{
    *value = ashlar_location(objspace, *value);
    return ST_CONTINUE;
}

static void
update_vm(void *objspace)
{
    rb_gc_update_vm_references(objspace);
    for (int table = 0; table < RB_GC_VM_WEAK_TABLE_COUNT; table++) {
        rb_gc_vm_weak_table_foreach(has_moved, follow, objspace, false, table);
    }
    rb_gc_after_updating_jit_code();
}

/* Ruby shows this to a collector inside it alone. */
VALUE rb_gccct_clear_table(VALUE unused) __attribute__((weak));

static void
forget_called_methods(void)
{
    if (rb_gccct_clear_table) rb_gccct_clear_table(Qnil);
}

/* ── Ruby code before a fork ───────────────────────────────────────────────── */

/* Ruby stops its timer thread before it tells of a fork. Without the timer a thread that gets the lock is never asked to
   give it back, and a fork in a finalizer waits once more for a thread that has ended. So the timer runs while Ruby code
   does. Only a Ruby with Ashlar inside shows these two functions to the collector. */
void rb_thread_start_timer_thread(void) __attribute__((weak));
void rb_thread_stop_timer_thread(void) __attribute__((weak));

static bool
begin_ruby_code(void)
{
    if (!rb_thread_start_timer_thread) return false;
    rb_thread_start_timer_thread();
    return true;
}

static void
end_ruby_code(void)
{
    rb_thread_stop_timer_thread();
}

/* ── Widths ────────────────────────────────────────────────────────────────── */

#include "object_widths_4_0.h"

size_t *
rb_gc_impl_heap_sizes(void *objspace)
{
    return (size_t *)object_widths;
}

/* Plain objects that ask for more than the widest width have their variables elsewhere. */
size_t
rb_gc_impl_heap_id_for_size(void *objspace, size_t size)
{
    return size <= OBJECT_WIDEST_BYTES ? object_width_of_words[(size + 7) >> 3] : 0;
}

static uint32_t
shape_in_width(VALUE object, size_t width_index)
{
    for (size_t id = 0; object_widths[id]; id++) {
        if (object_widths[id] == ashlar_widths_bytes[width_index]) return rb_gc_rebuild_shape(object, id);
    }
    return 0;
}

/* ── Object allocation ───────────────────────────────────────────────────── */

/* Not inlined: inlined, it would take registers that every new object would have to save. */
__attribute__((noinline))
static VALUE
new_object_slowly(void *cache, VALUE klass, VALUE flags, bool wb_protected, size_t size)
{
    VALUE object = ashlar_take_cell_of_next_run(cache, klass, flags, wb_protected, size);
    if (ASHLAR_LIKELY(object)) return object;
    return new_object_of_heap(cache, klass, flags, wb_protected, size);
}

VALUE
rb_gc_impl_new_obj(void *objspace, void *cache, VALUE klass, VALUE flags, bool wb_protected, size_t alloc_size)
{
    if ((flags & T_MASK) == T_OBJECT) alloc_size = object_widths[rb_gc_impl_heap_id_for_size(objspace, alloc_size)];
    VALUE object = ashlar_take_cell(cache, klass, flags, wb_protected, alloc_size);
    if (ASHLAR_LIKELY(object)) return object;
    return new_object_slowly(cache, klass, flags, wb_protected, alloc_size);
}

/* ── Malloc ──────────────────────────────────────────────────────────────── */

void *
rb_gc_impl_malloc(void *objspace, size_t size, bool gc_allowed)
{
    return new_payload(size, gc_allowed);
}

void *
rb_gc_impl_calloc(void *objspace, size_t size, bool gc_allowed)
{
    return new_clear_payload(size, gc_allowed);
}

void *
rb_gc_impl_realloc(void *objspace, void *ptr, size_t new_size, size_t old_size, bool gc_allowed)
{
    return resized_payload(ptr, new_size, gc_allowed);
}

/* ── Finalizers ──────────────────────────────────────────────────────────── */

/* The index of the first finalizer in an object's array: after the object's id. */
#define FIRST_FINALIZER 1

static VALUE
new_finalizers(VALUE object, VALUE finalizer)
{
    return rb_ary_new_from_args(2, rb_obj_id(object), finalizer);
}

static VALUE
finalizers_of_copy(VALUE finalizers, VALUE copy)
{
    VALUE copied = rb_ary_dup(finalizers);
    rb_ary_store(copied, 0, rb_obj_id(copy));
    rb_obj_hide(copied);
    return copied;
}

static VALUE
finalized_id(const struct ashlar_job *job)
{
    return RARRAY_AREF(job->finalizers, 0);
}

static void
before_finalizers_at_exit(void *objspace, VALUE object)
{
}

/* What an object's finalizers have defined for it is not run, so that a finalizer may define itself anew. */
static void
after_finalizers_at_exit(void *objspace, VALUE object)
{
    rb_gc_impl_undefine_finalizer(objspace, object);
}

/* ── Miscellaneous ─────────────────────────────────────────────────────────── */

/* How many collections an object has survived, up to the number that makes it old. */
static VALUE
age_in(unsigned int state)
{
    if (state & ASHLAR_CELL_OLD) return INT2FIX(ASHLAR_COLLECTIONS_TO_OLD);
    return INT2FIX(state & ASHLAR_CELL_AGE_HIGH ? 2 : state & ASHLAR_CELL_AGE_LOW ? 1 : 0);
}

struct rb_gc_object_metadata_entry *
rb_gc_impl_object_metadata(void *objspace, VALUE obj)
{
    static struct rb_gc_object_metadata_entry entries[11];
    unsigned int state = ashlar_cell_state(objspace, obj);
    size_t count = 0;
#define SHOW(key, on, value) \
    if (on) entries[count++] = (struct rb_gc_object_metadata_entry){ .name = rb_intern_const(key), .val = (value) }
    SHOW("wb_protected", !(state & ASHLAR_CELL_UNPROTECTED), Qtrue);
    SHOW("age", true, age_in(state));
    SHOW("old", state & ASHLAR_CELL_OLD, Qtrue);
    SHOW("uncollectible", state & ASHLAR_CELL_OLD, Qtrue);
    SHOW("marking", ashlar_during_gc() && (state & ASHLAR_CELL_MARKED), Qtrue);
    SHOW("marked", state & (ASHLAR_CELL_MARKED | ASHLAR_CELL_AGE_LOW), Qtrue);
    SHOW("pinned", state & ASHLAR_CELL_PINNED, Qtrue);
    SHOW("remembered", state & ASHLAR_CELL_REMEMBERED, Qtrue);
    SHOW("object_id", rb_obj_id_p(obj), rb_obj_id(obj));
    SHOW("shareable", FL_TEST(obj, FL_SHAREABLE), Qtrue);
#undef SHOW
    entries[count].name = 0;
    entries[count].val = 0;
    return entries;
}

#ifndef BUILDING_MODULAR_GC
/* ── Inside gc.c ─────────────────────────────────────────────────────────── */

typedef struct rb_objspace rb_objspace_t; /* gc.c passes pointers to it on */

#define NEWOBJ_PARAMETERS rb_ractor_t *, VALUE, VALUE, shape_id_t, bool, size_t
#define UNPROTECTED_NEWOBJ_PARAMETERS VALUE, VALUE, shape_id_t, size_t
#define lock_for_new_object() RB_GC_VM_LOCK_NO_BARRIER()
#define unlock_for_new_object(level) RB_GC_VM_UNLOCK_NO_BARRIER(level)
#endif

#else /* ASHLAR_LAYOUT */

#include "object_widths_4_0.h"

#define OBJECT_VARIABLES as.heap.fields
#define SHAPE_VARIABLES next_field_index
#define CLASS_WITH_SUPER struct RClass_and_rb_classext_t
#define SUPER classext.super
#define EMBEDDED_DATA .type = TYPED_DATA_EMBEDDED
#define NAMED_OF_VERSION NAMED(cvar_entry); NAMED(fields);

static void
print_object_widths(void)
{
    printf("/// Widths of plain objects in bytes, in ascending order.\n"
           "pub(crate) const OBJECT_WIDTHS: &[usize] = &[");
    for (const size_t *bytes = object_widths; *bytes; bytes++) printf("%zu, ", *bytes);
    printf("];\n");
}

static void
print_classes(void)
{
    typedef struct RClass_and_rb_classext_t both;

    CONSTANT("CLASS_BOXABLE", "A class that may have a table for each box.", RCLASS_BOXABLE);
    OFFSET("CLASS_BOX_TABLES", struct RClass_boxable, box_classext_tbl);
    OFFSET("CLASS_BOX", both, classext.box);
    OFFSET("BOX_IS_USER", rb_box_t, is_user);
    OFFSET("CLASS_METHODS", both, classext.m_tbl);
    OFFSET("CLASS_FIELDS", both, classext.fields_obj);
    OFFSET("CLASS_CONSTANTS", both, classext.const_tbl);
    BITS("CLASS_SHARES_CONSTANTS", both, classext.shared_const_tbl, 1);
    OFFSET("CLASS_CALLABLE_METHODS", both, classext.callable_m_tbl);
    OFFSET("CLASS_CALL_CACHES", both, classext.cc_tbl);
    OFFSET("CLASS_VARIABLE_CACHES", both, classext.cvc_tbl);
    OFFSET("CLASS_INCLUDER", both, classext.as.iclass.includer);
    BITS("ICLASS_IS_ORIGIN", both, classext.iclass_is_origin, 1);
    BITS("ICLASS_SHARES_METHODS", both, classext.iclass_origin_shared_mtbl, 1);
}

static void
print_layout_of_version(void)
{
    print_classes();
    /* An object's id is among its variables, and the shape says whether there is one. */
    CONSTANT("FL_SEEN_OBJ_ID", "The flag of an object that the collector gave an id to: none.", 0);
    FLAG(ROBJECT_HEAP);
    CONSTANT("SHAPE_OFFSET_MASK", "The bits of a shape that number it; 0 without variables and without an id.", SHAPE_ID_OFFSET_MASK);
    CONSTANT("SHAPE_TOO_COMPLEX", "The bit of a shape of objects with a table of variables.", SHAPE_ID_FL_TOO_COMPLEX);
    CONSTANT("SHAPE_HAS_OBJECT_ID", "The bit of a shape of objects that have an id.", SHAPE_ID_FL_HAS_OBJECT_ID);
    CONSTANT("STRUCT_GENERIC_FIELDS", "A struct whose variables are in Ruby's table, if there are some.", RSTRUCT_GEN_FIELDS);
    CONSTANT("DATA_IS_TYPED", "Data of C that has a type.", RUBY_TYPED_FL_IS_TYPED_DATA);
    OFFSET("DATA_FIELDS", struct RTypedData, fields_obj);
    OFFSET("SYMBOL_STRING", struct RSymbol, fstr);
    KIND(CVAR_ENTRY, imemo_cvar_entry); KIND(FIELDS, imemo_fields);
    CONSTANT("FRAME_KIND_MASK", "The bits of a frame's flags that say what it is of.", VM_FRAME_MAGIC_MASK);
    CONSTANT("FRAME_OF_CLASS", "Those of a class's body.", VM_FRAME_MAGIC_CLASS);
    CONSTANT("FRAME_OF_FILE", "Those of a file.", VM_FRAME_MAGIC_TOP);
    print_object_widths();
}

#endif
