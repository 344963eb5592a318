/*
 * What is different in Ruby 3.4 from other versions, each of which has a file like this one;
 * ruby_version.h chooses.
 *
 * Two programs include this file. For gc_impl.c it has the functions of gc_impl.h that take other
 * arguments in other versions, or do not exist there. For layout.c, which defines ASHLAR_LAYOUT, it
 * says where Ruby's objects keep their data.
 */
#ifndef ASHLAR_LAYOUT

extern void rb_mv_generic_ivar(VALUE from, VALUE to);
#ifdef BUILDING_MODULAR_GC
extern void *rb_shape_get_shape_by_id(uint32_t shape_id);
#endif

/* ── Ruby's functions that the collector calls ───────────────────────────── */

/* Under the names that they have in 4.0. */
#define RB_GC_VM_LOCK() rb_gc_vm_lock()
#define RB_GC_VM_UNLOCK(level) rb_gc_vm_unlock(level)
#define RB_GC_VM_LOCK_NO_BARRIER() rb_gc_vm_lock_no_barrier()
#define RB_GC_VM_UNLOCK_NO_BARRIER(level) rb_gc_vm_unlock_no_barrier(level)

static void *
shape_by_id(uint32_t id)
{
    return rb_shape_get_shape_by_id(id);
}

static uint32_t
shape_in_width(VALUE object, size_t width_index)
{
    return rb_gc_rebuild_shape(object, width_index);
}

static void
move_generic_variables(VALUE from, VALUE to)
{
    rb_mv_generic_ivar(from, to);
}

static void
begin_updating(void)
{
}

static void
update_vm(void *objspace)
{
    rb_gc_update_vm_references(objspace);
}

/* Here call caches keep no class. */
static void
forget_called_methods(void)
{
}

/* ── Ruby code before a fork: nothing has been stopped for it yet ──────────── */

static bool
begin_ruby_code(void)
{
    return true;
}

static void
end_ruby_code(void)
{
}

/* ── Widths ────────────────────────────────────────────────────────────────── */

size_t *
rb_gc_impl_heap_sizes(void *objspace)
{
    return (size_t *)ashlar_object_widths;
}

/* ── Object allocation ───────────────────────────────────────────────────── */

/* Writes the next three words of an object, as Ruby passes them; the narrowest cells have room for
   two. */
static VALUE
fill(VALUE object, VALUE v1, VALUE v2, VALUE v3)
{
    VALUE *words = (VALUE *)object;
    words[2] = v1;
    words[3] = v2;
    if (ashlar_width_of(object) > ASHLAR_NARROWEST_BYTES) words[4] = v3;
    return object;
}

/* Writes these three words into a cell of five words or more. */
static inline VALUE
fill_wide(VALUE object, VALUE v1, VALUE v2, VALUE v3)
{
    VALUE *words = (VALUE *)object;
    words[2] = v1;
    words[3] = v2;
    words[4] = v3;
    return object;
}

/* Not inlined: inlined, it would take registers that every new object would have to save. */
__attribute__((noinline))
static VALUE
new_object_slowly(void *cache, VALUE klass, VALUE flags, VALUE v1, VALUE v2, VALUE v3, bool wb_protected, size_t size)
{
    VALUE object = ashlar_take_cell_of_next_run(cache, klass, flags, wb_protected, size);
    if (ASHLAR_LIKELY(object)) return fill_wide(object, v1, v2, v3);
    return fill(new_object_of_heap(cache, klass, flags, wb_protected, size), v1, v2, v3);
}

VALUE
rb_gc_impl_new_obj(void *objspace, void *cache, VALUE klass, VALUE flags, VALUE v1, VALUE v2, VALUE v3,
                   bool wb_protected, size_t alloc_size)
{
    VALUE object = ashlar_take_cell(cache, klass, flags, wb_protected, alloc_size);
    if (ASHLAR_LIKELY(object)) return fill_wide(object, v1, v2, v3);
    return new_object_slowly(cache, klass, flags, v1, v2, v3, wb_protected, alloc_size);
}

size_t
rb_gc_impl_heap_id_for_size(void *objspace, size_t size)
{
    return size <= ASHLAR_WIDEST_BYTES ? ashlar_width_of_words[(size + 7) >> 3] : 0;
}

/* ── Malloc ──────────────────────────────────────────────────────────────── */

void *
rb_gc_impl_malloc(void *objspace, size_t size)
{
    return new_payload(size, true);
}

void *
rb_gc_impl_calloc(void *objspace, size_t size)
{
    return new_clear_payload(size, true);
}

void *
rb_gc_impl_realloc(void *objspace, void *ptr, size_t new_size, size_t old_size)
{
    return resized_payload(ptr, new_size, true);
}

/* ── Object id ───────────────────────────────────────────────────────────── */

/* 0 when there is no memory. */
static uint64_t
id_of(void *objspace, VALUE object)
{
    bool fresh;
    unsigned int level = rb_gc_vm_lock();
    uint64_t id = ashlar_object_id(objspace, object, &fresh);
    if (fresh) FL_SET(object, FL_SEEN_OBJ_ID);
    rb_gc_vm_unlock(level);
    return id;
}

VALUE
rb_gc_impl_object_id(void *objspace, VALUE obj)
{
    uint64_t id = id_of(objspace, obj);
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

/* ── Finalizers ──────────────────────────────────────────────────────────── */

/* The index of the first finalizer in an object's array. */
#define FIRST_FINALIZER 0

static VALUE
new_finalizers(VALUE object, VALUE finalizer)
{
    return rb_ary_new_from_args(1, finalizer);
}

/* The original and the copy share the array, and so also what is defined later. */
static VALUE
finalizers_of_copy(VALUE finalizers, VALUE copy)
{
    return finalizers;
}

static VALUE
finalized_id(const struct ashlar_job *job)
{
    return ULL2NUM(job->object_id);
}

/* The id that its finalizers get stays the object's, if there is memory for that. */
static void
before_finalizers_at_exit(void *objspace, VALUE object)
{
    id_of(objspace, object);
}

static void
after_finalizers_at_exit(void *objspace, VALUE object)
{
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
    SHOW("marked", state & (ASHLAR_CELL_MARKED | ASHLAR_CELL_AGE_LOW));
    SHOW("pinned", state & ASHLAR_CELL_PINNED);
#undef SHOW
    return count;
}

#ifndef BUILDING_MODULAR_GC
/* ── Inside gc.c ─────────────────────────────────────────────────────────── */

#define NEWOBJ_PARAMETERS rb_ractor_t *, VALUE, VALUE, VALUE, VALUE, VALUE, bool, size_t
#define UNPROTECTED_NEWOBJ_PARAMETERS VALUE, VALUE, size_t

static unsigned int
lock_for_new_object(void)
{
    unsigned int level;
    RB_VM_LOCK_ENTER_CR_LEV(GET_RACTOR(), &level);
    return level;
}

static void
unlock_for_new_object(unsigned int level)
{
    RB_VM_LOCK_LEAVE_CR_LEV(GET_RACTOR(), &level);
}
#endif

#else /* ASHLAR_LAYOUT */

#define OBJECT_VARIABLES as.heap.ivptr
#define SHAPE_VARIABLES next_iv_index
#define CLASS_WITH_SUPER struct RClass
#define SUPER super
#define EMBEDDED_DATA .typed_flag = 1 | TYPED_DATA_EMBEDDED
#define NAMED_OF_VERSION NAMED(ast); NAMED(parser_strterm);

static void
print_classes(void)
{
    typedef struct RClass_and_rb_classext_t both;

    CONSTANT("ICLASS_METHODS_MASK", "Flags that say who owns the methods of an inclusion.",
             RICLASS_IS_ORIGIN | RICLASS_ORIGIN_SHARED_MTBL);
    CONSTANT("ICLASS_OWNS_METHODS", "The one of these flags that an inclusion with methods of its own has.", RICLASS_IS_ORIGIN);
    OFFSET("CLASS_METHODS", both, rclass.m_tbl);
    OFFSET("CLASS_VARIABLES", both, classext.iv_ptr);
    OFFSET("CLASS_CONSTANTS", both, classext.const_tbl);
    OFFSET("CLASS_CALLABLE_METHODS", both, classext.callable_m_tbl);
    OFFSET("CLASS_CALL_CACHES", both, classext.cc_tbl);
    OFFSET("CLASS_VARIABLE_CACHES", both, classext.cvc_tbl);
    OFFSET("CLASS_INCLUDER", both, classext.includer);
}

static void
print_layout_of_version(void)
{
    FLAG(FL_EXIVAR); FLAG(FL_SEEN_OBJ_ID); FLAG(ROBJECT_EMBED);
    CONSTANT("TOO_COMPLEX_SHAPE", "The shape of objects with a table of variables.",
             OBJ_TOO_COMPLEX_SHAPE_ID);
    OFFSET("DATA_TYPED", struct RTypedData, typed_flag);
    CONSTANT("DATA_TYPED_FLAG_MAX", "More than this is the address of a function, in data without a type.", 3);
    OFFSET("ISEQ_LOCAL_HOOKS", rb_iseq_t, aux.exec.local_hooks);
    OFFSET("DEFINITION_HOOKS", rb_method_definition_t, body.bmethod.hooks);
    print_classes();
}

#endif
