#include "shim.h"
#include "ashlar_ruby.h"
VALUE ashlar_gc_stat(void *objspace, VALUE hash_or_symbol)
{
    struct ashlar_statistics s; ashlar_statistics(objspace, &s);
    if (SYMBOL_P(hash_or_symbol)) return SIZET2NUM(s.count);
    rb_hash_aset(hash_or_symbol, ID2SYM(rb_intern("count")), SIZET2NUM(s.count));
    rb_hash_aset(hash_or_symbol, ID2SYM(rb_intern("minor_gc_count")), SIZET2NUM(s.minor_count));
    rb_hash_aset(hash_or_symbol, ID2SYM(rb_intern("major_gc_count")), SIZET2NUM(s.major_count));
    return hash_or_symbol;
}
VALUE ashlar_gc_stat_heap(void *objspace, VALUE heap_name, VALUE hash_or_symbol) { return hash_or_symbol; }
VALUE ashlar_latest_gc_info(void *objspace, VALUE hash_or_symbol) { return SYMBOL_P(hash_or_symbol) ? Qundef : hash_or_symbol; }
VALUE ashlar_config(void *objspace) { return rb_hash_new(); }
void ashlar_config_update(void *objspace, VALUE hash) { }
