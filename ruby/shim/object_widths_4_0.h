#ifndef ASHLAR_OBJECT_WIDTHS_4_0_H
#define ASHLAR_OBJECT_WIDTHS_4_0_H
/*
 * The widths that plain objects have in Ruby 4.0: the shape of an object says how many
 * variables have room in its cell, by one of seven numbers. Seven steps between 3 and 38
 * variables leave at most a third of a cell unused; other types have all widths of the heap.
 * The library is built with the same widths.
 */
#include <stddef.h>
#include <stdint.h>

static const size_t object_widths[] = {40, 56, 72, 96, 128, 192, 320, 0};

enum { OBJECT_WIDEST_BYTES = 320 };

/* The index of the first width that holds an object, by the object's number of words. */
static const uint8_t object_width_of_words[] = {
    [0 ... 5] = 0, [6 ... 7] = 1, [8 ... 9] = 2, [10 ... 12] = 3, [13 ... 16] = 4, [17 ... 24] = 5, [25 ... 40] = 6,
};

_Static_assert(sizeof(object_width_of_words) == OBJECT_WIDEST_BYTES / 8 + 1, "a width for every number of words");

#endif
