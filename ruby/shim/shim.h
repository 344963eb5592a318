#ifndef ASHLAR_SHIM_H
#define ASHLAR_SHIM_H
/* What the files of the shim share. */
#include "ruby/ruby.h"

#ifndef RBOOL
#define RBOOL(v) ((v) ? Qtrue : Qfalse) /* word for word as in Ruby's internal.h */
#endif

/* gc_impl.c: Ruby's object space. Only gc.c knows it where the collector is a part of gc.c. */
void *ashlar_objspace(void);

/* gc_impl.c: whether there is a second Ractor, or was. Ruby 4.0 says it to gc.c alone. */
bool ashlar_is_multi_ractor(void);

/* gc_impl.c: what Ruby knows of the code that this thread runs. */
struct rb_execution_context_struct *ashlar_execution_context(void);

/* gc_impl.c: GC.compact. */
void ashlar_collect_and_compact(void *objspace);

/* methods.c: constants and methods of the module GC. */
void ashlar_define_gc_methods(void);

/* profiler.c: GC::Profiler. */
void ashlar_define_profiler(void);

struct ashlar_collection;

/* statistics.c */
VALUE ashlar_gc_stat(void *objspace, VALUE hash_or_symbol);
VALUE ashlar_gc_stat_heap(void *objspace, VALUE heap_name, VALUE hash_or_symbol);
VALUE ashlar_latest_gc_info(void *objspace, VALUE hash_or_symbol);
VALUE ashlar_collection_flags(const struct ashlar_collection *);

/* heap_profile.c: names for the heap profile, and its end. */
void ashlar_name_samples_soon(void);
void ashlar_begin_naming(void *objspace);
void ashlar_prepare_profile(void *objspace);
void ashlar_end_profile(void *objspace);

/* quietly.c. What other threads raise waits until `work` is done. The first is rb_protect otherwise; the second returns
   what `work` returns, Qundef when it raises, and $! is as before. In the third, signals wait, too: it is for work that
   locks nothing and loads nothing. `ashlar_holds_interrupts` tells whether what other threads raise waits. */
bool ashlar_holds_interrupts(void);
VALUE ashlar_protect(VALUE (*work)(VALUE), VALUE argument, int *state);
VALUE ashlar_quietly(VALUE (*work)(VALUE), VALUE argument);
VALUE ashlar_quietly_and_undisturbed(VALUE (*work)(VALUE), VALUE argument);

/* lazy_code.c: whether any code has waited; and loading what children of this process may run and would each load
   for themselves. */
bool ashlar_has_waiting_code(void);
void ashlar_load_code_for_children(void);

/* code_cache.c */
void ashlar_define_code_cache(void);  /* if the environment asks for one */
void ashlar_prepare_code_cache(void); /* Process.warmup */
bool ashlar_code_cache_waits_for_fork(void);
void ashlar_code_cache_before_fork(void);

/* config.c */
VALUE ashlar_config(void *objspace);
void ashlar_config_update(void *objspace, VALUE hash);

#endif
