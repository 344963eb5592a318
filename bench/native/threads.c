/* Threads that share an allocator, after two programs by others: in Larson's a thread leaves
 * its blocks to the next one, in xmalloc one thread allocates what another frees. */
#include <pthread.h>

#include "memory.h"

enum { THREADS_MAX = 64, SLOTS = 1000, ROUNDS = 10, BATCH = 120 };

static char *slots[THREADS_MAX][SLOTS];
static long thread_count, operations_each;
static pthread_barrier_t barrier;

/* Blocks are 16 to 271 bytes; each has its length in front. */
static char *new_block(uint64_t number)
{
    uint32_t bytes = (uint32_t)(16 + number % 256);
    char *block = block_new(bytes);
    memcpy(block, &bytes, sizeof bytes);
    block[bytes - 1] = (char)bytes;
    return block;
}

static uint64_t end_block(char *block)
{
    uint32_t bytes;
    memcpy(&bytes, block, sizeof bytes);
    if (block[bytes - 1] != (char)bytes) fail("a block was overwritten");
    block_free(block);
    return bytes;
}

static void *larson_thread(void *argument)
{
    size_t number = (size_t)argument;
    uint64_t random = 88172645463325252u + number, total = 0;
    thread_begin(__builtin_frame_address(0));
    for (long round = 0; round < ROUNDS; round++) {
        char **mine = slots[(number + (size_t)round) % (size_t)thread_count];
        for (long times = 0; times < operations_each / ROUNDS; times++) {
            uint64_t next = next_random(&random);
            char **slot = &mine[(next >> 32) % SLOTS];
            if (*slot) total += end_block(*slot);
            *slot = new_block(next);
        }
        pthread_barrier_wait(&barrier);
    }
    thread_end();
    return (void *)(uintptr_t)total;
}

static uint64_t run_threads(long threads, void *(*work)(void *))
{
    pthread_t started[THREADS_MAX];
    uint64_t total = 0;
    if (threads < 1 || threads > THREADS_MAX) fail("threads: from 1 to 64");
    for (long index = 0; index < threads; index++)
        if (pthread_create(&started[index], NULL, work, (void *)(uintptr_t)index)) fail("no thread");
    for (long index = 0; index < threads; index++) {
        void *result;
        pthread_join(started[index], &result);
        total += (uintptr_t)result;
    }
    return total;
}

void larson(long threads, long operations)
{
    thread_count = threads;
    operations_each = operations / threads;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    printf("%llu\n", (unsigned long long)run_threads(threads, larson_thread));
}

struct batch {
    struct batch *next;
    char *blocks[BATCH];
};

static struct batch *full, *empty;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static struct batch *take(struct batch **list)
{
    pthread_mutex_lock(&lock);
    while (!*list) pthread_cond_wait(&changed, &lock);
    struct batch *batch = *list;
    *list = batch->next;
    pthread_mutex_unlock(&lock);
    return batch;
}

static void give(struct batch **list, struct batch *batch)
{
    pthread_mutex_lock(&lock);
    batch->next = *list;
    *list = batch;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Even threads allocate, odd ones free. */
static void *xmalloc_thread(void *argument)
{
    size_t number = (size_t)argument;
    uint64_t random = 88172645463325252u + number, total = 0;
    thread_begin(__builtin_frame_address(0));
    for (long times = 0; times < operations_each; times++) {
        struct batch *batch = take(number % 2 ? &full : &empty);
        for (int index = 0; index < BATCH; index++) {
            if (number % 2) total += end_block(batch->blocks[index]);
            else batch->blocks[index] = new_block(next_random(&random));
        }
        give(number % 2 ? &empty : &full, batch);
    }
    thread_end();
    return (void *)(uintptr_t)total;
}

void xmalloc(long threads, long batches)
{
    static struct batch all[16];
    if (threads % 2) fail("threads: an even number");
    operations_each = batches;
    for (int index = 0; index < 16; index++) give(&empty, &all[index]);
    printf("%llu\n", (unsigned long long)run_threads(threads, xmalloc_thread));
}
