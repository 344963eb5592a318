/* Values to text. */
#include <inttypes.h>
#include <stdio.h>

#include "scheme.h"

static void print_items(const value *items, size_t count)
{
    for (size_t index = 0; index < count; index++) {
        if (index) putchar(' ');
        print(items[index]);
    }
}

void print(value v)
{
    if (is_integer(v)) {
        printf("%" PRIdPTR, to_integer(v));
        return;
    }
    switch (v) {
    case EMPTY: fputs("()", stdout); return;
    case TRUE: fputs("#t", stdout); return;
    case FALSE: fputs("#f", stdout); return;
    case NOTHING: return;
    }
    switch (type_of(v)) {
    case T_SYMBOL: print(CELL(symbol, v)->name); break;
    case T_STRING: fwrite(CELL(string, v)->text, 1, CELL(string, v)->length, stdout); break;
    case T_VECTOR:
        fputs("#(", stdout);
        print_items(CELL(vector, v)->slots, CELL(vector, v)->length);
        putchar(')');
        break;
    case T_PAIR:
        putchar('(');
        print(car(v));
        for (v = cdr(v); type_of(v) == T_PAIR; v = cdr(v)) {
            putchar(' ');
            print(car(v));
        }
        if (v != EMPTY) {
            fputs(" . ", stdout);
            print(v);
        }
        putchar(')');
        break;
    case T_TABLE: printf("#<table of %zu>", CELL(table, v)->count); break;
    case T_WEAK: fputs("#<weak>", stdout); break;
    default: fputs("#<procedure>", stdout);
    }
}
