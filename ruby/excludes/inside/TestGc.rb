exclude(:test_gc_config_implementation, "expects the default collector's name where RUBY_GC_LIBRARY names no other one; a Ruby with Ashlar inside says ashlar")
