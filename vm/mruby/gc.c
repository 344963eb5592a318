/* mruby on Ashlar's heap: what mruby 3.3 expects of its collector, made of ashlar.h.
 *
 * Takes the place of mruby's own src/gc.c (docs/design/second-vm.md). Every object is a cell as wide
 * as its type needs; strings, arrays, tables and stacks are payloads of the same heap. One
 * mruby state has one heap.
 *
 * 1. An object's `color` is 0, or MRB_GC_RED for one that the compiler laid out: that is no cell.
 *    Nothing else in the header is for collecting; `gcnext` is not used.
 * 2. Nothing collects but ashlar_new, ashlar_poll, ashlar_step and ashlar_collect, and they are
 *    called from mrb_obj_alloc, from the functions of GC, and when memory is out.
 * 3. What a collection needs and mruby's state has no room for is in struct mrb_heap_page, a
 *    type that mruby declares and leaves to its collector.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mruby.h>
#include <mruby/array.h>
#include <mruby/class.h>
#include <mruby/data.h>
#include <mruby/error.h>
#include <mruby/gc.h>
#include <mruby/hash.h>
#include <mruby/istruct.h>
#include <mruby/presym.h>
#include <mruby/proc.h>
#include <mruby/range.h>
#include <mruby/string.h>
#include <mruby/throw.h>
#include <mruby/variable.h>
/* Declares what belongs to the headers before it. */
#include <mruby/internal.h>

#include <ashlar.h>

mrb_noreturn void mrb_raise_nomemory(mrb_state *mrb);
void mrb_gc_init(mrb_state *mrb, mrb_gc *gc);
void mrb_gc_destroy(mrb_state *mrb, mrb_gc *gc);
void mrb_init_gc(mrb_state *mrb);

#define LIKELY(condition) __builtin_expect(!!(condition), 1)

/* Bytes of buffers between two looks at whether a collection is due: an object that is made may
 * come from a run of free cells whose buffers would be far more than the run. */
#define BUFFER_BYTES_PER_POLL (64 * 1024)

/* mruby's default: the heap may be twice what lives. GC.interval_ratio says 200 for it. */
#define DEFAULT_OPTIONS "space_overhead=100 slice_us=1000"
#define DEFAULT_INTERVAL_RATIO 200
#define DEFAULT_STEP_RATIO 200
/* A slice of 1000 us is a step ratio of 200. */
#define SLICE_US_PER_STEP_RATIO 5

struct mrb_heap_page {
    mrb_state *mrb;
    ashlar_heap *heap;
    ashlar_thread *thread;
    size_t buffer_bytes;     /* handed out since the latest poll */
    mrb_bool has_buffers;    /* buffers are payloads; else they come from the program's own function */
    mrb_bool is_over;        /* every object has been released */
};
typedef struct mrb_heap_page Room;

/* Of the callback that is running, one on each thread that marks: mruby's functions that mark
 * what is in a table do not pass it on. */
static _Thread_local ashlar_tracer *tracer_now;

static inline Room *room_of(mrb_state *mrb)
{
    return mrb->gc.heaps;
}

/* ── Buffers ─────────────────────────────────────────────────────────────────── */

static void *resize(mrb_state *mrb, void *buffer, size_t bytes)
{
    Room *room = room_of(mrb);
    if (!room || !room->has_buffers) return mrb->allocf(mrb, buffer, bytes, mrb->allocf_ud);
    room->buffer_bytes += bytes;
    if (!buffer && bytes > 0) return ashlar_malloc(room->thread, bytes);
    if (bytes > 0) return ashlar_realloc(room->thread, buffer, bytes);
    ashlar_free(room->thread, buffer);
    return NULL;
}

MRB_API void *mrb_realloc_simple(mrb_state *mrb, void *buffer, size_t bytes)
{
    void *resized = resize(mrb, buffer, bytes);
    if (LIKELY(resized || bytes == 0) || !room_of(mrb)) return resized;
    mrb_full_gc(mrb);
    mrb->gc.live++; /* tells mrb_env_unshare to look whether its environment still lives */
    return resize(mrb, buffer, bytes);
}

MRB_API void *mrb_realloc(mrb_state *mrb, void *buffer, size_t bytes)
{
    void *resized = mrb_realloc_simple(mrb, buffer, bytes);
    if (bytes == 0) return resized;
    mrb->gc.out_of_memory = !resized;
    if (!resized) mrb_raise_nomemory(mrb);
    return resized;
}

MRB_API void *mrb_malloc(mrb_state *mrb, size_t bytes)
{
    return mrb_realloc(mrb, NULL, bytes);
}

MRB_API void *mrb_malloc_simple(mrb_state *mrb, size_t bytes)
{
    return mrb_realloc_simple(mrb, NULL, bytes);
}

MRB_API void *mrb_calloc(mrb_state *mrb, size_t count, size_t bytes)
{
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total) || total == 0) return NULL;
    Room *room = room_of(mrb);
    if (room && room->has_buffers) {
        room->buffer_bytes += total;
        void *zeroed = ashlar_calloc(room->thread, count, bytes);
        if (zeroed) return zeroed;
    }
    return memset(mrb_malloc(mrb, total), 0, total);
}

static void end_heap(mrb_state *mrb)
{
    Room *room = room_of(mrb);
    if (!room) return;
    ashlar_thread_free(room->thread);
    ashlar_heap_free(room->heap);
    mrb->gc.heaps = NULL;
    free(room);
}

MRB_API void mrb_free(mrb_state *mrb, void *buffer)
{
    if (buffer == mrb) {
        /* The last thing that mrb_close frees; it has come before there was a heap. */
        end_heap(mrb);
        mrb->allocf(mrb, mrb, 0, mrb->allocf_ud);
        return;
    }
    Room *room = room_of(mrb);
    if (LIKELY(room && room->has_buffers)) {
        ashlar_free(room->thread, buffer);
    } else {
        mrb->allocf(mrb, buffer, 0, mrb->allocf_ud);
    }
}

/* A buffer that lives as long as the arena keeps the string that owns it. */
MRB_API void *mrb_alloca(mrb_state *mrb, size_t bytes)
{
    struct RString *owner = MRB_OBJ_ALLOC(mrb, MRB_TT_STRING, NULL);
    owner->as.heap.ptr = mrb_malloc(mrb, bytes);
    return owner->as.heap.ptr;
}

/* ── Objects ─────────────────────────────────────────────────────────────────── */

/* Bytes of an object of a type that mruby's headers do not describe; its gems promise that
 * theirs have no more. */
#define OBJECT_BYTES_MAX (6 * sizeof(void *))

static const uint8_t object_bytes[MRB_TT_MAXDEFINE + 1] = {
    [0 ... MRB_TT_MAXDEFINE] = OBJECT_BYTES_MAX,
    [MRB_TT_OBJECT] = sizeof(struct RObject),
    [MRB_TT_CLASS] = sizeof(struct RClass),
    [MRB_TT_MODULE] = sizeof(struct RClass),
    [MRB_TT_ICLASS] = sizeof(struct RClass),
    [MRB_TT_SCLASS] = sizeof(struct RClass),
    [MRB_TT_PROC] = sizeof(struct RProc),
    [MRB_TT_ARRAY] = sizeof(struct RArray),
    [MRB_TT_STRUCT] = sizeof(struct RArray),
    [MRB_TT_HASH] = sizeof(struct RHash),
    [MRB_TT_RANGE] = sizeof(struct RRange),
    [MRB_TT_EXCEPTION] = sizeof(struct RException),
    [MRB_TT_ENV] = sizeof(struct REnv),
    [MRB_TT_CDATA] = sizeof(struct RData),
    [MRB_TT_FIBER] = sizeof(struct RFiber),
    [MRB_TT_ISTRUCT] = sizeof(struct RIStruct),
    [MRB_TT_BREAK] = sizeof(struct RBreak),
#ifdef MRB_WORD_BOXING
    [MRB_TT_INTEGER] = sizeof(struct RInteger),
    [MRB_TT_CPTR] = sizeof(struct RCptr),
#endif
};

/* The two sizes that nearly all objects have are constants where ashlar_new is inlined. */
static inline void *new_cell(ashlar_thread *thread, size_t bytes)
{
    if (LIKELY(bytes == OBJECT_BYTES_MAX)) return ashlar_new(thread, OBJECT_BYTES_MAX);
    if (LIKELY(bytes == sizeof(struct RObject))) return ashlar_new(thread, sizeof(struct RObject));
    return ashlar_new(thread, bytes);
}

static void check_class(mrb_state *mrb, enum mrb_vtype type, struct RClass *class)
{
    if (class->tt != MRB_TT_CLASS && class->tt != MRB_TT_SCLASS && class->tt != MRB_TT_MODULE &&
        class->tt != MRB_TT_ENV) {
        mrb_raise(mrb, E_TYPE_ERROR, "allocation failure");
    }
    enum mrb_vtype instances = MRB_INSTANCE_TT(class);
    if (instances == type || instances == MRB_TT_FALSE) return;
    if (type == MRB_TT_SCLASS || type == MRB_TT_ICLASS || type == MRB_TT_ENV || type == MRB_TT_BIGINT) return;
    mrb_raisef(mrb, E_TYPE_ERROR, "allocation failure of %C", class);
}

/* Collects only when memory is out. */
static void make_room_in_arena(mrb_state *mrb)
{
    mrb_gc *gc = &mrb->gc;
#ifdef MRB_GC_FIXED_ARENA
    if (gc->arena_idx >= MRB_GC_ARENA_SIZE) {
        gc->arena_idx = MRB_GC_ARENA_SIZE - 4; /* room for what raising allocates */
        mrb_exc_raise(mrb, mrb_obj_value(mrb->arena_err));
    }
#else
    if (LIKELY(gc->arena_idx < gc->arena_capa)) return;
    int capacity = gc->arena_capa + gc->arena_capa / 2;
    gc->arena = mrb_realloc(mrb, gc->arena, sizeof *gc->arena * (size_t)capacity);
    gc->arena_capa = capacity;
#endif
}

MRB_API struct RBasic *mrb_obj_alloc(mrb_state *mrb, enum mrb_vtype type, struct RClass *class)
{
    if (class) check_class(mrb, type, class);
    if (type <= MRB_TT_FREE) mrb_raisef(mrb, E_TYPE_ERROR, "allocation failure of %C (type %d)", class, (int)type);

    Room *room = room_of(mrb);
    if (!LIKELY(room->buffer_bytes < BUFFER_BYTES_PER_POLL)) {
        room->buffer_bytes = 0;
        ashlar_poll(room->thread);
    }
    make_room_in_arena(mrb);
    struct RBasic *object = new_cell(room->thread, object_bytes[type]);
    if (!LIKELY(object)) mrb_raise_nomemory(mrb);
    object->tt = type;
    object->c = class;
    mrb->gc.arena[mrb->gc.arena_idx++] = object;
    return object;
}

MRB_API void mrb_gc_protect(mrb_state *mrb, mrb_value value)
{
    if (mrb_immediate_p(value) || mrb_basic_ptr(value)->color == MRB_GC_RED) return;
    make_room_in_arena(mrb);
    mrb->gc.arena[mrb->gc.arena_idx++] = mrb_basic_ptr(value);
}

MRB_API void mrb_gc_register(mrb_state *mrb, mrb_value value)
{
    if (mrb_immediate_p(value) || mrb_basic_ptr(value)->color == MRB_GC_RED) return;
    if (!ashlar_pin(room_of(mrb)->heap, mrb_ptr(value))) mrb_raise_nomemory(mrb);
}

MRB_API void mrb_gc_unregister(mrb_state *mrb, mrb_value value)
{
    if (!mrb_immediate_p(value)) ashlar_unpin(room_of(mrb)->heap, mrb_ptr(value));
}

/* Also asked of addresses whose object may be gone long since. */
MRB_API mrb_bool mrb_object_dead_p(mrb_state *mrb, struct RBasic *object)
{
    return !ashlar_is_cell(room_of(mrb)->heap, object);
}

size_t mrb_objspace_page_slot_size(void)
{
    return OBJECT_BYTES_MAX;
}

/* ── Write barriers ──────────────────────────────────────────────────────────── */

MRB_API void mrb_field_write_barrier(mrb_state *mrb, struct RBasic *object, struct RBasic *value)
{
    if (object->color != MRB_GC_RED) ashlar_barrier(room_of(mrb)->thread, object, value);
}

MRB_API void mrb_write_barrier(mrb_state *mrb, struct RBasic *object)
{
    if (object->color != MRB_GC_RED) ashlar_barrier_all(room_of(mrb)->thread, object);
}

/* ── What refers to what ─────────────────────────────────────────────────────── */

MRB_API void mrb_gc_mark(mrb_state *mrb, struct RBasic *object)
{
    (void)mrb;
    ashlar_mark(tracer_now, object);
}

static void mark(const void *object)
{
    ashlar_mark(tracer_now, (void *)object);
}

static void mark_values(Room *room, mrb_value *values, size_t count)
{
#ifdef MRB_WORD_BOXING
    /* What is no reference is nil, which is 0, or no multiple of 8. */
    ashlar_mark_words(tracer_now, values, count);
#else
    for (size_t index = 0; index < count; index++) mrb_gc_mark_value(room->mrb, values[index]);
#endif
}

/* The part of a stack that is in use. What lies above it is forgotten: it would be stale when the
 * stack has grown over it. */
static void mark_stack(Room *room, struct mrb_context *context)
{
    if (!context->stbase) return;
    size_t size = (size_t)(context->stend - context->stbase), used = 0;
    if (context->ci) {
        used = (size_t)mrb_ci_nregs(context->ci);
        if (context->ci->stack) used += (size_t)(context->ci->stack - context->stbase);
        if (used > size) used = size;
    }
    mark_values(room, context->stbase, used);
    for (size_t index = used; index < size; index++) context->stbase[index] = mrb_nil_value();
}

static void mark_contexts(Room *room, struct mrb_context *context)
{
    for (; context && context->status != MRB_FIBER_TERMINATED; context = context->prev) {
        mark_stack(room, context);
        if (context->cibase) {
            for (mrb_callinfo *call = context->cibase; call <= context->ci; call++) {
                mark(call->proc);
                mark(call->u.target_class); /* or its environment */
            }
        }
        mark(context->fib);
    }
}

static void trace_class(Room *room, struct RClass *class)
{
    mrb_state *mrb = room->mrb;
    mark(class->super);
    if (class->tt == MRB_TT_ICLASS) {
        /* Its tables belong to the module, but for the origin of one with prepended modules. */
        if (MRB_FLAG_TEST(class, MRB_FL_CLASS_IS_ORIGIN)) mrb_gc_mark_mt(mrb, class);
        return;
    }
    mrb_gc_mark_mt(mrb, class);
    mrb_gc_mark_iv(mrb, (struct RObject *)class);
}

/* Variables that are still on a stack are marked with it. The program writes to a stack without
 * a barrier, so no cell may be what keeps them. */
static void trace_environment(Room *room, struct REnv *environment)
{
    if (!MRB_ENV_ONSTACK_P(environment)) {
        mark_values(room, environment->stack, (size_t)MRB_ENV_LEN(environment));
    } else if (environment->cxt && environment->cxt != room->mrb->root_c) {
        /* That of the first stack is a root, made when it is first asked for. */
        mark(environment->cxt->fib);
    }
}

/* Those that run, or wait for what they resumed, are roots. A barrier is called for a fiber when
 * it stops being one. */
static mrb_bool is_root(mrb_state *mrb, const struct mrb_context *context)
{
    const struct mrb_context *running = mrb->c;
    while (running && running != context) running = running->prev;
    return running || context == mrb->root_c;
}

static void trace_fiber(Room *room, struct RFiber *fiber)
{
    struct mrb_context *context = fiber->cxt;
    if (context && !is_root(room->mrb, context)) mark_contexts(room, context);
}

/* Most objects are of a class that is a root: nobody need mark it for them. */
static void mark_class(mrb_state *mrb, const struct RClass *class)
{
    if (class == mrb->string_class || class == mrb->array_class || class == mrb->hash_class ||
        class == mrb->proc_class) {
        return;
    }
    mark(class);
}

static void trace_object(Room *room, struct RBasic *object)
{
    mrb_state *mrb = room->mrb;
    mark_class(mrb, object->c);
    switch (object->tt) {
    case MRB_TT_OBJECT:
    case MRB_TT_CDATA:
        mrb_gc_mark_iv(mrb, (struct RObject *)object);
        break;
    case MRB_TT_CLASS:
    case MRB_TT_MODULE:
    case MRB_TT_SCLASS:
    case MRB_TT_ICLASS:
        trace_class(room, (struct RClass *)object);
        break;
    case MRB_TT_ARRAY:
    case MRB_TT_STRUCT: {
        struct RArray *array = (struct RArray *)object;
        mark_values(room, ARY_PTR(array), (size_t)ARY_LEN(array));
        break;
    }
    case MRB_TT_HASH:
        mrb_gc_mark_iv(mrb, (struct RObject *)object);
        mrb_gc_mark_hash(mrb, (struct RHash *)object);
        break;
    case MRB_TT_STRING:
        if (RSTR_FSHARED_P(object)) mark(((struct RString *)object)->as.heap.aux.fshared);
        break;
    case MRB_TT_RANGE:
        mrb_gc_mark_range(mrb, (struct RRange *)object);
        break;
    case MRB_TT_PROC: {
        struct RProc *proc = (struct RProc *)object;
        mark(proc->upper);
        mark(proc->e.env); /* or its class */
        break;
    }
    case MRB_TT_ENV:
        trace_environment(room, (struct REnv *)object);
        break;
    case MRB_TT_FIBER:
        trace_fiber(room, (struct RFiber *)object);
        break;
    case MRB_TT_EXCEPTION: {
        struct RException *exception = (struct RException *)object;
        mrb_gc_mark_iv(mrb, (struct RObject *)object);
        mark(exception->mesg);
        mark(exception->backtrace);
        break;
    }
    case MRB_TT_BREAK:
        mrb_gc_mark_value(mrb, mrb_break_value_get((struct RBreak *)object));
        break;
    default:
        break;
    }
}

static void trace(void *cell, ashlar_tracer *tracer, void *data)
{
    tracer_now = tracer;
    trace_object(data, cell);
}

/* Tracing only reads what several objects share, and writes to nothing but a fiber's own stack. */
static bool trace_anywhere(void *cell, ashlar_tracer *tracer, void *data)
{
    trace(cell, tracer, data);
    return true;
}

static void mark_built_in(Room *room)
{
    mrb_state *mrb = room->mrb;
    const void *objects[] = {
        mrb->object_class, mrb->class_class, mrb->module_class, mrb->proc_class, mrb->string_class,
        mrb->array_class, mrb->hash_class, mrb->range_class, mrb->integer_class, mrb->true_class,
        mrb->false_class, mrb->nil_class, mrb->symbol_class, mrb->kernel_module,
        mrb->eException_class, mrb->eStandardError_class, mrb->top_self, mrb->exc,
#ifndef MRB_NO_FLOAT
        mrb->float_class,
#endif
    };
    for (size_t index = 0; index < sizeof objects / sizeof *objects; index++) mark(objects[index]);
}

static void trace_roots(ashlar_tracer *tracer, void *data)
{
    Room *room = data;
    mrb_state *mrb = room->mrb;
    tracer_now = tracer;
    mark_built_in(room);
    mrb_gc_mark_gv(mrb);
    for (int index = 0; index < mrb->gc.arena_idx; index++) mark(mrb->gc.arena[index]);
    mark_contexts(room, mrb->c);
    if (mrb->root_c != mrb->c) mark_contexts(room, mrb->root_c);
}

/* Exceptions that are made in advance are kept, and forget what they were last raised with. */
static void keep_empty(Room *room, struct RObject *object)
{
    if (!object || !ashlar_is_dead(tracer_now, object)) return;
    struct RException *exception = (struct RException *)object;
    mrb_gc_free_iv(room->mrb, object);
    exception->iv = NULL;
    exception->mesg = NULL;
    exception->backtrace = NULL;
    mark(object);
}

static void marked(ashlar_tracer *tracer, void *data)
{
    Room *room = data;
    tracer_now = tracer;
    keep_empty(room, room->mrb->nomem_err);
    keep_empty(room, room->mrb->stack_err);
#ifdef MRB_GC_FIXED_ARENA
    keep_empty(room, room->mrb->arena_err);
#endif
}

/* ── Dead objects ────────────────────────────────────────────────────────────── */

static void release_class(mrb_state *mrb, struct RClass *class, mrb_bool at_end)
{
    mrb_bool has_tables = class->tt != MRB_TT_ICLASS;
    if (has_tables || MRB_FLAG_TEST(class, MRB_FL_CLASS_IS_ORIGIN)) mrb_gc_free_mt(mrb, class);
    if (has_tables) mrb_gc_free_iv(mrb, (struct RObject *)class);
    if (!at_end) mrb_mc_clear_by_class(mrb, class);
}

static void release_proc(mrb_state *mrb, struct RProc *proc, mrb_bool at_end)
{
    if (MRB_PROC_CFUNC_P(proc) || MRB_PROC_ALIAS_P(proc) || !proc->body.irep) return;
    mrb_irep *code = (mrb_irep *)proc->body.irep;
    if (at_end) mrb_irep_cutref(mrb, code);
    mrb_irep_decref(mrb, code);
}

static void release_data(mrb_state *mrb, struct RData *object)
{
    if (object->type && object->type->dfree) object->type->dfree(mrb, object->data);
    mrb_gc_free_iv(mrb, (struct RObject *)object);
}

static void release_array(mrb_state *mrb, struct RArray *array)
{
    if (ARY_SHARED_P(array)) {
        mrb_ary_decref(mrb, array->as.heap.aux.shared);
    } else if (!ARY_EMBED_P(array)) {
        mrb_free(mrb, array->as.heap.ptr);
    }
}

/* Frees the buffers that a dead object owns. Other objects may be gone already. */
static void release_object(mrb_state *mrb, struct RBasic *object, mrb_bool at_end)
{
    switch (object->tt) {
    case MRB_TT_OBJECT:
    case MRB_TT_EXCEPTION:
        mrb_gc_free_iv(mrb, (struct RObject *)object);
        break;
    case MRB_TT_CLASS:
    case MRB_TT_MODULE:
    case MRB_TT_SCLASS:
    case MRB_TT_ICLASS:
        release_class(mrb, (struct RClass *)object, at_end);
        break;
    case MRB_TT_STRING:
        mrb_gc_free_str(mrb, (struct RString *)object);
        break;
    case MRB_TT_ARRAY:
    case MRB_TT_STRUCT:
        release_array(mrb, (struct RArray *)object);
        break;
    case MRB_TT_HASH:
        mrb_gc_free_iv(mrb, (struct RObject *)object);
        mrb_gc_free_hash(mrb, (struct RHash *)object);
        break;
    case MRB_TT_RANGE:
        mrb_gc_free_range(mrb, (struct RRange *)object);
        break;
    case MRB_TT_PROC:
        release_proc(mrb, (struct RProc *)object, at_end);
        break;
    case MRB_TT_ENV:
        /* Else its variables are in a stack that somebody else frees. */
        if (!MRB_ENV_ONSTACK_P((struct REnv *)object)) mrb_free(mrb, ((struct REnv *)object)->stack);
        break;
    case MRB_TT_FIBER: {
        struct mrb_context *context = ((struct RFiber *)object)->cxt;
        if (context != mrb->root_c) mrb_free_context(mrb, context);
        break;
    }
    case MRB_TT_CDATA:
        release_data(mrb, (struct RData *)object);
        break;
#ifdef MRB_USE_BIGINT
    case MRB_TT_BIGINT:
        mrb_gc_free_bint(mrb, object);
        break;
#endif
    default:
        break;
    }
}

static void release(void *cell, ashlar_thread *thread, void *data)
{
    (void)thread;
    Room *room = data;
    if (!room->is_over) release_object(room->mrb, cell, FALSE);
}

static void release_at_end(void *cell, size_t bytes, void *data)
{
    (void)bytes;
    release_object(((Room *)data)->mrb, cell, TRUE);
}

/* ── A heap's beginning and end ──────────────────────────────────────────────── */

/* The program that mruby is part of cannot go on without a heap, and mruby not say so. */
static mrb_noreturn void give_up(void)
{
    fprintf(stderr, "mruby: %s\n", ashlar_error());
    exit(2);
}

/* ASHLAR_OPTIONS, in the words of ashlar.h, come after what mruby has by default. */
static ashlar_heap *make_heap(Room *room, const char *own)
{
    ashlar_vm vm = ASHLAR_VM_INIT;
    vm.data = room;
    vm.trace = trace;
    vm.trace_anywhere = trace_anywhere;
    vm.trace_roots = trace_roots;
    vm.release = release;
    vm.marked = marked;
    size_t bytes = sizeof DEFAULT_OPTIONS + 1 + strlen(own);
    char *options = malloc(bytes);
    if (!options) mrb_raise_nomemory(room->mrb);
    snprintf(options, bytes, "%s %s", DEFAULT_OPTIONS, own);
    ashlar_heap *heap = ashlar_heap_new(&vm, options);
    free(options);
    if (!heap) give_up();
    return heap;
}

static int interval_ratio_of(const char *own)
{
    const char *found = strstr(own, "space_overhead=");
    return found ? 100 + atoi(found + strlen("space_overhead=")) : DEFAULT_INTERVAL_RATIO;
}

void mrb_gc_init(mrb_state *mrb, mrb_gc *gc)
{
    mrb_static_assert(sizeof(struct RStringEmbed) <= OBJECT_BYTES_MAX);
    const char *own = getenv("ASHLAR_OPTIONS");
    if (!own) own = "";
    Room *room = calloc(1, sizeof *room);
    if (!room) mrb_raise_nomemory(mrb);
    room->mrb = mrb;
    room->has_buffers = mrb->allocf == mrb_default_allocf;
    room->heap = make_heap(room, own);
    room->thread = ashlar_thread_new(room->heap);
    if (!room->thread) give_up();
    gc->heaps = room;
#ifndef MRB_GC_FIXED_ARENA
    gc->arena = mrb_malloc(mrb, sizeof *gc->arena * MRB_GC_ARENA_SIZE);
    gc->arena_capa = MRB_GC_ARENA_SIZE;
#endif
    gc->interval_ratio = interval_ratio_of(own);
    gc->step_ratio = DEFAULT_STEP_RATIO;
    gc->generational = TRUE;
}

/* Objects end here; the heap ends with the state, because buffers are freed until then. */
void mrb_gc_destroy(mrb_state *mrb, mrb_gc *gc)
{
    Room *room = room_of(mrb);
    if (!room) return; /* mrb_open has failed */
    ashlar_each_cell(room->heap, release_at_end, room);
    room->is_over = TRUE;
#ifndef MRB_GC_FIXED_ARENA
    mrb_free(mrb, gc->arena);
#endif
    gc->arena_idx = 0;
}

/* ── Collecting ──────────────────────────────────────────────────────────────── */

static mrb_bool may_collect(mrb_state *mrb)
{
    return mrb->c && !mrb->gc.disabled && !mrb->gc.iterating;
}

/* Part of a collection, as long as a slice. */
MRB_API void mrb_incremental_gc(mrb_state *mrb)
{
    unsigned int us = (unsigned int)mrb->gc.step_ratio * SLICE_US_PER_STEP_RATIO;
    if (may_collect(mrb)) ashlar_step(room_of(mrb)->thread, us);
}

MRB_API void mrb_full_gc(mrb_state *mrb)
{
    if (may_collect(mrb)) ashlar_collect(room_of(mrb)->thread, ASHLAR_FULL);
}

MRB_API void mrb_garbage_collect(mrb_state *mrb)
{
    mrb_full_gc(mrb);
}

/* ── Walking over all objects ────────────────────────────────────────────────── */

typedef struct {
    struct RBasic **objects;
    size_t count, capacity;
} List;

static void count_object(void *cell, size_t bytes, void *list)
{
    (void)cell, (void)bytes;
    ((List *)list)->capacity++;
}

static void list_object(void *cell, size_t bytes, void *data)
{
    (void)bytes;
    List *list = data;
    list->objects[list->count++] = cell;
}

static void visit_all(mrb_state *mrb, const List *list, mrb_each_object_callback *callback, void *data)
{
    for (size_t index = 0; index < list->count; index++) {
        if (callback(mrb, list->objects[index], data) == MRB_EACH_OBJ_BREAK) return;
    }
}

static void set_iterating(mrb_state *mrb, mrb_bool iterating)
{
    if (mrb->gc.iterating == iterating) return;
    mrb->gc.iterating = iterating;
    (iterating ? ashlar_disable : ashlar_enable)(room_of(mrb)->heap);
}

/* The callback may allocate and raise, so it gets a list of what there was; nothing is collected
 * while it lasts. */
void mrb_objspace_each_objects(mrb_state *mrb, mrb_each_object_callback *callback, void *data)
{
    ashlar_heap *heap = room_of(mrb)->heap;
    mrb_bool was_iterating = mrb->gc.iterating;
    mrb_full_gc(mrb);
    List list = { NULL, 0, 0 };
    ashlar_each_cell(heap, count_object, &list);
    list.objects = mrb_malloc(mrb, (list.capacity + 1) * sizeof *list.objects);
    ashlar_each_cell(heap, list_object, &list);

    struct mrb_jmpbuf *outer = mrb->jmp;
    struct mrb_jmpbuf here;
    volatile mrb_bool raised = TRUE;
    set_iterating(mrb, TRUE);
    MRB_TRY(&here) {
        mrb->jmp = &here;
        visit_all(mrb, &list, callback, data);
        raised = FALSE;
    } MRB_CATCH(&here) {
    } MRB_END_EXC(&here);
    mrb->jmp = outer;
    set_iterating(mrb, was_iterating);
    mrb_free(mrb, list.objects);
    if (raised) MRB_THROW(outer);
}

/* ── GC ──────────────────────────────────────────────────────────────────────── */

static mrb_value gc_start(mrb_state *mrb, mrb_value self)
{
    (void)self;
    mrb_full_gc(mrb);
    return mrb_nil_value();
}

static mrb_value set_disabled(mrb_state *mrb, mrb_bool disabled)
{
    mrb_bool before = mrb->gc.disabled;
    if (before != disabled) (disabled ? ashlar_disable : ashlar_enable)(room_of(mrb)->heap);
    mrb->gc.disabled = disabled;
    return mrb_bool_value(before);
}

static mrb_value gc_enable(mrb_state *mrb, mrb_value self)
{
    (void)self;
    return set_disabled(mrb, FALSE);
}

static mrb_value gc_disable(mrb_state *mrb, mrb_value self)
{
    (void)self;
    return set_disabled(mrb, TRUE);
}

/* Sets an option, within what it may be. */
static void set_option(mrb_state *mrb, const char *name, mrb_int value, mrb_int min, mrb_int max)
{
    char option[64];
    mrb_int allowed = value < min ? min : value > max ? max : value;
    snprintf(option, sizeof option, "%s=%ld", name, (long)allowed);
    if (!ashlar_heap_set(room_of(mrb)->heap, option)) mrb_raise(mrb, E_RUNTIME_ERROR, ashlar_error());
}

static mrb_value gc_interval_ratio(mrb_state *mrb, mrb_value self)
{
    (void)self;
    return mrb_int_value(mrb, mrb->gc.interval_ratio);
}

static mrb_value gc_set_interval_ratio(mrb_state *mrb, mrb_value self)
{
    (void)self;
    mrb_int ratio;
    mrb_get_args(mrb, "i", &ratio);
    set_option(mrb, "space_overhead", ratio - 100, 10, 1000);
    mrb->gc.interval_ratio = (int)ratio;
    return mrb_nil_value();
}

static mrb_value gc_step_ratio(mrb_state *mrb, mrb_value self)
{
    (void)self;
    return mrb_int_value(mrb, mrb->gc.step_ratio);
}

static mrb_value gc_set_step_ratio(mrb_state *mrb, mrb_value self)
{
    (void)self;
    mrb_int ratio;
    mrb_get_args(mrb, "i", &ratio);
    if (ratio < 0 || ratio > INT32_MAX / SLICE_US_PER_STEP_RATIO) ratio = INT32_MAX / SLICE_US_PER_STEP_RATIO;
    set_option(mrb, "slice_us", ratio * SLICE_US_PER_STEP_RATIO, 100, 1000000);
    mrb->gc.step_ratio = (int)ratio;
    return mrb_nil_value();
}

static mrb_value gc_generational_mode(mrb_state *mrb, mrb_value self)
{
    (void)self;
    return mrb_bool_value(mrb->gc.generational);
}

static mrb_value gc_set_generational_mode(mrb_state *mrb, mrb_value self)
{
    (void)self;
    mrb_bool generational;
    mrb_get_args(mrb, "b", &generational);
    if (generational != mrb->gc.generational) {
        if (mrb->gc.disabled || mrb->gc.iterating) {
            mrb_raise(mrb, E_RUNTIME_ERROR, "generational mode cannot change while nothing is collected");
        }
        set_option(mrb, "generational", generational, 0, 1);
        mrb->gc.generational = generational;
    }
    return mrb_bool_value(generational);
}

static void set_count(mrb_state *mrb, mrb_value hash, const char *name, uint64_t count)
{
    mrb_hash_set(mrb, hash, mrb_symbol_value(mrb_intern_cstr(mrb, name)), mrb_int_value(mrb, (mrb_int)count));
}

/* What mruby's own collector has not: counters, by the names of ashlar_statistics. */
static mrb_value gc_stat(mrb_state *mrb, mrb_value self)
{
    (void)self;
    ashlar_statistics now;
    ashlar_statistics_get(room_of(mrb)->heap, &now, sizeof now);
    mrb_value hash = mrb_hash_new(mrb);
    set_count(mrb, hash, "minor_collections", now.minor_collections);
    set_count(mrb, hash, "major_collections", now.major_collections);
    set_count(mrb, hash, "full_collections", now.full_collections);
    set_count(mrb, hash, "live_cells", now.live_cells);
    set_count(mrb, hash, "cell_bytes", now.cell_bytes);
    set_count(mrb, hash, "payload_bytes", now.payload_bytes);
    set_count(mrb, hash, "block_bytes", now.block_bytes);
    set_count(mrb, hash, "pauses", now.pauses);
    set_count(mrb, hash, "pause_ns", now.pause_ns);
    set_count(mrb, hash, "pause_ns_max", now.pause_ns_max);
    return hash;
}

void mrb_init_gc(mrb_state *mrb)
{
    struct RClass *gc = mrb_define_module_id(mrb, MRB_SYM(GC));
    mrb_define_class_method_id(mrb, gc, MRB_SYM(start), gc_start, MRB_ARGS_NONE());
    mrb_define_class_method_id(mrb, gc, MRB_SYM(enable), gc_enable, MRB_ARGS_NONE());
    mrb_define_class_method_id(mrb, gc, MRB_SYM(disable), gc_disable, MRB_ARGS_NONE());
    mrb_define_class_method_id(mrb, gc, MRB_SYM(interval_ratio), gc_interval_ratio, MRB_ARGS_NONE());
    mrb_define_class_method_id(mrb, gc, MRB_SYM_E(interval_ratio), gc_set_interval_ratio, MRB_ARGS_REQ(1));
    mrb_define_class_method_id(mrb, gc, MRB_SYM(step_ratio), gc_step_ratio, MRB_ARGS_NONE());
    mrb_define_class_method_id(mrb, gc, MRB_SYM_E(step_ratio), gc_set_step_ratio, MRB_ARGS_REQ(1));
    mrb_define_class_method_id(mrb, gc, MRB_SYM(generational_mode), gc_generational_mode, MRB_ARGS_NONE());
    mrb_define_class_method_id(mrb, gc, MRB_SYM_E(generational_mode), gc_set_generational_mode, MRB_ARGS_REQ(1));
    mrb_define_class_method_id(mrb, gc, MRB_SYM(stat), gc_stat, MRB_ARGS_NONE());
}
