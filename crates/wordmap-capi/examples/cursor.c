/* The fields of an object by id, and a walk over some of them. */
#include <stdio.h>

#include <Judy.h>

#include "ashlar_wordmap.h"

int main(void) {
    Pvoid_t fields = NULL;
    for (Word_t id = 26314; id < 26400; id += 8) *JudyLIns(&fields, id, PJE0) = (Pvoid_t)(id - 26314);

    ashlar_cursor *cursor = ashlar_cursor_open(fields);
    uint64_t id = 26350;
    for (uint64_t *value = ashlar_cursor_seek(cursor, &id); value && id < 26380; value = ashlar_cursor_next(cursor, &id))
        printf("%llu -> %llu\n", (unsigned long long)id, (unsigned long long)*value);
    ashlar_cursor_close(cursor);

    printf("%llu fields in %llu bytes\n", (unsigned long long)JudyLCount(fields, 0, ~0ull, PJE0),
           (unsigned long long)JudyLMemUsed(fields));
    JudyLFreeArray(&fields, PJE0);
    return 0;
}
