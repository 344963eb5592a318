# Memory that goes by xmalloc and xfree in Ruby's core and in C extensions.

claim "a long loop of evals neither aborts nor leaks" do
  ruby_ok <<~'RUBY', limit: 120
    rss = -> { File.read("/proc/self/status")[/VmRSS:\s+(\d+)/, 1].to_i }
    evals = ->(n) { n.times { |i| local = i; abort "eval" unless eval("local + #{i}; [local, '#{i}'].size") == 2 } }
    evals.call(3_000)
    GC.start
    before = rss.call
    evals.call(20_000)
    GC.start
    abort "grew by #{rss.call - before} kB" if rss.call - before > 20_000
    puts "ok"
  RUBY
end

claim "instance_eval, binding, ERB and required files compile by the thousand" do
  ruby_ok <<~'RUBY', limit: 120
    require "erb"
    300.times do |i|
      File.write("r#{i}.rb", "module R#{i}; def self.answer = #{i}; X = #{("a".."z").map { |c| "[:#{c}, '#{c}' * #{i}]" }.join(", ")}; end")
      require "./r#{i}"
      abort "required" unless Object.const_get("R#{i}").answer == i
      abort "erb" unless ERB.new("<%= 1 + #{i} %>").result(binding) == (i + 1).to_s
      abort "instance_eval" unless "text".instance_eval("size + #{i}") == i + 4
    end
    100.times do
      RubyVM::InstructionSequence.compile("def broken(")
    rescue SyntaxError
    end
    puts "ok"
  RUBY
end

claim "strings and arrays that grow and shrink keep their contents" do
  ruby_ok <<~'RUBY'
    random = Random.new(7)
    strings = Array.new(300) { +"" }
    model = Array.new(300) { [] }
    30_000.times do |step|
      i = random.rand(300)
      case random.rand(10)
      when 0..6
        piece = "<#{step}>"
        strings[i] << piece
        model[i] << piece
      when 7
        strings[i] = strings[i].dup
      when 8
        strings[i].slice!(0, model[i].shift&.size.to_i)
      else
        strings[i].replace("")
        model[i] = []
      end
    end
    strings.each_with_index { |text, i| abort "torn" unless text == model[i].join }
    array = []
    50_000.times { |i| array.push(i); array.shift if i % 3 == 0 }
    abort "array" unless array.each_cons(2).all? { |a, b| b == a + 1 }
    puts "ok"
  RUBY
end

claim "ten megabytes taken and dropped again and again do not add up" do
  ruby_ok <<~'RUBY'
    rss = -> { File.read("/proc/self/status")[/VmHWM:\s+(\d+)/, 1].to_i }
    300.times { "x" * 10_000_000 }
    abort "peak #{rss.call} kB" if rss.call > 400_000
    puts "ok"
  RUBY
end

EXTENSION = <<~'C'
  #include <ruby.h>
  #include <ruby/thread.h>
  #include <dlfcn.h>
  #include <malloc.h>
  #include <pthread.h>
  #include <stdatomic.h>
  #include <stdint.h>
  #include <stdlib.h>
  #include <string.h>
  #include <unistd.h>

  static void fill(char *p, size_t n, int c) { memset(p, c, n); }
  static void check(const char *p, size_t n, int c) {
      for (size_t i = 0; i < n; i++) if (p[i] != (char)c) rb_raise(rb_eRuntimeError, "byte %zu of %zu is %d", i, n, p[i]);
  }

  /* Memory of Ruby's, given to libc's free. Wrong, and done by extensions and by Ruby itself. */
  static VALUE xmalloc_then_free(VALUE self, VALUE times) {
      for (long i = 0; i < NUM2LONG(times); i++) {
          size_t n = 1 + (i * 37) % 3000;
          char *p = ruby_xmalloc(n);
          fill(p, n, 1); check(p, n, 1);
          free(p);
          p = ruby_xcalloc(1, n);
          check(p, n, 0);
          free(p);
      }
      return Qtrue;
  }

  static VALUE xmalloc_then_libc_realloc(VALUE self, VALUE times) {
      for (long i = 0; i < NUM2LONG(times); i++) {
          size_t n = 1 + (i * 37) % 3000;
          char *p = ruby_xmalloc(n);
          fill(p, n, 3);
          p = realloc(p, n * 2);
          check(p, n, 3);
          free(p);
      }
      return Qtrue;
  }

  static VALUE malloc_then_xfree(VALUE self, VALUE times) {
      for (long i = 0; i < NUM2LONG(times); i++) {
          size_t n = 1 + (i * 53) % 5000;
          char *p = malloc(n), *q;
          fill(p, n, 5);
          p = ruby_xrealloc(p, n * 2);
          check(p, n, 5);
          ruby_xfree(p);
          q = strdup("from strdup");
          ruby_xfree(q);
          q = NULL;
          if (posix_memalign((void **)&q, 64, n) == 0) ruby_xfree(q);
      }
      return Qtrue;
  }

  static VALUE aligned(VALUE self) {
      for (size_t align = 16; align <= 4 << 20; align *= 2) {
          char *p = NULL;
          if (posix_memalign((void **)&p, align, 100)) rb_raise(rb_eRuntimeError, "refused");
          if ((uintptr_t)p % align) rb_raise(rb_eRuntimeError, "not aligned");
          fill(p, 100, 9); check(p, 100, 9);
          free(p);
      }
      free(valloc(100));
      free(pvalloc(100));
      volatile size_t all = SIZE_MAX;
      for (size_t less = 0; less < 3; less++) {
          if (pvalloc(all - less)) rb_raise(rb_eRuntimeError, "got more than there is");
      }
      return Qtrue;
  }

  static VALUE realloc_to_zero(VALUE self, VALUE times) {
      for (long i = 0; i < NUM2LONG(times); i++) {
          char *p = ruby_xmalloc(100 + i % 2000);
          p = ruby_xrealloc(p, 0);
          if (!p) rb_raise(rb_eRuntimeError, "xrealloc(p, 0) gave NULL");
          p = ruby_xrealloc(p, 50);
          fill(p, 50, 7); check(p, 50, 7);
          ruby_xfree(p);
          p = ruby_xrealloc(NULL, 30);
          fill(p, 30, 8);
          ruby_xfree(p);
          p = ruby_xmalloc(0);
          if (!p) rb_raise(rb_eRuntimeError, "xmalloc(0) gave NULL");
          ruby_xfree(p);
          p = ruby_xcalloc(0, 8);
          ruby_xfree(p);
      }
      ruby_xfree(NULL);
      return Qtrue;
  }

  static VALUE sizes(VALUE self) {
      for (size_t n = 1; n < 70000; n += 1 + n / 7) {
          char *p = ruby_xmalloc(n);
          if ((uintptr_t)p % 16) rb_raise(rb_eRuntimeError, "%zu bytes at %p: not 16-byte aligned", n, (void *)p);
          fill(p, n, 9);
          for (size_t m = n; m < n * 6; m += m / 3 + 1) {
              p = ruby_xrealloc(p, m);
              check(p, n, 9);
          }
          p = ruby_xrealloc(p, n);
          check(p, n, 9);
          ruby_xfree(p);
      }
      return Qtrue;
  }

  static VALUE overflow(VALUE self) {
      ruby_xmalloc2((size_t)1 << 60, 64);
      return Qnil;
  }

  struct work { int seed; long rounds; int bad; };

  /* Large payloads; only their ends are touched. */
  static void *churn_large(void *argument) {
      struct work *work = argument;
      for (long i = 0; i < work->rounds; i++) {
          size_t size = (size_t)(256 + i % 40 * 1200) << 10;
          char *large = ruby_xmalloc(size);
          large[0] = large[size - 1] = work->seed;
          large = ruby_xrealloc(large, size + size / 2);
          if (large[0] != work->seed || large[size - 1] != work->seed) work->bad++;
          ruby_xfree(large);
      }
      return NULL;
  }

  static void *churn(void *argument) {
      struct work *work = argument;
      char *kept[64] = {0};
      size_t size[64] = {0};
      unsigned random = work->seed;
      for (long i = 0; i < work->rounds; i++) {
          random = random * 1664525u + 1013904223u;
          int k = (random >> 8) % 64;
          if (kept[k]) {
              for (size_t b = 0; b < size[k]; b += 61) if (kept[k][b] != (char)(work->seed + k)) work->bad++;
              ruby_xfree(kept[k]);
          }
          size[k] = 1 + (random >> 16) % 900;
          kept[k] = ruby_xmalloc(size[k]);
          memset(kept[k], work->seed + k, size[k]);
      }
      for (int k = 0; k < 64; k++) ruby_xfree(kept[k]);
      return NULL;
  }

  /* Takes the loader's locks, and allocates. */
  static void load(void) {
      dlclose(dlopen(NULL, RTLD_LAZY));
      ruby_xfree(ruby_xmalloc(10));
  }
  static VALUE load_objects(VALUE self, VALUE rounds) {
      for (long i = NUM2LONG(rounds); i > 0; i--) load();
      return Qnil;
  }

  static atomic_int loading;
  static void *load_all_the_time(void *unused) {
      while (loading) load();
      return NULL;
  }
  static VALUE while_loading(VALUE self) {
      pthread_t thread;
      loading = 1;
      pthread_create(&thread, NULL, load_all_the_time, NULL);
      VALUE result = rb_yield(Qnil);
      loading = 0;
      pthread_join(thread, NULL);
      return result;
  }

  static VALUE large_without_lock(VALUE self, VALUE seed, VALUE rounds) {
      struct work work = {NUM2INT(seed), NUM2LONG(rounds), 0};
      rb_thread_call_without_gvl(churn_large, &work, NULL, NULL);
      return INT2NUM(work.bad);
  }

  /* xmalloc on a Ruby thread that does not hold the lock. */
  static VALUE without_lock(VALUE self, VALUE seed, VALUE rounds) {
      struct work work = {NUM2INT(seed), NUM2LONG(rounds), 0};
      rb_thread_call_without_gvl(churn, &work, RUBY_UBF_IO, NULL);
      return INT2NUM(work.bad);
  }

  static void *wait_for_threads(void *argument) {
      pthread_t *threads = argument;
      for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
      return NULL;
  }

  /* xmalloc on threads Ruby knows nothing of, while Ruby's own go on. */
  static VALUE foreign_threads(VALUE self, VALUE rounds) {
      struct work works[4];
      pthread_t threads[4];
      int bad = 0;
      for (int i = 0; i < 4; i++) {
          works[i] = (struct work){i + 1, NUM2LONG(rounds), 0};
          pthread_create(&threads[i], NULL, churn, &works[i]);
      }
      rb_thread_call_without_gvl(wait_for_threads, threads, RUBY_UBF_IO, NULL);
      for (int i = 0; i < 4; i++) bad += works[i].bad;
      return INT2NUM(bad);
  }

  static void *take_one(void *argument) { *(char **)argument = ruby_xmalloc(300); memset(*(char **)argument, 11, 300); return NULL; }
  static void *give_one(void *argument) { ruby_xfree(*(char **)argument); return NULL; }

  /* Taken on one thread, given back on another. */
  static VALUE across_threads(VALUE self, VALUE times) {
      for (long i = 0; i < NUM2LONG(times); i++) {
          pthread_t thread;
          char *p = NULL;
          pthread_create(&thread, NULL, take_one, &p);
          pthread_join(thread, NULL);
          check(p, 300, 11);
          if (i % 2) { ruby_xfree(p); continue; }
          pthread_create(&thread, NULL, give_one, &p);
          pthread_join(thread, NULL);
      }
      return Qtrue;
  }

  /* A wrapped struct whose mark function keeps one object, whose free function gives back memory. */
  struct box { VALUE object; char *buffer; };
  static void box_mark(void *p) { rb_gc_mark(((struct box *)p)->object); }
  static void box_free(void *p) { ruby_xfree(((struct box *)p)->buffer); ruby_xfree(p); }
  static size_t box_size(const void *p) { return sizeof(struct box) + 200; }
  static const rb_data_type_t box_type = {"box", {box_mark, box_free, box_size}, NULL, NULL, 0};
  static VALUE box_new(VALUE class, VALUE object) {
      struct box *box;
      VALUE self = TypedData_Make_Struct(class, struct box, &box_type, box);
      box->object = object;
      box->buffer = ruby_xmalloc(200);
      memset(box->buffer, 13, 200);
      return self;
  }
  static VALUE box_object(VALUE self) {
      struct box *box;
      TypedData_Get_Struct(self, struct box, &box_type, box);
      check(box->buffer, 200, 13);
      return box->object;
  }

  static VALUE external(VALUE self, VALUE bytes) { rb_gc_adjust_memory_usage(NUM2LL(bytes)); return Qnil; }

  /* Collections, or full ones, of this process. */
  static size_t collections(void) { return rb_gc_count(); }
  static size_t full_collections(void) { return rb_gc_stat(ID2SYM(rb_intern("major_gc_count"))); }

  /* The thread keeps a free piece of this size afterwards. */
  static void take_and_give(void) { ruby_xfree(ruby_xmalloc(100)); }

  /* Collections that the next calls of xmalloc begin, after memory was reported while none was allowed. */
  static VALUE collections_for_reported(VALUE self) {
      take_and_give();
      rb_gc_disable();
      rb_gc_adjust_memory_usage(400 << 20);
      take_and_give();
      rb_gc_enable();
      size_t before = collections();
      for (int i = 0; i < 10; i++) take_and_give();
      VALUE count = SIZET2NUM(collections() - before);
      rb_gc_adjust_memory_usage(-(400 << 20));
      return count;
  }

  /* Objects that own memory of somebody else, and that need no xmalloc. */
  static const rb_data_type_t foreign_type = {"foreign", {NULL, NULL, NULL}, NULL, NULL, 0};
  static VALUE foreign(VALUE self, VALUE bytes) {
      VALUE object = TypedData_Wrap_Struct(rb_cObject, &foreign_type, &foreign_type);
      rb_gc_adjust_memory_usage(NUM2LL(bytes));
      return object;
  }

  /* Full collections while a payload is resized to 100 MiB, which are not written, and those of what follows: objects or an xmalloc. */
  static VALUE full_collections_for_resized(VALUE self, VALUE by_objects) {
      char *payload = ruby_xmalloc(1 << 20);
      size_t before = full_collections();
      payload = ruby_xrealloc(payload, 101 << 20);
      size_t resized = full_collections();
      for (int i = 0; RTEST(by_objects) && i < 3000; i++) rb_obj_alloc(rb_cObject);
      if (!RTEST(by_objects)) take_and_give();
      size_t after = full_collections();
      ruby_xfree(payload);
      return rb_ary_new_from_args(2, SIZET2NUM(resized - before), SIZET2NUM(after - resized));
  }

  /* Asks for more memory than there is, without Ruby's lock, when others have had time to take it. */
  static void *ask_for_too_much(void *argument) {
      usleep(3000);
      ruby_xfree(ruby_xmalloc((size_t)1 << 46));
      return NULL;
  }
  static VALUE too_much_without_lock(VALUE self) {
      rb_thread_call_without_gvl(ask_for_too_much, NULL, RUBY_UBF_IO, NULL);
      return Qnil;
  }

  /* A list that is half changed when it reports memory, or asks for more of it. */
  struct list { size_t count; VALUE *items; int is_resized; };
  static void list_mark(void *p) {
      struct list *list = p;
      for (size_t i = 0; i < list->count; i++) rb_gc_mark(list->items[i]);
  }
  static void list_free(void *p) { ruby_xfree(((struct list *)p)->items); ruby_xfree(p); }
  static const rb_data_type_t list_type = {"list", {list_mark, list_free, NULL}, NULL, NULL, 0};
  static VALUE list_new(VALUE class, VALUE is_resized) {
      struct list *list;
      VALUE self = TypedData_Make_Struct(class, struct list, &list_type, list);
      list->is_resized = RTEST(is_resized);
      return self;
  }
  static VALUE list_push(VALUE self, VALUE object) {
      struct list *list;
      TypedData_Get_Struct(self, struct list, &list_type, list);
      if (list->is_resized && list->items) {
          list->count++;
          REALLOC_N(list->items, VALUE, list->count); /* what is behind the last item is marked here, if ever */
      } else {
          VALUE *fresh = ruby_xmalloc((list->count + 1) * sizeof(VALUE));
          if (list->items) memcpy(fresh, list->items, list->count * sizeof(VALUE));
          if (list->items) memset(list->items, 0x58, list->count * sizeof(VALUE));
          ruby_xfree(list->items);
          rb_gc_adjust_memory_usage(1 << 20);
          list->items = fresh;
          list->count++;
      }
      list->items[list->count - 1] = object;
      return self;
  }
  static VALUE collections_of(VALUE self, VALUE grows) {
      size_t size = 1 << 20;
      char *payload = ruby_xmalloc(size);
      size_t before = collections();
      for (int i = 0; i < 100; i++) {
          if (RTEST(grows)) payload = ruby_xrealloc(payload, size += 1 << 20);
          else rb_gc_adjust_memory_usage(1 << 20);
      }
      VALUE count = SIZET2NUM(collections() - before);
      ruby_xfree(payload);
      if (!RTEST(grows)) rb_gc_adjust_memory_usage(-(100 << 20));
      return count;
  }

  void Init_payload(void) {
      VALUE m = rb_define_module("Payload");
      rb_define_singleton_method(m, "xmalloc_then_free", xmalloc_then_free, 1);
      rb_define_singleton_method(m, "xmalloc_then_libc_realloc", xmalloc_then_libc_realloc, 1);
      rb_define_singleton_method(m, "malloc_then_xfree", malloc_then_xfree, 1);
      rb_define_singleton_method(m, "aligned", aligned, 0);
      rb_define_singleton_method(m, "realloc_to_zero", realloc_to_zero, 1);
      rb_define_singleton_method(m, "sizes", sizes, 0);
      rb_define_singleton_method(m, "overflow", overflow, 0);
      rb_define_singleton_method(m, "without_lock", without_lock, 2);
      rb_define_singleton_method(m, "load_objects", load_objects, 1);
      rb_define_singleton_method(m, "while_loading", while_loading, 0);
      rb_define_singleton_method(m, "large_without_lock", large_without_lock, 2);
      rb_define_singleton_method(m, "foreign_threads", foreign_threads, 1);
      rb_define_singleton_method(m, "across_threads", across_threads, 1);
      rb_define_singleton_method(m, "external", external, 1);
      rb_define_singleton_method(m, "collections_of", collections_of, 1);
      rb_define_singleton_method(m, "collections_for_reported", collections_for_reported, 0);
      rb_define_singleton_method(m, "full_collections_for_resized", full_collections_for_resized, 1);
      rb_define_singleton_method(m, "foreign", foreign, 1);
      rb_define_singleton_method(m, "too_much_without_lock", too_much_without_lock, 0);
      VALUE list = rb_define_class_under(m, "List", rb_cObject);
      rb_undef_alloc_func(list);
      rb_define_singleton_method(list, "new", list_new, 1);
      rb_define_method(list, "push", list_push, 1);
      VALUE box = rb_define_class_under(m, "Box", rb_cObject);
      rb_undef_alloc_func(box);
      rb_define_singleton_method(box, "new", box_new, 1);
      rb_define_method(box, "object", box_object, 0);
  }
C

# The folder with the compiled extension, made once for all claims.
EXTENSION_LOCK = Mutex.new
def extension_folder
  EXTENSION_LOCK.synchronize do
    $extension_folder ||= begin
      made = Dir.mktmpdir("ashlar-extension-")
      at_exit { FileUtils.rm_rf(made) }
      File.write("#{made}/payload.c", EXTENSION)
      config = Subject.config
      flags = %W[-shared -fPIC -O2 -Wall -I#{config["rubyhdrdir"]} -I#{config["rubyarchhdrdir"]} -pthread]
      finished = Subject.command({}, [ENV["CC"] || "cc", *flags, "-o", "#{made}/payload.so", "#{made}/payload.c"], folder: made, limit: 120)
      raise Untrue, finished.describe unless finished.ok?
      made
    end
  end
end

def with_extension(source, *options, **rest)
  ruby_ok("require 'payload'\n#{source}\nputs 'ok'\n", "-I#{extension_folder}", *options, **rest)
end

claim "an extension that gives xmalloc memory to libc's free does no harm" do
  with_extension("5.times { Payload.xmalloc_then_free(20_000); GC.start }")
end

claim "an extension that gives xmalloc memory to libc's realloc does no harm" do
  with_extension("5.times { Payload.xmalloc_then_libc_realloc(5_000); GC.start }")
end

claim "an extension that gives malloc memory to xfree and xrealloc does no harm" do
  with_extension("5.times { Payload.malloc_then_xfree(5_000); GC.start }")
end

claim "malloc memory that an extension gives to xrealloc and xfree is not counted as what objects own elsewhere", only: "ashlar" do
  [{}, { "ASHLAR_PROFILE" => "it.heap", "ASHLAR_PROFILE_BYTES" => "4KiB" }].each do |profile|
    with_extension(<<~'RUBY', env: profile)
      Payload.external(100 << 20)
      GC.start
      before = GC.stat(:external_bytes)
      5.times { Payload.malloc_then_xfree(5_000) }
      grown = GC.stat(:external_bytes) - before
      abort "grew by #{grown} bytes" unless grown == 0
    RUBY
  end
end

claim "xrealloc to zero bytes, of NULL, and zero sizes give pointers that can be freed" do
  with_extension("Payload.realloc_to_zero(20_000)")
end

claim "payloads of every size are aligned to 16 bytes and keep their bytes when they grow and shrink" do
  with_extension("3.times { Payload.sizes; GC.start }")
end

claim "an xmalloc2 whose product overflows raises" do
  with_extension("begin; Payload.overflow; rescue ArgumentError, NoMemoryError; end")
end

claim "xmalloc and xfree work on threads that do not hold Ruby's lock, beside collections" do
  with_extension(<<~'RUBY', limit: 120)
    threads = Array.new(3) { |i| Thread.new { Payload.without_lock(i + 1, 100_000) } }
    20.times { Array.new(5_000) { |i| i.to_s * 20 }; GC.start }
    abort "torn" unless threads.map(&:value) == [0, 0, 0]
  RUBY
end

claim "large payloads below a memory limit come to threads without Ruby's lock, beside collections of a large heap" do
  # Slices too short to end a marking soon: the collector is always at work.
  with_extension(<<~'RUBY', env: { "ASHLAR_MEMORY_LIMIT" => "160MiB", "ASHLAR_SLICE_US" => "100" }, limit: 120)
    kept = Array.new(300_000) { |i| "kept #{i}" }
    GC.start
    threads = Array.new(3) { |i| Thread.new { Payload.large_without_lock(i + 1, 2_000) } }
    until threads.none?(&:alive?)
      Array.new(5_000) { |i| i.to_s * 20 }
      GC.start
    end
    abort "torn" unless threads.map(&:value) == [0, 0, 0]
    abort "lost" unless kept.each_with_index.all? { |text, i| text == "kept #{i}" }
  RUBY
end

claim "a child that is forked while another thread loads objects loads some itself" do
  with_extension(<<~'RUBY', limit: 60)
    Payload.while_loading do
      300.times do |round|
        pid = fork { Payload.load_objects(10); exit!(0) }
        waiter = Process.detach(pid)
        Process.kill(:KILL, pid) unless waiter.join(10)
        abort "child of round #{round}: #{waiter.value}" unless waiter.value.success?
      end
    end
  RUBY
end

claim "zlib deflates and inflates in threads below a memory limit, beside collections in slices" do
  ruby_ok <<~'RUBY', env: { "ASHLAR_MEMORY_LIMIT" => "128MiB", "ASHLAR_SLICE_US" => "100" }, limit: 120
    require "zlib"
    random = Random.new(3)
    text = Array.new(60_000) { random.rand(1 << 20).to_s }.join(" ")
    threads = Array.new(4) do |t|
      Thread.new do
        4.times.all? do |i|
          mine = "#{t} #{i} #{text}"
          Zlib::Inflate.inflate(Zlib::Deflate.deflate(mine, 1 + i % 3)) == mine
        end
      end
    end
    until threads.none?(&:alive?)
      Array.new(5_000) { |i| i.to_s * 20 }
      GC.start(full_mark: false)
    end
    puts threads.all?(&:value) ? "ok" : "differs"
  RUBY
end

claim "xmalloc and xfree work on threads that are not Ruby's, beside collections" do
  with_extension(<<~'RUBY', limit: 120)
    busy = Thread.new { 20.times { Array.new(5_000) { |i| i.to_s * 20 }; GC.start } }
    abort "torn" unless Payload.foreign_threads(5_000) == 0
    busy.join
  RUBY
end

claim "memory taken on one thread can be given back on another" do
  with_extension("Payload.across_threads(2_000); GC.start")
end

claim "a wrapped struct is marked, and freed with the memory it took" do
  with_extension(<<~'RUBY')
    boxes = Array.new(5_000) { |i| Payload::Box.new("boxed #{i}") }
    100_000.times { |i| Payload::Box.new(i.to_s) }
    GC.start
    boxes.each_with_index { |box, i| abort "lost" unless box.object == "boxed #{i}" }
  RUBY
end

claim "an extension that reports memory, or resizes a payload, while an object is half changed is not interrupted by a collection" do
  with_extension(<<~'RUBY')
    abort "memory reported" unless Payload.collections_of(false) == 0
    abort "payload resized" unless Payload.collections_of(true) == 0
    count = GC.count
    [false, true].each do |is_resized|
      list = Payload::List.new(is_resized)
      3_000.times { |i| list.push(i.to_s * 10) }
    end
    abort "no collection" unless GC.count > count
  RUBY
end

claim "below a memory limit resizing a payload does not collect either, and what follows makes room for it", only: "ashlar" do
  with_extension(<<~'RUBY')
    kept = Array.new(200_000) { |i| "kept #{i}" }
    [true, false].each do |by_objects|
      GC.start
      GC.config(memory_limit: "#{(GC.stat(:resident_bytes) >> 20) + 50}MiB")
      GC.start
      found = Payload.full_collections_for_resized(by_objects)
      abort "#{by_objects ? "objects" : "xmalloc"}: #{found}" unless found == [0, 1]
      GC.start
      abort "in steps" unless Payload.collections_of(true) == 0 && kept.last == "kept 199999"
    end
  RUBY
end

claim "where there is too little memory for a thread without Ruby's lock, while another one collects, the first gets NoMemoryError" do
  # Under stress each of its collections takes seconds.
  with_extension(<<~'RUBY', env: { "ASHLAR_STRESS" => nil }, limit: 120)
    kept = Array.new(500_000) { Object.new }
    raised = 0
    hungry = Thread.new do
      while raised < 20
        begin
          Payload.too_much_without_lock
        rescue NoMemoryError
          raised += 1
        end
      end
    end
    GC.start while hungry.alive?
    hungry.join
    abort "lost" unless kept.size == 500_000
  RUBY
end

claim "strings that only grow, and are dropped, do not add up" do
  ruby_ok <<~'RUBY'
    more = "x" * 100_000
    1_000.times do
      text = +""
      40.times { text << more }
    end
    peak = File.read("/proc/self/status")[/VmHWM:\s+(\d+)/, 1].to_i / 1024
    abort "peak #{peak} MiB" if peak > 400
    puts "ok"
  RUBY
end

claim "memory that an extension reports brings collections forward" do
  with_extension(<<~'RUBY')
    count = GC.count
    400.times { Payload.external(1_000_000) }
    400.times { |i| "small #{i}" * 3 }
    Array.new(2_000) { Object.new }
    abort "no collection after 400 MB reported" unless GC.count > count
    Payload.external(-400_000_000)
  RUBY
end

claim "memory that an extension reports is looked at by the next xmalloc that may collect, and by the first objects", only: "ashlar" do
  with_extension(<<~'RUBY')
    GC.start
    abort "no collection by xmalloc" if Payload.collections_for_reported == 0
    GC.start
    count, objects = GC.count, 0
    while GC.count == count
      Payload.foreign(4 << 20)
      objects += 1
    end
    Payload.external(-objects * (4 << 20))
    abort "#{objects} objects" if objects > 2_050
  RUBY
end

# The highest that libc's own heap has become, in KiB, when a large syntax tree has come and gone.
PARSES_MUCH = <<~'RUBY'
  heap = -> { File.read("/proc/self/maps")[/^(\h+)-(\h+) .*\[heap\]$/] ? ($2.hex - $1.hex) / 1024 : 0 }
  source = "[#{(["[1, :two, 'three']"] * 60_000).join(",")}].size"
  before = heap.call
  abort "parsed" unless eval(source) == 60_000
  grown = heap.call - before
RUBY

claim "what Ruby's core takes with malloc is the heap's: a large syntax tree leaves nothing in libc" do
  ruby_ok("#{PARSES_MUCH}\nabort \"libc's heap grew by \#{grown} KiB\" if grown > 2_000\nputs 'ok'\n")
end

claim "with payloads in libc a syntax tree is there, too", only: "module" do
  source = "#{PARSES_MUCH}\nabort \"libc's heap grew by \#{grown} KiB\" if grown < 8_000\nputs 'ok'\n"
  ruby_ok(source, env: { "ASHLAR_MALLOC" => "libc" })
end

claim "the same misuse does no harm with payloads in libc", only: "ashlar" do
  with_extension(<<~'RUBY', env: { "ASHLAR_MALLOC" => "libc" })
    Payload.xmalloc_then_free(20_000)
    Payload.xmalloc_then_libc_realloc(5_000)
    Payload.malloc_then_xfree(5_000)
    GC.start
  RUBY
end

claim "everything works with the library preloaded, where it serves every allocation", only: "ashlar" do
  with_extension(<<~'RUBY', env: { **Subject.serving_malloc }, limit: 120)
    Payload.xmalloc_then_free(20_000)
    Payload.xmalloc_then_libc_realloc(5_000)
    Payload.malloc_then_xfree(5_000)
    Payload.aligned
    abort "torn" unless Payload.foreign_threads(20_000) == 0
    abort "child" unless `echo child` == "child\n"
    require "openssl"
    require "yaml"
    abort "yaml" unless YAML.load(YAML.dump("a" => [1, 2])) == { "a" => [1, 2] }
    Process.wait(fork { GC.start; exit!(0) })
    abort "fork" unless $?.success?
  RUBY
end

claim "a program whose heap is a few large buffers does not collect all the time, but with a fixed overhead only its bytes decide", only: "ashlar" do
  # Under stress collections are forced, and the program takes long beside the marking.
  without_stress = { "ASHLAR_STRESS" => nil }
  collections = %w[auto 40].map do |overhead|
    finished = ruby(<<~'RUBY', env: { "ASHLAR_SPACE_OVERHEAD" => overhead, **without_stress })
      300.times { Array.new(200) { String.new(capacity: 64 << 10) }.each { _1 << "buffer" } }
      puts GC.count
    RUBY
    check(finished.ok?) { finished.describe }
    finished.out.to_i
  end
  check(collections[0] * 2 < collections[1]) { "collections by cost and by bytes: #{collections}" }
end
