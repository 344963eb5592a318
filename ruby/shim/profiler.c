/*
 * GC::Profiler: one record for each collection while it is on. Times are CPU time of
 * the process, as in the default collector.
 */
#include "ruby/ruby.h"

#include "ashlar_ruby.h"
#include "shim.h"

#define SECONDS_PER_NS 1e-9

static double
gc_seconds(const struct ashlar_profile_record *record)
{
    return (double)(record->mark_ns + record->sweep_ns) * SECONDS_PER_NS;
}

static VALUE
is_enabled(VALUE self)
{
    return RBOOL(ashlar_profiles(ashlar_objspace()));
}

static VALUE
enable(VALUE self)
{
    ashlar_set_profiling(ashlar_objspace(), true);
    return Qnil;
}

static VALUE
disable(VALUE self)
{
    ashlar_set_profiling(ashlar_objspace(), false);
    return Qnil;
}

static VALUE
clear(VALUE self)
{
    ashlar_clear_profile(ashlar_objspace());
    return Qnil;
}

static void
set(VALUE hash, const char *name, VALUE value)
{
    rb_hash_aset(hash, ID2SYM(rb_intern(name)), value);
}

static VALUE
record_hash(const struct ashlar_profile_record *record)
{
    VALUE hash = rb_hash_new();
    set(hash, "GC_FLAGS", ashlar_collection_flags(&record->collection));
    set(hash, "GC_TIME", DBL2NUM(gc_seconds(record)));
    set(hash, "GC_INVOKE_TIME", DBL2NUM((double)record->start_ns * SECONDS_PER_NS));
    set(hash, "HEAP_USE_SIZE", SIZET2NUM(record->used_bytes));
    set(hash, "HEAP_TOTAL_SIZE", SIZET2NUM(record->total_bytes));
    set(hash, "HEAP_TOTAL_OBJECTS", SIZET2NUM(record->available_cells));
    set(hash, "MOVED_OBJECTS", ULL2NUM(record->moved_objects));
    set(hash, "GC_IS_MARKED", Qtrue);
    set(hash, "GC_MARK_TIME", DBL2NUM((double)record->mark_ns * SECONDS_PER_NS));
    set(hash, "GC_SWEEP_TIME", DBL2NUM((double)record->sweep_ns * SECONDS_PER_NS));
    set(hash, "HEAP_LIVE_OBJECTS", SIZET2NUM(record->live_cells));
    set(hash, "HEAP_FREE_OBJECTS", SIZET2NUM(record->available_cells - record->live_cells));
    set(hash, "HAVE_FINALIZE", RBOOL(record->collection.have_finalizers));
    return hash;
}

/* Collections may add records while this runs, so each record is read by its number. */
static VALUE
raw_data(VALUE self)
{
    void *objspace = ashlar_objspace();
    if (!ashlar_profiles(objspace)) return Qnil;
    struct ashlar_profile_record record;
    size_t count = ashlar_profile_length(objspace);
    VALUE records = rb_ary_new();
    for (size_t i = 0; i < count && ashlar_profile_record(objspace, i, &record); i++) {
        rb_ary_push(records, record_hash(&record));
    }
    return records;
}

static VALUE
total_time(VALUE self)
{
    void *objspace = ashlar_objspace();
    struct ashlar_profile_record record;
    double seconds = 0;
    for (size_t i = 0; ashlar_profile_record(objspace, i, &record); i++) seconds += gc_seconds(&record);
    return DBL2NUM(seconds);
}

static VALUE
line(size_t number, const struct ashlar_profile_record *record)
{
    return rb_sprintf("%5"PRIuSIZE" %15.3f %15"PRIuSIZE" %15"PRIuSIZE" %12"PRIuSIZE" %12.6f %12.6f %12.6f\n", number,
                      (double)record->start_ns * SECONDS_PER_NS, (size_t)record->used_bytes,
                      (size_t)record->total_bytes, (size_t)record->available_cells,
                      (double)record->mark_ns * SECONDS_PER_NS * 1000,
                      (double)record->sweep_ns * SECONDS_PER_NS * 1000, gc_seconds(record) * 1000);
}

/* Returns the table as a string; it is empty when there are no records. */
static VALUE
result(VALUE self)
{
    void *objspace = ashlar_objspace();
    VALUE table = rb_str_new(NULL, 0);
    size_t count = ashlar_profile_length(objspace);
    if (!ashlar_profiles(objspace) || count == 0) return table;
    rb_str_append(table, rb_sprintf("GC %"PRIuSIZE" invokes.\n", ashlar_collection_count(objspace)));
    rb_str_append(table, rb_sprintf("%5s %15s %15s %15s %12s %12s %12s %12s\n", "Index", "CPU before (s)", "Used (bytes)",
                                    "Heap (bytes)", "Cells", "Mark (ms)", "Sweep (ms)", "GC (ms)"));
    struct ashlar_profile_record record;
    for (size_t i = 0; i < count && ashlar_profile_record(objspace, i, &record); i++) {
        rb_str_append(table, line(i + 1, &record));
    }
    return table;
}

static VALUE
report(int argc, VALUE *argv, VALUE self)
{
    rb_check_arity(argc, 0, 1);
    VALUE out = argc == 0 ? rb_stdout : argv[0];
    VALUE table = result(self);
    if (RSTRING_LEN(table) > 0) rb_io_write(out, table);
    return Qnil;
}

void
ashlar_define_profiler(void)
{
    VALUE profiler = rb_define_module_under(rb_mGC, "Profiler");
    rb_define_singleton_method(profiler, "enabled?", is_enabled, 0);
    rb_define_singleton_method(profiler, "enable", enable, 0);
    rb_define_singleton_method(profiler, "raw_data", raw_data, 0);
    rb_define_singleton_method(profiler, "disable", disable, 0);
    rb_define_singleton_method(profiler, "clear", clear, 0);
    rb_define_singleton_method(profiler, "result", result, 0);
    rb_define_singleton_method(profiler, "report", report, -1);
    rb_define_singleton_method(profiler, "total_time", total_time, 0);
}
