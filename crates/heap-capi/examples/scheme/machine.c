/* Runs code. The stack is a root: everything that a running program refers to is on it, or
 * in the three registers. */
#include <stdlib.h>

#include "machine.h"
#include "scheme.h"

static struct {
    value *stack;
    size_t top, room;
    value code, frame;
} machine;

void trace_machine(ashlar_tracer *tracer)
{
    ashlar_mark_words(tracer, machine.stack, machine.top);
    ashlar_mark_words(tracer, &machine.code, 2);
}

void push(value v)
{
    if (machine.top == machine.room) {
        machine.room = machine.room ? 2 * machine.room : 1024;
        machine.stack = realloc(machine.stack, machine.room * sizeof *machine.stack);
        if (!machine.stack) fail("no memory for the stack");
    }
    machine.stack[machine.top++] = v;
}

static value pop(void)
{
    return machine.stack[--machine.top];
}

static value *variable(int32_t depth, int32_t slot, value *holder)
{
    value frame = machine.frame;
    while (depth--) frame = CELL(frame, frame)->outer;
    *holder = frame;
    return &CELL(frame, frame)->slots[slot];
}

/* Ends a call. Returns where its caller goes on. */
static size_t return_value(value result)
{
    size_t next = (size_t)to_integer(pop());
    machine.frame = pop();
    machine.code = pop();
    push(result);
    return next;
}

/* The arguments on top of the stack become the frame of the closure below them. */
static void enter(size_t count)
{
    struct code *code = CELL(code, CELL(closure, machine.stack[machine.top - count - 1])->code);
    bool takes_rest = code->takes_rest;
    size_t fixed = code->arguments - takes_rest, variables = code->variables;
    if (count < fixed || (count > fixed && !takes_rest))
        fail("a procedure of %zu arguments is called with %zu", fixed, count);
    if (takes_rest) {
        value rest = EMPTY;
        for (; count > fixed; count--) {
            rest = cons(machine.stack[machine.top - 1], rest);
            pop();
        }
        push(rest);
        count++;
    }
    value frame = make_frame(variables, EMPTY);
    /* The cells may have moved. */
    struct closure *closure = CELL(closure, machine.stack[machine.top - count - 1]);
    CELL(frame, frame)->outer = closure->frame;
    for (size_t index = 0; index < count; index++)
        CELL(frame, frame)->slots[index] = machine.stack[machine.top - count + index];
    for (size_t index = count; index < variables; index++) CELL(frame, frame)->slots[index] = NOTHING;
    machine.code = closure->code;
    machine.frame = frame;
    machine.top -= count + 1;
}

/* Calls the procedure below the arguments. Returns where to go on. */
static size_t call(size_t count)
{
    value procedure = machine.stack[machine.top - count - 1];
    if (type_of(procedure) == T_CLOSURE) {
        enter(count);
        return 0;
    }
    if (type_of(procedure) != T_PRIMITIVE) fail("what is called is no procedure");
    size_t index = CELL(primitive, procedure)->index;
    value result = call_primitive(index, count, machine.stack + machine.top - count);
    machine.top -= count + 1;
    return return_value(result);
}

static value global(value symbol)
{
    value v = CELL(symbol, symbol)->global;
    if (!v) {
        value name = CELL(symbol, symbol)->name;
        fail("%.*s has no value", (int)CELL(string, name)->length, CELL(string, name)->text);
    }
    return v;
}

static value constant(int32_t number)
{
    return CELL(vector, CELL(code, machine.code)->constants)->slots[number];
}

/* Does one step. Returns where the next one is. */
static size_t step(size_t at)
{
    const int32_t *word = CELL(code, machine.code)->words + at;
    value holder, symbol;
    switch ((enum op)word[0]) {
    case OP_CONSTANT: push(constant(word[1])); return at + 2;
    case OP_LOCAL: push(*variable(word[1], word[2], &holder)); return at + 3;
    case OP_GLOBAL: push(global(constant(word[1]))); return at + 2;
    case OP_SET_LOCAL: {
        value *place = variable(word[1], word[2], &holder);
        store(holder, place, pop());
        return at + 3;
    }
    case OP_SET_GLOBAL:
        global(constant(word[1]));
        /* fall through */
    case OP_DEFINE:
        symbol = constant(word[1]);
        store(symbol, &CELL(symbol, symbol)->global, pop());
        return at + 2;
    case OP_CLOSURE: push(make_closure(constant(word[1]), machine.frame)); return at + 2;
    case OP_POP: pop(); return at + 1;
    case OP_JUMP: return (size_t)word[1];
    case OP_JUMP_UNLESS: return pop() == FALSE ? (size_t)word[1] : at + 2;
    case OP_CALL_FOLLOWS:
        push(machine.code);
        push(machine.frame);
        push(integer(word[1]));
        return at + 2;
    case OP_CALL: return call((size_t)word[1]);
    case OP_RETURN: return return_value(pop());
    }
    fail("there is no such word of code: %d", word[0]);
}

value run(value code)
{
    size_t bottom = machine.top;
    machine.code = code;
    machine.frame = EMPTY;
    push(EMPTY); /* code 0: the end */
    push(EMPTY);
    push(integer(0));
    size_t at = 0;
    while (machine.code != EMPTY) at = step(at);
    value result = pop();
    if (machine.top != bottom) fail("the stack is not as it was");
    return result;
}
