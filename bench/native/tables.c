/* A hash table of about 200,000 entries, each with a key of 8 to 39 bytes of its own. */
#include "memory.h"

struct entry {
    OBJECT_HEADER;
    struct entry *next;
    char *key;
    uint64_t hash, value;
};

struct table {
    OBJECT_HEADER;
    struct entry **buckets;
};

enum { BUCKETS = 1 << 17, KEYS = 400000 };

static struct table *table;

static size_t write_key(uint64_t number, char *key)
{
    size_t length = 8 + number * 2654435761u % 32;
    for (size_t at = 0; at < length; at++) key[at] = (char)('a' + (number >> at % 16) % 26);
    memcpy(key, &number, 8);
    return length;
}

/* Adds the key, or removes it if it is there; the value it had. */
static uint64_t toggle(uint64_t number)
{
    char key[40];
    size_t length = write_key(number, key);
    uint64_t hash = number * 0x9E3779B97F4A7C15u;
    struct entry **place = &table->buckets[hash >> 47];
    void *holder = table;
    for (struct entry *entry = *place; entry; place = &entry->next, holder = entry, entry = *place) {
        if (entry->hash != hash || memcmp(entry->key, key, length) != 0) continue;
        uint64_t value = entry->value;
        set(holder, place, entry->next);
        if (!COLLECTS) {
            buffer_free(entry->key);
            object_free(entry);
        }
        return value;
    }
    struct entry *entry = object_new(sizeof *entry, 1, OWNS_BYTES);
    char *copy = buffer_new(length);
    memcpy(copy, key, length);
    entry->key = copy;
    entry->hash = hash;
    entry->value = number + 1;
    place = &table->buckets[hash >> 47];
    set(entry, &entry->next, *place);
    set(table, place, entry);
    return 0;
}

void tables(long operations)
{
    uint64_t random = 88172645463325252u, total = 0;
    root(&table);
    table = object_new(sizeof *table, 0, OWNS_REFERENCES);
    table->buckets = references_new(BUCKETS);
    table->length = BUCKETS;
    for (long operation = 0; operation < operations; operation++) total += toggle(next_random(&random) % KEYS);
    printf("%llu\n", (unsigned long long)total);
}
