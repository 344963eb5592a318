/*
 * GC.stat, GC.stat_heap and GC.latest_gc_info: first counters under the names that Ruby's
 * default collector gives them, then those that only ashlar has. docs/reference/statistics.md says
 * what each name means here.
 */
#include "ruby/ruby.h"

#include "ashlar_ruby.h"
#include "inlined.h"
#include "shim.h"

/* The keys of a hash of counters, with the names and in the order that Rust gives them. */
struct keys {
    const char *(*name)(size_t index);
    size_t count; /* 0 until there are symbols */
    VALUE symbols[ASHLAR_KEYS_MAX];
};

static struct keys statistics = { .name = ashlar_key }, width_statistics = { .name = ashlar_width_key };

static void
intern(struct keys *keys)
{
    if (keys->count) return;
    size_t count = 0;
    for (const char *name; (name = keys->name(count)); count++) keys->symbols[count] = ID2SYM(rb_intern(name));
    keys->count = count;
}

/* The index of this symbol among the keys; the number of keys when it is not one of
   them. */
static size_t
find(const struct keys *keys, VALUE symbol)
{
    size_t index = 0;
    while (index < keys->count && keys->symbols[index] != symbol) index++;
    return index;
}

static VALUE
fill(VALUE hash, const struct keys *keys, const uint64_t *values)
{
    for (size_t i = 0; i < keys->count; i++) rb_hash_aset(hash, keys->symbols[i], ULL2NUM(values[i]));
    return hash;
}

VALUE
ashlar_gc_stat(void *objspace, VALUE hash_or_symbol)
{
    uint64_t values[ASHLAR_KEYS_MAX];
    intern(&statistics);
    if (SYMBOL_P(hash_or_symbol)) {
        size_t index = find(&statistics, hash_or_symbol);
        if (index == statistics.count) return Qundef;
        ashlar_count(objspace, index, 1, values);
        return ULL2NUM(values[0]);
    }
    ashlar_count(objspace, 0, statistics.count, values);
    return fill(hash_or_symbol, &statistics, values);
}

static VALUE
hash_at(VALUE hash, VALUE key)
{
    VALUE found = rb_hash_aref(hash, key);
    if (RB_TYPE_P(found, T_HASH)) return found;
    found = rb_hash_new();
    rb_hash_aset(hash, key, found);
    return found;
}

VALUE
ashlar_gc_stat_heap(void *objspace, VALUE heap_name, VALUE hash_or_symbol)
{
    size_t count = ASHLAR_WIDTHS;
    intern(&width_statistics);
    uint64_t *values = ALLOCA_N(uint64_t, count * width_statistics.count);
    ashlar_count_widths(objspace, values);
    if (NIL_P(heap_name)) {
        for (size_t i = 0; i < count; i++) {
            fill(hash_at(hash_or_symbol, SIZET2NUM(i)), &width_statistics, &values[i * width_statistics.count]);
        }
        return hash_or_symbol;
    }
    long width = FIX2LONG(heap_name);
    if (width < 0 || (size_t)width >= count) {
        rb_raise(rb_eArgError, "heap %ld: a number from 0 to %"PRIuSIZE" is wanted", width, count - 1);
    }
    values += (size_t)width * width_statistics.count;
    if (SYMBOL_P(hash_or_symbol)) {
        size_t index = find(&width_statistics, hash_or_symbol);
        return index < width_statistics.count ? ULL2NUM(values[index]) : Qundef;
    }
    return fill(hash_or_symbol, &width_statistics, values);
}

/* ── The latest collection ───────────────────────────────────────────────── */

/* A literal's ID is looked up once: rb_intern keeps it. */
#define SYMBOL(literal) ID2SYM(rb_intern(literal))

static VALUE
reason_name(enum ashlar_reason reason)
{
    switch (reason) {
      case ASHLAR_REASON_NONE: return Qnil;
      case ASHLAR_REASON_NEWOBJ: return SYMBOL("newobj");
      case ASHLAR_REASON_MALLOC: return SYMBOL("malloc");
      case ASHLAR_REASON_METHOD: return SYMBOL("method");
      case ASHLAR_REASON_STRESS: return SYMBOL("stress");
    }
    return Qnil;
}

static VALUE
major_by_name(enum ashlar_major_by reason)
{
    switch (reason) {
      case ASHLAR_MAJOR_BY_NONE: return Qnil;
      case ASHLAR_MAJOR_BY_FORCED: return SYMBOL("force");
      case ASHLAR_MAJOR_BY_OUTGROWN: return SYMBOL("oldgen");
      case ASHLAR_MAJOR_BY_MEMORY: return SYMBOL("nofree");
    }
    return Qnil;
}

static VALUE
state_name(const struct ashlar_latest *now)
{
    return now->marking ? SYMBOL("marking") : now->sweeping ? SYMBOL("sweeping") : SYMBOL("none");
}

/* Where `show` puts the values that the caller asks for. */
struct answer {
    VALUE hash_or_symbol;
    VALUE found;
};

static void
show(struct answer *answer, VALUE key, VALUE value)
{
    if (!SYMBOL_P(answer->hash_or_symbol)) {
        rb_hash_aset(answer->hash_or_symbol, key, value);
    }
    else if (answer->hash_or_symbol == key) {
        answer->found = value;
    }
}

/* What stays true of a collection after it, and, if `now` is given, what is true only
   now. */
static VALUE
collection_info(const struct ashlar_collection *collection, const struct ashlar_latest *now, VALUE hash_or_symbol)
{
    struct answer answer = { hash_or_symbol, Qundef };
    show(&answer, SYMBOL("major_by"), major_by_name(collection->major_by));
    if (now) show(&answer, SYMBOL("need_major_by"), major_by_name(now->next_major_by));
    show(&answer, SYMBOL("gc_by"), reason_name(collection->reason));
    show(&answer, SYMBOL("have_finalizer"), RBOOL(collection->have_finalizers));
    show(&answer, SYMBOL("immediate_sweep"), RBOOL(collection->sweep_now));
    if (now) show(&answer, SYMBOL("state"), state_name(now));
    show(&answer, SYMBOL("weak_references_count"), SIZET2NUM(collection->weak_references));
    show(&answer, SYMBOL("retained_weak_references_count"), SIZET2NUM(collection->retained_weak_references));
    return SYMBOL_P(hash_or_symbol) ? answer.found : hash_or_symbol;
}

VALUE
ashlar_latest_gc_info(void *objspace, VALUE hash_or_symbol)
{
    struct ashlar_latest latest;
    ashlar_latest(objspace, &latest);
    return collection_info(&latest.collection, &latest, hash_or_symbol);
}

VALUE
ashlar_collection_flags(const struct ashlar_collection *collection)
{
    return collection_info(collection, NULL, rb_hash_new());
}
