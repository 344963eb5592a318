/* Ashlar's cells, with the stack scanned. ASHLAR_OPTIONS has options of the heap. With CALLBACKS
 * nothing is declared of the cells, and the heap asks what each refers to. */
#define COLLECTS 1

#include <ashlar.h>

extern ashlar_heap *heap;
extern __thread ashlar_thread *own;

bool trace_object_anywhere(void *cell, ashlar_tracer *tracer, void *data);
void trace_object(void *cell, ashlar_tracer *tracer, void *data);
void release_object(void *cell, ashlar_thread *thread, void *data);

static inline void thread_begin(void *base)
{
    own = ashlar_thread_new(heap);
    ashlar_thread_scan_stack(own, base);
}

static inline void thread_end(void) { ashlar_thread_free(own); }

#ifndef CALLBACKS
/* By `owns`. An object that owns references has no others. */
#define OWN_FIELDS .row_at = offsetof(struct object, fields), .row_count = ASHLAR_NUMBER(struct object, references)
static const ashlar_layout layouts[] = {
    [OWNS_NOTHING] = { .refers = ASHLAR_ROW, .owns = ASHLAR_OWNS_NOTHING, OWN_FIELDS },
    [OWNS_BYTES] = { .refers = ASHLAR_ROW, OWN_FIELDS },
    [OWNS_REFERENCES] = { .refers = ASHLAR_PAYLOAD_ROW, .row_at = offsetof(struct object, fields),
                          .row_count = ASHLAR_NUMBER(struct object, length) },
};
#endif

static inline void memory_begin(void *base)
{
    ashlar_vm vm = ASHLAR_VM_INIT;
#ifndef CALLBACKS
    vm.kind = (ashlar_number)ASHLAR_NUMBER(struct object, owns);
    vm.layouts = layouts;
    vm.layout_count = sizeof layouts / sizeof *layouts;
#endif
    vm.trace = trace_object;
    vm.trace_anywhere = trace_object_anywhere;
    vm.release = release_object;
    heap = ashlar_heap_new(&vm, getenv("ASHLAR_OPTIONS"));
    if (!heap) fail(ashlar_error());
    thread_begin(base);
}

static inline void memory_end(void) {}

static inline void *object_new(size_t bytes, unsigned references, unsigned owns)
{
    struct object *object = ashlar_new(own, bytes);
    if (!object) fail(ashlar_error());
    if (owns == OWNS_REFERENCES && references) fail("an object has references in two places");
    object->references = (uint16_t)references;
    object->owns = (uint16_t)owns;
    return object;
}

static inline void object_free(void *object) { (void)object; }
static inline void *references_new(size_t count) { return ashlar_calloc(own, count, sizeof(void *)); }
static inline void *buffer_new(size_t bytes) { return ashlar_payload_new(own, bytes); }
static inline void *buffer_resize(void *buffer, size_t bytes) { return ashlar_payload_resize(own, buffer, bytes); }
static inline void buffer_free(void *buffer) { ashlar_free(own, buffer); }
static inline void *block_new(size_t bytes) { return ashlar_malloc(own, bytes); }
static inline void block_free(void *block) { ashlar_free(own, block); }
static inline void set(void *parent, void *field, void *child) { ashlar_store(own, parent, field, child); }
static inline void root(void *place) { ashlar_root_add(heap, place); }

static inline long collections(void)
{
    ashlar_statistics now;
    ashlar_statistics_get(heap, &now, sizeof now);
    return (long)(now.minor_collections + now.major_collections + now.full_collections);
}

static inline void collect(void) { ashlar_collect(own, ASHLAR_FULL); }
