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
static inline VALUE newobj_of(rb_ractor_t *, VALUE, VALUE, VALUE, VALUE, VALUE, bool, size_t) __attribute__((no_stack_protector));
VALUE rb_wb_unprotected_newobj_of(VALUE, VALUE, size_t) __attribute__((no_stack_protector));
VALUE rb_wb_protected_newobj_of(rb_execution_context_t *, VALUE, VALUE, size_t) __attribute__((no_stack_protector));
#endif
#endif

/* Called when somebody traces new objects, and nowhere else: the path there costs the others nothing. */
__typeof__(rb_vm_lock_enter_body_cr) rb_vm_lock_enter_body_cr __attribute__((cold));
