/*
 * Found by Ruby's gc.c in the place of its own gc/default/default.c: Ashlar
 * as the collector that Ruby is compiled with.
 */

/* The option of the environment variable RUBY_DEBUG that debug.c sets. */
int ruby_rgengc_debug;

/* gc.c uses it further on. */
#define sym(name) ID2SYM(rb_intern_const(name))

#include "shim/gc_impl.c"

/*
 * The functions of gc.c that make objects. They keep no array on the stack, so a guard
 * against one that is overrun, written and compared for each object, guards nothing.
 */
#if defined(__has_attribute)
#if __has_attribute(no_stack_protector)
static inline VALUE newobj_of(NEWOBJ_PARAMETERS) __attribute__((no_stack_protector));
VALUE rb_wb_unprotected_newobj_of(UNPROTECTED_NEWOBJ_PARAMETERS) __attribute__((no_stack_protector));
VALUE rb_wb_protected_newobj_of(rb_execution_context_t *, UNPROTECTED_NEWOBJ_PARAMETERS) __attribute__((no_stack_protector));
#endif
#endif

/*
 * What newobj_of does when somebody traces new objects, in a function of its own that gives
 * the object back: there, it makes every object save and restore the registers for it.
 */
__attribute__((noinline, cold))
static VALUE
tell_of_new_object(VALUE object)
{
    unsigned int level = lock_for_new_object();
    size_t bytes = rb_gc_impl_obj_slot_size(object);
    if (bytes > RVALUE_SIZE) memset((char *)object + RVALUE_SIZE, 0, bytes - RVALUE_SIZE);
    /* The callback may allocate, and the object is not initialized. */
    bool was_disabled = RTEST(rb_gc_disable_no_rest());
    rb_gc_event_hook(object, RUBY_INTERNAL_EVENT_NEWOBJ);
    if (!was_disabled) rb_gc_enable();
    unlock_for_new_object(level);
    return object;
}

/* From here on newobj_of alone asks, which has the object in `obj`: what it would do is done then. */
#define rb_gc_event_hook_required_p(event) \
    (UNLIKELY(rb_gc_event_hook_required_p(event)) && (obj = tell_of_new_object(obj), false))
