/* Full collections of a large heap whose objects lie in no order: small ones of two random
 * references each, ten times over. */
#include <time.h>

#include "memory.h"

struct node {
    OBJECT_HEADER;
    struct node *left, *right;
    uint64_t number;
};

struct all {
    OBJECT_HEADER;
    struct node **nodes;
};

static struct all *all;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void marking(long objects)
{
    uint64_t random = 88172645463325252u, total = 0;
    root(&all);
    all = object_new(sizeof *all, 0, OWNS_REFERENCES);
    struct node **nodes = references_new((size_t)objects);
    all->nodes = nodes;
    all->length = (uint32_t)objects;
    for (long index = 0; index < objects; index++) {
        struct node *node = object_new(sizeof *node, 2, OWNS_NOTHING);
        node->number = (uint64_t)index;
        set(all, &nodes[index], node);
        for (int side = 0; side < 2; side++) {
            struct node *other = nodes[next_random(&random) % (uint64_t)(index + 1)];
            set(node, side ? &node->right : &node->left, other);
        }
    }
    /* In no order: what is marked next is anywhere. */
    for (long index = objects - 1; index > 0; index--) {
        uint64_t other = next_random(&random) % (uint64_t)(index + 1);
        struct node *swap = nodes[index];
        set(all, &nodes[index], nodes[other]);
        set(all, &nodes[other], swap);
    }
    collect();
    double start = seconds();
    for (int times = 0; times < 10; times++) collect();
    report("mark_ns_per_object", (seconds() - start) * 1e9 / 10 / (double)objects);
    for (long index = 0; index < objects; index += 7) total += nodes[index]->number + nodes[index]->left->number;
    printf("%llu\n", (unsigned long long)total);
}
