/* mruby's hash.c with one barrier that it lacks.
 *
 * Hash#replace gives an old hash new keys and values and tells the collector nothing (mruby
 * 3.3.0): mruby's own frees them too early as well. Theirs is compiled as it is, and the
 * method is defined once more. */
#define mrb_init_hash mrb_init_hash_without_barrier
#include "theirs/hash.c"
#undef mrb_init_hash

static mrb_value replace_with_barrier(mrb_state *mrb, mrb_value self)
{
    mrb_value replaced = mrb_hash_init_copy(mrb, self);
    mrb_write_barrier(mrb, mrb_basic_ptr(self));
    return replaced;
}

void mrb_init_hash(mrb_state *mrb)
{
    mrb_init_hash_without_barrier(mrb);
    mrb_define_method_id(mrb, mrb->hash_class, MRB_SYM(initialize_copy), replace_with_barrier, MRB_ARGS_REQ(1));
    mrb_define_method_id(mrb, mrb->hash_class, MRB_SYM(replace), replace_with_barrier, MRB_ARGS_REQ(1));
}
