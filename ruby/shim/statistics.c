/*
 * GC.stat, GC.stat_heap and GC.latest_gc_info: counters of the collector under
 * the names that Ruby's default collector gives them, then those that only
 * ashlar has. docs/statistics.md says what each name means here.
 */
#include "ruby/ruby.h"
#include "ruby/version.h"

#include "ashlar_ruby.h"
#include "shim.h"

/* A name, and where its value stands in the structure that holds it; the group
   is what has to be counted for it. */
struct key {
    const char *name;
    size_t offset;
    unsigned int group;
    VALUE symbol;
};

#define STATISTIC(name, field, group) { name, offsetof(struct ashlar_statistics, field), ASHLAR_COUNT_##group, 0 }

/* From Ruby 4.0 on a page that is empty is an allocated one. */
#if RUBY_API_VERSION_MAJOR >= 4
#define ALLOCATED_PAGES cells_or_empty_blocks
#define TOTAL_ALLOCATED_PAGES taken_or_empty_blocks
#else
#define ALLOCATED_PAGES cell_blocks
#define TOTAL_ALLOCATED_PAGES blocks_taken
#endif

static struct key statistics[] = {
    STATISTIC("count", count, COLLECTIONS),
    STATISTIC("time", time_ms, COLLECTIONS),
    STATISTIC("marking_time", mark_time_ms, COLLECTIONS),
    STATISTIC("sweeping_time", sweep_time_ms, COLLECTIONS),
    STATISTIC("heap_allocated_pages", ALLOCATED_PAGES, CELLS),
    STATISTIC("heap_empty_pages", empty_blocks, CELLS),
    STATISTIC("heap_inherited_pages", inherited_blocks, CELLS),
    STATISTIC("heap_allocatable_slots", allocatable_cells, BYTES),
    STATISTIC("heap_available_slots", available_cells, CELLS),
    STATISTIC("heap_live_slots", live_cells, CELLS),
    STATISTIC("heap_free_slots", free_cells, CELLS),
    STATISTIC("heap_final_slots", final_cells, COLLECTIONS),
    STATISTIC("heap_marked_slots", marked_cells, COLLECTIONS),
    STATISTIC("heap_eden_pages", cell_blocks, CELLS),
    STATISTIC("total_allocated_pages", TOTAL_ALLOCATED_PAGES, CELLS),
    STATISTIC("total_freed_pages", blocks_given, COLLECTIONS),
    STATISTIC("total_allocated_objects", allocated_objects, CELLS),
    STATISTIC("total_freed_objects", freed_objects, CELLS),
    STATISTIC("malloc_increase_bytes", fresh_payload_bytes, BYTES),
    STATISTIC("malloc_increase_bytes_limit", budget_bytes, BYTES),
    STATISTIC("minor_gc_count", minor_count, COLLECTIONS),
    STATISTIC("major_gc_count", major_count, COLLECTIONS),
    STATISTIC("compact_count", compact_count, COLLECTIONS),
    STATISTIC("read_barrier_faults", read_barrier_faults, COLLECTIONS),
    STATISTIC("total_moved_objects", moved_objects, COLLECTIONS),
    STATISTIC("remembered_wb_unprotected_objects", remembered_unprotected_cells, REMEMBERED),
    STATISTIC("remembered_wb_unprotected_objects_limit", remembered_unprotected_cells_limit, BYTES),
    STATISTIC("old_objects", old_cells, COLLECTIONS),
    STATISTIC("old_objects_limit", old_cells_limit, BYTES),
    STATISTIC("settled_objects", settled_cells, COLLECTIONS),
    STATISTIC("settled_boundary_objects", boundary_cells, COLLECTIONS),
    STATISTIC("complete_gc_count", complete_count, COLLECTIONS),
    STATISTIC("oldmalloc_increase_bytes", grown_bytes, BYTES),
    STATISTIC("oldmalloc_increase_bytes_limit", growth_limit_bytes, BYTES),
    STATISTIC("live_bytes", live_bytes, BYTES),
    STATISTIC("cell_bytes", cell_bytes, CELLS),
    STATISTIC("payload_bytes", payload_bytes, CELLS),
    STATISTIC("external_bytes", external_bytes, BYTES),
    STATISTIC("fresh_bytes", fresh_bytes, BYTES),
    STATISTIC("budget_bytes", budget_bytes, BYTES),
    STATISTIC("full_threshold_bytes", full_threshold_bytes, BYTES),
    STATISTIC("memory_limit_bytes", memory_limit_bytes, BYTES),
    STATISTIC("memory_limit_collections", limit_collections, BYTES),
    STATISTIC("over_memory_limit", over_limit, BYTES),
    STATISTIC("resident_bytes", resident_bytes, RESIDENCE),
    STATISTIC("released_pages", blocks_released, COLLECTIONS),
    STATISTIC("waiting_finalizers", waiting_jobs, COLLECTIONS),
    STATISTIC("pause_count", pause_count, PAUSES),
    STATISTIC("pause_us_total", pause_total_us, PAUSES),
    STATISTIC("pause_us_p50", pause_us_p50, PAUSES),
    STATISTIC("pause_us_p99", pause_us_p99, PAUSES),
    STATISTIC("pause_us_max", pause_us_max, PAUSES),
    STATISTIC("marking_threads", marking_threads, COLLECTIONS),
};

#define WIDTH_STATISTIC(name, field) { name, offsetof(struct ashlar_width_statistics, field), 0, 0 }

static struct key width_statistics[] = {
    WIDTH_STATISTIC("slot_size", width_bytes),
    WIDTH_STATISTIC("heap_eden_pages", blocks),
    WIDTH_STATISTIC("heap_eden_slots", cells),
    WIDTH_STATISTIC("total_allocated_pages", blocks_taken),
    WIDTH_STATISTIC("force_major_gc_count", forced_full_count),
    WIDTH_STATISTIC("force_incremental_marking_finish_count", forced_finish_count),
    WIDTH_STATISTIC("total_allocated_objects", allocated_objects),
    WIDTH_STATISTIC("total_freed_objects", freed_objects),
    WIDTH_STATISTIC("heap_live_slots", live_cells),
    WIDTH_STATISTIC("heap_free_slots", free_cells),
    WIDTH_STATISTIC("heap_final_slots", final_cells), /* of stock from Ruby 4.0 on */
};

#define COUNT(keys) (sizeof(keys) / sizeof((keys)[0]))

static void
intern(struct key *keys, size_t count)
{
    if (keys[count - 1].symbol) return;
    for (size_t i = 0; i < count; i++) keys[i].symbol = ID2SYM(rb_intern(keys[i].name));
}

/* The key with this symbol, NULL when there is none. */
static const struct key *
find(const struct key *keys, size_t count, VALUE symbol)
{
    for (size_t i = 0; i < count; i++) {
        if (keys[i].symbol == symbol) return &keys[i];
    }
    return NULL;
}

static VALUE
value_of(const struct key *key, const void *values)
{
    uint64_t value;
    memcpy(&value, (const char *)values + key->offset, sizeof(value));
    return ULL2NUM(value);
}

static VALUE
fill(VALUE hash, const struct key *keys, size_t count, const void *values)
{
    for (size_t i = 0; i < count; i++) rb_hash_aset(hash, keys[i].symbol, value_of(&keys[i], values));
    return hash;
}

VALUE
ashlar_gc_stat(void *objspace, VALUE hash_or_symbol)
{
    struct ashlar_statistics values;
    intern(statistics, COUNT(statistics));
    if (SYMBOL_P(hash_or_symbol)) {
        const struct key *key = find(statistics, COUNT(statistics), hash_or_symbol);
        if (!key) return Qundef;
        ashlar_statistics(objspace, key->group, &values);
        return value_of(key, &values);
    }
    ashlar_statistics(objspace, ASHLAR_COUNT_ALL, &values);
    return fill(hash_or_symbol, statistics, COUNT(statistics), &values);
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
    size_t count = ashlar_width_count();
    struct ashlar_width_statistics *widths = ALLOCA_N(struct ashlar_width_statistics, count);
    intern(width_statistics, COUNT(width_statistics));
    ashlar_width_statistics(objspace, widths);
    if (NIL_P(heap_name)) {
        for (size_t i = 0; i < count; i++) {
            fill(hash_at(hash_or_symbol, SIZET2NUM(i)), width_statistics, COUNT(width_statistics), &widths[i]);
        }
        return hash_or_symbol;
    }
    long index = FIX2LONG(heap_name);
    if (index < 0 || (size_t)index >= count) {
        rb_raise(rb_eArgError, "heap %ld: a number from 0 to %"PRIuSIZE" is wanted", index, count - 1);
    }
    if (SYMBOL_P(hash_or_symbol)) {
        const struct key *key = find(width_statistics, COUNT(width_statistics), hash_or_symbol);
        return key ? value_of(key, &widths[index]) : Qundef;
    }
    return fill(hash_or_symbol, width_statistics, COUNT(width_statistics), &widths[index]);
}

/* ── The latest collection ───────────────────────────────────────────────── */

static VALUE
symbol(const char *name)
{
    return name ? ID2SYM(rb_intern(name)) : Qnil;
}

static const char *
reason_name(enum ashlar_reason reason)
{
    switch (reason) {
      case ASHLAR_REASON_NONE: return NULL;
      case ASHLAR_REASON_NEWOBJ: return "newobj";
      case ASHLAR_REASON_MALLOC: return "malloc";
      case ASHLAR_REASON_METHOD: return "method";
      case ASHLAR_REASON_STRESS: return "stress";
    }
    return NULL;
}

static const char *
full_reason_name(enum ashlar_full_reason reason)
{
    switch (reason) {
      case ASHLAR_FULL_NONE: return NULL;
      case ASHLAR_FULL_FORCED: return "force";
      case ASHLAR_FULL_OUTGROWN: return "oldgen";
      case ASHLAR_FULL_MEMORY: return "nofree";
    }
    return NULL;
}

/* Where the walk through the keys of a collection puts what it is asked for. */
struct answer {
    VALUE hash_or_symbol;
    VALUE found;
};

static void
show(struct answer *answer, const char *name, VALUE value)
{
    VALUE key = symbol(name);
    if (!SYMBOL_P(answer->hash_or_symbol)) {
        rb_hash_aset(answer->hash_or_symbol, key, value);
    }
    else if (answer->hash_or_symbol == key) {
        answer->found = value;
    }
}

/* What stays true of a collection after it, and what is true only now. */
static VALUE
collection_info(const struct ashlar_collection *collection, const struct ashlar_latest *now, VALUE hash_or_symbol)
{
    struct answer answer = { hash_or_symbol, Qundef };
    show(&answer, "major_by", symbol(full_reason_name(collection->full_reason)));
    if (now) show(&answer, "need_major_by", symbol(full_reason_name(now->next_full_reason)));
    show(&answer, "gc_by", symbol(reason_name(collection->reason)));
    show(&answer, "have_finalizer", RBOOL(collection->have_finalizers));
    show(&answer, "immediate_sweep", RBOOL(collection->sweep_now));
    if (now) show(&answer, "state", symbol(now->marking ? "marking" : now->sweeping ? "sweeping" : "none"));
    show(&answer, "weak_references_count", SIZET2NUM(collection->weak_references));
    show(&answer, "retained_weak_references_count", SIZET2NUM(collection->retained_weak_references));
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
