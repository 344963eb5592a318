# Programs that Ruby is a part of: linked with it, or loading libruby.so when they run.

LOAD = <<~'RUBY'
  require "json"
  require "psych"
  require "zlib"
  abort "not on Ashlar" unless GC.config[:implementation] == "ashlar"
  # The parser hands memory of the heap to free at every eval.
  500.times { |n| eval("def made_#{n}(a, b = [1, 2.0, 'x#{n}'], *c) = { a:, b:, c: }"); send("made_#{n}", n) }
  kept = Array.new(2_000) { |n| JSON.parse(JSON.generate("key #{n}" => ["v" * (n % 300), n])) }
  texts = Array.new(4) { |n| Thread.new { 50.times.map { Zlib.inflate(Zlib.deflate("text #{n}" * 500)).size }.sum } }.map(&:value)
  Psych.load(Psych.dump(kept.first(300)))
  child = fork { GC.start; exit! kept.size == 2_000 }
  Process.wait(child)
  abort "the child failed" unless $?.success?
  GC.start
  GC.compact
  abort "wrong" unless kept[1_999]["key 1999"] == ["v" * 199, 1_999] && texts == Array.new(4) { 150_000 }
  puts "ok"
RUBY

EMBEDDING = <<~'C'
  #include <ruby.h>

  static VALUE
  grab(VALUE self, VALUE bytes)
  {
      return ULL2NUM((unsigned long long)(uintptr_t)malloc(NUM2SIZET(bytes)));
  }

  int
  main(int argc, char **argv)
  {
      ruby_sysinit(&argc, &argv);
      RUBY_INIT_STACK;
      ruby_init();
      rb_define_global_function("grab", grab, 1);
      char *options[] = { "embedding", argv[1] };
      return ruby_run_node(ruby_options(2, options));
  }
C

LOADING = <<~'C'
  #include <dlfcn.h>
  #include <stdio.h>
  #include <stdlib.h>

  int
  main(int argc, char **argv)
  {
      void *early = malloc(100);
      void *ruby = dlopen(argv[1], RTLD_NOW | (argc > 3 ? RTLD_LOCAL : RTLD_GLOBAL));
      if (!ruby) return fprintf(stderr, "%s\n", dlerror()), 1;
      void (*sysinit)(int *, char ***) = dlsym(ruby, "ruby_sysinit");
      void (*init_stack)(void *) = dlsym(ruby, "ruby_init_stack");
      void (*init)(void) = dlsym(ruby, "ruby_init");
      void *(*options)(int, char **) = dlsym(ruby, "ruby_options");
      int (*run)(void *) = dlsym(ruby, "ruby_run_node");
      sysinit(&argc, &argv);
      init_stack(&early);
      init();
      char *given[] = { "loading", argv[2] };
      int status = run(options(2, given));
      free(realloc(early, 10000));
      return status;
  }
C

PRELOADED = <<~'C'
  #include <stddef.h>

  extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
  extern void __libc_free(void *);
  void *malloc(size_t size) { return __libc_malloc(size); }
  void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
  void *realloc(void *memory, size_t size) { return __libc_realloc(memory, size); }
  void *memalign(size_t align, size_t size) { return __libc_memalign(align, size); }
  void *aligned_alloc(size_t align, size_t size) { return __libc_memalign(align, size); }
  int posix_memalign(void **result, size_t align, size_t size) { return *result = __libc_memalign(align, size), *result ? 0 : 12; }
  void free(void *memory) { __libc_free(memory); }
C

def program_file(source) = File.join(folder, "program.rb").tap { File.write(_1, source) }

def linked_with_ruby(source, *flags)
  config = Subject.config
  includes = config.values_at("rubyhdrdir", "rubyarchhdrdir").map { "-I#{_1}" }
  compiled("embedding", source, *flags, *includes, "-rdynamic", "-L#{config["libdir"]}", *config["LIBRUBYARG"].split, *config["MAINLIBS"].split)
end

claim "a program that Ruby is linked into runs on Ashlar, and its own malloc is the heap's", only: "inside" do
  embedding = linked_with_ruby(EMBEDDING)
  [LOAD, <<~'RUBY'].each do |source|
    GC.start # garbage of the start is not counted
    before = GC.stat(:payload_bytes)
    abort "no memory" unless Array.new(50) { grab(100_000) }.all?(&:positive?)
    GC.start
    grown = GC.stat(:payload_bytes) - before
    puts grown > 5_000_000 ? "ok" : "grown by #{grown}"
  RUBY
    done = Subject.command(Subject.environment({}), [embedding, program_file(source)], folder:, limit: 60)
    check(done.ok? && done.out == "ok\n") { done.describe }
  end
end

claim "a program that Ruby and another malloc are linked into keeps Ruby's memory out of the heap, and one line says so", only: "module" do
  # Ruby's calls of free go straight to the one in the program: there is nothing to redirect.
  embedding = linked_with_ruby(EMBEDDING + PRELOADED)
  program = program_file('500.times { |n| eval("x = #{n}") }; puts GC.config[:malloc]')
  done = Subject.command(Subject.environment({}), [embedding, program], folder:, limit: 60)
  check(done.ok? && done.out == "libc\n") { done.describe }
  check_match(/\Aashlar: calls of free cannot be redirected.*\n\z/, done.err)
end

# It takes the address of what frees memory: made for a fixed address, it has functions of its own that stand in for libc's.
FIXED = <<~'C'
  #include <ruby.h>

  static VALUE
  give_back(VALUE self)
  {
      /* The addresses are constants of the code. */
      void (*give)(void *) = free;
      void *(*change)(void *, size_t) = realloc;
      __asm__ volatile("" : "+r"(give), "+r"(change));
      for (int n = 1; n < 3000; n += 7) {
          give(change(ruby_xmalloc(n), 2 * n));
          give(malloc(n));
          give(strdup("from libc"));
      }
      return Qnil;
  }

  int
  main(int argc, char **argv)
  {
      ruby_sysinit(&argc, &argv);
      RUBY_INIT_STACK;
      ruby_init();
      rb_define_global_function("give_back", give_back, 0);
      char *options[] = { "fixed", argv[1] };
      return ruby_run_node(ruby_options(2, options));
  }
C

claim "a program that is made for a fixed address and takes the address of free has Ruby on Ashlar in it" do
  fixed = linked_with_ruby(FIXED, "-no-pie", "-fno-pic")
  source = <<~'RUBY'
    20.times { give_back }
    500.times { |n| eval("def made_#{n}(a, b = [1, 2.0, 'x#{n}'], *c) = { a:, b:, c: }"); send("made_#{n}", n) }
    GC.start
    puts GC.config[:malloc] || "heap"
  RUBY
  preloads = [{}]
  preloads << Subject.serving_malloc if Subject.is?("module")
  preloads.each do |preload|
    done = Subject.command(Subject.environment(preload), [fixed, program_file(source)], folder:, limit: 60)
    check(done.ok? && done.out == "heap\n") { done.describe }
  end
end

# What it has called at a fork takes so much memory that a collection is due.
TAKING_AT_A_FORK = <<~'C'
  #include <ruby.h>
  #include <pthread.h>

  static void
  take(void)
  {
      static void *kept[1000];
      for (int n = 0; n < 1000; n++) kept[n] = ruby_xmalloc(n % 8 ? 1000 : 400000);
      for (int n = 0; n < 1000; n++) ruby_xfree(kept[n]);
  }

  int
  main(int argc, char **argv)
  {
      pthread_atfork(take, take, take);
      ruby_sysinit(&argc, &argv);
      RUBY_INIT_STACK;
      ruby_init();
      char *options[] = { "taking", argv[1] };
      return ruby_run_node(ruby_options(2, options));
  }
C

claim "functions that a program has called at a fork from before Ruby's start take Ruby's memory, and it is sampled" do
  taking = linked_with_ruby(TAKING_AT_A_FORK)
  source = <<~'RUBY'
    3.times do
      Process.wait(fork { GC.start; exit!(true) })
      abort "the child failed" unless $?.success?
    end
    puts "ok"
  RUBY
  [{}, { "ASHLAR_PROFILE" => "it.heap", "ASHLAR_PROFILE_BYTES" => "4KiB" }].each do |profile|
    done = Subject.command(Subject.environment(profile), [taking, program_file(source)], folder:, limit: 60)
    check(done.ok? && done.out == "ok\n") { done.describe }
  end
end

# What it has called at a fork forks itself. The child takes memory as its parent does, before it ends.
FORKING_AT_A_FORK = <<~'C'
  #include <ruby.h>
  #include <pthread.h>
  #include <stdio.h>
  #include <sys/wait.h>
  #include <unistd.h>

  static void
  take(void)
  {
      void *kept[300];
      for (int n = 0; n < 300; n++) kept[n] = memset(ruby_xmalloc(n % 8 ? 1000 : 40000), n, 1000);
      for (int n = 0; n < 300; n++) {
          for (int byte = 0; byte < 1000; byte++) if (((unsigned char *)kept[n])[byte] != (unsigned char)n) _exit(1);
          ruby_xfree(kept[n]);
      }
  }

  static int forks, good;

  static void
  fork_inside(void)
  {
      static int is_inside;
      if (is_inside) return;
      is_inside = 1;
      take();
      pid_t child = fork();
      take();
      if (!child) _exit(7);
      int status;
      forks++;
      good += child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7;
      is_inside = 0;
  }

  static VALUE forks_inside(VALUE self) { return rb_ary_new_from_args(2, INT2NUM(forks), INT2NUM(good)); }

  int
  main(int argc, char **argv)
  {
      pthread_atfork(fork_inside, fork_inside, fork_inside);
      ruby_sysinit(&argc, &argv);
      RUBY_INIT_STACK;
      ruby_init();
      rb_define_global_function("forks_inside", forks_inside, 0);
      char *options[] = { "forking", argv[1] };
      return ruby_run_node(ruby_options(2, options));
  }
C

claim "functions that a program has called at a fork from before Ruby's start fork themselves" do
  forking = linked_with_ruby(FORKING_AT_A_FORK)
  # The child of Ruby's fork has what its parent counted before the fork, and its own.
  source = <<~'RUBY'
    Thread.new { loop { Array.new(100) { |n| "noise #{n}" } } }
    kept = Array.new(20_000) { |n| "kept #{n}" }
    3.times do |round|
      Process.wait(fork { GC.start; exit!(forks_inside == [2 * round + 2] * 2 && kept[19_999] == "kept 19999") })
      abort "the child failed" unless $?.success?
    end
    GC.start
    puts kept[19_999] == "kept 19999" && forks_inside == [6, 6] ? "ok" : "#{forks_inside}"
  RUBY
  [{}, { "ASHLAR_PROFILE" => "it.heap", "ASHLAR_PROFILE_BYTES" => "4KiB" }].each do |profile|
    done = Subject.command(Subject.environment(profile), [forking, program_file(source)], folder:, limit: 60)
    check(done.ok? && done.out == "ok\n") { done.describe }
  end
end

# A library with an allocator of its own, whose free gets nothing but what that allocator gave.
PLUG_IN = <<~'C'
  #include <stddef.h>

  static char pool[1 << 20] __attribute__((aligned(16)));
  static size_t used;
  void *malloc(size_t size) { void *given = pool + used; used += (size + 31) & ~(size_t)15; return given; }
  void free(void *memory) { if ((char *)memory < pool || (char *)memory >= pool + used) __builtin_trap(); }
  void use(void) { void *volatile memory = malloc(40); free(memory); }
C

# It loads the library before Ruby starts, and so that the library finds its own functions first.
PLUGGED = <<~'C'
  #define _GNU_SOURCE
  #include <ruby.h>
  #include <dlfcn.h>

  int
  main(int argc, char **argv)
  {
      void *plug_in = dlopen("./plug_in.so", (argc > 2 ? RTLD_LAZY : RTLD_NOW) | RTLD_DEEPBIND);
      if (!plug_in) return fprintf(stderr, "%s\n", dlerror()), 1;
      void (*use)(void) = (void (*)(void))dlsym(plug_in, "use");
      if (argc == 2) use();
      ruby_sysinit(&argc, &argv);
      RUBY_INIT_STACK;
      ruby_init();
      use();
      char *options[] = { "plugged", argv[1] };
      return ruby_run_node(ruby_options(2, options));
  }
C

claim "a library with an allocator of its own, which was there before Ruby's start, keeps it" do
  compiled("plug_in.so", PLUG_IN, "-shared", "-fPIC", "-fno-builtin", "-Wl,-z,lazy")
  plugged = linked_with_ruby(PLUGGED)
  program = program_file('500.times { |n| eval("x = #{n}") }; puts :ok')
  [[], ["when it calls them"]].each do |bound|
    done = Subject.command(Subject.environment({}), [plugged, program, *bound], folder:, limit: 60)
    check(done.ok? && done.out == "ok\n") { done.describe }
  end
end

UNLOADING = <<~'C'
  #include <dlfcn.h>
  #include <pthread.h>
  #include <stdio.h>
  #include <stdlib.h>
  #include <string.h>

  static void *
  use_memory(void *text)
  {
      for (int n = 1; n < 3000; n += 7) free(realloc(calloc(1, n), 2 * n));
      return strdup(text);
  }

  int
  main(int argc, char **argv)
  {
      void *early = malloc(100);
      void *ruby = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
      if (!ruby) return fprintf(stderr, "%s\n", dlerror()), 1;
      void (*sysinit)(int *, char ***) = dlsym(ruby, "ruby_sysinit");
      void (*init_stack)(void *) = dlsym(ruby, "ruby_init_stack");
      void (*init)(void) = dlsym(ruby, "ruby_init");
      int (*cleanup)(int) = dlsym(ruby, "ruby_cleanup");
      sysinit(&argc, &argv);
      init_stack(&early);
      init();
      if (cleanup(0) || dlclose(ruby)) return fprintf(stderr, "Ruby did not end\n"), 1;
      free(realloc(early, 10000));
      pthread_t thread;
      void *text;
      if (pthread_create(&thread, NULL, use_memory, "ok") || pthread_join(thread, &text)) return 1;
      puts(text);
      free(text);
      return 0;
  }
C

claim "a program that unloads libruby.so after Ruby's end goes on using its own malloc", only: "libruby" do
  unloading = compiled("unloading", UNLOADING, "-ldl", "-pthread")
  library = File.join(Subject.config["libdir"], Subject.config["LIBRUBY_SO"])
  done = Subject.command(Subject.environment({}), [unloading, library], folder:, limit: 60)
  check(done.ok? && done.out == "ok\n") { done.describe }
end

claim "a program that loads libruby.so when it runs keeps its own malloc, and Ruby runs on Ashlar in it", only: "libruby" do
  loading = compiled("loading", LOADING, "-ldl")
  library = File.join(Subject.config["libdir"], Subject.config["LIBRUBY_SO"])
  [[], ["so that nobody else finds its names"]].each do |how|
    done = Subject.command(Subject.environment({}), [loading, library, program_file(LOAD), *how], folder:, limit: 60)
    check(done.ok? && done.out == "ok\n") { done.describe }
  end
end

claim "another malloc that is preloaded serves the process, and Ruby with a libruby.so runs on Ashlar beside it", only: "libruby" do
  preloaded = compiled("preloaded.so", PRELOADED, "-shared", "-fPIC")
  ruby_ok(LOAD, env: { "LD_PRELOAD" => preloaded })
  grown = <<~'RUBY'
    require "fiddle"
    malloc = Fiddle::Function.new(Fiddle::Handle::DEFAULT["malloc"], [Fiddle::TYPE_SIZE_T], Fiddle::TYPE_VOIDP)
    GC.start
    before = GC.stat(:payload_bytes)
    50.times { malloc.call(100_000) }
    puts GC.stat(:payload_bytes) - before > 4_000_000
  RUBY
  ruby_prints("true\n", grown)
  ruby_prints("false\n", grown, env: { "LD_PRELOAD" => preloaded })
end
