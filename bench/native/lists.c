/* Linked lists: 200 of 2,000 items; one list is replaced in every round. */
#include "memory.h"

enum { LISTS = 200, ITEMS = 2000 };

struct item {
    OBJECT_HEADER;
    struct item *next;
    uint64_t number;
};

struct all {
    OBJECT_HEADER;
    struct item *heads[100];
};

static struct all *halves[2];

static struct item *make(uint64_t seed)
{
    struct item *list = NULL;
    for (uint64_t number = 0; number < ITEMS; number++) {
        struct item *item = object_new(sizeof *item, 1, OWNS_NOTHING);
        item->next = list;
        item->number = number ^ seed;
        list = item;
    }
    return list;
}

static void drop(struct item *list)
{
    while (!COLLECTS && list) {
        struct item *next = list->next;
        object_free(list);
        list = next;
    }
}

void lists(long rounds)
{
    uint64_t random = 88172645463325252u, total = 0;
    for (int half = 0; half < 2; half++) {
        root(&halves[half]);
        halves[half] = object_new(sizeof *halves[half], 100, OWNS_NOTHING);
    }
    for (long round = 0; round < rounds + LISTS; round++) {
        uint64_t at = round < LISTS ? (uint64_t)round : next_random(&random) % LISTS;
        struct all *half = halves[at % 2];
        struct item *fresh = make(random);
        drop(half->heads[at / 2]);
        set(half, &half->heads[at / 2], fresh);
        struct all *other = halves[round % 2];
        for (struct item *item = other->heads[round / 2 % 100]; item; item = item->next) total += item->number;
    }
    printf("%llu\n", (unsigned long long)total);
}
