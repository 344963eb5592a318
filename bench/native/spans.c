/* Large buffers of many sizes: 300 live ones of 40 KiB to 1 MiB, mostly short, each replaced
 * again and again. What a policy for placing them is measured with. */
#include "memory.h"

enum { LIVE = 300 };

struct buffer {
    OBJECT_HEADER;
    char *text;
    uint64_t bytes;
};

static struct buffer *live[LIVE];

void spans(long replacements)
{
    uint64_t random = 88172645463325252u, total = 0;
    for (int index = 0; index < LIVE; index++) root(&live[index]);
    for (long times = 0; times < replacements; times++) {
        uint64_t number = next_random(&random);
        struct buffer **place = &live[number % LIVE];
        if (*place) {
            total += (*place)->bytes + (unsigned char)(*place)->text[(*place)->bytes - 1];
            if (!COLLECTS) {
                buffer_free((*place)->text);
                object_free(*place);
            }
        }
        /* Twice as long is half as frequent. */
        unsigned doublings = (unsigned)__builtin_ctzll((number >> 40) | 16);
        uint64_t bytes = (40 << 10) + (number >> 16) % ((uint64_t)(64 << 10) << doublings);
        struct buffer *buffer = object_new(sizeof *buffer, 0, OWNS_BYTES);
        *place = buffer;
        char *text = buffer_new(bytes);
        memset(text, (int)number, bytes);
        buffer = *place;
        buffer->text = text;
        buffer->bytes = bytes;
    }
    printf("%llu\n", (unsigned long long)total);
}
