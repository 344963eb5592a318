/* Objects: what they look like, how they are traced and released. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheme.h"

ashlar_heap *heap;
ashlar_thread *thread;

/* The table of symbols by name is a root; its keys are names, its values the symbols. */
static value symbols;

/* ── What the collector asks ─────────────────────────────────────────────────────── */

#define WORDS(...) .refers = ASHLAR_WORDS, .words = { __VA_ARGS__ }
#define ROW_COUNT(kind, field) .row_count = ASHLAR_NUMBER(struct kind, field)

/* Where the words that may be cells are. The heap asks the callbacks about the rest: weak boxes,
 * and cells that have no type yet. */
static const ashlar_layout layouts[] = {
    [T_PAIR] = { WORDS(ASHLAR_WORD(struct pair, car) | ASHLAR_WORD(struct pair, cdr)), .owns = ASHLAR_OWNS_NOTHING },
    [T_SYMBOL] = { WORDS(ASHLAR_WORD(struct symbol, name) | ASHLAR_WORD(struct symbol, global)), .owns = ASHLAR_OWNS_NOTHING },
    [T_STRING] = { WORDS(0) },
    [T_VECTOR] = { .refers = ASHLAR_PAYLOAD_ROW, .row_at = offsetof(struct vector, slots), ROW_COUNT(vector, length) },
    [T_TABLE] = { WORDS(ASHLAR_WORD(struct table, keys) | ASHLAR_WORD(struct table, values)), .owns = ASHLAR_OWNS_NOTHING },
    [T_CODE] = { WORDS(ASHLAR_WORD(struct code, constants)) },
    [T_CLOSURE] = { WORDS(ASHLAR_WORD(struct closure, code) | ASHLAR_WORD(struct closure, frame)), .owns = ASHLAR_OWNS_NOTHING },
    [T_FRAME] = { .refers = ASHLAR_ROW, .words = { ASHLAR_WORD(struct frame, outer) }, .owns = ASHLAR_OWNS_NOTHING,
                  .row_at = offsetof(struct frame, slots), ROW_COUNT(frame, count) },
    [T_PRIMITIVE] = { WORDS(0), .owns = ASHLAR_OWNS_NOTHING },
};

static void trace(void *cell, ashlar_tracer *tracer, void *data)
{
    (void)data;
    if (type_of((value)cell) == T_WEAK) ashlar_mark_weak(tracer, &CELL(weak, cell)->target);
}

static void release(void *cell, ashlar_thread *of, void *data)
{
    (void)data;
    value v = (value)cell;
    switch (type_of(v)) {
    case T_STRING: ashlar_free(of, CELL(string, v)->text); break;
    case T_VECTOR: ashlar_free(of, CELL(vector, v)->slots); break;
    case T_CODE: ashlar_free(of, CELL(code, v)->words); break;
    }
}

static void trace_roots(ashlar_tracer *tracer, void *data)
{
    (void)data;
    trace_machine(tracer);
}

void begin_heap(const char *options)
{
    ashlar_vm vm = ASHLAR_VM_INIT;
    vm.trace = trace;
    vm.trace_roots = trace_roots;
    vm.release = release;
    vm.moves = true;
    vm.kind = (ashlar_number)ASHLAR_NUMBER(struct pair, type);
    vm.layouts = layouts;
    vm.layout_count = sizeof layouts / sizeof *layouts;
    heap = ashlar_heap_new(&vm, options);
    if (!heap) fail("%s", ashlar_error());
    thread = ashlar_thread_new(heap);
    if (!thread || !ashlar_root_add(heap, &symbols)) fail("no memory");
    symbols = make_table();
}

void end_heap(void)
{
    ashlar_thread_free(thread);
    ashlar_heap_free(heap);
}

/* ── Making ──────────────────────────────────────────────────────────────────────── */

static void *new_cell(enum type type, size_t bytes)
{
    size_t *cell = ashlar_new(thread, bytes);
    if (!cell) fail("%s", ashlar_error());
    *cell = type;
    return cell;
}

void store(value cell, value *place, value v)
{
    *place = v;
    if (is_cell(v)) ashlar_barrier(thread, (void *)cell, (void *)v);
}

value cons(value car, value cdr)
{
    ASHLAR_ROOTS(thread, &car, &cdr);
    struct pair *pair = new_cell(T_PAIR, sizeof *pair);
    pair->car = car;
    pair->cdr = cdr;
    return (value)pair;
}

value make_string(const char *text, size_t length)
{
    value string = (value)new_cell(T_STRING, sizeof(struct string));
    ASHLAR_ROOTS(thread, &string);
    append_text(string, text, length);
    return string;
}

/* `text` may be part of the string itself, which may move. */
void append_text(value string, const char *text, size_t length)
{
    ASHLAR_ROOTS(thread, &string);
    size_t needed = CELL(string, string)->length + length;
    if (needed > CELL(string, string)->capacity) {
        size_t capacity = needed < 16 ? 16 : needed + needed / 2;
        const char *old = CELL(string, string)->text;
        bool is_own = old && text >= old && text <= old + CELL(string, string)->length;
        char *grown = ashlar_payload_resize(thread, CELL(string, string)->text, capacity);
        if (!grown) fail("%s", ashlar_error());
        if (is_own) text = grown + (text - old);
        CELL(string, string)->text = grown;
        CELL(string, string)->capacity = capacity;
    }
    if (length == 0) return;
    memmove(CELL(string, string)->text + CELL(string, string)->length, text, length);
    CELL(string, string)->length = needed;
}

value make_vector(size_t length, value fill)
{
    ASHLAR_ROOTS(thread, &fill);
    value vector = (value)new_cell(T_VECTOR, sizeof(struct vector));
    ASHLAR_ROOTS(thread, &vector);
    value *slots = ashlar_payload_new(thread, (length + 1) * sizeof *slots);
    if (!slots) fail("%s", ashlar_error());
    for (size_t index = 0; index < length; index++) slots[index] = fill;
    CELL(vector, vector)->slots = slots;
    CELL(vector, vector)->length = length;
    /* A collection before the payload was allocated may have made the vector old. */
    if (is_cell(fill)) ashlar_barrier(thread, (void *)vector, (void *)fill);
    return vector;
}

value make_weak(value target)
{
    ASHLAR_ROOTS(thread, &target);
    struct weak *weak = new_cell(T_WEAK, sizeof *weak);
    weak->target = is_cell(target) ? target : 0;
    return (value)weak;
}

value make_frame(size_t count, value outer)
{
    ASHLAR_ROOTS(thread, &outer);
    struct frame *frame = new_cell(T_FRAME, sizeof *frame + count * sizeof *frame->slots);
    frame->count = count;
    frame->outer = outer;
    return (value)frame;
}

value make_code(void)
{
    return (value)new_cell(T_CODE, sizeof(struct code));
}

value make_closure(value code, value frame)
{
    ASHLAR_ROOTS(thread, &code, &frame);
    struct closure *closure = new_cell(T_CLOSURE, sizeof *closure);
    closure->code = code;
    closure->frame = frame;
    return (value)closure;
}

value make_primitive(size_t index)
{
    struct primitive *primitive = new_cell(T_PRIMITIVE, sizeof *primitive);
    primitive->index = index;
    return (value)primitive;
}

/* ── Tables: open addressing; keys are integers, symbols and strings ─────────────────── */

static size_t hash_text(const char *text, size_t length)
{
    size_t hash = 14695981039346656037u;
    for (size_t index = 0; index < length; index++) hash = (hash ^ (unsigned char)text[index]) * 1099511628211u;
    return hash;
}

/* The hash of a key never depends on an address: cells move. */
static size_t hash(value key)
{
    switch (type_of(key)) {
    case T_SYMBOL: return CELL(symbol, key)->hash;
    case T_STRING: return hash_text(CELL(string, key)->text, CELL(string, key)->length);
    }
    if (is_cell(key)) fail("a key must be an integer, a symbol or a string");
    return key * 0x9E3779B97F4A7C15u >> 7;
}

value make_table(void)
{
    value table = (value)new_cell(T_TABLE, sizeof(struct table));
    value keys = EMPTY;
    ASHLAR_ROOTS(thread, &table, &keys);
    CELL(table, table)->keys = CELL(table, table)->values = EMPTY;
    keys = make_vector(8, 0);
    store(table, &CELL(table, table)->keys, keys);
    keys = make_vector(8, 0);
    store(table, &CELL(table, table)->values, keys);
    return table;
}

static size_t find(value table, value key)
{
    struct vector *keys = CELL(vector, CELL(table, table)->keys);
    size_t index = hash(key) & (keys->length - 1);
    while (keys->slots[index] && !equal(keys->slots[index], key)) index = (index + 1) & (keys->length - 1);
    return index;
}

value table_get(value table, value key, value otherwise)
{
    size_t index = find(table, key);
    if (!CELL(vector, CELL(table, table)->keys)->slots[index]) return otherwise;
    return CELL(vector, CELL(table, table)->values)->slots[index];
}

static void put_at(value table, size_t index, value key, value v)
{
    value keys = CELL(table, table)->keys, values = CELL(table, table)->values;
    store(keys, &CELL(vector, keys)->slots[index], key);
    store(values, &CELL(vector, values)->slots[index], v);
}

static void grow(value table)
{
    value keys = CELL(table, table)->keys, values = CELL(table, table)->values, larger = EMPTY;
    ASHLAR_ROOTS(thread, &table, &keys, &values, &larger);
    size_t length = CELL(vector, keys)->length;
    larger = make_vector(2 * length, 0);
    store(table, &CELL(table, table)->keys, larger);
    larger = make_vector(2 * length, 0);
    store(table, &CELL(table, table)->values, larger);
    for (size_t index = 0; index < length; index++) {
        value key = CELL(vector, keys)->slots[index];
        if (key) put_at(table, find(table, key), key, CELL(vector, values)->slots[index]);
    }
}

void table_put(value table, value key, value v)
{
    ASHLAR_ROOTS(thread, &table, &key, &v);
    size_t index = find(table, key);
    bool is_new = !CELL(vector, CELL(table, table)->keys)->slots[index];
    put_at(table, index, key, v);
    if (!is_new) return;
    CELL(table, table)->count++;
    if (CELL(table, table)->count * 4 > CELL(vector, CELL(table, table)->keys)->length * 3) grow(table);
}

value intern(const char *name, size_t length)
{
    value string = make_string(name, length), symbol = 0;
    ASHLAR_ROOTS(thread, &string, &symbol);
    symbol = table_get(symbols, string, 0);
    if (symbol) return symbol;
    symbol = (value)new_cell(T_SYMBOL, sizeof(struct symbol));
    CELL(symbol, symbol)->name = string;
    CELL(symbol, symbol)->hash = hash_text(name, length);
    table_put(symbols, string, symbol);
    return symbol;
}

/* Recurses as deep as the cars go; lists are followed in a loop. */
bool equal(value a, value b)
{
    for (;;) {
        if (a == b) return true;
        size_t type = type_of(a);
        if (!is_cell(a) || type != type_of(b)) return false;
        if (type == T_STRING)
            return CELL(string, a)->length == CELL(string, b)->length &&
                   memcmp(CELL(string, a)->text, CELL(string, b)->text, CELL(string, a)->length) == 0;
        if (type == T_VECTOR) {
            if (CELL(vector, a)->length != CELL(vector, b)->length) return false;
            for (size_t index = 0; index < CELL(vector, a)->length; index++)
                if (!equal(CELL(vector, a)->slots[index], CELL(vector, b)->slots[index])) return false;
            return true;
        }
        if (type != T_PAIR || !equal(car(a), car(b))) return false;
        a = cdr(a);
        b = cdr(b);
    }
}
