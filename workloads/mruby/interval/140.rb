GC.interval_ratio = 140
