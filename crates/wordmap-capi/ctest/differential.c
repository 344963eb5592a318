/* Differential fuzzing: random operations on our library and on the stock libJudy, both
 * loaded into one process, must have the same results and leave the same arrays. Every
 * function of the interface is called, with families of keys that lead to different
 * node shapes, indexes 0 and ~0 among them.
 *
 *   differential OUR-LIBRARY STOCK-LIBRARY [SECONDS] [SEED]
 *
 * Calls that are known to go wrong in the stock library are left out: JudyLInsArray
 * with a count of 31 corrupts its heap, and JudyHSIns without an array crashes. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <Judy.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static uint64_t state;

static uint64_t next_random(void) {
    uint64_t x = (state += 0x9e3779b97f4a7c15ull);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static uint64_t below(uint64_t n) { return next_random() % n; }

/* The interface, as looked up in one library. */
typedef struct {
#define F(result, name, ...) result (*name)(__VA_ARGS__);
#define ALL                                                          \
    F(int, Judy1Test, Pcvoid_t, Word_t, PJError_t)                   \
    F(int, Judy1Set, PPvoid_t, Word_t, PJError_t)                    \
    F(int, Judy1SetArray, PPvoid_t, Word_t, const Word_t *, PJError_t) \
    F(int, Judy1Unset, PPvoid_t, Word_t, PJError_t)                  \
    F(Word_t, Judy1Count, Pcvoid_t, Word_t, Word_t, PJError_t)       \
    F(int, Judy1ByCount, Pcvoid_t, Word_t, Word_t *, PJError_t)      \
    F(Word_t, Judy1FreeArray, PPvoid_t, PJError_t)                   \
    F(Word_t, Judy1MemUsed, Pcvoid_t)                                \
    F(Word_t, Judy1MemActive, Pcvoid_t)                              \
    F(int, Judy1First, Pcvoid_t, Word_t *, PJError_t)                \
    F(int, Judy1Next, Pcvoid_t, Word_t *, PJError_t)                 \
    F(int, Judy1Last, Pcvoid_t, Word_t *, PJError_t)                 \
    F(int, Judy1Prev, Pcvoid_t, Word_t *, PJError_t)                 \
    F(int, Judy1FirstEmpty, Pcvoid_t, Word_t *, PJError_t)           \
    F(int, Judy1NextEmpty, Pcvoid_t, Word_t *, PJError_t)            \
    F(int, Judy1LastEmpty, Pcvoid_t, Word_t *, PJError_t)            \
    F(int, Judy1PrevEmpty, Pcvoid_t, Word_t *, PJError_t)            \
    F(PPvoid_t, JudyLGet, Pcvoid_t, Word_t, PJError_t)               \
    F(PPvoid_t, JudyLIns, PPvoid_t, Word_t, PJError_t)               \
    F(int, JudyLInsArray, PPvoid_t, Word_t, const Word_t *, const Word_t *, PJError_t) \
    F(int, JudyLDel, PPvoid_t, Word_t, PJError_t)                    \
    F(Word_t, JudyLCount, Pcvoid_t, Word_t, Word_t, PJError_t)       \
    F(PPvoid_t, JudyLByCount, Pcvoid_t, Word_t, Word_t *, PJError_t) \
    F(Word_t, JudyLFreeArray, PPvoid_t, PJError_t)                   \
    F(Word_t, JudyLMemUsed, Pcvoid_t)                                \
    F(Word_t, JudyLMemActive, Pcvoid_t)                              \
    F(PPvoid_t, JudyLFirst, Pcvoid_t, Word_t *, PJError_t)           \
    F(PPvoid_t, JudyLNext, Pcvoid_t, Word_t *, PJError_t)            \
    F(PPvoid_t, JudyLLast, Pcvoid_t, Word_t *, PJError_t)            \
    F(PPvoid_t, JudyLPrev, Pcvoid_t, Word_t *, PJError_t)            \
    F(int, JudyLFirstEmpty, Pcvoid_t, Word_t *, PJError_t)           \
    F(int, JudyLNextEmpty, Pcvoid_t, Word_t *, PJError_t)            \
    F(int, JudyLLastEmpty, Pcvoid_t, Word_t *, PJError_t)            \
    F(int, JudyLPrevEmpty, Pcvoid_t, Word_t *, PJError_t)            \
    F(PPvoid_t, JudySLGet, Pcvoid_t, const uint8_t *, PJError_t)     \
    F(PPvoid_t, JudySLIns, PPvoid_t, const uint8_t *, PJError_t)     \
    F(int, JudySLDel, PPvoid_t, const uint8_t *, PJError_t)          \
    F(Word_t, JudySLFreeArray, PPvoid_t, PJError_t)                  \
    F(PPvoid_t, JudySLFirst, Pcvoid_t, uint8_t *, PJError_t)         \
    F(PPvoid_t, JudySLNext, Pcvoid_t, uint8_t *, PJError_t)          \
    F(PPvoid_t, JudySLLast, Pcvoid_t, uint8_t *, PJError_t)          \
    F(PPvoid_t, JudySLPrev, Pcvoid_t, uint8_t *, PJError_t)          \
    F(PPvoid_t, JudyHSGet, Pcvoid_t, void *, Word_t)                 \
    F(PPvoid_t, JudyHSIns, PPvoid_t, void *, Word_t, PJError_t)      \
    F(int, JudyHSDel, PPvoid_t, void *, Word_t, PJError_t)           \
    F(Word_t, JudyHSFreeArray, PPvoid_t, PJError_t)                  \
    F(Word_t, JudyMalloc, Word_t)                                    \
    F(Word_t, JudyMallocVirtual, Word_t)                             \
    F(void, JudyFree, Pvoid_t, Word_t)                               \
    F(void, JudyFreeVirtual, Pvoid_t, Word_t)
    ALL
#undef F
} Library;

/* The arrays of one library. */
typedef struct {
    Library f;
    Pvoid_t set, map, text, bytes;
} Side;

static Side ours, stock;

static void load(Library *f, const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "cannot load %s: %s\n", path, dlerror());
        exit(2);
    }
#define F(result, name, ...)                                             \
    if (!(*(void **)&f->name = dlsym(library, #name))) {                 \
        fprintf(stderr, "%s has no symbol %s\n", path, #name);           \
        exit(2);                                                         \
    }
    ALL
#undef F
    if (!dlsym(library, "Judy1MallocSizes") || !dlsym(library, "JudyLMallocSizes")) {
        fprintf(stderr, "%s lacks a MallocSizes symbol\n", path);
        exit(2);
    }
}

static uint64_t operations;

static void differ(const char *what, uint64_t key, uint64_t a, uint64_t b) {
    printf("FAILED after %llu operations: %s at %#llx: ours %#llx, stock %#llx\n",
           (unsigned long long)operations, what, (unsigned long long)key, (unsigned long long)a,
           (unsigned long long)b);
    exit(1);
}

static void same(const char *what, uint64_t key, uint64_t a, uint64_t b) {
    if (a != b) differ(what, key, a, b);
}

static int family;

static Word_t random_key(void) {
    static const Word_t edges[] = {0, 1, 255, 256, 0x7fffffffffffffffull, ~0ull, ~0ull - 1, ~0ull - 255};
    if (below(50) == 0) return edges[below(COUNT(edges))];
    switch (family) {
    case 0: return below(3000);
    case 1: return 20000 + 8 * below(400);
    case 2: return next_random();
    case 3: return ((below(60) * 0x13579bdf1ull) & 0xfffffffffff0ull) + below(16);
    case 4: return below(200) << (8 * below(8));
    case 5: return ~0ull - below(2000);
    default: return (below(4) << 56) + (below(4) << 40) + below(300);
    }
}

/* 0 for null, 1 for an error, 2 for a value: what a caller tells apart. */
static int sort_of(PPvoid_t p) { return p == NULL ? 0 : p == PPJERR ? 1 : 2; }

static void same_slot(const char *what, Word_t key, PPvoid_t a, PPvoid_t b) {
    same(what, key, sort_of(a), sort_of(b));
    if (sort_of(a) == 2) same(what, key, (Word_t)*a, (Word_t)*b);
}

/* One call in both libraries that finds a neighbour: same result, and the same
 * index where there is one (else it is undefined). */
#define STEP(root, name, key)                                       \
    do {                                                            \
        Word_t a = (key), b = a, from = a;                          \
        int found = ours.f.name(ours.root, &a, PJE0);               \
        same(#name, from, (uint64_t)found,                          \
             (uint64_t)stock.f.name(stock.root, &b, PJE0));         \
        if (found == 1) same(#name " (index)", from, a, b);         \
    } while (0)

#define STEP_SLOT(root, name, key)                                  \
    do {                                                            \
        Word_t a = (key), b = a, from = a;                          \
        PPvoid_t x = ours.f.name(ours.root, &a, PJE0);              \
        PPvoid_t y = stock.f.name(stock.root, &b, PJE0);            \
        same_slot(#name, from, x, y);                               \
        if (x) same(#name " (index)", from, a, b);                  \
    } while (0)

/* A count and its error number, in records that nobody has filled in: a count of 0 is a failure
 * unless the number says otherwise. */
#define SAME_COUNT(root, name, low, high)                                      \
    do {                                                                       \
        Word_t first = (low), last = (high);                                   \
        JError_t e, g;                                                         \
        memset(&e, 0x7f, sizeof e);                                            \
        memset(&g, 0x7f, sizeof g);                                            \
        same(#name, first, ours.f.name(ours.root, first, last, &e),            \
             stock.f.name(stock.root, first, last, &g));                       \
        same(#name " (errno)", first, JU_ERRNO(&e), JU_ERRNO(&g));             \
    } while (0)

static void set_operation(void) {
    Word_t key = random_key(), other = random_key();
    switch (below(16)) {
    case 0: case 1: case 2: case 3: case 4:
        same("Judy1Set", key, ours.f.Judy1Set(&ours.set, key, PJE0), stock.f.Judy1Set(&stock.set, key, PJE0));
        break;
    case 5: case 6: case 7:
        same("Judy1Unset", key, ours.f.Judy1Unset(&ours.set, key, PJE0), stock.f.Judy1Unset(&stock.set, key, PJE0));
        break;
    case 8: {
        Word_t n = below(600);
        for (Word_t k = key; n-- && k != ~0ull; k++)
            same("Judy1Set", k, ours.f.Judy1Set(&ours.set, k, PJE0), stock.f.Judy1Set(&stock.set, k, PJE0));
        break;
    }
    case 9:
        same("Judy1Test", key, ours.f.Judy1Test(ours.set, key, PJE0), stock.f.Judy1Test(stock.set, key, PJE0));
        break;
    case 10: STEP(set, Judy1First, key); STEP(set, Judy1Next, key); break;
    case 11: STEP(set, Judy1Last, key); STEP(set, Judy1Prev, key); break;
    case 12: STEP(set, Judy1FirstEmpty, key); STEP(set, Judy1NextEmpty, key); break;
    case 13: STEP(set, Judy1LastEmpty, key); STEP(set, Judy1PrevEmpty, key); break;
    case 14:
        SAME_COUNT(set, Judy1Count, key, other);
        SAME_COUNT(set, Judy1Count, key, key);
        break;
    default: {
        Word_t total = stock.f.Judy1Count(stock.set, 0, ~0ull, PJE0), nth = below(total + 3), a = 7, b = 7;
        same("Judy1ByCount", nth, ours.f.Judy1ByCount(ours.set, nth, &a, PJE0), stock.f.Judy1ByCount(stock.set, nth, &b, PJE0));
        if (nth >= 1 && nth <= total) same("Judy1ByCount (index)", nth, a, b);
    }
    }
}

static void map_operation(void) {
    Word_t key = random_key(), other = random_key();
    switch (below(16)) {
    case 0: case 1: case 2: case 3: case 4: {
        PPvoid_t a = ours.f.JudyLIns(&ours.map, key, PJE0), b = stock.f.JudyLIns(&stock.map, key, PJE0);
        same_slot("JudyLIns", key, a, b);
        *a = *b = (Pvoid_t)next_random();
        break;
    }
    case 5: case 6: case 7:
        same("JudyLDel", key, ours.f.JudyLDel(&ours.map, key, PJE0), stock.f.JudyLDel(&stock.map, key, PJE0));
        break;
    case 8: {
        Word_t n = below(400), stride = 1 + below(20);
        for (Word_t k = key; n-- && k < ~0ull - 32; k += stride) {
            PPvoid_t a = ours.f.JudyLIns(&ours.map, k, PJE0), b = stock.f.JudyLIns(&stock.map, k, PJE0);
            same_slot("JudyLIns", k, a, b);
            *a = *b = (Pvoid_t)k;
        }
        break;
    }
    case 9: same_slot("JudyLGet", key, ours.f.JudyLGet(ours.map, key, PJE0), stock.f.JudyLGet(stock.map, key, PJE0)); break;
    case 10: STEP_SLOT(map, JudyLFirst, key); STEP_SLOT(map, JudyLNext, key); break;
    case 11: STEP_SLOT(map, JudyLLast, key); STEP_SLOT(map, JudyLPrev, key); break;
    case 12: STEP(map, JudyLFirstEmpty, key); STEP(map, JudyLNextEmpty, key); break;
    case 13: STEP(map, JudyLLastEmpty, key); STEP(map, JudyLPrevEmpty, key); break;
    case 14:
        SAME_COUNT(map, JudyLCount, key, other);
        SAME_COUNT(map, JudyLCount, key, key);
        break;
    default: {
        Word_t total = stock.f.JudyLCount(stock.map, 0, ~0ull, PJE0), nth = below(total + 3), a = 7, b = 7;
        PPvoid_t x = ours.f.JudyLByCount(ours.map, nth, &a, PJE0), y = stock.f.JudyLByCount(stock.map, nth, &b, PJE0);
        same_slot("JudyLByCount", nth, x, y);
        if (x) same("JudyLByCount (index)", nth, a, b);
    }
    }
}

#define TEXT_MAX 64

static void random_text(uint8_t *text) {
    static const char *stems[] = {"", "a", "toto", "we are not in", "we are not in Kansas any more", "12345678", "1234567812345678", "\xff\xff\xff\xff\xff\xff\xff\xff\xff"};
    size_t n = (size_t)snprintf((char *)text, TEXT_MAX / 2, "%s", stems[below(COUNT(stems))]);
    size_t more = below(6) == 0 ? below(24) : below(3);
    while (more--) text[n++] = (uint8_t)(below(8) == 0 ? 1 + below(255) : 'a' + below(3));
    text[n] = 0;
}

#define STEP_TEXT(name)                                                        \
    do {                                                                       \
        uint8_t a[TEXT_MAX], b[TEXT_MAX];                                      \
        memcpy(a, text, TEXT_MAX);                                             \
        memcpy(b, text, TEXT_MAX);                                             \
        PPvoid_t x = ours.f.name(ours.text, a, PJE0);                          \
        PPvoid_t y = stock.f.name(stock.text, b, PJE0);                        \
        same_slot(#name, *(uint64_t *)text, x, y);                             \
        if (x) same(#name " (index)", *(uint64_t *)text, (uint64_t)strcmp((char *)a, (char *)b), 0); \
    } while (0)

static void text_operation(void) {
    uint8_t text[TEXT_MAX] = {0};
    random_text(text);
    switch (below(10)) {
    case 0: case 1: case 2: case 3: {
        PPvoid_t a = ours.f.JudySLIns(&ours.text, text, PJE0), b = stock.f.JudySLIns(&stock.text, text, PJE0);
        same_slot("JudySLIns", *(uint64_t *)text, a, b);
        *a = *b = (Pvoid_t)next_random();
        break;
    }
    case 4: case 5: case 6:
        same("JudySLDel", *(uint64_t *)text, ours.f.JudySLDel(&ours.text, text, PJE0), stock.f.JudySLDel(&stock.text, text, PJE0));
        break;
    case 7:
        same_slot("JudySLGet", *(uint64_t *)text, ours.f.JudySLGet(ours.text, text, PJE0), stock.f.JudySLGet(stock.text, text, PJE0));
        break;
    case 8: STEP_TEXT(JudySLFirst); STEP_TEXT(JudySLNext); break;
    default: STEP_TEXT(JudySLLast); STEP_TEXT(JudySLPrev);
    }
}

static void bytes_operation(void) {
    uint8_t key[40];
    Word_t n = below(8) == 0 ? below(40) : below(5);
    for (Word_t i = 0; i < n; i++) key[i] = (uint8_t)(below(4) == 0 ? 0 : below(3));
    switch (below(6)) {
    case 0: case 1: case 2: {
        PPvoid_t a = ours.f.JudyHSIns(&ours.bytes, key, n, PJE0), b = stock.f.JudyHSIns(&stock.bytes, key, n, PJE0);
        same_slot("JudyHSIns", n, a, b);
        *a = *b = (Pvoid_t)next_random();
        break;
    }
    case 3: case 4:
        same("JudyHSDel", n, ours.f.JudyHSDel(&ours.bytes, key, n, PJE0), stock.f.JudyHSDel(&stock.bytes, key, n, PJE0));
        break;
    default: same_slot("JudyHSGet", n, ours.f.JudyHSGet(ours.bytes, key, n), stock.f.JudyHSGet(stock.bytes, key, n));
    }
}

/* Frees an array in both libraries: a caller notices whether bytes were freed, and an
   empty root. */
#define FREE(root, name)                                                        \
    same(#name, 0, ours.f.name(&ours.root, PJE0) != 0, stock.f.name(&stock.root, PJE0) != 0); \
    same(#name " (root)", 0, ours.root == NULL, stock.root == NULL)

static void compare_all(void) {
    Word_t a = 0, b = 0;
    int x = ours.f.Judy1First(ours.set, &a, PJE0), y = stock.f.Judy1First(stock.set, &b, PJE0);
    while (x == 1 && y == 1 && a == b) {
        x = ours.f.Judy1Next(ours.set, &a, PJE0);
        y = stock.f.Judy1Next(stock.set, &b, PJE0);
    }
    if (x == 1 && y == 1) same("walk over Judy1 (index)", a, a, b);
    same("walk over Judy1", a, (uint64_t)x, (uint64_t)y);
    a = b = ~0ull;
    PPvoid_t p = ours.f.JudyLLast(ours.map, &a, PJE0), q = stock.f.JudyLLast(stock.map, &b, PJE0);
    while (p && q) {
        same("walk over JudyL", a, a, b);
        same_slot("walk over JudyL", a, p, q);
        p = ours.f.JudyLPrev(ours.map, &a, PJE0);
        q = stock.f.JudyLPrev(stock.map, &b, PJE0);
    }
    same_slot("end of the walk over JudyL", a, p, q);
    uint8_t s[TEXT_MAX] = {0}, t[TEXT_MAX] = {0};
    p = ours.f.JudySLFirst(ours.text, s, PJE0), q = stock.f.JudySLFirst(stock.text, t, PJE0);
    while (p && q) {
        same("walk over JudySL", *(uint64_t *)s, (uint64_t)strcmp((char *)s, (char *)t), 0);
        same_slot("walk over JudySL", *(uint64_t *)s, p, q);
        p = ours.f.JudySLNext(ours.text, s, PJE0);
        q = stock.f.JudySLNext(stock.text, t, PJE0);
    }
    same_slot("end of the walk over JudySL", 0, p, q);
    same("Judy1MemUsed of nothing", 0, ours.f.Judy1MemUsed(NULL), stock.f.Judy1MemUsed(NULL));
    same("JudyLMemUsed of nothing", 0, ours.f.JudyLMemUsed(NULL), stock.f.JudyLMemUsed(NULL));
}

/* Whole arrays from sorted indexes, and from unsorted ones. */
static void array_operations(void) {
    static Word_t keys[2000], values[2000];
    Word_t n = below(COUNT(keys)), key = random_key();
    if (n == 31) n = 32;
    for (Word_t i = 0; i < n; i++) {
        keys[i] = key;
        values[i] = next_random();
        key += 1 + below(family == 2 ? 1ull << 40 : 3);
        if (key < keys[i]) { n = i == 30 ? 30 : i + 1; break; }
    }
    if (n == 31) n = 30;
    if (n > 100 && below(4) == 0) keys[n / 2] = keys[n / 2 - 1];
    FREE(set, Judy1FreeArray);
    FREE(map, JudyLFreeArray);
    JError_t e = {0}, g = {0};
    same("Judy1SetArray", n, (uint64_t)ours.f.Judy1SetArray(&ours.set, n, keys, &e), (uint64_t)stock.f.Judy1SetArray(&stock.set, n, keys, &g));
    same("Judy1SetArray (errno)", n, JU_ERRNO(&e), JU_ERRNO(&g));
    same("JudyLInsArray", n, (uint64_t)ours.f.JudyLInsArray(&ours.map, n, keys, values, &e), (uint64_t)stock.f.JudyLInsArray(&stock.map, n, keys, values, &g));
    same("JudyLInsArray (errno)", n, JU_ERRNO(&e), JU_ERRNO(&g));
    if (JU_ERRNO(&e) == JU_ERRNO_UNSORTED) {
        /* The stock library may keep a part of the indexes; ours keeps none. */
        same("an array of unsorted indexes", n, ours.set == NULL && ours.map == NULL, 1);
        stock.f.Judy1FreeArray(&stock.set, PJE0);
        stock.f.JudyLFreeArray(&stock.map, PJE0);
    }
    compare_all();
}

/* Wrong arguments: the same result and the same error number. */
static void error_operations(void) {
    JError_t e, g;
    Word_t keys[4] = {1, 2, 3, 4}, i = 0;
#define ERROR(call)                                                     \
    do {                                                                \
        memset(&e, 0, sizeof e);                                        \
        memset(&g, 0, sizeof g);                                        \
        Side *s = &ours;                                                \
        PJError_t err = &e;                                             \
        uint64_t a = (uint64_t)s->f.call;                               \
        (void)err;                                                      \
        s = &stock;                                                     \
        err = &g;                                                       \
        uint64_t b = (uint64_t)s->f.call;                               \
        same(#call, 0, a, b);                                           \
        same(#call " (errno)", 0, JU_ERRNO(&e), JU_ERRNO(&g));          \
    } while (0)
    ERROR(Judy1Set(NULL, 1, err));
    ERROR(Judy1Unset(NULL, 1, err));
    ERROR(Judy1SetArray(NULL, 4, keys, err));
    ERROR(Judy1FreeArray(NULL, err));
    ERROR(Judy1First(s->set, NULL, err));
    ERROR(Judy1Next(s->set, NULL, err));
    ERROR(Judy1Last(s->set, NULL, err));
    ERROR(Judy1Prev(s->set, NULL, err));
    ERROR(Judy1FirstEmpty(s->set, NULL, err));
    ERROR(Judy1NextEmpty(s->set, NULL, err));
    ERROR(Judy1LastEmpty(s->set, NULL, err));
    ERROR(Judy1PrevEmpty(s->set, NULL, err));
    ERROR(Judy1ByCount(s->set, 1, NULL, err));
    ERROR(JudyLIns(NULL, 1, err));
    ERROR(JudyLDel(NULL, 1, err));
    ERROR(JudyLInsArray(NULL, 4, keys, keys, err));
    ERROR(JudyLFreeArray(NULL, err));
    ERROR(JudyLFirst(s->map, NULL, err));
    ERROR(JudyLNext(s->map, NULL, err));
    ERROR(JudyLLast(s->map, NULL, err));
    ERROR(JudyLPrev(s->map, NULL, err));
    ERROR(JudyLFirstEmpty(s->map, NULL, err));
    ERROR(JudyLNextEmpty(s->map, NULL, err));
    ERROR(JudyLLastEmpty(s->map, NULL, err));
    ERROR(JudyLPrevEmpty(s->map, NULL, err));
    ERROR(JudyLByCount(s->map, 1, NULL, err));
    ERROR(JudySLIns(NULL, (uint8_t *)"a", err));
    ERROR(JudySLIns(&s->text, NULL, err));
    ERROR(JudySLGet(s->text, NULL, err));
    ERROR(JudySLDel(NULL, (uint8_t *)"a", err));
    ERROR(JudySLDel(&s->text, NULL, err));
    ERROR(JudySLFirst(s->text, NULL, err));
    ERROR(JudySLNext(s->text, NULL, err));
    ERROR(JudySLLast(s->text, NULL, err));
    ERROR(JudySLPrev(s->text, NULL, err));
    ERROR(JudySLFreeArray(NULL, err));
    ERROR(JudyHSIns(&s->bytes, NULL, 4, err));
    ERROR(JudyHSDel(NULL, keys, 4, err));
    ERROR(JudyHSDel(&s->bytes, NULL, 4, err));
    ERROR(JudyHSGet(s->bytes, NULL, 4));
    ERROR(JudyHSFreeArray(NULL, err));
    /* An array that is not empty, and missing indexes and values. */
    Pvoid_t old_ours = ours.map, old_stock = stock.map;
    ours.map = stock.map = NULL;
    SAME_COUNT(map, JudyLCount, 0, ~0ull);
    ERROR(JudyLInsArray(&s->map, 4, NULL, keys, err));
    ERROR(JudyLInsArray(&s->map, 4, keys, NULL, err));
    same_slot("JudyLIns", 9, ours.f.JudyLIns(&ours.map, 9, PJE0), stock.f.JudyLIns(&stock.map, 9, PJE0));
    /* Nothing below, an absent index, bounds in the wrong order, nothing above. */
    SAME_COUNT(map, JudyLCount, 0, 8);
    SAME_COUNT(map, JudyLCount, 5, 5);
    SAME_COUNT(map, JudyLCount, 9, 3);
    SAME_COUNT(map, JudyLCount, 10, ~0ull);
    SAME_COUNT(map, JudyLCount, 9, 9);
    ERROR(JudyLInsArray(&s->map, 4, keys, keys, err));
    FREE(map, JudyLFreeArray);
    ours.map = old_ours;
    stock.map = old_stock;
    (void)i;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s OUR-LIBRARY STOCK-LIBRARY [SECONDS] [SEED]\n", argv[0]);
        return 2;
    }
    load(&ours.f, argv[1]);
    load(&stock.f, argv[2]);
    double seconds = argc > 3 ? atof(argv[3]) : 10;
    state = argc > 4 ? strtoull(argv[4], NULL, 0) : 1;
    time_t end = time(NULL) + (time_t)seconds;
    uint64_t rounds = 0;
    Pvoid_t memory = (Pvoid_t)ours.f.JudyMalloc(4);
    ours.f.JudyFree(memory, 4);
    memory = (Pvoid_t)ours.f.JudyMallocVirtual(4);
    ours.f.JudyFreeVirtual(memory, 4);
    error_operations();
    while (rounds == 0 || time(NULL) < end) {
        family = (int)(rounds % 7);
        uint64_t length = below(8) == 0 ? 60000 : 3000;
        for (uint64_t i = 0; i < length; i++, operations++) {
            switch (below(8)) {
            case 0: case 1: set_operation(); break;
            case 2: case 3: case 4: map_operation(); break;
            case 5: case 6: text_operation(); break;
            default: bytes_operation();
            }
        }
        compare_all();
        array_operations();
        error_operations();
        FREE(set, Judy1FreeArray);
        FREE(map, JudyLFreeArray);
        FREE(text, JudySLFreeArray);
        FREE(bytes, JudyHSFreeArray);
        rounds++;
    }
    printf("Passed: %llu operations in %llu rounds, no difference\n", (unsigned long long)operations,
           (unsigned long long)rounds);
    return 0;
}
