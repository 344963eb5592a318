/* What the programs ask of memory, whoever serves it. One of the with_*.h is chosen when a
 * contender is compiled:
 *
 *     #define COLLECTS 0 or 1       whether what nobody refers to goes away by itself
 *     memory_begin, memory_end      once, in main; the address of a variable in main's frame
 *     thread_begin, thread_end      in every other thread
 *     object_new                    an object, from the main thread; its references are NULL
 *     object_free                   nothing where COLLECTS
 *     buffer_new, buffer_resize     what an object owns; freed with it where COLLECTS
 *     buffer_free
 *     references_new                the same, of so many references, which are NULL
 *     block_new, block_free         memory for any thread, always freed by the program
 *     set                           parent->field = child, for an object that exists
 *     root                          a static variable that refers to an object
 *     collections, collect          how many there were; a full one
 */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What an object begins with. Its references follow, then its buffer if it owns one. */
struct object {
    uint16_t references;
    uint16_t owns;   /* NOTHING, BYTES or REFERENCES */
    uint32_t length; /* references in the buffer */
    void *fields[];
};

enum { OWNS_NOTHING, OWNS_BYTES, OWNS_REFERENCES };

#define OBJECT_HEADER uint16_t references; uint16_t owns; uint32_t length

_Noreturn static inline void fail(const char *message)
{
    fprintf(stderr, "native: %s\n", message);
    exit(1);
}

static inline void describe(struct object *object, unsigned references, unsigned owns)
{
    object->references = (uint16_t)references;
    object->owns = (uint16_t)owns;
    object->length = 0;
    for (unsigned index = 0; index < references + (owns != OWNS_NOTHING); index++) object->fields[index] = NULL;
}

#include WITH

/* Random numbers, the same everywhere (xorshift64*). */
static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717u;
}

/* A figure for the lab: appended to the file it names. */
void report(const char *name, double value);

/* The programs: what main.c calls, with their arguments. Each prints a checksum. */
void trees(long depth);
void lists(long rounds);
void tables(long operations);
void strings(long appends);
void growth(long strings);
void queue(long steps);
void spans(long replacements);
void larson(long threads, long operations);
void xmalloc(long threads, long batches);
void marking(long objects);

#endif
