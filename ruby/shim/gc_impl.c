/*
 * Ruby's collector interface, in the order of gc_impl.h: convert, forward, return. Decisions
 * about collection are made in ruby/src. What depends on the version of Ruby is in a file of
 * its own, which ruby_version.h chooses.
 *
 * Compiled by itself this file is a part of a modular collector; included by inside/default.c
 * it is a part of Ruby's gc.c, and its functions are static there (GC_IMPL_FN).
 */
#include "ruby/ruby.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <errno.h>

#include "ruby/atomic.h"
#include "ruby/debug.h"
#include "ruby/thread.h"
#include "gc/gc.h"
#include "gc/gc_impl.h"

#include "ashlar_ruby.h"
#include "inlined.h"
#include "shim.h"

extern int ruby_thread_has_gvl_p(void);
extern size_t rb_obj_memsize_of(VALUE object);
extern const char ruby_version[];

static rb_postponed_job_handle_t finalizers_job;
static bool vm_is_going; /* and its queue of postponed jobs with it */
static VALUE runner; /* the Thread that runs jobs, 0 when none does; a root */
static VALUE idle_walk; /* the object of an ended walk, 0 when there is none; a root */
static void run_jobs(void *objspace);

static void
trigger_finalizers(void)
{
    if (!vm_is_going) rb_postponed_job_trigger(finalizers_job);
}

static VALUE
proc_class(void)
{
    return rb_cProc;
}

/* No object of Ruby's may be made while it collects, so the name is interned in advance. */
static const char loaded_features[] = "$LOADED_FEATURES";
static bool knows_loaded_features;

static size_t
loaded_files(void)
{
    VALUE features = knows_loaded_features ? rb_gv_get(loaded_features) : Qnil;
    return RB_TYPE_P(features, T_ARRAY) ? (size_t)RARRAY_LEN(features) : 0;
}

#ifdef BUILDING_MODULAR_GC
/* Ruby shows it to a library for threads that collect, with a lock for them. */
struct rb_execution_context_struct *
ashlar_execution_context(void)
{
    struct rb_gc_vm_context context;
    rb_gc_initialize_vm_context(&context);
    rb_native_mutex_destroy(&context.lock);
    return context.ec;
}
#else
struct rb_execution_context_struct *
ashlar_execution_context(void)
{
    return GET_EC();
}
#endif

/* The object space is looked up here: a caller that passed it would have to load it for every
   object. */
__attribute__((noinline, cold))
static VALUE
new_object_of_heap(void *cache, VALUE klass, VALUE flags, bool wb_protected, size_t size)
{
    VALUE object = ashlar_allocate(rb_gc_get_objspace(), cache, klass, flags, wb_protected, size);
    if (!object) rb_memerror();
    return object;
}

static inline void *
new_payload(size_t size, bool may_collect)
{
    void *payload = ashlar_xmalloc_is_plain() ? ashlar_pop_payload(ashlar_thread_cache, size) : NULL;
    return ASHLAR_LIKELY(payload) ? payload : ashlar_xmalloc(ashlar_thread_cache, size, may_collect);
}

static inline void *
new_clear_payload(size_t size, bool may_collect)
{
    void *payload = ashlar_xmalloc_is_plain() ? ashlar_pop_payload(ashlar_thread_cache, size) : NULL;
    return ASHLAR_LIKELY(payload) ? memset(payload, 0, size) : ashlar_xcalloc(ashlar_thread_cache, size, may_collect);
}

static inline void *
resized_payload(void *payload, size_t size, bool may_collect)
{
    if (ashlar_xmalloc_is_plain() && ashlar_stays(payload, size)) return payload;
    return ashlar_xrealloc(ashlar_thread_cache, payload, size, may_collect);
}

/* Functions of gc_impl.h that differ between versions of Ruby. */
#include "ruby_version.h"

static unsigned int
vm_lock(void)
{
    return RB_GC_VM_LOCK();
}

static void
vm_unlock(unsigned int level)
{
    RB_GC_VM_UNLOCK(level);
}

static unsigned int
vm_lock_no_barrier(void)
{
    return RB_GC_VM_LOCK_NO_BARRIER();
}

static void
vm_unlock_no_barrier(unsigned int level)
{
    RB_GC_VM_UNLOCK_NO_BARRIER(level);
}

static const struct ashlar_ruby_calls calls = {
    .mark_roots = rb_gc_mark_roots,
    .mark_children = rb_gc_mark_children,
    .finish_marking = rb_ractor_finish_marking,
    .save_machine_context = rb_gc_save_machine_context,
    .shape_by_id = shape_by_id,
    .proc_class = proc_class,
    .free_weak_references = rb_gc_obj_free_vm_weak_references,
    .free_object = rb_gc_obj_free,
    .event_hook = rb_gc_event_hook,
    .vm_lock = vm_lock,
    .vm_unlock = vm_unlock,
    .vm_lock_no_barrier = vm_lock_no_barrier,
    .vm_unlock_no_barrier = vm_unlock_no_barrier,
    .vm_barrier = rb_gc_vm_barrier,
    .multi_ractor = rb_gc_multi_ractor_p,
    .forget_called_methods = forget_called_methods,
    .loaded_files = loaded_files,
    .thread_has_gvl = ruby_thread_has_gvl_p,
    .optimal_size = rb_gc_obj_optimal_size,
    .shape_in_width = shape_in_width,
    .set_shape = rb_gc_set_shape,
    .move_generic_variables = move_generic_variables,
    .begin_updating = begin_updating,
    .update_object = rb_gc_update_object_references,
    .update_vm = update_vm,
    .prepare_object = rb_gc_prepare_heap_process_object,
    .trigger_finalizers = trigger_finalizers,
    .profile_frames = rb_profile_frames,
    .name_samples_soon = ashlar_name_samples_soon,
    .reachable_from_roots = rb_objspace_reachable_objects_from_root,
    .reachable_from = rb_objspace_reachable_objects_from,
    .memory_of = rb_obj_memsize_of,
};

static const struct ashlar_ruby_events events = {
    .gc_start = RUBY_INTERNAL_EVENT_GC_START,
    .gc_end_mark = RUBY_INTERNAL_EVENT_GC_END_MARK,
    .gc_end_sweep = RUBY_INTERNAL_EVENT_GC_END_SWEEP,
    .gc_enter = RUBY_INTERNAL_EVENT_GC_ENTER,
    .gc_exit = RUBY_INTERNAL_EVENT_GC_EXIT,
    .free_object = RUBY_INTERNAL_EVENT_FREEOBJ,
};

/* ── Bootup ──────────────────────────────────────────────────────────────── */

void *
rb_gc_impl_objspace_alloc(void)
{
    const char *failure = NULL;
    void *objspace = ashlar_objspace_new(&calls, &events, ruby_version, &failure);
    if (!objspace) {
        fprintf(stderr, "ashlar: %s\n", failure);
        exit(EXIT_FAILURE);
    }
    return objspace;
}

void
rb_gc_impl_objspace_init(void *objspace)
{
    finalizers_job = rb_postponed_job_preregister(0, run_jobs, objspace);
    ashlar_begin_naming(objspace);
}

/* Does nothing: Ruby frees payloads after this, and other threads may still run, so the heap
   stays until the process ends. */
void
rb_gc_impl_objspace_free(void *objspace)
{
}

void *
rb_gc_impl_ractor_cache_alloc(void *objspace, void *ractor)
{
    return ashlar_cache_new(objspace);
}

void
rb_gc_impl_ractor_cache_free(void *objspace, void *cache)
{
    ashlar_cache_free(objspace, cache);
}

/* The options are read before the first allocation, but only now is it known whether Ruby
   prints warnings. */
void
rb_gc_impl_set_params(void *objspace)
{
    if (RTEST(ruby_verbose)) ashlar_explain_variables();
    ashlar_begin_profile(objspace);
    ashlar_define_code_cache();
}

void
rb_gc_impl_init(void)
{
    rb_gc_register_address(&runner);
    rb_gc_register_address(&idle_walk);
    knows_loaded_features = rb_intern(loaded_features) != 0;
    ashlar_define_gc_methods();
}

void *
ashlar_objspace(void)
{
    return rb_gc_get_objspace();
}

bool
ashlar_is_multi_ractor(void)
{
    return rb_gc_multi_ractor_p();
}

/* ── Shutdown ────────────────────────────────────────────────────────────── */

/* A bit per type number: the types of which rb_gc_shutdown_call_finalizer_p may return
   true. */
static uint32_t
types_freed_at_exit(void)
{
    /* For a class that function returns true only where everything is freed. */
    if (rb_gc_shutdown_call_finalizer_p(rb_cObject)) return ~(1U << T_NONE);
    return 1U << T_DATA | 1U << T_FILE | 1U << T_SYMBOL;
}

/* Extensions ask whether a collection runs, to know that they must not call Ruby from a function that frees. */
static bool frees_at_exit;

static void
free_at_exit(void *objspace, VALUE object)
{
    rb_gc_obj_free_vm_weak_references(object);
    if (rb_gc_obj_free(objspace, object)) RBASIC(object)->flags = 0;
}

void
rb_gc_impl_shutdown_free_objects(void *objspace)
{
    vm_is_going = true;
    ashlar_end_collections(objspace);
    VALUE object = 0;
    while ((object = ashlar_next_object(objspace, object, ~(1U << T_NONE))) != 0) {
        free_at_exit(objspace, object);
    }
}

/* ── GC ──────────────────────────────────────────────────────────────────── */

void
rb_gc_impl_start(void *objspace, bool full_mark, bool immediate_mark, bool immediate_sweep, bool compact)
{
    if (compact) ashlar_compact(objspace, false);
    else ashlar_start(objspace, full_mark, immediate_sweep, ASHLAR_REASON_METHOD);
    if (immediate_sweep || compact) run_jobs(objspace);
}

void
ashlar_collect_and_compact(void *objspace)
{
    rb_gc_impl_start(objspace, true, true, true, true);
}

bool
rb_gc_impl_during_gc_p(void *objspace)
{
    return frees_at_exit || ashlar_during_gc();
}

void
rb_gc_impl_prepare_heap(void *objspace)
{
    ashlar_prepare_code_cache();
    ashlar_prepare_heap(objspace);
}

void
rb_gc_impl_gc_enable(void *objspace)
{
    ashlar_disable(false);
}

void
rb_gc_impl_gc_disable(void *objspace, bool finish_current_gc)
{
    if (finish_current_gc) ashlar_finish_collection(objspace);
    ashlar_disable(true);
}

bool
rb_gc_impl_gc_enabled_p(void *objspace)
{
    return !ashlar_is_on(&ashlar_knobs.disabled);
}

void
rb_gc_impl_stress_set(void *objspace, VALUE flag)
{
    ashlar_set_stress(objspace, flag, RTEST(flag));
}

VALUE
rb_gc_impl_stress_get(void *objspace)
{
    return __atomic_load_n(&ashlar_knobs.stress_flag, __ATOMIC_RELAXED);
}

VALUE
rb_gc_impl_config_get(void *objspace)
{
    return ashlar_config(objspace);
}

void
rb_gc_impl_config_set(void *objspace, VALUE hash)
{
    ashlar_config_update(objspace, hash);
}

void
rb_gc_impl_adjust_memory_usage(void *objspace, ssize_t diff)
{
    ashlar_adjust_memory(diff);
}

/* ── Object allocation ───────────────────────────────────────────────────── */

size_t
rb_gc_impl_obj_slot_size(VALUE obj)
{
    return ashlar_width_of(obj);
}

bool
rb_gc_impl_size_allocatable_p(size_t size)
{
    return size <= ASHLAR_WIDEST_BYTES;
}

/* ── Malloc ──────────────────────────────────────────────────────────────── */

void
rb_gc_impl_free(void *objspace, void *ptr, size_t old_size)
{
    if (!ptr || (ashlar_xmalloc_is_plain() && ashlar_push_payload(ashlar_thread_cache, ptr))) return;
    int saved = errno; /* as free does */
    ashlar_xfree(ashlar_thread_cache, ptr);
    errno = saved;
}

/* ── Marking ─────────────────────────────────────────────────────────────── */

void
rb_gc_impl_mark(void *objspace, VALUE obj)
{
    if (!ashlar_is_marked_for_good(obj)) ashlar_mark(objspace, obj);
}

void
rb_gc_impl_mark_and_move(void *objspace, VALUE *ptr)
{
    ashlar_mark_and_move(objspace, ptr);
}

void
rb_gc_impl_mark_and_pin(void *objspace, VALUE obj)
{
    ashlar_mark_and_pin(objspace, obj);
}

void
rb_gc_impl_mark_maybe(void *objspace, VALUE obj)
{
    ashlar_mark_maybe(objspace, obj);
}

void
rb_gc_impl_mark_weak(void *objspace, VALUE *ptr)
{
    ashlar_mark_weak(objspace, ptr);
}

/* Does nothing: weak references are noted and cleared while the program is stopped, so there is never a
   noted one to remove. */
void
rb_gc_impl_remove_weak(void *objspace, VALUE parent_obj, VALUE *ptr)
{
}

/* ── Compaction ──────────────────────────────────────────────────────────── */

bool
rb_gc_impl_object_moved_p(void *objspace, VALUE obj)
{
    return ashlar_has_moved(objspace, obj);
}

VALUE
rb_gc_impl_location(void *objspace, VALUE value)
{
    return ashlar_location(objspace, value);
}

/* ── Write barriers ──────────────────────────────────────────────────────── */

/* The object space is looked up here: a caller that passed it would have to load it for every
   store. */
__attribute__((noinline, cold))
static void
tell_of_store(VALUE parent, VALUE child)
{
    ashlar_write_barrier(rb_gc_get_objspace(), parent, child);
}

void
rb_gc_impl_writebarrier(void *objspace, VALUE a, VALUE b)
{
    if (!ASHLAR_LIKELY(ashlar_store_is_plain(a, b))) tell_of_store(a, b);
}

void
rb_gc_impl_writebarrier_unprotect(void *objspace, VALUE obj)
{
    ashlar_unprotect(objspace, obj);
}

void
rb_gc_impl_writebarrier_remember(void *objspace, VALUE obj)
{
    ashlar_remember(objspace, obj);
}

/* ── Heap walking ────────────────────────────────────────────────────────── */

/* A walk over the heap. While it goes on, an object stands for it that only this stack refers
   to: a fiber that is given up in the middle is never resumed, but the object dies with it.
   The object of a walk that has ended is kept for the next walk, so that a walk finds as many
   objects as there were before. */
struct walk {
    void *objspace;
    struct ashlar_snapshot snapshot;
    VALUE object;
    int (*visit)(void *start, void *end, size_t stride, void *data);
    void *data;
};

/* Shows the visitor a cell that is a live object, or that was free in the snapshot. */
static int
show(struct walk *walk, VALUE cell, size_t width)
{
    return walk->visit((void *)cell, (void *)(cell + width), width, walk->data);
}

/* Shows the visitor a run of cells that were free in the snapshot. Once marking has ended since, in a
   collection that was going on then or in a later one, these cells may be garbage that was allocated
   in the meantime, or a payload. The visitor may itself end a marking, so each cell is shown alone. */
static int
show_free_run(struct walk *walk, VALUE start, VALUE end)
{
    size_t width = 0;
    for (VALUE cell = start; cell < end; cell += width) {
        if (ashlar_marked_count(walk->objspace) != walk->snapshot.marked_count) return 0;
        if (cell == start) width = ashlar_width_of(start);
        if (show(walk, cell, width)) return 1;
    }
    return 0;
}

/* Shows the visitor what `at` describes in the snapshot: a run of free cells, or an object, which may
   have died since. */
static int
show_words(struct walk *walk, const VALUE *at)
{
    if (at[0] & 1) return show_free_run(walk, at[0] & ~(VALUE)1, at[1]);
    return !ashlar_is_garbage(walk->objspace, at[0]) && show(walk, at[0], ashlar_width_of(at[0]));
}

static VALUE
walk_words(VALUE argument)
{
    struct walk *walk = (struct walk *)argument;
    const struct ashlar_snapshot *all = &walk->snapshot;
    for (size_t i = 0; i < all->count; i += 1 + (all->words[i] & 1)) {
        if (show_words(walk, &all->words[i])) break;
    }
    return Qnil;
}

static VALUE
end_walk(VALUE argument)
{
    struct walk *walk = (struct walk *)argument;
    RTYPEDDATA_DATA(walk->object) = NULL;
    ashlar_end_walk(walk->objspace, walk->snapshot.number);
    RUBY_ATOMIC_VALUE_EXCHANGE(idle_walk, walk->object);
    return Qnil;
}

static void
free_walk(void *number)
{
    ashlar_end_walk(rb_gc_get_objspace(), (size_t)number);
}

static const rb_data_type_t walk_type = {
    .wrap_struct_name = "walk over the heap",
    .function = { .dfree = free_walk },
    .flags = RUBY_TYPED_FREE_IMMEDIATELY
};

static VALUE
walk_object(void)
{
    VALUE idle = RUBY_ATOMIC_VALUE_EXCHANGE(idle_walk, 0);
    return idle ? idle : rb_data_typed_object_wrap(0, NULL, &walk_type);
}

void
rb_gc_impl_each_objects(void *objspace, int (*callback)(void *, void *, size_t, void *), void *data)
{
    struct walk walk = { .objspace = objspace, .visit = callback, .data = data };
    walk.object = walk_object();
    if (!ashlar_begin_walk(objspace, rb_thread_current(), &walk.snapshot)) rb_memerror();
    RTYPEDDATA_DATA(walk.object) = (void *)walk.snapshot.number;
    rb_ensure(walk_words, (VALUE)&walk, end_walk, (VALUE)&walk);
}

struct object_visit {
    void (*visit)(VALUE object, void *data);
    void *data;
};

static int
visit_objects(void *start, void *end, size_t stride, void *data)
{
    struct object_visit *each = data;
    for (VALUE object = (VALUE)start; object != (VALUE)end; object += stride) each->visit(object, each->data);
    return 0;
}

void
rb_gc_impl_each_object(void *objspace, void (*func)(VALUE obj, void *data), void *data)
{
    struct object_visit each = { .visit = func, .data = data };
    rb_gc_impl_each_objects(objspace, visit_objects, &each);
}

/* ── Finalizers ──────────────────────────────────────────────────────────── */

static VALUE
finalizer_at(long index, void *finalizers)
{
    return RARRAY_AREF((VALUE)finalizers, FIRST_FINALIZER + index);
}

static void
run_job(const struct ashlar_job *job)
{
    if (job->free) {
        job->free(job->data);
        return;
    }
    VALUE finalizers = job->finalizers;
    long count = RARRAY_LEN(finalizers) - FIRST_FINALIZER;
    rb_gc_run_obj_finalizer(finalized_id(job), count, finalizer_at, (void *)finalizers);
    RB_GC_GUARD(finalizers);
}

static void
run_all_jobs(void *objspace)
{
    struct ashlar_job job;
    if (!ashlar_next_job(objspace, &job)) return;
    bool waits = ashlar_holds_interrupts();
    if (!waits) rb_gc_set_pending_interrupt();
    do {
        run_job(&job);
        ashlar_job_done(objspace);
    } while (ashlar_next_job(objspace, &job));
    if (!waits) rb_gc_unset_pending_interrupt();
}

/* One thread at a time runs jobs, and runs them all: when a finalizer collects, no other job
   starts inside it. */
static void
run_jobs(void *objspace)
{
    if (RUBY_ATOMIC_VALUE_CAS(runner, 0, rb_thread_current())) return;
    run_all_jobs(objspace);
    RUBY_ATOMIC_VALUE_EXCHANGE(runner, 0);
    /* Another Ractor may have found `runner` set after the last job was taken. */
    if (ashlar_jobs_wait(objspace)) trigger_finalizers();
}

void
rb_gc_impl_make_zombie(void *objspace, VALUE obj, void (*dfree)(void *), void *data)
{
    if (dfree) ashlar_queue_free(objspace, dfree, data);
}

static void
set_finalizers(void *objspace, VALUE object, VALUE finalizers)
{
    if (!ashlar_set_finalizers(objspace, object, finalizers)) rb_memerror();
    FL_SET_RAW(object, FL_FINALIZE);
    RB_GC_GUARD(finalizers);
}

/* 0 for none. Other Ractors may add to the array itself, and comparing calls Ruby code, which must not have the lock. */
static VALUE
copy_of_finalizers(void *objspace, VALUE object)
{
    unsigned int level = vm_lock();
    VALUE finalizers = ashlar_finalizers(objspace, object);
    if (finalizers) finalizers = rb_ary_dup(finalizers);
    vm_unlock(level);
    return finalizers;
}

static void
add_finalizer(void *objspace, VALUE object, VALUE block)
{
    unsigned int level = vm_lock();
    VALUE finalizers = ashlar_finalizers(objspace, object);
    if (finalizers) {
        rb_ary_push(finalizers, block);
    }
    else {
        finalizers = new_finalizers(object, block);
        rb_obj_hide(finalizers);
        set_finalizers(objspace, object, finalizers);
    }
    vm_unlock(level);
}

VALUE
rb_gc_impl_define_finalizer(void *objspace, VALUE obj, VALUE block)
{
    VALUE finalizers = copy_of_finalizers(objspace, obj);
    for (long i = FIRST_FINALIZER; finalizers && i < RARRAY_LEN(finalizers); i++) {
        VALUE known = RARRAY_AREF(finalizers, i);
        if (rb_equal(known, block)) return known;
    }
    RB_GC_GUARD(finalizers);
    add_finalizer(objspace, obj, block);
    return block;
}

void
rb_gc_impl_undefine_finalizer(void *objspace, VALUE obj)
{
    ashlar_forget_finalizers(objspace, obj);
    FL_UNSET(obj, FL_FINALIZE);
}

void
rb_gc_impl_copy_finalizer(void *objspace, VALUE dest, VALUE obj)
{
    if (!FL_TEST(obj, FL_FINALIZE)) return;
    unsigned int level = vm_lock();
    VALUE finalizers = ashlar_finalizers(objspace, obj);
    if (finalizers) set_finalizers(objspace, dest, finalizers_of_copy(finalizers, dest));
    vm_unlock(level);
}

void
rb_gc_impl_shutdown_call_finalizer(void *objspace)
{
    VALUE object;
    ashlar_end_profile(objspace);
    ashlar_write_code_cache();
    /* From here on this thread runs all jobs, and none starts inside another one. */
    RUBY_ATOMIC_VALUE_EXCHANGE(runner, rb_thread_current());
    while ((object = ashlar_first_finalized(objspace)) != 0) {
        before_finalizers_at_exit(objspace, object);
        FL_UNSET(object, FL_FINALIZE);
        ashlar_queue_finalizers(objspace, object);
        run_all_jobs(objspace);
        after_finalizers_at_exit(objspace, object);
        RB_GC_GUARD(object);
    }
    run_all_jobs(objspace);

    /* Freeing what objects own breaks the object graph, so there are no more collections. */
    ashlar_end_collections(objspace);
    uint32_t types = types_freed_at_exit();
    frees_at_exit = true;
    while ((object = ashlar_next_object(objspace, object, types)) != 0) {
        if (rb_gc_shutdown_call_finalizer_p(object)) free_at_exit(objspace, object);
    }
    frees_at_exit = false;
    run_all_jobs(objspace);
}

/* ── Forking: pthread_atfork does most of the work (shim/payload.c) ──────── */

static unsigned int fork_lock_level;

static VALUE
flush_output(VALUE unused)
{
    rb_io_flush(rb_stdout);
    rb_io_flush(rb_stderr);
    return Qnil;
}

/* What waits after a collection runs in the parent: a child would run it too, and so write once more what a lost
   file had not written. Ruby has flushed its output before this, and finalizers may print. Nothing is raised from
   here: Ruby would go on as if it had forked. */
static void
run_jobs_before_fork(void *objspace)
{
    /* A fork inside a job: the others run after it. */
    if (runner == rb_thread_current() || !ashlar_jobs_wait(objspace) || !begin_ruby_code()) return;
    run_jobs(objspace);
    ashlar_quietly(flush_output, Qnil);
    end_ruby_code();
}

/* What a thread or a signal has raised meanwhile goes on from here, and there is no fork. */
static void
prepare_code_before_fork(void)
{
    if (!ashlar_code_cache_waits_for_fork()) return;
    bool has_begun = begin_ruby_code();
    if (has_begun || rb_thread_alone()) ashlar_code_cache_before_fork();
    if (has_begun) end_ruby_code();
}

/* The child has this thread alone. The other Ractors are stopped, so that none of them leaves
   a table half changed there, or holds the VM lock for ever. */
void
rb_gc_impl_before_fork(void *objspace)
{
    prepare_code_before_fork();
    if (ashlar_collect_before_fork(objspace)) run_jobs_before_fork(objspace);
    fork_lock_level = vm_lock();
    rb_gc_vm_barrier();
}

void
rb_gc_impl_after_fork(void *objspace, rb_pid_t pid)
{
    if (pid == 0) ashlar_begin_child(objspace, rb_thread_current(), &runner);
    vm_unlock(fork_lock_level);
}

/* ── Statistics ──────────────────────────────────────────────────────────── */

void
rb_gc_impl_set_measure_total_time(void *objspace, VALUE flag)
{
    ashlar_turn(&ashlar_knobs.measures_time, RTEST(flag));
}

bool
rb_gc_impl_get_measure_total_time(void *objspace)
{
    return ashlar_is_on(&ashlar_knobs.measures_time);
}

unsigned long long
rb_gc_impl_get_total_time(void *objspace)
{
    return ashlar_total_time_ns(objspace);
}

size_t
rb_gc_impl_gc_count(void *objspace)
{
    return ashlar_collection_count(objspace);
}

VALUE
rb_gc_impl_latest_gc_info(void *objspace, VALUE key)
{
    return ashlar_latest_gc_info(objspace, key);
}

VALUE
rb_gc_impl_stat(void *objspace, VALUE hash_or_sym)
{
    return ashlar_gc_stat(objspace, hash_or_sym);
}

VALUE
rb_gc_impl_stat_heap(void *objspace, VALUE heap_name, VALUE hash_or_sym)
{
    return ashlar_gc_stat_heap(objspace, heap_name, hash_or_sym);
}

#ifdef BUILDING_MODULAR_GC
#define NAME_LENGTH_MAX 20 /* Ruby stops at longer ones */

/* The NAME of librubygc.NAME.so, as RUBY_GC_LIBRARY asks for it, also where several builds of
   this library are installed side by side. */
const char *
rb_gc_impl_active_gc_name(void)
{
    static char name[NAME_LENGTH_MAX + 1];
    static const char prefix[] = "librubygc.";
    Dl_info self;
    if (name[0]) return name;
    const char *file = dladdr((void *)rb_gc_impl_active_gc_name, &self) ? strrchr(self.dli_fname, '/') : NULL;
    size_t length = 0;
    if (file && strncmp(++file, prefix, sizeof(prefix) - 1) == 0) {
        file += sizeof(prefix) - 1;
        length = strcspn(file, ".");
    }
    if (length == 0 || length > NAME_LENGTH_MAX) return "ashlar";
    memcpy(name, file, length);
    return name;
}
#else
const char *
rb_gc_impl_active_gc_name(void)
{
    return "ashlar";
}
#endif

/* ── Miscellaneous ───────────────────────────────────────────────────────── */

bool
rb_gc_impl_pointer_to_heap_p(void *objspace, const void *ptr)
{
    /* Tables that follow moves ask this before they look for the new address. */
    return (ashlar_cell_state(objspace, (VALUE)ptr) & ASHLAR_CELL_LIVE) || ashlar_has_moved(objspace, (VALUE)ptr);
}

bool
rb_gc_impl_garbage_object_p(void *objspace, VALUE obj)
{
    return ashlar_is_garbage(objspace, obj);
}

void
rb_gc_impl_set_event_hook(void *objspace, const rb_event_flag_t event)
{
    ashlar_set_event_hooks(objspace, event & RUBY_INTERNAL_EVENT_NEWOBJ, event & RUBY_INTERNAL_EVENT_FREEOBJ);
}

void
rb_gc_impl_copy_attributes(void *objspace, VALUE dest, VALUE obj)
{
    if (ashlar_cell_state(objspace, obj) & ASHLAR_CELL_UNPROTECTED) ashlar_unprotect(objspace, dest);
    rb_gc_impl_copy_finalizer(objspace, dest, obj);
}
