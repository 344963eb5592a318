/* Words of code. Each leaves one value more, or fewer, on the stack. */
#ifndef MACHINE_H
#define MACHINE_H

enum op {
    OP_CONSTANT, /* number: pushes that constant */
    OP_LOCAL,    /* depth, slot: pushes a variable */
    OP_GLOBAL,   /* number of the symbol among the constants: pushes its value */
    OP_SET_LOCAL,  /* depth, slot: the value on top becomes the variable's, and nothing is pushed for it */
    OP_SET_GLOBAL, /* number: the same */
    OP_DEFINE,     /* number: the same, for a symbol that may have no value yet */
    OP_CLOSURE,    /* number of the code: pushes a closure over the frame */
    OP_POP,
    OP_JUMP,         /* to */
    OP_JUMP_UNLESS,  /* to: pops what it asks */
    OP_CALL_FOLLOWS, /* to: pushes where the call returns to */
    OP_CALL,         /* count of arguments, above the procedure; what it returns replaces all,
                        with what OP_CALL_FOLLOWS pushed */
    OP_RETURN,
};

#endif
