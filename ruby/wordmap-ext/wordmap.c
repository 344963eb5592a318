/* Ashlar::WordMap: a sparse array. Integer keys, any values, kept in key order.
 *
 * The keys are the signed 64-bit integers; flipping the sign bit makes their
 * order that of the map's unsigned words. Values lie in the map's nodes: the
 * collector visits them there, and may move what they refer to. */
#include <ruby.h>

#include "ashlar_wordmap.h"

/* Of the library's Judy-like interface, what is used here. */
extern uint64_t *JudyLIns(void **array, uint64_t index, void *error);
extern uint64_t *JudyLGet(const void *array, uint64_t index, void *error);
extern int JudyLDel(void **array, uint64_t index, void *error);
extern uint64_t *JudyLFirst(const void *array, uint64_t *index, void *error);
extern uint64_t *JudyLNext(const void *array, uint64_t *index, void *error);
extern uint64_t *JudyLLast(const void *array, uint64_t *index, void *error);
extern uint64_t *JudyLPrev(const void *array, uint64_t *index, void *error);
extern uint64_t *JudyLByCount(const void *array, uint64_t nth, uint64_t *index, void *error);
extern uint64_t JudyLCount(const void *array, uint64_t low, uint64_t high, void *error);
extern size_t JudyLFreeArray(void **array, void *error);
extern size_t JudyLMemUsed(const void *array);

#define SIGN (UINT64_C(1) << 63)

typedef struct {
    void *root;
    /* Bytes of nodes that the collector has been told of, and keys set and deleted since. */
    size_t told, changes;
} word_map;

/* Tells the collector what memory the nodes take, which it does not see: they are no memory of
 * malloc. */
static void tell_bytes(word_map *map, size_t bytes) {
    rb_gc_adjust_memory_usage((ssize_t)bytes - (ssize_t)map->told);
    map->told = bytes;
    map->changes = 0;
}

/* Tells the collector again when the map may have become a third larger or smaller: adding up the
 * bytes of all nodes takes time. */
static void note_change(word_map *map) {
    if (++map->changes < 8 || map->changes < map->told / 32) return;
    tell_bytes(map, JudyLMemUsed(map->root));
}

static void free_nodes(word_map *map) {
    JudyLFreeArray(&map->root, NULL);
    if (map->told) tell_bytes(map, 0);
}

static void mark_value(uint64_t index, uint64_t *value, void *argument) {
    (void)index;
    (void)argument;
    rb_gc_mark_movable((VALUE)*value);
}

static void map_mark(void *data) {
    ashlar_wordmap_each(((word_map *)data)->root, mark_value, NULL);
}

static void move_value(uint64_t index, uint64_t *value, void *argument) {
    (void)index;
    (void)argument;
    *value = (uint64_t)rb_gc_location((VALUE)*value);
}

static void map_compact(void *data) {
    ashlar_wordmap_each(((word_map *)data)->root, move_value, NULL);
}

static void map_free(void *data) {
    free_nodes(data);
    ruby_xfree(data);
}

static size_t map_memsize(const void *data) {
    return sizeof(word_map) + JudyLMemUsed(((const word_map *)data)->root);
}

static const rb_data_type_t map_type = {
    .wrap_struct_name = "Ashlar::WordMap",
    .function = {.dmark = map_mark, .dfree = map_free, .dsize = map_memsize, .dcompact = map_compact},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

static VALUE map_allocate(VALUE class) {
    word_map *map;
    return TypedData_Make_Struct(class, word_map, &map_type, map);
}

static word_map *get_map(VALUE self) {
    return (word_map *)rb_check_typeddata(self, &map_type);
}

/* A key as the map has it. Anything but an Integer of 64 bits is refused. */
static uint64_t to_index(VALUE key) {
    if (!RB_INTEGER_TYPE_P(key))
        rb_raise(rb_eTypeError, "keys of an Ashlar::WordMap are Integers, not %s", rb_obj_classname(key));
    return (uint64_t)NUM2LL(key) ^ SIGN;
}

static VALUE to_key(uint64_t index) { return LL2NUM((long long)(index ^ SIGN)); }

/* The bounds of a Range of keys, both included. False for one without keys. */
static int to_bounds(VALUE range, uint64_t *low, uint64_t *high) {
    VALUE first, last;
    int exclusive;
    if (!rb_range_values(range, &first, &last, &exclusive))
        rb_raise(rb_eTypeError, "a Range of Integers is needed, not %s", rb_obj_classname(range));
    *low = NIL_P(first) ? 0 : to_index(first);
    *high = NIL_P(last) ? UINT64_MAX : to_index(last);
    if (exclusive && !NIL_P(last)) {
        if (*high == 0) return 0;
        (*high)--;
    }
    return *low <= *high;
}

/* call-seq: map[key] -> value or nil */
static VALUE map_get(VALUE self, VALUE key) {
    uint64_t *value = JudyLGet(get_map(self)->root, to_index(key), NULL);
    return value ? (VALUE)*value : Qnil;
}

/* call-seq: map[key] = value */
static VALUE map_set(VALUE self, VALUE key, VALUE value) {
    rb_check_frozen(self);
    word_map *map = get_map(self);
    uint64_t *place = JudyLIns(&map->root, to_index(key), NULL);
    if (place == (uint64_t *)UINTPTR_MAX) rb_memerror();
    *place = (uint64_t)value;
    RB_OBJ_WRITTEN(self, Qundef, value);
    note_change(map);
    return value;
}

/* call-seq: map.fetch(key) -> value, map.fetch(key, default), map.fetch(key) { |key| ... } */
static VALUE map_fetch(int argc, VALUE *argv, VALUE self) {
    rb_check_arity(argc, 1, 2);
    uint64_t *value = JudyLGet(get_map(self)->root, to_index(argv[0]), NULL);
    if (value) return (VALUE)*value;
    if (rb_block_given_p()) return rb_yield(argv[0]);
    if (argc == 2) return argv[1];
    rb_raise(rb_eKeyError, "key not found: %" PRIsVALUE, argv[0]);
}

/* call-seq: map.key?(key) -> true or false */
static VALUE map_has_key(VALUE self, VALUE key) {
    return JudyLGet(get_map(self)->root, to_index(key), NULL) ? Qtrue : Qfalse;
}

/* call-seq: map.delete(key) -> value or nil */
static VALUE map_delete(VALUE self, VALUE key) {
    rb_check_frozen(self);
    word_map *map = get_map(self);
    uint64_t index = to_index(key);
    uint64_t *place = JudyLGet(map->root, index, NULL);
    if (!place) return Qnil;
    VALUE value = (VALUE)*place;
    JudyLDel(&map->root, index, NULL);
    note_change(map);
    return value;
}

/* call-seq: map.length -> Integer */
static VALUE map_length(VALUE self) {
    return ULL2NUM(JudyLCount(get_map(self)->root, 0, UINT64_MAX, NULL));
}

static VALUE map_is_empty(VALUE self) { return get_map(self)->root ? Qfalse : Qtrue; }

/* call-seq: map.clear -> map */
static VALUE map_clear(VALUE self) {
    rb_check_frozen(self);
    free_nodes(get_map(self));
    return self;
}

static VALUE length_of_enumerator(VALUE self, VALUE arguments, VALUE enumerator) {
    (void)arguments;
    (void)enumerator;
    return map_length(self);
}

/* The walks find each next key from the last one, so the block may change the map. */
static void each_between(VALUE self, uint64_t low, uint64_t high, VALUE (*yield)(VALUE, VALUE)) {
    uint64_t index = low;
    uint64_t *value = JudyLFirst(get_map(self)->root, &index, NULL);
    while (value && index <= high) {
        yield(to_key(index), (VALUE)*value);
        value = JudyLNext(get_map(self)->root, &index, NULL);
    }
}

static VALUE yield_pair(VALUE key, VALUE value) { return rb_yield(rb_assoc_new(key, value)); }
static VALUE yield_key(VALUE key, VALUE value) { (void)value; return rb_yield(key); }
static VALUE yield_value(VALUE key, VALUE value) { (void)key; return rb_yield(value); }

/* call-seq: map.each { |key, value| ... } -> map, in key order */
static VALUE map_each(VALUE self) {
    RETURN_SIZED_ENUMERATOR(self, 0, 0, length_of_enumerator);
    each_between(self, 0, UINT64_MAX, yield_pair);
    return self;
}

/* call-seq: map.each_key { |key| ... } -> map */
static VALUE map_each_key(VALUE self) {
    RETURN_SIZED_ENUMERATOR(self, 0, 0, length_of_enumerator);
    each_between(self, 0, UINT64_MAX, yield_key);
    return self;
}

/* call-seq: map.each_value { |value| ... } -> map */
static VALUE map_each_value(VALUE self) {
    RETURN_SIZED_ENUMERATOR(self, 0, 0, length_of_enumerator);
    each_between(self, 0, UINT64_MAX, yield_value);
    return self;
}

/* call-seq: map.each_in(range) { |key, value| ... } -> map, keys of the range only */
static VALUE map_each_in(VALUE self, VALUE range) {
    uint64_t low, high;
    RETURN_ENUMERATOR(self, 1, &range);
    if (to_bounds(range, &low, &high)) each_between(self, low, high, yield_pair);
    return self;
}

/* call-seq: map.reverse_each { |key, value| ... } -> map, highest key first */
static VALUE map_reverse_each(VALUE self) {
    RETURN_SIZED_ENUMERATOR(self, 0, 0, length_of_enumerator);
    uint64_t index = UINT64_MAX;
    uint64_t *value = JudyLLast(get_map(self)->root, &index, NULL);
    while (value) {
        yield_pair(to_key(index), (VALUE)*value);
        value = JudyLPrev(get_map(self)->root, &index, NULL);
    }
    return self;
}

/* call-seq: map.count_in(range) -> Integer, without walking over the entries */
static VALUE map_count_in(VALUE self, VALUE range) {
    uint64_t low, high;
    if (!to_bounds(range, &low, &high)) return INT2FIX(0);
    return ULL2NUM(JudyLCount(get_map(self)->root, low, high, NULL));
}

static VALUE pair_or_nil(uint64_t index, uint64_t *value) {
    return value ? rb_assoc_new(to_key(index), (VALUE)*value) : Qnil;
}

/* call-seq: map.at_or_after(key) -> [key, value] or nil */
static VALUE map_at_or_after(VALUE self, VALUE key) {
    uint64_t index = to_index(key);
    uint64_t *value = JudyLFirst(get_map(self)->root, &index, NULL);
    return pair_or_nil(index, value);
}

/* call-seq: map.at_or_before(key) -> [key, value] or nil */
static VALUE map_at_or_before(VALUE self, VALUE key) {
    uint64_t index = to_index(key);
    uint64_t *value = JudyLLast(get_map(self)->root, &index, NULL);
    return pair_or_nil(index, value);
}

/* call-seq: map.nth(n) -> [key, value] or nil; n counts from 0 */
static VALUE map_nth(VALUE self, VALUE nth) {
    uint64_t index = 0, n = NUM2ULL(nth);
    if (n == UINT64_MAX) return Qnil;
    uint64_t *value = JudyLByCount(get_map(self)->root, n + 1, &index, NULL);
    return pair_or_nil(index, value);
}

/* call-seq: map.memsize -> Integer, the bytes of the map and its nodes */
static VALUE map_memsize_method(VALUE self) { return SIZET2NUM(map_memsize(get_map(self))); }

static VALUE map_initialize_copy(VALUE self, VALUE other) {
    if (self == other) return self;
    rb_check_frozen(self);
    get_map(other);
    map_clear(self);
    uint64_t index = 0;
    uint64_t *value = JudyLFirst(get_map(other)->root, &index, NULL);
    while (value) {
        map_set(self, to_key(index), (VALUE)*value);
        value = JudyLNext(get_map(other)->root, &index, NULL);
    }
    return self;
}

/* Whether two maps of one length have equal entries. As for an Array, two maps that are being
 * compared already, further out, count as equal. */
static VALUE have_equal_entries(VALUE self, VALUE other, int is_within) {
    if (is_within) return Qtrue;
    uint64_t a = 0, b = 0;
    uint64_t *x = JudyLFirst(get_map(self)->root, &a, NULL);
    uint64_t *y = JudyLFirst(get_map(other)->root, &b, NULL);
    while (x && y) {
        if (a != b || !rb_equal((VALUE)*x, (VALUE)*y)) return Qfalse;
        x = JudyLNext(get_map(self)->root, &a, NULL);
        y = JudyLNext(get_map(other)->root, &b, NULL);
    }
    return x == y ? Qtrue : Qfalse;
}

/* call-seq: map == other -> whether it is a WordMap with equal entries */
static VALUE map_equal(VALUE self, VALUE other) {
    if (self == other) return Qtrue;
    if (!rb_typeddata_is_kind_of(other, &map_type)) return Qfalse;
    if (!rb_equal(map_length(self), map_length(other))) return Qfalse;
    return rb_exec_recursive_paired(have_equal_entries, self, other, other);
}

static VALUE inspect_entries(VALUE self, VALUE argument, int is_within) {
    (void)argument;
    if (is_within) return rb_utf8_str_new_cstr("#<Ashlar::WordMap {...}>");
    VALUE text = rb_utf8_str_new_cstr("#<Ashlar::WordMap {");
    uint64_t index = 0;
    uint64_t *place = JudyLFirst(get_map(self)->root, &index, NULL);
    for (const char *before = ""; place; before = ", ") {
        VALUE value = (VALUE)*place;
        rb_str_cat_cstr(text, before);
        rb_str_append(text, rb_inspect(to_key(index)));
        rb_str_cat_cstr(text, "=>");
        rb_str_append(text, rb_inspect(value));
        place = JudyLNext(get_map(self)->root, &index, NULL);
    }
    return rb_str_cat_cstr(text, "}>");
}

/* call-seq: map.inspect -> String */
static VALUE map_inspect(VALUE self) { return rb_exec_recursive(inspect_entries, self, Qnil); }

void Init_wordmap(void) {
    VALUE module = rb_define_module("Ashlar");
    VALUE class = rb_define_class_under(module, "WordMap", rb_cObject);
    rb_include_module(class, rb_mEnumerable);
    rb_define_alloc_func(class, map_allocate);
    rb_define_method(class, "initialize_copy", map_initialize_copy, 1);
    rb_define_method(class, "[]", map_get, 1);
    rb_define_method(class, "[]=", map_set, 2);
    rb_define_method(class, "store", map_set, 2);
    rb_define_method(class, "fetch", map_fetch, -1);
    rb_define_method(class, "key?", map_has_key, 1);
    rb_define_method(class, "include?", map_has_key, 1);
    rb_define_method(class, "delete", map_delete, 1);
    rb_define_method(class, "length", map_length, 0);
    rb_define_method(class, "size", map_length, 0);
    rb_define_method(class, "empty?", map_is_empty, 0);
    rb_define_method(class, "clear", map_clear, 0);
    rb_define_method(class, "each", map_each, 0);
    rb_define_method(class, "each_pair", map_each, 0);
    rb_define_method(class, "each_key", map_each_key, 0);
    rb_define_method(class, "each_value", map_each_value, 0);
    rb_define_method(class, "each_in", map_each_in, 1);
    rb_define_method(class, "reverse_each", map_reverse_each, 0);
    rb_define_method(class, "count_in", map_count_in, 1);
    rb_define_method(class, "at_or_after", map_at_or_after, 1);
    rb_define_method(class, "at_or_before", map_at_or_before, 1);
    rb_define_method(class, "nth", map_nth, 1);
    rb_define_method(class, "memsize", map_memsize_method, 0);
    rb_define_method(class, "==", map_equal, 1);
    rb_define_method(class, "inspect", map_inspect, 0);
    rb_define_alias(class, "to_s", "inspect");
    rb_eval_string(
        "class Ashlar::WordMap\n"
        "  def keys = each_key.to_a\n"
        "  def values = each_value.to_a\n"
        "  def to_h(&block) = block ? super : each.each_with_object({}) { |(k, v), h| h[k] = v }\n"
        "end\n");
}
