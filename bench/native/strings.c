/* Strings that grow: 20,000 short ones, each to its own length and then replaced; and a few
 * long ones, with nothing but realloc. */
#include "memory.h"

struct string {
    OBJECT_HEADER;
    char *text;
    uint32_t used, room, end;
};

enum { STRINGS = 20000, PER_HOLDER = 100 };

struct holder {
    OBJECT_HEADER;
    struct string *strings[PER_HOLDER];
};

static struct holder *holders[STRINGS / PER_HOLDER];

static void append(struct string *string, const char *text, uint32_t length)
{
    if (string->used + length > string->room) {
        uint32_t room = string->used + length + string->used / 2;
        string->text = buffer_resize(string->text, room);
        string->room = room;
    }
    memcpy(string->text + string->used, text, length);
    string->used += length;
}

static struct string *new_string(uint64_t random)
{
    struct string *string = object_new(sizeof *string, 0, OWNS_BYTES);
    string->used = string->room = 0;
    /* Most are short, a few long. */
    string->end = random % 64 ? (uint32_t)(16 + (random >> 8) % 500) : (uint32_t)((random >> 8) % 40000);
    return string;
}

void strings(long appends)
{
    static const char text[] = "a stone as wide as its place needs, laid in courses beside others";
    uint64_t random = 88172645463325252u, total = 0;
    for (int index = 0; index < STRINGS / PER_HOLDER; index++) {
        root(&holders[index]);
        holders[index] = object_new(sizeof *holders[index], PER_HOLDER, OWNS_NOTHING);
    }
    for (long times = 0; times < appends; times++) {
        uint64_t number = next_random(&random);
        struct holder *holder = holders[number % (STRINGS / PER_HOLDER)];
        struct string **place = &holder->strings[(number >> 20) % PER_HOLDER];
        struct string *string = *place;
        if (!string || string->used >= string->end) {
            if (string) total += string->used + (unsigned char)string->text[string->used / 2];
            if (string && !COLLECTS) {
                buffer_free(string->text);
                object_free(string);
            }
            string = new_string(number);
            set(holder, place, string);
        }
        append(string, text, 1 + (uint32_t)(number >> 40) % 60);
    }
    printf("%llu\n", (unsigned long long)total);
}

void growth(long count)
{
    enum { TOGETHER = 8 };
    uint64_t random = 88172645463325252u, total = 0, moves = 0;
    for (long round = 0; round < count; round++) {
        char *texts[TOGETHER] = { 0 };
        size_t used[TOGETHER] = { 0 };
        /* Several grow side by side, a tenth at a time, from 64 bytes to 8 MiB. */
        for (int steps = 0; steps < 100; steps++) {
            for (int index = 0; index < TOGETHER; index++) {
                size_t larger = used[index] + used[index] / 10 + 64;
                char *text = buffer_resize(texts[index], larger);
                moves += text != texts[index];
                memset(text + used[index], (int)next_random(&random), larger - used[index]);
                texts[index] = text;
                used[index] = larger;
            }
        }
        for (int index = 0; index < TOGETHER; index++) {
            total += used[index] + (unsigned char)texts[index][used[index] / 2];
            buffer_free(texts[index]);
        }
    }
    report("moved_payloads", (double)moves);
    printf("%llu\n", (unsigned long long)total);
}
