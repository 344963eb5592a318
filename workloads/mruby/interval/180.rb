GC.interval_ratio = 180
