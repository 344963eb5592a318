GC.interval_ratio = 120
