GC.interval_ratio = 260
