/* What ashlar.h promises, one claim in each test. Uses nothing but the header.
 *
 * Built by scripts/heap-capi/test.sh: plain, with the sanitizers, and under valgrind, where
 * SCANS is 0 because a scanned stack has words that nobody has written. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ashlar.h"

#ifndef SCANS
#define SCANS 1
#endif

static const char *running;

/* A claim and the function that checks it. Each puts itself on the list before `main` runs. */
static struct claim {
    const char *name;
    void (*check)(void);
    struct claim *next;
} *claims, **last_claim = &claims;

#define CLAIM(name)                                                                         \
    static void name(void);                                                                 \
    __attribute__((constructor)) static void list_##name(void)                              \
    {                                                                                       \
        static struct claim own = { #name, name, NULL };                                    \
        *last_claim = &own;                                                                 \
        last_claim = &own.next;                                                             \
    }                                                                                       \
    static void name(void)

#define CHECK(condition)                                                                    \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            fprintf(stderr, "%s, line %d: not true: %s (%s)\n", running, __LINE__,          \
                    #condition, ashlar_error());                                            \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

/* ── The program: nodes with two references, a weak one, a payload, and a number ─── */

struct node {
    struct node *left, *right, *weak;
    char *text;
    size_t number;
};

static size_t released, released_sum;

static void trace_node(void *cell, ashlar_tracer *tracer, void *data)
{
    (void)data;
    struct node *node = cell;
    node->left = ashlar_mark(tracer, node->left);
    node->right = ashlar_mark(tracer, node->right);
    ashlar_mark_weak(tracer, &node->weak);
}

static bool trace_node_anywhere(void *cell, ashlar_tracer *tracer, void *data)
{
    (void)data;
    struct node *node = cell;
    if (node->weak) return false;
    ashlar_mark(tracer, node->left);
    ashlar_mark(tracer, node->right);
    return true;
}

static void release_node(void *cell, ashlar_thread *thread, void *data)
{
    (void)data;
    struct node *node = cell;
    released++;
    released_sum += node->number;
    ashlar_free(thread, node->text);
}

static ashlar_vm nodes(void)
{
    ashlar_vm vm = ASHLAR_VM_INIT;
    vm.trace = trace_node;
    vm.release = release_node;
    vm.moves = true;
    return vm;
}

static ashlar_heap *heap;
static ashlar_thread *thread;

static void begin_with(const ashlar_vm *vm, const char *options)
{
    heap = ashlar_heap_new(vm, options);
    CHECK(heap);
    thread = ashlar_thread_new(heap);
    CHECK(thread);
    released = released_sum = 0;
}

static void begin(const char *options)
{
    ashlar_vm vm = nodes();
    begin_with(&vm, options);
}

/* Called after each test, when the test's variables are no roots any more. */
static void end(void)
{
    CHECK(ashlar_verify(thread));
    ashlar_thread_free(thread);
    ashlar_heap_free(heap);
    heap = NULL;
}

static struct node *new_node(size_t number)
{
    struct node *node = ashlar_new(thread, sizeof *node);
    CHECK(node && !node->left && !node->right && !node->weak && !node->text && !node->number);
    node->number = number;
    return node;
}

static ashlar_statistics statistics(void)
{
    ashlar_statistics now;
    ashlar_statistics_get(heap, &now, sizeof now);
    return now;
}

static uint64_t collections(void)
{
    ashlar_statistics now = statistics();
    return now.minor_collections + now.major_collections + now.full_collections;
}

/* A list of `count` nodes, the latest first. */
static void make_list(struct node **list, size_t count)
{
    for (size_t number = 0; number < count; number++) {
        struct node *node = new_node(number);
        ashlar_store(thread, node, &node->left, *list);
        *list = node;
    }
}

static size_t length(const struct node *list)
{
    size_t count = 0;
    for (; list; list = list->left) count++;
    return count;
}

/* ── Cells ───────────────────────────────────────────────────────────────────────── */

CLAIM(every_size_gets_a_zeroed_cell_of_its_width)
{
    begin(NULL);
    size_t previous = 0;
    for (size_t bytes = 0; bytes <= ASHLAR_CELL_MAX; bytes++) {
        for (int times = 0; times < 2; times++) {
            unsigned char *cell = ashlar_new(thread, bytes);
            CHECK(cell && (uintptr_t)cell % 8 == 0);
            size_t width = ashlar_cell_bytes(heap, cell);
            CHECK(width >= bytes && width >= previous);
            CHECK(width == ashlar_width_bytes(ashlar_width_index(bytes)));
            previous = width;
            for (size_t at = 0; at < bytes; at++) CHECK(cell[at] == 0);
            memset(cell, 0, width);
        }
    }
    CHECK(!ashlar_new(thread, ASHLAR_CELL_MAX + 1));
    CHECK(strstr(ashlar_error(), "1025 bytes do not fit into a cell"));
}

CLAIM(what_roots_reach_lives_and_the_rest_is_released_once)
{
    begin(NULL);
    struct node *list = NULL, *other = NULL;
    CHECK(ashlar_root_add(heap, &list) && ashlar_root_add(heap, &other));
    make_list(&list, 10000);
    make_list(&other, 10);
    for (size_t number = 1; number <= 5000; number++) new_node(number);
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(released == 5000 && released_sum == 5000 * 5001 / 2);
    CHECK(statistics().live_cells == 10010 && statistics().marked_cells == 10010);
    CHECK(length(list) == 10000 && length(other) == 10);
    ashlar_root_remove(heap, &list);
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(released == 15000 && length(other) == 10);
    end();
    CHECK(released == 15010);
}

static void list_in_each_frame(size_t depth)
{
    struct node *list = NULL, *none = NULL;
    ASHLAR_ROOTS(thread, &list, &none);
    make_list(&list, depth);
    if (depth > 1) list_in_each_frame(depth / 2);
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(length(list) == depth && list->number == depth - 1 && !none);
}

CLAIM(variables_are_roots_until_their_block_ends)
{
    begin("stress=move-everything,poison");
    list_in_each_frame(64);
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(statistics().live_cells == 0);
}

static void trace_extra_root(ashlar_tracer *tracer, void *data)
{
    struct node **root = data;
    *root = ashlar_mark(tracer, *root);
}

CLAIM(a_program_may_trace_roots_itself)
{
    static struct node *list;
    ashlar_vm vm = nodes();
    vm.trace_roots = trace_extra_root;
    vm.data = &list;
    begin_with(&vm, "stress=collect-every:50,verify,poison,move-everything");
    make_list(&list, 1000);
    CHECK(length(list) == 1000);
}

CLAIM(words_that_are_tagged_are_left_alone)
{
    begin(NULL);
    static void *number;
    number = (void *)(uintptr_t)0x12345;
    CHECK(ashlar_root_add(heap, &number));
    ashlar_collect(thread, ASHLAR_COMPACT);
    CHECK(number == (void *)(uintptr_t)0x12345);
}

/* Objects that no heap made, as a compiler lays them out. */
static struct node static_node = { .number = 77 };

CLAIM(what_lies_outside_the_heap_is_left_alone)
{
    begin("stress=verify");
    static struct node *fixed;
    fixed = &static_node;
    struct node *root = NULL, *lasting = NULL;
    ASHLAR_ROOTS(thread, &root, &lasting, &fixed);
    root = new_node(1);
    ashlar_store(thread, root, &root->left, &static_node);
    lasting = new_node(2);
    for (int times = 0; times < 4; times++) ashlar_collect(thread, ASHLAR_MINOR);
    ashlar_store(thread, lasting, &lasting->right, &static_node);
    ashlar_collect(thread, ASHLAR_MINOR);
    ashlar_collect(thread, ASHLAR_COMPACT);
    CHECK(ashlar_verify(thread));
    CHECK(released == 0 && fixed == &static_node);
    CHECK(root->left == &static_node && lasting->right == &static_node && static_node.number == 77);
}

/* A tagged number whose word lies between the addresses of the heap: in this cell, which is not
 * kept by that. */
static void *number_like(void *cell)
{
    return (char *)cell + 1;
}

CLAIM(tagged_words_that_look_like_addresses_in_the_heap_keep_nothing)
{
    begin(NULL);
    struct node *root = NULL;
    ASHLAR_ROOTS(thread, &root);
    root = new_node(1);
    struct node *dies = new_node(2);
    root->left = number_like(dies);
    root->weak = number_like(dies);
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(released == 1 && root->left == number_like(dies) && root->weak == number_like(dies));
}

static void trace_pinned_root(ashlar_tracer *tracer, void *data)
{
    ashlar_mark_pinned(tracer, *(void **)data);
}

CLAIM(what_is_no_cell_is_not_pinned_in_a_collection)
{
    static void *root;
    ashlar_vm vm = nodes();
    vm.trace_roots = trace_pinned_root;
    vm.data = &root;
    begin_with(&vm, NULL);
    root = number_like(new_node(1));
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(released == 1);
    root = &static_node;
    ashlar_collect(thread, ASHLAR_FULL);
    root = NULL;
    ashlar_collect(thread, ASHLAR_FULL);
}

CLAIM(what_is_no_cell_may_be_pinned_and_unpinned)
{
    begin(NULL);
    void *words[] = { NULL, &static_node, number_like(new_node(1)) };
    for (size_t index = 0; index < 3; index++) CHECK(ashlar_pin(heap, words[index]));
    ashlar_collect(thread, ASHLAR_COMPACT);
    CHECK(released == 1);
    for (size_t index = 0; index < 3; index++) ashlar_unpin(heap, words[index]);
}

CLAIM(a_tagged_word_that_is_stored_while_cells_are_marked_keeps_nothing)
{
    begin(NULL);
    struct node *list = NULL;
    ASHLAR_ROOTS(thread, &list);
    ashlar_disable(heap);
    struct node *dies = new_node(1);
    make_list(&list, 400000);
    ashlar_enable(heap);
    ashlar_progress progress = ASHLAR_SWEEPING;
    while (progress == ASHLAR_SWEEPING) progress = ashlar_step(thread, 1);
    CHECK(progress == ASHLAR_MARKING);
    ashlar_store(thread, list, &list->right, number_like(dies));
    while (progress == ASHLAR_MARKING) progress = ashlar_step(thread, 1);
    CHECK(progress == ASHLAR_MARKED && !ashlar_is_cell(heap, dies));
    CHECK(length(list) == 400000);
}

CLAIM(any_address_may_be_asked_whether_it_is_a_cell)
{
    begin(NULL);
    struct node *root = NULL;
    ASHLAR_ROOTS(thread, &root);
    root = new_node(1);
    struct node *dies = new_node(2);
    char *payload = ashlar_malloc(thread, 100);
    CHECK(ashlar_is_cell(heap, root) && ashlar_is_cell(heap, dies));
    CHECK(!ashlar_is_cell(heap, NULL) && !ashlar_is_cell(heap, &static_node) && !ashlar_is_cell(heap, &root));
    CHECK(!ashlar_is_cell(heap, &root->right) && !ashlar_is_cell(heap, payload));
    CHECK(!ashlar_is_cell(heap, (void *)UINTPTR_MAX));
    ashlar_collect(thread, ASHLAR_MINOR);
    CHECK(ashlar_is_cell(heap, root) && !ashlar_is_cell(heap, dies));
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(ashlar_is_cell(heap, root) && !ashlar_is_cell(heap, dies));
    ashlar_free(thread, payload);
}

/* ── Generations and barriers ────────────────────────────────────────────────────── */

static struct node *make_old(struct node **root)
{
    *root = new_node(1);
    for (int times = 0; times < 4; times++) ashlar_collect(thread, ASHLAR_MINOR);
    return *root;
}

CLAIM(a_barrier_keeps_what_an_old_cell_refers_to)
{
    begin(NULL);
    struct node *root = NULL;
    ASHLAR_ROOTS(thread, &root);
    struct node *old = make_old(&root);
    struct node *young = new_node(2);
    ashlar_store(thread, old, &old->left, young);
    ashlar_collect(thread, ASHLAR_MINOR);
    CHECK(released == 0 && root->left->number == 2);
    young = new_node(3);
    old->right = young;
    ashlar_barrier_all(thread, old);
    ashlar_collect(thread, ASHLAR_MINOR);
    CHECK(released == 0 && root->right->number == 3);
}

CLAIM(a_missing_barrier_is_found_by_verify)
{
    begin(NULL);
    struct node *root = NULL;
    ASHLAR_ROOTS(thread, &root);
    struct node *old = make_old(&root);
    old->left = new_node(2);
    CHECK(!ashlar_verify(thread));
    CHECK(strstr(ashlar_error(), "invariant 5"));
    ashlar_barrier(thread, old, old->left);
}

CLAIM(cells_without_barrier_need_none)
{
    begin("stress=verify");
    struct node *root = ashlar_new_without_barrier(thread, sizeof *root);
    ASHLAR_ROOTS(thread, &root);
    for (size_t number = 0; number < 10; number++) {
        root->left = new_node(number);
        ashlar_collect(thread, ASHLAR_MINOR);
        CHECK(root->left->number == number);
    }
    struct node *late = make_old(&root->right);
    ashlar_unprotect(thread, late);
    late->left = new_node(77);
    ashlar_collect(thread, ASHLAR_MINOR);
    CHECK(root->right->left->number == 77);
}

CLAIM(without_barriers_every_collection_is_a_full_one)
{
    begin("barriers=0 nursery_min=64K nursery_max=64K stress=verify");
    struct node *list = NULL, *lasting = new_node(1);
    ASHLAR_ROOTS(thread, &list, &lasting);
    for (size_t number = 0; number < 20000; number++) {
        struct node *node = new_node(number);
        node->left = number % 100 ? list : NULL;
        list = node;
        if (list->left) list->left->right = node;
        lasting->left = node;
    }
    CHECK(length(list) == 100 && lasting->left == list);
    CHECK(statistics().full_collections > 3 && collections() == statistics().full_collections);
}

CLAIM(stores_between_slices_lose_nothing)
{
    begin("stress=slice-cells:20,verify,poison");
    struct node *list = NULL, *kept = NULL;
    ASHLAR_ROOTS(thread, &list, &kept);
    for (size_t number = 0; number < 600; number++) {
        struct node *node = new_node(number);
        ashlar_store(thread, node, &node->left, list);
        list = node;
        if (number % 3 == 0) { /* moves the tail to where marking has been already */
            kept = list->left;
            ashlar_store(thread, list, &list->left, NULL);
            ashlar_store(thread, list, &list->right, kept);
            struct node *swap = list->right;
            ashlar_store(thread, list, &list->right, NULL);
            ashlar_store(thread, list, &list->left, swap);
        }
    }
    CHECK(length(list) == 600);
}

CLAIM(a_step_does_part_of_a_collection)
{
    /* A step looks at the clock after CELLS_OF_A_STEP_MIN cells at the earliest. */
    enum { CELLS = 400000, CELLS_OF_A_STEP_MIN = 64 };
    begin(NULL);
    struct node *list = NULL;
    ASHLAR_ROOTS(thread, &list);
    ashlar_disable(heap);
    make_list(&list, CELLS);
    ashlar_enable(heap);
    size_t before = collections();
    size_t steps = 1;
    while (ashlar_step(thread, 1) != ASHLAR_MARKED) steps++;
    CHECK(steps > 1 && steps < CELLS / CELLS_OF_A_STEP_MIN);
    CHECK(collections() == before + 1);
    CHECK(length(list) == CELLS);
    CHECK(statistics().pauses >= steps && statistics().pause_ns >= statistics().pause_ns_max);
}

CLAIM(nothing_is_collected_while_that_is_disabled)
{
    begin("nursery_min=64K nursery_max=64K");
    ashlar_disable(heap);
    for (size_t number = 0; number < 20000; number++) new_node(number);
    CHECK(released == 0 && statistics().minor_collections == 0);
    CHECK(statistics().fresh_bytes > 64 << 10);
    ashlar_enable(heap);
    ashlar_poll(thread);
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(released == 20000);
}

CLAIM(several_threads_mark_what_one_would)
{
    ashlar_vm vm = nodes();
    vm.trace_anywhere = trace_node_anywhere;
    vm.moves = false;
    begin_with(&vm, "threads=4");
    static struct node *trees[64];
    for (size_t tree = 0; tree < 64; tree++) {
        CHECK(ashlar_root_add(heap, &trees[tree]));
        make_list(&trees[tree], 4000);
        struct node *weak = new_node(1);
        ashlar_store(thread, trees[tree], &trees[tree]->weak, weak);
    }
    /* The first full collection says how many cells there are. */
    for (int times = 0; times < 3; times++) ashlar_collect(thread, ASHLAR_FULL);
    CHECK(statistics().marked_cells == 64 * 4000 && released == 64);
    for (size_t tree = 0; tree < 64; tree++) CHECK(length(trees[tree]) == 4000 && !trees[tree]->weak);
}

/* ── Wide tables ─────────────────────────────────────────────────────────────────── */

struct table {
    struct node **slots;
    size_t count;
};

static void trace_table(void *cell, ashlar_tracer *tracer, void *data)
{
    if (ashlar_cell_bytes(*(ashlar_heap **)data, cell) == 32) {
        struct table *table = cell;
        ashlar_mark_words(tracer, table->slots, table->count);
    } else {
        trace_node(cell, tracer, NULL);
    }
}

static bool trace_table_anywhere(void *cell, ashlar_tracer *tracer, void *data)
{
    trace_table(cell, tracer, data);
    return true;
}

static void release_table(void *cell, ashlar_thread *of, void *data)
{
    if (ashlar_cell_bytes(*(ashlar_heap **)data, cell) == 32)
        ashlar_free(of, ((struct table *)cell)->slots);
    else
        release_node(cell, of, NULL);
}

CLAIM(a_large_table_is_marked_in_parts)
{
    ashlar_vm vm = ASHLAR_VM_INIT;
    vm.trace = trace_table;
    vm.trace_anywhere = trace_table_anywhere;
    vm.release = release_table;
    vm.data = &heap;
    begin_with(&vm, "stress=slice-cells:200");
    struct table *table = ashlar_new(thread, sizeof *table);
    ASHLAR_ROOTS(thread, &table);
    enum { COUNT = 3000 };
    struct node **slots = ashlar_calloc(thread, COUNT, sizeof *slots);
    table->slots = slots;
    table->count = COUNT;
    for (size_t index = 0; index < COUNT; index++) {
        struct node *node = ashlar_new(thread, 48); /* not of the table's width */
        node->number = index;
        ashlar_store(thread, table, &slots[index], node);
        if (index % 2) /* what marking has passed, or has not */
            ashlar_store(thread, table, &slots[index / 2], slots[index]);
    }
    ashlar_heap_set(heap, "stress=none");
    ashlar_collect(thread, ASHLAR_FULL);
    for (size_t index = COUNT / 2; index < COUNT; index++) CHECK(slots[index]->number == index);
}

/* ── Layouts ─────────────────────────────────────────────────────────────────────── */

/* Things: their kind is four bits of a number, and their references are declared in every way
 * that a layout has. A word is the address of a thing, or no multiple of 8. */
struct thing {
    uint32_t number;
    uint16_t kind : 4, has_text : 1, : 11;
    uint16_t count;
    uintptr_t words[];
};

enum { THING_NEW, PAIR, ROW, TABLE, WIDE, LEAF, WEAK, THING_KINDS };
enum { WIDE_WORDS = 120, ROW_WORDS = 5, TABLE_WORDS = 40, TAGGED = 12, OWN_NOTHING = 1 << PAIR | 1 << ROW | 1 << WIDE };

#define OF_KIND(thing) ((thing)->kind)
static const ashlar_number thing_kind = { 4, 2, 0, 4 };

static const ashlar_layout thing_layouts[THING_KINDS] = {
    [PAIR] = { .refers = ASHLAR_WORDS, .owns = ASHLAR_OWNS_NOTHING, .words = { 1 << 1 | 1 << 2 } },
    [ROW] = { .refers = ASHLAR_ROW, .owns = ASHLAR_OWNS_NOTHING,
              .row_at = offsetof(struct thing, words), .row_count = ASHLAR_NUMBER(struct thing, count) },
    [TABLE] = { .refers = ASHLAR_PAYLOAD_ROW, .words = { 1 << 2 },
                .row_at = offsetof(struct thing, words), .row_count = ASHLAR_NUMBER(struct thing, count) },
    [WIDE] = { .refers = ASHLAR_WORDS, .owns = ASHLAR_OWNS_NOTHING,
               .words = { 1u << 31 | (uint64_t)1 << 63, 1 | (uint64_t)1 << (WIDE_WORDS - 64) } },
    [LEAF] = { .refers = ASHLAR_WORDS },
};

static size_t things_asked;
static unsigned released_kinds;

static void trace_thing(void *cell, ashlar_tracer *tracer, void *data)
{
    (void)data;
    struct thing *thing = cell;
    CHECK(thing->kind == THING_NEW || thing->kind >= WEAK);
    things_asked++;
    if (thing->kind == WEAK) ashlar_mark_weak(tracer, &thing->words[0]);
}

static void release_thing(void *cell, ashlar_thread *of, void *data)
{
    (void)data;
    struct thing *thing = cell;
    released++;
    released_kinds |= 1u << thing->kind;
    if (thing->kind == TABLE || thing->has_text) ashlar_free(of, (void *)thing->words[0]);
}

static ashlar_vm things(void)
{
    ashlar_vm vm = ASHLAR_VM_INIT;
    vm.trace = trace_thing;
    vm.release = release_thing;
    vm.moves = true;
    vm.kind = thing_kind;
    vm.layouts = thing_layouts;
    vm.layout_count = THING_KINDS;
    return vm;
}

/* The place of the word that may be a reference and has this index in the model of a thing. */
static uintptr_t *word_of(struct thing *thing, size_t index)
{
    static const size_t wide[] = { 30, 62, 63, WIDE_WORDS - 1 };
    switch (thing->kind) {
    case TABLE: return index == 0 ? &thing->words[1] : (uintptr_t *)thing->words[0] + index - 1;
    case WIDE: return &thing->words[wide[index]];
    default: return &thing->words[index];
    }
}

/* What each thing has to be, by its number: the number of the thing that each word refers to, 0
 * for a tagged word; and whether the thing has been looked at. */
enum { MODELS = 20001, WORDS_MAX = 1 + TABLE_WORDS };
static struct model {
    uint8_t kind, count, is_seen;
    uint16_t words[WORDS_MAX];
} models[MODELS];
static const size_t words_of_kind[THING_KINDS] = { [PAIR] = 2, [ROW] = ROW_WORDS, [TABLE] = WORDS_MAX, [WIDE] = 4 };
static struct thing *thing_roots[8];
static uint64_t random_state;

static size_t any_below(size_t limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(random_state >> 33) % limit;
}

static void begin_things_with(const ashlar_vm *vm, const char *options)
{
    begin_with(vm, options);
    memset(thing_roots, 0, sizeof thing_roots);
    things_asked = released_kinds = 0;
}

static void begin_things(const char *options)
{
    ashlar_vm vm = things();
    begin_things_with(&vm, options);
}

static void set_word(struct thing *thing, size_t index, struct thing *child)
{
    models[thing->number].words[index] = child ? (uint16_t)child->number : 0;
    if (child) {
        ashlar_store(thread, thing, word_of(thing, index), child);
    } else {
        *word_of(thing, index) = TAGGED;
    }
}

static struct thing *new_thing(size_t number, unsigned kind)
{
    struct thing *thing = NULL;
    ASHLAR_ROOTS(thread, &thing);
    size_t words = kind == WIDE ? WIDE_WORDS : kind == ROW ? ROW_WORDS : 2;
    thing = ashlar_new(thread, sizeof *thing + words * sizeof *thing->words);
    CHECK(thing);
    thing->number = (uint32_t)number;
    thing->kind = kind & 15;
    models[number] = (struct model){ .kind = (uint8_t)kind, .count = (uint8_t)words_of_kind[kind] };
    if (kind == TABLE) { /* empty until it has its payload */
        uintptr_t *slots = ashlar_payload_new(thread, TABLE_WORDS * sizeof *slots);
        CHECK(slots);
        for (size_t index = 0; index < TABLE_WORDS; index++) slots[index] = TAGGED;
        thing->words[0] = (uintptr_t)slots;
        thing->count = TABLE_WORDS;
    }
    if (kind == ROW) thing->count = ROW_WORDS;
    if (kind == LEAF && number % 2) {
        char *text = ashlar_payload_new(thread, 100);
        memset(text, (int)number, 100);
        thing->words[0] = (uintptr_t)text;
        thing->has_text = 1;
    }
    for (size_t index = 0; index < words_of_kind[kind]; index++)
        set_word(thing, index, thing_roots[any_below(8)]);
    return thing;
}

static void compare_with_model(struct thing *thing)
{
    struct model *model = &models[thing->number];
    CHECK(thing->number > 0 && thing->kind == model->kind);
    if (model->is_seen) return;
    model->is_seen = 1;
    if (thing->has_text) CHECK(*(char *)thing->words[0] == (char)thing->number);
    for (size_t index = 0; index < model->count; index++) {
        uintptr_t word = *word_of(thing, index);
        if (!model->words[index]) {
            CHECK(word == TAGGED);
            continue;
        }
        CHECK(((struct thing *)word)->number == model->words[index]);
        compare_with_model((struct thing *)word);
    }
}

static void change_things_at_random(size_t steps)
{
    for (size_t number = 1; number <= steps; number++) {
        struct thing *fresh = new_thing(number, PAIR + (unsigned)any_below(WEAK - PAIR));
        struct thing **root = &thing_roots[any_below(8)];
        *root = fresh;
        root = &thing_roots[any_below(8)];
        if (*root && models[(*root)->number].count) {
            size_t index = any_below(models[(*root)->number].count);
            set_word(*root, index, thing_roots[any_below(16) % 9 % 8]);
            uintptr_t word = *word_of(*root, any_below(models[(*root)->number].count));
            if (word % 8 == 0 && number % 3 == 0) *root = (struct thing *)word;
        }
        if (number % 7 == 0) thing_roots[any_below(8)] = NULL;
        if (number % 100) continue;
        for (size_t index = 1; index <= number; index++) models[index].is_seen = 0;
        for (size_t index = 0; index < 8; index++)
            if (thing_roots[index]) compare_with_model(thing_roots[index]);
    }
}

CLAIM(cells_with_a_layout_are_traced_in_every_way_without_a_call)
{
    static const char *const options[] = {
        "stress=collect-every:20,verify,poison",
        "stress=collect-every:20,verify,poison,move-everything",
        "stress=slice-cells:30,verify,poison",
        "stress=slice-cells:30,look-ahead,poison",
        "stress=collect-every:20,look-ahead,no-minor,verify,poison",
        "threads=3 stress=collect-every:100,no-minor,poison",
    };
    for (size_t index = 0; index < sizeof options / sizeof *options; index++) {
        begin_things(options[index]);
        random_state = 7 + index;
        for (size_t root = 0; root < 8; root++) CHECK(ashlar_root_add(heap, &thing_roots[root]));
        change_things_at_random(2000);
        CHECK(things_asked == 0 && released > 0 && !(released_kinds & OWN_NOTHING));
        CHECK((statistics().moved_cells > 100) == (index == 1));
        end();
        CHECK(released_kinds == (1u << TABLE | 1u << LEAF));
    }
}

CLAIM(several_threads_mark_what_layouts_say)
{
    begin_things("threads=2");
    static struct thing *table;
    CHECK(ashlar_root_add(heap, &table));
    enum { LISTS = TABLE_WORDS, LENGTH = 5000 };
    table = new_thing(1, TABLE);
    for (size_t list = 0; list < LISTS; list++) {
        for (size_t length = 0; length < LENGTH; length++) {
            struct thing *pair = new_thing(2, PAIR);
            uintptr_t before = ((uintptr_t *)table->words[0])[list];
            pair->words[0] = before == TAGGED ? 0 : before;
            ashlar_store(thread, table, &((uintptr_t *)table->words[0])[list], pair);
        }
    }
    /* The first full collection says how many cells there are. */
    for (int times = 0; times < 3; times++) ashlar_collect(thread, ASHLAR_FULL);
    CHECK(statistics().marked_cells == 1 + LISTS * LENGTH && things_asked == 0);
}

CLAIM(a_cell_without_a_layout_is_asked_for)
{
    begin_things(NULL);
    struct thing *weak = NULL, *kept = NULL;
    ASHLAR_ROOTS(thread, &weak, &kept);
    weak = new_thing(1, WEAK);
    kept = new_thing(2, LEAF);
    ashlar_store(thread, weak, &weak->words[0], kept);
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(things_asked > 0 && weak->words[0] == (uintptr_t)kept && kept->number == 2);
    kept = NULL;
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(weak->words[0] == 0);
    /* The callbacks trace cells of kinds beyond the layouts, too. */
    weak->kind = 15;
    weak->words[0] = 0;
    things_asked = 0;
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(things_asked > 0);
}

CLAIM(layouts_of_other_kinds_change_nothing)
{
    ashlar_vm vm = things();
    vm.trace = trace_node;
    vm.layout_count = 1;
    begin_with(&vm, NULL);
    struct node *list = NULL;
    ASHLAR_ROOTS(thread, &list);
    make_list(&list, 100);
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(length(list) == 100);
}

CLAIM(verify_finds_a_missing_barrier_in_a_cell_with_a_layout)
{
    begin_things(NULL);
    struct thing *old = NULL;
    ASHLAR_ROOTS(thread, &old);
    old = new_thing(1, TABLE);
    for (int times = 0; times < 4; times++) ashlar_collect(thread, ASHLAR_MINOR);
    struct thing *young = new_thing(2, LEAF);
    ((uintptr_t *)old->words[0])[7] = (uintptr_t)young;
    CHECK(!ashlar_verify(thread) && strstr(ashlar_error(), "invariant 5"));
    ashlar_barrier(thread, old, young);
    CHECK(ashlar_verify(thread));
}

CLAIM(verify_finds_a_layout_that_does_not_fit_its_cell)
{
    begin_things(NULL);
    struct thing *thing = NULL;
    ASHLAR_ROOTS(thread, &thing);
    thing = new_thing(1, TABLE);
    thing->count = 1000;
    CHECK(!ashlar_verify(thread) && strstr(ashlar_error(), "its row of 1000 words does not fit into"));
    thing->count = TABLE_WORDS;
    thing->words[0] += 4;
    CHECK(!ashlar_verify(thread) && strstr(ashlar_error(), "is not aligned to 8"));
    thing->words[0] -= 4;
    CHECK(ashlar_verify(thread));
    thing = new_thing(2, ROW);
    thing->count = 6;
    CHECK(!ashlar_verify(thread) && strstr(ashlar_error(), "its row of 6 words does not fit into 40 bytes"));
    thing->count = ROW_WORDS;
    thing->kind = WIDE;
    CHECK(!ashlar_verify(thread) && strstr(ashlar_error(), "of kind 4 and 48 bytes: its layout needs 968 bytes"));
    thing->kind = ROW;
}

CLAIM(a_large_payload_row_is_marked_in_parts)
{
    ashlar_vm vm = things();
    vm.moves = false;
    begin_things_with(&vm, "stress=slice-cells:200,poison");
    enum { COUNT = 3000 };
    struct thing *table = NULL;
    ASHLAR_ROOTS(thread, &table);
    table = new_thing(1, TABLE);
    table->count = 0;
    uintptr_t *slots = ashlar_realloc(thread, (void *)table->words[0], COUNT * sizeof *slots);
    memset(slots, 0, COUNT * sizeof *slots);
    table->words[0] = (uintptr_t)slots;
    table->count = COUNT;
    for (size_t index = 0; index < COUNT; index++) {
        struct thing *leaf = new_thing(2 + index, LEAF);
        ashlar_store(thread, table, &slots[index], leaf);
        if (index % 2) /* what marking has passed, or has not */
            ashlar_store(thread, table, &slots[index / 2], leaf);
    }
    ashlar_heap_set(heap, "stress=poison");
    ashlar_collect(thread, ASHLAR_FULL);
    for (size_t index = COUNT / 2; index < COUNT; index++)
        CHECK(((struct thing *)slots[index])->number == 2 + index);
    CHECK(things_asked == 0);
}

CLAIM(a_kind_may_be_declared_later)
{
    ashlar_layout none[THING_KINDS] = { { 0 } };
    ashlar_vm vm = things();
    vm.layouts = none;
    begin_things_with(&vm, "stress=collect-every:10,poison,verify");
    for (size_t kind = PAIR; kind < WEAK; kind++) CHECK(ashlar_layout_set(heap, kind, &thing_layouts[kind]));
    struct thing *list = NULL;
    ASHLAR_ROOTS(thread, &list);
    for (size_t number = 1; number <= 1000; number++) {
        struct thing *pair = new_thing(number, PAIR);
        ashlar_store(thread, pair, &pair->words[0], list);
        list = pair;
    }
    CHECK(things_asked == 0);
    size_t count = 0;
    for (struct thing *pair = list; pair; pair = (struct thing *)pair->words[0]) CHECK(pair->number == 1000 - count++);
    CHECK(count == 1000);
    CHECK(!ashlar_layout_set(heap, THING_KINDS, &thing_layouts[PAIR]) && strstr(ashlar_error(), "layout_count was 7"));
    CHECK(!ashlar_layout_set(heap, ROW, NULL) && strstr(ashlar_error(), "not NULL"));
    ashlar_layout wrong = thing_layouts[ROW];
    wrong.row_at = 9;
    CHECK(!ashlar_layout_set(heap, ROW, &wrong) && strstr(ashlar_error(), "kind 2: row_at=9"));
}

CLAIM(no_callback_is_needed_where_all_kinds_have_layouts)
{
    static const ashlar_layout pairs = { .refers = ASHLAR_WORDS, .owns = ASHLAR_OWNS_NOTHING, .words = { 1 << 1 | 1 << 2 } };
    ashlar_vm vm = ASHLAR_VM_INIT;
    vm.kind = thing_kind;
    vm.layouts = &pairs;
    vm.layout_count = 1;
    vm.moves = true;
    begin_with(&vm, "stress=collect-every:10,poison,verify,move-everything");
    struct thing *list = NULL;
    ASHLAR_ROOTS(thread, &list);
    for (size_t number = 0; number < 500; number++) {
        struct thing *pair = ashlar_new(thread, sizeof *pair + 2 * sizeof *pair->words);
        pair->number = (uint32_t)number;
        pair->words[0] = (uintptr_t)list;
        list = pair;
    }
    for (size_t number = 500; number--; list = (struct thing *)list->words[0]) CHECK(list->number == number);
}

CLAIM(wrong_declarations_get_a_line)
{
    static const struct {
        ashlar_number kind;
        ashlar_layout layout;
        const char *part;
    } wrong[] = {
        { { 0, 3, 0, 0 }, { 0 }, "ashlar_vm.kind: bytes=3: must be 1, 2, 4 or 8" },
        { { 2, 4, 0, 0 }, { 0 }, "ashlar_vm.kind: at=2: must be a multiple of bytes=4" },
        { { 32, 1, 0, 0 }, { 0 }, "at=32: must be a multiple of bytes=1 within the first 32 bytes" },
        { { 0, 1, 4, 5 }, { 0 }, "shift=4 bits=5: must be bits of the 8" },
        { { 0, 1, 8, 0 }, { 0 }, "shift=8 bits=0: must be bits of the 8" },
        { { 0, 1, 200, 200 }, { 0 }, "shift=200 bits=200: must be bits of the 8" },
        { { 0, 0, 0, 0 }, { 0 }, "ashlar_vm.kind: bytes=0" },
        { { 0, 1, 0, 0 }, { .refers = 9 }, "ashlar_vm.layouts[1]: refers=9: must be" },
        { { 0, 1, 0, 0 }, { .owns = 2 }, "ashlar_vm.layouts[1]: owns=2: must be" },
        { { 0, 1, 0, 0 }, { .words = { 2 } }, "layouts[1]: words are declared" },
        { { 0, 1, 0, 0 }, { .refers = ASHLAR_WORDS, .row_at = 8 }, "layouts[1]: a row is declared" },
        { { 0, 1, 0, 0 }, { .refers = ASHLAR_ROW, .row_at = 8 }, "layouts[1]: row_count: bytes=0" },
        { { 0, 1, 0, 0 }, { .refers = ASHLAR_ROW, .row_at = 12, .row_count = { 4, 4, 0, 0 } }, "row_at=12: must be a multiple of 8" },
        { { 0, 1, 0, 0 }, { .refers = ASHLAR_PAYLOAD_ROW, .row_at = 1024, .row_count = { 4, 4, 0, 0 } }, "row_at=1024" },
        { { 0, 1, 0, 0 }, { .refers = ASHLAR_ROW, .row_at = 8, .row_count = { 1024, 4, 0, 0 } }, "row_count: at=1024" },
    };
    for (size_t index = 0; index < sizeof wrong / sizeof *wrong; index++) {
        ashlar_layout two[2] = { { 0 }, wrong[index].layout };
        ashlar_vm vm = nodes();
        vm.kind = wrong[index].kind;
        vm.layouts = two;
        vm.layout_count = 2;
        CHECK(!ashlar_heap_new(&vm, NULL));
        CHECK(strstr(ashlar_error(), wrong[index].part) && !strchr(ashlar_error(), '\n'));
    }
    ashlar_vm vm = things();
    vm.layout_count = 0;
    CHECK(!ashlar_heap_new(&vm, NULL) && strstr(ashlar_error(), "ashlar_vm.layouts: is set, and layout_count is 0"));
    vm = things();
    vm.layouts = NULL;
    CHECK(!ashlar_heap_new(&vm, NULL) && strstr(ashlar_error(), "ashlar_vm.layouts: is NULL, and layout_count is 7"));
    vm = things();
    vm.layout_count = 65537;
    CHECK(!ashlar_heap_new(&vm, NULL) && strstr(ashlar_error(), "layout_count=65537: must be at most 65536"));
    vm = things();
    vm.trace = NULL;
    CHECK(!ashlar_heap_new(&vm, NULL) && strstr(ashlar_error(), "trace must not be NULL, unless"));
}

/* ── Payloads ────────────────────────────────────────────────────────────────────── */

CLAIM(payloads_keep_their_contents_and_are_freed_with_their_cells)
{
    begin("nursery_min=64K");
    struct node *list = NULL;
    ASHLAR_ROOTS(thread, &list);
    size_t before = statistics().payload_bytes;
    for (size_t number = 0; number < 3000; number++) {
        if (number % 10 == 0) list = NULL;
        struct node *node = new_node(number);
        ashlar_store(thread, node, &node->left, list);
        list = node;
        size_t bytes = 1 + number * 37 % 90000;
        char *text = ashlar_payload_new(thread, bytes);
        CHECK(text && (uintptr_t)text % 16 == 0 && ashlar_payload_bytes(heap, text) >= bytes);
        memset(text, (int)number, bytes);
        list->text = text;
        text = ashlar_payload_resize(thread, list->text, bytes * 2);
        CHECK(text && ashlar_payload_bytes(heap, text) >= bytes * 2);
        list->text = text;
        CHECK(text[0] == (char)number && text[bytes - 1] == (char)number);
    }
    CHECK(collections() > 5);
    CHECK(statistics().payload_bytes < 100 << 20);
    char local;
    CHECK(ashlar_payload_bytes(heap, &local) == 0 && ashlar_payload_bytes(heap, list) == 0);
    list = NULL;
    ashlar_collect(thread, ASHLAR_FULL);
    /* A thread keeps some pieces of each class for itself. */
    CHECK(statistics().payload_bytes <= before + (1 << 20));
    char *zeroed = ashlar_calloc(thread, 1000, 7);
    for (size_t at = 0; at < 7000; at++) CHECK(zeroed[at] == 0);
    zeroed = ashlar_realloc(thread, zeroed, 10);
    ashlar_free(thread, zeroed);
    ashlar_free(thread, NULL);
    CHECK(!ashlar_calloc(thread, (size_t)1 << 40, (size_t)1 << 40));
}

CLAIM(payloads_grow_and_shrink_where_they_are)
{
    enum { BLOCK = 64 << 10 };
    begin(NULL);
    char *text = ashlar_malloc(thread, 3 * BLOCK);
    memset(text, 7, 3 * BLOCK);
    uint64_t moves = statistics().payload_moves;
    CHECK(ashlar_resize_in_place(thread, text, 40 * BLOCK));
    CHECK(ashlar_payload_bytes(heap, text) == 40 * BLOCK);
    CHECK(ashlar_realloc(thread, text, 2 * BLOCK) == text);
    CHECK(ashlar_payload_bytes(heap, text) == 2 * BLOCK && text[2 * BLOCK - 1] == 7);
    char *behind = ashlar_malloc(thread, BLOCK);
    CHECK(behind == text + 2 * BLOCK); /* what was given back */
    CHECK(!ashlar_resize_in_place(thread, text, 3 * BLOCK));
    CHECK(ashlar_payload_bytes(heap, text) == 2 * BLOCK && statistics().payload_moves == moves);
    char *moved = ashlar_realloc(thread, text, 3 * BLOCK);
    CHECK(moved != text && moved[0] == 7 && statistics().payload_moves == moves + 1);
    CHECK(statistics().payload_copied_bytes == 2 * BLOCK);
    char *piece = ashlar_malloc(thread, 100);
    CHECK(ashlar_resize_in_place(thread, piece, ashlar_payload_bytes(heap, piece)));
    CHECK(!ashlar_resize_in_place(thread, piece, ashlar_payload_bytes(heap, piece) + 1));
    CHECK(!ashlar_resize_in_place(thread, NULL, 1));
    ashlar_free(thread, moved);
    ashlar_free(thread, behind);
    ashlar_free(thread, piece);
}

CLAIM(memory_elsewhere_counts)
{
    begin(NULL);
    size_t due = statistics().due_bytes;
    ashlar_note_elsewhere(heap, (ptrdiff_t)due);
    new_node(1);
    ashlar_poll(thread);
    CHECK(collections() == 1);
    ashlar_note_elsewhere(heap, -(ptrdiff_t)due);
}

CLAIM(a_full_heap_says_so_and_goes_on)
{
    begin("reserve=16M");
    struct node *list = NULL;
    ASHLAR_ROOTS(thread, &list);
    size_t count = 0;
    for (;; count++) {
        struct node *node = ashlar_new(thread, 1000);
        if (!node) break;
        ashlar_store(thread, node, &node->left, list);
        list = node;
    }
    CHECK(count > 10000 && strstr(ashlar_error(), "memory is out"));
    CHECK(length(list) == count && released == 0);
    CHECK(!ashlar_payload_new(thread, 8 << 20) && strstr(ashlar_error(), "memory is out"));
    char *kept = ashlar_malloc(thread, 16);
    if (kept) kept[0] = 7;
    list = NULL;
    kept = ashlar_payload_resize(thread, kept, 8 << 20);
    CHECK(kept && released == count);
    ashlar_free(thread, kept);
    CHECK(ashlar_payload_new(thread, 8 << 20));
}

static size_t resident_bytes(void)
{
    size_t all, resident;
    FILE *statm = fopen("/proc/self/statm", "r");
    CHECK(statm && fscanf(statm, "%zu %zu", &all, &resident) == 2);
    fclose(statm);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

CLAIM(a_large_payload_makes_room_below_the_memory_limit)
{
    enum { BYTES = 8 << 20 };
    char options[100];
    size_t limit = resident_bytes() + 8 * BYTES;
    /* With a nursery of this size no collection is due otherwise. */
    snprintf(options, sizeof options, "memory_limit=%zu nursery_min=1G nursery_max=1G", limit);
    begin(options);
    for (int times = 0; times < 40; times++) {
        char *text = ashlar_payload_new(thread, BYTES);
        CHECK(text);
        new_node(1)->text = memset(text, 1, BYTES);
        CHECK(!SCANS || resident_bytes() <= limit); /* valgrind's own memory counts */
    }
    CHECK(released >= 30 && statistics().full_collections >= 5);
    CHECK(statistics().pauses == statistics().full_collections);
}

CLAIM(a_large_payload_that_grows_in_small_steps_is_collected_for_by_what_it_grows)
{
    enum { BYTES = 48 << 20, STEP = 8 << 10 };
    char options[100];
    snprintf(options, sizeof options, "memory_limit=%zu nursery_min=1G nursery_max=1G", resident_bytes() + BYTES + BYTES / 4);
    begin(options);
    struct node *node = NULL;
    ASHLAR_ROOTS(thread, &node);
    node = new_node(1);
    node->text = memset(ashlar_payload_new(thread, BYTES), 1, BYTES);
    ashlar_collect(thread, ASHLAR_FULL);
    size_t before = statistics().full_collections;
    for (size_t bytes = BYTES; bytes < BYTES + 100 * STEP;) {
        node->text = ashlar_payload_resize(thread, node->text, bytes += STEP);
        CHECK(node->text && node->text[BYTES - 1] == 1);
    }
    CHECK(statistics().full_collections == before);
}

/* ── Weak references, ephemerons, finalizers ─────────────────────────────────────── */

CLAIM(weak_references_are_cleared_when_their_cells_die)
{
    begin("stress=move-everything");
    struct node *holder = NULL, *kept = NULL;
    ASHLAR_ROOTS(thread, &holder, &kept);
    holder = new_node(1);
    kept = new_node(2);
    ashlar_store(thread, holder, &holder->weak, kept);
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(holder->weak == kept && kept->number == 2);
    kept = NULL;
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(!holder->weak && released == 1);
}

static size_t cleared;

static void clear_to_one(void *place, void *data)
{
    (void)data;
    *(uintptr_t *)place = 0;
    cleared++;
}

CLAIM(a_program_may_clear_weak_references_itself)
{
    ashlar_vm vm = nodes();
    vm.clear_weak = clear_to_one;
    begin_with(&vm, NULL);
    struct node *holder = new_node(1);
    ASHLAR_ROOTS(thread, &holder);
    cleared = 0;
    struct node *target = new_node(2);
    ashlar_store(thread, holder, &holder->weak, target);
    ashlar_collect(thread, ASHLAR_MINOR);
    CHECK(cleared == 1 && !holder->weak);
}

static void trace_nothing(void *cell, ashlar_tracer *tracer, void *data)
{
    (void)cell, (void)tracer, (void)data;
}

/* The kind of a cell may lie anywhere in its first 32 bytes, and is 0 at first. */
CLAIM(the_first_32_bytes_of_any_new_cell_are_zero)
{
    static const char zeroes[32];
    ashlar_vm vm = ASHLAR_VM_INIT;
    vm.trace = trace_nothing;
    begin_with(&vm, NULL);
    for (int with_barrier = 0; with_barrier < 2; with_barrier++) {
        for (int n = 0; n < 5000; n++) memset(ashlar_new(thread, 32), 0xff, 32);
        ashlar_collect(thread, ASHLAR_FULL);
        for (size_t n = 0; n < 5000; n++) {
            void *cell = with_barrier ? ashlar_new(thread, n % 32) : ashlar_new_without_barrier(thread, n % 32);
            CHECK(memcmp(cell, zeroes, sizeof zeroes) == 0);
            memset(cell, 0xff, sizeof zeroes);
        }
        ashlar_collect(thread, ASHLAR_FULL);
    }
}

/* A table of one ephemeron: the value lives as long as the key does. */
static struct node *key, *value;

static void keep_value_of_living_key(ashlar_tracer *tracer, void *data)
{
    (void)data;
    if (key && !ashlar_is_dead(tracer, key)) ashlar_mark(tracer, value);
    else key = value = NULL;
}

CLAIM(ephemerons_can_be_made_of_marked)
{
    ashlar_vm vm = nodes();
    vm.marked = keep_value_of_living_key;
    vm.moves = false;
    begin_with(&vm, NULL);
    struct node *root = new_node(1);
    ASHLAR_ROOTS(thread, &root);
    key = root;
    value = new_node(2);
    value->left = new_node(3); /* only the value refers to it */
    ashlar_barrier(thread, value, value->left);
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(released == 0 && value->left->number == 3);
    root = NULL;
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(released == 3 && !value);
    static struct node outside; /* it never dies */
    root = value = new_node(4);
    key = &outside;
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(key == &outside && value == root);
    key = NULL;
}

/* The end of a list, and what it was found to be, in turn: dead or living. */
static struct node *last;
static char found_to_be[8];

static void note_whether_last_is_dead(ashlar_tracer *tracer, void *data)
{
    (void)data;
    size_t times = strlen(found_to_be);
    if (times < sizeof found_to_be - 1) found_to_be[times] = ashlar_is_dead(tracer, last) ? 'd' : 'l';
}

static void do_nothing(ashlar_thread *of, void *cell, void *argument)
{
    (void)of, (void)cell, (void)argument;
}

CLAIM(what_only_a_due_finalizer_keeps_is_dead_at_first_and_then_lives)
{
    ashlar_vm vm = nodes();
    vm.marked = note_whether_last_is_dead;
    vm.moves = false;
    begin_with(&vm, NULL);
    memset(found_to_be, 0, sizeof found_to_be);
    struct node *dying = new_node(1);
    last = dying->left = new_node(2);
    CHECK(ashlar_finalizer_add(heap, dying, do_nothing, NULL));
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(!strcmp(found_to_be, "dl") && released == 0 && last->number == 2);
    CHECK(ashlar_run_finalizers(thread) == 1);
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(!strcmp(found_to_be, "dld") && released == 2);
}

static size_t finalized, finalized_sum;
static struct node *rescued;

static void count_finalized(ashlar_thread *of, void *cell, void *argument)
{
    struct node *node = cell;
    size_t number = node->number;
    CHECK(of == thread && argument == &finalized);
    finalized++;
    finalized_sum += number;
    if (node->left) finalized_sum += 100 * node->left->number;
    new_node(9);
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(node->number == number);
    if (number == 5) rescued = node;
}

CLAIM(finalizers_run_once_with_what_their_cells_refer_to)
{
    ashlar_vm vm = nodes();
    vm.moves = false;
    begin_with(&vm, NULL);
    struct node *root = new_node(4), *weak = new_node(8);
    ASHLAR_ROOTS(thread, &root, &weak);
    CHECK(ashlar_root_add(heap, &rescued));
    finalized = finalized_sum = 0;
    struct node *dying = new_node(5);
    dying->left = new_node(6);
    ashlar_store(thread, weak, &weak->weak, dying);
    CHECK(ashlar_finalizer_add(heap, root, count_finalized, &finalized));
    CHECK(ashlar_finalizer_add(heap, dying, count_finalized, &finalized));
    CHECK(ashlar_finalizer_add(heap, dying->left, count_finalized, &finalized));
    CHECK(ashlar_finalizer_remove(heap, dying->left) == 1);
    ashlar_collect(thread, ASHLAR_MINOR);
    CHECK(!weak->weak && statistics().finalizers_due == 1 && finalized == 0 && released == 0);
    CHECK(ashlar_run_finalizers(thread) == 1 && ashlar_run_finalizers(thread) == 0);
    CHECK(finalized == 1 && finalized_sum == 605 && rescued->left->number == 6);
    /* An old cell: a minor collection does not find it dead. */
    for (int times = 0; times < 4; times++) ashlar_collect(thread, ASHLAR_MINOR);
    root = NULL;
    ashlar_collect(thread, ASHLAR_MINOR);
    CHECK(ashlar_run_finalizers(thread) == 0);
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(ashlar_run_finalizers(thread) == 1 && finalized_sum == 609);
    rescued = NULL;
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(ashlar_run_finalizers(thread) == 0);
}

CLAIM(finalizers_follow_cells_that_move)
{
    begin("stress=move-everything,poison,verify");
    finalized = finalized_sum = 0;
    struct node *root = new_node(4);
    ASHLAR_ROOTS(thread, &root);
    struct node *before = root;
    CHECK(ashlar_finalizer_add(heap, root, count_finalized, &finalized));
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(root != before);
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(statistics().finalizers_due == 0);
    root = NULL;
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(statistics().finalizers_due == 1);
    CHECK(ashlar_run_finalizers(thread) == 1 && finalized_sum == 4);
}

/* ── Moving and pinning ──────────────────────────────────────────────────────────── */

static size_t moves_reported;

static bool count_moves(void *from, void *to, void *data)
{
    (void)data;
    CHECK(((struct node *)from)->number == ((struct node *)to)->number);
    moves_reported++;
    return true;
}

static size_t wants(void *cell, size_t bytes, void *data)
{
    (void)data;
    CHECK(bytes == 40 || bytes == 96);
    switch (((struct node *)cell)->number) {
    case 1: return 96;
    case 2: return 0;
    default: return bytes;
    }
}

CLAIM(cells_move_between_widths_unless_pinned)
{
    ashlar_vm vm = nodes();
    vm.moved = count_moves;
    vm.wanted_bytes = wants;
    begin_with(&vm, NULL);
    moves_reported = 0;
    struct node *wider = NULL, *stays = NULL, *pinned = NULL;
    ASHLAR_ROOTS(thread, &wider, &stays, &pinned);
    wider = new_node(1);
    stays = new_node(2);
    pinned = new_node(1);
    struct node *wider_before = wider, *stays_before = stays, *pinned_before = pinned;
    CHECK(ashlar_pin(heap, pinned) && ashlar_pin(heap, pinned));
    ashlar_unpin(heap, pinned);
    ashlar_collect(thread, ASHLAR_COMPACT);
    CHECK(wider != wider_before && ashlar_cell_bytes(heap, wider) == 96 && wider->number == 1);
    CHECK(stays == stays_before && pinned == pinned_before && moves_reported == 1);
    ashlar_unpin(heap, pinned);
    ashlar_collect(thread, ASHLAR_COMPACT);
    CHECK(pinned != pinned_before && moves_reported == 2 && statistics().moved_cells == 2);
    /* A pin keeps a cell that nothing else keeps. */
    struct node *only_pinned = new_node(7);
    CHECK(ashlar_pin(heap, only_pinned));
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(released == 0 && only_pinned->number == 7);
    ashlar_unpin(heap, only_pinned);
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(released == 1);
}

CLAIM(compaction_empties_sparse_blocks)
{
    begin(NULL);
    struct node *list = NULL;
    ASHLAR_ROOTS(thread, &list);
    for (size_t number = 0; number < 100000; number++) {
        struct node *node = new_node(number);
        if (number % 20) continue;
        ashlar_store(thread, node, &node->left, list);
        list = node;
    }
    ashlar_collect(thread, ASHLAR_FULL);
    ashlar_trim(heap);
    size_t before = statistics().block_bytes;
    ashlar_collect(thread, ASHLAR_COMPACT);
    ashlar_trim(heap);
    CHECK(statistics().compactions == 1 && statistics().moved_cells > 2000);
    CHECK(statistics().block_bytes < before / 4);
    CHECK(length(list) == 5000);
}

/* ── Stacks ──────────────────────────────────────────────────────────────────────── */

#if SCANS
__attribute__((noinline)) static size_t list_on_the_stack(size_t count)
{
    struct node *list = NULL;
    for (size_t number = 0; number < count; number++) {
        struct node *node = new_node(number);
        ashlar_store(thread, node, &node->left, list);
        list = node;
    }
    ashlar_collect(thread, ASHLAR_COMPACT);
    return length(list);
}

__attribute__((noinline)) static size_t *number_inside_a_node(void)
{
    return &new_node(42)->number;
}

CLAIM(a_scanned_stack_keeps_what_it_points_into)
{
    begin("nursery_min=64K nursery_max=64K stress=poison");
    ashlar_thread_scan_stack(thread, ASHLAR_HERE());
    size_t *volatile inside = NULL;
    CHECK((const char *)ASHLAR_HERE() >= (const char *)(&inside + 1));
    CHECK(list_on_the_stack(10000) == 10000);
    inside = number_inside_a_node();
    ashlar_collect(thread, ASHLAR_COMPACT);
    CHECK(*inside == 42);
    inside = NULL;
    ashlar_thread_scan_stack(thread, NULL);
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(statistics().live_cells == 0);
}
#endif

/* ── Threads ─────────────────────────────────────────────────────────────────────── */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *wait_a_little(void *argument)
{
    pthread_mutex_unlock(&lock);
    usleep(100);
    pthread_mutex_lock(&lock);
    return argument;
}

static void fill_a_list(ashlar_thread *own, size_t seed)
{
    struct node *list = NULL;
    ASHLAR_ROOTS(own, &list);
    for (size_t number = 0; number < 400; number++) {
        struct node *node = ashlar_new(own, sizeof *node);
        ashlar_store(own, node, &node->left, list);
        list = node;
        /* Payloads need no lock. */
        pthread_mutex_unlock(&lock);
        char *text = ashlar_malloc(own, 1 + (number * seed) % 3000);
        text[0] = (char)seed;
        pthread_mutex_lock(&lock);
        list->text = text;
        if (number % 50 == 0) CHECK(ashlar_unlocked(own, wait_a_little, &seed) == &seed);
        if (number % 100 == seed % 100) ashlar_collect(own, ASHLAR_FULL);
    }
    CHECK(length(list) == 400);
    for (struct node *node = list; node; node = node->left) CHECK(node->text[0] == (char)seed);
}

static void *work_of_a_thread(void *argument)
{
    ashlar_thread *own = ashlar_thread_new(heap);
    pthread_mutex_lock(&lock);
    fill_a_list(own, (size_t)argument);
    ashlar_thread_free(own);
    pthread_mutex_unlock(&lock);
    return NULL;
}

CLAIM(threads_share_a_heap_under_the_programs_lock)
{
    begin("stress=poison");
    pthread_t threads[4];
    for (size_t index = 0; index < 4; index++)
        CHECK(!pthread_create(&threads[index], NULL, work_of_a_thread, (void *)(index + 1)));
    for (size_t index = 0; index < 4; index++) CHECK(!pthread_join(threads[index], NULL));
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(statistics().live_cells == 0 && released == 1600);
}

CLAIM(a_forked_child_goes_on)
{
    begin(NULL);
    struct node *list = NULL;
    ASHLAR_ROOTS(thread, &list);
    make_list(&list, 1000);
    ashlar_before_fork(heap);
    pid_t child = fork();
    ashlar_after_fork(heap);
    make_list(&list, 1000);
    ashlar_collect(thread, ASHLAR_FULL);
    CHECK(length(list) == 2000 && ashlar_verify(thread));
    if (child == 0) _exit(0);
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static int threads_go_on;

static void *begin_and_end_threads(void *argument)
{
    (void)argument;
    while (__atomic_load_n(&threads_go_on, __ATOMIC_RELAXED)) ashlar_thread_free(ashlar_thread_new(heap));
    return NULL;
}

CLAIM(a_child_goes_on_that_was_forked_while_threads_begin_and_end)
{
    begin(NULL);
    pthread_t others[2];
    threads_go_on = 1;
    for (size_t index = 0; index < 2; index++)
        CHECK(!pthread_create(&others[index], NULL, begin_and_end_threads, NULL));
    for (int times = 0; times < 50; times++) {
        ashlar_before_fork(heap);
        pid_t child = fork();
        ashlar_after_fork(heap);
        if (child == 0) {
            alarm(60); /* ends a child that waits for a thread that it does not have */
            ashlar_collect(thread, ASHLAR_FULL);
            /* Not _exit, at which valgrind finds what the other threads were about to free. */
            kill(getpid(), SIGKILL);
        }
        int status = 1;
        CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    __atomic_store_n(&threads_go_on, 0, __ATOMIC_RELAXED);
    for (size_t index = 0; index < 2; index++) CHECK(!pthread_join(others[index], NULL));
}

/* ── Broken rules ────────────────────────────────────────────────────────────────── */

/* Runs `work`, which is to end its process, in a child. Returns what that writes to standard
 * error. */
static const char *last_words(void (*work)(void))
{
    static char words[2000];
    int ends[2], status = 0;
    CHECK(!pipe(ends));
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = { 0, 0 };
        setrlimit(RLIMIT_CORE, &none);
        dup2(ends[1], STDERR_FILENO);
        work();
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t more;
    while ((more = read(ends[0], words + length, sizeof words - 1 - length)) > 0) length += (size_t)more;
    words[length] = 0;
    close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    return words;
}

static bool is_line_with(const char *words, const char *part)
{
    const char *end = strchr(words, '\n');
    return !strncmp(words, "ashlar: ", 8) && strstr(words, part) && end && !end[1];
}

static bool breaks_rules;

static void trace_and_allocate(void *cell, ashlar_tracer *tracer, void *data)
{
    trace_node(cell, tracer, data);
    if (breaks_rules) ashlar_new(thread, sizeof(struct node));
}

static void release_and_allocate(void *cell, ashlar_thread *of, void *data)
{
    release_node(cell, of, data);
    if (breaks_rules) ashlar_new(of, sizeof(struct node));
}

static void release_and_collect(void *cell, ashlar_thread *of, void *data)
{
    release_node(cell, of, data);
    if (breaks_rules) ashlar_collect(of, ASHLAR_FULL);
}

static void break_rules(void)
{
    breaks_rules = true;
    ashlar_collect(thread, ASHLAR_FULL);
}

CLAIM(a_program_whose_callback_allocates_or_collects_is_ended_with_a_line)
{
    static const char line[] = "a callback of the collector must not allocate or collect";
    ashlar_vm vms[] = { nodes(), nodes(), nodes() };
    vms[0].trace = trace_and_allocate;
    vms[1].release = release_and_allocate;
    vms[2].release = release_and_collect;
    for (size_t index = 0; index < 3; index++) {
        begin_with(&vms[index], NULL);
        struct node *root = new_node(1);
        CHECK(ashlar_root_add(heap, &root));
        new_node(2);
        CHECK(is_line_with(last_words(break_rules), line));
        end();
        CHECK(released == 2);
    }
}

/* ── Options and looking ─────────────────────────────────────────────────────────── */

CLAIM(wrong_options_get_a_line)
{
    static const struct {
        const char *options, *part;
    } wrong[] = {
        { "space_overhead=5", "space_overhead=5: auto or a whole number from 10 to 1000 is wanted" },
        { "space_overhead", "give it a value" },
        { "heap_min=4X", "heap_min=4X: a size" },
        { "slice_us=50", "slice_us=50: 0 or a whole number from 100" },
        { "policy=worst-fit", "policy=worst-fit: first-fit" },
        { "huge_pages=2M", "huge_pages=2M: auto, 0 or 1 is wanted" },
        { "speed=9", "speed=9: there is no such option" },
        { "nursery_min=64M nursery_max=32M", "nursery_max=32M: a size of at least 64MiB" },
        { "stress=verify,speed", "stress=verify,speed: \"speed\" is no switch" },
        { "collect_every=5 verify=1", "collect_every=5 verify=1: switches are words of stress; write stress=collect-every:5,verify" },
        { "barriers=0 slice_us=1000", "need the write barrier" },
        { "memory_limit=1M", "memory_limit=1M: none, auto or a size of at least 16MiB" },
    };
    ashlar_vm vm = nodes();
    for (size_t index = 0; index < sizeof wrong / sizeof *wrong; index++) {
        CHECK(!ashlar_heap_new(&vm, wrong[index].options));
        CHECK(strstr(ashlar_error(), wrong[index].part));
        CHECK(!strchr(ashlar_error(), '\n'));
    }
    CHECK(!ashlar_heap_new(NULL, NULL));
    vm.trace = NULL;
    CHECK(!ashlar_heap_new(&vm, NULL) && strstr(ashlar_error(), "trace must not be NULL"));
    vm = nodes();
    vm.interface = 99;
    CHECK(!ashlar_heap_new(&vm, NULL) && strstr(ashlar_error(), "interface 99"));
    begin("space_overhead=100 heap_min=8MiB memory_limit=none slice_us=1000");
    CHECK(!ashlar_heap_set(heap, "reserve=64M") && strstr(ashlar_error(), "reserve=64M: choose it at the start"));
    CHECK(!ashlar_heap_set(heap, "space_overhead=x"));
    CHECK(ashlar_heap_set(heap, "space_overhead=200 stress=collect-every:10"));
    struct node *list = NULL;
    ASHLAR_ROOTS(thread, &list);
    make_list(&list, 100);
    CHECK(statistics().minor_collections >= 5);
}

static void count_cell(void *cell, size_t bytes, void *argument)
{
    CHECK(((struct node *)cell)->number < 100 && bytes == 40);
    ++*(size_t *)argument;
}

CLAIM(each_cell_is_shown_and_counted)
{
    begin(NULL);
    struct node *list = NULL;
    ASHLAR_ROOTS(thread, &list);
    make_list(&list, 100);
    size_t seen = 0;
    ashlar_each_cell(heap, count_cell, &seen);
    ashlar_statistics now = statistics();
    CHECK(seen == 100 && now.live_cells == 100 && now.cell_bytes == 4000);
    CHECK(now.allocated_cells == 100 && now.freed_cells == 0 && now.block_bytes >= 4000);
    uint64_t part[2] = { 7, 7 };
    ashlar_statistics_get(heap, (void *)part, sizeof *part);
    CHECK(part[0] == now.minor_collections && part[1] == 7);
}

static void release_slowly(void *cell, ashlar_thread *of, void *data)
{
    usleep(10);
    release_node(cell, of, data);
}

CLAIM(pauses_count_the_sweeping_that_allocations_do)
{
    ashlar_vm vm = nodes();
    vm.release = release_slowly;
    begin_with(&vm, NULL);
    for (size_t number = 0; number < 10000; number++) new_node(number);
    ashlar_collect(thread, ASHLAR_MINOR);
    ashlar_statistics before = statistics();
    size_t released_before = released;
    while (released < released_before + 1000) new_node(0);
    ashlar_statistics now = statistics();
    CHECK(now.pauses > before.pauses);
    CHECK(now.pause_ns >= before.pause_ns + (released - released_before) * 10000);
}

CLAIM(heaps_are_independent_and_end_whole)
{
    for (int times = 0; times < 20; times++) {
        begin("reserve=64M");
        ashlar_heap *first = heap;
        ashlar_thread *first_thread = thread;
        struct node *list = NULL, *other = NULL;
        CHECK(ashlar_root_add(heap, &list));
        make_list(&list, 100);
        begin("reserve=64M");
        make_list(&other, 10);
        end();
        CHECK(length(list) == 100 && released == 10);
        heap = first;
        thread = first_thread;
        end();
        CHECK(released == 110);
    }
}

int main(int argc, char **argv)
{
    size_t ran = 0;
    for (struct claim *claim = claims; claim; claim = claim->next) {
        if (argc > 1 && !strstr(claim->name, argv[1])) continue;
        running = claim->name;
        claim->check();
        if (heap) end();
        ran++;
    }
    printf("%zu claims about ashlar.h hold\n", ran);
    return ran == 0;
}
