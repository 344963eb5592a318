/* Ashlar's word map for C: what it adds to libJudy's interface.
 *
 * The library is a drop-in for libJudy.so.1: include Judy.h for the 52
 * functions of that interface, and this header for the ones below. */
#ifndef ASHLAR_WORDMAP_H
#define ASHLAR_WORDMAP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A position in a JudyL array.
 *
 * Owner: whoever opened it, until ashlar_cursor_close.
 * Threads: one at a time.
 * The array must not change while the cursor is used: after an insertion or a
 * deletion, close it and open another. Values may be written at any time. */
typedef struct ashlar_cursor ashlar_cursor;

/* Makes a cursor over `array` (a JudyL root word), at no entry yet. Returns NULL when
 * there is no memory. */
ashlar_cursor *ashlar_cursor_open(const void *array);

/* Frees a cursor. NULL is ignored. */
void ashlar_cursor_close(ashlar_cursor *cursor);

/* Each of these functions moves the cursor, writes the index of the entry it has
 * reached to *index, and returns the address of that entry's value. When there is no
 * such entry, they return NULL and leave *index as it was. */

/* To the first entry at or above *index; to the last one at or below it. */
uint64_t *ashlar_cursor_seek(ashlar_cursor *cursor, uint64_t *index);
uint64_t *ashlar_cursor_seek_back(ashlar_cursor *cursor, uint64_t *index);

/* To the entry with *index entries before it. */
uint64_t *ashlar_cursor_seek_nth(ashlar_cursor *cursor, uint64_t *index);

/* To the entry after, or before, the entry that the cursor is at. */
uint64_t *ashlar_cursor_next(ashlar_cursor *cursor, uint64_t *index);
uint64_t *ashlar_cursor_previous(ashlar_cursor *cursor, uint64_t *index);

/* Calls `visit` with each index in order and the address of its value, which `visit`
 * may write. The array must not change meanwhile. Needs no memory. */
typedef void (*ashlar_visit)(uint64_t index, uint64_t *value, void *argument);
void ashlar_wordmap_each(const void *array, ashlar_visit visit, void *argument);

/* The bytes that all arrays of the process have taken from the system for their nodes. The
 * strings of JudySL and JudyHS arrays are malloc's, and do not count. */
uint64_t ashlar_wordmap_heap_bytes(void);

/* Sets the functions that chunks of pages come from and go to, instead of mapping and
 * unmapping them; both NULL undoes it. Call it before the first array is made. `take`
 * may return NULL: then the insertion that needed memory fails as documented
 * (JU_ERRNO_NOMEM), and nothing is lost. For the strings of JudySL and JudyHS arrays
 * `take` is not asked. Both are called under locks of the library, of whose functions they
 * may call ashlar_wordmap_heap_bytes alone. */
typedef void *(*ashlar_take_pages)(size_t bytes, size_t alignment);
typedef void (*ashlar_give_pages)(void *pages, size_t bytes);
void ashlar_wordmap_set_pages(ashlar_take_pages take, ashlar_give_pages give);

#ifdef __cplusplus
}
#endif
#endif
