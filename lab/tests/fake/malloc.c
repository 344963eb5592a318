/* A malloc in front of glibc's that is worse by known factors: WASTE times the memory, BURN turns of work per call. */
#include <stddef.h>
#include <string.h>

void *__libc_malloc(size_t size);

void *malloc(size_t size)
{
    unsigned chain = 1; /* one multiplication after another: the same time per turn wherever the code lies */
    for (int turn = 0; turn < BURN; turn++) {
        chain = chain * 1664525u + 1013904223u;
        __asm__ volatile("" : "+r"(chain));
    }
    char *block = __libc_malloc(size * WASTE);
    if (block && WASTE > 1)
        memset(block + size, 1, size * (WASTE - 1)); /* memory nobody asked for, but resident */
    return block;
}
