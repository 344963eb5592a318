/*
 * The functions that the process calls instead of libc's when payloads come from the
 * heap and the library is not preloaded. They look at the address, then go to the heap
 * or on to the process's own function. Only Ruby's own core gets new memory here.
 */
#include <errno.h>

#include "ashlar_ruby.h"
#include "inlined.h"

void *ashlar_redirected_malloc(void *cache, size_t size);
void *ashlar_redirected_calloc(void *cache, size_t size);
void *ashlar_realloc_elsewhere(void *memory, size_t size);

void *
ashlar_interposed_malloc(size_t size)
{
    if (ASHLAR_LIKELY(ashlar_xmalloc_is_plain())) {
        void *payload = ashlar_pop_payload(ashlar_thread_cache, size);
        if (ASHLAR_LIKELY(payload)) return payload;
    }
    return ashlar_redirected_malloc(ashlar_thread_cache, size);
}

void *
ashlar_interposed_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return ashlar_redirected_calloc(ashlar_thread_cache, bytes);
}

void
ashlar_interposed_free(void *memory)
{
    if (!memory || (ashlar_xmalloc_is_plain() && ashlar_push_payload(ashlar_thread_cache, memory))) return;
    int saved = errno; /* free keeps errno (POSIX.1-2024) */
    ashlar_free_payload(ashlar_thread_cache, memory);
    errno = saved;
}

void *
ashlar_interposed_realloc(void *memory, size_t size)
{
    if (!ashlar_is_payload(memory)) return ashlar_realloc_elsewhere(memory, size);
    if (size == 0) {
        ashlar_interposed_free(memory);
        return NULL;
    }
    void *fresh = ashlar_realloc_payload(ashlar_thread_cache, memory, size);
    if (!fresh) errno = ENOMEM;
    return fresh;
}

void *
ashlar_interposed_realloc_of_ruby(void *memory, size_t size)
{
    return memory ? ashlar_interposed_realloc(memory, size) : ashlar_interposed_malloc(size);
}

void *
ashlar_interposed_reallocarray(void *memory, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return ashlar_interposed_realloc(memory, bytes);
}

size_t
ashlar_interposed_usable_size(void *memory)
{
    return memory ? ashlar_usable_payload(memory) : 0;
}
