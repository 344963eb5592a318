exclude(:test_gc_config_implementation, "expects RUBY_GC_LIBRARY to be the name the collector gives itself; the tests load this clone's library under a name of its own")
