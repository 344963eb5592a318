/* ashlar.h: a garbage-collected heap for language runtimes.
 *
 * Objects of any width from 32 to 1024 bytes (cells) and the buffers that they own
 * (payloads) live in one heap, under one collector: generational, in slices if wanted,
 * compacting if the program can follow. The program says what refers to what.
 *
 *     static void trace(void *cell, ashlar_tracer *tracer, void *data) {
 *         struct pair *pair = cell;
 *         pair->left = ashlar_mark(tracer, pair->left);
 *         pair->right = ashlar_mark(tracer, pair->right);
 *     }
 *     ...
 *     ashlar_vm vm = ASHLAR_VM_INIT;
 *     vm.trace = trace;
 *     ashlar_heap *heap = ashlar_heap_new(&vm, "space_overhead=60");
 *     ashlar_thread *thread = ashlar_thread_new(heap);
 *     struct pair *list = NULL;
 *     ashlar_root_add(heap, &list);
 *     struct pair *pair = ashlar_new(thread, sizeof *pair);
 *     ashlar_store(thread, pair, &pair->right, list);
 *     list = pair;
 *
 * The lock. A heap has no lock of its own. What is marked [lock] is called by one thread
 * at a time: by the only thread, or by the one that holds the program's own lock (a GIL).
 * What is marked [any] may be called by any thread at any time, each with its own
 * ashlar_thread.
 *
 * Collections happen inside ashlar_new, ashlar_new_without_barrier, ashlar_payload_new,
 * ashlar_payload_resize, ashlar_poll, ashlar_collect and ashlar_step, and nowhere else. During
 * a collection the program must keep what it uses reachable: from roots, from trace_roots, or
 * from a stack that is scanned (ashlar_thread_scan_stack).
 *
 * Errors. A function that fails returns NULL or false; ashlar_error says why, in one line. A
 * program that breaks the rules (allocates a cell while it is traced, frees what is no payload)
 * is ended with a line on standard error.
 */
#ifndef ASHLAR_H
#define ASHLAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ASHLAR_VERSION "0.2.0"
/* Changes whenever a program has to be compiled again. */
#define ASHLAR_INTERFACE 3

/* Bytes of the widest cell. What is larger is a payload that a cell owns. */
#define ASHLAR_CELL_MAX 1024

/* A heap. Owner: whoever made it, until ashlar_heap_free. */
typedef struct ashlar_heap ashlar_heap;
/* A thread of the program. Owner: that thread, until ashlar_thread_free. */
typedef struct ashlar_thread ashlar_thread;
/* What a callback marks with. It exists during the callback only. */
typedef struct ashlar_tracer ashlar_tracer;

/* ── What the program supplies ───────────────────────────────────────────────── */

/* Where a number lies in a cell: `at` bytes from its beginning, `bytes` (1, 2, 4 or 8) long, `at`
 * a multiple of `bytes`. Of the number, `bits` bits are taken from bit `shift` on (0: all from
 * there), for bit fields and headers that hold more. */
typedef struct ashlar_number {
    uint16_t at;
    uint8_t bytes, shift, bits;
} ashlar_number;

#define ASHLAR_NUMBER(type, field) { offsetof(type, field), sizeof(((type *)0)->field), 0, 0 }

enum { /* ashlar_layout.refers: where the references of a cell are */
    ASHLAR_ASK,         /* vm.trace_anywhere and vm.trace know */
    ASHLAR_WORDS,       /* in the words of `words`, and nowhere else */
    ASHLAR_ROW,         /* there, and in row_count words of the cell from row_at on */
    ASHLAR_PAYLOAD_ROW, /* there, and in row_count words at the address, a multiple of 8, that is
                           in the word at row_at; none when that is NULL */
};

enum { /* ashlar_layout.owns: what is to be done when a cell has died */
    ASHLAR_RELEASED,     /* vm.release is called */
    ASHLAR_OWNS_NOTHING, /* nothing: it has no payload, no file */
};

/* What cells of one kind refer to, so that the heap traces them itself: much faster than a
 * callback, and by several threads at once (threads=N). The heap takes the words as
 * ashlar_mark_words does: it leaves alone zeroes, words that are no multiple of 8 (as tagged
 * numbers are), and addresses outside the heap. If vm.moves, a word is changed when its cell
 * moves.
 *
 *     struct pair { uint8_t kind; value car, cdr; };
 *     struct vector { uint8_t kind; uint32_t length; value *slots; };
 *     struct frame { uint8_t kind; uint32_t count; value outer, slots[]; };
 *     enum { NEW, PAIR, VECTOR, FRAME, STRING, WEAK, KINDS };
 *
 *     static const ashlar_layout layouts[KINDS] = {
 *         [PAIR] = { .refers = ASHLAR_WORDS, .owns = ASHLAR_OWNS_NOTHING,
 *                    .words = { ASHLAR_WORD(struct pair, car) | ASHLAR_WORD(struct pair, cdr) } },
 *         [VECTOR] = { .refers = ASHLAR_PAYLOAD_ROW, .row_at = offsetof(struct vector, slots),
 *                      .row_count = ASHLAR_NUMBER(struct vector, length) },
 *         [FRAME] = { .refers = ASHLAR_ROW, .owns = ASHLAR_OWNS_NOTHING,
 *                     .words = { ASHLAR_WORD(struct frame, outer) },
 *                     .row_at = offsetof(struct frame, slots),
 *                     .row_count = ASHLAR_NUMBER(struct frame, count) },
 *         [STRING] = { .refers = ASHLAR_WORDS },
 *     };                         (NEW and WEAK: ASHLAR_ASK)
 *
 *     vm.kind = (ashlar_number)ASHLAR_NUMBER(struct pair, kind);
 *     vm.layouts = layouts;
 *     vm.layout_count = KINDS;
 *
 * A new cell is zero, and so of kind 0, until the program sets its kind. The kind of a cell may
 * change; its references and counts may, too, with barriers as ever. */
typedef struct ashlar_layout {
    uint8_t refers, owns;
    uint16_t row_at;         /* a multiple of 8 */
    ashlar_number row_count;
    uint64_t words[2];       /* bit n % 64 of words[n / 64]: the word 8 * n bytes into the cell */
} ashlar_layout;

/* A field's bit in words[0], for the first 512 bytes of a cell. */
#define ASHLAR_WORD(type, field) ((uint64_t)1 << offsetof(type, field) / 8)

/* Callbacks, which may be NULL, and layouts. Each callback gets `data` back. While a callback
 * runs, the program is stopped; the callback may free payloads, and must not allocate, collect
 * or call barriers. */
typedef struct ashlar_vm {
    uint32_t interface; /* ASHLAR_INTERFACE */
    uint32_t bytes;     /* sizeof(ashlar_vm) */
    void *data;

    /* Marks everything that `cell`, which has no layout, refers to. May be NULL only when
     * all kinds have a layout. */
    void (*trace)(void *cell, ashlar_tracer *tracer, void *data);

    /* Marks everything that the program refers to and that is neither in a cell nor
     * known to the heap (ashlar_root_add, ASHLAR_ROOTS, ashlar_pin, scanned stacks). */
    void (*trace_roots)(ashlar_tracer *tracer, void *data);

    /* As `trace`, but called before it, and by several threads at once. Returns false, with
     * nothing marked, for cells that only one thread can trace, or that have weak references:
     * those go to `trace`, which must know every kind of cell all the same. With threads=2 or
     * more it also runs on threads of the heap's own, with a stack of 256 KiB and the program's
     * thread-local variables as they are at first: it must not recurse deeply. */
    bool (*trace_anywhere)(void *cell, ashlar_tracer *tracer, void *data);

    /* A cell has died, and its memory is about to be reused: frees the payloads that it
     * owned, closes its file. The cells that it referred to may be gone. ashlar_heap_free
     * calls this for every cell that is left. Not called for kinds that own nothing, as their
     * layouts say. */
    void (*release)(void *cell, ashlar_thread *thread, void *data);

    /* Everything reachable is marked, and nothing has been freed. The callback may mark more;
     * it is then called again, until it marks nothing new. For ephemerons and tables with weak
     * keys: ashlar_is_dead says what has died. */
    void (*marked)(ashlar_tracer *tracer, void *data);

    /* The cell that the weak reference at `place` refers to has died: writes something to
     * `place` that is no cell. Without this callback NULL is written. */
    void (*clear_weak)(void *place, void *data);

    /* Returns the bytes that a cell wants when cells move, at least those it uses; 0 when it
     * must not move. Without this callback a cell keeps its width. */
    size_t (*wanted_bytes)(void *cell, size_t bytes, void *data);

    /* A cell has been copied from `from` to `to`: updates tables by address. Returns false when
     * there is no memory for that; the cell then stays, and nothing may have changed. */
    bool (*moved)(void *from, void *to, void *data);

    /* Whether cells may move. If so, trace and trace_roots store what ashlar_mark
     * returns, and compactions move whatever nothing pins. */
    bool moves;

    /* Layouts by kind, and where in each cell the kind lies: in its first 32 bytes. The heap
     * copies the layouts. The callbacks trace cells of kinds from layout_count (at most 65536)
     * on. */
    ashlar_number kind;
    const ashlar_layout *layouts;
    size_t layout_count;
} ashlar_vm;

#define ASHLAR_VM_INIT                                                                           \
    { ASHLAR_INTERFACE, sizeof(ashlar_vm), 0, 0, 0, 0, 0, 0, 0, 0, 0, false, { 0, 0, 0, 0 }, 0, 0 }

/* ── Heaps and threads ───────────────────────────────────────────────────────── */

/* Makes a heap. `options` are words of the form name=value with spaces between them, or
 * NULL. Sizes take K, M, G (or KiB, MiB, GiB).
 *
 *   exchange_rate=2.5   take this many percent more memory where that saves 1 % of the CPU time: a
 *                       smaller number saves memory, a larger one CPU time; in force while
 *                       space_overhead is auto (a number from 0.1 to 100)
 *   space_overhead=40   auto: exchange_rate decides how much memory garbage may take; a number:
 *                       garbage may take this many percent of the live bytes (auto or a whole
 *                       number from 10 to 1000)
 *   heap_min=4MiB       with a fixed space_overhead, a heap with fewer live bytes than this is
 *                       collected as if it had this many (a size such as 512MiB)
 *   heap_init=0         no collection begins while the heap uses fewer bytes than this (a size such
 *                       as 512MiB)
 *   nursery_min=1MiB    the program allocates at least this many bytes between two collections (a
 *                       size of at least 64KiB)
 *   nursery_max=32MiB   the program allocates at most this many bytes between two collections; at
 *                       least nursery_min (a size of at least 64KiB)
 *   memory_limit=none   keep the RSS of the process below this; auto: below what its control group
 *                       may have. Near the limit the heap is collected more often, and before a
 *                       payload of 256 KiB or more that would not fit (none, auto or a size of at
 *                       least 16MiB)
 *   slice_us=0          a collection works for this many microseconds of CPU time, then the program
 *                       goes on; up to eight times as long where marking is late. 0: each
 *                       collection is done in one stop (0 or a whole number from 100 to 1000000)
 *   threads=1           threads that mark a large heap in a major or full collection that is done
 *                       in one stop (a whole number from 1 to 64)
 *   policy=first-fit    where payloads above 32 KiB are placed (first-fit, next-fit, best-fit or
 *                       segregated-fit)
 *   huge_pages=0        auto: move memory that is full into huge pages of Linux, for at most 1 % of
 *                       the CPU time; 1: ask for huge pages for all of the heap, for heaps of many
 *                       gigabytes (auto, 0 or 1)
 *   stress=none         switches for tests, with commas between them: collect-every:N,
 *                       slice-cells:N, verify, poison, no-minor, no-settling, look-ahead,
 *                       move-everything, parallel-cells:N, refuse:CALL (none or switches)
 *   generational=1      0: a major collection is made of each minor one (0 or 1)
 *   barriers=1          0: the program calls no write barrier. Every collection is then a full one,
 *                       in one stop (0 or 1)
 *   reserve=auto        address space, and so the most the heap can hold; auto: four times the
 *                       machine's memory, at least 64 GiB, or a quarter of what ulimit -v allows
 *                       (auto or a size of at least 16MiB)
 *
 * Several threads mark what has a layout, or what trace_anywhere traces. With a space_overhead that
 * is a number, collections depend on nothing but the program's bytes.
 *
 * NULL when an option, a layout or the callbacks are wrong, or the system refuses address space or
 * pages. Where malloc has no memory for a few kilobytes more, the process ends here. */
ashlar_heap *ashlar_heap_new(const ashlar_vm *vm, const char *options);

/* [lock] Changes options of a heap: any but barriers and reserve. False, and
 * nothing has changed, when one is wrong. */
bool ashlar_heap_set(ashlar_heap *heap, const char *options);

/* [lock] Changes the layout of a kind below vm.layout_count: for types that a program makes
 * while it runs, before there is a cell of the kind. False, and nothing has changed, when the
 * layout is wrong. */
bool ashlar_layout_set(ashlar_heap *heap, size_t kind, const ashlar_layout *layout);

/* [lock] Releases every cell (vm.release), and gives all memory back. Free the threads
 * first. Finalizers do not run. NULL is ignored. */
void ashlar_heap_free(ashlar_heap *heap);

/* [any] The calling thread's door to the heap. NULL when there is no memory. */
ashlar_thread *ashlar_thread_new(ashlar_heap *heap);

/* [lock] Ends a thread. Its payloads and cells stay. NULL is ignored. ([any] for a thread that
 * never allocated a cell.) */
void ashlar_thread_free(ashlar_thread *thread);

/* [any] The calling thread's latest error, in one line of at most 1023 bytes; "" when there was
 * none. The next error overwrites it. */
const char *ashlar_error(void);

/* ── Cells ───────────────────────────────────────────────────────────────────── */

/* [lock] A cell of at least `bytes`, and at least 32, which are zero; aligned to 8. Collects
 * first when that is due. NULL when `bytes` is above ASHLAR_CELL_MAX, or memory is out. */
static inline void *ashlar_new(ashlar_thread *thread, size_t bytes);

/* [lock] As ashlar_new, for a cell that the program will write to without a barrier. Every
 * collection looks at such a cell: for few cells, or short-lived ones. */
void *ashlar_new_without_barrier(ashlar_thread *thread, size_t bytes);

/* [lock] `cell` will be written to without a barrier from now on. */
void ashlar_unprotect(ashlar_thread *thread, void *cell);

/* [any] Bytes of a cell: what was asked for, rounded up to a width. */
size_t ashlar_cell_bytes(const ashlar_heap *heap, const void *cell);

/* [lock] Whether a cell that no collection has found dead begins at `address`, which may be any
 * address: for a program that has an address without keeping its cell. The cell may be another
 * one than before. */
bool ashlar_is_cell(const ashlar_heap *heap, const void *address);

/* [lock] The write barrier: `parent` now refers to `child`. To be called after every store of a
 * reference into a cell, or into a payload that a cell owns, before the next allocation. Not
 * needed for a cell that has been allocated since the last possible collection, nor for what
 * ashlar_mark_words leaves alone. `parent` is a cell. */
static inline void ashlar_barrier(ashlar_thread *thread, void *parent, void *child);

/* [lock] The write barrier for any number of stores into `parent`: a copied array, say. */
static inline void ashlar_barrier_all(ashlar_thread *thread, void *parent);

/* [lock] Stores `child` at the address `place`, and calls the barrier. */
static inline void ashlar_store(ashlar_thread *thread, void *parent, void *place, void *child);

/* [lock] Calls `visit` with every live cell, in the order of addresses. `visit` must not
 * allocate or collect. */
void ashlar_each_cell(ashlar_heap *heap, void (*visit)(void *cell, size_t bytes, void *argument), void *argument);

/* ── Payloads ────────────────────────────────────────────────────────────────── */

/* Memory that a cell owns: aligned to 16, of any size, not moved and not freed by the
 * collector, which counts it to decide when to collect. Any thread may resize and
 * free what another one has allocated. */

/* [lock] May collect, so that a program that allocates little but payloads is collected
 * in time. NULL when memory is out. */
void *ashlar_payload_new(ashlar_thread *thread, size_t bytes);
/* [lock] Changes the size, keeping the contents, in place where that is possible. NULL
 * when memory is out: the payload is then as it was. `payload` may be NULL. */
void *ashlar_payload_resize(ashlar_thread *thread, void *payload, size_t bytes);
/* [any] Payloads without collecting. */
void *ashlar_malloc(ashlar_thread *thread, size_t bytes);
void *ashlar_calloc(ashlar_thread *thread, size_t count, size_t bytes);
void *ashlar_realloc(ashlar_thread *thread, void *payload, size_t bytes);
/* [any] Changes the size where the payload is, or does nothing. Returns whether the payload has
 * room for `bytes` now. For an owner that has pointers into it: the other functions that resize
 * have moved a payload exactly when they return another address. */
bool ashlar_resize_in_place(ashlar_thread *thread, void *payload, size_t bytes);
/* [any] NULL is ignored. */
void ashlar_free(ashlar_thread *thread, void *payload);
/* [any] Bytes that the payload at `address`, which is its beginning, can hold; 0 when it is an
 * address outside the heap, or of a cell. */
size_t ashlar_payload_bytes(const ashlar_heap *heap, const void *address);
/* [any] Counts memory elsewhere that cells own: `bytes` more, or fewer when negative. */
void ashlar_note_elsewhere(ashlar_heap *heap, ptrdiff_t bytes);

/* ── Roots ───────────────────────────────────────────────────────────────────── */

/* [lock] `place` is the address of a variable: a cell in it is kept, and the variable is changed
 * when the cell moves, until ashlar_root_remove. Zeroes, words that are no multiple of 8 (as
 * tagged numbers are) and addresses outside the heap are left alone, here and in
 * ASHLAR_ROOTS. False when there is no memory. */
bool ashlar_root_add(ashlar_heap *heap, void *place);
void ashlar_root_remove(ashlar_heap *heap, void *place);

/* Local variables as roots, until the end of the block that declares them, which must come
 * before the thread's end:
 *
 *     struct pair *a = NULL, *b = NULL;
 *     ASHLAR_ROOTS(thread, &a, &b);
 *
 * (GNU C. Elsewhere, and where longjmp leaves blocks: ashlar_push and ashlar_pop.) */
typedef struct ashlar_frame {
    struct ashlar_frame *previous;
    size_t count;
    void *const *places; /* addresses of the variables */
} ashlar_frame;
static inline void ashlar_push(ashlar_thread *thread, ashlar_frame *frame);
static inline void ashlar_pop(ashlar_thread *thread, ashlar_frame *frame);

/* [lock] Keeps a cell, where it is, until ashlar_unpin has been called as often. What is no cell is
 * left alone, as in roots. False when there is no memory. */
bool ashlar_pin(ashlar_heap *heap, void *cell);
void ashlar_unpin(ashlar_heap *heap, void *cell);

/* Has the calling thread's stack scanned in every collection, up to `base`: any word in it
 * that is an address in a cell keeps the cell, where it is. Call this in main or in the
 * thread's first function with ASHLAR_HERE(), where the frame of the function that calls it
 * begins: its own variables are scanned, too. NULL ends the scanning. */
void ashlar_thread_scan_stack(ashlar_thread *thread, const void *base);
#if defined(__clang__) && defined(__aarch64__) /* where its __builtin_dwarf_cfa lies below variables */
#define ASHLAR_HERE() ((const void *)__builtin_sponentry())
#else
#define ASHLAR_HERE() ((const void *)__builtin_dwarf_cfa())
#endif

/* Runs `work`, during which the thread may give up the program's lock, wait, and take the lock
 * again. Collections of other threads scan the thread's stack, if it is scanned at all, as it is
 * at this call. */
void *ashlar_unlocked(ashlar_thread *thread, void *(*work)(void *argument), void *argument);

/* ── Marking, in callbacks ───────────────────────────────────────────────────── */

/* Marks a cell, and returns where it is now: the same address, unless vm.moves. NULL and words
 * that are no multiple of 8 are returned as they are, and so is the address of an object outside
 * the heap, such as one that a compiler laid out. What such an object refers to is not traced. */
void *ashlar_mark(ashlar_tracer *tracer, void *cell);

/* Marks what `count` words at `words` refer to, and changes those whose cell has moved.
 * Zeroes, words that are no multiple of 8 (as tagged numbers are) and addresses outside the
 * heap are left alone. */
void ashlar_mark_words(ashlar_tracer *tracer, void *words, size_t count);

/* Marks a cell that must not move in this collection: the reference cannot be changed. Leaves
 * alone what ashlar_mark_words does. */
void ashlar_mark_pinned(ashlar_tracer *tracer, void *cell);

/* In trace_roots: marks the cells that any words between two addresses point into. */
void ashlar_mark_ambiguous(ashlar_tracer *tracer, const void *from, const void *to);

/* In trace and trace_roots: a weak reference is at the address `place`: a cell, or what
 * ashlar_mark_words leaves alone. It does not keep the cell; when the cell dies, vm.clear_weak is
 * called, or NULL is written. The place must stay valid until the cell that has it is traced again
 * or dies. */
void ashlar_mark_weak(ashlar_tracer *tracer, void *place);

/* In vm.marked: whether a cell has died; false for what ashlar_mark_words leaves alone. Also true,
 * at first, for a cell that will be kept because a finalizer that is due refers to it: what the
 * finalizer may use is freed in vm.release, not here. */
bool ashlar_is_dead(ashlar_tracer *tracer, void *cell);

/* ── Finalizers ──────────────────────────────────────────────────────────────── */

/* [lock] Once nothing else keeps `cell`, `finalize` is called with it, once, by
 * ashlar_run_finalizers. Until then the cell and all that it refers to are kept; weak
 * references to the cell are cleared before. False when there is no memory. */
typedef void (*ashlar_finalize)(ashlar_thread *thread, void *cell, void *argument);
bool ashlar_finalizer_add(ashlar_heap *heap, void *cell, ashlar_finalize finalize, void *argument);
/* [lock] Removes the finalizers of the cell that are not due yet. Returns how many there were. */
size_t ashlar_finalizer_remove(ashlar_heap *heap, void *cell);
/* [lock] Runs the finalizers that are due. Returns how many there were. A finalizer may
 * allocate, collect and add finalizers, and must return. Until then its cell does not move. */
size_t ashlar_run_finalizers(ashlar_thread *thread);

/* ── Collecting ──────────────────────────────────────────────────────────────── */

typedef enum ashlar_what {
    ASHLAR_PACED,   /* young cells, or all of them when that is due */
    ASHLAR_MINOR,   /* young cells */
    ASHLAR_FULL,    /* all; what dead cells owned is freed before it returns */
    ASHLAR_COMPACT, /* the same, and sparse blocks are emptied; needs vm.moves */
} ashlar_what;

/* [lock] Collects at once. */
void ashlar_collect(ashlar_thread *thread, ashlar_what what);

typedef enum ashlar_progress {
    ASHLAR_SWEEPING, /* dead cells of the previous collection are being freed */
    ASHLAR_MARKING,  /* marking goes on */
    ASHLAR_MARKED,   /* everything live is marked */
} ashlar_progress;

/* [lock] Does part of a collection, for about `microseconds` (at least 100; longer where marking
 * is late), and begins a collection when none is going on: for a program that has time to spare,
 * as between two requests. */
ashlar_progress ashlar_step(ashlar_thread *thread, unsigned int microseconds);

/* [lock] Does a collection, or a slice of one, if that is due. */
void ashlar_poll(ashlar_thread *thread);

/* [lock] Between these two calls no collection begins by itself. Calls nest. */
void ashlar_disable(ashlar_heap *heap);
void ashlar_enable(ashlar_heap *heap);

/* [lock] Gives the pages of empty blocks back to the system now. */
void ashlar_trim(ashlar_heap *heap);

/* [lock] Around fork, in parent and child. Other threads may go on meanwhile, and wait where they
 * need the heap. In the child only the calling thread is left: free the other threads'
 * ashlar_thread there. */
void ashlar_before_fork(ashlar_heap *heap);
void ashlar_after_fork(ashlar_heap *heap);

/* ── Looking ─────────────────────────────────────────────────────────────────── */

typedef struct ashlar_statistics {
    uint64_t minor_collections;    /* minor collections */
    uint64_t major_collections;    /* major collections, which do not look at settled cells */
    uint64_t full_collections;     /* full collections, which look at settled cells, too */
    uint64_t compactions;          /* collections that compacted */
    uint64_t live_cells;           /* cells in use, and dead ones that are not freed yet */
    uint64_t cell_bytes;           /* live cells */
    uint64_t payload_bytes;        /* payloads in use, as their size classes round them */
    uint64_t block_bytes;          /* blocks in use, and empty ones that have memory */
    uint64_t marked_cells;         /* cells that the latest collection found live */
    uint64_t old_cells;            /* old cells, which minor collections do not free */
    uint64_t allocated_cells;      /* cells allocated so far */
    uint64_t freed_cells;          /* cells freed so far */
    uint64_t moved_cells;          /* cells that compactions moved */
    uint64_t fresh_bytes;          /* what was allocated since the latest collection */
    uint64_t due_bytes;            /* fresh bytes at which a collection, or a slice of one, is due */
    uint64_t pauses;               /* pauses of the program by the collector */
    uint64_t pause_ns;             /* the lengths of all pauses together */
    uint64_t pause_ns_max;         /* the length of the longest pause */
    uint64_t finalizers_due;       /* finalizers that are due */
    uint64_t payload_moves;        /* payloads that moved because their size was changed */
    uint64_t payload_copied_bytes; /* copied for payloads that moved */
} ashlar_statistics;

/* [lock] `bytes` is sizeof *statistics: a later version may have more. */
void ashlar_statistics_get(const ashlar_heap *heap, ashlar_statistics *statistics, size_t bytes);

/* [lock] Walks the heap and checks every invariant, finding reachable cells by a search of
 * its own: a missing barrier shows here. False when an invariant is broken; ashlar_error says
 * which and where. */
bool ashlar_verify(ashlar_thread *thread);

/* ── The inline part ─────────────────────────────────────────────────────────── */

/* What follows is done without a call because programs do it all the time. Its structures and
 * numbers are not for use; ASHLAR_INTERFACE covers them. */

struct ashlar_cursor {
    uintptr_t next, end, hidden[2];
};

struct ashlar_cells {
    uint8_t *states;
    struct ashlar_cursor cursors[24];
};

struct ashlar_thread {
    struct ashlar_cells *cells;
    const uint8_t *stage;
    uint8_t *states;
    ashlar_frame *frames;
    uint8_t new_state;
};

void *ashlar_new_slowly(ashlar_thread *thread, size_t bytes);
void ashlar_barrier_slowly(ashlar_thread *thread, void *parent, void *child);
void ashlar_barrier_all_slowly(ashlar_thread *thread, void *parent);

/* Widths by 8 bytes up to 96, by 16 up to 160, then four to a doubling. */
static inline unsigned int ashlar_width_index(size_t bytes)
{
    if (bytes <= 32) return 0;
    if (bytes <= 96) return (unsigned int)((bytes + 7) / 8 - 4);
    if (bytes <= 160) return (unsigned int)((bytes + 15) / 16 + 2);
    unsigned int doubling = 63 - (unsigned int)__builtin_clzll((unsigned long long)(bytes - 1));
    unsigned int step = (unsigned int)((bytes - 1) >> (doubling - 2)) & 3;
    return 12 + 4 * (doubling - 7) + step;
}

static inline size_t ashlar_width_bytes(unsigned int index)
{
    if (index <= 8) return 32 + 8 * (size_t)index;
    if (index <= 12) return 96 + 16 * (size_t)(index - 8);
    return (size_t)(5 + (index - 12) % 4) << (5 + (index - 12) / 4);
}

static inline void *ashlar_new(ashlar_thread *thread, size_t bytes)
{
    if (__builtin_expect(bytes <= ASHLAR_CELL_MAX, 1)) {
        unsigned int width = ashlar_width_index(bytes);
        struct ashlar_cursor *cursor = &thread->cells->cursors[width];
        uintptr_t cell = cursor->next;
        if (__builtin_expect(cell < cursor->end, 1)) {
            cursor->next = cell + ashlar_width_bytes(width);
            __atomic_store_n(&thread->states[cell >> 5], thread->new_state, __ATOMIC_RELAXED);
            /* The kind may lie beyond what is asked for. */
            return memset((void *)cell, 0, bytes < 32 ? 32 : bytes);
        }
    }
    return ashlar_new_slowly(thread, bytes);
}

/* Whether no collection is going on, and the parent is young or noted already: an old parent (4)
 * as remembered (32), a settled one (128) also as on the boundary (8). */
static inline bool ashlar_store_is_plain(ashlar_thread *thread, void *parent)
{
    unsigned int state = __atomic_load_n(&thread->states[(uintptr_t)parent >> 5], __ATOMIC_RELAXED);
    unsigned int stage = __atomic_load_n(thread->stage, __ATOMIC_RELAXED);
    if (__builtin_expect(stage != 0, 0)) return false;
    return __builtin_expect(!(state & 4), 1) || ((state & 32) && (state & (128 | 8)) != 128);
}

static inline void ashlar_barrier(ashlar_thread *thread, void *parent, void *child)
{
    if (!ashlar_store_is_plain(thread, parent) && child) ashlar_barrier_slowly(thread, parent, child);
}

static inline void ashlar_barrier_all(ashlar_thread *thread, void *parent)
{
    if (!ashlar_store_is_plain(thread, parent)) ashlar_barrier_all_slowly(thread, parent);
}

static inline void ashlar_store(ashlar_thread *thread, void *parent, void *place, void *child)
{
    memcpy(place, &child, sizeof child);
    ashlar_barrier(thread, parent, child);
}

static inline void ashlar_push(ashlar_thread *thread, ashlar_frame *frame)
{
    frame->previous = thread->frames;
    thread->frames = frame;
}

static inline void ashlar_pop(ashlar_thread *thread, ashlar_frame *frame)
{
    thread->frames = frame->previous;
}

#ifdef __GNUC__
struct ashlar_scope {
    ashlar_frame frame;
    ashlar_thread *thread;
};

static inline void ashlar_leave(struct ashlar_scope *scope)
{
    ashlar_pop(scope->thread, &scope->frame);
}

#define ASHLAR_JOINED_(a, b) a##b
#define ASHLAR_JOINED(a, b) ASHLAR_JOINED_(a, b)
#define ASHLAR_ROOTS(thread_, ...)                                                               \
    void *const ASHLAR_JOINED(ashlar_places_, __LINE__)[] = { __VA_ARGS__ };                     \
    struct ashlar_scope ASHLAR_JOINED(ashlar_scope_, __LINE__)                                   \
        __attribute__((cleanup(ashlar_leave))) = {                                               \
            { 0, sizeof ASHLAR_JOINED(ashlar_places_, __LINE__) / sizeof(void *),                \
              ASHLAR_JOINED(ashlar_places_, __LINE__) },                                         \
            (thread_)                                                                            \
        };                                                                                       \
    ashlar_push((thread_), &ASHLAR_JOINED(ashlar_scope_, __LINE__).frame)
#endif

#ifdef __cplusplus
}
#endif
#endif
