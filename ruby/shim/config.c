/*
 * GC.config: the default collector's one option, then ashlar's own, which have the names of
 * their environment variables without ASHLAR_. As Ruby documents, keys that are no option are
 * ignored, so that a program can name options of several collectors. An impossible value is
 * refused, and then no option has changed. The key `dump` is an order, which is carried out
 * after the options are set.
 */
#include "ruby/ruby.h"
#include "ruby/thread.h"

#include <errno.h>
#include <string.h>

#include "ashlar_ruby.h"
#include "inlined.h"
#include "shim.h"

static VALUE
full_mark_key(void)
{
    return ID2SYM(rb_intern("rgengc_allow_full_mark"));
}

/* The key `dump` is no option: GC.config(dump: "file") writes a dump of the heap. */
static VALUE
dump_key(void)
{
    return ID2SYM(rb_intern("dump"));
}

static VALUE
message_text(char *message)
{
    VALUE text = rb_utf8_str_new_cstr(message);
    ashlar_message_free(message);
    return text;
}

static VALUE
option_value(const struct ashlar_option *option)
{
    switch (option->kind) {
      case ASHLAR_OPTION_NUMBER: break;
      case ASHLAR_OPTION_THOUSANDTHS: return DBL2NUM((double)option->number / 1000);
      case ASHLAR_OPTION_SWITCH: return RBOOL(option->number);
      case ASHLAR_OPTION_WORD: {
        VALUE text = message_text(option->word);
        return strcmp(RSTRING_PTR(text), "none") == 0 ? Qnil : text;
      }
    }
    return SIZET2NUM(option->number);
}

VALUE
ashlar_config(void *objspace)
{
    VALUE hash = rb_hash_new();
    struct ashlar_option option;
    rb_hash_aset(hash, full_mark_key(), RBOOL(ashlar_is_on(&ashlar_knobs.full_marking_allowed)));
    for (size_t i = 0; ashlar_option(objspace, i, &option); i++) {
        VALUE name = ID2SYM(rb_intern2(option.name, (long)option.name_bytes));
        rb_hash_aset(hash, name, option_value(&option));
    }
    return hash;
}

/* Returns a value as the text that the environment variable would have. */
static VALUE
as_text(VALUE value)
{
    if (NIL_P(value)) return rb_str_new_cstr("none");
    if (value == Qtrue) return rb_str_new_cstr("1");
    if (value == Qfalse) return rb_str_new_cstr("0");
    if (RB_INTEGER_TYPE_P(value) || RB_FLOAT_TYPE_P(value) || SYMBOL_P(value) || RB_TYPE_P(value, T_STRING)) {
        return rb_obj_as_string(value);
    }
    return rb_inspect(value);
}

/* Appends the name and the value's text to `data`, an array. */
static int
collect_pair(VALUE key, VALUE value, VALUE data)
{
    if (!SYMBOL_P(key)) {
        rb_raise(rb_eArgError, "%+"PRIsVALUE": the name of an option is wanted, as a Symbol", key);
    }
    if (key == full_mark_key() || key == dump_key()) return ST_CONTINUE;
    rb_ary_push(data, rb_sym2str(key));
    rb_ary_push(data, as_text(value));
    return ST_CONTINUE;
}

static void
refuse(char *refusal, VALUE error)
{
    rb_raise(error, "%"PRIsVALUE, message_text(refusal));
}

static void
set_options(void *objspace, VALUE texts)
{
    long count = RARRAY_LEN(texts) / 2;
    VALUE room;
    struct ashlar_pair *pairs = ALLOCV_N(struct ashlar_pair, room, count + 1);
    for (long i = 0; i < count; i++) {
        VALUE name = RARRAY_AREF(texts, 2 * i), value = RARRAY_AREF(texts, 2 * i + 1);
        pairs[i] = (struct ashlar_pair){
            RSTRING_PTR(name), RSTRING_LEN(name), RSTRING_PTR(value), RSTRING_LEN(value)
        };
    }
    bool is_memory_out = false;
    char *refusal = ashlar_configure(objspace, pairs, (size_t)count, &is_memory_out);
    ALLOCV_END(room);
    RB_GC_GUARD(texts);
    if (refusal) refuse(refusal, is_memory_out ? rb_eNoMemError : rb_eArgError);
}

static VALUE
dump_path(VALUE path)
{
    if (!RB_TYPE_P(path, T_STRING) && !rb_respond_to(path, rb_intern("to_path"))) {
        rb_raise(rb_eArgError, "dump=%+"PRIsVALUE": the path of a file to write is wanted", path);
    }
    path = rb_str_encode_ospath(rb_get_path(path));
    if (RSTRING_LEN(path) == 0) rb_raise(rb_eArgError, "dump=\"\": the path of a file to write is wanted");
    return path;
}

/* A dump under way. */
struct dumping {
    void *objspace;
    VALUE path;
    struct ashlar_dump *dump;
    int (*step)(struct ashlar_dump *);
    int error;
};

static void *
do_step(void *argument)
{
    struct dumping *dumping = argument;
    dumping->error = dumping->step(dumping->dump);
    return NULL;
}

/* Runs a step that may wait for others. They run meanwhile, and a signal or Thread#kill ends
   it. */
static int
without_gvl(struct dumping *dumping, int (*step)(struct ashlar_dump *))
{
    dumping->step = step;
    do {
        dumping->error = EINTR;
        rb_thread_call_without_gvl(do_step, dumping, RUBY_UBF_IO, NULL);
    } while (dumping->error == EINTR);
    return dumping->error;
}

static VALUE
write_dump(VALUE argument)
{
    struct dumping *dumping = (struct dumping *)argument;
    int error = without_gvl(dumping, ashlar_open_dump);
    if (!error) error = ashlar_write_dump(dumping->objspace, dumping->dump);
    if (!error) error = without_gvl(dumping, ashlar_pour_dump);
    if (error == ENOMEM) rb_memerror();
    if (error) rb_syserr_fail_str(error, rb_sprintf("GC.config(dump: %+"PRIsVALUE")", dumping->path));
    return Qnil;
}

static VALUE
free_dump(VALUE argument)
{
    ashlar_free_dump(((struct dumping *)argument)->dump);
    return Qnil;
}

static void
dump(void *objspace, VALUE path)
{
    struct dumping dumping = { .objspace = objspace, .path = path };
    dumping.dump = ashlar_new_dump(objspace, StringValueCStr(path));
    rb_ensure(write_dump, (VALUE)&dumping, free_dump, (VALUE)&dumping);
}

void
ashlar_config_update(void *objspace, VALUE hash)
{
    if (!RB_TYPE_P(hash, T_HASH)) rb_raise(rb_eArgError, "GC.config: a Hash of options is wanted");
    VALUE texts = rb_ary_new(), path = rb_hash_lookup2(hash, dump_key(), Qundef);
    if (path != Qundef) path = dump_path(path);
    rb_hash_foreach(hash, collect_pair, texts);
    if (rb_hash_lookup2(hash, ID2SYM(rb_intern("profile")), Qundef) != Qundef) ashlar_prepare_profile(objspace);
    set_options(objspace, texts);
    VALUE allowed = rb_hash_lookup2(hash, full_mark_key(), Qundef);
    if (allowed != Qundef) {
        ashlar_finish_collection(objspace);
        ashlar_turn(&ashlar_knobs.full_marking_allowed, RTEST(allowed));
    }
    if (path != Qundef) dump(objspace, path);
}
