/*
 * Compiled in the place of Ruby's version.c, which it includes: there a
 * collector is named in RUBY_DESCRIPTION if one can be loaded. Here one is
 * compiled in, and `ruby -v` says +GC[ashlar].
 */
#include "internal/cmdlineopt.h"
#include "internal/gc.h"

#undef USE_MODULAR_GC
#define USE_MODULAR_GC 1
#define rb_gc_modular_gc_loaded_p() true

#include <version.c>
