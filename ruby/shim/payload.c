/*
 * Each thread's payload cache, and the process's malloc when the library is preloaded.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ashlar_ruby.h"
#include "inlined.h"

__thread void *ashlar_thread_cache;
static __thread enum ashlar_cache_state cache_state __attribute__((tls_model("initial-exec")));
static pthread_key_t thread_end;
static bool has_thread_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;

void *
ashlar_current_thread_cache(void)
{
    return ashlar_thread_cache;
}

enum ashlar_cache_state
ashlar_thread_cache_state(void)
{
    return cache_state;
}

/* Called when a thread ends. The C library and other functions that are called then may free
   memory after this one. */
static void
thread_ends(void *cache)
{
    ashlar_thread_cache = NULL;
    cache_state = ASHLAR_CACHE_NEVER;
    ashlar_give_up_thread_cache(cache);
}

/* The thread that forks. Between before_fork and after_fork_in_* functions may run that the
   program has registered for forks. They allocate without the thread's cache, so that this
   library sees that the thread holds the locks already. They may fork, too. */
static __thread struct {
    void *cache;
    enum ashlar_cache_state state;
    unsigned forks; /* under way, one in the middle of the other */
} of_forker __attribute__((tls_model("initial-exec")));

static void
set_cache_aside(void)
{
    of_forker.cache = ashlar_thread_cache;
    of_forker.state = cache_state;
    ashlar_thread_cache = NULL;
    cache_state = ASHLAR_CACHE_LOCKED;
}

static void
take_cache_back(void)
{
    ashlar_thread_cache = of_forker.cache;
    cache_state = of_forker.state;
}

static void
before_fork(void)
{
    if (of_forker.forks++) return; /* the thread has the locks */
    ashlar_before_fork();
    set_cache_aside();
}

static void
after_fork_in_parent(void)
{
    if (--of_forker.forks) return;
    take_cache_back();
    ashlar_after_fork(false);
}

static void
after_fork_in_child(void)
{
    take_cache_back();
    if (!--of_forker.forks) {
        ashlar_after_fork(true);
        return;
    }
    ashlar_after_fork_in_fork();
    set_cache_aside();
}

static void
first_thread(void)
{
    has_thread_end = !pthread_key_create(&thread_end, thread_ends);
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* Makes the C library call the handlers above at every fork from now on. */
void
ashlar_watch_forks(void)
{
    pthread_once(&once, first_thread);
}

/* Gives the thread its cache. Returns false, and gives it none, when nobody would report the
   thread's end. The variable is set first, because what follows may call malloc. */
bool
ashlar_thread_cache_set(void *cache)
{
    ashlar_thread_cache = cache;
    pthread_once(&once, first_thread);
    if (has_thread_end && !pthread_setspecific(thread_end, cache)) return true;
    ashlar_thread_cache = NULL;
    cache_state = ASHLAR_CACHE_NEVER;
    return false;
}

/* Under LD_PRELOAD these functions serve every allocation of the process, so there is only
 * one allocator and nothing can be freed by the wrong one. When Ruby has loaded the library,
 * libc comes first in the search order and nobody calls these functions.
 */

/* Ends the process with one line that says why, where no caller could print it. */
void
ashlar_end_for_want_of_memory(void)
{
    static const char refused[] = "ashlar: the system refuses the memory of the heap; raise `ulimit -v` or `ulimit -d`\n";
    ssize_t ignored = write(STDERR_FILENO, refused, sizeof(refused) - 1);
    (void)ignored;
    _exit(EXIT_FAILURE);
}

/* Sets errno. Without the heap there will never be any memory, and no program could say so:
   then the process ends. */
static void *
out_of_memory(void)
{
    if (!ashlar_tables.bytes) ashlar_end_for_want_of_memory();
    errno = ENOMEM;
    return NULL;
}

void *
malloc(size_t size)
{
    void *payload = ashlar_pop_payload(ashlar_thread_cache, size);
    if (ASHLAR_LIKELY(payload)) return payload;
    payload = ashlar_malloc_payload(ashlar_thread_cache, size);
    return payload ? payload : out_of_memory();
}

void
free(void *payload)
{
    /* The payload may be a sample of the heap profile, which has to learn that it ends. */
    if (!payload || (ashlar_xmalloc_is_plain() && ashlar_push_payload(ashlar_thread_cache, payload))) return;
    int saved = errno; /* free keeps errno (POSIX.1-2024) */
    ashlar_free_payload(ashlar_thread_cache, payload);
    errno = saved;
}

void *
calloc(size_t count, size_t size)
{
    size_t bytes;
    void *payload = NULL;
    if (!__builtin_mul_overflow(count, size, &bytes)) payload = ashlar_calloc_payload(ashlar_thread_cache, bytes);
    return payload ? payload : out_of_memory();
}

void *
realloc(void *payload, size_t size)
{
    if (payload && size == 0) {
        free(payload);
        return NULL;
    }
    void *fresh = ashlar_realloc_payload(ashlar_thread_cache, payload, size);
    return fresh ? fresh : out_of_memory();
}

void *
reallocarray(void *payload, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(payload, bytes);
}

static int
is_power_of_two(size_t number)
{
    return number && !(number & (number - 1));
}

void *
aligned_alloc(size_t align, size_t size)
{
    if (!is_power_of_two(align)) {
        errno = EINVAL;
        return NULL;
    }
    void *payload = ashlar_aligned_payload(ashlar_thread_cache, size, align);
    return payload ? payload : out_of_memory();
}

/* Unlike aligned_alloc it rounds an alignment up to a power of two, as glibc's does. */
void *
memalign(size_t align, size_t size)
{
    size_t power = 1;
    while (power && power < align) power <<= 1;
    return aligned_alloc(power, size);
}

int
posix_memalign(void **result, size_t align, size_t size)
{
    if (!is_power_of_two(align) || align % sizeof(void *)) return EINVAL;
    void *payload = ashlar_aligned_payload(ashlar_thread_cache, size, align);
    if (!payload) return ENOMEM;
    *result = payload;
    return 0;
}

static size_t
page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

void *
valloc(size_t size)
{
    return memalign(page_bytes(), size);
}

void *
pvalloc(size_t size)
{
    size_t page = page_bytes(), padded;
    if (__builtin_add_overflow(size, page - 1, &padded)) {
        errno = ENOMEM;
        return NULL;
    }
    return memalign(page, padded & ~(page - 1));
}

size_t
malloc_usable_size(void *payload)
{
    return payload ? ashlar_usable_payload(payload) : 0;
}

/* This library's own free, to compare with the one that the process uses. Looked up by its
 * name, it could be another library's: in a libruby.so the name is looked up in the process.
 */
static __typeof__(free) own_free __attribute__((alias("free"), nothrow));

void *
ashlar_own_free(void)
{
    return (void *)own_free;
}
