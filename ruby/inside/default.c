/*
 * Found by Ruby's gc.c in the place of its own gc/default/default.c: Ashlar
 * as the collector that Ruby is compiled with.
 */

/* The option of the environment variable RUBY_DEBUG that debug.c sets. */
int ruby_rgengc_debug;

/* gc.c uses it further on. */
#define sym(name) ID2SYM(rb_intern_const(name))

#include "shim/gc_impl.c"
