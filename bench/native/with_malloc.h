/* malloc, and a program that frees: glibc, or whatever is preloaded. */
#define COLLECTS 0

static inline void memory_begin(void *base) { (void)base; }
static inline void memory_end(void) {}
static inline void thread_begin(void *base) { (void)base; }
static inline void thread_end(void) {}

static inline void *object_new(size_t bytes, unsigned references, unsigned owns)
{
    struct object *object = malloc(bytes);
    if (!object) fail("memory is out");
    describe(object, references, owns);
    return object;
}

static inline void object_free(void *object) { free(object); }
static inline void *references_new(size_t count) { return calloc(count, sizeof(void *)); }
static inline void *buffer_new(size_t bytes) { return malloc(bytes); }
static inline void *buffer_resize(void *buffer, size_t bytes) { return realloc(buffer, bytes); }
static inline void buffer_free(void *buffer) { free(buffer); }
static inline void *block_new(size_t bytes) { return malloc(bytes); }
static inline void block_free(void *block) { free(block); }
static inline void set(void *parent, void *field, void *child)
{
    (void)parent;
    *(void **)field = child;
}
static inline void root(void *place) { (void)place; }
static inline long collections(void) { return 0; }
static inline void collect(void) {}
