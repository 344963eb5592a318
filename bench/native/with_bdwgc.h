/* The Boehm-Demers-Weiser collector. Its own variables (GC_FREE_SPACE_DIVISOR) tune it. */
#define COLLECTS 1

#define GC_THREADS
#include <gc/gc.h>

static inline void memory_begin(void *base) { (void)base; GC_INIT(); }
static inline void memory_end(void) {}
static inline void thread_begin(void *base) { (void)base; }
static inline void thread_end(void) {}

static inline void *object_new(size_t bytes, unsigned references, unsigned owns)
{
    struct object *object = references || owns ? GC_MALLOC(bytes) : GC_MALLOC_ATOMIC(bytes);
    if (!object) fail("memory is out");
    describe(object, references, owns);
    return object;
}

static inline void object_free(void *object) { (void)object; }
static inline void *references_new(size_t count) { return GC_MALLOC(count * sizeof(void *)); }
static inline void *buffer_new(size_t bytes) { return GC_MALLOC_ATOMIC(bytes); }
static inline void *buffer_resize(void *buffer, size_t bytes)
{
    return buffer ? GC_REALLOC(buffer, bytes) : GC_MALLOC_ATOMIC(bytes);
}
static inline void buffer_free(void *buffer) { (void)buffer; }
static inline void *block_new(size_t bytes) { return GC_MALLOC_ATOMIC(bytes); }
static inline void block_free(void *block) { GC_FREE(block); }
static inline void set(void *parent, void *field, void *child)
{
    (void)parent;
    *(void **)field = child;
}
static inline void root(void *place) { (void)place; }
static inline long collections(void) { return (long)GC_get_gc_no(); }
static inline void collect(void) { GC_gcollect(); }
