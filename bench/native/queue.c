/* A queue that ages: 200,000 objects with a buffer each; the oldest leaves when one comes. */
#include "memory.h"

struct item {
    OBJECT_HEADER;
    struct item *next;
    char *text;
    uint64_t number;
};

struct ends {
    OBJECT_HEADER;
    struct item *first, *last;
};

static struct ends *ends;

static void push(uint64_t number)
{
    struct item *item = object_new(sizeof *item, 1, OWNS_BYTES);
    item->number = number;
    set(ends->last ? (void *)ends->last : ends, ends->last ? &ends->last->next : &ends->first, item);
    set(ends, &ends->last, item);
    size_t bytes = 16 + number % 240;
    char *text = buffer_new(bytes);
    memset(text, (int)number, bytes);
    item->text = text;
}

static uint64_t pop(void)
{
    struct item *item = ends->first;
    uint64_t sum = item->number + (unsigned char)item->text[item->number % 16];
    set(ends, &ends->first, item->next);
    if (!COLLECTS) {
        buffer_free(item->text);
        object_free(item);
    }
    return sum;
}

void queue(long steps)
{
    uint64_t random = 88172645463325252u, total = 0;
    root(&ends);
    ends = object_new(sizeof *ends, 2, OWNS_NOTHING);
    for (long step = 0; step < 200000; step++) push(next_random(&random));
    for (long step = 0; step < steps; step++) {
        push(next_random(&random));
        total += pop();
    }
    printf("%llu\n", (unsigned long long)total);
}
