/*
 * Ruby code that the collector's side runs in the middle of the program's: what it raises is not the program's.
 */
#include "ruby/ruby.h"
#include "vm_core.h"

#include "shim.h"

/* What other threads and Ractors raise in this one. */
#define THREADS (PENDING_INTERRUPT_MASK | TERMINATE_INTERRUPT_MASK)

/* Like rb_protect, while these interrupts wait; Ruby looks for them again afterwards. */
static VALUE
protect(VALUE (*work)(VALUE), VALUE argument, int *state, rb_atomic_t waiting)
{
    rb_execution_context_t *context = ashlar_execution_context();
    rb_atomic_t mask = context->interrupt_mask;
    context->interrupt_mask |= waiting;
    VALUE result = rb_protect(work, argument, state);
    context->interrupt_mask = mask;
    return result;
}

static VALUE
quietly(VALUE (*work)(VALUE), VALUE argument, rb_atomic_t waiting)
{
    int state = 0;
    volatile VALUE error = rb_errinfo();
    VALUE result = protect(work, argument, &state, waiting);
    if (!state) return result;
    rb_set_errinfo(error);
    return Qundef;
}

bool
ashlar_holds_interrupts(void)
{
    return (ashlar_execution_context()->interrupt_mask & PENDING_INTERRUPT_MASK) != 0;
}

VALUE
ashlar_protect(VALUE (*work)(VALUE), VALUE argument, int *state)
{
    return protect(work, argument, state, THREADS);
}

VALUE
ashlar_quietly(VALUE (*work)(VALUE), VALUE argument)
{
    return quietly(work, argument, THREADS);
}

/* While signals wait, Ruby refuses to lock a Mutex, and so to load an encoding. */
VALUE
ashlar_quietly_and_undisturbed(VALUE (*work)(VALUE), VALUE argument)
{
    return quietly(work, argument, THREADS | TRAP_INTERRUPT_MASK);
}
