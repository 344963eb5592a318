#ifndef ASHLAR_INLINED_H
#define ASHLAR_INLINED_H
/*
 * What Ruby asks of the collector most often, done without a call: in gc.c when Ashlar is
 * compiled into Ruby, else in the library's own functions.
 *
 * This saves the call into Rust, the registers that the call loses, and loading values that
 * both sides have at hand. Whatever is unusual goes to the Rust function of the same purpose,
 * which checks everything once more.
 *
 * The declarations below repeat those of crates/heap/src/inlined.rs. The two are compared
 * when the library is built: layout.c prints what the compiler makes of these declarations,
 * and ruby/src/inlined.rs asserts that it is the same.
 */
#include <stddef.h>
#include <string.h>

#include "ashlar_ruby.h"

#pragma GCC visibility push(hidden)

#define ASHLAR_LIKELY(condition) __builtin_expect(!!(condition), 1)

enum {
    ASHLAR_WIDTHS = 24,
    ASHLAR_KINDS = 256,
    ASHLAR_CLASS_BYTES_MAX = 32768,
    ASHLAR_FIRST_PAYLOAD_KIND = 64,
    ASHLAR_BLOCK_SHIFT = 16,
    ASHLAR_STATE_SHIFT = 5,
    ASHLAR_STAGE_IDLE = 0,
    ASHLAR_NARROWEST_BYTES = 32,
    ASHLAR_WIDEST_BYTES = 1024, /* an embedded array of 126: its length has 7 bits */
    ASHLAR_FIVE_WORDS = 1, /* the width of an object that asks for no more */
    ASHLAR_COLLECTIONS_TO_OLD = 3, /* two that find a young cell age it, and the third one makes it old */
};

/* The beginning of the first cell of a run of free cells. */
struct ashlar_run {
    uintptr_t zero;
    struct ashlar_run *next;
    uintptr_t end;
};

/* The run of one width that cells are taken from, and the next run in its block. */
struct ashlar_cursor {
    uintptr_t next, end;
    struct ashlar_run *next_run;
    uintptr_t rust_only;
};

/* A Ractor's allocation cache. It may begin runs of `allowance_bytes` bytes in all before the
   heap is asked again, if no cell of their width is to be a sample (`cells_until_sample`). */
struct ashlar_allocation_cache {
    uint8_t *biased_states;
    struct ashlar_cursor cursors[ASHLAR_WIDTHS];
    uint64_t bytes_in_runs[ASHLAR_WIDTHS];
    uintptr_t allowance_bytes;
    uintptr_t rust_only;
    uint64_t cells_until_sample[ASHLAR_WIDTHS];
};

/* A thread's lists of free payloads, by the kind of their block. A list begins with the
   address of its first payload, and each payload with the address of the next; `room` is how
   many more payloads the list may have. Kinds that are not pieces have no room: empty blocks
   (0), cells and spans. */
struct ashlar_payload_cache {
    uintptr_t first[ASHLAR_KINDS];
    int8_t room[ASHLAR_KINDS];
};

/* Set once, when the region is reserved; `bytes` is 0 until then. */
struct ashlar_tables {
    uintptr_t start, bytes;
    const uint8_t *kinds;
    uint8_t *biased_states;
};
extern struct ashlar_tables ashlar_tables;

/* The byte that says at which stage a collection is. */
extern const uint8_t *ashlar_stage;

/* The first fields of what every thread may read (ruby/src/knobs.rs). */
struct ashlar_knobs {
    uint32_t narrow_types; /* types, by number, whose objects may have the narrowest cells */
    uint8_t xmalloc_mode;  /* 0: the thread's cache may serve without a question */
    bool disabled, auto_compact, full_marking_allowed, measures_time, has_heap_profile;
    ashlar_value stress_flag;
};
extern struct ashlar_knobs ashlar_knobs;
_Static_assert(offsetof(struct ashlar_knobs, xmalloc_mode) == 4 && offsetof(struct ashlar_knobs, disabled) == 5 &&
               offsetof(struct ashlar_knobs, auto_compact) == 6 && offsetof(struct ashlar_knobs, full_marking_allowed) == 7 &&
               offsetof(struct ashlar_knobs, measures_time) == 8 && offsetof(struct ashlar_knobs, has_heap_profile) == 9 &&
               offsetof(struct ashlar_knobs, stress_flag) == 16, "as in ruby/src/knobs.rs");

/* Any thread may read a switch and turn it. */
static inline bool
ashlar_is_on(const bool *knob)
{
    return __atomic_load_n(knob, __ATOMIC_RELAXED);
}

static inline void
ashlar_turn(bool *knob, bool on)
{
    __atomic_store_n(knob, on, __ATOMIC_RELAXED);
}

/* Tables: from sizes, rounded up to 8 and to 16 bytes, to widths and classes; from kinds of
   blocks to bytes. */
extern const uint8_t ashlar_width_of_words[];
extern const uint8_t ashlar_class_of_units[];
extern const uint16_t ashlar_kind_bytes[ASHLAR_KINDS];
extern const uint16_t ashlar_widths_bytes[ASHLAR_WIDTHS];

/* ── Cells ───────────────────────────────────────────────────────────────── */

static inline unsigned int
ashlar_state_of(ashlar_value object)
{
    return __atomic_load_n(&ashlar_tables.biased_states[object >> ASHLAR_STATE_SHIFT], __ATOMIC_RELAXED);
}

/* The width of an object's cell, in bytes. */
static inline size_t
ashlar_width_of(ashlar_value object)
{
    return ashlar_kind_bytes[ashlar_tables.kinds[(object - ashlar_tables.start) >> ASHLAR_BLOCK_SHIFT]];
}

/* Goes on to the next run of the block: in a dense heap a run has a cell or two. Returns the
   run's first cell; 0 when there is no run, or the heap has to be asked. */
static inline uintptr_t
ashlar_begin_next_run(struct ashlar_allocation_cache *own, size_t width)
{
    struct ashlar_cursor *cursor = &own->cursors[width];
    struct ashlar_run *run = cursor->next_run;
    if (!run || own->cells_until_sample[width] != UINT64_MAX) return 0;
    uintptr_t end = run->end;
    uintptr_t bytes = end - (uintptr_t)run;
    if (own->allowance_bytes < bytes) return 0;
    own->allowance_bytes -= bytes;
    own->bytes_in_runs[width] += bytes;
    cursor->end = end;
    cursor->next_run = run->next;
    __builtin_prefetch(run->next); /* nobody has looked there since the block was swept */
    return (uintptr_t)run;
}

/* The index of an object's width; ASHLAR_WIDTHS for objects that this header does not
   make. */
static inline size_t
ashlar_width_for(ashlar_value flags, size_t size)
{
    if (size > ASHLAR_NARROWEST_BYTES) {
        return size > ASHLAR_WIDEST_BYTES ? (size_t)ASHLAR_WIDTHS : ashlar_width_of_words[(size + 7) >> 3];
    }
    /* Few types have the narrowest cells, and they have four words. */
    return ashlar_knobs.narrow_types >> (flags & 31) & 1 ? ASHLAR_WIDTHS : ASHLAR_FIVE_WORDS;
}

/* Takes `cell`, the first free one of the run, and writes its first two words. */
static inline ashlar_value
ashlar_begin_cell(struct ashlar_allocation_cache *own, uintptr_t cell, size_t width, ashlar_value klass,
                  ashlar_value flags, bool wb_protected)
{
    if (!cell) __builtin_unreachable(); /* no run begins there */
    own->cursors[width].next = cell + ashlar_widths_bytes[width];
    uint8_t state = wb_protected ? ASHLAR_CELL_LIVE : ASHLAR_CELL_LIVE | ASHLAR_CELL_UNPROTECTED;
    __atomic_store_n(&own->biased_states[cell >> ASHLAR_STATE_SHIFT], state, __ATOMIC_RELAXED);
    ashlar_value *words = (ashlar_value *)cell;
    words[0] = flags;
    words[1] = klass;
    return cell;
}

/* Takes the next cell of the run for this size, of five words or more, and writes its first
   two words. Returns 0 when the run is used up or no cell is that wide. */
static inline ashlar_value
ashlar_take_cell(void *cache, ashlar_value klass, ashlar_value flags, bool wb_protected, size_t size)
{
    struct ashlar_allocation_cache *own = cache;
    size_t width = ashlar_width_for(flags, size);
    if (width == ASHLAR_WIDTHS) return 0;
    const struct ashlar_cursor *cursor = &own->cursors[width];
    uintptr_t cell = cursor->next;
    if (!ASHLAR_LIKELY(cell < cursor->end)) return 0;
    return ashlar_begin_cell(own, cell, width, klass, flags, wb_protected);
}

/* Takes a cell when the run is used up: the first cell of the block's next run. Returns 0
   when ashlar_begin_next_run does, or no cell is that wide. */
static inline ashlar_value
ashlar_take_cell_of_next_run(void *cache, ashlar_value klass, ashlar_value flags, bool wb_protected, size_t size)
{
    struct ashlar_allocation_cache *own = cache;
    size_t width = ashlar_width_for(flags, size);
    uintptr_t cell = width == ASHLAR_WIDTHS ? 0 : ashlar_begin_next_run(own, width);
    return cell ? ashlar_begin_cell(own, cell, width, klass, flags, wb_protected) : 0;
}

/* Whether an old cell in this state may refer to a cell in the state `child` without being
   noted first: it must be remembered if the child is not old, and on the boundary if it is
   settled and the child is not. */
static inline bool
ashlar_has_what_old_want(unsigned int state, unsigned int child)
{
    unsigned int settled = ASHLAR_CELL_OLD | ASHLAR_CELL_AGE_HIGH;
    unsigned int boundary = ASHLAR_CELL_AGE_LOW | settled;
    return ((state & ASHLAR_CELL_REMEMBERED) || (child & ASHLAR_CELL_OLD)) &&
           ((state & boundary) != settled || (child & settled) == settled);
}

/* Whether the collector need not know of a store of `child` into `parent`. It returns false
   more often than necessary while a collection is in progress. */
static inline bool
ashlar_store_is_plain(ashlar_value parent, ashlar_value child)
{
    unsigned int state = ashlar_state_of(parent);
    return *ashlar_stage == ASHLAR_STAGE_IDLE &&
           (!(state & ASHLAR_CELL_OLD) || ashlar_has_what_old_want(state, ashlar_state_of(child)));
}

/* Whether marking the object would change nothing, whoever refers to it. */
static inline bool
ashlar_is_marked_for_good(ashlar_value object)
{
    unsigned int marked_and_old = ASHLAR_CELL_MARKED | ASHLAR_CELL_OLD;
    return (ashlar_state_of(object) & marked_and_old) == marked_and_old;
}

/* ── Payloads ────────────────────────────────────────────────────────────── */

/* The kind of the block at any address; 0 for memory outside the heap. */
static inline unsigned int
ashlar_kind_at(const void *memory)
{
    uintptr_t offset = (uintptr_t)memory - ashlar_tables.start;
    return ASHLAR_LIKELY(offset < ashlar_tables.bytes) ? ashlar_tables.kinds[offset >> ASHLAR_BLOCK_SHIFT] : 0;
}

/* Stands between two stores to a list or its room: a forked child must find them in the order
   of the program. Orders the compiler only. */
static inline void
ashlar_in_this_order(void)
{
    __atomic_signal_fence(__ATOMIC_RELEASE);
}

/* Takes one of the payloads that the thread keeps; returns NULL when there is none of this
   size. */
static inline void *
ashlar_pop_payload(struct ashlar_payload_cache *cache, size_t size)
{
    if (!cache || size > ASHLAR_CLASS_BYTES_MAX) return NULL;
    unsigned int kind = ASHLAR_FIRST_PAYLOAD_KIND + ashlar_class_of_units[(size + 15) >> 4];
    uintptr_t *piece = (uintptr_t *)cache->first[kind];
    if (!ASHLAR_LIKELY(piece)) return NULL;
    cache->first[kind] = *piece;
    ashlar_in_this_order();
    cache->room[kind]++;
    return piece;
}

/* Gives a payload, which is free then, to the thread's cache; returns whether the cache could
   take it. It cannot take memory from outside the heap, a payload of whole blocks, or more
   payloads than its list has room for. */
static inline bool
ashlar_push_payload(struct ashlar_payload_cache *cache, void *payload)
{
    unsigned int kind = ashlar_kind_at(payload);
    if (!cache || !ASHLAR_LIKELY(cache->room[kind])) return false;
    *(uintptr_t *)payload = cache->first[kind];
    ashlar_in_this_order();
    cache->first[kind] = (uintptr_t)payload;
    cache->room[kind]--;
    return true;
}

/* Whether the payload stays where it is when it is resized to `size`: it fits, and uses more
   than half of the bytes. */
static inline bool
ashlar_stays(const void *payload, size_t size)
{
    unsigned int kind = ashlar_kind_at(payload);
    size_t bytes = ashlar_kind_bytes[kind];
    return kind >= ASHLAR_FIRST_PAYLOAD_KIND && size <= bytes && size > bytes / 2;
}

/* Whether Ruby's payloads need only be taken and given back: there is no stress, no sampling,
   and no payload from libc. */
static inline bool
ashlar_xmalloc_is_plain(void)
{
    return ASHLAR_LIKELY(__atomic_load_n(&ashlar_knobs.xmalloc_mode, __ATOMIC_RELAXED) == 0);
}

#pragma GCC visibility pop
#endif
