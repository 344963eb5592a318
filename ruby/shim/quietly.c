/*
 * Ruby code that the collector's side runs in the middle of the program's: what it raises is not the program's.
 */
#include "ruby/ruby.h"

#include "shim.h"

/* Runs `work` and returns what it returns, Qundef when it raises; $! is as before. */
VALUE
ashlar_quietly(VALUE (*work)(VALUE), VALUE argument)
{
    int state = 0;
    volatile VALUE error = rb_errinfo();
    VALUE result = rb_protect(work, argument, &state);
    if (!state) return result;
    rb_set_errinfo(error);
    return Qundef;
}

static VALUE nothing_raised; /* a root */

/* Work that is done while no other thread and no signal can raise anything here: that would be
   lost in `ashlar_quietly`. What comes meanwhile is raised when the work is done. */
struct masked {
    VALUE (*work)(VALUE);
    VALUE argument, result;
};

static VALUE
do_masked(RB_BLOCK_CALL_FUNC_ARGLIST(yielded, data))
{
    struct masked *masked = (struct masked *)data;
    masked->result = ashlar_quietly(masked->work, masked->argument);
    return Qnil;
}

VALUE
ashlar_quietly_and_undisturbed(VALUE (*work)(VALUE), VALUE argument)
{
    if (!nothing_raised) {
        rb_gc_register_address(&nothing_raised);
        nothing_raised = rb_hash_new();
        rb_hash_aset(nothing_raised, rb_cObject, ID2SYM(rb_intern("never")));
    }
    struct masked masked = { work, argument, Qundef };
    rb_block_call(rb_cThread, rb_intern("handle_interrupt"), 1, &nothing_raised, do_masked, (VALUE)&masked);
    return masked.result;
}
