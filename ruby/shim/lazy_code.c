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
void *ashlar_code_caches(size_t count, size_t size);
VALUE ashlar_code_is_read(VALUE string, const char **bytes);

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

/* ── Binary forms ────────────────────────────────────────────────────────── */

struct binary_form {
    const char *bytes; /* NULL until it has some */
    size_t size;
};

static void
give_back(void *data)
{
    const struct binary_form *form = data;
    if (!form->bytes) return;
    ashlar_give_binary_form_back(ashlar_objspace(), form->bytes);
    rb_gc_adjust_memory_usage(-(ssize_t)form->size);
}

static size_t
size_of_form(const void *data)
{
    return ((const struct binary_form *)data)->size;
}

static const rb_data_type_t binary_form_type = {
    "Ashlar/binary form", { NULL, give_back, size_of_form }, NULL, NULL,
    RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED | RUBY_TYPED_EMBEDDABLE,
};

/* Called by the edited compile.c in any Ractor before it reads a binary form. Returns the object to keep for as
   long as the bytes are read, and where they are. A string that cannot change and has its bytes elsewhere for good
   (bit 18 says so) is read in place: it may be a mapped file. Any other is copied, because the program may change it,
   unless all is loaded at once. */
VALUE
ashlar_code_is_read(VALUE string, const char **bytes)
{
    bool stays = OBJ_FROZEN(string) && FL_TEST_RAW(string, FL_USER18);
    if (stays || !ashlar_lets_code_wait()) {
        *bytes = RSTRING_PTR(string);
        return string;
    }
    struct binary_form *form;
    VALUE keeper = TypedData_Make_Struct(0, struct binary_form, &binary_form_type, form);
    size_t size = (size_t)RSTRING_LEN(string);
    form->bytes = ashlar_keep_binary_form(ashlar_objspace(), RSTRING_PTR(string), size);
    if (!form->bytes) {
        keeper = rb_str_new(RSTRING_PTR(string), (long)size);
        *bytes = RSTRING_PTR(keeper);
    } else {
        form->size = size;
        *bytes = form->bytes;
        rb_gc_adjust_memory_usage((ssize_t)size);
    }
    RB_GC_GUARD(string);
    return keeper;
}

/* ── Before children begin ───────────────────────────────────────────────── */

/* Code that is not loaded and that children may run. What is found in one walk is counted first, because
   nothing can be allocated in the next, which notes it. */
struct unloaded {
    size_t count;
    VALUE found; /* an array with room for as many, which programs do not see, or 0 */
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
        unloaded.found = rb_ary_hidden_new(unloaded.room);
        unloaded.count = 0;
        rb_objspace_each_objects(note_unloaded, &unloaded);
        bool has_loaded = false;
        for (long i = 0; i < RARRAY_LEN(unloaded.found); i++) {
            has_loaded |= ashlar_quietly(load_one, RARRAY_AREF(unloaded.found, i)) == Qtrue;
        }
        RB_GC_GUARD(unloaded.found);
        if (!has_loaded) break;
    }
    return Qnil;
}

bool
ashlar_has_waiting_code(void)
{
    return __atomic_load_n(&has_waiting_code, __ATOMIC_RELAXED);
}

/* What other threads have raised meanwhile is raised here, before a child begins. */
void
ashlar_load_code_for_children(void)
{
    if (!ashlar_has_waiting_code()) return;
    ashlar_quietly(load_for_children, Qnil);
    rb_thread_check_ints();
}

/* What the interpreter writes when code runs: inline caches and call caches. */
void *
ashlar_code_caches(size_t count, size_t size)
{
    void *caches = ashlar_calloc_for_code(count * size);
    return caches ? caches : ruby_xcalloc(count, size);
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
