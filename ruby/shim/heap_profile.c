/*
 * The heap profile: names of what was sampled. Ruby makes strings for the names, which
 * is not possible where samples are taken; so the names are looked up a little later.
 */
#include "ruby/ruby.h"
#include "ruby/debug.h"

#include <stdio.h>

#include "ashlar_ruby.h"
#include "inlined.h"
#include "shim.h"

extern int rb_bug_reporter_add(void (*func)(FILE *, void *), void *data);

static rb_postponed_job_handle_t names_job;
static bool is_ready;

void
ashlar_name_samples_soon(void)
{
    if (is_ready) rb_postponed_job_trigger(names_job);
}

static struct ashlar_text
text_of(VALUE string)
{
    if (!RB_TYPE_P(string, T_STRING)) return (struct ashlar_text){ "", 0 };
    return (struct ashlar_text){ RSTRING_PTR(string), RSTRING_LEN(string) };
}

/* Returns a class's name; an anonymous class is named after the class that it is
   derived from. */
static VALUE
class_name(VALUE klass)
{
    VALUE name = Qnil;
    bool is_anonymous = false;
    for (klass = rb_class_real(klass); klass && NIL_P(name = rb_mod_name(klass)); klass = rb_class_superclass(klass)) {
        is_anonymous = true;
        if (!RB_TYPE_P(klass, T_CLASS)) break;
    }
    if (NIL_P(name)) return rb_str_new_cstr("(anonymous)");
    if (!is_anonymous) return name;
    /* As bytes: Ruby raises where it puts a text with a NUL, or in an encoding like UTF-16, into another. */
    VALUE shown = rb_str_new_cstr("(anonymous ");
    rb_str_cat(shown, RSTRING_PTR(name), RSTRING_LEN(name));
    RB_GC_GUARD(name);
    return rb_str_cat(shown, ")", 1);
}

/* Returns the label of a frame with its class, or where Ruby raises, as above, without. */
static VALUE
frame_label(VALUE frame)
{
    VALUE error = rb_errinfo();
    int state = 0;
    VALUE label = rb_protect(rb_profile_frame_full_label, frame, &state);
    if (!state) return label;
    rb_set_errinfo(error);
    return rb_profile_frame_label(frame);
}

static void
name_one(const struct ashlar_nameless *nameless)
{
    volatile VALUE label, path = Qnil;
    unsigned int first_line = 0;
    if (nameless->is_class) {
        label = class_name(nameless->value);
    }
    else {
        label = frame_label(nameless->value);
        path = rb_profile_frame_path(nameless->value);
        VALUE line = rb_profile_frame_first_lineno(nameless->value);
        if (FIXNUM_P(line)) first_line = FIX2UINT(line);
    }
    ashlar_name(nameless, text_of(label), text_of(path), first_line);
}

static void
name_samples(void *objspace)
{
    struct ashlar_nameless nameless;
    while (ashlar_next_nameless(&nameless)) {
        volatile VALUE kept = nameless.value;
        name_one(&nameless);
        RB_GC_GUARD(kept);
    }
}

static void
crashed(FILE *out, void *data)
{
    ashlar_write_profile_at_crash();
}

void
ashlar_begin_naming(void *objspace)
{
    names_job = rb_postponed_job_preregister(0, name_samples, objspace);
    is_ready = true;
    rb_bug_reporter_add(crashed, NULL);
}

static void
describe_ruby(void)
{
    if (!rb_const_defined(rb_cObject, rb_intern("RUBY_DESCRIPTION"))) return;
    volatile VALUE text = rb_const_get(rb_cObject, rb_intern("RUBY_DESCRIPTION"));
    ashlar_describe_process(text_of(text));
}

/* Called before a profile is written. */
void
ashlar_prepare_profile(void *objspace)
{
    if (!ashlar_is_on(&ashlar_knobs.has_heap_profile)) return;
    ashlar_find_payload_owners(objspace);
    name_samples(objspace);
    describe_ruby();
}

void
ashlar_end_profile(void *objspace)
{
    ashlar_prepare_profile(objspace);
    if (ashlar_is_on(&ashlar_knobs.has_heap_profile)) ashlar_write_last_profile(objspace);
    is_ready = false;
}
