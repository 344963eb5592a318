# How mruby is built here, once with its own collector and once with ours (scripts/mruby/build.sh): all of
# its core gems, its tests, and nothing that would write beside its source.
#
#   ASHLAR_LIBRARY   folder of libashlar.a; unless set, mruby keeps its own collector
#   ASHLAR_INCLUDE   folder of ashlar.h
#   SANITIZE         compiled with GCC's address and undefined-behaviour sanitizers, and mruby's own assertions
MRuby::Lockfile.disable

MRuby::Build.new do |conf|
  conf.toolchain :gcc
  conf.gembox "full-core"
  conf.enable_test
  conf.enable_bintest
  if ENV["SANITIZE"]
    conf.enable_debug
    conf.cc.flags << %w[-O1 -fsanitize=address,undefined -fno-sanitize=alignment -fno-omit-frame-pointer]
    conf.linker.flags << "-fsanitize=address,undefined"
  end
  if (library = ENV["ASHLAR_LIBRARY"])
    conf.cc.include_paths << ENV.fetch("ASHLAR_INCLUDE")
    conf.linker.flags_after_libraries << "#{library}/libashlar.a" << "-lpthread" << "-ldl"
  end
end
