/* Keeps twenty thousand blocks of 1500 bytes; nearly all of its time and memory is the allocator's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    unsigned long sum = 0;
    for (int i = 0; i < 20000; i++) {
        char *block = malloc(1500);
        memset(block, i, 1500);
        sum += (unsigned char)block[i % 1500];
    }
    printf("%lu\n", sum);
    return 0;
}
