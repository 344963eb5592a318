/* Text to values. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "scheme.h"

static void skip_blanks(const char **text)
{
    for (;; ++*text) {
        if (**text == ';')
            while (**text && **text != '\n') ++*text;
        if (!isspace((unsigned char)**text)) return;
    }
}

static value read_list(const char **text)
{
    value head = EMPTY, last = EMPTY, item = EMPTY;
    ASHLAR_ROOTS(thread, &head, &last, &item);
    for (;;) {
        skip_blanks(text);
        if (!**text) fail("a list has no end");
        if (**text == ')') {
            ++*text;
            return head;
        }
        if (!read_value(text, &item)) fail("a list has no end");
        if (type_of(item) == T_SYMBOL && **text && last != EMPTY &&
            CELL(string, CELL(symbol, item)->name)->length == 1 && CELL(string, CELL(symbol, item)->name)->text[0] == '.') {
            if (!read_value(text, &item)) fail("a pair has no second half");
            store(last, &CELL(pair, last)->cdr, item);
            continue;
        }
        item = cons(item, EMPTY);
        if (head == EMPTY) head = item;
        else store(last, &CELL(pair, last)->cdr, item);
        last = item;
    }
}

static value read_string(const char **text)
{
    value string = make_string("", 0);
    ASHLAR_ROOTS(thread, &string);
    for (; **text != '"'; ++*text) {
        if (!**text) fail("a string has no end");
        char c = **text;
        if (c == '\\') {
            c = *++*text;
            if (c == 'n') c = '\n';
            if (!c) fail("a string has no end");
        }
        append_text(string, &c, 1);
    }
    ++*text;
    return string;
}

static value read_atom(const char **text)
{
    const char *start = *text;
    while (**text && !isspace((unsigned char)**text) && !strchr("();\"'", **text)) ++*text;
    size_t length = (size_t)(*text - start);
    if (length == 2 && start[0] == '#') {
        if (start[1] == 't') return TRUE;
        if (start[1] == 'f') return FALSE;
    }
    char *end;
    long long number = strtoll(start, &end, 10);
    if (end == *text && length > (*start == '-' || *start == '+')) return integer((intptr_t)number);
    return intern(start, length);
}

bool read_value(const char **text, value *into)
{
    skip_blanks(text);
    char c = **text;
    if (!c) return false;
    if (c == ')') fail("there is a ) too many");
    if (c == '(' || c == '"' || c == '\'') ++*text;
    if (c == '(') *into = read_list(text);
    else if (c == '"') *into = read_string(text);
    else if (c != '\'') *into = read_atom(text);
    else {
        value quoted = EMPTY, quote = EMPTY;
        ASHLAR_ROOTS(thread, &quoted, &quote);
        if (!read_value(text, &quoted)) fail("nothing is quoted");
        quoted = cons(quoted, EMPTY);
        quote = intern("quote", 5);
        *into = cons(quote, quoted);
    }
    return true;
}
