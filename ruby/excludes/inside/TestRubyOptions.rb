exclude(:test_enabled_gc, "expects that only a Ruby that can load a collector names one; a Ruby with Ashlar inside says +GC[ashlar]")
