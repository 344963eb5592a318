# Memory from xmalloc that is given to free by objects which are loaded at awkward times and in unusual ways.

LOADER = <<~'C'
  #include <ruby.h>
  #include <dlfcn.h>
  #include <pthread.h>
  #include <sched.h>
  #include <stdatomic.h>
  #include <stdio.h>

  /* What a library that is being loaded and this extension tell each other: the library has
     begun, the library may go on. Libraries find it by the environment. */
  static atomic_int began, go_on;
  static pthread_t thread;

  static void *load_in_thread(void *path) { return dlopen(path, RTLD_NOW); }

  static VALUE begin_loading(VALUE self, VALUE path)
  {
      char began_at[32], go_on_at[32];
      snprintf(began_at, sizeof began_at, "%p", (void *)&began);
      snprintf(go_on_at, sizeof go_on_at, "%p", (void *)&go_on);
      setenv("BEGAN", began_at, 1);
      setenv("GO_ON", go_on_at, 1);
      began = go_on = 0;
      pthread_create(&thread, NULL, load_in_thread, StringValueCStr(path));
      while (!began) sched_yield();
      return Qnil;
  }

  static VALUE end_loading(VALUE self)
  {
      void *library;
      go_on = 1;
      pthread_join(thread, &library);
      return library ? ULL2NUM((uintptr_t)library) : Qnil;
  }

  /* What an xmalloc of this thread looks for, it looks for now. */
  static VALUE take(VALUE self)
  {
      for (int n = 1; n < 4000; n += 5) ruby_xfree(ruby_xmalloc(n));
      return Qnil;
  }

  static VALUE load(VALUE self, VALUE path)
  {
      void *library = dlopen(StringValueCStr(path), RTLD_NOW);
      if (!library) rb_raise(rb_eRuntimeError, "%s", dlerror());
      return ULL2NUM((uintptr_t)library);
  }

  /* The library's function frees the memory. */
  static VALUE give_to(VALUE self, VALUE library)
  {
      void (*give)(void *) = dlsym((void *)(uintptr_t)NUM2ULL(library), "give");
      for (int n = 1; n < 4000; n += 5) give(ruby_xmalloc(n));
      return Qnil;
  }

  /* No xmalloc between the loading of the library, by another one, and its freeing of the memory. */
  static VALUE give_at_once(VALUE self, VALUE between, VALUE path)
  {
      void *memory = ruby_xmalloc(100);
      void (*load_and_give)(const char *, void *) = dlsym((void *)(uintptr_t)NUM2ULL(between), "load_and_give");
      load_and_give(StringValueCStr(path), memory);
      return Qnil;
  }

  /* The function as dlsym and dlvsym answer in several ways; those of libc alone with a version. */
  static VALUE give_by_name(VALUE self, VALUE version)
  {
      void *libc = dlopen("libc.so.6", RTLD_NOW);
      void (*give[])(void *) = { dlsym(RTLD_DEFAULT, "free"), dlsym(libc, "free"), NIL_P(version) ? NULL : dlvsym(libc, "free", StringValueCStr(version)) };
      for (int i = 0; i < (NIL_P(version) ? 1 : 3); i++) {
          if (!give[i]) rb_raise(rb_eRuntimeError, "no free in way %d", i);
          give[i](ruby_xmalloc(100));
      }
      void *(*change)(void *, size_t) = dlsym(RTLD_DEFAULT, "realloc");
      size_t (*usable)(void *) = dlsym(RTLD_DEFAULT, "malloc_usable_size");
      void *memory = change(ruby_xmalloc(100), 1000);
      if (usable(memory) < 1000) rb_raise(rb_eRuntimeError, "too small");
      ruby_xfree(memory);
      return Qnil;
  }

  static atomic_int loading;

  static void *load_all_the_time(void *format)
  {
      char path[4096];
      for (unsigned n = 0; loading; n++) {
          snprintf(path, sizeof path, format, n % 20);
          void *library = dlopen(path, n % 2 ? RTLD_NOW : RTLD_LAZY);
          if (!library) rb_bug("%s", dlerror());
          dlclose(library);
      }
      return NULL;
  }

  static VALUE while_loading(VALUE self, VALUE format)
  {
      loading = 1;
      pthread_create(&thread, NULL, load_all_the_time, StringValueCStr(format));
      rb_yield(Qnil);
      loading = 0;
      pthread_join(thread, NULL);
      return Qnil;
  }

  void Init_loader(void)
  {
      VALUE m = rb_define_module("Loader");
      rb_define_singleton_method(m, "begin_loading", begin_loading, 1);
      rb_define_singleton_method(m, "end_loading", end_loading, 0);
      rb_define_singleton_method(m, "take", take, 0);
      rb_define_singleton_method(m, "load", load, 1);
      rb_define_singleton_method(m, "give_to", give_to, 1);
      rb_define_singleton_method(m, "give_at_once", give_at_once, 2);
      rb_define_singleton_method(m, "give_by_name", give_by_name, 1);
      rb_define_singleton_method(m, "while_loading", while_loading, 1);
  }
C

# Says that it has begun, and waits until it may go on.
WAIT = <<~'C'
  #include <sched.h>
  #include <stdatomic.h>
  #include <stdlib.h>

  static void wait_here(void)
  {
      atomic_int *began = (atomic_int *)strtoull(getenv("BEGAN"), NULL, 0), *go_on = (atomic_int *)strtoull(getenv("GO_ON"), NULL, 0);
      *began = 1;
      while (!*go_on) sched_yield();
  }
C

GIVE = "#include <stdlib.h>\nvoid give(void *memory) { free(memory); }\n"

# A library that waits in its constructor.
WAITS_IN_CONSTRUCTOR = "#{WAIT}#{GIVE}__attribute__((constructor)) static void begin(void) { wait_here(); }\n"

# A library that waits while the loader relocates it; so do, behind it, those that need it.
WAITS_UNRELOCATED = <<~C
  #{WAIT}
  static int one(void) { return 1; }
  static int (*chosen(void))(void) { wait_here(); return one; }
  static int number(void) __attribute__((ifunc("chosen")));
  int number_of_other(void) { return number(); }
C

NEEDS_OTHER = "#{GIVE}int number_of_other(void);\nint mine(void) { return number_of_other(); }\n"

BETWEEN = <<~'C'
  #include <dlfcn.h>
  #include <stdlib.h>
  void load_and_give(const char *path, void *memory)
  {
      void *library = dlopen(path, RTLD_NOW);
      void (*give)(void *) = library ? dlsym(library, "give") : NULL;
      if (!give) abort();
      give(memory);
  }
C

def shared_library(name, source, *flags) = compiled(name, source, "-shared", "-fPIC", "-pthread", *flags)

# Runs the source with the extension Loader; `limit` ends one that hangs.
def with_loader(source, **rest)
  config = Subject.config
  shared_library("loader.so", LOADER, "-D_GNU_SOURCE", "-I#{config["rubyhdrdir"]}", "-I#{config["rubyarchhdrdir"]}")
  ruby_ok("require './loader'\n#{source}\nputs 'ok'\n", limit: 30, **rest)
end

claim "xmalloc waits for no library that another thread is loading and that waits for xmalloc" do
  shared_library("waits.so", WAITS_IN_CONSTRUCTOR)
  with_loader(<<~'RUBY')
    3.times { Loader.load("./loader.so") }
    Loader.begin_loading("./waits.so")
    Loader.take
    library = Loader.end_loading or abort "not loaded"
    Loader.give_to(library)
  RUBY
end

claim "no collection waits for a library that another thread is loading and that waits for the collection" do
  shared_library("waits.so", WAITS_IN_CONSTRUCTOR)
  100.times { |n| File.write(File.join(folder, "file#{n}.rb"), "def method#{n} = #{n}\n") }
  with_loader(<<~'RUBY')
    Loader.begin_loading("./waits.so")
    100.times { |n| require "./file#{n}" }
    GC.start
    Array.new(300_000) { |n| "text #{n}" }
    Loader.end_loading or abort "not loaded"
  RUBY
end

claim "a library that was mapped and not relocated when xmalloc was called frees memory from xmalloc" do
  shared_library("other.so", WAITS_UNRELOCATED, "-Wl,-z,now")
  shared_library("needs.so", NEEDS_OTHER, "-Wl,-z,now", "-L.", "-l:other.so", "-Wl,-rpath,$ORIGIN")
  with_loader(<<~'RUBY')
    Loader.begin_loading("./needs.so")
    Loader.take
    library = Loader.end_loading or abort "not loaded"
    Loader.give_to(library)
    Loader.take
    Loader.give_to(library)
  RUBY
end

claim "a library that another library loads frees memory from an xmalloc before" do
  shared_library("between.so", BETWEEN)
  shared_library("give.so", GIVE)
  with_loader("Loader.give_at_once(Loader.load('./between.so'), './give.so')")
end

claim "free, realloc and malloc_usable_size take memory from xmalloc however they are looked up" do
  version = RUBY_PLATFORM.start_with?("x86_64") ? "GLIBC_2.2.5" : "GLIBC_2.17"
  # A process whose malloc is the collector's has another one in libc, as with any malloc that a program brings.
  version = Subject.inside? ? "nil" : "'#{version}'"
  with_loader("3.times { Loader.give_by_name(#{version}); Loader.take }")
end

claim "libraries come and go on one thread while another allocates, evaluates and loads" do
  paths = Array.new(20) { |n| shared_library("give#{n}.so", GIVE, *("-Wl,-z,now" if n % 3 == 0)) }
  check(paths.size == 20) { "libraries" }
  with_loader(<<~'RUBY', limit: 60)
    Loader.while_loading("./give%u.so") do
      1_000.times do |i|
        Loader.take
        Loader.give_to(Loader.load("./give#{i % 20}.so")) if i % 10 == 0
        eval("local = #{i}; local + 1") == i + 1 or abort "eval"
      end
    end
  RUBY
end

claim "Ruby starts while other threads load libraries, and then calls of free are redirected", only: "ashlar" do
  20.times { |n| shared_library("give#{n}.so", GIVE, *("-Wl,-z,now" if n % 3 == 0)) }
  config = Subject.config
  includes = config.values_at("rubyhdrdir", "rubyarchhdrdir").map { "-I#{_1}" }
  starting = compiled("starting", <<~'C', "-pthread", *includes, "-rdynamic", "-L#{config["libdir"]}", *config["LIBRUBYARG"].split, *config["MAINLIBS"].split)
    #include <ruby.h>
    #include <dlfcn.h>
    #include <pthread.h>
    #include <stdatomic.h>
    #include <stdio.h>

    static atomic_int loading = 1;
    static void *kept[2000];

    /* Every other library stays, so that it meets the start of Ruby at any state. */
    static void *load_all_the_time(void *unused)
    {
        char path[100];
        for (unsigned n = 0; loading; n++) {
            snprintf(path, sizeof path, "./give%u.so", n % 20);
            void *library = dlopen(path, n % 2 ? RTLD_NOW : RTLD_LAZY);
            if (n % 20 != 7) dlclose(library);
        }
        return NULL;
    }

    int
    main(int argc, char **argv)
    {
        pthread_t thread;
        pthread_create(&thread, NULL, load_all_the_time, NULL);
        ruby_sysinit(&argc, &argv);
        RUBY_INIT_STACK;
        ruby_init();
        loading = 0;
        pthread_join(thread, NULL);
        for (int n = 0; n < 20; n++) {
            char path[100];
            snprintf(path, sizeof path, "./give%d.so", n);
            void (*give)(void *) = dlsym(dlopen(path, RTLD_LAZY), "give");
            for (int i = 1; i < 2000; i++) kept[i] = ruby_xmalloc(i);
            for (int i = 1; i < 2000; i++) give(kept[i]);
        }
        char *options[] = { "starting", "-e", "500.times { |n| eval(\"x = #{n}\") }; puts :ok" };
        return ruby_run_node(ruby_options(3, options));
    }
  C
  10.times do
    done = Subject.command(Subject.environment({}), [starting], folder:, limit: 60)
    check(done.ok? && done.out == "ok\n") { done.describe }
  end
end

# Its symbol table is in the segment of its code, as it is in every library on some systems.
AMONG_CODE = <<~'C'
  #include <stddef.h>

  extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
  extern void __libc_free(void *);
  void *malloc(size_t size) { return __libc_malloc(size); }
  void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
  void *realloc(void *memory, size_t size) { return __libc_realloc(memory, size); }
  void free(void *memory) { __libc_free(memory); }
C

claim "another malloc that is preloaded, its symbols among its code, is left to all but Ruby's memory", only: "module" do
  among_code = shared_library("among_code.so", AMONG_CODE, "-Wl,-z,noseparate-code")
  shared_library("between.so", BETWEEN)
  shared_library("give.so", GIVE)
  with_loader(<<~'RUBY', env: { "LD_PRELOAD" => among_code })
    Loader.give_at_once(Loader.load("./between.so"), "./give.so")
    500.times { |n| eval("local = #{n}; local + 1") == n + 1 or abort "eval" }
    abort "from libc" unless GC.config[:malloc] == "heap"
    mapped = File.readlines("/proc/self/maps").grep(/among_code/)
    abort "left writable and executable:\n#{mapped.join}" if mapped.any?(/ .?wx/)
  RUBY
end

# Refuses to make memory of files writable that is not so already, as some security policies do.
UNWRITABLE = <<~'C'
  #define _GNU_SOURCE
  #include <errno.h>
  #include <stdlib.h>
  #include <string.h>
  #include <sys/mman.h>
  #include <sys/syscall.h>
  #include <unistd.h>
  #include <dlfcn.h>

  int mprotect(void *start, size_t bytes, int access)
  {
      Dl_info info;
      void *found = dlsym(RTLD_DEFAULT, "getline");
      if (access & PROT_WRITE && dladdr(found, &info) && (char *)start < (char *)found + (1 << 20) && (char *)start >= (char *)info.dli_fbase) {
          errno = EACCES;
          return -1;
      }
      return syscall(SYS_mprotect, start, bytes, access);
  }
C

claim "where symbols may not be written, payloads come from libc, and one line says so", only: "module" do
  refusing = shared_library("refusing.so", UNWRITABLE)
  shared_library("give.so", GIVE)
  config = Subject.config
  shared_library("loader.so", LOADER, "-D_GNU_SOURCE", "-I#{config["rubyhdrdir"]}", "-I#{config["rubyarchhdrdir"]}")
  done = ruby_ok(<<~'RUBY', env: { "LD_PRELOAD" => refusing }, limit: 30)
    require "./loader"
    Loader.give_to(Loader.load("./give.so"))
    abort "from the heap" unless GC.config[:malloc] == "libc"
    puts "ok"
  RUBY
  check_match(/\Aashlar: calls of free cannot be redirected.*\n\z/, done.err)
end

# A pointer to free among constants: the loader makes their pages writable while it stores there, and not afterwards.
AMONG_CONSTANTS = <<~'C'
  __asm__(".section .rodata\n.balign 8\ngiving: .quad free\n.text");
  extern void (*const giving)(void *) __attribute__((visibility("hidden")));
  void give(void *memory) { giving(memory); }
C

claim "a pointer to free among the constants of a library that was there before takes memory from xmalloc", only: "module" do
  among_constants = shared_library("among_constants.so", AMONG_CONSTANTS, "-Wl,-z,notext")
  with_loader(<<~'RUBY', env: { "LD_PRELOAD" => among_constants })
    Loader.give_to(Loader.load("./among_constants.so"))
    abort "from libc" unless GC.config[:malloc] == "heap"
    mapped = File.readlines("/proc/self/maps").grep(/among_constants/)
    abort "constants were left writable:\n#{mapped.join}" if mapped.count { _1 =~ / .w/ } > 1
  RUBY
end
