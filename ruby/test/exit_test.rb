claim "buffered files that were never closed are flushed at exit" do
  finished = ruby(<<~'RUBY')
    FILES = Array.new(50) { |i| File.open("out-#{i}", "w").tap { |file| file.write("unflushed #{i}") } }
    def drop = 20.times { |i| File.open("dropped-#{i}", "w").write("dropped #{i}") }
    drop
    print "no newline at the end"
  RUBY
  check(finished.ok?) { finished.describe }
  check_equal("no newline at the end", finished.out)
  50.times { |i| check_equal("unflushed #{i}", File.read("#{folder}/out-#{i}")) }
  20.times { |i| check_equal("dropped #{i}", File.read("#{folder}/dropped-#{i}")) }
end

claim "files dropped in the middle of a program are flushed and closed by the collector" do
  ruby_ok <<~'RUBY'
    Process.setrlimit(:NOFILE, 200)
    def drop(i) = File.open("f#{i}", "w").write("text #{i}") && nil
    300.times { |i| drop(i); GC.start if i % 50 == 49 }
    GC.start
    (0...200).each { |i| abort "f#{i}" unless File.read("f#{i}") == "text #{i}" }
    puts "ok"
  RUBY
end

claim "temporary files disappear at exit" do
  finished = ruby(<<~'RUBY')
    require "tempfile"
    KEPT = Array.new(5) { Tempfile.new("ashlar") }
    puts KEPT.map(&:path)
  RUBY
  check(finished.ok?) { finished.describe }
  check_equal([], finished.out.lines(chomp: true).select { File.exist?(_1) })
end

claim "a gzip stream and a child's pipe left open end cleanly" do
  ruby_prints("", <<~'RUBY')
    require "zlib"
    WRITER = Zlib::GzipWriter.open("x.gz")
    WRITER.write("data" * 1_000)
    PIPE = IO.popen("cat >/dev/null", "w")
    PIPE.write("unread")
    WRITER.finish
  RUBY
end

claim "exit, exit! and abort give their statuses with a full heap" do
  { "exit 3" => 3, "exit! 4" => 4, "abort" => 1, "raise 'x'" => 1, "Process.kill(:KILL, $$)" => nil }.each do |ending, status|
    finished = ruby("K = Array.new(50_000) { |i| i.to_s }\n#{ending}")
    check_equal(status, finished.status.exitstatus) { "#{ending}: #{finished.describe}" }
  end
end

claim "RUBY_FREE_AT_EXIT frees everything without a crash" do
  finished = ruby(<<~'RUBY', env: { "RUBY_FREE_AT_EXIT" => "1" })
    require "json"
    require "stringio"
    KEPT = Array.new(2_000) { |i| { i => "value #{i}" * 50 } }
    Thread.new { 1 }.join
    Class.new { def x = 1 }.new.x
    100.times { |i| eval("def m#{i} = #{i}") }
    ObjectSpace.define_finalizer(Object.new, proc { })
    puts "ok"
  RUBY
  check(finished.ok?) { finished.describe }
  check_equal("ok\n", finished.out)
end

claim "RUBY_FREE_AT_EXIT writes out what is still in the buffer of standard output" do
  finished = ruby(%(require "set"\n$stdout.write "buffered"), env: { "RUBY_FREE_AT_EXIT" => "1" })
  check(finished.ok?) { finished.describe }
  check_equal("buffered", finished.out)
end

claim "threads still running at exit are stopped without a crash" do
  20.times do
    ruby_ok <<~'RUBY'
      4.times { Thread.new { loop { Array.new(100) { |i| i.to_s } } } }
      sleep 0.02
      puts "ok"
    RUBY
  end
end

# Extensions ask it to know that they must not call Ruby: openssl, when a session goes.
claim "a collection runs, as extensions see it, while objects are freed at the end" do
  File.write(File.join(folder, "seen.c"), <<~'C')
    #include <ruby.h>
    #include <ruby/debug.h>
    #include <stdio.h>

    static void
    tell(void *data)
    {
        fprintf(stdout, "%d", rb_during_gc());
        fflush(stdout);
        xfree(data);
    }

    static const rb_data_type_t type = { "seen", { 0, tell, 0, 0 }, 0, 0, RUBY_TYPED_FREE_IMMEDIATELY };

    static VALUE
    make(VALUE self)
    {
        return TypedData_Wrap_Struct(rb_cObject, &type, xmalloc(8));
    }

    void
    Init_seen(void)
    {
        rb_define_singleton_method(rb_define_module("Seen"), "make", make, 0);
    }
  C
  config = Subject.config
  flags = %W[-shared -fPIC -O1 -w -I#{config["rubyhdrdir"]} -I#{config["rubyarchhdrdir"]}]
  done = Subject.command({}, [config["CC"].split.first, *flags, "-o", "seen.so", "seen.c"], folder:, limit: 60)
  check(done.ok?) { done.describe }
  ruby_prints("1", "require './seen.so'; KEPT = Seen.make")
end
