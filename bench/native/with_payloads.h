/* Ashlar's payloads as a malloc, and a program that frees. */
#define COLLECTS 0

#include <ashlar.h>

extern ashlar_heap *heap;
extern __thread ashlar_thread *own;

static void trace_nothing(void *cell, ashlar_tracer *tracer, void *data) { (void)cell; (void)tracer; (void)data; }

static inline void thread_begin(void *base) { (void)base; own = ashlar_thread_new(heap); }
static inline void thread_end(void) { ashlar_thread_free(own); }

static inline void memory_begin(void *base)
{
    ashlar_vm vm = ASHLAR_VM_INIT;
    vm.trace = trace_nothing;
    heap = ashlar_heap_new(&vm, getenv("ASHLAR_OPTIONS"));
    if (!heap) fail(ashlar_error());
    thread_begin(base);
}

static inline void memory_end(void) {}

static inline void *object_new(size_t bytes, unsigned references, unsigned owns)
{
    struct object *object = ashlar_malloc(own, bytes);
    if (!object) fail(ashlar_error());
    describe(object, references, owns);
    return object;
}

static inline void object_free(void *object) { ashlar_free(own, object); }
static inline void *references_new(size_t count) { return ashlar_calloc(own, count, sizeof(void *)); }
static inline void *buffer_new(size_t bytes) { return ashlar_malloc(own, bytes); }
static inline void *buffer_resize(void *buffer, size_t bytes) { return ashlar_realloc(own, buffer, bytes); }
static inline void buffer_free(void *buffer) { ashlar_free(own, buffer); }
static inline void *block_new(size_t bytes) { return ashlar_malloc(own, bytes); }
static inline void block_free(void *block) { ashlar_free(own, block); }
static inline void set(void *parent, void *field, void *child)
{
    (void)parent;
    *(void **)field = child;
}
static inline void root(void *place) { (void)place; }
static inline long collections(void) { return 0; }
static inline void collect(void) {}
