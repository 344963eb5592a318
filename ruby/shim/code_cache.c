/*
 * The code cache (docs/design/code-cache.md): Ruby is given the code of a file that it is to load, or
 * compiles the file, and then its code is kept. Nothing here is there unless the environment
 * asks for it.
 *
 * Ruby asks RubyVM::InstructionSequence.load_iseq for code before it compiles a file. What it
 * compiles then is what it would without a cache, and is seen at the event script_compiled.
 */
#include "ruby/ruby.h"
#include "ruby/debug.h"
#include "ruby/encoding.h"
#include "ruby/ractor.h"
#include "ruby/vm.h"
#include "gc/gc.h"

#include <elf.h>
#include <link.h>

#include "ashlar_ruby.h"
#include "shim.h"

extern VALUE rb_get_coverages(void);
extern VALUE rb_cISeq, rb_cRubyVM;

static bool is_on;            /* the environment asks for a cache */
static bool has_begun;
static bool is_other_code;    /* the program has changed what code is compiled to */
static bool has_forked;
static uint64_t warnings;     /* how many there have been */

/* Roots. */
static VALUE warning_module, warn_method, counting_method, categories, set_options_method, load_method, tracepoint, options_text;

/* Whether `method` is still what a call reaches: the program has put no method of its own before it. */
static bool
is_reached(VALUE object, const char *name, VALUE method)
{
    return RTEST(rb_equal(rb_obj_method(object, ID2SYM(rb_intern(name))), method));
}

/* ── Warnings: what gave one when it was compiled is compiled again ──────── */

static VALUE
warn(int argc, VALUE *argv, VALUE self)
{
    warnings++;
    VALUE room;
    VALUE *all = ALLOCV_N(VALUE, room, argc + 1);
    all[0] = self;
    MEMCPY(all + 1, argv, VALUE, argc);
    VALUE result = rb_funcallv_kw(warn_method, rb_intern("bind_call"), argc + 1, all, RB_PASS_CALLED_KEYWORDS);
    ALLOCV_END(room);
    return result;
}

/* Whether all warnings come to `warn`. */
static bool
sees_warnings(void)
{
    return is_reached(warning_module, "warn", counting_method);
}

static VALUE
is_category_on(VALUE category)
{
    return rb_funcall(warning_module, rb_intern("[]"), 1, category);
}

/* A category that the program does not let be asked counts as one that is on. */
static uint32_t
warning_level(void)
{
    if (NIL_P(ruby_verbose)) return 0;
    uint32_t level = RTEST(ruby_verbose) ? 2 : 1;
    for (long i = 0; i < RARRAY_LEN(categories); i++) {
        if (RTEST(ashlar_quietly_and_undisturbed(is_category_on, RARRAY_AREF(categories, i)))) level |= 1U << (8 + i);
    }
    return level;
}

static void
watch_warnings(void)
{
    warning_module = rb_const_get(rb_cObject, rb_intern("Warning"));
    warn_method = rb_funcall(warning_module, rb_intern("instance_method"), 1, ID2SYM(rb_intern("warn")));
    categories = rb_check_funcall(warning_module, rb_intern("categories"), 0, NULL);
    if (!RB_TYPE_P(categories, T_ARRAY) || RARRAY_LEN(categories) > 16) categories = rb_ary_new();
    VALUE verbose = ruby_verbose;
    ruby_verbose = Qnil; /* a method is redefined */
    rb_define_method(warning_module, "warn", warn, -1);
    ruby_verbose = verbose;
    counting_method = rb_obj_method(warning_module, ID2SYM(rb_intern("warn")));
}

/* ── What code is compiled to ────────────────────────────────────────────── */

static VALUE
options_now(VALUE unused)
{
    return rb_inspect(rb_funcall(rb_cISeq, rb_intern("compile_option"), 0));
}

static VALUE
set_options(VALUE self, VALUE options)
{
    VALUE result = rb_funcall(set_options_method, rb_intern("call"), 1, options);
    if (!has_begun) return result;
    VALUE now = ashlar_quietly_and_undisturbed(options_now, Qnil);
    is_other_code = now == Qundef || !RTEST(rb_str_equal(now, options_text));
    return result;
}

static void
watch_options(void)
{
    set_options_method = rb_obj_method(rb_cISeq, ID2SYM(rb_intern("compile_option=")));
    VALUE verbose = ruby_verbose;
    ruby_verbose = Qnil;
    rb_define_singleton_method(rb_cISeq, "compile_option=", set_options, 1);
    ruby_verbose = verbose;
}

/* The number that the linker gave the object which holds Ruby. */
struct build {
    uintptr_t address;
    VALUE text;
};

static void
append_notes(VALUE text, const char *notes, size_t bytes)
{
    while (bytes >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *note = (const void *)notes;
        size_t name = (note->n_namesz + 3U) & ~(size_t)3, value = (note->n_descsz + 3U) & ~(size_t)3;
        size_t all = sizeof(*note) + name + value;
        if (all > bytes) return;
        if (note->n_type == NT_GNU_BUILD_ID) rb_str_cat(text, notes + sizeof(*note), (long)(name + value));
        notes += all;
        bytes -= all;
    }
}

static int
append_build(struct dl_phdr_info *info, size_t size, void *data)
{
    struct build *build = data;
    bool is_it = false;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        is_it |= part->p_type == PT_LOAD && build->address - (info->dlpi_addr + part->p_vaddr) < part->p_memsz;
    }
    for (int i = 0; is_it && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_NOTE && part->p_align <= 4) {
            append_notes(build->text, (const char *)(info->dlpi_addr + part->p_vaddr), part->p_memsz);
        }
    }
    return is_it;
}

/* All that changes what a file is compiled to, beside the file. */
static VALUE
describe_ruby(VALUE unused)
{
    VALUE description = rb_const_get(rb_cObject, rb_intern("RUBY_DESCRIPTION"));
    VALUE copyright = rb_const_get(rb_cObject, rb_intern("RUBY_COPYRIGHT"));
    VALUE text = rb_str_dup(StringValue(description));
    rb_str_cat_cstr(text, "\n");
    rb_str_append(text, StringValue(copyright));
    /* Without Prism, -K names the encoding of all source, and the default one with it. */
    if (!strstr(RSTRING_PTR(text), "+PRISM")) {
        rb_str_cat_cstr(text, "\n");
        rb_str_cat_cstr(text, rb_enc_name(rb_default_external_encoding()));
    }
    rb_str_cat_cstr(text, "\n");
    rb_str_append(text, options_text);
    struct build build = { (uintptr_t)&rb_cISeq, text };
    dl_iterate_phdr(append_build, &build);
    return text;
}

static VALUE
begin(VALUE unused)
{
    options_text = options_now(Qnil);
    VALUE text = describe_ruby(Qnil);
    ashlar_begin_code_cache(RSTRING_PTR(text), (size_t)RSTRING_LEN(text), RTEST(ruby_verbose));
    RB_GC_GUARD(text);
    return Qtrue;
}

static bool
is_main_ractor(void)
{
    return !ashlar_is_multi_ractor() || RTEST(rb_funcall(rb_cRactor, rb_intern("main?"), 0));
}

/* Whether code from the cache would do: nobody counts what runs in each file, keeps the lines
   of scripts, has changed how code is compiled or has Ruby say what it does (`ruby -d`). */
static bool
is_usual_code(void)
{
    return !is_other_code && !RTEST(ruby_debug) && !RTEST(rb_get_coverages()) &&
        !rb_const_defined_at(rb_cObject, rb_intern("SCRIPT_LINES__")) &&
        !RTEST(rb_funcall(rb_cRubyVM, rb_intern("keep_script_lines"), 0));
}

/* ── Loading ─────────────────────────────────────────────────────────────── */

static void
describe_source(struct ashlar_source *source, VALUE path)
{
    const char *encoding = rb_enc_name(rb_enc_get(path));
    *source = (struct ashlar_source){
        .thread = rb_thread_current(),
        .path = RSTRING_PTR(path),
        .path_bytes = (size_t)RSTRING_LEN(path),
        .encoding = encoding,
        .encoding_bytes = strlen(encoding),
        .level = warning_level(),
        .warnings = warnings,
    };
}

static VALUE
load_binary(VALUE binary)
{
    return rb_funcall(rb_cISeq, rb_intern("load_from_binary"), 1, binary);
}

/* Returns nil, and the file is compiled, when Ruby refuses the code. That memory or the stack is
   out is no fault of the code, nor is what a signal's handler raises: then the code can be loaded again. */
static VALUE
loaded(const char *code, size_t bytes)
{
    int state = 0;
    volatile VALUE error = rb_errinfo();
    VALUE binary = rb_obj_freeze(rb_str_new_static(code, (long)bytes));
    VALUE result = ashlar_protect(load_binary, binary, &state);
    if (!state) return result;
    volatile VALUE raised = rb_errinfo();
    if (!RB_TYPE_P(raised, T_OBJECT) || !rb_obj_is_kind_of(raised, rb_eStandardError)) rb_jump_tag(state);
    rb_set_errinfo(error);
    if (ashlar_quietly(load_binary, binary) != Qundef) {
        rb_set_errinfo(raised);
        rb_jump_tag(state);
    }
    RB_GC_GUARD(binary);
    ashlar_refuse_code(code);
    return Qnil;
}

static void script_compiled(VALUE point, void *unused);

static void
watch_compiler(void)
{
    if (!tracepoint) tracepoint = rb_tracepoint_new(0, RUBY_EVENT_SCRIPT_COMPILED, script_compiled, NULL);
    if (!RTEST(rb_tracepoint_enabled_p(tracepoint))) rb_tracepoint_enable(tracepoint);
}

/* Whether Ruby itself asks. A load_iseq of the program that calls this one by `super` may give Ruby other code. */
static bool
is_asked_by_ruby(void)
{
    return is_reached(rb_cISeq, "load_iseq", load_method);
}

/* Looks for the code of the file at this path. nil: Ruby compiles the file. A load_iseq of the program gets what it
   would get without a cache: the file's code, compiled while it waits. */
static VALUE
code_of(VALUE self, VALUE path)
{
    if (!is_asked_by_ruby()) return rb_funcall(rb_cISeq, rb_intern("compile_file"), 1, path);
    if (!RB_TYPE_P(path, T_STRING) || !is_main_ractor() || !is_usual_code()) return Qnil;
    if (!has_begun) {
        has_begun = true;
        if (ashlar_quietly_and_undisturbed(begin, Qnil) == Qundef) is_other_code = true;
    }
    struct ashlar_source source;
    const char *code;
    size_t bytes;
    describe_source(&source, path);
    unsigned int found = ashlar_find_code(&source, &code, &bytes);
    RB_GC_GUARD(path);
    if (found == ASHLAR_CODE_FOUND) return loaded(code, bytes);
    if (found == ASHLAR_CODE_AWAITED && sees_warnings()) watch_compiler();
    return Qnil;
}

/* ── Keeping ─────────────────────────────────────────────────────────────── */

static VALUE
binary_form(VALUE sequence)
{
    VALUE binary = rb_funcall(sequence, rb_intern("to_binary"), 0);
    return RB_TYPE_P(binary, T_STRING) ? binary : Qundef;
}

/* An event of code that is awaited is the last for now. */
static void
watch_no_more(void)
{
    if (!ashlar_awaits_code()) rb_tracepoint_disable(tracepoint);
}

/* Whether something runs at some line. What the parser `parse.y` finds wrong is compiled to code that does nothing:
   Ruby runs it, and raises the SyntaxError afterwards. */
static bool
has_lines(VALUE sequence)
{
    VALUE points = rb_funcall(sequence, rb_intern("trace_points"), 0);
    return RB_TYPE_P(points, T_ARRAY) && RARRAY_LEN(points) > 0;
}

/* Whether this is a file that has been loaded, and not the program itself, which options such as -x and -n change. */
static bool
is_loaded_file(VALUE point, VALUE sequence)
{
    if (!NIL_P(rb_funcall(point, rb_intern("eval_script"), 0))) return false;
    VALUE label = rb_funcall(sequence, rb_intern("label"), 0);
    return RB_TYPE_P(label, T_STRING) && RTEST(rb_str_equal(label, rb_str_new_cstr("<top (required)>")));
}

static VALUE
keep_code(VALUE point)
{
    VALUE sequence = rb_funcall(point, rb_intern("instruction_sequence"), 0);
    if (!is_loaded_file(point, sequence)) return Qnil;
    VALUE path = rb_funcall(sequence, rb_intern("path"), 0);
    struct ashlar_source source;
    describe_source(&source, path);
    VALUE real_path = rb_funcall(sequence, rb_intern("absolute_path"), 0);
    if (RB_TYPE_P(real_path, T_STRING)) {
        source.real_path = RSTRING_PTR(real_path);
        source.real_path_bytes = (size_t)RSTRING_LEN(real_path);
    }
    void *fresh = ashlar_compiled(&source);
    RB_GC_GUARD(path);
    RB_GC_GUARD(real_path);
    watch_no_more();
    if (!fresh) return Qnil;
    bool is_wanted = has_lines(sequence) && is_asked_by_ruby() && sees_warnings() && is_usual_code();
    VALUE binary = is_wanted ? ashlar_quietly(binary_form, sequence) : Qundef;
    if (binary == Qundef) ashlar_keep_code(fresh, NULL, 0);
    else ashlar_keep_code(fresh, RSTRING_PTR(binary), (size_t)RSTRING_LEN(binary));
    RB_GC_GUARD(binary);
    return Qnil;
}

static void
script_compiled(VALUE point, void *unused)
{
    ashlar_quietly_and_undisturbed(keep_code, point);
}

/* ── Before children begin ───────────────────────────────────────────────── */

static bool
may_have_work(void)
{
    return (has_begun || ashlar_has_waiting_code()) && is_main_ractor();
}

void
ashlar_prepare_code_cache(void)
{
    if (!may_have_work()) return;
    if (has_begun) ashlar_write_code_cache();
    ashlar_load_code_for_children();
}

bool
ashlar_code_cache_waits_for_fork(void)
{
    return may_have_work();
}

/* A parent loads what its children would each load for themselves. Once: what runs later is
   loaded by whoever runs it. */
void
ashlar_code_cache_before_fork(void)
{
    if (has_begun) ashlar_write_code_cache_before_fork();
    if (has_forked) return;
    has_forked = true;
    ashlar_load_code_for_children();
}

/* ── For programs: Ashlar::CodeCache ─────────────────────────────────────── */

static void
set(VALUE hash, const char *name, uint64_t value)
{
    rb_hash_aset(hash, ID2SYM(rb_intern(name)), ULL2NUM(value));
}

static VALUE
show_counts(VALUE self)
{
    struct ashlar_code_counts counts;
    if (!ashlar_code_counts(&counts)) return Qnil;
    VALUE hash = rb_hash_new();
    set(hash, "hits", counts.hits);
    set(hash, "misses", counts.misses);
    set(hash, "kept", counts.kept);
    set(hash, "sources_read", counts.sources_read);
    set(hash, "damaged", counts.damaged);
    set(hash, "loaded_bytes", counts.loaded_bytes);
    set(hash, "saved_us", counts.saved_us);
    set(hash, "written", counts.written);
    set(hash, "file_bytes", counts.file_bytes);
    set(hash, "entries", counts.entries);
    set(hash, "sequences", counts.sequences);
    set(hash, "ran_before", counts.ran_before);
    set(hash, "loaded_later", counts.loaded_later);
    return hash;
}

static VALUE
write_now(VALUE self)
{
    if (is_main_ractor()) ashlar_write_code_cache();
    return Qnil;
}

static VALUE
load_what_ran_now(VALUE self)
{
    if (is_main_ractor()) ashlar_load_code_for_children();
    return Qnil;
}

/* The method is Ruby text, because gems ask where it lies to know Bootsnap's, and C lies nowhere. An alias of itself
   can be redefined without a warning. */
static void
define_load_iseq(void)
{
    VALUE singleton = rb_singleton_class(rb_cISeq);
    rb_define_private_method(singleton, "ashlar_code_of", code_of, 1);
    VALUE text = rb_str_new_cstr("def load_iseq(path) = ashlar_code_of(path)\nalias load_iseq load_iseq");
    rb_funcall(singleton, rb_intern("class_eval"), 2, text, rb_str_new_cstr("<internal:ashlar>"));
    load_method = rb_obj_method(rb_cISeq, ID2SYM(rb_intern("load_iseq")));
}

void
ashlar_define_code_cache(void)
{
    is_on = ashlar_wants_code_cache();
    if (!is_on) return;
    rb_gc_register_address(&warning_module);
    rb_gc_register_address(&warn_method);
    rb_gc_register_address(&counting_method);
    rb_gc_register_address(&categories);
    rb_gc_register_address(&set_options_method);
    rb_gc_register_address(&load_method);
    rb_gc_register_address(&tracepoint);
    rb_gc_register_address(&options_text);
    watch_warnings();
    watch_options();
    define_load_iseq();
    VALUE cache = rb_define_module_under(rb_define_module("Ashlar"), "CodeCache");
    rb_define_singleton_method(cache, "stat", show_counts, 0);
    rb_define_singleton_method(cache, "write", write_now, 0);
    rb_define_singleton_method(cache, "load_what_ran", load_what_ran_now, 0);
}
