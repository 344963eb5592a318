/* Procedures in C. Their arguments are on the machine's stack, which keeps them; after an
 * allocation the procedures read them from there again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scheme.h"

static value checked(value v, enum type type, const char *what)
{
    if (type_of(v) != type) fail("%s expected", what);
    return v;
}

static intptr_t number(value v)
{
    if (!is_integer(v)) fail("an integer expected");
    return to_integer(v);
}

static struct pair *pair(value v) { return CELL(pair, checked(v, T_PAIR, "a pair")); }
static struct string *string(value v) { return CELL(string, checked(v, T_STRING, "a string")); }

static value *slot(value vector, value index)
{
    struct vector *of = CELL(vector, checked(vector, T_VECTOR, "a vector"));
    intptr_t at = number(index);
    if (at < 0 || (size_t)at >= of->length) fail("index %" PRIdPTR " of a vector of %zu", at, of->length);
    return &of->slots[at];
}

/* ── Numbers ─────────────────────────────────────────────────────────────────────── */

static value add(size_t n, value *a)
{
    intptr_t sum = 0;
    while (n--) sum += number(*a++);
    return integer(sum);
}

static value multiply(size_t n, value *a)
{
    intptr_t product = 1;
    while (n--) product *= number(*a++);
    return integer(product);
}

static value subtract(size_t n, value *a)
{
    if (n == 1) return integer(-number(a[0]));
    intptr_t rest = number(a[0]);
    for (size_t index = 1; index < n; index++) rest -= number(a[index]);
    return integer(rest);
}

static intptr_t divisor(value v)
{
    intptr_t by = number(v);
    if (by == 0) fail("a division by zero");
    return by;
}

static value quotient(size_t n, value *a) { (void)n; return integer(number(a[0]) / divisor(a[1])); }
static value remainder_of(size_t n, value *a) { (void)n; return integer(number(a[0]) % divisor(a[1])); }
static value is_same_number(size_t n, value *a) { (void)n; return boolean(number(a[0]) == number(a[1])); }
static value is_less(size_t n, value *a) { (void)n; return boolean(number(a[0]) < number(a[1])); }
static value is_more(size_t n, value *a) { (void)n; return boolean(number(a[0]) > number(a[1])); }

/* ── What things are ─────────────────────────────────────────────────────────────── */

static value is_same(size_t n, value *a) { (void)n; return boolean(a[0] == a[1]); }
static value is_equal(size_t n, value *a) { (void)n; return boolean(equal(a[0], a[1])); }
static value not_true(size_t n, value *a) { (void)n; return boolean(a[0] == FALSE); }
static value is_empty(size_t n, value *a) { (void)n; return boolean(a[0] == EMPTY); }
static value is_pair(size_t n, value *a) { (void)n; return boolean(type_of(a[0]) == T_PAIR); }
static value is_symbol(size_t n, value *a) { (void)n; return boolean(type_of(a[0]) == T_SYMBOL); }
static value is_string(size_t n, value *a) { (void)n; return boolean(type_of(a[0]) == T_STRING); }
static value is_number(size_t n, value *a) { (void)n; return boolean(is_integer(a[0])); }

/* ── Pairs ───────────────────────────────────────────────────────────────────────── */

static value make_pair(size_t n, value *a) { (void)n; return cons(a[0], a[1]); }
static value first(size_t n, value *a) { (void)n; return pair(a[0])->car; }
static value rest(size_t n, value *a) { (void)n; return pair(a[0])->cdr; }
static value set_first(size_t n, value *a) { (void)n; store(a[0], &pair(a[0])->car, a[1]); return NOTHING; }
static value set_rest(size_t n, value *a) { (void)n; store(a[0], &pair(a[0])->cdr, a[1]); return NOTHING; }

static value list(size_t n, value *a)
{
    value made = EMPTY;
    while (n--) made = cons(a[n], made);
    return made;
}

static value length_of(size_t n, value *a)
{
    (void)n;
    intptr_t count = 0;
    for (value v = a[0]; v != EMPTY; v = pair(v)->cdr) count++;
    return integer(count);
}

static value reverse(size_t n, value *a)
{
    (void)n;
    value made = EMPTY;
    for (; a[0] != EMPTY; a[0] = pair(a[0])->cdr) made = cons(pair(a[0])->car, made);
    return made;
}

/* ── Strings ─────────────────────────────────────────────────────────────────────── */

static value append_strings(size_t n, value *a)
{
    value made = make_string("", 0);
    ASHLAR_ROOTS(thread, &made);
    for (size_t index = 0; index < n; index++) append_text(made, string(a[index])->text, string(a[index])->length);
    return made;
}

/* (string-push! s t): appends t to s itself. */
static value push_string(size_t n, value *a)
{
    (void)n;
    string(a[0]);
    append_text(a[0], string(a[1])->text, string(a[1])->length);
    return NOTHING;
}

static value string_length(size_t n, value *a) { (void)n; return integer((intptr_t)string(a[0])->length); }

static value substring(size_t n, value *a)
{
    (void)n;
    intptr_t from = number(a[1]), to = number(a[2]);
    if (from < 0 || to < from || (size_t)to > string(a[0])->length) fail("a substring from %" PRIdPTR " to %" PRIdPTR, from, to);
    return make_string(string(a[0])->text + from, (size_t)(to - from));
}

static value number_to_string(size_t n, value *a)
{
    (void)n;
    char text[24];
    return make_string(text, (size_t)snprintf(text, sizeof text, "%" PRIdPTR, number(a[0])));
}

static value string_to_symbol(size_t n, value *a) { (void)n; return intern(string(a[0])->text, string(a[0])->length); }
static value symbol_to_string(size_t n, value *a) { (void)n; return CELL(symbol, checked(a[0], T_SYMBOL, "a symbol"))->name; }

/* ── Vectors and tables ──────────────────────────────────────────────────────────── */

static value new_vector(size_t n, value *a)
{
    if (number(a[0]) < 0) fail("a vector of %" PRIdPTR, number(a[0]));
    return make_vector((size_t)number(a[0]), n > 1 ? a[1] : integer(0));
}

static value vector_ref(size_t n, value *a) { (void)n; return *slot(a[0], a[1]); }
static value vector_set(size_t n, value *a) { (void)n; store(a[0], slot(a[0], a[1]), a[2]); return NOTHING; }
static value vector_length(size_t n, value *a) { (void)n; return integer((intptr_t)CELL(vector, checked(a[0], T_VECTOR, "a vector"))->length); }
static value new_table(size_t n, value *a) { (void)n; (void)a; return make_table(); }
static value table_ref(size_t n, value *a) { (void)n; return table_get(checked(a[0], T_TABLE, "a table"), a[1], a[2]); }
static value table_set(size_t n, value *a) { (void)n; table_put(checked(a[0], T_TABLE, "a table"), a[1], a[2]); return NOTHING; }
static value table_count(size_t n, value *a) { (void)n; return integer((intptr_t)CELL(table, checked(a[0], T_TABLE, "a table"))->count); }

/* ── Weak boxes, and the collector ───────────────────────────────────────────────── */

static value new_weak(size_t n, value *a) { (void)n; return make_weak(a[0]); }

static value weak_ref(size_t n, value *a)
{
    (void)n;
    value target = CELL(weak, checked(a[0], T_WEAK, "a weak box"))->target;
    return target ? target : FALSE;
}

static value collect(size_t n, value *a)
{
    (void)n;
    (void)a;
    ashlar_collect(thread, ASHLAR_COMPACT);
    return NOTHING;
}

static value verify(size_t n, value *a)
{
    (void)n;
    (void)a;
    if (!ashlar_verify(thread)) fail("%s", ashlar_error());
    return TRUE;
}

/* ── Everything else ─────────────────────────────────────────────────────────────── */

static value display(size_t n, value *a) { (void)n; print(a[0]); return NOTHING; }
static value newline(size_t n, value *a) { (void)n; (void)a; putchar('\n'); return NOTHING; }

static const struct {
    const char *name;
    size_t arguments_min, arguments_max;
    value (*call)(size_t, value *);
} primitives[] = {
    { "+", 0, SIZE_MAX, add }, { "*", 0, SIZE_MAX, multiply }, { "-", 1, SIZE_MAX, subtract },
    { "quotient", 2, 2, quotient }, { "remainder", 2, 2, remainder_of },
    { "=", 2, 2, is_same_number }, { "<", 2, 2, is_less }, { ">", 2, 2, is_more },
    { "eq?", 2, 2, is_same }, { "equal?", 2, 2, is_equal }, { "not", 1, 1, not_true },
    { "null?", 1, 1, is_empty }, { "pair?", 1, 1, is_pair }, { "symbol?", 1, 1, is_symbol },
    { "string?", 1, 1, is_string }, { "number?", 1, 1, is_number },
    { "cons", 2, 2, make_pair }, { "car", 1, 1, first }, { "cdr", 1, 1, rest },
    { "set-car!", 2, 2, set_first }, { "set-cdr!", 2, 2, set_rest },
    { "list", 0, SIZE_MAX, list }, { "length", 1, 1, length_of }, { "reverse", 1, 1, reverse },
    { "string-append", 0, SIZE_MAX, append_strings }, { "string-push!", 2, 2, push_string },
    { "string-length", 1, 1, string_length }, { "substring", 3, 3, substring },
    { "number->string", 1, 1, number_to_string }, { "string->symbol", 1, 1, string_to_symbol },
    { "symbol->string", 1, 1, symbol_to_string },
    { "make-vector", 1, 2, new_vector }, { "vector-ref", 2, 2, vector_ref },
    { "vector-set!", 3, 3, vector_set }, { "vector-length", 1, 1, vector_length },
    { "make-table", 0, 0, new_table }, { "table-ref", 3, 3, table_ref },
    { "table-set!", 3, 3, table_set }, { "table-count", 1, 1, table_count },
    { "make-weak", 1, 1, new_weak }, { "weak-ref", 1, 1, weak_ref },
    { "collect", 0, 0, collect }, { "verify", 0, 0, verify },
    { "display", 1, 1, display }, { "newline", 0, 0, newline },
};

value call_primitive(size_t index, size_t count, value *arguments)
{
    if (count < primitives[index].arguments_min || count > primitives[index].arguments_max)
        fail("%s is called with %zu arguments", primitives[index].name, count);
    return primitives[index].call(count, arguments);
}

void define_primitives(void)
{
    for (size_t index = 0; index < sizeof primitives / sizeof *primitives; index++) {
        value symbol = intern(primitives[index].name, strlen(primitives[index].name));
        ASHLAR_ROOTS(thread, &symbol);
        value primitive = make_primitive(index);
        store(symbol, &CELL(symbol, symbol)->global, primitive);
    }
}
