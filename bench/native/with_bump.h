/* The limit: a pointer that is bumped, and nothing is ever freed. */
#define COLLECTS 1

#include <sys/mman.h>

extern __thread char *bump_next, *bump_end;

static inline void memory_begin(void *base) { (void)base; }
static inline void memory_end(void) {}
static inline void thread_begin(void *base) { (void)base; }
static inline void thread_end(void) {}

static inline void *bump(size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (__builtin_expect((size_t)(bump_end - bump_next) < bytes, 0)) {
        size_t chunk = bytes > (64 << 20) ? bytes : 64 << 20;
        bump_next = mmap(NULL, chunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (bump_next == MAP_FAILED) fail("memory is out");
        bump_end = bump_next + chunk;
    }
    void *memory = bump_next;
    bump_next += bytes;
    return memory;
}

static inline void *object_new(size_t bytes, unsigned references, unsigned owns)
{
    struct object *object = bump(bytes);
    describe(object, references, owns);
    return object;
}

static inline void object_free(void *object) { (void)object; }

/* A buffer has its size in front, to be copied when it grows. */
static inline void *buffer_new(size_t bytes)
{
    size_t *memory = bump(bytes + 16);
    memory[0] = bytes;
    return memory + 2;
}

static inline void *references_new(size_t count)
{
    size_t *memory = bump(count * sizeof(void *) + 16);
    memory[0] = count * sizeof(void *);
    return memset(memory + 2, 0, memory[0]);
}

static inline void *buffer_resize(void *buffer, size_t bytes)
{
    size_t old = buffer ? ((size_t *)buffer)[-2] : 0;
    if (bytes <= old) return buffer;
    void *larger = buffer_new(bytes);
    return memcpy(larger, buffer ? buffer : larger, old);
}

static inline void buffer_free(void *buffer) { (void)buffer; }
static inline void *block_new(size_t bytes) { return bump(bytes); }
static inline void block_free(void *block) { (void)block; }
static inline void set(void *parent, void *field, void *child)
{
    (void)parent;
    *(void **)field = child;
}
static inline void root(void *place) { (void)place; }
static inline long collections(void) { return 0; }
static inline void collect(void) {}
