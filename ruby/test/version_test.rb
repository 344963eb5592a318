# A host that looks to the library like another Ruby: it exports every symbol the library
# needs, and says it is Ruby 3.3.9. Made from the library's own list of undefined symbols.
def fake_host
  symbols = `nm -D --undefined-only #{Subject.library_path}`.lines.map { _1.split.last }.grep(/\A(rb_|ruby_|onig|st_)/).grep_v(/@/)
  own = %w[ruby_version ruby_api_version ruby_description ruby_platform ruby_patchlevel ruby_release_date]
  source = <<~C + (symbols - own).map { |symbol| "char #{symbol}[4096];\n" }.join
    #include <dlfcn.h>
    #include <stdio.h>
    const int ruby_api_version[3] = {3, 3, 0};
    const char ruby_version[] = "3.3.9";
    const char ruby_description[] = "ruby 3.3.9 (made up) [x86_64-linux]";
    const char ruby_platform[] = "x86_64-linux";
    const int ruby_patchlevel = 0;
    const char ruby_release_date[] = "2025-01-01";
    int main(int count, char **arguments) {
        void *library = dlopen(arguments[1], RTLD_LAZY | RTLD_GLOBAL);
        if (!library) { fprintf(stderr, "%s\\n", dlerror()); return 90; }
        void *(*start)(void) = (void *(*)(void))dlsym(library, "rb_gc_impl_objspace_alloc");
        if (!start) return 91;
        start();
        puts("started");
        return 0;
    }
  C
  File.write("#{folder}/host.c", source)
  made = Subject.command({}, ["cc", "-rdynamic", "-w", "-o", "#{folder}/host", "#{folder}/host.c", "-ldl"], folder:, limit: 60)
  check(made.ok?) { made.describe }
  "#{folder}/host"
end

claim "the library refuses to start in a Ruby it was not built for, in one clear line", only: "module" do
  finished = Subject.command({}, [fake_host, Subject.library_path], folder:, limit: 20)
  check(finished.status.exited? && !finished.status.exitstatus.zero?) { finished.describe }
  check(![90, 91].include?(finished.status.exitstatus)) { finished.describe }
  check_equal("", finished.out)
  check_equal(1, finished.err.lines.size) { finished.describe }
  check_match(/3\.3/, finished.err)
  check_match(/Ruby #{Regexp.escape(Subject.config["RUBY_PROGRAM_VERSION"])} /, finished.err)
end
