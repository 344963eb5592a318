/* A small Scheme on ashlar.h: integers, pairs, symbols, strings, vectors, tables, weak
 * boxes, closures with proper tail calls and recursion as deep as memory.
 *
 *     value.c       objects: what they look like, how they are traced and released
 *     read.c        text to values
 *     compile.c     values to code for the machine
 *     machine.c     runs code; its stack is a root
 *     primitives.c  procedures in C
 *     print.c       values to text
 *
 * Cells move here. So a C variable that holds a cell across an allocation is a root
 * (ASHLAR_ROOTS), or the cell is read again from the machine's stack afterwards. */
#ifndef SCHEME_H
#define SCHEME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ashlar.h"

/* A word: an integer (odd), one of the constants below, or the address of a cell (a
 * multiple of 8). The collector expects words to be like this. */
typedef uintptr_t value;

enum { EMPTY = 2, FALSE = 10, TRUE = 18, NOTHING = 26 };

static inline bool is_integer(value v) { return v & 1; }
static inline intptr_t to_integer(value v) { return (intptr_t)v >> 1; }
static inline value integer(intptr_t i) { return (value)i << 1 | 1; }
static inline value boolean(bool b) { return b ? TRUE : FALSE; }
static inline bool is_cell(value v) { return v && v % 8 == 0; }

/* The first word of every cell; 0 in one that has just been allocated. */
enum type { T_NEW, T_PAIR, T_SYMBOL, T_STRING, T_VECTOR, T_TABLE, T_WEAK, T_CODE, T_CLOSURE, T_FRAME, T_PRIMITIVE };

struct pair { size_t type; value car, cdr; };
struct symbol { size_t type; value name, global; size_t hash; };
struct string { size_t type, length, capacity; char *text; };
struct vector { size_t type, length; value *slots; };
struct table { size_t type, count; value keys, values; };
struct weak { size_t type; value target; };
/* Variables of a call: arguments, then inner definitions. */
struct frame { size_t type, count; value outer, slots[]; };
struct code { size_t type, length, arguments, variables; bool takes_rest; int32_t *words; value constants; };
struct closure { size_t type; value code, frame; };
struct primitive { size_t type, index; };

enum { FRAME_SLOTS_MAX = (ASHLAR_CELL_MAX - sizeof(struct frame)) / sizeof(value) };

#define CELL(kind, v) ((struct kind *)(v))
static inline size_t type_of(value v) { return is_cell(v) ? *(size_t *)v : T_NEW; }
static inline value car(value v) { return CELL(pair, v)->car; }
static inline value cdr(value v) { return CELL(pair, v)->cdr; }

extern ashlar_heap *heap;
extern ashlar_thread *thread;

/* value.c */
void begin_heap(const char *options);
void end_heap(void);
value cons(value car, value cdr);
value intern(const char *name, size_t length);
value make_string(const char *text, size_t length);
void append_text(value string, const char *text, size_t length);
value make_vector(size_t length, value fill);
value make_weak(value target);
value make_frame(size_t count, value outer);
value make_code(void);
value make_closure(value code, value frame);
value make_primitive(size_t index);
void store(value cell, value *place, value v);
bool equal(value a, value b);
value make_table(void);
value table_get(value table, value key, value otherwise);
void table_put(value table, value key, value v);

/* read.c: the next value of a text that ends with a zero; false at its end. */
bool read_value(const char **text, value *into);

/* compile.c: code without arguments that computes an expression. */
value compile(value expression);

/* machine.c */
value run(value code);
void push(value v);
void trace_machine(ashlar_tracer *tracer);

/* primitives.c */
value call_primitive(size_t index, size_t count, value *arguments);
void define_primitives(void);

/* print.c */
void print(value v);

/* main.c: ends the program with a line on standard error. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
#endif
