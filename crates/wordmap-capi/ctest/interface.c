/* What a C program may rely on, checked through the headers only: documented results and
 * errors, indexes 0 and ~0, values in the array's nodes, cursors, and memory that runs
 * out. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <Judy.h>

#include "ashlar_wordmap.h"

static int checks;

#define CHECK(claim)                                                  \
    do {                                                              \
        checks++;                                                     \
        if (!(claim)) {                                               \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #claim); \
            exit(1);                                                  \
        }                                                             \
    } while (0)

static long chunks_left = -1;

static void *take(size_t bytes, size_t alignment) {
    if (chunks_left == 0) return NULL;
    if (chunks_left > 0) chunks_left--;
    return aligned_alloc(alignment, bytes);
}

static void give(void *pages, size_t bytes) {
    (void)bytes;
    free(pages);
}

/* Fills arrays until memory runs out; nothing that was in them may be lost. */
static void memory_runs_out(void) {
    JError_t error;
    Pvoid_t map = NULL, set = NULL;
    Word_t n = 0;
    chunks_left = 40;
    for (;; n++) {
        PPvoid_t value = JudyLIns(&map, n * 0x9e3779b97f4a7c15ull, &error);
        if (value == PPJERR) break;
        *value = (Pvoid_t)n;
    }
    CHECK(JU_ERRNO(&error) == JU_ERRNO_NOMEM);
    CHECK(n > 100000);
    CHECK(JudyLCount(map, 0, ~0ull, PJE0) == n);
    for (Word_t i = 0; i < n; i++) {
        PPvoid_t value = JudyLGet(map, i * 0x9e3779b97f4a7c15ull, PJE0);
        CHECK(value && *value == (Pvoid_t)i);
    }
    Word_t m = 0;
    while (Judy1Set(&set, m << 9, &error) == 1) m++;
    CHECK(JU_ERRNO(&error) == JU_ERRNO_NOMEM);
    CHECK(Judy1Count(set, 0, ~0ull, PJE0) == m);
    /* Deleting needs no memory. */
    for (Word_t i = 0; i < n; i++) CHECK(JudyLDel(&map, i * 0x9e3779b97f4a7c15ull, PJE0) == 1);
    CHECK(map == NULL);
    CHECK(Judy1FreeArray(&set, PJE0) > 0 || m == 0);
    chunks_left = -1;
}

static void ends_of_the_range(void) {
    Pvoid_t map = NULL;
    Word_t index = 0;
    CHECK(JudyLFirst(map, &index, PJE0) == NULL);
    CHECK(JudyLFirstEmpty(map, &index, PJE0) == 1 && index == 0);
    *JudyLIns(&map, 0, PJE0) = (Pvoid_t)1;
    *JudyLIns(&map, ~0ull, PJE0) = (Pvoid_t)2;
    index = ~0ull;
    CHECK(JudyLNext(map, &index, PJE0) == NULL);
    CHECK(JudyLLast(map, &index, PJE0) != NULL && index == ~0ull);
    CHECK(JudyLPrev(map, &index, PJE0) != NULL && index == 0);
    CHECK(JudyLPrev(map, &index, PJE0) == NULL);
    CHECK(JudyLFirstEmpty(map, &index, PJE0) == 1 && index == 1);
    index = ~0ull;
    CHECK(JudyLNextEmpty(map, &index, PJE0) == 0);
    CHECK(JudyLLastEmpty(map, &index, PJE0) == 1 && index == ~0ull - 1);
    CHECK(JudyLCount(map, 0, ~0ull, PJE0) == 2 && JudyLCount(map, 1, 0, PJE0) == 0);
    CHECK(((uintptr_t)map & 1) == 0);
    CHECK(JudyLFreeArray(&map, PJE0) > 0 && map == NULL);
}

static void a_full_set_has_gaps_at_its_ends(void) {
    Pvoid_t set = NULL;
    Word_t index;
    for (Word_t i = 1000; i < 21000; i++) CHECK(Judy1Set(&set, i, PJE0) == 1);
    index = 1000;
    CHECK(Judy1FirstEmpty(set, &index, PJE0) == 1 && index == 21000);
    index = 20999;
    CHECK(Judy1PrevEmpty(set, &index, PJE0) == 1 && index == 999);
    CHECK(Judy1MemUsed(set) < 20000 / 8);
    CHECK(Judy1Unset(&set, 15000, PJE0) == 1);
    index = 1000;
    CHECK(Judy1NextEmpty(set, &index, PJE0) == 1 && index == 15000);
    Judy1FreeArray(&set, PJE0);
}

static void text_goes_in_order(void) {
    static const char *words[] = {"", "a", "aaaaaaaa", "aaaaaaaaa", "b", "toto", "toto, we are not in Kansas any more"};
    size_t n = sizeof words / sizeof *words;
    Pvoid_t array = NULL;
    uint8_t text[100];
    JError_t error;
    for (size_t i = n; i-- > 0;) *JudySLIns(&array, (const uint8_t *)words[i], PJE0) = (Pvoid_t)i;
    text[0] = 0;
    PPvoid_t value = JudySLFirst(array, text, PJE0);
    for (size_t i = 0; i < n; i++, value = JudySLNext(array, text, PJE0))
        CHECK(value && *value == (Pvoid_t)i && !strcmp((char *)text, words[i]));
    CHECK(value == NULL);
    CHECK(JudySLDel(&array, (const uint8_t *)"toto", PJE0) == 1);
    CHECK(JudySLGet(array, (const uint8_t *)"toto", PJE0) == NULL);
    CHECK(*JudySLGet(array, (const uint8_t *)words[6], PJE0) == (Pvoid_t)6);
    CHECK(JudySLGet(array, NULL, &error) == PPJERR && JU_ERRNO(&error) == JU_ERRNO_NULLPINDEX);
    CHECK(JudySLFreeArray(&array, PJE0) > 0 && array == NULL);
}

static void bytes_of_any_kind(void) {
    Pvoid_t array = NULL;
    JError_t error;
    char zeros[3] = {0, 0, 0};
    for (Word_t n = 0; n <= 3; n++) *JudyHSIns(&array, zeros, n, PJE0) = (Pvoid_t)(n + 1);
    for (Word_t n = 0; n <= 3; n++) CHECK(*JudyHSGet(array, zeros, n) == (Pvoid_t)(n + 1));
    CHECK(JudyHSDel(&array, zeros, 2, PJE0) == 1 && JudyHSGet(array, zeros, 2) == NULL);
    CHECK(JudyHSIns(NULL, zeros, 1, &error) == PPJERR && JU_ERRNO(&error) == JU_ERRNO_NULLPPARRAY);
    CHECK(JudyHSFreeArray(&array, PJE0) > 0 && array == NULL);
}

/* Two rounds of mixing that anybody can compute and undo: the hash that JudyHS would
 * have without a secret. */
static Word_t mix(Word_t state, Word_t word) {
    Word_t x = (state ^ word) * 0x9fb21c651e98df25ull;
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
    return x << 29 | x >> 35;
}

/* Makes keys of two words, of which the second takes the hash back to the same state.
 * Without a secret in the hash all of them would be one list behind one entry. Keys with
 * different hashes take an entry each; the bytes of the array show which of the two
 * happened. */
static void keys_that_were_made_to_collide_lie_apart(void) {
    enum { KEYS = 5000 };
    Pvoid_t array = NULL;
    Word_t start = 16 * 0x9e3779b97f4a7c15ull;
    for (Word_t i = 0; i < KEYS; i++) {
        Word_t key[2] = {i, mix(start, 0) ^ mix(start, i)};
        *JudyHSIns(&array, key, sizeof key, PJE0) = (Pvoid_t)(i + 1);
    }
    for (Word_t i = 0; i < KEYS; i++) {
        Word_t key[2] = {i, mix(start, 0) ^ mix(start, i)};
        CHECK(*JudyHSGet(array, key, sizeof key) == (Pvoid_t)(i + 1));
    }
    /* A record has three words before its key. */
    Word_t records = KEYS * (3 * sizeof(Word_t) + 2 * sizeof(Word_t));
    CHECK(JudyHSFreeArray(&array, PJE0) >= records + KEYS * 2 * sizeof(Word_t) * 3 / 4);
}

static int child_succeeds(void (*check)(Pvoid_t), Pvoid_t array) {
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        check(array);
        exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static void find_text(Pvoid_t array) {
    PPvoid_t value = JudyHSGet(array, "text", 4);
    CHECK(value && *value == (Pvoid_t)4);
    *JudyHSIns(&array, "more", 4, PJE0) = (Pvoid_t)5;
    CHECK(*JudyHSGet(array, "more", 4) == (Pvoid_t)5);
}

/* Makes the kernel refuse random numbers. Called in a child that has not asked for any
 * yet. */
static void insert_without_getrandom(Pvoid_t array) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrandom, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    char byte;
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    CHECK(getrandom(&byte, 1, 0) == -1 && errno == EPERM);
    *JudyHSIns(&array, "text", 4, PJE0) = (Pvoid_t)4;
    find_text(array);
}

static void children_find_their_parents_keys(void) {
    Pvoid_t array = NULL;
    *JudyHSIns(&array, "text", 4, PJE0) = (Pvoid_t)4;
    CHECK(child_succeeds(find_text, array));
    JudyHSFreeArray(&array, PJE0);
}

static void cursors_walk_both_ways(void) {
    Pvoid_t map = NULL;
    Word_t n = 5000;
    for (Word_t i = 0; i < n; i++) *JudyLIns(&map, i * i, PJE0) = (Pvoid_t)i;
    ashlar_cursor *cursor = ashlar_cursor_open(map);
    CHECK(cursor != NULL);
    uint64_t index = 0, i = 0;
    uint64_t *value = ashlar_cursor_seek(cursor, &index);
    for (; value; value = ashlar_cursor_next(cursor, &index), i++) CHECK(*value == i && index == i * i);
    CHECK(i == n);
    index = ~0ull;
    value = ashlar_cursor_seek_back(cursor, &index);
    for (; value; value = ashlar_cursor_previous(cursor, &index)) CHECK(*value == --i && index == i * i);
    CHECK(i == 0);
    index = 77;
    CHECK(*ashlar_cursor_seek_nth(cursor, &index) == 77 && index == 77 * 77);
    ashlar_cursor_close(cursor);
    JudyLFreeArray(&map, PJE0);
}

int main(void) {
    ashlar_wordmap_set_pages(take, give);
    ends_of_the_range();
    a_full_set_has_gaps_at_its_ends();
    text_goes_in_order();
    /* This comes first, because no secret must have been drawn yet. */
    CHECK(child_succeeds(insert_without_getrandom, NULL));
    bytes_of_any_kind();
    keys_that_were_made_to_collide_lie_apart();
    children_find_their_parents_keys();
    cursors_walk_both_ways();
    memory_runs_out();
    printf("%d checks passed\n", checks);
    return 0;
}
