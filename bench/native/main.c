/* native PROGRAM NUMBER...: one of the programs, on the memory it was compiled with. */
#include "memory.h"

#ifdef ASHLAR_H
ashlar_heap *heap;
__thread ashlar_thread *own;

#if COLLECTS
void trace_object(void *cell, ashlar_tracer *tracer, void *data)
{
    (void)data;
    struct object *object = cell;
    ashlar_mark_words(tracer, object->fields, object->references);
    if (object->owns == OWNS_REFERENCES && object->fields[object->references])
        ashlar_mark_words(tracer, object->fields[object->references], object->length);
}

bool trace_object_anywhere(void *cell, ashlar_tracer *tracer, void *data)
{
    trace_object(cell, tracer, data);
    return true;
}

void release_object(void *cell, ashlar_thread *thread, void *data)
{
    (void)data;
    struct object *object = cell;
    if (object->owns) ashlar_free(thread, object->fields[object->references]);
}
#endif
#else
__thread char *bump_next, *bump_end;
#endif

void report(const char *name, double value)
{
    const char *path = getenv("ASHLAR_REPORT_FILE");
    FILE *file = path ? fopen(path, "a") : stderr;
    if (!file) return;
    fprintf(file, "{\"%s\": %.3f}\n", name, value);
    if (path) fclose(file);
}

static const struct {
    const char *name, *arguments;
    void (*one)(long);
    void (*two)(long, long);
} programs[] = {
    { "trees", "DEPTH", trees, NULL },          { "lists", "ROUNDS", lists, NULL },
    { "tables", "OPERATIONS", tables, NULL },   { "strings", "APPENDS", strings, NULL },
    { "growth", "ROUNDS", growth, NULL },       { "queue", "STEPS", queue, NULL },
    { "larson", "THREADS OPERATIONS", NULL, larson }, { "xmalloc", "THREADS BATCHES", NULL, xmalloc },
    { "marking", "OBJECTS", marking, NULL },    { "spans", "REPLACEMENTS", spans, NULL },
};

static long number(const char *text)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (*end || value < 1) fail("an argument is no number above 0");
    return value;
}

int main(int argc, char **argv)
{
    for (size_t index = 0; argc > 1 && index < sizeof programs / sizeof *programs; index++) {
        if (strcmp(programs[index].name, argv[1]) != 0 || argc != (programs[index].two ? 4 : 3)) continue;
        memory_begin(__builtin_frame_address(0));
        if (programs[index].one) programs[index].one(number(argv[2]));
        else programs[index].two(number(argv[2]), number(argv[3]));
        if (collections()) report("gc_count", (double)collections());
#ifdef ASHLAR_H
        ashlar_statistics now;
        ashlar_statistics_get(heap, &now, sizeof now);
        report("copied_mib", (double)now.payload_copied_bytes / (1 << 20));
#endif
        memory_end();
        return 0;
    }
    fputs("usage: native PROGRAM NUMBER..., one of\n", stderr);
    for (size_t index = 0; index < sizeof programs / sizeof *programs; index++)
        fprintf(stderr, "  native %s %s\n", programs[index].name, programs[index].arguments);
    return 2;
}
