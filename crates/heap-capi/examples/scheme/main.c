/* scheme [--heap OPTIONS] [--statistics] FILE...: runs programs on a heap of its own. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheme.h"

static const char prelude[] =
    "(define (map f l) (if (null? l) '() (cons (f (car l)) (map f (cdr l)))))"
    "(define (for-each f l) (when (pair? l) (f (car l)) (for-each f (cdr l))))"
    "(define (append a b) (if (null? a) b (cons (car a) (append (cdr a) b))))"
    "(define (iota n) (let loop ((n n) (l '())) (if (= n 0) l (loop (- n 1) (cons n l)))))";

_Noreturn void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout);
    fputs("scheme: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    exit(1);
}

static void run_text(const char *text)
{
    value v = EMPTY;
    ASHLAR_ROOTS(thread, &v);
    while (read_value(&text, &v)) {
        v = compile(v);
        run(v);
    }
}

static char *contents(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) fail("%s: cannot be read", path);
    size_t length = 0, room = 1 << 16;
    char *text = malloc(room);
    while (text && (length += fread(text + length, 1, room - length - 1, file)) == room - 1)
        text = realloc(text, room *= 2);
    fclose(file);
    if (!text) fail("%s: no memory for it", path);
    text[length] = 0;
    return text;
}

static void print_statistics(void)
{
    ashlar_statistics s;
    ashlar_statistics_get(heap, &s, sizeof s);
    fprintf(stderr,
            "%llu minor, %llu major and %llu full collections, %llu cells allocated, %llu live, "
            "%llu moved, longest pause %.1f ms\n",
            (unsigned long long)s.minor_collections, (unsigned long long)s.major_collections,
            (unsigned long long)s.full_collections,
            (unsigned long long)s.allocated_cells, (unsigned long long)s.live_cells,
            (unsigned long long)s.moved_cells, (double)s.pause_ns_max / 1e6);
}

int main(int argc, char **argv)
{
    const char *options = NULL;
    bool wants_statistics = false;
    int at = 1;
    for (; at < argc && strncmp(argv[at], "--", 2) == 0; at++) {
        if (strcmp(argv[at], "--heap") == 0 && at + 1 < argc) options = argv[++at];
        else if (strcmp(argv[at], "--statistics") == 0) wants_statistics = true;
        else fail("%s: usage: scheme [--heap 'space_overhead=100'] [--statistics] FILE...", argv[at]);
    }
    if (at == argc) fail("which program? usage: scheme [--heap OPTIONS] [--statistics] FILE...");
    begin_heap(options);
    define_primitives();
    run_text(prelude);
    for (; at < argc; at++) {
        char *text = contents(argv[at]);
        run_text(text);
        free(text);
    }
    if (wants_statistics) print_statistics();
    end_heap();
    return 0;
}
