/* Values to code for the machine. */
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "scheme.h"

/* Code that is being made. `names` is a list of frames, the innermost first; each frame is a list
 * of symbols. `constants` is a list, the latest first. */
struct unit {
    int32_t *words;
    size_t length, room;
    value names, constants;
    size_t constant_count, variables;
};

static void expression(struct unit *unit, value e, bool is_last);

static void word(struct unit *unit, int32_t w)
{
    if (unit->length == unit->room) {
        unit->room = unit->room ? 2 * unit->room : 32;
        unit->words = realloc(unit->words, unit->room * sizeof *unit->words);
        if (!unit->words) fail("no memory for code");
    }
    unit->words[unit->length++] = w;
}

static size_t jump(struct unit *unit, enum op op)
{
    word(unit, op);
    word(unit, 0);
    return unit->length - 1;
}

static void land(struct unit *unit, size_t jump)
{
    unit->words[jump] = (int32_t)unit->length;
}

static int32_t constant(struct unit *unit, value v)
{
    unit->constants = cons(v, unit->constants);
    return (int32_t)unit->constant_count++;
}

static void push_constant(struct unit *unit, value v)
{
    int32_t number = constant(unit, v);
    word(unit, OP_CONSTANT);
    word(unit, number);
}

static bool is_named(value v, const char *name)
{
    if (type_of(v) != T_SYMBOL) return false;
    struct string *string = CELL(string, CELL(symbol, v)->name);
    return string->length == strlen(name) && memcmp(string->text, name, string->length) == 0;
}

static value symbol(const char *name)
{
    return intern(name, strlen(name));
}

/* The item at `index` of a list. */
static value item(value list, size_t index)
{
    while (index-- && type_of(list) == T_PAIR) list = cdr(list);
    if (type_of(list) != T_PAIR) fail("an expression is too short");
    return car(list);
}

static size_t length_of(value list)
{
    size_t count = 0;
    for (; type_of(list) == T_PAIR; list = cdr(list)) count++;
    return count;
}

static bool find_variable(const struct unit *unit, value name, int32_t *depth, int32_t *slot)
{
    *depth = 0;
    for (value names = unit->names; names != EMPTY; names = cdr(names), ++*depth) {
        *slot = 0;
        for (value known = car(names); known != EMPTY; known = cdr(known), ++*slot)
            if (car(known) == name) return true;
    }
    return false;
}

static void variable(struct unit *unit, value name, enum op local, enum op global)
{
    int32_t depth, slot;
    if (find_variable(unit, name, &depth, &slot)) {
        word(unit, local);
        word(unit, depth);
        word(unit, slot);
    } else {
        int32_t number = constant(unit, name);
        word(unit, global);
        word(unit, number);
    }
}

/* Compiles expressions; the value of the last one is left on the stack. */
static void sequence(struct unit *unit, value list, bool is_last)
{
    ASHLAR_ROOTS(thread, &list);
    if (list == EMPTY) push_constant(unit, NOTHING);
    for (; list != EMPTY; list = cdr(list)) {
        bool ends = cdr(list) == EMPTY;
        expression(unit, car(list), is_last && ends);
        if (!ends) word(unit, OP_POP);
    }
    if (is_last) word(unit, OP_RETURN);
}

/* Returns `names`, with the names that the body defines appended. */
static value with_definitions(value names, value body)
{
    ASHLAR_ROOTS(thread, &names, &body);
    for (; type_of(body) == T_PAIR; body = cdr(body)) {
        value e = car(body);
        if (type_of(e) != T_PAIR || !is_named(car(e), "define")) continue;
        value name = item(e, 1);
        if (type_of(name) == T_PAIR) name = car(name);
        value added = cons(name, EMPTY);
        if (names == EMPTY) {
            names = added;
            continue;
        }
        value last = names;
        while (cdr(last) != EMPTY) last = cdr(last);
        store(last, &CELL(pair, last)->cdr, added);
    }
    return names;
}

static value finish(struct unit *unit, size_t arguments, bool takes_rest)
{
    value code = make_code();
    ASHLAR_ROOTS(thread, &code);
    value constants = make_vector(unit->constant_count, NOTHING);
    value list = unit->constants;
    for (size_t index = unit->constant_count; index--; list = cdr(list)) {
        value *slots = CELL(vector, constants)->slots;
        store(constants, &slots[index], car(list));
    }
    store(code, &CELL(code, code)->constants, constants);
    int32_t *words = ashlar_malloc(thread, unit->length * sizeof *words);
    if (!words) fail("%s", ashlar_error());
    memcpy(words, unit->words, unit->length * sizeof *words);
    free(unit->words);
    CELL(code, code)->words = words;
    CELL(code, code)->length = unit->length;
    CELL(code, code)->arguments = arguments;
    CELL(code, code)->takes_rest = takes_rest;
    CELL(code, code)->variables = unit->variables;
    return code;
}

static value procedure(value outer, value parameters, value body)
{
    struct unit unit = { .names = EMPTY, .constants = EMPTY };
    value names = EMPTY;
    ASHLAR_ROOTS(thread, &outer, &parameters, &body, &names, &unit.names, &unit.constants);
    size_t arguments = 0;
    bool takes_rest = false;
    value reversed = EMPTY;
    ASHLAR_ROOTS(thread, &reversed);
    for (; parameters != EMPTY; arguments++) {
        takes_rest = type_of(parameters) != T_PAIR;
        reversed = cons(takes_rest ? parameters : car(parameters), reversed);
        parameters = takes_rest ? EMPTY : cdr(parameters);
    }
    for (; reversed != EMPTY; reversed = cdr(reversed)) names = cons(car(reversed), names);
    names = with_definitions(names, body);
    unit.variables = length_of(names);
    if (unit.variables > FRAME_SLOTS_MAX) fail("a procedure has more than %zu variables", (size_t)FRAME_SLOTS_MAX);
    unit.names = cons(names, outer);
    sequence(&unit, body, true);
    return finish(&unit, arguments, takes_rest);
}

static void closure(struct unit *unit, value parameters, value body)
{
    value code = procedure(unit->names, parameters, body);
    int32_t number = constant(unit, code);
    word(unit, OP_CLOSURE);
    word(unit, number);
}

/* ── Forms ───────────────────────────────────────────────────────────────────────── */

static void form_quote(struct unit *unit, value e, bool is_last)
{
    (void)is_last;
    push_constant(unit, item(e, 1));
}

static void form_if(struct unit *unit, value e, bool is_last)
{
    ASHLAR_ROOTS(thread, &e);
    expression(unit, item(e, 1), false);
    size_t otherwise = jump(unit, OP_JUMP_UNLESS);
    expression(unit, item(e, 2), is_last);
    size_t end = jump(unit, OP_JUMP);
    land(unit, otherwise);
    if (length_of(e) > 3) expression(unit, item(e, 3), is_last);
    else push_constant(unit, NOTHING);
    land(unit, end);
}

static void form_define(struct unit *unit, value e, bool is_last)
{
    (void)is_last;
    value name = item(e, 1);
    ASHLAR_ROOTS(thread, &e, &name);
    if (type_of(name) == T_PAIR) {
        closure(unit, cdr(name), cdr(cdr(e)));
        name = car(name);
    } else {
        expression(unit, item(e, 2), false);
    }
    variable(unit, name, OP_SET_LOCAL, OP_DEFINE);
    push_constant(unit, NOTHING);
}

static void form_set(struct unit *unit, value e, bool is_last)
{
    (void)is_last;
    ASHLAR_ROOTS(thread, &e);
    expression(unit, item(e, 2), false);
    variable(unit, item(e, 1), OP_SET_LOCAL, OP_SET_GLOBAL);
    push_constant(unit, NOTHING);
}

static void form_lambda(struct unit *unit, value e, bool is_last)
{
    (void)is_last;
    closure(unit, item(e, 1), cdr(cdr(e)));
}

static void form_begin(struct unit *unit, value e, bool is_last)
{
    sequence(unit, cdr(e), is_last);
}

static void form_and(struct unit *unit, value e, bool is_last)
{
    ASHLAR_ROOTS(thread, &e);
    value rest = cdr(e);
    if (rest == EMPTY) return push_constant(unit, TRUE);
    if (cdr(rest) == EMPTY) return expression(unit, car(rest), is_last);
    expression(unit, car(rest), false);
    size_t otherwise = jump(unit, OP_JUMP_UNLESS);
    form_and(unit, cdr(e), is_last);
    size_t end = jump(unit, OP_JUMP);
    land(unit, otherwise);
    push_constant(unit, FALSE);
    land(unit, end);
}

/* Forms that are rewritten as other forms: what is returned is compiled in their place. */
static value list2(value a, value b)
{
    ASHLAR_ROOTS(thread, &a);
    b = cons(b, EMPTY);
    return cons(a, b);
}

static value list3(value a, value b, value c)
{
    ASHLAR_ROOTS(thread, &a);
    value rest = list2(b, c);
    return cons(a, rest);
}

static value list4(value a, value b, value c, value d)
{
    ASHLAR_ROOTS(thread, &a);
    value rest = list3(b, c, d);
    return cons(a, rest);
}

/* The item at `index` of each of the bindings ((name value) ...): names, or values. */
static value each_of(value bindings, size_t index)
{
    if (bindings == EMPTY) return EMPTY;
    ASHLAR_ROOTS(thread, &bindings);
    value rest = each_of(cdr(bindings), index);
    return cons(item(car(bindings), index), rest);
}

static value lambda(value parameters, value body)
{
    ASHLAR_ROOTS(thread, &parameters, &body);
    value rest = cons(parameters, body);
    ASHLAR_ROOTS(thread, &rest);
    value name = symbol("lambda");
    return cons(name, rest);
}

/* (let ((x 1)) ...) is ((lambda (x) ...) 1); with a name, the procedure has it. */
static value rewrite_let(value e)
{
    value first = item(e, 1), names = EMPTY, values = EMPTY, made = EMPTY;
    ASHLAR_ROOTS(thread, &e, &first, &names, &values, &made);
    bool has_name = type_of(first) == T_SYMBOL;
    value bindings = has_name ? item(e, 2) : first;
    names = each_of(bindings, 0);
    values = each_of(has_name ? item(e, 2) : item(e, 1), 1);
    made = lambda(names, has_name ? cdr(cdr(cdr(e))) : cdr(cdr(e)));
    if (has_name) {
        /* ((lambda () (define name lambda) name)) */
        names = symbol("define");
        made = list3(names, first, made);
        made = list2(made, first);
        made = lambda(EMPTY, made);
        made = cons(made, EMPTY);
    }
    return cons(made, values);
}

static value rewrite_let_star(value e)
{
    value bindings = item(e, 1), inner = EMPTY, made = EMPTY;
    ASHLAR_ROOTS(thread, &e, &bindings, &inner, &made);
    bool is_one = bindings == EMPTY || cdr(bindings) == EMPTY;
    inner = cdr(cdr(e));
    if (!is_one) {
        made = cons(cdr(bindings), inner);
        inner = symbol("let*");
        made = cons(inner, made);
        inner = cons(made, EMPTY);
        made = cons(car(bindings), EMPTY);
    } else {
        made = bindings;
    }
    made = cons(made, inner);
    inner = symbol("let");
    return cons(inner, made);
}

/* (letrec ((f ...)) ...) is ((lambda () (define f ...) ...)). */
static value rewrite_letrec(value e)
{
    value bindings = item(e, 1), made = EMPTY, reversed = EMPTY, define = EMPTY;
    ASHLAR_ROOTS(thread, &e, &bindings, &made, &reversed, &define);
    define = symbol("define");
    for (; bindings != EMPTY; bindings = cdr(bindings)) {
        made = cons(define, car(bindings));
        reversed = cons(made, reversed);
    }
    made = cdr(cdr(e));
    for (; reversed != EMPTY; reversed = cdr(reversed)) made = cons(car(reversed), made);
    made = lambda(EMPTY, made);
    return cons(made, EMPTY);
}

static value rewrite_cond(value e)
{
    if (cdr(e) == EMPTY) return NOTHING;
    value clause = item(e, 1), rest = EMPTY, body = EMPTY, name = EMPTY;
    ASHLAR_ROOTS(thread, &e, &clause, &rest, &body, &name);
    name = symbol("begin");
    body = cons(name, cdr(clause));
    if (is_named(car(clause), "else")) return body;
    name = symbol("cond");
    rest = cons(name, cdr(cdr(e)));
    name = symbol("if");
    return list4(name, car(clause), body, rest);
}

/* (or a b) is ((lambda (x) (if x x (or b))) a), with a name that nobody can write. */
static value rewrite_or(value e)
{
    if (cdr(e) == EMPTY) return FALSE;
    if (cdr(cdr(e)) == EMPTY) return item(e, 1);
    value name = EMPTY, rest = EMPTY, made = EMPTY;
    ASHLAR_ROOTS(thread, &e, &name, &rest, &made);
    name = symbol("or");
    rest = cons(name, cdr(cdr(e)));
    made = symbol("if");
    name = symbol("(or)");
    made = list4(made, name, name, rest);
    made = cons(made, EMPTY);
    name = cons(name, EMPTY);
    made = lambda(name, made);
    return list2(made, item(e, 1));
}

static value rewrite_when(value e)
{
    value name = EMPTY, body = EMPTY;
    ASHLAR_ROOTS(thread, &e, &name, &body);
    name = symbol("begin");
    body = cons(name, cdr(cdr(e)));
    name = symbol("if");
    return list3(name, item(e, 1), body);
}

static const struct {
    const char *name;
    void (*compile)(struct unit *, value, bool);
    value (*rewrite)(value);
} forms[] = {
    { "quote", form_quote, 0 }, { "if", form_if, 0 },         { "define", form_define, 0 },
    { "set!", form_set, 0 },    { "lambda", form_lambda, 0 }, { "begin", form_begin, 0 },
    { "and", form_and, 0 },     { "let", 0, rewrite_let },    { "let*", 0, rewrite_let_star },
    { "letrec", 0, rewrite_letrec }, { "cond", 0, rewrite_cond }, { "or", 0, rewrite_or },
    { "when", 0, rewrite_when },
};

static bool form(struct unit *unit, value e, bool is_last)
{
    for (size_t index = 0; index < sizeof forms / sizeof *forms; index++) {
        if (!is_named(car(e), forms[index].name)) continue;
        if (forms[index].compile) forms[index].compile(unit, e, is_last);
        else expression(unit, forms[index].rewrite(e), is_last);
        return true;
    }
    return false;
}

static void call(struct unit *unit, value e, bool is_last)
{
    ASHLAR_ROOTS(thread, &e);
    size_t back = is_last ? 0 : jump(unit, OP_CALL_FOLLOWS);
    int32_t count = -1;
    for (; e != EMPTY; e = cdr(e), count++) expression(unit, car(e), false);
    word(unit, OP_CALL);
    word(unit, count);
    if (back) land(unit, back);
}

static void expression(struct unit *unit, value e, bool is_last)
{
    if (type_of(e) == T_SYMBOL) variable(unit, e, OP_LOCAL, OP_GLOBAL);
    else if (type_of(e) != T_PAIR) push_constant(unit, e);
    else if (!form(unit, e, is_last)) call(unit, e, is_last);
}

value compile(value e)
{
    struct unit unit = { .names = EMPTY, .constants = EMPTY };
    ASHLAR_ROOTS(thread, &e, &unit.names, &unit.constants);
    expression(&unit, e, false);
    word(&unit, OP_RETURN);
    return finish(&unit, 0, false);
}
