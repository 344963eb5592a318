GC.interval_ratio = 420
