/* Binary trees of 40-byte nodes: one that lasts, beside many that do not. */
#include "memory.h"

struct node {
    OBJECT_HEADER;
    struct node *left, *right;
    uint64_t numbers[2];
};

static struct node *make(long depth)
{
    struct node *left = depth ? make(depth - 1) : NULL, *right = depth ? make(depth - 1) : NULL;
    struct node *node = object_new(sizeof *node, 2, OWNS_NOTHING);
    node->left = left; /* the node is new: no barrier */
    node->right = right;
    node->numbers[0] = (uint64_t)depth;
    return node;
}

static uint64_t sum(const struct node *node)
{
    return node ? 1 + node->numbers[0] + sum(node->left) + sum(node->right) : 0;
}

static void drop(struct node *node)
{
    if (COLLECTS || !node) return;
    drop(node->left);
    drop(node->right);
    object_free(node);
}

static struct node *lasting;

void trees(long depth)
{
    root(&lasting);
    lasting = make(depth);
    for (long shallow = 4; shallow <= depth; shallow += 4) {
        uint64_t total = 0;
        for (long times = 1L << (depth - shallow + 4); times; times--) {
            struct node *tree = make(shallow);
            total += sum(tree);
            drop(tree);
        }
        printf("depth %ld: %llu\n", shallow, (unsigned long long)total);
    }
    printf("lasting: %llu\n", (unsigned long long)sum(lasting));
}
