/*
 * Code that waits in its binary form until it runs (docs/design/lazy-code.md): what the edited
 * compile.c (ruby/inside/edits) asks, and what is loaded before children begin.
 */
#include "ruby/ruby.h"
#include "gc/gc.h"

#include "ashlar_ruby.h"
#include "shim.h"

#ifdef ASHLAR_LAZY_CODE

#include "internal.h"
#include "internal/imemo.h"

/* Defined by the edited compile.c: where the code of a sequence lies that has not been loaded, NULL when it
   is loaded; and loading it. */
extern const char *ashlar_unloaded_code(VALUE sequence, unsigned int *index);
extern void ashlar_load_code(VALUE sequence);
extern void rb_objspace_each_objects(int (*visit)(void *, void *, size_t, void *), void *data);

void ashlar_code_loaded(const char *binary, unsigned int index);
bool ashlar_code_may_wait(void);

/* Set once, by any Ractor. */
static bool has_waiting_code;

/* Called by the edited compile.c in any Ractor for code that need not be loaded. */
bool
ashlar_code_may_wait(void)
{
    if (!ashlar_lets_code_wait()) return false;
    __atomic_store_n(&has_waiting_code, true, __ATOMIC_RELAXED);
    return true;
}

/* Called by the edited compile.c in any Ractor when it has loaded a sequence that it did not load at
   once. It must not allocate Ruby objects, nor wait for a lock. */
void
ashlar_code_loaded(const char *binary, unsigned int index)
{
    ashlar_note_loaded_code(binary, index);
}

/* Code that is not loaded and that children may run. What is found in one walk is counted first, because
   nothing can be allocated in the next, which notes it. */
struct unloaded {
    size_t count;
    VALUE found; /* an array with room for as many, or 0 */
    long room;
};

static int
note_unloaded(void *start, void *end, size_t stride, void *data)
{
    struct unloaded *unloaded = data;
    for (VALUE cell = (VALUE)start; cell != (VALUE)end; cell += stride) {
        if (!RBASIC(cell)->flags || !imemo_type_p(cell, imemo_iseq)) continue;
        unsigned int index;
        const char *binary = ashlar_unloaded_code(cell, &index);
        if (!binary || !ashlar_may_run_in_children(binary, index)) continue;
        unloaded->count++;
        if (unloaded->found && RARRAY_LEN(unloaded->found) < unloaded->room) rb_ary_push(unloaded->found, cell);
    }
    return 0;
}

static VALUE
load_one(VALUE sequence)
{
    ashlar_load_code(sequence);
    return Qtrue;
}

/* Loading one sequence brings those inside it into being, so there are several rounds. */
static VALUE
load_for_children(VALUE unused)
{
    ashlar_read_what_ran();
    for (int round = 0; round < 64; round++) {
        struct unloaded unloaded = { 0 };
        rb_objspace_each_objects(note_unloaded, &unloaded);
        if (!unloaded.count) break;
        unloaded.room = (long)unloaded.count;
        unloaded.found = rb_ary_new_capa(unloaded.room);
        unloaded.count = 0;
        rb_objspace_each_objects(note_unloaded, &unloaded);
        bool has_loaded = false;
        for (long i = 0; i < RARRAY_LEN(unloaded.found); i++) {
            has_loaded |= ashlar_quietly(load_one, RARRAY_AREF(unloaded.found, i)) == Qtrue;
        }
        RB_GC_GUARD(unloaded.found);
        if (!has_loaded) break;
    }
    return Qtrue;
}

bool
ashlar_has_waiting_code(void)
{
    return __atomic_load_n(&has_waiting_code, __ATOMIC_RELAXED);
}

void
ashlar_load_code_for_children(void)
{
    if (ashlar_has_waiting_code()) ashlar_quietly_and_undisturbed(load_for_children, Qnil);
}

#else

/* Here all code is loaded at once. */
bool
ashlar_has_waiting_code(void)
{
    return false;
}

void
ashlar_load_code_for_children(void)
{
}

#endif
